"""Types and ranges of the fields of events.

A checksum shows that a line is what was written. It does not show that a run has written it: programs and people edit
journals and compute the checksum again. Therefore every field that a reader uses is checked here, before an event takes
effect and before it is written. Unknown fields are ignored. A field with a default may be missing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, Union

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from baco_like.exceptions import TrialError
from baco_like.records.trial import AFTER_SEARCH, CANDIDATE, CONTROL, PROPOSED

_LARGEST = sys.float_info.max


def _one_of(*words: str) -> Meta:
    return Meta(pattern=rf"^({'|'.join(words)})\Z")


_Count = Annotated[int, Meta(ge=0)]
_Number = Annotated[float, Meta(ge=-_LARGEST, le=_LARGEST)]
_Positive = Annotated[float, Meta(ge=0.0, le=_LARGEST)]
_CHOSEN = ("strategy", "fill", "enqueued", PROPOSED)


class _Request(Struct, array_like=True, forbid_unknown_fields=True):
    """The request of a client that an event answers, see `baco_like.service`; perhaps with a number of trials."""

    client: str
    id: str | int
    digest: str
    count: _Count = 0


class _Event(Struct, kw_only=True, tag_field="event", tag=lambda name: name.lower()):
    """An event; its kind is the name of its class."""

    request: _Request | UnsetType = UNSET


class _Outcome(Struct, kw_only=True):
    """A trial with its outcome."""

    id: _Count
    status: Annotated[str, _one_of("ok", "failed", "censored")]
    value: _Number | UnsetType = UNSET
    repeats: list[_Number] = []
    sem: _Positive = 0.0
    failed: str | UnsetType = UNSET
    message: str = ""
    bound: _Number | UnsetType = UNSET
    metrics: dict[str, _Number] = {}
    extra: dict[Any, Any] = {}
    metric_repeats: dict[str, list[_Number]] = {}
    metric_sems: dict[str, _Positive] = {}
    build: dict[str, _Number] = {}
    config: dict[Any, Any]
    origin: Annotated[str, _one_of("told", "imported", "late")] = "told"

    def __post_init__(self) -> None:
        wrong = {"ok": ("failed", "bound"), "failed": ("value", "bound"), "censored": ("value",)}
        for part in wrong[self.status]:
            if (given := getattr(self, part)) is not UNSET:
                raise ValueError(f"{part} is {given!r:.80}, but its status is {self.status!r}")
        if self.status == "ok" and self.value is UNSET:
            raise ValueError("value is missing, but its status is 'ok'")


PARTS = tuple(
    name for name in _Outcome.__struct_fields__ if name not in ("id", "status", "config", "origin")
)
"""The parts of an outcome that a row has besides trial and status."""


class _Space(Struct):
    """The parts of a space that `Space.from_dict` expects."""

    parameters: dict[Any, Any]
    constraints: list[Any]


class _Options(Struct):
    """The options that `Options` does not check."""

    strategy: dict[Any, Any]
    context: dict[Any, Any]
    noise: Annotated[str, _one_of("none", "repeat")]


class _WarmStart(Struct, kw_only=True):
    """Results of a warm start."""

    mode: Annotated[str, _one_of("data", "configs", "prior")]
    source: str
    found: _Count
    left_out: dict[str, _Count]
    notes: list[str]
    objective: str = ""
    rows: list[_Outcome]


class _Advice(Struct):
    """A configuration that earlier runs advise."""

    config: dict[Any, Any]
    note: str


class Opened(_Event, kw_only=True):
    """The header."""

    space: _Space
    options: _Options
    queue: list[dict[Any, Any]]
    warm_start: list[_WarmStart] = []
    experience: list[_Advice] = []
    versions: dict[str, str] = {}
    host: dict[Any, Any] = {}
    created: str = ""


class _Lease(Struct):
    """The length of a lease; the clock of the boot on systems that have it."""

    seconds: _Positive
    boot: str | None = None
    uptime: _Positive | None = None

    def __post_init__(self) -> None:
        if (self.boot is None) != (self.uptime is None):
            raise ValueError("boot and uptime belong together")


class _SuggestedTrial(Struct):
    """A suggested trial; a proposal in store has the number of events and of proposals in store before it."""

    id: _Count
    config: dict[Any, Any]
    origin: Annotated[str, _one_of(*_CHOSEN, CANDIDATE, CONTROL, *AFTER_SEARCH)]
    tag: Any
    known: _Count = 0
    ahead: _Count = 0


class Suggested(_Event, kw_only=True):
    """Trials that are suggested, or again."""

    trials: list[_SuggestedTrial]
    dequeued: _Count  # may exceed the queue: a repair drops damaged "enqueued" events
    again: list[_Count] = []
    until: _Positive = 0.0
    worker: str = ""
    lease: _Lease | UnsetType = UNSET
    at: _Positive = 0.0  # Unix seconds


class Observed(_Event, kw_only=True):
    """Outcomes of trials."""

    outcomes: list[_Outcome]
    at: _Positive = 0.0


class Renewed(_Event, kw_only=True):
    """A sign of life."""

    ids: list[_Count]
    until: _Positive
    lease: _Lease


class _Build(Struct):
    """A built configuration, with the number of the trial that it would have been at that time."""

    id: _Count
    config: dict[Any, Any]
    origin: Annotated[str, _one_of(*_CHOSEN)]
    tag: Any
    build: dict[str, _Number]
    program: str = ""
    seconds: _Positive = 0.0


class Built(_Event, kw_only=True):
    """Configurations that were built for a choice."""

    builds: list[_Build]


class Abandoned(_Event, kw_only=True):
    """A trial that was given up."""

    id: _Count
    reason: str = ""


class Enqueued(_Event, kw_only=True):
    """Configurations that come next."""

    configs: list[dict[Any, Any]]


class Proposed(_Event, kw_only=True):
    """Configurations of another source."""

    source: str
    note: str = ""
    configs: list[dict[Any, Any]]


class _Simplification(Struct):
    trial: _Count
    measurements: _Count
    budget: _Count
    elements: _Count
    dropped: list[str]
    kept: list[str]
    is_minimal: bool


class Confirming(_Event, kw_only=True):
    """The beginning of a confirmation."""

    configs: list[dict[Any, Any]]
    observed: list[_Count | None]
    default: _Count | None
    confidence: Annotated[float, Meta(gt=0.0, lt=1.0)]
    tolerance: _Positive
    known: list[list[_Number]] = []
    exact: bool = False
    simplification: _Simplification | UnsetType = UNSET


_AnyEvent: Any = Union[tuple(_Event.__subclasses__())]  # noqa: UP007


def check_event(event: Mapping[str, Any]) -> None:
    """Check all fields of an event except those that need the space, the history or `Options`.

    Raises:
        TrialError: The kind is unknown, or a field is missing or has a wrong value.
    """
    _check(event, _AnyEvent)


def check_outcomes(rows: list[Any]) -> None:
    """Check the rows of an ``observed`` event.

    Raises:
        TrialError: A field is missing or has a wrong value, or does not fit the status.
    """
    _check(rows, list[_Outcome])


def _check(value: Any, kind: Any) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        # Behind [...], msgspec does not say which entry of an object it is.
        for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path.partition("[...]")[0]):
            value = value[name or int(index)]
        place = path.strip(".`")
        reason = re.sub(r"^Object missing required field `(\w+)`", r"\1 is missing", reason)
        if reason[0].isupper():  # of msgspec; the others begin with the name of a field
            reason = f" is {value!r:.80}; {reason[0].lower()}{reason[1:]}"
        elif place:
            reason = f".{reason}"
        raise TrialError(f"{place}{reason}") from None
