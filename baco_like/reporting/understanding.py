"""The sections of a report that say why, how far to trust it, and how to reproduce it."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from baco_like._output import in_percent, show
from baco_like.exceptions import BacoError
from baco_like.explanations import Ablation, Dependence, Importance
from baco_like.explanations.ablation import ABLATION_HEAD, WEAK, AblationStep, merge_steps
from baco_like.explanations.dependence import DEPENDENCE_HEAD
from baco_like.explanations.importance import IMPORTANCE_HEAD
from baco_like.explanations.models import FITTED_ROWS, GROWN_ROWS
from baco_like.journal.header import COMPILER
from baco_like.parameters.protocol import is_permutation
from baco_like.records import Status, Trial
from baco_like.records.drift import describe_first_repeats, read_drift
from baco_like.reporting import charts
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.page import Heading, Listing, Part, ReportTable, Section
from baco_like.running.commands import trial_commands

_TOO_FEW = "Too few successes: five are needed."

_DRAWN = 6
"""Parameters whose dependence is drawn; the table has more."""

_NAMED = 3
"""Most parameters, and choices of each, that the answer names."""

_LISTED = 40, 12
"""Most parameters in the table of the importance, and in the table of the dependence with its row for each choice."""

_FEATURES = 10
"""Most positions and orders of permutations in the table of the importance."""

_CLEAR = 0.01
"""A parameter is clearly important if the interval of its share begins above this."""

_OF_ANOTHER = "The same shares of the variance of this objective."


def importance_section(facts: RunFacts) -> Section:
    """What mattered?"""
    question, explained = "What mattered?", facts.explained
    if explained is None:
        return Section("importance", question, _TOO_FEW)
    importance, ablation = explained.importance, explained.ablation
    clear = [e for e in importance if e.low > _CLEAR]
    if clear:
        named = ", ".join(f"{e.name} ({in_percent(e.share)})" for e in clear[:5])
        others = f" and {len(clear) - 5} more" if len(clear) > 5 else ""
        of = f"Of {len(importance)} parameters, c" if len(importance) > 1 else "C"
        answer = f"{of}learly important: {named}{others}."
    else:
        answer = (
            f"After {facts.history.searched} evaluations, none of the {len(importance)} parameters is clearly "
            "important: too few configurations were tried, or equal configurations gave too different values."
        )
    caption = _importance_caption(importance)
    if (used := _count_explained(facts)) > FITTED_ROWS:
        caption += (
            f" Of the {used} values, a Gaussian process uses {FITTED_ROWS} and each forest up to {GROWN_ROWS}, one "
            "half of them the best."
        )
    parts: list[Part] = [
        *_ablation_parts(facts, ablation),
        Heading("Importance of the parameters"),
        charts.draw_importance(importance),
        _importance_table(importance, caption),
    ]
    for name, other in explained.further.items():
        parts += [Heading(f"Importance for {name}"), _importance_table(other, _OF_ANOTHER)]
    if not facts.has_constraints:
        parts.append(
            "Constraints in Python are not in the journal, so configurations that they exclude count as well."
        )
    return Section("importance", question, answer, parts)


def _importance_table(importance: Importance, caption: str) -> ReportTable:
    """Return the shares of the parameters, then those of the features of permutations."""
    rows = [
        [*e.cells()[:4], "" if e.low > _CLEAR else "uncertain"]
        for e in (*importance.effects[: _LISTED[0]], *importance.features[:_FEATURES])
    ]
    return ReportTable([*IMPORTANCE_HEAD[:4], ""], rows, caption)


def _importance_caption(importance: Importance) -> str:
    """Return the caption of the table of the importance: its contents, its order and the rows that it leaves out."""
    caption = (
        "Share of the variance of the value over all feasible configurations, the worse half of which counts as equal; "
        "not the effect of one change at the winner (for that, see the path above and the next section). Ordered by "
        f"the total effect; uncertain: the interval begins below {in_percent(_CLEAR)}. Total effects of parameters "
        "that interact add up to more than 100 %."
    )
    if rest := importance.effects[_LISTED[0] :]:
        further = "1 further parameter" if len(rest) == 1 else f"{len(rest)} further parameters"
        caption += f" Not shown: {further} with at most {in_percent(rest[0].share)}."
    if (features := len(importance.features)) > _FEATURES:
        caption += f" Of {features} positions and orders of permutations, the {_FEATURES} largest are shown."
    return caption


def _ablation_parts(facts: RunFacts, ablation: Ablation | None) -> list[Part]:
    """Return the path from the default to the winner."""
    if ablation is None or not len(ablation):
        return []
    steps = (ablation.origin, *merge_steps(ablation.steps))
    merged = [step for step in steps if step not in (ablation.origin, *ablation.steps)]
    rows = [
        [_merged_name(step) if step in merged else step.name, *step.cells(ablation.origin)[1:]]
        for step in steps
    ]
    caption = "One change at a time, the best predicted one first"
    if any(not step.is_significant for step in ablation):
        caption += "; uncertain: the 90 % interval of what the change brings includes 0"
    if merged:
        caption += (
            f"; such changes in a row that bring less than {in_percent(WEAK)} each share a row"
        )
    if not all(step.measured for step in ablation):
        caption += ". To check whether the first changes suffice, measure the start with these changes only"
    label = facts.objective.label
    table = ReportTable([ABLATION_HEAD[0], label, *ABLATION_HEAD[2:]], rows, caption)
    return [Heading("From the default to the winner"), charts.draw_ablation(steps, label), table]


def _merged_name(step: AblationStep) -> str:
    """Return the name of weak changes that share a row."""
    names = step.name.partition(": ")[2]
    least = in_percent(WEAK)
    together = f"together less than {least}, not distinguishable from nothing"
    if not abs(step.change) < WEAK * abs(step.value):
        together = f"each less than {least} and uncertain, together more"
    return f"{len(step.parameters)} further changes, {together}: {names}"


def choices_section(facts: RunFacts) -> Section:
    """What does each choice do?"""
    question, explained = "What does each choice do?", facts.explained
    if explained is None:
        return Section("choices", question, _TOO_FEW)
    places = _positions(facts, explained.dependence)
    ordered = {d.names for group in places.values() for d in group.values()}
    single = [d for d in explained.dependence if len(d.names) == 1 and d.names not in ordered]
    pairs = [d for d in explained.dependence if len(d.names) == 2]
    found = ((d, _better_choices(facts, d)) for d in single)
    best = [_choice_name(facts, d, choices) for d, choices in found if choices][:_NAMED]
    for name, group in places.items():
        clear = {e: at for e, d in group.items() if (at := _better_choices(facts, d))}
        early = sorted(clear, key=lambda element: int(str(clear[element][0])))
        if early and clear[early[0]][0] != clear[early[-1]][0]:
            best.append(f"of {name} {early[0]} near the beginning and {early[-1]} near the end")
    answer = "Averaged over all other choices, no choice is better beyond the 90 % intervals."
    if best:
        answer = f"Averaged over all other choices, the best are: {'; '.join(best)}."
    drawn: list[Part] = [charts.draw_dependence(d, facts.objective.label) for d in single[:_DRAWN]]
    drawn += [
        charts.draw_positions(name, group, facts.objective.label) for name, group in places.items()
    ]
    drawn += [charts.draw_dependence(d, facts.objective.label) for d in pairs]
    rows = [[d.names[0], *p.cells()] for d in single[: _LISTED[1]] for p in d.points]
    left = len(single) - _LISTED[1]
    caption = "Partial dependence: the value with each choice, averaged over the other parameters"
    if left > 0:
        which = "parameter is" if left == 1 else f"{left} parameters are"
        caption += f"; the least important {which} left out"
    head = ["parameter", "choice", facts.objective.label, *DEPENDENCE_HEAD[1:]]
    tables: list[Part] = [ReportTable(head, rows, caption)] if rows else []
    tables += [
        _position_table(name, group, facts.objective.label) for name, group in places.items()
    ]
    return Section("choices", question, answer, [*drawn, *tables])


def _positions(
    facts: RunFacts, dependence: Iterable[Dependence]
) -> dict[str, dict[str, Dependence]]:
    """Return the dependence on the positions of elements, by permutation and element."""
    by_name = {each.names[0]: each for each in dependence if len(each.names) == 1}
    places: dict[str, dict[str, Dependence]] = {}
    for name, parameter in facts.space.parameters.items():
        if is_permutation(parameter):
            labels = {str(e): f"{name}: position of {e}" for e in parameter.elements}
            known = {e: by_name[label] for e, label in labels.items() if label in by_name}
            if known:
                places[name] = known
    return places


def _position_table(name: str, group: Mapping[str, Dependence], label: str) -> ReportTable:
    columns = sorted({p.values[0] for each in group.values() for p in each.points})
    values = {e: {p.values[0]: p.value for p in each.points} for e, each in group.items()}
    rows = [[element, *(row.get(k) for k in columns)] for element, row in values.items()]
    head = ["element", *(f"at {k}" for k in columns)]
    return ReportTable(head, rows, f"{name}: {label} with each element at each position")


def _better_choices(facts: RunFacts, dependence: Dependence) -> list[object]:
    """Return the choices whose intervals reach the best one's, the best first; none unless another one is worse.

    Choices with which most configurations fail do not count.
    """
    is_smaller = facts.objective.direction == "minimize"
    points = [p for p in dependence.points if p.runs >= 0.5]
    points.sort(key=lambda p: p.value if is_smaller else -p.value)
    if not points:
        return []
    best = points[0]
    tied = [p for p in points if (p.low <= best.high if is_smaller else p.high >= best.low)]
    return [] if len(tied) == len(points) else [p.values[0] for p in tied]


def _choice_name(facts: RunFacts, dependence: Dependence, choices: Sequence[object]) -> str:
    """Return the best choices of a parameter in words, and the winner's if it is another one."""
    (name,), winner = dependence.names, facts.findings.best
    texts = [show(choice) for choice in choices]
    known = [show(point.values[0]) for point in dependence.points]
    text = " or ".join(texts)
    if len(texts) > _NAMED:
        text = f"{texts[0]}, or another of the best {len(texts)} of {len(known)}"
    has = None if winner is None else show(winner.config.get(name))
    other = f" (the winner has {has})" if has in known and has not in texts else ""
    return f"{name} = {text}{other}"


def _count_explained(facts: RunFacts) -> int:
    """Return the number of values that the explanations use, those of repeated measurements among them."""
    return int((facts.history.where(Status.OK) & facts.history.is_target).sum())


def trust_section(facts: RunFacts) -> Section:
    """May I trust it?"""
    question, explained = "May I trust it?", facts.explained
    spreads, drift = facts.relative_spread(), read_drift(facts.history)
    sentences = list(facts.findings.notes)
    parts: list[Part] = []
    if explained is not None:
        calibration = explained.calibration
        points, values = len(calibration.points), _count_explained(facts)
        which = "the values" if points >= values else f"{points} of the {values} values"
        sentences.append(
            f"{in_percent(calibration.coverage)} of {which} lie in their 90 % intervals, predicted from the other "
            f"trials (rank correlation {calibration.correlation:.2f})."
        )
        parts.append(charts.draw_calibration(calibration, facts.objective.label))
    warm = facts.history.warm
    if spreads:
        median = float(np.median([spread for _, spread in spreads]))
        sentences.append(f"Repeats of one configuration spread by {in_percent(median, 1)}.")
        sentences += describe_first_repeats(facts.history)
        rows = [(float(row + 1 - warm), spread) for row, spread in spreads]
        caption = "Noise over time: standard deviation of the repeats over their mean"
        parts.append(charts.draw_over_evaluations(rows, "spread", caption, percent=True))
    elif (noise := facts.findings.noise) is not None:
        spread = in_percent(noise, 1)
        sentences.append(f"Repeats of one configuration in the confirmation spread by {spread}.")
    else:
        sentences.append("No configuration was repeated within a trial, so the noise is unknown.")
    if drift.points:
        sentences.append(
            " ".join(drift.describe()) or "The configurations measured again show no drift."
        )
        levels = [(float(point.row + 1 - warm), point.level) for point in drift.points]
        caption = "Drift: costs of configurations measured again, over those at first"
        parts.append(charts.draw_over_evaluations(levels, "level", caption))
    else:
        sentences.append("The best configuration was not measured again during the search.")
    return Section("trust", question, " ".join(sentences), [*parts, *_time_parts(facts)])


def _time_parts(facts: RunFacts) -> list[Part]:
    """Return where the time went."""
    stages, flying = Counter[str](), 0.0
    for trial in facts.trials:
        if trial.outcome is not None:
            own = {k: v for k, v in trial.outcome.seconds.items() if isinstance(v, (int, float))}
            stages.update(own)
            if trial.started is not None and trial.ended is not None:
                flying += max(trial.ended - trial.started - sum(own.values()), 0.0)
    rows: list[list[object]] = [[name, seconds] for name, seconds in stages.items()]
    ends = [trial.ended for trial in facts.trials if trial.ended is not None]
    if ends:
        rows.append(["waiting for a turn, and overhead of the evaluator", flying])
        idle = _idle_seconds(facts)
        rows.append(["no trial in flight: suggesting, or the run was paused", idle])
        if facts.began is not None:
            rows.append(["wall time", max(ends) - facts.began])
    if not rows:
        return ["This journal has no times."]
    caption = "Time spent; stages of parallel trials add up to more than the wall time"
    return [Heading("Time"), ReportTable(["", "seconds"], rows, caption)]


def _idle_seconds(facts: RunFacts) -> float:
    """Return the seconds between the begin of the run and its last observation in which no trial was in flight."""
    idle, reached = 0.0, facts.began
    times = [(trial.started, trial.ended) for trial in facts.trials]
    for start, end in sorted((a, b) for a, b in times if a is not None and b is not None):
        reached = start if reached is None else reached
        idle += max(start - reached, 0.0)
        reached = max(reached, end)
    return idle


def reproduction_section(facts: RunFacts) -> Section:
    """How do I reproduce it?"""
    question, best = "How do I reproduce it?", facts.findings.best
    parts: list[Part] = []
    answer = "The run needs a success first."
    if best is not None:
        commands = _commands(facts, best)
        configuration = json.dumps(dict(best.config), indent=1, default=list)
        parts += [Heading("Configuration of the winner"), Listing(configuration)]
        if commands is None and facts.build_command:
            answer = "Run the script below, which builds the winner."
            parts += [Heading("Commands of the winner"), Listing(facts.build_command)]
        elif commands is None:
            answer = "Evaluate the configuration below; the journal has no commands of this run."
        else:
            answer = "Run the commands below; baco-like rebuild prints and runs them too."
            number = f" --trial {best.id}" if best.id >= 0 else ""
            rebuild = f"baco-like rebuild {shlex.quote(str(facts.path))}{number}"
            parts += [Heading("Commands of the winner"), Listing(commands), Listing(rebuild)]
    parts.append(ReportTable(["environment", ""], _environment(facts)))
    parts.append(ReportTable(["setting of the run", ""], _settings(facts)))
    return Section("reproduce", question, answer, parts)


def _commands(facts: RunFacts, best: Trial) -> str | None:
    """Return the commands of the winner, or None; they need the evaluator's tools."""
    if facts.options.context.get("[evaluator] kind") != "command":
        return None
    try:
        return trial_commands(facts, best, None, None).to_script()
    except BacoError as error:
        return f"# the commands cannot be written here: {error}"


def _environment(facts: RunFacts) -> list[list[str]]:
    opened = facts.opened
    host, versions = opened.get("host") or {}, opened.get("versions") or {}
    names = {
        "name": "machine",
        "cpu": "CPU",
        "cpus": "number of CPUs",
        "machine": "architecture",
        "governor": "CPU governor",
        "system": "operating system",
    }
    rows = [[label, str(host.get(key, "unknown"))] for key, label in names.items()]
    rows.append(["compiler", str(facts.options.context.get(COMPILER, "unknown"))])
    return [*rows, *([name, str(version)] for name, version in versions.items())]


def _settings(facts: RunFacts) -> list[list[str]]:
    options = facts.options
    rows = [
        ["begun", facts.created or "unknown"],
        ["seed", str(options.seed)],
        ["strategy", str(options.strategy.get("name") or "a strategy object")],
        ["budget", "none" if options.budget is None else str(options.budget)],
        ["noise", options.noise],
        ["direction", options.aim.first.direction],
    ]
    settings = options.strategy.get("settings") or {}
    rows += [[f"strategy: {key}", show(value)] for key, value in settings.items()]
    rows += [
        [key, _short(value)] for key, value in facts.options.context.items() if key != COMPILER
    ]
    constraints = facts.header.space.get("constraints") or ()
    return [*rows, *(["constraint", str(each)] for each in constraints)]


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 2000 else text[:2000] + " ..."
