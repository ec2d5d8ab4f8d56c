"""Every example runs, with a small budget."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_script(script, tmp_path):
    if script.name == "own_loop.py" and shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    command = [sys.executable, "-W", "error", script, "12"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "best" in done.stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.name)
def test_run_file(file, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "baco_like", "tune", file, "--budget", "3", "--out", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"run.jsonl", "best.json", "convergence.png"} <= {p.name for p in out.iterdir()}
