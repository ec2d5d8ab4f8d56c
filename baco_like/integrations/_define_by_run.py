"""Constraints and conditions learned from trials: between which bounds an objective asks for its parameters.

An objective of Optuna names its parameters while it runs; `baco_like.spaces.learned_conditions` finds under which
conditions. `learn_bounds` does the same for bounds that differ between trials. Values without evidence count as
unbounded, so that they are tried. `end_with_trials` finds conditions where trials end early.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, combinations
from typing import Any

from baco_like.constraints.language.writer import write_name
from baco_like.parameters.values import value_key
from baco_like.spaces import Space
from baco_like.spaces.learned_conditions import LISTED

Config = Mapping[str, Any]
Bounds = tuple[float, float, Any]
"""The lower and the upper bound of a number, and for an integer with a step ``(remainder, step)``."""

_COMBINATIONS = 10_000
"""Most combinations of the values of an ended trial; with more, a condition on them costs more than it saves."""


def learn_bounds(space: Space, trials: Sequence[tuple[Config, Mapping[str, Bounds]]]) -> list[str]:
    """Return constraints for the numbers whose bounds or step depend on an earlier parameter.

    A bound is a linear function of a number, the product of two, or belongs to the values of one or two parameters with
    few values. A wrong constraint does not last: trials report their bounds, whatever values they have.

    Args:
        space: Has the widest bounds.
        trials: The configuration and the bounds of each trial, parameters in the order in which they were asked for.
    """
    constraints = []
    for name in space.names:
        asked = [(_before(config, name), each[name]) for config, each in trials if name in each]
        for part in range(3):
            limits = [(config, bounds[part]) for config, bounds in asked]
            if len({limit for _, limit in limits}) > 1:
                constraint = _explain_limit(space, partial(_write_limit, name, part), limits)
                constraints += [] if constraint is None else [constraint]
    return constraints


def _write_limit(name: str, part: int, limit: Any) -> str:
    """Return a constraint from one part of `Bounds`; bounds may be expressions."""
    shown = write_name(name)
    if part == 2:
        remainder, step = limit
        return f"{shown} % {step} == {remainder}"
    return f"{shown} {'<=' if part else '>='} {limit}"


def _before(config: Config, name: str) -> dict[str, Any]:
    """Return the parameters that a trial was asked for before this one."""
    names = list(config)
    return {other: config[other] for other in names[: names.index(name)]}


def _explain_limit(
    space: Space, clause: Callable[[Any], str], limits: Sequence[tuple[Config, Any]]
) -> str | None:
    """Return a constraint that agrees with the limit of every trial, or None."""
    shared = [other for other in limits[0][0] if all(other in config for config, _ in limits)]
    singles = [(other,) for other in reversed(shared)]
    for names in (*singles, *combinations(reversed(shared), 2)):
        known: dict[Any, tuple[list[Any], Any]] = {}
        for config, limit in limits:
            values = [config[name] for name in names]
            if known.setdefault(tuple(map(value_key, values)), (values, limit))[1] != limit:
                break  # the same values, two limits
        else:
            shown = [write_name(name) for name in names]
            formula = _formula(list(known.values()), shown)
            if formula is not None:
                return clause(formula)
            count = math.prod(space.parameters[name].cardinality for name in names)
            if count <= LISTED and len(known) < len(limits):  # some values were seen twice
                return " and ".join(
                    f"({' or '.join(f'{n} != {v!r}' for n, v in zip(shown, values, strict=True))} or {clause(limit)})"
                    for values, limit in known.values()
                )
    return None


def _formula(points: Sequence[tuple[Sequence[Any], Any]], names: Sequence[str]) -> str | None:
    """Return the limit as a line in one number or as the product of two, or None."""
    if len(names) == 1:
        line = _line([(x, y) for (x,), y in points])
        return None if line is None else line.format(*names)
    numbers = all(isinstance(each, (int, float)) for values, y in points for each in (*values, y))
    if numbers and all(math.prod(values) == y for values, y in points):
        return " * ".join(names)
    return None


def _line(points: Sequence[tuple[Any, Any]]) -> str | None:
    """Return the line through points as an expression in ``{}``, or None; slopes except 1 need three points."""
    if len(points) < 2 or not all(isinstance(each, (int, float)) for each in chain(*points)):
        return None
    (x, y), (other_x, other_y) = points[:2]
    if x == other_x:  # True and 1
        return None
    slope = (other_y - y) / (other_x - x)
    slope = int(slope) if slope == int(slope) else slope
    shift = y - slope * x
    if any(not math.isclose(slope * x + shift, y, rel_tol=1e-9, abs_tol=1e-12) for x, y in points):
        return None
    if (slope, shift) == (1, 0):
        return "{}"
    return f"{slope!r} * {{}} + {shift!r}" if len(points) > 2 else None


def end_with_trials(
    space: Space, ended: Sequence[Config], trials: Sequence[Config]
) -> dict[str, str]:
    """Return the conditions of a space, and those of trials that ended before they asked for all active parameters.

    After the same values the objective ends at the same place, unless a trial has come further. So the other
    parameters are inactive there, and all such trials are one configuration.

    Args:
        space: The space with its conditions.
        ended: The parameters of failed and pruned trials.
        trials: The parameters of all trials.
    """
    when = dict(space.conditions.texts)
    clauses: dict[str, dict[str, None]] = {}
    for config in ended:
        missing = [
            name
            for name in space.names
            if name not in config and space.activity.is_active(name, config) is not False
        ]
        sizes = [space.parameters[name].cardinality for name in config if name in space.parameters]
        if not config or not missing or math.prod(sizes) > _COMBINATIONS:
            continue
        if any(config.items() < other.items() for other in trials):
            continue
        same = " and ".join(f"{write_name(name)} == {value!r}" for name, value in config.items())
        for name in missing:
            clauses.setdefault(name, {})[f"not ({same})"] = None
    for name, new in clauses.items():
        own = [f"({when[name]})"] if name in when else []
        when[name] = " and ".join([*own, *new])
    return when
