"""Outputs against references, and the two through a command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.command.reference import compare_numbers, read_numbers
from baco_like.evaluators.settings_table import RunArguments, Table
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("output", "reference", "wrong"),
    [
        ([1.0, 100.0], [1.0, 100.0], None),
        ([1.9, 100.0], [1.0, 100.0], None),  # 1 % of the largest
        ([2.1, 100.0], [1.0, 100.0], "element 0 is 2.1 instead of 1"),
        ([NAN, 1.0], [0.0, 1.0], "element 0 is nan"),
        ([INF, 1.0], [0.0, 1.0], "element 0 is inf"),
        ([NAN, INF, 1.0], [NAN, INF, 1.0], None),
        ([INF, 1.0], [-INF, 1.0], "element 0 is inf instead of -inf"),
        ([1.0, 1.0], [NAN, 1.0], "element 0"),
        ([0.009], [0.0], None),  # of a reference of zeros the tolerance is absolute
        ([0.011], [0.0], "element 0"),
        ([1.0], [1.0, 2.0], "1 numbers instead of 2"),
        ([], [], None),
    ],
)
def test_what_agrees(output: list[float], reference: list[float], wrong: str | None) -> None:
    found = compare_numbers(np.array(output), np.array(reference), 0.01)
    assert found.problem is None if wrong is None else wrong in str(found.problem)
    assert (found.error <= 0.01) == (wrong is None)


@pytest.mark.parametrize("dtype", ["text", "npy", "float32", "float64", "int32", "int64"])
def test_every_way_to_write_numbers(tmp_path: Path, dtype: str) -> None:
    array = np.array([[1, 2, 3], [4, 5, 6]])
    place = tmp_path / "numbers.npy"
    if dtype == "text":
        place.write_text("1, 2, 3\n4 5\t6\n")
    elif dtype == "npy":
        np.save(place, array)
    else:
        place.write_bytes(array.astype(dtype).tobytes())
    assert compare_numbers(read_numbers(place, dtype), array, 1e-9).problem is None


def evaluate(folder: Path, says: str, **entries: object) -> Outcome:
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


def test_a_command_with_a_reference(tmp_path: Path) -> None:
    (tmp_path / "right").write_text("1 2 3")
    (tmp_path / "wrong").write_text("1 2 3.1")
    (tmp_path / "none").write_text("no numbers")
    assert evaluate(tmp_path, "right").failed is None
    wrong = evaluate(tmp_path, "wrong")
    assert wrong.failed == "correctness"
    assert wrong.message.startswith("check: element 2 is 3.1 instead of 3")
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
    ("entries", "error", "message"),
    [
        ({"reference": "absent"}, EvaluatorError, "reference cannot be read"),
        ({"dtype": "float16"}, RunFileError, "did you mean 'float64'"),
        ({"dtype": "float64"}, EvaluatorError, "not a multiple of the size of float64"),
        ({"output": "a b"}, RunFileError, "one path"),
        ({"tolerance": -1}, RunFileError, "tolerance"),
    ],
)
def test_wrong_tables(
    tmp_path: Path, entries: dict[str, object], error: type[Exception], message: str
) -> None:
    (tmp_path / "right").write_text("1 2 3")
    with pytest.raises(error, match=message):
        evaluate(tmp_path, "right", **entries)
