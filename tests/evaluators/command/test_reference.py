"""Outputs against references, and the two through a command."""

import numpy as np
import pytest

from baco_like._tables import Table
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.command.reference import read_numbers
from baco_like.evaluators.comparison import Expected, to_bfloat16
from baco_like.evaluators.protocol import RunArguments
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space


@pytest.mark.parametrize(
    "dtype", ["text", "npy", "bfloat16", "float16", "float32", "int32", "uint64"]
)
def test_every_way_to_write_numbers(tmp_path, dtype):
    array = np.array([[1, 2, 3], [4, 5, 6]])
    place = tmp_path / "numbers.npy"
    if dtype == "text":
        place.write_text("1, 2, 3\n4 5\t6\n")
    elif dtype == "npy":
        np.save(place, array)
    elif dtype == "bfloat16":
        place.write_bytes(to_bfloat16(array).tobytes())
    else:
        place.write_bytes(array.astype(dtype).tobytes())
    assert Expected(array, tolerance=1e-9).compare(read_numbers(place, dtype)).problem is None


def evaluate(folder, says, **entries):
    table = Table(
        "evaluator",
        {
            "run": "cp {says} {workdir}/out",
            "measure": "wall",
            "output": "{workdir}/out",
            "reference": "right",
            **entries,
        },
    )
    evaluator = command.from_table(
        table, RunArguments(Space({"says": ["right", "wrong", "none"]}), "ms", folder)
    )
    evaluator.submit(Trial(0, {"says": says}))
    (outcome,) = evaluator.wait()
    return outcome


def test_a_command_with_a_reference(tmp_path):
    (tmp_path / "right").write_text("1 2 3")
    (tmp_path / "wrong").write_text("1 2 3.1")
    (tmp_path / "none").write_text("no numbers")
    assert evaluate(tmp_path, "right").failed is None
    wrong = evaluate(tmp_path, "wrong")
    assert wrong.failed == "correctness"
    assert wrong.message.startswith(
        "check: element 2 is 3.1 instead of 3 (accepted error: 3e-05); 1 of"
    )
    lenient = evaluate(tmp_path, "wrong", tolerance=0.1)
    assert lenient.failed is None
    assert lenient.metrics == {"error": pytest.approx(0.1 / 3)}
    named = evaluate(tmp_path, "right", metrics={"error": "size({workdir}/out)"})
    assert named.metrics == {"error": 5.0}  # the user's own metric
    strange = evaluate(tmp_path, "none")
    assert (strange.failed, "cannot be read" in strange.message) == ("correctness", True)
    absent = evaluate(tmp_path, "right", output="{workdir}/elsewhere")
    assert (absent.failed, "elsewhere" in absent.message) == ("correctness", True)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"dtype": "float64"}, "not a multiple of the size of float64"),
        ({"reference": "nan"}, r"all elements of \[evaluator\] reference = 'nan' are NaN"),
        ({"reference": "empty"}, r"reference = 'empty' is empty"),
    ],
)
def test_references_that_check_nothing(tmp_path, entries, message):
    for name, text in {"right": "1 2 3", "nan": "nan nan", "empty": ""}.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(EvaluatorError, match=message):
        evaluate(tmp_path, "right", **entries)


@pytest.mark.parametrize(
    ("reference", "output", "entries", "is_right"),
    [
        ("1152921504606846976", "1152921504606846977", {}, False),
        ("100000", "100001", {}, False),
        ("100000.0", "100001", {}, True),  # six digits of a float
        ("100000", "100001", {"tolerance": 1e-5}, True),
        ("1 2 3", "1 2 3", {"tolerance": 0}, True),
        ("1 2 3", "1 2 3.000001", {"tolerance": 0}, False),
        ("1 2 3", "1 2 3.000001", {"rtol": 1e-6}, True),
        ("1000 2", "1000 2.001", {"atol": 1e-4}, False),
        ("18446744073709551615 0", "18446744073709551614 0", {}, False),
        ("36893488147419103232 0", "36893488147419103232 0", {}, True),  # beyond 64 bits
    ],
)
def test_tolerances_of_texts(tmp_path, reference, output, entries, is_right):
    (tmp_path / "right").write_text(reference)
    (tmp_path / "wrong").write_text(output)
    outcome = evaluate(tmp_path, "wrong", **entries)
    assert (outcome.failed is None) == is_right, outcome.message
