"""The table of recorded results, independent of the file format: configurations with their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.journal.events import config_from_json, observed_event, read_outcome
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.registry import parameter_from_dict
from baco_like.records.direction import Direction
from baco_like.records.reading import number_in, unbounded
from baco_like.records.trial import Outcome, Status, Trial, median, standard_error
from baco_like.spaces.formats.dataframe import read_dataframe
from baco_like.spaces.formats.description import space_from_dict
from baco_like.spaces.space import Space

Row = tuple[Any, ...]
"""A configuration: its values in the order of the parameters."""

OWN = "baco_like"
"""The key in the files of other tools for everything that their format has no place for."""

STAGES: Mapping[str, str] = {"build": "compile"}
"""Our evaluators' names of stages -> the names in recordings (compile, run, check)."""

COMPLETE = (Status.OK, Status.FAILED, Status.CENSORED)


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

    def __post_init__(self) -> None:
        if len(self.rows) != len(self.outcomes):
            raise ValueError(f"{len(self.rows)} rows for {len(self.outcomes)} outcomes")
        if not self.domains:
            object.__setattr__(self, "domains", occurring(self.names, self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def configs(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]

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

    def find(self, config: Mapping[str, Any]) -> Outcome | None:
        """Return the outcome of a configuration, or None if it is not recorded.

        Files may hold texts for other values (tables in CSV, KTT's T4); a text matches the value that is written so.
        """
        row = tuple(config[name] for name in self.names)
        outcome = self.entries.get(row)
        return self._entries_by_text.get(tuple(map(_text_of, row))) if outcome is None else outcome

    def contains(self, config: Mapping[str, Any]) -> bool:
        """Whether a configuration is recorded; can be used as a constraint of a space."""
        return self.find(config) is not None

    @cached_property
    def _entries_by_text(self) -> Mapping[tuple[str, ...], Outcome]:
        return {tuple(map(_text_of, row)): outcome for row, outcome in self.entries.items()}

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
            given = self.described["parameters"]
            return {name: parameter_from_dict(given[name]) for name in self.names}
        columns = {name: [{name: value} for value in self.domains[name]] for name in self.names}
        return {name: read_dataframe(rows).parameters[name] for name, rows in columns.items()}

    def space(self) -> Space:
        """Return the space that the file describes.

        Where it describes none, its feasible configurations are the rows that no known constraint excluded.

        Raises:
            SpaceError: A constraint was a callable and was not written down; or there is no such row.
        """
        if self.described is not None:
            found = space_from_dict(self.described)
            return Space(found.parameters, found.constraints)
        kept = zip(self.configs, self.outcomes, strict=True)
        return Space.from_dataframe([c for c, one in kept if one.failed != "constraints"])


def _merge(first: Outcome, second: Outcome) -> Outcome:
    if first.value is None or second.value is None:
        return second
    repeats = (first.repeats or (first.value,)) + (second.repeats or (second.value,))
    return replace(second, value=median(repeats), repeats=repeats, sem=standard_error(repeats))


def _text_of(value: Any) -> str:
    """Return a text that is the same for 1, 1.0 and "1", and for a tuple and its elements joined by commas."""
    if isinstance(value, tuple):
        return ",".join(map(_text_of, value))
    text = str(value).strip()
    number = None if "_" in text or isinstance(value, bool) else number_in(text)
    if number is not None:
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
    return text.casefold() if text.casefold() in ("true", "false") else text.strip("()[]")


def recording(found: Sequence[tuple[Mapping[str, Any], Outcome]], **known: Any) -> Recording:
    """Return the recording of configurations with their outcomes; ``known`` are its other attributes.

    Rows whose parameters differ from those of the first row are left out, with a note.

    Raises:
        RunFileError: The list is empty, or a value is neither a scalar nor a tuple of scalars.
        ValueError: An outcome has both or neither of a value and a failure word.
    """
    if not found:
        raise RunFileError("it has no entries")
    names = tuple(known.pop("names", None) or found[0][0])
    kept = [(config, outcome) for config, outcome in found if set(config) == set(names)]
    if not kept:
        raise RunFileError(f"no row has the parameters {', '.join(names)}")
    _check_values(config for config, _ in kept)
    _check(outcome for _, outcome in kept)
    left = len(found) - len(kept)
    notes = (f"rows with other parameters than {', '.join(names)} that were left out: {left}",)
    return Recording(
        names,
        tuple(tuple(config[name] for name in names) for config, _ in kept),
        tuple(replace(outcome, trial_id=i) for i, (_, outcome) in enumerate(kept)),
        notes=notes if left else (),
        **known,
    )


def _check_values(configs: Iterable[Mapping[str, Any]]) -> None:
    for config in configs:
        for name, value in config.items():
            try:
                hash(value)
            except TypeError:
                raise RunFileError(
                    f"parameter {name!r} has the value {value!r:.80}; expected a number, a text, true, false or a list "
                    "of these"
                ) from None


def _check(outcomes: Iterable[Outcome]) -> None:
    for one in outcomes:
        has = (one.value is not None, bool(one.failed), one.bound is not None)
        if has != _HAS.get(one.status):
            raise ValueError(
                f"status {one.status.value!r} with value {one.value}, failed {one.failed!r}"
            )


_HAS: Mapping[Status, tuple[bool, bool, bool]] = {
    Status.OK: (True, False, False),
    Status.FAILED: (False, True, False),
    Status.CENSORED: (False, True, True),
}
"""Whether an outcome has a value, a failure word and a bound."""


def by_measurement(
    rows: Iterable[tuple[Mapping[str, Any], Outcome]], objective: str, instead_of: str
) -> list[tuple[Mapping[str, Any], Outcome]]:
    """Return results with another measurement as the value.

    Successes without the measurement are left out. Censored results become failures, because bounds are in the unit of
    the old objective.

    Args:
        rows: Configurations with their outcomes.
        objective: Name of the measurement.
        instead_of: Name of the present value, which becomes a measurement.
    """
    found = []
    for config, outcome in rows:
        outcome = unbounded(outcome)
        if outcome.status is Status.OK:
            if objective not in outcome.metrics or outcome.value is None:
                continue
            metrics = {**outcome.metrics, instead_of: outcome.value}
            value = metrics.pop(objective)
            outcome = Outcome.success(
                outcome.trial_id, (value,), metrics=metrics, extra=outcome.extra
            )
        found.append((config, outcome))
    return found


def recorded_trials(trials: Iterable[Trial], **known: Any) -> Recording:
    """Return the recording of the observed trials.

    Raises:
        RunFileError: All trials are pending or abandoned.
    """
    done = [trial for trial in trials if trial.status in COMPLETE]
    pairs = [(dict(t.config), _in_our_words(t.outcome)) for t in done if t.outcome is not None]
    return recording(pairs, **known)


def _in_our_words(outcome: Outcome) -> Outcome:
    if outcome.status is Status.FAILED and not outcome.failed:
        outcome = replace(outcome, failed="runtime")
    told = outcome.extra.get("seconds")
    if not isinstance(told, Mapping):
        return outcome
    seconds = {STAGES.get(name, name): value for name, value in told.items()}
    return replace(outcome, extra={**outcome.extra, "seconds": seconds})


def occurring(names: Sequence[str], rows: Iterable[Row]) -> dict[str, tuple[Any, ...]]:
    """Return the distinct values of each parameter: numbers in order, others in the order of their texts."""
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return {name: _ordered(values) for name, values in zip(names, columns, strict=True)}


def _ordered(values: Iterable[Any]) -> tuple[Any, ...]:
    distinct = list({(type(value), value): value for value in values}.values())
    numbers = all(isinstance(value, (int, float)) for value in distinct)
    return tuple(sorted(distinct) if numbers else sorted(distinct, key=str))


# Information that other formats have no place for --------------------------------------------------------------


def completed(
    row: dict[str, Any],
    config: Mapping[str, Any],
    outcome: Outcome,
    read: Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], Outcome]],
) -> dict[str, Any]:
    """Return a row of another format that reads back exactly.

    If the format loses information, the row also gets the observation as our journals write it, under the key `OWN`,
    which other readers ignore.

    Args:
        row: The row in the other format.
        config: The configuration.
        outcome: Its outcome.
        read: The format's reader of a row.
    """
    back, said = read(row)
    if list(map(repr, back.items())) == list(map(repr, config.items())) and said == replace(
        outcome, trial_id=said.trial_id
    ):
        return row
    (told,) = observed_event([Trial(0, config, outcome=outcome)])["outcomes"]
    return {**row, OWN: told}


def own_part(row: Mapping[str, Any]) -> tuple[dict[str, Any], Outcome] | None:
    """Return the configuration and outcome under the key `OWN` of a row, or None.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: The row is damaged.
    """
    if OWN not in row:
        return None
    return config_from_json(row[OWN]["config"]), read_outcome(row[OWN])


def about(found: Recording, unit: str) -> dict[str, Any]:
    """Return direction, domains, space and unit under the key `OWN`, as far as the format has no place for them.

    Args:
        found: The results.
        unit: The unit that a reader assumes; a different one is written.
    """
    told: dict[str, Any] = {"goal": found.direction, "space": found.described}
    told = {name: part for name, part in told.items() if part}
    if found.unit != unit:
        told["unit"] = found.unit
    if found.domains != occurring(found.names, found.rows):
        told["domains"] = {name: list(values) for name, values in found.domains.items()}
    return {OWN: told} if told else {}


def as_told(found: Recording, told: Any) -> Recording:
    """Return a recording with the attributes that `about` has written.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: The file is damaged.
    """
    own = told.get(OWN) if isinstance(told, Mapping) else None
    if own is None:
        return found
    direction, described = own.get("goal", found.direction), own.get("space")
    if direction not in (None, "minimize", "maximize") or not isinstance(described, dict | None):
        raise ValueError(f"its part {OWN!r} is wrong")
    domains = own.get("domains", {name: list(one) for name, one in found.domains.items()})
    return replace(
        found,
        unit=str(own.get("unit", found.unit)),
        direction=direction,
        described=described,
        domains={name: tuple(map(_untupled, domains[name])) for name in found.names},
    )


def _untupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
