"""Plot a study: curves of the best value, scores, wins, and a critical-difference diagram."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from baco_like._optional import open_plot, require, save_figure
from baco_like._typing import Array
from baco_like.benchmarking.studies.figures import Standing, StudyFigures
from baco_like.benchmarking.studies.statistics import MeanRanks, interval
from baco_like.benchmarking.studies.study import StudyResult
from baco_like.records.objective import sign_of

_RESAMPLES = 400

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
_LINES = ("-", "--", ":", "-.")


def line_style(index: int) -> tuple[str, str]:
    """Return the colour and the line style of the line with this index; 28 lines differ, neighbours also in print."""
    return _COLOURS[index % len(_COLOURS)], _LINES[index % len(_LINES)]


def plot_curves(result: StudyResult, path: str | Path) -> None:
    """Plot the mean of the best value so far over the evaluations, one panel for each problem, with 95 % intervals.

    Where the optimum is known, the regret is plotted, on a logarithmic scale. A curve begins where every run has had a
    success.

    Args:
        result: The result of `study`.
        path: The file; its suffix decides the format.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    figures, problems = result.figures, result.problems
    columns = min(3, len(problems))
    rows = -(-len(problems) // columns)
    figure = Figure(figsize=(4.5 * columns, 3.2 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for problem, axes in zip(problems, panels, strict=False):
        sign, optimum = sign_of(problem.direction), problem.best_value
        least = math.nan if optimum is None else sign * optimum
        shown = {
            label: c[problem.name][:, : figures.budgets[problem.name]]
            for label, c in figures.curves.items()
        }
        has_regret = any((costs > least).any() for costs in shown.values())
        for i, (label, costs) in enumerate(shown.items()):
            values = costs - least if has_regret else sign * costs
            at = np.flatnonzero(~np.isnan(values).any(axis=0))
            draws = np.random.default_rng(0).integers(len(values), size=(_RESAMPLES, len(values)))
            colour, line = line_style(i)
            means = values[:, at].mean(axis=0)
            axes.plot(at + 1, means, color=colour, ls=line, lw=1.6, label=label)
            band = interval(values[:, at][draws].mean(axis=1), len(values))
            axes.fill_between(at + 1, *band, color=colour, alpha=0.15, lw=0)
        if has_regret:
            axes.set_yscale("log")
        axes.set_title(problem.name, fontsize=10)
        axes.set_xlabel("evaluation")
        axes.set_ylabel("regret" if has_regret else "best value")
        axes.grid(alpha=0.3)
    for axes in panels[len(problems) :]:
        axes.remove()
    handles, texts = panels[0].get_legend_handles_labels()
    room = 4.5 * columns / (0.5 + 0.07 * max(map(len, texts)))  # the texts that fit side by side
    ncols = max(1, min(4, int(room)))
    figure.set_figheight(3.2 * rows + 0.3 + 0.17 * -(-len(texts) // ncols))
    figure.legend(
        handles, texts, loc="outside lower center", ncols=ncols, frameon=False, fontsize=8
    )
    save_figure(figure, Path(path))


def plot_scores(standings: Mapping[str, Standing], over: str, path: Path) -> None:
    """Plot the mean score of the problems over the share of the budget, with bootstrap intervals.

    Args:
        standings: By label.
        over: Kind of budget for the axis: ``evaluations`` or ``simulated time``.
        path: The file to write.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with open_plot(path, 8, 5) as axes:
        for i, (label, standing) in enumerate(standings.items()):
            colour, line = line_style(i)
            percent, legend = 100 * standing.shares, f"{label} ({standing.score:.2f})"
            axes.plot(percent, standing.curve, color=colour, ls=line, lw=1.8, label=legend)
            axes.fill_between(percent, *standing.band, color=colour, alpha=0.15, lw=0)
        axes.axhline(0.0, color="#9a9a9a", lw=1, zorder=0)
        axes.axhline(1.0, color="#9a9a9a", lw=1, ls=":", zorder=0)
        lowest = min(float(standing.curve.min()) for standing in standings.values())
        axes.set_ylim(max(-1.0, min(-0.1, lowest)), 1.05)
        axes.set_xlabel(f"share of the budget ({over}), %")
        axes.set_ylabel("score: 0 random search, 1 optimum")
        axes.grid(alpha=0.3)
        axes.figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)


def plot_wins(figures: StudyFigures, path: Path) -> None:
    """Plot the number of problems on which the row is significantly better than the column.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    table, labels = figures.wins, figures.labels
    side = 2.5 + 0.5 * len(labels)
    with open_plot(path, side + 1, side) as axes:
        image = axes.imshow(table, cmap="viridis", vmin=0, vmax=len(figures.problems))
        axes.set_xticks(range(len(labels)), labels, rotation=45, ha="right", fontsize=8)
        axes.set_yticks(range(len(labels)), labels, fontsize=8)
        for i, line in enumerate(table):
            for j, count in enumerate(line):
                colour = "black" if count > len(figures.problems) / 2 else "white"
                axes.text(j, i, str(count), ha="center", va="center", color=colour, fontsize=8)
        axes.set_xlabel("loses")
        axes.set_ylabel("wins")
        axes.figure.colorbar(image, ax=axes, label="problems", shrink=0.8)


def plot_critical_difference(found: MeanRanks, path: str | Path) -> None:
    """Plot the mean ranks of the strategies; bars join those that do not differ significantly.

    The diagram of Demsar (JMLR 7, 2006, Fig. 1), with Nemenyi's test; see `mean_ranks`.

    Args:
        found: The mean ranks of the figures of a study.
        path: The file; its suffix decides the format.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    labels, ranks = list(found.ranks), np.array(list(found.ranks.values()))
    count = len(labels)
    groups = joined_groups(ranks, found.critical_difference)
    half = (count + 1) // 2
    texts = [f"{label} ({rank:.2f})" for label, rank in zip(labels, ranks, strict=True)]
    room = 0.08 * max(map(len, texts))  # inches beside the ranks, so that no line crosses a text
    size = 2 * room + max(3.0, 0.5 * count), 1.6 + 0.28 * half + 0.12 * len(groups)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    margin = room * (count - 1) / (size[0] - 2 * room)
    axes.set_xlim(1 - margin, count + margin)
    depth = 0.6 + 0.25 * len(groups)
    axes.set_ylim(depth + half + 0.5, -1.4)
    axes.axis("off")
    axes.hlines(0, 1, count, color="black", lw=1)
    for tick in range(1, count + 1):
        axes.vlines(tick, -0.12, 0, color="black", lw=1)
        axes.text(tick, -0.2, str(tick), ha="center", va="bottom", fontsize=9)
    for i, (text, rank) in enumerate(zip(texts, ranks, strict=True)):
        is_left = i < half
        y = depth + (i if is_left else count - 1 - i)
        end = 1 - margin if is_left else count + margin
        axes.plot([rank, rank, end], [0, y, y], color="black", lw=0.8)
        side = "left" if is_left else "right"
        axes.text(end, y - 0.08, text, ha=side, va="bottom", fontsize=9)
    for level, (first, last) in enumerate(groups):
        y = 0.3 + 0.25 * level
        axes.hlines(y, ranks[first] - 0.02, ranks[last] + 0.02, color="black", lw=3)
    width = min(found.critical_difference, count - 1)
    axes.hlines(-0.95, 1, 1 + width, color="#d55e00", lw=2)
    text = f"critical difference {found.critical_difference:.2f} ({found.blocks} problem{'s'[: found.blocks - 1]})"
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
