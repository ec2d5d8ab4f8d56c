"""Show progress: a tqdm bar on a terminal if tqdm is installed, otherwise plain lines."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TextIO, final

from baco_like._optional import require
from baco_like._output import silence
from baco_like.exceptions import MissingExtra
from baco_like.records.history import History
from baco_like.records.trial import Trial


class Display(Protocol):
    """Shows how many steps of a task are done."""

    def show(self, done: int, text: str, notes: Sequence[str] = ()) -> None:
        """Show the number of finished steps with a text, and print each note on its own line."""

    def close(self) -> None:
        """Finish the output."""


@final
@dataclass
class LineDisplay:
    """Prints plain lines, with the remaining time estimated by the mean time of a step so far.

    Args:
        stream: Output.
        total: Number of steps, or None if it is unknown.
        done: Number of steps that are finished at the start.
        interval: Minimum number of seconds between two lines; the last step is always printed.
    """

    stream: TextIO
    total: int | None
    done: int = 0
    interval: float = 0.0
    _started: float = field(default_factory=lambda: time.monotonic())
    _steps: int = 0
    _last: float = -math.inf

    def show(self, done: int, text: str, notes: Sequence[str] = ()) -> None:
        """Print a line, unless the last one is too recent."""
        self._steps += 1
        now = time.monotonic()
        if now - self._last < self.interval and done != self.total:
            return
        self._last = now
        count, left = str(done), ""
        if self.total is not None:
            count = f"{done:>{len(str(self.total))}}/{self.total}"
            seconds = (now - self._started) / self._steps * (self.total - done)
            left = f", {max(0.0, seconds):.0f} s left"
        print("\n".join([f"{count}  {text}{left}", *notes]), file=self.stream, flush=True)

    def close(self) -> None:
        """Do nothing."""


@final
class BarDisplay:
    """Shows a tqdm bar, which includes the remaining time."""

    def __init__(self, tqdm: Any, stream: TextIO, total: int | None, done: int, unit: str) -> None:
        self._bar = tqdm.tqdm(total=total, initial=done, unit=unit, file=stream, dynamic_ncols=True)
        self._stream = stream

    def show(self, done: int, text: str, notes: Sequence[str] = ()) -> None:
        """Move the bar to the number of finished steps."""
        for note in notes:
            self._bar.write(note, file=self._stream)
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Leave the bar on the terminal."""
        self._bar.close()


@final
class GuardedDisplay:
    """Passes on to another display until its stream is closed (a pipe or a terminal); then shows nothing."""

    def __init__(self, display: Display, stream: TextIO) -> None:
        self.display: Display | None = display
        self._stream = stream

    def show(self, done: int, text: str, notes: Sequence[str] = ()) -> None:
        """Show the step if the stream is open."""
        if self.display is not None:
            try:
                self.display.show(done, text, notes)
            except OSError:
                silence(self._stream)
                self.display = None

    def close(self) -> None:
        """Finish the output."""
        if self.display is not None:
            with suppress(OSError):
                self.display.close()


def open_display(
    stream: TextIO, total: int | None, unit: str, *, done: int = 0, interval: float = 0.0
) -> GuardedDisplay:
    """Return a bar if ``stream`` is a terminal and tqdm is installed, else plain lines.

    Args:
        stream: Output.
        total: Number of steps, or None if it is unknown.
        unit: Name of a step, for the bar.
        done: Number of steps that are finished at the start.
        interval: Minimum number of seconds between two plain lines.
    """
    display: Display = LineDisplay(stream, total, done, interval)
    if stream.isatty():
        with suppress(MissingExtra):
            display = BarDisplay(require("tqdm", "progress"), stream, total, done, unit)
    return GuardedDisplay(display, stream)


class Progress(Protocol):
    """Follows a run."""

    def update(self, history: History, trial: Trial) -> None:
        """Show one more observed trial."""

    def close(self) -> None:
        """Finish the output."""


@final
class NoProgress:
    """Shows nothing."""

    def update(self, history: History, trial: Trial) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@final
class TrialProgress:
    """Shows the best and the latest value, the failures by kind, and a message for the first failure of each kind.

    Args:
        display: Output.
        unit: Unit of the values; may be empty.
    """

    def __init__(self, display: Display, unit: str = "") -> None:
        self._display, self._unit = display, f" {unit}" if unit else ""
        self._failures: Counter[str] = Counter()
        self._counted = 0

    def update(self, history: History, trial: Trial) -> None:
        """Show one more observed trial."""
        notes = []
        for new in history.trials[self._counted :]:  # several trials may be observed at once
            if new.failure:
                self._failures[new.failure] += 1
                if self._failures[new.failure] == 1:
                    notes.append(f"first failure of kind {new.failure}: {first_line(new)}")
        self._counted = len(history)
        best = history.best()
        text = f"best {'none' if best is None else self._result(best)}, this {self._result(trial)}"
        if self._failures:
            counts = ", ".join(f"{word} {n}" for word, n in self._failures.most_common())
            text += f", failed: {counts}"
        self._display.show(history.evaluations, text, notes)

    def close(self) -> None:
        """Finish the output."""
        self._display.close()

    def _result(self, trial: Trial) -> str:
        return str(trial.failure) if trial.value is None else f"{trial.value:.4g}{self._unit}"


def show_progress(stream: TextIO, total: int | None, unit: str = "") -> TrialProgress:
    """Return the progress of a run's trials on a stream.

    Args:
        stream: Output.
        total: Number of trials, or None if another rule ends the run.
        unit: Unit of the values.
    """
    return TrialProgress(open_display(stream, total, "eval"), unit)


def count_failures(history: History) -> dict[str, int]:
    """Return the number of failed trials by failure word, the most frequent word first."""
    return dict(Counter(t.failure for t in history.trials if t.failure).most_common())


def first_line(trial: Trial) -> str:
    """Return the first line of a failed trial's message, shortened."""
    return next(iter(trial.message.strip().splitlines()), "no message")[:300]
