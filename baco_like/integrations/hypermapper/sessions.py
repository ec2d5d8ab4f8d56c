"""Sessions with a client of HyperMapper or BaCO: a program behind pipes, or a Python function."""

from __future__ import annotations

import contextlib
import csv
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, final

from typing_extensions import override

from baco_like._output import explain_os_error
from baco_like.exceptions import EvaluatorError, RunFileError, SpaceExhausted
from baco_like.integrations.hypermapper import messages
from baco_like.integrations.hypermapper.messages import Report
from baco_like.integrations.hypermapper.scenario import Scenario
from baco_like.optimizer import Optimizer
from baco_like.records import Trial
from baco_like.results.hypermapper import Cells, header, row
from baco_like.running import AnyOf, MaxEvals, MaxTime


@dataclass
class Session(ABC):
    """One session with a client.

    Attributes:
        scenario: The settings of the run.
        optimizer: Suggests the configurations.
        samples: The file to which each evaluated row is appended.
        report: Writes one line to the user.
    """

    scenario: Scenario
    optimizer: Optimizer
    samples: TextIO
    report: Report

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
            self._evaluate(trials)
        self._end()
        return reason or "the space is exhausted"

    @abstractmethod
    def _evaluate(self, trials: Sequence[Trial]) -> None:
        """Let the client evaluate trials, and record each outcome at once."""

    @abstractmethod
    def _end(self) -> None:
        """Tell the client that the run has ended."""

    def _next_trials(self) -> list[Trial]:
        """Return the trials of the next request: pending trials of a resumed journal first, then new ones."""
        observed, pending = len(self.optimizer.history), self.optimizer.pending
        pending = self.optimizer.reclaim(pending) if pending else []
        left_in_design = self.scenario.design - observed
        size = left_in_design if left_in_design > 0 else self.scenario.batch
        missing = min(size, self.scenario.evaluations - observed) - len(pending)
        if missing > 0:
            with contextlib.suppress(SpaceExhausted):
                return pending + self.optimizer.suggest(missing)
        return pending

    def _record(self, trial: Trial, cells: Cells) -> None:
        """Record the outcome of a trial.

        Raises:
            EvaluatorError: A cell cannot be read.
        """
        layout = self.scenario.layout
        with self._errors_with_progress():
            outcome = layout.outcome(trial.id, cells, str(time.time_ns() // 10**6))
        self.optimizer.complete([outcome])
        with explain_os_error(RunFileError, "write", self.scenario.output):
            table = csv.writer(self.samples, lineterminator="\n")
            table.writerow(row(layout, trial.with_outcome(outcome)))
            self.samples.flush()

    def _error(self, problem: str) -> EvaluatorError:
        return EvaluatorError(
            f"{problem}, after {len(self.optimizer.history)} of {self.scenario.evaluations} evaluations; they are in "
            f"{self.scenario.output}, and a scenario with resume_optimization set to true continues from there"
        )

    @contextlib.contextmanager
    def _errors_with_progress(self) -> Iterator[None]:
        """Turn a `ValueError` of a reply into an error that says how far the run has come."""
        try:
            yield
        except ValueError as error:
            raise self._error(str(error)) from None


@final
@dataclass
class PipeSession(Session):
    """A session with a program, over two streams.

    Attributes:
        incoming: The client's replies.
        outgoing: Requests to the client.
        has_warned: Whether it was reported that replies do not match the requests.
    """

    incoming: TextIO
    outgoing: TextIO
    has_warned: bool = False

    @override
    def _evaluate(self, trials: Sequence[Trial]) -> None:
        """Request the evaluation of trials, and record each row of the reply at once."""
        layout, waiting = self.scenario.layout, list(trials)
        self._send(messages.format_request(layout, [trial.config for trial in trials]))
        line = self._read_line()
        with self._errors_with_progress():
            names = messages.parse_names(line, layout)
        while waiting:
            line = self._read_line()
            with self._errors_with_progress():
                cells = messages.parse_cells(line, names)
            trial = waiting.pop(self._find_trial(cells, waiting))
            self._record(trial, cells)

    @override
    def _end(self) -> None:
        best, layout = self.optimizer.best, self.scenario.layout
        if best is not None and self.scenario.print_best:
            self._send(messages.format_best(header(layout), row(layout, best)))
        self._send(messages.END)

    def _send(self, lines: str) -> None:
        try:
            self.outgoing.write(lines)
            self.outgoing.flush()
        except OSError:
            raise self._error("the client does not read any more") from None

    def _read_line(self) -> str:
        """Return the client's next line that is not blank."""
        while True:
            line = self.incoming.readline(messages.MAX_LINE + 1)
            if len(line) > messages.MAX_LINE:
                raise self._error(f"the client's line has more than {messages.MAX_LINE} characters")
            if not line.endswith("\n"):  # the stream ended, perhaps in the middle of a number
                cut = f", after {line!r:.60}, which is not recorded" if line else ""
                raise self._error(f"the client has closed its end{cut}")
            if line.strip():
                return line.strip()

    def _find_trial(self, cells: Cells, waiting: Sequence[Trial]) -> int:
        """Return the position of the trial that a row answers.

        The protocol prescribes the order of the request, but clients that run configurations in parallel may reply in
        another order. A row whose parameters match no trial answers the first one.
        """
        for i, trial in enumerate(waiting):
            if messages.matches_config(self.scenario.layout, cells, trial.config):
                return i
        if not self.has_warned:
            self.has_warned = True
            self.report(
                "a reply's parameters do not match the request; its rows are assigned in the order of the request"
            )
        return 0


@final
@dataclass
class FunctionSession(Session):
    """A session with a Python function, which is called for one trial after the other.

    Attributes:
        function: The function.
    """

    function: Callable[[dict[str, Any]], Any]

    @override
    def _evaluate(self, trials: Sequence[Trial]) -> None:
        """Call the function for each trial."""
        for trial in trials:
            result = self.function(dict(trial.config))
            with self._errors_with_progress():
                cells = self._read_result(result)
            self._record(trial, cells)

    @override
    def _end(self) -> None:
        """Do nothing: the function needs no message."""

    def _read_result(self, result: Any) -> Cells:
        """Return the values that the function has returned as the cells of a reply.

        Raises:
            ValueError: A value is missing, or there is another number of values.
        """
        layout = self.scenario.layout
        column = [layout.feasibility.name] if layout.feasibility.required else []
        names = [*layout.objectives, *column]
        if not isinstance(result, Mapping):
            values = result if isinstance(result, (list, tuple)) else [result]
            if len(values) != len(names):
                raise ValueError(
                    f"the function returned {result!r:.100}; expected values of {', '.join(names)}"
                )
            result = dict(zip(names, values, strict=True))
        missing = [name for name in names if name not in result]
        if missing:
            raise ValueError(
                f"the function returned {dict(result)!r:.100}; it lacks {', '.join(missing)}"
            )
        return {str(name): str(value) for name, value in result.items()}
