"""How hard a recorded space is for local search: fitness flow graphs and the proportion of centrality."""

from baco_like.analysis.landscape.graph import (
    DAMPING,
    FAILED,
    SHARES,
    FlowGraph,
    flow_graph,
    pagerank,
    proportion_of_centrality,
)
from baco_like.analysis.landscape.neighbours import Neighbourhood

__all__ = [
    "DAMPING",
    "FAILED",
    "SHARES",
    "FlowGraph",
    "Neighbourhood",
    "flow_graph",
    "pagerank",
    "proportion_of_centrality",
]
