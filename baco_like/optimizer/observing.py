"""What was told, checked against what is known, as an event. Pure functions: nothing changes here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baco_like.exceptions import TrialError
from baco_like.records.history import History
from baco_like.records.reading import outcome_from
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space

Config = Mapping[str, Any]


def build_trials(
    history: History,
    objective: str,
    trial: Trial | Config | Sequence[Trial | Config],
    value: Any,
    details: Mapping[str, Any],
    *,
    imported: bool,
) -> list[Trial]:
    """Return the trials, with their outcomes, that `Optimizer.observe` was given; its arguments are described there.

    Raises:
        TrialError: A trial is not pending or not of this run, or the lists differ in length.
        ConfigError: A told configuration does not belong to the space.
    """
    if isinstance(trial, Mapping):
        subjects, values = [trial], [value]
    elif isinstance(trial, Sequence) and all(isinstance(one, Mapping) for one in trial):
        subjects, values = list(trial), _listed(value, len(trial), details)
    else:
        raise TrialError(
            f"observe takes a trial, a configuration or a list of them, not {trial!r:.80}"
        )
    if not isinstance(details["extra"] or {}, Mapping):
        raise TrialError(
            f"extra must be a mapping of names to JSON values, not {details['extra']!r:.80}"
        )
    asked: list[Outcome] = []
    done: list[Trial] = []
    for subject, one in zip(subjects, values, strict=True):
        new_id = history.next_id + len(done) - len(asked)
        known = _subject(history, subject, imported, new_id)
        outcome = outcome_from(known.id, one, objective, **details)
        check_bounds(history, [outcome])
        if known is not subject and known.id == new_id:
            done.append(known.completed(outcome))
        else:
            asked.append(outcome)
            done += history.checked([outcome])
    history.checked(asked)  # together, so that none stands there twice
    return done


def check_bounds(history: History, outcomes: Sequence[Outcome]) -> None:
    """Refuse a bound where it means nothing.

    Raises:
        TrialError: The run maximises.
    """
    for outcome in outcomes:
        if outcome.bound is not None and history.direction == "maximize":
            raise TrialError(
                f"trial {outcome.trial_id}: a bound says that the value is at least {outcome.bound:g}, "
                "which means nothing when maximising; leave the bound out"
            )


def legal(space: Space, config: Config) -> dict[str, Any]:
    """Return a feasible configuration in the space's own values.

    Raises:
        ConfigError: It is not feasible; the message says why.
    """
    space.validate(config)
    return space.decode(space.encode([config]))[0]


def _subject(history: History, subject: Trial | Config, imported: bool, new_id: int) -> Trial:
    """Return the pending trial that is meant, or a new one for a configuration that nobody asked for."""
    if isinstance(subject, Trial):
        pending = history.find_pending(subject.id)
        if pending is not None and dict(pending.config) != dict(subject.config):
            raise TrialError(
                f"trial {subject.id} of this run is {dict(pending.config)}, not {dict(subject.config)}; "
                "it comes from another run"
            )
        return subject  # `History.checked` refuses it where it is not pending
    if imported and not history.space.contains(subject):
        return Trial(new_id, dict(subject), None, "imported")
    config = legal(history.space, subject)
    pending = history.find_pending_code(history.space.encode([config])[0])
    if pending is not None:
        return pending
    return Trial(new_id, config, None, "imported" if imported else "told")


def _listed(value: Any, n: int, details: Mapping[str, Any]) -> list[Any]:
    if value is None and details["failed"] is not None:
        return [None] * n
    values = list(value) if isinstance(value, (Sequence, np.ndarray)) else None
    if values is None or len(values) != n:
        raise TrialError(f"{n} trials need a list of {n} values, not {value!r:.80}")
    return values
