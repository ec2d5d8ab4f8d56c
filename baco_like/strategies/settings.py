"""Settings by name: what a word stands for, and how a wrong one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def named(setting: str, name: str, meanings: Mapping[str, T]) -> T:
    """Return what a setting's word stands for.

    Raises:
        ValueError: It is no known word; the message lists what there is.
    """
    if name not in meanings:
        raise ValueError(f"{setting} {name!r} is unknown; choose from {', '.join(meanings)}")
    return meanings[name]


def given(**settings: Any) -> dict[str, Any]:
    """Return the settings that were not left open, which None means."""
    return {name: value for name, value in settings.items() if value is not None}
