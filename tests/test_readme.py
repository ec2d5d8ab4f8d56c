"""The README's examples run when pasted together, in order, in a new interpreter."""

import subprocess
import sys
from pathlib import Path

from pasted import blocks, write

README = Path(__file__).parents[1] / "README.md"


def test_the_readmes_python_runs(tmp_path):
    assert len(blocks(README)) == 2
    command = [sys.executable, "-W", "error", write(README, tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Trial(" in done.stdout
