"""Difficulty of a recorded space for local search: fitness flow graphs and the proportion of centrality.

"Benchmarking optimization algorithms for auto-tuning GPU kernels" (Schoonhoven et al. 2022), sections III-B and VII.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from scipy.sparse import coo_array, csr_array

from baco_like._drawing import PAGE, add_legend, label_axes, line_style, open_axes
from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.parameters.protocol import ParameterKind, is_permutation
from baco_like.records import History, Status
from baco_like.records.objective import Direction, sign_of
from baco_like.results.recording import Recording
from baco_like.spaces.space import Space
from baco_like.surrogates.forest import ForestFeasibility, Growth, RandomForest
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.protocol import Data, Surrogate
from baco_like.surrogates.transform import fit_transform

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

Neighbourhood = Literal["adjacent", "hamming"]
"""Hamming (Eq. 2): one parameter has any other value. Adjacent: one has the next or the previous value of its list."""

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
    direction: Direction | None = None,
    ties: Ties = "unlinked",
) -> FlowGraph:
    """Return the fitness flow graph of a recorded space; its nodes are in the order of the table's entries.

    Args:
        recorded: Every configuration with its value or failure; only these are nodes.
        neighbourhood: ``adjacent`` (as in the paper's graphs) or ``hamming``.
        direction: Direction of the values; None takes the table's.
        ties: ``linked`` as in the paper's program, for a comparison with its figures; see `Ties`.

    Raises:
        ValueError: The neighbourhood or the rule of ties is unknown, all configurations fail, a cost is not below
            `FAILED_COST`, or the table has another direction.
    """
    sign = sign_of(recorded.resolve_direction(direction))
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


def pagerank(flow: csr_array) -> Array:
    """Return the PageRank of every node of a graph, ``(n,)``.

    With transition matrix P and uniform vector v, PageRank is x = damping (P' x + dangling v) + (1 - damping) v; the
    rank of dangling nodes is spread uniformly. Both terms in v only scale x, so x is proportional to the solution
    y of y = 1 + damping P' y. The equation is iterated. A fitness flow graph without linked ties has no cycles, so the
    result is then exact after as many steps as its longest path has.

    Args:
        flow: Adjacency matrix, ``(n, n)``; all edges of a node are followed with equal probability.
    """
    n = flow.shape[0]
    out = np.diff(flow.indptr)
    share = np.divide(DAMPING, out, out=np.zeros(n), where=out > 0)
    into = csr_array(flow.T)
    y = np.ones(n)
    for _ in range(int(np.log(_TOLERANCE) / np.log(DAMPING)) + 2):
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
    direction: Direction | None = None,
    ties: Ties = "unlinked",
) -> float:
    """Return C_p of a recorded space: the probability that local search ends within (1 + p) of the optimum (Eq. 3).

    A value near 1 means an easy space. For several p use `FlowGraph.centrality_curve`, which needs one graph.

    Args:
        recorded: Every configuration with its value or failure.
        p: A share; 0.05 is 5 %.
        neighbourhood: ``adjacent``, as in the paper, or ``hamming``.
        direction: Direction of the values; None takes the table's.
        ties: ``linked`` as in the paper's program; see `Ties`.

    Raises:
        ValueError: p is not between 0 and 1, the neighbourhood is unknown, all configurations fail, or the table has
            another direction.
    """
    graph = flow_graph(recorded, neighbourhood, direction=direction, ties=ties)
    return float(graph.centrality_curve((p,))[0])


# Neighbours (section III-B): pairs of rows that differ in one column --------------------------------------------------


_MAX_KEY = 2**62
"""Limit of the joint number of a row's values, below the largest 64-bit integer."""


@dataclass(frozen=True, eq=False)
class ValueColumn:
    """The values of one parameter in all rows.

    Attributes:
        codes: Number of the value, ``(n,)``.
        are_neighbours: For pairs of different values, the smaller first, returns which are neighbours.
        reach: Largest distance of neighbours among rows that are equal in all other columns and sorted by this one.
    """

    codes: Ints
    are_neighbours: Callable[[Ints, Ints], Mask]
    reach: int = sys.maxsize


def read_columns(recorded: Recording, neighbourhood: Neighbourhood) -> list[ValueColumn]:
    """Return the parameters of a recorded table in the order of its entries.

    Numbers have the order of their list. Other values have no order: all of them are adjacent. Neighbouring
    permutations differ by a swap of two consecutive elements (adjacent) or of any two elements (Hamming).

    Raises:
        ValueError: The neighbourhood is unknown.
    """
    columns = []
    for name, values in zip(recorded.names, zip(*recorded.entries, strict=True), strict=True):
        domain = recorded.domains[name]
        number = {value: i for i, value in enumerate((*domain, None))}  # None: inactive
        codes = np.array([number[value] for value in values], dtype=np.int64)
        ordered = all(isinstance(value, int | float) for value in domain)
        columns.append(_make_column(codes, domain, ordered, neighbourhood))
    return columns


def read_space_columns(
    space: Space, codes: Codes, neighbourhood: Neighbourhood
) -> list[ValueColumn]:
    """Return the parameters of encoded configurations, as `read_columns` does.

    Args:
        space: A space without real parameters.
        codes: The configurations, ``(n, w)``.
        neighbourhood: ``adjacent`` or ``hamming``.

    Raises:
        ValueError: The neighbourhood is unknown.
    """
    columns = []
    for name in space.active:
        parameter, part = space.parameters[name], codes[:, space.columns[name]]
        if parameter.width == 1:
            ordered = parameter.kind is ParameterKind.ORDERED
            columns.append(_make_column(part[:, 0].astype(np.int64), (), ordered, neighbourhood))
            continue
        distinct, numbers = np.unique(part, axis=0, return_inverse=True)
        domain: list[tuple[int, ...]] = []
        if is_permutation(parameter):
            domain = [tuple(order) for order in np.argsort(distinct, axis=1).tolist()]
        column = _make_column(numbers.reshape(-1), domain, False, neighbourhood)
        if parameter.kind is ParameterKind.ORDERED and neighbourhood == "adjacent":
            column = ValueColumn(column.codes, partial(_one_step_apart, distinct))
        columns.append(column)
    return columns


def neighbour_pairs(table: Sequence[ValueColumn]) -> Iterator[tuple[Ints, Ints]]:
    """Yield blocks of neighbouring rows, each pair of rows once.

    For each column the rows are sorted into groups that are equal in all other columns. The pairs of a group are the
    rows at distance 1, 2, ... in it. The effort is proportional to the number of pairs.
    """
    for number, column in enumerate(table):
        others = [other.codes for other in table[:number]] + [o.codes for o in table[number + 1 :]]
        rest = _joint_numbers(others, len(column.codes))
        order = np.lexsort((column.codes, rest))
        rest, codes = rest[order], column.codes[order]
        first = np.arange(len(order))
        for lag in range(1, min(len(order) - 1, column.reach) + 1):
            first = first[: np.searchsorted(first, len(order) - lag)]
            first = first[rest[first] == rest[first + lag]]
            if not len(first):
                break
            pairs = first[column.are_neighbours(codes[first], codes[first + lag])]
            yield order[pairs], order[pairs + lag]


def _make_column(
    codes: Ints, domain: Sequence[Any], ordered: bool, neighbourhood: Neighbourhood
) -> ValueColumn:
    if neighbourhood not in get_args(Neighbourhood):
        raise ValueError(f"neighbourhood = {neighbourhood!r}: expected 'adjacent' or 'hamming'")
    if domain and all(isinstance(value, tuple) for value in domain):
        return ValueColumn(codes, _one_swap_apart(domain, neighbourhood))
    if ordered and neighbourhood == "adjacent":
        return ValueColumn(codes, lambda low, high: high - low == 1, reach=1)
    return ValueColumn(codes, lambda low, high: low != high)


def _one_step_apart(distinct: Codes, a: Ints, b: Ints) -> Mask:
    return np.asarray(np.abs(distinct[a] - distinct[b]).sum(axis=1) == 1.0)


def _one_swap_apart(
    domain: Sequence[tuple[Any, ...]], neighbourhood: Neighbourhood
) -> Callable[[Ints, Ints], Mask]:
    """Return a function that finds orders of a permutation that are one swap apart."""
    number = {order: i for i, order in enumerate(domain)}
    near = np.zeros((len(domain), len(domain)), dtype=bool)
    for i, order in enumerate(domain):
        for a, b in combinations(range(len(order)), 2):
            if neighbourhood == "hamming" or b == a + 1:
                other = list(order)
                other[a], other[b] = other[b], other[a]
                near[i, number.get(tuple(other), i)] = True
    np.fill_diagonal(near, False)
    return lambda a, b: near[a, b]


def _joint_numbers(codes: Sequence[Ints], n: int) -> Ints:
    """Return a number per row; two rows have the same number exactly if their codes are equal, ``(n,)``."""
    key = np.zeros(n, dtype=np.int64)
    span = 1
    for column in codes:
        values = int(column.max()) + 1
        if span * values > _MAX_KEY:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
            span = int(key.max()) + 1
        key = key * values + column
        span *= values
    return key


# An estimate while tuning, which the paper leaves as future work (section VIII) ---------------------------------------


_MAX_CONFIGURATIONS = 2**20
"""Largest feasible set that is listed."""

MIN_SUCCESSES = 10
"""Number of successes that the models need at least."""

_SURROGATES: tuple[Surrogate, ...] = (
    GaussianProcess(),
    # With few trees plateaus look like minima.
    RandomForest(Growth(trees=200, max_features=5 / 6)),
)
"""The Gaussian process suits smooth landscapes, the forest rugged ones; see benchmarks/quality/results/landscape.md."""

_FOLDS = 5

_CHUNK = 8192
"""Number of rows predicted at once; it limits the memory."""


def estimate_centrality_curve(
    history: History,
    rng: Rng,
    shares: Sequence[float] = SHARES,
    neighbourhood: Neighbourhood = "adjacent",
) -> Array:
    """Estimate C_p (`FlowGraph.centrality_curve`) from the observations so far.

    A Gaussian process and a random forest of the transformed costs predict every configuration of the space; another
    forest predicts the failures. Observed costs replace predictions, and each model's costs give a flow graph. The
    C_p of both graphs are averaged, weighted by the inverse of the model's squared error in a five-fold
    cross-validation.

    Accuracy on eight recorded spaces (benchmarks/quality/results/landscape.md): after 50 observations the estimate
    separates the easy space from the hard ones, but its mean error over p and spaces is 0.17 to 0.19 (towards easy),
    and up to 0.65 in single runs. The mean error is 0.13 after 100, 0.07 to 0.08 after 200, and 0.05 to 0.07 after
    400 observations. Guessing the mean of the other spaces has an error of 0.20, but only 0.08 among the seven hard
    spaces; there the estimate is better from 400 observations on (rank correlation of C_10 % with the exact value: 0.5
    to 0.7). Use it as a hint whether local search suffices, not as a measurement. It takes seconds.

    Args:
        history: The observations; all configurations of its space are listed.
        rng: Random generator.
        shares: As in `FlowGraph.centrality_curve`.
        neighbourhood: ``adjacent`` or ``hamming``.

    Returns:
        Estimates of C_p, ``(len(shares),)``.

    Raises:
        ValueError: The space is too large to list, or there are fewer than `MIN_SUCCESSES` successes.
    """
    space, ran = history.space, history.where(Status.OK)
    codes = _list_configurations(space)
    if ran.sum() < MIN_SUCCESSES:
        raise ValueError(f"{ran.sum()} successes; an estimate needs {MIN_SUCCESSES} or more")
    table = read_space_columns(space, codes, neighbourhood)
    scale = fit_transform(history.costs[ran])
    y = scale.forward(history.costs[ran])
    data = Data(history.codes[ran], y, np.zeros(len(y)), np.zeros(len(y), dtype=bool))
    known = ran | history.where(Status.FAILED)  # neither censored nor abandoned
    seed = int(rng.integers(2**31))
    feasibility = ForestFeasibility().fit(space, history.codes[known], ran[known], seed)
    blocks = np.split(codes, range(_CHUNK, len(codes), _CHUNK))
    fails = np.concatenate([feasibility.probability(block) for block in blocks]) < 0.5
    inside = space.feasible.contains(history.codes[known])
    observed_rows = np.array(space.feasible.index(history.codes[known][inside]), dtype=np.int64)
    observed_costs = np.where(ran, history.costs, FAILED_COST)[known][inside]
    curves, weights = [], []
    for surrogate in _SURROGATES:
        model = surrogate.fit(space, data, rng)
        mean = np.concatenate([model.predict(block)[0] for block in blocks])
        expected = scale.moments(mean, np.zeros(len(codes)))[0]
        costs = np.where(fails, FAILED_COST, expected)
        costs[observed_rows] = observed_costs
        curves.append(build_flow_graph(table, costs).centrality_curve(shares))
        weights.append(1 / max(_cross_validation_error(surrogate, space, data, rng), 1e-12))
    return np.average(curves, axis=0, weights=weights)


def _list_configurations(space: Space) -> Codes:
    count = space.feasible.count
    if count is None or count > _MAX_CONFIGURATIONS:
        size = "cannot be counted" if count is None else f"has {count:,} configurations"
        raise ValueError(f"the space {size}; an estimate lists at most {_MAX_CONFIGURATIONS:,}")
    return np.concatenate(list(space.feasible.iterate()))


def _cross_validation_error(surrogate: Surrogate, space: Space, data: Data, rng: Rng) -> float:
    """Return the mean squared error of a five-fold cross-validation."""
    fold = rng.permutation(len(data.y)) % _FOLDS
    error = 0.0
    for out in range(_FOLDS):
        model = surrogate.fit(space, data.rows(np.flatnonzero(fold != out)), rng)
        mean = model.predict(data.codes[fold == out])[0]
        error += float(((mean - data.y[fold == out]) ** 2).sum())
    return error / len(data.y)


# Plots ----------------------------------------------------------------------------------------------------------------


MAX_NODES = 2000
"""Largest graph that is drawn."""

_DARKEST = 0.75
"""Fractions of the optimum below this value have the same colour, as in the paper's Fig. 6."""

_FAILED = "#bbbbbb"
_OPTIMUM = "#d55e00"


def plot_flow_graph(graph: FlowGraph, *, ax: Axes | None = None) -> Axes:
    """Plot a flow graph: better configurations are lower, and neighbours are close to each other.

    The colour shows the fraction of the optimum. The size of a local minimum grows with its PageRank, the optimum has
    a ring, and failures are grey at the top (Schoonhoven et al. 2022, Fig. 6).

    Args:
        graph: The graph.
        ax: Where to draw; None makes a new figure.

    Raises:
        ValueError: The graph has more than `MAX_NODES` nodes.
        MissingExtra: matplotlib is not installed.
    """
    if len(graph.costs) > MAX_NODES:
        raise ValueError(f"{len(graph.costs)} nodes are too many; a plot shows up to {MAX_NODES}")
    ax = open_axes(ax, PAGE, 4.5)
    from matplotlib.collections import LineCollection

    x = _horizontal_ranks(graph)
    y = np.searchsorted(np.sort(graph.costs), graph.costs)  # the number of better nodes
    worse, better = graph.flow.nonzero()
    ends = np.stack([np.column_stack([x[e], y[e]]) for e in (worse, better)], axis=1)
    ax.add_collection(LineCollection(list(ends), colors="#00000018", linewidths=0.5))
    ax.plot(x[~graph.ran], y[~graph.ran], ".", color=_FAILED, ms=4)
    size = np.full(len(graph.costs), 8.0)
    weight = graph.centrality[graph.minima]
    size[graph.minima] = 30 + 220 * weight / weight.max()
    ran = np.flatnonzero(graph.ran)
    colour = np.maximum(graph.fractions(ran), _DARKEST)
    colours: dict[str, Any] = {"vmin": _DARKEST, "vmax": 1, "cmap": "viridis"}
    nodes = ax.scatter(x[ran], y[ran], s=size[ran], c=colour, zorder=2, **colours)
    best = int(np.argmin(graph.costs))
    ax.plot(x[best], y[best], "o", ms=14, mfc="none", mec=_OPTIMUM, mew=1.5)
    ax.figure.colorbar(nodes, ax=ax, label="fraction of the optimum", extend="min")
    ax.set_xticks([])
    ax.set_ylabel("configurations that are better")
    return ax


def plot_centrality_curves(curves: Mapping[str, Array], *, ax: Axes | None = None) -> Axes:
    """Plot C_p at the `SHARES` p (Schoonhoven et al. 2022, Fig. 7).

    Args:
        curves: The result of `FlowGraph.centrality_curve` for each space, by its name.
        ax: Where to draw; None makes a new figure.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    is_own, ax = ax is None, open_axes(ax)
    for i, (name, curve) in enumerate(curves.items()):
        ax.plot(100 * np.asarray(SHARES), curve, label=name, **line_style(i, len(curves)))
    ax.set_ylim(-0.02, 1.02)
    label_axes(ax, "p, %", "proportion of centrality")
    add_legend(ax, is_own)
    return ax


def _horizontal_ranks(graph: FlowGraph) -> Ints:
    """Return positions with neighbours close to each other: the order of the Laplacian's Fiedler vector."""
    links = (graph.flow + graph.flow.T).toarray()
    laplacian = np.diag(links.sum(axis=1)) - links
    _, vectors = np.linalg.eigh(laplacian)
    fiedler = vectors[:, min(1, len(links) - 1)]
    return np.argsort(np.argsort(fiedler, kind="stable"))
