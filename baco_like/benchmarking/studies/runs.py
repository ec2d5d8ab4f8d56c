"""One run of a study: its contender, its problem, its budget and its results."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Ints
from baco_like.benchmarking.problems.problem import OUTSIDE, Evaluated, FunctionProblem
from baco_like.benchmarking.problems.recorded import RecordedProblem
from baco_like.benchmarking.problems.run_files import RunFileProblem
from baco_like.benchmarking.score import Baseline
from baco_like.journal.events import Event, config_from_json, outcome_row, read_outcome
from baco_like.records import Outcome, Trial
from baco_like.records.objective import Direction, sign_of

Problem = FunctionProblem | RecordedProblem | RunFileProblem

RunKey = tuple[str, str, int]
"""Problem, label and seed, which identify a run within a study."""


@dataclass(frozen=True, eq=False)
class PastProblem:
    """The facts about a problem that the figures of a study need after its runs.

    Attributes:
        name: Its name.
        direction: Direction of the values.
        best_value: The best value, or None if it is unknown.
        parameters: Number of its parameters with more than one value.
        baseline: Random search on it, for scores; None if the distribution of its values is unknown.
    """

    name: str
    direction: Direction
    best_value: float | None
    parameters: int
    baseline: Baseline | None


StudiedProblem = Problem | PastProblem


def parameters_of(problem: StudiedProblem) -> int:
    """Return the number of parameters with more than one value."""
    return problem.parameters if isinstance(problem, PastProblem) else len(problem.space.active)


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
    """Return the budget of a run; None takes the methodology's of a recorded problem, and the one of a run file."""
    if evaluations is None and isinstance(problem, RunFileProblem):
        evaluations = problem.file.budget.evaluations
    if not isinstance(problem, RecordedProblem):
        return RunBudget(evaluations or EVALUATIONS)
    if evaluations is not None:
        return RunBudget(evaluations)
    baseline = problem.baseline
    _, last = baseline.evaluations()
    if np.isnan(baseline.median_seconds):
        return RunBudget(last)
    return RunBudget(last, baseline.time_range()[1])


def is_measured(problem: Problem) -> bool:
    """Return whether other work on the machine changes the values: those of a run file that are not exact."""
    return isinstance(problem, RunFileProblem) and not problem.file.aim.is_exact


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
        known: The evaluations of the run that a file has already, as in `StrategyRun.log`.
        keep: Called with the event of each new evaluation; None keeps none.
    """

    problem: Problem
    contender: Contender
    seed: int
    budget: RunBudget
    draw: bool = False
    known: Sequence[Mapping[str, Any]] = ()
    keep: Callable[[Event], None] | None = None

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
        log: For each evaluation, as JSON values: the CPU time of the suggestion (``cpu``), the ``tag`` of the strategy,
            and, unless a table has it, the outcome as in a journal (`outcome_row`) and its ``seconds``. What there is
            not is left out.
        budget: The evaluations of its budget; None if it is unknown.
        best: Best cost so far as in `curves_of`, ``(k,)``; None if it follows from the costs and the table.
    """

    problem: str
    label: str
    seed: int
    costs: Array
    cpu: float
    rows: Ints | None = None
    log: Sequence[Mapping[str, Any]] = ()
    budget: int | None = None
    best: Array | None = None

    @property
    def key(self) -> RunKey:
        """Problem, label and seed; the same as the key of its job."""
        return self.problem, self.label, self.seed


def cpu_of(log: Sequence[Mapping[str, Any]]) -> float:
    """Return the CPU time of a strategy in all evaluations of a log."""
    return round(math.fsum(entry.get("cpu", 0.0) for entry in log), 6)


class Evaluation:
    """Evaluates the configurations of one run, keeps the results, and measures the time of the problem itself.

    As long as the contender suggests what it has suggested before, the known evaluations of the job answer.

    Args:
        job: The run.
    """

    def __init__(self, job: RunJob) -> None:
        self._job = job
        self._known, self._is_measuring = deque(job.known), False
        self._clock = 0.0
        self._log: list[Mapping[str, Any]] = []
        self._values: list[float] = []
        self._rows: list[int] = []
        self._last = time.process_time()

    @property
    def is_spent(self) -> bool:
        """Whether the run has reached its end."""
        return self._job.budget.is_spent(len(self._values), self._clock)

    def __call__(self, trial_id: int, config: Mapping[str, Any], tag: Any = None) -> Outcome:
        """Return the outcome of a configuration."""
        suggestion, row = time.process_time() - self._last, OUTSIDE
        if (entry := self._find_known(config)) is not None:
            outcome = replace(read_outcome(entry), trial_id=trial_id)
        else:
            outcome, row, seconds = self._measure(trial_id, config)
            self._clock += seconds
            entry = {"cpu": round(suggestion, 6), **({} if tag is None else {"tag": tag})}
            if row == OUTSIDE:
                entry |= outcome_row(Trial(trial_id, config), outcome)
                times = outcome.seconds.values()
                entry |= {"seconds": round(math.fsum(times), 6)} if times else {}
            self._keep(entry)
        self._values.append(math.nan if outcome.value is None else outcome.value)
        self._rows.append(row)
        self._log.append(entry)
        self._last = time.process_time()
        return outcome

    def _find_known(self, config: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the next known evaluation if it is the one of this configuration; otherwise forget the rest."""
        if self._known and config_from_json(self._known[0]["config"]) == dict(config):
            return self._known.popleft()
        self._known.clear()
        return None

    def _measure(self, trial_id: int, config: Mapping[str, Any]) -> Evaluated:
        job = self._job
        if isinstance(job.problem, RunFileProblem) and not self._is_measuring:
            rows = [(row["id"], config_from_json(row["config"]), row) for row in self._log]
            job.problem.begin([Trial(i, c, outcome=read_outcome(row)) for i, c, row in rows])
            self._is_measuring = True
        rng = generator(job.seed, Purpose.EVALUATE, trial_id) if job.draw else None
        return job.problem.evaluate(trial_id, config, rng)

    def _keep(self, entry: Mapping[str, Any]) -> None:
        if self._job.keep is not None:
            names = dict(zip(("problem", "label", "seed"), self._job.key, strict=True))
            own = {"number": len(self._values), "entry": entry}
            self._job.keep({"event": "evaluated", **names, **own})

    def finish(self) -> StrategyRun:
        """Return the run."""
        job = self._job
        costs = sign_of(job.problem.direction) * np.array(self._values, dtype=np.float64)
        has_table = isinstance(job.problem, RecordedProblem)
        rows = np.array(self._rows, dtype=np.int64) if has_table else None
        return StrategyRun(
            *job.key, costs, cpu_of(self._log), rows, self._log, job.budget.evaluations
        )

    def close(self) -> None:
        """Stop the processes of a run file's evaluator, and remove its temporary files."""
        if isinstance(self._job.problem, RunFileProblem):
            self._job.problem.end()
