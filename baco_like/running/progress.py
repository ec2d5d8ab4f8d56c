"""Show progress: a tqdm bar on a terminal if tqdm is installed, otherwise plain lines."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, TextIO, final

from baco_like._optional import require
from baco_like._output import escape_control_characters, silence
from baco_like._threads import thread_limit
from baco_like.exceptions import MissingExtra, TrialError
from baco_like.explanations import estimate_outlook
from baco_like.records import History, Objective, Status, Trial
from baco_like.records.confirmation import is_current
from baco_like.records.drift import drift_notes
from baco_like.records.sources import source_of
from baco_like.records.trial import CONTROL, measurement_notes
from baco_like.running.findings import best_beside, censoring, first_line
from baco_like.running.sentences import describe_front, describe_values, in_words
from baco_like.running.stopping import OUTLOOK_EVERY

_BAR_WITHOUT_ESTIMATE = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
"""A bar of tqdm for tasks with a time limit, which tqdm's estimate of the remaining time would ignore."""

OUTLOOK_SHARE = 0.02
"""Largest share of the time of a run that is spent on the outlook in the progress."""

OUTLOOK_AHEAD = 20
"""Number of the next evaluations whose expected improvement is shown; fewer if the run has fewer left."""

OUTLOOK_SECONDS = 1.0
"""Assumed time of the first outlook, with the imports that it needs."""


@final
class Display:
    """Shows how many steps of a task are done: a tqdm bar on a terminal if tqdm is installed, otherwise plain lines.

    The remaining time is estimated by the mean time of a step so far, up to the time limit. The output ends when its
    stream is closed (a pipe or a terminal).

    Args:
        stream: Output.
        total: Number of steps, or None if it is unknown.
        unit: Name of a step, for the bar.
        done: Number of steps that are finished at the start.
        interval: Minimum number of seconds between two plain lines; the last step is always printed.
        seconds: Seconds from now after which the task ends even if steps are left, or None.

    Attributes:
        total: Number of steps, or None.
    """

    def __init__(
        self,
        stream: TextIO,
        total: int | None,
        unit: str = "step",
        *,
        done: int = 0,
        interval: float = 0.0,
        seconds: float | None = None,
    ) -> None:
        self._stream, self.total, self._interval = stream, total, interval
        self._seconds = seconds
        self._started, self._last_line, self._steps = time.monotonic(), -math.inf, 0
        self._closed = False
        self._bar: Any = None
        if stream.isatty():
            with suppress(MissingExtra):
                self._bar = require("tqdm", "progress").tqdm(
                    total=total,
                    initial=done,
                    unit=unit,
                    file=stream,
                    dynamic_ncols=True,
                    bar_format=None if seconds is None else _BAR_WITHOUT_ESTIMATE,
                )

    def show(self, done: int, text: str, notes: Sequence[str] = ()) -> None:
        """Show the number of finished steps with a text, and print each note on its own line."""
        if self._closed:
            return
        self._steps += 1
        text, notes = escape_control_characters(text), [*map(escape_control_characters, notes)]
        try:
            if self._bar is None:
                self._print_line(done, text, notes)
                return
            if self._seconds is not None:
                text += self._time_left(done)
            for note in notes:
                self._bar.write(note, file=self._stream)
            self._bar.set_postfix_str(text, refresh=False)
            self._bar.update(done - self._bar.n)
        except OSError:
            silence(self._stream)
            self._closed = True

    def _print_line(self, done: int, text: str, notes: Sequence[str]) -> None:
        """Print a line, unless the last one is too recent."""
        now = time.monotonic()
        if now - self._last_line < self._interval and done != self.total:
            return
        self._last_line = now
        count = str(done)
        if self.total is not None:
            count = f"{done:>{len(str(self.total))}}/{self.total}"
        line = f"{count}  {text}{self._time_left(done)}"
        print("\n".join([line, *notes]), file=self._stream, flush=True)

    def _time_left(self, done: int) -> str:
        """Return the remaining time as the end of a line; empty if nothing limits the task."""
        elapsed, limits = time.monotonic() - self._started, []
        if self.total is not None:
            limits.append(elapsed / self._steps * (self.total - done))
        if self._seconds is not None:
            limits.append(self._seconds - elapsed)
        return f", {max(0.0, min(limits)):.0f} s left" if limits else ""

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

    Censored trials are not failures; they are counted apart, the slow ones and those at a time limit.

    Args:
        display: Output.
        unit: Unit of the values; may be empty.
        threshold: Relative drift of the machine that is shown.
    """

    def __init__(self, display: Display, unit: str = "", threshold: float = 0.05) -> None:
        self._threshold = threshold
        self._display, self._unit = display, unit
        self._outlook = OutlookText()
        self._failures: Counter[str] = Counter()
        self._censored: Counter[str] = Counter()
        self._counted = 0
        self._noted: set[str] = set()  # kinds of the notes that were shown

    def update(self, history: History, trial: Trial) -> None:
        """Show one more observed trial."""
        notes = []
        # Several trials may be observed at once.
        for new in history.searched_trials[self._counted :]:
            if new.status is Status.CENSORED:
                self._censored[censoring(new)] += 1
            elif new.failure:
                self._failures[new.failure] += 1
                if self._failures[new.failure] == 1:
                    notes.append(f"first failure of kind {new.failure}: {first_line(new)}")
            for kind, sentence in measurement_notes(new).items():
                if kind not in self._noted:
                    notes.append(f"first note of kind {kind}, trial {new.id}: {sentence}")
                self._noted.add(kind)
        notes += drift_notes(history, trial, self._threshold)
        self._counted = history.searched
        source = source_of(trial)
        label = f"trial {trial.id}{' again' if trial.origin == CONTROL else ''}"
        label += f" of {source:.40}" if source else ""
        own = best_beside(history, trial)
        comma = ";" if history.objectives and trial.value is not None else ","
        text = f"{self._best(history, own)}{comma} {label}: {self._result(history, trial)}"
        for label, counts in (("failed", self._failures), ("censored", self._censored)):
            if counts:
                text += f", {label}: {in_words(counts)}"
        if not history.objectives and own is None:  # the outlook needs comparable values
            text += self._outlook.update(history, self._left(history))
        if history.builds > history.searched:
            text += f", {history.builds} builds"
        self._display.show(history.searched, text, notes)

    def _best(self, history: History, own: tuple[str, Trial | None] | None) -> str:
        """Return the best value so far; with several tasks, the best value of one task from `best_beside`."""
        if history.objectives:
            return describe_front(history.front(), history.objectives)
        name, best = ("", history.best()) if own is None else (f"{own[0]}: ", own[1])
        return f"{name}best {'none' if best is None else self._result(history, best)}"

    def _left(self, history: History) -> int | None:
        """Return how many evaluations the search has left, or None if it is unknown."""
        if is_current(history):  # it confirms its winner
            return 0
        total = self._display.total
        return None if total is None else max(0, total - history.searched)

    def close(self) -> None:
        """Finish the output."""
        self._display.close()

    def _result(self, history: History, trial: Trial) -> str:
        return describe_values(trial, history.objectives or (Objective(unit=self._unit),))


@final
class OutlookText:
    """Tells in a few words whether it is worth going on; the outlook is computed now and then.

    Computing it may take `OUTLOOK_SHARE` of the time of the run, so a run of a few seconds shows none.
    """

    def __init__(self) -> None:
        self._started, self._spent, self._cost = time.monotonic(), 0.0, OUTLOOK_SECONDS
        self._due, self._text, self._until = OUTLOOK_EVERY, "", 0

    def update(self, history: History, left: int | None = None) -> str:
        """Return the latest outlook as the end of a text; empty without one of evaluations that are still ahead.

        Args:
            history: The observations.
            left: Number of evaluations that the run has left, or None if it is unknown.
        """
        if left == 0:
            return ""
        if history.searched >= self._until:
            self._text = ""
        allowed = OUTLOOK_SHARE * (time.monotonic() - self._started)
        if history.searched < self._due or self._spent + self._cost > allowed:
            return self._text
        self._due = history.searched + OUTLOOK_EVERY
        start = time.monotonic()
        with suppress(TrialError), thread_limit(1):
            outlook = estimate_outlook(
                history, evaluations=min(OUTLOOK_AHEAD, left or OUTLOOK_AHEAD)
            )
            ahead, self._until = outlook.evaluations, history.searched + outlook.evaluations
            expected = f"{100.0 * outlook.expected:.1f} % better"
            self._text = (
                f", expected in the {ahead} after evaluation {history.searched}: {expected}"
            )
        self._cost = time.monotonic() - start
        self._spent += self._cost
        return self._text


def show_progress(
    stream: TextIO,
    total: int | None,
    unit: str = "",
    seconds: float | None = None,
    threshold: float = 0.05,
) -> TrialProgress:
    """Return the progress of a run's trials on a stream.

    Args:
        stream: Output.
        total: Number of trials, or None if another rule ends the run.
        unit: Unit of the values.
        seconds: Time limit of the run in seconds, or None.
        threshold: Relative drift of the machine that is shown.
    """
    return TrialProgress(Display(stream, total, "eval", seconds=seconds), unit, threshold)
