"""The convergence plot: best so far over evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._optional import require
from baco_like._typing import Array
from baco_like.records.direction import sign_of
from baco_like.records.history import History
from baco_like.records.objective import Objective
from baco_like.records.trial import Status, Trial

_BEST, _SEEN, _FAILED, _PHASE = (
    "#0072b2",
    "#9a9a9a",
    "#d55e00",
    "#009e73",
)  # safe for colour-blind eyes


def best_so_far(history: History) -> Array:
    """Return the best value after each evaluation in the user's unit, ``(n,)``; NaN before the first success.

    Imported configurations outside the space cannot be the best.
    """
    sign = sign_of(history.direction)
    best: Array = np.minimum.accumulate(np.where(history.where(Status.OK), history.costs, np.inf))
    return sign * np.where(np.isinf(best), np.nan, best)


def model_start(trials: list[Trial]) -> int | None:
    """Return the number (from 1) of the first evaluation that a model proposed, or None."""
    for number, trial in enumerate(trials, 1):
        if isinstance(trial.tag, Mapping) and trial.tag.get("phase") == "model":
            return number
    return None


def plot_convergence(history: History, objective: Objective, path: Path) -> None:
    """Write the plot to ``path``: every value, best so far, failures as marks, the start of the model phase.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    numbers = np.arange(1, len(history) + 1) - history.warm  # what was known before is left of 1
    values = np.array([np.nan if t.value is None else t.value for t in history.trials])
    axes.plot(numbers, values, "o", ms=4, color=_SEEN, label="evaluation", zorder=1)
    axes.step(
        numbers,
        best_so_far(history),
        where="post",
        color=_BEST,
        lw=2,
        label="best so far",
        zorder=3,
    )
    _mark_failures(axes, history)
    start = model_start(history.trials)
    if start is not None:
        axes.axvline(
            start - history.warm - 0.5,
            color=_PHASE,
            ls="--",
            lw=1.2,
            label="model phase begins",
            zorder=2,
        )
    seen = values[~np.isnan(values)]
    if len(seen) and seen.min() > 0 and seen.max() / seen.min() > 5:
        axes.set_yscale("log")
    axes.set_xlabel("evaluations")
    axes.set_ylabel(objective.name + (f" ({objective.unit})" if objective.unit else ""))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def _mark_failures(axes: Any, history: History) -> None:
    failed = [i for i, t in enumerate(history.trials, 1 - history.warm) if t.failure]
    if failed:
        axes.plot(
            failed,
            np.full(len(failed), 0.02),
            "x",
            color=_FAILED,
            ms=6,
            label="failed",
            transform=axes.get_xaxis_transform(),
            clip_on=False,
            zorder=4,
        )
