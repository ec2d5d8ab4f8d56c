"""Check the CUDA bench on an NVIDIA GPU: ``make gpu``, or ``python benchmarks/check_gpu.py``.

Installed packages are used; only missing ones are installed, into the environment of this Python (3.10 or newer). The
parts run in the order of their importance, each in a new process, and the script ends automatically after eight
minutes. The exit code is 0 if all parts have passed, 1 if one has failed, and 2 if one was not checked: without a GPU,
without a package, or for lack of time.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 480.0

LEAST = 10.0
"""Seconds below which no further part begins."""

GRACE = 5.0
"""Seconds for a part to end after SIGTERM, before it is killed; they are within the limit."""

PACKAGES: Mapping[str, str] = {
    "numpy": "numpy",
    "scipy": "scipy",
    "threadpoolctl": "threadpoolctl",
    "typing_extensions": "typing-extensions",
    "pytest": "pytest",
    "hypothesis": "hypothesis",
    "cupy": "cupy-cuda{major}x[ctk]",
}
"""What to install, by the module that is missing; ``{major}`` is the version of CUDA that the driver supports."""


@dataclass(frozen=True)
class Part:
    """A part of the check.

    Attributes:
        name: Its name in the output.
        arguments: Arguments of Python.
    """

    name: str
    arguments: Sequence[str]


DEVICE = """
import cupy
import numpy
name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
double = cupy.RawKernel("extern \\"C\\" __global__ void f(float *a) { a[threadIdx.x] *= 2; }", "f")
a = cupy.asarray(numpy.ones(32, numpy.float32))
double((1,), (32,), (a,))
assert (a.get() == 2).all()
print(f"1 passed: {name}, CuPy {cupy.__version__}")
"""

# Warnings of other versions of the packages are no errors here.
_PYTEST = ("-m", "pytest", "-p", "no:cacheprovider", "-W", "default", "-m", "gpu")

PARTS = (
    Part("the device compiles and runs a kernel", ("-c", DEVICE)),
    Part(
        "conformance list: verdicts of cheating kernels",
        (*_PYTEST, "tests/evaluators/test_bench.py"),
    ),
    Part(
        "faults of kernels on the device",
        (*_PYTEST, "tests/evaluators/gpu/test_cuda.py", "-k", "not example_kernels"),
    ),
    Part(
        "kernels of examples/kernels",
        (*_PYTEST, "tests/evaluators/gpu/test_cuda.py", "-k", "example_kernels"),
    ),
)
"""All parts, the most important first."""


def missing_packages(cuda: str, has: Callable[[str], bool] | None = None) -> list[str]:
    """Return what has to be installed.

    Args:
        cuda: Version of CUDA that the driver supports, such as ``12.4``.
        has: Whether a module is installed.
    """
    has = has or (lambda module: importlib.util.find_spec(module) is not None)
    major = cuda.partition(".")[0] or "12"
    return [name.format(major=major) for module, name in PACKAGES.items() if not has(module)]


def cuda_version() -> str | None:
    """Return the version of CUDA that the driver supports; None without an NVIDIA GPU."""
    try:
        done = subprocess.run(
            ["nvidia-smi"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"CUDA[^:|]*Version: *([\d.]+)", done.stdout)
    return (found[1] if found else "12") if done.returncode == 0 else None


def run_for(arguments: Sequence[str], seconds: float) -> tuple[str, str]:
    """Run Python in the root of the repository, and end it with its children after some seconds.

    Returns:
        ``passed``, ``failed`` or ``not checked``, and the output. A part has passed if its last line counts passed
        tests and no skipped ones.
    """
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=max(0.1, seconds - GRACE))
    except subprocess.TimeoutExpired:
        _signal(process, signal.SIGTERM)
        try:
            out, _ = process.communicate(timeout=GRACE)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            out, _ = process.communicate()
        return "not checked", f"{out}\nstopped for lack of time"
    finally:
        _signal(process, signal.SIGKILL)  # children that have stayed
    lines = out.strip().splitlines() or ["no output"]
    if process.returncode not in (0, 5):  # 5: pytest has found no tests
        return "failed", out
    is_checked = "passed" in lines[-1] and "skipped" not in lines[-1]
    return ("passed" if is_checked else "not checked"), out


def _signal(process: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def check(
    parts: Sequence[Part],
    seconds: float,
    *,
    run: Callable[[Sequence[str], float], tuple[str, str]] = run_for,
    clock: Callable[[], float] = time.monotonic,
    show: Callable[[str], None] = print,
) -> int:
    """Run parts sequentially while there is time, print a line for each, and return the exit code."""
    end, verdicts = clock() + seconds, []
    for part in parts:
        left = end - clock()
        verdict, out = (
            ("not checked", "no time left") if left < LEAST else run(part.arguments, left)
        )
        verdicts.append(verdict)
        last = (out.strip().splitlines() or [""])[-1].strip("= ")
        if verdict == "failed":
            show(out.rstrip())
        show(f"[{seconds - (end - clock()):.0f} s] {part.name}: {verdict} ({last})")
    return 1 if "failed" in verdicts else 2 if "not checked" in verdicts else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Check that there is a GPU, install what is missing, and run the parts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=SECONDS, help="limit of the whole check")
    parser.add_argument("--plan", action="store_true", help="print the parts, and run nothing")
    parser.add_argument("--no-install", action="store_true", help="install nothing")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    cuda = None if options.plan else cuda_version()
    missing = missing_packages(cuda or "12")
    if options.plan:
        print(f"packages to install: {', '.join(missing) or 'none'}")
        for number, part in enumerate(PARTS, 1):
            print(f"{number}. {part.name}")
        return 0
    if cuda is None:
        print("not checked: nvidia-smi finds no NVIDIA GPU")
        return 2
    if missing:
        print(f"missing: {', '.join(missing)}", flush=True)
        command = ("-m", "pip", "--disable-pip-version-check", "install", "-q", *missing)
        if options.no_install or run_for(command, options.seconds / 2)[0] == "failed":
            print("not checked: packages are missing; install them, then run this again")
            return 2
    left = options.seconds - (time.monotonic() - started)
    return check(PARTS, left, show=lambda text: print(text, flush=True))


if __name__ == "__main__":
    sys.exit(main())
