"""A study: every strategy on every problem with every seed, in parallel, resumable, as a DataFrame."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from baco_like._optional import require, require_installed
from baco_like.benchmarking.comparison.plan import run_missing
from baco_like.benchmarking.comparison.runs import Contender, StrategyRun
from baco_like.benchmarking.comparison.spaces import OUTSIDE, RecordedSpace, find_spaces
from baco_like.benchmarking.comparison.store import ComparisonSpecification, RunStore
from baco_like.benchmarking.problems.problem import FunctionProblem, load_problem, problem_of
from baco_like.benchmarking.studies.optuna_samplers import PREFIX, create_sampler
from baco_like.benchmarking.studies.runs import StudyJob, run_study_job
from baco_like.exceptions import BacoWarning, Infeasible, StrategyError
from baco_like.journal.lock import sole_runner
from baco_like.records import sign_of
from baco_like.strategies import create_strategy

if TYPE_CHECKING:
    import pandas as pd

GivenProblem = str | Path | FunctionProblem | Callable[..., Any]
"""A name, a recorded space or a folder of them, a problem, or a function with its space as the attribute ``space``."""

_ROUNDING = 1e-6
"""Largest difference to a published optimum, relative to the largest value, that counts as rounding."""


def study(
    strategies: Iterable[str | Contender],
    problems: Iterable[GivenProblem],
    seeds: int | Iterable[int] = 20,
    evaluations: int = 60,
    *,
    path: str | Path | None = None,
    processes: int = 1,
) -> pd.DataFrame:
    """Run every strategy on every problem with every seed and return all evaluations.

    Args:
        strategies: Registered names, also with settings such as ``"genetic_algorithm:population=20"``; samplers of
            Optuna such as ``"optuna:TPESampler"``; or contenders with settings.
        problems: Problems; names of `baco_like.benchmarking.problems.PROBLEMS`; ``"module:function"``; or files and
            folders of recorded results.
        seeds: The seeds, or their number.
        evaluations: Evaluations of every run.
        path: A file that keeps each run as it ends; a second call with the same file continues, also with more
            strategies, problems or seeds. None keeps nothing.
        processes: Number of parallel processes. A script that uses several needs ``if __name__ == "__main__":``.

    Returns:
        One row for each evaluation: ``problem``, ``strategy``, ``seed``, ``evaluation`` (from 1), ``value`` (NaN for a
        failure), ``best`` (so far, NaN before the first success), ``regret`` (of ``best``, NaN if the optimum is
        unknown) and ``strategy_seconds`` (CPU time of the strategy, for each evaluation of the run). The attributes
        ``frame.attrs["directions"]`` and ``frame.attrs["optima"]`` map the problems.

    Raises:
        StrategyError: A strategy or a problem does not exist, a name appears twice, or one is given instead of a
            list; or a run ended with an error of this package. The message names the run.
        RuntimeError: A run ended with another exception, which is the cause; the message names the run.
        JournalError: The file is damaged, its runs differ from the study, or another process uses it.
        MissingExtra: pandas, or Optuna for its samplers, is not installed.
        ValueError: There is nothing to run, or a setting of a strategy is wrong.
    """
    require_installed("pandas", "dataframe")
    contenders = [read_contender(each) for each in _as_list("strategies", strategies)]
    found = find_problems(_as_list("problems", problems))
    numbers = list(range(seeds) if isinstance(seeds, int) else seeds)
    _check_names("strategy", [contender.label for contender in contenders])
    _check_names("problem", [problem.name for problem in found])
    if not numbers or evaluations < 1:
        raise ValueError(
            f"seeds = {seeds!r} and evaluations = {evaluations!r}: expected at least one of each"
        )
    jobs = [  # by seed, so that an interrupted study has runs of all strategies and problems
        StudyJob(problem, contender, seed, evaluations)
        for seed in numbers
        for problem in found
        for contender in contenders
    ]
    specification = _specify(found, contenders, evaluations)
    if path is not None:
        runs = _run(jobs, Path(path), specification, processes)
    else:
        with tempfile.TemporaryDirectory() as folder:
            runs = _run(jobs, Path(folder, "runs.jsonl"), specification, processes)
    for problem in found:
        _warn_of_beaten_optimum(problem, runs)
    return _to_frame(runs, found, evaluations)


def find_problems(given: Iterable[GivenProblem]) -> list[FunctionProblem]:
    """Return the problems of names, files, folders and functions with an attribute ``space``; problems stay unchanged.

    Raises:
        StrategyError: The problem does not exist.
        EvaluatorError: A file or folder has no recorded space.
    """
    problems: list[FunctionProblem] = []
    for each in given:
        if not isinstance(each, str | Path):
            problems.append(problem_of(each, getattr(each, "__name__", repr(each)[:80])))
        elif isinstance(each, Path) or os.path.exists(each):
            spaces, _ = find_spaces(Path(each), "minimize")
            problems += map(recorded_problem, spaces)
        else:
            problems.append(load_problem(each))
    return problems


def recorded_problem(space: RecordedSpace) -> FunctionProblem:
    """Return the problem of a recorded space; a configuration outside the table fails."""
    sign = sign_of(space.source.direction)
    return FunctionProblem(
        space.name,
        space.space,
        _LookUp(space),
        space.source.direction,
        sign * space.baseline.optimum,
    )


class _LookUp:
    """Looks up values in a recorded space; other processes receive the whole table."""

    def __init__(self, space: RecordedSpace) -> None:
        self._space = space

    def __call__(self, config: Mapping[str, Any]) -> float:
        row = self._space.row(config)
        if row == OUTSIDE:
            raise Infeasible("not in the recorded table")
        entry = self._space.entries[row]
        if entry.value is None:
            raise Infeasible(entry.message or "failed in the recording")
        return entry.value


T = TypeVar("T")


def _as_list(name: str, given: Iterable[T]) -> list[T]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise StrategyError(
            f"{name} = {given!r:.80}: expected a list, also for a single one: {name}=[...]"
        )
    return list(given)


def read_contender(given: str | Contender) -> Contender:
    """Return a contender, or the one of a text such as ``genetic_algorithm:population=20``.

    Raises:
        ValueError: A name or a setting is wrong.
        MissingExtra: Optuna is not installed.
    """
    contender = given if isinstance(given, Contender) else _parse_contender(given)
    check_contender(contender)
    return contender


def _parse_contender(text: str) -> Contender:
    name, *assignments = text.split(":")
    if f"{name}:" == PREFIX and assignments:
        name += f":{assignments.pop(0)}"
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator:
            raise StrategyError(f"{assignment!r} in {text!r} needs the form name=value")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value  # a plain text
    return Contender(text, name, settings)


def check_contender(contender: Contender) -> None:
    """Check that a strategy, or a sampler of Optuna, exists and accepts its settings.

    Raises:
        StrategyError: It does not.
        MissingExtra: Optuna is not installed.
    """
    if contender.strategy.startswith(PREFIX):
        create_sampler(contender.strategy, contender.settings, 0)
    else:
        create_strategy(contender.strategy, contender.settings)


def _check_names(what: str, names: Sequence[str]) -> None:
    if not names:
        raise ValueError(f"a study needs at least one {what}")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise StrategyError(
            f"{what} {name!r} appears twice; name it once, or give it another label"
        )


def _specify(
    problems: Sequence[FunctionProblem], contenders: Sequence[Contender], evaluations: int
) -> ComparisonSpecification:
    """Return everything that decides the results, as far as it can be known of a function."""
    described = {
        problem.name: {
            "space": hashlib.sha256(
                json.dumps(problem.space.to_dict(), sort_keys=True, default=str).encode()
            ).hexdigest()[:16],
            "direction": problem.direction,
            "evaluations": evaluations,
        }
        for problem in problems
    }
    version = importlib.metadata.version("baco-like")
    return ComparisonSpecification(
        {"version": version},
        described,
        {c.label: {"strategy": c.strategy, "settings": dict(c.settings)} for c in contenders},
    )


def _run(
    jobs: Sequence[StudyJob], path: Path, specification: ComparisonSpecification, processes: int
) -> list[StrategyRun]:
    with sole_runner(path):
        store = RunStore.open(path, specification)
        return run_missing(jobs, store, processes, sys.stderr, run_study_job)


def _warn_of_beaten_optimum(problem: FunctionProblem, runs: Sequence[StrategyRun]) -> None:
    if problem.best_value is None:
        return
    sign = sign_of(problem.direction)
    drawn = [run.drawn for run in runs if run.space == problem.name and run.drawn is not None]
    costs = np.concatenate(drawn)
    costs = costs[~np.isnan(costs)]
    optimum = sign * problem.best_value
    if len(costs) and costs.min() < optimum - _ROUNDING * np.abs(costs).max():
        warnings.warn(
            f"problem {problem.name!r}: the value {sign * costs.min():g} is better than optimum = "
            f"{problem.best_value:g}, so its regret is negative; correct the optimum, or leave it out",
            BacoWarning,
            stacklevel=3,
        )


def _to_frame(
    runs: Sequence[StrategyRun], problems: Sequence[FunctionProblem], evaluations: int
) -> pd.DataFrame:
    pandas = require("pandas", "dataframe")
    by_name = {problem.name: problem for problem in problems}
    parts = []
    for run in runs:
        problem = by_name[run.space]
        sign, optimum = sign_of(problem.direction), problem.best_value
        assert run.drawn is not None
        costs = run.drawn[:evaluations]
        # `fmin` ignores NaN: the best so far stays NaN only before the first success.
        best = np.fmin.accumulate(costs) if len(costs) else costs
        columns = {"problem": run.space, "strategy": run.label, "seed": run.seed}
        parts.append(
            pandas.DataFrame(
                {
                    **{name: [value] * len(costs) for name, value in columns.items()},
                    "evaluation": np.arange(1, len(costs) + 1),
                    "value": sign * costs,
                    "best": sign * best,
                    "regret": np.nan if optimum is None else best - sign * optimum,
                    "strategy_seconds": run.cpu / max(1, len(costs)),
                }
            )
        )
    frame: pd.DataFrame = pandas.concat(parts, ignore_index=True)
    frame.attrs["directions"] = {problem.name: problem.direction for problem in problems}
    frame.attrs["optima"] = {problem.name: problem.best_value for problem in problems}
    return frame
