import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Integer, Permutation, Space
from baco_like.strategies.moves import (
    CROSSOVERS,
    cross_orders,
    disruptive_uniform,
    one_point,
    two_point,
    uniform,
)

FIVE = Space({"seven": [7], **{f"v{i}": Integer(0, 9) for i in range(5)}})
MIXED = Space(
    {
        "a": Integer(0, 9),
        "o": Permutation(list("abcdef")),
        "b": Integer(0, 9),
        "p": Permutation([1, 2, 3]),
    }
)


def exchanged(crossover, n=4000):
    """Return which genes came from the father in the first children, where all genes differ."""
    mothers, fathers = np.zeros((n, 6)), np.zeros((n, 6))
    fathers[:, 1:] = 1.0
    one, other = crossover(FIVE, mothers, fathers, np.random.default_rng(0))
    np.testing.assert_array_equal(one + other, mothers + fathers)
    assert (one[:, 0] == 0).all()
    return one[:, 1:].astype(int)


def shares(masks):
    patterns, counts = np.unique(masks, axis=0, return_counts=True)
    return {tuple(p): c / len(masks) for p, c in zip(patterns.tolist(), counts, strict=True)}


def test_one_cut_anywhere_between_two_genes():
    found = shares(exchanged(one_point))
    assert set(found) == {(0,) * k + (1,) * (5 - k) for k in range(1, 5)}
    assert all(abs(share - 1 / 4) < 0.03 for share in found.values())


def test_two_cuts_exchange_a_stretch():
    found = shares(exchanged(two_point))
    stretches = {
        (0,) * a + (1,) * b + (0,) * (5 - a - b) for b in range(1, 5) for a in range(6 - b)
    }
    assert set(found) == stretches


def test_uniform_tosses_a_coin_for_every_gene():
    found = shares(exchanged(uniform))
    assert len(found) == 32
    assert all(abs(share - 1 / 32) < 0.015 for share in found.values())


def test_disruptive_exchanges_half_of_the_genes_that_differ():
    assert set(exchanged(disruptive_uniform).sum(axis=1)) == {3}
    mothers = np.array([[0.0, 1, 2, 3, 4, 5]] * 500)
    fathers = np.array([[0.0, 1, 9, 3, 9, 5]] * 500)
    one, other = disruptive_uniform(FIVE, mothers, fathers, np.random.default_rng(1))
    assert {tuple(row) for row in one.tolist()} == {(0, 1, 2, 3, 9, 5), (0, 1, 9, 3, 4, 5)}
    np.testing.assert_array_equal(one + other, mothers + fathers)


@pytest.mark.parametrize("crossover", CROSSOVERS.values(), ids=CROSSOVERS)
@given(seed=st.integers(0, 2**32 - 1))
def test_children_are_legal_and_equal_parents_have_themselves(crossover, seed):
    rng = np.random.default_rng(seed)
    mothers, fathers = MIXED.feasible.sample(8, rng), MIXED.feasible.sample(8, rng)
    for children in crossover(MIXED, mothers, fathers, rng):
        assert MIXED.feasible.contains(children).all()
    for children in crossover(MIXED, mothers, mothers, rng):
        np.testing.assert_array_equal(children, mothers)


@pytest.mark.parametrize("crossover", CROSSOVERS.values(), ids=CROSSOVERS)
@pytest.mark.parametrize("parameters", [{"seven": [7]}, {"a": [1, 2, 3]}])
def test_spaces_with_hardly_any_gene(crossover, parameters):
    space, rng = Space(parameters), np.random.default_rng(0)
    one, other = crossover(space, np.zeros((3, 1)), np.zeros((3, 1)), rng)
    np.testing.assert_array_equal(one, np.zeros((3, 1)))
    np.testing.assert_array_equal(other, np.zeros((3, 1)))


def davis(keeping, filling, start, stop):
    """Davis's order crossover on orders of elements, as in a textbook."""
    m = len(keeping)
    child = [None] * m
    child[start:stop] = keeping[start:stop]
    missing = [filling[(stop + i) % m] for i in range(m)]
    missing = [element for element in missing if element not in child]
    for i in range(m - (stop - start)):
        child[(stop + i) % m] = missing[i]
    return child


@given(st.data())
def test_order_crossover_is_that_of_the_textbook(data):
    m = data.draw(st.integers(1, 8))
    ours, theirs = data.draw(st.permutations(range(m))), data.draw(st.permutations(range(m)))
    start, stop = sorted(data.draw(st.tuples(st.integers(0, m), st.integers(0, m))))
    codes = [np.argsort([order]).astype(float) for order in (ours, theirs)]
    child = cross_orders(*codes, np.array([start]), np.array([stop]))
    assert np.argsort(child[0]).tolist() == davis(ours, theirs, start, stop)


def test_order_crossover_by_hand():
    keeping = np.argsort([[0, 1, 2, 3, 4, 5]]).astype(float)
    filling = np.argsort([[5, 3, 1, 0, 2, 4]]).astype(float)
    child = cross_orders(keeping, filling, np.array([2]), np.array([4]))
    assert np.argsort(child[0]).tolist() == [1, 0, 2, 3, 4, 5]
