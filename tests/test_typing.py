"""What type checkers see. A run of mypy takes some seconds; each of these asks a question that only mypy answers."""

import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytest.importorskip("mypy")


def check(folder, text, *options):
    """Return what mypy says about a text, without following its imports into whole packages."""
    file = folder / "snippet.py"
    file.write_text(text)
    command = [sys.executable, "-m", "mypy", "--follow-imports=skip", "--config-file=", "--strict"]
    done = subprocess.run(
        [*command, f"--cache-dir={folder / 'cache'}", *map(str, options), file],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if line.startswith("snippet.py")]


def test_an_editable_install_has_types(tmp_path):
    project, environment = tmp_path / "project", tmp_path / "environment"
    project.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    for name in ("baco_like", "tests"):
        shutil.copytree(ROOT / name, project / name, ignore=shutil.ignore_patterns("__pycache__"))
    code = "from setuptools import build_meta as b; b.build_editable('.')"
    subprocess.run([sys.executable, "-c", code], cwd=project, check=True, capture_output=True)
    venv.create(environment, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (wheel,) = project.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    errors = check(
        tmp_path, "import baco_like\n", f"--python-executable={environment / 'bin' / 'python'}"
    )
    assert errors == []


WRONG = [
    'optimizer.observe(trial, "fast")',
    'optimizer.observe(trial, ["fast", 1.0])',
    'optimizer.observe([trial], ["fast"])',
    "optimizer.observe(trial, object())",
    'Measurement(1.0, "fast")',
]
RIGHT = """
optimizer.observe(trial, 1)
optimizer.observe(trial, [1.0, 2])
optimizer.observe(trial, {"value": 1.0, "log": "text"})
optimizer.observe(trial, Measurement(1.0, 0.1))
optimizer.observe(trial, ValueError("no"))
optimizer.observe(trial, failed="compile")
optimizer.observe([trial, trial], [1.0, None])
"""


def test_a_text_is_no_value(tmp_path):
    # Only these modules are read, all others are of any type: reading all takes a minute.
    modules = [
        ROOT / "baco_like" / name for name in ("optimizer/optimizer.py", "records/objective.py")
    ]
    head = (
        "from baco_like.optimizer.optimizer import Optimizer\n"
        "from baco_like.records.objective import Measurement\n"
        "def use(optimizer: Optimizer, trial: dict[str, int]) -> None:\n"
    )
    lines = [*RIGHT.strip().splitlines(), *WRONG]
    text = head + "".join(f"    {line}\n" for line in lines)
    errors = check(tmp_path, text, *modules)
    found = {int(error.split(":")[1]) for error in errors if ": error:" in error}
    assert found == {text.splitlines().index(f"    {line}") + 1 for line in WRONG}, errors
