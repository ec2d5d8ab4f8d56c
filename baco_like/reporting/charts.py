"""The charts of a report, as Vega-Lite specifications.

Colours are near those of Okabe and Ito (2008), which people with a colour vision deficiency can tell apart. All are
visible on a light and on a dark page. Text and lines get their colours from the page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._optional import require
from baco_like._output import in_percent, show
from baco_like.explanations import AblationStep, Calibration, Dependence, Importance
from baco_like.records import Confirmation, Status
from baco_like.records.trial import read_values
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.page import ReportChart, shorten_text
from baco_like.running.findings import evaluation_numbers
from baco_like.running.telling import candidate_name

if TYPE_CHECKING:
    from altair import Chart, LayerChart

MOST_POINTS = 1000
"""Most evaluations that a chart draws: an even selection, and all that were the best so far."""

SHOWN_PARAMETERS = 20
"""Most parameters in the chart of the importance."""


def _label(longest: int) -> str:
    """Return the expression of a short label; the ends of long names differ as often as their beginnings."""
    end = longest // 2
    short = f"slice(datum.label, 0, {longest - end - 1}) + '…' + slice(datum.label, -{end})"
    return f"length(datum.label) > {longest} ? {short} : datum.label"


_LETTER = 6.5
"""Width of a letter of a label, in pixels."""

_NARROW = 300
"""Width of a chart on a narrow page, in pixels."""

_PERCENT = "format(100 * datum.value, '~g') + ' %'"
"""Label of a share on an axis."""

_BLUE, _ORANGE, _GREEN = "#2F8FD0", "#E69F00", "#009E73"
_FAILURES = ("#D55E00", "#CC79A7", "#E6C700", "#8C6BB1", "#999999")
_HEIGHT = 220


def _chart(rows: Sequence[Mapping[str, Any]]) -> Chart:
    altair = require("altair", "report")
    # Altair copies and checks every row several times, but not a text; `_finish` turns it into rows again.
    chart: Chart = altair.Chart(altair.Data(values=json.dumps(list(rows))))
    return chart


def _finish(chart: Chart | LayerChart, caption: str, height: int = _HEIGHT) -> ReportChart:
    styled = chart.properties(width="container", height=height, background="transparent")
    styled = styled.configure_view(stroke=None).configure(font="system-ui, DejaVu Sans, sans-serif")
    styled = styled.configure_axisQuantitative(labelOverlap="greedy", labelSeparation=4)
    styled = styled.configure_axisX(titleLimit=_NARROW).configure_axisY(
        titleLimit=height, titlePadding=8
    )
    specification = styled.to_dict()
    names: dict[str, str] = {}  # of the texts; layers that show the same rows share them
    for layer in (specification, *specification.get("layer", ())):
        if "data" in layer:
            text = layer["data"]["values"]
            layer["data"] = {"name": names.setdefault(text, f"rows-{len(names) + 1}")}
    specification["datasets"] = {name: json.loads(text) for text, name in names.items()}
    return ReportChart(_shorten_all(specification), caption)


def _shorten_all(value: Any) -> Any:
    """Return JSON values with short texts, also as keys, so that a field keeps its name."""
    if isinstance(value, str):
        return shorten_text(value)
    if isinstance(value, dict):
        return {shorten_text(key): _shorten_all(part) for key, part in value.items()}
    return [_shorten_all(part) for part in value] if isinstance(value, list) else value


def _value_axis(values: Sequence[float], title: str) -> Any:
    """Return the vertical axis of values: logarithmic if they are positive and their range is wide."""
    altair = require("altair", "report")
    return altair.Y("value:Q", title=title, **_fit(values, margin=0.08))


def _fit(values: Sequence[float], wide: float = 5.0, margin: float = 0.03) -> dict[str, Any]:
    """Return a scale and an axis that need not begin at 0; logarithmic if values are positive and their range wide.

    A logarithmic axis ends near the values, not at the next powers of 10.

    Args:
        values: What is drawn.
        wide: Ratio of the largest to the smallest value of a logarithmic axis.
        margin: Space at each end, as a share of a logarithmic axis.
    """
    altair = require("altair", "report")
    low, high = min(values, default=0.0), max(values, default=0.0)
    if not (low > 0.0 and high / low > wide):
        return {"scale": altair.Scale(zero=False), "axis": altair.Axis()}
    factor = (high / low) ** margin
    domain = [low / factor, high * factor]
    scale = altair.Scale(type="log", domain=domain, nice=False)
    return {"scale": scale, "axis": altair.Axis(values=_log_ticks(*domain), format="~g")}


def _log_ticks(low: float, high: float) -> list[float]:
    """Return at least four round numbers between two positive ones, if there are as many, and few more."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    powers = powers[:: max(1, len(powers) // 6)]
    ticks: list[float] = []
    for digits in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
        ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) >= 4:
            break
    return ticks


def _name_axis() -> Any:
    """Return the vertical axis of names, which may be long."""
    altair = require("altair", "report")
    return altair.Axis(labelExpr=_label(36), labelLimit=_NARROW)


def _hints(*fields: str) -> list[Any]:
    """Return the tooltips of some fields; Altair takes ten milliseconds to read one from a text."""
    altair = require("altair", "report")
    return [altair.Tooltip(field) for field in fields]


def _select_points(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(rows) <= MOST_POINTS:
        return rows
    at = np.linspace(0, len(rows) - 1, MOST_POINTS).round().astype(int)
    return [rows[i] for i in np.unique(at)]


def draw_search(facts: RunFacts, best: Sequence[float], by_time: bool) -> ReportChart:
    """Return all values, the best so far, and failures by kind, over evaluations or minutes.

    Args:
        facts: The run.
        best: The best value after each evaluation; NaN before the first success.
        by_time: Whether the horizontal axis is wall time.
    """
    altair = require("altair", "report")
    values: list[dict[str, Any]] = []
    failures: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    numbers = evaluation_numbers(facts.history)
    at = [minutes or 0.0 for minutes in facts.minutes] if by_time else numbers.astype(float)
    for x, trial, level in zip(at, facts.trials, best, strict=True):
        row = {"x": round(x, 3), "trial": trial.id}
        if trial.value is not None:
            values.append({**row, "value": trial.value, "kind": "evaluation"})
        elif trial.bound is not None:
            values.append({**row, "value": trial.bound, "kind": "censored (at least)"})
        elif trial.status is Status.FAILED:
            failures.append({**row, "kind": trial.failure})
        if np.isfinite(level) and (not steps or steps[-1]["value"] != level):
            steps.append({"x": row["x"], "value": float(level), "kind": "best so far"})
    if steps:
        steps.append({**steps[-1], "x": round(at[-1], 3)})
    kinds = list(dict.fromkeys(row["kind"] for row in failures))
    names = ["evaluation", "best so far", "censored (at least)", *kinds]
    colours = [_BLUE, _ORANGE, _GREEN, *(_FAILURES[i % len(_FAILURES)] for i in range(len(kinds)))]
    used = {row["kind"] for part in (values, failures, steps) for row in part}
    shown = [(n, c) for n, c in zip(names, colours, strict=True) if n in used]
    scale = altair.Scale(domain=[n for n, _ in shown], range=[c for _, c in shown])
    colour = altair.Color(
        "kind:N", title=None, scale=scale, legend=altair.Legend(orient="top", columns=4)
    )
    ticks = altair.Axis() if by_time else altair.Axis(tickMinStep=1)
    x_axis = altair.X("x:Q", title="minutes" if by_time else "evaluations", axis=ticks)
    y_axis = _value_axis([row["value"] for row in (*values, *steps)], facts.objective.label)
    hints = _hints("trial:Q", "kind:N")
    points = _chart(_select_points(values)).mark_point(filled=True, size=22, opacity=0.6)
    layers = [points.encode(x_axis, y_axis, colour, tooltip=[*hints, *_hints("value:Q")])]
    line = _chart(steps).mark_line(interpolate="step-after", strokeWidth=2)
    layers.append(line.encode(x_axis, y_axis, colour))
    for i, kind in enumerate(kinds):
        of_kind = _chart(_select_points([row for row in failures if row["kind"] == kind]))
        marks = of_kind.mark_point(shape="cross", filled=True, size=34, angle=45)
        # One above the other, so that none hides another.
        lane = altair.YValue(_HEIGHT - 6 - 9 * (i % 5))
        layers.append(marks.encode(x_axis, lane, colour, tooltip=hints))
    unit = "wall time" if by_time else "evaluations"
    thinned = len(values) > MOST_POINTS or len(failures) > MOST_POINTS
    note = (
        f"; at most {MOST_POINTS} evaluations and failures of each kind are drawn"
        if thinned
        else ""
    )
    return _finish(altair.layer(*layers), f"The search over {unit}{note}", _HEIGHT)


def draw_front(facts: RunFacts, i: int, j: int) -> ReportChart:
    """Return all successful trials by two of the objectives, with the front and its knee.

    Args:
        facts: The run.
        i: Position of the objective on the horizontal axis.
        j: Position of the objective on the vertical axis.
    """
    altair = require("altair", "report")
    objectives, best = facts.objectives, facts.findings.best
    on_front = {trial.id for trial in facts.findings.front}
    rows: list[dict[str, Any]] = []
    for trial in facts.ok:
        values = read_values(trial, objectives)
        is_knee = best is not None and trial.id == best.id
        kind = "knee" if is_knee else "front" if trial.id in on_front else "evaluation"
        rows.append({"trial": trial.id, "x": values[i], "value": values[j], "kind": kind})
    kinds = ["evaluation", "front", "knee"]
    colours = altair.Scale(domain=kinds, range=[_FAILURES[-1], _BLUE, _ORANGE])
    xs, ys = [row["x"] for row in rows], [row["value"] for row in rows]
    shown = [row for row in rows if row["kind"] != "evaluation"]
    shown = [*_select_points([row for row in rows if row["kind"] == "evaluation"]), *shown]
    points = _chart(shown).mark_point(filled=True, size=40, opacity=0.8)
    chart = points.encode(
        altair.X("x:Q", title=objectives[i].label, **_fit(xs)),
        _value_axis(ys, objectives[j].label),
        altair.Color("kind:N", title=None, scale=colours, legend=altair.Legend(orient="top")),
        tooltip=_hints("trial:Q", "kind:N", "x:Q", "value:Q"),
    )
    return _finish(chart, f"The front: {objectives[j].name} over {objectives[i].name}")


def draw_speedups(confirmation: Confirmation) -> ReportChart | None:
    """Return the speed-up of each candidate with its interval; None if no interval is known."""
    altair = require("altair", "report")
    rows: list[dict[str, Any]] = [
        {
            "name": candidate_name(trial, confirmation),
            "value": each.value,
            "low": each.low,
            "high": each.high,
        }
        for trial, each in zip(confirmation.candidates, confirmation.speedups, strict=True)
        if each is not None and np.isfinite(each.high)
    ]
    if not rows:
        return None
    y_axis = altair.Y("name:N", title=None, sort=None)
    ends = [1.0, *(row[end] for row in rows for end in ("low", "high"))]
    x_axis = altair.X("low:Q", title="speed-up over the default", **_fit(ends))
    ranges = (
        _chart(rows)
        .mark_rule(color=_BLUE, strokeWidth=2)
        .encode(x_axis, y_axis, x2=altair.X2("high:Q"))
    )
    points = _chart(rows).mark_point(filled=True, size=60, color=_BLUE)
    level = (
        _chart([{"one": 1.0}])
        .mark_rule(color=_FAILURES[-1], strokeDash=[4, 3])
        .encode(x=altair.X("one:Q"))
    )
    hints = _hints("name:N", "value:Q", "low:Q", "high:Q")
    layers = altair.layer(
        level, ranges, points.encode(x=altair.X("value:Q"), y=y_axis, tooltip=hints)
    )
    return _finish(layers, "Measured speed-ups with their joint intervals", 30 * len(rows) + 10)


def draw_importance(importance: Importance) -> ReportChart:
    """Return the shares of the most important parameters with their intervals."""
    altair = require("altair", "report")
    effects = importance.effects[:SHOWN_PARAMETERS]
    rows = [
        {"name": e.name, "share": e.share, "low": e.low, "high": e.high}
        | {"total effect": in_percent(e.share)}
        | {"90 % interval": f"{in_percent(e.low)} to {in_percent(e.high)}"}
        for e in effects
    ]
    y_axis = altair.Y("name:N", title=None, sort=None, axis=_name_axis())
    percent = altair.Axis(labelExpr=_PERCENT, tickCount=5)
    title = "share of the variance (total effect)"
    bars = _chart(rows).mark_bar(color=_BLUE, opacity=0.75, height={"band": 0.6})
    hints = _hints("name:N", "total effect:N", "90 % interval:N")
    ranges = _chart(rows).mark_rule(color=_ORANGE, strokeWidth=2)
    layers = altair.layer(
        bars.encode(altair.X("share:Q", title=title, axis=percent), y_axis, tooltip=hints),
        ranges.encode(
            altair.X("low:Q", axis=percent), y_axis, x2=altair.X2("high:Q"), tooltip=hints
        ),
    )
    return _finish(layers, "Importance with 90 % intervals", 22 * len(rows) + 20)


def draw_ablation(steps: Sequence[AblationStep], label: str) -> ReportChart:
    """Return the value after each change on the path from the default to the winner."""
    altair = require("altair", "report")
    rows: list[dict[str, Any]] = [
        {"step": change_name(step), "value": step.value, "low": step.low, "high": step.high}
        for step in steps
        if np.isfinite(step.value)
    ]
    y_axis = altair.Y("step:N", title=None, sort=None, axis=_name_axis())
    ends = [row[end] for row in rows for end in ("value", "low", "high")]
    x_axis = altair.X("value:Q", title=label, **_fit(ends))
    ranges = (
        _chart(rows)
        .mark_rule(color=_ORANGE)
        .encode(x=altair.X("low:Q"), x2=altair.X2("high:Q"), y=y_axis)
    )
    order = altair.Order("index:Q")
    rows_with_order = [{**row, "index": i} for i, row in enumerate(rows)]
    line = _chart(rows_with_order).mark_line(color=_BLUE, point={"color": _BLUE, "size": 45})
    hints = _hints("step:N", "value:Q", "low:Q", "high:Q")
    layers = altair.layer(ranges, line.encode(x_axis, y_axis, order, tooltip=hints))
    return _finish(
        layers,
        "The value after each change, with 90 % intervals of predictions",
        24 * len(rows) + 20,
    )


def change_name(step: AblationStep) -> str:
    """Return the changes of a step in words."""
    changes = zip(step.parameters, step.before, step.after, strict=True)
    text = ", ".join(f"{n}: {show(a)} → {show(b)}" for n, a, b in changes) or "start"
    return f"{len(step.parameters)} changes: {text}" if len(step.parameters) > 1 else text


def draw_dependence(dependence: Dependence, label: str) -> ReportChart:
    """Return the dependence on one parameter, as a line for numbers or points with intervals, or on two as a map."""
    if len(dependence.names) == 2:
        return _draw_pair(dependence, label)
    altair = require("altair", "report")
    (name,), points = dependence.names, dependence.points
    choices = [p.values[0] for p in points]
    is_number = all(type(choice) in (int, float) for choice in choices) and len(points) > 4
    rows = [
        {"x": x if is_number else show(x), "value": p.value, "low": p.low, "high": p.high}
        for x, p in zip(choices, points, strict=True)
    ]
    scale = altair.Scale(zero=False)
    y_axis, low = (altair.Y(f"{key}:Q", title=label, scale=scale) for key in ("value", "low"))
    if is_number:
        x_axis = altair.X("x:Q", title=name, **_fit(choices, wide=15.9, margin=0.0))
        spread = _chart(rows).mark_area(color=_BLUE, opacity=0.2)
        marks = _chart(rows).mark_line(color=_BLUE, point={"color": _BLUE})
    else:
        x_axis = altair.X("x:N", title=name, sort=None, axis=_choice_axis(rows, "x"))
        spread = _chart(rows).mark_rule(color=_BLUE, strokeWidth=2)
        marks = _chart(rows).mark_point(color=_BLUE, filled=True, size=60)
    hints = _hints(f"x:{'Q' if is_number else 'N'}", "value:Q", "low:Q", "high:Q")
    layers = altair.layer(
        spread.encode(x_axis, low, y2=altair.Y2("high:Q")),
        marks.encode(x_axis, y_axis, tooltip=hints),
    )
    return _finish(layers, name, 170)


def _choice_axis(rows: Sequence[Mapping[str, Any]], key: str) -> Any:
    """Return the horizontal axis of texts, which are inclined where they would overlap."""
    altair = require("altair", "report")
    texts = {str(row[key]) for row in rows}
    is_wide = max(map(len, texts)) * len(texts) * _LETTER > _NARROW
    return altair.Axis(labelAngle=-40 if is_wide else 0, labelExpr=_label(18), labelLimit=150)


def _heat(label: str) -> Any:
    """Return the colour of the value; the ends of the scale are written with three digits."""
    altair = require("altair", "report")
    legend = altair.Legend(gradientLength=120, format=".3~g")
    return altair.Color("value:Q", title=label, scale=altair.Scale(scheme="viridis"), legend=legend)


def _draw_pair(dependence: Dependence, label: str) -> ReportChart:
    altair = require("altair", "report")
    a, b = dependence.names
    rows = [
        {"a": show(p.values[0]), "b": show(p.values[1]), "value": p.value}
        for p in dependence.points
    ]
    cells = _chart(rows).mark_rect()
    return _finish(
        cells.encode(
            altair.X("a:N", title=a, sort=None, axis=_choice_axis(rows, "a")),
            altair.Y("b:N", title=b, sort=None, axis=_name_axis()),
            _heat(label),
            tooltip=_hints("a:N", "b:N", "value:Q"),
        ),
        f"{a} and {b} together",
        170,
    )


def draw_positions(name: str, positions: Mapping[str, Dependence], label: str) -> ReportChart:
    """Return the dependence on the position of each element of a permutation, as a map.

    Args:
        name: Name of the permutation.
        positions: The dependence on the position of each element, by element.
        label: Name and unit of the value.
    """
    altair = require("altair", "report")
    rows = [
        {"element": element, "position": show(p.values[0]), "value": p.value}
        for element, dependence in positions.items()
        for p in dependence.points
    ]
    marks = _chart(rows).mark_rect()
    cells = marks.encode(
        altair.X("position:N", title="position, 0 is the first", axis=altair.Axis(labelAngle=0)),
        altair.Y("element:N", title="element", sort=None, axis=_name_axis()),
        _heat(label),
        tooltip=_hints("element:N", "position:N", "value:Q"),
    )
    return _finish(cells, f"{name}: elements and their positions", 170)


def draw_calibration(calibration: Calibration, label: str) -> ReportChart:
    """Return observed over predicted values, with the intervals of the predictions."""
    altair = require("altair", "report")
    rows = [
        {
            "predicted": p.predicted,
            "low": p.low,
            "high": p.high,
            "observed": p.observed,
            "inside": "in its interval" if p.is_inside else "outside",
        }
        for p in calibration.points
    ]
    numbers = [p.observed for p in calibration.points]
    low, high = min(numbers), max(numbers)
    is_log = low > 0 and high / low > 5
    # Intervals beyond the observed values would hide them.
    limits = (
        [low / 1.3, high * 1.3] if is_log else [low - 0.1 * (high - low), high + 0.1 * (high - low)]
    )
    kind = {"type": "log"} if is_log else {"zero": False}
    scale = altair.Scale(**kind, domain=limits, clamp=True, nice=False)
    axis = altair.Axis(values=_log_ticks(*limits), format="~g") if is_log else altair.Axis()
    x_axis = altair.X("observed:Q", title=f"observed {label}", scale=scale, axis=axis)
    y_axis = altair.Y("low:Q", title="predicted from the others", scale=scale, axis=axis)
    scheme = altair.Scale(domain=["in its interval", "outside"], range=[_BLUE, _FAILURES[0]])
    colour = altair.Color("inside:N", title=None, scale=scheme, legend=altair.Legend(orient="top"))
    ranges = (
        _chart(rows).mark_rule(opacity=0.35).encode(x_axis, y_axis, colour, y2=altair.Y2("high:Q"))
    )
    hints = _hints("observed:Q", "predicted:Q", "low:Q", "high:Q")
    points = _chart(rows).mark_point(filled=True, size=22)
    diagonal = _chart([{"observed": end, "low": end} for end in limits])
    line = diagonal.mark_line(color=_FAILURES[-1], strokeDash=[4, 3]).encode(x_axis, y_axis)
    layers = altair.layer(
        ranges,
        line,
        points.encode(x_axis, altair.Y("predicted:Q", scale=scale), colour, tooltip=hints),
    )
    return _finish(layers, "Leave-one-out predictions with 90 % intervals", 260)


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
    altair = require("altair", "report")
    values = _select_points([{"x": x, "y": y} for x, y in rows])
    scale = altair.Scale(zero=percent)
    axis = altair.Axis(labelExpr=_PERCENT) if percent else altair.Axis()
    points = _chart(values).mark_point(filled=True, size=24, color=_BLUE, opacity=0.7)
    return _finish(
        points.encode(
            altair.X("x:Q", title="evaluations", axis=altair.Axis(tickMinStep=1)),
            altair.Y("y:Q", title=title, scale=scale, axis=axis),
            tooltip=_hints("x:Q", "y:Q"),
        ),
        caption,
        180,
    )


def draw_metric(facts: RunFacts, metric: str) -> ReportChart:
    """Return a metric over the value, with the recommended configuration marked."""
    altair = require("altair", "report")
    best = facts.findings.best
    rows: list[dict[str, Any]] = [
        {"x": t.value, "y": t.metrics[metric], "trial": t.id}
        for t in facts.ok
        if metric in t.metrics
    ]
    x_axis = altair.X("x:Q", title=facts.objective.label, **_fit([row["x"] for row in rows]))
    y_axis = altair.Y("y:Q", title=metric, **_fit([row["y"] for row in rows]))
    points = _chart(_select_points(rows)).mark_point(filled=True, size=24, color=_BLUE, opacity=0.6)
    marked = [row for row in rows if best is not None and row["trial"] == best.id]
    ring = _chart(marked).mark_point(size=140, color=_ORANGE, strokeWidth=3)
    layers = altair.layer(
        points.encode(x_axis, y_axis, tooltip=_hints("trial:Q", "x:Q", "y:Q")),
        ring.encode(x_axis, y_axis),
    )
    return _finish(layers, f"{metric}; the best configuration is ringed", 200)
