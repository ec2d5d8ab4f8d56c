"""Values that users, tables and JSON give, as the parameter's own Python values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from baco_like.exceptions import SpaceError
from baco_like.parameters.protocol import Parameter


def first_own_value(parameter: Parameter, readings: Iterable[Any]) -> Any | None:
    """Return the parameter's own value of the first reading that it contains, or None."""
    for reading in readings:
        if parameter.contains(reading):
            return parameter.decode(parameter.encode([reading]))[0]
    return None


def checked_default(parameter: Parameter, default: Any | None, domain: str) -> Any | None:
    """Return a default as the parameter's own value; None stays None.

    Args:
        parameter: Its domain must be complete.
        default: As the user gave it.
        domain: Shown in the message.

    Raises:
        SpaceError: The default is outside the domain.
    """
    if default is None:
        return None
    own = first_own_value(parameter, [default])
    if own is None:
        raise SpaceError(f"default {default!r} is not in the domain {domain}")
    return own
