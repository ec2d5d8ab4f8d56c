"""How a run begins: which strategy is meant, where the events are kept."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from baco_like.exceptions import JournalError, SpaceWarning
from baco_like.journal.events import START, Event, Journal, Mark
from baco_like.journal.header import Header, describe, whole
from baco_like.journal.json_lines import JsonlJournal
from baco_like.journal.memory import MemoryJournal
from baco_like.records.reading import finite_number
from baco_like.spaces.space import Space
from baco_like.strategies import create_strategy, default_settings
from baco_like.strategies.protocol import Strategy
from baco_like.strategies.registry import STRATEGIES


def journal_of(storage: str | os.PathLike[str] | Journal | None) -> Journal:
    """Return the journal that ``storage=`` means.

    Raises:
        ValueError: It is none.
    """
    if storage is None:
        return MemoryJournal()
    if isinstance(storage, (str, os.PathLike)):
        return JsonlJournal(Path(storage))
    if not isinstance(storage, Journal):
        raise ValueError(f"storage = {storage!r:.60}: give a path, a journal, or None")
    return storage


def default_first(space: Space) -> list[dict[str, Any]]:
    """Return the default configuration where every parameter has a default and it is feasible, else nothing."""
    config = _given_default(space)
    return [config] if config is not None and space.contains(config) else []


def warn_of_default(space: Space) -> None:
    """Warn where every parameter has a default, but they violate a constraint together."""
    config = _given_default(space)
    broken = [] if config is None else space.explain(config)
    if broken:
        warnings.warn(
            f"the default configuration is not evaluated first, it is infeasible: {'; '.join(broken)}; "
            "change a default, or give first points with initial=[...]",
            SpaceWarning,
            stacklevel=3,
        )


def _given_default(space: Space) -> dict[str, Any] | None:
    """Return the default configuration, unless it is merely that all parameters are constant."""
    varied = any(parameter.default is not None for parameter in space.parameters.values())
    return space.default_config if varied else None


def lease_of(seconds: float | None) -> float | None:
    """Return the lease that ``lease=`` means.

    Raises:
        ValueError: It is no positive number of seconds.
    """
    number = None if seconds is None else finite_number(seconds)
    if seconds is not None and (number is None or number <= 0):
        raise ValueError(f"lease must be a number of seconds above 0, or None, not {seconds!r}")
    return number


def header_of(path: Path) -> Header:
    """Return the first record of a journal; raises as `records_of`."""
    return records_of(path)[0]


def records_of(path: Path) -> tuple[Header, Mark, Iterator[tuple[Event, Mark]]]:
    """Return the header of a journal, the place behind it, and the records after it.

    Raises:
        JournalError: There is none, or the file is damaged.
    """
    if not path.exists():
        raise JournalError(f"{path} does not exist; start a run with Optimizer(storage=...)")
    header, records = split(JsonlJournal(path), str(path))
    if header is None:
        raise JournalError(f"{path} holds no record; start a run with Optimizer(storage=...)")
    return *header, records


def split(
    journal: Journal, name: str
) -> tuple[tuple[Header, Mark] | None, Iterator[tuple[Event, Mark]]]:
    """Return the header of a journal with the place behind it, None in an empty one, and the records after it.

    Raises:
        JournalError: Record 0 is no header.
    """
    records = iter(journal.read(START))
    first = next(records, None)
    return (None if first is None else (Header.read(first[0], name), first[1])), records


def resolve_strategy(
    strategy: str | Strategy[Any],
    settings: Mapping[str, Any],
    initial: int | Sequence[Mapping[str, Any]] | None,
) -> tuple[Strategy[Any], dict[str, Any]]:
    """Return the strategy and how the journal describes it.

    Points are enqueued whatever the strategy is; their number is the design's size where there is a design.

    Raises:
        ValueError: The name or a setting is unknown, or settings are given beside an object.
    """
    size = (
        None if initial is None or isinstance(initial, Sequence) else whole("initial", initial, 1)
    )
    if not isinstance(strategy, str):
        methods = [getattr(strategy, name, None) for name in ("init", "ask", "tell")]
        if isinstance(strategy, type) or not all(map(callable, methods)):
            raise ValueError(
                f"strategy = {strategy!r}: give a name such as 'auto', or an object with init, ask and tell"
            )
        if settings or size is not None:
            raise ValueError(
                "settings= and initial=<int> go with a strategy's name; set them on the object"
            )
        return strategy, {"object": describe(strategy)}
    known = default_settings(strategy)
    own = dict(settings)
    if size is not None:
        own["initial"] = size
    elif isinstance(initial, Sequence) and "initial" in known:
        own.setdefault("initial", len(initial))
    recipe = create_strategy(strategy, own)
    return recipe, {"name": strategy, "settings": {**known, **own}}


def with_default_settings(header: Header) -> Header:
    """Return the header with the defaults of settings that its strategy did not have when it was written."""
    strategy = header.options.strategy
    if strategy.get("name") not in STRATEGIES:
        return header
    settings = {**default_settings(strategy["name"]), **strategy.get("settings", {})}
    options = replace(header.options, strategy={**strategy, "settings": settings})
    return replace(header, options=options)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Do without Python's cycle collector for the time of a ``with`` block.

    All that is made while a journal is read stays, and looking through it again and again takes half of the time at
    100,000 trials.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def restore_strategy(
    description: Mapping[str, Any], given: Strategy[Any] | None, path: Path
) -> Strategy[Any]:
    """Return the strategy of a journal: the one it names, or the object that was given.

    Args:
        description: What the journal's header says of it.
        given: An object, or None.
        path: The journal.

    Raises:
        JournalError: It was an object and none is given, or the one given is another.
    """
    named = _named(description, path)
    if given is None and named is not None:
        return named
    was = description.get("object") if named is None else describe(named)
    if given is None:
        raise JournalError(
            f"{path} was made with a strategy object; give it again: Optimizer.load(path, strategy=...), "
            f"where it was {was}"
        )
    if describe(given) != was:
        raise JournalError(
            f"{path} belongs to another run: the strategy was {was}, now {describe(given)}"
        )
    return given


def _named(description: Mapping[str, Any], path: Path) -> Strategy[Any] | None:
    if "name" not in description:
        return None
    try:
        return create_strategy(description["name"], description["settings"])
    except (ValueError, TypeError, KeyError) as error:
        raise JournalError(f"{path}: record 0 names no strategy of ours: {error}", 0) from error
