"""Problems are found by name or by file, and come with arrays that devices can take."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from baco_like.evaluators import halide
from baco_like.evaluators.gpu import opencl
from baco_like.evaluators.kernels.problems import completion, opened, resolved
from baco_like.exceptions import EvaluatorError, MissingExtra, RunFileError
from baco_like.spaces.space import Space

FILE = """
import numpy as np

def inputs(size, rng):
    return (rng.uniform(size=(size, 3)).T,)

def expected(a):
    return np.asfortranarray(2 * a)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path


def test_a_file_is_found_from_the_folder_and_its_arrays_are_contiguous(folder: Path) -> None:
    place = resolved("mine.py", "package", ("ours",), folder)
    assert place == str((folder / "mine.py").resolve())
    module, (array,), expected = opened(place, 4, seed=1)
    assert module.__name__ == "mine"
    assert array.flags.c_contiguous
    assert array.ctypes.data % 4096 == 0
    assert expected.flags.c_contiguous
    assert (expected == 2 * array).all()
    (again,) = opened(place, 4, seed=1)[1]
    assert (again == array).all()


def test_names_of_ours_are_modules(folder: Path) -> None:
    assert resolved("ours", "package", ("ours",), folder) == "package.ours"


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("our", RunFileError, "did you mean 'ours'"),
        ("absent.py", EvaluatorError, "there is no file"),
    ],
)
def test_others_are_told(folder: Path, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        resolved(name, "package", ("ours",), folder)


def test_configurations_of_a_users_file_are_left_as_they_are(folder: Path) -> None:
    place = resolved("mine.py", "package", (), folder)
    assert completion("mine.py", place, {})({"any": 1}) == {"any": 1}


def test_what_a_space_leaves_out_is_filled_in() -> None:
    space = Space({"vec": [1, 8]})
    complete = completion("blur", "baco_like.evaluators.halide.blur", space.parameters)
    filled = complete({"vec": 8})
    assert (filled["vec"], filled["tx"], filled["compute"]) == (8, 8, "inline")
    with pytest.raises(EvaluatorError, match="no parameter 'vek'; did you mean 'vec'"):
        complete({"vek": 8})


@pytest.mark.parametrize(("target", "extra"), [(halide, "halide"), (opencl, "opencl")])
def test_a_missing_package_is_told_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, target: object, extra: str
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    make = getattr(target, f"{extra}_evaluator")
    settings = target.Settings("ours", 8)  # type: ignore[attr-defined]
    with pytest.raises(MissingExtra, match=rf"baco-like\[{extra}\]"):
        make(Space({"vec": [1, 8]}), settings)
