"""What a reader of space files returns."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError
from baco_like.parameters.protocol import Parameter

MAX_FILE = 64 * 2**20
"""Bytes of a space file that are read at most."""

Given: TypeAlias = str | Callable[..., Any] | Constraint
"""What a space accepts as a constraint."""


@dataclass(frozen=True)
class SpaceDescription:
    """The ingredients of a space.

    Attributes:
        parameters: By name, in the order of the file; defaults and priors are theirs.
        constraints: Texts, callables or constraints.
        notes: One line for everything that was left out, replaced or not understood.
        settings: What the file says besides the space (objectives, budget, ...), as it stands there.
    """

    parameters: Mapping[str, Parameter]
    constraints: tuple[Given, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def json_object(source: str | Path | Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return a parsed file: the mapping that was given, or the one in the file at a path.

    Raises:
        SpaceError: The file is too large, is not JSON, or holds no object.
        OSError: It cannot be read.
    """
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    if path.stat().st_size > MAX_FILE:
        raise SpaceError(f"{what} {path.name!r} has more than {MAX_FILE} bytes")
    try:
        data = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SpaceError(f"{what} {path.name!r} is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise SpaceError(f"{what} {path.name!r} holds no JSON object")
    return data


def named(name: str, make: Callable[..., Parameter], *args: Any, **kwargs: Any) -> Parameter:
    """Return a parameter; an error names it.

    Raises:
        SpaceError: As the parameter says.
    """
    try:
        return make(*args, **kwargs)
    except SpaceError as error:
        raise SpaceError(f"parameter {name!r}: {error}") from None
