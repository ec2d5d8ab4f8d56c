"""Problem files: a Python file that describes a kernel to tune, its inputs and the correct result.

Every problem file has two functions::

    def inputs(size, rng):      # NumPy arrays and scalars, drawn from the numpy Generator
    def expected(*inputs):      # the array that a correct kernel writes, in the kernel's data type; or a tuple of them

The evaluator of each language needs more functions, which the docstring of its module (`c`, `halide`, `opencl`, `cuda`)
lists. These are optional everywhere:

- ``arguments(size)`` returns the kernel's arguments in order, each an `Input`, `Output`, `InOut` or `Scalar`. Without
  it they are the inputs (NumPy scalars are passed by value) and then the outputs;
- ``magnitude(*inputs)`` returns the number that ``tolerance`` is relative to, in place of the largest magnitude of the
  result;
- ``domains()`` returns the allowed values of each parameter, made by `count`, `switch`, `choice`, `order_of` or
  `number_below`. A wrong space is then reported before anything is compiled, and parameters that the space leaves out
  get their defaults;
- ``space(size)`` returns a `Space`, for use from Python. Evaluators do not call it.

Files with ready kernels are in ``examples/kernels``: copy one and change it.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import secrets
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._checks import is_whole
from baco_like._tables import shown, suggestion
from baco_like.evaluators.command.template import to_text
from baco_like.evaluators.kernels.arguments import Argument, draw_arguments
from baco_like.exceptions import BacoError, EvaluatorError, RunFileError

if TYPE_CHECKING:  # else every start of a worker imports the parameters
    from baco_like.parameters.protocol import Parameter

Complete = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Fills in the parameters that a space leaves out."""


@contextmanager
def explained(path: str | Path) -> Iterator[None]:
    """Raise an `EvaluatorError` with the file, the line and the function in place of an error in a problem file."""
    try:
        yield
    except BacoError:
        raise
    except Exception as error:
        places = [
            f", line {frame.lineno}, in {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)
        ]
        place, text = (places or [""])[-1], f"{type(error).__name__}: {error}"
        if isinstance(error, SyntaxError):
            place, text = f", line {error.lineno}", f"{type(error).__name__}: {error.msg}"
        hint = (
            f"; for a file beside the problem file write Path(__file__).with_name({Path(error.filename).name!r})"
            if isinstance(error, FileNotFoundError) and error.filename
            else ""
        )
        raise EvaluatorError(f"{path}{place}: {text}{hint}") from error


def find_problem(name: str | Path, folder: Path) -> Path:
    """Return the absolute path of a problem file.

    Args:
        name: Path of the file, relative to ``folder`` or absolute.
        folder: Usually the folder of the run file.

    Raises:
        RunFileError: The name does not end with ``.py``.
        EvaluatorError: The file does not exist.
    """
    if not str(name).endswith(".py"):
        raise RunFileError(
            f"problem = {shown(str(name))}: expected a Python file such as 'my_kernel.py'; files with ready kernels "
            "are in examples/kernels of the source repository"
        )
    path = (folder / name).resolve()
    if not path.is_file():
        files = sorted(file.name for file in path.parent.glob("*.py"))
        hint = f"; {suggestion(path.name, files)}" if files else ""
        raise EvaluatorError(f"problem = {shown(str(name))}: there is no file {str(path)!r}{hint}")
    return path


def load_problem(
    path: str | Path, constants: Mapping[str, Any] | None = None, needed: Sequence[str] = ()
) -> ModuleType:
    """Import a problem file.

    Modules in the same folder can be imported by it, after all installed ones.

    Args:
        path: The file.
        constants: New values for constants of the file, by name.
        needed: Names that it must have.

    Raises:
        EvaluatorError: The file cannot be imported, or has no constant or needed name.
    """
    path = Path(path).resolve()
    # Two problem files may have the same name; dataclasses look their module up in sys.modules.
    name = f"{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    with explained(path):
        spec.loader.exec_module(module)
    for constant, value in (constants or {}).items():
        if not hasattr(module, constant):
            known = [name for name in vars(module) if name.isupper()]
            raise EvaluatorError(
                f"{path.name} has no constant {constant!r}; {suggestion(constant, known)}"
            )
        setattr(module, constant, value)
    for each in needed:
        if not hasattr(module, each):
            known = [name for name in vars(module) if name[0] != "_"]
            raise EvaluatorError(
                f"{path} has no {each!r}, of the names that its evaluator needs ({', '.join(needed)}); "
                f"{suggestion(each, known)}"
            )
    return module


def draw_three(
    problem: ModuleType,
    description: Mapping[str, Any],
    size: int | None = None,
    start: Callable[[list[Argument]], object] = list,
) -> list[list[Argument]]:
    """Return the arguments of a problem for its seed, and for two that are drawn at random.

    A kernel that knows the seeds could have the results before it is launched.

    Args:
        problem: The problem file.
        description: ``size`` and ``seed``, and the ``tolerances`` as for `draw_arguments`.
        size: Another size.
        start: Gets the first ones before the others are drawn, to start what may run meanwhile.
    """
    size, draws = size or description["size"], list[list[Argument]]()
    for seed in (description["seed"], secrets.randbits(32), secrets.randbits(32)):
        with explained(getattr(problem, "__file__", "the problem file")):
            draws.append(draw_arguments(problem, size, seed, description["tolerances"]))
        if len(draws) == 1:
            start(draws[0])
    return draws


def load_device_problem(
    description: Mapping[str, Any],
) -> tuple[ModuleType, list[list[Argument]]]:
    """Return a problem whose kernels are built from a source with macros, and its arguments as by `draw_three`.

    Args:
        description: ``path`` and ``constants`` as for `load_problem`, and what `draw_three` needs.

    Raises:
        EvaluatorError: As for `load_problem`.
    """
    needed = ("inputs", "expected", "SOURCE", "KERNEL", "macros", "launch")
    problem = load_problem(description["path"], description["constants"], needed)
    return problem, draw_three(problem, description)


def macro_texts(problem: ModuleType, size: int, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the macros of a configuration, and those of the problem, as texts of C."""
    return {name: to_text(value) for name, value in {**config, **problem.macros(size)}.items()}


def inspect_source(
    path: Path, text: str, kernel: str, macros: Iterable[str], *, reads: bool = True
) -> tuple[list[int], dict[str, str]]:
    """Return the parameters that point to ``const`` elements, by number, and notes on the source of a kernel, by kind.

    Args:
        path: The problem file.
        text: The source.
        kernel: Name of the function; of several definitions all must declare a parameter so.
        macros: Macros that must occur in the source, or in a file that the problem file names or that such a file
            includes.
        reads: Whether the problem file itself may read them, such as in ``config["group"]``.
    """
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    constant: list[set[int]] = [
        {n for n, each in enumerate(listed.split(",")) if re.search(r"\bconst\b[^*\[]*[*\[]", each)}
        for listed in re.findall(rf"\b{re.escape(kernel)}\s*\(([^()]*)\)\s*{{", plain)
    ]
    unused, notes = set(macros) - set(re.findall(r"\w+", text)), {}
    if unused:
        from baco_like.evaluators.sources import source_texts

        own = path.read_text(encoding="utf-8") if reads else ""
        unused -= set(re.findall(r"[\[(]\s*[\"'](\w+)[\"']", own))
        unused -= set(re.findall(r"\w+", source_texts(path)))
    if unused:
        notes["macro"] = (
            f"the macro {', '.join(sorted(unused))} does not occur in the source, so its values make no difference: is "
            "a name misspelt?"
        )
    return sorted(set.intersection(*constant)) if constant else [], notes


def completion(
    path: Path, constants: Mapping[str, Any], parameters: Mapping[str, Parameter]
) -> Complete:
    """Check the parameters of a space, and return the function that completes configurations.

    Args:
        path: The problem file. It is imported here only if it defines ``domains``: otherwise the file runs in worker
            processes alone, where a crash during its import cannot end the tuner.
        constants: As for `load_problem`.
        parameters: The parameters of the space.

    Raises:
        EvaluatorError: The problem does not have a parameter, or a value is not allowed.
    """
    with explained(path):
        body = ast.parse(path.read_text(encoding="utf-8")).body
    if not any(isinstance(node, ast.FunctionDef) and node.name == "domains" for node in body):
        return dict
    domains = load_problem(path, constants).domains()
    complete = partial(complete_config, path.stem, domains)
    for name, parameter in parameters.items():
        for value in list_values(parameter):
            complete({name: value})
    return complete


_MAX_LISTED = 4096
"""Parameters with more values are checked one value at a time, when a configuration is built."""


@dataclass(frozen=True)
class Domain:
    """Allowed values of one kernel parameter.

    Attributes:
        contains: Returns whether a value is allowed.
        description: The allowed values in words, for error messages.
        default: The value used when the space does not have the parameter.
    """

    contains: Callable[[Any], bool]
    description: str
    default: Any


def count(default: int = 1, high: int = 2**20) -> Domain:
    """Return the domain of whole numbers from 1 to ``high``."""
    return Domain(lambda v: is_whole(v, 1, high), f"a whole number from 1 to {high}", default)


def number_below(bound: int, default: int = 0) -> Domain:
    """Return the domain of whole numbers from 0 to ``bound - 1``."""
    text = f"a whole number from 0 to {bound - 1}"
    return Domain(lambda v: is_whole(v, 0, bound - 1), text, default)


def switch(default: bool = False) -> Domain:
    """Return the domain of True and False, which may also be written 1 and 0."""
    return Domain(lambda v: isinstance(v, (bool, int)) and v in (0, 1), "true or false", default)


def choice(*options: str) -> Domain:
    """Return the domain of the given words; the first is the default."""
    return Domain(lambda v: v in options, f"one of {', '.join(options)}", options[0])


def order_of(*elements: str) -> Domain:
    """Return the domain of all permutations of the elements; the given order is the default."""
    text, known = f"a permutation of {', '.join(elements)}", sorted(elements)
    return Domain(lambda v: isinstance(v, tuple) and sorted(v) == known, text, elements)


def complete_config(
    kernel: str, domains: Mapping[str, Domain], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a configuration with the default of every parameter that it does not have.

    Args:
        kernel: Name of the kernel, for error messages.
        domains: The kernel's parameters.
        config: Values of some of them.

    Raises:
        EvaluatorError: The kernel has no such parameter, or a value is not allowed.
    """
    for name, value in config.items():
        if name not in domains:
            raise EvaluatorError(f"{kernel} has no parameter {name!r}; {suggestion(name, domains)}")
        if not domains[name].contains(value):
            raise EvaluatorError(
                f"{kernel} parameter {name!r}: {shown(value)} is not {domains[name].description}"
            )
    return {**{name: domain.default for name, domain in domains.items()}, **config}


def list_values(parameter: Parameter) -> Sequence[Any]:
    """Return all values of a parameter, or one sample if there are too many to list."""
    if parameter.width == 1 and parameter.cardinality <= _MAX_LISTED:
        return parameter.decode(np.arange(parameter.cardinality, dtype=np.float64)[:, None])
    return parameter.decode(parameter.sample(1, np.random.default_rng(0)))
