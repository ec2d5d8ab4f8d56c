"""Read a journal as recorded results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco_like.exceptions import JournalError, RunFileError
from baco_like.journal import START, Header, JsonlJournal, Options
from baco_like.journal.events import config_from_json, describe_error, read_outcome
from baco_like.journal.fields import check_event
from baco_like.journal.header import FOLDER, UNIT, with_machine
from baco_like.parameters import Integer, Parameter
from baco_like.records.trial import Trial
from baco_like.results.recording import Recording, described_names, recorded_trials

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
