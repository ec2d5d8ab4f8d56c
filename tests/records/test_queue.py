"""The queue behaves as a tuple, and n changes take about n steps."""

import pickle
import sys

from hypothesis import given
from hypothesis import strategies as st

from baco_like import Integer, Optimizer, Space
from baco_like.records.queue import ConfigQueue

CHANGES = st.lists(
    st.tuples(st.sampled_from(["extend", "drop"]), st.integers(0, 9), st.integers(0, 9))
)


@given(CHANGES)
def test_it_equals_a_tuple_whichever_version_is_changed(changes):
    versions = [(ConfigQueue(), ())]
    for kind, count, version in changes:
        queue, expected = versions[version % len(versions)]
        if kind == "extend":
            more = [{"x": len(versions), "i": i} for i in range(count)]
            versions.append((queue.extend(more), (*expected, *more)))
        else:
            versions.append((queue.drop(count), expected[count:]))
    for queue, expected in versions:
        assert queue == expected
        assert pickle.loads(pickle.dumps(queue)) == queue
        assert queue != (*expected, {})
        assert queue != "other"
        assert (tuple(queue), len(queue), repr(queue)) == (expected, len(expected), repr(expected))
        assert queue[:3] == expected[:3]
        assert queue[-2:] == expected[-2:]
        assert not expected or queue[-1] == expected[-1]


class Counted(list):
    """A list that counts its copied elements."""

    copied = 0

    def __getitem__(self, index):
        found = super().__getitem__(index)
        Counted.copied += len(found) if isinstance(index, slice) else 0
        return Counted(found) if isinstance(index, slice) else found


def test_each_configuration_is_copied_a_few_times_at_most():
    queue, n = ConfigQueue(Counted()), 3000
    for i in range(n):
        queue = queue.extend([{"x": i}])
    for i in range(n):
        assert next(iter(queue)) == {"x": i}
        queue = queue.drop(1)
    assert not queue
    assert Counted.copied < 2 * n


def test_the_rows_of_a_run_that_left_the_queue_are_released():
    queue = ConfigQueue().extend([{"x": i} for i in range(100)])
    first = queue[0]
    held = sys.getrefcount(first)
    queue = queue.drop(90)
    assert sys.getrefcount(first) == held - 1


def test_an_optimizer_enqueues_without_a_copy_of_the_queue():
    opt = Optimizer(Space({"x": Integer(0, 99)}), strategy="random_search")
    opt.enqueue({"x": 1})
    shared = opt.history.queue._configs
    for x in range(2, 30):
        opt.enqueue({"x": x})
    assert opt.history.queue._configs is shared
    assert [opt.suggest()["x"] for _ in range(29)] == list(range(1, 30))
