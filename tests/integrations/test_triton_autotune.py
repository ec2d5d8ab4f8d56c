"""The decorator for Triton: keys, the file, constraints, correctness and slow configurations, in the interpreter.

On a machine with a CUDA device the kernels are compiled: ``pytest -m gpu tests/integrations/test_triton_autotune.py``.
"""

import json
import os

import pytest

pytest.importorskip("triton")
os.environ.setdefault("TRITON_INTERPRET", "1")

import torch
import triton
import triton.language as tl

from baco_like import BacoWarning
from baco_like.exceptions import RunFileError
from baco_like.integrations.triton import autotune


@triton.jit
def scale(x, out, n, BLOCK: tl.constexpr, WRONG: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    if WRONG:
        inside = place < n // 2
    tl.store(out + place, 2 * tl.load(x + place, mask=inside), mask=inside)


@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    tl.store(x + place, 2 * tl.load(x + place, mask=inside), mask=inside)


class Bench:
    """Stands for ``do_bench``: it launches, and the larger the block, the faster."""

    def __init__(self):
        self.calls = 0

    def __call__(self, launch, quantiles):
        self.calls += 1
        launch()
        return [10.0 - self.calls / 10, 0.0, 0.0]


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def launch(kernel, n=100):
    x, out = torch.arange(float(n)), torch.zeros(n)
    kernel[grid](x, out, n, WRONG=False)
    assert torch.equal(out, 2 * x)


BLOCKS = {"BLOCK": [16, 32, 64], "num_warps": [1, 2]}


@pytest.fixture
def options():
    return {"key": ["n"], "evaluations": 6, "do_bench": Bench(), "slow": None, "confirm": None}


def test_each_key_is_tuned_once_and_found_in_the_file(tmp_path, options):
    file = tmp_path / "tuned.json"
    kernel = autotune(BLOCKS, **options, file=file)(scale)
    for n in (100, 100, 200):
        launch(kernel, n)
    assert options["do_bench"].calls == 12
    entries = json.loads(file.read_text())
    assert [entry["key"][0] for entry in entries] == [100, 200]
    assert entries[1]["ms"] == min(t.value for t in list(kernel.results.values())[1].trials)
    again = autotune(BLOCKS, **{**options, "do_bench": None}, file=file)(scale)
    launch(again, 200)
    assert again.best_config == kernel.best_config
    assert not again.results


def test_another_kernel_another_space_and_another_type_are_tuned(tmp_path, options):
    file = tmp_path / "tuned.json"
    launch(autotune(BLOCKS, **options, file=file)(scale))
    other = autotune({"BLOCK": [16, 32]}, **options, file=file)(scale)
    launch(other)
    assert len(other.results) == 1
    x = torch.ones(100, dtype=torch.float64)
    other[grid](x, torch.zeros_like(x), 100, WRONG=False)
    assert len(other.results) == 2
    assert len(json.loads(file.read_text())) == 3


def test_the_nearest_key_is_taken_with_a_warning(tmp_path, options):
    file = tmp_path / "tuned.json"
    for n in (100, 1000):
        launch(autotune(BLOCKS, **options, file=file)(scale), n)
    kernel = autotune(BLOCKS, **options, file=file, missing="nearest")(scale)
    with pytest.warns(BacoWarning, match="no result for n = 300.*the result for n = 100"):
        launch(kernel, 300)  # 300 / 100 < 1000 / 300
    launch(kernel, 300)  # one warning for a key
    assert not kernel.results
    assert kernel.best_config == json.loads(file.read_text())[0]["config"]
    nothing = autotune(BLOCKS, **options, file=tmp_path / "none.json", missing="nearest")(scale)
    launch(nothing, 300)
    assert not nothing.results


def test_constraints_read_parameters_and_sizes(options):
    limits = ["BLOCK <= n", "BLOCK * num_warps <= 64"]
    kernel = autotune(BLOCKS, **options, constraints=limits)(scale)
    launch(kernel, 40)
    (result,) = kernel.results.values()
    found = {(trial.config["BLOCK"], trial.config["num_warps"]) for trial in result.trials}
    assert found == {(16, 1), (16, 2), (32, 1), (32, 2)}


def test_a_configuration_that_leaves_the_output_unwritten_is_wrong(options):
    space = {"BLOCK": [16, 32], "WRONG": [False, True]}
    kernel = autotune(space, **options, outputs=["out"])(scale)
    x, out = torch.ones(64), torch.full((64,), 7.0)
    kernel[grid](x, out, 64)
    (result,) = kernel.results.values()
    assert {(t.config["WRONG"], t.failure) for t in result.trials} == {
        (False, None),
        (True, "correctness"),
    }
    assert torch.equal(out, 2 * x)


def test_a_reference_judges_the_default_too(options):
    space = {"BLOCK": [16, 32], "WRONG": [True, False]}
    arguments = {"outputs": ["out"], "reference": lambda x, out, n: 2 * x}
    kernel = autotune(space, **options, **arguments)(scale)
    kernel[grid](torch.ones(64), torch.zeros(64), 64)
    (result,) = kernel.results.values()
    assert result.trials[0].failure == "correctness"
    assert not kernel.best_config["WRONG"]


def test_a_kernel_that_changes_its_argument_runs_once_in_the_end(options):
    kernel = autotune({"BLOCK": [16, 32]}, **options, restore_value=["x"])(double)
    x = torch.ones(64)
    kernel[grid](x, 64)
    assert torch.equal(x, torch.full((64,), 2.0))
    (result,) = kernel.results.values()
    assert not [trial for trial in result.trials if trial.failure]


def test_a_slow_configuration_is_launched_once_more_only(options, monkeypatch):
    times = iter([1.0, 60.0, 3.0])
    monkeypatch.setattr("baco_like.integrations.triton._milliseconds", lambda launch: next(times))
    kernel = autotune({"BLOCK": [16, 32, 64]}, **{**options, "slow": 5.0})(scale)
    launch(kernel)
    (result,) = kernel.results.values()
    assert [trial.value for trial in result.trials] == [9.9, 60.0, 9.8]
    assert options["do_bench"].calls == 2


def test_a_failing_configuration_does_not_end_the_run(options):
    kernel = autotune({"BLOCK": [16, 24, 32]}, **options)(scale)  # 24: no power of two
    launch(kernel)
    (result,) = kernel.results.values()
    assert {t.config["BLOCK"] for t in result.trials if t.failure} == {24}
    with pytest.raises(RuntimeError, match=r"no configuration has run; the first: .*power of 2"):
        launch(autotune({"BLOCK": [24]}, **options)(scale))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": ["m"]}, "key: 'm' is not an argument of the kernel scale"),
        ({"outputs": ["y"]}, "outputs: 'y' is not"),
        ({"missing": "fail"}, "expected 'tune' or 'nearest'"),
        ({"evaluations": 0}, "evaluations"),
        ({"strategy": "bayesain"}, "bayesain"),
    ],
)
def test_wrong_settings_are_rejected_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        autotune(BLOCKS, **settings)(scale)


def test_a_tuned_parameter_is_not_passed(options):
    with pytest.raises(ValueError, match="BLOCK: the kernel scale tunes it"):
        autotune(BLOCKS, **options)(scale)[grid](torch.ones(4), torch.ones(4), 4, 16, False)


def test_another_file_is_not_overwritten(tmp_path, options):
    file = tmp_path / "other.json"
    file.write_text('{"a": 1}')
    with pytest.raises(RunFileError, match="does not hold results"):
        launch(autotune(BLOCKS, **options, file=file)(scale))
    assert file.read_text() == '{"a": 1}'


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu(tmp_path):
    if os.environ["TRITON_INTERPRET"] == "1":
        pytest.skip("set TRITON_INTERPRET=0")
    space = {"BLOCK": [128, 256, 512, 1024, 2048], "num_warps": [1, 2, 4, 8]}
    kernel = autotune(
        space,
        key=["n"],
        evaluations=12,
        file=tmp_path / "tuned.json",
        outputs=["out"],
        reference=lambda x, out, n, WRONG: 2 * x,
    )(scale)
    n = 2**22
    x = torch.rand(n, device="cuda")
    out = torch.zeros_like(x)
    kernel[grid](x, out, n, WRONG=False)
    assert torch.equal(out, 2 * x)
    (result,) = kernel.results.values()
    assert len(result.trials) >= 12
    assert result.recommended.value <= 1.1 * result.trials[0].value
