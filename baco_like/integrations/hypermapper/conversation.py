"""One conversation with a client: ask, read the reply, record each row as soon as it is there."""

from __future__ import annotations

import contextlib
import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from baco_like.exceptions import EvaluatorError, SpaceExhausted
from baco_like.integrations.hypermapper.csv_files import header, row
from baco_like.integrations.hypermapper.protocol import (
    END,
    best_point,
    echoes,
    read_cells,
    read_names,
    request,
)
from baco_like.integrations.hypermapper.scenario import Scenario
from baco_like.integrations.hypermapper.streams import Report, named_errors
from baco_like.optimizer import Optimizer
from baco_like.records.trial import Trial
from baco_like.results.hypermapper_columns import Cells
from baco_like.running.stopping import AnyOf, MaxEvals, MaxTime


@dataclass
class Conversation:
    """One conversation with a client."""

    scenario: Scenario
    optimizer: Optimizer
    incoming: TextIO
    outgoing: TextIO
    samples: TextIO
    report: Report
    reported: set[str] = field(default_factory=set)

    def whole(self) -> str:
        """Ask until there is a reason to end; return it."""
        limit = MaxEvals(self.scenario.evaluations)
        seconds = self.scenario.seconds
        stop = limit if seconds is None else AnyOf((limit, MaxTime(seconds)))
        while True:
            reason = self.optimizer.should_stop(stop)
            trials = [] if reason else self._next()
            if not trials:
                break
            self._send(request(self.scenario.layout, [trial.config for trial in trials]))
            self._receive(trials)
        self._send(self._last_words())
        return reason or "the space is exhausted"

    def _next(self) -> list[Trial]:
        """Return what to ask for: trials that a journal holds as pending, then new ones."""
        done, waiting = len(self.optimizer.history), self.optimizer.pending
        size = self.scenario.design - done
        if size < 1:
            size = self.scenario.batch
        missing = min(size, self.scenario.evaluations - done) - len(waiting)
        if missing < 1:
            return waiting
        with contextlib.suppress(SpaceExhausted):
            return waiting + self.optimizer.suggest(missing)
        return waiting

    def _send(self, lines: str) -> None:
        try:
            self.outgoing.write(lines)
            self.outgoing.flush()
        except OSError:
            raise self._gone("does not read any more") from None

    def _line(self) -> str:
        """Return the client's next line that is not blank."""
        while True:
            line = self.incoming.readline()
            if not line.endswith("\n"):  # the end, perhaps in the middle of a number
                cut = f", after {line!r:.60}, which is not recorded" if line else ""
                raise self._gone(f"has closed its end{cut}")
            if line.strip():
                return line.strip()

    def _gone(self, what: str) -> EvaluatorError:
        return self._error(f"the client {what}")

    def _error(self, what: str) -> EvaluatorError:
        done = len(self.optimizer.history)
        return EvaluatorError(
            f"{what}, after {done} of {self.scenario.evaluations} evaluations; they are in {self.scenario.output}, "
            "and a scenario with resume_optimization set to true goes on from there"
        )

    def _receive(self, trials: Sequence[Trial]) -> None:
        """Read a reply and record each row at once."""
        layout, waiting = self.scenario.layout, list(trials)
        names = self._understood(read_names, layout)
        while waiting:
            cells = self._understood(read_cells, names)
            trial = waiting.pop(self._whose(cells, waiting))
            stamp = str(time.time_ns() // 10**6)
            try:
                outcome = layout.outcome(trial.id, cells, stamp)
            except ValueError as error:
                raise self._error(str(error)) from None
            self.optimizer.complete([outcome])
            self._write(trial.completed(outcome))

    def _understood(self, read: Callable[[str, Any], Any], known: Any) -> Any:
        """Return what the client's next line says.

        Raises:
            EvaluatorError: It is no such line, or there is none.
        """
        line = self._line()
        try:
            return read(line, known)
        except ValueError as error:
            raise self._error(str(error)) from None

    def _whose(self, cells: Cells, waiting: Sequence[Trial]) -> int:
        """Return which trial a row is about: the next one, unless its parameters are those of a later one.

        The protocol goes by the order; clients that run configurations side by side may reply in another one.
        """
        layout = self.scenario.layout
        for i, trial in enumerate(waiting):
            if echoes(layout, cells, trial.config):
                return i
        self._once(
            "the parameters of a reply are not those of the request; its rows are taken in the order asked for"
        )
        return 0

    def _write(self, trial: Trial) -> None:
        with named_errors(self.scenario.output):
            table = csv.writer(self.samples, lineterminator="\n")
            table.writerow(row(self.scenario.layout, trial))
            self.samples.flush()

    def _once(self, text: str) -> None:
        if text not in self.reported:
            self.reported.add(text)
            self.report(text)

    def _last_words(self) -> str:
        best = self.optimizer.best
        if best is None or not self.scenario.print_best:
            return END
        layout = self.scenario.layout
        return best_point(header(layout), row(layout, best)) + END
