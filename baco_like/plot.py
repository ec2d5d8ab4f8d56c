"""Plots of a run with matplotlib: ``from baco_like import plot``.

Every function takes an `Optimizer` or the `Result` of `tune`, draws on ``axes`` or on new ones, and returns the axes of
matplotlib, so that titles, limits and files are yours: ``plot.history(result).figure.savefig("history.png")``. Install
the extra ``plot``. The report (`baco_like.reporting`) has more charts, for a browser.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._optional import require
from baco_like._typing import Array
from baco_like.exceptions import TrialError
from baco_like.explanations import Dependence
from baco_like.explanations.dependence import compute_dependence_on
from baco_like.optimizer import Optimizer
from baco_like.parameters import Integer, Ordinal, Real
from baco_like.parameters.protocol import is_permutation
from baco_like.records import Objective, Status, Trial, sign_of
from baco_like.running.summary import draw_convergence
from baco_like.running.tuner import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["contour", "failures", "history", "parallel_coordinates", "slice"]

_COLOURS = {"minimize": "viridis", "maximize": "viridis_r"}
"""Colours of values; dark is good."""

_FAILURE, _MODEL = "#d55e00", "#0072b2"
_MOST_LABELS = 12
_MOST_BARS = 10


def history(run: Optimizer | Result, *, axes: Axes | None = None) -> Axes:
    """Plot all values, the best so far, censored values and failures over the evaluations.

    Args:
        run: The run.
        axes: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    optimizer, axes = _open(run, axes)
    draw_convergence(axes, optimizer.history, _objective(optimizer))
    return axes


def parallel_coordinates(
    run: Optimizer | Result, names: Sequence[str] | None = None, *, axes: Axes | None = None
) -> Axes:
    """Plot each successful trial as a line across the parameters, coloured by its value; dark lines are good.

    The line of an inactive parameter is interrupted.

    Args:
        run: The run.
        names: The parameters from left to right; None takes all that are not constant.
        axes: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        TrialError: No trial has succeeded, or a parameter does not exist.
    """
    optimizer, axes = _open(run, axes)
    trials = _successes(optimizer)
    names = list(optimizer.space.active if names is None else names)
    scales = [_Scale(optimizer, name, trials) for name in names]
    heights = np.column_stack([scale.heights(trials) for scale in scales])
    costs = sign_of(optimizer.options.direction) * np.array([trial.value for trial in trials])
    worst_first = np.argsort(-costs, kind="stable")
    lines = require("matplotlib.collections", "plot").LineCollection(
        [np.column_stack([np.arange(len(names)), heights[i]]) for i in worst_first],
        array=np.array([trials[i].value for i in worst_first]),
        cmap=_COLOURS[optimizer.options.direction],
        alpha=0.8,
    )
    axes.add_collection(lines)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.3, len(names) - 0.7)
    axes.set_ylim(-0.05, 1.05)
    axes.set_yticks([])
    for place, scale in enumerate(scales):
        axes.axvline(place, color="#999999", lw=0.8, zorder=0)
        for height, text in scale.labels():
            axes.annotate(
                text, (place, height), (3, 0), textcoords="offset points", fontsize="small"
            )
    axes.figure.colorbar(lines, ax=axes, label=_objective(optimizer).label)
    return axes


def slice(run: Optimizer | Result, name: str | None = None, *, axes: Axes | None = None) -> Axes:
    """Plot the values over one parameter, with the partial dependence and its 90 % interval.

    The line needs five successful trials, and the parameter must not be a permutation.

    Args:
        run: The run.
        name: The parameter; None takes the most important one.
        axes: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        TrialError: No trial has succeeded, or the parameter does not exist.
    """
    optimizer, axes = _open(run, axes)
    trials = _successes(optimizer)
    name = _important(optimizer, 1)[0] if name is None else name
    scale = _Scale(optimizer, name, trials)
    axes.plot(
        scale.places(trials),
        np.array([trial.value for trial in trials], dtype=np.float64),
        "o",
        ms=4,
        color="#9a9a9a",
        label="evaluation",
    )
    if not is_permutation(optimizer.space.parameters[name]) and len(trials) >= _LEAST:
        points = _dependence(optimizer, (name,)).points
        places = [scale.place(point.values[0]) for point in points]
        values, low, high = (
            np.array([getattr(p, k) for p in points]) for k in ("value", "low", "high")
        )
        if scale.is_number:
            axes.plot(places, values, color=_MODEL, label="partial dependence")
            axes.fill_between(places, low, high, color=_MODEL, alpha=0.2, lw=0)
        else:
            reach = np.maximum([values - low, high - values], 0)
            label = "partial dependence"
            axes.errorbar(places, values, reach, fmt="s", color=_MODEL, capsize=4, label=label)
    scale.mark(axes.set_xscale, axes.set_xticks)
    axes.set_xlabel(name)
    axes.set_ylabel(_objective(optimizer).label)
    axes.legend(frameon=False)
    return axes


def contour(
    run: Optimizer | Result,
    names: tuple[str, str] | None = None,
    *,
    axes: Axes | None = None,
) -> Axes:
    """Plot the partial dependence on two parameters as colours, and the trials as dots; dark is good.

    A cell without a feasible configuration stays empty. Crosses are failures.

    Args:
        run: The run.
        names: The parameters on the horizontal and the vertical axis, permutations excluded; None takes the two most
            important ones.
        axes: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        TrialError: Fewer than five trials have succeeded, or a parameter does not exist or is a permutation.
    """
    optimizer, axes = _open(run, axes)
    pair = _important(optimizer, 2) if names is None else tuple(names)
    observed = [t for t in _inside(optimizer) if all(t.config.get(n) is not None for n in pair)]
    if len(pair) != 2 or any(is_permutation(optimizer.space.parameters.get(n)) for n in pair):
        raise TrialError(
            f"names = {pair!r}: a contour needs two parameters other than permutations"
        )
    across, up = (_Scale(optimizer, name, observed) for name in pair)
    points = _dependence(optimizer, pair).points
    xs, ys = (sorted({s.place(p.values[i]) for p in points}) for i, s in enumerate((across, up)))
    table = np.full((len(ys), len(xs)), np.nan)
    for point in points:
        at = up.place(point.values[1]), across.place(point.values[0])
        table[ys.index(at[0]), xs.index(at[1])] = point.value
    colours = _COLOURS[optimizer.options.direction]
    across.mark(axes.set_xscale, axes.set_xticks)
    up.mark(axes.set_yscale, axes.set_yticks)
    is_smooth = across.is_number and up.is_number and min(table.shape) > 1
    drawn: Any
    if is_smooth and np.isfinite(table).all():
        drawn = axes.contourf(xs, ys, table, levels=12, cmap=colours)
    else:
        edges = across.edges(xs), up.edges(ys)
        drawn = axes.pcolormesh(*edges, np.ma.masked_invalid(table), cmap=colours)
    for ok, mark in ((True, "o"), (False, "x")):
        trials = [t for t in observed if (t.status is Status.OK) == ok]
        colour = "black" if ok else _FAILURE
        axes.plot(across.places(trials), up.places(trials), mark, color=colour, ms=4, alpha=0.7)
    axes.set_xlabel(pair[0])
    axes.set_ylabel(pair[1])
    axes.figure.colorbar(drawn, ax=axes, label=_objective(optimizer).label)
    return axes


def failures(run: Optimizer | Result, name: str | None = None, *, axes: Axes | None = None) -> Axes:
    """Plot the share of failed trials by failure word, over the course of the run or over one parameter.

    Args:
        run: The run.
        name: A parameter; None takes the course of the run. More than ten values, or evaluations, are grouped.
        axes: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        TrialError: No trial is observed, or the parameter does not exist.
    """
    optimizer, axes = _open(run, axes)
    trials = _inside(optimizer)
    if name is not None:
        scale = _Scale(optimizer, name, trials)
        trials = [trial for trial in trials if trial.config.get(name) is not None]
        trials.sort(key=lambda trial: scale.place(trial.config[name]))
        values = [trial.config[name] for trial in trials]
    else:
        values = list(range(1, len(trials) + 1))
    if not trials:
        raise TrialError("no trial is observed yet; observe some first")
    groups = _group(values)
    words = [word for word, _ in Counter(t.failure for t in trials if t.failure).most_common()]
    bottom = np.zeros(len(groups))
    for word in words:
        share = [np.mean([trials[i].failure == word for i in group]) for group in groups]
        axes.bar(range(len(groups)), share, bottom=bottom, label=word)
        bottom += share
    texts = [_span(values[group[0]], values[group[-1]]) for group in groups]
    axes.set_xticks(range(len(groups)), texts, rotation=45 if len(groups) > 5 else 0)
    axes.set_xlabel("evaluations" if name is None else name)
    axes.set_ylabel("share of failed trials")
    axes.set_ylim(0, 1)
    if words:
        axes.legend(frameon=False)
    return axes


_LEAST = 5
"""Number of successful trials that the models of the partial dependence need."""


class _Scale:
    """The places of a parameter's values on an axis: a number is its own place, another value has its index.

    Raises:
        TrialError: The parameter does not exist.
    """

    def __init__(self, optimizer: Optimizer, name: str, trials: Sequence[Trial]) -> None:
        parameters = optimizer.space.parameters
        if name not in parameters:
            raise TrialError(f"there is no parameter {name!r}; choose from {', '.join(parameters)}")
        self.name, parameter = name, parameters[name]
        self._listed: list[Any] = []
        self.is_number = isinstance(parameter, (Real, Integer, Ordinal))
        self._is_log = self.is_number and bool(getattr(parameter, "log", False))
        if not self.is_number:
            seen = dict.fromkeys(t.config[name] for t in trials if t.config.get(name) is not None)
            self._listed = list(seen if is_permutation(parameter) else parameter.values or seen)

    def place(self, value: Any) -> float:
        if value is None:  # inactive
            return float("nan")
        return float(value) if self.is_number else float(self._listed.index(value))

    def places(self, trials: Sequence[Trial]) -> Array:
        return np.array([self.place(trial.config.get(self.name)) for trial in trials])

    def heights(self, trials: Sequence[Trial]) -> Array:
        """Return the places as heights from 0 to 1."""
        places = self.places(trials)
        places = np.log(places) if self._is_log else places
        low, high = np.nanmin(places), np.nanmax(places)
        self._ends = low, high
        return (places - low) / (high - low) if high > low else places - low + 0.5

    def edges(self, places: Sequence[float]) -> Array:
        """Return the borders of the cells around places, which increase."""
        middles = np.log(places) if self._is_log else np.array(places)
        inner = (middles[1:] + middles[:-1]) / 2
        first = inner[0] if len(inner) else middles[0] + 0.5
        last = inner[-1] if len(inner) else middles[0] - 0.5
        edges = np.array([2 * middles[0] - first, *inner, 2 * middles[-1] - last])
        return np.exp(edges) if self._is_log else edges

    def labels(self) -> list[tuple[float, str]]:
        """Return the texts beside an axis with their heights."""
        low, high = self._ends
        if self.is_number:
            ends = [low, high] if high > low else [low]
            numbers = [float(np.exp(end)) if self._is_log else float(end) for end in ends]
            heights = [0.0, 1.0] if high > low else [0.5]
            return [(h, f"{number:.4g}") for h, number in zip(heights, numbers, strict=True)]
        if len(self._listed) > _MOST_LABELS:
            return []
        width = (high - low) or 1.0
        shown = ((i, v) for i, v in enumerate(self._listed) if low <= i <= high)
        return [((i - low) / width if high > low else 0.5, _text(v)) for i, v in shown]

    def mark(self, set_scale: Callable[[str], Any], set_ticks: Callable[..., Any]) -> None:
        """Set scale and ticks of an axis."""
        if self._is_log:
            set_scale("log")
        elif not self.is_number and len(self._listed) <= _MOST_LABELS:
            set_ticks(range(len(self._listed)), [_text(value) for value in self._listed])


def _open(run: Optimizer | Result, axes: Axes | None) -> tuple[Optimizer, Axes]:
    """Return the optimizer of a run, and the axes.

    Raises:
        TypeError: It is neither an optimizer nor a result.
    """
    optimizer = run.optimizer if isinstance(run, Result) else run
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"run = {run!r:.60}: give an Optimizer or the Result of tune; for a journal Optimizer.load(path)"
        )
    if axes is None:
        pyplot = require("matplotlib.pyplot", "plot")
        _, axes = pyplot.subplots(layout="constrained")
    return optimizer, axes


def _objective(optimizer: Optimizer) -> Objective:
    unit = optimizer.options.context.get("[objective] unit", "")
    return Objective(optimizer.options.objective, str(unit), optimizer.options.direction)


def _inside(optimizer: Optimizer) -> list[Trial]:
    """Return the observed trials, without imported ones outside the space."""
    seen = optimizer.history
    return [trial for trial, is_inside in zip(seen.trials, seen.inside, strict=True) if is_inside]


def _successes(optimizer: Optimizer) -> list[Trial]:
    trials = [t for t in _inside(optimizer) if t.status is Status.OK]
    if not trials:
        raise TrialError("no trial has succeeded yet; there is nothing to plot")
    return trials


def _important(optimizer: Optimizer, count: int) -> tuple[str, ...]:
    """Return the most important parameters; for a pair without permutations."""
    if len(_successes(optimizer)) < _LEAST:
        names = list(optimizer.space.active)
    else:
        names = [effect.name for effect in optimizer.importance()]
    if count > 1:
        names = [n for n in names if not is_permutation(optimizer.space.parameters[n])]
    return tuple(names[:count])


def _dependence(optimizer: Optimizer, names: tuple[str, ...]) -> Dependence:
    return compute_dependence_on(optimizer.history, names, optimizer.options.seed)


def _group(values: Sequence[Any]) -> list[list[int]]:
    """Return the positions of equal values, or of about equally many neighbours if there are too many values."""
    starts = [i for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
    if len(starts) > _MOST_BARS:
        return [list(map(int, part)) for part in np.array_split(np.arange(len(values)), _MOST_BARS)]
    return [list(range(a, b)) for a, b in zip(starts, [*starts[1:], len(values)], strict=True)]


def _span(first: Any, last: Any) -> str:
    return _text(first) if first == last else f"{_text(first)} to {_text(last)}"


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
