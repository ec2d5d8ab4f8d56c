"""Spaces learned from trials: which parameters an objective asks for, and between which bounds.

An objective of Optuna names its parameters while it runs; `baco_like.spaces.learned_conditions` finds under which
conditions. `learn_bounds` does the same for bounds that differ between trials. Values without evidence count as
unbounded, so that they are tried. `exclude_unfinished` excludes what failed before all was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from baco_like._optional import needs_extra
from baco_like.constraints.language.writer import write_name
from baco_like.parameters import Categorical, Integer, Ordinal, Real
from baco_like.parameters.protocol import Parameter
from baco_like.spaces import Space
from baco_like.spaces.learned_conditions import LISTED as _LISTED
from baco_like.spaces.learned_conditions import value_key as _key

with needs_extra("optuna", "optuna"):
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

Config = Mapping[str, Any]
Bounds = tuple[float, float, Any]
"""The lower and the upper bound of a number, and for an integer with a step ``(remainder, step)``."""

_STEPS = 1000
"""Most values of a number with a step that are listed."""


_COMBINATIONS = 10_000
"""Most combinations of the values that a failed trial asked for. With more, excluding this one is not worth a tree."""


@dataclass
class LearnedDomains:
    """The parameters of a study whose space is not given, with the widest bounds of all trials.

    Attributes:
        distributions: As Optuna has them.
    """

    distributions: dict[str, BaseDistribution] = field(default_factory=dict)

    def add(self, distributions: Mapping[str, BaseDistribution]) -> None:
        """Add the distributions of a trial; numbers get the wider bounds."""
        for name, new in distributions.items():
            self.distributions[name] = _widen(self.distributions.get(name, new), new)

    def space(self) -> Space | None:
        """Return the space, or None without parameters."""
        parameters = {name: _parameter(each) for name, each in self.distributions.items()}
        return Space(parameters) if parameters else None

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a trial as a configuration, or a part of it."""
        return {name: _plain(value) for name, value in params.items() if name in self.distributions}

    def write(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration as Optuna's parameters; the inverse of `read`."""
        params = dict(config)
        for name, value in config.items():
            own = self.distributions[name]
            if isinstance(own, CategoricalDistribution):
                choices = {_key(_plain(choice)): choice for choice in own.choices}
                params[name] = choices[_key(value)]
        return params


def _plain(choice: Any) -> Any:
    """Return a choice as a value of a parameter: a text such as ``<None>`` unless it is a number, a bool or a text."""
    is_plain = isinstance(choice, bool | int | str) or (
        isinstance(choice, float) and math.isfinite(choice)
    )
    return choice if is_plain else f"<{choice!r}>"


def _widen(known: BaseDistribution, new: BaseDistribution) -> BaseDistribution:
    """Return the distribution of two trials; of different kinds, the new one."""
    if isinstance(known, FloatDistribution) and isinstance(new, FloatDistribution):
        low, high = min(known.low, new.low), max(known.high, new.high)
        step = new.step if known.step == new.step else None
        if step is not None and not math.isclose(
            (shift := (known.low - new.low) / step), round(shift)
        ):
            step = None
        return FloatDistribution(low, high, log=new.log, step=step)
    if isinstance(known, IntDistribution) and isinstance(new, IntDistribution):
        step = math.gcd(known.step, new.step, known.low - new.low)
        return IntDistribution(
            min(known.low, new.low), max(known.high, new.high), log=new.log, step=step
        )
    return new


def _parameter(distribution: BaseDistribution) -> Parameter:
    if isinstance(distribution, CategoricalDistribution):
        return Categorical(list(map(_plain, distribution.choices)))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    is_whole = isinstance(distribution, IntDistribution)
    has_step = step is not None and not (is_whole and step == 1)
    if has_step and step is not None and (high - low) / step < _STEPS:
        values = (low + step * np.arange(round((high - low) / step) + 1)).tolist()
        return Ordinal([int(value) if is_whole else value for value in values])
    if is_whole:
        return Integer(int(low), int(high), log=distribution.log)
    return Real(low, high, log=distribution.log)


def learn_bounds(space: Space, trials: Sequence[tuple[Config, Mapping[str, Bounds]]]) -> list[str]:
    """Return constraints for the numbers whose bounds or step depend on an earlier parameter.

    A bound is a linear function of a number, or belongs to a value of a parameter with few values. A wrong constraint
    does not last: trials report their bounds, whatever values they have.

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
    for other in reversed(shared):
        points = {_key(config[other]): (config[other], limit) for config, limit in limits}
        if any(points[_key(config[other])][1] != limit for config, limit in limits):
            continue  # one value, two limits
        known = list(points.values())
        line = _line(known)
        if line is not None:
            return clause(line.format(write_name(other)))
        is_listed = space.parameters[other].cardinality <= _LISTED
        if is_listed and len(known) < len(limits):  # some value was seen twice
            rules = (
                f"({write_name(other)} != {value!r} or {clause(limit)})" for value, limit in known
            )
            return " and ".join(rules)
    return None


def _line(points: Sequence[tuple[Any, Any]]) -> str | None:
    """Return the line through points as an expression in ``{}``, or None; a slope other than 1 needs three points."""
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


def exclude_unfinished(
    space: Space, failed: Sequence[Config], trials: Sequence[Config]
) -> list[str]:
    """Return constraints that exclude what failed trials were asked for, if they ended before all active parameters.

    Whatever the other values are, the objective takes the same way and fails again, unless a trial has come further.

    Args:
        space: The space with its conditions.
        failed: The parameters of failed trials.
        trials: The parameters of all trials.
    """
    excluded: dict[str, None] = {}
    for config in failed:
        sizes = [space.parameters[name].cardinality for name in config if name in space.parameters]
        is_whole = all(
            name in config or space.activity.is_active(name, config) is False
            for name in space.names
        )
        if is_whole or not config or math.prod(sizes) > _COMBINATIONS:
            continue
        if not any(config.items() < other.items() for other in trials):
            same = " and ".join(
                f"{write_name(name)} == {value!r}" for name, value in config.items()
            )
            excluded[f"not ({same})"] = None
    return list(excluded)
