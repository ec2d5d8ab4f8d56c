"""Conditions learned from configurations: which values of other parameters decide whether a parameter is active.

`learn_conditions` finds, for each parameter that some configurations lack, an earlier parameter whose value decides; of
several that agree with all configurations, the one that was asked for last before it. Values without evidence count as
active, so that they are tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baco_like.constraints.language.writer import write_name
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.parameters.values import value_key
from baco_like.spaces.activity import Activity

Config = Mapping[str, Any]

_DEPTH = 3
"""Most parameters that decide together about another one."""

_LISTS = ParameterKind.PERMUTATION, ParameterKind.SEQUENCE

LISTED = 64
"""Most values of a parameter of which some may switch another one off, besides all below or above a number."""


def learn_conditions(space: Activity, configs: Sequence[Config]) -> dict[str, str]:
    """Return the conditions under which configurations have each parameter, with those that are known already.

    Args:
        space: The parameters with the known conditions; what these explain is not learned.
        configs: The configurations, each with its parameters in the order in which they were asked for.
    """
    known = dict(space.conditions.texts)
    # One byte for each configuration; whole columns are compared as numbers, as there may be 100,000 configurations.
    present = {n: int.from_bytes(bytes(n in c for c in configs), "big") for n in space.parameters}
    counts = {name: number.bit_count() for name, number in present.items()}
    asked = _asked_first(list(space.parameters), configs)
    learned: dict[str, str] = {}
    for name in sorted(space.parameters, key=lambda n: (-counts[n], asked[n])):
        if counts[name] == len(configs):
            continue
        relevant, having = configs, present[name]
        if name in known:
            active = bytes(space.is_active(name, config) is not False for config in configs)
            relevant = [
                config for config, is_active in zip(configs, active, strict=True) if is_active
            ]
            having &= int.from_bytes(active, "big")
        if having.bit_count() == len(relevant):
            continue
        earlier = [
            other
            for other in space.parameters
            if (-counts[other], asked[other]) < (-counts[name], asked[name])
            and having & present[other] == having
        ]
        earlier.sort(key=lambda other: -asked[other])
        if counts[name]:
            condition = _explain(space, name, relevant, earlier, _DEPTH)
        else:
            condition = _expect_elsewhere(space, relevant, earlier[::-1])
        if condition is not None:
            own = f"({known[name]}) and " if name in known else ""
            learned[name] = own + condition
    return {**known, **learned}


def _asked_first(names: Sequence[str], configs: Sequence[Config]) -> dict[str, int]:
    """Return the place of each parameter in the longest order in which one trial asked for it."""
    places: dict[str, int] = {}
    for config in configs:
        for place, name in enumerate(config):
            places[name] = max(place, places.get(name, 0))
    return {name: places.get(name, len(names) + i) for i, name in enumerate(names)}


def _explain(
    space: Activity, name: str, configs: Sequence[Config], earlier: Sequence[str], depth: int
) -> str | None:
    """Return an expression that is true exactly for the trials with the parameter, or None."""
    having = [config for config in configs if name in config]
    lacking = [config for config in configs if name not in config]
    partial: list[tuple[int, str, str]] = []
    for other in earlier:
        outside = [config[other] for config in lacking if other in config]
        inside = [config[other] for config in having] if outside else []
        condition = _separate(space.parameters[other], other, inside, outside)
        if condition is None:
            continue
        text, left = condition
        if not left:
            return text
        if left < len(lacking):
            partial.append((left, other, text))
    for _, other, text in sorted(partial, key=lambda each: each[0]) if depth > 1 else ():
        values = {value_key(config[other]) for config in having}
        rest = [c for c in configs if other in c and value_key(c[other]) in values]
        more = _explain(space, name, rest, [n for n in earlier if n != other], depth - 1)
        if more is not None:
            return f"{text} and {more}"
    for other in earlier:  # both are there, or none of them
        if not any(other in config for config in lacking):
            return f"{write_name(other)} == {write_name(other)}"
    return None


def _expect_elsewhere(
    space: Activity, configs: Sequence[Config], earlier: Sequence[str]
) -> str | None:
    """Return the condition of a parameter that no trial has asked for yet: a value that no trial had, or None.

    Without it, trials that differ only in this parameter would be the same trial for the objective.
    """
    for other in earlier:
        parameter = space.parameters[other]
        if parameter.kind in _LISTS or parameter.cardinality > LISTED:
            continue
        tried = list(
            {
                value_key(config[other]): config[other] for config in configs if other in config
            }.values()
        )
        if tried and len(tried) < parameter.cardinality:
            return f"{write_name(other)} not in {tried!r}"
    return None


def _separate(
    parameter: Parameter, name: str, inside: Sequence[Any], outside: Sequence[Any]
) -> tuple[str, int] | None:
    """Return an expression that is true for all values inside, and for how many of those outside, or None."""
    shown = write_name(name)
    if parameter.kind in _LISTS or not outside:
        return None
    numbers = {*map(type, inside), *map(type, outside)} <= {int, float, bool}
    if parameter.kind is not ParameterKind.UNORDERED and numbers:
        if max(outside) < min(inside):
            return f"{shown} > {max(outside)!r}", 0
        if min(outside) > max(inside):
            return f"{shown} < {min(outside)!r}", 0
    if parameter.cardinality > LISTED:
        return None
    known = {value_key(value) for value in inside}
    never = [value for value in dict.fromkeys(outside) if value_key(value) not in known]
    left = sum(value_key(value) in known for value in outside)
    return (f"{shown} not in {never!r}", left) if never else None
