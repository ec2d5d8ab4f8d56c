"""One line of progress: a tqdm bar on a terminal where tqdm is installed, plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO, final

from baco_like._optional import require
from baco_like.exceptions import MissingExtra
from baco_like.records.history import History
from baco_like.records.trial import Trial


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
    return dict(Counter(t.failed for t in history.trials if t.failed).most_common())


def _status(history: History, trial: Trial, unit: str) -> str:
    best = history.best()
    shown = "none" if best is None else f"{best.value:.4g}{unit}"
    this = trial.failed if trial.value is None else f"{trial.value:.4g}{unit}"
    failures = ", ".join(f"{word} {n}" for word, n in failures_by_kind(history).items())
    return f"best {shown}, this {this}" + (f", failed: {failures}" if failures else "")


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

    def update(self, history: History, trial: Trial) -> None:
        """Print the count, the best and this value, failures by kind and the time left."""
        self._seen += 1
        count, left = str(len(history)), ""
        if self.total is not None:
            count = f"{len(history):>{len(str(self.total))}}/{self.total}"
            each = (time.monotonic() - self._started) / self._seen
            left = f", {max(0.0, each * (self.total - len(history))):.0f} s left"
        print(f"{count}  {_status(history, trial, self.unit)}{left}", file=self.stream, flush=True)

    def close(self) -> None:
        """There is nothing to end."""


@final
class BarProgress:
    """A tqdm bar; it shows the time left itself."""

    def __init__(self, tqdm: Any, total: int | None, unit: str, stream: TextIO) -> None:
        self._bar = tqdm.tqdm(total=total, unit="eval", file=stream, dynamic_ncols=True)
        self._unit = unit

    def update(self, history: History, trial: Trial) -> None:
        """Move the bar to the number of observed trials."""
        self._bar.set_postfix_str(_status(history, trial, self._unit), refresh=False)
        self._bar.update(len(history) - self._bar.n)

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def progress_on(stream: TextIO, total: int | None, unit: str = "") -> Progress:
    """Return a bar where ``stream`` is a terminal and tqdm is installed, else plain lines."""
    unit = f" {unit}" if unit else ""
    if stream.isatty():
        try:
            return BarProgress(require("tqdm", "progress"), total, unit, stream)
        except MissingExtra:
            pass
    return PlainProgress(total, unit, stream)
