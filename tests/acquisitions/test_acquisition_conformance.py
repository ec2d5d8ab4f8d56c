"""Conformance of the acquisition functions."""

import numpy as np
import pytest

from baco_like.acquisitions import (
    ExpectedImprovement,
    LowerConfidenceBound,
    ProbabilityOfImprovement,
    ThompsonSampling,
)
from baco_like.testing.acquisitions import CHECKS, extreme_predictions_can_be_compared

FUNCTIONS = [
    ExpectedImprovement(),
    ExpectedImprovement(margin=0.3),
    ProbabilityOfImprovement(),
    ProbabilityOfImprovement(margin=0.3),
    LowerConfidenceBound(),
    LowerConfidenceBound(deviations=0.0),
    ThompsonSampling(),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("function", FUNCTIONS, ids=repr)
def test_conformance(check, function):
    check(function)


class IgnoresTheModel:
    def bind(self, model, incumbent, rng):
        return lambda codes: rng.random(len(codes))


def test_a_function_that_ignores_the_model_fails():
    failed = set()
    for check in CHECKS:
        try:
            check(IgnoresTheModel())
        except AssertionError:
            failed.add(check.__name__)
    assert failed == {"lower_means_are_better", "rows_are_independent", "generator_decides"}


class DividesByTheDeviation:
    def bind(self, model, incumbent, rng):
        def score(codes):
            mean, variance = model.predict(codes)
            with np.errstate(invalid="ignore", divide="ignore"):
                return (incumbent - mean) / variance**0.5

        return score


def test_a_failed_check_says_what_is_required():
    with pytest.raises(AssertionError, match="the score is NaN where the variance is 0"):
        extreme_predictions_can_be_compared(DividesByTheDeviation())
