"""Conformance suite for acquisition functions.

`CHECKS` lists functions of an acquisition function; a check that fails raises `AssertionError`. Run them on your own::

    from baco_like.testing import acquisitions

    @pytest.mark.parametrize("check", acquisitions.CHECKS)
    def test_my_acquisition_function(check):
        check(MyAcquisitionFunction())
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from baco_like._typing import Array, Codes
from baco_like.acquisitions.protocol import AcquisitionFunction, Score
from baco_like.testing.doubles import ChosenModel

Check = Callable[[AcquisitionFunction], None]

INCUMBENT = 0.5
CODES = np.arange(12.0)[:, None]


def _bind(acquisition: AcquisitionFunction, mean: Array, variance: Array) -> Score:
    """Return the score under a model with these predictions for `CODES`."""

    def at(values: Array) -> Callable[[Codes], Array]:
        return lambda codes: values[codes[:, 0].astype(int)]

    model = ChosenModel(at(mean), at(variance))
    return acquisition.bind(model, INCUMBENT, np.random.default_rng(0))


def _predictions() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal(len(CODES)), rng.uniform(0.1, 2.0, len(CODES))


def scores_have_one_number_per_row(acquisition: AcquisitionFunction) -> None:
    """A score maps ``(n, w)`` codes to ``(n,)`` finite numbers, also for no row."""
    score = _bind(acquisition, *_predictions())
    for codes in (CODES, CODES[:1], CODES[:0]):
        values = score(codes)
        assert values.shape == (len(codes),), "a score has one number for each row"
        assert np.isfinite(values).all(), f"a score is finite: {values}"


def extreme_predictions_can_be_compared(acquisition: AcquisitionFunction) -> None:
    """Scores are numbers, not NaN, for a variance of zero and for means far from the incumbent."""
    far = np.array([0.0, 1e-9, 1.0, 40.0, 1e3, 1e6])
    mean = INCUMBENT + np.concatenate([far, -far])
    for variance in (0.0, 1e-12, 1.0, 1e6):
        values = _bind(acquisition, mean, np.full(len(CODES), variance))(CODES)
        assert not np.isnan(values).any(), f"the score is NaN where the variance is {variance:g}"


def lower_means_are_better(acquisition: AcquisitionFunction) -> None:
    """Of two configurations with the same variance, the one with the lower mean scores at least as high."""
    mean = np.linspace(-2.0, 3.0, len(CODES))
    for variance in (0.01, 1.0, 9.0):
        values = _bind(acquisition, mean, np.full(len(CODES), variance))(CODES)
        assert (np.diff(values) <= 1e-12).all(), f"a lower mean scores as high or higher: {values}"
        assert values[0] > values[-1], f"the lowest mean scores higher than the highest: {values}"


def rows_are_independent(acquisition: AcquisitionFunction) -> None:
    """The score of a row does not depend on the other rows of the call."""
    score = _bind(acquisition, *_predictions())
    alone = [score(row[None])[0] for row in CODES]
    message = "the score of a row does not depend on the other rows"
    assert_allclose(alone, score(CODES), rtol=1e-9, err_msg=message)


def generator_decides(acquisition: AcquisitionFunction) -> None:
    """Equal generators give equal scores, and a bound score always returns the same numbers."""
    first, second = (_bind(acquisition, *_predictions()) for _ in range(2))
    values = first(CODES)
    assert_array_equal(first(CODES), values, "a second call of a score returns the same numbers")
    assert_array_equal(second(CODES), values, "equal generators give equal scores")


def arguments_do_not_change(acquisition: AcquisitionFunction) -> None:
    """Scoring leaves the codes and the predictions unchanged."""
    predictions, codes = _predictions(), CODES.copy()
    _bind(acquisition, *predictions)(codes)
    assert_array_equal(codes, CODES, "scoring leaves the codes unchanged")
    assert_array_equal(predictions, _predictions(), "scoring leaves the predictions unchanged")


CHECKS: tuple[Check, ...] = (
    scores_have_one_number_per_row,
    extreme_predictions_can_be_compared,
    lower_means_are_better,
    rows_are_independent,
    generator_decides,
    arguments_do_not_change,
)
