"""Plot landscapes: the flow graph of a small space, and the C_p curves of several spaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np

from baco_like._optional import open_plot
from baco_like._typing import Array, Ints
from baco_like.benchmarking.landscape.graph import SHARES, FlowGraph

MAX_NODES = 2000
"""Largest graph that is drawn."""

_DARKEST = 0.75
"""Fractions of the optimum below this value have the same colour, as in the paper's Fig. 6."""

_FAILED = "#bbbbbb"
_OPTIMUM = "#d55e00"


def plot_flow_graph(graph: FlowGraph, path: Path) -> None:
    """Plot a flow graph: better configurations are lower, and neighbours are close to each other.

    The colour shows the fraction of the optimum. The size of a local minimum grows with its PageRank, the optimum has
    a ring, and failures are grey at the top (Schoonhoven et al. 2022, Fig. 6).

    Raises:
        ValueError: The graph has more than `MAX_NODES` nodes.
        MissingExtra: matplotlib is not installed.
    """
    if len(graph.costs) > MAX_NODES:
        raise ValueError(f"{len(graph.costs)} nodes are too many; a plot shows up to {MAX_NODES}")
    with open_plot(path, 8, 5) as axes:
        from matplotlib.collections import LineCollection

        x = _horizontal_ranks(graph)
        y = np.searchsorted(np.sort(graph.costs), graph.costs)  # the number of better nodes
        worse, better = graph.flow.nonzero()
        ends = np.stack([np.column_stack([x[e], y[e]]) for e in (worse, better)], axis=1)
        axes.add_collection(LineCollection(list(ends), colors="#00000018", linewidths=0.5))
        axes.plot(x[~graph.ran], y[~graph.ran], ".", color=_FAILED, ms=4)
        size = np.full(len(graph.costs), 8.0)
        weight = graph.centrality[graph.minima]
        size[graph.minima] = 30 + 220 * weight / weight.max()
        ran = np.flatnonzero(graph.ran)
        colour = np.maximum(graph.fractions(ran), _DARKEST)
        nodes = axes.scatter(
            x[ran], y[ran], s=size[ran], c=colour, vmin=_DARKEST, vmax=1, cmap="viridis", zorder=2
        )
        best = int(np.argmin(graph.costs))
        axes.plot(x[best], y[best], "o", ms=14, mfc="none", mec=_OPTIMUM, mew=1.5)
        axes.figure.colorbar(nodes, ax=axes, label="fraction of the optimum", extend="min")
        axes.set_xticks([])
        axes.set_ylabel("configurations that are better")


def plot_centrality_curves(
    curves: Mapping[str, Array], path: Path, shares: Sequence[float] = SHARES
) -> None:
    """Plot C_p over p (Schoonhoven et al. 2022, Fig. 7).

    Args:
        curves: The result of `FlowGraph.centrality_curve` for each space, by its name.
        path: The file; its suffix decides the format.
        shares: The p of the curves.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    percent = 100 * np.asarray(shares)
    with open_plot(path, 7, 4) as axes:
        for mark, (name, curve) in zip(cycle("osD^v<>pP*X"), curves.items(), strict=False):
            axes.plot(percent, curve, mark + "-", ms=4, label=name)
        axes.set_xlabel("p: largest distance of a good minimum to the optimum, %")
        axes.set_ylabel("proportion of centrality")
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize="small")


def _horizontal_ranks(graph: FlowGraph) -> Ints:
    """Return positions with neighbours close to each other: the order of the Laplacian's Fiedler vector."""
    links = (graph.flow + graph.flow.T).toarray()
    laplacian = np.diag(links.sum(axis=1)) - links
    _, vectors = np.linalg.eigh(laplacian)
    fiedler = vectors[:, min(1, len(links) - 1)]
    return np.argsort(np.argsort(fiedler, kind="stable"))
