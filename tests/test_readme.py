"""The README's examples run when pasted together, in order."""

from pathlib import Path

from pasted import blocks, run

README = Path(__file__).parents[1] / "README.md"


def test_the_readmes_python_runs(tmp_path):
    assert len(blocks(README)) == 2
    done = run(README, tmp_path, "-W", "error")
    assert done.returncode == 0, done.stderr
    assert "Trial(" in done.stdout
