"""Settings of strategies: choices by name, ranges of numbers, and settings that follow the budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, TypeVar

from typing_extensions import Self, override

from baco_like.records.reading import finite_number
from baco_like.strategies.survey_defaults import SurveyRow, settings_for_budget

T = TypeVar("T")

BY_BUDGET: Any = None
"""Default of a setting that is chosen by the budget when a run starts."""


def setting(
    default: Any, *, within: str | None = None, choices: Mapping[str, Any] | None = None
) -> Any:
    """Declare a setting that `CheckedSettings` checks, as a field of a dataclass.

    Args:
        default: The default; None and `BY_BUDGET` are not checked.
        within: The interval of a number, such as ``"(0, 1]"``: a bracket includes the end, a parenthesis does not.
        choices: The names that a string may be.
    """
    return field(default=default, metadata={"within": within, "choices": choices})


def choose(name: str, choice: str | T, choices: Mapping[str, T]) -> T:
    """Return the object that a setting names; an object that is neither a name nor a number is returned unchanged.

    Raises:
        ValueError: The choice is unknown; the message lists the choices.
    """
    if isinstance(choice, str) and choice in choices:
        return choices[choice]
    if isinstance(choice, str | int | float):
        raise ValueError(f"{name} {choice!r} is unknown; choose from {', '.join(choices)}")
    return choice


def check_within(name: str, value: Any, interval: str) -> None:
    """Check that a setting is a finite number in an interval, written as in `setting`.

    Raises:
        ValueError: It is not.
    """
    low, high = map(float, interval[1:-1].split(","))
    number = finite_number(value)
    inside = number is not None and (
        low < number < high
        or (number == low and interval[0] == "[")
        or (number == high and interval[-1] == "]")
    )
    if not inside:
        raise ValueError(f"{name} = {value!r:.60}: expected {_describe_interval(interval)}")


def _describe_interval(interval: str) -> str:
    """Return words for an interval, such as "a number above 0 and at most 1"."""
    low, high = (end.strip() for end in interval[1:-1].split(","))
    ends = []
    if low != "-inf":
        ends.append(("of at least " if interval[0] == "[" else "above ") + low)
    if high != "inf":
        ends.append(("at most " if interval[-1] == "]" else "below ") + high)
    return "a number " + " and ".join(ends) if ends else "a finite number"


@dataclass(frozen=True)
class CheckedSettings:
    """Base of dataclasses whose fields are declared by `setting`."""

    def __post_init__(self) -> None:
        self.check_settings()

    def check_settings(self) -> None:
        """Check every setting; subclasses add the checks that need several settings.

        Raises:
            ValueError: A setting has an invalid value.
        """
        for declared in fields(self):
            value, metadata = getattr(self, declared.name), declared.metadata
            if value is None:
                continue
            if metadata.get("choices") is not None:
                choose(declared.name, value, metadata["choices"])
            if metadata.get("within") is not None:
                check_within(declared.name, value, metadata["within"])


@dataclass(frozen=True)
class BudgetedSettings(CheckedSettings):
    """Base of strategies in which open settings (None) get their values from the budget when a run starts."""

    survey: ClassVar[SurveyRow] = {}
    """The values of open settings, a row of `survey_defaults`."""

    @override
    def __post_init__(self) -> None:
        # Open settings get their values for an unknown budget here, so that all errors are raised at once.
        if self.for_budget(None) is self:
            self.check_settings()

    def default_settings(self, budget: int | None) -> Mapping[str, Any]:
        """Return the values of open settings for a budget of evaluations, or for an unknown budget (None)."""
        return settings_for_budget(self.survey, budget)

    def for_budget(self, budget: int | None) -> Self:
        """Return the strategy with values for all open settings."""
        values = {
            name: value
            for name, value in self.default_settings(budget).items()
            if value is not None and getattr(self, name) is None
        }
        return replace(self, **values) if values else self
