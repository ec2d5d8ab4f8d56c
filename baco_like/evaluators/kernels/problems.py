"""Problems: a kernel to tune, with its inputs and what it has to compute, as a module of ours or a file of the user's.

A problem is a Python module with two functions, and what its target needs besides::

    def inputs(size, rng):          # -> arrays, made with the numpy Generator
    def expected(*inputs):          # -> the array that a right kernel writes, in the kernel's type

It may say what its parameters can be (``DOMAINS``), so that wrong spaces are told before anything runs.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.kernels.domains import Domain, check_parameters, completed
from baco_like.evaluators.kernels.serving import aligned
from baco_like.evaluators.settings_table import shown, suggestion
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.parameters.protocol import Parameter


def resolved(name: str, package: str, known: Iterable[str], folder: Path) -> str:
    """Return what `load` takes: a module of ``package`` for one of its problems, else the path of a file.

    Args:
        name: As the user writes it: a problem's name, or a path that ends with ``.py``.
        package: Where the problems of ours are.
        known: Their names.
        folder: Where a relative path begins.

    Raises:
        RunFileError: It is neither.
        EvaluatorError: There is no such file.
    """
    known = list(known)
    if name in known:
        return f"{package}.{name}"
    if not name.endswith(".py"):
        raise RunFileError(
            f"problem = {shown(name)} is neither a file such as 'my_kernel.py' nor one of ours; "
            f"{suggestion(name, known)}"
        )
    path = (folder / name).resolve()
    if not path.is_file():
        raise EvaluatorError(f"problem = {shown(name)}: there is no file {str(path)!r}")
    return str(path)


def load(place: str) -> ModuleType:
    """Import a problem.

    Args:
        place: A module's name, or a path as of `resolved`.
    """
    if os.sep not in place:
        return importlib.import_module(place)
    spec = importlib.util.spec_from_file_location(Path(place).stem, place)
    if spec is None or spec.loader is None:
        raise EvaluatorError(f"{place} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def opened(
    place: str, size: int, seed: int
) -> tuple[ModuleType, tuple[NDArray[Any], ...], NDArray[Any]]:
    """Return a problem with its inputs and what a right kernel writes; this runs in the worker.

    Args:
        place: As for `load`.
        size: The problem's size.
        seed: Of the inputs.
    """
    problem = load(place)
    inputs = problem.inputs(size, np.random.default_rng(seed))
    arrays = tuple(aligned(array, number) for number, array in enumerate(inputs))
    return problem, arrays, np.ascontiguousarray(problem.expected(*arrays))


def completion(
    name: str, place: str, parameters: Mapping[str, Parameter]
) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Return what fills in the parameters that a space leaves out; those of a user's file are left as they are.

    Args:
        name: The problem's, for messages.
        place: As for `load`.
        parameters: Of the space.

    Raises:
        EvaluatorError: One is not understood, or one of its values.
    """
    domains = _domains_of(place)
    if domains is None:
        return dict
    check_parameters(name, domains, parameters)
    return functools.partial(completed, name, domains)


def _domains_of(place: str) -> Mapping[str, Domain] | None:
    """Return what the parameters of a problem of ours can be; None for a user's file, which is not run here."""
    if os.sep in place:
        return None
    domains: Mapping[str, Domain] = load(place).DOMAINS
    return domains
