"""Turn the arguments of `Optimizer.observe` into an event, which `JournaledState.commit` records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from baco_like._typing import Codes
from baco_like.exceptions import ConfigError, TrialError
from baco_like.journal.events import observed_event
from baco_like.optimizer.arguments import Config, encode_feasible, encode_together
from baco_like.optimizer.state import Draft, OptimizerState
from baco_like.records import History, Outcome, Trial
from baco_like.records.objective_values import add_program, finite_number, outcome_from, read_build
from baco_like.records.trial import LATE


def build_observation(
    state: OptimizerState, trial: Any, value: Any, details: Mapping[str, Any], imported: bool
) -> Draft:
    """Return the ``observed`` event for the arguments of `Optimizer.observe`, which are described there.

    Whether trials are pending and outcomes consistent is checked once, when the event is applied.

    Raises:
        TrialError: A trial comes from another run, a value cannot be read, the lists differ in length, or a metric is
            missing that a limit reads.
        ConfigError: A configuration does not belong to the space.
    """
    if isinstance(trial, Mapping):
        subjects, values = [trial], [value]
    elif isinstance(trial, Sequence) and all(isinstance(subject, Mapping) for subject in trial):
        subjects, values = list(trial), _values_for(len(trial), value, details)
    else:
        raise TrialError(
            f"observe takes a trial, a configuration or a list of them, not {trial!r:.80}"
        )
    if not isinstance(details["extra"] or {}, Mapping):
        raise TrialError(
            f"extra must be a mapping of names to JSON values, not {details['extra']!r:.80}"
        )
    history = state.history
    told = [subject for subject in subjects if not isinstance(subject, Trial)]
    encoded = iter(encode_together(history.space, told) if len(told) > 1 else ())
    trials: list[Trial] = []
    codes: list[Codes] = []
    for subject in subjects:
        new_id = history.next_id + len(codes)
        if isinstance(subject, Trial):
            known, code = _resolve_trial(history, subject, new_id)
        else:
            known, code = _resolve_config(history, subject, imported, new_id, next(encoded, None))
        trials.append(known)
        if code is not None:
            codes.append(code)
    name = state.options.aim.first.name
    details = dict(details)
    build = read_build(details.pop("build", None))
    outcomes = [
        replace(outcome_from(known.id, single_value, name, **details), build=build)
        for known, single_value in zip(trials, values, strict=True)
    ]
    outcomes = [
        _name_first(outcome, subject) if known.origin == LATE else outcome
        for outcome, known, subject in zip(outcomes, trials, subjects, strict=True)
    ]
    return _draft(state, trials, outcomes, codes)


def build_late_results(state: OptimizerState, results: Sequence[Trial]) -> Draft:
    """Return the ``observed`` event for results of trials that need not be pending any more.

    The result of a pending trial completes it. Any other one becomes a further result of its configuration, with a new
    number and the origin ``late``.

    Raises:
        TrialError: A trial has no outcome, or a metric is missing that a limit reads.
        ConfigError: A configuration does not belong to the space.
    """
    history = state.history
    trials: list[Trial] = []
    outcomes: list[Outcome] = []
    codes: list[Codes] = []
    for result in results:
        if result.outcome is None:
            raise TrialError(f"trial {result.id} has no outcome to record")
        outcome, known = result.outcome, history.pending.get(result.id)
        if known is None or known in trials:
            known, code = _late_trial(history, result, history.next_id + len(codes))
            codes.append(code)
            outcome = _name_first(replace(outcome, trial_id=known.id), result)
        trials.append(known)
        outcomes.append(outcome)
    return _draft(state, trials, outcomes, codes)


def _late_trial(history: History, trial: Trial, new_id: int) -> tuple[Trial, Codes]:
    """Return the trial of a further result of a configuration, with its codes, (1, w)."""
    config, code = encode_feasible(history.space, trial.config)
    return Trial(new_id, config, None, LATE), code


def _name_first(outcome: Outcome, trial: Any) -> Outcome:
    """Return a late outcome with the number of the trial that it belongs to."""
    return replace(outcome, extra={**outcome.extra, LATE: trial.id})


def add_details(
    extra: Mapping[str, Any] | None,
    trial: Any,
    seconds: float | Mapping[str, float] | None,
    program: str | None,
    build: Mapping[str, float] | None = None,
) -> Mapping[str, Any] | None:
    """Return ``extra`` with the program of one trial and the seconds of its stages.

    One number is the time of the stage ``run``.

    Raises:
        TrialError: ``trial`` is a list, also with ``build``; ``extra`` has one of them too, a number is not finite or
            below 0, or the program is not a text.
    """
    if seconds is None and program is None and build is None:
        return extra
    if not isinstance(trial, Mapping):
        raise TrialError(
            "seconds, program and build belong to one trial; observe one trial at a time"
        )
    known = add_program(extra, program)
    if seconds is None:
        return known
    if "seconds" in known:
        raise TrialError("seconds and extra['seconds'] are both given; leave one of them out")
    stages = dict(seconds) if isinstance(seconds, Mapping) else {"run": seconds}
    for stage, value in stages.items():
        number = finite_number(value)
        if number is None or number < 0:
            raise TrialError(f"seconds of {stage!r} = {value!r:.60}: expected a number from 0")
        stages[stage] = number
    return {**known, "seconds": stages}


def build_completion(state: OptimizerState, outcomes: Sequence[Outcome]) -> Draft:
    """Return the ``observed`` event for outcomes of pending trials.

    Raises:
        TrialError: A trial is not pending, or a metric is missing that a limit reads.
    """
    trials = [state.history.get_pending(outcome.trial_id) for outcome in outcomes]
    return _draft(state, trials, outcomes)


def _draft(
    state: OptimizerState,
    trials: Sequence[Trial],
    outcomes: Sequence[Outcome],
    codes: Sequence[Codes] = (),
) -> Draft:
    outcomes = [
        outcome
        if outcome.build or trial.origin == "imported"
        else replace(outcome, build=state.history.find_build(trial.config))
        for trial, outcome in zip(trials, outcomes, strict=True)
    ]
    outcomes = [state.options.aim.judge(outcome) for outcome in outcomes]
    for outcome in outcomes:
        if outcome.bound is not None and state.history.direction == "maximize":
            raise TrialError(
                f"trial {outcome.trial_id}: bound={outcome.bound:g} says that the value is at least that, which has no "
                "meaning when maximising; leave the bound out"
            )
    added = np.concatenate(codes) if codes else None
    return Draft(observed_event(trials, outcomes), added, outcomes)


def _resolve_trial(history: History, subject: Trial, new_id: int) -> tuple[Trial, Codes | None]:
    """Return the pending trial that is observed; for a late result a new trial and its codes, (1, w)."""
    if history.expects_late(subject):
        return _late_trial(history, subject, new_id)
    trial = history.get_pending(subject.id)
    if dict(trial.config) != dict(subject.config):
        raise TrialError(
            f"trial {subject.id} of this run is {dict(trial.config)}, not {dict(subject.config)}; "
            "it comes from another run"
        )
    return trial, None


def _resolve_config(
    history: History,
    subject: Config,
    imported: bool,
    new_id: int,
    encoded: tuple[dict[str, Any], Codes] | None,
) -> tuple[Trial, Codes | None]:
    """Return the trial of a configuration; unless it is pending also its codes, (1, w), which may be ``encoded``."""
    try:
        config, code = encoded or encode_feasible(history.space, subject)
    except ConfigError:
        if not imported:
            raise
        return Trial(new_id, subject, None, "imported"), np.full((1, history.space.width), np.nan)
    pending = history.find_pending(code[0])
    if pending is not None:
        return pending, None
    return Trial(new_id, config, None, "imported" if imported else "told"), code


def _values_for(n: int, value: Any, details: Mapping[str, Any]) -> list[Any]:
    if value is None and details["failed"] is not None:
        return [None] * n
    is_list = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
    if not is_list or len(value) != n:
        raise TrialError(f"{n} trials need a list of {n} values, not {value!r:.80}")
    return list(value)
