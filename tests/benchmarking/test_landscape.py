from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from baco_like import MaxEvals, Optimizer, Permutation, Real, Space, run
from baco_like.benchmarking import landscape, score
from baco_like.constraints.table import TableConstraint
from baco_like.evaluators import ReplayEvaluator
from baco_like.records.history import History
from baco_like.records.trial import Outcome
from baco_like.results.recording import Recording

DOMAINS = {
    "tile": (8, 16, 32, 64),
    "vector": (1, 2, 4),
    "order": tuple(permutations("ijk")),
    "pragma": ("ivdep", "none", "unroll"),
    "fast": (False, True),
}


def outcome(value: float | None) -> Outcome:
    return Outcome.failure(0, "runtime") if value is None else Outcome.success(0, (value,))


def table_of(domains: Any, entries: Any, objective: str, unit: str) -> Recording:
    rows, outcomes = tuple(entries), tuple(entries.values())
    return Recording(tuple(domains), rows, outcomes, objective, unit, domains=domains)


def recorded(seed: int, share: float = 0.6, names: tuple[str, ...] = tuple(DOMAINS)) -> Recording:
    rng = np.random.default_rng(seed)
    rows = [row for row in product(*(DOMAINS[n] for n in names)) if rng.random() < share]
    rows = rows or [tuple(DOMAINS[n][0] for n in names)]
    costs = rng.integers(1, 40, len(rows)).astype(float)  # some are the same
    costs[1:][rng.random(len(rows) - 1) < 0.2] = np.nan
    entries = {
        r: outcome(None if np.isnan(c) else c) for r, c in zip(rows, costs.tolist(), strict=True)
    }
    return table_of({n: DOMAINS[n] for n in names}, entries, "time", "ms")


def differ(name, a, b, hamming):
    """Whether two different values of one parameter are neighbours, said plainly."""
    if name == "order":
        at = [i for i in range(3) if a[i] != b[i]]
        return len(at) == 2 and (hamming or at[1] - at[0] == 1)
    if hamming or name == "pragma":
        return True
    values = DOMAINS[name]
    return abs(values.index(a) - values.index(b)) == 1


def plain_graph(table: Recording, hamming: bool, linked: bool = False) -> nx.DiGraph:
    graph = nx.DiGraph()
    cost = {
        row: landscape.FAILED_COST if e.value is None else e.value
        for row, e in table.entries.items()
    }
    graph.add_nodes_from(cost)
    for a, b in product(cost, cost):
        changed = [i for i in range(len(a)) if a[i] != b[i]]
        if len(changed) == 1 and (cost[b] < cost[a] or (linked and cost[b] == cost[a])):
            i = changed[0]
            if differ(table.names[i], a[i], b[i], hamming):
                graph.add_edge(a, b)
    return graph


NAMES = st.sampled_from(
    [("tile", "vector", "fast"), ("order", "tile"), ("pragma", "vector", "order"), ("tile",)]
)


@given(
    st.integers(0, 2**32 - 1), NAMES, st.booleans(), st.sampled_from([0.2, 0.7, 1.0]), st.booleans()
)
def test_graph_minima_pagerank_and_proportion_agree_with_networkx(
    seed, names, hamming, share, linked
):
    table = recorded(seed, share, names)
    plain = plain_graph(table, hamming, linked)
    graph = landscape.flow_graph(
        table, "hamming" if hamming else "adjacent", ties="linked" if linked else "unlinked"
    )
    rows = list(table.entries)
    edges = {(rows[i], rows[j]) for i, j in zip(*graph.flow.nonzero(), strict=True)}
    assert edges == set(plain.edges)
    value = {row: entry.value for row, entry in table.entries.items()}
    better = {
        a for a, b in plain.edges if value[b] is not None and (value[a] or math.inf) > value[b]
    }
    sinks = [r for r in rows if r not in better and value[r] is not None]
    assert [rows[i] for i in graph.minima] == sinks
    rank = nx.pagerank(plain, tol=1e-15, max_iter=1000)
    assert np.abs(graph.centrality - [rank[r] for r in rows]).max() < 1e-9
    best = min(e.value for e in table.entries.values() if e.value is not None)
    for p in (0.0, 0.5, 1.0):
        good = sum(rank[r] for r in sinks if table.entries[r].value <= (1 + p) * best)
        expected = good / sum(rank[r] for r in sinks)
        assert graph.centrality_curve((p,))[0] == pytest.approx(expected, abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_pagerank_of_any_graph_agrees_with_networkx(seed):
    """Also with cycles, which a flow graph has not."""
    rng = np.random.default_rng(seed)
    matrix = (rng.random((12, 12)) < rng.choice([0.02, 0.2, 0.9])).astype(float)
    expected = nx.pagerank(
        nx.from_numpy_array(matrix, create_using=nx.DiGraph), tol=1e-15, max_iter=1000
    )
    ours = landscape.pagerank(csr_array(matrix))
    assert np.abs(ours - list(expected.values())).max() < 1e-9


def test_a_valley_by_hand():
    """Costs 4 2 3 1 in a row: from each of 4 and 3 the walk ends in a minimum, 3 goes to either with 1/2."""
    entries = {(x,): outcome(c) for x, c in zip((1, 2, 3, 4), (4.0, 2.0, 3.0, 1.0), strict=True)}
    table = table_of({"x": (1, 2, 3, 4)}, entries, "time", "ms")
    graph = landscape.flow_graph(table)
    left, right = 1 + 0.85 + 0.425, 1 + 0.425
    assert graph.minima.tolist() == [1, 3]
    assert landscape.proportion_of_centrality(table, 0.15) == pytest.approx(right / (left + right))
    assert landscape.proportion_of_centrality(table, 1.0) == pytest.approx(1.0)
    assert graph.fractions().tolist() == [0.5, 1.0]
    assert graph.naive_metric() == 0.75
    assert landscape.proportion_of_centrality(table, 0.0, "hamming") == 1.0


def test_maximising_mirrors_minimising():
    costs = (4.0, 2.0, 3.0, 1.0)
    entries = {(x,): outcome(c) for x, c in zip((1, 2, 3, 4), costs, strict=True)}
    table = table_of({"x": (1, 2, 3, 4)}, entries, "GFLOP/s", "")
    graph = landscape.flow_graph(table, direction="maximize")
    assert graph.minima.tolist() == [0, 2]
    assert graph.fractions().tolist() == [1.0, 0.75]
    assert graph.centrality_curve((0.24, 0.25))[1] == 1.0 > graph.centrality_curve((0.24, 0.25))[0]
    # The direction of the table is the default, and another one is an error.
    own = replace(table, direction="maximize")
    assert landscape.flow_graph(own).costs.tolist() == graph.costs.tolist()
    assert landscape.proportion_of_centrality(own, 0.25) == 1.0
    assert score.Baseline.from_recorded(own).optimum == -4.0
    for call in (landscape.flow_graph, score.Baseline.from_recorded):
        with pytest.raises(ValueError, match="its values are to maximize, not to minimize"):
            call(own, direction="minimize")


def test_failures_are_nodes_but_no_minima():
    entries = {(1,): outcome(None), (2,): outcome(None), (3,): outcome(5.0), (9,): outcome(None)}
    table = table_of({"x": (1, 2, 3, 4, 9)}, entries, "time", "ms")
    graph = landscape.flow_graph(table)
    assert graph.minima.tolist() == [2]
    assert list(zip(*(x.tolist() for x in graph.flow.nonzero()), strict=True)) == [(1, 2)]


def test_a_plateau_of_failures_leads_to_the_minimum_only_with_linked_ties():
    """Failures in a row of four, then 5: unlinked, the walk from the far ones ends where it starts."""
    entries = {(x,): outcome(None if x < 5 else 5.0) for x in range(1, 6)}
    table = table_of({"x": (1, 2, 3, 4, 5)}, entries, "time", "ms")
    edges = [
        set(zip(*(x.tolist() for x in graph.flow.nonzero()), strict=True))
        for graph in (landscape.flow_graph(table), landscape.flow_graph(table, ties="linked"))
    ]
    plateau = {(a, b) for a in range(4) for b in range(4) if abs(a - b) == 1}
    assert edges == [{(3, 4)}, {(3, 4), *plateau}]
    assert landscape.flow_graph(table, ties="linked").minima.tolist() == [4]
    with pytest.raises(ValueError, match="ties = 'both': expected 'unlinked' or 'linked'"):
        landscape.flow_graph(table, ties="both")


def test_codes_too_many_for_one_key(monkeypatch):
    table = recorded(3)
    expected = landscape.flow_graph(table).flow
    monkeypatch.setattr(landscape, "_MAX_KEY", 300)
    assert (landscape.flow_graph(table).flow != expected).nnz == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: landscape.flow_graph(t, "near"), "'adjacent' or 'hamming'"),
        (lambda t: landscape.proportion_of_centrality(t, 5), "5 % is 0.05"),
        (lambda t: landscape.flow_graph(t), "no configuration that runs"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    runs = "no configuration" not in message
    table = table_of({"x": (1,)}, {(1,): outcome(1.0 if runs else None)}, "time", "ms")
    with pytest.raises(ValueError, match=message):
        call(table)


def observed(table: Recording, budget: int, strategy: str = "random_search") -> Optimizer:
    parameters = {
        n: Permutation(list("ijk")) if n == "order" else list(d) for n, d in table.domains.items()
    }
    free = Space(parameters)
    codes = free.encode([dict(zip(table.names, row, strict=True)) for row in table.entries])
    space = Space(parameters, [TableConstraint.of(free.parameters, codes)])
    optimizer = Optimizer(space, seed=1, strategy=strategy)
    run(optimizer, ReplayEvaluator(table), MaxEvals(budget))
    return optimizer


@pytest.mark.parametrize("neighbourhood", ["adjacent", "hamming"])
def test_an_estimate_from_all_observations_is_the_full_figure(neighbourhood):
    table = recorded(5, 0.9, ("order", "tile", "fast"))
    history = observed(table, len(table.entries), "exhaustive").history
    rng = np.random.default_rng(0)
    estimate = landscape.estimate_centrality_curve(history, rng, neighbourhood=neighbourhood)
    full = landscape.flow_graph(table, neighbourhood).centrality_curve()
    assert np.abs(estimate - full).max() < 1e-12


def test_an_estimate_from_a_tenth_separates_easy_and_hard_spaces():
    """A slope has one minimum; white noise has one in every fifth configuration, few of them good."""
    domain = tuple(range(1, 17))
    rng = np.random.default_rng(0)

    def estimate(cost):
        entries = {(a, b): outcome(float(cost(a, b))) for a in domain for b in domain}
        table = table_of({"a": domain, "b": domain}, entries, "time", "ms")
        return landscape.estimate_centrality_curve(observed(table, 25).history, rng, (0.15,))[0]

    assert estimate(lambda a, b: a + 2 * b) > 0.95
    assert estimate(lambda a, b: np.exp(2 * rng.normal())) < 0.6


def test_limits_of_an_estimate_are_named():
    rng = np.random.default_rng(0)
    table = recorded(5)
    with pytest.raises(ValueError, match="needs 10"):
        landscape.estimate_centrality_curve(observed(table, 5).history, rng)
    real = History.start(Space({"x": Real(0.0, 1.0)}))
    with pytest.raises(ValueError, match="cannot be counted"):
        landscape.estimate_centrality_curve(real, rng)


def test_plots_show_every_node_and_every_share():
    table = recorded(2)
    graph = landscape.flow_graph(table)
    ax = landscape.plot_flow_graph(graph)
    shown = [len(part.get_offsets()) for part in ax.collections[1:]]
    assert sum(shown) == np.count_nonzero(graph.ran)
    curves = landscape.plot_centrality_curves({"it": graph.centrality_curve()}, ax=ax)
    assert curves is ax
    (line,) = [line for line in ax.lines if line.get_label() == "it"]
    assert line.get_ydata().tolist() == graph.centrality_curve().tolist()
    large = landscape.FlowGraph(np.arange(2001.0), csr_array((2001, 2001)))
    with pytest.raises(ValueError, match="2001 nodes"):
        landscape.plot_flow_graph(large)
