"""Settings of strategies: choices by name, and settings that follow the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from typing_extensions import Self

T = TypeVar("T")

BY_BUDGET: Any = None
"""Default of a setting that is chosen by the budget when a run starts."""


def choose(setting: str, choice: str | T, choices: Mapping[str, T]) -> T:
    """Return the object that a setting names; an object that is neither a name nor a number is returned unchanged.

    Raises:
        ValueError: The name is unknown; the message lists the choices.
    """
    if isinstance(choice, str) and choice in choices:
        return choices[choice]
    if isinstance(choice, str | int | float):
        raise ValueError(f"{setting} {choice!r} is unknown; choose from {', '.join(choices)}")
    return choice


@dataclass(frozen=True)
class BudgetedSettings:
    """Base of strategies in which open settings (None) get their values from the budget when a run starts."""

    def __post_init__(self) -> None:
        """Check the settings; open ones get their values for an unknown budget, so that errors are raised at once."""
        if self.for_budget(None) is self:
            self.check_settings()

    def default_settings(self, budget: int | None) -> Mapping[str, Any]:
        """Return the values of open settings for a budget of evaluations, or for an unknown budget (None)."""
        return {}

    def check_settings(self) -> None:
        """Check the settings when none is open.

        Raises:
            ValueError: A setting has an invalid value.
        """

    def for_budget(self, budget: int | None) -> Self:
        """Return the strategy with values for all open settings."""
        defaults = self.default_settings(budget)
        values = {
            name: value
            for name, value in defaults.items()
            if value is not None and getattr(self, name) is None
        }
        return replace(self, **values) if values else self


def check_share(setting: str, share: float) -> None:
    """Check that a setting is in (0, 1].

    Raises:
        ValueError: It is not.
    """
    if not 0.0 < share <= 1.0:
        raise ValueError(f"{setting} {share} is not a share; give a number above 0 and at most 1")


def check_at_least(setting: str, number: float, least: float) -> None:
    """Check that a number is not below a limit.

    Raises:
        ValueError: It is.
    """
    if number < least:
        raise ValueError(f"{setting} {number} is too small; give at least {least}")
