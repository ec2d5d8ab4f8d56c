"""The findings of a run, read from its history alone: the winner, the default, failures, noise and drift.

`Findings` is the value; `baco_like.running.sentences` tells it in words, and `write_best` writes it as ``best.json``.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._output import replace_file
from baco_like._typing import Array, Ints
from baco_like.exceptions import ConfigError, TrialError
from baco_like.optimizer.view import RunView
from baco_like.parameters.protocol import is_sequence
from baco_like.records import (
    Confirmation,
    History,
    Objective,
    Speedup,
    Status,
    TaskRecommendation,
    Trial,
    Utilisation,
    read_confirmation,
    read_utilisation,
)
from baco_like.records.confirmation import winner_of
from baco_like.records.drift import describe_first_repeats, read_drift
from baco_like.records.objective import sign_of
from baco_like.records.sources import SourceRecord, read_finders
from baco_like.records.trial import LEVELS, WARM, measurement_notes, rank, read_values
from baco_like.spaces.inputs import defaults_of
from baco_like.surrogates.ranking_ensemble import OWN_WEIGHT

CHANGED = 0.1
"""Relative change of a value, measured again, that is named."""

_RANDOM_WEIGHTS = 10
"""Suggestions from which the weight of a prior is taken if each has random weights of the objectives."""

_NUMBER = re.compile(r"\d+(\.\d+)?")

Commands = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Returns the commands of a configuration, or None if the evaluator runs none."""


@dataclass(frozen=True)
class Findings:
    """What a run has found so far; each property is read once.

    Attributes:
        history: The history.
        objective: The measured quantity, the first of several.
        threshold: Relative drift of the machine that is named.
    """

    history: History
    objective: Objective
    threshold: float = 0.05

    @cached_property
    def _decision(self) -> tuple[Trial | None, Confirmation | None]:
        return winner_of(self.history)

    @property
    def best(self) -> Trial | None:
        """The best trial, after the confirmation if it decides; with several objectives the knee. None: no success."""
        return self._decision[0]

    @property
    def confirmation(self) -> Confirmation | None:
        """The repeated measurements of the best trials and the default, or None if they do not decide."""
        return self._decision[1]

    @cached_property
    def _defaults(self) -> list[Trial]:
        config = self.history.space.default_config
        return [] if config is None else self.history.trials_of(config)

    @cached_property
    def default(self) -> Trial | None:
        """The trial of the default configuration, with its measurements in the confirmation; None if there is none."""
        found = self.confirmation
        confirmed = found.default if found is not None and found.recommended is not None else None
        return confirmed or next((t for t in self._defaults if t.origin != WARM), None)

    @cached_property
    def steps(self) -> dict[str, list[tuple[Any, float | None]]]:
        """The best sequences step by step: an element, and the value of the sequence that ends with it.

        The element before the first one is None, and so is the value of a failure. Only sequences whose starts were
        all measured have steps, and only exact values: the others are of different minutes.
        """
        found: dict[str, list[tuple[Any, float | None]]] = {}
        space, best = self.history.space, self.best
        for name, value in best.config.items() if best and self.objective.exact else ():
            parameter = space.parameters.get(name)
            if not best or not is_sequence(parameter) or not parameter.ordered:
                continue
            lengths = range(parameter.min_length, len(value))
            # Parameters that become active have their defaults, as in a simplification.
            given = {**defaults_of(space.parameters), **best.config}
            starts = [{**given, name: value[:length]} for length in lengths]
            try:
                trials = [self.history.trials_of(c) for c in space.decode(space.encode(starts))]
            except ConfigError:  # one of them has no default
                continue
            if starts and all(trials):
                elements = [value[length - 1] if length else None for length in lengths]
                values = [own[0].value for own in trials]
                found[name] = list(zip([*elements, value[-1]], [*values, best.value], strict=True))
        return found

    @cached_property
    def finders(self) -> dict[str, SourceRecord]:
        """What each source of proposals, and each origin of the other trials, has brought; empty without a source."""
        return read_finders(self.history)

    @property
    def is_default_best(self) -> bool:
        """Whether the best configuration is the default one."""
        best, default = self.best, self.default
        return (
            best is not None and default is not None and dict(best.config) == dict(default.config)
        )

    @property
    def is_default_kept(self) -> bool:
        """Whether the default is recommended because no candidate is distinguishable from it."""
        found = self.confirmation
        return self.is_default_best and found is not None and len(found.tied) > 1

    @property
    def leader(self) -> Trial | None:
        """The winner of the confirmation where the default is kept, because the winner is not shown to be better."""
        found = self.confirmation if self.is_default_kept else None
        return None if found is None or found.winner is found.default else found.winner

    @property
    def confirmed_speedup(self) -> Speedup | None:
        """The speed-up of the recommended candidate with its interval, or None without a confirmation."""
        return None if self.confirmation is None else self.confirmation.speedup_of(self.best)

    @property
    def speedup(self) -> float | None:
        """Ratio of the default and the best value, above 1 if the best is better; None if it is not defined.

        With several objectives there is none, because the knee need not be better in each; with several tasks neither.
        After a confirmation, the ratio of measurements of the same rounds; None if the default has none.
        """
        if self.history.objectives or self.tasks:
            return None
        if self.is_default_best:
            return 1.0
        if self.confirmation is not None and self.confirmation.recommended is not None:
            return None if self.confirmed_speedup is None else self.confirmed_speedup.value
        default, best = (None if t is None else t.value for t in (self.default, self.best))
        if default is None or best is None or default <= 0 or best <= 0:
            return None
        return default / best if self.objective.direction == "minimize" else best / default

    @cached_property
    def front(self) -> list[Trial]:
        """The trials that no other one dominates if there are several objectives, else empty."""
        return [*self.history.front()] if self.history.objectives else []

    @cached_property
    def tasks(self) -> list[tuple[str, list[Trial], Trial | None]]:
        """See `best_by_task`; empty with fewer than two tasks."""
        return best_by_task(self.history)

    @cached_property
    def _messages(self) -> dict[str, Counter[str]]:
        """First lines of messages by failure word, with their numbers; of the search, without censored trials."""
        messages: dict[str, Counter[str]] = {}
        for trial in self.history.searched_trials:
            if trial.failure and trial.status is Status.FAILED:
                messages.setdefault(trial.failure, Counter())[first_line(trial)] += 1
        return messages

    @cached_property
    def failures(self) -> dict[str, int]:
        """Number of evaluations that failed by failure word, the most frequent first; without censored ones."""
        counts = Counter({word: lines.total() for word, lines in self._messages.items()})
        return dict(counts.most_common())

    @property
    def messages(self) -> dict[str, str]:
        """The most frequent message (its first line) of each failure word."""
        return {word: lines.most_common(1)[0][0] for word, lines in self._messages.items()}

    @cached_property
    def censored(self) -> dict[str, int]:
        """Number of censored evaluations by reason: ``slow``, or ``at the time limit``."""
        trials = self.history.searched_trials
        return dict(Counter(censoring(t) for t in trials if t.status is Status.CENSORED))

    @cached_property
    def utilisation(self) -> Utilisation | None:
        """How busy the workers were, or None if no outcome names its worker."""
        return read_utilisation(self.history)

    @cached_property
    def noise(self) -> float | None:
        """The typical relative spread of repeats of one configuration, or None without repeats.

        It is the median over trials of standard deviation over mean; without trials of several repeats, over the
        candidates of the latest confirmation.
        """
        spreads = [s for trial in self.history.trials if (s := relative_spread(trial)) is not None]
        found = None if spreads else read_confirmation(self.history)
        candidates = () if found is None else found.candidates
        spreads += [s for trial in candidates if (s := relative_spread(trial)) is not None]
        return float(np.median(spreads)) if spreads else None

    @cached_property
    def drift(self) -> list[str]:
        """A sentence for each change of the machine, for first repeats that differ, and for another earlier default."""
        lines = read_drift(self.history, self.threshold).describe()
        lines += describe_first_repeats(self.history)
        own = next((t.value for t in self._defaults if t.origin != WARM), None)
        warm = (t.value for t in self._defaults if t.origin == WARM and t.value is not None)
        earlier = next(warm, None)
        if earlier and own is not None and abs(own / earlier - 1.0) > CHANGED:
            lines.append(
                f"The warm start has {earlier:.4g} for the default, this run has measured {own:.4g}: their values may "
                "not be comparable. mode = 'prior' uses only the ranks of the earlier results."
            )
        return lines

    @property
    def notes(self) -> list[str]:
        """A sentence for each note on how the best trial, or one of the front, was measured, and on the levels."""
        trials = self.front or ([] if self.best is None else [self.best])
        notes = [(t.id, *note) for t in trials for note in measurement_notes(t).items()]
        lines = [f"Trial {number}: {text}." for number, kind, text in notes if kind != LEVELS]
        noted = (measurement_notes(trial).get(LEVELS) for trial in self.history.trials)
        if levels := next(filter(None, noted), None):
            lines.append(f"Optimization levels to compare with, {self.objective.label}: {levels}.")
        return lines

    @cached_property
    def prior_weights(self) -> dict[str, float]:
        """Weight of each related task in the last suggestion of a model; the largest of several objectives.

        `ParEGO` weighs a task for random weights of the objectives; then it is the largest weight of the last ten.
        """
        largest: dict[str, float] = {}
        tags = (t.tag for t in reversed(self.history.trials) if isinstance(t.tag, Mapping))
        with_weights = (tag for tag in tags if isinstance(tag.get("weights"), Mapping))
        for tag in islice(with_weights, _RANDOM_WEIGHTS):
            weights = tag["weights"]
            several = any(isinstance(part, Mapping) for part in weights.values())
            for part in weights.values() if several else [weights]:
                for name, weight in part.items():
                    largest[str(name)] = max(float(weight), largest.get(str(name), 0.0))
            if "objective_weights" not in tag:
                break
        largest.pop(OWN_WEIGHT, None)
        return largest


# Tasks ----------------------------------------------------------------------------------------------------------------


def best_by_task(history: History) -> list[tuple[str, list[Trial], Trial | None]]:
    """Return for each task its name, its observed trials, and the best of them; empty with fewer than two tasks."""
    tasks = history.space.tasks
    if tasks is None or len(tasks) < 2:
        return []
    found = []
    for name, descriptor in zip(tasks.names, tasks.descriptors, strict=True):
        own = [trial for trial in history.trials if trial.task == descriptor]
        found.append((name, own, next(iter(rank(own, history.direction)), None)))
    return found


def best_beside(history: History, trial: Trial) -> tuple[str, Trial | None] | None:
    """Return the name of a trial's task, and the best trial of that task; None in a run with fewer than two tasks."""
    found = best_by_task(history)
    if not found or trial.task is None or history.space.tasks is None:
        return None
    name, _, best = found[history.space.tasks.descriptors.index(trial.task)]
    return name, best


def recommend_by_task(view: RunView) -> TaskRecommendation | None:
    """Return the recommendation of a run with several tasks; None without them, or before the first success."""
    found: TaskRecommendation | None = view.recommend() if best_by_task(view.history) else None
    return found


def recommended_trial(
    found: TaskRecommendation | None, task: Mapping[str, Any] | str | None, history: History
) -> Trial:
    """Return the recommended configuration of a task as a trial: the measured one, else one without an outcome.

    Args:
        found: The recommendation.
        task: Descriptor or name of the task; None if one configuration is recommended for all.
        history: The history of the run.

    Raises:
        TrialError: Nothing is recommended for the task, or there are several configurations and no task is named.
    """
    choices = () if found is None else found.choices
    if not choices and task is not None:
        raise TrialError(f"task = {task!r:.60}: this run has no tasks, or no success")
    own = [c for c in choices if task in (None, c.name, dict(c.task))]
    if not own or (task is None and any(c.config != own[0].config for c in own)):
        known = " or ".join(
            ",".join(f"{name}={value}" for name, value in c.task.items()) for c in choices
        )
        text = "each task has its own configuration"
        if not own:
            text = f"nothing is recommended{'' if task is None else f' for {task!r:.60}'}"
        raise TrialError(f"{text}; name a task by --task {known}" if known else f"{text} yet")
    config = {**own[0].config, **own[0].task}
    measured = history.trials_of(config)
    valued = [trial for trial in measured if trial.value == own[0].value]  # not a later, worse one
    new = Trial(len(history), config, task=own[0].task)
    return next(iter([*valued, *measured[::-1]]), new)


# Trials ---------------------------------------------------------------------------------------------------------------


def convergence(history: History) -> Array:
    """Return the best value after each evaluation in the user's unit, ``(n,)``; NaN before the first success.

    Imported configurations outside the space and other fidelities do not count, and neither do measurements for a
    control, and those after the search: the best of them is luck, not progress of the search.
    """
    counts = history.is_success & history.is_search
    costs = np.where(counts, history.costs, np.inf)
    best: Array = np.minimum.accumulate(costs)
    return sign_of(history.direction) * np.where(np.isinf(best), np.nan, best)


def evaluation_numbers(history: History) -> Ints:
    """Return the number of the evaluation that each observed trial is, ``(n,)``; results of a warm start are below 1.

    Trials that do not count have the number of the evaluation before.
    """
    return np.cumsum(history.is_search) - history.warm


def relative_spread(trial: Trial) -> float | None:
    """Return the standard deviation of a trial's repeats over their mean; None with fewer than two, or a mean of 0."""
    mean = float(np.mean(trial.repeats)) if len(trial.repeats) > 1 else 0.0
    return float(np.std(trial.repeats, ddof=1)) / abs(mean) if mean else None


def model_start(trials: Sequence[Trial]) -> int | None:
    """Return the number (from 1) of the first evaluation that a model proposed, or None."""
    phases = [trial.read_tag("phase") for trial in trials]
    return phases.index("model") + 1 if "model" in phases else None


def censoring(trial: Trial) -> str:
    """Return why a trial is censored; a program that hangs is always at the time limit."""
    return "slow" if trial.outcome is not None and trial.outcome.is_slow else "at the time limit"


def first_line(trial: Trial) -> str:
    """Return the first line of a failed trial's message, shortened."""
    return next(iter(trial.message.strip().splitlines()), "no message")[:300]


def group_failures(trials: Iterable[Trial]) -> list[tuple[str, str, list[Trial]]]:
    """Return the causes of failures, the most frequent first: word, first line of the first message, and the trials.

    Messages that differ in numbers alone, such as an exceeded size, are one cause.
    """
    causes: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        if trial.status is Status.FAILED:
            cause = str(trial.failure), _NUMBER.sub("#", first_line(trial))
            causes.setdefault(cause, []).append(trial)
    every = [(word, first_line(failed[0]), failed) for (word, _), failed in causes.items()]
    return sorted(every, key=lambda cause: -len(cause[2]))


# best.json ------------------------------------------------------------------------------------------------------------


def write_best(
    found: Findings,
    path: Path,
    *,
    seed: int,
    make_commands: Commands = lambda config: None,
    recommended: TaskRecommendation | None = None,
) -> None:
    """Write ``best.json``: configuration, value, the default's value, speed-up, repeats, failures by kind.

    With several objectives the configuration is the knee, and the file has the front too. With several tasks it is the
    recommended configuration if there is one for all tasks, and there is no best value, as values of different tasks do
    not compare.

    Args:
        found: The findings.
        path: The file.
        seed: The seed of the run.
        make_commands: See `Commands`.
        recommended: With several tasks, the recommended configurations; they become the entry ``tasks``.
    """
    best, default, confirmation = found.best, found.default, found.confirmation
    config = None if best is None else dict(best.config)
    if found.tasks:
        best = default = config = None
        if recommended is not None and len(recommended.configs) == 1:
            config = dict(recommended.configs[0])
    workers = found.utilisation
    content = {
        "objective": found.objective.name,
        "unit": found.objective.unit,
        "goal": found.objective.direction,  # the key of files before the word became "direction"
        "config": config,
        "commands": None if best is None else make_commands(best.config),
        "value": None if best is None else best.value,
        "repeats": [] if best is None else list(best.repeats),
        "sem": None if best is None else best.sem,
        "trial": None if best is None else best.id,
        "default_config": None if default is None else dict(default.config),
        "default_value": None if default is None else default.value,
        "default_repeats": [] if default is None else list(default.repeats),
        "speedup": found.speedup,
        "evaluations": found.history.searched,
        "builds": found.history.builds,
        "failures": found.failures,
        "failure_messages": found.messages,
        "censored": found.censored,
        "prior_weights": found.prior_weights,
        "seed": seed,
        "drift": found.drift,
        "notes": found.notes,
        **({} if workers is None else {"workers": workers.workers, "idle": workers.idle}),
        **({} if recommended is None else _recommendation_entries(recommended, make_commands)),
        **_front_entries(found.front, found.history.objectives),
        "is_default": found.is_default_best,
        **({"steps": found.steps} if found.steps else {}),
        **_confirmation_entries(confirmation, found.confirmed_speedup),
        "confirmation": [
            {
                "trial": trial.id,
                "config": dict(trial.config),
                "observed": trial.extra.get("observed"),
                "value": trial.value,
                "repeats": list(trial.repeats),
                "failed": trial.failure,
                **_speedup_entries(confirmation.speedup_of(trial) if confirmation else None),
            }
            for trial in (confirmation.candidates if confirmation else ())
        ],
    }
    replace_file(path, (json.dumps(content, indent=2) + "\n").encode())


def _recommendation_entries(
    recommended: TaskRecommendation, make_commands: Commands
) -> dict[str, Any]:
    rows = [
        {
            "name": choice.name,
            "task": dict(choice.task),
            "config": dict(choice.config),
            "value": choice.value,
            "measured": choice.is_measured,
            "slowdown": choice.slowdown,
            "commands": make_commands({**choice.config, **choice.task}),
        }
        for choice in recommended.choices
    ]
    return {"tasks": rows, "task_goal": recommended.goal.to_json()}


def _confirmation_entries(
    confirmation: Confirmation | None, speedup: Speedup | None
) -> dict[str, Any]:
    """Return the entries of ``best.json`` on how sure the result is; intervals without an end have null there."""
    if confirmation is None:
        return {}
    winner, entries = confirmation.winner, _speedup_entries(speedup)
    simplification = confirmation.plan.simplification
    return {
        **({"simplification": asdict(simplification)} if simplification else {}),
        "speedup_low": entries["speedup_low"],
        "speedup_high": entries["speedup_high"],
        "confidence": confirmation.plan.confidence,
        "decided": confirmation.is_decided,
        "rounds": confirmation.rounds,
        "winner": None if winner is None else dict(winner.config),
        "tied": [dict(trial.config) for trial in confirmation.tied],
    }


def _speedup_entries(speedup: Speedup | None) -> dict[str, float | None]:
    """Return a speed-up and the ends of its interval; all null if there is none, the ends if they are not known."""
    names = ("speedup", "speedup_low", "speedup_high")
    if speedup is None:
        return dict.fromkeys(names)
    ends = (speedup.low, speedup.high) if math.isfinite(speedup.high) else (None, None)
    return dict(zip(names, (speedup.value, *ends), strict=True))


def _front_entries(front: Sequence[Trial], objectives: Sequence[Objective]) -> dict[str, Any]:
    """Return the entries of ``best.json`` on several objectives; empty with one."""
    if not objectives:
        return {}
    names = [objective.name for objective in objectives]
    return {
        "objectives": [
            {"name": o.name, "unit": o.unit, "direction": o.direction} for o in objectives
        ],
        "front": [
            {
                "trial": trial.id,
                "config": dict(trial.config),
                "values": dict(zip(names, read_values(trial, objectives), strict=True)),
            }
            for trial in front
        ],
    }
