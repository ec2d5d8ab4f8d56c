"""The check of the CUDA bench on a GPU, as far as it needs none: plan, order, time limit, verdicts and output."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def gpu() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_gpu", ROOT / "benchmarks" / "check_gpu.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_gpu"] = module
    spec.loader.exec_module(module)
    return module


def test_only_missing_packages_are_installed(gpu: Any) -> None:
    assert gpu.missing_packages("12.4", lambda module: True) == []
    assert gpu.missing_packages("13.0", lambda module: module != "cupy") == ["cupy-cuda13x[ctk]"]
    assert len(gpu.missing_packages("12", lambda module: False)) == len(gpu.PACKAGES)


def test_the_conformance_list_comes_first_after_the_device(gpu: Any) -> None:
    files = [next((a for a in part.arguments if a.endswith(".py")), None) for part in gpu.PARTS]
    assert files[:2] == [None, "tests/evaluators/test_bench.py"]
    for file in files[1:]:
        text = (ROOT / file).read_text()
        assert "pytest.mark.gpu" in text


def run_parts(gpu: Any, results: list[tuple[str, str, float]], seconds: float) -> Any:
    now, lines, limits = [100.0], list[str](), list[float]()

    def run(arguments: Any, limit: float) -> tuple[str, str]:
        verdict, out, took = results[len(limits)]
        limits.append(limit)
        now[0] += took
        return verdict, out

    parts = [gpu.Part(f"part {i}", ()) for i in range(len(results))]
    code = gpu.check(parts, seconds, run=run, clock=lambda: now[0], show=lines.append)
    return code, lines, limits


def test_parts_run_in_order_while_there_is_time(gpu: Any) -> None:
    passed = ("passed", "..\n== 2 passed in 3 s ==", 30.0)
    code, lines, limits = run_parts(gpu, [passed, passed], 480.0)
    assert (code, limits) == (0, [480.0, 450.0])
    assert lines == [
        "[30 s] part 0: passed (2 passed in 3 s)",
        "[60 s] part 1: passed (2 passed in 3 s)",
    ]
    code, lines, limits = run_parts(gpu, [passed, passed, passed], 65.0)
    assert (code, limits) == (2, [65.0, 35.0])
    assert lines[2] == "[60 s] part 2: not checked (no time left)"


def test_a_failure_is_shown_whole_and_later_parts_run(gpu: Any) -> None:
    failed, passed = ("failed", "assert 1 == 2\n1 failed", 1.0), ("passed", "1 passed", 1.0)
    code, lines, _ = run_parts(gpu, [passed, failed, passed], 480.0)
    assert code == 1
    assert lines[1:3] == ["assert 1 == 2\n1 failed", "[2 s] part 1: failed (1 failed)"]
    assert lines[3].startswith("[3 s] part 2: passed")


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        ("print('3 passed in 1 s')", "passed"),
        ("print('3 passed, 2 skipped')", "not checked"),  # there was no device
        ("print('4 skipped')", "not checked"),
        ("import sys; print('no tests ran'); sys.exit(5)", "not checked"),
        ("print('2 passed'); raise SystemExit(1)", "failed"),
        ("import os; os.abort()", "failed"),
    ],
)
def test_verdicts_of_processes(gpu: Any, program: str, verdict: str) -> None:
    assert gpu.run_for(("-S", "-c", program), 60.0)[0] == verdict


def test_parts_find_what_this_process_finds(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/packages")
    _, out = gpu.run_for(("-S", "-c", "import sys; print(sys.path)"), 60.0)
    assert f"{str(ROOT)!r}, '/packages'" in out


def test_a_part_ends_at_its_limit_with_its_children(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "GRACE", 0.2)
    pid = tmp_path / "pid"
    program = (
        "import signal, subprocess, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid)); print('begun', flush=True); time.sleep(600)"
    )
    verdict, out = gpu.run_for(("-S", "-c", program), 2.0)
    assert verdict == "not checked"
    assert out.endswith("stopped for lack of time")
    assert pid.exists()
    stat = Path(f"/proc/{pid.read_text()}/stat")
    deadline = time.monotonic() + 60
    while stat.exists() and stat.read_text().split()[2] != "Z":  # not collected yet
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_without_a_gpu_nothing_is_installed_or_run(
    gpu: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert gpu.main(["--plan"]) == 0
    assert "2. conformance list" in capsys.readouterr().out
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu.main([]) == 2
    assert capsys.readouterr().out == "not checked: nvidia-smi finds no NVIDIA GPU\n"
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho '| CUDA Version: 12.4  |'\n")
    os.chmod(tmp_path / "nvidia-smi", 0o755)
    monkeypatch.setattr(gpu, "missing_packages", lambda cuda: [f"cupy for {cuda}"])
    assert gpu.main(["--no-install"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("missing: cupy for 12.4\nnot checked: packages are missing")
