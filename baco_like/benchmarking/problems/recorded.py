"""Recorded problems: a table of results together with the space that it covers."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._output import explain_os_error
from baco_like._typing import Array, Rng
from baco_like.benchmarking.problems.problem import OUTSIDE, Evaluated
from baco_like.benchmarking.score import Baseline, NothingToScore, score
from baco_like.evaluators.replay import load
from baco_like.exceptions import BacoError, EvaluatorError
from baco_like.journal.events import outcome_row
from baco_like.records import Outcome, Trial
from baco_like.records.objective import Direction, sign_of
from baco_like.results.files import hash_of_files
from baco_like.results.recording import Recording
from baco_like.spaces.formats.description import json_object
from baco_like.spaces.space import Space

_TABLE_SUFFIXES = (".json.gz", ".json")
_SPACE_SUFFIX = ".space.json"


@dataclass(frozen=True)
class RecordedSource:
    """Identifies a recorded problem; small enough to be sent to other processes.

    Attributes:
        name: Name in tables and plots: the path relative to the given folder, without its suffix.
        path: The file of the table.
        direction: Direction of its values; None takes the one of the file, or minimises where the file does not say.
        digest: Digest of the contents; runs on other contents are not comparable.
        large: Whether the file may have more than 64 MiB, unpacked.
    """

    name: str
    path: Path
    direction: Direction | None
    digest: str
    large: bool = False

    @property
    def files(self) -> dict[str, Path]:
        """The table, and the description of its space if there is one, by their names in a folder of problems."""
        description = _description_of(self.path)
        suffix = ".json.gz" if self.path.name.endswith(".gz") else ".json"
        own = {self.name + _SPACE_SUFFIX: description} if description.exists() else {}
        return {self.name + suffix: self.path, **own}


@dataclass(frozen=True, eq=False)
class RecordedProblem:
    """A space with the recorded outcomes of its configurations; other processes read the file again.

    Attributes:
        source: The file.
        space: Its feasible configurations are those of the table, or of the description in ``NAME.space.json`` next
            to the table ``NAME.json.gz``, which may have more.
        recorded: The table.
    """

    source: RecordedSource
    space: Space
    recorded: Recording

    @property
    def name(self) -> str:
        """The name of its source."""
        return self.source.name

    @property
    def direction(self) -> Direction:
        """The direction of its values."""
        return self.recorded.resolve_direction(self.source.direction)

    @property
    def digest(self) -> str:
        """Digest of the contents of the file."""
        return self.source.digest

    @property
    def best_value(self) -> float:
        """The best recorded value."""
        return sign_of(self.direction) * self.baseline.optimum

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return read_once, (self.source,)

    def evaluate(self, trial_id: int, config: Mapping[str, Any], rng: Rng | None) -> Evaluated:
        """Return the recorded outcome; with a generator, a value that is drawn from the recorded repeats."""
        row = self.row(config)
        seconds = float(np.nan_to_num(self.seconds[row]))
        if row == OUTSIDE:
            outcome = Outcome.failure(trial_id, "constraints", "not in the recorded table")
            return Evaluated(outcome, row, seconds)
        entry = self.entries[row]
        if entry.value is None:
            outcome = Outcome.failure(trial_id, entry.failed or "runtime", entry.message)
        elif rng is None or not entry.repeats:
            outcome = Outcome.success(trial_id, (entry.value,))
        else:
            drawn = entry.repeats[int(rng.integers(len(entry.repeats)))]
            outcome = Outcome.success(trial_id, (drawn,))
        return Evaluated(outcome, row, seconds)

    @cached_property
    def entries(self) -> list[Outcome]:
        """The recorded outcomes by row, which is the position in the file."""
        return list(self.recorded.entries.values())

    @cached_property
    def _rows(self) -> Mapping[tuple[Any, ...], int]:
        return {values: row for row, values in enumerate(self.recorded.entries)}

    def row(self, config: Mapping[str, Any]) -> int:
        """Return the row of a configuration, or `OUTSIDE`."""
        return self._rows.get(tuple(map(config.get, self.recorded.names)), OUTSIDE)

    def log_entry(self, row: int) -> dict[str, Any]:
        """Return what the table says of an evaluation, as in `StrategyRun.log`."""
        return outcome_row(Trial(row, self._configs[row]), self.entries[row])

    @cached_property
    def _configs(self) -> list[dict[str, Any]]:
        rows = (zip(self.recorded.names, row, strict=True) for row in self.recorded.entries)
        return [{name: value for name, value in row if value is not None} for row in rows]

    @cached_property
    def costs(self) -> Array:
        """Costs by row, ``(n + 1,)``; NaN for failures, and in the last position for `OUTSIDE`."""
        sign = sign_of(self.direction)
        costs = [math.nan if e.value is None else sign * e.value for e in self.entries]
        return np.array([*costs, math.nan])

    @cached_property
    def seconds(self) -> Array:
        """Duration of each evaluation with all its stages by row, ``(n + 1,)``; NaN if it was not recorded.

        The last position, for `OUTSIDE`, is 0.
        """
        times = [math.fsum(e.seconds.values()) if e.seconds else math.nan for e in self.entries]
        return np.array([*times, 0.0])

    @cached_property
    def baseline(self) -> Baseline:
        """Random search on the space, without the rows that known constraints excluded during the recording."""
        kept = [row for row, e in enumerate(self.entries) if e.failed != "constraints"]
        return Baseline.from_costs(self.costs[kept], self.seconds[kept])


def read_table(
    path: Path, base: Path, direction: Direction | None, *, large: bool = False
) -> RecordedProblem:
    """Read the recorded problem of a file; its name is the path relative to a folder."""
    return read_recorded(_source_of(path, base, direction, large))


def read_recorded(source: RecordedSource) -> RecordedProblem:
    """Read a recorded problem.

    Raises:
        EvaluatorError: The table cannot be read, has fewer than two different values or another direction, or is so
            small that random search finds the optimum at once.
        SpaceError: The description of the space is wrong.
    """
    recorded = load(source.path, large=source.large)
    if len({e.value for e in recorded.entries.values() if e.value is not None}) < 2:
        raise EvaluatorError(f"{source.path}: no two values differ; there is nothing to find")
    try:
        recorded.resolve_direction(source.direction)
    except ValueError as error:
        raise EvaluatorError(f"{source.path}: {error}") from None
    description = _description_of(source.path)
    if description.exists():
        space = Space.from_dict(json_object(description, "description of a space"))
    else:
        # Without the configurations that a known constraint excluded during the recording.
        kept = [row for row, entry in recorded.entries.items() if entry.failed != "constraints"]
        space = Space.from_dataframe(dict(zip(recorded.names, row, strict=True)) for row in kept)
    problem = RecordedProblem(source, space, recorded)
    baseline = problem.baseline
    try:
        # Any run shows whether there is something to score.
        score(baseline.costs[None, :1], baseline)
    except NothingToScore as error:
        raise EvaluatorError(f"{source.path}: {error}") from None
    return problem


@cache
def read_once(source: RecordedSource) -> RecordedProblem:
    """Return a recorded problem, which is read once in each process."""
    return read_recorded(source)


def find_recorded(
    root: Path, direction: Direction | None = None, *, large: bool = False
) -> tuple[list[RecordedProblem], list[str]]:
    """Read all recorded problems of a folder and its subfolders.

    Args:
        root: The folder, or a single table.
        direction: Direction of all their values; None takes the one of each file, or minimises.
        large: Whether files may have more than 64 MiB, unpacked.

    Returns:
        The problems, and one line for each file that is not a recorded space.

    Raises:
        EvaluatorError: There is no recorded space.
    """
    is_file = os.path.isfile(root)  # unlike Path.is_file, false for impossible names
    with explain_os_error(EvaluatorError, "read", root):
        paths = [root] if is_file else sorted(p for p in root.rglob("*") if _is_table(p))
    base = root.parent if is_file else root
    problems: list[RecordedProblem] = []
    notes: list[str] = []
    for path in paths:
        try:
            problems.append(read_table(path, base, direction, large=large))
        except BacoError as error:
            notes.append(f"left out: {error}")
    if not problems:
        reason = f" ({notes[0]})" if notes else ""
        raise EvaluatorError(
            f"no recorded space in {root}{reason}; give a folder of T4 results or Kernel Tuner caches"
        )
    name, count = Counter(problem.name for problem in problems).most_common(1)[0]
    if count > 1:
        raise EvaluatorError(f"{root} has {name!r} twice, as .json and .json.gz; remove one")
    return problems, notes


def _is_table(path: Path) -> bool:
    name = path.name
    is_named_so = name.endswith(_TABLE_SUFFIXES) and not name.endswith(_SPACE_SUFFIX)
    return is_named_so and os.path.isfile(path)


def _source_of(path: Path, base: Path, direction: Direction | None, large: bool) -> RecordedSource:
    description = _description_of(path)
    try:
        digest = hash_of_files([path, *([description] if description.exists() else [])])
    except OSError as error:
        raise EvaluatorError(f"{path}: cannot be read: {error}") from None
    name = _remove_suffix(path.relative_to(base).as_posix())
    return RecordedSource(name, path, direction, digest, large)


def _description_of(path: Path) -> Path:
    return path.with_name(_remove_suffix(path.name) + _SPACE_SUFFIX)


def _remove_suffix(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".json")
