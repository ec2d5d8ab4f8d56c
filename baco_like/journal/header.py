"""The header of a journal, its first record: space, options, library versions and machine."""

from __future__ import annotations

import operator
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from importlib import metadata
from typing import Any

import numpy as np

from baco_like.exceptions import JournalError
from baco_like.journal.events import SCHEMA, Event, config_from_json, normalise
from baco_like.journal.warm_start_results import WarmStartResults
from baco_like.records.direction import Direction
from baco_like.records.history import Noise
from baco_like.spaces.inputs import describe_differences
from baco_like.spaces.space import Space

_LIBRARIES = ("baco-like", "numpy", "scipy", "torch", "gpytorch", "scikit-learn")


def whole(name: str, value: Any, least: int) -> int:
    """Return an argument as an int.

    Raises:
        ValueError: It is not an integer, or below ``least``; bools are rejected.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, (bool, np.bool_)) or number < least:
        raise ValueError(f"{name} must be a whole number from {least}, not {value!r}")
    return number


@dataclass(frozen=True)
class Options:
    """Options of a run; fixed when its journal is created.

    Attributes:
        direction: ``minimize`` or ``maximize``.
        seed: The run's only seed.
        objective: Name of the observed value.
        budget: Total number of evaluations, or None.
        noise: Whether observed configurations may be suggested again.
        strategy: Name and settings of a registered strategy, or the description of an object.
        context: What else the values depend on (unit, evaluator), as JSON values by name; compared on resume.
    """

    direction: Direction
    seed: int
    objective: str
    budget: int | None
    noise: Noise
    strategy: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, allowed in (
            ("direction", ("minimize", "maximize")),
            ("noise", ("none", "repeat")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {allowed}, not {getattr(self, name)!r}")
        object.__setattr__(self, "seed", whole("seed", self.seed, 0))
        if self.budget is not None:
            object.__setattr__(self, "budget", whole("budget", self.budget, 1))
        if not isinstance(self.objective, str) or not self.objective:
            raise ValueError(f"objective must be the value's name, not {self.objective!r}")


@dataclass(frozen=True)
class Header:
    """The header of a journal.

    Attributes:
        space: The space as `Space.to_dict` returns it.
        options: Options of the run.
        queue: First configurations.
        earlier: Results of warm starts.
    """

    space: Mapping[str, Any]
    options: Options
    queue: tuple[Mapping[str, Any], ...] = ()
    earlier: tuple[WarmStartResults, ...] = ()

    def event(self) -> Event:
        """Return the ``opened`` event, which also has library versions, machine and time."""
        return {
            "event": "opened",
            "schema": SCHEMA,
            "space": self.space,
            "options": asdict(self.options),
            "queue": [dict(config) for config in self.queue],
            **({"warm_start": [part.event() for part in self.earlier]} if self.earlier else {}),
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
        """Return the header in an ``opened`` event.

        Raises:
            JournalError: It is another event, malformed, or of a newer schema.
        """
        if event.get("event") != "opened":
            raise JournalError(
                f"{path}: record 0 is not a header; the file is not a baco_like journal", 0
            )
        schema = event.get("schema")
        if schema != SCHEMA:
            raise JournalError(
                f"{path} was written with schema {schema!r}, this version knows {SCHEMA}; upgrade baco-like",
                0,
            )
        try:
            options, space = Options(**event["options"]), event["space"]
            for part, kind in (
                (options.strategy, dict),
                (options.context, dict),
                (space["parameters"], dict),
                (space["constraints"], list),
            ):
                if not isinstance(part, kind):
                    raise TypeError(f"{part!r:.80} is not a {kind.__name__}")
            earlier = tuple(map(WarmStartResults.read, event.get("warm_start", ())))
            return cls(dict(space), options, tuple(map(config_from_json, event["queue"])), earlier)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalError(f"{path}: record 0 is not a header: {error!r}", 0) from error

    def check(
        self, space: Space, options: Options, points: Sequence[Any] | None, path: str
    ) -> None:
        """Refuse to resume with another space, other options or other first points; a different budget is accepted.

        Raises:
            JournalError: There are differences; the message lists them.
        """
        found = describe_differences(self.space, space.to_dict())
        way = ", or baco_like.migrate(OLD, NEW, space) for a changed space" if found else ""
        # Compare JSON values: a tuple in the settings or the context is a list in the journal.
        had, given = (
            normalise({"event": "opened", "options": asdict(one)})["options"]
            for one in (self.options, options)
        )
        for part in fields(Options):
            old, new = had[part.name], given[part.name]
            if part.name == "context":
                found += _context_differences(old, new)
            elif part.name != "budget" and old != new:
                found.append(f"{part.name} was {old!r}, now {new!r}")
        if points is not None and list(map(dict, self.queue)) != list(map(dict, points)):
            found.append(f"the first points were {list(map(dict, self.queue))}, now {list(points)}")
        if found:
            raise JournalError(
                f"{path} belongs to another run: {'; '.join(found)}; use the same, or another file{way}"
            )


def _context_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    names = [*old, *(name for name in new if name not in old)]
    return [
        f"{name} was {old.get(name)!r}, now {new.get(name)!r}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def describe(value: Any) -> Any:
    """Return a JSON description of a settings object by its class and fields; it is the same in every process."""
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
