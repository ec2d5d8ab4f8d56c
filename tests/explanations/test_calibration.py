"""Leave-one-out predictions of a run."""

import numpy as np
import pytest

from baco_like import Optimizer
from baco_like.exceptions import TrialError
from baco_like.explanations import compute_calibration

SPACE = {"x": list(range(12)), "y": list(range(12)), "z": ["a", "b"]}


def run_of(noise, direction="minimize"):
    rng = np.random.default_rng(3)
    optimizer = Optimizer(SPACE, direction, strategy="random_search", seed=1)
    trials = optimizer.suggest(60)
    values = [np.exp(0.1 * t["x"] - 0.05 * t["y"] + (t["z"] == "a")) for t in trials]
    optimizer.observe(trials, [v * np.exp(noise * rng.standard_normal()) for v in values])
    return optimizer.history


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_smooth_function_is_predicted_and_the_intervals_cover_it(direction):
    history = run_of(0.1, direction)
    calibration = compute_calibration(history)
    assert [p.observed for p in calibration.points] == pytest.approx(
        [trial.value for trial in history.trials]
    )
    assert all(p.low <= p.predicted <= p.high for p in calibration.points)
    assert calibration.correlation > 0.9
    assert 0.8 <= calibration.coverage <= 1.0
    assert calibration == compute_calibration(history)


def test_noise_widens_the_intervals():
    def width(noise):
        return np.median([p.high / p.low for p in compute_calibration(run_of(noise)).points])

    assert width(0.3) > 1.5 * width(0.05)


def test_too_few_successes_are_refused():
    optimizer = Optimizer(SPACE)
    with pytest.raises(TrialError, match="needs 5 successful trials"):
        compute_calibration(optimizer.history)
