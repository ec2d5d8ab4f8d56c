"""Draw the convergence and the front of a run with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._drawing import add_legend, mark_log, open_plot
from baco_like._output import is_wide
from baco_like.records import History, Objective, Status
from baco_like.records.trial import read_values
from baco_like.running.findings import convergence, evaluation_numbers, model_start

# Okabe and Ito's palette, which colour-blind readers can tell apart.
_BLUE, _GREY, _RED, _GREEN = "#0072b2", "#9a9a9a", "#d55e00", "#009e73"


def plot_convergence(history: History, objective: Objective, path: Path) -> None:
    """Write a plot of all values, the best so far, censored values, failures and the start of the model phase.

    Args:
        history: The trials. Results of a warm start have numbers below 1.
        objective: Label and unit of the vertical axis.
        path: The file; its suffix decides the format.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with open_plot(path, 7, 4) as axes:
        draw_convergence(axes, history, objective)


def draw_convergence(axes: Any, history: History, objective: Objective) -> None:
    """Draw what `plot_convergence` describes on axes of matplotlib."""
    numbers = evaluation_numbers(history)
    values = np.array([np.nan if t.value is None else t.value for t in history.trials])
    values[~history.is_target] = np.nan  # of a smaller problem
    axes.plot(numbers, values, "o", ms=4, color=_GREY, label="evaluation", zorder=1)
    best = {"color": _BLUE, "lw": 2, "label": "best so far", "zorder": 3}
    axes.step(numbers, convergence(history), where="post", **best)
    bounds = np.array([np.nan if t.bound is None else t.bound for t in history.trials])
    bounds[~history.is_target] = np.nan
    if not np.isnan(bounds).all():
        style = {"color": _GREY, "mfc": "none", "label": "censored (at least)"}
        axes.plot(numbers, bounds, "^", ms=5, zorder=1, **style)
    failed = numbers[[t.status is Status.FAILED for t in history.trials]]
    if len(failed):
        bottom = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 4}
        level = np.full(len(failed), 0.02)
        axes.plot(failed, level, "x", color=_RED, label="failed", **bottom)
    start = model_start(history.trials)
    if start is not None:
        position = numbers[start - 1] - 0.5
        axes.axvline(position, color=_GREEN, ls="--", lw=1.2, label="model phase begins")
    if is_wide(values[~np.isnan(values)]):
        mark_log(axes, "y")
    _label(axes, "evaluations", objective.label)


def plot_front(history: History, objectives: Sequence[Objective], path: Path) -> None:
    """Write a plot of all successful trials and the front: one file for each pair of objectives.

    Args:
        history: The trials.
        objectives: Two or more objectives, with their units.
        path: The file; its suffix decides the format. Several files have numbers in their names.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    pairs = [(i, j) for i in range(len(objectives)) for j in range(i + 1, len(objectives))]
    for number, (i, j) in enumerate(pairs):
        place = path if len(pairs) == 1 else path.with_stem(f"{path.stem}-{number + 1}")
        with open_plot(place, 6, 5) as axes:
            draw_front(axes, history, objectives, i, j)


def draw_front(
    axes: Any, history: History, objectives: Sequence[Objective], i: int, j: int
) -> None:
    """Draw all successful trials, the front and its knee by two of the objectives.

    Args:
        axes: Axes of matplotlib.
        history: The trials.
        objectives: All objectives, with their units.
        i: Position of the objective on the horizontal axis.
        j: Position of the objective on the vertical axis.
    """
    ok = [trial for trial in history.trials if trial.status is Status.OK]
    every = np.array([read_values(t, objectives) for t in ok]).reshape(len(ok), len(objectives))
    front = np.array([read_values(t, objectives) for t in history.front()])
    best = history.best()
    dots = {"ms": 4, "color": _GREY, "label": "evaluation", "zorder": 1}
    axes.plot(every[:, i], every[:, j], "o", **dots)
    if best is not None:
        # A line would be wrong for a projection of three objectives.
        style = "o-" if len(objectives) == 2 else "o"
        line = {"ms": 5, "lw": 1, "color": _BLUE, "label": "front", "zorder": 2}
        axes.plot(front[:, i], front[:, j], style, **line)
        x, y = np.array(read_values(best, objectives))[[i, j]]
        axes.plot([x], [y], "*", ms=9, color=_RED, label="knee", zorder=3)
    for k, side in ((i, "x"), (j, "y")):
        if is_wide(every[:, k]):
            mark_log(axes, side)
    _label(axes, objectives[i].label, objectives[j].label)


def _label(axes: Any, horizontal: str, vertical: str) -> None:
    axes.set_xlabel(horizontal)
    axes.set_ylabel(vertical)
    axes.grid(alpha=0.3)
    add_legend(axes)
