"""Kernel Tuner's ``tune_params`` and ``restrictions``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError
from baco_like.spaces.formats.description import SpaceDescription
from baco_like.spaces.inputs import GivenConstraint, parameter_from_values


def read_kernel_tuner(
    tune_params: Mapping[str, Iterable[Any]],
    restrictions: GivenConstraint | Iterable[GivenConstraint] | None = None,
) -> SpaceDescription:
    """Return the space of ``tune_params`` and ``restrictions``.

    Args:
        tune_params: From each name to its values.
        restrictions: A string, a callable, or a list of them; callables take parameters by name, or a mapping of all
            parameters.

    Raises:
        SpaceError: A domain is wrong, or a restriction is neither a string nor a callable.
    """
    if not isinstance(tune_params, Mapping):
        raise SpaceError(f"tune_params must be a dictionary, got {type(tune_params).__name__}")
    parameters = {name: parameter_from_values(name, values) for name, values in tune_params.items()}
    if restrictions is None:
        given: list[GivenConstraint] = []
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
