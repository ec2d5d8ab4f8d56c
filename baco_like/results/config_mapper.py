"""Map configurations of another space, or of a file, to configurations of a space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baco_like.parameters.bases import first_own_value
from baco_like.spaces.space import Space


def default_values(space: Space) -> dict[str, Any]:
    """Return per parameter its default, the only value of a constant, or None."""
    defaults = {name: Space({name: p}).default_config for name, p in space.parameters.items()}
    return {name: None if config is None else config[name] for name, config in defaults.items()}


@dataclass(frozen=True)
class ConfigMapper:
    """Maps configurations to the values of a space. Constraints are not checked.

    Attributes:
        space: The target space.
        fill: Returns the value of a parameter that a configuration lacks, by name; None if there is none.
        required: By name, values of parameters that the space lacks; configurations with another value are refused.
        exact: Whether only equal values are accepted, not texts for numbers as files have them.
    """

    space: Space
    fill: Callable[[str], Any]
    required: Mapping[str, Any] = field(default_factory=dict)
    exact: bool = False

    def map(self, config: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """Return the configuration in the values of the space, or None with the reason."""
        for name, value in self.required.items():
            if name in config and (value is None or config[name] != value):
                return None, f"they have another value of {name!r} than its default"
        mapped: dict[str, Any] = {}
        for name, parameter in self.space.parameters.items():
            reason = f"they have another value of {name!r} than the space"
            if name not in config:
                value, reason = self.fill(name), f"they lack {name!r}"
            elif self.exact:
                value = first_own_value(parameter, [config[name]])
            else:
                value = parameter.value_from_text(config[name])
            if value is None:
                return None, reason
            mapped[name] = value
        return mapped, ""
