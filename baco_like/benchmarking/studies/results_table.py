"""Compute the figures of a study: values with intervals, scores, fractions of the optimum, wins and mean ranks."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like._typing import Array, Ints, Rng
from baco_like.benchmarking import score
from baco_like.benchmarking.problems.recorded import RecordedProblem
from baco_like.benchmarking.score import Baseline, Performance
from baco_like.benchmarking.studies.runs import StrategyRun, StudiedProblem
from baco_like.benchmarking.studies.statistics import (
    FEWEST,
    MeanRanks,
    PairTests,
    compare_pairs,
    interval,
    mean_interval,
    mean_ranks,
)
from baco_like.records.objective import sign_of

_TIMES = 200
"""Number of points in time at which a score is computed."""
_RESAMPLES, _TIME_RESAMPLES, _VALUE_RESAMPLES = 500, 100, 2000
_MIN_CUTOFF = 0.05

ALL = "all"
"""Stands for all problems in the table of figures."""

Curves = Mapping[str, Array]
"""Best cost so far by problem, ``(runs, evaluations)`` each."""

COLUMNS = (
    *("strategy", "problem", "runs", "budget", "mean_rank", "mean", "mean_low", "mean_high"),
    *("median", "median_low", "median_high", "regret", "regret_low", "regret_high"),
    *("score_evaluations", "score_evaluations_low", "score_evaluations_high"),
    *("score_time", "score_time_low", "score_time_high", "fraction_of_optimum"),
    *("effect", "p_value", "failures", "wins", "losses", "ms_per_suggestion"),
)
"""Columns of the table of figures."""


@dataclass(frozen=True, eq=False)
class Standing:
    """Scores of a contender over all recorded problems, over evaluations or over time.

    Attributes:
        by_problem: Its score on each problem.
        score: Mean of these scores.
        low: Lower end of the mean's interval.
        high: Upper end of the mean's interval.
        shares: Shares of the budget, ``(p,)``.
        curve: Mean score of the problems at these shares, ``(p,)``.
        band: Interval of the curve, ``(2, p)``.
    """

    by_problem: Mapping[str, float]
    score: float
    low: float
    high: float
    shares: Array
    curve: Array
    band: Array


@dataclass(frozen=True, eq=False)
class StudyFigures:
    """The figures of a study; contenders and problems are in their given order.

    Attributes:
        labels: The contenders.
        problems: Names of the problems.
        budgets: Evaluations of a run, by problem.
        curves: Best cost after each evaluation by label, then by problem, ``(runs, evaluations)``; see `curves_of`.
        evaluations: Standing over evaluations, by label; empty if no problem can be scored.
        time: Standing over simulated time, by label, on the scored problems whose table has times; empty without any,
            or if a contender has no success within the time.
        unscored: Why the other problems have no score, by name.
        contests: The tests of all pairs at the end of the budget, by problem. Problems without a success, studies with
            a single seed and those of a single strategy have none.
        ranks: The mean ranks; None for a single strategy or without a success.
        rows: The table: for each contender a row for each problem, then one with the problem ``all``. Keys are
            `COLUMNS`; a figure that does not exist is missing or NaN.
    """

    labels: Sequence[str]
    problems: Sequence[str]
    budgets: Mapping[str, int]
    curves: Mapping[str, Curves]
    evaluations: Mapping[str, Standing]
    time: Mapping[str, Standing]
    unscored: Mapping[str, str]
    contests: Mapping[str, PairTests]
    ranks: MeanRanks | None
    rows: Sequence[Mapping[str, Any]]

    @property
    def wins(self) -> Ints:
        """Number of problems on which row i beats column j, ``(contenders, contenders)``."""
        none = np.zeros((len(self.labels),) * 2, dtype=np.bool_)
        won = [tests.wins for tests in self.contests.values()]
        table: Ints = np.sum([none, *won], axis=0, dtype=np.int64)
        return table

    def row(self, label: str, problem: str = ALL) -> Mapping[str, Any]:
        """Return the row of a contender on a problem."""
        return next(r for r in self.rows if (r["strategy"], r["problem"]) == (label, problem))


def compute_figures(
    runs: Sequence[StrategyRun], problems: Sequence[StudiedProblem], budgets: Mapping[str, int]
) -> StudyFigures:
    """Return the figures of finished runs.

    Args:
        runs: Runs of every contender on every problem with the same seeds.
        problems: The problems.
        budgets: Evaluations of a run, by the problem's name; later ones count for the score over time only.
    """
    labels = list(dict.fromkeys(run.label for run in runs))
    groups: dict[str, dict[str, list[StrategyRun]]] = {
        label: {
            p.name: [r for r in runs if (r.label, r.problem) == (label, p.name)] for p in problems
        }
        for label in labels
    }
    curves = {
        label: {p.name: curves_of(group[p.name], p) for p in problems}
        for label, group in groups.items()
    }
    worst = {p.name: _worst_cost(p, [r for r in runs if r.problem == p.name]) for p in problems}
    final = {
        name: [final_costs(curves[label][name], cost, budgets[name]) for label in labels]
        for name, cost in worst.items()
    }
    solved = [name for name, cost in worst.items() if not math.isnan(cost)]
    contests = {
        name: compare_pairs(final[name])
        for name in solved
        if min(map(len, final[name])) > 1 and len(labels) > 1
    }
    means = {name: [costs.mean() for costs in final[name]] for name in solved}
    ranks = mean_ranks(labels, list(means.values()))
    cutoffs = {
        p.name: cutoff_of(p.baseline, budgets[p.name]) for p in problems if p.baseline is not None
    }
    scored, unscored = _find_scored(problems, curves, cutoffs)
    standings = _compute_standings(groups, curves, scored, cutoffs)
    rng = np.random.default_rng(0)
    values = {
        (label, p.name): _summarise(final[p.name][i], p, rng)
        for p in problems
        for i, label in enumerate(labels)
    }

    def row_on(p: StudiedProblem, i: int, label: str) -> dict[str, Any]:
        row: dict[str, Any] = {"strategy": label, "problem": p.name, "budget": budgets[p.name]}
        row |= _count_runs(groups[label][p.name]) | values[label, p.name]
        at_end = score.at_budgets(curves[label][p.name], [budgets[p.name]])
        row["fraction_of_optimum"] = _mean_fraction(at_end, p, worst[p.name])
        if (contest := contests.get(p.name)) is not None:
            best = int(np.argmin(means[p.name]))
            row |= {"effect": contest.effects[i, best], "p_value": contest.p_values[i, best]}
            row |= {"wins": int(contest.wins[i].sum()), "losses": int(contest.wins[:, i].sum())}
        for over, by_label in standings.items():
            if by_label and p.name in by_label[label].by_problem:
                row[f"score_{over}"] = by_label[label].by_problem[p.name]
        return row

    def row_of_all(label: str, own: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        row: dict[str, Any] = {"strategy": label, "problem": ALL}
        row |= _count_runs([run for run in runs if run.label == label])
        row["fraction_of_optimum"] = np.mean([each["fraction_of_optimum"] for each in own])
        row |= {key: sum(each.get(key, 0) for each in own) for key in ("wins", "losses")}
        if ranks is not None:
            row["mean_rank"] = ranks.ranks[label]
        for over, by_label in standings.items():
            if by_label:
                found = by_label[label]
                row |= _with_interval(f"score_{over}", found.score, (found.low, found.high))
        return row

    rows: list[Mapping[str, Any]] = []
    for i, label in enumerate(labels):
        own = [row_on(p, i, label) for p in problems]
        rows += [*own, row_of_all(label, own)]
    return StudyFigures(
        labels=labels,
        problems=[p.name for p in problems],
        budgets=budgets,
        curves=curves,
        **standings,
        unscored=unscored,
        contests=contests,
        ranks=ranks,
        rows=rows,
    )


def curves_of(runs: Sequence[StrategyRun], problem: StudiedProblem) -> Array:
    """Return the best cost of each run after each evaluation, ``(runs, evaluations)``; NaN before the first success.

    If values were drawn, it is the recorded cost of the configuration with the smallest mean of drawn costs so far.
    This cost may increase: it is the cost that a user would get, without the luck of a single measurement.
    """
    lines = [_best_costs(run, problem) for run in runs]
    width = max(map(len, lines))
    return np.array([np.pad(line, (0, width - len(line)), mode="edge") for line in lines])


def _best_costs(run: StrategyRun, problem: StudiedProblem) -> Array:
    if not len(run.costs):
        return np.array([math.nan])
    if run.best is not None:
        return run.best
    if run.rows is None or not isinstance(problem, RecordedProblem):
        return np.asarray(np.fmin.accumulate(run.costs))
    recorded = problem.costs[run.rows]
    if np.array_equal(run.costs, recorded, equal_nan=True):
        return np.asarray(np.fmin.accumulate(recorded))
    sums: dict[int, float] = {}
    counts: dict[int, int] = {}
    means: dict[int, float] = {}
    costs = np.full(len(run.rows), np.nan)
    best: int | None = None
    for i, (row, cost) in enumerate(zip(run.rows.tolist(), run.costs.tolist(), strict=True)):
        if not np.isnan(cost):
            sums[row] = sums.get(row, 0.0) + cost
            counts[row] = counts.get(row, 0) + 1
            means[row] = sums[row] / counts[row]
            if best is None or row == best or means[row] < means[best]:
                best = min(means, key=lambda r: means[r])
        if best is not None:
            costs[i] = problem.costs[best]
    return costs


def final_costs(curves: Array, worst: float, evaluations: int) -> Array:
    """Return the best cost of each run at the end, ``(runs,)``; the worst one if all evaluations failed."""
    last = score.at_budgets(curves, [evaluations])[:, 0]
    return np.where(np.isnan(last), worst, last)


def _worst_cost(problem: StudiedProblem, runs: Sequence[StrategyRun]) -> float:
    """Return the worst recorded cost, or the worst that any run has observed; NaN without a success."""
    if problem.baseline is not None:
        return float(problem.baseline.costs[-1])
    return float(np.fmax.reduce(np.concatenate([[math.nan], *(run.costs for run in runs)])))


def _count_runs(runs: Sequence[StrategyRun]) -> dict[str, Any]:
    evaluations = max(1, sum(len(run.costs) for run in runs))
    return {
        "runs": len(runs),
        "failures": float(np.mean([np.isnan(run.costs).mean() for run in runs if len(run.costs)])),
        "ms_per_suggestion": 1e3 * sum(run.cpu for run in runs) / evaluations,
    }


def _summarise(costs: Array, problem: StudiedProblem, rng: Rng) -> dict[str, float]:
    """Return the mean, the median and the mean regret of final costs, with intervals from ten runs on."""
    sign, optimum = sign_of(problem.direction), problem.best_value
    regrets = costs - (math.nan if optimum is None else sign * optimum)
    values, runs = sign * costs, len(costs)
    medians = np.median(values[rng.integers(runs, size=(_VALUE_RESAMPLES, runs))], axis=1)
    ends = mean_interval(costs, rng)
    return (
        _with_interval("mean", values.mean(), sorted(sign * ends))
        | _with_interval("median", np.median(values), interval(medians, runs))
        | _with_interval("regret", regrets.mean(), ends + (regrets - costs).mean())
    )


def _with_interval(name: str, value: float, ends: Sequence[float] | Array) -> dict[str, float]:
    low, high = ends
    return {name: float(value), f"{name}_low": float(low), f"{name}_high": float(high)}


def _mean_fraction(costs: Array, problem: StudiedProblem, worst: float) -> float:
    if problem.best_value is None or math.isnan(worst):
        return math.nan
    optimum = sign_of(problem.direction) * problem.best_value
    if optimum == 0 or optimum < 0 < worst:
        return math.nan
    return float(score.fraction_of_optimum(costs, optimum).mean())


# Scores ---------------------------------------------------------------------------------------------------------------


def _find_scored(
    problems: Sequence[StudiedProblem], curves: Mapping[str, Curves], cutoffs: Mapping[str, float]
) -> tuple[dict[str, StudiedProblem], dict[str, str]]:
    """Return the problems that can be scored, and why the others cannot, by name."""
    scored: dict[str, StudiedProblem] = {}
    unscored: dict[str, str] = {}
    for p in problems:
        if p.baseline is None:
            unscored[p.name] = "the distribution of its values is unknown"
            continue
        try:
            for own in curves.values():
                score.score(own[p.name], p.baseline, cutoff=cutoffs[p.name])
            scored[p.name] = p
        except ValueError as error:
            unscored[p.name] = str(error)
    return scored, unscored


def _compute_standings(
    groups: Mapping[str, Mapping[str, Sequence[StrategyRun]]],
    curves: Mapping[str, Curves],
    problems: Mapping[str, StudiedProblem],
    cutoffs: Mapping[str, float],
) -> dict[str, dict[str, Standing]]:
    """Return the standings over ``evaluations`` and ``time``, by label; empty where there is nothing to score."""
    found: dict[str, dict[str, Standing]] = {"evaluations": {}, "time": {}}
    rng = np.random.default_rng(0)
    if problems:
        found["evaluations"] = {
            label: compute_standing(own, problems, cutoffs, rng) for label, own in curves.items()
        }
    timed = {
        name: p
        for name, p in problems.items()
        if p.baseline is not None and not np.isnan(p.baseline.median_seconds)
    }
    with suppress(score.NothingToScore):
        seconds = {
            label: {name: clock(group[name], p) for name, p in timed.items()}
            for label, group in groups.items()
        }
        found["time"] = {
            label: compute_standing(own, timed, cutoffs, rng, seconds[label])
            for label, own in curves.items()
            if timed
        }
    return found


def cutoff_of(baseline: Baseline, evaluations: int) -> float:
    """Return the share of the way from the median to the optimum that random search reaches within a budget.

    For the methodology's own budget it is the methodology's cutoff.
    """
    if evaluations == baseline.evaluations()[1]:
        return score.CUTOFF
    reached = float(baseline.at_evaluations(evaluations))
    share = (baseline.median - reached) / (baseline.median - baseline.optimum)
    return float(np.clip(share, _MIN_CUTOFF, 1.0))


def compute_standing(
    curves: Curves,
    problems: Mapping[str, StudiedProblem],
    cutoffs: Mapping[str, float],
    rng: Rng,
    seconds: Curves | None = None,
    resamples: int | None = None,
) -> Standing:
    """Return the standing of a contender, with bootstrap intervals over the runs of each problem from ten runs on.

    Args:
        curves: Its best costs so far.
        problems: Problems with a baseline, by name; only these are scored.
        cutoffs: The cutoffs, by problem.
        rng: Random generator of the bootstrap.
        seconds: The times of `clock`, by problem; None scores over evaluations.
        resamples: Number of bootstrap samples; by default fewer over time, which takes longer.
    """

    @functools.cache  # three runs have only ten samples in any order
    def score_runs(name: str, runs: tuple[int, ...]) -> Performance:
        """Return the score of some runs on a problem; a run may occur several times."""
        costs, baseline, cutoff = curves[name][list(runs)], problems[name].baseline, cutoffs[name]
        assert baseline is not None
        if seconds is None:
            return score.score(costs, baseline, cutoff=cutoff)
        times = seconds[name][list(runs)]
        return score.score_over_time(costs, times, baseline, cutoff=cutoff, points=_TIMES)

    if resamples is None:
        resamples = _RESAMPLES if seconds is None else _TIME_RESAMPLES
    sizes = {name: len(curves[name]) for name in problems}
    fewest = min(sizes.values())
    if fewest < FEWEST:
        resamples = 1
    performances = {name: score_runs(name, tuple(range(n))) for name, n in sizes.items()}
    shares, curve = score.aggregate_curve(list(performances.values()))
    samples = [
        [
            score_runs(name, tuple(sorted(rng.integers(n, size=n).tolist())))
            for name, n in sizes.items()
        ]
        for _ in range(resamples)
    ]
    low, high = interval([score.aggregate(sample) for sample in samples], fewest)
    return Standing(
        by_problem={name: performance.mean for name, performance in performances.items()},
        score=score.aggregate(list(performances.values())),
        low=float(low),
        high=float(high),
        shares=shares,
        curve=curve,
        band=interval([score.aggregate_curve(sample)[1] for sample in samples], fewest),
    )


def clock(runs: Sequence[StrategyRun], problem: StudiedProblem) -> Array:
    """Return the time at the end of each evaluation, ``(runs, evaluations)``; NaN after a run's end."""
    times = np.full((len(runs), max(len(run.costs) for run in runs)), np.nan)
    for line, run in zip(times, runs, strict=True):
        line[: len(run.costs)] = np.cumsum(np.nan_to_num(seconds_of(run, problem)))
    return times


def seconds_of(run: StrategyRun, problem: StudiedProblem) -> Array:
    """Return the duration of each evaluation with all its stages, ``(k,)``; NaN if it is unknown."""
    if run.rows is not None and isinstance(problem, RecordedProblem):
        return problem.seconds[run.rows]
    return np.array([entry.get("seconds", math.nan) for entry in run.log])
