"""The front of a run with several objectives, as text and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._optional import open_plot
from baco_like._output import format_table, show
from baco_like.records import History, Objective, Status, Trial
from baco_like.records.trial import read_values

SHOWN = 20
"""Most rows of a table of the front."""

_FRONT_COLOUR, _VALUE_COLOUR, _KNEE_COLOUR = "#0072b2", "#9a9a9a", "#d55e00"


def describe_front(front: Sequence[Trial], objectives: Sequence[Objective]) -> str:
    """Return the size of a front and the range of each objective on it, as one line."""
    values = [read_values(trial, objectives) for trial in front]
    if not values:
        return "no evaluation has succeeded yet"
    parts = []
    for objective, column in zip(objectives, zip(*values, strict=True), strict=True):
        low, high = min(column), max(column)
        numbers = show(low) if low == high else f"{show(low)} to {show(high)}"
        parts.append(f"{objective.name} {numbers} {objective.unit}".rstrip())
    return f"front of {len(front)}: {', '.join(parts)}"


def describe_values(trial: Trial, objectives: Sequence[Objective]) -> str:
    """Return the values of a successful trial by objective, as in ``time 1.2, size 800``."""
    values = zip(objectives, read_values(trial, objectives), strict=True)
    return ", ".join(f"{objective.name} {show(value)}" for objective, value in values)


def front_table(
    front: Sequence[Trial],
    objectives: Sequence[Objective],
    knee: Trial | None,
    default: Trial | None,
    most_parameters: int,
) -> tuple[list[str], list[list[Any]]]:
    """Return the head and the rows of a table: what a trial is, its number, objectives and parameters.

    The default comes first. Of a large front `SHOWN` trials are selected evenly, the knee among them. With many
    parameters, those with the same value in all rows are left out.
    """
    shown = list(front)
    if len(shown) > SHOWN:
        at = set(np.linspace(0, len(shown) - 1, SHOWN).round().astype(int).tolist())
        shown = [t for i, t in enumerate(shown) if i in at or t is knee]
    rows = [*([] if default is None else [default]), *(t for t in shown if t is not default)]
    names = list(dict.fromkeys(name for trial in rows for name in trial))
    if len(names) > most_parameters:
        names = [n for n in names if len({str(trial.config.get(n)) for trial in rows}) > 1]
    head = ["", "trial", *(objective.label for objective in objectives), *names]
    table = []
    for trial in rows:
        words = ["default"] if trial is default else []
        words += ["knee"] if trial is knee else []
        is_ok = trial.value is not None
        values = read_values(trial, objectives) if is_ok else [trial.failure] * len(objectives)
        configured = [trial.config.get(name, "-") for name in names]
        table.append([", ".join(words), trial.id, *values, *configured])
    return head, table


def format_front(
    front: Sequence[Trial],
    objectives: Sequence[Objective],
    knee: Trial | None,
    default: Trial | None,
    most_parameters: int,
) -> str:
    """Return the front as a text table, see `front_table`; each line is at most as wide as its cells."""
    head, rows = front_table(front, objectives, knee, default, most_parameters)
    left = len(front) - sum(trial.id in {row[1] for row in rows} for trial in front)
    more = [f"{left} more trials of the front are not shown"] if left else []
    return "\n".join([format_table(head, rows), *more])


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
    dots = {"ms": 4, "color": _VALUE_COLOUR, "label": "evaluation", "zorder": 1}
    axes.plot(every[:, i], every[:, j], "o", **dots)
    if best is not None:
        # A line would be wrong for a projection of three objectives.
        style = "o-" if len(objectives) == 2 else "o"
        line = {"ms": 5, "lw": 1, "color": _FRONT_COLOUR, "label": "front", "zorder": 2}
        axes.plot(front[:, i], front[:, j], style, **line)
        x, y = np.array(read_values(best, objectives))[[i, j]]
        axes.plot([x], [y], "*", ms=9, color=_KNEE_COLOUR, label="knee", zorder=3)
    for k, scale in ((i, axes.set_xscale), (j, axes.set_yscale)):
        values = every[:, k]
        if len(values) and values.min() > 0 and values.max() / values.min() > 5:
            scale("log")
    axes.set_xlabel(objectives[i].label)
    axes.set_ylabel(objectives[j].label)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
