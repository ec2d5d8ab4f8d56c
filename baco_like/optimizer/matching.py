"""Which results of a source belong to a space: by the names of the parameters, then by their values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like._typing import Rng
from baco_like.exceptions import ConfigError
from baco_like.journal.warm_start_results import Mode
from baco_like.parameters.protocol import Parameter
from baco_like.records.trial import Outcome
from baco_like.spaces.space import Space

Row = tuple[Mapping[str, Any], Outcome]

_OUTSIDE = "a known constraint excludes them"


@dataclass(frozen=True)
class Matching:
    """The results of a source that belong to a space.

    Attributes:
        rows: Configurations in the values of the space, with what came of them.
        left_out: How many others there are, by reason.
        notes: One line on everything that was assumed.
    """

    rows: tuple[Row, ...]
    left_out: Mapping[str, int]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls,
        source: str,
        mode: Mode,
        space: Space,
        names: set[str],
        rows: Sequence[Row],
        rng: Rng,
    ) -> Matching:
        """Match results to a space.

        A parameter that the source lacks is taken to have had its default, in a related task (``prior``) any value: it
        is drawn at random, so that a model learns that the task says nothing of it. A parameter that the space lacks
        must have had one value, if the task is to be the same (``data``). Known constraints do not concern what is
        learnt of a related task.

        Args:
            source: What messages call it.
            mode: What the results are for.
            space: The space.
            names: The parameters of the source.
            rows: Its results.
            rng: Chance.

        Raises:
            ConfigError: None of them belongs to the space; the message says why.
        """
        where = f"warm start {source}"
        if not rows:
            raise ConfigError(f"{where}: it has no results")
        if not names & set(space.names):
            raise ConfigError(
                f"{where}: none of its parameters ({_listed(names)}) is one of the space ({_listed(space.names)})"
            )
        if mode == "data":
            _check_one_task(where, names - set(space.names), rows)
        missing = [name for name in space.names if name not in names]
        fill = _any_value(space, rng) if mode == "prior" else _default(where, space, missing)
        reasons: Counter[str] = Counter()
        found: list[Row] = []
        for config, outcome in rows:
            read, reason = _read(space, config, missing, fill)
            if read is None:
                reasons[reason] += 1
            else:
                found.append((read, outcome))
        if mode != "prior":
            found = _inside(space, found, reasons)
        if not found:
            told = "; ".join(f"{reason}: {n}" for reason, n in reasons.most_common(3))
            raise ConfigError(f"{where}: none of its {len(rows)} results fits the space ({told})")
        assumed = "any value" if mode == "prior" else "its default"
        notes = tuple(
            f"{name} is not in {source}: it is taken to have {assumed}" for name in missing
        )
        return cls(tuple(found), dict(reasons), notes)


def _check_one_task(where: str, unknown: set[str], rows: Sequence[Row]) -> None:
    for name in sorted(unknown):
        values = {repr(config.get(name)) for config, _ in rows}
        if len(values) > 1:
            raise ConfigError(
                f"{where}: its results differ in {name!r}, which the space lacks, so they are not of this task; "
                "add the parameter, or use mode='configs' or 'prior'"
            )


def _default(where: str, space: Space, missing: Sequence[str]) -> Callable[[str], Any]:
    values = {name: _default_of(space.parameters[name]) for name in missing}
    for name, value in values.items():
        if value is None:
            raise ConfigError(
                f"{where}: it lacks the parameter {name!r}, which has no default; give it the one that was meant, "
                "or use mode='prior'"
            )
    return values.__getitem__


def _default_of(parameter: Parameter) -> Any:
    if parameter.default is None and parameter.cardinality == 1:
        return Space({"p": parameter}).sample(1)[0]["p"]
    return parameter.default


def _any_value(space: Space, rng: Rng) -> Callable[[str], Any]:
    def drawn(name: str) -> Any:
        parameter = space.parameters[name]
        return parameter.decode(parameter.sample(1, rng))[0]

    return drawn


def _read(
    space: Space, config: Mapping[str, Any], missing: Sequence[str], fill: Callable[[str], Any]
) -> tuple[dict[str, Any] | None, str]:
    """Return a configuration in the values of the space, or None and why not."""
    read: dict[str, Any] = {}
    for name, parameter in space.parameters.items():
        if name in missing:
            read[name] = fill(name)
        elif name not in config:
            return None, f"they lack {name!r}"
        else:
            value = parameter.value_from_text(config[name])
            if value is None:
                return None, f"they have another value of {name!r} than the space"
            read[name] = value
    return read, ""


def _inside(space: Space, rows: list[Row], reasons: Counter[str]) -> list[Row]:
    if not rows:
        return rows
    inside = space.feasible.contains(space.encode([config for config, _ in rows]))
    if not inside.all():
        reasons[_OUTSIDE] += int((~inside).sum())
    return [row for row, good in zip(rows, inside, strict=True) if good]


def _listed(names: Any) -> str:
    return ", ".join(sorted(map(str, names)))[:200]
