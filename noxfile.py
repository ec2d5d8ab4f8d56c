"""The sessions of continuous integration, for any machine: `nox -l` lists them, `nox -s minimal-3.12` runs one."""

import glob

import nox

nox.options.sessions = ["lint", "tests-3.11", "minimal-3.11", "docs"]
nox.options.reuse_existing_virtualenvs = True

PYTHONS = ["3.10", "3.11", "3.12", "3.13"]
CPU_TORCH = "https://download.pytorch.org/whl/cpu"
# The lower bounds of `dependencies` in pyproject.toml; tests/test_project.py checks that they agree.
MINIMUM = [
    "numpy==1.24.*",
    "scipy==1.10.*",
    "gpytorch==1.11",
    "scikit-learn==1.3.*",
    "threadpoolctl==3.2.*",
    "typing-extensions==4.8.*",
    "msgspec==0.19.*",
    "tomli==2.0.*",
]
# Dependencies of the strategies without a model.
WITHOUT_TORCH = [
    "numpy",
    "scipy",
    "scikit-learn",
    "typing-extensions",
    "msgspec",
    "tomli; python_version<'3.11'",
]
# The packages of a tool that an adapter needs, and the tests of the adapter.
NEWEST = {
    "ax": ("ax-platform", "test_ax_node.py"),
    "configspace": ("ConfigSpace", "test_configspace.py"),
    "gest": ("gest-api", "test_gest_generator.py"),
    "helion": ("helion triton", "test_helion_search.py test_inside_compilers.py"),
    "kernel-tuner": ("kernel-tuner", "test_kernel_tuner.py"),
    "optuna": ("optuna", "test_optuna.py"),
    "pyatf": ("pyatf", "test_pyatf_technique.py"),
    "ray": ("ray[tune]", "test_ray_search.py"),
    "triton": ("triton", "test_triton_autotune.py test_inside_compilers.py"),
    "tvm": ("apache-tvm apache-tvm-ffi cloudpickle psutil", "test_inside_compilers.py"),
}


def install_torch(session, version="torch"):
    """Install the CPU build of PyTorch: the default build on Linux brings gigabytes of CUDA libraries."""
    try:
        session.install("-c", "constraints.txt", version)
    except nox.command.CommandFailed:
        session.install("--index-url", CPU_TORCH, version)


@nox.session(python="3.11")
def lint(session):
    """Format, lint, types and import contracts."""
    install_torch(session)
    session.install("-c", "constraints.txt", "-e", ".[dev]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session(python=PYTHONS)
def tests(session):
    """The whole test suite. Arguments after `--` go to pytest."""
    install_torch(session)
    session.install("-c", "constraints.txt", "-e", ".[test]")
    session.run("pytest", "-n", "2", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(python=PYTHONS)
def minimal(session):
    """Install the package without extras and tune with every kind of strategy."""
    install_torch(session)
    session.install(".")
    session.run("python", "-W", "error", ".ci/minimal_install.py")


@nox.session(python=PYTHONS)
def no_torch(session):
    """Tune with the strategies that need no model, where PyTorch is not installed."""
    session.install(*WITHOUT_TORCH)
    session.install("--no-deps", ".")
    session.run("python", "-W", "error", ".ci/minimal_install.py", "--without-torch")


@nox.session(python="3.10")
def minimum(session):
    """Tune with the lowest supported versions. `-- --without-torch` leaves PyTorch out."""
    if "--without-torch" in session.posargs:
        session.install(*(version for version in MINIMUM if not version.startswith("gpytorch")))
    else:
        session.install("--index-url", CPU_TORCH, "torch==2.2.*")
        session.install(*MINIMUM)
    session.install("--no-deps", ".")
    session.run("python", ".ci/minimal_install.py", *session.posargs)


@nox.session(python="3.11", reuse_venv=False)
def package(session):
    """Build the wheel and the source archive in dist/, check them, and tune with the wheel alone."""
    session.run("rm", "-rf", "dist", external=True)
    session.install("build", "twine", "check-wheel-contents")
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *glob.glob("dist/*"))
    session.run("check-wheel-contents", *glob.glob("dist/*.whl"))
    session.run("python", ".ci/check_package.py")
    (wheel,) = glob.glob("dist/*.whl")
    for extra in nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]:
        if extra not in ("dev", "test"):
            session.run("pip", "install", "-q", "--dry-run", f"{wheel}[{extra}]")
    install_torch(session)
    session.install(wheel)
    session.run("python", "-W", "error", ".ci/minimal_install.py")


@nox.session(python="3.11")
def nightly(session):
    """Tests that take minutes: further combinations, new examples of properties, Optuna's own tests of samplers."""
    install_torch(session)
    session.install("-c", "constraints.txt", "-e", ".[test]")
    session.run("pytest", "-n", "2", "-m", "nightly", env={"OMP_NUM_THREADS": "1"})
    properties = ["-m", "hypothesis", "--hypothesis-profile=explore"]
    session.run("pytest", "-n", "2", *properties, env={"OMP_NUM_THREADS": "1"})
    session.run("pytest", ".ci/optuna_samplers.py", env={"OMP_NUM_THREADS": "1"})


@nox.session(python="3.11")
def newest(session):
    """Test the adapters of tools with the newest releases: `nox -s newest -- helion tvm`."""
    install_torch(session)
    session.install("-e", ".[all]", "hypothesis", "jsonschema", "pytest")
    for tool in session.posargs or NEWEST:
        packages, tests = NEWEST[tool]
        session.install("--upgrade", *packages.split())
        session.run("python", "-m", "pip", "list")
        files = [f"tests/integrations/{name}" for name in tests.split()]
        session.run("pytest", *files, env={"OMP_NUM_THREADS": "1"})


@nox.session(python="3.11")
def coverage(session):
    """Run the tests and write coverage.xml and coverage.txt. Triton (0.2 GB, no GPU needed) loads a shipped module."""
    install_torch(session)
    triton = "triton; sys_platform == 'linux'"
    session.install("-c", "constraints.txt", "-e", ".[test]", "pytest-cov", triton)
    reports = ["--cov=baco_like", "--cov-report=xml", "--cov-report=term:skip-covered"]
    with open("coverage.txt", "w") as output:
        session.run("pytest", "-n", "2", *reports, stdout=output, env={"OMP_NUM_THREADS": "1"})


@nox.session(python="3.11")
def docs(session):
    """Build the documentation site; a broken link or an unknown name is an error."""
    session.install("-r", "docs/requirements.txt")
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})
