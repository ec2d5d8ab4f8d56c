"""Conformance suites for acquisition functions and acquisition optimizers, and models with chosen predictions.

`CHECKS` lists functions of an acquisition function, `OPTIMIZER_CHECKS` of an acquisition optimizer and a space; a check
that fails raises `AssertionError`. Run them on your own::

    from baco_like.testing import acquisitions

    @pytest.mark.parametrize("check", acquisitions.CHECKS)
    def test_my_acquisition_function(check):
        check(MyAcquisitionFunction())

    @pytest.mark.parametrize("check", acquisitions.OPTIMIZER_CHECKS)
    def test_my_acquisition_optimizer(check):
        check(MyAcquisitionOptimizer(), space)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.acquisitions.functions import comparable
from baco_like.acquisitions.protocol import (
    AcquisitionFunction,
    AcquisitionOptimizer,
    IsExcluded,
    Score,
)
from baco_like.records.rows import row_keys
from baco_like.spaces.space import Space

Check = Callable[[AcquisitionFunction], None]

INCUMBENT = 0.5
CODES = np.arange(12.0)[:, None]


@dataclass(frozen=True)
class ChosenModel:
    """A model whose mean and variance are given functions of the codes.

    Attributes:
        mean: ``(n, w)`` -> ``(n,)``.
        variance: ``(n, w)`` -> ``(n,)``, non-negative.
    """

    mean: Callable[[Codes], Array]
    variance: Callable[[Codes], Array]

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        """An empty mapping."""
        return {}

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        """Return the chosen mean and variance, ``(n,)`` each."""
        return self.mean(codes), self.variance(codes)

    def predict_joint(self, codes: Codes) -> tuple[Array, Array]:
        """Return the chosen mean ``(n,)`` and a diagonal covariance ``(n, n)``."""
        return self.mean(codes), np.diag(self.variance(codes))

    def draw(self, rng: Rng) -> Callable[[Codes], Array]:
        """Return the mean plus the same random multiple of the standard deviation everywhere."""
        multiple = rng.standard_normal()
        return lambda codes: self.mean(codes) + multiple * np.sqrt(self.variance(codes))


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


# Acquisition optimizers -----------------------------------------------------------------------------------------------

OptimizerCheck = Callable[[AcquisitionOptimizer, Space], None]


def exclude_none(codes: Codes) -> Mask:
    """Return False for every row."""
    return np.zeros(len(codes), bool)


def exclude_all(codes: Codes) -> Mask:
    """Return True for every row."""
    return np.ones(len(codes), bool)


def make_score(space: Space) -> Score:
    """Return a score with few levels, ties, NaN and -inf, smooth in reals; it accepts feasible rows only."""
    features = space.features(space.feasible.sample(1, np.random.default_rng(0)))

    def score(codes: Codes) -> Array:
        assert space.feasible.contains(codes).all(), "the score was called with an infeasible row"
        difference = space.features(codes) - features
        values = -np.round(4 * np.abs(difference)).sum(axis=1)
        if space.size == math.inf:
            values -= (difference**2).sum(axis=1)
        values[values == -3.0] = np.nan
        values[values < -6.0] = -np.inf
        return np.asarray(values)

    return score


def _maximise(
    optimizer: AcquisitionOptimizer, space: Space, n: int, excluded: IsExcluded, starts: int = 3
) -> Codes:
    rng = np.random.default_rng(3)
    rows = space.feasible.sample(starts, rng)
    before = rows.copy()
    best, scores = optimizer.maximise(make_score(space), space, n, rng, rows, excluded)
    assert_array_equal(rows, before, "the start rows are left unchanged")
    expected = make_score(space)(best)
    assert_array_equal(comparable(scores), comparable(expected), "the scores are those of the rows")
    return best


def rows_are_distinct_feasible_free_and_sorted(
    optimizer: AcquisitionOptimizer, space: Space
) -> None:
    """At most n rows come back, distinct, feasible, not excluded, best first; with and without start rows."""
    excluded = set(row_keys(space.feasible.sample(20, np.random.default_rng(1))))

    def is_excluded(codes: Codes) -> Mask:
        return np.array([key in excluded for key in row_keys(codes)], bool)

    for starts in (0, 3):
        rows = _maximise(optimizer, space, 5, is_excluded, starts)
        assert rows.shape[1] == space.width, "rows have the width of the space"
        assert len(rows) <= 5, "at most n rows are returned"
        assert len(rows) or space.feasible.count == 1, "at least one row is returned if one is free"
        assert len(set(row_keys(rows))) == len(rows), "the rows are distinct"
        assert space.feasible.contains(rows).all(), "the rows are feasible"
        assert not is_excluded(rows).any(), "excluded rows are not returned"
        scores = np.nan_to_num(make_score(space)(rows), nan=-np.inf, neginf=-np.inf)
        assert (scores[1:] <= scores[:-1]).all(), "the rows are sorted by score, best first"


def nothing_free_gives_nothing(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """If every row is excluded, the result has no row."""
    rows = _maximise(optimizer, space, 2, exclude_all)
    assert rows.shape == (0, space.width), "no row is returned if every row is excluded"


def generator_decides_rows(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """Equal generators give equal rows."""
    first, second = (_maximise(optimizer, space, 4, exclude_none) for _ in range(2))
    assert_array_equal(first, second, "equal generators give equal rows")


def more_rows_than_exist_can_be_requested(optimizer: AcquisitionOptimizer, space: Space) -> None:
    """If n exceeds the number of configurations, the result has at most all of them; for spaces up to 400."""
    count = space.feasible.count
    if count is not None and count <= 400:
        rows = _maximise(optimizer, space, count + 5, exclude_none)
        assert len(rows) <= count, "at most all feasible rows are returned"


OPTIMIZER_CHECKS: tuple[OptimizerCheck, ...] = (
    rows_are_distinct_feasible_free_and_sorted,
    nothing_free_gives_nothing,
    generator_decides_rows,
    more_rows_than_exist_can_be_requested,
)
