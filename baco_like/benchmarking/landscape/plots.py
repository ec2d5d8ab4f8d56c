"""Plots of landscapes: the flow graph of a small space, C_p curves of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._optional import require
from baco_like._typing import Array, Ints
from baco_like.benchmarking.landscape.graph import SHARES, FlowGraph

LARGEST_PLOT = 2000
"""Nodes of a graph that is still drawn."""

_DARKEST = 0.75
"""Fractions of the optimum below this have the same colour, as in the paper's Fig. 6."""

_FAILED = "#bbbbbb"
_OPTIMUM = "#d55e00"


def plot_flow_graph(graph: FlowGraph, path: Path) -> None:
    """Write a picture of a flow graph to ``path``: better is lower, neighbours stand side by side.

    The colour is the fraction of the optimum, local minima are larger by their PageRank, the optimum has a ring, and
    failures stand in grey at the top (Schoonhoven et al. 2022, Fig. 6).

    Raises:
        ValueError: The graph has more than `LARGEST_PLOT` nodes.
        MissingExtra: matplotlib is not installed.
    """
    if len(graph.costs) > LARGEST_PLOT:
        raise ValueError(
            f"the graph has {len(graph.costs)} nodes; a picture shows at most {LARGEST_PLOT}"
        )
    require("matplotlib", "plot")
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    x, y = _side_by_side(graph), _heights(graph)
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    worse, better = graph.flow.nonzero()
    ends = np.stack([np.column_stack([x[e], y[e]]) for e in (worse, better)], axis=1)
    axes.add_collection(LineCollection(list(ends), colors="#00000018", linewidths=0.5))
    axes.plot(x[~graph.ran], y[~graph.ran], ".", color=_FAILED, ms=4)
    drawn = _nodes(axes, graph, x, y)
    best = int(np.argmin(graph.costs))
    axes.plot(x[best], y[best], "o", ms=14, mfc="none", mec=_OPTIMUM, mew=1.5)
    figure.colorbar(drawn, ax=axes, label="fraction of the optimum", extend="min")
    axes.set_xticks([])
    axes.set_ylabel("configurations that are better")
    figure.savefig(path, dpi=150)


def plot_centrality_curves(
    curves: Mapping[str, Array], path: Path, shares: Sequence[float] = SHARES
) -> None:
    """Write a plot of C_p over p to ``path`` (Schoonhoven et al. 2022, Fig. 7).

    Args:
        curves: What `FlowGraph.centrality_curve` gave for each space, by its name.
        path: Its ending says the format.
        shares: The p of the curves.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    marks = "osD^v<>pP*X"
    for number, (name, curve) in enumerate(curves.items()):
        axes.plot(
            100 * np.asarray(shares), curve, marks[number % len(marks)] + "-", ms=4, label=name
        )
    axes.set_xlabel("p: good is within so many per cent of the optimum")
    axes.set_ylabel("proportion of centrality")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=150)


def _nodes(axes: Any, graph: FlowGraph, x: Ints, y: Ints) -> Any:
    size = np.full(len(graph.costs), 8.0)
    weight = graph.centrality[graph.minima]
    size[graph.minima] = 30 + 220 * weight / weight.max()
    ran = np.flatnonzero(graph.ran)
    colour = np.maximum(graph.fractions(ran), _DARKEST)
    return axes.scatter(
        x[ran], y[ran], s=size[ran], c=colour, vmin=_DARKEST, vmax=1, cmap="viridis", zorder=2
    )


def _heights(graph: FlowGraph) -> Ints:
    """Return how many nodes are better than each: even steps, whatever the costs."""
    return np.searchsorted(np.sort(graph.costs), graph.costs).astype(np.int64)


def _side_by_side(graph: FlowGraph) -> Ints:
    """Return places in a row with neighbours close to each other: the order of the Laplacian's Fiedler vector."""
    links = (graph.flow + graph.flow.T).toarray()
    laplacian = np.diag(links.sum(axis=1)) - links
    _, vectors = np.linalg.eigh(laplacian)
    fiedler = vectors[:, min(1, len(links) - 1)]
    return np.argsort(np.argsort(fiedler, kind="stable"))
