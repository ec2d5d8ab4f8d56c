"""On which task a configuration is evaluated: the task that tells most about the set that it may join."""

from dataclasses import dataclass

import numpy as np
import pytest

from baco_like.strategies.multi_task.scores import set_gain


@dataclass(frozen=True)
class Independent:
    """A model whose tasks are independent: the same prediction for every configuration."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    noise: float = 0.0

    def predict_joint(self, codes, tasks):
        mean = np.tile(np.array(self.mean)[tasks], (len(codes), 1))
        covariance = np.diag(np.array(self.deviation)[tasks] ** 2)
        return mean, np.tile(covariance, (len(codes), 1, 1))


def gain(model, logs, units=(1.0, 1.0, 1.0), aggregate="geometric_mean"):
    count = len(units)
    return set_gain(
        model,
        np.array(units),
        np.zeros(count),
        np.array(logs),
        2,
        aggregate,
        lambda rows: np.ones((len(rows), count), bool),
        np.random.default_rng(0),
    )


ROW = np.zeros((1, 1))
TWO = [[0.0, 0.0, 4.0], [3.0, 3.0, 0.0]]
"""Two configurations: the first one is the best of two tasks, the second one of the third task."""


def test_a_rival_of_one_member_is_evaluated_on_the_tasks_of_this_member():
    score = gain(Independent((2.0, 3.0, -0.5), (1.0, 1.0, 0.15)), TWO)
    value = score.informative(ROW, np.arange(3))
    assert np.argmax(value) == 2
    assert value[2] > 20 * max(value[0], value[1])
    score = gain(Independent((-0.5, -0.5, 4.0), (0.3, 0.6, 2.0)), TWO)
    assert np.argmax(score.informative(ROW, np.arange(3))) == 1


@pytest.mark.parametrize("aggregate", ["geometric_mean", "mean", "worst"])
def test_the_gain_is_that_of_a_direct_simulation(aggregate):
    model = Independent((0.1, -0.4, 2.0), (0.5, 0.3, 0.2))
    score = gain(model, TWO, (1.0, 2.0, 1.0), aggregate)
    rng = np.random.default_rng(1)
    drawn = np.array([1.0, 2.0, 1.0]) * (
        model.mean + model.deviation * rng.standard_normal((200_000, 3))
    )
    combine = {
        "geometric_mean": lambda logs: logs.mean(axis=-1),
        "mean": lambda logs: np.log(np.exp(logs).mean(axis=-1)),
        "worst": lambda logs: logs.max(axis=-1),
    }[aggregate]
    direct = max(
        np.maximum(combine(np.zeros(3)) - combine(np.minimum(drawn, TWO[i])), 0.0).mean()
        for i in (0, 1)
    )
    assert np.exp(score.score(ROW)[0]) == pytest.approx(direct, rel=0.35, abs=1e-3)


def test_a_row_has_the_same_score_alone_and_among_others():
    score = gain(Independent((0.1, -0.4, 2.0), (0.5, 0.3, 0.2)), TWO)
    assert np.allclose(score.score(np.zeros((5, 1))), score.score(ROW)[0], rtol=1e-12)
