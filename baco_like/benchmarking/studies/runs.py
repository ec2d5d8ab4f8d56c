"""Run one strategy on one function, in any process."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like.benchmarking.comparison.runs import Contender, StrategyRun
from baco_like.benchmarking.comparison.spaces import OUTSIDE
from baco_like.benchmarking.problems.problem import FunctionProblem
from baco_like.benchmarking.studies.optuna_samplers import PREFIX, run_sampler
from baco_like.exceptions import SpaceExhausted
from baco_like.optimizer import Optimizer, Search
from baco_like.records import Outcome, outcome_from, outcome_of_exception, sign_of


@dataclass(frozen=True)
class StudyJob:
    """One run to do: everything that decides its result.

    Attributes:
        problem: The function and its space.
        contender: The strategy, or a sampler of Optuna as ``optuna:TPESampler``.
        seed: The run's only seed.
        evaluations: Number of evaluations.
    """

    problem: FunctionProblem
    contender: Contender
    seed: int
    evaluations: int

    @property
    def key(self) -> tuple[str, str, int]:
        """Problem, label and seed, which identify the run within a study."""
        return self.problem.name, self.contender.label, self.seed


class Evaluation:
    """Evaluates a problem's function, keeps the values, and takes the time of the function out of the strategy's.

    Args:
        problem: The function.

    Attributes:
        values: Values in order of evaluation; NaN for failures.
        seconds: CPU time of the function.
    """

    def __init__(self, problem: FunctionProblem) -> None:
        self._problem = problem
        self.values: list[float] = []
        self.seconds = 0.0

    def __call__(self, trial_id: int, config: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a configuration."""
        start = time.process_time()
        try:
            outcome = outcome_from(trial_id, self._problem(dict(config)))
        except Exception as error:  # as in `tune`, an exception is a failure of the configuration
            outcome = outcome_of_exception(trial_id, error)
        self.seconds += time.process_time() - start
        # Without the warning that a NaN gives: here it is how problems fail.
        if outcome.value is None:
            outcome = Outcome.failure(trial_id, outcome.failed or "runtime", outcome.message)
        self.values.append(math.nan if outcome.value is None else outcome.value)
        return outcome


def run_study_job(job: StudyJob) -> StrategyRun:
    """Run a strategy on a function until its evaluations are spent or the space is exhausted."""
    evaluation = Evaluation(job.problem)
    start = time.process_time()
    run = run_sampler if job.contender.strategy.startswith(PREFIX) else _run_strategy
    run(job.problem, job.contender, job.seed, job.evaluations, evaluation)
    seconds = time.process_time() - start - evaluation.seconds
    costs = sign_of(job.problem.direction) * np.array(evaluation.values, dtype=np.float64)
    rows = np.full(len(costs), OUTSIDE, dtype=np.int64)  # a function has no table
    return StrategyRun(*job.key, rows, seconds, costs)


def _run_strategy(
    problem: FunctionProblem,
    contender: Contender,
    seed: int,
    evaluations: int,
    evaluate: Evaluation,
) -> None:
    optimizer = Optimizer(
        problem.space,
        problem.direction,
        seed,
        budget=evaluations,
        strategy=Search(contender.strategy, contender.settings),
    )
    for _ in range(evaluations):
        try:
            trial = optimizer.suggest()
        except SpaceExhausted:
            break
        optimizer.complete([evaluate(trial.id, trial.config)])
