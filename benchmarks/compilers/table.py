"""Tables of the runs: ratios of the level's value to the best found, paired comparisons, costs, distinct programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

Row = Mapping[str, Any]
Key = tuple[str, str]
"""Program and method."""


def ratio(row: Row, evaluations: int) -> float:
    """Return the value of the level, which is measured first by default, over the best of the first evaluations."""
    values = [value for value in row["values"][:evaluations] if value is not None]
    return float(row.get("level", row["values"][0]) / min(values))


@dataclass(frozen=True)
class Mean:
    """A geometric mean over problems with its 95 % interval by Student's t; the problems are a sample of many."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, logs: Sequence[float]) -> "Mean":
        x = np.asarray(logs, dtype=float)
        low, high = (-np.inf, np.inf) if len(x) < 2 else (x.mean(), x.mean())
        if len(x) > 1 and np.ptp(x) > 0:
            low, high = stats.ttest_1samp(x, 0.0).confidence_interval(0.95)
        return cls(*(float(np.exp(v)) for v in (x.mean(), low, high)))

    def __str__(self) -> str:
        interval = "" if np.isinf(self.high) else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.value:.3f}{interval}"


def paired_p(differences: Sequence[float]) -> float:
    """Return the p-value of a paired t-test; 1 for a single pair, and for pairs that are all equal."""
    x = np.asarray(differences, dtype=float)
    if len(x) < 2 or not x.any():
        return 1.0
    if np.ptp(x) == 0:
        return 0.0
    return float(stats.ttest_1samp(x, 0.0).pvalue)


def holm(values: Sequence[float]) -> np.ndarray:
    """Return p-values with Holm's correction, in the order of the input (Holm 1979)."""
    p = np.asarray(values, dtype=float)
    order = np.argsort(p, kind="stable")
    scaled = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    found = np.empty(len(p))
    found[order] = np.minimum(scaled, 1.0)
    return found


@dataclass(frozen=True)
class Comparison:
    """A method against a reference, on the problems and seeds that both have.

    Attributes:
        mean: Geometric mean over problems of the reference's ratio over the method's; above 1 the reference is ahead.
        ahead: Number of problems on which the reference is clearly ahead: p below 0.05 after Holm's correction.
        behind: Number of problems on which it is clearly behind.
        problems: Number of problems.
    """

    mean: Mean
    ahead: int
    behind: int
    problems: int


def compare(
    runs: Mapping[Key, Sequence[Row]], reference: str, method: str, evaluations: int
) -> Comparison | None:
    """Compare two methods, by pairs of runs with the same problem and seed; None without a pair."""
    means, p = [], []
    for program in sorted({program for program, _ in runs}):
        sides = [
            {row["seed"]: np.log(ratio(row, evaluations)) for row in runs.get((program, name), ())}
            for name in (reference, method)
        ]
        pairs = [sides[0][seed] - sides[1][seed] for seed in sides[0] if seed in sides[1]]
        if pairs:
            means.append(float(np.mean(pairs)))
            p.append(paired_p(pairs))
    if not means:
        return None
    clear = holm(p) < 0.05
    signs = np.sign(means)
    ahead, behind = (int((clear & (signs == side)).sum()) for side in (1, -1))
    return Comparison(Mean.of(means), ahead, behind, len(means))


def group(rows: Sequence[Row], evaluations: int) -> dict[tuple[str, str], dict[Key, list[Row]]]:
    """Return the runs that are long enough, by space and objective, then by program and method."""
    found: dict[tuple[str, str], dict[Key, list[Row]]] = {}
    for row in rows:
        if len(row["values"]) >= evaluations or row["has_ended"]:
            own = found.setdefault((row["space"], row["objective"]), {})
            own.setdefault((row["program"], row["method"]), []).append(row)
    return found


def report(rows: Sequence[Row], budgets: Sequence[int], reference: str) -> str:
    """Return the tables in Markdown, one for each space and objective."""
    parts = []
    for (space, objective), runs in sorted(group(rows, max(budgets)).items()):
        methods = sorted({method for _, method in runs}, key=lambda one: (one != reference, one))
        programs = {program for program, _ in runs}
        complete = [m for m in methods if all((program, m) in runs for program in programs)]
        left_out = [m for m in methods if m not in complete]
        lines = [_line(runs, method, reference, budgets) for method in complete]
        head = [
            "method",
            "seeds",
            *(f"@{n}" for n in budgets),
            f"{reference} over it",
            "ahead / behind",
        ]
        head += ["ms of CPU", "distinct programs"]
        text = [f"### {space}, {objective}: {len(programs)} programs", _markdown(head, lines)]
        if left_out:
            text.append(f"Without runs on all programs: {', '.join(left_out)}.")
        parts.append("\n\n".join(text))
    return "\n\n".join(parts)


def _line(
    runs: Mapping[Key, Sequence[Row]], method: str, reference: str, budgets: Sequence[int]
) -> list[str]:
    own = [some for (_, name), some in runs.items() if name == method]
    every = [row for some in own for row in some]
    means = [
        Mean.of([np.mean([np.log(ratio(r, n)) for r in some]) for some in own]) for n in budgets
    ]
    against = None if method == reference else compare(runs, reference, method, max(budgets))
    milliseconds = 1e3 * sum(r["cpu"] for r in every) / sum(r["asked"] for r in every)
    distinct = np.mean([len(set(r["programs"])) / len(r["programs"]) for r in every])
    compared = (
        ["", ""]
        if against is None
        else [str(against.mean), f"{against.ahead} / {against.behind} of {against.problems}"]
    )
    return [
        method,
        f"{min(map(len, own))}",
        *map(str, means),
        *compared,
        f"{milliseconds:.1f}",
        f"{distinct:.0%}",
    ]


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    marks = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join(
        [f"| {' | '.join(head)} |", marks, *(f"| {' | '.join(line)} |" for line in lines)]
    )
