"""Builds the feasible set: chooses a representation for every group of parameters that share constraints."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from baco_like._output import warn_caller
from baco_like._typing import Ints
from baco_like.constraints.callables import REMEDY, CallableConstraint
from baco_like.constraints.conditions import RestingConstraint
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError, SpaceWarning
from baco_like.parameters.protocol import Parameter, is_continuous, is_permutation, is_sequence
from baco_like.spaces.feasible.conflict import conflict_error, is_surely_empty
from baco_like.spaces.feasible.feasible_set import Box, Factor, FeasibleSet
from baco_like.spaces.feasible.filtered import Filtered, Hopeless
from baco_like.spaces.feasible.group import (
    SequenceGroup,
    TreeGroup,
    find_readings,
    grow_places,
    join_trees,
    make_rule,
)
from baco_like.spaces.feasible.machines import core, count_states, has_states
from baco_like.spaces.feasible.orders import (
    Extensions,
    Interleaved,
    build_extensions,
    find_order_rules,
    interleave,
)
from baco_like.spaces.feasible.rules import (
    ParameterDomain,
    bind,
    can_list,
    first_column,
    list_domain,
    list_values,
    tighten,
)
from baco_like.spaces.feasible.tree import Tree, one_level
from baco_like.spaces.feasible.tree_builder import choose_order, grow_tree
from baco_like.spaces.feasible.work_limit import BuildWork, TooLarge, Work

LISTED_VALUES = 2**20
"""A constrained parameter with more values is left to rejection instead of listing them.

Permutations of up to 9 elements are listed: 9! < 2^20 < 10!.
"""

SMALL_TREE = 2**18
"""Most edges of a single tree of all order rules; larger ones are split into groups without common rules."""

_HUGE = 10**300
"""A number close to the largest double."""

_SINGLY = 3
"""Constraints that are moved from listing to testing one at a time; later moves take four times as many each. Every
move nests one filtered set in another, and the calls for a draw grow exponentially with the depth."""


def build(parameters: Mapping[str, Parameter], constraints: Sequence[Constraint]) -> FeasibleSet:
    """Return the feasible set.

    Args:
        parameters: In the order of their code columns.
        constraints: Constraints that `inputs.split_constraint` has split.

    Raises:
        SpaceError: No configuration satisfies the constraints (the message names a minimal conflicting set), or none
            was found.
    """
    for constraint in constraints:
        if not constraint.parameters and not np.all(constraint.holds({})):
            raise SpaceError(f"constraint {constraint.text!r} is never satisfied; remove it")
    work = BuildWork.full()
    factors: list[Factor] = []
    for group in _groups(parameters, constraints, work):
        try:
            factor = group.factor()
        except Hopeless:
            if not is_surely_empty(group.parameters, group.constraints, work.explaining):
                raise
            factor = None
        if factor is None:
            raise conflict_error(group.parameters, group.constraints, work.explaining)
        factors.append(factor)
    _warn_about_callables(parameters, factors)
    width = sum(parameter.width for parameter in parameters.values())
    has_conditions = any(isinstance(c, RestingConstraint) for c in constraints)
    return FeasibleSet(width, tuple(factors), has_conditions)


def _warn_about_callables(parameters: Mapping[str, Parameter], factors: Sequence[Factor]) -> None:
    """Warn of callables whose combinations were too many to try, although all of their parameters can be listed."""
    for factor in factors:
        if isinstance(factor, Filtered):
            _warn_about_callables(parameters, factor.superset.factors)
            for constraint in map(core, factor.constraints):
                read = [parameters[name] for name in constraint.parameters]
                listed = all(can_list(p, LISTED_VALUES) and not is_sequence(p) for p in read)
                if listed and isinstance(constraint, CallableConstraint):
                    warn_caller(
                        f"constraint {constraint.text!r:.200} is a Python function of {len(constraint.parameters)} "
                        "parameters with too many combinations to try them all: configurations are drawn at random "
                        f"and tested ({factor.passed:.2g} of the draws are kept), so their number is unknown; {REMEDY}",
                        SpaceWarning,
                    )


def _place(parameters: Mapping[str, Parameter]) -> dict[str, Ints]:
    """Return the code columns of parameters that follow each other."""
    ends = np.cumsum([parameter.width for parameter in parameters.values()]).tolist()
    placed = zip(parameters.items(), ends, strict=True)
    return {name: np.arange(end - parameter.width, end) for (name, parameter), end in placed}


def _groups(
    parameters: Mapping[str, Parameter],
    constraints: Sequence[Constraint],
    work: BuildWork,
    depth: int = 0,
) -> list[_Group]:
    """Return the connected components of parameters through constraints, in the order of their first parameter."""
    connected = {name: {name} for name in parameters}
    for constraint in constraints:
        merged = set().union(*(connected[name] for name in constraint.parameters))
        connected.update(dict.fromkeys(merged, merged))
    columns = _place(parameters)
    components: dict[int, _Group] = {}
    for name, parameter in parameters.items():
        empty = _Group({}, [], columns, work, depth)
        components.setdefault(id(connected[name]), empty).parameters[name] = parameter
    for constraint in constraints:
        for name in constraint.parameters[:1]:
            components[id(connected[name])].constraints.append(constraint)
    return list(components.values())


@dataclass(frozen=True)
class _Group:
    """Parameters that share constraints; each method that returns a factor returns None if it is empty.

    Attributes:
        parameters: In the order of their code columns.
        constraints: The constraints on them.
        columns: The code columns of these parameters and perhaps others.
        work: Work that may be spent.
        depth: Number of filtered sets around the group.
    """

    parameters: dict[str, Parameter]
    constraints: list[Constraint]
    columns: Mapping[str, Ints]
    work: BuildWork
    depth: int

    def factor(self) -> Factor | None:
        """Return the feasible set of the group."""
        parameters, constraints = self.parameters, self.constraints
        name, parameter = next(iter(parameters.items()))
        if not constraints:
            is_listed = parameter.values is not None and can_list(parameter, LISTED_VALUES)
            if parameter.width > 1 and is_listed:
                domain = list_domain(name, parameter)
                return TreeGroup(self.columns[name], (domain,), one_level(domain.size))
            return Box(self.columns[name], (parameter,))
        if len(parameters) == 1 and is_permutation(parameter):
            return self._order(name, parameter)
        factor = self._list_or_draw()
        resting = [c.name for c in constraints if isinstance(c, RestingConstraint)]
        if isinstance(factor, TreeGroup) and any(is_sequence(parameters[n]) for n in resting):
            sequences = {name for name, p in parameters.items() if is_sequence(p)}
            reading = [c for c in constraints if sequences & set(c.parameters)]
            with contextlib.suppress(SpaceError):  # no random configuration satisfies them
                return replace(factor, drawn=self._test(reading))
        return factor

    def _list_or_draw(self) -> Factor | None:
        """Return the tree of a group with constraints, or a factor that draws and tests."""
        parameters, constraints = self.parameters, self.constraints
        sequences = [name for name, p in parameters.items() if is_sequence(p)]
        if len(sequences) > 1 and any(isinstance(c, RestingConstraint) for c in constraints):
            sequences = [n for n in sequences if not can_list(parameters[n], LISTED_VALUES)]
        listed = (name for name, p in parameters.items() if can_list(p, LISTED_VALUES))
        loose = parameters.keys() - {*listed}.difference(sequences)
        orders = {(name,) for name, p in parameters.items() if is_permutation(p)}
        followed: list[Constraint] = []
        if len(sequences) == 1:
            others = loose.difference(sequences)
            followed = [
                c
                for c in constraints
                if not others & set(c.parameters) and find_readings(c, sequences[0]) is not None
            ]
        tested = [
            c
            for c in _without(constraints, followed)
            if loose & set(c.parameters) and c.parameters not in orders
        ]
        if sequences and not tested:
            with contextlib.suppress(TooLarge):
                return self._follow_sequence(sequences[0])
            reading = [c for c in constraints if sequences[0] in c.parameters]
            tested = [c for c in reading if len(c.parameters) > 1] or reading
        return self._test(tested) if tested else self._list_or_test()

    def _list_or_test(self) -> Factor | None:
        """Return a group of parameters that can be listed, without some constraints if that is too much work."""
        # If constraints without running values are too much work, the others will be listed without them.
        is_mixed = len({has_states(constraint) for constraint in self.constraints}) > 1
        listing = self.work.listing
        with (
            contextlib.suppress(TooLarge),
            listing.half() if is_mixed else contextlib.nullcontext(listing) as lent,
        ):
            return self._list(lent)
        # Outside the handler: the exception would keep the tree that grew too large in memory.
        # The constraints over the most combinations are tested: they prune least while a tree grows. Those with
        # running values have few states, so they are the last. The rules of conditional parameters need no test.
        sizes = {name: float(min(p.cardinality, _HUGE)) for name, p in self.parameters.items()}
        known = [c for c in self.constraints if not isinstance(c, RestingConstraint)]
        widest = sorted(
            known, key=lambda c: (has_states(c), -math.prod(sizes[name] for name in c.parameters))
        )
        return self._test(widest[: 4 ** max(0, self.depth + 1 - _SINGLY)] or self.constraints)

    def _list(self, work: Work) -> Factor | None:
        """Return the tree of the group.

        Raises:
            TooLarge: The group cannot be listed.
        """
        domains = [list_domain(*item) for item in self.parameters.items()]
        grown = _grow(domains, self.constraints, work)
        if grown is None:
            return None
        levels, tree = grown
        return TreeGroup(np.concatenate([self.columns[d.name] for d in levels]), levels, tree)

    def _order(self, name: str, parameter: Parameter) -> Factor | None:
        """Return the permutations that satisfy constraints which read nothing else."""
        _, others = find_order_rules(name, parameter, self.constraints)
        if others and parameter.cardinality <= LISTED_VALUES:
            with contextlib.suppress(TooLarge):
                return self._list(self.work.listing)
        ordered = _without(self.constraints, others)
        superset, kept = _orders(name, parameter, ordered)
        if superset is None:
            return None
        tested = [*ordered[kept:], *others]
        if not tested:
            return replace(superset, columns=self.columns[name])
        return self._draw_and_test([superset], tested)

    def _follow_sequence(self, name: str) -> Factor | None:
        """Return the tree of a sequence and the other parameters.

        Raises:
            TooLarge: The group cannot be listed.
        """
        sequence, work = self.parameters[name], self.work.listing
        assert is_sequence(sequence)
        alone = [c for c in self.constraints if c.parameters == (name,)]
        rules = [make_rule(name, sequence, constraint, work) for constraint in alone]
        if None in rules:
            return None
        constraints = _without(self.constraints, alone)
        read = [node for c in constraints for node in find_readings(c, name) or ()]
        readings = list({(node.function, node.arguments): node for node in read}.values())
        codes = np.arange(-1, len(sequence.elements))
        known = [rule for rule in rules if rule is not None]
        distinct = sequence.distinct
        places, rows = grow_places(sequence, readings, known, codes, work, distinct=distinct)
        if not len(rows):
            return None
        domains = [list_values(name, sequence, rows)]
        domains += [list_domain(other, p) for other, p in self.parameters.items() if other != name]
        grown = _grow(domains, constraints, work, first=name)
        if grown is None:
            return None
        (leaves, *others), tree = grown
        joined = join_trees(places, leaves.keys.astype(np.int64), tree)
        place = replace(
            list_values(name, sequence, codes[:, None].astype(np.float64)), numbers=first_column
        )
        at = [self.columns[name][::-1], *(self.columns[domain.name] for domain in others)]
        levels = (*[place] * sequence.width, *others)
        return None if joined is None else SequenceGroup(np.concatenate(at), levels, joined)

    def _test(self, tested: Sequence[Constraint]) -> Factor | None:
        """Return a factor that draws under the other constraints and tests these."""
        drawn = dict(self.parameters)
        for name, parameter in self.parameters.items():
            # Between the bounds of the constraints, fewer draws are rejected.
            if is_continuous(parameter):
                bounds = [c.bounds(name) for c in tested if isinstance(c, Expression)]
                low = max([parameter.code_range[0], *(least for least, _ in bounds)])
                high = min([parameter.code_range[1], *(most for _, most in bounds)])
                if low > high:
                    return None
                if low < high and (low, high) != parameter.code_range:
                    drawn[name] = parameter.narrowed(low, high)
        factors: list[Factor] = []
        others = _without(self.constraints, tested)
        for group in _groups(drawn, others, self.work, self.depth + 1):
            factor = group.factor()
            if factor is None:
                return None
            factors.append(factor)
        return self._draw_and_test(factors, tested)

    def _draw_and_test(self, factors: Sequence[Factor], tested: Sequence[Constraint]) -> Filtered:
        """Return the factor that draws from some factors, whose columns are those of the parameters, and tests."""
        at = np.concatenate([self.columns[name] for name in self.parameters])
        inside = _place(self.parameters)
        places = {
            n: (p, slice(inside[n][0], inside[n][-1] + 1)) for n, p in self.parameters.items()
        }
        resting = tuple(c for c in tested if isinstance(c, RestingConstraint))
        others = tuple(_without(tested, resting))
        drawn = FeasibleSet(len(at), tuple(factors))
        return Filtered(at, drawn, places, resting, others).measured(self.work.drawing)


def _orders(
    name: str, parameter: Parameter, ordered: Sequence[Constraint]
) -> tuple[Extensions | Interleaved | Box | None, int]:
    """Return the permutations that satisfy the first rules, as many as fit in a tree, and the number of these rules.

    The first value is None if there are no such permutations.
    """
    inside = np.arange(parameter.width)
    kept = len(ordered)
    while kept:
        rules, _ = find_order_rules(name, parameter, ordered[:kept])
        for tree in (partial(build_extensions, most=SMALL_TREE), interleave):
            with contextlib.suppress(TooLarge):
                return tree(inside, rules), kept
        kept = 3 * kept // 4
    return Box(inside, (parameter,)), 0


def _without(constraints: Sequence[Constraint], removed: Sequence[Constraint]) -> list[Constraint]:
    gone = {id(constraint) for constraint in removed}
    return [c for c in constraints if id(c) not in gone]


def _grow(
    domains: list[ParameterDomain],
    constraints: Sequence[Constraint],
    work: Work,
    first: str | None = None,
) -> tuple[tuple[ParameterDomain, ...], Tree] | None:
    """Return the domains in the order of the levels of their tree, and the tree; None if it is empty.

    Raises:
        TooLarge: The tree has too many edges or takes too long.
    """
    for constraint in constraints:
        if len(constraint.parameters) == 1:
            rule = bind(constraint, domains, work)
            (i,) = rule.members
            domains[i] = domains[i].subset(rule.holds({i: np.arange(domains[i].size)}))
            if domains[i].size == 0:
                return None
    if len(domains) == 1:
        return tuple(domains), one_level(domains[0].size)
    rules = [bind(c, domains, work).tabulated() for c in constraints if len(c.parameters) > 1]
    domains, rules = tighten(domains, rules, work)
    if any(domain.size == 0 for domain in domains):
        return None
    rules = [r if r.table is not None else replace(r, states=count_states(r)) for r in rules]
    chosen = choose_order([domain.size for domain in domains], rules, work)
    chosen = sorted(chosen, key=lambda i: domains[i].name != first)
    tree = grow_tree(domains, rules, chosen, work)
    return None if tree is None else (tuple(domains[i] for i in chosen), tree)
