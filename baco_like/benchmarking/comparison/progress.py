"""How far a comparison is: a tqdm bar on a terminal where tqdm is installed, a line now and then otherwise."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TextIO, final

from baco_like._optional import require
from baco_like.exceptions import MissingExtra
from baco_like.running.output import silence

_PAUSE = 10.0
"""Seconds between two lines."""


class Counter(Protocol):
    """Counts finished jobs."""

    def advance(self, text: str) -> None:
        """Count one more, of which ``text`` tells."""

    def close(self) -> None:
        """End the line."""


@final
@dataclass
class Lines:
    """Prints a line every ten seconds and at the end, with the time left by the mean time of a job so far."""

    total: int
    count: int
    stream: TextIO

    def __post_init__(self) -> None:
        self._first, self._started, self._shown = self.count, time.monotonic(), -math.inf

    def advance(self, text: str) -> None:
        """Count one more and perhaps print."""
        self.count += 1
        now = time.monotonic()
        if now - self._shown < _PAUSE and self.count < self.total:
            return
        self._shown = now
        left = (now - self._started) / (self.count - self._first) * (self.total - self.count)
        print(f"{self.count}/{self.total}  {text}, {left:.0f} s left", file=self.stream, flush=True)

    def close(self) -> None:
        """There is nothing to end."""


@final
class Bar:
    """A tqdm bar."""

    def __init__(self, tqdm: Any, total: int, count: int, stream: TextIO) -> None:
        self._bar = tqdm.tqdm(
            total=total, initial=count, unit="run", file=stream, dynamic_ncols=True
        )

    def advance(self, text: str) -> None:
        """Move the bar."""
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update()

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


@final
class Unread:
    """Another counter, until nobody reads its stream any more; then nothing."""

    def __init__(self, counter: Counter, stream: TextIO) -> None:
        self._counter: Counter | None = counter
        self._stream = stream

    def advance(self, text: str) -> None:
        """Count one more."""
        try:
            if self._counter is not None:
                self._counter.advance(text)
        except OSError:
            silence(self._stream)
            self._counter = None

    def close(self) -> None:
        """End the line."""
        with suppress(OSError):
            if self._counter is not None:
                self._counter.close()


def counter_on(stream: TextIO, total: int, count: int) -> Counter:
    """Return a bar where ``stream`` is a terminal and tqdm is installed, else lines; ``count`` jobs are done."""
    counter: Counter = Lines(total, count, stream)
    if stream.isatty():
        with suppress(MissingExtra):
            counter = Bar(require("tqdm", "progress"), total, count, stream)
    return Unread(counter, stream)
