"""Plot a comparison: scores over evaluations and over time, and a heat map of wins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from baco_like._optional import open_plot
from baco_like.benchmarking.comparison.figures import ComparisonFigures, Standing

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can tell apart; further lines change the line style."""
_LINES = ("-", "--", ":", "-.")


def line_style(index: int) -> tuple[str, str]:
    """Return the colour and the line style of the line with this index."""
    return _COLOURS[index % len(_COLOURS)], _LINES[index // len(_COLOURS) % len(_LINES)]


def plot_scores(standings: Mapping[str, Standing], over: str, path: Path) -> None:
    """Plot the mean score of the spaces over the share of the budget, with bootstrap intervals.

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


def plot_wins(figures: ComparisonFigures, path: Path) -> None:
    """Plot the number of spaces on which the row is significantly better than the column.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    table, labels = figures.wins, figures.labels
    side = 2.5 + 0.5 * len(labels)
    with open_plot(path, side + 1, side) as axes:
        image = axes.imshow(table, cmap="viridis", vmin=0, vmax=len(figures.spaces))
        axes.set_xticks(range(len(labels)), labels, rotation=45, ha="right", fontsize=8)
        axes.set_yticks(range(len(labels)), labels, fontsize=8)
        for i, line in enumerate(table):
            for j, count in enumerate(line):
                colour = "black" if count > len(figures.spaces) / 2 else "white"
                axes.text(j, i, str(count), ha="center", va="center", color=colour, fontsize=8)
        axes.set_xlabel("loses")
        axes.set_ylabel("wins")
        axes.figure.colorbar(image, ax=axes, label="spaces", shrink=0.8)
