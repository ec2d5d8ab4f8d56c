"""Stopping rules on histories with known contents."""

import numpy as np
import pytest

from baco_like import (
    Aim,
    MaxEvals,
    MaxFailures,
    MaxTime,
    NoImprovement,
    Optimizer,
    Search,
    Space,
    Target,
)
from baco_like.running import IdenticalFailures
from baco_like.running.stopping import time_limit


def history(values, direction="minimize", pending=0):
    opt = Optimizer(Space({"a": list(range(200))}), direction, strategy="random_search")
    for value in values:
        if value is None:
            opt.observe(opt.suggest(), failed="runtime")
        else:
            opt.observe(opt.suggest(), value)
    if pending:
        opt.suggest(pending)
    return opt.history


def test_max_evals_counts_failures_and_leaves_room_for_pending():
    rule = MaxEvals(3)
    assert rule.reason(history([1.0, None]), 0) is None
    assert rule.room(history([1.0], pending=1)) == 1
    assert rule.reason(history([1.0, None, 2.0]), 0) == "3 evaluations"


def test_max_evals_counts_different_programs():
    opt = Optimizer({"a": list(range(200))}, strategy="random_search")
    for program in ("p", "q", "p", "p", None):
        opt.observe(opt.suggest(), 1.0, program=program)
    (pending,) = opt.suggest(1)
    assert opt.should_stop(MaxEvals(4)) is None
    assert MaxEvals(4).room(opt.history) == 0  # its program may be new
    assert MaxEvals(9).room(opt.history) == 5
    opt.observe(pending, 1.0, program="q")
    assert MaxEvals(4).room(opt.history) == 1
    assert MaxEvals(9, builds=8).room(opt.history) == 2
    assert opt.should_stop(MaxEvals(6, builds=6)) == "6 builds, of which 3 are evaluations"
    assert opt.should_stop(MaxEvals(3)) == "3 evaluations"


def test_equal_programs_are_no_new_failures_and_no_chances_to_improve():
    opt = Optimizer({"a": list(range(200))}, strategy="random_search")
    opt.observe(opt.suggest(), 1.0, program="p")
    for _ in range(3):
        opt.observe(opt.suggest(), failed="runtime", program="q")
        opt.observe(opt.suggest(), 1.0, program="p")
    assert opt.should_stop(MaxFailures(2)) is None
    assert opt.should_stop(NoImprovement(2)) is None
    opt.observe(opt.suggest(), failed="runtime", program="r")
    assert opt.should_stop(MaxFailures(2)) == "2 failures"
    assert opt.should_stop(NoImprovement(2)) == "no improvement in 2 evaluations"


def test_max_time():
    assert MaxTime(5).reason(history([]), 4.9) is None
    assert MaxTime(5).reason(history([]), 5.0) == "5 seconds"


@pytest.mark.parametrize(
    ("values", "rel", "ends"),
    [
        ([3.0, 2.0, 2.0, 2.0], 0.0, True),
        ([3.0, 2.0, 2.0, 1.99], 0.0, False),
        ([3.0, 2.0, 2.0, 1.99], 0.01, True),
        ([3.0, 2.0, 2.0, 1.9], 0.01, False),
        ([None, None, None, None], 0.0, False),
        ([-1.0, -1.0, -1.0], 0.5, True),
        ([3.0, 2.0], 0.0, False),
    ],
)
def test_no_improvement_in_two(values, rel, ends):
    assert bool(NoImprovement(2, rel).reason(history(values), 0)) is ends


def test_target_in_both_directions():
    assert Target(1.0).reason(history([2.0]), 0) is None
    assert Target(1.0).reason(history([2.0, 1.0]), 0)
    assert Target(5.0).reason(history([4.0], "maximize"), 0) is None
    assert Target(5.0).reason(history([6.0], "maximize"), 0)


def test_max_failures():
    assert MaxFailures(2).reason(history([1.0, None]), 0) is None
    assert MaxFailures(2).reason(history([None, 1.0, None]), 0) == "2 failures"


def test_a_configuration_beyond_a_limit_is_no_failure_of_the_run():
    opt = Optimizer({"a": list(range(9))}, Aim(limits=["size <= 3"]))
    for size in (9, 9, 9):
        opt.observe(opt.suggest(), {"value": 1.0, "size": size})
    assert MaxFailures(2).reason(opt.history, 0) is None
    for _ in range(2):
        opt.observe(opt.suggest(), failed="runtime")
    assert MaxFailures(2).reason(opt.history, 0) == "2 failures"


def test_measurements_of_a_confirmation_do_not_change_when_a_resumed_search_ends():
    """The same values of the search end the run at the same evaluation, with and without a confirmation between."""
    ends = []
    for confirmed in (0, 6):
        opt = Optimizer({"a": list(range(200))}, strategy=Search("random_search", noise="repeat"))
        for value in (3.0, 2.0, 2.5):
            opt.observe(opt.suggest(), value)
        for i in range(confirmed):  # one has luck, and one fails
            trial = opt.measure_again(opt.trials[1].config, "confirmation")
            opt.observe(trial, 1.5) if i else opt.observe(trial, failed="runtime")
        while NoImprovement(5).reason(opt.history, 0) is None:
            opt.observe(opt.suggest(), 2.5)
        ends.append(opt.history.searched)
        assert MaxFailures(1).reason(opt.history, 0) is None
    assert ends == [7, 7]


def test_any_and_all():
    either, both = MaxEvals(2) | MaxTime(9), MaxEvals(2) & MaxTime(9)
    two = history([1.0, 1.0])
    assert either.reason(two, 0) == "2 evaluations"
    assert either.reason(history([]), 9) == "9 seconds"
    assert both.reason(two, 0) is None
    assert both.reason(two, 9) == "2 evaluations and 9 seconds"
    assert either.room(history([1.0])) == 1
    assert both.room(history([1.0])) is None
    assert (MaxEvals(2) & MaxEvals(5)).room(history([1.0])) == 4


def test_numpy_integers_are_accepted():
    rule = MaxEvals(np.int64(3))
    assert type(rule.evaluations) is int
    assert type(rule.room(history([1.0]))) is int
    assert type(MaxFailures(np.int32(3)).failures) is int
    assert type(NoImprovement(np.int32(3)).evaluations) is int
    assert MaxTime(np.float32(2)).reason(history([]), 2.0) == "2 seconds"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: MaxEvals(0), r"MaxEvals: evaluations.* 0"),
        (lambda: MaxTime(-1), r"MaxTime: seconds = -1"),
        (lambda: NoImprovement(3, 1.5), r"NoImprovement: rel = 1\.5"),
        (lambda: Target(float("nan")), r"Target: value = nan"),
        (lambda: IdenticalFailures(0), r"IdenticalFailures: failures.* 0"),
        (lambda: MaxEvals(2.5), r"MaxEvals: evaluations.*2\.5"),
        (lambda: MaxEvals("3"), r"MaxEvals: evaluations.*'3'"),
        (lambda: MaxFailures(None), r"MaxFailures: failures.*None"),
        (lambda: NoImprovement(2.0), r"NoImprovement: evaluations.*2\.0"),
        (lambda: Target("a"), r"Target: value.*'a'"),
        (lambda: MaxTime("9"), r"MaxTime: seconds.*'9'"),
    ],
)
def test_wrong_arguments_are_named(make, named):
    with pytest.raises(ValueError, match=named):
        make()


def test_only_rules_are_combined():
    with pytest.raises(TypeError, match="60 is not a stopping rule"):
        _ = MaxEvals(4) | 60
    with pytest.raises(TypeError, match=r"MaxTime.* is not a stopping rule"):
        _ = MaxEvals(4) & MaxTime


def failing(*failures, values=()):
    opt = Optimizer(Space({"a": list(range(200))}), strategy="random_search")
    for value in values:
        opt.observe(opt.suggest(), value)
    for word, message in failures:
        opt.observe(opt.suggest(), failed=word, message=message)
    return opt.history


def test_identical_failures_before_the_first_success():
    rule, same = IdenticalFailures(3), ("compile", "no header\nin /tmp/a")
    assert rule.reason(failing(same, same), 0) is None
    reason = rule.reason(failing(same, ("compile", "no header\nin /tmp/b"), same), 0)
    assert reason == "3 evaluations in a row failed alike, with compile: no header"
    assert rule.reason(failing(("runtime", "no header"), same, same), 0) is None
    assert rule.reason(failing(("runtime", "x"), same, same, same), 0) is not None
    assert rule.reason(failing(*[("compile", c) for c in "abcdefgh"]), 0) is None
    timed = [("runtime", f"measured 0.{i}23 s (0x7f{i}a), 1e-{i} expected") for i in range(3)]
    assert "alike, with runtime: measured 0.223 s" in rule.reason(failing(*timed), 0)
    files = [("compile", f"/tmp/cc{name}.o: undefined reference") for name in ("aX", "Qz", "m_")]
    assert "cc" in rule.reason(failing(*files), 0)
    assert rule.reason(failing(*files[:2], ("compile", "/tmp/ccq.o: no space left")), 0) is None
    assert rule.reason(failing(same, same, same, values=[1.0]), 0) is None
    not_recorded = ("constraints", "not in the recorded table")
    assert rule.reason(failing(*[not_recorded] * 9), 0) is None


def test_the_seconds_of_a_combined_rule():
    assert time_limit(MaxEvals(3)) is None
    assert time_limit(MaxEvals(3) | MaxTime(5) | MaxTime(4)) == 4
    assert time_limit(MaxEvals(3) & MaxTime(5)) is None


@pytest.mark.parametrize("word", ["limit", "constraints"])
def test_equal_failures_of_configurations_do_not_end_a_run(word):
    optimizer = Optimizer({"x": [1, 2, 3, 4]})
    for trial in optimizer.suggest(4):
        optimizer.observe(trial, failed=word, message="size <= 3 is not satisfied: size = 4")
    assert optimizer.should_stop(IdenticalFailures(3)) is None
