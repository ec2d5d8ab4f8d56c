"""Kernels in OpenCL: the kernels of examples/kernels are correct, and every fault is reported."""

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import patient
import pytest
from kernel_checks import KERNELS, evaluate, evaluate_once, load

from baco_like.evaluators import OpenCLSettings, Repeats, opencl_evaluator
from baco_like.evaluators.kernels import complete_config
from baco_like.evaluators.kernels import opencl_worker as programs
from baco_like.evaluators.kernels.opencl_worker import find_device
from baco_like.evaluators.kernels.timing import KernelLimits
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Status
from baco_like.spaces.space import Space

cl = pytest.importorskip("pyopencl")

HERE = Path(__file__).parent
SIZE = 64
convolution, gemm = load("opencl_convolution"), load("opencl_gemm")
MODULES = {"convolution": convolution, "gemm": gemm}


def platforms():
    try:
        return [platform.name for platform in cl.get_platforms()]
    except cl.Error:
        return []


needs_device = pytest.mark.skipif(not platforms(), reason="needs an OpenCL driver such as PoCL")


def settings(problem, **changed):
    return OpenCLSettings(problem, SIZE, repeats=Repeats(2), **{"build_timeout": 60.0, **changed})


CONFIGS = {
    "convolution": [
        {},
        {"block_size_x": 48, "block_size_y": 4, "tile_size_x": 3, "tile_size_y": 2}
        | {"use_shmem": True, "use_padding": True, "use_cmem": False},
    ],
    "gemm": [
        {"VWM": 2, "STRM": True, "NDIMB": 16, "SB": True, "MWG": 32},
        {"MWG": 32, "NWG": 64, "KWG": 32, "MDIMA": 16, "KWI": 8, "VWM": 2, "VWN": 4}
        | {"STRN": True, "SA": True},
    ],
}


@needs_device
@pytest.mark.parametrize("problem", MODULES)
def test_example_kernels_are_correct(problem):
    space = MODULES[problem].space(SIZE)
    evaluator = opencl_evaluator(space, settings(f"opencl_{problem}.py"), KERNELS)
    for config in CONFIGS[problem]:
        assert space.contains(complete_config(problem, MODULES[problem].domains(), config))
        outcome = evaluate(evaluator, config)
        assert outcome.status is Status.OK, (config, outcome.message)
        assert len(outcome.repeats) == 2
    evaluator.close()


FAULTS = [
    (3, 8, "correctness", "instead of"),
    (0, 8, None, ""),
    (1, 8, "compile", "no_such_function"),
    (2, 8, "runtime", "OutOfResources: 4194304 bytes of local memory"),
    (0, 48, "runtime", "INVALID_WORK_GROUP_SIZE"),  # 48 does not divide 64
    (4, 8, "runtime", "ended by SIG"),
]


@needs_device
def test_what_a_kernel_may_do():
    space = Space({"fault": list(range(6)), "group": [8, 48]})
    evaluator = opencl_evaluator(space, settings("opencl_problem.py", timeout=0.5), HERE)
    for fault, group, word, message in FAULTS:
        config = {"fault": fault, "group": group}
        outcome = evaluate_once(evaluator, config, patient.says(message))
        assert outcome.failed == word, (fault, group, outcome.message)
        assert message in outcome.message
    evaluator.close()


@needs_device
def test_a_buffer_of_twice_the_cache_is_filled_before_each_launch(monkeypatch):
    events = []
    fill, launch = cl.enqueue_fill_buffer, cl.enqueue_nd_range_kernel

    def noted_fill(queue, buffer, *more):
        events.append(buffer.size)
        return fill(queue, buffer, *more)

    def noted_launch(queue, *more):
        events.append("launch")
        return launch(queue, *more)

    monkeypatch.setattr(cl, "enqueue_fill_buffer", noted_fill)
    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", noted_launch)
    monkeypatch.setattr(programs, "_disable_compiler_caches", lambda: None)
    problem = {"path": str(KERNELS / "opencl_gemm.py"), "constants": {}, "size": SIZE, "seed": 0}
    server = programs.serve(
        {"problem": {**problem, "tolerances": {}}, "limits": asdict(KernelLimits(60.0, 60.0, 60.0))}
        | {"restore": "auto", "flush": True, "platform": "", "device": 0, "options": []}
    )
    report = SimpleNamespace(stage=lambda *_: None, note=lambda *_: None)
    server({"config": complete_config("gemm", gemm.domains(), {}), "key": 0, "drop": []}, report)
    request = dict.fromkeys(("launch", "timeout", "enough", "near"), 60.0) | {"grace": 0.0}
    answer = server({"key": 0, "count": 2, **request}, report)
    assert answer["problem"] is None
    cache = find_device("", 0).global_mem_cache_size
    before = [events[i - 1] for i, event in enumerate(events) if event == "launch"]
    assert len(before) >= 4
    assert all(size >= 2 * cache for size in before)


@needs_device
def test_each_launch_has_another_copy_of_the_arrays(monkeypatch):
    used, set_arg = [], cl.Kernel.set_arg

    def noted_set_arg(kernel, number, value):
        if number == 0:
            used.append(value.int_ptr)
        set_arg(kernel, number, value)

    monkeypatch.setattr(cl.Kernel, "set_arg", noted_set_arg)
    monkeypatch.setattr(programs, "_disable_compiler_caches", lambda: None)
    problem = {"path": str(KERNELS / "opencl_gemm.py"), "constants": {}, "size": 512, "seed": 0}
    server = programs.serve(
        {"problem": {**problem, "tolerances": {}}, "limits": asdict(KernelLimits(60.0, 60.0, 60.0))}
        | {"restore": "auto", "flush": "rotate", "platform": "", "device": 0, "options": []}
    )
    report = SimpleNamespace(stage=lambda *_: None, note=lambda *_: None)
    server({"config": complete_config("gemm", gemm.domains(), {}), "key": 0, "drop": []}, report)
    request = dict.fromkeys(("launch", "timeout", "enough", "near"), 60.0) | {"grace": 0.0}
    answer = server({"key": 0, "count": 3, **request}, report)
    assert answer["problem"] is None
    assert len(set(used[:4])) == 4


@needs_device
def test_a_first_launch_has_the_limit_of_the_build():
    """Some drivers compile during it, so that its time is no bound."""
    space = Space({"fault": list(range(6)), "group": [8, 48]})
    chosen = settings("opencl_problem.py", timeout=0.5, build_timeout=2.0)
    evaluator = opencl_evaluator(space, chosen, HERE)
    outcome = evaluate(evaluator, {"fault": 5, "group": 8}, lambda outcome: True)
    evaluator.close()
    assert (outcome.status, outcome.failed) == (Status.FAILED, "timeout")


@needs_device
def test_the_platform_is_chosen_by_name():
    space = convolution.space(SIZE)
    some = platforms()[0]
    for wanted, message in (
        ({"platform": "no such"}, f"no OpenCL platform is named 'no such'.*{some}"),
        ({"platform": some[2:].upper(), "device": 99}, f"{some}.* has no device 99"),
    ):
        evaluator = opencl_evaluator(space, settings("opencl_convolution.py", **wanted), KERNELS)
        with pytest.raises(EvaluatorError, match=message):
            evaluate(evaluator, {})
        evaluator.close()


def test_the_references_are_what_they_say():
    image, weights = convolution.inputs(20, np.random.default_rng(1))
    windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape)
    sums = np.einsum("yxvu,vu->yx", windows, weights)
    assert np.allclose(convolution.expected(image, weights), sums, atol=1e-5)
    a, b = gemm.inputs(16, np.random.default_rng(2))  # A by columns, B by rows, C by columns
    assert np.allclose(gemm.expected(a, b).T, np.einsum("km,kn->mn", a, b), atol=1e-5)


@pytest.mark.parametrize("answer", ["an error", "an empty list"])
def test_a_machine_without_a_platform_is_told_of_pocl(monkeypatch, answer):
    def get_platforms():
        if answer == "an error":
            raise cl.Error("PLATFORM_NOT_FOUND_KHR")
        return []

    monkeypatch.setattr(cl, "get_platforms", get_platforms)
    with pytest.raises(EvaluatorError, match=r"no OpenCL platform.*apt install pocl-opencl-icd"):
        find_device("", 0)
