"""A known constraint given as a Python callable."""

from __future__ import annotations

import difflib
import dis
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from baco_like._typing import Column, Mask
from baco_like.constraints.callable_text import describe_callable
from baco_like.constraints.language.exact import Arrangement, row_values
from baco_like.exceptions import SpaceError
from baco_like.parameters.extent import ColumnKind
from baco_like.parameters.protocol import Parameter

_REMEMBERED = 2**17
"""Most combinations whose answers are kept between calls."""


@final
@dataclass(frozen=True, eq=False)
class CallableConstraint:
    """Holds for rows on which a callable returns a true value; arithmetic errors (division by zero) count as false.

    Attributes:
        function: Called with one argument for each parameter, or with one mapping of them all.
        text: The function's name, or a lambda's source.
        parameters: The parameters it reads.
        mapping: Whether it takes a mapping.
    """

    function: Callable[..., Any]
    text: str
    parameters: tuple[str, ...]
    mapping: bool
    _read: Mapping[str, Parameter] = field(repr=False)
    _answers: dict[tuple[Any, ...], bool] = field(default_factory=dict, repr=False)

    def holds(self, columns: Mapping[str, Column]) -> Mask:
        """Return, for n rows, whether it holds; each distinct combination is evaluated once.

        Raises:
            SpaceError: The callable raised an error that is not arithmetic.
        """
        values = [_plain(one, columns[name]) for name, one in self._read.items()]
        keys = [
            _distinguished(one, column)
            for one, column in zip(self._read.values(), values, strict=True)
        ]
        if len(self._answers) > _REMEMBERED:
            self._answers.clear()
        mask = np.empty(len(values[0]), dtype=np.bool_)
        for i, (key, row) in enumerate(
            zip(zip(*keys, strict=True), zip(*values, strict=True), strict=True)
        ):
            answer = self._answers.get(key)
            if answer is None:
                answer = self._answers[key] = self._evaluate(row)
            mask[i] = answer
        return mask

    def _evaluate(self, row: tuple[Any, ...]) -> bool:
        config = dict(zip(self.parameters, row, strict=True))
        try:
            return bool(self.function(config) if self.mapping else self.function(**config))
        except ArithmeticError:
            return False
        except Exception as error:
            whole = (
                "; its argument is not a parameter's name, so it receives the whole configuration"
            )
            raise SpaceError(
                f"constraint {self.text!r} failed on {config}: {error!r}{whole if self.mapping else ''}"
            ) from error

    def explain(self, config: Mapping[str, Any]) -> str:
        """Return the values that it read."""
        return ", ".join(f"{name} = {config[name]!r}" for name in self.parameters)


def from_callable(
    function: Callable[..., Any], parameters: Mapping[str, Parameter]
) -> CallableConstraint:
    """Return the constraint that a callable's truth expresses.

    Its argument names are the parameters it reads. If its only argument is not the name of a parameter, it receives
    the whole configuration as a mapping, as Kernel Tuner's restrictions do. It then depends on the parameters that it
    reads as ``p["name"]``, or on all parameters if its code uses the mapping in another way. Arguments that are not
    parameters keep their default value.

    Args:
        function: Called with plain Python values, once for each distinct combination of them.
        parameters: The parameters of the space.

    Raises:
        SpaceError: An argument without default is not a parameter, or the arguments cannot be inspected.
    """
    text = describe_callable(function)
    arguments = _arguments(function, text, parameters)
    needed = [one for one in arguments if one.default is inspect.Parameter.empty]
    if len(needed) == 1 and needed[0].name not in parameters:
        near = difflib.get_close_matches(needed[0].name, parameters, 1, cutoff=0.8)
        if near:  # any other name is taken for the whole configuration
            raise SpaceError(
                f"constraint {text!r} has the argument {needed[0].name!r}, which is not a parameter; did you mean "
                f"{near[0]!r}? A mapping of all parameters needs another name, such as config"
            )
        names = _subscripts(function, needed[0].name)
        known = names is not None and all(name in parameters for name in names)
        read = tuple(names or ()) if known and names else tuple(parameters)
        return CallableConstraint(
            function, text, read, True, {name: parameters[name] for name in read}
        )
    unknown = [one.name for one in needed if one.name not in parameters]
    if unknown:
        raise SpaceError(
            f"constraint {text!r} has the argument {unknown[0]!r}, which is not a parameter; "
            f"the parameters are {', '.join(parameters)}"
        )
    read = tuple(one.name for one in arguments if one.name in parameters)
    if not read:
        raise SpaceError(f"constraint {text!r} has no argument; name the parameters that it reads")
    return CallableConstraint(
        function, text, read, False, {name: parameters[name] for name in read}
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
    for one in arguments:
        if one.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise SpaceError(
                f"constraint {text!r} takes '*{one.name}'; name the parameters that it reads"
            )
        if one.kind is inspect.Parameter.POSITIONAL_ONLY and (
            len(arguments) > 1 or one.name in known
        ):
            raise SpaceError(
                f"constraint {text!r} takes {one.name!r} by position only; remove the '/'"
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
    for i, step in enumerate(steps):
        mentions = step.argval == argument or (
            isinstance(step.argval, tuple) and argument in step.argval
        )
        if "FAST" not in step.opname or not mentions:
            continue
        after = steps[i + 1 : i + 3]
        if step.argval != argument or not step.opname.startswith("LOAD_FAST") or len(after) < 2:
            return None
        key, subscript = after
        plain = key.opname == "LOAD_CONST" and isinstance(key.argval, str)
        taken = subscript.opname in _SUBSCRIPT and subscript.argrepr in ("", "[]")
        if not (plain and taken):
            return None
        keys.append(key.argval)
    return tuple(dict.fromkeys(keys))


def _plain(parameter: Parameter, column: Column) -> list[Any]:
    values = row_values(parameter, column)
    return [one.order if isinstance(one, Arrangement) else one for one in values]


def _distinguished(parameter: Parameter, values: list[Any]) -> list[Any]:
    """Return keys that keep 1, 1.0 and True apart where a domain mixes types."""
    if parameter.extent.kind is not ColumnKind.OBJECT:
        return values
    return [(type(value), value) for value in values]
