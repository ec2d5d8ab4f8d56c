"""The table of recorded results, independent of the file format: configurations with their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from baco_like._optional import data_frame
from baco_like.exceptions import JournalError, RunFileError
from baco_like.journal import JsonlJournal
from baco_like.journal.events import (
    START,
    config_from_json,
    describe_error,
    outcome_row,
    read_outcome,
)
from baco_like.journal.fields import check_event
from baco_like.journal.header import FOLDER, UNIT, Header, Options, with_machine
from baco_like.parameters import Integer, Parameter
from baco_like.parameters.registry import parameter_from_dict
from baco_like.parameters.values import as_tuple
from baco_like.records.limits import without_limits
from baco_like.records.objective import Direction
from baco_like.records.objective_values import as_failure, number_in, unbounded
from baco_like.records.table import table_rows, with_times
from baco_like.records.trial import (
    Outcome,
    Status,
    Trial,
    median,
    standard_error,
)
from baco_like.spaces.formats.dataframe import read_dataframe
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import Tasks

if TYPE_CHECKING:
    import pandas as pd

Row = tuple[Any, ...]
"""A configuration: its values in the order of the parameters, None for an inactive one."""

ConfigOutcome = tuple[Mapping[str, Any], Outcome]
"""A configuration with its outcome."""

OWN = "baco_like"
"""The key in the files of other tools for everything that their format has no place for."""

_STAGES: Mapping[str, str] = {"build": "compile"}
"""Our evaluators' names of stages -> the names in recordings (compile, run, check)."""


@dataclass(frozen=True)
class Recording:
    """Recorded results.

    Attributes:
        names: The parameters, in the order of the file.
        rows: The configurations, each with its values in that order; repeated measurements have a row each.
        outcomes: Their outcomes, numbered from 0; ``extra["seconds"]`` is how long its stages took
            (compile, run, check, and other names that the file has), as far as the file says.
        objective: Name of the value.
        unit: Its unit, or an empty text where the file does not say.
        direction: Whether it was minimised or maximised, or None where the file does not say.
        domains: Per parameter its values: those that the file declares, else those that occur.
        described: The space as `Space.to_dict` has it, where the file says which one it is (journals do), else None.
        notes: One line per kind of rows that were left out.
        further_objectives: Names of the metrics that were objectives too.
        context: What else the values depend on, where the file says so (journals do), see `Header.origin`.
    """

    names: tuple[str, ...]
    rows: tuple[Row, ...]
    outcomes: tuple[Outcome, ...]
    objective: str = "value"
    unit: str = ""
    direction: Direction | None = None
    domains: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    described: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    further_objectives: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.outcomes):
            raise ValueError(f"{len(self.rows)} rows for {len(self.outcomes)} outcomes")
        if not self.domains:
            object.__setattr__(self, "domains", occurring(self.names, self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def configs(self) -> list[dict[str, Any]]:
        """The rows as dictionaries, without inactive parameters."""
        nones = _with_none(self.described)
        rows = (zip(self.names, row, strict=True) for row in self.rows)
        return [{n: value for n, value in row if value is not None or n in nones} for row in rows]

    @cached_property
    def entries(self) -> Mapping[Row, Outcome]:
        """One outcome per configuration.

        Values of a configuration that was measured several times are merged as repeats; if it failed once, the last
        outcome counts. The stage times are those of the last measurement.
        """
        entries: dict[Row, Outcome] = {}
        for row, outcome in zip(self.rows, self.outcomes, strict=True):
            entries[row] = _merge(entries[row], outcome) if row in entries else outcome
        return entries

    def resolve_direction(self, given: Direction | None = None) -> Direction:
        """Return the given direction, else the one of the file; ``minimize`` if there is neither.

        Raises:
            ValueError: They differ.
        """
        if given is not None and self.direction not in (None, given):
            raise ValueError(
                f"its values are to {self.direction}, not to {given}; leave the direction out"
            )
        return given or self.direction or "minimize"

    def find(self, config: Mapping[str, Any]) -> Outcome | None:
        """Return the outcome of a configuration, or None if it is not recorded.

        Files may hold texts for other values (tables in CSV, KTT's T4); a text matches the value that is written so.
        """
        row = tuple(map(config.get, self.names))
        outcome = self.entries.get(row)
        return self._entries_by_text.get(tuple(map(_text_of, row))) if outcome is None else outcome

    def contains(self, config: Mapping[str, Any]) -> bool:
        """Whether a configuration is recorded; can be used as a constraint of a space."""
        return self.find(config) is not None

    @cached_property
    def _entries_by_text(self) -> Mapping[tuple[str, ...], Outcome]:
        return {tuple(map(_text_of, row)): outcome for row, outcome in self.entries.items()}

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each measurement, with the columns of `Optimizer.to_dataframe`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        rows = table_rows(self.trials, self.objective, self.names)
        return data_frame(rows, conditional=self.conditional)

    def of_task(self, task: Mapping[str, Any]) -> Recording:
        """Return the results of one task, without the columns of its descriptor and without a described space.

        Raises:
            ValueError: The results lack a name of the descriptor, or no result belongs to the task.
        """
        missing = [name for name in task if name not in self.names]
        if missing:
            raise ValueError(f"the results have no descriptor {missing[0]!r:.60}")
        wanted = [_text_of(task[name]) if name in task else None for name in self.names]
        kept = [
            i
            for i, row in enumerate(self.rows)
            if all(text in (None, _text_of(v)) for text, v in zip(wanted, row, strict=True))
        ]
        if not kept:
            raise ValueError(f"no result belongs to the task {dict(task)!r:.80}")
        columns = [i for i, text in enumerate(wanted) if text is None]
        return replace(
            self,
            names=tuple(self.names[i] for i in columns),
            rows=tuple(tuple(self.rows[r][i] for i in columns) for r in kept),
            outcomes=tuple(replace(self.outcomes[r], trial_id=i) for i, r in enumerate(kept)),
            domains={name: values for name, values in self.domains.items() if name not in task},
            described=None,
        )

    @property
    def conditional(self) -> frozenset[str]:
        """The parameters that may be inactive: those of the described space, else those that a row lacks."""
        if self.described is not None:
            return frozenset(self.described.get("when", ()))
        columns = zip(self.names, zip(*self.rows, strict=True), strict=True)
        return frozenset(name for name, column in columns if None in column)

    @property
    def trials(self) -> list[Trial]:
        """The rows as observed trials, numbered from 0."""
        return [
            Trial(i, config, origin="imported", outcome=outcome)
            for i, (config, outcome) in enumerate(zip(self.configs, self.outcomes, strict=True))
        ]

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of the described space, else those that have the values in ``domains``.

        Raises:
            SpaceError: A value is of a type that no parameter has.
        """
        if self.described is not None:
            given, tasks = self.described["parameters"], _tasks_of(self.described)
            own = {} if tasks is None else tasks.parameters()
            return {n: own[n] if n in own else parameter_from_dict(given[n]) for n in self.names}
        columns = {name: [{name: value} for value in self.domains[name]] for name in self.names}
        return {name: read_dataframe(rows).parameters[name] for name, rows in columns.items()}

    def space(self) -> Space:
        """Return the space that the file describes.

        Where it describes none, its feasible configurations are the rows that no known constraint excluded. A parameter
        that some rows lack is conditional; the others tell where it is active.

        Raises:
            SpaceError: A constraint was a callable and was not written down; there is no such row, or one lacks a
                parameter and no condition explains it.
        """
        if self.described is not None:
            return Space.from_dict(self.described)
        rows = zip(self.configs, self.outcomes, strict=True)
        kept = [config for config, outcome in rows if outcome.failed != "constraints"]
        seen = [name for name in self.names if any(name in config for config in kept)]
        return Space.from_dataframe([dict(zip(seen, map(c.get, seen), strict=True)) for c in kept])


def _with_none(described: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the parameters of a described space of which None is a value."""
    given = {} if described is None else described["parameters"]
    values = {name: parameter.get("values") for name, parameter in given.items()}
    return {name for name, own in values.items() if own and None in own}


def described_names(described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names in the configurations of a described space: its parameters and the descriptors of its tasks."""
    tasks = _tasks_of(described)
    return *described["parameters"], *(() if tasks is None else tasks.descriptor_names)


def _tasks_of(described: Mapping[str, Any]) -> Tasks | None:
    return Tasks.from_dict(described["tasks"]) if "tasks" in described else None


def _merge(first: Outcome, second: Outcome) -> Outcome:
    if first.value is None or second.value is None:
        return second
    repeats = (first.repeats or (first.value,)) + (second.repeats or (second.value,))
    return replace(second, value=median(repeats), repeats=repeats, sem=standard_error(repeats))


def _text_of(value: Any) -> str:
    """Return a text that is the same for 1, 1.0 and "1", and for a tuple and its elements joined by commas.

    An inactive parameter has the empty text, as the empty cells of tables.
    """
    if value is None:
        return ""
    if isinstance(value, tuple):
        return ",".join(map(_text_of, value))
    text = str(value).strip()
    if "_" not in text:
        with suppress(ValueError):
            return str(int(text))  # also beyond 2**53, where floats are no longer exact
        number = number_in(text)
        if number is not None:
            return str(int(number)) if number.is_integer() else repr(number)
    return text.casefold() if text.casefold() in ("true", "false") else text.strip("()[]")


def recording(
    rows: Sequence[ConfigOutcome],
    described: Mapping[str, Any] | None = None,
    conditional: Iterable[str] = (),
    **known: Any,
) -> Recording:
    """Return the recording of configurations with their outcomes.

    Rows whose parameters differ from those of the first row are left out, with a note; they may lack conditional
    parameters.

    Args:
        rows: At least one.
        described: The space as `Space.to_dict` has it, or None if it is unknown.
        conditional: Conditional parameters, besides those of the described space.
        known: The other attributes of the recording.

    Raises:
        RunFileError: The list is empty, or a value is neither a scalar nor a tuple of scalars.
        ValueError: An outcome has both or neither of a value and a failure word.
    """
    if not rows:
        raise RunFileError("it has no entries")
    if described is not None and (lacking := [*described.get("when", ()), *_with_none(described)]):
        conditional = [*conditional, *lacking]
        known["names"] = described_names(described)
    names = tuple(known.pop("names", None) or rows[0][0])
    needed, allowed = set(names).difference(conditional), set(names)
    kept = [(config, outcome) for config, outcome in rows if needed <= set(config) <= allowed]
    if not kept:
        raise RunFileError(f"no row has the parameters {', '.join(names)}")
    for row in kept:
        _check_row(*row)
    left_out = len(rows) - len(kept)
    notes = (f"rows with other parameters than {', '.join(names)} that were left out: {left_out}",)
    return Recording(
        names,
        *split_rows(names, kept),
        described=described,
        notes=notes if left_out else (),
        **known,
    )


def split_rows(
    names: Sequence[str], rows: Sequence[ConfigOutcome]
) -> tuple[tuple[Row, ...], tuple[Outcome, ...]]:
    """Return the values of the configurations, and the outcomes with new numbers."""
    return (
        tuple(tuple(map(config.get, names)) for config, _ in rows),
        tuple(replace(outcome, trial_id=i) for i, (_, outcome) in enumerate(rows)),
    )


def _check_row(config: Mapping[str, Any], outcome: Outcome) -> None:
    for name, value in config.items():
        try:
            hash(value)
        except TypeError:
            raise RunFileError(
                f"parameter {name!r} has the value {value!r:.80}; expected a number, a text, true, false or a list "
                "of these"
            ) from None
    has = (outcome.value is not None, bool(outcome.failed), outcome.bound is not None)
    if has != _HAS.get(outcome.status):
        raise ValueError(
            f"status {outcome.status.value!r} with value {outcome.value}, failed {outcome.failed!r}"
        )


_HAS: Mapping[Status, tuple[bool, bool, bool]] = {
    Status.OK: (True, False, False),
    Status.FAILED: (False, True, False),
    Status.CENSORED: (False, True, True),
}
"""Whether an outcome has a value, a failure word and a bound."""


def by_measurement(
    rows: Iterable[ConfigOutcome], objective: str, instead_of: str
) -> list[ConfigOutcome]:
    """Return results with another measurement as the value.

    What ran without the measurement is left out. Censored results become failures, because bounds are in the unit of
    the old objective. Results beyond a limit stay failures.

    Args:
        rows: Configurations with their outcomes.
        objective: Name of the measurement.
        instead_of: Name of the present value, which becomes a measurement.
    """
    changed = []
    for config, given in rows:
        outcome = unbounded(without_limits(given))
        if outcome.status is Status.OK:
            if objective not in outcome.metrics or outcome.value is None:
                continue
            metrics = {**outcome.metrics, instead_of: outcome.value}
            several = {**outcome.metric_repeats}
            if len(outcome.repeats) > 1:
                several[instead_of] = outcome.repeats
            value = metrics.pop(objective)
            outcome = Outcome.success(
                outcome.trial_id,
                several.pop(objective, (value,)),
                metrics=metrics,
                extra=outcome.extra,
                metric_repeats=several,
            )
            if given.failed:
                outcome = as_failure(outcome, given.failed, given.message)
        changed.append((config, outcome))
    return changed


def recorded_trials(trials: Iterable[Trial], **known: Any) -> Recording:
    """Return the recording of the observed trials.

    Raises:
        RunFileError: All trials are pending or abandoned.
    """
    rows = []
    for trial in trials:
        outcome = trial.outcome
        if outcome is None or outcome.status not in _HAS:
            continue
        if outcome.status is Status.FAILED and not outcome.failed:
            outcome = replace(outcome, failed="runtime")
        times = outcome.extra.get("seconds")
        if isinstance(times, Mapping):
            seconds = {_STAGES.get(name, name): value for name, value in times.items()}
            outcome = replace(outcome, extra={**outcome.extra, "seconds": seconds})
        outcome = replace(outcome, extra=with_times(trial, outcome.extra))
        rows.append((dict(trial.config), outcome))
    return recording(rows, **known)


def occurring(names: Sequence[str], rows: Iterable[Row]) -> dict[str, tuple[Any, ...]]:
    """Return the distinct values of each parameter: numbers in order, others in the order of their texts."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    values: dict[str, tuple[Any, ...]] = {}
    for name, column in zip(names, columns, strict=True):
        distinct = {(type(value), value): value for value in column if value is not None}.values()
        numbers = all(isinstance(value, (int, float)) for value in distinct)
        values[name] = tuple(sorted(distinct, key=None if numbers else str))
    return values


# Our journals ---------------------------------------------------------------------------------------------------------

_MOST_LISTED = 1000


def from_journal(path: Path) -> Recording:
    """Return the observations of a journal in order of arrival, those of a warm start first.

    Raises:
        JournalError: The journal is damaged.
        RunFileError: The journal has no observations.
    """
    events = iter(JsonlJournal(path).read(START))
    first = next(events, None)
    if first is None:
        raise RunFileError("it holds no event: the journal ends within its first line")
    header = Header.read(first[0], str(path))
    asked: dict[int, Trial] = {}
    trials = [trial for part in header.earlier if part.mode == "data" for trial in part.trials]
    for event, mark in events:
        try:
            check_event(event)
            if event["event"] == "suggested":
                known: dict[str, Any] = {"worker": event.get("worker"), "started": event.get("at")}
                for row in event["trials"]:
                    asked[row["id"]] = Trial(row["id"], config_from_json(row["config"]), **known)
                for number in set(event.get("again") or ()) & asked.keys():
                    asked[number] = replace(asked[number], **known)
            elif event["event"] == "observed":
                for row in event["outcomes"]:
                    trial = asked.pop(row["id"], None)  # not kept, to save memory
                    if trial is None:
                        trial = Trial(row["id"], config_from_json(row["config"]))
                    outcome = read_outcome(row)
                    trials.append(replace(trial, outcome=outcome, ended=event.get("at")))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            number = mark.number - 1
            raise JournalError(
                f"{path}: event {number} (line {number + 1}) is wrong: {describe_error(error)}",
                number,
            ) from error
    if not trials:
        raise RunFileError(f"{path}: this run has no observations")
    recorded = run_recording(trials, header.space, header.options)
    return replace(recorded, context=with_machine(recorded.context, header.host))


def run_recording(trials: Iterable[Trial], space: Mapping[str, Any], options: Options) -> Recording:
    """Return the observations of a run as recorded results.

    The unit is in the run's context (``[objective] unit``, as ``baco-like tune`` writes it). The domains are all values
    of a parameter; for parameters without a list of at most 1,000 values, they are the observed values.

    Args:
        trials: Trials; pending and abandoned ones are left out.
        space: The space as `Space.to_dict` returns it.
        options: Options of the run.

    Raises:
        RunFileError: All trials are pending or abandoned.
    """
    recorded = recorded_trials(
        trials,
        names=described_names(space),
        objective=options.aim.first.name,
        unit=str(options.context.get(UNIT, "")),
        direction=options.aim.first.direction,
        described=dict(space),
        further_objectives=options.aim.names[1:],
        context={k: v for k, v in options.context.items() if k != FOLDER},
    )
    listed = {name: _values(parameter) for name, parameter in recorded.parameters.items()}
    domains = {name: listed[name] or values for name, values in recorded.domains.items()}
    return replace(recorded, domains=domains)


def _values(parameter: Parameter) -> tuple[Any, ...]:
    if isinstance(parameter, Integer) and parameter.cardinality <= _MOST_LISTED:
        return tuple(range(parameter.low, parameter.high + 1))
    return tuple(parameter.values or ())


# Information that other formats have no place for --------------------------------------------------------------


def write_rows(
    recorded: Recording,
    write: Callable[[Mapping[str, Any], Outcome], dict[str, Any]],
    read: Callable[[Mapping[str, Any]], ConfigOutcome],
) -> list[dict[str, Any]]:
    """Return the rows of another format, which read back exactly.

    If the format loses information, a row also gets the observation as our journals write it, under the key `OWN`,
    which other readers ignore.

    Args:
        recorded: The results.
        write: Returns the row of a configuration and its outcome in the other format.
        read: The format's reader of a row.
    """
    rows = []
    for config, outcome in zip(recorded.configs, recorded.outcomes, strict=True):
        row = write(config, outcome)
        if not is_same(read(row), (config, outcome)):
            row[OWN] = outcome_row(Trial(0, config), outcome)
        rows.append(row)
    return rows


def is_same(read: ConfigOutcome, written: ConfigOutcome) -> bool:
    """Whether a row that was read back is the written one, except for the number of the trial."""
    (config, outcome), (known, other) = read, written
    same_config = [*map(repr, config.items())] == [*map(repr, known.items())]
    return same_config and replace(outcome, trial_id=other.trial_id) == other


def read_rows(
    rows: Iterable[Mapping[str, Any]],
    read: Callable[[Mapping[str, Any]], ConfigOutcome],
    objective: str = "",
    own: str = "",
) -> list[ConfigOutcome]:
    """Return the configurations and outcomes of rows, preferably those under the key `OWN`.

    Args:
        rows: The rows of the file.
        read: Reads a row without that key.
        objective: The measurement to use as the value.
        own: The file's objective, whose values are under the key. Rows that lack another ``objective`` are left out.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: A row is damaged.
    """
    pairs: list[ConfigOutcome] = []
    for row in rows:
        if OWN not in row:
            pairs.append(read(row))
            continue
        pair = config_from_json(row[OWN]["config"]), read_outcome(row[OWN])
        pairs += [pair] if objective == own else by_measurement([pair], objective, own)
    return pairs


def write_attributes(recorded: Recording, unit: str) -> dict[str, Any]:
    """Return direction, domains, space, context and unit under the key `OWN`, unless the format has a place for them.

    Args:
        recorded: The results.
        unit: The unit that a reader assumes; a different one is written.
    """
    attributes: dict[str, Any] = {
        "goal": recorded.direction,
        "space": recorded.described,
        "context": dict(recorded.context),
    }
    attributes = {name: value for name, value in attributes.items() if value}
    if recorded.unit != unit:
        attributes["unit"] = recorded.unit
    if recorded.domains != occurring(recorded.names, recorded.rows):
        attributes["domains"] = {k: list(values) for k, values in recorded.domains.items()}
    return {OWN: attributes} if attributes else {}


class _Attributes(msgspec.Struct):
    """What `write_attributes` writes."""

    goal: Literal["minimize", "maximize"] | None = None
    space: dict[str, Any] | None = None
    context: dict[str, Any] = {}
    unit: str | None = None
    domains: dict[str, list[Any]] | None = None


def document_recording(
    document: Any, first: str, rows: Sequence[ConfigOutcome], **known: Any
) -> Recording:
    """Return the recording of a document, with the attributes that `write_attributes` has written to it.

    Args:
        document: The document, or the part of it that has the attributes.
        first: Its own objective, which its direction and unit belong to.
        rows: Its rows, maybe with another measurement as the value.
        known: As for `recording`.

    Raises:
        RunFileError: There is no row.
        LookupError, TypeError, ValueError, AttributeError: The file is damaged.
    """
    given = document.get(OWN) if isinstance(document, Mapping) else None
    try:
        own = msgspec.convert({} if given is None else given, _Attributes)
    except msgspec.ValidationError as error:
        raise ValueError(f"its part {OWN!r} is wrong: {error}") from None
    recorded = recording(rows, own.space, **known)
    if recorded.objective == first:
        unit = recorded.unit if own.unit is None else own.unit
        recorded = replace(recorded, unit=unit, direction=own.goal or recorded.direction)
    domains = recorded.domains if own.domains is None else own.domains
    return replace(
        recorded,
        context=own.context,
        domains={name: tuple(map(as_tuple, domains[name])) for name in recorded.names},
    )
