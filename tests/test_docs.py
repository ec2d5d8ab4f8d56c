"""The examples of the documentation work when pasted, those of one page together, in the order they stand there."""

from pathlib import Path

import pytest
from pasted import blocks, run

DOCS = Path(__file__).parents[1] / "docs"

NEEDED = {
    "configspace": "ConfigSpace",
    "formats": None,
    "gest": "gest_api",
    "optuna": "optuna",
    "pyatf": "pyatf",
    "strategies": None,
    "warm_start": None,
}
"""The package that the examples of a page need beside ours."""

ELSEWHERE = {
    "ax",
    "cupy",
    "evaluators",
    "halide",
    "kernel_tuner",
    "opencl",
    "ray",
    "serve",
    "taco",
    "your_tool_our_call",
}
"""Pages with excerpts, or for a program, file, device or minutes of the reader's; what they show is in `examples`."""


def test_every_page_with_examples_is_known():
    assert {page.stem for page in DOCS.glob("*.md") if blocks(page)} == set(NEEDED) | ELSEWHERE


@pytest.mark.parametrize("page", NEEDED)
def test_the_pages_python_runs(page, tmp_path):
    if (package := NEEDED[page]) is not None:
        pytest.importorskip(package)
    done = run(DOCS / f"{page}.md", tmp_path)
    assert done.returncode == 0, done.stderr
