"""Map configurations of another space, or of a file, to configurations of a space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baco_like.parameters.bases import first_own_value
from baco_like.parameters.protocol import Parameter
from baco_like.spaces.space import Space

Config = Mapping[str, Any]


def default_values(space: Space) -> dict[str, Any]:
    """Return per parameter its default, the only value of a constant, or None."""
    defaults = {name: Space({name: p}).default_config for name, p in space.parameters.items()}
    return {name: None if config is None else config[name] for name, config in defaults.items()}


def read_text(parameter: Parameter, value: Any) -> Any | None:
    """Read a value of a file, which may be a text for a number; return the parameter's own value, or None."""
    return parameter.value_from_text(value)


def read_exact(parameter: Parameter, value: Any) -> Any | None:
    """Return the parameter's equal value, or None."""
    return first_own_value(parameter, [value])


@dataclass(frozen=True)
class ConfigMapper:
    """Maps configurations to the values of a space. Constraints are not checked.

    Attributes:
        space: The target space.
        fill: Returns the value of a parameter that a configuration lacks, by name; None if there is none.
        required: By name, values of parameters that the space lacks; configurations with another value are refused.
        read: Returns a parameter's own value for a given value, or None.
    """

    space: Space
    fill: Callable[[str], Any]
    required: Mapping[str, Any] = field(default_factory=dict)
    read: Callable[[Parameter, Any], Any] = read_text

    def map(self, config: Config) -> tuple[dict[str, Any] | None, str]:
        """Return the configuration in the values of the space, or None with the reason."""
        for name, value in self.required.items():
            if name in config and (value is None or config[name] != value):
                return None, f"they have another value of {name!r} than its default"
        mapped: dict[str, Any] = {}
        for name, parameter in self.space.parameters.items():
            if name in config:
                value = self.read(parameter, config[name])
                reason = f"they have another value of {name!r} than the space"
            else:
                value, reason = self.fill(name), f"they lack {name!r}"
            if value is None:
                return None, reason
            mapped[name] = value
        return mapped, ""
