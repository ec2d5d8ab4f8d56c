"""One score for a strategy or package on all kinds of space at once.

    OMP_NUM_THREADS=1 python benchmarks/quality/suite.py --data DIR --out rows.jsonl --peers auto,bayesian --seeds 20

The figure of merit of a run is its relative log regret (its area): the mean over the evaluations of log(best cost so
far / least cost), divided by the expectation of uniform random search. Lower is better: 1 is as good as random search,
0 finds the optimum at once. Before the
first success the worst cost counts. `--out` (JSONL, one row per run) keeps every run; a later call continues it and
may ask for more peers, spaces or seeds. `--seeds 0` only reports. DIR as in `compare.py`, with the folder `compilers`
(see `peers/compilers.py`); without it the spaces made in code and recorded here are left.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import compare
import numpy as np
import runs
from peers import problems
from peers.figures import Runs, best_so_far
from peers.problem import Problem

from baco_like.benchmarking.score import random_curve

AGAINST = ("bayesian", "baco", "random_forest")
"""Our other model-based strategies; the default must not be worse than the best of them."""

SHOWN = (10, 20, 40, 60)
RESAMPLES = 2000


@cache
def random_regret(problem: Problem, evaluations: int) -> np.ndarray:
    """Return the expected log regret of random search after each evaluation, ``(evaluations,)``."""
    worst = np.nanmax(problem.costs)
    regrets = np.log(np.where(np.isnan(problem.costs), worst, problem.costs) / problem.best)
    return np.maximum(random_curve(regrets, min(evaluations, len(regrets))), 1e-12)


@dataclass(frozen=True, eq=False)
class Scored:
    """The runs of one peer on one problem.

    Attributes:
        problem: The problem.
        values: Of each run in order of evaluation, None where it failed.
        evaluations: How many of them count.
    """

    problem: Problem
    values: Sequence[Sequence[float | None]]
    evaluations: int

    @cached_property
    def regrets(self) -> np.ndarray:
        """Log regret after each evaluation, ``(runs, evaluations)``; a run that ended keeps its best."""
        curves = best_so_far([list(one) for one in self.values])
        missing = self.evaluations - curves.shape[1]
        if missing > 0:
            curves = np.concatenate([curves, np.repeat(curves[:, -1:], missing, axis=1)], axis=1)
        curves = curves[:, : self.evaluations]
        curves = np.where(np.isnan(curves), np.nanmax(self.problem.costs), curves)
        return np.log(np.maximum(curves / self.problem.best, 1.0))

    @cached_property
    def areas(self) -> np.ndarray:
        """Area of each run relative to random search's expectation, ``(runs,)``."""
        return self.regrets.mean(axis=1) / random_regret(self.problem, self.evaluations).mean()

    @cached_property
    def resampled(self) -> np.ndarray:
        """Means of resampled areas, ``(RESAMPLES,)``."""
        rng = np.random.default_rng(zlib.crc32(self.problem.name.encode()))
        return self.areas[rng.integers(len(self.areas), size=(RESAMPLES, len(self.areas)))].mean(1)

    @property
    def mean(self) -> float:
        return float(self.areas.mean())

    def is_worse_than(self, other: "Scored | float") -> bool:
        """Return whether the area is greater than another one, by a 95 % interval over seeds."""
        rival = (
            other
            if isinstance(other, float)
            else np.random.default_rng(1).permutation(other.resampled)
        )
        return bool(np.quantile(self.resampled - rival, 0.025) > 0)


Table = Mapping[tuple[str, str], Scored]
"""By peer and space."""


def table_of(rows: Sequence[runs.Row], data: Path | None, evaluations: int) -> Table:
    found: dict[tuple[str, str], list[runs.Row]] = {}
    for row in rows:
        if row["budget"] >= evaluations and row["values"]:
            found.setdefault((row["peer"], row["space"]), []).append(row)
    return {
        key: Scored(problems.problem(key[1], data), [row["values"] for row in some], evaluations)
        for key, some in found.items()
    }


def report(table: Table, groups: Mapping[str, str], evaluations: int) -> str:
    """Return the summary, the means by group and the areas by space."""
    names = list(dict.fromkeys(peer for peer, _ in table))
    spaces = [one for one in groups if any((name, one) in table for name in names)]
    return "\n\n".join(
        [
            f"Relative log regret over {evaluations} evaluations (lower is better; random search is 1):",
            _summary(table, names, spaces),
            "Mean log regret (not relative) after so many evaluations, by kind of space:",
            _by_group(table, names, spaces, groups, evaluations),
            "Area by space, with the half width of the 95 % interval:",
            _by_space(table, names, spaces),
        ]
    )


def _summary(table: Table, names: Sequence[str], spaces: Sequence[str]) -> str:
    head = ["", "spaces", "seeds", "mean area", "95 %", "worst space", "worse than random"]
    head += [f"worse than {one}" for one in AGAINST] + [
        "worse than the best of them",
        "score @60, gpu",
    ]
    lines = []
    for name in names:
        mine = {space: table[name, space] for space in spaces if (name, space) in table}
        means = np.mean([one.resampled for one in mine.values()], axis=0)
        low, high = np.quantile(means, [0.025, 0.975])
        worst = max(mine, key=lambda space: mine[space].mean)
        line = [name, f"{len(mine)}", f"{min(len(one.areas) for one in mine.values())}"]
        line += [f"{np.mean([one.mean for one in mine.values()]):.3f}", f"{low:.3f} to {high:.3f}"]
        line += [f"{worst} {mine[worst].mean:.2f}"]
        line += [_count(one.is_worse_than(1.0) for one in mine.values())]
        for other in AGAINST:
            both = [(one, table[other, s]) for s, one in mine.items() if (other, s) in table]
            line.append("" if name == other else _count(a.is_worse_than(b) for a, b in both))
        line.append(_count(one.is_worse_than(best) for one, best in _against_best(table, mine)))
        lines.append([*line, _community_score(mine)])
    return runs.table(head, lines)


def _count(flags: Any) -> str:
    every = list(flags)
    return f"{sum(every)} of {len(every)}" if every else ""


def _against_best(table: Table, mine: Mapping[str, Scored]) -> list[tuple[Scored, Scored]]:
    found = []
    for space, one in mine.items():
        rivals = [table[other, space] for other in AGAINST if (other, space) in table]
        if rivals:
            found.append((one, min(rivals, key=lambda rival: rival.mean)))
    return found


def _community_score(mine: Mapping[str, Scored]) -> str:
    """Return the mean score of the median curves on the GPU tables, as in `compare.py`."""
    scores = []
    for one in mine.values():
        if one.problem.group == "gpu":
            some = [{"values": v, "budget": 60, "stopped": False} for v in one.values]
            at, score = Runs(one.problem, some).median
            scores.append(float(score[0, at <= 60].mean()))
    return f"{np.mean(scores):.2f} ({len(scores)})" if scores else ""


def _by_group(
    table: Table,
    names: Sequence[str],
    spaces: Sequence[str],
    groups: Mapping[str, str],
    evaluations: int,
) -> str:
    kinds = list(dict.fromkeys(groups[one] for one in spaces))
    shown = [n for n in SHOWN if n <= evaluations]
    lines = []
    for name in ("random (expected)", *names):
        line = [name]
        for kind in kinds:
            own = [s for s in spaces if groups[s] == kind and all((n, s) in table for n in names)]
            line.append(" / ".join(_at(table, name, own, n, evaluations) for n in shown))
        lines.append(line)
    return runs.table(["", *(f"{kind} {'/'.join(map(str, shown))}" for kind in kinds)], lines)


def _at(table: Table, name: str, spaces: Sequence[str], after: int, evaluations: int) -> str:
    if not spaces:
        return ""
    if name == "random (expected)":
        every = [next(v for k, v in table.items() if k[1] == s).problem for s in spaces]
        found = [random_regret(one, evaluations)[after - 1] for one in every]
    else:
        found = [table[name, s].regrets[:, after - 1].mean() for s in spaces]
    return f"{np.mean(found):.2f}"


def _by_space(table: Table, names: Sequence[str], spaces: Sequence[str]) -> str:
    lines = []
    for space in spaces:
        line = [space]
        for name in names:
            one = table.get((name, space))
            line.append("" if one is None else _shown(one))
        lines.append(line)
    return runs.table(["", *names], lines)


def _shown(one: Scored) -> str:
    low, high = np.quantile(one.resampled, [0.025, 0.975])
    return f"{one.mean:.2f} ± {(high - low) / 2:.2f}"


def main() -> None:
    parser = compare.arguments(__doc__, max(SHOWN), 600.0, "names or groups")
    parser.set_defaults(peers=["auto"])
    args = parser.parse_args()
    groups = problems.suite_names(args.data)
    spaces = compare.chosen_spaces(args.spaces, groups)
    compare.measure(args, dict.fromkeys(spaces, args.budget))
    rows = [r for r in compare.done(args.out) if r["space"] in spaces and r["peer"] in args.peers]
    text = report(table_of(rows, args.data, args.budget), groups, args.budget)
    runs.publish(f"# The suite\n\n{runs.provenance()}\n\n{text}", args.table)


if __name__ == "__main__":
    main()
