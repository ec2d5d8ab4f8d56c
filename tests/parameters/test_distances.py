"""Distances against the paper's worked examples, scipy and brute force; features make valid kernels."""

import itertools
import math

import numpy as np
import pytest

from baco_like.parameters import (
    Categorical,
    Integer,
    Ordinal,
    Permutation,
    Real,
    distances,
    permutation,
)

METRICS = ("spearman", "kendall", "hamming", "naive")
LOOPS = ["l1", "l2", "l3", "l4"]


def between(metric, a, b):
    parameter = Permutation(LOOPS, metric=metric)
    return parameter.distance(parameter.encode([a]), parameter.encode([b]))[0, 0]


@pytest.mark.parametrize(
    ("metric", "wanted", "other"),
    [("spearman", 14, 18), ("kendall", 4, 5), ("hamming", 3, 2), ("naive", 1, 1)],
)
def test_worked_examples(metric, wanted, other):
    # The paper's pi' = [2, 4, 3, 1] gives each loop's new place: l4, l1, l3, l2 from outside in.
    assert between(metric, ("l1", "l2", "l3", "l4"), ("l4", "l1", "l3", "l2")) == wanted
    # This one tells positions from orders.
    assert between(metric, ("l2", "l3", "l1", "l4"), ("l4", "l3", "l1", "l2")) == other


def brute(metric, a, b):
    """The definitions, on two orders of elements."""
    at_a = {element: i for i, element in enumerate(a)}
    at_b = {element: i for i, element in enumerate(b)}
    if metric == "spearman":
        return sum((at_a[e] - at_b[e]) ** 2 for e in a)
    if metric == "kendall":
        pairs = itertools.combinations(a, 2)
        return sum((at_a[x] - at_a[y]) * (at_b[x] - at_b[y]) < 0 for x, y in pairs)
    moved = sum(at_a[e] != at_b[e] for e in a)
    return moved if metric == "hamming" else int(moved > 0)


@pytest.mark.parametrize("metric", METRICS)
def test_all_orders_of_four_against_brute_force(metric):
    orders = list(itertools.permutations("abcd"))
    parameter = Permutation(["a", "b", "c", "d"], metric=metric)
    codes = parameter.encode(orders)
    found = parameter.distance(codes, codes)
    assert found.tolist() == [[brute(metric, a, b) for b in orders] for a in orders]
    assert found.max() == parameter.max_distance


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("m", [2, 3, 5, 6, 20])
def test_the_largest_distance_is_reached_by_reversal(metric, m):
    parameter = Permutation(range(m), metric=metric)
    straight, turned = tuple(range(m)), tuple(reversed(range(m)))
    if metric == "hamming" and m % 2:
        turned = (*range(1, m), 0)  # the middle of an odd reversal stays in place
    reached = parameter.distance(parameter.encode([straight]), parameter.encode([turned]))[0, 0]
    assert reached == parameter.max_distance


def test_scalars_by_hand():
    def value(parameter, a, b):
        return parameter.distance(parameter.encode([a]), parameter.encode([b]))[0, 0]

    assert value(Real(-5, 5), -1.5, 2) == 3.5
    assert value(Real(1, 100, log=True), 2, 8) == pytest.approx(math.log(4))
    assert value(Integer(-5, 5), -1, 3) == 4
    assert value(Integer(1, 64, log=True), 2, 8) == pytest.approx(math.log(4))
    assert value(Integer(2**60, 2**60 + 9), 2**60 + 1, 2**60 + 8) == 7
    assert value(Ordinal([1, 2, 50]), 2, 50) == 48
    assert value(Ordinal([1, 2, 50], log=True), 2, 50) == pytest.approx(math.log(25))
    assert value(Ordinal(["s", "m", "l"]), "s", "l") == 2
    assert value(Categorical(["a", "b", "c"]), "a", "c") == 1
    assert value(Categorical(["a", "b", "c"]), "c", "c") == 0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("m", [3, 5, 7, 12])
def test_kernels_over_permutations_are_positive_definite(metric, m):
    parameter = Permutation(range(m), metric=metric)
    codes = np.unique(parameter.sample(80, np.random.default_rng(m)), axis=0)
    columns = parameter.features(codes)
    d = np.sqrt(np.maximum(((columns[:, None] - columns[None]) ** 2).sum(axis=2), 0))
    exponential = np.exp(-d / 0.5)
    matern = (1 + math.sqrt(5) * d + 5 / 3 * d**2) * np.exp(-math.sqrt(5) * d)
    assert np.linalg.eigvalsh(exponential).min() > 1e-10
    assert np.linalg.eigvalsh(matern).min() > -1e-10


@pytest.mark.parametrize("m", [6, 9, 20])
def test_hashed_features_of_the_naive_metric(m):
    parameter = Permutation(range(m), metric="naive")
    codes = np.unique(parameter.sample(60, np.random.default_rng(0)), axis=0)
    columns = parameter.features(codes)
    squared = ((columns[:, None] - columns[None]) ** 2).sum(axis=2)
    apart = squared[~np.eye(len(codes), dtype=bool)]
    assert apart.min() > 0.8
    assert apart.max() < 1.2
    assert np.array_equal(columns, parameter.features(codes))


def test_a_further_metric_is_one_entry_of_the_table(monkeypatch):
    entry = permutation._Metric(
        lambda a, b: 3 * distances.naive(a, b), lambda m: 3, lambda codes, largest: codes / largest
    )
    monkeypatch.setattr(permutation, "_METRICS", {**permutation._METRICS, "new": entry})
    parameter = Permutation(range(4), metric="new")
    codes = parameter.encode([(0, 1, 2, 3), (3, 2, 1, 0)])
    assert parameter.max_distance == 3.0
    assert parameter.distance(codes, codes).tolist() == [[0.0, 3.0], [3.0, 0.0]]
    assert np.array_equal(parameter.features(codes), codes / 3.0)
