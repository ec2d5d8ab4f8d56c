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
from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from baco_like._typing import Codes
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


def _fit(surrogate: Surrogate, space: Space, data: Data) -> Model:
    return surrogate.fit(space, data, np.random.default_rng(1))


def _sample(space: Space, n: int = 9) -> Codes:
    return space.feasible.sample(n, np.random.default_rng(5))


def _check_predictions(model: Model, codes: Codes) -> None:
    mean, variance = model.predict(codes)
    shape = (len(codes),)
    assert mean.shape == variance.shape == shape, "mean and variance have one number for each row"
    assert np.isfinite(mean).all(), f"means are finite: {mean}"
    valid = np.isfinite(variance) & (variance >= 0.0)
    assert valid.all(), f"variances are finite and not negative: {variance}"


def predictions_are_finite(surrogate: Surrogate, space: Space) -> None:
    """Means and variances have one finite number per row, variances are not negative; also for few or equal values."""
    rows = _sample(space, 50)
    for n in (1, 2, 25):
        data = make_data(space, n)
        model = _fit(surrogate, space, data)
        for codes in (rows, rows[:1], data.codes):
            _check_predictions(model, codes)
        _check_predictions(_fit(surrogate, space, replace(data, y=np.zeros(n))), rows)


def values_are_learned(surrogate: Surrogate, space: Space) -> None:
    """The means at the observations correlate with the values; means that ignore the values would not."""
    data = make_data(space, 40)
    if len(np.unique(data.codes, axis=0)) == 1:
        return
    mean, _ = _fit(surrogate, space, data).predict(data.codes)
    correlation = np.corrcoef(mean, data.y)[0, 1]
    assert correlation > 0.5, f"the means at the observations follow the values: {correlation}"


def repeated_and_uncertain_values_are_accepted(surrogate: Surrogate, space: Space) -> None:
    """Data may repeat configurations, have known variances, and have values that are lower bounds, even all of them."""
    data = make_data(space, 12)
    for case in (
        data.rows(np.arange(24) % 12),
        replace(data, variance=np.linspace(0.0, 0.5, 12)),
        replace(data, censored=np.arange(12) % 3 == 0),
        replace(data, censored=np.ones(12, bool)),
    ):
        _check_predictions(_fit(surrogate, space, case), _sample(space, 20))


def rows_are_independent(surrogate: Surrogate, space: Space) -> None:
    """The prediction of a row does not depend on the other rows of the call."""
    model, rows = _fit(surrogate, space, make_data(space, 15)), _sample(space)
    alone = np.array([model.predict(row[None]) for row in rows])[:, :, 0].T
    message = "the prediction of a row does not depend on the other rows"
    assert_allclose(alone, model.predict(rows), rtol=1e-6, atol=1e-8, err_msg=message)


def generator_decides(surrogate: Surrogate, space: Space) -> None:
    """Equal generators give equal models, bit for bit, and NumPy's global generator is not used."""
    data, rows = make_data(space, 15), _sample(space)
    before = repr(np.random.get_state())  # noqa: NPY002 - the global generator is what must not change
    first, second = (_fit(surrogate, space, data).predict(rows) for _ in range(2))
    assert_array_equal(first, second, "equal generators give equal models")
    after = repr(np.random.get_state())  # noqa: NPY002
    assert after == before, "NumPy's global generator is not used"


def arguments_do_not_change(surrogate: Surrogate, space: Space) -> None:
    """Fitting and predicting leave the data unchanged."""
    data, reference = make_data(space, 15), make_data(space, 15)
    _fit(surrogate, space, data).predict(data.codes)
    for name, before in vars(reference).items():
        assert_array_equal(getattr(data, name), before, f"`Data.{name}` is left unchanged")


def hyperparameters_are_json(surrogate: Surrogate, space: Space) -> None:
    """Hyperparameters survive JSON, and a later fit starts from them; unknown starts are ignored."""
    data = make_data(space, 15)
    written = dict(_fit(surrogate, space, data).hyperparameters)
    read = json.loads(json.dumps(written))
    assert read == written, "hyperparameters survive JSON"
    for start in (read, {}, {"unknown": 1.0}, {"parameters": "none", "lengthscales": None}):
        model = surrogate.fit(space, data, np.random.default_rng(1), start)
        _check_predictions(model, _sample(space))


def conditioning_uses_the_values(surrogate: Surrogate, space: Space) -> None:
    """For models with `condition`: own means keep the mean, lower the variance, and leave the old model unchanged."""
    model = _fit(surrogate, space, make_data(space, 15))
    if not isinstance(model, UpdatableModel):
        return
    rows = np.unique(space.feasible.sample(3, np.random.default_rng(8)), axis=0)
    mean, variance = model.predict(rows)
    new_mean, new_variance = model.condition(rows, mean).predict(rows)
    assert_allclose(new_mean, mean, atol=1e-4, err_msg="conditioning on own means keeps the mean")
    assert (new_variance <= variance + 1e-8).all(), "conditioning does not increase the variance"
    assert_array_equal(model.predict(rows), (mean, variance), "condition() returns a new model")


def joint_predictions_agree(surrogate: Surrogate, space: Space) -> None:
    """For models with `predict_joint`: same mean, the variances on the diagonal, and a symmetric covariance."""
    model, rows = _fit(surrogate, space, make_data(space, 15)), _sample(space)
    predict_joint = getattr(model, "predict_joint", None)
    if predict_joint is None:
        return
    mean, variance = model.predict(rows)
    joint_mean, covariance = predict_joint(rows)
    assert_allclose(joint_mean, mean, atol=1e-6, err_msg="predict_joint() has the usual mean")
    diagonal = np.diag(covariance)
    assert_allclose(diagonal, variance, atol=1e-6, err_msg="the diagonal has the variances")
    assert_allclose(covariance, covariance.T, atol=1e-9, err_msg="covariances are symmetric")


def probabilities_are_probabilities(surrogate: FeasibilitySurrogate, space: Space) -> None:
    """Probabilities have one number in [0, 1] per row, and are higher for rows that ran than for those that failed."""
    codes = space.feasible.sample(40, np.random.default_rng(0))
    side = space.features(codes).sum(axis=1)
    ran = np.asarray(side <= np.median(side))  # one side of a plane runs
    model = surrogate.fit(space, codes, ran, 7)
    for rows in (codes, codes[:1]):
        probability = model.probability(rows)
        assert probability.shape == (len(rows),), "probability() has one number for each row"
        assert ((probability >= 0.0) & (probability <= 1.0)).all(), "probabilities are in [0, 1]"
    if not ran.all():
        probability = model.probability(codes)
        ran_mean, failed_mean = probability[ran].mean(), probability[~ran].mean()
        assert ran_mean > failed_mean, "rows that ran have a higher mean than rows that failed"


def one_label_is_constant(surrogate: FeasibilitySurrogate, space: Space) -> None:
    """If all rows ran, or all failed, the probability is 1, or 0, everywhere."""
    codes = space.feasible.sample(10, np.random.default_rng(0))
    for label in (True, False):
        probability = surrogate.fit(space, codes, np.full(10, label), 7).probability(codes)
        assert_array_equal(probability, float(label), "the label of all rows is the probability")


def seed_decides(surrogate: FeasibilitySurrogate, space: Space) -> None:
    """Equal arguments give equal models, bit for bit, so that a resumed run has the same model."""
    codes = space.feasible.sample(30, np.random.default_rng(0))
    ran = np.arange(30) % 3 > 0
    first, second = (surrogate.fit(space, codes, ran, 7).probability(codes) for _ in range(2))
    assert_array_equal(first, second, "equal seeds give equal models")


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
