"""CUDA kernels: timed on a fake device, compiled without a device, and run on a GPU where there is one."""

import importlib.util
import shutil
from pathlib import Path

import cuda_on_cpu
import numpy as np
import nvrtc_library
import patient
import pytest
from kernel_checks import KERNELS, load

from baco_like._tables import Table
from baco_like.evaluators import (
    CudaSettings,
    Repeats,
    StagedEvaluator,
    cuda_evaluator,
    registry,
)
from baco_like.evaluators.comparison import Expected
from baco_like.evaluators.kernels import complete_config
from baco_like.evaluators.kernels.cuda_worker import CompileError, Compiler
from baco_like.exceptions import EvaluatorError, MissingExtra
from baco_like.records.trial import Status, Trial
from baco_like.spaces.space import Space

HERE = Path(__file__).parent
NAMES = ("convolution", "gemm", "pnpoly", "hotspot")
MODULES = {name: load(f"cuda_{name}") for name in NAMES}
convolution, gemm, pnpoly, hotspot = MODULES.values()
SPACE = Space({"fault": list(range(6)), "group": [8, 16], "shared": [0, 65536]})


def has_device():
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    return bool(cupy.cuda.is_available())


needs_device = pytest.mark.skipif(not has_device(), reason="needs a CUDA device and CuPy")
needs_nvrtc = pytest.mark.skipif(
    nvrtc_library.LIBRARY is None, reason="needs the package nvidia-cuda-nvrtc-cu12"
)


def evaluate(evaluator, is_expected=None, **config):
    trial = Trial(1, {"fault": 0, "group": 8, "shared": 0, **config})
    return patient.evaluate(evaluator, trial, is_expected)


def settings(**changed):
    return CudaSettings("cuda_problem.py", 64, **{"repeats": Repeats(2), "timeout": 0.5, **changed})


@pytest.fixture
def gpu(monkeypatch):
    """A fake GPU for the worker; this process only finds its modules and never imports them."""
    monkeypatch.syspath_prepend(str(HERE / "fake_gpu"))
    monkeypatch.syspath_prepend(str(HERE))
    return monkeypatch


FAULTS = [
    ({"fault": 0}, None, ""),
    ({"fault": 0, "shared": 65536, "group": 16}, None, ""),
    ({"fault": 3}, "correctness", "instead of"),
    ({"fault": 1}, "compile", 'CompileError: kernel.cu(1): error: identifier "x" is undefined'),
    ({"fault": 2}, "runtime", "launch: cupy.CUDADriverError: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
    ({"fault": 4}, "runtime", "launch: exit code 70: CUDARuntimeError: cudaErrorIllegalAddress"),
    ({"fault": 0}, None, ""),  # in a new process: the context of the last one is of no more use
    ({"fault": 5}, "timeout", "run: stopped after 0.5 s"),
]


def test_what_a_kernel_may_do(gpu):
    evaluator = cuda_evaluator(SPACE, settings(), HERE)
    for config, word, message in FAULTS:
        outcome = evaluate(evaluator, patient.says(message), **config)
        assert outcome.failed == word, (config, outcome.message)
        assert message in outcome.message
        assert outcome.bound == (500.0 if word == "timeout" else None)
    evaluator.close()


def test_times_are_of_a_cold_cache_and_of_nothing_else(gpu):
    evaluator = cuda_evaluator(SPACE, settings(warmup=3), HERE)
    outcome = evaluate(evaluator, shared=65536)
    # 0.5 ms each of two launches, and 0.25 ms once for the cache; emptying it takes the fake device a second
    assert outcome.repeats == (1.25, 1.25)
    memory = {"registers": 40, "local_bytes": 8, "shared_bytes": 1024 + 65536}
    assert outcome.metrics == {"error": 0.0, **memory}
    evaluator.close()
    warm = cuda_evaluator(SPACE, settings(flush=False), HERE)
    assert evaluate(warm).repeats == (1.0, 1.0)
    warm.close()


def test_energy_beside_the_time(gpu):
    evaluator = cuda_evaluator(SPACE, settings(energy_seconds=1e-6), HERE)
    outcome = evaluate(evaluator)
    assert outcome.value == 1.25
    # half a joule in one batch of ten milliseconds
    assert outcome.metrics["energy"] == pytest.approx(0.5 / 8)
    assert outcome.metrics["power"] > 0
    evaluator.close()


@pytest.mark.parametrize("unit", ["ms", "mJ"])
def test_equal_programs_are_measured_once(gpu, unit):
    space = Space({**SPACE.parameters, "unused": [0, 1]})
    entries = {"energy_seconds": 1e-6, "problem": "cuda_problem.py", "repeats": 2}
    evaluator = registry.create(table(**entries), space, unit, HERE)
    base = {"fault": 0, "group": 8, "shared": 0, "unused": 0}
    configs = [base, base | {"unused": 1}, base | {"shared": 65536}, base | {"group": 16}]
    outcomes = []
    for number, config in enumerate(configs):
        evaluator.submit(Trial(number, config))
        outcomes += evaluator.wait()
    first, same, *others = outcomes
    assert (same.trial_id, same.extra["same_program"]) == (1, 0)
    assert (same.repeats, same.metrics) == (first.repeats, first.metrics)
    assert {"registers", "power"} <= same.metrics.keys()
    assert [other.extra.get("same_program") for other in others] == [None, None]
    evaluator.close()


@pytest.mark.parametrize("counter", ["there", "none"])
def test_energy_as_the_objective(gpu, counter):
    gpu.setenv("FAKE_COUNTER", counter)
    entries = {"energy_seconds": 1e-6, "energy_repeats": 3, "problem": "cuda_problem.py"}
    evaluator = registry.create(table(**entries, timeout=0.5, repeats=2), SPACE, "mJ", HERE)
    assert isinstance(evaluator, StagedEvaluator)
    outcome = evaluate(evaluator)
    assert len(outcome.repeats) == 3
    assert outcome.metrics["time"] == 1.25
    if counter == "there":
        assert outcome.value == pytest.approx(500 / 8)
    else:
        assert outcome.metrics["power"] == pytest.approx(200)
    late = evaluate(
        evaluator, patient.says("run:"), fault=5
    )  # half a second of time is not a bound of its energy
    assert (late.status, late.failed, late.bound) == (Status.FAILED, "timeout", None)
    evaluator.close()


@pytest.mark.parametrize(("unit", "faults"), [("ms", [6]), ("mJ", [7, 10])])
def test_forged_metrics_of_a_kernel_are_not_believed_and_the_run_goes_on(gpu, unit, faults):
    """The kernel writes an answer for its worker while its energy is measured."""
    entries = {"energy_seconds": 1e-6, "problem": "cuda_problem.py", "timeout": 5.0, "repeats": 2}
    evaluator = registry.create(table(**entries), SPACE, unit, HERE)
    for fault in faults:
        outcome = evaluate(evaluator, fault=fault)
        if unit == "mJ":
            assert (outcome.failed, outcome.value) == ("runtime", None), outcome
        else:  # the time was measured before
            assert outcome.value == 1.25, outcome
            assert "power" not in outcome.metrics
    honest = evaluate(evaluator)
    assert honest.status is Status.OK
    assert honest.metrics["registers"] == 40
    evaluator.close()


@pytest.mark.parametrize(
    ("capability", "device", "message"),
    [
        ("none", 0, "there is no CUDA device on this machine .cudaErrorInsufficientDriver"),
        ("90", 3, "there is no CUDA device 3, of 1"),
        ("999", 0, "NVRTC 12.6 with .'-arch=sm_999'. compiles nothing: nvrtc: error: invalid"),
    ],
)
def test_what_is_missing(gpu, capability, device, message):
    gpu.setenv("FAKE_CAPABILITY", capability)
    evaluator = cuda_evaluator(SPACE, settings(device=device), HERE)
    with pytest.raises(EvaluatorError, match=message):
        evaluate(evaluator)
    evaluator.close()


def test_packages_that_are_missing(monkeypatch):
    absent = set()
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in absent else object()
    )
    for package, seconds in (("cupy", None), ("pynvml", 1.0)):
        absent |= {package}
        with pytest.raises(MissingExtra, match=package):
            cuda_evaluator(SPACE, settings(energy_seconds=seconds), HERE)
        absent -= {package}


def test_a_bound_of_time_is_none_of_energy(gpu):
    with pytest.raises(EvaluatorError, match=r"slow_ratio = 2\.0: leave it out"):
        registry.create(
            table(problem="cuda_problem.py", slow_ratio=2.0, energy_seconds=1.0), SPACE, "mJ", HERE
        )


def table(**entries):
    return Table("evaluator", {"kind": "cuda", "problem": "cuda_gemm.py", "size": 64, **entries})


@pytest.mark.parametrize("module", MODULES.values())
def test_launches_are_such_as_a_device_takes(module):
    for config in module.space(128).sample(50, seed=2):
        full = complete_config("cuda", module.domains(), config)
        grid, block = module.launch(full, 128)
        assert min(grid) >= 1
        assert np.prod(block) <= 1024


def test_spaces_are_those_of_the_papers():
    sizes = {m.KERNEL: m.space(4096).size for m in MODULES.values()}
    assert sizes == {"convolution": 18432, "gemm": 82944, "pnpoly": 8184, "hotspot": 22200000}
    assert gemm.space(4096).feasible_size == 17956
    assert pnpoly.space(4096).feasible_size == 8184


@needs_nvrtc
@pytest.mark.parametrize("module", MODULES.values())
def test_example_kernels_compile(module):
    compiler = Compiler(nvrtc_library, "sm_80")
    config = complete_config("cuda", module.domains(), SMALL[module.KERNEL])
    binary = compiler.compile(module.SOURCE, module.KERNEL, {**config, **module.macros(256)})
    assert (binary.code[:4], binary.symbol) == (b"\x7fELF", module.KERNEL)


SMALL = {
    "convolution": {"block_size_x": 48, "tile_size_x": 2, "use_padding": True, "read_only": True},
    "gemm": {"MWG": 32, "VWM": 2, "NDIMB": 16, "SA": True, "SB": True},
    "pnpoly": {"between_method": 1, "use_method": 2, "use_precomputed_slopes": True},
    "hotspot": {"temporal_tiling_factor": 3, "loop_unroll_factor_t": 3, "sh_power": True}
    | {"tile_size_y": 2, "blocks_per_sm": 2},
}


@needs_nvrtc
def test_what_the_compiler_says():
    import cuda_problem as problem

    compiler = Compiler(nvrtc_library, "sm_80", ("--std=c++17",))
    binary = compiler.compile(problem.SOURCE, "twice<8>", {"fault": 0})
    assert binary.symbol.startswith("_Z5twiceILi8E")
    with pytest.raises(CompileError, match="no_such_function"):
        compiler.compile(problem.SOURCE, "twice<8>", {"fault": 1})
    large = {"block_size_x": 128, "block_size_y": 8, "tile_size_x": 8, "tile_size_y": 8}
    config = complete_config("cuda", hotspot.domains(), {**large, "temporal_tiling_factor": 4})
    with pytest.raises(CompileError, match="too much shared data"):
        compiler.compile(hotspot.SOURCE, "hotspot", {**config, **hotspot.macros(256)})
    for wrong in (Compiler(nvrtc_library, "sm_1"), Compiler(nvrtc_library, "sm_80", ("--foo",))):
        with pytest.raises(EvaluatorError, match="compiles nothing: nvrtc: error"):
            wrong.check()
    Compiler(nvrtc_library, "sm_1", ("-arch=sm_90",)).check()


def test_the_references_are_what_they_say():
    image, weights = convolution.inputs(20, np.random.default_rng(1))
    assert (image.shape, weights.shape) == ((34, 34), (15, 15))
    windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape)
    sums = np.einsum("yxvu,vu->yx", windows, weights)
    assert np.allclose(convolution.expected(image, weights), sums, atol=1e-4)
    temperature, power = hotspot.inputs(9, np.random.default_rng(2))
    assert np.allclose(hotspot.expected(temperature, power), stencil(temperature, power), atol=1e-5)
    points, star, slopes = pnpoly.inputs(500, np.random.default_rng(3))
    assert (points.dtype, star.shape, slopes.dtype) == (np.float32, (600, 2), np.float32)
    path = pytest.importorskip("matplotlib.path").Path(star)
    assert (pnpoly.expected(points, star, slopes) == path.contains_points(points)).all()


def stencil(temperature, power):
    """Compute the steps as flows between neighbours: a cell gains what its neighbour loses."""
    now = temperature.astype(float)
    for _ in range(hotspot.STEPS):
        across = hotspot.HORIZONTAL * np.diff(now, axis=1)
        along = hotspot.VERTICAL * np.diff(now, axis=0)
        now = now + hotspot.HEAT * power - hotspot.LEAK * now
        now[:, :-1] += across
        now[:, 1:] -= across
        now[:-1] += along
        now[1:] -= along
    return now


@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
@pytest.mark.parametrize("module", MODULES.values())
def test_example_kernels_are_correct_on_the_cpu(module, tmp_path):
    size = {"pnpoly": 700, "gemm": 64}.get(module.KERNEL, 45)
    config = complete_config("cuda", module.domains(), SMALL[module.KERNEL])
    arrays = module.inputs(size, np.random.default_rng(1))
    expected = module.expected(*arrays)
    result = cuda_on_cpu.run(module, config, size, arrays, expected, tmp_path)
    assert Expected(expected).compare(result).problem is None


@pytest.mark.gpu
@needs_device
@pytest.mark.parametrize("problem", NAMES)
def test_example_kernels_are_correct(problem):
    space = MODULES[problem].space(256)
    chosen = CudaSettings(f"cuda_{problem}.py", 256, repeats=Repeats(2), tolerance=1e-4)
    evaluator = cuda_evaluator(space, chosen, KERNELS)
    for config in [SMALL[problem], *space.sample(5, seed=1)]:
        evaluator.submit(Trial(1, config))
        (outcome,) = evaluator.wait()
        assert outcome.failed in (None, "compile", "runtime"), (config, outcome.message)
        if config is SMALL[problem]:
            assert outcome.status is Status.OK, outcome.message
    evaluator.close()


@pytest.mark.gpu
@needs_device
def test_what_a_kernel_may_do_to_a_device():
    evaluator = cuda_evaluator(SPACE, settings(timeout=2.0), HERE)
    for fault, word, message in (
        (3, "correctness", "instead of"),
        (1, "compile", "no_such_function"),
        (4, "runtime", "exit code 70"),
        (0, None, ""),
        (5, "timeout", "stopped after 2 s"),
        (0, None, ""),
    ):
        outcome = evaluate(evaluator, patient.says(message), fault=fault)
        assert (outcome.failed, message in outcome.message) == (word, True), outcome.message
    evaluator.close()
