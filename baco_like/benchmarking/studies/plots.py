"""Plots of a study: curves of the best value, and a critical-difference diagram."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from baco_like._optional import require, save_figure
from baco_like._typing import Array
from baco_like.benchmarking.comparison.plots import line_style
from baco_like.benchmarking.studies.tables import LEVEL, mean_ranks

if TYPE_CHECKING:
    import pandas as pd

_RESAMPLES = 400


def plot_curves(frame: pd.DataFrame, path: str | Path) -> None:
    """Plot the mean of the best value so far over the evaluations, one panel for each problem, with 95 % intervals.

    Where the optimum is known, the regret is plotted, on a logarithmic scale. A curve begins where every run has had a
    success.

    Args:
        frame: The result of `study`.
        path: The file; its suffix decides the format.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(frame["problem"]))
    labels = list(dict.fromkeys(frame["strategy"]))
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(4.5 * columns, 3.2 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for name, axes in zip(names, panels, strict=False):
        of_problem = frame[frame["problem"] == name]
        has_regret = bool((of_problem["regret"] > 0).any())
        figure_name = "regret" if has_regret else "best"
        for i, label in enumerate(labels):
            table = of_problem[of_problem["strategy"] == label].pivot_table(
                index="seed", columns="evaluation", values=figure_name
            )
            table = table.ffill(axis=1).dropna(axis=1)
            low, mean, high = _band(table.to_numpy(dtype=np.float64))
            colour, line = line_style(i)
            at = table.columns.to_numpy()
            axes.plot(at, mean, color=colour, ls=line, lw=1.6, label=label)
            axes.fill_between(at, low, high, color=colour, alpha=0.15, lw=0)
        if has_regret:
            axes.set_yscale("log")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("evaluation")
        axes.set_ylabel("regret" if has_regret else "best value")
        axes.grid(alpha=0.3)
    for axes in panels[len(names) :]:
        axes.remove()
    handles, texts = panels[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    save_figure(figure, Path(path))


def _band(curves: Array) -> tuple[Array, Array, Array]:
    """Return the mean of ``(runs, t)`` and the ends of its bootstrap interval, each ``(t,)``; NaN without runs."""
    if not len(curves):
        return (np.full(curves.shape[1], np.nan),) * 3
    draws = np.random.default_rng(0).integers(len(curves), size=(_RESAMPLES, len(curves)))
    means = curves[draws].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, curves.mean(axis=0), high


def plot_critical_difference(frame: pd.DataFrame, path: str | Path) -> None:
    """Plot the mean ranks of the strategies; bars join those that do not differ significantly.

    The diagram of Demsar (JMLR 7, 2006, Fig. 1), with Nemenyi's test; see `mean_ranks`.

    Args:
        frame: The result of `study`.
        path: The file; its suffix decides the format.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: There are fewer than two strategies.
    """
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    found = mean_ranks(frame)
    labels, ranks = list(found.ranks), np.array(list(found.ranks.values()))
    count = len(labels)
    groups = joined_groups(ranks, found.critical_difference)
    half = (count + 1) // 2
    figure = Figure(figsize=(7.5, 1.6 + 0.28 * half + 0.12 * len(groups)), layout="constrained")
    axes = figure.subplots()
    axes.set_xlim(0.5, count + 0.5)
    depth = 0.6 + 0.25 * len(groups)
    axes.set_ylim(depth + half + 0.5, -1.4)
    axes.axis("off")
    axes.hlines(0, 1, count, color="black", lw=1)
    for tick in range(1, count + 1):
        axes.vlines(tick, -0.12, 0, color="black", lw=1)
        axes.text(tick, -0.2, str(tick), ha="center", va="bottom", fontsize=9)
    for i, (label, rank) in enumerate(zip(labels, ranks, strict=True)):
        is_left = i < half
        y = depth + (i if is_left else count - 1 - i)
        end = 0.6 if is_left else count + 0.4
        axes.plot([rank, rank, end], [0, y, y], color="black", lw=0.8)
        side = "left" if is_left else "right"
        axes.text(end, y - 0.08, f"{label} ({rank:.2f})", ha=side, va="bottom", fontsize=9)
    for level, (first, last) in enumerate(groups):
        y = 0.3 + 0.25 * level
        axes.hlines(y, ranks[first] - 0.02, ranks[last] + 0.02, color="black", lw=3)
    width = min(found.critical_difference, count - 1)
    axes.hlines(-0.95, 1, 1 + width, color="#d55e00", lw=2)
    text = f"critical difference {found.critical_difference:.2f} ({found.blocks} pairs of problem and seed)"
    axes.text(1, -1.05, text, ha="left", va="bottom", fontsize=8, color="#d55e00")
    save_figure(figure, Path(path))


def joined_groups(ranks: Array, difference: float) -> list[tuple[int, int]]:
    """Return the largest runs of ascending mean ranks that span at most a difference: first and last index."""
    ends = np.searchsorted(ranks, ranks + difference, side="right") - 1
    groups: list[tuple[int, int]] = []
    for first, last in enumerate(ends.tolist()):
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups
