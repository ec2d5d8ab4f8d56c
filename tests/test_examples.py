"""Every script and run file in `examples` runs, with a small budget."""

import importlib.util
import re
import shutil
from pathlib import Path

import forked
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
BUDGETS = {
    "halide_blur.py": "4",
    "opencl_gemm.py": "1",
    "compiler_flags.py": "4",
    "time_and_energy.py": "4",
    "study.py": "4",
    "soak.py": "8 2",
    "wrappers.py": "4",
}
"""Arguments of the scripts; by default 8 evaluations, of which models suggest some."""

SMALLER = {
    "matmul.toml": ("768", "384"),
    "function.toml": ("top = 2", "top = 2\nevaluations = 6"),
}
"""Replacements in the run files."""

NEED_COMPILER = {
    "build_choice.py",
    "own_loop.py",
    "loop_nest.py",
    "compiler_flags.py",
    "limits.py",
    "time_and_energy.py",
}


def skip_without_target(name):
    """Skip what needs a target that this machine does not have."""
    for package in ("halide", "helion", "triton", "tvm"):
        if name.startswith(package) and importlib.util.find_spec(package) is None:
            pytest.skip(f"needs the package {package}")
    if name.startswith("opencl"):
        cl = pytest.importorskip("pyopencl")
        try:
            cl.get_platforms()
        except cl.Error:
            pytest.skip("needs an OpenCL driver")
    if name.startswith("cuda"):
        cupy = pytest.importorskip("cupy")
        if not cupy.cuda.is_available():
            pytest.skip("needs a CUDA device")
    if name.startswith("passes") and not (shutil.which("opt-14") or shutil.which("opt")):
        pytest.skip("needs opt of LLVM")
    if name.startswith("mlir") and shutil.which("mlir-opt-14") is None:
        pytest.skip("needs mlir-opt of LLVM 14")
    if name.startswith("taco") and shutil.which("taco") is None:
        pytest.skip("needs the program taco")


def test_the_list_of_examples_is_complete():
    listed = set(re.findall(r"`(\w+\.(?:py|toml))`", (EXAMPLES / "README.md").read_text()))
    assert listed == {file.name for file in EXAMPLES.iterdir() if file.suffix in {".py", ".toml"}}


ELSEWHERE = {"ax_client.py", "ray_tune.py"}  # run in test_ax_node.py and test_ray_search.py
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.name not in ELSEWHERE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.name)
def test_script(script, tmp_path):
    if script.name in NEED_COMPILER and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    skip_without_target(script.name)
    done = forked.run("-W", "error", script, *BUDGETS.get(script.name, "8").split(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "best" in done.stdout


def shorter_copy(file, text, folder):
    """Write a run file with another text, beside links to all files that it may name."""
    (folder / "benchmarks").symlink_to(EXAMPLES.parent / "benchmarks")
    (folder / "examples").mkdir()
    for path in set(EXAMPLES.iterdir()) - {file}:
        (folder / "examples" / path.name).symlink_to(path)
    copy = folder / "examples" / file.name
    copy.write_text(text)
    return copy


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.name)
def test_run_file(file, tmp_path):
    skip_without_target(file.name)
    out = tmp_path / "out"
    text = re.sub(r"(?m)^repeats = \d+", "repeats = 2", file.read_text())
    text = re.sub(r"(?m)^max_repeats = \d+", "max_repeats = 3", text)
    copy = shorter_copy(file, text.replace(*SMALLER.get(file.name, ("", ""))), tmp_path)
    budget = "1" if file.name == "opencl.toml" else "3"  # to build a kernel takes half a second
    done = forked.run("-m", "baco_like", "tune", copy, "--budget", budget, "--out", out)
    assert done.returncode == 0, done.stderr
    assert {"run.jsonl", "best.json", "convergence.png"} <= {p.name for p in out.iterdir()}
