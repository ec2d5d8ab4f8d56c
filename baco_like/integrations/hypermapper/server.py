"""``baco-like serve``: a compiler written for HyperMapper or BaCO requests suggestions over stdin and stdout."""

from __future__ import annotations

import contextlib
import csv
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from baco_like._output import explain_os_error
from baco_like.exceptions import EvaluatorError, RunFileError, SpaceExhausted
from baco_like.integrations.hypermapper import files, messages
from baco_like.integrations.hypermapper.messages import Report
from baco_like.integrations.hypermapper.scenario import Scenario, read_scenario
from baco_like.optimizer import Optimizer, WarmStart
from baco_like.optimizer.setup import default_points
from baco_like.records import Outcome, Trial
from baco_like.results.hypermapper_columns import Cells
from baco_like.results.hypermapper_csv import header, read_csv, row
from baco_like.running import AnyOf, MaxEvals, MaxTime
from baco_like.running.front import describe_front, describe_values
from baco_like.running.lock import sole_runner
from baco_like.strategies import default_settings


def serve_stdio(
    source: Path,
    *,
    strategy: str | None,
    allow_dirs: Sequence[Path] = (),
    **options: Any,
) -> None:
    """Serve a scenario over standard input and output.

    Args:
        source: The scenario.
        strategy: As for `serve`.
        allow_dirs: As for `serve`.
        options: Further arguments of `serve`.

    Raises:
        BacoError: As for `serve` and `read_scenario`; also if ``strategy`` is unknown.
    """
    with messages.open_protocol_streams() as (incoming, outgoing):
        scenario = read_scenario(source, allow_dirs)
        try:
            default_settings(strategy or scenario.strategy)
        except ValueError as error:
            raise RunFileError(f"--strategy: {error}") from None
        options |= {"strategy": strategy, "allow_dirs": allow_dirs}
        serve(scenario, incoming, outgoing, messages.report_to_stderr, **options)


def serve(
    scenario: Scenario,
    incoming: TextIO,
    outgoing: TextIO,
    report: Report,
    *,
    seed: int = 0,
    strategy: str | None = None,
    journal: Path | None = None,
    allow_dirs: Sequence[Path] = (),
    large: bool = False,
    ahead: int = 0,
    priors: Sequence[Path] = (),
) -> str:
    """Request evaluations from the client until the budget is spent; return the reason of the end.

    Args:
        scenario: The space, the budget and the files of the run.
        incoming: The client's replies.
        outgoing: Receives the lines of the protocol and no others.
        report: Called with a line for each ignored setting, and for the result of the run.
        seed: The run's only seed.
        strategy: A strategy's name, in place of the scenario's.
        journal: Also keep the run in this journal; an existing one is resumed, its pending trials first.
        allow_dirs: Folders besides the current one in which the scenario's files may be.
        large: Whether the file to resume from may have more than 64 MiB, unpacked, or 150,000 lines.
        ahead: Number of proposals that are computed while the client measures; see `Optimizer`.
        priors: Files of results of related tasks, such as the same program on another device; see `WarmStart`.

    Raises:
        ConfigError: No result of a prior belongs to the space.
        StrategyError: The strategy has no model that a prior could inform.
        EvaluatorError: The client has ended, or its reply is invalid.
        RunFileError: A file of the scenario cannot be read or written, or is outside the permitted folders.
        JournalError: The journal belongs to another run, or is in use.
        ValueError: The strategy does not exist.
    """
    scenario = replace(scenario, strategy=strategy or scenario.strategy)
    log = [] if scenario.log is None else [scenario.log]
    files.check_permitted([scenario.output, *log], allow_dirs)
    earlier: tuple[list[dict[str, Any]], list[Outcome]] = ([], [])
    if scenario.resume is not None:
        if os.path.exists(scenario.resume) and not os.path.isfile(scenario.resume):  # a pipe
            raise RunFileError(f"{scenario.resume} is not a file to resume from")
        earlier = read_csv(scenario.resume, scenario.layout, large=large)
    files.check_samples(scenario.output, scenario.layout)
    warm = [WarmStart(file, mode="prior", large=large) for file in priors] or None
    _create_optimizer(scenario, seed, None, 0, warm)  # its checks, before anything is written
    with contextlib.ExitStack() as stack:
        with explain_os_error(RunFileError, "write", scenario.output):
            scenario.output.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(sole_runner(scenario.output))
        stack.enter_context(sole_runner(journal))
        report = stack.enter_context(files.report_to_log(scenario.log, report))
        for note in scenario.notes:
            report(note)
        optimizer = _create_optimizer(scenario, seed, journal, ahead, warm)
        if not optimizer.trials:
            outside = observe_samples(optimizer, *earlier)
            if outside:
                report(
                    f"{outside} of {len(earlier[0])} rows of {scenario.resume} are outside the space"
                )
        samples = stack.enter_context(
            files.open_samples(scenario.output, scenario.layout, optimizer.trials, report)
        )
        reason = _Session(scenario, optimizer, incoming, outgoing, samples, report).run()
        report(f"ended: {reason}; {_describe_best(optimizer)}, all rows are in {scenario.output}")
    return reason


def _describe_best(optimizer: Optimizer) -> str:
    """Return the best value with its configuration; with several objectives the range of the front and its knee."""
    best = optimizer.best
    if best is None:
        return "no evaluation succeeded"
    config = ", ".join(f"{name}={value}" for name, value in best.config.items())
    objectives = optimizer.options.several_objectives
    if not objectives:
        return f"best {best.value!r} with {config}"
    knee = describe_values(best, objectives)
    return f"{describe_front(optimizer.front, objectives)}; knee {knee} with {config}"


def _create_optimizer(
    scenario: Scenario,
    seed: int,
    journal: Path | None,
    ahead: int,
    warm_start: Sequence[WarmStart] | None,
) -> Optimizer:
    settings = {"initial": max(1, scenario.design), "design": scenario.sampling}
    settings |= scenario.settings
    supported = default_settings(scenario.strategy)
    return Optimizer(
        scenario.space,
        seed=seed,
        objectives=dict.fromkeys(scenario.layout.objectives, "minimize"),
        budget=scenario.evaluations,
        strategy=scenario.strategy,
        settings={key: value for key, value in settings.items() if key in supported},
        initial=default_points(scenario.space),  # the scenario's notes report an infeasible default
        storage=journal,
        ahead=ahead,
        warm_start=warm_start,
    )


@dataclass
class _Session:
    """One session with a client.

    Attributes:
        scenario: The settings of the run.
        optimizer: Suggests the configurations.
        incoming: The client's replies.
        outgoing: Requests to the client.
        samples: The file to which each evaluated row is appended.
        report: Writes one line to the user.
        has_warned: Whether it was reported that replies do not match the requests.
    """

    scenario: Scenario
    optimizer: Optimizer
    incoming: TextIO
    outgoing: TextIO
    samples: TextIO
    report: Report
    has_warned: bool = False

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
        best, layout = self.optimizer.best, self.scenario.layout
        if best is not None and self.scenario.print_best:
            self._send(messages.format_best(header(layout), row(layout, best)))
        self._send(messages.END)
        return reason or "the space is exhausted"

    def _next_trials(self) -> list[Trial]:
        """Return the trials of the next request: pending trials of a resumed journal first, then new ones."""
        observed, pending = len(self.optimizer.history), self.optimizer.pending
        left_in_design = self.scenario.design - observed
        size = left_in_design if left_in_design > 0 else self.scenario.batch
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
            line = self.incoming.readline(messages.MAX_LINE + 1)
            if len(line) > messages.MAX_LINE:
                raise self._error(f"the client's line has more than {messages.MAX_LINE} characters")
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
        line = self._read_line()
        with self._errors_with_progress():
            names = messages.parse_names(line, layout)
        while waiting:
            line = self._read_line()
            with self._errors_with_progress():
                cells = messages.parse_cells(line, names)
                trial = waiting.pop(self._find_trial(cells, waiting))
                outcome = layout.outcome(trial.id, cells, str(time.time_ns() // 10**6))
            self.optimizer.complete([outcome])
            with explain_os_error(RunFileError, "write", self.scenario.output):
                table = csv.writer(self.samples, lineterminator="\n")
                table.writerow(row(layout, trial.with_outcome(outcome)))
                self.samples.flush()

    @contextlib.contextmanager
    def _errors_with_progress(self) -> Iterator[None]:
        """Turn a `ValueError` of a reply into an error that says how far the run has come."""
        try:
            yield
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
        if not self.has_warned:
            self.has_warned = True
            self.report(
                "a reply's parameters do not match the request; its rows are assigned in the order of the request"
            )
        return 0


def observe_samples(
    optimizer: Optimizer, configs: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]
) -> int:
    """Observe the contents of a file of samples; return the number of configurations outside the space.

    Those are recorded, but no model uses them.

    Raises:
        JournalError: An observation cannot be recorded.
    """
    for config, outcome in zip(configs, outcomes, strict=True):
        value = {optimizer.options.objective: outcome.value, **outcome.metrics}
        optimizer.observe(
            config,
            value if outcome.value is not None else None,
            failed=outcome.failed,
            message=outcome.message,
            extra=outcome.extra,
            imported=True,
        )
    return sum(not optimizer.space.contains(config) for config in configs)
