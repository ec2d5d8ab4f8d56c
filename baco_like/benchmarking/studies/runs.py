"""One run of a study: its contender, its problem, its budget and its results."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Ints
from baco_like.benchmarking.problems.problem import OUTSIDE, FunctionProblem
from baco_like.benchmarking.problems.recorded import RecordedProblem
from baco_like.records import Outcome
from baco_like.records.objective import sign_of

Problem = FunctionProblem | RecordedProblem

RunKey = tuple[str, str, int]
"""Problem, label and seed, which identify a run within a study."""

EVALUATIONS = 60
"""Evaluations of a run on a function by default."""

_MAX_FACTOR = 3
"""Limit of a run's evaluations, as a multiple of its budget, while its simulated seconds are not spent."""


@dataclass(frozen=True)
class Contender:
    """A strategy in a study.

    A foreign tool takes part by a function of the problem, the seed and the number of evaluations. It returns an object
    with ``ask()``, which returns a configuration, and ``tell(configuration, value)``; the value is None for a failure
    or an infeasible configuration. An infeasible or repeated configuration takes no evaluation.

    Attributes:
        label: Its name in tables and plots.
        strategy: Its registered name; a sampler of Optuna as ``optuna:TPESampler``; ``module:attribute``; a strategy; a
            class of strategies; or a function that makes a foreign tool.
        settings: Settings of a name, arguments of a class, or additional arguments of a function.
    """

    label: str
    strategy: Any
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RunBudget:
    """The budget of a run: a number of evaluations, and a time that they must have taken.

    Attributes:
        evaluations: Number of evaluations; the strategy adapts its settings to it.
        seconds: Time on the simulated clock.
    """

    evaluations: int
    seconds: float = 0.0

    def is_spent(self, evaluations: int, seconds: float) -> bool:
        """Return whether both parts are spent, or the limit of evaluations is reached."""
        if evaluations < self.evaluations:
            return False
        return seconds >= self.seconds or evaluations >= _MAX_FACTOR * self.evaluations


def budget_on(problem: Problem, evaluations: int | None) -> RunBudget:
    """Return the budget of a run. If ``evaluations`` is None, it is the methodology's on a recorded problem."""
    if evaluations is not None:
        return RunBudget(evaluations)
    if not isinstance(problem, RecordedProblem):
        return RunBudget(EVALUATIONS)
    baseline = problem.baseline
    _, last = baseline.evaluations()
    if np.isnan(baseline.median_seconds):
        return RunBudget(last)
    return RunBudget(last, baseline.time_range()[1])


@dataclass(frozen=True)
class RunJob:
    """One run to do: everything that decides its result.

    Attributes:
        problem: The problem.
        contender: The strategy.
        seed: The run's only seed.
        budget: The end of the run.
        draw: Whether each value is drawn from the recorded repeats, and configurations may be evaluated again. If
            False, the recorded value is returned.
    """

    problem: Problem
    contender: Contender
    seed: int
    budget: RunBudget
    draw: bool = False

    @property
    def key(self) -> RunKey:
        """Problem, label and seed, which identify the run within a study."""
        return self.problem.name, self.contender.label, self.seed


@dataclass(frozen=True, eq=False)
class StrategyRun:
    """A finished run.

    Attributes:
        problem: Name of the problem.
        label: Label of the contender.
        seed: The run's seed.
        costs: Costs (minimised) in order of evaluation, ``(k,)``; NaN for failures.
        cpu: CPU time of the strategy, in seconds.
        rows: Rows of the recorded table, ``(k,)``; None for a function. The table's last row (-1) stands for
            configurations that it lacks.
        penalised: Number of distinct infeasible candidates that the strategy had penalised itself before it proposed
            each row, ``(k,)``; None if it does not report it. They took no evaluation.
        log: For each evaluation, as JSON values: the ``config``, the word of the failure (``failed``), the ``repeats``
            and the ``seconds`` of the evaluation, which a table has itself; the CPU time of the suggestion (``cpu``)
            and the ``tag`` of the strategy. What there is not is left out.
    """

    problem: str
    label: str
    seed: int
    costs: Array
    cpu: float
    rows: Ints | None = None
    penalised: Ints | None = None
    log: Sequence[Mapping[str, Any]] = ()

    @property
    def key(self) -> RunKey:
        """Problem, label and seed; the same as the key of its job."""
        return self.problem, self.label, self.seed


class Evaluation:
    """Evaluates the configurations of one run, keeps the results, and measures the time of the problem itself.

    Args:
        job: The run.
    """

    def __init__(self, job: RunJob) -> None:
        self._job = job
        self._clock = self._cpu = 0.0
        self._log: list[dict[str, Any]] = []
        self._values: list[float] = []
        self._rows: list[int] = []
        self._penalised: list[int] = []
        self._last = time.process_time()

    @property
    def is_spent(self) -> bool:
        """Whether the run has reached its end."""
        return self._job.budget.is_spent(len(self._values), self._clock)

    def __call__(self, trial_id: int, config: Mapping[str, Any], tag: Any = None) -> Outcome:
        """Return the outcome of a configuration; the tag of its trial may count penalised candidates."""
        suggestion = time.process_time() - self._last
        job = self._job
        rng = generator(job.seed, Purpose.EVALUATE, trial_id) if job.draw else None
        outcome, row, seconds = job.problem.evaluate(trial_id, config, rng)
        self._values.append(math.nan if outcome.value is None else outcome.value)
        self._rows.append(row)
        if isinstance(tag, Mapping) and "penalised" in tag:
            self._penalised.append(tag["penalised"])
        self._clock += seconds
        self._cpu += suggestion
        entry = {"cpu": round(suggestion, 6), "tag": tag}
        if row == OUTSIDE:
            times = [round(math.fsum(outcome.seconds.values()), 6)] if outcome.seconds else []
            entry |= {"config": dict(config), "failed": outcome.failed}
            entry |= {"repeats": outcome.repeats, "seconds": sum(times) or None}
        self._log.append({name: value for name, value in entry.items() if value not in (None, ())})
        self._last = time.process_time()
        return outcome

    def finish(self) -> StrategyRun:
        """Return the run, whose strategy has taken the time that the problem has not."""
        cpu = self._cpu + time.process_time() - self._last
        problem, has_table = self._job.problem, isinstance(self._job.problem, RecordedProblem)
        costs = sign_of(problem.direction) * np.array(self._values, dtype=np.float64)
        rows = np.array(self._rows, dtype=np.int64) if has_table else None
        counts = self._penalised if len(self._penalised) == len(costs) else []
        penalised = np.array(counts) if any(counts) else None
        return StrategyRun(*self._job.key, costs, cpu, rows, penalised, self._log)
