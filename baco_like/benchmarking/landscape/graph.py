"""The fitness flow graph of a recorded space and what it says of local search on it.

"Benchmarking optimization algorithms for auto-tuning GPU kernels" (Schoonhoven et al. 2022), section VII.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import coo_array, csr_array

from baco_like._typing import Array, Ints, Mask
from baco_like.benchmarking.landscape.neighbours import Column, Neighbourhood, columns, pairs
from baco_like.results.recording import Recording

FAILED = 1e10
"""Fitness of a configuration that fails: any that runs is better."""

DAMPING = 0.85
"""With this probability PageRank's surfer follows an edge."""

SHARES = tuple(p / 100 for p in range(16))
"""Shares above the optimum for which the paper shows the proportion of centrality: 0 to 15 %."""

_TOLERANCE = 1e-14
"""Relative change of the PageRanks' sum at which the iteration ends."""


@dataclass(frozen=True, eq=False)
class FlowGraph:
    """A directed graph of configurations, from each to its neighbours that are better.

    Attributes:
        costs: Fitness of every node (minimised), `FAILED` where it fails, ``(n,)``.
        flow: Adjacency matrix, ``(n, n)``, 1 in row i and column j where an edge leads from i to j.
    """

    costs: Array
    flow: csr_array

    @cached_property
    def minima(self) -> Ints:
        """Nodes that run and have no better neighbour: where local search ends, ``(m,)``."""
        return np.flatnonzero((np.diff(self.flow.indptr) == 0) & self.ran)

    @property
    def ran(self) -> Mask:
        """Which nodes do not fail, ``(n,)``."""
        return np.asarray(self.costs < FAILED)

    @property
    def optimum(self) -> float:
        """The least cost."""
        return float(self.costs.min())

    @cached_property
    def centrality(self) -> Array:
        """PageRank of every node, ``(n,)``; they sum to 1."""
        return pagerank(self.flow)

    def fractions(self, nodes: Ints | None = None) -> Array:
        """Return optimum / cost of some nodes, by default of the local minima (section VII-A), ``(m,)``."""
        costs = self.costs[self.minima if nodes is None else nodes]
        return self.optimum / costs if self.optimum > 0 else costs / self.optimum

    def naive_metric(self) -> float:
        """Return the median fraction of the optimum over the local minima (section VII-A, Fig. 3).

        The paper finds that it does not explain which spaces are hard.
        """
        return float(np.median(self.fractions()))

    def centrality_curve(self, shares: Sequence[float] = SHARES) -> Array:
        """Return C_p for several p (Eq. 3): the share of the local minima's centrality that good ones have.

        Args:
            shares: A minimum is good if it is at most this share worse than the optimum; 0.05 is 5 %.

        Raises:
            ValueError: A share is negative or above 1.
        """
        for p in shares:
            if not 0 <= p <= 1:
                raise ValueError(f"p = {p} is no share; 5 % is 0.05")
        weight, costs = self.centrality[self.minima], self.costs[self.minima]
        limits = self.optimum + np.asarray(shares) * abs(self.optimum)
        good = costs <= limits[:, None]
        return np.asarray(good @ weight / weight.sum())


def flow_graph(
    recorded: Recording, neighbourhood: Neighbourhood = "adjacent", *, maximise: bool = False
) -> FlowGraph:
    """Return the fitness flow graph of a recorded space; its nodes are in the order of the table's entries.

    Args:
        recorded: Every configuration with its value or failure. What the table does not have is no node.
        neighbourhood: ``adjacent`` (as in the paper's graphs) or ``hamming``.
        maximise: Whether more is better; costs are then the values with their sign flipped.

    Raises:
        ValueError: The neighbourhood is unknown, no configuration runs, or a cost is not below `FAILED`.
    """
    sign = -1.0 if maximise else 1.0
    entries = recorded.entries.values()
    costs = np.array([np.nan if e.value is None else sign * e.value for e in entries])
    if (costs >= FAILED).any():
        raise ValueError(f"a cost reaches {FAILED:g}, the fitness of failures; use a larger unit")
    return graph_of(columns(recorded, neighbourhood), np.where(np.isnan(costs), FAILED, costs))


def graph_of(table: Sequence[Column], costs: Array) -> FlowGraph:
    """Return the fitness flow graph of rows of codes and their costs.

    Raises:
        ValueError: No configuration runs.
    """
    if not (costs < FAILED).any():
        raise ValueError("the table has no configuration that runs; there is no landscape")
    worse, better = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for a, b in pairs(table):
        down, up = costs[a] > costs[b], costs[a] < costs[b]
        worse += [a[down], b[up]]
        better += [b[down], a[up]]
    edges = (np.concatenate(worse), np.concatenate(better))
    n = len(costs)
    return FlowGraph(costs, csr_array(coo_array((np.ones(len(edges[0])), edges), shape=(n, n))))


def pagerank(flow: csr_array, damping: float = DAMPING) -> Array:
    """Return the PageRank of every node of a graph, ``(n,)``.

    With P the matrix of steps and v uniform, PageRank is x = damping (P' x + dangling v) + (1 - damping) v, where what
    dangling nodes have is spread uniformly. Both sums in v scale x only, so x is proportional to the y that solves
    y = 1 + damping P' y. It is iterated; in a fitness flow graph, which has no cycles, it is exact after as many
    steps as the longest path has.

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
    maximise: bool = False,
) -> float:
    """Return C_p of a recorded space: how likely local search ends within (1 + p) of the optimum (Eq. 3).

    Near 1 the space is easy. For several p, `FlowGraph.centrality_curve` builds the graph only once.

    Args:
        recorded: Every configuration with its value or failure.
        p: A share; 0.05 is 5 %.
        neighbourhood: ``adjacent``, as in the paper, or ``hamming``.
        maximise: Whether more is better.

    Raises:
        ValueError: p is no share, the neighbourhood is unknown, or no configuration runs.
    """
    graph = flow_graph(recorded, neighbourhood, maximise=maximise)
    return float(graph.centrality_curve((p,))[0])
