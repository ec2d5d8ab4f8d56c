"""Frozen records: a strategy's proposal, the trial it becomes, its outcome, and the observation of both."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import override

from baco_like._output import html_table
from baco_like._typing import Array
from baco_like.exceptions import TrialError
from baco_like.records.leases import Lease
from baco_like.records.objective import Direction, Objective, sign_of

FAILURE_WORDS = ("compile", "runtime", "correctness", "timeout", "constraints")
"""The failure words of the T4 result format. Free text is allowed as well.

* ``compile``: the build failed.
* ``runtime``: the program crashed, ended with a nonzero exit code, or gave no finite number; also the word of
  `Infeasible` and of ``failed=True`` if no other is given.
* ``correctness``: the program ran, and a check found its result wrong.
* ``timeout``: a build, run or check took longer than its limit; also the word of censored outcomes.
* ``constraints``: the configuration violates a constraint that the space does not contain: one of another tool, one
  that excluded it from a recording, or one in code that raises `Infeasible` with this word.

The word ``limit`` is not among them: the program ran, but a metric is beyond a limit of the run (`Limits`).
"""


JsonObject = Mapping[str, Any]
"""JSON values by name."""

LATE = "late"
"""Origin of a result that came after its trial was abandoned, or finished by another worker. Also the key in
`Outcome.extra` of the number of that trial."""

STOPPED, SLOW = "stopped", "slow"
"""Key in `Outcome.extra` of a censored outcome, and its value if the evaluation was clearly slower than the best."""

REPEATS = "repeats"
"""Key in `Outcome.extra` of the measured values of an outcome that has none itself: failed or censored."""

PROGRAM = "program"
"""Key in `Outcome.extra` of the hash that identifies the built program."""

SAME_PROGRAM = "same_program"
"""Key in `Outcome.extra` of a trial that was not run: number of the earlier trial with the same program."""

NOTES = "notes"
"""Key in `Outcome.extra` of what the user should know about the measurement: a mapping from its kind to a sentence."""

LEVELS = "optimization levels"
"""Kind of a note that is of no single trial: the values of the optimization levels of a compiler."""

WARM = "warm"
"""Origin of results of a warm start."""

CONFIRMATION = "confirmation"
"""Origin of trials that measure a candidate again for a confirmation."""

PROPOSED = "proposed"
"""Origin of trials that a source beside the strategy has proposed; their tag has the ``source`` and its ``note``."""

CONTROL = "control"
"""Origin of trials that measure the incumbent again."""

SIMPLIFICATION = "simplification"
"""Origin of trials of the winner without some of its changes to the default configuration."""

COMPARISON = "comparison"
"""Origin of trials that compare such a configuration with the winner, in rounds."""

CANDIDATE = "candidate"
"""Origin of trials that were built for a choice and need no measurement: the build failed, or its value is known."""

MEASURED_AGAIN = (CONFIRMATION, CONTROL, COMPARISON)
"""Origins of trials whose configuration is measured again on purpose."""

AFTER_SEARCH = (CONFIRMATION, SIMPLIFICATION, COMPARISON)
"""Origins of trials after the search; its budget does not count them."""


class Status(str, Enum):
    """State of a trial, or kind of its outcome."""

    PENDING = "pending"
    OK = "ok"
    FAILED = "failed"
    CENSORED = "censored"
    """Stopped at a bound: the value is at least `Outcome.bound`, and the configuration is feasible."""
    ABANDONED = "abandoned"


@dataclass(frozen=True)
class Proposal:
    """A configuration that a strategy wants to evaluate.

    Attributes:
        code: One row of codes, shape (w,).
        tag: The strategy's own note, any JSON value. The strategy gets it back with the observation.
    """

    code: Array
    tag: Any = None


@dataclass(frozen=True)
class Outcome:
    """Result of one evaluation. Build it with `success`, `failure` or `censored`.

    Attributes:
        trial_id: Id of the evaluated trial.
        status: OK, FAILED or CENSORED; executors also return ABANDONED for trials they give up.
        value: The objective in the user's unit (median of the repeats); None unless the status is OK.
        repeats: All measured values, in order.
        sem: Standard error of the value, measured by repeats or stated by a `Measurement`; None if it is unknown.
        failed: The failure word; None if the status is OK.
        message: Output or error message of the failing tool.
        bound: Lower bound of the value if the status is CENSORED.
        metrics: Further measured numbers by name (medians of repeats).
        extra: Further JSON values, such as the seconds of each stage.
        metric_repeats: All values of the metrics that were measured several times, in order.
        metric_sems: Standard errors of metrics that a `Measurement` states.
        build: Numbers that the build alone gives, by name, such as the bytes of the program; known before it runs.
        problem: Reason the measurement is invalid; shown in the warning, not written to the journal.

    Raises:
        TrialError: There is a value without the status OK, or the status OK without a finite value.
    """

    trial_id: int
    status: Status
    value: float | None = None
    repeats: tuple[float, ...] = ()
    sem: float | None = None
    failed: str | None = None
    message: str = ""
    bound: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: JsonObject = field(default_factory=dict)
    metric_repeats: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    metric_sems: Mapping[str, float] = field(default_factory=dict)
    build: Mapping[str, float] = field(default_factory=dict)
    problem: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        has_value = self.value is not None
        # A whole number of a file may be too large for a float; NaN compares as False.
        is_finite = abs(self.value or 0.0) <= sys.float_info.max
        if has_value != (self.status is Status.OK) or not is_finite:
            raise TrialError(
                f"trial {self.trial_id}: value {self.value!r} does not fit status {self.status.value!r}; an OK outcome "
                "has a finite value, all others have none"
            )

    @classmethod
    def success(
        cls,
        trial_id: int,
        repeats: tuple[float, ...],
        *,
        metrics: Mapping[str, float] | None = None,
        extra: JsonObject | None = None,
        metric_repeats: Mapping[str, tuple[float, ...]] | None = None,
    ) -> Outcome:
        """Return an OK outcome whose value is the median of ``repeats`` (one or more finite numbers)."""
        return cls(
            trial_id,
            Status.OK,
            median(repeats),
            repeats,
            standard_error(repeats),
            metrics=metrics or {},
            extra=extra or {},
            metric_repeats=metric_repeats or {},
        )

    def scaled(self, factor: float) -> Outcome:
        """Return the outcome with its value, repeats, standard error and bound in another unit."""
        value, sem, bound = (x and x * factor for x in (self.value, self.sem, self.bound))
        repeats = tuple(x * factor for x in self.repeats)
        return replace(self, value=value, sem=sem, bound=bound, repeats=repeats)

    @classmethod
    def failure(
        cls, trial_id: int, failed: str, message: str = "", *, extra: JsonObject | None = None
    ) -> Outcome:
        """Return a FAILED outcome with its failure word."""
        return cls(trial_id, Status.FAILED, failed=failed, message=message, extra=extra or {})

    @classmethod
    def censored(
        cls,
        trial_id: int,
        bound: float,
        failed: str = "timeout",
        message: str = "",
        *,
        extra: JsonObject | None = None,
    ) -> Outcome:
        """Return a CENSORED outcome: the evaluation was stopped, and its value is at least ``bound``."""
        status = Status.CENSORED
        return cls(trial_id, status, failed=failed, message=message, bound=bound, extra=extra or {})

    @property
    def is_slow(self) -> bool:
        """Whether it is censored because it was clearly slower than the best, not because it reached a time limit."""
        return self.status is Status.CENSORED and self.extra.get(STOPPED) == SLOW

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of each stage (such as compile, run, check), as far as known."""
        seconds = self.extra.get("seconds")
        return seconds if isinstance(seconds, Mapping) else {}


_LARGEST_ERROR = 1e150
"""Standard errors are cut off here, so that their squares stay finite."""


def standard_error(repeats: tuple[float, ...]) -> float | None:
    """Return a standard error of the repeats that few outliers do not change, or None.

    It is the one of the trimmed mean (Yuen, Biometrika 61, 1974): with g = floor(n / 5), the standard deviation of the
    repeats of which the g least and the g largest become equal to the next ones, over (1 - 2 g / n) sqrt(n). Up to four
    repeats that is the standard error of the mean. It also serves as the one of the median, which is at most 1.25 times
    as large for normal noise.

    Returns:
        None with fewer than two repeats, or where the standard error exceeds the range of floats.
    """
    if len(repeats) < 2:
        return None
    unit = _safe_unit(repeats)
    n, g = len(repeats), len(repeats) // 5
    kept = np.sort(np.array(repeats) / unit)
    spread = np.std(np.clip(kept, kept[g], kept[n - 1 - g]), ddof=1)
    error = float(spread / ((1 - 2 * g / n) * math.sqrt(n))) * unit
    return error if math.isfinite(error) else None


def squared_error(error: float | None) -> float:
    """Return the square of a standard error, or NaN without one."""
    return math.nan if error is None else min(error, _LARGEST_ERROR) ** 2


def median(repeats: tuple[float, ...]) -> float:
    """Return the median of one or more finite numbers, without overflow for very large ones."""
    if len(repeats) == 1:
        return float(repeats[0])
    unit = _safe_unit(repeats)
    return float(np.median(np.array(repeats) / unit)) * unit


def _safe_unit(repeats: tuple[float, ...]) -> float:
    """Return a power of two; the squares of the numbers divided by it neither overflow nor underflow."""
    largest = max(map(abs, repeats))
    is_safe = largest == 0.0 or 1e-100 < largest < 1e100
    return 1.0 if is_safe else 2.0 ** max(math.frexp(largest)[1] - 1, -1022)


def _frozen(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a read-only copy; a read-only mapping, such as the configuration of another trial, is shared."""
    return values if type(values) is MappingProxyType else MappingProxyType(dict(values))


@dataclass(frozen=True, eq=False)
class Trial(Mapping[str, Any]):
    """A numbered configuration. As a mapping it is the configuration itself, so ``kernel(**trial)`` works.

    Attributes:
        id: Its number in the run; a number is never used twice.
        config: The configuration as plain Python values.
        tag: The strategy's own note; the strategy gets it back with the observation.
        origin: ``strategy``, ``fill`` (uniform draw), ``enqueued``, ``proposed`` (by a source, see
            `Optimizer.propose`), ``told`` (observed without a suggestion), ``imported`` (the same, and possibly outside
            the space), ``warm`` (from a warm start), ``candidate`` (only built, see `Optimizer.candidates`),
            ``confirmation`` or ``control`` (both: measured again),
            ``simplification`` or ``comparison`` (both: of `Optimizer.simplify`), or ``late`` (a further result of a
            trial that was finished by another worker or abandoned; ``extra["late"]`` is its number).
        outcome: The outcome, or None while pending.
        lease: While the trial is pending, the lease of its worker, or None. When it expires, the trial is suggested
            again; the first reported outcome counts.
        worker: Name of the optimizer that evaluates it; None if it has no name.
        task: In a run with tasks the descriptor of its task, which is also a part of the configuration; else None.
        started: When it was suggested (the last time, after a lease), in Unix seconds; None if that is unknown.
        ended: When its outcome was recorded, in Unix seconds; None while pending.
    """

    id: int
    config: Mapping[str, Any]
    tag: Any = None
    origin: str = "strategy"
    outcome: Outcome | None = None
    lease: Lease | None = None
    worker: str | None = None
    task: Mapping[str, Any] | None = None
    started: float | None = None
    ended: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", _frozen(self.config))
        if self.task is not None:
            object.__setattr__(self, "task", _frozen(self.task))

    @override
    def __getstate__(self) -> dict[str, Any]:
        # A mapping proxy cannot be pickled, so trials travel to other processes with a plain dictionary.
        task = None if self.task is None else dict(self.task)
        return {**self.__dict__, "config": dict(self.config), "task": task}

    def __setstate__(self, state: dict[str, Any]) -> None:
        task = state.get("task")
        self.__dict__.update(state, config=MappingProxyType(state["config"]))
        self.__dict__.update(task=None if task is None else MappingProxyType(task))

    @override
    def __getitem__(self, name: str) -> Any:
        return self.config[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.config)

    @override
    def __len__(self) -> int:
        return len(self.config)

    @override
    def __repr__(self) -> str:
        result = self.failure or ("pending" if self.value is None else repr(self.value))
        return f"Trial({self.id}, {dict(self.config)!r}, {result})"

    def _repr_html_(self) -> str:
        """Return the configuration and the result as a table, for notebooks."""
        return html_table(
            f"Trial {self.id}",
            [*self.config, "value"],
            [[*self.config.values(), self.failure or self.value]],
        )

    @property
    def status(self) -> Status:
        """PENDING, or the status of the outcome."""
        return Status.PENDING if self.outcome is None else self.outcome.status

    @property
    def until(self) -> float | None:
        """When the lease expires, in Unix seconds; None without a lease."""
        return None if self.lease is None else self.lease.until

    @property
    def value(self) -> float | None:
        """The observed value, or None while pending and when failed."""
        return None if self.outcome is None else self.outcome.value

    def read_tag(self, key: str) -> Any:
        """Return an entry of the tag; None if the tag is not a mapping with this key."""
        return self.tag.get(key) if isinstance(self.tag, Mapping) else None

    @property
    def failure(self) -> str | None:
        """The failure word, such as ``compile``; None unless failed or censored."""
        return None if self.outcome is None else self.outcome.failed

    @property
    def message(self) -> str:
        """Output or error message of the failing tool."""
        return "" if self.outcome is None else self.outcome.message

    @property
    def bound(self) -> float | None:
        """Lower bound of a censored value, or None."""
        return None if self.outcome is None else self.outcome.bound

    @property
    def repeats(self) -> tuple[float, ...]:
        """All measured values, in order."""
        return () if self.outcome is None else self.outcome.repeats

    @property
    def sem(self) -> float | None:
        """Standard error of the value, or None."""
        return None if self.outcome is None else self.outcome.sem

    @property
    def metrics(self) -> Mapping[str, float]:
        """Further measured numbers by name."""
        return {} if self.outcome is None else self.outcome.metrics

    @property
    def metric_repeats(self) -> Mapping[str, tuple[float, ...]]:
        """All values of the metrics that were measured several times."""
        return {} if self.outcome is None else self.outcome.metric_repeats

    @property
    def extra(self) -> JsonObject:
        """Further JSON values that were reported with the outcome."""
        return {} if self.outcome is None else self.outcome.extra

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of each stage of the evaluation (such as compile, run, check), as far as known."""
        return {} if self.outcome is None else self.outcome.seconds

    @property
    def metric_sems(self) -> Mapping[str, float]:
        """Standard errors of the metrics that have one."""
        return {} if self.outcome is None else self.outcome.metric_sems

    @property
    def build(self) -> Mapping[str, float]:
        """Numbers that the build alone gives, by name."""
        return {} if self.outcome is None else self.outcome.build

    def with_outcome(self, outcome: Outcome) -> Trial:
        """Return this trial with an outcome."""
        return Trial(
            *(self.id, self.config, self.tag, self.origin, outcome),
            worker=self.worker,
            task=self.task,
            started=self.started,
            ended=self.ended,
        )


class Candidate(NamedTuple):
    """A configuration that was built and not measured.

    Attributes:
        trial: The trial that it becomes if it is chosen, without its final number.
        code: Its row of codes, ``(w,)``.
        build: The build metrics.
        program: Text that identifies the built program, or None.
        seconds: Seconds of the build, or None.
    """

    trial: Trial
    code: Array
    build: Mapping[str, float]
    program: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Observation(Trial):
    """A trial with its outcome, as strategies get it: the code and the cost are computed once, by the history.

    Attributes:
        code: Its row of codes, shape (w,); None for an imported configuration outside the space.
        cost: The minimised value; infinity unless the status is OK.
    """

    code: Array | None
    cost: float


def rank(trials: Iterable[Trial], direction: Direction) -> list[Trial]:
    """Return the trials that have a value, the best first."""
    sign = sign_of(direction)
    known = [trial for trial in trials if trial.value is not None]
    return sorted(known, key=lambda trial: sign * (trial.value or 0.0))


def select_best(trials: Iterable[Trial], direction: Direction, top: int) -> list[Trial]:
    """Return the best trials with different configurations."""
    return different_configs(rank(trials, direction), top)


def different_configs(trials: Iterable[Trial], most: int) -> list[Trial]:
    """Return the first trials with different configurations, at most ``most``."""
    chosen: list[Trial] = []
    for trial in trials:
        if len(chosen) < most and all(dict(trial.config) != dict(t.config) for t in chosen):
            chosen.append(trial)
    return chosen


def read_metric(trial: Trial, objective: Objective) -> tuple[float, float]:
    """Return the cost of a trial by one of its metrics, and its squared standard error, NaN if it is unknown."""
    error = trial.metric_sems.get(objective.name)
    if error is None:
        error = standard_error(trial.metric_repeats.get(objective.name, ()))
    return sign_of(objective.direction) * trial.metrics[objective.name], squared_error(error)


def read_values(trial: Trial, objectives: Sequence[Objective]) -> list[float]:
    """Return the values of a successful trial in the order of several objectives, in the user's units."""
    assert trial.value is not None
    return [trial.value, *(trial.metrics[objective.name] for objective in objectives[1:])]


def measurement_notes(trial: Trial) -> Mapping[str, str]:
    """Return what the user should know about the measurement of a trial: sentences by their kind."""
    notes = trial.extra.get(NOTES)  # an evaluator of the user may have something else there
    return (
        {str(k): f"{v:.500}" for k, v in notes.items() if isinstance(v, str)}
        if isinstance(notes, Mapping)
        else {}
    )
