"""The examples of the documentation work when pasted, those of one page together, in the order they stand there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"

PAGES = {
    "configspace": "ConfigSpace",
    "formats": None,
    "gest": None,
    "optuna": "optuna",
    "pyatf": "pyatf",
    "strategies": None,
    "warm_start": None,
}
"""Pages whose examples need no program, file or device of the reader's, nor minutes, and the package that each needs.

The others' have a file in `examples`, or are excerpts.
"""


@pytest.mark.parametrize("page", PAGES)
def test_the_pages_python_runs(page, tmp_path):
    if (package := PAGES[page]) is not None:
        pytest.importorskip(package)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.S)
    assert blocks
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    command = [sys.executable, script.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
