"""Builds the tree of one group: chooses the order of its parameters and binds them in this order."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any

import numpy as np

from baco_like._typing import Column, Ints, Mask
from baco_like.constraints.conditions import GuardedConstraint
from baco_like.constraints.expression import Expression
from baco_like.constraints.language.analysis import Term
from baco_like.spaces.feasible.machines import Machine, conditions_of, is_table, make_machine
from baco_like.spaces.feasible.rules import (
    ParameterDomain,
    Rule,
    mixed_radix,
    number_keys,
    split_ranks,
)
from baco_like.spaces.feasible.tree import Edges, Tree, finish_tree
from baco_like.spaces.feasible.work_limit import CALL_COST, UNLIMITED, TooLarge, Work, row_cost

MAX_EDGES = 2**24
"""Most edges of one level."""

_EDGE_BYTES = 32
"""Memory of an edge in the finished tree, with the arrays from which its level is made."""

_GROWING_BYTES = 96
"""Memory of an edge of the newest level while the paths with equal futures are found, without its columns."""

MAX_CANDIDATES = 2**29
"""Most candidates that one level tests (about a minute if a constraint without a table is evaluated on all)."""

_CHUNK = 2**16
"""Candidates tested at a time; their arrays stay in the cache."""

_LOOKUP_LIMIT = 2**22
"""Most answers of a rule that are listed for one level, in bytes."""

_SAMPLE = 2**12
"""Edges in the sample that decides whether merging is worth the time."""

_STARTS = 4
"""Most first parameters that are tried; more gain little and cost time on spaces of many small groups."""

_OPTIONS = 8
"""Most next parameters that are compared in a group with running values."""

_STEP_COST = 2**7
"""Work for looking at one rule, or at four parameters, while an order is chosen: about 0.5 us."""

_CANDIDATE_COST = 0.1
"""Cost of looking a candidate up in a table, relative to evaluating a constraint on it."""

_STEP_ROWS = 8
"""Operations of a running value on one candidate."""

_OPEN, _HOLDS, _FAILS = range(3)
"""State of a rule with a running value: undecided, or decided whatever follows (if it applies)."""

_Columns = dict[int, Column]
"""For each parameter that constraints will still read, its position in every node (on one of the node's paths). The
keys after those of the parameters are of running values and their states."""

_Lookup = tuple[Mask, Ints]
"""Whether each value of the new parameter is allowed, for each combination of the other members of a rule,
``(k, size)``, and the combination of each node, ``(nodes,)``."""


def grow_tree(
    domains: Sequence[ParameterDomain],
    rules: Sequence[Rule],
    order: Sequence[int],
    work: Work = UNLIMITED,
) -> Tree | None:
    """Return the tree of the combinations that satisfy every rule, or None if there are none.

    Paths that leave the same choices share a node (see `residue`).

    Args:
        domains: The domains of the group.
        rules: Rules over these domains, each with at least one member.
        order: Index of the domain that each level binds.
        work: Work that may be spent.

    Raises:
        TooLarge: The tree has too many edges or takes too long.
    """
    memory = work.memory
    running, pending = _start(rules, order, len(domains))
    columns: _Columns = {key: start for one in running for key, start in one.root().items()}
    nodes, bound = 1, set[int]()
    levels: list[Edges] = []
    for new in order:
        bound.add(new)
        ready = [rule for rule in pending if bound.issuperset(rule.members)]
        pending = [rule for rule in pending if not bound.issuperset(rule.members)]
        # The columns of the nodes, of the edges and, at the end, of the children.
        width = sum(column.itemsize for column in columns.values()) + 1
        most = min(MAX_EDGES, memory / (_GROWING_BYTES + 3 * width))
        layer = _Layer(domains, columns, nodes, new, bound, work)
        node, value, states = layer.extend(ready, running, most)
        if len(node) == 0:
            return None
        running = [one for one in running if not one.is_known(bound)]
        undecided = [one.conditions for one in running if not bound.issuperset(one.conditions)]
        deciding = bound.intersection(*[frozenset().union(*undecided)])
        still_read = deciding | bound.intersection(i for rule in pending for i in rule.members)
        below = {i: value if i == new else columns[i][node] for i in sorted(still_read)}
        below |= {key: states[key] for one in running for key in one.keys}
        child, columns, after = _children(domains, pending, deciding, below, len(node), work)
        levels.append(Edges(nodes, domains[new].size, node, value, child))
        nodes = after
        memory -= len(node) * _EDGE_BYTES
    work.memory = memory
    return finish_tree(levels)


@dataclass(frozen=True)
class _Running:
    """A rule with a running value.

    Attributes:
        rule: The rule.
        machine: Its running value.
        conditions: Domains that decide whether the rule applies.
        keys: The columns of the running value and of its `_State`.
    """

    rule: Rule
    machine: Machine
    conditions: frozenset[int]
    keys: tuple[int, int]

    def root(self) -> _Columns:
        """Return the columns of the root."""
        return dict(zip(self.keys, (self.machine.start(), np.array([_OPEN])), strict=True))

    def is_known(self, bound: set[int]) -> bool:
        """Whether the rule holds or not once these domains are bound."""
        return bound.issuperset(self.rule.members)

    def follow(self, layer: _Layer, node: Ints, value: Ints) -> tuple[Column, Ints, Mask]:
        """Return the running values and states after binding one more domain, and which of them may be followed."""
        running, state = (layer.columns[key][node] for key in self.keys)
        if layer.new in self.machine.members:
            running, possible, sure = self.machine.follow(layer.new, running, value)
            after = np.where(sure, _HOLDS, np.where(possible, _OPEN, _FAILS))
            state = np.where(state == _OPEN, after, state)
        alive = np.ones(len(node), dtype=np.bool_)
        if layer.bound.issuperset(self.conditions):
            if layer.new in self.conditions:
                constraint = self.rule.constraint
                assert isinstance(constraint, GuardedConstraint)
                applies = constraint.applies(layer.read(self.conditions, node, value))
                state = np.where(applies, state, _HOLDS)
            alive = state != _FAILS
        return np.where(state == _OPEN, running, self.machine.start()), state, alive


def _start(
    rules: Sequence[Rule], order: Sequence[int], first_key: int
) -> tuple[list[_Running], list[Rule]]:
    """Return the rules that have a running value, and the others."""
    running: list[_Running] = []
    others: list[Rule] = []
    for rule in rules:
        machine = make_machine(rule, order)
        if machine is None:
            others.append(rule)
        else:
            keys = first_key + 2 * len(running), first_key + 2 * len(running) + 1
            running.append(_Running(rule, machine, conditions_of(rule), keys))
    return running, others


@dataclass(frozen=True)
class _Layer:
    """The nodes of one level and the domain that it binds.

    Attributes:
        domains: The domains of the group.
        columns: What the nodes know.
        nodes: Number of nodes.
        new: Index of the domain.
        bound: This domain and those above.
        work: Work that may be spent.
    """

    domains: Sequence[ParameterDomain]
    columns: _Columns
    nodes: int
    new: int
    bound: set[int]
    work: Work

    @property
    def size(self) -> int:
        """Number of values of the new domain."""
        return self.domains[self.new].size

    def read(self, members: Iterable[int], node: Ints, value: Ints) -> dict[str, Column]:
        """Return the values of some bound domains on candidates: pairs of a node and a value."""
        domains = ((i, self.domains[i]) for i in members)
        return {
            domain.name: domain.column[value if i == self.new else self.columns[i][node]]
            for i, domain in domains
        }

    def holds(self, rule: Rule, node: Ints, value: Ints) -> Mask:
        """Return whether a rule holds on candidates."""
        self.work.spend(len(value) * row_cost(rule.constraint) + CALL_COST)
        return np.asarray(rule.constraint.holds(self.read(rule.members, node, value)), np.bool_)

    def extend(
        self, ready: Sequence[Rule], running: Sequence[_Running], most: float
    ) -> tuple[Ints, Ints, _Columns]:
        """Return node and value of the edges that bind the new domain, at most this many, and their running values."""
        new, columns, work = self.new, self.columns, self.work
        offers = [
            offer
            for one in running
            if new in one.machine.members and not one.conditions
            if (offer := one.machine.offer(new, columns[one.keys[0]])) is not None
        ]
        offered = min(offers, key=lambda pairs: len(pairs[0]), default=None)
        tried = self.nodes * self.size if offered is None else len(offered[0])
        if tried > (MAX_CANDIDATES if ready or running else most):
            raise TooLarge
        moving = [one for one in running if new in one.rule.members]
        work.spend(tried * (1 + _STEP_ROWS * len(moving)) + len(moving) * CALL_COST)
        lookups: list[_Lookup] = []
        asked: list[Rule] = []
        for rule in sorted(ready, key=lambda rule: rule.share):
            lookup = self._list_answers(rule)
            if lookup is None:
                asked.append(rule)
            else:
                lookups.append(lookup)
                work.spend(tried + CALL_COST)
        parts: list[tuple[Ints, Ints, _Columns]] = []
        edges = 0
        for node, value in _candidates(self.nodes, self.size, offered, lookups):
            states: _Columns = {}
            for one in moving:
                *both, alive = one.follow(self, node, value)
                states = {key: column[alive] for key, column in states.items()}
                states |= {key: column[alive] for key, column in zip(one.keys, both, strict=True)}
                node, value = node[alive], value[alive]
            for rule in asked:
                held = self.holds(rule, node, value)
                states = {key: column[held] for key, column in states.items()}
                node, value = node[held], value[held]
            parts.append(
                (node.astype(np.int32), value.astype(np.min_scalar_type(self.size)), states)
            )
            edges += len(node)
            if edges > most:
                raise TooLarge
        node, value = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        states = {key: np.concatenate([s[key] for *_, s in parts]) for key in parts[0][2]}
        kept = {key: columns[key][node] for one in running for key in one.keys if key not in states}
        return node, value, states | kept

    def _list_answers(self, rule: Rule) -> _Lookup | None:
        """Return the look-up of a rule's table, or of the combinations that the nodes have if these are few."""
        new, size, nodes, columns = self.new, self.size, self.nodes, self.columns
        others = [i for i in rule.members if i != new]
        sizes = [
            domain.size for i, domain in zip(rule.members, rule.domains, strict=True) if i != new
        ]
        if rule.table is not None:
            table = np.moveaxis(rule.table, rule.members.index(new), -1).reshape(-1, size)
            if not others:
                return table, np.zeros(nodes, dtype=np.int64)
            return table, mixed_radix([columns[i] for i in others], sizes)
        if len(others) == len(columns) or math.prod(sizes) >= 2**62:
            return None  # every node has a different combination
        distinct, row = number_keys(
            mixed_radix([columns[i] for i in others], sizes), math.prod(sizes)
        )
        if 2 * len(distinct) > nodes or len(distinct) * size > _LOOKUP_LIMIT:
            return None
        digits = dict(zip(others, split_ranks(distinct, sizes), strict=True))
        known = replace(self, columns=digits)
        allowed = np.empty((len(distinct), size), dtype=np.bool_)
        for rows in _chunks(len(distinct), size):
            local, value = np.indices((rows.stop - rows.start, size)).reshape(2, -1)
            held = known.holds(rule, local + rows.start, value)
            allowed[rows] = held.reshape(-1, size)
        return allowed, row


def _candidates(
    nodes: int, size: int, offered: tuple[Ints, Ints] | None, lookups: Sequence[_Lookup]
) -> Iterator[tuple[Ints, Ints]]:
    """Yield the node and the value of candidates that the look-ups allow, sorted, about `_CHUNK` at a time."""
    if offered is None:
        for rows in _chunks(nodes, size):
            allowed = np.ones((rows.stop - rows.start, size), dtype=np.bool_)
            for answers, combination in lookups:
                allowed &= answers[combination[rows]]
            local, value = np.nonzero(allowed)
            yield local + rows.start, value
        return
    for rows in _chunks(len(offered[0]), 1) or [slice(0)]:
        node, value = offered[0][rows], offered[1][rows]
        for answers, combination in lookups:
            kept = answers[combination[node], value]
            node, value = node[kept], value[kept]
        yield node, value


def _chunks(nodes: int, size: int) -> list[slice]:
    """Return consecutive slices of the nodes with about `_CHUNK` candidates each."""
    step = max(1, _CHUNK // size)
    return [slice(begin, min(nodes, begin + step)) for begin in range(0, nodes, step)]


def _children(
    domains: Sequence[ParameterDomain],
    pending: Sequence[Rule],
    deciding: Set[int],
    below: _Columns,
    n: int,
    work: Work,
) -> tuple[Ints, _Columns, int]:
    """Return each edge's child, the columns of the children, and their number.

    Edges with the same future lead to the same child, which takes the columns of the first edge.
    """
    if n > 4 * _SAMPLE and max(below, default=0) < len(domains):  # running values are few
        some = np.arange(0, n, n // _SAMPLE)
        sampled = {i: column[some] for i, column in below.items()}
        _, futures = number_futures(domains, pending, deciding, sampled, len(some), work)
        # Of m edges with k futures, about m^2 / 2k share their future with another edge. Merging is worth the time
        # if the n edges seem to have fewer than n / 2 futures.
        if (len(some) - futures) * n <= len(some) ** 2:
            return np.arange(n, dtype=np.int32), below, n
    child, count = number_futures(domains, pending, deciding, below, n, work)
    first = np.empty(count, dtype=np.int64)
    first[child[::-1]] = np.arange(n - 1, -1, -1)
    return child.astype(np.int32), {i: column[first] for i, column in below.items()}, count


def choose_order(sizes: Sequence[int], rules: Sequence[Rule], work: Work = UNLIMITED) -> list[int]:
    """Return the members of a group in the order in which a tree should bind them.

    A node of the tree represents one combination of the values that incomplete constraints will still read, so an
    order is good if few parameters are open at any time (the width of a vertex separation, weighted by domain sizes
    and by the shares that the constraints allow). Of a constraint with a running value, only the number of these values
    counts. The columns of the largest table come first, after the conditions of such constraints.

    Raises:
        TooLarge: More work is needed.
    """
    logs = [math.log(size) for size in sizes]
    weighed = [
        _Weighed(
            sum(1 << i for i in rule.members),
            math.log(max(rule.share, 1e-9)),
            rule.table is not None,
            rule.states,
        )
        for rule in rules
    ]
    degree = [sum(rule.bits >> i & 1 for rule in weighed) for i in range(len(sizes))]
    by_degree = sorted(range(len(sizes)), key=lambda i: (degree[i], sizes[i]))
    first = _first_members(rules)
    starts = [first] if first else [[i] for i in by_degree[:_STARTS]]
    tried, most = len(starts), len(sizes)
    if any(rule.states is not None for rule in rules):
        tried, most = 1, 2 * _OPTIONS
    step = max(len(rules) + 1, len(sizes) / 4) * _STEP_COST
    work.spend(tried * len(sizes) * min(len(sizes), most) / 2 * step)
    orders = (_greedy(logs, weighed, first, by_degree) for first in starts[:tried])
    return min(orders, key=lambda order: order[0])[1]


@dataclass(frozen=True)
class _Weighed:
    """What matters of a rule for an order.

    Attributes:
        bits: Its members as a bit set.
        share: The log of its share.
        tabled: Whether it has a table.
        states: The log of the number of its running values, or None.
    """

    bits: int
    share: float
    tabled: bool
    states: float | None


def _first_members(rules: Sequence[Rule]) -> list[int]:
    """Return the members to bind first: those that decide whether rules apply, and the columns of the largest table."""
    first = {i: None for rule in rules if rule.states is not None for i in conditions_of(rule)}
    tables = [rule for rule in rules if rule.states is not None and is_table(rule)]
    largest = max(tables, key=lambda rule: rule.states or 0.0, default=None)
    if largest is not None:
        index = {domain.name: i for i, domain in zip(largest.members, largest.domains, strict=True)}
        first |= {index[name]: None for name in largest.constraint.parameters}
    return list(first)


def _greedy(
    logs: Sequence[float], rules: Sequence[_Weighed], first: Sequence[int], by_degree: Sequence[int]
) -> tuple[float, list[int]]:
    """Return the cost and the order that always binds the parameter with the fewest resulting nodes."""
    chosen: list[int] = []
    total, placed, nodes = 0.0, 0, 0.0
    left = set(range(len(logs)))
    runs = any(rule.states is not None for rule in rules)
    while left:
        near = reduce(or_, (r.bits for r in rules if r.bits & placed and r.states is None), 0)
        options = list(first[len(chosen) : len(chosen) + 1])
        options = options or [i for i in left if near >> i & 1] or list(left)
        if runs and len(options) > 1:  # there may be hundreds of parameters
            options = [i for i in by_degree if i in left and (near >> i & 1 or not near & ~placed)]
            options = options[:_OPTIONS]
        steps = ((*_step(logs, rules, placed, nodes, i), i) for i in options)
        nodes, cost, best = min(
            steps, key=lambda step: (step[0] + 0.5 * math.log(step[1]), step[2])
        )
        chosen.append(best)
        left.remove(best)
        placed |= 1 << best
        total += cost
    return total, chosen


def _step(
    logs: Sequence[float], rules: Sequence[_Weighed], placed: int, nodes: float, new: int
) -> tuple[float, float]:
    """Return the log of the nodes after binding a parameter, and the cost of binding it."""
    bound = placed | 1 << new
    candidates = nodes + logs[new]
    survivors, evaluations, running = candidates, 0, 0.0
    open_bits = 0
    for rule in rules:
        if rule.bits & ~bound:
            if rule.states is None:
                open_bits |= rule.bits & bound
            elif rule.bits & bound:
                running += min(rule.states, _sum_of(logs, rule.bits & bound))
        elif rule.bits >> new & 1:
            survivors += rule.share
            evaluations += not rule.tabled
    width = _sum_of(logs, open_bits)
    width += sum(rule.share for rule in rules if not rule.bits & ~open_bits)
    cost = math.exp(min(candidates, 700.0)) * (_CANDIDATE_COST + evaluations)
    survivors, width = max(survivors, 0.0), width + running
    return max(0.0, min(survivors, width)), cost + math.exp(min(survivors, 700.0))


def _sum_of(logs: Sequence[float], bits: int) -> float:
    """Return the sum of the logs whose bits are set."""
    return sum(size for i, size in enumerate(logs) if bits >> i & 1)


# Equal futures ------------------------------------------------------------------------------------------------------
#
# Which partial configurations leave the same choices.
#
# A node of a tree represents all partial configurations with the same future. The future depends, for every constraint
# that is not complete yet, on the slice of its table that the bound values select, if it has a table; on the values of
# the bound parts of its expression (for example the product, not its factors); and otherwise on the bound values.


Numbering = tuple[Ints, int]
"""Numbers in ``range(k)``, ``(n,)``, and k."""

_WIDEST = 2**40

_WORTHWHILE = 2**9
"""Fewer partial configurations are distinguished by their values, which is faster."""


_SORT_COST = 32
"""Operations for distinguishing one value among millions by sorting."""

_BY_ROW = 2**16
"""Most partial configurations for which parts of expressions are computed row by row (a few microseconds each)."""


def number_futures(
    domains: Sequence[ParameterDomain],
    pending: Sequence[Rule],
    deciding: Collection[int],
    positions: Mapping[int, Column],
    n: int,
    work: Work = UNLIMITED,
) -> Numbering:
    """Number n partial configurations: those with the same number have the same feasible completions.

    Args:
        domains: The domains of the group.
        pending: The rules that are not complete.
        deciding: Domains that decide whether rules with a running value apply.
        positions: Positions in every bound domain that these rules read, ``(n,)``; further keys have running values.
        n: Number of partial configurations.
        work: Work that may be spent.

    Raises:
        TooLarge: More work is needed.
    """
    states = [_distinct(column) for i, column in positions.items() if i >= len(domains)]
    positions = {i: column for i, column in positions.items() if i < len(domains)}
    if n < _WORTHWHILE:
        own = [(column, domains[i].size) for i, column in positions.items()]
        return _together([*own, *states], n)
    raw = set(deciding)
    terms: dict[Any, Term] = {}
    for rule in pending:
        if rule.table is None:
            bound = [i for i in rule.members if i in positions]
            names = frozenset(domains[i].name for i in bound)
            constraint = rule.constraint
            known = constraint.known_terms(names) if isinstance(constraint, Expression) else None
            if known is None or (n > _BY_ROW and any(term.by_row for term in known)):
                raw.update(bound)
            else:
                terms |= {term.node: term for term in known}

    def numberings() -> Iterator[Numbering]:
        """Yield what the futures depend on, one at a time: an array may have 100 MB."""
        for i in sorted(raw):
            work.spend(n + CALL_COST)
            yield positions[i], domains[i].size
        for rule in pending:
            if rule.table is not None and not raw.issuperset(set(rule.members) & positions.keys()):
                yield _slices(rule, rule.table, positions, work)
        by_name = {domains[i].name: (domains[i].column, positions[i]) for i in positions}
        named = {domains[i].name for i in raw}
        for term in terms.values():
            if not term.names <= named:
                rows = (
                    min(len(by_name[name][0]) for name in term.names) if len(term.names) == 1 else n
                )
                work.spend(rows * term.cost + n * _SORT_COST)
                yield from _values(term, by_name)

    return _together(chain(numberings(), states), n)


def _slices(rule: Rule, table: Mask, positions: Mapping[int, Ints], work: Work) -> Numbering:
    """Number the slices of a rule's table that the bound positions select; equal slices get the same number."""
    axes = [axis for axis, member in enumerate(rule.members) if member in positions]
    sizes = [rule.sizes[axis] for axis in axes]
    rows = len(positions[rule.members[axes[0]]]) if axes else 0
    work.spend(table.size + math.prod(sizes) * _SORT_COST + rows * len(axes) + CALL_COST)
    table = np.moveaxis(table, axes, range(len(axes))).reshape(math.prod(sizes), -1)
    packed = np.ascontiguousarray(np.packbits(table, axis=1))  # it may be transposed
    slices = packed.view(
        np.dtype((np.void, packed.shape[1]))
    )  # `axis` would make a field of each column
    distinct, number = np.unique(slices, return_inverse=True)
    selected = mixed_radix([positions[rule.members[axis]] for axis in axes], sizes)
    return number.ravel()[selected], len(distinct)


def _values(term: Term, by_name: Mapping[str, tuple[Column, Ints]]) -> list[Numbering]:
    """Number the values of a bound part of an expression, and whether they are defined.

    Args:
        term: The part.
        by_name: The values of each bound parameter, and their positions in the partial configurations, ``(n,)``.
    """
    # A part that reads one parameter has at most as many values as the parameter.
    alone = len(term.names) == 1
    read = {name: by_name[name] for name in term.names}
    columns = {name: values if alone else values[at] for name, (values, at) in read.items()}
    with np.errstate(all="ignore"):
        value, undefined = term.vector.run(columns)
    shape = next(iter(columns.values())).shape[:1]
    value = np.broadcast_to(value, shape)
    if undefined is None:
        numberings = [_distinct(value)]
    else:
        undefined = np.broadcast_to(undefined, shape)
        value = np.where(undefined, value.dtype.type(), value)
        numberings = [_distinct(value), (undefined.astype(np.int64), 2)]
    if alone:
        ((_, at),) = read.values()
        return [(number[at], size) for number, size in numberings]
    return numberings


def _distinct(values: Column) -> Numbering:
    """Number values; equal values get the same number."""
    if values.dtype.kind in "biu":
        numbers = values.astype(np.int64)
        low = int(numbers.min(initial=0))
        span = int(numbers.max(initial=0)) - low + 1
        if span < _WIDEST:
            distinct, number = number_keys(numbers - low, span)
            return number, len(distinct)
    if values.dtype == object:  # mixed types have no common order
        numbers_of: dict[Any, int] = {}
        assigned = [numbers_of.setdefault((type(v), v), len(numbers_of)) for v in values.tolist()]
        return np.array(assigned, dtype=np.int64), len(numbers_of)
    unique, number = np.unique(values, return_inverse=True)
    return number, len(unique)


def _together(numberings: Iterable[Numbering], n: int) -> Numbering:
    """Number the combinations of several numberings."""
    key, size = np.zeros(n, dtype=np.int64), 1
    for number, count in numberings:
        if size * count > _WIDEST:
            distinct, key = number_keys(key, size)
            size = len(distinct)
        key = key * count + number
        size *= count
    distinct, key = number_keys(key, size)
    return key, len(distinct)
