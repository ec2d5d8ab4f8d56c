"""The first record of a journal: for which space and with which options the run was made, by what, and where."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib import metadata
from typing import Any

from baco_like.exceptions import JournalError
from baco_like.records.history import Goal, Noise
from baco_like.records.journal import SCHEMA, Event, plain
from baco_like.spaces.given import difference
from baco_like.spaces.space import Space

_LIBRARIES = ("baco-like", "numpy", "scipy", "torch", "gpytorch", "scikit-learn")


@dataclass(frozen=True)
class Options:
    """What a run was asked for; fixed from the first record on.

    Attributes:
        direction: ``minimize`` or ``maximize``.
        seed: The only seed.
        objective: Name of the observed value.
        budget: Evaluations in all, or None.
        noise: Whether observed configurations may be suggested again.
        strategy: ``{"name", "settings"}`` of a registered strategy, or the description of an object.
    """

    direction: Goal
    seed: int
    objective: str
    budget: int | None
    noise: Noise
    strategy: Mapping[str, Any]

    def __post_init__(self) -> None:
        for name, allowed in (
            ("direction", ("minimize", "maximize")),
            ("noise", ("none", "repeat")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, not {getattr(self, name)!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be a non-negative int, not {self.seed!r}")
        if self.budget is not None and self.budget < 1:
            raise ValueError(f"budget must be None or at least 1, not {self.budget!r}")


@dataclass(frozen=True)
class Header:
    """The space as its dictionary, the options, and the configurations that the user wants first."""

    space: Mapping[str, Any]
    options: Options
    queue: tuple[Mapping[str, Any], ...] = ()

    def event(self) -> Event:
        """Return the ``opened`` event, with the library versions, the machine and the time beside it."""
        return {
            "event": "opened",
            "schema": SCHEMA,
            "space": self.space,
            "options": asdict(self.options),
            "queue": [dict(config) for config in self.queue],
            "versions": {"python": sys.version.split()[0], **_versions()},
            "host": {
                "name": platform.node(),
                "machine": platform.machine(),
                "cpus": os.cpu_count(),
            },
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

    @classmethod
    def read(cls, event: Event, path: str) -> Header:
        """Return the header that an ``opened`` event holds.

        Raises:
            JournalError: It is no such event, or of a newer schema.
        """
        if event.get("event") != "opened":
            raise JournalError(
                f"{path}: the first record is not a header; this is no journal of ours", 0
            )
        if event["schema"] > SCHEMA:
            raise JournalError(
                f"{path} was written by a newer version (schema {event['schema']}, known {SCHEMA}); upgrade baco-like",
                0,
            )
        return cls(event["space"], Options(**event["options"]), tuple(map(plain, event["queue"])))

    def check(self, space: Space, options: Options, path: str) -> None:
        """Refuse to go on with another space or other options; the budget is the journal's in any case.

        Raises:
            JournalError: Something differs; the message says what.
        """
        found = difference(self.space, space.to_dict())
        for part in fields(Options):
            old, new = getattr(self.options, part.name), getattr(options, part.name)
            if part.name != "budget" and old != new:
                found.append(f"{part.name} was {old!r}, now {new!r}")
        if found:
            raise JournalError(
                f"{path} belongs to another run: {'; '.join(found)}; use the same, or another file"
            )


def describe(value: Any) -> Any:
    """Return a JSON description of a frozen recipe by the names of its parts, the same in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: describe(getattr(value, f.name)) for f in fields(value) if f.repr}
        return {"class": type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {str(k): describe(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
