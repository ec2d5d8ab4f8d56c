"""Kernel Tuner's ``tune_params`` and ``restrictions``, as a user of it has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.values import is_number, ordered, plain
from baco_like.spaces.formats.description import Given, SpaceDescription, named


def read_kernel_tuner(
    tune_params: Mapping[str, Iterable[Any]], restrictions: Given | Iterable[Given] | None = None
) -> SpaceDescription:
    """Return the space of ``tune_params`` and ``restrictions``.

    Args:
        tune_params: From each name to its values.
        restrictions: Strings and callables, a list of them or a single one; callables take the parameters by name, or
            a mapping of them all.

    Raises:
        SpaceError: A domain is wrong, or a restriction is neither a string nor a callable.
    """
    if not isinstance(tune_params, Mapping):
        raise SpaceError(f"tune_params must be a dictionary, got {type(tune_params).__name__}")
    parameters = {name: values_parameter(name, values) for name, values in tune_params.items()}
    if restrictions is None:
        given: list[Given] = []
    elif isinstance(restrictions, str | Constraint) or callable(restrictions):
        given = [restrictions]
    else:
        given = list(restrictions)
    for one in given:
        if not (isinstance(one, str | Constraint) or callable(one)):
            raise SpaceError(
                f"restriction {one!r:.60} is neither a string nor a callable; write it as one"
            )
    return SpaceDescription(parameters, tuple(given))


def values_parameter(name: str, values: Iterable[Any], default: Any = None) -> Parameter:
    """Return the parameter of a list of values: an `Ordinal` of numbers, else a `Categorical`.

    Raises:
        SpaceError: As the parameter says, naming it.
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SpaceError(f"parameter {name!r}: its values must be a list, got {values!r:.60}")
    found = [plain(value) for value in ordered(values)]
    numeric = bool(found) and all(map(is_number, found))
    return named(name, Ordinal if numeric else Categorical, found, default=default)
