"""Limits on what a configuration produces, such as ``size <= 40000``: conditions on measured metrics.

A configuration beyond a limit ran, but must not win. Its outcome is a failure with the word ``limit`` that keeps the
measured values and all metrics. So the incumbent never lies beyond a limit. Models learn from the measured values where
the limits are exceeded (`Limits.margins`), and NSGA-II compares total violations (`Limits.violation`). Other strategies
without a model see a failure.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np

from baco_like._typing import Array, Mask
from baco_like.constraints import Expression
from baco_like.constraints.language.reader import parse_expression
from baco_like.exceptions import ExpressionError, TrialError
from baco_like.parameters import Real
from baco_like.records.objective_values import as_failure, hint_at_name
from baco_like.records.trial import Outcome, Status, Trial, median, standard_error

LIMIT = "limit"
"""The failure word of an outcome beyond a limit."""

_ANY_NUMBER = Real(-1e300, 1e300)
"""The domain of every metric."""


class RunLimits(NamedTuple):
    """The limits of a run.

    Attributes:
        texts: The conditions.
        objective: Name of the value that the run optimises, which conditions may read.
    """

    texts: tuple[str, ...]
    objective: str


class Margins(NamedTuple):
    """How far n outcomes are beyond the k inequalities among the limits.

    Attributes:
        values: Difference of the two sides, ``(n, k)``; positive beyond the limit, NaN where unknown. Where both sides
            are always positive it is the difference of their logarithms.
        is_explained: Which outcomes are beyond a limit and break nothing but inequalities, ``(n,)``.
    """

    values: Array
    is_explained: Mask


@final
class Limits:
    """Conditions that the metrics of every successful outcome must satisfy.

    Args:
        limits: Conditions in the language of the known constraints. Names are those of metrics, or of the objective;
            ``value('l1-misses')`` names a metric whose name is not an identifier.

    Attributes:
        texts: The conditions.
        names: The metrics that they read.

    Raises:
        ExpressionError: A text is not in the language, or names no metric.
    """

    def __init__(self, limits: Iterable[str]) -> None:
        self.texts = tuple(limits)
        self._conditions = [_parse(text) for text in self.texts]
        self.names = tuple(dict.fromkeys(n for c in self._conditions for n in c.parameters))

    def margins(self, trials: Sequence[Trial], objective: str) -> Margins:
        """Return how far the outcomes of n observed trials are beyond each inequality.

        Conditions joined by ``and``, and chains of comparisons, are several inequalities. Other conditions, such as
        those with ``or``, have no margin.

        Args:
            trials: Observed trials.
            objective: Name of the objective's value.
        """
        measured = [_read_measured(trial, objective) for trial in trials]
        columns = {
            name: np.array([values.get(name, np.nan) for values in measured], dtype=float)
            for name in self.names
        }
        explained = np.array([trial.failure == LIMIT for trial in trials], dtype=np.bool_)
        for column in columns.values():
            explained &= np.isfinite(column)
        values = []
        for part in (p for c in self._conditions for p in c.conjuncts(every_chain=True)):
            sides = part.sides(columns)
            if sides is None:
                explained &= part.holds(columns)
            else:
                values.append(_difference(*sides))
        return Margins(np.array(values).reshape(len(values), len(trials)).T, explained)

    def violation(self, trial: Trial, objective: str) -> float:
        """Return by how much an outcome violates the limits in total; 0 if it violates none.

        It is the sum over all inequalities of the excess relative to the limit: 0.25 for a size of 50000 under
        ``size <= 40000``. The limit is the side that reads no metric. The excess is not divided if the limit is 0. If
        both sides read metrics, it is relative to the larger magnitude of the two. Infinity for failures without
        values, and for a violated condition that is not an inequality or cannot be computed.

        Args:
            trial: An observed trial.
            objective: Name of the objective's value.
        """
        measured = _read_measured(trial, objective)
        return sum(_violation(condition, measured) for condition in self._conditions)

    def judge(self, outcome: Outcome, objective: str, *, strict: bool = True) -> Outcome:
        """Return the outcome, or a failure with the word ``limit`` if it is successful but beyond a limit.

        Args:
            outcome: Any outcome.
            objective: Name of the objective's value.
            strict: Whether a missing metric is an error; otherwise its limits do not count. A metric that is not a
                finite number, such as NaN, is beyond its limits.

        Raises:
            TrialError: A successful outcome lacks a metric, or the metric is a boolean.
        """
        if outcome.value is None or not self._conditions:
            return outcome
        values = {**outcome.metrics, objective: outcome.value}
        missing = [name for name in self.names if name not in values]
        texts = outcome.extra.get("metrics", {})
        unread = [name for name in missing if isinstance(texts, Mapping) and name in texts]
        if unread:
            return _fail_unread(outcome, unread[0], str(texts[unread[0]]))
        if missing and strict:
            hint = hint_at_name(missing[0], values)
            raise TrialError(
                f"trial {outcome.trial_id}: a limit reads {missing[0]!r}, which was not measured; measured were "
                f"{', '.join(values)}; change the limit{hint}, or report the metric with every success"
            )
        known = [c for c in self._conditions if values.keys() >= set(c.parameters)]
        broken = [c for c in known if not _holds(c, values)]
        if not broken:
            return outcome
        return as_failure(outcome, LIMIT, "; ".join(_describe(each, values) for each in broken))


def without_limits(outcome: Outcome) -> Outcome:
    """Return an outcome beyond the limits of its run as the success that it is without them."""
    if outcome.failed != LIMIT or not outcome.repeats:
        return outcome
    return replace(
        outcome,
        status=Status.OK,
        value=median(outcome.repeats),
        sem=standard_error(outcome.repeats),
        failed=None,
        message="",
        problem="",
    )


@lru_cache(maxsize=16)
def limits_of(limits: tuple[str, ...]) -> Limits:
    """Return limits as one object; they are parsed once."""
    return Limits(limits)


def _violation(condition: Expression, values: Mapping[str, float]) -> float:
    """Return by how much values violate a condition, see `Limits.violation`."""
    if not values.keys() >= set(condition.parameters):
        return math.inf
    columns = {name: np.array([values[name]], dtype=float) for name in condition.parameters}
    unknown = dict.fromkeys(condition.parameters, np.array([np.nan]))
    total = 0.0
    for part in condition.conjuncts(every_chain=True):
        sides, limits = part.sides(columns), part.sides(unknown)
        if part.holds(columns).all():
            continue
        if sides is None or limits is None:
            return math.inf
        # Where all metrics are unknown, only a side that reads none of them has a value.
        known = np.abs([side[0] for side in limits if np.isfinite(side[0])] or sides)
        low, high = (float(side[0]) for side in sides)
        total += (low - high) / (float(known.max()) or 1.0)
    return total if math.isfinite(total) else math.inf


def _fail_unread(outcome: Outcome, name: str, text: str) -> Outcome:
    """Return the failure of a success whose metric ``name`` is not a finite number, so that its limits do not hold.

    Raises:
        TrialError: The metric is a boolean.
    """
    if text in ("True", "False"):  # a mistake in the program, which all outcomes would share
        raise TrialError(
            f"trial {outcome.trial_id}: a limit reads {name!r}, whose value is {text}; report the number 1 or 0"
        )
    problem = f"{name}: the value {text} is not a finite number, and a limit reads it"
    return as_failure(outcome, LIMIT, outcome.message or problem, problem)


def _read_measured(trial: Trial, objective: str) -> Mapping[str, float]:
    """Return the measured values of a trial that ran, by name; none of other trials."""
    if trial.value is not None:
        return {**trial.metrics, objective: trial.value}
    if trial.failure != LIMIT:
        return {}
    value = {objective: median(trial.repeats)} if trial.repeats else {}
    return {**trial.metrics, **value}


def _difference(low: Array, high: Array) -> Array:
    """Return ``low - high``, ``(n,)``, or the difference of the logarithms if all known values are positive."""
    known = np.isfinite(low) & np.isfinite(high)
    difference = np.full(len(low), np.nan)
    low, high = low[known], high[known]
    if (low > 0.0).all() and (high > 0.0).all():
        low, high = np.log(low), np.log(high)
    difference[known] = low - high
    return difference


def _parse(text: str) -> Expression:
    body, _ = parse_expression(text)
    calls = [node for node in ast.walk(body) if isinstance(node, ast.Call)]
    functions = {id(call.func) for call in calls}
    nodes = (n for n in ast.walk(body) if isinstance(n, ast.Name) and id(n) not in functions)
    quoted = [a.value for call in calls for a in call.args if isinstance(a, ast.Constant)]
    names = [*(node.id for node in nodes), *(name for name in quoted if isinstance(name, str))]
    condition = Expression(text, dict.fromkeys(names, _ANY_NUMBER))
    if not condition.parameters:
        raise ExpressionError("a limit reads at least one metric, as in 'size <= 40000'", text, 1)
    return condition


def _holds(condition: Expression, values: dict[str, float]) -> bool:
    return bool(condition.holds({n: np.array([values[n]]) for n in condition.parameters})[0])


def _describe(condition: Expression, values: dict[str, Any]) -> str:
    measured = ", ".join(f"{name} = {values[name]:.9g}" for name in condition.parameters)
    return f"{condition.text} is not satisfied: {measured}"
