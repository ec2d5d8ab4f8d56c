"""Builds the feasible set: chooses a representation for every group of parameters that share constraints."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from baco_like._typing import Ints
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError
from baco_like.parameters.protocol import Parameter, is_continuous
from baco_like.spaces.feasible.conflict import conflict_error, is_surely_empty
from baco_like.spaces.feasible.domain import list_domain
from baco_like.spaces.feasible.extensions import Extensions, build_extensions
from baco_like.spaces.feasible.factor import Factor
from baco_like.spaces.feasible.feasible_set import FeasibleSet
from baco_like.spaces.feasible.free import Continuous, FreePermutation, FreeScalar, ListedValues
from baco_like.spaces.feasible.group import TreeGroup
from baco_like.spaces.feasible.growth import TooLarge, grow_tree
from baco_like.spaces.feasible.interleaved import Interleaved, interleave
from baco_like.spaces.feasible.ordering import choose_order
from baco_like.spaces.feasible.precedence import find_order_rules
from baco_like.spaces.feasible.rejection import Hopeless, build_rejection
from baco_like.spaces.feasible.rules import bind, holds, tabulate, tighten

LISTED_VALUES = 2**20
"""A constrained parameter with more values is left to rejection instead of listing them."""

LISTED_ELEMENTS = 9
"""Permutations of more elements are never listed (9! = 362,880)."""

SMALL_TREE = 2**18
"""Most edges of a single tree of all order rules; larger ones are split into groups without common rules."""


@dataclass(frozen=True)
class Part:
    """Some parameters with their code columns in the space, and constraints on these parameters only."""

    parameters: Mapping[str, Parameter]
    columns: Mapping[str, Ints]
    constraints: tuple[Constraint, ...]

    def restricted(self, names: Sequence[str], constraints: Sequence[Constraint]) -> Part:
        """Return the part with these parameters and constraints only."""
        return Part(
            {name: self.parameters[name] for name in names},
            {name: self.columns[name] for name in names},
            tuple(constraints),
        )


def build(parameters: Mapping[str, Parameter], constraints: Sequence[Constraint]) -> FeasibleSet:
    """Return the feasible set.

    Args:
        parameters: In the order of their code columns.
        constraints: Constraints that `inputs.split_constraint` has split.

    Raises:
        SpaceError: No configuration satisfies the constraints (the message names a minimal conflicting set), or none
            was found.
    """
    ends = np.cumsum([parameter.width for parameter in parameters.values()]).tolist()
    columns = {
        name: np.arange(end - parameter.width, end)
        for (name, parameter), end in zip(parameters.items(), ends, strict=True)
    }
    for constraint in constraints:
        if not constraint.parameters and not np.all(constraint.holds({})):
            raise SpaceError(f"constraint {constraint.text!r} is never satisfied; remove it")
    factors: list[Factor] = []
    for part in groups(Part(parameters, columns, tuple(constraints))):
        try:
            factor = _factor(part)
        except Hopeless:
            if not is_surely_empty(part.parameters, part.constraints):
                raise
            factor = None
        if factor is None:
            raise conflict_error(part.parameters, part.constraints)
        factors.append(factor)
    return FeasibleSet(ends[-1] if ends else 0, tuple(factors))


def groups(part: Part) -> list[Part]:
    """Return the connected components of parameters through constraints, in the order of their first parameter."""
    root = {name: name for name in part.parameters}

    def find(name: str) -> str:
        while root[name] != name:
            name = root[name]
        return name

    for constraint in part.constraints:
        for other in constraint.parameters[1:]:
            root[find(other)] = find(constraint.parameters[0])
    members: dict[str, list[str]] = {}
    for name in part.parameters:
        members.setdefault(find(name), []).append(name)
    rules: dict[str, list[Constraint]] = {}
    for constraint in part.constraints:
        if constraint.parameters:
            rules.setdefault(find(constraint.parameters[0]), []).append(constraint)
    return [part.restricted(names, rules.get(top, ())) for top, names in members.items()]


def _factor(part: Part) -> Factor | None:
    """Return the feasible set of one group, or None if it is empty."""
    if not part.constraints:
        return _free(part)
    names = list(part.parameters)
    if len(names) == 1 and part.parameters[names[0]].width > 1:
        return _permutation(part, names[0])
    loose = {name for name, parameter in part.parameters.items() if _is_too_large(parameter)}
    tested = [c for c in part.constraints if loose.intersection(c.parameters)]
    if tested:
        return _reject(part, [c for c in tested if not _reads_one_permutation(part, c)])
    with contextlib.suppress(TooLarge):
        return _list_group(part)
    # Outside the handler: the exception would keep the tree that grew too large in memory.
    return _reject(part, [_widest(part)])


def _free(part: Part) -> Factor:
    """Return the factor of a parameter without constraints."""
    ((name, parameter),) = part.parameters.items()
    columns = part.columns[name]
    if parameter.cardinality == math.inf:
        return Continuous(columns, parameter)
    if parameter.cardinality == 1:
        return ListedValues(columns, list_domain(name, parameter))
    if parameter.width > 1:
        return FreePermutation(columns)
    return FreeScalar(columns, parameter)


def _permutation(part: Part, name: str) -> Factor | None:
    """Return the factor of a permutation whose constraints read nothing else, or None if it is empty."""
    parameter, columns = part.parameters[name], part.columns[name]
    _, others = find_order_rules(name, parameter, part.constraints)
    if others and not _is_too_large(parameter):
        return _list_group(part)
    ordered = [c for c in part.constraints if not any(c is other for other in others)]
    superset, unused = _orders(name, parameter, ordered)
    if superset is None:
        return None
    tested = [*unused, *others]
    if not tested:
        return replace(superset, columns=columns)
    places = {name: (parameter, slice(0, parameter.width))}
    return build_rejection(columns, FeasibleSet(parameter.width, (superset,)), places, tested)


def _orders(
    name: str, parameter: Parameter, ordered: Sequence[Constraint]
) -> tuple[Extensions | Interleaved | FreePermutation | None, Sequence[Constraint]]:
    """Return the permutations that satisfy the rules that fit in a tree, or None if empty, and the other rules."""
    inside = np.arange(parameter.width)
    kept = len(ordered)
    while kept:
        rules, _ = find_order_rules(name, parameter, ordered[:kept])
        for tree in (partial(build_extensions, most=SMALL_TREE), interleave):
            with contextlib.suppress(TooLarge):
                return tree(inside, rules), ordered[kept:]
        kept = 3 * kept // 4
    return FreePermutation(inside), ordered


def _is_too_large(parameter: Parameter) -> bool:
    if parameter.width > 1:
        return parameter.width > LISTED_ELEMENTS
    return parameter.cardinality > LISTED_VALUES


def _reads_one_permutation(part: Part, constraint: Constraint) -> bool:
    (first, *rest) = constraint.parameters
    return not rest and part.parameters[first].width > 1


def _widest(part: Part) -> Constraint:
    """Return the constraint over the most combinations: it prunes least while a tree grows."""
    sizes = {name: float(parameter.cardinality) for name, parameter in part.parameters.items()}
    return max(part.constraints, key=lambda c: math.prod(sizes[name] for name in c.parameters))


def _list_group(part: Part) -> Factor | None:
    """Return the listed values or the tree of a group, or None if it is empty.

    Raises:
        TooLarge: The group cannot be listed.
    """
    domains = [list_domain(name, parameter) for name, parameter in part.parameters.items()]
    for constraint in part.constraints:
        if len(constraint.parameters) == 1:
            rule = bind(constraint, domains)
            (i,) = rule.members
            everything = {i: np.arange(domains[i].size)}
            domains[i] = domains[i].subset(holds(rule, domains, everything))
            if domains[i].size == 0:
                return None
    if len(domains) == 1:
        return ListedValues(next(iter(part.columns.values())), domains[0])
    rules = [tabulate(bind(c, domains), domains) for c in part.constraints if len(c.parameters) > 1]
    domains, rules = tighten(domains, rules)
    if any(domain.size == 0 for domain in domains):
        return None
    chosen = choose_order([domain.size for domain in domains], rules)
    tree = grow_tree(domains, rules, chosen)
    if tree is None:
        return None
    levels = tuple(domains[i] for i in chosen)
    columns = np.concatenate([part.columns[domain.name] for domain in levels])
    return TreeGroup(columns, levels, tree)


def _narrow(name: str, parameter: Parameter, tested: Sequence[Constraint]) -> Parameter | None:
    """Return a continuous parameter between the bounds that constraints give it, so that fewer draws are rejected.

    Other parameters are returned unchanged; None if the bounds leave no value.
    """
    if not is_continuous(parameter):
        return parameter
    found = [c.bounds(name) for c in tested if isinstance(c, Expression)]
    low = max([parameter.code_range[0], *(least for least, _ in found)])
    high = min([parameter.code_range[1], *(most for _, most in found)])
    if low > high:
        return None
    if low == high or (low, high) == parameter.code_range:
        return parameter
    return parameter.narrowed(low, high)


def _reject(part: Part, tested: Sequence[Constraint]) -> Factor | None:
    """Return a factor that draws under the other constraints and tests these, or None if it is empty."""
    names = list(part.parameters)
    ends = np.cumsum([part.parameters[name].width for name in names]).tolist()
    slices = {
        name: slice(end - part.parameters[name].width, end)
        for name, end in zip(names, ends, strict=True)
    }
    inside = {name: np.arange(at.start, at.stop) for name, at in slices.items()}
    rest = [c for c in part.constraints if not any(c is other for other in tested)]
    drawn: dict[str, Parameter] = {}
    for name, parameter in part.parameters.items():
        narrowed = _narrow(name, parameter, tested)
        if narrowed is None:
            return None
        drawn[name] = narrowed
    factors: list[Factor] = []
    for group in groups(Part(drawn, inside, tuple(rest))):
        factor = _factor(group)
        if factor is None:
            return None
        factors.append(factor)
    columns = np.concatenate([part.columns[name] for name in names])
    parameters = {name: (part.parameters[name], slices[name]) for name in names}
    return build_rejection(columns, FeasibleSet(ends[-1], tuple(factors)), parameters, tested)
