"""What importing the package costs, in a fresh process."""

import subprocess
import sys

import pytest

import baco_like

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
