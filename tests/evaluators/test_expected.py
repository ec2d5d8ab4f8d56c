"""Arrays against correct ones: which elements are right, and what the message says about the first wrong one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from baco_like.evaluators import comparison
from baco_like.evaluators.comparison import (
    BFLOAT16,
    Expected,
    from_bfloat16,
    to_bfloat16,
    type_name,
)
from baco_like.exceptions import EvaluatorError

NAN, INF = float("nan"), float("inf")
INTEGERS = arrays.integer_dtypes(endianness="=") | arrays.unsigned_integer_dtypes(endianness="=")
NUMBERS = (
    INTEGERS
    | arrays.boolean_dtypes()
    | arrays.floating_dtypes(endianness="=", sizes=(16, 32, 64))
    | arrays.complex_number_dtypes(endianness="=", sizes=(64, 128))
)
FILLED = NUMBERS.flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(max_dims=3, max_side=4))
)


def problem(output, expected, **tolerances):
    return Expected(expected, **tolerances).compare(np.asarray(output)).problem


@pytest.mark.parametrize(
    ("output", "expected", "wrong"),
    [
        ([1.0, 100.0], [1.0, 100.0], None),
        ([1.9, 100.0], [1.0, 100.0], None),  # 1 % of the largest
        ([2.1, 100.0], [1.0, 100.0], "element 0 is 2.1 instead of 1.0 (accepted error: 1)"),
        ([NAN, 1.0], [0.0, 1.0], "element 0 is nan"),
        ([INF, 1.0], [0.0, 1.0], "element 0 is inf"),
        ([NAN, INF, 1.0], [NAN, INF, 1.0], None),
        ([1.0, 2.0], [INF, 1.0], "element 0 is 1.0 instead of inf"),
        ([INF, 2.0], [INF, 1.0], "element 1 is 2.0"),  # an infinity is no scale for the others
        ([INF, 1.0], [-INF, 1.0], "element 0 is inf instead of -inf"),
        ([1.0, 1.0], [NAN, 1.0], "element 0"),
        ([0.009], [0.0], None),  # of zeros the tolerance is absolute
        ([0.011], [0.0], "element 0"),
        ([1.0], [1.0, 2.0], "1 numbers instead of 2"),
        ([[1, 2], [3, 4], [5, 6]], [[1, 2, 3], [4, 5, 6]], "the shape (3, 2) instead of (2, 3)"),
        ([1, 2, 3, 4], [[1, 2], [3, 4]], None),  # a file without a shape
        ([1 + 1j, NAN + 1j], [1 + 2j, NAN + 2j], "element 0 is (1+1j) instead of (1+2j)"),
        ([complex(1, NAN), 1], [1, 1], "element 0 is (1+nanj)"),
        ([complex(1, NAN), 1], [complex(NAN, 1), 1], "element 0"),
        ([complex(NAN, 3), 9], [complex(NAN, 4), 9], "element 0"),
        ([complex(INF, NAN), 1], [complex(INF, NAN), 1], None),
    ],
)
def test_right_and_wrong_results(output, expected, wrong):
    found = Expected(expected, tolerance=0.01).compare(np.array(output))
    assert found.problem is None if wrong is None else wrong in str(found.problem)
    assert (found.error <= 0.01) == (wrong is None)


def test_the_message_names_the_first_wrong_element():
    correct = np.arange(12, dtype=np.float32).reshape(3, 4)
    output = correct.copy()
    output[1, 2], output[2, 3] = 6.5, NAN
    text = (
        "element (1, 2) is 6.5 instead of 6.0 (accepted error: 0.00011); 2 of 12 elements are wrong"
    )
    assert problem(output, correct) == text
    whole = correct.astype(np.int64)
    output = whole.copy()
    output[2, 3] += 1
    assert problem(output, whole) == "element (2, 3) is 12 instead of 11; 1 of 12 elements is wrong"


@pytest.mark.parametrize("at", [0, comparison._CHUNK - 1, comparison._CHUNK, 2 * comparison._CHUNK])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_a_wrong_element_is_found_in_every_part_of_a_large_array(at, dtype):
    correct = np.ones(2 * comparison._CHUNK + 1, dtype)
    output = correct.copy()
    output[at] = 3
    assert f"element {at} is 3" in str(problem(output, correct))
    assert "1 of 65537 elements" in str(problem(output, correct))


@pytest.mark.parametrize(
    ("dtype", "accepted", "refused"),
    [
        (np.float16, 1e-3, 4e-3),
        (np.float32, 5e-6, 2e-5),
        (np.complex64, 5e-6, 2e-5),
        (np.float64, 5e-10, 2e-9),
        (np.complex128, 5e-10, 2e-9),
    ],
)
def test_the_default_follows_from_the_type(dtype, accepted, refused):
    correct = np.array([1.0, 0.25], dtype)
    for error, is_right in ((accepted, True), (refused, False)):
        assert (problem(correct + np.array([0, error], dtype), correct) is None) == is_right
        double = correct.astype(np.complex128) + np.array([0, error])  # the coarser type decides
        assert (problem(double, correct) is None) == is_right
    assert problem(correct + np.array([0, accepted], dtype), correct, tolerance=0) is not None
    assert problem(correct, correct, tolerance=0) is None


def test_an_explicit_tolerance_replaces_the_default():
    assert problem([1.000001], [1.0], atol=1e-7) is not None
    assert problem([1.0, 0.1], [1.0, 0.1 + 1e-6], default=1e-5) is None
    assert problem([1.0, 0.1], [1.0, 0.1 + 1e-6], default=1e-5, rtol=1e-9) is not None
    assert problem([7], [8], atol=1) is None
    assert problem([7], [8], tolerance=0.2) is None
    assert problem([True], [False], atol=1) is None
    assert problem([1.5], [1.0], tolerance=0.5, magnitude=2.0) is None


def test_errors_are_relative_to_the_magnitude():
    assert Expected([2, 4, 10], atol=9).compare(np.array([2, 4, 5])).error == 0.5
    assert Expected([2.0, INF], atol=9).compare(np.array([1.0, INF])).error == 0.5
    assert Expected([3 + 4j], atol=9).compare(np.array([3 + 3j])).error == pytest.approx(0.2)
    assert Expected([1.0], atol=9, magnitude=4.0).compare(np.array([2.0])).error == 0.25


@pytest.mark.parametrize(
    ("expected", "tolerances", "message"),
    [
        ([], {}, "the correct result is empty"),
        ([NAN, NAN], {}, "all elements of the correct result are NaN"),
        ([complex(NAN, 1)], {}, "all elements of the correct result are NaN"),
        (["a"], {}, "the correct result has the type <U1"),
        ([{}], {}, "the correct result has the type object"),
        ([1.0], {"rtol": -1.0}, "rtol = -1.0: expected a finite number, 0 or more"),
        ([1.0], {"tolerance": NAN}, "tolerance = nan"),
        (to_bfloat16([NAN]), {}, "all elements of the correct result are NaN"),
    ],
)
def test_references_that_check_nothing_are_refused(expected, tolerances, message):
    with pytest.raises(EvaluatorError, match=message):
        Expected(expected, **tolerances)


@given(FILLED)
def test_equal_arrays_are_right(array):
    parts = array.real, array.imag
    if any(np.isnan(part).all() for part in parts) or np.isnan(array).all():
        return
    found = Expected(array, tolerance=0).compare(array.copy())
    assert found == (0.0, None)
    assert Expected(array).compare(array) == (0.0, None)


@given(st.data(), INTEGERS | arrays.boolean_dtypes())
def test_one_changed_integer_is_wrong(data, dtype):
    array = data.draw(arrays.arrays(dtype, arrays.array_shapes(max_dims=3, max_side=4)))
    at = data.draw(st.integers(0, array.size - 1))
    values = arrays.from_dtype(array.dtype).filter(lambda value: value != array.flat[at])
    value = data.draw(values)
    changed = array.copy()
    changed.flat[at] = value
    text = str(problem(changed, array))
    index = tuple(map(int, np.unravel_index(at, array.shape))) if array.ndim > 1 else at
    assert text.startswith(f"element {index} is {value} instead of {array.flat[at]};")
    assert text.endswith(f"1 of {array.size} elements is wrong")


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)), min_size=1),
    st.booleans(),
)
def test_signed_and_unsigned_integers_are_compared_exactly(pairs, is_equal):
    signed = np.array([a for a, _ in pairs], np.int64)
    other = np.array([a % 2**63 if is_equal else b for a, b in pairs], np.uint64)
    wrong = sum(int(a) != int(b) for a, b in zip(signed, other, strict=True))
    text = problem(signed, other)
    assert (text is None) == (wrong == 0)
    if text:
        assert f"{wrong} of {len(pairs)} elements" in text


BOUNDED = st.floats(-1e6, 1e6) | st.sampled_from([NAN, INF, -INF, 0.0, -0.0])


@given(
    st.lists(st.tuples(BOUNDED, BOUNDED, st.floats(-1e-3, 1e-3)), min_size=1),
    st.floats(0, 1e-2),
    st.floats(0, 1.0),
    st.booleans(),
)
def test_rtol_and_atol_agree_with_numpy(rows, rtol, atol, is_complex):
    expected = np.array([a for a, _, _ in rows])
    with np.errstate(invalid="ignore"):
        output = expected * np.array([1 + step for _, _, step in rows])
    output = np.where([step > 0 for _, _, step in rows], output, [b for _, b, _ in rows])
    if is_complex:  # NaN in one part is more than numpy looks at
        parts = [np.nan_to_num(x, nan=5.0, posinf=6.0, neginf=7.0) for x in (expected, output)]
        expected, output = (x + 1j * x[::-1] for x in parts)
    if np.isnan(expected).all():
        return
    right = np.isclose(output, expected, rtol=rtol, atol=atol, equal_nan=True)
    text = problem(output, expected, rtol=rtol, atol=atol)
    assert (text is None) == right.all()
    if text:
        first = int(right.argmin())
        assert text.startswith(f"element {first} ")
        assert f"; {np.count_nonzero(~right)} of {right.size} elements" in text


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_bfloat16_is_the_nearest(values):
    single = np.array(values, np.float32)
    array = to_bfloat16(single)
    assert (type_name(array.dtype), array.dtype) == ("bfloat16", BFLOAT16)
    found = from_bfloat16(array)
    assert np.array_equal(to_bfloat16(found), array)  # what can be represented stays
    with np.errstate(over="ignore", invalid="ignore"):
        bits = array.view(np.uint16)
        for other in (bits + 1, bits - 1):  # both neighbours are not closer
            near = from_bfloat16(other.astype(np.uint16)).astype(float)
            is_closer = np.abs(near - single) < np.abs(found.astype(float) - single)
            assert not (is_closer & np.isfinite(near) & np.isfinite(found)).any()


def test_results_in_bfloat16():
    assert np.isnan(from_bfloat16(to_bfloat16(np.array([0x7FFFFFFF], np.uint32).view("f4"))))
    correct = to_bfloat16([[1.0, 2.0], [3.0, -4.0]])
    assert problem(correct, correct) is None
    near, far = to_bfloat16([[1.0, 2.0], [3.0, -4.03125]]), to_bfloat16([[1, 2], [3, -5]])
    assert problem(near, correct) is None
    assert problem(near, correct, tolerance=0) is not None
    text = "element (1, 1) is -5.0 instead of -4.0 (accepted error: 0.064); 1 of 4"
    assert text in str(problem(far, correct))
    named = np.dtype({"names": ["bfloat16"], "formats": [np.uint16]})  # the same type
    assert type_name(named) == "bfloat16"


def test_unusual_layouts():
    correct = np.arange(6.0).reshape(2, 3)
    assert problem(np.asfortranarray(correct), correct) is None
    assert problem(correct[:, ::-1], correct) is not None
    assert problem(np.array(3.5), np.array(3.0)) is not None
    assert problem(np.float32(3), np.array(3)) is None
