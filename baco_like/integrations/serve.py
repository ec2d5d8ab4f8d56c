"""``baco-like serve``: a compiler that was written for HyperMapper or BaCO drives us over stdin and stdout.

Each row of a reply is recorded, in the file of samples and the journal, as soon as it is there.
"""

from __future__ import annotations

import contextlib
import csv
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from baco_like.budget import AnyOf, MaxEvals, MaxTime
from baco_like.exceptions import EvaluatorError, RunFileError, SpaceExhausted
from baco_like.integrations.baco_csv import csv_text, header, observe_rows, read_csv, row, write_csv
from baco_like.integrations.client_server import (
    END,
    best_point,
    echoes,
    read_cells,
    read_names,
    request,
)
from baco_like.integrations.columns import Cells
from baco_like.integrations.scenario import Scenario, read_scenario
from baco_like.optimizer import Optimizer
from baco_like.records.trial import Trial
from baco_like.runlock import sole_runner
from baco_like.strategies.registry import settings_of

Report = Callable[[str], None]
"""Takes one line that is not for the client."""


@contextlib.contextmanager
def protocol_streams() -> Iterator[tuple[TextIO, TextIO]]:
    """Lend standard input and output to the protocol alone; whatever else prints goes to standard error."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    incoming = open(os.dup(0), encoding="utf-8", errors="replace")  # noqa: SIM115
    outgoing = open(own, "w", encoding="utf-8", newline="\n", closefd=False)  # noqa: SIM115
    try:
        yield incoming, outgoing
    finally:
        incoming.close()
        with contextlib.suppress(OSError):  # nobody may be there to read what is left
            outgoing.close()
        sys.stdout.flush()
        os.dup2(own, 1)
        os.close(own)


def to_stderr(text: str) -> None:
    """Write a line to standard error.

    It has the word ``warning``: a client that reads both streams as one skips such lines.
    """
    with contextlib.suppress(OSError):  # a closed terminal ends no run
        print(f"baco-like: warning: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _also_in(log: Path | None, report: Report) -> Iterator[Report]:
    """Lend a function that reports and writes the same to a new file.

    Raises:
        RunFileError: The file cannot be made.
    """
    if log is None:
        yield report
        return
    with _named_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        file = log.open("w", encoding="utf-8", buffering=1)

    def both(text: str) -> None:
        report(text)
        with contextlib.suppress(OSError):  # nor does a full disk
            file.write(text + "\n")

    with file:
        yield both


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFileError(f"cannot write {error.filename or path}: {error.strerror}") from error


def run(source: Path, seed: int, strategy: str | None, journal: Path | None) -> None:
    """Do what ``baco-like serve`` does.

    Raises:
        BacoError: As `serve` and `read_scenario` say; ``strategy`` is unknown.
    """
    with protocol_streams() as (incoming, outgoing):
        scenario = read_scenario(source)
        try:
            settings_of(strategy or scenario.strategy)
        except ValueError as error:
            raise RunFileError(f"--strategy: {error}") from None
        serve(
            scenario, incoming, outgoing, to_stderr, seed=seed, strategy=strategy, journal=journal
        )


def serve(
    scenario: Scenario,
    incoming: TextIO,
    outgoing: TextIO,
    report: Report,
    *,
    seed: int = 0,
    strategy: str | None = None,
    journal: Path | None = None,
) -> str:
    """Ask the client for evaluations until the budget is spent; return why it ended.

    Args:
        scenario: What is tuned, and how.
        incoming: The client's replies.
        outgoing: Gets the lines of the protocol and nothing else.
        report: Is told what was left out, and how the run went.
        seed: The run's only seed.
        strategy: The name of another strategy than the scenario's.
        journal: Also keep the run in a journal; an existing one is resumed, with its pending trials first.

    Raises:
        EvaluatorError: The client has gone, or sent what is no reply.
        RunFileError: A file of the scenario cannot be read or written.
        JournalError: The journal belongs to another run, or to one that still goes on.
        ValueError: There is no such strategy.
    """
    old: tuple[list[dict[str, Any]], list[Any]] = ([], [])
    if scenario.resume is not None:
        old = read_csv(scenario.resume, scenario.layout)
    _optimizer(scenario, seed, strategy, None)  # its checks, before anything is written
    with contextlib.ExitStack() as stack:
        with _named_errors(scenario.output):
            scenario.output.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(sole_runner(scenario.output))
        stack.enter_context(sole_runner(journal))
        report = stack.enter_context(_also_in(scenario.log, report))
        for note in scenario.notes:
            report(note)
        optimizer = _optimizer(scenario, seed, strategy, journal)
        if not optimizer.trials:
            outside = observe_rows(optimizer, *old)
            if outside:
                report(f"{outside} of {len(old[0])} rows to go on from are not in the space")
        samples = stack.enter_context(_samples(scenario, optimizer.trials, report))
        run = _Run(scenario, optimizer, incoming, outgoing, samples, report)
        reason = run.whole()
        report(f"ended: {reason}; {_summary(optimizer.best)}, all rows are in {scenario.output}")
    return reason


def _optimizer(
    scenario: Scenario, seed: int, strategy: str | None, journal: Path | None
) -> Optimizer:
    name = strategy or scenario.strategy
    wanted = {"initial": max(1, scenario.design), "design": scenario.sampling}
    known = settings_of(name)
    return Optimizer(
        scenario.space,
        "minimize",
        seed,
        objective=scenario.layout.objective,
        budget=scenario.evaluations,
        strategy=name,
        settings={key: value for key, value in wanted.items() if key in known},
        storage=journal,
    )


def _summary(best: Trial | None) -> str:
    if best is None:
        return "nothing ran"
    config = ", ".join(f"{name}={value}" for name, value in best.config.items())
    return f"best {best.value!r} with {config}"


@contextlib.contextmanager
def _samples(scenario: Scenario, trials: Sequence[Trial], report: Report) -> Iterator[TextIO]:
    """Write the file of samples anew, with what is observed already, and lend it for appending.

    A file with other rows than this run's is given another name, never overwritten.

    Raises:
        RunFileError: It cannot be written.
    """
    path = scenario.output
    with _named_errors(path):
        if path.exists() and not _begins_with(csv_text(trials, scenario.layout), path):
            kept = _free_name(path)
            path.rename(kept)
            report(f"{path} of an earlier run is now {kept}")
        write_csv(path, trials, scenario.layout)
        file = path.open("a", encoding="utf-8", newline="", buffering=1)
    with file:
        yield file


def _begins_with(text: str, path: Path) -> bool:
    """Whether the lines of a file are the first lines of a text."""
    data = path.read_bytes()
    return text.encode().startswith(data[: data.rfind(b"\n") + 1])


def _free_name(path: Path) -> Path:
    number = 1
    while (found := path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return found


@dataclass
class _Run:
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
        done, waiting = len(self.optimizer.trials), self.optimizer.pending
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
        done = len(self.optimizer.trials)
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
        fitting = [i for i, one in enumerate(waiting) if echoes(layout, cells, one.config)]
        if not fitting:
            self._once(
                "the parameters of a reply are not those of the request; its rows are taken in the order asked for"
            )
            return 0
        return fitting[0]

    def _write(self, trial: Trial) -> None:
        with _named_errors(self.scenario.output):
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
