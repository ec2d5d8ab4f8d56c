"""Weights of models by how they rank, against the definitions written out."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from baco_like.surrogates.ranking_ensemble import (
    held_out_losses,
    ranking_losses,
    ranking_weights,
)

VALUES = st.integers(-3, 3).map(float)


def count_differently_ranked_pairs(f, g, y):
    """Count pairs (j, k): f_j below g_k exactly where y_j is not below y_k."""
    n = len(y)
    return sum(
        (f[j] < g[k]) != (y[j] < y[k]) for j, k in product(range(n), range(n)) if y[j] != y[k]
    )


@settings(max_examples=40)
@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            arrays(float, (4, n), elements=VALUES), arrays(float, n, elements=VALUES)
        )
    )
)
def test_losses_count_the_pairs_that_are_ranked_differently(drawn_and_y):
    drawn, y = drawn_and_y
    assert ranking_losses(drawn, y) == pytest.approx(
        [count_differently_ranked_pairs(f, f, y) for f in drawn]
    )
    assert held_out_losses(drawn, y) == pytest.approx(
        [count_differently_ranked_pairs(f, y, y) for f in drawn]
    )


def test_a_loss_does_not_depend_on_the_scale():
    rng = np.random.default_rng(0)
    drawn, y = rng.standard_normal((5, 8)), rng.standard_normal(8)
    assert (ranking_losses(drawn, y) == ranking_losses(np.exp(drawn), y**3)).all()
    assert ranking_losses(-y[None, :], y)[0] == 8 * 7
    assert ranking_losses(y[None, :], y)[0] == 0


def weights_by_hand(sources, target):
    """Return the shares of draws won, one draw after another."""
    won = np.zeros(len(sources) + 1)
    for s in range(len(target)):
        losses = [*(source[s] for source in sources), target[s]]
        best = [i for i, loss in enumerate(losses) if loss == min(losses)]
        for i in best:
            won[i] += 1 / len(best)
    return won / len(target)


@settings(max_examples=40)
@given(
    arrays(float, (2, 6), elements=st.integers(0, 9).map(float)),
    arrays(float, 6, elements=st.integers(0, 9).map(float)),
)
def test_weights_equal_the_shares_of_draws_won(sources, target):
    found = ranking_weights(sources, target)
    assert found.sum() == pytest.approx(1.0)
    kept = [i for i in range(2) if np.median(sources[i]) <= np.percentile(target, 95)]
    assert found[[i for i in range(2) if i not in kept]] == pytest.approx(0.0)
    assert found[[*kept, 2]] == pytest.approx(weights_by_hand(sources[kept], target))


def test_without_sources_the_target_has_all_weight():
    assert ranking_weights(np.empty((0, 5)), np.ones(5)) == pytest.approx([1.0])


def test_many_useless_sources_take_no_weight_from_the_target():
    rng = np.random.default_rng(1)
    target = rng.integers(0, 40, 256).astype(float)  # now and then worse than a source
    useless = rng.integers(35, 60, (20, 256)).astype(float)
    undiluted = ranking_weights(useless, target)
    assert undiluted[-1] == 1.0
    assert weights_by_hand(useless, target)[-1] < 0.99
