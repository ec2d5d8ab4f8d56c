"""A model that gains rows is the model of all rows, and the posterior at fixed candidates is its posterior."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import Integer, Ordinal, Space
from baco_like.acquisitions.functions import condition_on_pending
from baco_like.surrogates.gp.fit import Hyperparameters
from baco_like.surrogates.gp.growing import (
    EVERY_COUNT,
    MOST_NEW,
    CandidatePosterior,
    CandidateTable,
    add_rows,
    informative_rows,
    last_refit,
)
from baco_like.surrogates.gp.kernel import MATERN52
from baco_like.surrogates.gp.model import fit_imputed
from baco_like.surrogates.protocol import Data

SPACE = Space({"a": Integer(0, 30), "b": Integer(0, 30), "c": Ordinal([1, 2, 4, 8])})
H = Hyperparameters(np.array([0.4, 0.7, 1.5]), 1.3, 1e-3)


def observed(count, seed=0, censored=0.0):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.unique(SPACE.feasible.sample(6 * count, rng), axis=0))[:count]
    y = np.sin(SPACE.features(codes) @ [5.0, 3.0, 1.0]) + 0.03 * rng.standard_normal(count)
    variance = np.where(rng.random(count) < 0.3, 0.02, 0.0)
    return Data(codes, y, variance, rng.random(count) < censored)


def fitted(data, mean):
    return fit_imputed(SPACE, MATERN52, SPACE.features(data.codes), data, H, mean)


def grown(data, first, mean):
    base = fitted(data.rows(np.arange(first)), mean)
    return add_rows(base, data.codes[first:], data.variance[first:], data.y, data.censored, mean)


@given(
    first=st.integers(1, 30), more=st.integers(0, 20), mean=st.sampled_from(["zero", "constant"])
)
@settings(max_examples=15)
def test_a_grown_model_is_the_model_of_all_rows(first, more, mean):
    data = observed(first + more, seed=first)
    model, expected = grown(data, first, mean), fitted(data, mean)
    codes = SPACE.feasible.sample(40, np.random.default_rng(1))
    for own, other in zip(model.predict(codes), expected.predict(codes), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-8)
    np.testing.assert_allclose(model.leave_one_out(), expected.leave_one_out(), atol=1e-6)
    assert model.count == first + more


def test_censored_values_are_imputed_as_by_a_new_fit():
    data = observed(40, censored=0.3)
    data = replace(data, variance=np.zeros(40))
    model, expected = grown(data, 25, "zero"), fitted(data, "zero")
    np.testing.assert_allclose(model.residual, expected.residual, atol=1e-7)
    assert (model.residual[data.censored] >= data.y[data.censored] - 1e-12).all()
    assert (model.residual[data.censored] > data.y[data.censored] + 1e-3).any()


@pytest.mark.parametrize("more", [0, 12])
def test_the_posterior_at_candidates_is_the_model_s(more):
    data = observed(30 + more)
    base = fitted(data.rows(np.arange(30)), "constant")
    model = grown(data, 30, "constant")
    codes = SPACE.feasible.sample(60, np.random.default_rng(3))
    posterior = CandidatePosterior(CandidateTable.of(base, codes), model)
    mean, variance = model.predict(codes)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-9)
    np.testing.assert_allclose(posterior.variance, variance, atol=1e-9)
    pending, picks = SPACE.feasible.sample(5, np.random.default_rng(4)), [7, 3, 20]
    np.testing.assert_allclose(posterior.believe(pending), model.predict(pending)[0], atol=1e-9)
    posterior.believe_candidates(np.array(picks[:2]))
    posterior.believe_candidates(np.array(picks[2:]))
    believed = condition_on_pending(model, np.concatenate([pending, codes[picks]]))
    mean, variance = believed.predict(codes)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-7)
    np.testing.assert_allclose(posterior.variance, variance, atol=1e-8)
    posterior = posterior.subset(np.array([4, 9]))
    posterior.believe_candidates(np.array([1]))
    expected = condition_on_pending(believed, codes[[9]]).predict(codes[[4, 9]])[1]
    np.testing.assert_allclose(posterior.variance, expected, atol=1e-8)


def test_a_table_in_single_precision_is_close():
    data, codes = observed(50), SPACE.feasible.sample(30, np.random.default_rng(5))
    base, model = fitted(data.rows(np.arange(35)), "zero"), grown(data, 35, "zero")
    table = CandidateTable.of(base, codes, is_single=True)
    assert table.is_single
    assert table.solved.dtype == np.float32
    posterior = CandidatePosterior(table, model)
    assert posterior.mean.dtype == posterior.variance.dtype == np.float64
    mean, variance = model.predict(codes)
    np.testing.assert_allclose(posterior.mean, mean, atol=1e-3)
    np.testing.assert_allclose(posterior.variance, variance, atol=1e-4)


@given(count=st.integers(0, 30_000), step=st.sampled_from([1, 2, 8, 64]))
def test_refits_follow_a_growing_schedule(count, step):
    last = last_refit(count, step)
    assert last <= count
    if step == 1:
        assert last_refit(last) == last
        assert last == count if count <= EVERY_COUNT else count - last < max(2, count / 20)
    assert count - last < max(step, MOST_NEW)


def test_informative_rows_hold_the_best_their_neighbours_and_others():
    rng = np.random.default_rng(0)
    scaled = rng.random((400, 2))
    y = ((scaled - 0.5) ** 2).sum(axis=1)
    rows = informative_rows(y, scaled, 100, rng)
    assert len(rows) == len(set(rows)) == 100
    assert set(np.argsort(y)[:50]) <= set(rows)
    near = np.argsort(y)[:75]  # here the neighbours of the best rows are the next best ones
    assert len(set(near) & set(rows)) >= 68
    assert y[rows].max() > 0.3
    np.testing.assert_array_equal(informative_rows(y, scaled, 400, rng), np.arange(400))
