"""A study: every contender on every problem with every seed, in parallel and resumable."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from baco_like._optional import require
from baco_like._output import explain_os_error
from baco_like.benchmarking.problems.problem import (
    OUTSIDE,
    FunctionProblem,
    digest_of_code,
    load_problem,
    problem_of,
)
from baco_like.benchmarking.problems.recorded import RecordedProblem, find_recorded
from baco_like.benchmarking.problems.run_files import RunFileProblem, read_run_file
from baco_like.benchmarking.studies.contenders import (
    GivenStrategy,
    describe_part,
    read_contender,
)
from baco_like.benchmarking.studies.results_table import (
    StudyFigures,
    compute_figures,
    curves_of,
    seconds_of,
)
from baco_like.benchmarking.studies.runs import (
    Problem,
    RunJob,
    StrategyRun,
    StudiedProblem,
    budget_on,
)
from baco_like.benchmarking.studies.store import RunStore, Specification, run_missing
from baco_like.exceptions import BacoWarning, FailureWarning, JournalError, StrategyError
from baco_like.journal.events import config_from_json
from baco_like.journal.lock import sole_runner
from baco_like.records import Status
from baco_like.records.objective import Direction, sign_of

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
        plan: Everything that decides the runs, as JSON values.
    """

    problems: Sequence[StudiedProblem]
    budgets: Mapping[str, int]
    runs: Sequence[StrategyRun]
    plan: Specification

    @cached_property
    def figures(self) -> StudyFigures:
        """The figures: values with intervals, scores, fractions of the optimum, wins and mean ranks."""
        return compute_figures(self.runs, self.problems, self.budgets)

    def to_dataframe(self) -> pd.DataFrame:
        """Return all evaluations, one row each.

        The columns are ``strategy``, ``problem``, ``direction``, ``optimum`` (NaN if it is unknown), ``seed``,
        ``evaluation`` (from 1), ``configuration`` (JSON), ``value`` (NaN for a failure), ``repeats`` (a JSON list),
        ``status`` (``ok`` or the word of the failure), ``best`` (so far, NaN before the first success), ``regret`` (of
        ``best``), ``suggestion_seconds`` (CPU time), ``evaluation_seconds`` (as recorded, or measured) and ``tag``
        (JSON: the strategy's note). No text is missing, so that the frame survives CSV, Parquet and ``pandas.concat``.

        Raises:
            MissingExtra: pandas is not installed.
        """
        pandas = require("pandas", "dataframe")
        parts = [
            pandas.DataFrame(_rows_of(run, problem))
            for problem in self.problems
            for run in self.runs
            if run.problem == problem.name and len(run.costs)
        ]
        frame: pd.DataFrame = pandas.concat(parts, ignore_index=True)
        return frame


def _rows_of(run: StrategyRun, problem: StudiedProblem) -> dict[str, Any]:
    """Return the columns of a run, see `StudyResult.to_dataframe`."""
    sign, count = sign_of(problem.direction), len(run.costs)
    optimum = np.nan if problem.best_value is None else problem.best_value
    best = curves_of([run], problem)[0, :count]
    log = [dict(entry) for entry in run.log or [{}] * count]
    if run.rows is not None and isinstance(problem, RecordedProblem):
        for entry, row in zip(log, run.rows.tolist(), strict=True):
            entry |= {} if row == OUTSIDE else problem.log_entry(row)
    return {
        "strategy": run.label,
        "problem": problem.name,
        "direction": problem.direction,
        "optimum": optimum,
        "seed": run.seed,
        "evaluation": np.arange(1, count + 1),
        "configuration": [json.dumps(entry.get("config", {})) for entry in log],
        "value": sign * run.costs,
        "repeats": [json.dumps(entry.get("repeats", [])) for entry in log],
        "status": [entry.get("failed", Status.OK.value) for entry in log],
        "best": sign * best,
        "regret": best - sign * optimum,
        "suggestion_seconds": [entry.get("cpu", np.nan) for entry in log],
        "evaluation_seconds": seconds_of(run, problem),
        "tag": [json.dumps(entry.get("tag", {})) for entry in log],
    }


def study(
    strategies: Iterable[GivenStrategy] | Mapping[str, GivenStrategy],
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
        strategies: Registered names, also with settings such as ``"genetic_algorithm:population=20"``, and with a label
            as in ``"small=genetic_algorithm:population=8"``; samplers of Optuna such as ``"optuna:TPESampler"``;
            ``"module:attribute"``; strategies, classes of them, or functions that make foreign tools, see `Contender`;
            or all of these by label.
        problems: Problems; names of `baco_like.benchmarking.problems.PROBLEMS`; ``"module:function"``; run files
            (``.toml``); or files and folders of recorded results, whose direction is the file's (see `find_problems`
            for another one).
        seeds: The seeds, or their number. Runs with the same seed are not paired, since strategies draw differently.
        evaluations: Evaluations of every run. None takes the budget of a run file, 60 on a function, and on a recorded
            space the methodology's budget, over evaluations and over time.
        draw: Whether each value is drawn from the recorded repeats, and configurations may be evaluated again.
        path: A file that keeps each evaluation; a second call with the same file continues, also with more strategies,
            problems, seeds or evaluations. Contenders whose suggestions depend on the number of evaluations are then
            measured anew. None keeps nothing.
        processes: Number of parallel processes. A script that uses several needs ``if __name__ == "__main__":``. Run
            files whose values are not exact are measured one at a time.

    Raises:
        StrategyError: A strategy or a problem does not exist, a name appears twice, one is given instead of a list, or
            one cannot be sent to other processes; or a run ended with an error of this package. The message names the
            run.
        RuntimeError: A run ended with another exception, which is the cause; the message names the run.
        EvaluatorError: A file or folder has no recorded space, or a tool of a run file is missing.
        RunFileError: A run file is wrong, or has several tasks or objectives.
        JournalError: The file is damaged, its runs differ from the study, a function now has other values than those in
            the file, or another process uses it.
        MissingExtra: Optuna is not installed, and one of its samplers takes part.
        ValueError: There is nothing to run, a setting of a strategy is wrong, or values are drawn of a function.
    """
    if isinstance(strategies, Mapping):
        contenders = [read_contender(each, label) for label, each in strategies.items()]
    else:
        contenders = [read_contender(each) for each in _as_list("strategies", strategies)]
    found, _ = find_problems(_as_list("problems", problems))
    numbers = list(range(seeds) if isinstance(seeds, int) else seeds)
    _check_names("strategy", [contender.label for contender in contenders])
    _check_names("problem", [problem.name for problem in found])
    if not numbers or (evaluations is not None and evaluations < 1):
        raise ValueError(
            f"seeds = {seeds!r} and evaluations = {evaluations!r}: expected at least one of each"
        )
    others = [problem.name for problem in found if not isinstance(problem, RecordedProblem)]
    if draw and others:
        raise StrategyError(
            f"draw = True needs recorded repeats, which {others[0]!r} does not have"
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
        with explain_os_error(JournalError, "make", place.parent):
            place.parent.mkdir(parents=True, exist_ok=True)
        with sole_runner(place):
            store = RunStore.open(place, plan := _specify(jobs))
            _check_values(found, store)
            if processes > 1:
                _check_sending(jobs)
            runs = run_missing(jobs, store, processes, sys.stderr)
    for problem in found:
        _warn_of_beaten_optimum(problem, runs)
        _warn_of_failures(problem, runs)
    counts = {name: budget.evaluations for name, budget in budgets.items()}
    return StudyResult(found, counts, runs, plan)


def find_problems(
    given: Iterable[GivenProblem], direction: Direction | None = None, *, large: bool = False
) -> tuple[list[Problem], list[str]]:
    """Return the problems of names, files, folders and functions with an attribute ``space``; problems stay unchanged.

    Args:
        given: As for `study`.
        direction: Direction of the values of recorded files; None takes the one of each file, or minimises.
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
        if isinstance(each, RecordedProblem | RunFileProblem):
            problems.append(each)
        elif not isinstance(each, str | Path):
            problems.append(problem_of(each, getattr(each, "__name__", repr(each)[:80])))
        elif Path(each).suffix == ".toml":
            problems.append(read_run_file(Path(each), large=large))
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
        raise StrategyError(f"a study needs at least one {what}")
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
                **_describe_code(job.problem),
                **asdict(job.budget),
            }
            for job in jobs
        },
        "contenders": {
            job.contender.label: {
                "strategy": describe_part(job.contender.strategy),
                "settings": describe_part(job.contender.settings),
            }
            for job in jobs
        },
    }


def _describe_code(problem: Problem) -> dict[str, Any]:
    if isinstance(problem, RunFileProblem):
        return {"context": problem.context}
    code = digest_of_code(problem.function) if isinstance(problem, FunctionProblem) else None
    return {} if code is None else {"code": code}


def _check_values(problems: Sequence[Problem], store: RunStore) -> None:
    """Evaluate some stored configurations of each function again: its digest does not contain the functions it calls.

    A function that returns two different values now is noisy; then other stored values say nothing.

    Raises:
        JournalError: A value has changed.
    """
    for problem in problems:
        logs = [log for key, log in store.logs.items() if key[0] == problem.name and log]
        if not isinstance(problem, FunctionProblem) or not logs:
            continue
        for entry in (logs[0][i] for i in {0, len(logs[0]) // 2, -1}):
            config, stored = config_from_json(entry["config"]), entry.get("value")
            now = problem.evaluate(0, config, None).outcome.value
            if now != stored and now == problem.evaluate(0, config, None).outcome.value:
                raise JournalError(
                    f"{store.path} has {stored} as the value of problem {problem.name!r} at {config!r:.200}, now it is "
                    f"{now}; give the changed function another name, or choose another file (--out)"
                )


def _check_sending(jobs: Sequence[RunJob]) -> None:
    for job in jobs:
        for what in (job.problem, job.contender):
            try:
                ForkingPickler.dumps(what)
            except Exception as error:
                raise StrategyError(
                    f"{what!r:.100} cannot be sent to another process: {error}; define it in a module, or take "
                    "processes=1"
                ) from error


def _warn_of_failures(problem: Problem, runs: Sequence[StrategyRun]) -> None:
    """Warn if no evaluation of a problem has succeeded, with the most frequent reason."""
    own = [run for run in runs if run.problem == problem.name]
    if any(np.isfinite(run.costs).any() for run in own):
        return
    reasons = Counter(
        f"{entry['failed']}: {entry.get('message', '').strip():.300}"
        for run in own
        for entry in run.log
        if "failed" in entry
    )
    for reason, _ in reasons.most_common(1):
        warnings.warn(
            f"problem {problem.name!r}: all evaluations failed, most often with {reason}",
            FailureWarning,
            stacklevel=3,
        )


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
