"""One line of progress: a tqdm bar on a terminal where tqdm is installed, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO, final

from baco_like._optional import require
from baco_like.exceptions import MissingExtra
from baco_like.records.history import History
from baco_like.records.trial import Trial
from baco_like.running.output import silence


class Progress(Protocol):
    """Follows a run."""

    def update(self, history: History, trial: Trial) -> None:
        """Show one more observed trial."""

    def close(self) -> None:
        """End the line."""


@final
class Silent:
    """Shows nothing."""

    def update(self, history: History, trial: Trial) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def failures_by_kind(history: History) -> dict[str, int]:
    """Return how many trials failed or were stopped, by their word, the commonest first."""
    return dict(Counter(t.failure for t in history.trials if t.failure).most_common())


@final
@dataclass
class _Account:
    """What a line says, counted as the trials come."""

    unit: str
    counted: int = 0
    failures: Counter[str] = field(default_factory=Counter)

    def follow(self, history: History) -> list[str]:
        """Count what is new; return a line for the first failure of each word."""
        news: list[str] = []
        for trial in history.trials[self.counted :]:
            if trial.failure:
                self.failures[trial.failure] += 1
                if self.failures[trial.failure] == 1:
                    news.append(f"first failure of kind {trial.failure}: {first_line(trial)}")
        self.counted = len(history)
        return news

    def status(self, history: History, trial: Trial) -> str:
        best = history.best()
        shown = "none" if best is None else f"{best.value:.4g}{self.unit}"
        this = trial.failure if trial.value is None else f"{trial.value:.4g}{self.unit}"
        counts = ", ".join(f"{word} {n}" for word, n in self.failures.most_common())
        return f"best {shown}, this {this}" + (f", failed: {counts}" if counts else "")


def first_line(trial: Trial) -> str:
    """Return the first line of a failed trial's message, shortened."""
    return next(iter(trial.message.strip().splitlines()), "no message")[:300]


@final
@dataclass
class PlainProgress:
    """Prints one line per trial, with the time left by the mean time of a trial so far.

    Args:
        total: Trials in all, or None where only another rule ends the run.
        unit: Unit of the values, shown behind them.
        stream: Where to print.
    """

    total: int | None
    unit: str = ""
    stream: TextIO = field(default_factory=lambda: sys.stdout)
    _started: float = field(default_factory=time.monotonic)
    _seen: int = 0

    def __post_init__(self) -> None:
        self._account = _Account(self.unit)

    def update(self, history: History, trial: Trial) -> None:
        """Print the count, the best and this value, failures by kind and the time left."""
        self._seen += 1
        done = history.evaluations
        count, left = str(done), ""
        if self.total is not None:
            count = f"{done:>{len(str(self.total))}}/{self.total}"
            each = (time.monotonic() - self._started) / self._seen
            left = f", {max(0.0, each * (self.total - done)):.0f} s left"
        news = self._account.follow(history)
        lines = [f"{count}  {self._account.status(history, trial)}{left}", *news]
        print("\n".join(lines), file=self.stream, flush=True)

    def close(self) -> None:
        """There is nothing to end."""


@final
class BarProgress:
    """A tqdm bar; it shows the time left itself."""

    def __init__(self, tqdm: Any, total: int | None, unit: str, stream: TextIO) -> None:
        self._bar = tqdm.tqdm(total=total, unit="eval", file=stream, dynamic_ncols=True)
        self._account = _Account(unit)
        self._stream = stream

    def update(self, history: History, trial: Trial) -> None:
        """Move the bar to the number of observed trials."""
        for line in self._account.follow(history):
            self._bar.write(line, file=self._stream)
        self._bar.set_postfix_str(self._account.status(history, trial), refresh=False)
        self._bar.update(history.evaluations - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


@final
class Guarded:
    """Another progress, until nobody reads its stream any more (a closed pipe or terminal); then nothing."""

    def __init__(self, progress: Progress, stream: TextIO) -> None:
        self._progress = progress
        self._stream = stream

    def update(self, history: History, trial: Trial) -> None:
        """Show one more observed trial."""
        try:
            self._progress.update(history, trial)
        except OSError:
            silence(self._stream)
            self._progress = Silent()

    def close(self) -> None:
        """End the line."""
        try:
            self._progress.close()
        except OSError:
            silence(self._stream)


def progress_on(stream: TextIO, total: int | None, unit: str = "") -> Progress:
    """Return a bar where ``stream`` is a terminal and tqdm is installed, else plain lines."""
    unit = f" {unit}" if unit else ""
    inner: Progress = PlainProgress(total, unit, stream)
    if stream.isatty():
        with suppress(MissingExtra):
            inner = BarProgress(require("tqdm", "progress"), total, unit, stream)
    return Guarded(inner, stream)
