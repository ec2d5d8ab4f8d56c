"""The plots of the comparison: scores with intervals, best so far by space, CPU against score."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from . import figures
from .figures import FULL, Runs, Table

COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b")
"""Safe for colour-blind eyes; the first is ours."""

LOWEST = -0.75
"""Lower scores are drawn at this value."""

NEAR, APART = 0.9, 0.05
"""Labels of points closer than the first (in powers of ten) keep the second as a distance in the score."""

TICKS = (1, 3, 10, 30, 100, 300)

SHOWN = 7
"""Curves of a plot beside random search."""


def scores(table: Table, names: Sequence[str], ranked: Sequence[str], path: Path) -> None:
    """Write each peer's score at three budgets with its interval."""
    figure = Figure(figsize=(8, 1.2 + 0.32 * len(ranked)), layout="constrained")
    axes: Any = figure.subplots()
    for i, (n, label) in enumerate(((60, "60 evaluations"), (220, "220"), (FULL, "full budget"))):
        for j, peer in enumerate(ranked):
            each = [table[peer, name] for name in names]
            found = figures.overall(each, n, False)
            if found is None:
                continue
            y, x = len(ranked) - j - 0.22 * (i - 1), found.value
            axes.plot([found.low, found.high], [y, y], color=COLOURS[i], lw=1.5)
            axes.plot([x], [y], "o", color=COLOURS[i], ms=4.5, label=label if j == 0 else None)
    axes.set_yticks([len(ranked) - j for j in range(len(ranked))], ranked, fontsize=9)
    axes.axvline(0, color="#9a9a9a", lw=1, zorder=0)
    axes.set_xlim(left=max(LOWEST, axes.get_xlim()[0]), right=1.0)
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(
        f"score of the median curve, mean of {len(names)} spaces: 0 random search, 1 optimum"
    )
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=130)


def curves(table: Table, names: Sequence[str], ranked: Sequence[str], path: Path) -> None:
    """Write the mean best so far over the evaluations on each space, of the best peers."""
    chosen = [peer for peer in ranked if peer != "random"][:SHOWN]
    lines = -(-len(names) // 3)
    figure = Figure(figsize=(12, 3.1 * lines + 0.6), layout="constrained")
    cells: Any = figure.subplots(lines, 3, squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for axes, name in zip(cells, names, strict=False):
        for i, peer in enumerate([*chosen, "random"]):
            if (peer, name) not in table:
                continue
            colour = "black" if peer == "random" else COLOURS[i % len(COLOURS)]
            at, ratio = _ratio(table[peer, name])
            style = {"lw": 2.4 if peer == "auto" else 1.3, "ls": ":" if peer == "random" else "-"}
            (handles[peer],) = axes.plot(at, ratio, color=colour, **style)
        axes.set_xscale("log")
        budget = table[next(p for p in ranked if (p, name) in table), name].problem.evaluations
        if budget <= axes.get_xlim()[1]:
            axes.axvline(budget, color="#9a9a9a", lw=1, ls="--")
        axes.set_title(name, fontsize=10)
        axes.set_xticks(TICKS, [str(n) for n in TICKS])
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
    for axes in cells[len(names) :]:
        axes.set_visible(False)
    for axes in cells[: len(names)][-3:]:
        axes.set_xlabel("evaluations (dashed: the methodology's budget, where runs are as long)")
    figure.supylabel("optimum / mean best so far", fontsize=10)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False
    )
    figure.savefig(path, dpi=110)


def _ratio(runs: Runs) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of evaluations and the ratio after each, up to the shortest run."""
    known = int(min(runs.curves.shape[1], *(figures.known_until(row) for row in runs.rows)))
    at = np.arange(1, known + 1)
    return at, runs.problem.baseline.optimum / runs.costs(at).mean(axis=0)


def costs(table: Table, names: Sequence[str], ranked: Sequence[str], path: Path) -> None:
    """Write each peer's score at 60 evaluations over the CPU that they took."""
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    axes: Any = figure.subplots()
    points = []
    for peer in ranked:
        each = [table[peer, name] for name in names]
        found, cost = figures.overall(each, 60, False), figures.milliseconds_to(each, 60)
        if found is None or np.isnan(cost):
            continue
        points.append((cost, max(found.value, LOWEST), peer))
    for x, y, peer, place in _place_labels(points):
        axes.plot([x], [y], "o", color=COLOURS[0] if peer == "auto" else COLOURS[1])
        arrow = {"arrowstyle": "-", "lw": 0.5, "color": "#7f7f7f"}
        axes.annotate(peer, (x, y), (1.25 * x, place), fontsize=8, va="center", arrowprops=arrow)
    axes.set_xscale("log")
    axes.set_xlim(right=axes.get_xlim()[1] * 3)
    axes.grid(alpha=0.3)
    axes.set_xlabel("CPU of an evaluation, mean of the first 60, ms")
    axes.set_ylabel(f"score of the median curve @60 (below {LOWEST}: drawn there)")
    figure.savefig(path, dpi=130)


def _place_labels(points: list[tuple[float, float, str]]) -> list[tuple[float, float, str, float]]:
    """Return the points with heights for their labels, so that close labels do not overlap."""
    found: list[tuple[float, float, str, float]] = []
    for x, y, peer in sorted(points, key=lambda one: -one[1]):
        near = [place for a, _, _, place in found if abs(np.log10(a / x)) < NEAR]
        found.append((x, y, peer, min([y, *(place - APART for place in near)])))
    return found
