"""The project's own files agree with each other: dependencies, change fragments, workflow."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import baco_like

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
    assert used - {"", "${{", "matrix.python", "matrix.tool", "}}"} <= sessions


def test_the_newest_release_of_every_tool_is_tested_at_night():
    workflow = (ROOT / ".github/workflows/nightly.yml").read_text()
    tools = re.search(r"tool: \[(.*)\]", workflow).group(1).split(", ")
    listed = re.search(r"NEWEST = \{\n(.*?)\n\}", (ROOT / "noxfile.py").read_text(), re.S).group(1)
    assert tools == re.findall(r'(?m)^    "([\w-]+)":', listed)
    assert set(tools) <= set(PROJECT["optional-dependencies"])
    for name in re.findall(r"test_\w+\.py", listed):
        assert (ROOT / "tests/integrations" / name).is_file()


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


# ---- What importing the package costs, in a fresh process ----


HEAVY = ("torch", "gpytorch", "sklearn", "pandas", "matplotlib", "scipy", "tqdm")


def loaded(code, modules=HEAVY):
    script = f"import sys\n{code}\nprint([m for m in {modules} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()[-1]


def test_importing_the_package_loads_no_model_library():
    assert loaded("import baco_like") == "[]"


def test_every_public_name_but_no_model_library():
    assert loaded("from baco_like import *") == "[]"


def test_spaces_and_random_search_load_no_model_library():
    code = (
        "from baco_like import Space, Optimizer\n"
        "opt = Optimizer(Space({'a': [1, 2, 4]}, constraints=['a > 1']), strategy='random_search')\n"
        "opt.observe(opt.suggest(), 1.0)"
    )
    assert loaded(code) == "[]"


def test_the_default_loads_no_pytorch():
    code = (
        "from baco_like import MaxEvals, tune\n"
        "space = {'a': list(range(1, 40)), 'b': [1, 2, 4, 8]}\n"
        "run = tune(lambda t: t['a'] / t['b'], space, MaxEvals(12), progress=False)\n"
        "run.optimizer.importance()"
    )
    assert "torch" not in loaded(code)


def test_help_loads_not_even_numpy():
    script = (
        "import sys\nfrom baco_like.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\nprint('numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip().endswith("False")


def test_all_names_exist():
    for name in baco_like.__all__:
        assert getattr(baco_like, name).__name__ == name
    assert set(baco_like.__all__) <= set(dir(baco_like))


@pytest.mark.parametrize(
    "module",
    ["kernels.opencl_worker", "kernels.cuda_worker", "kernels.halide_worker", "function.call"],
)
def test_a_worker_imports_neither_spaces_nor_parameters(module):
    code = f"import baco_like.evaluators.{module}"
    packages = ("baco_like.spaces", "baco_like.parameters", "scipy")
    assert loaded(code, packages) == "[]"
