"""Whatever an objective returns is recorded as what it is (reliability figure 10)."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from baco_like import Optimizer, Space
from baco_like.exceptions import Infeasible, TrialError
from baco_like.records.objective_values import finite_number, outcome_from, outcome_of_exception
from baco_like.records.trial import Outcome, Status, standard_error


class Hostile:
    def __repr__(self):
        raise RuntimeError("no")


class Breaking:
    def __float__(self):
        raise ValueError("no")


FAILING: list[Any] = [
    None,
    math.nan,
    math.inf,
    -math.inf,
    np.float32("nan"),
    np.float64("inf"),
    10**400,
    10**5000,
    -(10**400),
    True,
    False,
    np.True_,
    "",
    b"1.0",
    1j,
    object(),
    Hostile(),
    Breaking(),
    [],
    (),
    [1.0, math.nan],
    [1.0, None],
    [[1.0]],
    np.array([]),
    np.array([1.0, np.nan]),
    np.ones((2, 2)),
    {1.0},
    {"value": None},
    {"value": [1.0, "x"]},
]


@pytest.mark.parametrize("value", FAILING, ids=lambda value: type(value).__name__)
def test_what_is_no_finite_number_is_a_failure_that_says_so(value):
    outcome = outcome_from(7, value)
    assert outcome.problem
    assert (outcome.trial_id, outcome.status, outcome.failed) == (7, Status.FAILED, "runtime")
    assert outcome.value is None
    assert outcome.message
    assert "\n" not in outcome.message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (-0.5, -0.5),
        (1e300, 1e300),
        (5e-324, 5e-324),
        (2**53 + 2, float(2**53 + 2)),
        (np.float32(0.5), 0.5),
        (np.int64(-4), -4.0),
        (np.array(2.5), 2.5),
        (Fraction(1, 4), 0.25),
        (Decimal("0.125"), 0.125),
    ],
)
def test_numbers_become_plain_floats(value, expected):
    outcome = outcome_from(0, value)
    assert outcome.status is Status.OK
    assert outcome.value == expected
    assert type(outcome.value) is float
    assert [type(repeat) for repeat in outcome.repeats] == [float]
    assert outcome.sem is None


@pytest.mark.parametrize("repeats", [[3, 1.0, 2], (3, 1.0, 2), np.array([3.0, 1.0, 2.0])])
def test_repeats_are_kept_in_order_and_their_median_counts(repeats):
    outcome = outcome_from(0, repeats)
    assert outcome.repeats == (3.0, 1.0, 2.0)
    assert outcome.value == 2.0
    assert outcome.sem == pytest.approx(1 / math.sqrt(3))


def test_a_mapping_of_metrics():
    value = {"time": [1, 2, 3], "energy": np.array([4.0, 6.0]), "note": "cold", "bad": math.nan}
    outcome = outcome_from(0, value, "time", extra={"host": "a"})
    assert outcome.value == 2.0
    assert dict(outcome.metrics) == {"energy": 5.0}
    assert dict(outcome.extra) == {"host": "a", "metrics": {"note": "'cold'", "bad": "nan"}}


def test_a_mapping_without_the_objective_is_an_error():
    with pytest.raises(
        TrialError, match="objective 'value' is not among the metrics: time, energy"
    ):
        outcome_from(0, {"time": 1.0, "energy": 2.0})


def test_a_text_is_the_failures_message():
    outcome = outcome_from(0, "  CompilationFailed ")
    assert (outcome.failed, outcome.message) == ("runtime", "CompilationFailed")
    assert outcome.problem == "the value ' CompilationFailed ' is a text, not a number"


def test_no_message_is_an_empty_message():
    assert outcome_from(0, 1.0, message=None).message == ""
    assert outcome_from(0, failed="compile", message=None).message == ""


def test_the_message_of_a_repeat_names_its_place():
    outcome = outcome_from(0, [1.0, 2.0, math.nan])
    assert outcome.message == "repeat 3 of 3: the value nan is not a finite number"


def test_exceptions_as_values():
    assert outcome_from(0, ValueError("a\nb")) == Outcome.failure(0, "runtime", "ValueError: a b")
    assert outcome_from(0, KeyError()) == Outcome.failure(0, "runtime", "KeyError")
    told = Infeasible("no room", failed="constraints")
    assert outcome_from(0, told) == Outcome.failure(0, "constraints", "no room")
    assert outcome_of_exception(3, OSError("x"), "compile").failed == "compile"


def test_failures_that_are_told():
    assert outcome_from(0, failed=True).failed == "runtime"
    assert outcome_from(0, failed="compile", message="log") == Outcome.failure(0, "compile", "log")
    assert outcome_from(0, failed="my own word").failed == "my own word"
    assert outcome_from(0, 1.0, failed=False).status is Status.OK


def test_bounds_are_censored():
    expected = Outcome.censored(0, 10.0, "timeout", "slow")
    assert outcome_from(0, failed="timeout", bound=10, message="slow") == expected
    assert outcome_from(0, bound=10, message="slow") == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"value": 1.0, "failed": "compile"}, "not both"),
        ({"value": 1.0, "bound": 2.0}, "not both"),
        ({"bound": math.nan}, "bound nan is not a finite number"),
        ({"failed": "timeout", "bound": "10"}, "not a finite number"),
        ({"failed": ""}, "give a word"),
        ({"failed": 3}, "give a word"),
    ],
)
def test_contradictions_are_errors(arguments, message):
    with pytest.raises(TrialError, match=message):
        outcome_from(0, **arguments)


def test_nothing_of_the_callers_is_changed():
    extra = {"metrics": {"a": "1"}}
    value = {"value": 1.0, "b": None}
    outcome_from(0, value, extra=extra)
    assert extra == {"metrics": {"a": "1"}}
    assert value == {"value": 1.0, "b": None}


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.just("value"), inner, min_size=1)
    ),
    max_leaves=5,
)


@given(anything)
def test_best_is_never_nan_whatever_is_observed(value):
    assume(not isinstance(value, list) or not any(isinstance(entry, dict) for entry in value))
    outcome = outcome_from(1, value)
    if outcome.status is Status.OK:
        assert math.isfinite(outcome.value)
        assert all(math.isfinite(repeat) for repeat in outcome.repeats)
    else:
        assert outcome.status is Status.FAILED
        assert outcome.value is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_finite_floats_stay_bit_for_bit(value):
    assert finite_number(value) == value
    assert math.copysign(1, outcome_from(0, value).repeats[0]) == math.copysign(1, value)


def test_texts_among_the_metrics_need_a_mapping_to_be_kept_in():
    with pytest.raises(TrialError, match=r"extra\['metrics'\] = \[1\].*another key"):
        outcome_from(0, {"value": 1.0, "note": "x"}, extra={"metrics": [1]})


def test_small_repeats_have_a_standard_error():
    found = outcome_from(0, [1e-200, 2e-200])
    assert found.sem == pytest.approx(5e-201)
    assert standard_error((5e-324, 1.5e-323)) == 5e-324


@pytest.mark.parametrize("message", [ValueError("gone"), b"gone", "gone"])
def test_a_message_is_whatever_a_script_has_at_hand(message):
    assert outcome_from(0, failed="compile", message=message).message == "gone"


def test_the_message_for_a_number_in_a_text_has_a_remedy():
    assert (
        outcome_from(0, "1.5").message == "the value '1.5' is a text; convert it with float('1.5')"
    )


def test_a_list_of_mappings_is_refused():
    with pytest.raises(TrialError, match=r"list of mappings.*\{'time': \[1.2, 1.3\], ...\}"):
        outcome_from(0, [{"time": 1.0, "size": 2.0}, {"time": 1.1, "size": 2.0}], "time")
    opt = Optimizer(Space({"a": [1, 2]}), {"time": "minimize"}, strategy="random_search")
    trial = opt.suggest()
    with pytest.raises(TrialError):
        opt.observe(trial, [{"time": 1.0}, {"time": 1.1}])
    assert opt.pending == [trial]
    opt.observe([trial, opt.suggest()], [{"time": 1.0}, {"time": 1.1}])  # two trials
    assert [t.value for t in opt.trials] == [1.0, 1.1]
