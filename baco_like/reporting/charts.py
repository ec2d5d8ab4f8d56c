"""The charts of a report, as Vega-Lite specifications.

Colours are near those of Okabe and Ito (2008), which people with a colour vision deficiency can tell apart. All are
visible on a light and on a dark page. Text and lines get their colours from the page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from baco_like._output import in_percent, is_wide, show
from baco_like.explanations import (
    AblationStep,
    Calibration,
    Dependence,
    DependencePoint,
    Importance,
)
from baco_like.records import Confirmation, Speedup, Status
from baco_like.records.trial import read_values
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.page import ReportChart, shorten_text
from baco_like.running.findings import evaluation_numbers
from baco_like.running.sentences import candidate_name

Rows: TypeAlias = Sequence[Mapping[str, Any]]
"""The rows that a chart draws; each has one mark."""

Channel: TypeAlias = dict[str, Any]
"""The field of the rows that a place, a length or a colour shows, with its axis or legend."""

MOST_POINTS = 1000
"""Most evaluations that a chart draws: an even selection, and all that were the best so far."""

SHOWN_PARAMETERS = 20
"""Most parameters in the chart of the importance."""

_LETTER = 6.5
"""Width of a letter of a label, in pixels."""

_NARROW = 300
"""Width of a chart on a narrow page, in pixels."""

_HEIGHT = 220

_PERCENT = {"labelExpr": "format(100 * datum.value, '~g') + ' %'"}
"""Labels of shares on an axis."""

_BLUE, _ORANGE, _GREEN, _GREY = "#2F8FD0", "#E69F00", "#009E73", "#999999"
_FAILURES = ("#D55E00", "#CC79A7", "#E6C700", "#8C6BB1", _GREY)

_HIGH = {"field": "high"}
"""The second end of an interval."""

# The parts of a chart -------------------------------------------------------------------------------------------------


def _number(field: str, title: str | None = None, **settings: Any) -> Channel:
    """Return the channel of a number; without a title, another layer names the axis."""
    titled = {} if title is None else {"title": title}
    return {"field": field, "type": "quantitative", **titled, **settings}


def _text(field: str, title: str | None = None, **settings: Any) -> Channel:
    """Return the channel of a text, in the order of the rows; None: the axis has no title."""
    return {"field": field, "type": "nominal", "title": title, "sort": None, **settings}


def _colours(colours: Mapping[str, str]) -> Channel:
    """Return the channel of kinds with their colours, and a legend above the chart."""
    scale = {"domain": list(colours), "range": list(colours.values())}
    legend = {"orient": "top", "columns": 4}
    return {"field": "kind", "type": "nominal", "title": None, "scale": scale, "legend": legend}


def _points(size: int, **style: Any) -> dict[str, Any]:
    return {"type": "point", "filled": True, "size": size, **style}


def _rule(colour: str, width: int = 1, **style: Any) -> dict[str, Any]:
    return {"type": "rule", "color": colour, "strokeWidth": width, **style}


def _layer(
    rows: Rows, mark: Mapping[str, Any], channels: Mapping[str, Channel], hints: str = ""
) -> dict[str, Any]:
    """Return a layer of a chart: marks for rows.

    Args:
        rows: The rows.
        mark: Type and style of the marks.
        channels: By their names in Vega-Lite: ``x``, ``y``, ``color``.
        hints: Fields that the page shows beside the pointer, with commas between them.
    """
    shown = [
        {"field": field, "type": "nominal" if isinstance(rows[0][field], str) else "quantitative"}
        for field in hints.split(", ")
        if hints and rows
    ]
    return {
        "data": {"values": rows},
        "mark": mark,
        "encoding": {**channels, **({"tooltip": shown} if shown else {})},
    }


def _chart(caption: str, layers: Sequence[Mapping[str, Any]], height: int = _HEIGHT) -> ReportChart:
    """Return a chart of layers, the first one at the back; the height is in pixels."""
    specification = {
        "background": "transparent",
        "config": {
            "font": "system-ui, DejaVu Sans, sans-serif",
            "axisQuantitative": {"labelOverlap": "greedy", "labelSeparation": 4},
            "axisX": {"titleLimit": _NARROW},
            "axisY": {"titleLimit": height, "titlePadding": 8},
        },
        "width": "container",
        "height": height,
        "layer": layers,
    }
    return ReportChart(_shorten_all(specification), caption)


def _shorten_all(value: Any) -> Any:
    """Return JSON values with short texts."""
    if isinstance(value, str):
        return shorten_text(value)
    if isinstance(value, Mapping):
        return {key: _shorten_all(part) for key, part in value.items()}
    return [_shorten_all(part) for part in value] if isinstance(value, list | tuple) else value


def _fit(values: Sequence[float], wide: float = 5.0, margin: float = 0.03) -> dict[str, Any]:
    """Return a scale and an axis that need not begin at 0; logarithmic if values are positive and their range wide.

    A logarithmic axis ends near the values, not at the next powers of 10.

    Args:
        values: The drawn values.
        wide: Ratio of the largest to the smallest value of a logarithmic axis.
        margin: Space at each end, as a share of a logarithmic axis.
    """
    if not is_wide(values, wide):
        return {"scale": {"zero": False}}
    low, high = min(values), max(values)
    factor = (high / low) ** margin
    return _log_scale(low / factor, high * factor)


def _log_scale(low: float, high: float) -> dict[str, Any]:
    """Return a logarithmic scale, and an axis with at least four round numbers, if there are as many, and few more."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    powers = powers[:: max(1, len(powers) // 6)]
    ticks: list[float] = []
    for digits in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= 4:
            break
    scale = {"type": "log", "domain": [low, high], "nice": False}
    return {"scale": scale, "axis": {"values": ticks, "format": "~g"}}


def _short_label(longest: int) -> str:
    """Return the expression of a short label; the ends of long names differ as often as their beginnings."""
    end = longest // 2
    short = f"slice(datum.label, 0, {longest - end - 1}) + '…' + slice(datum.label, -{end})"
    return f"length(datum.label) > {longest} ? {short} : datum.label"


_NAMES = {"labelExpr": _short_label(36), "labelLimit": _NARROW}
"""The vertical axis of names, which may be long."""


def _choice_axis(rows: Rows, field: str) -> dict[str, Any]:
    """Return the horizontal axis of texts, which are inclined where they would overlap."""
    texts = {str(row[field]) for row in rows}
    is_wide = max(map(len, texts)) * len(texts) * _LETTER > _NARROW
    return {
        "labelAngle": -40 if is_wide else 0,
        "labelExpr": _short_label(18),
        "labelLimit": 150,
    }


def _select_points(rows: Rows) -> Rows:
    if len(rows) <= MOST_POINTS:
        return rows
    at = np.linspace(0, len(rows) - 1, MOST_POINTS).round().astype(int)
    return [rows[i] for i in np.unique(at)]


def _interval(each: Speedup | AblationStep | DependencePoint) -> dict[str, float]:
    return {"value": each.value, "low": each.low, "high": each.high}


# The charts -----------------------------------------------------------------------------------------------------------


def draw_search(facts: RunFacts, best: Sequence[float], by_time: bool) -> ReportChart:
    """Return all values, the best so far, and failures by kind, over evaluations or minutes.

    Args:
        facts: The run.
        best: The best value after each evaluation; NaN before the first success.
        by_time: Whether the horizontal axis is wall time.
    """
    values: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    failures: dict[str, list[dict[str, Any]]] = {}
    numbers = evaluation_numbers(facts.history)
    at = [minutes or 0.0 for minutes in facts.minutes] if by_time else numbers.astype(float)
    is_target = facts.history.is_target
    for x, trial, level, kept in zip(at, facts.trials, best, is_target, strict=True):
        if not kept:  # a value of a smaller problem
            continue
        row = {"x": round(x, 3), "trial": trial.id}
        if trial.value is not None:
            values.append({**row, "value": trial.value, "kind": "evaluation"})
        elif trial.bound is not None:
            values.append({**row, "value": trial.bound, "kind": "censored (at least)"})
        elif trial.status is Status.FAILED:
            kind = str(trial.failure)
            failures.setdefault(kind, []).append({**row, "kind": kind})
        if np.isfinite(level) and (not steps or steps[-1]["value"] != level):
            steps.append({"x": row["x"], "value": float(level), "kind": "best so far"})
    if steps:
        steps.append({**steps[-1], "x": round(at[-1], 3)})
    colours = {"evaluation": _BLUE, "best so far": _ORANGE, "censored (at least)": _GREEN}
    used = {row["kind"] for row in (*values, *steps)}
    colours = {kind: colour for kind, colour in colours.items() if kind in used}
    colours |= {kind: _FAILURES[i % len(_FAILURES)] for i, kind in enumerate(failures)}
    place = {
        "x": _number("x", "minutes", axis={})
        if by_time
        else _number("x", "evaluations", axis={"tickMinStep": 1}),
        "y": _number(
            "value",
            facts.objective.label,
            **_fit([row["value"] for row in (*values, *steps)], margin=0.08),
        ),
        "color": _colours(colours),
    }
    line = {"type": "line", "interpolate": "step-after", "strokeWidth": 2}
    layers = [
        _layer(_select_points(values), _points(22, opacity=0.6), place, "trial, kind, value"),
        _layer(steps, line, place),
    ]
    crosses = _points(34, shape="cross", angle=45)
    for i, rows in enumerate(failures.values()):
        # One above the other, so that none hides another.
        lane = {"y": {"value": _HEIGHT - 6 - 9 * (i % 5)}}
        layers.append(_layer(_select_points(rows), crosses, place | lane, "trial, kind"))
    caption = f"The search over {'wall time' if by_time else 'evaluations'}"
    if any(len(rows) > MOST_POINTS for rows in (values, *failures.values())):
        caption += f"; at most {MOST_POINTS} evaluations and failures of each kind are drawn"
    return _chart(caption, layers)


def draw_front(facts: RunFacts, i: int, j: int) -> ReportChart:
    """Return all successful trials by two of the objectives, with the front and its knee.

    Args:
        facts: The run.
        i: Position of the objective on the horizontal axis.
        j: Position of the objective on the vertical axis.
    """
    objectives, best = facts.objectives, facts.findings.best
    on_front = {trial.id for trial in facts.findings.front}
    rows: list[dict[str, Any]] = []
    for trial in facts.ok:
        values = read_values(trial, objectives)
        is_knee = best is not None and trial.id == best.id
        kind = "knee" if is_knee else "front" if trial.id in on_front else "evaluation"
        rows.append({"trial": trial.id, "x": values[i], "value": values[j], "kind": kind})
    place = {
        "x": _number("x", objectives[i].label, **_fit([row["x"] for row in rows])),
        "y": _number(
            "value", objectives[j].label, **_fit([row["value"] for row in rows], margin=0.08)
        ),
        "color": _colours({"evaluation": _GREY, "front": _BLUE, "knee": _ORANGE}),
    }
    others = _select_points([row for row in rows if row["kind"] == "evaluation"])
    shown = [*others, *(row for row in rows if row["kind"] != "evaluation")]
    layer = _layer(shown, _points(40, opacity=0.8), place, "trial, kind, x, value")
    return _chart(f"The front: {objectives[j].name} over {objectives[i].name}", [layer])


def draw_speedups(confirmation: Confirmation, gain: str) -> ReportChart | None:
    """Return the gain (a speed-up or an improvement) of each candidate with its interval; None without an interval."""
    rows: list[dict[str, Any]] = [
        {"name": candidate_name(trial, confirmation), **_interval(each)}
        for trial, each in zip(confirmation.candidates, confirmation.speedups, strict=True)
        if each is not None and np.isfinite(each.high)
    ]
    if not rows:
        return None
    names = _text("name")
    point = {"x": _number("value"), "y": names}
    ends = [1.0, *(row[end] for row in rows for end in ("low", "high"))]
    along = _number("low", f"{gain} over the default", **_fit(ends))
    layers = [
        _layer([{"one": 1.0}], _rule(_GREY, strokeDash=[4, 3]), {"x": _number("one")}),
        _layer(rows, _rule(_BLUE, 2), {"x": along, "x2": _HIGH, "y": names}),
        _layer(rows, _points(60, color=_BLUE), point, "name, value, low, high"),
    ]
    caption = f"Measured {gain}s with their joint intervals"
    return _chart(caption, layers, 30 * len(rows) + 10)


def draw_importance(importance: Importance) -> ReportChart:
    """Return the shares of the most important parameters with their intervals."""
    rows = [
        {"name": e.name, "share": e.share, "low": e.low, "high": e.high}
        | {"total effect": in_percent(e.share)}
        | {"90 % interval": f"{in_percent(e.low)} to {in_percent(e.high)}"}
        for e in importance.effects[:SHOWN_PARAMETERS]
    ]
    names, percent = _text("name", axis=_NAMES), {**_PERCENT, "tickCount": 5}
    share = _number("share", "share of the variance (total effect)", axis=percent)
    bars = {"type": "bar", "color": _BLUE, "opacity": 0.75, "height": {"band": 0.6}}
    interval = {"x": _number("low", axis=percent), "x2": _HIGH, "y": names}
    hints = "name, total effect, 90 % interval"
    layers = [
        _layer(rows, bars, {"x": share, "y": names}, hints),
        _layer(rows, _rule(_ORANGE, 2), interval, hints),
    ]
    return _chart("Importance with 90 % intervals", layers, 22 * len(rows) + 20)


def draw_ablation(steps: Sequence[AblationStep], label: str) -> ReportChart:
    """Return the value after each change on the path from the default to the winner."""
    drawn = [step for step in steps if np.isfinite(step.value)]
    rows = [{"step": step.name, "index": i, **_interval(step)} for i, step in enumerate(drawn)]
    names = _text("step", axis=_NAMES)
    ends = [end for step in drawn for end in (step.value, step.low, step.high)]
    path = {"x": _number("value", label, **_fit(ends)), "y": names, "order": _number("index")}
    line = {"type": "line", "color": _BLUE, "point": {"color": _BLUE, "size": 45}}
    layers = [
        _layer(rows, _rule(_ORANGE), {"x": _number("low"), "x2": _HIGH, "y": names}),
        _layer(rows, line, path, "step, value, low, high"),
    ]
    caption = "The value after each change, with 90 % intervals of predictions"
    return _chart(caption, layers, 24 * len(rows) + 20)


def draw_dependence(dependence: Dependence, label: str) -> ReportChart:
    """Return the dependence on one parameter, as a line for numbers or points with intervals, or on two as a map."""
    points = dependence.points
    if len(dependence.names) == 2:
        a, b = dependence.names
        cells = [{"a": show(p.values[0]), "b": show(p.values[1]), "value": p.value} for p in points]
        across = _text("a", a, axis=_choice_axis(cells, "a"))
        return _draw_map(f"{a} and {b} together", across, _text("b", b), cells, label)
    (name,), choices = dependence.names, [p.values[0] for p in points]
    is_number = all(type(choice) in (int, float) for choice in choices) and len(points) > 4
    rows = [
        {"x": x if is_number else show(x), **_interval(p)}
        for x, p in zip(choices, points, strict=True)
    ]
    if is_number:
        across = _number("x", name, **_fit(choices, wide=15.9, margin=0.0))
        spread = {"type": "area", "color": _BLUE, "opacity": 0.2}
        marks = {"type": "line", "color": _BLUE, "point": {"color": _BLUE}}
    else:
        across = _text("x", name, axis=_choice_axis(rows, "x"))
        spread, marks = _rule(_BLUE, 2), _points(60, color=_BLUE)
    axis = _fit([end for p in points for end in (p.low, p.value, p.high)])
    low, value = (_number(field, label, **axis) for field in ("low", "value"))
    layers = [
        _layer(rows, spread, {"x": across, "y": low, "y2": _HIGH}),
        _layer(rows, marks, {"x": across, "y": value}, "x, value, low, high"),
    ]
    return _chart(name, layers, 170)


def draw_positions(name: str, positions: Mapping[str, Dependence], label: str) -> ReportChart:
    """Return the dependence on the position of each element of a permutation, as a map.

    Args:
        name: Name of the permutation.
        positions: The dependence on the position of each element, by element.
        label: Name and unit of the value.
    """
    rows = [
        {"element": element, "position": p.values[0], "value": p.value}
        for element, dependence in positions.items()
        for p in dependence.points
    ]
    across = _text("position", "position, 0 is the first", axis={"labelAngle": 0})
    across |= {"type": "ordinal", "sort": "ascending"}
    caption = f"{name}: elements and their positions"
    return _draw_map(caption, across, _text("element", "element"), rows, label)


def _draw_map(caption: str, x: Channel, y: Channel, rows: Rows, label: str) -> ReportChart:
    """Return values as the colours of cells; the ends of the scale are written with three digits."""
    legend = {"gradientLength": 120, "format": ".3~g"}
    scale = {"scheme": "viridis"}
    if is_wide([row["value"] for row in rows]):
        scale["type"] = "log"
    colour = _number("value", label, scale=scale, legend=legend)
    place = {"x": x, "y": {**y, "axis": _NAMES}, "color": colour}
    hints = f"{x['field']}, {y['field']}, value"
    return _chart(caption, [_layer(rows, {"type": "rect"}, place, hints)], 170)


def draw_calibration(calibration: Calibration, label: str) -> ReportChart:
    """Return observed over predicted values, with the intervals of the predictions."""
    rows = [
        {**vars(p), "kind": "in its interval" if p.is_inside else "outside"}
        for p in calibration.points
    ]
    low, high = (end(p.observed for p in calibration.points) for end in (min, max))
    # Intervals beyond the observed values would hide them.
    if is_wide((low, high)):
        limits = [low / 1.3, high * 1.3]
        axes = _log_scale(*limits)
    else:
        limits = [low - 0.1 * (high - low), high + 0.1 * (high - low)]
        axes = {"scale": {"zero": False, "domain": limits, "nice": False}}
    axes["scale"]["clamp"] = True
    observed = _number("observed", f"observed {label}", **axes)
    predicted = _number("low", "predicted from the others", **axes)
    place = {"x": observed, "color": _colours({"in its interval": _BLUE, "outside": _FAILURES[0]})}
    point = {"y": _number("predicted", scale=axes["scale"])}
    line = {"type": "line", "color": _GREY, "strokeDash": [4, 3]}
    diagonal = [{"observed": end, "low": end} for end in limits]
    layers = [
        _layer(rows, {"type": "rule", "opacity": 0.35}, place | {"y": predicted, "y2": _HIGH}),
        _layer(diagonal, line, {"x": observed, "y": predicted}),
        _layer(rows, _points(22), place | point, "observed, predicted, low, high"),
    ]
    return _chart("Leave-one-out predictions with 90 % intervals", layers, 260)


def draw_over_evaluations(
    rows: Sequence[tuple[float, float]], title: str, caption: str, *, percent: bool = False
) -> ReportChart:
    """Return points over the number of evaluations.

    Args:
        rows: Number of evaluations, and the number to draw.
        title: Title of the vertical axis.
        caption: The title.
        percent: Whether the numbers are shares.
    """
    place = {
        "x": _number("x", "evaluations", axis={"tickMinStep": 1}),
        "y": _number("y", title, scale={"zero": percent}, axis=_PERCENT if percent else {}),
    }
    shown = _select_points([{"x": x, "y": y} for x, y in rows])
    layer = _layer(shown, _points(24, color=_BLUE, opacity=0.7), place, "x, y")
    return _chart(caption, [layer], 180)


def draw_metric(facts: RunFacts, metric: str) -> ReportChart:
    """Return a metric over the value, with the recommended configuration marked."""
    best = facts.findings.best
    rows: list[dict[str, Any]] = [
        {"x": t.value, "y": t.metrics[metric], "trial": t.id}
        for t in facts.ok
        if metric in t.metrics
    ]
    place = {
        "x": _number("x", facts.objective.label, **_fit([row["x"] for row in rows])),
        "y": _number("y", metric, **_fit([row["y"] for row in rows])),
    }
    marked = [row for row in rows if best is not None and row["trial"] == best.id]
    ring = {"type": "point", "size": 140, "color": _ORANGE, "strokeWidth": 3}
    layers = [
        _layer(_select_points(rows), _points(24, color=_BLUE, opacity=0.6), place, "trial, x, y"),
        _layer(marked, ring, place),
    ]
    return _chart(f"{metric}; the best configuration is ringed", layers, 200)
