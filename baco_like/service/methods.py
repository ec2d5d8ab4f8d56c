"""Answer requests: one function for each method. The transports pass lines in and out and know no method."""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from baco_like import __version__
from baco_like._checks import nesting_depth
from baco_like._tables import suggestion
from baco_like.exceptions import (
    BacoError,
    ConfigError,
    EvaluatorError,
    JournalConflict,
    JournalError,
    PluginError,
    SpaceError,
    SpaceExhausted,
    TrialError,
)
from baco_like.journal import Event
from baco_like.journal.events import config_from_json
from baco_like.optimizer.arguments import encode_together
from baco_like.optimizer.proposing import answer_proposals
from baco_like.records import Objective, Status, TaskRecommendation, Trial
from baco_like.records.trial import rank
from baco_like.service import messages
from baco_like.service.messages import ERRORS, METHODS, ServiceError, TrialResult, finite
from baco_like.service.runs import DEFAULT, Run, Runs

MOST_DEPTH = 32
"""Deepest nesting of the brackets of a message."""

_SAFE_INTEGER = 2**53
"""Largest integer that clients with floats only read exactly."""


class Call(NamedTuple):
    """A call of a method.

    Attributes:
        made: Events that the same request has written before it was interrupted, each with the number behind it.
        answering: Notes the request in events, with the number of trials that it suggests; see `Optimizer.answering`.
    """

    made: list[tuple[Event, int]]
    answering: Callable[..., AbstractContextManager[object]]


_WORDS: Sequence[tuple[type[Exception], str]] = (
    (ConfigError, "config"),
    (TrialError, "trial"),
    (SpaceExhausted, "exhausted"),
    (SpaceError, "space"),
    (JournalConflict, "conflict"),
    (JournalError, "journal"),
    (PluginError, "internal"),
    (EvaluatorError, "internal"),
    (BacoError, "params"),
    (ValueError, "params"),
)
"""The word of each error that a method may raise; the first one that fits."""


class Service:
    """Answers the requests of all transports. Safe for several threads.

    Args:
        runs: The runs.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def answer(self, line: bytes, run: str | None = None) -> bytes:
        """Return the answer to a message, as JSON without a line end; no message raises an error.

        Args:
            line: The message.
            run: Name of the run, where the message has none.
        """
        request_id: str | int | None = None
        try:
            request_id, method, params = self._read(line)
            if run is not None and params.run is None:
                params.run = run
            result = self._call(request_id, method, params)
        except Exception as error:  # an error never ends the conversation
            return self.describe_error(
                error, request_id if request_id is not None else _find_id(line)
            )
        return (
            b'{"jsonrpc":"2.0","id":'
            + msgspec.json.encode(request_id)
            + b',"result":'
            + result
            + b"}"
        )

    def _read(self, line: bytes) -> tuple[str | int, str, messages.Params]:
        """Return id, method and parameters of a message.

        Raises:
            ServiceError: It is not a request of this protocol.
        """
        request = read_request(line, self.runs.limits)
        if request.id is UNSET or request.id is None:
            raise ServiceError(
                "request", "a message without an id gets no answer; give each request an id"
            )
        method = METHODS.get(request.method)
        if method is None:
            raise ServiceError(
                "method",
                f"there is no method {request.method!r:.60}; the methods are {', '.join(METHODS)}",
            )
        try:
            params = msgspec.json.decode(request.params, type=method.params)
        except msgspec.DecodeError as error:
            text = f"{request.method}: {error}"
            if unknown := re.search("unknown field `(.*)`$", text, re.DOTALL):
                text += f"; {suggestion(unknown[1], method.params.__struct_fields__)}"
            raise ServiceError("params", text) from None
        return request.id, request.method, params

    def _call(self, request_id: str | int, name: str, params: messages.Params) -> bytes:
        if isinstance(params, messages.Hello):
            return msgspec.json.encode(self._hello(params))
        if isinstance(params, messages.Open):
            return msgspec.json.encode(self._open(params))
        if isinstance(params, messages.Append) and params.event.get("event") == "opened":
            self.runs.adopt(params.run or DEFAULT, params.event)
            return msgspec.json.encode(messages.AppendResult(1))
        with self.runs.using(params.run) as run:
            return self._answer(run, request_id, name, params)

    def _answer(self, run: Run, request_id: str | int, name: str, params: messages.Params) -> bytes:
        method, digest = METHODS[name], _digest(name, params)
        answering = partial(run.optimizer.answering, params.client, request_id, digest)

        def make(made: list[tuple[Event, int]]) -> bytes:
            call = Call(list(made), answering)
            if not method.changes:
                return msgspec.json.encode(_FUNCTIONS[name](run, params, call))
            with answering() as written:
                try:
                    return msgspec.json.encode(_FUNCTIONS[name](run, params, call))
                finally:
                    made += written

        return run.answer(params.client, request_id, digest, method.changes, make)

    def _hello(self, params: messages.Hello) -> messages.HelloResult:
        if params.version != messages.VERSION:
            raise ServiceError(
                "params",
                f"version = {params.version}: this server speaks version {messages.VERSION} of the protocol",
            )
        limits = self.runs.limits
        return messages.HelloResult(
            "baco-like", __version__, messages.VERSION, list(METHODS), limits
        )

    def _open(self, params: messages.Open) -> messages.OpenResult:
        given = msgspec.to_builtins(params)
        tables = {
            k: v for k, v in given.items() if v not in (None, {}) and k not in ("run", "client")
        }
        if tables:
            run, resumed = self.runs.open(params.run or DEFAULT, tables)
        else:
            run = self.runs.find(params.run)
            resumed = True
        optimizer = run.optimizer
        return messages.OpenResult(
            run.name,
            resumed,
            len(optimizer.history),
            [trial_result(trial) for trial in optimizer.pending],
            optimizer.space.to_dict(),
            _objectives(optimizer.options.aim.objectives),
            optimizer.lease,
        )

    def describe_error(self, error: Exception, request_id: str | int | None) -> bytes:
        """Return the answer to a request that has raised an error, without the paths of the server."""
        word = getattr(error, "word", None) or next(
            (word for kind, word in _WORDS if isinstance(error, kind)), "internal"
        )
        text = " ".join(str(error).split())
        if word == "internal" and not isinstance(error, BacoError):
            traceback.print_exception(error, file=sys.stderr)
            text = f"an error of the server: {type(error).__name__}; its log says more"
        for folder in self.runs.folders:
            text = text.replace(f"{folder}/", "")
        content = {"code": ERRORS[word], "message": text[:2000], "data": {"error": word}}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": content})


def read_request(line: bytes, limits: messages.Limits) -> messages.Request:
    """Return the envelope of a message of JSON-RPC 2.0.

    Raises:
        ServiceError: It is not a request, or too large.
    """
    if len(line) > limits.most_bytes:
        raise ServiceError(
            "limit",
            f"the message has {len(line)} bytes; the server reads {limits.most_bytes}",
        )
    try:
        text, brackets = line.decode(), line.count(b"[") + line.count(b"{")
        if brackets > MOST_DEPTH and nesting_depth(text) > MOST_DEPTH:
            raise ServiceError(
                "limit", f"the message is nested more than {MOST_DEPTH} deep; write it flatter"
            )
        request = msgspec.json.decode(line, type=messages.Request)
    except UnicodeDecodeError as error:
        raise ServiceError("parse", f"byte {error.start} is not UTF-8") from None
    except msgspec.ValidationError as error:
        if line.lstrip().startswith(b"["):
            raise ServiceError(
                "request", "there are no batches; send one message per line"
            ) from None
        raise ServiceError("request", f"not a request of JSON-RPC 2.0: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ServiceError("parse", f"not JSON in one line: {error}") from None
    return request


def _find_id(line: bytes) -> str | int | None:
    """Return the id of a message that cannot be read as a whole, or None."""
    try:
        found = msgspec.json.decode(line, type=messages.Envelope).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if found is UNSET else found


def _digest(name: str, params: messages.Params) -> str:
    """Return a text that differs if the method or a parameter does, apart from how the run is named."""
    given = msgspec.to_builtins(params)
    del given["run"]
    content = msgspec.json.encode([name, given], order="sorted")
    return hashlib.blake2b(content, digest_size=8).hexdigest()


# Results --------------------------------------------------------------------------------------------------------------


def trial_result(trial: Trial) -> TrialResult:
    """Return a trial as a result has it."""
    outcome = trial.outcome
    pending = TrialResult(
        id=trial.id,
        config=dict(trial.config),
        client=trial.worker,
        status="pending",
        lease=None if trial.lease is None else trial.lease.seconds,
    )
    if outcome is None:
        return pending
    repeats: Mapping[str, Any] = {k: list(v) for k, v in outcome.metric_repeats.items()}
    return msgspec.structs.replace(
        pending,
        status=outcome.status.value,
        lease=None,
        value=outcome.value,
        values=list(outcome.repeats) if len(outcome.repeats) > 1 else [],
        metrics={**outcome.metrics, **repeats},
        failed=outcome.failed,
        message=outcome.message,
        bound=outcome.bound,
    )


def _maybe(trial: Trial | None) -> TrialResult | None:
    return None if trial is None else trial_result(trial)


def _objectives(objectives: Iterable[Objective]) -> list[messages.ObjectiveResult]:
    return [messages.ObjectiveResult(o.name, o.unit, o.direction) for o in objectives]


def _suggested(run: Run, call: Call) -> list[TrialResult]:
    """Return the trials of the events that a request has written, with the lease of that moment."""
    trials = []
    for event, _ in call.made:
        lease = event["lease"]["seconds"] if "lease" in event else None
        owner = event.get("worker")
        known = [run.optimizer.history.find(i) for i in event.get("again", ())]
        configs = {t.id: dict(t.config) for t in known if t is not None}
        configs |= {row["id"]: row["config"] for row in event["trials"]}
        trials += [
            TrialResult(id=i, config=config, client=owner, status="pending", lease=lease)
            for i, config in configs.items()
        ]
    run.optimizer.keep(trial.id for trial in trials)
    return trials


# Methods --------------------------------------------------------------------------------------------------------------


def _suggest(run: Run, params: messages.Suggest, call: Call) -> messages.TrialsResult:
    trials = _suggested(run, call)
    count = call.made[0][0]["request"][3] if trials else params.n
    missing = count - len(trials)
    if missing <= 0:
        return messages.TrialsResult(trials)
    found: list[Trial] = []
    ignored = (SpaceExhausted, ServiceError) if trials else ()
    with suppress(*ignored), run.reserving(missing) as room, call.answering(len(trials) + room):
        found = run.optimizer.suggest(room, task=params.task)
    return messages.TrialsResult([*trials, *map(trial_result, found)])


def _observe(run: Run, params: messages.Observe, call: Call) -> messages.ObserveResult:
    trial: Any
    if call.made:
        trial = run.optimizer.history.find(call.made[0][0]["outcomes"][0]["id"])
    else:
        value, failed = _read_value(run, params)
        trial = run.optimizer.observe(
            _find_subject(run, params),
            value,
            failed=failed,
            message=params.message or ("the value is null" if failed != params.failed else ""),
            bound=params.bound,
            extra=params.extra or None,
            seconds=params.seconds,
            program=params.program,
        )
    return messages.ObserveResult(trial_result(trial), _was_best(run, trial))


def _was_best(run: Run, trial: Trial) -> bool:
    """Whether a trial was the best when it was observed."""
    history = run.optimizer.history
    count = next(i for i in range(len(history), 0, -1) if history.trials[i - 1].id == trial.id)
    best = history.first(count).best()
    return best is not None and best.id == trial.id


def _find_subject(run: Run, params: messages.Observe) -> Any:
    """Return the trial or the configuration that a report is about."""
    config = None if params.config is None else config_from_json(params.config)
    if params.trial is None:
        if config is None:
            raise ServiceError("params", "observe: give 'trial' or 'config'")
        return config
    history = run.optimizer.history
    trial = history.find_late(params.trial) or history.get_pending(params.trial)
    if config is not None and config != {**trial.config}:
        raise TrialError(
            f"trial {trial.id} has the configuration {dict(trial.config)}, not {config}; it is of another run"
        )
    return trial


def _read_value(run: Run, params: messages.Observe) -> tuple[Any, str | None]:
    """Return the value of a report as `Optimizer.observe` takes it, and the failure word.

    A value that is null is a failure of the program, so it is recorded as one, with its reason.
    """
    given: list[Any] = [] if params.value is UNSET else [params.value]
    given += [] if params.values is None else [params.values]
    objectives = [o.name for o in run.optimizer.options.aim.objectives]
    if len(given) > 1 or (given and objectives[0] in params.metrics):
        raise ServiceError(
            "params", f"observe: give {objectives[0]!r} once: as value, values or among the metrics"
        )
    if params.failed is not None or params.bound is not None:
        if given and given[0] is not None:
            raise ServiceError("params", "observe: give a value or a failure, not both")
        return None, params.failed
    if [] in (params.values, *params.metrics.values()):
        raise ServiceError(
            "params", "observe: a list of repeats is empty; give 'failed' for a failure"
        )
    values = dict(params.metrics)
    if given:
        values[objectives[0]] = given[0]
    if not values:
        raise ServiceError(
            "params", "observe: give 'value', 'values', 'metrics', 'failed' or 'bound'"
        )
    measured = [values.get(name, 0.0) for name in objectives]
    entries = [x for each in measured for x in (each if isinstance(each, list) else [each])]
    if any(entry is None for entry in entries):
        return None, "runtime"
    return values, None


def _claim(run: Run, params: messages.OfConfig, call: Call) -> messages.OneTrial:
    if call.made:
        return messages.OneTrial(_suggested(run, call)[0])
    with run.counting():
        run.check_pending(1)
        return messages.OneTrial(trial_result(run.optimizer.claim(config_from_json(params.config))))


def _enqueue(run: Run, params: messages.OfConfig, call: Call) -> messages.Nothing:
    if not call.made:
        with run.counting():
            run.check_pending(len(run.optimizer.history.queue) + 1)
            run.optimizer.enqueue(config_from_json(params.config))
    return messages.Nothing()


def _propose(run: Run, params: messages.Propose, call: Call) -> messages.ProposeResult:
    configs, optimizer = list(map(config_from_json, params.configs)), run.optimizer
    if (
        call.made
    ):  # those that are in the journal were accepted; the reasons of the others are found again
        made = [config_from_json(config) for config in call.made[0][0]["configs"]]
        answers, _ = answer_proposals(optimizer.state, configs, params.source)
        encoded = [encode_together(optimizer.space, [config]) for config in configs]
        answers = [
            replace(answer, reason="", nearest=None) if own and own[0][0] in made else answer
            for answer, own in zip(answers, encoded, strict=True)
        ]
    else:
        with run.counting():
            run.check_pending(len(optimizer.history.open_proposals) + len(configs))
            answers = optimizer.propose(configs, source=params.source, note=params.note)
    return messages.ProposeResult(
        [
            messages.AnswerResult(
                a.accepted, a.reason, None if a.nearest is None else {**a.nearest}
            )
            for a in answers
        ]
    )


def _abandon(run: Run, params: messages.Abandon, call: Call) -> messages.Nothing:
    if not call.made:
        run.optimizer.abandon(run.optimizer.history.get_pending(params.trial), params.reason)
    return messages.Nothing()


def _heartbeat(run: Run, params: messages.Heartbeat, call: Call) -> messages.HeartbeatResult:
    optimizer = run.optimizer
    found = [optimizer.history.find(i) for i in params.trials]
    trials = [trial for trial in found if trial is not None and trial.outcome is None]
    if optimizer.lease is not None and trials:
        trials = optimizer.renew(trials)
    optimizer.keep(trial.id for trial in trials)
    return messages.HeartbeatResult([trial.id for trial in trials])


def _best(run: Run, params: messages.OfTask, call: Call) -> messages.MaybeTrial:
    optimizer = run.optimizer
    if params.task is None:
        return messages.MaybeTrial(_maybe(optimizer.best))
    if (tasks := optimizer.space.tasks) is None:
        raise SpaceError(f"task = {params.task!r:.60}: this run has no tasks")
    descriptor = tasks.descriptors[tasks.index(params.task)]
    own = [trial for trial in optimizer.trials if trial.task == descriptor]
    return messages.MaybeTrial(_maybe(next(iter(rank(own, optimizer.history.direction)), None)))


def _front(run: Run, params: messages.Params, call: Call) -> messages.TrialsResult:
    return messages.TrialsResult([trial_result(trial) for trial in run.optimizer.front])


def _recommend(run: Run, params: messages.Recommend, call: Call) -> messages.RecommendResult:
    found = run.optimizer.recommend(weights=params.weights, limits=params.limits)
    if not isinstance(found, TaskRecommendation):
        return messages.RecommendResult(_maybe(found))
    tasks = [
        messages.TaskResult(dict(c.task), dict(c.config), c.value, finite(c.slowdown))
        for c in found.choices
    ]
    return messages.RecommendResult(None, tasks)


def _why(run: Run, params: messages.OfTrial, call: Call) -> messages.WhyResult:
    trial = run.optimizer.history.find(params.trial)
    if trial is None:
        raise TrialError(f"trial {params.trial} is neither observed nor pending")
    return messages.WhyResult(run.optimizer.why(trial))


def _importance(run: Run, params: messages.ImportanceOf, call: Call) -> messages.ImportanceResult:
    found = run.optimizer.importance(quantile=params.quantile, objective=params.objective)
    return messages.ImportanceResult(
        [
            messages.EffectResult(e.name, *map(finite, (e.share, e.low, e.high, e.failing)))
            for e in found.effects
        ]
    )


def _status(run: Run, params: messages.Params, call: Call) -> messages.StatusResult:
    optimizer = run.optimizer
    history = optimizer.history
    return messages.StatusResult(
        len(history),
        int(history.where(Status.FAILED).sum()),
        history.searched,
        [trial_result(trial) for trial in history.pending.values()],
        _maybe(history.best()),
        optimizer.should_stop(run.rule),
    )


def _describe(run: Run, params: messages.Params, call: Call) -> messages.DescribeResult:
    optimizer = run.optimizer
    size = optimizer.space.feasible_size
    exact = size if isinstance(size, int) else None
    return messages.DescribeResult(
        run.name,
        optimizer.space.to_dict(),
        _objectives(optimizer.options.aim.objectives),
        exact if exact is None or exact <= _SAFE_INTEGER else str(exact),
        optimizer.options.to_json(),
    )


def _events(run: Run, params: messages.Events, call: Call) -> messages.EventsResult:
    found = run.read_events(params.after, params.most)
    shown = [{k: v for k, v in event.items() if k != "request"} for event, _ in found]
    following = found[-1][1] if found else params.after
    return messages.EventsResult(shown, following, run.optimizer.state.mark.number)


def _append(run: Run, params: messages.Append, call: Call) -> messages.AppendResult:
    if call.made:
        return messages.AppendResult(call.made[0][1])
    with run.counting():
        trials = params.event.get("trials")
        run.check_pending(len(trials) if isinstance(trials, list) else 0)
        return messages.AppendResult(run.optimizer.append(params.event, params.after))


_FUNCTIONS: Mapping[str, Callable[[Run, Any, Call], Any]] = {
    "suggest": _suggest,
    "observe": _observe,
    "claim": _claim,
    "enqueue": _enqueue,
    "propose": _propose,
    "abandon": _abandon,
    "heartbeat": _heartbeat,
    "best": _best,
    "front": _front,
    "recommend": _recommend,
    "why": _why,
    "importance": _importance,
    "status": _status,
    "describe": _describe,
    "events": _events,
    "append": _append,
}
