"""The result type of the readers of space files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import SpaceError
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.inputs import GivenConstraint

MAX_FILE = 64 * 2**20
"""Most bytes of a space file."""


@dataclass(frozen=True)
class SpaceDescription:
    """The ingredients of a space.

    Attributes:
        parameters: By name, in the order of the file; they carry defaults and priors.
        constraints: Texts, callables or constraints.
        notes: One line for everything that was left out, replaced or not understood.
        settings: The other members of the file (objectives, budget, ...), unchanged.
    """

    parameters: Mapping[str, Parameter]
    constraints: tuple[GivenConstraint, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


class SpaceContents(Protocol):
    """The members of `Space` that writers of space files read."""

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """Parameters by name, in order."""

    @property
    def constraints(self) -> Sequence[Constraint]:
        """Known constraints, in order."""


def json_object(source: str | Path | Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return the given mapping, or the contents of the JSON file at a path.

    Raises:
        SpaceError: The file is too large, is not JSON, or does not contain an object.
        OSError: The file cannot be read.
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
        raise SpaceError(f"{what} {path.name!r} does not contain a JSON object")
    return data
