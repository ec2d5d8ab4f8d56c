"""Each bench gives the verdicts of bench_cases; the cases of CUDA run with the tests that need a GPU.

A kernel of OpenCL takes half a second to build: of its cases, one of three is for every run, the others are nightly.
"""

import contextlib
import ctypes
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import bench_cases
import numpy as np
import pytest
from kernel_checks import evaluate, evaluate_once

from baco_like.evaluators import (
    CKernelEvaluator,
    CKernelSettings,
    CudaSettings,
    OpenCLSettings,
    Repeats,
    cuda_evaluator,
    load_problem,
    opencl_evaluator,
)
from baco_like.evaluators.comparison import Expected
from baco_like.evaluators.kernels import c_worker as programs
from baco_like.evaluators.kernels.arguments import Arguments, HostBlock
from baco_like.evaluators.kernels.problems import draw_three
from baco_like.evaluators.kernels.timing import CacheFlush, KernelLimits, Measurement
from baco_like.exceptions import EvaluatorError
from baco_like.spaces.space import Space

FILE = Path(__file__).with_name("bench_cases.py")
MAKE = {
    "c": (CKernelEvaluator, CKernelSettings),
    "opencl": (opencl_evaluator, OpenCLSettings),
    "cuda": (cuda_evaluator, CudaSettings),
}


def has_device(language):
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


def make(language, group, **changed):
    function, settings = MAKE[language]
    numbers = [number for name, number in bench_cases.cases(language) if name == group]
    constants = {"GROUP": group, "LANGUAGE": language}
    common = {"repeats": Repeats(2), "timeout": 20.0, "constants": constants, **changed}
    return function(Space({"case": [*numbers, 99]}), settings(FILE, 1, **common))


EVALUATORS = {}


@pytest.fixture(scope="module", autouse=True)
def shared():
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
                *([pytest.mark.nightly] if language == "opencl" and place % 3 else []),
                pytest.mark.skipif(
                    not has_device(language), reason=f"needs a device of {language}"
                ),
            ],
        )
        for language in MAKE
        for place, case in enumerate(bench_cases.cases(language))
    ],
)
def test_verdict(language, group, number):
    if (language, group) not in EVALUATORS:
        EVALUATORS[language, group] = make(language, group)
    case = bench_cases.GROUPS[group][1][number]
    EVALUATORS[language, group].recall([])  # the case may win
    judge = evaluate if language == "c" else evaluate_once  # a new process of OpenCL takes a second
    outcome = judge(EVALUATORS[language, group], {"case": number})
    assert outcome.failed == case.word, outcome.message
    assert case.message in outcome.message
    assert case.word is not None or all(value > case.least for value in outcome.repeats), outcome


PROBLEM = """
import numpy as np
from baco_like.evaluators.kernels import InOut, Input, Output, Scalar
{declared}
def inputs(size, rng):
    return {inputs}

def expected(*values):
    return {expected}

def source(config, size):
    return "void kernel(void *a, void *b) {{ no C, as none of these is compiled }}"
"""


@pytest.mark.skipif(not has_device("c"), reason="needs a C compiler")
@pytest.mark.parametrize(
    ("inputs", "expected", "declared", "message"),
    [
        ("np.ones(3, np.longdouble),", "np.ones(3)", "", "argument 0 has elements of type"),
        ("np.array(['a']),", "np.ones(3)", "", "argument 0 has elements of type"),
        ("np.ones(3, '>f4'),", "np.ones(3)", "", "argument 0 has elements of type >f4"),
        ("np.ones(3),", "np.empty(0)", "", "argument 1 is empty"),
        ("np.ones(3),", "np.full(2, np.nan)", "", "argument 1 are NaN"),
        ("np.ones(rng.integers(1, 3), rng.choice(['i4', 'f4'])),", "np.ones(3)", "", None),
        (
            "np.ones(3),",
            "np.ones(3)",
            "[Input()]",
            "expected returns 1 values, but arguments declares 0",
        ),
        ("np.ones(3),", "np.ones(4)", "[InOut()]", "argument 0 starts as float64"),
        ("2,", "np.ones(3)", "[Scalar('float128'), Output()]", "has the type 'float128'"),
        ("np.ones(3),", "np.ones(3)", "[Scalar('int32'), Output()]", "argument 0 is a scalar, but"),
        ("2,", "np.ones(3)", "[Scalar('bfloat16'), Output()]", "has the type 'bfloat16'"),
        (
            "np.ones(3),",
            "np.ones(3)",
            "[Input(alignment=4), Output()]",
            "alignment 4: expected a power of two from 8 to",
        ),
        (
            "np.ones(3),",
            "np.ones(3)",
            "[Input(), Output(alignment=128)]",
            "argument 1 has the alignment 128",
        ),
    ],
)
def test_unsupported_arguments_end_the_run_before_anything_is_compiled(
    tmp_path, inputs, expected, declared, message
):
    file = tmp_path / "problem.py"
    text = f"def arguments(size):\n    return {declared}\n" if declared else ""
    file.write_text(PROBLEM.format(declared=text, inputs=inputs, expected=expected))
    problem = load_problem(file)
    description = {"size": 1, "seed": 0, "tolerances": {}}
    if message is None:
        draws = [draw_three(problem, {**description, "seed": seed}) for seed in range(20)]
        assert any(a[0].like.dtype != b[0].like.dtype for a, b, _ in draws)
        for draw in draws:
            with contextlib.suppress(EvaluatorError):
                Arguments(draw, HostBlock, "auto")
                assert len({each[0].like.dtype for each in draw}) == 1
        return
    with pytest.raises(EvaluatorError, match=re.escape(message)):
        draw_three(problem, description)


@pytest.mark.skipif(not has_device("c"), reason="needs a C compiler")
@pytest.mark.parametrize("is_compiled", [True, False])
def test_an_unsupported_argument_is_an_error_of_the_evaluator(tmp_path, is_compiled):
    file = tmp_path / "problem.py"
    text = {"declared": "", "inputs": "np.ones(3, np.longdouble),", "expected": "np.ones(3)"}
    file.write_text(PROBLEM.format(**text))
    flags = () if is_compiled else ("-no-such-flag",)
    evaluator = CKernelEvaluator(Space({"x": [1, 2]}), CKernelSettings(file, 1, flags=flags))
    for _ in range(2):
        with pytest.raises(EvaluatorError, match="argument 0 has elements of type"):
            evaluate(evaluator, {"x": 1})
    evaluator.close()


@pytest.mark.parametrize("language", ["c", "opencl"])
def test_flushing_runs_and_changes_no_verdict(language):
    if not has_device(language):
        pytest.skip(f"needs a device of {language}")
    evaluator = make(language, "plain", flush=True)
    failures = [evaluate_once(evaluator, {"case": number}).failed for number in (0, 1)]
    assert failures == [None, "correctness"]
    evaluator.close()


def test_a_flush_writes_twice_the_largest_cache():
    flush = CacheFlush()
    for number in range(3):
        assert (flush._buffer == number).all()
        flush()
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    caches = [int(size.read_text().strip()[:-1]) * 1024 for size in sizes]  # such as 512K
    assert flush._buffer.nbytes >= 2 * max(caches, default=0)


def copy_kernel(folder, flush=None):
    """Return a kernel that copies 37 numbers and counts its launches, and the count."""
    file, library = folder / "problem.py", folder / "kernel.so"
    text = {
        "declared": "",
        "inputs": "rng.integers(1, 9, 37).astype('i4'),",
        "expected": "values[0]",
    }
    file.write_text(PROBLEM.format(**text))
    source = "int launches; void kernel(const int *a, int *b) { launches++; for (int i = 0; i < 37; i++) b[i] = a[i]; }"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(library)]
    subprocess.run(command, input=source, text=True, check=True)
    launches = ctypes.c_int.in_dll(ctypes.CDLL(str(library)), "launches")
    draws = draw_three(load_problem(file), {"size": 1, "seed": 0, "tolerances": {}})
    harness = programs.Harness(["cc"])
    harness.start(draws[0])
    harness.load(60.0)
    arguments = Arguments(draws, HostBlock, "auto")
    return programs.CKernel(str(library), harness, arguments, flush), launches


def measure(kernel, count):
    """Return the problem of a kernel after so many samples."""
    request = dict.fromkeys(("launch", "timeout", "enough", "near"), 10.0)
    report = SimpleNamespace(stage=lambda *_: None, note=lambda *_: None)
    measurement = Measurement(kernel, KernelLimits(10.0, 10.0, 10.0, 2))
    return measurement({**request, "count": count, "grace": 0.0}, report)["problem"]


@pytest.mark.skipif(not has_device("c"), reason="needs a C compiler")
def test_a_write_after_the_return_of_a_kernel_is_found(tmp_path):
    kernel, _ = copy_kernel(tmp_path)
    _, output = kernel.arguments.blocks
    for place in (0, 31, 32, 147):
        kernel.arguments.place()
        kernel.time(1, 10.0)
        assert kernel.problem() is None
        output.array[place] ^= 0x80
        assert kernel.problem() == "argument 1 was still written after the kernel had returned"


@pytest.mark.skipif(not has_device("c"), reason="needs a C compiler")
def test_equal_results_are_compared_once(tmp_path, monkeypatch):
    kernel, launches = copy_kernel(tmp_path)
    compared, compare = [], Expected.compare

    def watch(expected, output):
        compared.append(launches.value)
        return compare(expected, output)

    monkeypatch.setattr(Expected, "compare", watch)
    assert measure(kernel, 30) is None
    assert 2 <= len(compared) <= 3  # of each draw one
    arguments = kernel.arguments
    arguments.place()
    kernel.time(1, 10.0)
    (known,) = kernel.digests().values()
    arguments.check(is_first=False, digests={1: known})
    arguments.blocks[1].array[0] += 1
    for digests, is_wrong in (({1: known}, False), ({1: known + 1}, True), ({}, True)):
        for _ in range(2):
            found = arguments.check(is_first=False, digests=digests)
            assert (found.problem is not None) is is_wrong


@pytest.mark.skipif(not has_device("c"), reason="needs a C compiler")
@pytest.mark.parametrize("flushes", [True, False])
def test_caches_are_emptied_before_each_launch(tmp_path, flushes):
    """A kernel of nanoseconds counts its launches; each flush finds one more."""
    found = []
    flush = (lambda: found.append(launches.value)) if flushes else None
    kernel, launches = copy_kernel(tmp_path, flush)
    assert (kernel.most_launches > 1) is not flushes
    assert measure(kernel, 2) is None
    assert launches.value >= 4  # the first one, a warm-up, two samples
    assert found == (list(range(launches.value)) if flushes else [])


@pytest.mark.skipif(not has_device("c"), reason="needs a C compiler")
@pytest.mark.parametrize(("flush", "word"), [("rotate", None), (False, "correctness")])
def test_each_launch_has_another_copy_of_the_arrays(tmp_path, flush, word):
    """The kernel is wrong if one of its launches 2 to 4 has the output of the launch before."""
    file = tmp_path / "problem.py"
    text = {
        "declared": "",
        "inputs": "rng.random(size, dtype='f4'),",
        "expected": "values[0]",
    }
    problem = PROBLEM.format(**text).partition("def source")[0]
    problem += """
def source(config, size):
    return '''#include <string.h>
    static void *last;
    static int launches;
    void kernel(const float *a, float *b) {
        memcpy(b, a, %d * sizeof *a);
        if (launches > 0 && launches < 4 && b == last) b[0] += 1;
        launches++, last = b;
    }''' % size
"""
    file.write_text(problem)
    chosen = CKernelSettings(file, 2**20, flush=flush, repeats=Repeats(3))
    evaluator = CKernelEvaluator(Space({"x": [1, 2]}), chosen)
    assert evaluate(evaluator, {"x": 1}).failed == word
    evaluator.close()


@pytest.mark.parametrize("restore", ["auto", "always"])
def test_copies_are_fresh_and_exceed_the_caches(tmp_path, restore):
    file = tmp_path / "problem.py"
    text = {
        "declared": "def arguments(size): return [Input(), Scalar('int32'), Output()]",
        "inputs": "(rng.random(size), 7)",
        "expected": "values[0] * 2",
    }
    file.write_text(PROBLEM.format(**text))
    draws = draw_three(load_problem(file), {"size": 64, "seed": 0, "tolerances": {}})
    arguments = Arguments(draws, HostBlock, restore, rotated=5000)
    arguments.place(is_new=True)
    arguments.restore()
    used = []
    for _ in range(14):
        values, _, output = arguments.blocks
        assert np.array_equal(values.array.view("f8"), draws[0][0].like)
        assert set(output.array) in ({0xFF}, {0x7A}, {0xFA})
        used.append(output.address)
        output.array.view("f8")[:] = 2 * values.array.view("f8")
        if restore == "always":
            values.array[:] = 0
        assert arguments.check(is_first=len(used) == 1).problem is None
        arguments.restore()
    assert len(set(used)) == 6  # 5,000 bytes are between two launches with the same one
    assert used[7:] == used[1:8]
    with pytest.raises(EvaluatorError, match="needs 3126 copies of the arrays, which have 1024"):
        Arguments(draws, HostBlock, restore, rotated=3_200_000)


@pytest.mark.skipif(not has_device("c"), reason="needs a C compiler")
@pytest.mark.parametrize(
    ("restore", "word"), [("always", None), ("auto", None), ("never", "correctness")]
)
def test_restoring_is_a_choice(restore, word):
    evaluator = make("c", "sort", restore=restore, flush=restore == "always")
    assert evaluate(evaluator, {"case": 0}).failed == word
    evaluator.close()
