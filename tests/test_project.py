"""The project's own files agree with each other: dependencies, change fragments, workflow."""

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_minimum_session_installs_the_lower_bounds_of_the_dependencies():
    noxfile = (ROOT / "noxfile.py").read_text()
    tested = dict(re.findall(r'"([a-z-]+)==(\d+\.\d+)[.*]*"', noxfile))
    declared = dict(
        re.match(r"([a-z-]+)>=([\d.]+)", line).groups() for line in PROJECT["dependencies"]
    )
    assert tested == declared


@pytest.mark.parametrize("file", ["noxfile.py", ".github/workflows/ci.yml"])
def test_all_supported_python_versions_are_tested(file):
    versions = {
        line.split(" :: ")[-1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d", line)
    }
    assert versions == set(re.findall(r'"(3\.\d+)"', (ROOT / file).read_text()))


@pytest.mark.parametrize("file", ["ci.yml", "nightly.yml"])
def test_the_workflow_runs_sessions_that_exist(file):
    workflow = (ROOT / ".github/workflows" / file).read_text()
    sessions = set(re.findall(r"^def (\w+)\(session\)", (ROOT / "noxfile.py").read_text(), re.M))
    used = {
        name.split("-")[0] for line in re.findall(r"nox -s (.*)", workflow) for name in line.split()
    }
    assert used
    assert used - {"${{", "matrix.python", "}}"} <= sessions


def test_every_test_module_has_a_name_of_its_own():
    """Pytest imports the modules of all folders by their file names, so two equal names stop a run of the suite."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []


def test_the_citation_names_the_version_of_the_package():
    assert f"version: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()


def test_every_change_fragment_has_a_kind():
    names = [file.name for file in (ROOT / "changes").iterdir() if file.name != "README.md"]
    kinds = r"[a-z0-9_]+\.(added|changed|fixed|deprecated)\.md"
    assert [name for name in names if not re.fullmatch(kinds, name)] == []


def test_the_architecture_page_has_the_layers_of_the_import_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    page = (ROOT / "ARCHITECTURE.md").read_text()
    block = re.search(r"## Layers\n.*?```\n(.*?)```", page, re.S).group(1)
    shown = [re.split(r"\s{2,}", line)[0] for line in block.splitlines()]
    assert shown[:-1] == contract["contracts"][0]["layers"]
