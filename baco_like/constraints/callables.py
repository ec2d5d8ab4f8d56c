"""A known constraint given as a Python callable."""

from __future__ import annotations

import ast
import difflib
import dis
import hashlib
import inspect
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from time import perf_counter
from types import CellType, CodeType
from typing import Any, final

import numpy as np

from baco_like._output import warn_caller
from baco_like._typing import Column, Mask
from baco_like.constraints.language.exact import Arrangement, row_values
from baco_like.exceptions import SpaceError, SpaceWarning
from baco_like.parameters import ColumnKind, Parameter

_REMEMBERED = 2**17
"""Most combinations whose answers are kept between calls."""

_TIMED, _SLOW = 32, 1e-3
"""Number of calls that are timed, and the seconds of a call that are worth a warning."""

REMEDY = (
    "write it as an expression, such as 'sum(a, b, c) <= 10' or 'count(a > 1, b) == 2': sums, products and counts of "
    "hundreds of parameters are solved exactly"
)
"""What to do about a callable that takes too much time."""


@final
@dataclass(frozen=True, eq=False)
class CallableConstraint:
    """Holds for rows on which a callable returns a true value; arithmetic errors (division by zero) count as false.

    Attributes:
        function: Called with one argument for each parameter, or with one mapping of them all.
        text: The function's name, or a lambda's source.
        parameters: The parameters it reads.
        mapping: Whether it takes a mapping.
        by_position: Whether it takes the values by position, as ``*args``.
    """

    function: Callable[..., Any]
    text: str
    parameters: tuple[str, ...]
    mapping: bool
    _read: Mapping[str, Parameter] = field(repr=False)
    by_position: bool = False
    _answers: dict[tuple[Any, ...], bool] = field(default_factory=dict, repr=False)

    @property
    def cost(self) -> int:
        """Operations for one row: 1 to 30 us, see `feasible.work_limit`."""
        return 256 + 64 * len(self.parameters)

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether it holds; each distinct combination is evaluated once.

        Raises:
            SpaceError: The callable raised an error that is not arithmetic.
        """
        values, keys = [], []
        for name, parameter in self._read.items():
            column = row_values(parameter, columns[name])
            column = [v.order if isinstance(v, Arrangement) else v for v in column]
            mixed = parameter.extent.kind is ColumnKind.OBJECT  # keeps 1, 1.0 and True apart
            keys.append([(type(value), value) for value in column] if mixed else column)
            values.append(column)
        if len(self._answers) > _REMEMBERED:
            self._answers.clear()
        known, start = len(self._answers), perf_counter()
        mask = np.empty(len(values[0]), dtype=np.bool_)
        rows = zip(zip(*keys, strict=True), zip(*values, strict=True), strict=True)
        for i, (key, row) in enumerate(rows):
            answer = self._answers.get(key)
            if answer is None:
                answer = self._answers[key] = self._evaluate(row)
                if len(self._answers) == _TIMED:
                    self._warn_if_slow((perf_counter() - start) / (_TIMED - known))
            mask[i] = answer
        return mask

    def _warn_if_slow(self, seconds: float) -> None:
        if seconds > _SLOW:
            warn_caller(
                f"constraint {self.text!r:.200} takes {1000 * seconds:.3g} ms for one configuration, and a space tests "
                f"up to a million of them when it is made; {REMEDY}",
                SpaceWarning,
            )

    def _evaluate(self, row: tuple[Any, ...]) -> bool:
        config = dict(zip(self.parameters, row, strict=True))
        try:
            if self.by_position:
                return bool(self.function(*row))
            return bool(self.function(config) if self.mapping else self.function(**config))
        except ArithmeticError:
            return False
        except Exception as error:
            message = f"constraint {self.text!r} failed on {config}: {error!r}"
            if self.mapping:
                message += "; its argument is not a parameter's name, so it receives the whole configuration"
            raise SpaceError(message) from error

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the values that it read."""
        return ", ".join(f"{name} = {config[name]!r}" for name in self.parameters)


def from_callable(
    function: Callable[..., Any], parameters: Mapping[str, Parameter]
) -> CallableConstraint:
    """Return the constraint that a callable's truth expresses.

    Its argument names are the parameters it reads. If its only argument is not the name of a parameter, it receives
    the whole configuration as a mapping, as Kernel Tuner's restrictions do. It then depends on the parameters that it
    reads as ``p["name"]``, or on all parameters if its code uses the mapping in another way. ``*args`` alone receives
    the values of all parameters in the order of the space. Arguments that are not parameters keep their default value.

    Args:
        function: Called with plain Python values, once for each distinct combination of them.
        parameters: The parameters of the space.

    Raises:
        SpaceError: An argument without default is not a parameter, or the arguments cannot be inspected.
    """
    text = describe_callable(function)
    arguments = _arguments(function, text, parameters)
    if arguments and arguments[0].kind is inspect.Parameter.VAR_POSITIONAL:  # the only one
        names = tuple(parameters)
        return CallableConstraint(function, text, names, False, dict(parameters), by_position=True)
    needed = [a.name for a in arguments if a.default is inspect.Parameter.empty]
    mapping = len(needed) == 1 and needed[0] not in parameters
    if mapping:
        (argument,) = needed
        near = difflib.get_close_matches(argument, parameters, 1, cutoff=0.8)
        if near:  # any other name is taken for the whole configuration
            raise SpaceError(
                f"constraint {text!r} has the argument {argument!r}, which is not a parameter; did you mean "
                f"{near[0]!r}? A mapping of all parameters needs another name, such as config"
            )
        keys = _subscripts(function, argument)
        names = keys if keys and parameters.keys() >= set(keys) else tuple(parameters)
    else:
        for name in needed:
            if name not in parameters:
                raise SpaceError(
                    f"constraint {text!r} has the argument {name!r}, which is not a parameter; "
                    f"the parameters are {', '.join(parameters)}"
                )
        names = tuple(a.name for a in arguments if a.name in parameters)
        if not names:
            raise SpaceError(
                f"constraint {text!r} has no argument; name the parameters that it reads"
            )
    return CallableConstraint(
        function, text, names, mapping, {name: parameters[name] for name in names}
    )


def _arguments(
    function: Callable[..., Any], text: str, known: Mapping[str, Parameter]
) -> list[inspect.Parameter]:
    try:
        arguments = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        raise SpaceError(
            f"the arguments of constraint {text!r} cannot be inspected; wrap it in a lambda that names them"
        ) from None
    if [argument.kind for argument in arguments] == [inspect.Parameter.VAR_POSITIONAL]:
        return arguments
    for argument in arguments:
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            raise SpaceError(
                f"constraint {text!r} takes '*{argument.name}'; name the parameters that it reads"
            )
        ambiguous = len(arguments) > 1 or argument.name in known
        if ambiguous and argument.kind is argument.POSITIONAL_ONLY:
            raise SpaceError(
                f"constraint {text!r} takes {argument.name!r} by position only; remove the '/'"
            )
    return arguments


_IGNORED = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "RESUME"})
_SUBSCRIPT = frozenset({"BINARY_SUBSCR", "BINARY_OP"})
_REVEALING = frozenset({"locals", "vars", "eval", "exec", "globals", "dir", "inspect", "sys"})


def _subscripts(function: Callable[..., Any], argument: str) -> tuple[str, ...] | None:
    """Return the constant keys of all uses ``argument["key"]``, or None if the argument is used in any other way.

    In the byte code, every load of the argument must be followed by a constant string and a subscript. Unknown
    instructions, such as those of a later Python, count as another use.
    """
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__") or _REVEALING.intersection(code.co_names):
        return None
    if argument in code.co_cellvars or argument not in code.co_varnames[: code.co_argcount]:
        return None
    steps = [step for step in dis.get_instructions(code) if step.opname not in _IGNORED]
    keys: list[str] = []
    for step, key, subscript in zip_longest(steps, steps[1:], steps[2:]):
        read = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if "FAST" not in step.opname or argument not in read:
            continue
        loads = step.argval == argument and step.opname.startswith("LOAD_FAST")
        if not loads or key is None or subscript is None:
            return None
        if key.opname != "LOAD_CONST" or not isinstance(key.argval, str):
            return None
        if subscript.opname not in _SUBSCRIPT or subscript.argrepr not in ("", "[]"):
            return None
        keys.append(key.argval)
    return tuple(dict.fromkeys(keys))


# The text that identifies a callable: the same in every file, and different if the callable computes something else.


def describe_callable(function: Callable[..., Any]) -> str:
    """Return a callable's name, or a lambda's source, with the numbers and texts that it reads from outside.

    A journal keeps this text; on resume a different text is a different constraint.
    """
    name = getattr(function, "__name__", type(function).__name__)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return str(name)
    text = _source(code) if name == "<lambda>" else str(name)
    outside = ", ".join(f"{k} = {v!r}" for k, v in _read_outside(function, code).items())
    return f"{text} with {outside}" if outside else text


def _source(code: CodeType) -> str:
    """Return the source of a lambda or, if it is ambiguous, its arguments with a digest of its code."""
    lines = "".join(linecache.getlines(code.co_filename))
    arguments = code.co_varnames[: code.co_argcount]
    try:
        nodes = list(ast.walk(ast.parse(lines)))
    except SyntaxError:
        nodes = []
    texts = {
        ast.unparse(node)
        for node in nodes
        if isinstance(node, ast.Lambda)
        and node.lineno == code.co_firstlineno
        and tuple(argument.arg for argument in node.args.args) == arguments
    }
    if len(texts) == 1:
        return texts.pop()
    digest = hashlib.sha256(repr(_steps(code)).encode()).hexdigest()
    return f"lambda {', '.join(arguments)} (code {digest[:8]})"


def _steps(constant: Any) -> Any:
    """Return a code's instructions and constants, without positions in files and memory, and constants in order."""
    if isinstance(constant, CodeType):
        return (constant.co_code, constant.co_names, *map(_steps, constant.co_consts))
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _read_outside(function: Callable[..., Any], code: CodeType) -> dict[str, Any]:
    """Return the plain values that a function reads from its closure and its module."""
    cells = zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False)
    outside = {name: _content(cell) for name, cell in cells}
    own = getattr(function, "__globals__", {})
    named = (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    outside.update((name, own[name]) for name in named if name in own)
    return {k: v for k, v in sorted(outside.items()) if isinstance(v, bool | int | float | str)}


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None
