"""The ensemble of the models of related tasks, and its weights."""

import json
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from baco_like import Integer, Real, Space
from baco_like.surrogates import MATERN32
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.gp.model import GPModel
from baco_like.surrogates.protocol import Data, UpdatableModel
from baco_like.surrogates.ranking_ensemble import (
    EnsembleModel,
    Member,
    RankingEnsemble,
    Source,
    held_out_losses,
    ranking_losses,
    ranking_weights,
)

SPACE = Space({"x": Real(0.0, 1.0), "k": Integer(0, 9)})


def rows(n, seed):
    return SPACE.feasible.sample(n, np.random.default_rng(seed))


def value(codes):
    return np.sin(5.0 * codes[:, 0]) + 0.1 * (codes[:, 1] - 3.0) ** 2 - 1.0


def data(codes, y, variance=0.0):
    n = len(codes)
    return Data(codes, np.asarray(y), np.full(n, variance), np.zeros(n, bool))


def fitted(codes, y, recipe=None):
    recipe = recipe or GaussianProcess()
    return recipe.fit(SPACE, data(codes, y), np.random.default_rng(0))


@cache
def scaled_source(factor):
    return source_of(lambda codes: factor * value(codes), n=8)


def source_of(function, name="source", n=40, slope=1.0):
    codes = rows(n, 9)
    recipe = GaussianProcess(MATERN32, fixed=(0.5, 1.0, 1e-4))
    y = function(codes)
    return Source(name, fitted(codes, (y - y.mean()) / max(y.std(), 1e-9), recipe), slope)


KNOWN = rows(12, 1)


@pytest.mark.parametrize("noise", [1e-6, 0.2])
def test_leave_one_out_equals_the_prediction_of_a_model_without_the_observation(noise):
    recipe = GaussianProcess(MATERN32, fixed=(0.4, 1.0, noise))
    y = value(KNOWN)
    mean, deviation = fitted(KNOWN, y, recipe).leave_one_out()
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        expected, variance = fitted(KNOWN[others], y[others], recipe).predict(KNOWN[[i]])
        assert mean[i] == pytest.approx(expected[0], abs=1e-6)
        assert deviation[i] == pytest.approx(np.sqrt(variance[0]), abs=1e-4)


def members():
    recipe = GaussianProcess(MATERN32, fixed=(0.4, 1.0, 1e-8))
    source = source_of(value, slope=2.0)
    rest = fitted(KNOWN, value(KNOWN) - source.mean(KNOWN) - 0.5, recipe)
    return Member(rest, 0.7, source, 0.5), Member(fitted(KNOWN, value(KNOWN), recipe), 0.3)


def test_means_add_up_by_weights_and_variances_by_squared_weights():
    first, second = members()
    new = rows(30, 2)
    mean, variance = EnsembleModel((first, second), {}).predict(new)
    promised = first.source.model.predict(new)[0]
    (rest, spread), (own, width) = first.model.predict(new), second.model.predict(new)
    assert mean == pytest.approx(0.7 * (0.5 + 2.0 * promised + rest) + 0.3 * own)
    assert variance == pytest.approx(0.7**2 * spread + 0.3**2 * width)


def test_cached_predictions_of_a_source_equal_fresh_ones():
    source = source_of(value, slope=1.5)
    many = np.concatenate([rows(600, 3), rows(600, 4)])
    once = source.mean(many)
    many[:, 0] = many[::-1, 0]  # the same array with other rows
    assert source.mean(many) == pytest.approx(source.mean(many.copy()))
    many[:, 0] = many[::-1, 0]
    many.flags.writeable = False
    assert source.mean(many) == pytest.approx(once)
    assert source.mean(many) == pytest.approx(once)
    assert source.mean(many[:1100][::-1]) == pytest.approx(once[:1100][::-1])
    assert source.mean(many.copy()) == pytest.approx(once)


def test_conditioning_predicts_the_given_values():
    model = EnsembleModel(members(), {})
    assert isinstance(model, UpdatableModel)
    pending, new = rows(3, 5), rows(20, 6)
    given = model.predict(pending)[0] + np.array([0.4, -0.3, 0.0])
    conditioned = model.condition(pending, given)
    assert conditioned.predict(pending)[0] == pytest.approx(given, abs=1e-4)
    imputed = model.condition(pending, model.predict(pending)[0])
    assert imputed.predict(new)[0] == pytest.approx(model.predict(new)[0], abs=1e-6)
    assert (imputed.predict(new)[1] <= model.predict(new)[1] + 1e-9).all()
    assert imputed.predict(pending)[1].sum() < model.predict(pending)[1].sum()


def test_a_task_that_ranks_well_gets_the_weight_at_any_scale():
    alike = source_of(lambda codes: 100.0 + 7.0 * value(codes))
    known = rows(5, 7)
    model = RankingEnsemble(GaussianProcess(), (alike,)).fit(
        SPACE, data(known, value(known)), np.random.default_rng(0)
    )
    assert isinstance(model, EnsembleModel)
    assert model.hyperparameters["weights"]["source"] > 0.5
    new = rows(50, 8)
    ranks = np.argsort(np.argsort(model.predict(new)[0]))
    assert np.corrcoef(ranks, np.argsort(np.argsort(value(new))))[0, 1] > 0.8


@pytest.mark.parametrize("n", [4, 12])
def test_a_task_in_reversed_order_is_left_out(n):
    reversed_ = source_of(lambda codes: -value(codes))
    recipe = RankingEnsemble(GaussianProcess(), (reversed_,))
    known = data(KNOWN[:n], value(KNOWN[:n]))
    model = recipe.fit(SPACE, known, np.random.default_rng(0))
    own = GaussianProcess().fit(SPACE, known, np.random.default_rng(0))
    assert isinstance(model, GPModel)
    assert model.predict(KNOWN)[0] == pytest.approx(own.predict(KNOWN)[0])


def test_sources_are_left_out_if_all_values_are_equal():
    flat = data(KNOWN, np.zeros(12))
    model = RankingEnsemble(GaussianProcess(), (source_of(value),)).fit(
        SPACE, flat, np.random.default_rng(0)
    )
    assert isinstance(model, GPModel)


def test_a_fit_starts_from_hyperparameters_in_a_journal():
    recipe = RankingEnsemble(
        GaussianProcess(), (source_of(lambda codes: -value(codes), "bad"), source_of(value, "good"))
    )
    known = data(KNOWN[:6], value(KNOWN[:6]))
    first = recipe.fit(SPACE, known, np.random.default_rng(0))
    kept = json.loads(json.dumps(dict(first.hyperparameters)))
    assert kept["differences"][0] is None
    assert set(kept["weights"]) <= {"good", "this run"}
    again = [recipe.fit(SPACE, known, np.random.default_rng(1), kept) for _ in range(2)]
    assert again[0].predict(KNOWN)[0].tolist() == again[1].predict(KNOWN)[0].tolist()


@settings(max_examples=10)
@given(
    st.integers(2, 9),
    st.lists(st.sampled_from([-1.0, 0.0, 1e-3, 1.0]), min_size=1, max_size=3),
    st.booleans(),
)
def test_predictions_are_finite_for_all_sources(n, factors, censored):
    sources = tuple(map(scaled_source, factors))
    known = data(KNOWN[:n], value(KNOWN[:n]))
    if censored:
        known = Data(known.codes, known.y, known.variance, np.arange(n) == 0)
    model = RankingEnsemble(GaussianProcess(MATERN32, fixed=(1.5, 1.0, 1e-3)), sources).fit(
        SPACE, known, np.random.default_rng(0)
    )
    mean, variance = model.predict(rows(9, 2))
    assert np.isfinite(mean).all()
    assert (np.isfinite(variance) & (variance >= 0.0)).all()
    if isinstance(model, EnsembleModel):
        assert sum(member.weight for member in model.members) == pytest.approx(1.0)


VALUES = st.integers(-3, 3).map(float)


def count_differently_ranked_pairs(f, g, y):
    """Count pairs (j, k): f_j below g_k exactly where y_j is not below y_k."""
    n = len(y)
    return sum(
        (f[j] < g[k]) != (y[j] < y[k]) for j, k in product(range(n), range(n)) if y[j] != y[k]
    )


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
