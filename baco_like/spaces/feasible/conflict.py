"""A minimal set of constraints that contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from baco_like._typing import Ints
from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.feasible.domain import Domain, list_domain
from baco_like.spaces.feasible.extensions import build_extensions
from baco_like.spaces.feasible.growth import TooLarge
from baco_like.spaces.feasible.ordering import choose_order
from baco_like.spaces.feasible.precedence import find_order_rules
from baco_like.spaces.feasible.rules import Rule, bind, evaluate, tabulate, tighten

_BLOCK = 2**12
"""Rows that are extended at a time: depth first, so that a configuration is found soon if there are many."""

WORK = 2**22
"""Most candidates tested; a constraint that is still undecided then is named in the message."""

Empty = Callable[[Sequence[Constraint]], bool]
"""Returns whether no configuration satisfies some constraints, for certain."""


def conflict_error(
    parameters: Mapping[str, Parameter], constraints: Sequence[Constraint]
) -> SpaceError:
    """Return the error for a group without configurations; it names a minimal conflicting set of constraints.

    A deletion filter (Chinneck and Dravnieks 1991): a constraint without which the others still conflict is removed,
    so all remaining constraints are needed.
    """
    core = list(constraints)
    for empty in _tests(parameters, constraints):
        for constraint in list(core):
            rest = [c for c in core if c is not constraint]
            if empty(rest):
                core = rest
    shown = " and ".join(repr(c.text) for c in core)
    if len(core) == 1:
        return SpaceError(
            f"constraint {shown} is satisfied by no configuration; change or remove it"
        )
    return SpaceError(f"no configuration satisfies {shown} together; change or remove one of them")


def is_surely_empty(parameters: Mapping[str, Parameter], constraints: Sequence[Constraint]) -> bool:
    """Whether no configuration satisfies the constraints, for certain."""
    return any(empty(constraints) for empty in _tests(parameters, constraints))


def _tests(parameters: Mapping[str, Parameter], constraints: Sequence[Constraint]) -> list[Empty]:
    """Return tests for subsets of these constraints; the cheap one comes first and often suffices.

    Parameters that cannot be listed leave the question open, except for order rules on a single permutation.
    """
    if len(parameters) == 1:
        ((name, parameter),) = parameters.items()
        if parameter.width > 1 and not find_order_rules(name, parameter, constraints)[1]:
            return [lambda some: _no_order(name, parameter, some)]
    if any(parameter.cardinality > WORK for parameter in parameters.values()):
        return []
    domains = [list_domain(name, parameter) for name, parameter in parameters.items()]
    rules = {id(c): tabulate(bind(c, domains), domains) for c in constraints}
    work = [WORK]
    return [
        lambda some: _refuted(domains, [rules[id(c)] for c in some]),
        lambda some: _has_no_row(domains, [rules[id(c)] for c in some], work),
    ]


def _no_order(name: str, parameter: Parameter, constraints: Sequence[Constraint]) -> bool:
    rules, _ = find_order_rules(name, parameter, constraints)
    try:
        return build_extensions(np.arange(parameter.width), rules) is None
    except TooLarge:
        return False


def _refuted(domains: Sequence[Domain], rules: Sequence[Rule]) -> bool:
    """Whether some parameter has no value that every single table allows."""
    return any(domain.size == 0 for domain in tighten(domains, rules)[0])


def _has_no_row(domains: Sequence[Domain], rules: Sequence[Rule], work: list[int]) -> bool:
    """Whether no combination satisfies the rules; False also if the remaining work is used up before."""
    read = {i for rule in rules for i in rule.members}
    sizes = [domain.size for domain in domains]
    chosen = [i for i in choose_order(sizes, rules) if i in read]
    stack: list[tuple[int, dict[int, Ints], int]] = [(0, {}, 1)]
    while stack:
        level, columns, rows = stack.pop()
        if level == len(chosen):
            return False
        work[0] -= rows * sizes[chosen[level]]
        if work[0] < 0:  # before as many rows are made
            return False
        columns = _extend_rows(domains, rules, chosen[: level + 1], columns, rows)
        kept = len(columns[chosen[level]])
        for begin in range(0, kept, _BLOCK):
            part = slice(begin, min(kept, begin + _BLOCK))
            block = {i: column[part] for i, column in columns.items()}
            stack.append((level + 1, block, part.stop - begin))
    return True


def _extend_rows(
    domains: Sequence[Domain],
    rules: Sequence[Rule],
    bound: Sequence[int],
    columns: Mapping[int, Ints],
    rows: int,
) -> dict[int, Ints]:
    """Return the rows extended by the last bound parameter that satisfy the rules which it completes."""
    new = bound[-1]
    size = domains[new].size
    grown = {i: np.repeat(column, size) for i, column in columns.items()}
    grown[new] = np.tile(np.arange(size), rows)
    for rule in rules:
        if new in rule.members and set(bound).issuperset(rule.members):
            held = evaluate(rule, domains, grown)
            grown = {i: column[held] for i, column in grown.items()}
    return grown
