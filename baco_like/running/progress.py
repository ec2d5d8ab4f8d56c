"""Show progress: a tqdm bar on a terminal if tqdm is installed, otherwise plain lines."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, TextIO, final

from baco_like._optional import require
from baco_like._output import silence
from baco_like.exceptions import MissingExtra
from baco_like.records import History, Trial


@final
class Display:
    """Shows how many steps of a task are done: a tqdm bar on a terminal if tqdm is installed, otherwise plain lines.

    A plain line estimates the remaining time by the mean time of a step so far. The output ends when its
    stream is closed (a pipe or a terminal).

    Args:
        stream: Output.
        total: Number of steps, or None if it is unknown.
        unit: Name of a step, for the bar.
        done: Number of steps that are finished at the start.
        interval: Minimum number of seconds between two plain lines; the last step is always printed.
    """

    def __init__(
        self,
        stream: TextIO,
        total: int | None,
        unit: str = "step",
        *,
        done: int = 0,
        interval: float = 0.0,
    ) -> None:
        self._stream, self._total, self._interval = stream, total, interval
        self._started, self._last_line, self._steps = time.monotonic(), -math.inf, 0
        self._closed = False
        self._bar: Any = None
        if stream.isatty():
            with suppress(MissingExtra):
                self._bar = require("tqdm", "progress").tqdm(
                    total=total, initial=done, unit=unit, file=stream, dynamic_ncols=True
                )

    def show(self, done: int, text: str, notes: Sequence[str] = ()) -> None:
        """Show the number of finished steps with a text, and print each note on its own line."""
        if self._closed:
            return
        try:
            if self._bar is None:
                self._print_line(done, text, notes)
                return
            for note in notes:
                self._bar.write(note, file=self._stream)
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(done - self._bar.n)
        except OSError:
            silence(self._stream)
            self._closed = True

    def _print_line(self, done: int, text: str, notes: Sequence[str]) -> None:
        """Print a line, unless the last one is too recent."""
        self._steps += 1
        now = time.monotonic()
        if now - self._last_line < self._interval and done != self._total:
            return
        self._last_line = now
        count, left = str(done), ""
        if self._total is not None:
            count = f"{done:>{len(str(self._total))}}/{self._total}"
            seconds = (now - self._started) / self._steps * (self._total - done)
            left = f", {max(0.0, seconds):.0f} s left"
        print("\n".join([f"{count}  {text}{left}", *notes]), file=self._stream, flush=True)

    def close(self) -> None:
        """Leave a bar on the terminal."""
        if self._bar is not None and not self._closed:
            with suppress(OSError):
                self._bar.close()


class Progress(Protocol):
    """Follows a run."""

    def update(self, history: History, trial: Trial) -> None:
        """Show one more observed trial."""

    def close(self) -> None:
        """Finish the output."""


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
    return TrialProgress(Display(stream, total, "eval"), unit)


def first_line(trial: Trial) -> str:
    """Return the first line of a failed trial's message, shortened."""
    return next(iter(trial.message.strip().splitlines()), "no message")[:300]
