"""Beginning with earlier results: where they come from, and which of them belong to the space."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Rng
from baco_like.exceptions import ConfigError, JournalError, RunFileError, WarmStartWarning
from baco_like.journal.header import Options, whole
from baco_like.journal.warm_start_results import MODES, Mode, WarmStartResults, numbered
from baco_like.optimizer.matching import Matching
from baco_like.records.direction import Direction, sign_of
from baco_like.records.history import History
from baco_like.records.reading import number_in, outcome_from, without_bound
from baco_like.records.table import column
from baco_like.records.trial import Outcome, Status, Trial
from baco_like.results.formats import read
from baco_like.results.recording import Recording, by_measurement
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import RelatedTask
from baco_like.surrogates.gp.fit import chosen_rows

_FAILED_AS = 0.75
"""Quantile of the successes that a failure counts as when the results of a large source are chosen from."""

_LEAST = 3
"""Different values that a related task must have: of two, any model ranks half of the pairs right."""

Row = tuple[Mapping[str, Any], Outcome]


@dataclass(frozen=True)
class WarmStart:
    """Earlier results, and what they are for.

    Args:
        data: The path of a file of results (a journal of ours, T4, Kernel Tuner's cache, KTT, CSV of BaCO and
            HyperMapper), an `Optimizer`, a DataFrame with a column for each parameter and one for the objective, or
            a list of ``(configuration, value)``, in which None is a failure.
        mode: ``data``: they are results of the same task, and count as if this run had observed them, but not against
            its budget. ``configs``: the best of them are tried first. ``prior``: they are of a related task (another
            device, another size), whose model helps as far as it ranks what this run observes.
        best: With ``configs``: how many.
        rows: With ``prior``: at most so many results are used, the best half and others drawn from the rest.
        objective: Which measurement of the source counts, where it has several. None is the one of the run's name; a
            source that has no such measurement must name one that says no more than ``value``, or the run must.

    Raises:
        ValueError: An argument has a wrong value.
    """

    data: Any
    mode: Mode = "data"
    best: int = 5
    rows: int = 300
    objective: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        object.__setattr__(self, "best", whole("best", self.best, 1))
        object.__setattr__(self, "rows", whole("rows", self.rows, _LEAST))

    @property
    def source(self) -> str:
        """What messages and the journal call the data."""
        if isinstance(self.data, str | os.PathLike):
            return Path(self.data).name
        return type(self.data).__name__


def warm_starts(given: Any) -> tuple[WarmStart, ...]:
    """Return what ``warm_start=`` means: nothing, a source, a `WarmStart`, or several of these."""
    if given is None:
        return ()
    if isinstance(given, WarmStart):
        return (given,)
    if isinstance(given, Sequence) and given and all(isinstance(w, WarmStart) for w in given):
        return tuple(given)
    return (WarmStart(given),)


def earlier(
    start: WarmStart, space: Space, objective: str, direction: Direction, rng: Rng
) -> WarmStartResults:
    """Read a source and return what the run takes from it.

    Args:
        start: The source, and what it is for.
        space: The space of the run.
        objective: Name of the run's value.
        direction: Whether the run minimises or maximises.
        rng: Chance.

    Raises:
        ConfigError: No result belongs to the space, or the source has another direction.
        RunFileError: The file cannot be read.
        JournalError: It is a damaged journal.
        ValueError: It is no source.
    """
    source = _opened(start, space, objective)
    rows, known_direction = _measured(start, source, objective)
    if start.mode == "prior":  # what was never tried there says nothing of that task
        rows = [(config, outcome) for config, outcome in rows if outcome.failed != "constraints"]
    if known_direction not in (None, direction):
        raise ConfigError(
            f"warm start {start.source}: its values are to {known_direction}, this run is to {direction}; "
            "give a list of (configuration, value) with values that this run may have"
        )
    rows = [(config, without_bound(outcome, direction)) for config, outcome in rows]
    matching = Matching.of(start.source, start.mode, space, source.names, rows, rng)
    used = _USES[start.mode](start, matching.rows, direction, rng)
    return WarmStartResults(
        start.mode,
        start.source,
        numbered(used),
        len(rows),
        matching.left_out,
        matching.notes,
    )


def read_all(
    starts: Iterable[WarmStart], space: Space, options: Options
) -> tuple[WarmStartResults, ...]:
    """Return what a run takes from its warm starts; raises as `earlier` does, and warns of what is left out."""
    found = tuple(
        earlier(
            start,
            space,
            options.objective,
            options.direction,
            generator(options.seed, Purpose.WARM, i),
        )
        for i, start in enumerate(starts)
    )
    for part in found:
        if part.left_out:
            told = "; ".join(f"{reason}: {n}" for reason, n in part.left_out.items())
            count = f"{sum(part.left_out.values())} of {part.found}"
            text = f"warm start {part.source}: {count} results are left out ({told})"
            warnings.warn(text, WarmStartWarning, stacklevel=5)
    return found


def check_same(starts: Sequence[WarmStart], known: Sequence[WarmStartResults], name: str) -> None:
    """Refuse to go on with other warm starts than a journal has; none given means the journal's.

    Raises:
        JournalError: They differ.
    """
    given = [(start.mode, start.source) for start in starts]
    had = [(part.mode, part.source) for part in known]
    if given and given != had:
        raise JournalError(
            f"{name} belongs to another run: its warm starts were {had}, now {given}; leave warm_start= out to go on, "
            "or use another file"
        )


def tasks_of(
    parts: Iterable[WarmStartResults], space: Space, direction: Direction
) -> tuple[RelatedTask, ...]:
    """Return the related tasks that a strategy is told of.

    Raises:
        JournalError: Their results do not belong to the space, or none is a success.
    """
    found: list[RelatedTask] = []
    for part in parts:
        if part.mode == "prior":
            names = [task.name for task in found]
            again = f" ({len(found) + 1})" if part.source in names else ""
            found.append(_task(part, f"{part.source}{again}", space, direction))
    return tuple(found)


def _task(part: WarmStartResults, name: str, space: Space, direction: Direction) -> RelatedTask:
    sign = sign_of(direction)
    costs = sign * np.array([np.nan if t.value is None else t.value for t in part.trials])
    try:
        codes = space.encode([trial.config for trial in part.trials])
    except (ConfigError, TypeError, ValueError, AttributeError) as error:
        raise JournalError(
            f"the warm start of record 0 does not fit its space: {error}", 0
        ) from error
    if np.isnan(costs).all():
        raise JournalError(f"the warm start {part.source!r:.80} of record 0 has no success", 0)
    return RelatedTask(name, codes, costs)


# Where results come from ----------------------------------------------------------------------------------------

_ANY_NAME = "value"
"""The objective of a run that gives it no name; it says nothing of what is measured."""


@dataclass(frozen=True)
class _Source:
    """What a source has: its parameters, results and, where they are known, its direction and objective."""

    names: set[str]
    rows: list[Row]
    direction: Direction | None = None
    objective: str | None = None


def _opened(start: WarmStart, space: Space, objective: str) -> _Source:
    data, wanted = start.data, start.objective or objective
    if isinstance(data, str | os.PathLike):
        data = _file(data, start.objective, objective)
    if isinstance(data, Recording):
        recorded: list[Row] = list(zip(data.configs, data.outcomes, strict=True))
        return _Source(set(data.names), recorded, data.direction, data.objective)
    history = getattr(data, "history", None)
    if isinstance(history, History):
        rows = _of_trials(history.trials)
        name = getattr(getattr(data, "options", None), "objective", None)
        return _Source(set(history.space.names), rows, history.direction, name)
    if hasattr(data, "columns") and hasattr(data, "to_dict"):
        rows = _of_table(start.source, data, space, wanted)
    elif isinstance(data, Iterable) and not isinstance(data, Mapping):
        rows = _of_pairs(start.source, list(data), wanted)
    else:
        raise ValueError(
            f"warm_start = {data!r:.60}: give a path, an Optimizer, a DataFrame or a list of (configuration, value)"
        )
    return _Source({name for config, _ in rows for name in config}, rows)


def _file(path: str | os.PathLike[str], given: str | None, objective: str) -> Recording:
    """Read a file by the measurement that is given, else by the run's, else by the one that the file names."""
    if given is not None:
        return read(path, given)
    try:
        return read(path, objective)
    except RunFileError:
        return read(path)


def _measured(
    start: WarmStart, source: _Source, objective: str
) -> tuple[list[Row], Direction | None]:
    """Return the results by the measurement that counts, and its direction where it is known.

    Raises:
        ConfigError: The source has another objective, and no such measurement.
    """
    told, wanted = source.objective, start.objective or objective
    if told in (None, wanted):
        return source.rows, source.direction
    found = by_measurement(source.rows, wanted, told)
    if any(outcome.status is Status.OK for _, outcome in found):
        return found, None
    if start.objective is None and _ANY_NAME in (told, objective):
        return source.rows, source.direction
    raise ConfigError(
        f"warm start {start.source}: its objective is {told!r}, and it has no measurement {wanted!r}; "
        f"if {told!r} is what this run measures, write WarmStart(..., objective={told!r})"
    )


def _numbers_of(source: str, values: Sequence[Any]) -> list[Any]:
    """Return values with texts that are numbers as these; warn of other texts, which count as failures."""
    found = [_number_or_text(value) if isinstance(value, str) else value for value in values]
    texts = [value for value in found if isinstance(value, str)]
    if texts:
        warnings.warn(
            f"warm start {source}: {len(texts)} of {len(values)} values are texts and count as failures, "
            f"such as {texts[0]!r:.100}",
            WarmStartWarning,
            stacklevel=8,
        )
    return found


def _number_or_text(text: str) -> float | str:
    number = number_in(text)
    return text if number is None else number


def _of_trials(trials: Iterable[Trial]) -> list[Row]:
    return [(trial.config, trial.outcome) for trial in trials if trial.outcome is not None]


def _of_table(source: str, table: Any, space: Space, objective: str) -> list[Row]:
    """Return the rows of a DataFrame, such as `Optimizer.to_dataframe` makes it; further columns are not read."""
    columns = list(table.columns)
    measured_in, word = column(objective, space.parameters), column("failed", space.parameters)
    if measured_in not in columns:
        raise ValueError(
            f"warm_start: the table has no column {measured_in!r}, which the objective is; it has {columns!r:.200}"
        )
    found: list[Row] = []
    records = table.to_dict("records")
    values = _numbers_of(source, [row[measured_in] for row in records])
    for row, measured in zip(records, values, strict=True):
        config = {name: row[name] for name in space.names if name in row}
        failed = row[word] if isinstance(row.get(word), str) else None
        value = None if failed is not None else measured
        found.append((config, outcome_from(len(found), value, objective, failed)))
    return found


def _of_pairs(source: str, rows: Sequence[Any], objective: str) -> list[Row]:
    if rows and all(isinstance(row, Trial) for row in rows):
        return _of_trials(rows)
    for row in rows:
        if isinstance(row, str | os.PathLike):
            raise ValueError(
                f"warm_start: {str(row)!r:.80} is a path in a list; write [WarmStart(path), ...] for several files"
            )
        if not isinstance(row, Sequence) or len(row) != 2 or not isinstance(row[0], Mapping):
            raise ValueError(f"warm_start: {row!r:.80} is not (configuration, value)")
    values = _numbers_of(source, [value for _, value in rows])
    return [
        (config, outcome_from(i, value, objective))
        for i, ((config, _), value) in enumerate(zip(rows, values, strict=True))
    ]


# What is taken of them ------------------------------------------------------------------------------------------


def _all(start: WarmStart, rows: Sequence[Row], direction: Direction, rng: Rng) -> list[Row]:
    return list(rows)


def _best(start: WarmStart, rows: Sequence[Row], direction: Direction, rng: Rng) -> list[Row]:
    """Return the best configurations, each once."""
    costs = _costs(rows, direction)
    found: dict[tuple[Any, ...], Row] = {}
    for i in np.argsort(costs, kind="stable"):
        if np.isfinite(costs[i]) and len(found) < start.best:
            found.setdefault(tuple(rows[i][0].values()), rows[i])
    if not found:
        raise ConfigError(f"warm start {start.source}: none of its results is a success")
    return list(found.values())


def _part(start: WarmStart, rows: Sequence[Row], direction: Direction, rng: Rng) -> list[Row]:
    """Return so many of the results as a model of them may have."""
    costs = _costs(rows, direction)
    ok = np.isfinite(costs)
    if len(np.unique(costs[ok])) < _LEAST:
        raise ConfigError(
            f"warm start {start.source}: a prior needs {_LEAST} different values in this space; "
            "use mode='configs' for fewer"
        )
    told = np.where(ok, costs, np.quantile(costs[ok], _FAILED_AS, method="higher"))
    return [rows[i] for i in chosen_rows(told, start.rows, rng)]


_USES = {"data": _all, "configs": _best, "prior": _part}


def _costs(rows: Sequence[Row], direction: Direction) -> Array:
    """Return the minimised values, infinity unless the status is OK, ``(n,)``."""
    sign = sign_of(direction)
    return np.array(
        [
            np.inf if o.status is not Status.OK or o.value is None else sign * o.value
            for _, o in rows
        ]
    )
