"""The messages of the service: the parameters and the result of each method, and the errors.

They are the one definition of the protocol: requests are read by it, and JSON Schema, OpenAPI and the table of the
documentation are made of it. A request is JSON-RPC 2.0 in one line, such as
``{"jsonrpc": "2.0", "id": "3f9a-1", "method": "suggest", "params": {"run": "run", "n": 2}}``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from baco_like._tables import keys_of, table_shape
from baco_like.exceptions import BacoError
from baco_like.parameters.registry import BUILT_IN_TYPES
from baco_like.running import run_tables

VERSION = 1
"""Version of the protocol."""

UNNAMED = "client"
"""Name of a client that gives none."""

ERRORS: Mapping[str, int] = {
    "parse": -32700,
    "request": -32600,
    "method": -32601,
    "params": -32602,
    "internal": -32603,
    "config": -32001,
    "trial": -32002,
    "exhausted": -32003,
    "ended": -32004,
    "space": -32005,
    "journal": -32006,
    "no_run": -32007,
    "limit": -32008,
    "id_reused": -32009,
    "conflict": -32010,
    "wait": -32011,
}
"""The codes of the errors by their words, which are in ``error.data.error``."""


class ServiceError(BacoError):
    """A request that the service refuses.

    Attributes:
        word: One of `ERRORS`.
    """

    def __init__(self, word: str, message: str) -> None:
        super().__init__(message)
        self.word = word


# In Python, `$` is also before a line end.
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$(?!\n)")]
Client = Annotated[str, Meta(min_length=1, max_length=100)]
RequestId = Annotated[str, Meta(min_length=1, max_length=100)] | int
TrialId = Annotated[int, Meta(ge=0)]
Natural = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1, le=10_000)]
Config = dict[str, Any]
Number = float | None
Measured = Number | list[Number]


def _table(*classes: Any) -> Meta:
    """Return the JSON Schema of a table of a run file."""
    return Meta(extra_json_schema=table_shape([k for c in classes for k in keys_of(c)]))


def _space() -> dict[str, Any]:
    """Return the JSON Schema of a space: a table for each parameter, or what `Space.to_dict` returns."""
    parameters = [
        {**shape, "properties": {"type": {"const": name}, **shape["properties"]}}
        for name in BUILT_IN_TYPES
        for shape in (table_shape(run_tables.parameter_keys(name)),)
    ]
    tables = {"type": "object", "additionalProperties": {"anyOf": parameters}}
    return {"anyOf": [tables, {"required": ["version", "parameters"]}]}


_OBJECTIVE = table_shape(run_tables.OBJECTIVE)


class Envelope(Struct):
    """The part of a request that its answer repeats."""

    id: RequestId | UnsetType | None = UNSET


class Request(Struct):
    """The envelope of a request."""

    method: str
    jsonrpc: Literal["2.0"]
    id: RequestId | UnsetType | None = UNSET
    params: msgspec.Raw = msgspec.Raw(b"{}")


class Params(Struct, kw_only=True, forbid_unknown_fields=True):
    """The parameters of all methods: the run, which may be left out if one is open, and the name of the client."""

    run: Name | None = None
    client: Client = UNNAMED


class Hello(Params):
    """Ask for the version and the limits."""

    version: int = VERSION


class Open(Params):
    """Open a new run, or continue one; the tables are those of a run file."""

    space: Annotated[Config, Meta(extra_json_schema=_space())] | None = None
    constraints: Annotated[Config, _table(run_tables.Constraints)] = {}
    objective: Annotated[
        Config | list[Config],
        Meta(extra_json_schema={"anyOf": [_OBJECTIVE, {"type": "array", "items": _OBJECTIVE}]}),
    ] = {}
    tasks: Annotated[Config, _table(run_tables.TasksTable)] | None = None
    fidelity: Annotated[Config, Meta(extra_json_schema=dict(run_tables.FIDELITY))] = {}
    budget: Annotated[Config, _table(run_tables.Budget)] | None = None
    optimizer: Config = {}
    context: Config = {}
    lease: Annotated[float, Meta(gt=0)] | None = None
    warm_start: Name | None = None


class Suggest(Params):
    """Ask for the next trials."""

    n: Count = 1
    task: str | Config | None = None


class Observe(Params):
    """Report the outcome of a trial, or of a configuration that was chosen elsewhere.

    ``value`` belongs to the first objective; ``metrics`` has the others. A value that is not a finite number is null.
    Where ``trial`` and ``config`` are given, the trial must have this configuration.
    """

    trial: TrialId | None = None
    config: Config | None = None
    value: Number | UnsetType = UNSET
    values: list[Number] | None = None
    metrics: dict[str, Measured] = {}
    failed: str | None = None
    message: str = ""
    bound: float | None = None
    program: str | None = None
    seconds: float | dict[str, float] | None = None
    extra: Config = {}


class OfConfig(Params):
    """Name a configuration."""

    config: Config


class Propose(Params):
    """Propose configurations that compete with those of the strategy; ``source`` names who has chosen them."""

    configs: list[Config]
    source: Client
    note: str = ""


class Abandon(Params):
    """Give up a trial."""

    trial: TrialId
    reason: str = ""


class Heartbeat(Params):
    """Say which trials are being evaluated."""

    trials: list[TrialId]


class OfTask(Params):
    """Name a task, or none for all."""

    task: str | Config | None = None


class Recommend(Params):
    """Ask for the recommended configuration."""

    weights: dict[str, float] | None = None
    limits: list[str] = []


class OfTrial(Params):
    """Name a trial."""

    trial: TrialId


class ImportanceOf(Params):
    """Ask which parameters matter."""

    quantile: float = 0.5
    objective: str | None = None


class Events(Params):
    """Ask for the events of the journal after a number of them."""

    after: Natural = 0
    most: Count = 1000


class Append(Params):
    """Add an event that was made from the state after a number of events; without it, where the event still fits."""

    event: Config
    after: Natural | None = None


# Results --------------------------------------------------------------------------------------------------------------


class TrialResult(Struct, kw_only=True, omit_defaults=True):
    """A trial; a completed one also has its outcome. ``lease`` is its length in seconds."""

    id: int
    config: Config
    client: str | None
    status: Literal["pending", "ok", "failed", "censored"]
    lease: float | None
    value: float | None = None
    values: list[float] = []
    metrics: dict[str, Measured] = {}
    failed: str | None = None
    message: str = ""
    bound: float | None = None


class ObjectiveResult(Struct):
    """An objective."""

    name: str
    unit: str
    direction: Literal["minimize", "maximize"]


class Limits(Struct, frozen=True, kw_only=True):
    """The limits of a server.

    Attributes:
        most_bytes: Largest size of a message.
        most_runs: Largest number of open runs.
        most_pending: Largest number of pending trials of a run.
        most_choices: Largest number of parameters, values and constraints of a space together.
        most_connections: HTTP: largest number of connections.
        most_requests: HTTP: largest number of requests per second from one address; None sets no limit.
        arrival: HTTP: seconds within which a request must arrive.
    """

    most_bytes: int = 2**20
    most_runs: int = 100
    most_pending: int = 10_000
    most_choices: int = 10_000
    most_connections: int = 256
    most_requests: float | None = None
    arrival: float = 10.0


class HelloResult(Struct):
    """The server."""

    name: str
    version: str
    protocol: int
    capabilities: list[str]
    limits: Limits


class OpenResult(Struct):
    """An open run; ``lease`` is in seconds."""

    run: str
    resumed: bool
    observed: int
    pending: list[TrialResult]
    space: Config
    objectives: list[ObjectiveResult]
    lease: float | None


class TrialsResult(Struct):
    """Several trials."""

    trials: list[TrialResult]


class OneTrial(Struct):
    """A trial."""

    trial: TrialResult


class MaybeTrial(Struct):
    """A trial, or null before the first success."""

    trial: TrialResult | None


class ObserveResult(Struct):
    """The completed trial, and whether it is the best of the run so far."""

    trial: TrialResult
    best: bool


class Nothing(Struct):
    """Nothing but success."""


class AnswerResult(Struct):
    """Why a proposal is refused, empty if it is accepted, and the nearest configuration that may be proposed."""

    accepted: bool
    reason: str
    nearest: Config | None


class ProposeResult(Struct):
    """The answer to each proposal."""

    answers: list[AnswerResult]


class HeartbeatResult(Struct):
    """The named trials that are still pending."""

    pending: list[int]


class TaskResult(Struct):
    """The configuration for a task."""

    task: Config
    config: Config
    value: float
    slowdown: Number


class RecommendResult(Struct):
    """The recommended trial, or with tasks a configuration for each."""

    trial: TrialResult | None
    tasks: list[TaskResult] = []


class WhyResult(Struct):
    """The origin of a trial, and what the model predicted."""

    why: Config


class EffectResult(Struct):
    """A parameter's share of the variance with its interval, and its effect on failures."""

    name: str
    share: Number
    low: Number
    high: Number
    failing: Number


class ImportanceResult(Struct):
    """The parameters, the most important first."""

    effects: list[EffectResult]


class StatusResult(Struct):
    """The state of a run; ``evaluations`` counts those of the budget, ``stop`` is why the run has ended."""

    observed: int
    failed: int
    evaluations: int
    pending: list[TrialResult]
    best: TrialResult | None
    stop: str | None


class DescribeResult(Struct):
    """The space and the objectives; ``size`` is a text if it is beyond 2^53, and null if it is unknown."""

    run: str
    space: Config
    objectives: list[ObjectiveResult]
    size: int | str | None
    options: Config


class EventsResult(Struct):
    """Events of the journal, the number behind the last one, and the number of all."""

    events: list[Config]
    next: int
    end: int


class AppendResult(Struct):
    """The number of events."""

    next: int


class Method(NamedTuple):
    """A method of the service.

    Attributes:
        params: Its parameters.
        result: Its result.
        meaning: One sentence for the documentation.
        changes: Whether it changes the run, so that its events have the request.
    """

    params: type[Params]
    result: type[Struct]
    meaning: str
    changes: bool = False


METHODS: Mapping[str, Method] = {
    "hello": Method(Hello, HelloResult, "version of the protocol, methods and limits"),
    "open": Method(Open, OpenResult, "open a run, or continue it; only `run`: continue"),
    "suggest": Method(Suggest, TrialsResult, "the next trials", True),
    "observe": Method(Observe, ObserveResult, "report an outcome", True),
    "claim": Method(OfConfig, OneTrial, "a trial of a configuration chosen elsewhere", True),
    "enqueue": Method(OfConfig, Nothing, "suggest this configuration next", True),
    "propose": Method(
        Propose, ProposeResult, "configurations that compete with the strategy's", True
    ),
    "abandon": Method(Abandon, Nothing, "give up a pending trial", True),
    "heartbeat": Method(Heartbeat, HeartbeatResult, "these trials are being evaluated"),
    "best": Method(OfTask, MaybeTrial, "the best trial"),
    "front": Method(Params, TrialsResult, "the trials that no other one dominates"),
    "recommend": Method(Recommend, RecommendResult, "the better choice under noise"),
    "why": Method(OfTrial, WhyResult, "why a trial was suggested"),
    "importance": Method(ImportanceOf, ImportanceResult, "which parameters matter"),
    "status": Method(Params, StatusResult, "counts, pending trials, best trial, end"),
    "describe": Method(Params, DescribeResult, "space, objectives, number of configurations"),
    "events": Method(Events, EventsResult, "events of the journal"),
    "append": Method(Append, AppendResult, "add an event, as other Python programs do", True),
}
"""The methods by name."""


def definitions(place: str = "#/$defs/") -> dict[str, Any]:
    """Return the JSON Schema of the request and the result of each method, and of errors, by name.

    Args:
        place: What stands before the name in references.
    """
    types = [kind for method in METHODS.values() for kind in (method.params, method.result)]
    shapes, parts = msgspec.json.schema_components(types, ref_template=f"{place}{{name}}")
    pairs = dict(zip(METHODS, zip(shapes[::2], shapes[1::2], strict=True), strict=True))
    request_id = {
        "anyOf": [{"type": "string", "minLength": 1, "maxLength": 100}, {"type": "integer"}]
    }
    null_id = {"id": {"anyOf": [request_id, {"type": "null"}]}}

    def message(key: str, **fields: Any) -> dict[str, Any]:
        properties = {"jsonrpc": {"const": "2.0"}, "id": request_id, **fields}
        return {
            "type": "object",
            "properties": properties,
            "required": ["jsonrpc", "id", key],
        }

    found = dict(parts)
    for name, (params, result) in pairs.items():
        request = message("method", method={"const": name}, params=params)
        found[f"{name}.request"] = {**request, "description": METHODS[name].meaning}
        found[f"{name}.result"] = message("result", result=result)
    error = {
        "code": {"enum": list(ERRORS.values())},
        "message": {"type": "string"},
        "data": {"type": "object", "properties": {"error": {"enum": list(ERRORS)}}},
    }
    shape = {"type": "object", "properties": error, "required": list(error)}
    return {**found, "error": message("error", **null_id, error=shape)}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of all messages; ``$defs`` has ``suggest.request`` and ``suggest.result``, for example."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Messages of baco-like serve, version {VERSION} of the protocol",
        "$defs": definitions(),
        "anyOf": [
            *({"$ref": f"#/$defs/{name}.request"} for name in METHODS),
            *({"$ref": f"#/$defs/{name}.result"} for name in METHODS),
            {"$ref": "#/$defs/error"},
        ],
    }


def openapi() -> dict[str, Any]:
    """Return the description of the service over HTTP, as OpenAPI 3.1."""
    place = "#/components/schemas/"
    results = [f"{name}.result" for name in METHODS] + ["error"]

    def content(names: list[str]) -> dict[str, Any]:
        shape = {"anyOf": [{"$ref": f"{place}{name}"} for name in names]}
        return {"application/json": {"schema": shape}}

    def response(meaning: str, names: list[str]) -> dict[str, Any]:
        return {"description": meaning, "content": content(names)}

    post = {
        "summary": "Send a message",
        "requestBody": {
            "required": True,
            "content": content([f"{name}.request" for name in METHODS]),
        },
        "responses": {
            "200": response("the answer, also an error of the method", results),
            "401": response("the token is missing or wrong", ["error"]),
            "413": response("the message is too large", ["error"]),
            "429": response("too many requests a second", ["error"]),
        },
    }
    run = {"name": "run", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "baco-like serve", "version": str(VERSION)},
        "paths": {"/": {"post": post}, "/{run}": {"parameters": [run], "post": post}},
        "components": {
            "schemas": definitions(place),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def finite(value: float | None) -> float | None:
    """Return a number, or None if JSON has no such number."""
    return value if value is None or math.isfinite(value) else None
