"""Summarise a run: the default configuration against the best one, and a plot of the convergence."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from baco_like._optional import open_plot
from baco_like._output import align_cells, format_table, in_percent
from baco_like._typing import Array, Ints
from baco_like.records import (
    Confirmation,
    History,
    Objective,
    Speedup,
    Status,
    Trial,
    Utilisation,
    read_confirmation,
    read_utilisation,
    sign_of,
)
from baco_like.records.confirmation import winner_of
from baco_like.records.drift import describe_first_repeats, read_drift
from baco_like.records.trial import CONTROL, WARM, measurement_notes
from baco_like.running.by_task import best_by_task, task_table
from baco_like.running.front import describe_front, format_front
from baco_like.running.progress import (
    censoring,
    count_trials,
    first_line,
    format_result,
    in_words,
    is_censored,
)
from baco_like.surrogates.ranking_ensemble import OWN_WEIGHT

# Okabe and Ito's palette, which colour-blind readers can tell apart.
_BEST_COLOUR, _VALUE_COLOUR = "#0072b2", "#9a9a9a"
_FAILURE_COLOUR, _MODEL_COLOUR = "#d55e00", "#009e73"

_CHANGED = 0.1
"""Relative change of a candidate's value, measured again, that the summary names."""

_RANDOM_WEIGHTS = 10
"""Suggestions from which the weight of a prior is taken if each has random weights of the objectives."""

COMPLETE = 15
"""Most parameters whose unchanged values are shown too."""

_UNTRIED = (
    "Not each of them was tried: raise [confirmation] simplify (simplify in Python) and resume."
)

_MORE = "for more measurements, raise [confirmation] evaluations (Confirm(evaluations=...) in Python) and resume"


@dataclass(frozen=True)
class Summary:
    """The summary of a run.

    Attributes:
        objective: The measured quantity.
        default: The trial of the default configuration, or None if it was not evaluated.
        best: The best trial, or None before the first success.
        evaluations: Number of evaluations of the search; see `History.searched`.
        builds: The same number with equal programs.
        failures: Number of these that failed, by failure word; censored trials are not failures.
        messages: The most frequent message (its first line) of each failure word.
        censored: Number of censored trials by reason: ``slow``, or ``at the time limit``.
        prior_weights: Weight of each related task in the last suggestion of a model; the largest of several objectives.
            With `parego` the largest of the last ten suggestions, which have different weights of the objectives.
        confirmation: The repeated measurements of the best trials and the default, or None.
        drift: One sentence for each change of the machine during the run, and one if first repeats differ from others.
        utilisation: How busy the workers were, or None if no outcome names its worker.
        objectives: All objectives if there are several, else empty; `best` is then the knee of the front.
        front: The trials that no other one dominates, if there are several objectives.
        by_task: Head and rows of the table of `baco_like.running.by_task`, if there are several tasks.
    """

    objective: Objective
    default: Trial | None
    best: Trial | None
    evaluations: int
    builds: int
    failures: Mapping[str, int]
    messages: Mapping[str, str] = field(default_factory=dict)
    censored: Mapping[str, int] = field(default_factory=dict)
    prior_weights: Mapping[str, float] = field(default_factory=dict)
    confirmation: Confirmation | None = None
    drift: tuple[str, ...] = ()
    utilisation: Utilisation | None = None
    objectives: tuple[Objective, ...] = ()
    front: tuple[Trial, ...] = ()
    by_task: tuple[list[str], list[list[object]]] | None = None

    @property
    def is_default_best(self) -> bool:
        """Whether the best configuration is the default one."""
        if self.best is None or self.default is None:
            return False
        return dict(self.best.config) == dict(self.default.config)

    @property
    def is_default_kept(self) -> bool:
        """Whether the default is recommended because no candidate is distinguishable from it."""
        return (
            self.is_default_best
            and self.confirmation is not None
            and len(self.confirmation.tied) > 1
        )

    @property
    def leader(self) -> Trial | None:
        """The winner of the confirmation where the default is kept, because the winner is not shown to be better."""
        if not self.is_default_kept or self.confirmation is None:
            return None
        winner = self.confirmation.winner
        return None if winner is self.confirmation.default else winner

    @property
    def notes(self) -> list[str]:
        """A sentence for each note on how the best trial, or one of the front, was measured."""
        trials = self.front or ([] if self.best is None else [self.best])
        return [f"Trial {t.id}: {text}." for t in trials for text in measurement_notes(t).values()]

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
        if self.objectives or self.by_task:
            return None
        if self.is_default_best:
            return 1.0
        if self.confirmation is not None and self.confirmation.recommended is not None:
            return None if self.confirmed_speedup is None else self.confirmed_speedup.value
        default = None if self.default is None else self.default.value
        best = None if self.best is None else self.best.value
        if default is None or best is None or default <= 0 or best <= 0:
            return None
        return default / best if self.objective.direction == "minimize" else best / default


def summarise(
    history: History,
    objective: Objective,
    threshold: float = 0.05,
) -> Summary:
    """Return the summary of a history, after its confirmation; drift beyond the threshold is named.

    Args:
        history: The history.
        objective: The measured quantity, the first of several.
        threshold: Relative drift that is named.
    """
    config = history.space.default_config
    defaults = [] if config is None else history.trials_of(config)
    own = next((t for t in defaults if t.origin != WARM), None)
    default = own
    best, confirmation = winner_of(history)
    if confirmation is not None and confirmation.recommended is not None:
        default = confirmation.default or own
    messages: dict[str, Counter[str]] = {}
    searched = history.searched_trials
    for trial in searched:
        if trial.failure and not is_censored(trial):
            messages.setdefault(trial.failure, Counter())[first_line(trial)] += 1
    failures = Counter({word: counts.total() for word, counts in messages.items()})
    return Summary(
        objective,
        default,
        best,
        history.searched,
        history.builds,
        dict(failures.most_common()),
        {word: counts.most_common(1)[0][0] for word, counts in messages.items()},
        dict(Counter(censoring(trial) for trial in searched if is_censored(trial))),
        _prior_weights(history.trials),
        confirmation,
        drift=(
            *read_drift(history, threshold).describe(),
            *describe_first_repeats(history),
            *_describe_warm_default(defaults, own),
        ),
        utilisation=read_utilisation(history),
        objectives=history.objectives,
        front=tuple(history.front()) if history.objectives else (),
        by_task=task_table(history, objective) if best_by_task(history) else None,
    )


def _describe_warm_default(defaults: Sequence[Trial], own: Trial | None) -> list[str]:
    """Return a sentence if a warm start has a clearly different value of the default than this run has measured."""
    earlier = next((t.value for t in defaults if t.origin == WARM and t.value is not None), None)
    value = None if own is None else own.value
    if not earlier or value is None or abs(value / earlier - 1.0) <= _CHANGED:
        return []
    return [
        f"The warm start has {earlier:.4g} for the default, this run has measured {value:.4g}: their values may not be "
        "comparable. mode = 'prior' uses only the ranks of the earlier results."
    ]


def _prior_weights(trials: Sequence[Trial]) -> dict[str, float]:
    """Return the weight of each related task in the last suggestion of a model; the largest of several objectives.

    `ParEGO` weighs a task for random weights of the objectives; then it is the largest weight of the last suggestions.
    """
    largest: dict[str, float] = {}
    tags = (trial.tag for trial in reversed(trials) if isinstance(trial.tag, Mapping))
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


def format_summary(summary: Summary) -> str:
    """Return default against best as a text table: parameters, value, speed-up, repeats and their spread.

    With several objectives, return the front with its knee and the default; with several tasks the best of each.
    """
    best, objective = summary.best, summary.objective
    failures = in_words(summary.failures) or "none"
    censored = f"censored: {in_words(summary.censored)}" if summary.censored else ""
    if best is None:
        messages = [f"  {word}: {message}" for word, message in summary.messages.items()]
        reasons = "; ".join(filter(None, (in_words(summary.failures), censored)))
        total = f"{count_trials(summary.evaluations, summary.builds)}, none succeeded"
        total += f": {reasons}" if reasons else ""
        return "\n".join([total, *messages])
    failures += f"; {censored}" if censored else ""
    total = f"\n{count_trials(summary.evaluations, summary.builds)}; failures: {failures}"
    if summary.utilisation is not None:
        total += f"; {summary.utilisation.describe()}"
    if summary.objectives:
        table = format_front(summary.front, summary.objectives, best, summary.default, COMPLETE)
        on_front = describe_front(summary.front, summary.objectives)
        lines = [table, "", *summary.drift, *summary.notes, on_front, total.lstrip("\n")]
        return "\n".join([*lines, *_useless_priors(summary)])
    if summary.by_task is not None:
        table = format_table(*summary.by_task)
        return "\n".join([table, "", *summary.drift, *summary.notes, total.lstrip("\n")])
    label = objective.label
    speedup, other, title = summary.speedup, best, "best"
    if summary.leader is not None and summary.confirmation is not None:
        other, title = summary.leader, f"trial {summary.leader.id}"
        found = summary.confirmation.speedup_of(other)
        speedup = None if found is None else found.value
    names = every = list(other)
    if summary.default is not None:
        # Conditional parameters: either configuration may lack some of the other.
        names = every = list(dict.fromkeys([*other, *summary.default]))
        if len(every) > COMPLETE:
            names = [name for name in every if summary.default.get(name) != other.get(name)]
    columns = [
        ["", *names, label, "repeats", "spread"],
        ["default", *_format_column(summary.default, names)],
        [title, *_format_column(other, names)],
    ]
    if speedup is not None:
        cells = ("speed-up", "1.00", f"{speedup:.2f}")
        columns = [[*column, cell] for column, cell in zip(columns, cells, strict=True)]
    lines = align_cells(zip(*columns, strict=True), left=1)
    rule = "-" * max(map(len, lines))
    n = len(names)
    same = [f"{len(every) - n} more have their default"] if n < len(every) else []
    lines = [lines[0], rule, *lines[1 : n + 1], *same, rule, *lines[n + 1 :]]
    return "\n".join([*lines, *_verdict(summary), total, *_useless_priors(summary)])


def _useless_priors(summary: Summary) -> list[str]:
    """Return a sentence about each prior that has no weight."""
    return [
        f"The prior {name} has no weight: it ranks the results of this run no better than chance, or worse than the "
        "run's own model does."
        for name, weight in summary.prior_weights.items()
        if weight == 0.0
    ]


def _verdict(summary: Summary) -> list[str]:
    """Return the sentences on how sure the result is."""
    confirmation, speedup = summary.confirmation, summary.confirmed_speedup
    if summary.is_default_kept:
        lines = [describe_kept_default(summary)]
    elif summary.is_default_best:
        lines = ["The default configuration is the best one found."]
    elif confirmation is None and summary.speedup is not None and not summary.objective.exact:
        lines = [
            "The best of many noisy values is partly luck. [confirmation] measures it and the default again."
        ]
    else:
        lines = []
    lines = [*summary.drift, *summary.notes, *lines]
    if confirmation is None:
        return ["", *lines] if lines else []
    if speedup is not None and not summary.is_default_best:
        lines.append(
            f"Speed-up over the default: {format_speedup(speedup, confirmation.plan.confidence)}."
        )
    lines += describe_confirmation(confirmation)
    return ["", *lines]


def describe_kept_default(summary: Summary) -> str:
    """Return why the default is kept, and how good the fastest of the others may be."""
    text = "No configuration is shown to be better than the default, which is kept."
    leader, confirmation = summary.leader, summary.confirmation
    speedup = None if confirmation is None else confirmation.speedup_of(leader)
    if leader is None or confirmation is None or speedup is None:
        return text
    return (
        f"{text} Trial {leader.id} may be: {format_speedup(speedup, confirmation.plan.confidence)}."
    )


def format_speedup(speedup: Speedup, confidence: float) -> str:
    """Return a speed-up with its interval in words; an exact one has none."""
    if speedup.low == speedup.high:
        return f"{speedup.value:.3f}"
    if math.isinf(speedup.high):
        return f"{speedup.value:.3g}, too few rounds for an interval"
    text = f"{speedup.value:.3f}, {in_percent(confidence)} interval {speedup.low:.3f} to {speedup.high:.3f}"
    if speedup.search is None:
        return text
    return f"{text} (it changes with the load: {speedup.search:.3f} in the search)"


def describe_confirmation(confirmation: Confirmation) -> list[str]:
    """Return the sentences on the candidates of a confirmation: its size, ties, the choice, and changed values."""
    n, rounds = len(confirmation.candidates), confirmation.rounds
    end = "decided" if confirmation.is_decided else f"not decided; {_MORE}"
    measured = _count(confirmation.measurements, "measurement")
    lines = (
        []
        if confirmation.plan.exact
        else [
            f"Confirmed in {_count(rounds, 'round')} of {_count(n, 'candidate')} ({measured}): {end}."
        ]
    )
    lines += _describe_simplification(confirmation)
    others = len(confirmation.tied) - 1
    if others > 0 and confirmation.recommended is not None:
        names = ", ".join(_name(trial, confirmation) for trial in confirmation.tied)
        is_kept = confirmation.recommended is confirmation.default
        lines.append(
            f"Not distinguishable: {names}."
            if is_kept or confirmation.default is None
            else f"Not distinguishable: {names}; {_name(confirmation.recommended, confirmation)} is the closest to the "
            f"default of those within {in_percent(confirmation.plan.tolerance, 1)} of the best."
        )
    changes = [
        f"{_name(trial, confirmation)} from {observed:.4g} to {trial.value:.4g}"
        for trial in confirmation.candidates
        if trial.value is not None
        and (observed := trial.extra.get("observed"))
        and abs(trial.value / observed - 1.0) > _CHANGED
    ]
    if changes:
        lines.append(
            f"Values that changed by more than {in_percent(_CHANGED)}: {', '.join(changes)}."
        )
    failed = [
        f"{_name(trial, confirmation)} ({trial.failure})"
        for trial in confirmation.candidates
        if trial.failure
    ]
    return [*lines, f"Failed when measured again: {', '.join(failed)}."] if failed else lines


def _describe_simplification(confirmation: Confirmation) -> list[str]:
    """Return which parameters of the winner returned to their defaults, and which ones did not."""
    found, best = confirmation.plan.simplification, confirmation.recommended
    if found is None or best is None or best is confirmation.default:
        return []
    n, kept = len(found.dropped), ", ".join(found.kept[:COMPLETE])
    changed = f"{n} of the {n + len(found.kept)} changed parameters"
    tests = f"({_count(found.measurements, 'measurement')})"
    if found.elements:
        lost = _count(found.elements, "element")
        changed = f"{lost} of its sequences" if not n else f"{lost} of its sequences and {changed}"
    if best.id == found.trial and (n or found.elements):
        return [f"Without {changed} the winner is not as good {tests}."]
    more = "" if len(found.kept) <= COMPLETE else ", ..."
    ending = "returned to their defaults" if not found.elements else "were dropped"
    text = f"{changed} {ending} {tests}. Those that differ: {kept}{more}."
    return [text if found.is_minimal else f"{text} {_UNTRIED}"]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _name(trial: Trial, confirmation: Confirmation) -> str:
    return "the default" if trial is confirmation.default else f"trial {trial.id}"


def _format_column(trial: Trial | None, names: Sequence[str]) -> list[str]:
    """Return the cells of a trial: its values, its result, its repeats and their range."""
    if trial is None:
        return ["-"] * (len(names) + 3)
    values = [
        " ".join(map(str, v)) if isinstance(v := trial.config.get(n, "-"), tuple) else str(v)
        for n in names
    ]
    result = format_result(trial)
    repeats = trial.repeats
    spread = f"{min(repeats):.4g} - {max(repeats):.4g}" if repeats else "-"
    return [*values, result, str(len(repeats)), spread]


# Convergence ----------------------------------------------------------------------------------------------------------


def best_so_far(history: History) -> Array:
    """Return the best value after each evaluation in the user's unit, ``(n,)``; NaN before the first success.

    Imported configurations outside the space and other fidelities do not count, and neither do measurements for a
    control, and those after the search: the best of them is luck, not progress of the search.
    """
    is_control = np.array([t.origin == CONTROL for t in history.trials], bool)
    counts = history.where(Status.OK) & history.is_target & history.is_search & ~is_control
    costs = np.where(counts, history.costs, np.inf)
    best: Array = np.minimum.accumulate(costs)
    return sign_of(history.direction) * np.where(np.isinf(best), np.nan, best)


def evaluation_numbers(history: History) -> Ints:
    """Return the number of the evaluation that each observed trial is, ``(n,)``; results of a warm start are below 1.

    Trials that do not count have the number of the evaluation before.
    """
    return np.cumsum(history.is_search) - history.warm


def read_noise(history: History) -> float | None:
    """Return the typical relative spread of repeats of one configuration, or None without repeats.

    It is the median over trials of standard deviation over mean; without trials of several repeats, over the
    candidates of the confirmation.
    """
    spreads = [s for trial in history.trials if (s := relative_spread(trial)) is not None]
    confirmation = None if spreads else read_confirmation(history)
    candidates = () if confirmation is None else confirmation.candidates
    spreads += [s for trial in candidates if (s := relative_spread(trial)) is not None]
    return float(np.median(spreads)) if spreads else None


def relative_spread(trial: Trial) -> float | None:
    """Return the standard deviation of a trial's repeats over their mean; None with fewer than two, or a mean of 0."""
    mean = float(np.mean(trial.repeats)) if len(trial.repeats) > 1 else 0.0
    return float(np.std(trial.repeats, ddof=1)) / abs(mean) if mean else None


def model_start(trials: Sequence[Trial]) -> int | None:
    """Return the number (from 1) of the first evaluation that a model proposed, or None."""
    phases = [trial.read_tag("phase") for trial in trials]
    return phases.index("model") + 1 if "model" in phases else None


def plot_convergence(history: History, objective: Objective, path: Path) -> None:
    """Write a plot of all values, the best so far, censored values, failures and the start of the model phase.

    Args:
        history: The trials. Results of a warm start have numbers below 1.
        objective: Label and unit of the vertical axis.
        path: The file; its suffix decides the format.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with open_plot(path, 7, 4) as axes:
        draw_convergence(axes, history, objective)


def draw_convergence(axes: Any, history: History, objective: Objective) -> None:
    """Draw what `plot_convergence` describes on axes of matplotlib."""
    numbers = evaluation_numbers(history)
    values = np.array([np.nan if t.value is None else t.value for t in history.trials])
    axes.plot(numbers, values, "o", ms=4, color=_VALUE_COLOUR, label="evaluation", zorder=1)
    best = {"color": _BEST_COLOUR, "lw": 2, "label": "best so far", "zorder": 3}
    axes.step(numbers, best_so_far(history), where="post", **best)
    bounds = np.array([np.nan if t.bound is None else t.bound for t in history.trials])
    if not np.isnan(bounds).all():
        style = {"color": _VALUE_COLOUR, "mfc": "none", "label": "censored (at least)"}
        axes.plot(numbers, bounds, "^", ms=5, zorder=1, **style)
    failed = numbers[[t.status is Status.FAILED for t in history.trials]]
    if len(failed):
        bottom = {"transform": axes.get_xaxis_transform(), "clip_on": False, "zorder": 4}
        level = np.full(len(failed), 0.02)
        axes.plot(failed, level, "x", color=_FAILURE_COLOUR, label="failed", **bottom)
    start = model_start(history.trials)
    if start is not None:
        position = numbers[start - 1] - 0.5
        axes.axvline(position, color=_MODEL_COLOUR, ls="--", lw=1.2, label="model phase begins")
    valid = values[~np.isnan(values)]
    if len(valid) and valid.min() > 0 and valid.max() / valid.min() > 5:
        axes.set_yscale("log")
    axes.set_xlabel("evaluations")
    axes.set_ylabel(objective.label)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
