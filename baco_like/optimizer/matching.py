"""Select the results of a source that belong to a space, and map them to its values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like._typing import Rng
from baco_like.exceptions import ConfigError
from baco_like.journal.warm_start_results import Mode
from baco_like.records.trial import Outcome
from baco_like.results.config_mapper import ConfigMapper, default_values
from baco_like.spaces.space import Space

ConfigOutcome = tuple[Mapping[str, Any], Outcome]
"""A configuration with its outcome."""

_EXCLUDED = "a known constraint excludes them"


@dataclass(frozen=True)
class MatchedResults:
    """The results of a source that belong to a space.

    Attributes:
        rows: Configurations in the values of the space, with their outcomes.
        left_out: Number of all other results, by reason.
        notes: One line per assumption.
    """

    rows: tuple[ConfigOutcome, ...]
    left_out: Mapping[str, int]
    notes: tuple[str, ...]


def match_results(
    source: str,
    mode: Mode,
    space: Space,
    names: set[str],
    rows: Sequence[ConfigOutcome],
    rng: Rng,
) -> MatchedResults:
    """Match results to a space.

    A parameter that the source lacks is assumed to have had its default. For a related task (``prior``) its value is
    drawn at random instead, so that a model learns that the task says nothing about it. A parameter that the space
    lacks must have had a single value if the results are of the same task (``data``). Known constraints do not matter
    for related tasks.

    Args:
        source: Name of the source, for messages.
        mode: How the results are used.
        space: The space of the run.
        names: The parameters of the source.
        rows: The results of the source.
        rng: Source of randomness.

    Raises:
        ConfigError: No result belongs to the space; the message says why.
    """
    where = f"warm start {source}"
    if not rows:
        raise ConfigError(f"{where}: it has no results")
    if not names & set(space.names):
        raise ConfigError(
            f"{where}: none of its parameters ({_join(names)}) is one of the space ({_join(space.names)})"
        )
    if mode == "data":
        _check_one_task(where, names - set(space.names), rows)
    missing = [name for name in space.names if name not in names]
    fill = _draw_values(space, rng) if mode == "prior" else _use_defaults(where, space, missing)
    mapper = ConfigMapper(space, lambda name: fill(name) if name in missing else None)
    reasons: Counter[str] = Counter()
    matched: list[ConfigOutcome] = []
    for config, outcome in rows:
        mapped, reason = mapper.map(config)
        if mapped is None:
            reasons[reason] += 1
        else:
            matched.append((mapped, outcome))
    if mode != "prior" and matched:
        inside = space.feasible.contains(space.encode([config for config, _ in matched]))
        reasons.update({_EXCLUDED: int((~inside).sum())} if not inside.all() else {})
        matched = [row for row, is_inside in zip(matched, inside, strict=True) if is_inside]
    if not matched:
        details = "; ".join(f"{reason}: {n}" for reason, n in reasons.most_common(3))
        raise ConfigError(f"{where}: none of its {len(rows)} results fits the space ({details})")
    assumed = "any value" if mode == "prior" else "its default"
    notes = tuple(f"{name} is not in {source}: it is assumed to have {assumed}" for name in missing)
    return MatchedResults(tuple(matched), dict(reasons), notes)


def _check_one_task(where: str, unknown: set[str], rows: Sequence[ConfigOutcome]) -> None:
    for name in sorted(unknown):
        if len({repr(config.get(name)) for config, _ in rows}) > 1:
            raise ConfigError(
                f"{where}: its results differ in {name!r}, which the space lacks, so they are not of this task; "
                "add the parameter, or use mode='configs' or 'prior'"
            )


def _use_defaults(where: str, space: Space, missing: Sequence[str]) -> Callable[[str], Any]:
    defaults = default_values(space)
    for name in missing:
        if defaults[name] is None:
            raise ConfigError(
                f"{where}: it lacks the parameter {name!r}, which has no default; set the default to the value that "
                "these results had, or use mode='prior'"
            )
    return defaults.__getitem__


def _draw_values(space: Space, rng: Rng) -> Callable[[str], Any]:
    def draw(name: str) -> Any:
        parameter = space.parameters[name]
        return parameter.decode(parameter.sample(1, rng))[0]

    return draw


def _join(names: Iterable[str]) -> str:
    return ", ".join(sorted(map(str, names)))[:200]
