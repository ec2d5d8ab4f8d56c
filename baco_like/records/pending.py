"""Pending trials as an immutable mapping that is changed in little time, however many trials are pending."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes
from baco_like.records.trial import Trial

PendingRow = tuple[Trial, Array]
"""A pending trial and its row of codes, (w,)."""

_CHUNK = 256
"""Ids that share a dictionary. A change copies one of these and the outer one: a copy of all makes a run quadratic."""


class _Chunk(dict[int, PendingRow]):
    """Trials of some ids; it never changes after its creation."""

    @cached_property
    def keys_of_codes(self) -> frozenset[bytes]:
        """The `row_keys` of the trials; a change of the mapping computes those of one chunk again."""
        return frozenset(row_keys(np.array([code for _, code in self.values()])))


def row_keys(codes: Codes) -> list[bytes]:
    """Return one hashable key per row of codes, (n, w); -0.0 and 0.0 have the same key."""
    rows = np.ascontiguousarray(codes + 0.0)
    return [row.tobytes() for row in rows]


@dataclass(frozen=True)
class PendingTrials(Mapping[int, PendingRow]):
    """Pending trials by id, in the order in which they were added. Every change returns a new mapping."""

    _chunks: Mapping[int, _Chunk] = field(default_factory=dict)

    @override
    def __getitem__(self, trial_id: int) -> PendingRow:
        return self._chunks[trial_id // _CHUNK][trial_id]

    @override
    def __iter__(self) -> Iterator[int]:
        for chunk in self._chunks.values():
            yield from chunk

    @override
    def __len__(self) -> int:
        return sum(map(len, self._chunks.values()))

    def has_code(self, key: bytes) -> bool:
        """Whether a trial has the row of codes with this key of `row_keys`."""
        return any(key in chunk.keys_of_codes for chunk in self._chunks.values())

    def add(self, rows: Mapping[int, PendingRow]) -> PendingTrials:
        """Return the mapping with more trials, or with other rows of the same trials."""
        parts: dict[int, dict[int, PendingRow]] = {}
        for trial_id, row in rows.items():
            parts.setdefault(trial_id // _CHUNK, {})[trial_id] = row
        chunks = dict(self._chunks)
        for number, part in parts.items():
            chunks[number] = _Chunk({**chunks.get(number, {}), **part})
        return PendingTrials(chunks)

    def remove(self, trial_ids: Iterable[int]) -> PendingTrials:
        """Return the mapping without these trials; ids that are not in it are ignored."""
        parts: dict[int, set[int]] = {}
        for trial_id in trial_ids:
            parts.setdefault(trial_id // _CHUNK, set()).add(trial_id)
        chunks = dict(self._chunks)
        for number, part in parts.items():
            if number in chunks:
                rest = {i: r for i, r in chunks[number].items() if i not in part}
                chunks[number] = _Chunk(rest)
                if not chunks[number]:
                    del chunks[number]
        return PendingTrials(chunks)
