"""Each bench gives the verdicts of bench_cases; the cases of CUDA run with the tests that need a GPU."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bench_cases
import pytest
from kernel_checks import evaluate

from baco_like.evaluators import (
    CKernelEvaluator,
    CKernelSettings,
    CudaSettings,
    OpenCLSettings,
    Repeats,
    StagedEvaluator,
    cupy_evaluator,
    opencl_evaluator,
)
from baco_like.exceptions import EvaluatorError
from baco_like.spaces.space import Space

FILE = Path(__file__).with_name("bench_cases.py")
MAKE = {
    "c": (CKernelEvaluator, CKernelSettings),
    "opencl": (opencl_evaluator, OpenCLSettings),
    "cuda": (cupy_evaluator, CudaSettings),
}


def has_device(language: str) -> bool:
    if language == "c":
        return shutil.which("cc") is not None
    if importlib.util.find_spec({"opencl": "pyopencl", "cuda": "cupy"}[language]) is None:
        return False
    if language == "opencl":
        import pyopencl

        try:
            return bool(pyopencl.get_platforms())
        except pyopencl.Error:
            return False
    import cupy

    return bool(cupy.cuda.is_available())


def make(language: str, group: str, **changed: Any) -> StagedEvaluator:
    function, settings = MAKE[language]
    numbers = [number for name, number in bench_cases.cases(language) if name == group]
    constants = {"GROUP": group, "LANGUAGE": language}
    common = {"repeats": Repeats(2, 2), "timeout": 20.0, "constants": constants, **changed}
    return function(Space({"case": [*numbers, 99]}), settings(FILE, 1, **common))


EVALUATORS: dict[tuple[str, str], StagedEvaluator] = {}


@pytest.fixture(scope="module", autouse=True)
def shared() -> Iterator[None]:
    yield
    for evaluator in EVALUATORS.values():
        evaluator.close()
    EVALUATORS.clear()


@pytest.mark.parametrize(
    ("language", "group", "number"),
    [
        pytest.param(
            language,
            *case,
            id=f"{language}-{case[0]}-{bench_cases.GROUPS[case[0]][1][case[1]].name}",
            marks=[
                *([pytest.mark.gpu] if language == "cuda" else []),
                pytest.mark.skipif(not has_device(language), reason=f"needs a device of {language}"),
            ],
        )
        for language in MAKE
        for case in bench_cases.cases(language)
    ],
)
def test_verdict(language: str, group: str, number: int) -> None:
    if (language, group) not in EVALUATORS:
        EVALUATORS[language, group] = make(language, group)
    case = bench_cases.GROUPS[group][1][number]
    outcome = evaluate(EVALUATORS[language, group], {"case": number})
    assert outcome.failed == case.word, outcome.message
    assert case.message in outcome.message
    assert case.word is not None or all(value > 0 for value in outcome.repeats), outcome
