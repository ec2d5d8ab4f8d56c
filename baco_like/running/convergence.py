"""Plot the convergence: the best value so far over the evaluations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from baco_like._optional import open_plot
from baco_like._typing import Array
from baco_like.records import History, Objective, Status, Trial, sign_of

# Okabe and Ito's palette, which colour-blind readers can tell apart.
_BEST_COLOUR, _VALUE_COLOUR = "#0072b2", "#9a9a9a"
_FAILURE_COLOUR, _MODEL_COLOUR = "#d55e00", "#009e73"


def best_so_far(history: History) -> Array:
    """Return the best value after each evaluation in the user's unit, ``(n,)``; NaN before the first success.

    Imported configurations outside the space do not count.
    """
    costs = np.where(history.where(Status.OK), history.costs, np.inf)
    best: Array = np.minimum.accumulate(costs)
    return sign_of(history.direction) * np.where(np.isinf(best), np.nan, best)


def model_start(trials: Sequence[Trial]) -> int | None:
    """Return the number (from 1) of the first evaluation that a model proposed, or None."""
    phases = [t.tag.get("phase") if isinstance(t.tag, Mapping) else None for t in trials]
    return phases.index("model") + 1 if "model" in phases else None


def plot_convergence(history: History, objective: Objective, path: Path) -> None:
    """Write a plot of all values, the best so far, the failures and the start of the model phase.

    Args:
        history: The trials. Results of a warm start have numbers below 1.
        objective: Label and unit of the vertical axis.
        path: The file; its suffix decides the format.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with open_plot(path, 7, 4) as axes:
        numbers = np.arange(1, len(history) + 1) - history.warm
        values = np.array([np.nan if t.value is None else t.value for t in history.trials])
        axes.plot(numbers, values, "o", ms=4, color=_VALUE_COLOUR, label="evaluation", zorder=1)
        best = {"color": _BEST_COLOUR, "lw": 2, "label": "best so far", "zorder": 3}
        axes.step(numbers, best_so_far(history), where="post", **best)
        failed = numbers[[bool(t.failure) for t in history.trials]]
        if len(failed):
            bottom = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 4}
            level = np.full(len(failed), 0.02)
            axes.plot(failed, level, "x", color=_FAILURE_COLOUR, label="failed", **bottom)
        start = model_start(history.trials)
        if start is not None:
            position = start - history.warm - 0.5
            axes.axvline(position, color=_MODEL_COLOUR, ls="--", lw=1.2, label="model phase begins")
        valid = values[~np.isnan(values)]
        if len(valid) and valid.min() > 0 and valid.max() / valid.min() > 5:
            axes.set_yscale("log")
        axes.set_xlabel("evaluations")
        axes.set_ylabel(objective.name + (f" ({objective.unit})" if objective.unit else ""))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
