"""Values that are derived from the observations are kept, and belong to these observations only."""

import pickle
from itertools import count

from baco_like import Integer, Optimizer, Outcome, Space
from baco_like.records.trial import Trial

SPACE = Space({"x": Integer(0, 99)})


def run(values):
    optimizer = Optimizer(SPACE, strategy="random_search", seed=0)
    optimizer.observe([{"x": x} for x in range(len(values))], values)
    return optimizer


def test_the_first_observations_are_the_history_of_that_time():
    optimizer = run([3.0, 2.0])
    then = optimizer.history
    optimizer.observe({"x": 50}, 1.0)
    optimizer.suggest()
    first = optimizer.history.first(2)
    assert (len(first), len(first.pending)) == (2, 0)
    assert first.costs.tolist() == then.costs.tolist() == [3.0, 2.0]
    assert not first.is_excluded(SPACE.encode([{"x": 50}]))[0]
    assert len(then.first(9)) == 2


def test_a_value_is_made_once_for_the_same_observations_and_key():
    optimizer, number = run([3.0, 2.0]), count()
    made = [optimizer.history.derive("model", "key", number.__next__) for _ in range(3)]
    optimizer.suggest()  # a pending trial changes nothing
    made.append(optimizer.history.derive("model", "key", number.__next__))
    assert made == [0, 0, 0, 0]
    assert optimizer.history.derive("other", "key", number.__next__) == 1
    assert optimizer.history.derive("model", "other key", number.__next__) == 2
    optimizer.observe({"x": 50}, 1.0)
    assert optimizer.history.derive("model", "other key", number.__next__) == 3
    assert optimizer.history.first(2).derive("model", "other key", number.__next__) == 4


def test_costs_are_read_once_and_are_those_of_the_observations():
    def costs_of(values):
        optimizer = Optimizer(SPACE, {"a": "minimize", "b": "maximize"}, strategy="random_search")
        for x, (a, b) in enumerate(values):
            optimizer.observe({"x": x}, {"a": a, "b": b})
            optimizer.history.objective_costs()
        return optimizer.history

    history = costs_of([(1.0, [2.0, 4.0]), (3.0, 5.0), (4.0, 6.0)])
    assert history.objective_costs()[0].tolist() == [[1.0, -3.0], [3.0, -5.0], [4.0, -6.0]]
    assert history.objective_costs()[1][0, 1] == 1.0
    assert history.first(2).objective_costs()[0].tolist() == [[1.0, -3.0], [3.0, -5.0]]
    # A history that continues with another trial has its own rows.
    trial = Trial(7, {"x": 7})
    outcome = Outcome.success(7, (8.0,), metrics={"b": 9.0})
    other, _ = history.first(1).complete([outcome], {7: (trial, SPACE.encode([{"x": 7}])[0])})
    assert other.objective_costs()[0].tolist() == [[1.0, -3.0], [8.0, -9.0]]
    assert history.objective_costs()[0].tolist() == [[1.0, -3.0], [3.0, -5.0], [4.0, -6.0]]


def test_nothing_is_kept_for_what_has_no_hash():
    history, number = run([3.0]).history, count()
    assert [history.derive(("model", []), 0, number.__next__) for _ in range(2)] == [0, 1]


def test_histories_that_part_share_nothing():
    optimizer, number = run([3.0, 2.0]), count()
    assert optimizer.history.derive("model", 0, number.__next__) == 0
    other = optimizer.history.first(1)
    trial = Trial(2, {"x": 7})
    outcome = Outcome.success(2, (1.0,))
    other, _ = other.complete([outcome], {2: (trial, SPACE.encode([{"x": 7}])[0])})
    assert (len(other), other.derive("model", 0, number.__next__)) == (2, 1)
    assert pickle.loads(pickle.dumps(optimizer.history)).derive("model", 0, number.__next__) == 2
