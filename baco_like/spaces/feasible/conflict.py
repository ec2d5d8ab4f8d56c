"""A minimal set of constraints that contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Ints
from baco_like.constraints.conditions import ActiveConstraint
from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError
from baco_like.parameters.protocol import Parameter, is_permutation
from baco_like.spaces.activity import Activity
from baco_like.spaces.feasible.feasible_set import FeasibleSet
from baco_like.spaces.feasible.orders import build_extensions, find_order_rules
from baco_like.spaces.feasible.rules import (
    ParameterDomain,
    Rule,
    bind,
    can_list,
    list_domain,
    tighten,
)
from baco_like.spaces.feasible.tree_builder import choose_order
from baco_like.spaces.feasible.work_limit import EXPLAINING, TooLarge, Work

_BLOCK = 2**12
"""Rows that are extended at a time: depth first, so that a configuration is found soon if there are many."""

WORK = 2**22
"""Most candidates tested; a constraint that is still undecided then is named in the message."""

_DRAWN, _QUICK = 64, 0.01
"""Random configurations that are looked at before a search, if at least this share of the draws is kept."""

_SHOWN = 20
"""Most constraints in a message."""

Empty = Callable[[Sequence[Constraint]], bool]
"""Returns whether no configuration satisfies some constraints, for certain."""


def conflict_error(
    parameters: Mapping[str, Parameter], constraints: Sequence[Constraint], work: Work
) -> SpaceError:
    """Return the error for a group without configurations; it names a minimal conflicting set of constraints."""
    core = list(constraints)
    for empty in _tests(parameters, constraints, work):
        core = minimal_conflict(core, empty)
    shown = quote(core)
    problem = f"no configuration satisfies {shown} together; change or remove one of them"
    if len(core) == 1:
        problem = f"constraint {shown} is satisfied by no configuration; change or remove it"
    return SpaceError(problem)


def check_reachable(
    names: Sequence[str], activity: Activity, feasible: FeasibleSet, rules: Sequence[Constraint]
) -> None:
    """Check that conditional parameters are active in some configuration.

    Most are in one of a few random ones. For the others, only constraints between the parameters that decide are read,
    and what would need more than the usual work stays undecided.

    Args:
        names: The conditional parameters to check.
        activity: All parameters of the space with their conditions.
        feasible: The feasible set.
        rules: All constraints, split, with the rules of the conditions.

    Raises:
        SpaceError: One of them is certainly never active.
    """
    if names and feasible.acceptance > _QUICK:
        masks = activity.masks(feasible.sample(_DRAWN, generator(0, Purpose.SAMPLE)))
        names = [name for name in names if not masks[name].any()]
    work = Work(EXPLAINING)
    for name in names:
        active = ActiveConstraint(activity.conditions, name)
        deciding = {other: activity.parameters[other] for other in active.parameters}
        known = [c for c in rules if c.parameters and deciding.keys() >= set(c.parameters)]
        if is_surely_empty(deciding, [active, *known], work):
            raise SpaceError(
                f"when: the condition {active.text!r} of {name!r} holds in no configuration; correct it, or remove "
                f"{name!r}"
            )


def minimal_conflict(constraints: Sequence[Constraint], empty: Empty) -> list[Constraint]:
    """Return constraints without the ones that the conflict does not need.

    A deletion filter (Chinneck and Dravnieks 1991): a constraint without which the others still conflict is removed,
    so all remaining constraints are needed.
    """
    core = list(constraints)
    for constraint in constraints:
        rest = [c for c in core if c is not constraint]
        if empty(rest):
            core = rest
    return core


def quote(constraints: Sequence[Constraint]) -> str:
    """Return the constraints as messages show them."""
    texts = [constraint.text for constraint in constraints[:_SHOWN]]
    shown = [repr(text if len(text) <= 200 else f"{text[:197]}...") for text in texts]
    if len(constraints) > _SHOWN:
        shown.append(f"{len(constraints) - _SHOWN} others")
    return " and ".join(shown)


def is_surely_empty(
    parameters: Mapping[str, Parameter], constraints: Sequence[Constraint], work: Work
) -> bool:
    """Whether no configuration satisfies the constraints, for certain; False also if that needs more work."""
    return any(empty(constraints) for empty in _tests(parameters, constraints, work))


def _tests(
    parameters: Mapping[str, Parameter], constraints: Sequence[Constraint], allowed: Work
) -> list[Empty]:
    """Return tests for subsets of these constraints; the cheap one comes first and often suffices.

    Parameters that cannot be listed leave the question open, except for order rules on a single permutation.
    """
    if len(parameters) == 1:
        ((name, parameter),) = parameters.items()
        if is_permutation(parameter) and not find_order_rules(name, parameter, constraints)[1]:
            return [partial(_has_no_order, name, parameter)]
    if not all(can_list(parameter, WORK) for parameter in parameters.values()):
        return []
    domains = [list_domain(name, parameter) for name, parameter in parameters.items()]
    try:
        rules = {id(c): bind(c, domains, allowed).tabulated() for c in constraints}
    except TooLarge:
        return []
    work = [WORK]
    return [
        lambda some: _has_no_value(domains, [rules[id(c)] for c in some], allowed),
        lambda some: _has_no_row(domains, [rules[id(c)] for c in some], work, allowed),
    ]


def _has_no_value(domains: Sequence[ParameterDomain], rules: Sequence[Rule], allowed: Work) -> bool:
    """Whether some parameter has no value that every single table allows; False also if that needs more work."""
    try:
        return any(domain.size == 0 for domain in tighten(domains, rules, allowed)[0])
    except TooLarge:
        return False


def _has_no_order(name: str, parameter: Parameter, constraints: Sequence[Constraint]) -> bool:
    rules, _ = find_order_rules(name, parameter, constraints)
    try:
        return build_extensions(np.arange(parameter.width), rules) is None
    except TooLarge:
        return False


def _has_no_row(
    domains: Sequence[ParameterDomain], rules: Sequence[Rule], work: list[int], allowed: Work
) -> bool:
    """Whether no combination satisfies the rules; False also if the remaining work is used up before."""
    read = {i for rule in rules for i in rule.members}
    sizes = [domain.size for domain in domains]
    try:
        chosen = [i for i in choose_order(sizes, rules, allowed) if i in read]
    except TooLarge:
        return False
    stack: list[tuple[int, dict[int, Ints], int]] = [(0, {}, 1)]
    while stack:
        level, columns, rows = stack.pop()
        if level == len(chosen):
            return False
        new, bound = chosen[level], set(chosen[: level + 1])
        work[0] -= rows * sizes[new]
        if work[0] < 0:  # before as many rows are made
            return False
        columns = {i: np.repeat(column, sizes[new]) for i, column in columns.items()}
        columns[new] = np.tile(np.arange(sizes[new]), rows)
        for rule in rules:
            if new in rule.members and bound.issuperset(rule.members):
                try:
                    held = rule.holds(columns)
                except TooLarge:
                    return False
                columns = {i: column[held] for i, column in columns.items()}
        for begin in range(0, len(columns[new]), _BLOCK):
            block = {i: column[begin : begin + _BLOCK] for i, column in columns.items()}
            stack.append((level + 1, block, len(block[new])))
    return True
