"""Difficulty of a recorded space for local search: fitness flow graphs and the proportion of centrality."""

from baco_like.benchmarking.landscape.estimate import MIN_SUCCESSES, estimate_centrality_curve
from baco_like.benchmarking.landscape.graph import (
    DAMPING,
    FAILED_COST,
    SHARES,
    FlowGraph,
    Ties,
    flow_graph,
    pagerank,
    proportion_of_centrality,
)
from baco_like.benchmarking.landscape.neighbours import Neighbourhood
from baco_like.benchmarking.landscape.plots import plot_centrality_curves, plot_flow_graph

__all__ = [
    "DAMPING",
    "FAILED_COST",
    "MIN_SUCCESSES",
    "SHARES",
    "FlowGraph",
    "Neighbourhood",
    "Ties",
    "estimate_centrality_curve",
    "flow_graph",
    "pagerank",
    "plot_centrality_curves",
    "plot_flow_graph",
    "proportion_of_centrality",
]
