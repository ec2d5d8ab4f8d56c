"""Recording spaces: a table of results with the space that it covers, looked up by row."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._typing import Array
from baco_like.benchmarking.score import Baseline, NothingToScore, score
from baco_like.evaluators.replay import load
from baco_like.exceptions import BacoError, EvaluatorError
from baco_like.records.direction import Direction, sign_of
from baco_like.records.trial import Outcome
from baco_like.results.recording import Recording
from baco_like.spaces.space import Space

OUTSIDE = -1
"""The row of a configuration that the table does not have."""

_TABLES = (".json.gz", ".json")
_SPACE = ".space.json"


@dataclass(frozen=True)
class Place:
    """Which recorded space is meant, small enough to travel to other processes.

    Attributes:
        name: In tables and plots: the path below the folder that was given, without its ending.
        path: The file of the table.
        direction: What is wanted of its values; most files do not say.
        digest: Of everything above and the file's content; runs on another content are not comparable.
    """

    name: str
    path: Path
    direction: Direction
    digest: str


@dataclass(frozen=True, eq=False)
class RecordedSpace:
    """A space with everything that can happen on it.

    Attributes:
        place: Where it was read from.
        space: Its feasible configurations are those of the table, or those of the description beside it
            (``NAME.space.json`` beside ``NAME.json.gz``), which may have more.
        recorded: The table.
    """

    place: Place
    space: Space
    recorded: Recording

    @cached_property
    def entries(self) -> list[Outcome]:
        """What was recorded, by row; a row is a configuration's number in the file."""
        return list(self.recorded.entries.values())

    @cached_property
    def _rows(self) -> Mapping[tuple[Any, ...], int]:
        return {values: row for row, values in enumerate(self.recorded.entries)}

    def row(self, config: Mapping[str, Any]) -> int:
        """Return the row of a configuration, or `OUTSIDE`."""
        return self._rows.get(tuple(config[name] for name in self.recorded.names), OUTSIDE)

    @cached_property
    def costs(self) -> Array:
        """Minimised values by row, ``(n + 1,)``; NaN where it failed, and in the last place, for `OUTSIDE`."""
        sign = sign_of(self.place.direction)
        values = [math.nan if e.value is None else sign * e.value for e in self.entries]
        return np.array([*values, math.nan])

    @cached_property
    def seconds(self) -> Array:
        """What each evaluation took by row, ``(n + 1,)``, in all its stages; NaN where that was not recorded.

        That of a configuration outside the table, in the last place, is 0.
        """
        times = [math.fsum(e.seconds.values()) if e.seconds else math.nan for e in self.entries]
        return np.array([*times, 0.0])

    @cached_property
    def baseline(self) -> Baseline:
        """What random search does on it; what known constraints excluded when it was recorded does not count."""
        kept = [row for row, e in enumerate(self.entries) if e.failed != "constraints"]
        return Baseline.of(self.costs[kept], self.seconds[kept])


def read(place: Place) -> RecordedSpace:
    """Read a recorded space.

    Raises:
        EvaluatorError: The table cannot be read, has no two different values, has another direction, or is
            so small that random search is at the optimum at once.
        SpaceError: The description beside it is wrong.
    """
    recorded = load(place.path)
    if len({e.value for e in recorded.entries.values() if e.value is not None}) < 2:
        raise EvaluatorError(f"{place.path}: there are no two values; there is nothing to find")
    if recorded.direction not in (None, place.direction):
        raise EvaluatorError(
            f"{place.path}: its values are to {recorded.direction}, not to {place.direction}; compare it by itself "
            f"with --direction {recorded.direction}"
        )
    described = _described(place.path)
    if described.exists():
        space = Space.from_dict(json.loads(described.read_text(encoding="utf-8")))
    else:
        space = Space.from_dataframe(_feasible_configs(recorded))
    found = RecordedSpace(place, space, recorded)
    try:
        score(found.baseline.costs[None, :1], found.baseline)  # any run will do
    except NothingToScore as error:
        raise EvaluatorError(f"{place.path}: {error}") from None
    return found


def _feasible_configs(recorded: Recording) -> Iterable[dict[str, Any]]:
    """Return the configurations that no known constraint excluded when the table was recorded."""
    for values, entry in recorded.entries.items():
        if entry.failed != "constraints":
            yield dict(zip(recorded.names, values, strict=True))


def find(root: Path, direction: Direction) -> tuple[list[RecordedSpace], list[str]]:
    """Read the recorded spaces in a folder and the folders below; also return a line on each file that is none.

    Args:
        root: The folder, or a single table.
        direction: What is wanted of all their values.

    Raises:
        EvaluatorError: There is none.
    """
    paths = [root] if root.is_file() else sorted(p for p in root.rglob("*") if _is_table(p))
    base = root.parent if root.is_file() else root
    found, notes = [], []
    for path in paths:
        try:
            found.append(read(_place(path, base, direction)))
        except BacoError as error:
            notes.append(f"left out: {error}")
    if not found:
        told = f" ({notes[0]})" if notes else ""
        raise EvaluatorError(
            f"no recorded space in {root}{told}; give a folder of T4 results or Kernel Tuner caches"
        )
    names = [one.place.name for one in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise EvaluatorError(f"{root} has {twice[0]!r} twice, as .json and .json.gz; remove one")
    return found, notes


def _is_table(path: Path) -> bool:
    return path.is_file() and path.name.endswith(_TABLES) and not path.name.endswith(_SPACE)


def _place(path: Path, base: Path, direction: Direction) -> Place:
    described = _described(path)
    try:
        content = path.read_bytes() + (described.read_bytes() if described.exists() else b"")
    except OSError as error:
        raise EvaluatorError(f"{path}: cannot be read: {error}") from None
    digest = hashlib.sha256(direction.encode() + content).hexdigest()[:16]
    return Place(_stem(path.relative_to(base).as_posix()), path, direction, digest)


def _described(path: Path) -> Path:
    return path.with_name(_stem(path.name) + _SPACE)


def _stem(name: str) -> str:
    for ending in _TABLES:
        if name.endswith(ending):
            return name[: -len(ending)]
    return name
