"""Plots of a run with matplotlib: ``from baco_like import plot``.

Every function takes an `Optimizer` or the `Result` of `tune`, draws on ``ax`` or on new axes, and returns the axes of
matplotlib, so that titles, limits and files are yours: ``plot.history(result).figure.savefig("history.png")``. Install
the extra ``plot``. The report (`baco_like.reporting`) has more charts, for a browser.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like import _drawing
from baco_like._optional import require
from baco_like._output import is_wide, show
from baco_like._typing import Array
from baco_like.exceptions import TrialError
from baco_like.explanations import Dependence
from baco_like.explanations.dependence import compute_dependence_on
from baco_like.optimizer import Optimizer
from baco_like.optimizer.predictions import history_of
from baco_like.parameters import Integer, Ordinal, Real, SteppedReal
from baco_like.records import History, Objective, Status, Trial
from baco_like.records.objective import sign_of
from baco_like.running.drawing import draw_convergence, draw_front
from baco_like.running.tuner import Result
from baco_like.spaces import Space

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["contour", "failures", "front", "history", "parallel_coordinates", "slice"]

_COLOURS = {"minimize": "viridis", "maximize": "viridis_r"}
"""Colours of values; dark is good."""

_FAILURE, _MODEL = "#d55e00", "#0072b2"
_MOST_LABELS = 12
_MOST_BARS = 10


def history(
    run: Optimizer | Result, *, objective: str | None = None, ax: Axes | None = None
) -> Axes:
    """Plot all values, the best so far, censored values and failures over the evaluations.

    Args:
        run: The run.
        objective: Name of one of several objectives; None takes the first.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: The run has no such objective.
    """
    shown, ax = _open(run, ax, objective)
    draw_convergence(ax, shown.history, shown.objective)
    return ax


def front(
    run: Optimizer | Result, names: tuple[str, str] | None = None, *, ax: Axes | None = None
) -> Axes:
    """Plot all successful trials by two of several objectives, with the front and its knee.

    Args:
        run: The run.
        names: The objectives on the horizontal and vertical axis; None takes the first two.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: The run has one objective, or no objectives with these names.
    """
    shown, ax = _open(run, ax)
    objectives = shown.optimizer.objectives
    if not objectives:
        raise ValueError("a run with one objective has no front; plot.history shows its values")
    known = [objective.name for objective in objectives]
    chosen = list(known[:2] if names is None else names)
    if len(chosen) != 2 or len(set(chosen) & set(known)) != 2:
        raise ValueError(f"names = {names!r:.80}: expected two of {', '.join(map(repr, known))}")
    draw_front(ax, shown.history, objectives, *map(known.index, chosen))
    return ax


def parallel_coordinates(
    run: Optimizer | Result,
    names: Sequence[str] | None = None,
    *,
    objective: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot each successful trial as a line across the parameters, coloured by its value; dark lines are good.

    The line of an inactive parameter is interrupted.

    Args:
        run: The run.
        names: The parameters from left to right; None takes all that are not constant.
        objective: Name of one of several objectives; None takes the first.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        TrialError: No trial has succeeded, or a parameter does not exist.
        ValueError: The run has no such objective.
    """
    is_own = ax is None
    shown, ax = _open(run, ax, objective)
    trials = shown.successes
    names = list(shown.history.space.active if names is None else names)
    if is_own:
        figure: Any = ax.figure
        figure.set_figwidth(max(figure.get_figwidth(), 0.9 * len(names)))
    scales = [_Scale(shown.history.space, name, trials) for name in names]
    heights = np.column_stack([scale.heights(trials) for scale in scales])
    values = np.array([trial.value for trial in trials], dtype=np.float64)
    worst_first = np.argsort(-sign_of(shown.objective.direction) * values, kind="stable")
    lines = require("matplotlib.collections", "plot").LineCollection(
        [np.column_stack([np.arange(len(names)), heights[i]]) for i in worst_first],
        array=values[worst_first],
        cmap=_COLOURS[shown.objective.direction],
        norm=_norm(values),
        alpha=0.8,
    )
    ax.add_collection(lines)
    _drawing.name_places(ax, names)
    ax.set_xlim(-0.3, len(names) - 0.2)
    ax.set_ylim(-0.05, 1.05)
    ax.set_yticks([])
    room = max(6, int(_drawing.letters_across(ax) / (len(names) + 1)))
    # The lines cross the texts.
    box = {"color": "white", "alpha": 0.7, "pad": 0.5, "lw": 0}
    style: dict[str, Any] = {"textcoords": "offset points", "fontsize": "small", "bbox": box}
    for place, scale in enumerate(scales):
        ax.axvline(place, color="#999999", lw=0.8, zorder=0)
        labels = scale.labels()
        texts = _drawing.short_texts([text for _, text in labels], room)
        for (height, _), text in zip(labels, texts, strict=True):
            ax.annotate(text, (place, height), (3, 0), **style)
    ax.figure.colorbar(lines, ax=ax, label=_drawing.short_text(shown.objective.label))
    return ax


def slice(
    run: Optimizer | Result,
    name: str | None = None,
    *,
    objective: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the values over one parameter, with the partial dependence and its 90 % interval.

    The line needs five successful trials, and the parameter must not be a permutation or a sequence.

    Args:
        run: The run.
        name: The parameter; None takes the most important one.
        objective: Name of one of several objectives; None takes the first.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        TrialError: No trial has succeeded, or the parameter does not exist.
        ValueError: The run has no such objective.
    """
    shown, ax = _open(run, ax, objective)
    trials = shown.successes
    name = shown.important(1)[0] if name is None else name
    scale = _Scale(shown.history.space, name, trials)
    observed = np.array([trial.value for trial in trials], dtype=np.float64)
    style: dict[str, Any] = {"ms": 4, "color": "#9a9a9a", "label": "evaluation"}
    ax.plot(scale.places(trials), observed, "o", **style)
    if shown.history.space.parameters[name].width == 1 and len(trials) >= _LEAST:
        points = shown.dependence((name,)).points
        places = [scale.place(point.values[0]) for point in points]
        values, low, high = (
            np.array([getattr(p, k) for p in points]) for k in ("value", "low", "high")
        )
        if scale.is_number:
            ax.plot(places, values, color=_MODEL, label="partial dependence")
            ax.fill_between(places, low, high, color=_MODEL, alpha=0.2, lw=0)
        else:
            reach = np.maximum([values - low, high - values], 0)
            label = "partial dependence"
            ax.errorbar(places, values, reach, fmt="s", color=_MODEL, capsize=4, label=label)
    scale.mark(ax, "x")
    if is_wide(observed):
        _drawing.mark_log(ax, "y")
    ax.set_xlabel(name)
    ax.set_ylabel(_drawing.short_text(shown.objective.label))
    _drawing.add_legend(ax)
    return ax


def contour(
    run: Optimizer | Result,
    names: tuple[str, str] | None = None,
    *,
    objective: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Plot the partial dependence on two parameters as colours, and the trials as dots; dark is good.

    A cell without a feasible configuration stays empty. Crosses are failures.

    Args:
        run: The run.
        names: The parameters on the horizontal and the vertical axis, no permutations or sequences; None takes the
            two most important ones.
        objective: Name of one of several objectives; None takes the first.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        TrialError: Fewer than five trials have succeeded, or a parameter does not exist, is a
            permutation, or is given twice.
        ValueError: The run has no such objective.
    """
    shown, ax = _open(run, ax, objective)
    pair = shown.important(2) if names is None else tuple(names)
    observed = [t for t in shown.inside if all(t.config.get(n) is not None for n in pair)]
    if len(set(pair)) < len(pair):
        raise TrialError(
            f"names = {pair!r}: the parameter {pair[0]!r} is given twice; name another one"
        )
    known = shown.history.space.parameters
    if len(pair) != 2 or any(n in known and known[n].width > 1 for n in pair):
        raise TrialError(
            f"names = {pair!r}: a contour needs two parameters other than permutations and sequences"
        )
    across, up = (_Scale(shown.history.space, name, observed) for name in pair)
    points = shown.dependence(pair).points
    xs, ys = (sorted({s.place(p.values[i]) for p in points}) for i, s in enumerate((across, up)))
    table = np.full((len(ys), len(xs)), np.nan)
    for point in points:
        at = up.place(point.values[1]), across.place(point.values[0])
        table[ys.index(at[0]), xs.index(at[1])] = point.value
    colours = {"cmap": _COLOURS[shown.objective.direction], "norm": _norm(table)}
    across.mark(ax, "x")
    up.mark(ax, "y")
    is_smooth = across.is_number and up.is_number and min(table.shape) > 1
    drawn: Any
    if is_smooth and np.isfinite(table).all() and colours["norm"] is None:
        drawn = ax.contourf(xs, ys, table, levels=12, **colours)
    else:
        edges = across.edges(xs), up.edges(ys)
        drawn = ax.pcolormesh(*edges, np.ma.masked_invalid(table), **colours)
    for ok, mark in ((True, "o"), (False, "x")):
        trials = [t for t in observed if (t.status is Status.OK) == ok]
        colour = "black" if ok else _FAILURE
        ax.plot(across.places(trials), up.places(trials), mark, color=colour, ms=4, alpha=0.7)
    ax.set_xlabel(pair[0])
    ax.set_ylabel(_drawing.short_text(pair[1]))
    ax.figure.colorbar(drawn, ax=ax, label=_drawing.short_text(shown.objective.label))
    return ax


def failures(run: Optimizer | Result, name: str | None = None, *, ax: Axes | None = None) -> Axes:
    """Plot the share of failed trials by failure word, over the course of the run or over one parameter.

    Args:
        run: The run.
        name: A parameter; None takes the course of the run. More than ten values, or evaluations, are grouped.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        TrialError: No trial is observed, or the parameter does not exist.
    """
    shown, ax = _open(run, ax)
    trials = shown.inside
    if name is not None:
        scale = _Scale(shown.history.space, name, trials)
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
    for word, hatch in zip(words, cycle(("", "//", "..", "xx", "--")), strict=False):
        share = [np.mean([trials[i].failure == word for i in group]) for group in groups]
        ax.bar(range(len(groups)), share, bottom=bottom, label=word, hatch=hatch, edgecolor="white")
        bottom += share
    texts = [_span(values[group[0]], values[group[-1]]) for group in groups]
    _drawing.name_places(ax, texts)
    ax.set_xlabel("evaluations" if name is None else name)
    ax.set_ylabel("share of failed trials")
    ax.set_ylim(0, 1)
    if words:
        _drawing.add_legend(ax)
    return ax


_LEAST = 5
"""Number of successful trials that the models of the partial dependence need."""


class _Scale:
    """The places of a parameter's values on an axis: a number is its own place, another value has its index.

    Raises:
        TrialError: The parameter does not exist.
    """

    def __init__(self, space: Space, name: str, trials: Sequence[Trial]) -> None:
        parameters = space.parameters
        if name not in parameters:
            raise TrialError(f"there is no parameter {name!r}; choose from {', '.join(parameters)}")
        self.name, parameter = name, parameters[name]
        self._listed: list[Any] = []
        self.is_number = isinstance(parameter, (Real, SteppedReal, Integer, Ordinal))
        self._is_ordinal = isinstance(parameter, Ordinal)
        self._is_log = self.is_number and bool(getattr(parameter, "log", False))
        if self.is_number:
            self._listed = list(parameter.values or ())
        else:
            seen = dict.fromkeys(t.config[name] for t in trials if t.config.get(name) is not None)
            self._listed = list(parameter.values or seen)

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
        return [((i - low) / width if high > low else 0.5, show(v)) for i, v in shown]

    def mark(self, ax: Axes, side: str) -> None:
        """Set scale and ticks of the horizontal axis, ``x``, or the vertical one, ``y``."""
        if self._is_log:
            getattr(ax, f"set_{side}scale")("log")
        texts = _drawing.short_texts([show(value) for value in self._listed])
        if not self.is_number:
            _drawing.name_places(ax, texts, side, _MOST_LABELS)
        elif texts and (self._is_ordinal or len(texts) <= _MOST_LABELS):
            getattr(ax, f"set_{side}ticks")([], minor=True)
            shown = self._apart(texts, _drawing.letters_across(ax) if side == "x" else None)
            values, names = [self._listed[i] for i in shown], [texts[i] for i in shown]
            getattr(ax, f"set_{side}ticks")(values, names)

    def _apart(self, texts: Sequence[str], room: float | None) -> list[int]:
        """Return the positions of values whose texts do not overlap; room is in letters, None for a vertical axis."""
        at = np.log(self._listed) if self._is_log else np.array(self._listed, dtype=np.float64)
        span, shown = float(at[-1] - at[0]) or 1.0, [0]
        for i in range(1, len(at)):
            share = 0.05 if room is None else (len(texts[i]) + len(texts[shown[-1]]) + 1) / 2 / room
            if at[i] - at[shown[-1]] >= share * span:
                shown.append(i)
        return shown


@dataclass(frozen=True)
class _Shown:
    """The run of a plot, seen by one objective.

    Attributes:
        optimizer: The run.
        history: Its history; values and costs are those of the objective.
        objective: The objective.
        further: Name of the objective if it is not the first one, else None.
    """

    optimizer: Optimizer
    history: History
    objective: Objective
    further: str | None

    @cached_property
    def inside(self) -> list[Trial]:
        """The observed trials at the target fidelity, without imported ones outside the space."""
        shown = self.history.inside & self.history.is_target
        return [trial for trial, kept in zip(self.history.trials, shown, strict=True) if kept]

    @cached_property
    def successes(self) -> list[Trial]:
        """The successful ones.

        Raises:
            TrialError: No trial has succeeded.
        """
        trials = [t for t in self.inside if t.status is Status.OK]
        if not trials:
            raise TrialError("no trial has succeeded yet; there is nothing to plot")
        return trials

    def important(self, count: int) -> tuple[str, ...]:
        """Return the most important parameters; for a pair without permutations and sequences."""
        if len(self.successes) < _LEAST:
            names = list(self.history.space.active)
        else:
            effects = self.optimizer.importance(objective=self.further)
            names = [effect.name for effect in effects]
        if count > 1:
            parameters = self.history.space.parameters
            names = [name for name in names if parameters[name].width == 1]
        return tuple(names[:count])

    def dependence(self, names: tuple[str, ...]) -> Dependence:
        return compute_dependence_on(self.history, names, self.optimizer.options.seed)


def _open(run: Optimizer | Result, ax: Axes | None, name: str | None = None) -> tuple[_Shown, Axes]:
    """Return what a plot shows of a run, and the axes.

    Args:
        run: The run.
        ax: The axes, or None.
        name: Name of the objective; None takes the first.

    Raises:
        TypeError: It is neither an optimizer nor a result.
        ValueError: The run has no such objective.
    """
    optimizer = run.optimizer if isinstance(run, Result) else run
    if not isinstance(optimizer, Optimizer):
        raise TypeError(
            f"run = {run!r:.60}: give an Optimizer or the Result of tune; for a journal Optimizer.load(path)"
        )
    objective = optimizer.objective
    further = None if name == objective.name else name
    history = history_of(optimizer.history, further)
    if further is not None:
        (objective,) = (o for o in optimizer.objectives if o.name == further)
        history = history.view_as(partial(_with_value, further))
    return _Shown(optimizer, history, objective, further), _drawing.open_axes(ax, 6.4, 4.8)


def _with_value(metric: str, trial: Trial) -> Trial:
    """Return a trial with one of its metrics as the value, and without the bound, which is one of the first value."""
    if trial.outcome is None:
        return trial
    value = trial.metrics[metric] if trial.status is Status.OK else None
    return replace(trial, outcome=replace(trial.outcome, value=value, bound=None))


def _group(values: Sequence[Any]) -> list[list[int]]:
    """Return the positions of equal values, or of about equally many neighbours if there are too many values."""
    starts = [i for i, value in enumerate(values) if i == 0 or value != values[i - 1]]
    if len(starts) > _MOST_BARS:
        return [list(map(int, part)) for part in np.array_split(np.arange(len(values)), _MOST_BARS)]
    return [list(range(a, b)) for a, b in zip(starts, [*starts[1:], len(values)], strict=True)]


def _norm(values: Array) -> Any:
    """Return the scale of the colours of values; None is a linear one."""
    if not is_wide(values[np.isfinite(values)]):
        return None
    return require("matplotlib.colors", "plot").LogNorm(np.nanmin(values), np.nanmax(values))


def _span(first: Any, last: Any) -> str:
    return show(first) if first == last else f"{show(first)} to {show(last)}"
