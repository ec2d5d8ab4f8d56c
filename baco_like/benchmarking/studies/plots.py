"""Plot a study for print: convergence, scores, profiles, targets, critical differences and wins.

Every function draws on ``ax`` or on new axes of one column of a journal, and returns the axes of matplotlib.
`save_figure` writes PDF or PNG. The legend is above the axes; lines differ in colour, dashes and markers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from baco_like import _drawing
from baco_like._optional import require
from baco_like._output import is_wide
from baco_like._typing import Array
from baco_like.benchmarking.studies.results_table import clock
from baco_like.benchmarking.studies.runs import StudiedProblem, parameters_of
from baco_like.benchmarking.studies.statistics import interval
from baco_like.benchmarking.studies.study import StudyResult
from baco_like.records.objective import sign_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Over = Literal["evaluations", "time"]
"""The unit of a horizontal axis: evaluations, or the seconds that they take, as recorded or measured."""

TOLERANCE = 0.05
"""Distance of a target to the best value, as a share of the distance between the first value and the best one."""

_TARGETS = np.logspace(0, -3, 51)
"""The shares of the targets of `plot_targets`; as many as in COCO."""

_MOST_BANDS, _RESAMPLES = 4, 400
"""Number of lines up to which their intervals are drawn; more would hide each other."""

_LETTER = 0.07
"""Width of a small letter in inches."""

_ZERO = 1e-9
"""Regret below this share of the largest one is rounding."""


def plot_convergence(
    result: StudyResult,
    problem: str | None = None,
    *,
    over: Over = "evaluations",
    ax: Axes | None = None,
) -> Axes:
    """Plot the mean of the best value so far, with 95 % intervals for up to four strategies with ten runs or more.

    Where the optimum is known, the regret is plotted. Over all problems it is the mean of the relative regrets: shares
    of the distance between the first value, the median of all runs, and the optimum, or the best value of any run where
    it is not known. A curve begins where every run has had a success.

    Args:
        result: The result of `study`.
        problem: Name of a problem; None takes the mean over all problems.
        over: The horizontal axis.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: The study has no such problem, or the problem has no times.
    """
    chosen, is_own, ax = _choose(result, problem), ax is None, _drawing.open_axes(ax)
    parts = [_progress(result, each, over) for each in chosen]
    (at, _), optimum, sign = parts[0], chosen[0].best_value, sign_of(chosen[0].direction)
    x_label = "evaluations" if over == "evaluations" else "seconds of evaluations"
    y_label, tables = "regret", [own for _, own in parts]
    if problem is None:
        x_label, y_label = f"share of the budget ({over}), %", "mean relative regret"
        tables = [_relative(result, *each) for each in zip(chosen, parts, strict=True)]
        at = 100 * _SHARES
    elif optimum is None:
        y_label, tables = "best value", [{k: sign * v for k, v in tables[0].items()}]
    else:
        tables = [{k: v - sign * optimum for k, v in tables[0].items()}]
    lowest: list[Array] = []
    for i, label in enumerate(result.figures.labels):
        draws = np.random.default_rng(0)
        means: list[list[Array]] = []
        for table in (each[label] for each in tables):
            sample = draws.integers(len(table), size=(_RESAMPLES, len(table)))
            means.append([table.mean(axis=0), *table[sample].mean(axis=1)])
        mean, *samples = np.mean(means, axis=0)
        lowest.append(mean)
        style = _drawing.line_style(i, len(result.figures.labels))
        if np.isnan(mean).all():  # without a success; matplotlib cannot place its markers
            del style["markevery"]
        ax.plot(at, mean, label=label, **style)
        if len(result.figures.labels) <= _MOST_BANDS:
            band = interval(samples, min(len(each[label]) for each in tables))
            ax.fill_between(at, *band, color=style["color"], alpha=0.15, lw=0)
    if y_label != "best value":
        _scale_regret(ax, np.array(lowest))
    if problem is not None and over == "time":
        _drawing.mark_log(ax)
    _drawing.label_axes(ax, x_label, y_label)
    _drawing.add_legend(ax, is_own)
    return ax


def plot_time_to_target(
    result: StudyResult,
    problem: str | None = None,
    tolerance: float = TOLERANCE,
    *,
    over: Over = "evaluations",
    ax: Axes | None = None,
) -> Axes:
    """Plot the share of runs that have reached a target, over the evaluations or the seconds.

    The target is ``best + tolerance * (first - best)``, with the first and the best value of `plot_convergence`.

    Args:
        result: The result of `study`.
        problem: Name of a problem; None takes the runs on all problems.
        tolerance: Distance to the best value; 0 is the best value itself.
        over: The horizontal axis.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: The study has no such problem, or the problem has no times.
    """
    found = [_times_to(result, each, [tolerance], over) for each in _choose(result, problem)]
    x_label = "evaluations" if over == "evaluations" else "seconds of evaluations"
    return _draw_shares(ax, found, x_label, f"share of runs within {100 * tolerance:g} %")


def plot_targets(result: StudyResult, *, ax: Axes | None = None) -> Axes:
    """Plot the share of pairs of a run and a target that are reached, over evaluations per parameter.

    The empirical distribution of runtimes of COCO (Hansen et al., Optimization Methods and Software 36, 2021), without
    its simulated restarts. A problem has 51 targets, from its first value to 0.1 % from the best one, see
    `plot_time_to_target`.

    Args:
        result: The result of `study`.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    found = [_times_per_parameter(result, each, _TARGETS, 0) for each in result.problems]
    return _draw_shares(ax, found, "evaluations / parameters", "share of targets reached")


def plot_data_profile(
    result: StudyResult, tolerance: float = TOLERANCE, *, ax: Axes | None = None
) -> Axes:
    """Plot the share of runs that have reached a target, over evaluations per parameter and one more.

    The data profile (More and Wild, SIAM J. Optimization 20, 2009, section 2.3); each run is a problem of it.

    Args:
        result: The result of `study`.
        tolerance: Decides the target, see `plot_time_to_target`.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    found = [_times_per_parameter(result, each, [tolerance], 1) for each in result.problems]
    y_label = f"share of runs within {100 * tolerance:g} %"
    return _draw_shares(ax, found, "evaluations / (parameters + 1)", y_label)


def plot_performance_profile(
    result: StudyResult, tolerance: float = TOLERANCE, *, ax: Axes | None = None
) -> Axes:
    """Plot the share of problems on which a strategy takes at most a multiple of the best strategy's evaluations.

    The performance profile (Dolan and More, Mathematical Programming 91, 2002). The measure is the expected running
    time to the target: the evaluations of all runs up to the target, divided by the number of runs that reach it.

    Args:
        result: The result of `study`.
        tolerance: Decides the target, see `plot_time_to_target`.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    found: list[dict[str, Array]] = []
    for problem in result.problems:
        times, most = _times_to(result, problem, [tolerance]), result.budgets[problem.name]
        with np.errstate(divide="ignore", invalid="ignore"):
            efforts = {
                k: np.minimum(v, most).sum() / np.isfinite(v).sum() for k, v in times.items()
            }
            ratios = {k: v / min(efforts.values()) for k, v in efforts.items()}
        found.append({k: np.array([np.inf if np.isnan(v) else v]) for k, v in ratios.items()})
    x_label = "evaluations / those of the best strategy"
    return _draw_shares(ax, found, x_label, "share of problems")


def plot_scores(result: StudyResult, *, over: Over = "evaluations", ax: Axes | None = None) -> Axes:
    """Plot the mean score of the recorded problems over the budget, with intervals for up to four strategies.

    Args:
        result: The result of `study`.
        over: The budget: evaluations, or simulated time.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: No problem is recorded, or one cannot be scored, see `StudyFigures`.
    """
    standings = result.figures.evaluations if over == "evaluations" else result.figures.time
    if not standings:
        raise ValueError(f"there is no score over {over}: it needs recorded problems, with times")
    is_own, ax = ax is None, _drawing.open_axes(ax)
    for i, (label, standing) in enumerate(standings.items()):
        style, percent = _drawing.line_style(i, len(standings)), 100 * standing.shares
        ax.plot(percent, standing.curve, label=f"{label} ({standing.score:.2f})", **style)
        if len(standings) <= _MOST_BANDS:
            ax.fill_between(percent, *standing.band, color=style["color"], alpha=0.15, lw=0)
    for level in (0.0, 1.0):
        ax.axhline(level, color="#9a9a9a", lw=0.8, zorder=0)
    lowest = min(float(standing.curve.min()) for standing in standings.values())
    ax.set_ylim(max(-1.0, min(-0.1, lowest - 0.05)), 1.05)
    _drawing.label_axes(ax, f"share of the budget ({over}), %", "score")
    _drawing.add_legend(ax, is_own)
    return ax


def plot_wins(result: StudyResult, *, ax: Axes | None = None) -> Axes:
    """Plot the number of problems on which the row is significantly better than the column.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    figures = result.figures
    table, labels = figures.wins, _drawing.short_texts(figures.labels)
    side = 1.4 + 0.28 * len(labels)
    ax = _drawing.open_axes(ax, side + 0.6, side)
    image = ax.imshow(table, cmap="viridis", vmin=0, vmax=len(figures.problems))
    ax.set_xticks(range(len(labels)), labels, rotation=45, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(labels)), labels)
    for (i, j), count in np.ndenumerate(table):
        style: dict[str, Any] = {"color": "black" if count > len(figures.problems) / 2 else "white"}
        if i != j:
            ax.text(j, i, str(count), ha="center", va="center", fontsize="x-small", **style)
    ax.set_xlabel("loses", fontsize="small")
    ax.set_ylabel("wins", fontsize="small")
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("problems", fontsize="small")
    bar.ax.tick_params(labelsize="small")
    bar.locator = require("matplotlib.ticker", "plot").MaxNLocator(integer=True)
    bar.update_ticks()
    return ax


def plot_critical_difference(result: StudyResult, *, ax: Axes | None = None) -> Axes:
    """Plot the mean ranks of the strategies; bars join those that do not differ significantly.

    The diagram of Demsar (JMLR 7, 2006, Fig. 1), with Nemenyi's test; see `mean_ranks`.

    Args:
        result: The result of `study`.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: A single strategy, or a study without a success, has no ranks.
    """
    found = result.figures.ranks
    if found is None:
        raise ValueError(
            "there are no ranks: they need two strategies, and a problem with a success"
        )
    count, ranks = len(found.ranks), np.array(list(found.ranks.values()))
    groups, half = joined_groups(ranks, found.critical_difference), (count + 1) // 2
    # Names are beside the ranks, so that no line crosses a text; lengths are in inches.
    middle, width = max(1.8, 0.25 * count), _drawing.PAGE
    if ax is not None:
        width = _drawing.LETTER * _drawing.letters_across(ax)
    longest = max(6, min(24, int((width - middle) / 2 / _LETTER) - 7))
    labels = _drawing.short_texts(list(found.ranks), longest)
    texts = [f"{label} ({rank:.2f})" for label, rank in zip(labels, ranks, strict=True)]
    room = _LETTER * max(map(len, texts))
    height = 0.85 + 0.18 * half + 0.09 * len(groups)
    ax = _drawing.open_axes(ax, max(_drawing.COLUMN, 2 * room + middle), height)
    margin = room * (count - 1) / max(0.5, _drawing.LETTER * _drawing.letters_across(ax) - 2 * room)
    ax.set_xlim(1 - margin, count + margin)
    depth = 0.6 + 0.4 * len(groups)
    ax.set_ylim(depth + half - 0.5, -2.6)
    ax.axis("off")
    ax.hlines(0, 1, count, color="black", lw=0.8)
    for tick in range(1, count + 1):
        ax.vlines(tick, -0.15, 0, color="black", lw=0.8)
        text = str(tick) if count < 10 or tick % 2 else ""
        ax.text(tick, -0.25, text, ha="center", va="bottom", fontsize="small")
    for i, (text, rank) in enumerate(zip(texts, ranks, strict=True)):
        is_left = i < half
        y = depth + (i if is_left else count - 1 - i)
        end = 1 - margin if is_left else count + margin
        ax.plot([rank, rank, end], [0, y, y], color="black", lw=0.7)
        side = "left" if is_left else "right"
        ax.text(end, y - 0.08, text, ha=side, va="bottom", fontsize="small")
    for level, (first, last) in enumerate(groups):
        ends = ranks[first] - 0.02, ranks[last] + 0.02
        ax.hlines(0.4 + 0.4 * level, *ends, color="black", lw=2.5)
    width = min(found.critical_difference, count - 1)
    ax.plot([1, 1 + width], [-1.6, -1.6], color="#d55e00", lw=1.5, marker="|")
    text = f"critical difference {found.critical_difference:.2f} ({found.blocks} problem{'s'[: found.blocks - 1]})"
    ax.text(1, -1.8, text, ha="left", va="bottom", fontsize="small", color="#d55e00")
    return ax


def plot_panels(
    result: StudyResult, draw: Callable[..., Axes] = plot_convergence, **settings: Any
) -> Figure:
    """Draw one panel for each problem, with one legend, in a figure as wide as a page.

    Args:
        result: The result of `study`.
        draw: `plot_convergence`, `plot_time_to_target`, or a function that is called like them.
        **settings: Passed to it.

    Raises:
        MissingExtra: matplotlib is not installed.
        ValueError: As for ``draw``.
    """
    names = [problem.name for problem in result.problems]
    columns = min(len(names), 3 if len(names) <= 9 else 4)
    width = max(_drawing.COLUMN, _drawing.PAGE * columns / max(3, columns))
    rows = -(-len(names) // columns)
    figure: Any = _drawing.open_axes(None, width, 1.55 * rows).figure
    figure.clear()
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for i, ax in enumerate(panels):
        if i >= len(names):
            ax.remove()
            continue
        draw(result, names[i], ax=ax, **settings)
        ax.get_legend().remove()
        title = _drawing.short_text(names[i], int(11 * width / columns))
        ax.set_title(title, fontsize="small")
        if i + columns < len(names):
            ax.set_xlabel("")
        if i % columns and ax.get_ylabel() == panels[i - i % columns].get_ylabel():
            ax.set_ylabel("")
    _drawing.add_legend(panels[0], True)
    whole: Figure = figure
    return whole


def joined_groups(ranks: Array, difference: float) -> list[tuple[int, int]]:
    """Return the largest runs of ascending mean ranks that span at most a difference: first and last index."""
    ends = np.searchsorted(ranks, ranks + difference, side="right") - 1
    groups: list[tuple[int, int]] = []
    for first, last in enumerate(ends.tolist()):
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


# Data of the figures ------------------------------------------------------------------------------------------------

_SHARES = np.linspace(0.01, 1, 100)
"""The shares of the budget of the figures of all problems."""


def _choose(result: StudyResult, name: str | None) -> Sequence[StudiedProblem]:
    chosen = [problem for problem in result.problems if name in (None, problem.name)]
    if not chosen:
        known = ", ".join(repr(problem.name) for problem in result.problems)
        raise ValueError(f"problem = {name!r}: the study has {known}")
    return chosen


def _progress(
    result: StudyResult, problem: StudiedProblem, over: Over = "evaluations"
) -> tuple[Array, dict[str, Array]]:
    """Return numbers of evaluations, or seconds, ``(k,)``, and the best costs at them by label, ``(runs, k)``.

    Raises:
        ValueError: The evaluations have no times.
    """
    name = problem.name
    at: Array = np.arange(1, result.budgets[name] + 1).astype(np.float64)
    curves = {label: own[name] for label, own in result.figures.curves.items()}
    if over == "evaluations":
        return at, {
            k: own[:, np.minimum(at, own.shape[1]).astype(int) - 1] for k, own in curves.items()
        }
    runs = [run for run in result.runs if run.problem == name]
    ends = {label: clock([r for r in runs if r.label == label], problem) for label in curves}
    every = np.concatenate([own[own > 0] for own in ends.values()])
    if not len(every):
        raise ValueError(f"problem {name!r} has no times of evaluations; plot over evaluations")
    at = np.geomspace(every.min(), every.max(), 400)
    tables: dict[str, Array] = {}
    for label, own in curves.items():
        done = [
            np.searchsorted(seconds[~np.isnan(seconds)], at, side="right")
            for seconds in ends[label]
        ]
        padded = np.pad(own, ((0, 0), (1, 0)), constant_values=np.nan)
        tables[label] = np.take_along_axis(padded, np.array(done), axis=1)
    return at, tables


def _relative(
    result: StudyResult, problem: StudiedProblem, part: tuple[Array, Mapping[str, Array]]
) -> dict[str, Array]:
    """Return the relative regrets at the shares of the budget by label, ``(runs, shares)``."""
    at, tables = part
    first, best = _ends_of(result, problem)
    index = np.maximum(0, np.searchsorted(at, _SHARES * at[-1] * (1 + _ZERO), side="right") - 1)
    return {k: (v[:, index] - best) / ((first - best) or 1.0) for k, v in tables.items()}


def _ends_of(result: StudyResult, problem: StudiedProblem) -> tuple[float, float]:
    """Return the median cost of the first successes of all runs, and the smallest cost: the optimum if it is known."""
    lines = [
        line[~np.isnan(line)] for c in result.figures.curves.values() for line in c[problem.name]
    ]
    lines = [line for line in lines if len(line)] or [np.zeros(1)]
    best = min(line.min() for line in lines)
    if problem.best_value is not None:
        best = min(best, sign_of(problem.direction) * problem.best_value)
    return float(np.median([line[0] for line in lines])), float(best)


def _times_to(
    result: StudyResult,
    problem: StudiedProblem,
    shares: Sequence[float] | Array,
    over: Over = "evaluations",
) -> dict[str, Array]:
    """Return when each run reaches each target, infinite if it does not, ``(runs * targets,)`` by label."""
    at, tables = _progress(result, problem, over)
    first, best = _ends_of(result, problem)
    targets = best + (np.asarray(shares) + _ZERO) * abs(first - best)
    hits = {label: table[:, :, None] <= targets for label, table in tables.items()}
    return {
        label: np.where(hit.any(axis=1), at[hit.argmax(axis=1)], np.inf).ravel()
        for label, hit in hits.items()
    }


def _times_per_parameter(
    result: StudyResult, problem: StudiedProblem, shares: Sequence[float] | Array, more: int
) -> dict[str, Array]:
    times = _times_to(result, problem, shares)
    return {label: own / (parameters_of(problem) + more) for label, own in times.items()}


def _draw_shares(
    ax: Axes | None, parts: Sequence[Mapping[str, Array]], x_label: str, y_label: str
) -> Axes:
    """Draw the empirical distributions of times, on a logarithmic axis; an infinite time counts as not reached."""
    is_own, ax = ax is None, _drawing.open_axes(ax)
    found = {label: np.sort(np.concatenate([part[label] for part in parts])) for label in parts[0]}
    at = np.unique(np.concatenate(list(found.values())))
    at = at[np.isfinite(at)] if np.isfinite(at).any() else np.ones(1)
    at = np.append(at, max(at[-1] * 1.05, 2 * at[0]))
    for i, (label, own) in enumerate(found.items()):
        share = np.searchsorted(own, at, side="right") / len(own)
        style = _drawing.line_style(i, len(found))
        ax.plot(at, share, drawstyle="steps-post", label=label, **style)
    ax.set_xlim(at[0], at[-1])
    ax.set_ylim(-0.03, 1.03)
    _drawing.mark_log(ax)
    _drawing.label_axes(ax, x_label, y_label)
    _drawing.add_legend(ax, is_own)
    return ax


def _scale_regret(ax: Axes, regrets: Array) -> None:
    """Make a wide axis of regrets logarithmic; a regret of 0 is at its lower end."""
    known = regrets[~np.isnan(regrets)]
    positive = known[known > _ZERO * known.max(initial=0.0)]
    if not len(positive) or (len(positive) == len(known) and not is_wide(known)):
        return
    if len(positive) == len(known):
        _drawing.mark_log(ax, "y")
        return
    least = 10.0 ** np.floor(np.log10(positive.min()))
    ax.set_yscale("symlog", linthresh=least, linscale=0.5)
    ax.set_ylim(bottom=-0.1 * least)


# All of them ----------------------------------------------------------------------------------------------------------

FIGURES: Mapping[str, Callable[[StudyResult], Any]] = {
    "convergence": plot_convergence,
    "curves": plot_panels,
    "time_to_target": plot_time_to_target,
    "targets": plot_targets,
    "data_profile": plot_data_profile,
    "performance_profile": plot_performance_profile,
    "ranks": plot_critical_difference,
    "wins": plot_wins,
    "scores": plot_scores,
    "scores_over_time": partial(plot_scores, over="time"),
}
"""The figures of `save_figures`, by the name of the file."""


def save_figures(
    result: StudyResult, folder: Path, formats: Sequence[str] = ("pdf", "png")
) -> list[Path]:
    """Write every figure that a study has, and the convergence on each problem; return the files.

    Raises:
        MissingExtra: matplotlib is not installed.
        JournalError: A file cannot be written.
    """
    figures, draws = result.figures, dict(FIGURES)
    folder.mkdir(parents=True, exist_ok=True)
    there: dict[str, Any] = {"ranks": figures.ranks, "wins": figures.ranks}
    there |= {"scores": figures.evaluations, "scores_over_time": figures.time}
    for name in figures.problems if len(figures.problems) > 1 else ():
        file = "convergence-" + re.sub(r"[^\w.-]+", "-", name)
        draws[file] = partial(plot_convergence, problem=name)
    pyplot = require("matplotlib.pyplot", "plot")
    written: list[Path] = []
    for name, draw in draws.items():
        if not there.get(name, True):
            continue
        figure: Any = draw(result)
        for kind in formats:
            written.append(folder / f"{name}.{kind}")
            _drawing.save_figure(figure, written[-1])
        pyplot.close(figure.figure)
    return written
