"""The runs that a claim needs, and the finished runs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from baco_like._typing import Array
from baco_like.benchmarking.problems.problem import OUTSIDE
from baco_like.benchmarking.problems.recorded import RecordedProblem
from baco_like.benchmarking.score import Baseline, at_budgets, fraction_of_optimum
from baco_like.benchmarking.studies import Contender, RunBudget
from baco_like.benchmarking.studies.results_table import clock, curves_of
from baco_like.benchmarking.studies.runs import StrategyRun, budget_on

LOW, MEDIUM = (25, 50, 100, 200), (400, 800, 1600)
"""Budgets of the 2022 survey."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One strategy with its settings and budget.

    Attributes:
        name: Label in tables.
        strategy: Registered name, or the name of another package.
        settings: Settings of the strategy.
        evaluations: The budget; None for the methodology's.
        draw: Whether values are drawn from the recorded repeats.
        slow: Whether it takes much longer than the others; such runs start when the others have some runs.
    """

    name: str
    strategy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    evaluations: int | None = None
    draw: bool = False
    slow: bool = False

    @property
    def label(self) -> str:
        budget = "95 %" if self.evaluations is None else str(self.evaluations)
        return f"{self.name} @ {budget}" + (" drawn" if self.draw else "")

    @property
    def contender(self) -> Contender:
        return Contender(self.label, self.strategy, self.settings)

    def budget(self, recorded: RecordedProblem) -> RunBudget:
        return budget_on(recorded, self.evaluations)

    def __hash__(self) -> int:
        return hash(self.label)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.label == other.label


@dataclass(frozen=True, eq=False)
class Evidence:
    """The finished runs.

    Attributes:
        spaces: By name.
        runs: All of them.
        missing: Why entries did not run, by label.
        resamples: Number of bootstrap resamples.
    """

    spaces: Mapping[str, RecordedProblem]
    runs: Sequence[StrategyRun]
    missing: Mapping[str, str]
    resamples: int = 300

    @cached_property
    def _grouped(self) -> Mapping[tuple[str, str], list[StrategyRun]]:
        found: dict[tuple[str, str], list[StrategyRun]] = {}
        for run in self.runs:
            found.setdefault((run.label, run.problem), []).append(run)
        return found

    def of(self, entry: Entry, space: str) -> list[StrategyRun]:
        return self._grouped.get((entry.label, space), [])

    def has(self, entry: Entry) -> bool:
        return all(len(self.of(entry, space)) > 1 for space in self.spaces)

    def curves(self, entry: Entry, charge: bool = False) -> dict[str, Array]:
        """Return best costs so far by space; with ``charge``, penalised candidates are evaluations."""
        return {
            name: curves_of(
                [charge_penalised(run) if charge else run for run in self.of(entry, name)], one
            )
            for name, one in self.spaces.items()
        }

    def seconds(self, entry: Entry) -> dict[str, Array]:
        return {name: clock(self.of(entry, name), one) for name, one in self.spaces.items()}

    @property
    def baselines(self) -> list[Baseline]:
        return [one.baseline for one in self.spaces.values()]

    def fractions(self, entry: Entry) -> list[Array]:
        """Return the fraction of the optimum at the end of the budget, by space and run, ``(runs,)`` each."""
        assert entry.evaluations is not None
        return [
            fraction_of_optimum(
                at_budgets(curves, [entry.evaluations])[:, 0], self.spaces[name].baseline.optimum
            )
            for name, curves in self.curves(entry).items()
        ]

    def fraction_by_space(self, entry: Entry) -> Array:
        """Return the mean fraction of the optimum at the end of the budget, by space, ``(s,)``."""
        return np.array([runs.mean() for runs in self.fractions(entry)])

    def left_out(self, entries: Sequence[Entry]) -> str:
        """Return a line on the omitted entries, or an empty text."""
        labels_by_reason: dict[str, list[str]] = {}
        for entry in entries:
            if not self.has(entry):
                labels_by_reason.setdefault(self.missing.get(entry.label, "no runs"), []).append(
                    entry.label
                )
        lines = [
            f"Left out ({why}): {_join_labels(labels)}." for why, labels in labels_by_reason.items()
        ]
        return "\n\n" + "\n".join(lines) if lines else ""


def charge_penalised(run: StrategyRun) -> StrategyRun:
    """Return the run with every candidate that its strategy has penalised itself counted as a failed evaluation."""
    tags = [entry.get("tag") for entry in run.log]
    penalised = [tag["penalised"] for tag in tags if isinstance(tag, dict) and "penalised" in tag]
    if len(penalised) != len(run.costs) or not any(penalised):
        return run
    new = np.diff(penalised, prepend=0)
    at = np.repeat(np.arange(len(new)), new)
    rows, costs = np.insert(run.rows, at, OUTSIDE), np.insert(run.costs, at, np.nan)
    return replace(run, rows=rows, costs=costs, log=())


def _join_labels(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:8])
    return shown if len(labels) <= 8 else f"{shown} and {len(labels) - 8} more"


@dataclass(frozen=True)
class Part:
    """One or more claims that the same runs answer."""

    title: str
    entries: Sequence[Entry]
    repeats: int
    report: Callable[[Evidence], str]


def verdict(low: float, high: float) -> str:
    """Return the verdict of an interval on a difference that is above 0 in the paper."""
    if low > 0:
        return "agrees"
    return "differs" if high < 0 else "is not certain from these runs"


EXPLAINED = """\
Intervals in brackets are 95 % bootstrap intervals over the runs, not over spaces. The spaces are two kinds of kernel
on a few GPUs, so "agrees" and "differs" apply to them only. The budget "95 %" is the community methodology's: the
evaluations that random search needs for 95 % of the way from the median to the optimum."""


def spearman(a: Any, b: Any) -> float:
    """Return Spearman's rank correlation; NaN where one side is constant."""
    from scipy.stats import rankdata

    ranks = [rankdata(x) for x in (a, b)]
    if min(np.ptp(r) for r in ranks) == 0:
        return math.nan
    return float(np.corrcoef(*ranks)[0, 1])
