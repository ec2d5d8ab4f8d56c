"""Local searches as strategies: a scan waits for its costs; when they settle it, the algorithm moves on.

Everything happens in ``tell``, and known configurations are looked up (with ``noise="repeat"`` they are evaluated
again). If the outcomes arrive in order, each algorithm does exactly what its paper describes. It differs from the paper
in these cases:

- Several pending trials: the rest of the scan is proposed at once, then *spares*. A spare is a start, drawn like the
  algorithm's next start and used as one later. An improvement that arrives out of order is accepted at once.
- A lost trial: after four spares that were proposed while everything awaited was pending have been observed, the
  awaited configurations count as failures.
- An observation that was not awaited and is better than all before becomes the next start.
- One observation causes at most 50 moves without an evaluation; after them spares are proposed.

A parameter with more than 64 other values (or swaps) has up to 64 random ones as Hamming neighbours, drawn anew every
time. Reals, and integers with too many values to list, also have random neighbours.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, zip_longest
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, final

import numpy as np

from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.parameters.protocol import is_permutation
from baco_like.records import History, Observation, Proposal
from baco_like.records.rows import row_keys
from baco_like.spaces import Space, design, neighbourhoods
from baco_like.spaces.rows import drop_duplicates
from baco_like.strategies.observed_costs import ObservedCosts
from baco_like.strategies.protocol import Problem, proposed_rows
from baco_like.strategies.settings import BY_BUDGET, BudgetedSettings

_MOVES_PER_TELL = 50
"""Most moves after one observation."""

_LOST_AFTER = 4
"""Number of observed spares after which the awaited trials count as lost."""

_SPARES = 64
"""Number of spares that are kept, the newest ones."""

_CACHE_SIZE = 4096
_VALUES = 64
_NO_GENES = np.empty(0, dtype=np.int64)

NEIGHBOURHOODS: Mapping[str, Callable[[Space, Codes, Rng], neighbourhoods.Neighbours]] = {
    "hamming": partial(neighbourhoods.hamming, limit=_VALUES),
    "adjacent": neighbourhoods.adjacent,
}
"""Neighbourhoods by name, for settings (Schoonhoven et al. 2022, sections III-B and III-C1)."""

CostedRow = tuple[Array, float]
"""A configuration, ``(w,)``, with its cost."""

M = TypeVar("M")


class RowNeighbours(NamedTuple):
    """The feasible neighbours of a configuration.

    Attributes:
        rows: Codes, ``(m, w)``.
        keys: Their hash keys, m of them.
        genes: Index of the parameter in which each row differs, among the parameters that are not constant, ``(m,)``.
    """

    rows: Codes
    keys: list[bytes]
    genes: Ints


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Finds neighbours; caches them if they contain no random ones.

    Attributes:
        space: The space.
        name: A key of `NEIGHBOURHOODS`.
    """

    space: Space
    name: str
    _cache: dict[bytes, RowNeighbours] = field(default_factory=dict, repr=False)

    def around(self, row: Array, rng: Rng) -> RowNeighbours:
        """Return the neighbours of a feasible row of codes, ``(w,)``, in no particular order."""
        (key,) = row_keys(row[None, :])
        if key in self._cache:
            return self._cache[key]
        rows, _ = NEIGHBOURHOODS[self.name](self.space, row[None, :], rng)
        genes = self._owner[(rows != row).argmax(axis=1)] if len(rows) else _NO_GENES
        neighbours = RowNeighbours(rows, row_keys(rows), genes)
        if self._deterministic:
            if len(self._cache) == _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = neighbours
        return neighbours

    @cached_property
    def _owner(self) -> Ints:
        """Index of the parameter of each code column, among the parameters that are not constant."""
        owner = np.zeros(self.space.width, dtype=np.int64)
        for gene, parameter in enumerate(self.space.active):
            owner[self.space.columns[parameter]] = gene
        return owner

    @cached_property
    def _deterministic(self) -> bool:
        """Whether all changes of every parameter are neighbours, so that none are drawn at random."""
        if self.space.conditions:  # values of a parameter that a change switches on may be drawn
            return False
        for place in neighbourhoods.locate_parameters(self.space):
            width = place.parameter.width
            if is_permutation(place.parameter):
                count = width * (width - 1) / 2
            else:
                values = place.choices()
                count = math.inf if values is None else len(values)
            if count > _VALUES:
                return False
        return True


@dataclass(frozen=True, eq=False)
class Scan:
    """Configurations to look at in order: one start, or the neighbours of a configuration.

    Attributes:
        rows: Codes of the configurations, ``(m, w)``.
        keys: Their hash keys, m of them.
        costs: Their costs, ``(m,)``; NaN if unknown.
        first: True: the first cost below the threshold settles the scan. False: all costs must be known.
        threshold: The cost of the base; a neighbour below it is an improvement.
        base: The configuration whose neighbours are scanned, ``(w,)``; None for a start.
        genes: Index of the parameter in which each row differs from the base, ``(m,)``.
        ranks: Position of every parameter in the order of this pass.
        moved: Whether this pass has already found an improvement.
        member: Index of the population member that the scan belongs to; 0 if there is no population.
        better: Index of the improvement that settled the scan, or None.
        settled: Whether the known costs decide the next move.
    """

    rows: Codes
    keys: list[bytes]
    costs: Array
    first: bool = False
    threshold: float = math.inf
    base: Array | None = None
    genes: Ints = field(default_factory=_NO_GENES.copy)
    ranks: Ints = field(default_factory=_NO_GENES.copy)
    moved: bool = False
    member: int = 0
    better: int | None = None
    settled: bool = False

    @classmethod
    def start(cls, row: Array, observed: ObservedCosts, member: int = 0) -> Scan:
        """Return the scan of one configuration, ``(w,)``; it settles when the cost is known."""
        rows, keys = row[None, :], row_keys(row[None, :])
        return _settle(cls(rows, keys, observed.costs(keys), member=member))

    def add_cost(self, key: bytes, cost: float) -> Scan:
        """Return the scan with one more cost; the scan itself if it does not wait for this configuration.

        With ``first``, an improvement settles the scan even if costs before it in the order are unknown.
        """
        if self.settled or key not in self.keys:
            return self
        index = self.keys.index(key)
        if not math.isnan(self.costs[index]):
            return self
        costs = self.costs.copy()
        costs[index] = cost
        if self.first and cost < self.threshold:
            return replace(self, costs=costs, better=index, settled=True)
        return _settle(replace(self, costs=costs))

    def give_up(self) -> Scan:
        """Return the scan in which unknown costs count as failures."""
        if self.settled:
            return self
        return _settle(replace(self, costs=np.where(np.isnan(self.costs), np.inf, self.costs)))

    @property
    def unknown(self) -> Ints:
        """Indices of the rows whose costs are needed, in order; empty if the scan is settled."""
        return _NO_GENES if self.settled else np.flatnonzero(np.isnan(self.costs))


def _settle(scan: Scan) -> Scan:
    """Return the scan, settled if its costs in order decide the next move."""
    unknown = np.flatnonzero(np.isnan(scan.costs))
    if scan.first:
        known = scan.costs[: unknown[0]] if len(unknown) else scan.costs
        improvements = np.flatnonzero(known < scan.threshold)
        if len(improvements):
            return replace(scan, better=int(improvements[0]), settled=True)
    if len(unknown):
        return scan
    improved = len(scan.costs) > 0 and scan.costs.min() < scan.threshold
    return replace(scan, better=int(scan.costs.argmin()) if improved else None, settled=True)


IMPROVEMENTS: Mapping[str, bool] = {"first": True, "best": False}
"""Values of the setting ``improvement``: move to the first better neighbour, or to the best of all."""


@final
@dataclass(frozen=True)
class Climber:
    """A hill climber (Schoonhoven et al. 2022, section III-C1).

    First improvement looks at the neighbours in random order and moves to the first better one. Best improvement looks
    at all neighbours and moves to the best.

    Attributes:
        first: True: first improvement; False: best improvement.
        restart: Whether a new pass starts after an improvement; if not, the pass continues with the parameters that are
            left or, in mixed order, with as many neighbours as are left (first improvement only).
        mixed: Whether the neighbours of all parameters are mixed, as the paper describes; if not, all neighbours by one
            parameter come before those by the next.
    """

    first: bool = True
    restart: bool = True
    mixed: bool = False


ORDERS: Mapping[str, bool] = {"mixed": True, "by_parameter": False}
"""Values of the setting ``order``: neighbours of all parameters in one random order, or one parameter after another."""


HILL_CLIMBERS: Mapping[str, Climber] = {
    "random_first": Climber(first=True, restart=True),
    "best": Climber(first=False),
}
"""Hill climbers by name, for the setting ``hill_climber``."""


@dataclass(frozen=True, eq=False)
class SearchState(Generic[M]):
    """The state of a local search.

    Attributes:
        problem: The run.
        algorithm: The strategy with all its settings.
        neighbourhoods: Finds neighbours.
        memory: The algorithm's own state.
        scans: The current scans; all algorithms but the genetic one have a single scan.
        observed: The known costs: all observations, or with ``noise="repeat"`` the failures only.
        observations: Number of observations.
        best_cost: The least cost observed.
        surprise: An observation that was not awaited and is better than all before, until the algorithm uses it.
        spares: Observed spares, oldest first.
        turn: Number of moves.
        overtaken: Number of spares observed in this turn that were proposed while everything awaited was pending.
    """

    problem: Problem
    algorithm: LocalSearchStrategy[M]
    neighbourhoods: Neighbourhoods
    memory: M
    scans: tuple[Scan, ...] = ()
    observed: ObservedCosts = field(default_factory=ObservedCosts)
    observations: int = 0
    best_cost: float = math.inf
    surprise: CostedRow | None = None
    spares: tuple[CostedRow, ...] = ()
    turn: int = 0
    overtaken: int = 0

    def scan_start(self, row: Array) -> SearchState[M]:
        """Return the state that scans a start, ``(w,)``."""
        return replace(self, scans=(Scan.start(row, self.observed),))

    def scan_next_start(self, rng: Rng) -> SearchState[M]:
        """Return the state that scans its next start: the surprise, the oldest spare, or a new draw."""
        if self.surprise is not None:
            return replace(self.scan_start(self.surprise[0]), surprise=None)
        if self.spares:
            return replace(self.scan_start(self.spares[0][0]), spares=self.spares[1:])
        return self.scan_start(self.algorithm.draw_start(self.problem.space, self.memory, rng))

    def climb(self, climber: Climber, scan: Scan, rng: Rng) -> Scan | None:
        """Return the scan after a settled one, or None if its base is a local minimum."""
        resume_at = None
        if scan.base is None or scan.better is not None:
            to = scan.better or 0  # a start has one row
            base, cost = scan.rows[to], float(scan.costs[to])
            if climber.first and not climber.restart and scan.base is not None:
                begin = len(scan.keys) - to - 1 if climber.mixed else scan.ranks[scan.genes[to]]
                resume_at = scan.ranks, int(begin)
        elif scan.moved:
            # This pass began at another configuration, so the base has not been compared with all its neighbours.
            base, cost = scan.base, scan.threshold
        else:
            return None
        return self.scan_neighbours(
            *(base, cost, rng),
            first=climber.first,
            mixed=climber.mixed,
            member=scan.member,
            resume_at=resume_at,
        )

    def scan_neighbours(
        self,
        base: Array,
        cost: float,
        rng: Rng,
        *,
        first: bool,
        mixed: bool = False,
        member: int = 0,
        resume_at: tuple[Ints, int] | None = None,
        tabu: Set[bytes] = frozenset(),
    ) -> Scan:
        """Return the scan of a configuration's neighbours in random order.

        Args:
            base: The configuration, ``(w,)``.
            cost: Its cost, which becomes the threshold.
            rng: Random generator for the order.
            first: See `Scan`.
            mixed: See `Climber`.
            member: See `Scan`.
            resume_at: To continue a pass: the ranks of all parameters, and the first rank that is left; in mixed order
                the number of neighbours that are left.
            tabu: Keys of neighbours that are left out.
        """
        rows, keys, genes = self.neighbourhoods.around(base, rng)
        active = len(self.problem.space.active)
        ranks, begin = (rng.permutation(active), 0) if resume_at is None else resume_at
        order = np.lexsort((rng.random(len(genes)), genes * 0 if mixed else ranks[genes]))
        if resume_at is not None:
            order = order[:begin] if mixed else order[ranks[genes[order]] >= begin]
        if tabu:
            order = order[[keys[i] not in tabu for i in order]]
        rows, keys, genes = rows[order], [keys[i] for i in order], genes[order]
        costs, moved = self.observed.costs(keys), resume_at is not None
        return _settle(Scan(rows, keys, costs, first, cost, base, genes, ranks, moved, member))


@dataclass(frozen=True)
class LocalSearchStrategy(BudgetedSettings, ABC, Generic[M]):
    """Base of local searches; ``M`` is the type of the algorithm's own state.

    The tag of a proposal says whether it is a ``start``, a ``neighbour`` or a ``spare``, and in which turn it was made.
    A spare's tag also says whether everything awaited was pending then.
    """

    neighbourhood: str = field(
        default=BY_BUDGET, kw_only=True, metadata={"choices": NEIGHBOURHOODS}
    )

    first_memory: ClassVar[Any] = None
    """The algorithm's own state before the first observation."""

    @abstractmethod
    def move(self, state: SearchState[M], rng: Rng) -> SearchState[M]:
        """Return the state with new scans after a scan has settled; the new scans may be settled as well."""

    def draw_start(self, space: Space, memory: M, rng: Rng) -> Array:
        """Return the next start, a feasible row, ``(w,)``; by default a uniform draw."""
        return space.feasible.spread(1, rng).reshape(-1)

    def start(self, state: SearchState[M], rng: Rng) -> SearchState[M]:
        """Return the state with the first scans."""
        return state.scan_next_start(rng)

    def init(self, problem: Problem, rng: Rng) -> SearchState[M]:
        """Return the state that scans the first start."""
        algorithm = self.for_budget(problem.budget)
        neighbourhoods = Neighbourhoods(problem.space, algorithm.neighbourhood)
        state = SearchState(problem, algorithm, neighbourhoods, algorithm.first_memory)
        return algorithm.start(state, rng)

    def ask(
        self, problem: Problem, history: History, state: SearchState[M], n: int, rng: Rng
    ) -> Sequence[Proposal]:
        """Return the configurations whose costs are needed, in order, then spares."""
        proposals: dict[bytes, Proposal] = {}
        for scan, i in _iterate_needed(state.scans, n + len(history.pending)):
            row, key = scan.rows[i], scan.keys[i]
            if key not in proposals and not problem.is_excluded(history, row[None, :])[0]:
                phase = "start" if scan.base is None else "neighbour"
                proposals[key] = Proposal(row, {"phase": phase, "turn": state.turn})
            if len(proposals) == n:
                return list(proposals.values())
        history = history.assume_pending(proposed_rows(problem.space, proposals.values()))
        tag = {"phase": "spare", "turn": state.turn, "waiting": not proposals}
        draw_start, count = state.algorithm.draw_start, n - len(proposals)
        draws = [draw_start(problem.space, state.memory, rng) for _ in range(2 * count)]
        rows = drop_duplicates(np.array(draws))
        rows = rows[~problem.is_excluded(history, rows)][:count]
        excluded = partial(problem.is_excluded, history.assume_pending(rows))
        more = design.uniform(problem.space, count - len(rows), rng, excluded)
        return [*proposals.values(), *(Proposal(row, tag) for row in (*rows, *more))]

    def tell(
        self, problem: Problem, state: SearchState[M], observation: Observation, rng: Rng
    ) -> SearchState[M]:
        """Note the cost, and move as long as the known costs decide the next move."""
        code, cost = observation.code, observation.cost
        if code is None:
            return state
        (key,) = row_keys(code[None, :])
        state = replace(state, observations=state.observations + 1)
        if problem.noise == "none" or not math.isfinite(cost):
            observed = state.observed.add(key, cost)
            known = observed.cost(key)
            assert known is not None
            state, cost = replace(state, observed=observed), known
        scans = tuple(scan.add_cost(key, cost) for scan in state.scans)
        awaited = any(new is not old for new, old in zip(scans, state.scans, strict=True))
        state = replace(state, scans=scans)
        if not awaited:
            state = _note_unawaited(state, (code, cost), observation)
        state = replace(state, best_cost=min(state.best_cost, cost))
        for _ in range(_MOVES_PER_TELL):
            if not any(scan.settled for scan in state.scans):
                break
            moved = state.algorithm.move(state, rng)
            state = replace(moved, turn=state.turn + 1, overtaken=0)
        return state


def _iterate_needed(scans: Sequence[Scan], limit: int) -> Iterator[tuple[Scan, int]]:
    """Yield scans with the index of a needed cost: the first of every scan, the second of every scan, and so on."""
    columns = ([(scan, int(i)) for i in scan.unknown[:limit]] for scan in scans)
    return (item for item in chain.from_iterable(zip_longest(*columns)) if item is not None)


def _note_unawaited(state: SearchState[M], point: CostedRow, trial: Observation) -> SearchState[M]:
    """Return the state after an observation that no scan awaits."""
    is_spare = trial.read_tag("phase") == "spare"
    if is_spare and trial.read_tag("waiting") and trial.read_tag("turn") == state.turn:
        state = replace(state, overtaken=state.overtaken + 1)
        if state.overtaken >= _LOST_AFTER:
            state = replace(state, scans=tuple(scan.give_up() for scan in state.scans))
    if point[1] < state.best_cost:
        state = replace(state, surprise=point)
    elif is_spare:
        state = replace(state, spares=(*state.spares, point)[-_SPARES:])
    if state.surprise is not None and len(state.scans) == 1 and state.scans[0].base is None:
        start = Scan.start(state.surprise[0], state.observed, state.scans[0].member)
        return replace(state, scans=(start,), surprise=None)
    return state
