"""Start a run with results of earlier runs, in one of three modes: ``data``, ``configs`` and ``prior``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from baco_like._output import warn_caller
from baco_like._random import Purpose, generator
from baco_like._typing import Array, Mask, Rng
from baco_like.exceptions import (
    ConfigError,
    JournalError,
    RunFileError,
    SpaceError,
    TrialError,
    WarmStartWarning,
)
from baco_like.journal.header import (
    UNIT,
    Options,
    WarmStartResults,
    describe_host,
    describe_other_origin,
    numbered,
    with_machine,
)
from baco_like.optimizer.warm_start_sources import SourceResults, WarmStart, read_source
from baco_like.records import Status
from baco_like.records.front import iterate_fronts
from baco_like.records.limits import limits_of, without_limits
from baco_like.records.objective import Direction, sign_of
from baco_like.records.objective_values import without_bound
from baco_like.results.recording import ConfigOutcome, by_measurement
from baco_like.results.tuner_json import TIME_UNITS
from baco_like.spaces.inputs import defaults_of
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import Tasks
from baco_like.strategies.auto import FAILED_AS
from baco_like.strategies.observed_costs import failure_cost
from baco_like.strategies.protocol import FEWEST_RELATED, RelatedTask
from baco_like.surrogates.gp.fit import chosen_rows

UNNAMED = "value"
"""The objective of a run that does not name it; it says nothing about the measurement."""

_EXCLUDED = "a known constraint excludes them"


def warm_starts(given: Any) -> tuple[WarmStart, ...]:
    """Return the warm starts for the argument ``warm_start``: None, data, a `WarmStart`, or several of these."""
    if given is None:
        return ()
    if isinstance(given, Sequence) and given and all(isinstance(w, WarmStart) for w in given):
        return tuple(given)
    return (given if isinstance(given, WarmStart) else WarmStart(given),)


def read_all(
    starts: Iterable[WarmStart], space: Space, options: Options
) -> tuple[WarmStartResults, ...]:
    """Return the results that a run uses of its warm starts; warn of results that are left out.

    Raises:
        ConfigError: No result of a source belongs to the space, or the source has another direction or objective.
        RunFileError: A file cannot be read, or the space that it describes is wrong.
        JournalError: A file is a damaged journal.
        ValueError: The data has an unknown type or lacks the objective.
    """
    parts = []
    for i, start in enumerate(starts):
        metrics = [*options.aim.names[1:], *limits_of(options.aim.limits).names]
        try:
            source = read_source(start, space, _objectives_of(start, options), metrics)
        except SpaceError as error:
            raise RunFileError(f"warm start {start.source}: its space: {error}") from error
        try:
            source = _with_task(start, source, space)
            rng = generator(options.seed, Purpose.WARM, i)
            parts.append(_use_source(start, source, space, options, rng))
        except ConfigError as error:
            raise ConfigError(f"warm start {start.source}: {error}") from error
        except TrialError as error:
            raise TrialError(f"warm start {start.source}: {error}") from error
    for part in parts:
        if part.left_out:
            reasons = "; ".join(f"{reason}: {n}" for reason, n in part.left_out.items())
            count = f"{sum(part.left_out.values())} of {part.found}"
            text = f"warm start {part.source}: {count} results are left out ({reasons})"
            warn_caller(text, WarmStartWarning)
    return tuple(parts)


def _objectives_of(start: WarmStart, options: Options) -> tuple[str, ...]:
    """Return the names of the objectives that the values of a source may be of: of a related task, any one."""
    names = options.aim.names
    if start.mode != "prior":
        return names[:1]
    return (start.objective,) if start.objective in names else names


def _with_task(start: WarmStart, source: SourceResults, space: Space) -> SourceResults:
    """Return the results with the descriptor of their task.

    Raises:
        ConfigError: The task is unknown, or the run has several tasks and the results do not name a task.
    """
    tasks = space.tasks
    if tasks is None:
        if start.task is not None:
            raise ConfigError(f"task = {start.task!r:.60}: this run has no tasks")
        return source
    names = set(tasks.descriptor_names)
    if start.task is None:
        if len(tasks) > 1 and not names <= source.names:
            raise ConfigError(
                f"its results lack {_join(names - source.names)}, which tells the tasks apart; write "
                f"WarmStart(..., task=...) with one of {', '.join(tasks.names)}"
            )
        return source
    try:
        descriptor = dict(tasks.descriptors[tasks.index(start.task)])
    except SpaceError as error:
        raise ConfigError(str(error)) from None
    rows: list[ConfigOutcome] = [
        ({**config, **descriptor}, outcome) for config, outcome in source.rows
    ]
    return source._replace(names=source.names | names, rows=rows)


def _use_source(
    start: WarmStart, source: SourceResults, space: Space, options: Options, rng: Rng
) -> WarmStartResults:
    rows, known_direction, objective = _rows_by_objective(start, source, options)
    if start.mode == "data":
        source = source._replace(unit=source.unit if rows is source.rows else "")
        rows = _comparable_rows(start, source, rows, options)
    direction = {o.name: o.direction for o in options.aim.several}.get(
        objective, options.aim.first.direction
    )
    if start.mode == "prior":  # excluded configurations were never run and carry no information
        rows = [(config, outcome) for config, outcome in rows if outcome.failed != "constraints"]
    if known_direction not in (None, direction):
        raise ConfigError(
            f"its values are to {known_direction}, this run is to {direction}; "
            "give a list of (configuration, value) with values that this run may have"
        )
    rows = [(config, without_bound(outcome, direction)) for config, outcome in rows]
    if start.mode != "prior":  # earlier results may lack a metric
        aim = options.aim
        if start.mode == "configs":  # these need no other objective
            aim = replace(aim, objectives=(aim.first,))
        # The limits of this run count, not those of the source.
        rows = [
            (config, aim.judge(without_limits(outcome), strict=False)) for config, outcome in rows
        ]
    if start.mode != "data" and source.tasks is not None:
        rows = _relative_to_tasks(rows, source.tasks, space, direction)
    matched, left_out, missing = _match_rows(start, space, source, rows, rng)
    assumed = "any value" if start.mode == "prior" else "its default"
    notes = [
        f"{name} is not in {start.source}: it is assumed to have {assumed}" for name in missing
    ]
    if start.mode == "configs":
        costs = _costs(matched, options, objective)
        matched = _select_best(matched, costs, start.best)
        _warn_of_missing_objectives(start, costs, options)
    elif start.mode == "prior":
        costs = _costs(matched, options, objective)
        used = _have_model(costs)
        matched = _select_for_model(matched, costs[:, used], start.rows, rng)
        lacking = [o.name for o, use in zip(options.aim.several, used, strict=False) if not use]
        if lacking:
            warn_caller(
                f"warm start {start.source}: it says nothing about {_join(lacking)}, of which it has fewer than "
                f"{FEWEST_RELATED} different values",
                WarmStartWarning,
            )
    trials, own = numbered(matched), None if objective == options.aim.first.name else objective
    return WarmStartResults(
        start.mode, start.source, trials, len(rows), left_out, tuple(notes), own
    )


def _relative_to_tasks(
    rows: list[ConfigOutcome], tasks: Tasks, space: Space, direction: Direction
) -> list[ConfigOutcome]:
    """Return results with values relative to the best of their task, unless the space tells the tasks apart.

    The values of a large size are not worse than those of a small one. Values with both signs, or 0, are not changed.
    """
    names = tasks.descriptor_names
    if set(names) <= set(space.names):
        return rows
    values: dict[tuple[Any, ...], list[float]] = {}
    keys = [tuple(map(config.get, names)) for config, _ in rows]
    for key, (_, outcome) in zip(keys, rows, strict=True):
        values.setdefault(key, []).extend([] if outcome.value is None else [outcome.value])
    every = [value for own in values.values() for value in own]
    if min(every, default=0.0) <= 0.0 <= max(every, default=0.0):
        return rows
    pick = min if direction == "minimize" else max
    best = {key: abs(pick(own, default=1.0)) for key, own in values.items()}
    pairs = zip(keys, rows, strict=True)
    return [(config, outcome.scaled(1.0 / best[key])) for key, (config, outcome) in pairs]


def _comparable_rows(
    start: WarmStart, source: SourceResults, rows: list[ConfigOutcome], options: Options
) -> list[ConfigOutcome]:
    """Return results whose values are in the unit of this run; warn if their origin is unknown.

    Raises:
        ConfigError: They come from another evaluator, program or machine, or their unit cannot be converted.
    """
    remedy = "only their ranks can help: use mode='prior' (a model of them) or 'configs' (the best are tried)"
    here = with_machine(options.context, describe_host())
    if other := describe_other_origin(source.context, here):
        raise ConfigError(
            f"its values are not comparable with new ones: {'; '.join(other)}; {remedy}"
        )
    if options.context and not source.context:
        warn_caller(
            f"warm start {start.source}: it does not say how its values were measured; they count as measured by this "
            "run. If another program or machine has measured them, use mode='prior'",
            WarmStartWarning,
        )
    unit = str(options.context.get(UNIT, ""))
    if not unit or source.unit in ("", unit):
        return rows
    scales = {**dict(TIME_UNITS.values()), "µs": 1e6}
    if not {unit, source.unit} <= scales.keys():
        raise ConfigError(f"its values are in {source.unit!r}, this run has {unit!r}; {remedy}")
    factor = scales[unit] / scales[source.unit]
    return [(config, outcome.scaled(factor)) for config, outcome in rows]


def _rows_by_objective(
    start: WarmStart, source: SourceResults, options: Options
) -> tuple[list[ConfigOutcome], Direction | None, str]:
    """Return the results with the right measurement as the value, its direction if it is known, and its objective.

    Args:
        start: The warm start, in which the user may name the measurement.
        source: The results of the source.
        options: The options of the run.

    Raises:
        ConfigError: The source has another objective and no such measurement.
    """
    own, given, first = source.objective, start.objective, options.aim.first.name
    for objective in _objectives_of(start, options):
        measurement = given or objective
        if own in (None, measurement):
            return source.rows, source.direction, objective
        rows = by_measurement(source.rows, measurement, own)
        if any(outcome.status is Status.OK for _, outcome in rows):
            return rows, None, objective
    if given is None and UNNAMED in (own, first):
        return source.rows, source.direction, first
    remedy = f"if {own!r} is the objective of this run, write WarmStart(..., objective={own!r})"
    if own in options.aim.names[1:]:
        remedy = "with mode='prior' it would inform the objectives that it has"
    raise ConfigError(
        f"its objective is {own!r}, and it has no measurement {measurement!r}; {remedy}"
    )


def _warn_of_missing_objectives(start: WarmStart, costs: Array, options: Options) -> None:
    """Say which objectives the successes of a source lack; ``costs`` has a column for each objective."""
    lacks = np.isnan(costs)
    if not lacks.any():
        return
    names = [o.name for o, lack in zip(options.aim.several, lacks.T, strict=True) if lack.any()]
    count, every = int(lacks.any(axis=1).sum()), int((~np.isinf(costs).any(axis=1)).sum())
    place = "" if count == every else "come after the others and "
    warn_caller(
        f"warm start {start.source}: {count} of {every} successes lack {_join(names)}; they {place}"
        f"are compared by {options.aim.first.name} alone",
        WarmStartWarning,
    )


def _match_rows(
    start: WarmStart, space: Space, source: SourceResults, rows: Sequence[ConfigOutcome], rng: Rng
) -> tuple[list[ConfigOutcome], Mapping[str, int], list[str]]:
    """Return the results that belong to a space, in its values.

    A parameter that the source lacks is assumed to have had its default. For a related task (``prior``) its value is
    drawn at random instead, so that a model learns that the task says nothing about it. A parameter that the space
    lacks must have had its default, or not have been active, if the results are of the same task (``data``); it must
    have had a single value if the source does not know the default. Known constraints do not matter for related tasks.

    Args:
        start: The warm start.
        space: The space of the run.
        source: The source.
        rows: Its results, with the right value.
        rng: Source of randomness.

    Returns:
        The results, the number of those left out by reason, and the parameters that the source lacks.

    Raises:
        ConfigError: No result belongs to the space; the message says why.
    """
    missing = [name for name in space.names if name not in source.names]
    lost = set(source.defaults) - set(space.names) if start.mode == "data" else set()
    defaults = defaults_of(space.parameters)
    conditional = space.conditions.expressions
    unknown = [n for n in missing if n not in defaults and n not in conditional]
    _check_parameters(start, space, source.names, lost, rows, unknown)

    def fill(name: str) -> Any:
        if start.mode == "prior" and name in missing:
            parameter = space.parameters[name]
            return parameter.decode(parameter.sample(1, rng))[0]
        if name in missing:
            return defaults.get(name)
        return "" if space.parameters[name].contains("") else None  # tables have an empty cell

    reasons: Counter[str] = Counter()
    matched: list[ConfigOutcome] = []
    for config, outcome in rows:
        mapped, reason = _map_config(config, space, fill)
        # A parameter that is not active changes nothing, as at its default.
        changed = [n for n in lost if n in config and config[n] != source.defaults[n]]
        if changed:
            reasons[f"{min(changed)!r}, which the space lacks, was not at its default"] += 1
        elif mapped is None:
            reasons[reason] += 1
        else:
            matched.append((mapped, outcome))
    if start.mode != "prior" and matched:
        inside = space.feasible.contains(space.encode([config for config, _ in matched]))
        reasons.update({_EXCLUDED: int((~inside).sum())} if not inside.all() else {})
        matched = [row for row, is_inside in zip(matched, inside, strict=True) if is_inside]
    if not matched:
        details = "; ".join(f"{reason}: {n}" for reason, n in reasons.most_common(3))
        hint = "; add the parameter, or use mode='configs' or 'prior'" if lost else ""
        raise ConfigError(f"none of its {len(rows)} results fits the space ({details}){hint}")
    return matched, dict(reasons), missing


def _check_parameters(
    start: WarmStart,
    space: Space,
    names: set[str],
    lost: set[str],
    rows: Sequence[ConfigOutcome],
    unknown: Sequence[str],
) -> None:
    """Check that the parameters of a source fit the space.

    Args:
        start: The warm start.
        space: The space of the run.
        names: The parameters of the source.
        lost: Those with a known default, which the space lacks.
        rows: The results.
        unknown: The parameters that the source lacks, and which have no default.

    Raises:
        ConfigError: They do not fit.
    """
    if not rows:
        raise ConfigError("it has no results")
    if not names & set(space.names):
        raise ConfigError(
            f"none of its parameters ({_join(names)}) is one of the space ({_join(space.names)})"
        )
    for name in sorted(names - lost - set(space.names)) if start.mode == "data" else ():
        if len({repr(config.get(name)) for config, _ in rows}) > 1:
            raise ConfigError(
                f"its results differ in {name!r}, which the space lacks, so they are not of this task; "
                "add the parameter, or use mode='configs' or 'prior'"
            )
    if unknown and start.mode != "prior":
        raise ConfigError(
            f"it lacks the parameter {unknown[0]!r}, which has no default; set the default to the value that "
            "these results had, or use mode='prior'"
        )


def _map_config(
    config: Mapping[str, Any], space: Space, fill: Callable[[str], Any]
) -> tuple[dict[str, Any] | None, str]:
    """Return a configuration in the values of a space, or None with the reason.

    Args:
        config: The configuration. Parameters that the space lacks are left out.
        space: The space.
        fill: Returns the value of a parameter that the configuration lacks, or None.
    """
    mapped: dict[str, Any] = {}
    for name, parameter in space.parameters.items():
        if name in config:
            value = parameter.value_from_text(config[name])
            reason = f"they have another value of {name!r} than the space"
        else:
            value, reason = fill(name), f"they lack {name!r}"
        is_empty = value is None and _is_empty(config.get(name))
        if is_empty and name in space.conditions.expressions:
            continue
        if value is None and not (is_empty and parameter.contains(None)):
            return None, reason
        mapped[name] = value
    if not space.conditions:
        return mapped, ""
    try:
        return space.decode(space.encode([mapped]))[0], ""
    except ConfigError:
        active = (n for n in space.names if n not in mapped and space.activity.is_active(n, mapped))
        return None, f"they lack {next(active, 'a parameter')!r}, which is active there"


def _is_empty(value: Any) -> bool:
    """Whether this means an inactive parameter or the value None: None, NaN or an empty cell of a table."""
    return bool(value is None or value == "" or value != value)


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(map(str, names)))[:200]


def _costs(rows: Sequence[ConfigOutcome], options: Options, of_value: str) -> Array:
    """Return the costs of all objectives, (n, m); infinity unless the status is OK, NaN for a missing metric.

    Args:
        rows: Configurations with their outcomes.
        options: The options of the run.
        of_value: Name of the objective that the values are of.
    """
    objectives = options.aim.objectives
    costs = np.full((len(rows), len(objectives)), np.inf)
    for i, (_, outcome) in enumerate(rows):
        if outcome.value is None:
            continue
        measured = {**outcome.metrics, of_value: outcome.value}
        for j, objective in enumerate(objectives):
            costs[i, j] = sign_of(objective.direction) * measured.get(objective.name, np.nan)
    return costs


def _best_first(costs: Array) -> Iterator[Any]:
    """Yield the successful rows, the best first, (n, m): one front after the other, its ends and sparse parts first.

    Rows with a missing cost, NaN, come after these, by their first cost.
    """
    left = np.flatnonzero(np.isfinite(costs).all(axis=1))
    if costs.shape[1] == 1:
        yield from left[np.argsort(costs[left, 0], kind="stable")]
        return
    for front in iterate_fronts(costs[left]):
        yield from left[front]
    lacking = np.flatnonzero(np.isfinite(costs[:, 0]) & np.isnan(costs).any(axis=1))
    yield from lacking[np.argsort(costs[lacking, 0], kind="stable")]


def _select_best(rows: Sequence[ConfigOutcome], costs: Array, count: int) -> list[ConfigOutcome]:
    """Return the best configurations without repetition; ``costs`` has a column for each objective."""
    best: dict[tuple[Any, ...], ConfigOutcome] = {}
    for i in _best_first(costs):
        best.setdefault(tuple(rows[i][0].items()), rows[i])
        if len(best) == count:
            break
    if not best:
        raise ConfigError("none of its results is a success")
    return list(best.values())


def _have_model(costs: Array) -> Mask:
    """Return which objectives have enough different values for a model, ``(n, m)`` -> ``(m,)``.

    Raises:
        ConfigError: None has.
    """
    used = [len(np.unique(column[np.isfinite(column)])) >= FEWEST_RELATED for column in costs.T]
    if not any(used):
        raise ConfigError(
            f"a prior needs {FEWEST_RELATED} different values in this space; "
            "use mode='configs' for fewer"
        )
    return np.array(used)


def _select_for_model(
    rows: Sequence[ConfigOutcome], costs: Array, most: int, rng: Rng
) -> list[ConfigOutcome]:
    """Return as many results as a model of a related task may have; ``costs`` has a column for each objective."""
    places = costs[:, 0] if costs.shape[1] == 1 else _places_by_front(costs, most // 2)
    ok = np.isfinite(places)
    imputed = failure_cost(places[ok], FAILED_AS)
    return [rows[i] for i in chosen_rows(np.where(ok, places, imputed), most, rng)]


def _places_by_front(costs: Array, count: int) -> Array:
    """Return the place of each row, ``(n, m)`` -> ``(n,)``: front by front for the best ``count``, the same for others.

    A missing cost, NaN, counts as the median of its column. Failures keep infinity.
    """
    failed = np.isinf(costs).any(axis=1)
    known = np.where(np.isnan(costs), np.nanmedian(costs[~failed], axis=0), costs)
    places = np.where(failed, np.inf, float(count))
    best = list(islice(_best_first(known), count))
    places[best] = np.arange(len(best))
    return places


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
    parts: Iterable[WarmStartResults], space: Space, options: Options
) -> tuple[RelatedTask, ...]:
    """Return the related tasks for the strategy.

    Raises:
        JournalError: Results do not belong to the space, or a task has no success.
    """
    tasks: list[RelatedTask] = []
    for part in [part for part in parts if part.mode == "prior"]:
        rows = [(trial.config, trial.outcome) for trial in part.trials if trial.outcome]
        costs = _costs(rows, options, part.objective or options.aim.first.name)
        try:
            codes = space.encode([config for config, _ in rows])
        except (TypeError, ValueError, AttributeError) as error:
            raise JournalError(
                f"the warm start of event 0 does not fit its space: {error}", 0
            ) from error
        costs[np.isinf(costs)] = np.nan
        if np.isnan(costs).all():
            raise JournalError(f"the warm start {part.source!r:.80} of event 0 has no success", 0)
        is_new = part.source not in [task.name for task in tasks]
        name = part.source if is_new else f"{part.source} ({len(tasks) + 1})"
        tasks.append(RelatedTask(name, codes, costs if options.aim.several else costs[:, 0]))
    return tuple(tasks)
