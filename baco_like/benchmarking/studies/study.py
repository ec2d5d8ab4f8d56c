"""A study: every contender on every problem with every seed, in parallel and resumable."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from baco_like._optional import require
from baco_like.benchmarking.problems.problem import load_problem, problem_of
from baco_like.benchmarking.problems.recorded import RecordedProblem, find_recorded
from baco_like.benchmarking.studies.contenders import read_contender
from baco_like.benchmarking.studies.figures import StudyFigures, compute_figures, curves_of
from baco_like.benchmarking.studies.runs import Contender, Problem, RunJob, StrategyRun, budget_on
from baco_like.benchmarking.studies.store import RunStore, Specification, run_missing
from baco_like.exceptions import BacoWarning, StrategyError
from baco_like.journal.lock import sole_runner
from baco_like.records import Direction, sign_of

if TYPE_CHECKING:
    import pandas as pd

GivenProblem = str | Path | Problem | Callable[..., Any]
"""A name, a recorded file or a folder of them, a problem, or a function with its space as the attribute ``space``."""

_ROUNDING = 1e-6
"""Largest difference to a published optimum, relative to the largest value, that counts as rounding."""


@dataclass(frozen=True, eq=False)
class StudyResult:
    """The finished runs of a study.

    Attributes:
        problems: The problems.
        budgets: Evaluations of a run, by problem.
        runs: The runs of every contender on every problem with every seed.
    """

    problems: Sequence[Problem]
    budgets: Mapping[str, int]
    runs: Sequence[StrategyRun]

    @cached_property
    def figures(self) -> StudyFigures:
        """The figures: values with intervals, scores, fractions of the optimum, wins and mean ranks."""
        return compute_figures(self.runs, self.problems, self.budgets)

    def to_dataframe(self) -> pd.DataFrame:
        """Return all evaluations, one row each.

        The columns are ``problem``, ``direction``, ``optimum`` (NaN if it is unknown), ``strategy``, ``seed``,
        ``evaluation`` (from 1), ``value`` (NaN for a failure), ``best`` (so far, NaN before the first success),
        ``regret`` (of ``best``) and ``strategy_seconds`` (CPU time of the strategy, for each evaluation of the run).

        Raises:
            MissingExtra: pandas is not installed.
        """
        pandas = require("pandas", "dataframe")
        parts = []
        for problem in self.problems:
            sign = sign_of(problem.direction)
            optimum = np.nan if problem.best_value is None else problem.best_value
            for run in (run for run in self.runs if run.problem == problem.name):
                count = len(run.costs)
                best = curves_of([run], problem)[0, :count]
                parts.append(
                    pandas.DataFrame(
                        {
                            "problem": [problem.name] * count,
                            "direction": problem.direction,
                            "optimum": optimum,
                            "strategy": run.label,
                            "seed": run.seed,
                            "evaluation": np.arange(1, count + 1),
                            "value": sign * run.costs,
                            "best": sign * best,
                            "regret": best - sign * optimum,
                            "strategy_seconds": run.cpu / max(1, count),
                        }
                    )
                )
        frame: pd.DataFrame = pandas.concat(parts, ignore_index=True)
        return frame


def study(
    strategies: Iterable[str | Contender],
    problems: Iterable[GivenProblem],
    seeds: int | Iterable[int] = 20,
    evaluations: int | None = None,
    *,
    draw: bool = False,
    path: str | Path | None = None,
    processes: int = 1,
) -> StudyResult:
    """Run every strategy on every problem with every seed.

    Progress is shown on the standard error.

    Args:
        strategies: Registered names, also with settings such as ``"genetic_algorithm:population=20"``; samplers of
            Optuna such as ``"optuna:TPESampler"``; or contenders with settings.
        problems: Problems; names of `baco_like.benchmarking.problems.PROBLEMS`; ``"module:function"``; or files and
            folders of recorded results, whose values are minimised (see `find_problems` for others).
        seeds: The seeds, or their number. Runs with the same seed are not paired, since strategies draw differently.
        evaluations: Evaluations of every run. None takes 60 on a function, and on a recorded space the methodology's
            budget, over evaluations and over time.
        draw: Whether each value is drawn from the recorded repeats, and configurations may be evaluated again.
        path: A file that keeps each run as it ends; a second call with the same file continues, also with more
            strategies, problems or seeds. None keeps nothing.
        processes: Number of parallel processes. A script that uses several needs ``if __name__ == "__main__":``.

    Raises:
        StrategyError: A strategy or a problem does not exist, a name appears twice, or one is given instead of a
            list; or a run ended with an error of this package. The message names the run.
        RuntimeError: A run ended with another exception, which is the cause; the message names the run.
        EvaluatorError: A file or folder has no recorded space.
        JournalError: The file is damaged, its runs differ from the study, or another process uses it.
        MissingExtra: Optuna is not installed, and one of its samplers takes part.
        ValueError: There is nothing to run, a setting of a strategy is wrong, or values are drawn of a function.
    """
    contenders = [read_contender(each) for each in _as_list("strategies", strategies)]
    found, _ = find_problems(_as_list("problems", problems))
    numbers = list(range(seeds) if isinstance(seeds, int) else seeds)
    _check_names("strategy", [contender.label for contender in contenders])
    _check_names("problem", [problem.name for problem in found])
    if not numbers or (evaluations is not None and evaluations < 1):
        raise ValueError(
            f"seeds = {seeds!r} and evaluations = {evaluations!r}: expected at least one of each"
        )
    functions = [problem.name for problem in found if not isinstance(problem, RecordedProblem)]
    if draw and functions:
        raise StrategyError(
            f"draw = True needs recorded repeats, which {functions[0]!r} does not have"
        )
    budgets = {problem.name: budget_on(problem, evaluations) for problem in found}
    jobs = [  # by seed, so that an interrupted study has runs of all strategies and problems
        RunJob(problem, contender, seed, budgets[problem.name], draw)
        for seed in numbers
        for problem in found
        for contender in contenders
    ]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "runs.jsonl") if path is None else Path(path)
        with sole_runner(place):
            store = RunStore.open(place, _specify(jobs))
            runs = run_missing(jobs, store, processes, sys.stderr)
    for problem in found:
        _warn_of_beaten_optimum(problem, runs)
    return StudyResult(found, {name: budget.evaluations for name, budget in budgets.items()}, runs)


def find_problems(
    given: Iterable[GivenProblem], direction: Direction = "minimize", *, large: bool = False
) -> tuple[list[Problem], list[str]]:
    """Return the problems of names, files, folders and functions with an attribute ``space``; problems stay unchanged.

    Args:
        given: As for `study`.
        direction: Direction of the values of recorded files.
        large: Whether these files may have more than 64 MiB, unpacked.

    Returns:
        The problems, and one line for each file of a folder that is not a recorded space.

    Raises:
        StrategyError: The problem does not exist.
        EvaluatorError: A file or folder has no recorded space.
    """
    problems: list[Problem] = []
    notes: list[str] = []
    for each in given:
        if isinstance(each, RecordedProblem):
            problems.append(each)
        elif not isinstance(each, str | Path):
            problems.append(problem_of(each, getattr(each, "__name__", repr(each)[:80])))
        elif isinstance(each, Path) or os.path.exists(each):
            recorded, left_out = find_recorded(Path(each), direction, large=large)
            problems += recorded
            notes += left_out
        else:
            problems.append(load_problem(each))
    return problems, notes


T = TypeVar("T")


def _as_list(name: str, given: Iterable[T]) -> list[T]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise StrategyError(
            f"{name} = {given!r:.80}: expected a list, also for a single one: {name}=[...]"
        )
    return list(given)


def _check_names(what: str, names: Sequence[str]) -> None:
    if not names:
        raise ValueError(f"a study needs at least one {what}")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise StrategyError(
            f"{what} {name!r} appears twice; name it once, or give it another label"
        )


def _specify(jobs: Sequence[RunJob]) -> Specification:
    """Return everything that decides the results, as far as it can be known of a function."""
    version = importlib.metadata.version("baco-like")
    return {
        "common": {"draw": jobs[0].draw, "version": version},
        "problems": {
            job.problem.name: {
                "digest": job.problem.digest,
                "direction": job.problem.direction,
                **asdict(job.budget),
            }
            for job in jobs
        },
        "contenders": {
            job.contender.label: {
                "strategy": job.contender.strategy,
                "settings": dict(job.contender.settings),
            }
            for job in jobs
        },
    }


def _warn_of_beaten_optimum(problem: Problem, runs: Sequence[StrategyRun]) -> None:
    if problem.best_value is None or isinstance(problem, RecordedProblem):
        return
    sign = sign_of(problem.direction)
    costs = np.concatenate([run.costs for run in runs if run.problem == problem.name])
    costs = costs[~np.isnan(costs)]
    optimum = sign * problem.best_value
    if len(costs) and costs.min() < optimum - _ROUNDING * np.abs(costs).max():
        warnings.warn(
            f"problem {problem.name!r}: the value {sign * costs.min():g} is better than optimum = "
            f"{problem.best_value:g}, so its regret is negative; correct the optimum, or leave it out",
            BacoWarning,
            stacklevel=3,
        )
