"""The fitness flow graph of a recorded space, which shows how difficult the space is for local search.

"Benchmarking optimization algorithms for auto-tuning GPU kernels" (Schoonhoven et al. 2022), section VII.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from scipy.sparse import coo_array, csr_array

from baco_like._typing import Array, Ints, Mask
from baco_like.benchmarking.landscape.neighbours import (
    Neighbourhood,
    ValueColumn,
    neighbour_pairs,
    read_columns,
)
from baco_like.records import Direction, sign_of
from baco_like.results.recording import Recording

Ties = Literal["unlinked", "linked"]
"""Whether edges lead both ways between neighbours of equal cost.

The text of the paper has an edge "to a neighbouring point if the neighbour has lower fitness" (section VII-B):
``unlinked``. The program that its authors published, BlooPy, links neighbours of equal fitness, too: ``linked``. This
matters where neighbours fail, because all failures have one cost: the random walk then crosses such a plateau.
"""

FAILED_COST = 1e10
"""Cost of a configuration that fails; any success is better."""

DAMPING = 0.85
"""Probability with which PageRank's random surfer follows an edge."""

SHARES = tuple(p / 100 for p in range(16))
"""Shares above the optimum for which the paper shows the proportion of centrality: 0 to 15 %."""

_TOLERANCE = 1e-14
"""Relative change of the PageRanks at which the iteration ends."""


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """A directed graph of configurations, from each to its neighbours that are better, or no worse with linked ties.

    Attributes:
        costs: Cost of every node (minimised), `FAILED_COST` for failures, ``(n,)``.
        flow: Adjacency matrix, ``(n, n)``, 1 in row i and column j where an edge leads from i to j.
    """

    costs: Array
    flow: csr_array

    @cached_property
    def minima(self) -> Ints:
        """Successful nodes without a better neighbour, at which local search ends, ``(m,)``."""
        out = np.diff(self.flow.indptr)
        has_better = np.zeros(len(self.costs), dtype=np.bool_)
        start = np.repeat(np.arange(len(self.costs)), out)
        has_better[start[self.costs[self.flow.indices] < self.costs[start]]] = True
        return np.flatnonzero(~has_better & self.ran)

    @property
    def ran(self) -> Mask:
        """Whether each node is a success, ``(n,)``."""
        return np.asarray(self.costs < FAILED_COST)

    @property
    def optimum(self) -> float:
        """The smallest cost."""
        return float(self.costs.min())

    @cached_property
    def centrality(self) -> Array:
        """PageRank of every node, ``(n,)``; they sum to 1."""
        return pagerank(self.flow)

    def fractions(self, nodes: Ints | None = None) -> Array:
        """Return optimum / cost of the given nodes, by default of the local minima (section VII-A), ``(m,)``."""
        costs = self.costs[self.minima if nodes is None else nodes]
        return self.optimum / costs if self.optimum > 0 else costs / self.optimum

    def naive_metric(self) -> float:
        """Return the median fraction of the optimum over the local minima (section VII-A, Fig. 3).

        According to the paper this metric does not explain which spaces are hard.
        """
        return float(np.median(self.fractions()))

    def centrality_curve(self, shares: Sequence[float] = SHARES) -> Array:
        """Return C_p for several p (Eq. 3): the share of the good local minima in the centrality of all of them.

        Args:
            shares: The p; a minimum is good if it is at most this share worse than the optimum; 0.05 is 5 %.

        Raises:
            ValueError: A share is negative or above 1.
        """
        if not all(0 <= p <= 1 for p in shares):
            raise ValueError(f"p = {list(shares)} must be between 0 and 1; 5 % is 0.05")
        weight, costs = self.centrality[self.minima], self.costs[self.minima]
        limits = self.optimum + np.asarray(shares) * abs(self.optimum)
        good = costs <= limits[:, None]
        return np.asarray(good @ weight / weight.sum())


def flow_graph(
    recorded: Recording,
    neighbourhood: Neighbourhood = "adjacent",
    *,
    direction: Direction = "minimize",
    ties: Ties = "unlinked",
) -> FlowGraph:
    """Return the fitness flow graph of a recorded space; its nodes are in the order of the table's entries.

    Args:
        recorded: Every configuration with its value or failure; only these are nodes.
        neighbourhood: ``adjacent`` (as in the paper's graphs) or ``hamming``.
        direction: Direction of the values.
        ties: ``linked`` as in the paper's program, for a comparison with its figures; see `Ties`.

    Raises:
        ValueError: The neighbourhood or the rule of ties is unknown, all configurations fail, or a cost is not below
            `FAILED_COST`.
    """
    sign = sign_of(direction)
    entries = recorded.entries.values()
    costs = np.array([np.nan if e.value is None else sign * e.value for e in entries])
    if (costs >= FAILED_COST).any():
        raise ValueError(f"a cost reaches {FAILED_COST:g}, the cost of failures; use a larger unit")
    costs = np.where(np.isnan(costs), FAILED_COST, costs)
    return build_flow_graph(read_columns(recorded, neighbourhood), costs, ties)


def build_flow_graph(
    columns: Sequence[ValueColumn], costs: Array, ties: Ties = "unlinked"
) -> FlowGraph:
    """Return the fitness flow graph of configurations and their costs.

    Args:
        columns: The parameters of all configurations.
        costs: Their costs, ``(n,)``.
        ties: Whether neighbours of equal cost are linked both ways.

    Raises:
        ValueError: All configurations fail, or the rule of ties is unknown.
    """
    if ties not in get_args(Ties):
        raise ValueError(f"ties = {ties!r}: expected 'unlinked' or 'linked'")
    if not (costs < FAILED_COST).any():
        raise ValueError("the table has no configuration that runs; there is no landscape")
    worse, better = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for a, b in neighbour_pairs(columns):
        higher, lower = (
            (np.greater, np.less) if ties == "unlinked" else (np.greater_equal, np.less_equal)
        )
        down, up = higher(costs[a], costs[b]), lower(costs[a], costs[b])
        worse += [a[down], b[up]]
        better += [b[down], a[up]]
    edges = (np.concatenate(worse), np.concatenate(better))
    n = len(costs)
    return FlowGraph(costs, csr_array(coo_array((np.ones(len(edges[0])), edges), shape=(n, n))))


def pagerank(flow: csr_array, damping: float = DAMPING) -> Array:
    """Return the PageRank of every node of a graph, ``(n,)``.

    With transition matrix P and uniform vector v, PageRank is x = damping (P' x + dangling v) + (1 - damping) v; the
    rank of dangling nodes is spread uniformly. Both terms in v only scale x, so x is proportional to the solution
    y of y = 1 + damping P' y. The equation is iterated. A fitness flow graph without linked ties has no cycles, so the
    result is then exact after as many steps as its longest path has.

    Args:
        flow: Adjacency matrix, ``(n, n)``; all edges of a node are followed with equal probability.
        damping: Probability of following an edge, below 1.
    """
    n = flow.shape[0]
    out = np.diff(flow.indptr)
    share = np.divide(damping, out, out=np.zeros(n), where=out > 0)
    into = csr_array(flow.T)
    y = np.ones(n)
    for _ in range(int(np.log(_TOLERANCE) / np.log(damping)) + 2):
        following = 1.0 + into @ (share * y)
        done = np.abs(following - y).sum() <= _TOLERANCE * following.sum()
        y = following
        if done:
            break
    return np.asarray(y / y.sum())


def proportion_of_centrality(
    recorded: Recording,
    p: float,
    neighbourhood: Neighbourhood = "adjacent",
    *,
    direction: Direction = "minimize",
    ties: Ties = "unlinked",
) -> float:
    """Return C_p of a recorded space: the probability that local search ends within (1 + p) of the optimum (Eq. 3).

    A value near 1 means an easy space. For several p use `FlowGraph.centrality_curve`, which needs one graph.

    Args:
        recorded: Every configuration with its value or failure.
        p: A share; 0.05 is 5 %.
        neighbourhood: ``adjacent``, as in the paper, or ``hamming``.
        direction: Direction of the values.
        ties: ``linked`` as in the paper's program; see `Ties`.

    Raises:
        ValueError: p is not between 0 and 1, the neighbourhood is unknown, or all configurations fail.
    """
    graph = flow_graph(recorded, neighbourhood, direction=direction, ties=ties)
    return float(graph.centrality_curve((p,))[0])
