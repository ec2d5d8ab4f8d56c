"""The fidelity of a space: a parameter whose lower values make evaluations cheaper, such as the size of the input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.exceptions import SpaceError
from baco_like.parameters import Ordinal
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.inputs import make_named

GivenFidelity = str | Mapping[str, Sequence[Any]]
"""The name of an ordinal parameter, or the name of a new one with its values."""


@dataclass(frozen=True)
class Fidelity:
    """The fidelity parameter. Only its last value, the target, counts for the best configuration.

    Attributes:
        name: Name of the parameter.
        levels: Its values, from the cheapest to the target.
        column: Its code column; the code is the index of the level.
    """

    name: str
    levels: tuple[Any, ...]
    column: int

    @property
    def target(self) -> int:
        """Index of the target."""
        return len(self.levels) - 1


def add_fidelity(
    parameters: Mapping[str, Parameter], given: GivenFidelity | None
) -> tuple[dict[str, Parameter], str | None]:
    """Add the fidelity as a parameter; return all parameters and its name, or None without a fidelity.

    The target is its default value, so that a default configuration is evaluated at the target.

    Raises:
        SpaceError: It is not one ordinal parameter with two values or more, or the name is taken or unknown.
    """
    known = dict(parameters)
    if given is None:
        return known, None
    if isinstance(given, str):
        if given not in known:
            raise SpaceError(f"fidelity = {given!r} is not a parameter; one of {', '.join(known)}")
        name, parameter = given, known[given]
    else:
        if not isinstance(given, Mapping) or len(given) != 1:
            raise SpaceError(
                f"fidelity = {given!r:.80}: expected one parameter, such as {{'size': [256, 512, 1024]}}"
            )
        ((name, values),) = given.items()
        if name in known:
            raise SpaceError(f"fidelity: the space has a parameter {name!r} already; rename one")
        listed = [values] if isinstance(values, str) else list(values)
        parameter = make_named(name, Ordinal, listed, default=listed[-1] if listed else None)
        if parameter.values != tuple(listed):
            raise SpaceError(
                f"fidelity {name!r}: the values {listed!r:.80} are not in increasing order; the last one is the target"
            )
    if not isinstance(parameter, Ordinal) or len(parameter.values) < 2:
        raise SpaceError(
            f"fidelity {name!r}: expected an ordinal parameter with two values or more"
        )
    return {**known, name: parameter}, name
