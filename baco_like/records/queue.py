"""The queue of enqueued configurations as an immutable sequence; each change takes the time of its configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from typing_extensions import override

Config = Mapping[str, Any]


@dataclass(frozen=True, eq=False, repr=False)
class ConfigQueue(Sequence[Config]):
    """Configurations, oldest first; it compares and prints like a tuple. Every change returns a new queue.

    Queues share one append-only list, of which each has a part. Every change of a tuple would copy the tuple, so that
    n changes take n² steps. A queue that another one has grown from gets its own copy when it is extended again.
    """

    _configs: list[Config] = field(default_factory=list)
    _start: int = 0
    _stop: int = 0

    @override
    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, index: int) -> Config: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Config, ...]: ...
    @override
    def __getitem__(self, index: int | slice) -> Config | tuple[Config, ...]:
        places = range(self._start, self._stop)[index]
        if isinstance(places, range):
            return tuple(self._configs[place] for place in places)
        return self._configs[places]

    @override
    def __iter__(self) -> Iterator[Config]:
        return (self._configs[place] for place in range(self._start, self._stop))

    @override
    def __eq__(self, other: object) -> bool:
        return (
            tuple(self) == tuple(other)
            if isinstance(other, tuple | ConfigQueue)
            else NotImplemented
        )

    __hash__ = None  # type: ignore[assignment]  # configurations have no hash

    @override
    def __repr__(self) -> str:
        return repr(tuple(self))

    def extend(self, configs: Iterable[Config]) -> ConfigQueue:
        """Return the queue with more configurations at its end."""
        shared, start = self._configs, self._start
        # Another queue has grown from this one, or an interrupt came before the return.
        if len(shared) != self._stop:
            shared, start = list(self), 0
        shared.extend(configs)
        return ConfigQueue(shared, start, len(shared))

    def drop(self, n: int) -> ConfigQueue:
        """Return the queue without its first n configurations."""
        start = min(self._start + n, self._stop)
        # Releases the others; a copy follows at least as many drops as it has rows.
        if 2 * start > len(self._configs):
            rest = self._configs[start : self._stop]
            return ConfigQueue(rest, 0, len(rest))
        return ConfigQueue(self._configs, start, self._stop)
