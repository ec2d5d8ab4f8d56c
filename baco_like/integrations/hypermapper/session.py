"""One session with a client: request evaluations, read the replies, record each row as soon as it arrives."""

from __future__ import annotations

import contextlib
import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from baco_like.exceptions import EvaluatorError, SpaceExhausted
from baco_like.integrations.hypermapper import messages
from baco_like.integrations.hypermapper.scenario import Scenario
from baco_like.integrations.hypermapper.streams import Report, name_file_in_errors
from baco_like.optimizer import Optimizer
from baco_like.records.trial import Trial
from baco_like.results.hypermapper_columns import Cells
from baco_like.results.hypermapper_csv import header, row
from baco_like.running.stopping import AnyOf, MaxEvals, MaxTime


@dataclass
class Session:
    """One session with a client.

    Attributes:
        scenario: The settings of the run.
        optimizer: Suggests the configurations.
        incoming: The client's replies.
        outgoing: Requests to the client.
        samples: The file to which each evaluated row is appended.
        report: Writes one line to the user.
        reported: Lines that were reported before; each is reported once.
    """

    scenario: Scenario
    optimizer: Optimizer
    incoming: TextIO
    outgoing: TextIO
    samples: TextIO
    report: Report
    reported: set[str] = field(default_factory=set)

    def run(self) -> str:
        """Request evaluations until a limit is reached; return the reason of the end."""
        stop = AnyOf((MaxEvals(self.scenario.evaluations),))
        if self.scenario.seconds is not None:
            stop |= MaxTime(self.scenario.seconds)
        while True:
            reason = self.optimizer.should_stop(stop)
            trials = [] if reason else self._next_trials()
            if not trials:
                break
            configs = [trial.config for trial in trials]
            self._send(messages.format_request(self.scenario.layout, configs))
            self._receive(trials)
        self._send(self._last_message())
        return reason or "the space is exhausted"

    def _next_trials(self) -> list[Trial]:
        """Return the trials of the next request: pending trials of a resumed journal first, then new ones."""
        observed, pending = len(self.optimizer.history), self.optimizer.pending
        size = self.scenario.design - observed
        if size < 1:
            size = self.scenario.batch
        missing = min(size, self.scenario.evaluations - observed) - len(pending)
        if missing > 0:
            with contextlib.suppress(SpaceExhausted):
                return pending + self.optimizer.suggest(missing)
        return pending

    def _send(self, lines: str) -> None:
        try:
            self.outgoing.write(lines)
            self.outgoing.flush()
        except OSError:
            raise self._error("the client does not read any more") from None

    def _read_line(self) -> str:
        """Return the client's next line that is not blank."""
        while True:
            line = self.incoming.readline()
            if not line.endswith("\n"):  # the stream ended, perhaps in the middle of a number
                cut = f", after {line!r:.60}, which is not recorded" if line else ""
                raise self._error(f"the client has closed its end{cut}")
            if line.strip():
                return line.strip()

    def _error(self, problem: str) -> EvaluatorError:
        return EvaluatorError(
            f"{problem}, after {len(self.optimizer.history)} of {self.scenario.evaluations} evaluations; they are in "
            f"{self.scenario.output}, and a scenario with resume_optimization set to true continues from there"
        )

    def _receive(self, trials: Sequence[Trial]) -> None:
        """Read a reply and record each row at once."""
        layout, waiting = self.scenario.layout, list(trials)
        names = self._parse_line(messages.parse_names, layout)
        while waiting:
            cells = self._parse_line(messages.parse_cells, names)
            trial = waiting.pop(self._find_trial(cells, waiting))
            timestamp = str(time.time_ns() // 10**6)
            try:
                outcome = layout.outcome(trial.id, cells, timestamp)
            except ValueError as error:
                raise self._error(str(error)) from None
            self.optimizer.complete([outcome])
            with name_file_in_errors(self.scenario.output):
                table = csv.writer(self.samples, lineterminator="\n")
                table.writerow(row(layout, trial.with_outcome(outcome)))
                self.samples.flush()

    def _parse_line(self, parse: Callable[[str, Any], Any], expected: Any) -> Any:
        line = self._read_line()
        try:
            return parse(line, expected)
        except ValueError as error:
            raise self._error(str(error)) from None

    def _find_trial(self, cells: Cells, waiting: Sequence[Trial]) -> int:
        """Return the position of the trial that a row answers.

        The protocol prescribes the order of the request, but clients that run configurations in parallel may reply in
        another order. A row whose parameters match no trial answers the first one.
        """
        for i, trial in enumerate(waiting):
            if messages.matches_config(self.scenario.layout, cells, trial.config):
                return i
        warning = "a reply's parameters do not match the request; its rows are assigned in the order of the request"
        if warning not in self.reported:
            self.reported.add(warning)
            self.report(warning)
        return 0

    def _last_message(self) -> str:
        best, layout = self.optimizer.best, self.scenario.layout
        if best is None or not self.scenario.print_best:
            return messages.END
        return messages.format_best(header(layout), row(layout, best)) + messages.END
