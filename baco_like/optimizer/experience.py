"""What earlier runs of other programs know: a few configurations that together are best on all of them.

A parameter of an earlier run is matched with one of this space by its name and its values. With the other parameters at
their defaults, the earlier results become those of related tasks. The source ``experience`` proposes the best cover of
these tasks; `baco_like.records.sources` says when, and when it stops.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from baco_like._output import warn_caller
from baco_like._typing import Array, Codes, Mask
from baco_like.exceptions import BacoError, ConfigError, RunFileError, WarmStartWarning
from baco_like.journal.header import Advice, Options
from baco_like.optimizer.warm_start import UNNAMED
from baco_like.optimizer.warm_start_sources import read_by_objective
from baco_like.parameters import Parameter, ParameterKind
from baco_like.parameters.protocol import nearest_number
from baco_like.parameters.values import is_number
from baco_like.records.covering import best_cover
from baco_like.records.objective import sign_of
from baco_like.results import Recording
from baco_like.spaces.design import exclude_nothing, middle
from baco_like.spaces.inputs import defaults_of
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import Tasks
from baco_like.strategies.protocol import RelatedTask

GivenExperience: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str] | Recording]"
"""A folder with results of earlier runs, or a list of files and recordings."""

MOST = 8
"""Largest number of configurations; each further one covers less."""

LEAST_SHARE = 0.5
"""Smallest share of the parameters that an earlier run must know. Below it, the optimum of one kernel was as good on
another one as a random configuration (benchmarks/quality/results/experience.md)."""

_CANDIDATES = 16
"""Number of each task's best configurations among which the cover is chosen."""

_NEAREST = 5
"""Number of measured configurations from which the slowdown of another one is interpolated."""

_SUFFIXES = (".jsonl", ".json", ".json.gz", ".csv", ".csv.gz")

_PARTS = re.compile(r"[a-z]+|[0-9]+")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FLAG = re.compile(r"-+[fm]?(?=.)")
_EMPTY_WORDS = frozenset(("factor", "tuned", "param", "the", "of"))
"""Words of names that say nothing about a parameter."""


class _Known(NamedTuple):
    """An earlier run as a related task.

    Attributes:
        task: Its results in the space of the run.
        features: The features of the parameters that it knows, ``(k,)``.
        share: Share of the parameters of the space that it knows; a part of a range counts as a part of a parameter.
    """

    task: RelatedTask
    features: Mask
    share: float


def read_experience(given: GivenExperience, space: Space, options: Options) -> tuple[Advice, ...]:
    """Return the configurations that earlier runs advise, the most useful one first.

    A folder also has other files, so those without results of this objective are left out. If no file can be
    used, a warning says why.

    Args:
        given: A folder, which is searched with its subfolders, or a list.
        space: The space of the run.
        options: Its options.

    Raises:
        ConfigError: It is a single file, or the run has tasks.
        RunFileError: A file of a list cannot be read, or has another objective or direction.
    """
    if space.tasks is not None:
        raise ConfigError(
            "experience: a run with tasks takes earlier results with WarmStart(..., task=...) instead"
        )
    known: list[_Known] = []
    left_out: list[str] = []
    for name, item in _items(given):
        try:
            recordings = list(_programs(name, item, options))
        except (BacoError, ValueError) as error:
            if not isinstance(given, str | os.PathLike):
                raise RunFileError(f"experience {name}: {error}") from error
            left_out.append(f"{name} ({error})")
            continue
        known += [k for r in recordings if (k := _relate(*r, space, options)) is not None]
    if left_out and not known:
        more = f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        warn_caller(
            f"experience {given}: no run in it knows enough of the parameters; left out are "
            f"{'; '.join(left_out[:3])}{more}",
            WarmStartWarning,
        )
    return _advise(known, space)


def _items(given: GivenExperience) -> Iterator[tuple[str, Path | Recording]]:
    """Yield the files and recordings, each with its shortest name.

    Raises:
        ConfigError: It is a single file.
    """
    if isinstance(given, str | os.PathLike):
        folder = Path(given)
        if folder.is_file():
            raise ConfigError(
                f"experience = {str(given)!r}: it is a file; give its folder, or a list of files"
            )
        if not folder.is_dir():
            warn_caller(
                f"experience = {str(given)!r}: there is no such folder yet", WarmStartWarning
            )
        paths = [p for p in sorted(folder.rglob("*")) if p.name.endswith(_SUFFIXES) and p.is_file()]
        names = [p.name for p in paths]
        for path in paths:
            unique = names.count(path.name) == 1
            yield path.name if unique else path.relative_to(folder).as_posix(), path
        return
    for i, item in enumerate(given, 1):
        if isinstance(item, Recording):
            yield f"recording {i}", item
        else:
            yield Path(item).name, Path(item)


def _programs(
    name: str, item: Path | Recording, options: Options
) -> Iterator[tuple[str, Recording]]:
    """Yield the results of each task in a source, of the target fidelity only, with the name of the task.

    Raises:
        BacoError: It cannot be read, or it has another objective or direction.
    """
    aim = options.aim.first
    recorded = item if isinstance(item, Recording) else read_by_objective(item, aim.name)
    if not {recorded.objective, aim.name} & {UNNAMED} and recorded.objective != aim.name:
        raise RunFileError(f"its objective is {recorded.objective!r}, not {aim.name!r}")
    if recorded.resolve_direction() != aim.direction and recorded.direction is not None:
        raise RunFileError(f"its values are to {recorded.direction}, not to {aim.direction}")
    described = recorded.described or {}
    if fidelity := described.get("fidelity"):
        recorded = recorded.of_task(
            {fidelity: (recorded.parameters[fidelity].values or [None])[-1]}
        )
    if "tasks" not in described:
        yield name, recorded
        return
    tasks = Tasks.from_dict(described["tasks"])
    for own, descriptor in zip(tasks.names, tasks.descriptors, strict=True):
        with suppress(ValueError):  # no result is of this task yet
            yield f"{name} {own}", recorded.of_task(descriptor)


def _relate(name: str, recorded: Recording, space: Space, options: Options) -> _Known | None:
    """Return the results of an earlier run in this space; None if it knows too few of the parameters.

    Unknown parameters have their defaults, or are in the middle. Of results that are then the same, the best counts.
    """
    fidelity = None if space.fidelity is None else space.fidelity.name
    active = list(space.active)
    matched = match_names(recorded.names, [own for own in active if own != fidelity])
    sign = sign_of(options.aim.first.direction)
    costs = np.array([np.nan if o.value is None else sign * o.value for o in recorded.outcomes])
    kept = np.array([o.failed != "constraints" for o in recorded.outcomes])
    codes = np.tile(_base(space), (len(costs), 1))
    columns = dict(zip(recorded.names, zip(*recorded.rows, strict=True), strict=True))
    shares: dict[str, float] = {}
    for own, theirs in matched.items():
        parameter, column = space.parameters[own], columns[theirs]
        seen = [v for v in dict.fromkeys(column) if v is not None or parameter.contains(None)]
        table = _translate(parameter, seen)
        if len(seen) < 2 or not table:
            continue
        shares[own] = _overlap(parameter, seen)
        kept &= np.array([value is None or value in table for value in column])
        set_at = [i for i, value in enumerate(column) if value in table]
        codes[set_at, space.columns[own]] = [table[column[i]] for i in set_at]
    if sum(shares.values()) < LEAST_SHARE * len(active) or np.isnan(costs[kept]).all():
        return None
    codes, group = np.unique(space.activity.at_rest(codes[kept]), axis=0, return_inverse=True)
    best = np.full(len(codes), np.nan)
    np.fmin.at(best, group.ravel(), costs[kept])
    features = np.isin(space.feature_owner, [active.index(own) for own in shares])
    share = sum(shares.values()) / len(active)
    return _Known(RelatedTask(name, codes, best), features, share)


def match_names(theirs: Iterable[str], ours: Iterable[str]) -> dict[str, str]:
    """Return for each of our names the one of another run with the same meaning: an equal or the only similar one.

    Two names are similar if at least half of their words are the same, and all letters and numbers: ``unroll_factor``,
    ``unroll`` and ``-funroll-loops``, or ``tile_size_x`` and ``tileX``, but not ``tile_size_y``.
    """
    theirs, ours = list(theirs), list(ours)
    matched = {own: own for own in ours if own in theirs}
    free = [name for name in theirs if name not in matched]
    open_ = [own for own in ours if own not in matched]
    similar = [(own, name) for own in open_ for name in free if _are_similar(own, name)]
    for own, name in similar:
        if [own in pair or name in pair for pair in similar].count(True) == 1:
            matched[own] = name
    return matched


def _are_similar(a: str, b: str) -> bool:
    first, second = _words(a), _words(b)
    long = {word for word in first & second if len(word) > 1 and word.isalpha()}
    differ = first ^ second
    return (
        bool(long)
        and len(differ) <= len(first & second)
        and all(len(w) > 1 and w.isalpha() for w in differ)
    )


def _words(name: str) -> frozenset[str]:
    """Return the words of a name in lower case and singular, without the ``-f`` of a flag."""
    parts = _PARTS.findall(_HUMP.sub(" ", _FLAG.sub("", name, count=1)).lower())
    return frozenset(w.removesuffix("s") or w for w in parts) - _EMPTY_WORDS


def _own_values(parameter: Parameter, values: Iterable[Any]) -> dict[Any, Any]:
    """Return those of the values that a parameter has, each with the parameter's own value."""
    own = {value: parameter.value_from_text(value) for value in values}
    return {value: v for value, v in own.items() if v is not None or value is None}


def _translate(parameter: Parameter, values: Sequence[Any]) -> dict[Any, Array]:
    """Return the codes of the values that a parameter has, and of other numbers those of its nearest numbers."""
    has_numbers = _range_of(parameter) is not None
    own = _own_values(parameter, values)
    for value in values:
        if value not in own and has_numbers and is_number(value):
            own[value] = nearest_number(parameter, value)
    return {value: parameter.encode([v])[0] for value, v in own.items()}


def _range_of(parameter: Parameter) -> tuple[float, float] | None:
    """Return the smallest and the largest number that a parameter has, or None if a value is not a number."""
    if parameter.kind not in (ParameterKind.ORDERED, ParameterKind.CONTINUOUS):
        return None
    low, high = parameter.decode(np.array([[code] for code in parameter.code_range]))
    return (float(low), float(high)) if is_number(low) and is_number(high) else None


def _overlap(parameter: Parameter, seen: Sequence[Any]) -> float:
    """Return the share of a parameter that values of another one cover: of its range on its scale, or of its labels."""
    own = _own_values(parameter, seen)
    ends = _range_of(parameter)
    if ends is None:
        is_list = parameter.kind in (ParameterKind.PERMUTATION, ParameterKind.SEQUENCE)
        labels = () if is_list else parameter.values or ()
        return sum(label in own.values() for label in labels) / len(labels) if labels else 1.0
    numbers = [v if is_number(v) else own.get(v) for v in seen]
    known = [number for number in numbers if number is not None]
    spans = np.array([ends, (min(known), max(known))], dtype=np.float64)
    spans = np.log(spans) if spans.min() > 0 else spans
    common = spans[:, 1].min() - spans[:, 0].max()
    return float(max(0.0, common) / (spans[:, 1].max() - spans[:, 0].min()))


def _base(space: Space) -> Codes:
    """Return the row of codes of the defaults, with the middle of the space for parameters without one, ``(1, w)``."""
    row = middle(space, 1, np.random.default_rng(0), exclude_nothing)
    for name, value in defaults_of(space.parameters).items():
        row[:, space.columns[name]] = space.parameters[name].encode([value])
    return row


def _advise(known: Sequence[_Known], space: Space) -> tuple[Advice, ...]:
    """Return the configurations that cover earlier runs best, each with the names of those for which it is best."""
    if not known:
        return ()
    slowdowns = [_log_slowdowns(each.task.costs) for each in known]
    best = [
        each.task.codes[np.argsort(logs, kind="stable")[:_CANDIDATES]]
        for each, logs in zip(known, slowdowns, strict=True)
    ]
    rows = space.feasible.nearest(np.concatenate(best), np.random.default_rng(0))
    rows = np.unique(rows, axis=0)
    columns = [
        _interpolate(space.features(each.task.codes), logs, space.features(rows), each.features)
        for each, logs in zip(known, slowdowns, strict=True)
    ]
    logs, shares = np.column_stack(columns), np.array([each.share for each in known])
    chosen = best_cover(logs * shares, MOST, "geometric_mean")
    owner = np.argmin(logs[chosen], axis=0)
    names = np.array([each.task.name for each in known])
    return tuple(
        Advice(config, _describe(names[owner == i].tolist()))
        for i, config in enumerate(space.decode(rows[chosen]))
    )


def _describe(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"best of {', '.join(names[:3])}{more}" if names else "best of all together"


def _log_slowdowns(costs: Array) -> Array:
    """Return the logarithms of costs over the best one, ``(n,)``; a failure is as slow as the slowest success.

    Costs of both signs have no ratio; their differences are divided by the largest.
    """
    ok = np.isfinite(costs)
    low, high = costs[ok].min(), costs[ok].max()
    if low > 0:
        logs = np.log(np.where(ok, costs, high) / low)
    elif high < 0:
        logs = np.log(low / np.where(ok, costs, high))
    else:
        logs = (np.where(ok, costs, high) - low) / max(high - low, math.ulp(high))
    return np.asarray(logs)


def _interpolate(measured: Array, logs: Array, wanted: Array, columns: Mask) -> Array:
    """Return the slowdowns of configurations from those of the nearest measured ones, by inverse distances.

    Args:
        measured: Features of the measured configurations, ``(n, k)``.
        logs: Their slowdowns, ``(n,)``.
        wanted: Features of the others, ``(m, k)``.
        columns: Which features the earlier run knows, ``(k,)``.
    """
    from scipy.spatial.distance import cdist

    distances = cdist(wanted[:, columns], measured[:, columns])
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :_NEAREST]
    weights = 1.0 / np.maximum(np.take_along_axis(distances, nearest, axis=1), 1e-9)
    return np.asarray((weights * logs[nearest]).sum(axis=1) / weights.sum(axis=1))
