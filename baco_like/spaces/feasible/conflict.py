"""Which constraints contradict each other, as few of them as possible."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from baco_like._typing import Ints
from baco_like.exceptions import SpaceError
from baco_like.spaces.constraint import Constraint
from baco_like.spaces.feasible.domain import Domain, full_domain
from baco_like.spaces.feasible.extensions import extensions
from baco_like.spaces.feasible.precedence import order_rules
from baco_like.spaces.feasible.rules import Rule, bind, evaluate
from baco_like.spaces.parameter import Parameter

_BLOCK = 2**12
"""Rows that are extended at a time: deep first, so that a configuration is found soon where there are many."""

WORK = 2**23
"""Candidates tested in all; what is not settled then stays in the set."""


def conflict(parameters: Mapping[str, Parameter], constraints: Sequence[Constraint]) -> SpaceError:
    """Return the error for a group that nothing satisfies, naming a minimal conflicting set of its constraints.

    A deletion filter (Chinneck and Dravnieks 1991): a constraint without which there is still no configuration is
    left out for good; the rest is a set of which every member is needed.
    """
    core = list(constraints)
    work = WORK
    for constraint in constraints:
        rest = [c for c in core if c is not constraint]
        found, work = satisfiable(parameters, rest, work)
        if found is False:
            core = rest
    shown = " and ".join(repr(c.text) for c in core)
    if len(core) == 1:
        return SpaceError(
            f"constraint {shown} is satisfied by no configuration; change or remove it"
        )
    return SpaceError(f"no configuration satisfies {shown} together; change or remove one of them")


def satisfiable(
    parameters: Mapping[str, Parameter], constraints: Sequence[Constraint], work: int
) -> tuple[bool | None, int]:
    """Return whether a configuration satisfies all constraints, and the work that is left.

    Args:
        parameters: All with finite cardinalities.
        constraints: What must hold.
        work: Candidates that may be tested.

    Returns:
        True, False, or None where the work did not suffice; and what remains of it.
    """
    read = [n for n in parameters if any(n in c.parameters for c in constraints)]
    if len(read) == 1 and parameters[read[0]].width > 1:
        rules_on, others = order_rules(read[0], parameters[read[0]], constraints)
        if not others:
            return extensions(np.arange(parameters[read[0]].width), rules_on) is not None, work
    if any(parameters[name].cardinality > work for name in read):
        return None, work
    domains = [full_domain(name, parameters[name]) for name in read]
    rules = [bind(c, domains) for c in constraints]
    order = _by_constraints(len(domains), rules)
    stack: list[tuple[int, dict[int, Ints], int]] = [(0, {}, 1)]
    while stack and work > 0:
        level, columns, rows = stack.pop()
        if level == len(order):
            return True, work
        work -= rows * domains[order[level]].size
        columns = _extended(domains, rules, order, level, columns, rows)
        kept = len(columns[order[level]])
        for begin in range(0, kept, _BLOCK):
            part = slice(begin, min(kept, begin + _BLOCK))
            stack.append((level + 1, {i: c[part] for i, c in columns.items()}, part.stop - begin))
    return (None if stack else False), work


def _by_constraints(count: int, rules: Sequence[Rule]) -> list[int]:
    """Return an order that completes rules early."""
    order: list[int] = []
    while len(order) < count:
        left = [i for i in range(count) if i not in order]
        missing = [[i for i in rule.members if i in left] for rule in rules]
        order.append(
            min(left, key=lambda i: min([len(m) for m in missing if i in m], default=count))
        )
    return order


def _extended(
    domains: Sequence[Domain],
    rules: Sequence[Rule],
    order: Sequence[int],
    level: int,
    columns: Mapping[int, Ints],
    rows: int,
) -> dict[int, Ints]:
    """Return the rows with one more parameter bound that satisfy the rules which it completes."""
    new = order[level]
    bound = set(order[: level + 1])
    size = domains[new].size
    grown = {i: np.repeat(c, size) for i, c in columns.items()}
    grown[new] = np.tile(np.arange(size), rows)
    for rule in rules:
        if new in rule.members and bound.issuperset(rule.members):
            held = evaluate(rule, domains, grown, repeated=True)
            grown = {i: c[held] for i, c in grown.items()}
    return grown
