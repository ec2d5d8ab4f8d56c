"""Pending trials behave as a dictionary and the queue as a tuple; a change copies a small part of them."""

import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import Space
from baco_like.records import History
from baco_like.records.rows import PendingTrials
from baco_like.records.trial import Trial


def rows(ids):
    return {i: (Trial(i, {"x": i}), np.array([float(i)])) for i in ids}


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "renew"]), st.integers(0, 400), st.integers(1, 300))
)


@settings(max_examples=40)
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
