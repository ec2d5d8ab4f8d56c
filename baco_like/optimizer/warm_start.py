"""Start a run with results of earlier runs, in one of three modes: ``data``, ``configs`` and ``prior``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._checks import whole_number
from baco_like._random import Purpose, generator
from baco_like._typing import Array, Rng
from baco_like.exceptions import ConfigError, JournalError, WarmStartWarning
from baco_like.journal.header import Options
from baco_like.journal.warm_start_results import MODES, Mode, WarmStartResults, numbered
from baco_like.optimizer.matching import ConfigOutcome, match_results
from baco_like.optimizer.warm_start_sources import SourceResults, read_source
from baco_like.records.direction import Direction, sign_of
from baco_like.records.reading import without_bound
from baco_like.records.trial import Outcome, Status
from baco_like.results.recording import by_measurement
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import RelatedTask
from baco_like.surrogates.gp.fit import chosen_rows

_FAILURE_QUANTILE = 0.75
"""Quantile of the successful costs that is imputed for a failure when rows of a large source are selected."""

_MIN_PRIOR_VALUES = 3
"""Distinct values that a related task needs: with two, any model ranks half of the pairs correctly."""

_UNNAMED = "value"
"""The objective of a run that does not name it; it says nothing about the measurement."""


@dataclass(frozen=True)
class WarmStart:
    """Results of earlier runs and how to use them.

    Args:
        data: The path of a file of results (our journal, T4, Kernel Tuner's cache, KTT, CSV of BaCO and HyperMapper),
            an `Optimizer`, a DataFrame with a column for each parameter and one for the objective, or a list of
            ``(configuration, value)`` in which the value None is a failure.
        mode: ``data``: results of the same task; they count as if this run had observed them, but not against its
            budget. ``configs``: the best configurations are tried first. ``prior``: results of a related task (another
            device, another input size); their model helps as far as it ranks this run's observations correctly.
        best: With ``configs``: number of configurations.
        rows: With ``prior``: maximum number of results; half are the best ones, the others are drawn from the rest.
        objective: Name of the measurement to use as the value, if the source has several. None uses the run's
            objective. If the source has no such measurement, either the source or the run must have the unspecific
            objective ``value``.

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
        object.__setattr__(self, "best", whole_number("best", self.best, 1))
        object.__setattr__(self, "rows", whole_number("rows", self.rows, _MIN_PRIOR_VALUES))

    @property
    def source(self) -> str:
        """Name of the data in messages and in the journal."""
        if isinstance(self.data, str | os.PathLike):
            return Path(self.data).name
        return type(self.data).__name__


def warm_starts(given: Any) -> tuple[WarmStart, ...]:
    """Return the warm starts for the argument ``warm_start``: None, data, a `WarmStart`, or several of these."""
    if given is None:
        return ()
    if isinstance(given, WarmStart):
        return (given,)
    if isinstance(given, Sequence) and given and all(isinstance(w, WarmStart) for w in given):
        return tuple(given)
    return (WarmStart(given),)


def read_all(
    starts: Iterable[WarmStart], space: Space, options: Options
) -> tuple[WarmStartResults, ...]:
    """Return the results that a run uses of its warm starts; warn of results that are left out.

    Raises:
        ConfigError: No result of a source belongs to the space, or the source has another direction or objective.
        RunFileError: A file cannot be read.
        JournalError: A file is a damaged journal.
        ValueError: The data has an unknown type or lacks the objective.
    """
    parts = tuple(
        _read(start, space, options, generator(options.seed, Purpose.WARM, i))
        for i, start in enumerate(starts)
    )
    for part in parts:
        if part.left_out:
            reasons = "; ".join(f"{reason}: {n}" for reason, n in part.left_out.items())
            count = f"{sum(part.left_out.values())} of {part.found}"
            text = f"warm start {part.source}: {count} results are left out ({reasons})"
            warnings.warn(text, WarmStartWarning, stacklevel=5)
    return parts


def _read(start: WarmStart, space: Space, options: Options, rng: Rng) -> WarmStartResults:
    direction = options.direction
    source = read_source(start.source, start.data, space, start.objective, options.objective)
    rows, known_direction = _rows_by_objective(start, source, options.objective)
    if start.mode == "prior":  # excluded configurations were never run and carry no information
        rows = [(config, outcome) for config, outcome in rows if outcome.failed != "constraints"]
    if known_direction not in (None, direction):
        raise ConfigError(
            f"warm start {start.source}: its values are to {known_direction}, this run is to {direction}; "
            "give a list of (configuration, value) with values that this run may have"
        )
    rows = [(config, without_bound(outcome, direction)) for config, outcome in rows]
    matched = match_results(start.source, start.mode, space, source.names, rows, rng)
    selected = list(matched.rows)
    if start.mode == "configs":
        selected = _select_best(start, matched.rows, direction)
    elif start.mode == "prior":
        selected = _select_for_model(start, matched.rows, direction, rng)
    return WarmStartResults(
        start.mode,
        start.source,
        numbered(selected),
        len(rows),
        matched.left_out,
        matched.notes,
    )


def _rows_by_objective(
    start: WarmStart, source: SourceResults, objective: str
) -> tuple[list[ConfigOutcome], Direction | None]:
    """Return the results with the right measurement as the value, and its direction if it is known.

    Raises:
        ConfigError: The source has another objective and no such measurement.
    """
    own, wanted = source.objective, start.objective or objective
    if own in (None, wanted):
        return source.rows, source.direction
    rows = by_measurement(source.rows, wanted, own)
    if any(outcome.status is Status.OK for _, outcome in rows):
        return rows, None
    if start.objective is None and _UNNAMED in (own, objective):
        return source.rows, source.direction
    raise ConfigError(
        f"warm start {start.source}: its objective is {own!r}, and it has no measurement {wanted!r}; "
        f"if {own!r} is the objective of this run, write WarmStart(..., objective={own!r})"
    )


def _select_best(
    start: WarmStart, rows: Sequence[ConfigOutcome], direction: Direction
) -> list[ConfigOutcome]:
    """Return the best configurations without repetition."""
    costs = _costs((outcome for _, outcome in rows), direction)
    best: dict[tuple[Any, ...], ConfigOutcome] = {}
    for i in np.argsort(costs, kind="stable"):
        if np.isfinite(costs[i]) and len(best) < start.best:
            best.setdefault(tuple(rows[i][0].values()), rows[i])
    if not best:
        raise ConfigError(f"warm start {start.source}: none of its results is a success")
    return list(best.values())


def _select_for_model(
    start: WarmStart, rows: Sequence[ConfigOutcome], direction: Direction, rng: Rng
) -> list[ConfigOutcome]:
    """Return as many results as a model of a related task may have."""
    costs = _costs((outcome for _, outcome in rows), direction)
    ok = np.isfinite(costs)
    if len(np.unique(costs[ok])) < _MIN_PRIOR_VALUES:
        raise ConfigError(
            f"warm start {start.source}: a prior needs {_MIN_PRIOR_VALUES} different values in this space; "
            "use mode='configs' for fewer"
        )
    imputed = np.quantile(costs[ok], _FAILURE_QUANTILE, method="higher")
    return [rows[i] for i in chosen_rows(np.where(ok, costs, imputed), start.rows, rng)]


def _costs(outcomes: Iterable[Outcome | None], direction: Direction) -> Array:
    """Return the costs, (n,); infinity unless the status is OK."""
    values = [None if outcome is None else outcome.value for outcome in outcomes]
    return np.array([np.inf if v is None else sign_of(direction) * v for v in values])


def check_same(starts: Sequence[WarmStart], known: Sequence[WarmStartResults], name: str) -> None:
    """Refuse to resume a journal with other warm starts; passing none accepts those of the journal.

    Raises:
        JournalError: They differ.
    """
    given = [(start.mode, start.source) for start in starts]
    recorded = [(part.mode, part.source) for part in known]
    if given and given != recorded:
        raise JournalError(
            f"{name} belongs to another run: its warm starts were {recorded}, now {given}; leave warm_start= out to "
            "resume it, or use another file"
        )


def tasks_of(
    parts: Iterable[WarmStartResults], space: Space, direction: Direction
) -> tuple[RelatedTask, ...]:
    """Return the related tasks for the strategy.

    Raises:
        JournalError: Results do not belong to the space, or a task has no success.
    """
    tasks: list[RelatedTask] = []
    for part in parts:
        if part.mode == "prior":
            is_new = part.source not in [task.name for task in tasks]
            name = part.source if is_new else f"{part.source} ({len(tasks) + 1})"
            tasks.append(_task_of(part, name, space, direction))
    return tuple(tasks)


def _task_of(part: WarmStartResults, name: str, space: Space, direction: Direction) -> RelatedTask:
    costs = _costs((trial.outcome for trial in part.trials), direction)
    try:
        codes = space.encode([trial.config for trial in part.trials])
    except (ConfigError, TypeError, ValueError, AttributeError) as error:
        raise JournalError(
            f"the warm start of record 0 does not fit its space: {error}", 0
        ) from error
    if np.isinf(costs).all():
        raise JournalError(f"the warm start {part.source!r:.80} of record 0 has no success", 0)
    return RelatedTask(name, codes, np.where(np.isinf(costs), np.nan, costs))
