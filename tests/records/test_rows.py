"""Pending trials behave as a dictionary and the queue as a tuple; a change copies a small part of them."""

import itertools
import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Integer, Optimizer, Outcome, Space
from baco_like.records import History
from baco_like.records.rows import PendingTrials
from baco_like.records.trial import Trial


def rows(ids):
    return {i: (Trial(i, {"x": i}), np.array([float(i)])) for i in ids}


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "renew"]), st.integers(0, 400), st.integers(1, 300))
)


@given(CHANGES)
def test_it_equals_a_dictionary_that_is_copied_for_every_change(changes):
    known, next_id, versions = {}, 0, [(PendingTrials(), {})]
    for kind, start, count in changes:
        pending = versions[-1][0]
        ids = [i for i in range(start, start + count) if i in known]
        if kind == "add":
            ids, next_id = range(next_id, next_id + count), next_id + count
        if kind == "remove":
            known = {i: row for i, row in known.items() if i not in ids}
            versions.append((pending.remove([*ids, -1, 10**9]), known))
        else:
            new = rows(ids)
            known = {**known, **new}
            versions.append((pending.add(new), known))
    for pending, expected in versions:
        assert list(pending) == list(expected)
        assert all(pending[i] is expected[i] for i in expected)
        assert len(pending) == len(expected)
        assert all(i in pending for i in expected)
        assert next_id not in pending
    assert list(pickle.loads(pickle.dumps(pending))) == list(expected)  # of the last version


def test_a_change_copies_a_small_part():
    before = PendingTrials().add(rows(range(10_000)))
    for after in (before.remove([5000]), before.add(rows([5000])), before.add(rows([10_000]))):
        parts, earlier = ([id(part) for part in p._chunks.values()] for p in (after, before))
        assert len(set(parts) - set(earlier)) == 1
        assert len(earlier) > 30


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 9))))
def test_the_queue_equals_a_tuple_whichever_version_is_changed(changes):
    versions = [(History.start(Space({"x": [1, 2]})), ())]
    for is_longer, count, version in changes:
        history, expected = versions[version % len(versions)]
        more = [{"x": len(versions), "i": i} for i in range(count)]
        if is_longer:
            versions.append((history.enqueue(more), (*expected, *more)))
        else:
            versions.append((history.dequeue(count), expected[count:]))
    for history, expected in versions:
        assert tuple(history.queue) == expected
        assert len(history.queue) == len(expected)


# ---- Values that are derived from the observations are kept, and belong to these observations only ----


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
    optimizer, number = run([3.0, 2.0]), itertools.count()
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
    history, number = run([3.0]).history, itertools.count()
    assert [history.derive(("model", []), 0, number.__next__) for _ in range(2)] == [0, 1]


def test_histories_that_part_share_nothing():
    optimizer, number = run([3.0, 2.0]), itertools.count()
    assert optimizer.history.derive("model", 0, number.__next__) == 0
    other = optimizer.history.first(1)
    trial = Trial(2, {"x": 7})
    outcome = Outcome.success(2, (1.0,))
    other, _ = other.complete([outcome], {2: (trial, SPACE.encode([{"x": 7}])[0])})
    assert (len(other), other.derive("model", 0, number.__next__)) == (2, 1)
    assert pickle.loads(pickle.dumps(optimizer.history)).derive("model", 0, number.__next__) == 2
