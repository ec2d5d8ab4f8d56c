"""Conformance suite for surrogates and feasibility surrogates.

`CHECKS` lists functions of a surrogate and a space, `FEASIBILITY_CHECKS` functions of a feasibility surrogate and a
space; a check that fails raises `AssertionError`. Run them on your own surrogate::

    from baco_like.testing import surrogates

    @pytest.mark.parametrize("check", surrogates.CHECKS)
    def test_my_surrogate(check):
        check(MySurrogate(), space)
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from baco_like._typing import Array, Codes
from baco_like.spaces.space import Space
from baco_like.surrogates.protocol import (
    Data,
    FeasibilitySurrogate,
    Model,
    Surrogate,
    UpdatableModel,
)

Check = Callable[[Surrogate, Space], None]
FeasibilityCheck = Callable[[FeasibilitySurrogate, Space], None]


def make_data(space: Space, n: int, seed: int = 0) -> Data:
    """Return n observations of a smooth function of the features, standardised."""
    rng = np.random.default_rng(seed)
    codes = space.feasible.sample(n, rng)
    features = space.features(codes)
    y = features @ np.linspace(1.0, 2.0, features.shape[1]) + 0.01 * rng.standard_normal(n)
    y = (y - y.mean()) / (y.std() or 1.0)
    return Data(codes, y, np.zeros(n), np.zeros(n, bool))


def _fit(surrogate: Surrogate, space: Space, data: Data, seed: int = 1) -> Model:
    return surrogate.fit(space, data, np.random.default_rng(seed))


def _check_predictions(model: Model, codes: Codes) -> None:
    mean, variance = model.predict(codes)
    assert mean.shape == variance.shape == (len(codes),), (
        "mean and variance have one number for each row"
    )
    assert np.isfinite(mean).all(), f"means are finite: {mean}"
    assert (np.isfinite(variance) & (variance >= 0.0)).all(), (
        f"variances are finite and not negative: {variance}"
    )


def predictions_are_finite(surrogate: Surrogate, space: Space) -> None:
    """Means and variances have one finite number per row, variances are not negative; also for few or equal values."""
    rows = space.feasible.sample(50, np.random.default_rng(5))
    for n in (1, 2, 25):
        data = make_data(space, n)
        model = _fit(surrogate, space, data)
        for codes in (rows, rows[:1], rows[:0], data.codes):
            _check_predictions(model, codes)
        constant = Data(data.codes, np.zeros(n), data.variance, data.censored)
        _check_predictions(_fit(surrogate, space, constant), rows)


def values_are_learned(surrogate: Surrogate, space: Space) -> None:
    """The means at the observations correlate with the values; means that ignore the values would not."""
    data = make_data(space, 40)
    if len(np.unique(data.codes, axis=0)) == 1:
        return
    mean, _ = _fit(surrogate, space, data).predict(data.codes)
    assert np.corrcoef(mean, data.y)[0, 1] > 0.5, (
        "the means at the observations correlate with the values (above 0.5)"
    )


def repeated_and_uncertain_values_are_accepted(surrogate: Surrogate, space: Space) -> None:
    """Data may repeat configurations, have known variances, and have values that are lower bounds, even all of them."""
    data = make_data(space, 12)
    rows = space.feasible.sample(20, np.random.default_rng(5))
    twice = data.rows(np.arange(24) % 12)
    noisy = Data(data.codes, data.y, np.linspace(0.0, 0.5, 12), data.censored)
    some = Data(data.codes, data.y, data.variance, np.arange(12) % 3 == 0)
    every = Data(data.codes, data.y, data.variance, np.ones(12, bool))
    for case in (twice, noisy, some, every):
        _check_predictions(_fit(surrogate, space, case), rows)


def rows_are_independent(surrogate: Surrogate, space: Space) -> None:
    """The prediction of a row does not depend on the other rows of the call."""
    model = _fit(surrogate, space, make_data(space, 15))
    rows = space.feasible.sample(9, np.random.default_rng(5))
    together = np.array(model.predict(rows))
    alone = np.array([model.predict(rows[[i]]) for i in range(len(rows))])[:, :, 0].T
    np.testing.assert_allclose(
        alone,
        together,
        rtol=1e-6,
        atol=1e-8,
        err_msg="the prediction of a row does not depend on the other rows",
    )


def generator_decides(surrogate: Surrogate, space: Space) -> None:
    """Equal generators give equal models, bit for bit, and NumPy's global generator is not used."""
    data = make_data(space, 15)
    rows = space.feasible.sample(9, np.random.default_rng(5))
    before = repr(np.random.get_state())  # noqa: NPY002 - the global generator is what must not change
    first, second = (_fit(surrogate, space, data).predict(rows) for _ in range(2))
    np.testing.assert_array_equal(first, second, err_msg="equal generators give equal models")
    after = repr(np.random.get_state())  # noqa: NPY002
    assert after == before, "NumPy's global generator is not used"


def arguments_do_not_change(surrogate: Surrogate, space: Space) -> None:
    """Fitting and predicting leave the data unchanged."""
    data, reference = make_data(space, 15), make_data(space, 15)
    model = _fit(surrogate, space, data)
    model.predict(data.codes)
    for name in ("codes", "y", "variance", "censored"):
        np.testing.assert_array_equal(
            getattr(data, name),
            getattr(reference, name),
            err_msg=f"`Data.{name}` is left unchanged",
        )


def hyperparameters_are_json(surrogate: Surrogate, space: Space) -> None:
    """Hyperparameters survive JSON, and a later fit starts from them; unknown starts are ignored."""
    data = make_data(space, 15)
    written = dict(_fit(surrogate, space, data).hyperparameters)
    read = json.loads(json.dumps(written))
    assert read == written, "hyperparameters survive JSON"
    rows = space.feasible.sample(9, np.random.default_rng(5))
    for start in (read, {}, {"unknown": 1.0}, {"parameters": "none", "lengthscales": None}):
        _check_predictions(surrogate.fit(space, data, np.random.default_rng(1), start), rows)


def conditioning_uses_the_values(surrogate: Surrogate, space: Space) -> None:
    """For models with `condition`: own means keep the mean, lower the variance, and leave the old model unchanged."""
    model = _fit(surrogate, space, make_data(space, 15))
    if not isinstance(model, UpdatableModel):
        return
    rows = space.feasible.sample(3, np.random.default_rng(8))
    rows = np.unique(rows, axis=0)
    mean, variance = model.predict(rows)
    conditioned_mean, conditioned_variance = model.condition(rows, mean).predict(rows)
    np.testing.assert_allclose(
        conditioned_mean, mean, atol=1e-4, err_msg="conditioning on its own means keeps the mean"
    )
    assert (conditioned_variance <= variance + 1e-8).all(), (
        "conditioning does not increase the variance"
    )
    np.testing.assert_array_equal(
        model.predict(rows), (mean, variance), err_msg="condition() leaves the old model unchanged"
    )


def joint_predictions_agree(surrogate: Surrogate, space: Space) -> None:
    """For models with `predict_joint`: same mean, the variances on the diagonal, and a symmetric covariance."""
    model = _fit(surrogate, space, make_data(space, 15))
    predict_joint: Callable[[Codes], tuple[Array, Array]] | None
    predict_joint = getattr(model, "predict_joint", None)
    if predict_joint is None:
        return
    rows = space.feasible.sample(9, np.random.default_rng(5))
    mean, variance = model.predict(rows)
    joint_mean, covariance = predict_joint(rows)
    np.testing.assert_allclose(
        joint_mean, mean, atol=1e-6, err_msg="predict_joint() has the mean of predict()"
    )
    np.testing.assert_allclose(
        np.diag(covariance),
        variance,
        atol=1e-6,
        err_msg="the diagonal of the covariance is the variance",
    )
    np.testing.assert_allclose(
        covariance, covariance.T, atol=1e-9, err_msg="the covariance is symmetric"
    )


def _labels(space: Space, codes: Codes) -> Array:
    """Return which rows run: those on one side of a plane through the features' mean."""
    side = space.features(codes).sum(axis=1)
    return np.asarray(side <= np.median(side))


def probabilities_are_probabilities(surrogate: FeasibilitySurrogate, space: Space) -> None:
    """Probabilities have one number in [0, 1] per row, and are higher for rows that ran than for those that failed."""
    codes = space.feasible.sample(40, np.random.default_rng(0))
    ran = _labels(space, codes).astype(bool)
    model = surrogate.fit(space, codes, ran, 7)
    for rows in (codes, codes[:1], codes[:0]):
        probability = model.probability(rows)
        assert probability.shape == (len(rows),), "probability() has one number for each row"
        assert ((probability >= 0.0) & (probability <= 1.0)).all(), "probabilities are in [0, 1]"
    if not ran.all():
        probability = model.probability(codes)
        assert probability[ran].mean() > probability[~ran].mean(), (
            "rows that ran have a higher mean probability than rows that failed"
        )


def one_label_is_constant(surrogate: FeasibilitySurrogate, space: Space) -> None:
    """If all rows ran, or all failed, the probability is 1, or 0, everywhere."""
    codes = space.feasible.sample(10, np.random.default_rng(0))
    for label in (True, False):
        probability = surrogate.fit(space, codes, np.full(10, label), 7).probability(codes)
        np.testing.assert_array_equal(
            probability,
            float(label),
            err_msg="if all rows have the same label, the probability is that label",
        )


def seed_decides(surrogate: FeasibilitySurrogate, space: Space) -> None:
    """Equal arguments give equal models, bit for bit, so that a resumed run has the same model."""
    codes = space.feasible.sample(30, np.random.default_rng(0))
    ran = np.arange(30) % 3 > 0
    first, second = (surrogate.fit(space, codes, ran, 7).probability(codes) for _ in range(2))
    np.testing.assert_array_equal(first, second, err_msg="equal seeds give equal models")


CHECKS: tuple[Check, ...] = (
    predictions_are_finite,
    values_are_learned,
    repeated_and_uncertain_values_are_accepted,
    rows_are_independent,
    generator_decides,
    arguments_do_not_change,
    hyperparameters_are_json,
    conditioning_uses_the_values,
    joint_predictions_agree,
)

FEASIBILITY_CHECKS: tuple[FeasibilityCheck, ...] = (
    probabilities_are_probabilities,
    one_label_is_constant,
    seed_decides,
)
