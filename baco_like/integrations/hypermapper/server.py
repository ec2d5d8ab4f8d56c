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

from baco_like._output import explain_os_error, open_protocol_streams
from baco_like.exceptions import EvaluatorError, RunFileError, SpaceExhausted, StrategyError
from baco_like.integrations.hypermapper import files, messages
from baco_like.integrations.hypermapper.messages import Report
from baco_like.integrations.hypermapper.scenario import Scenario, read_scenario
from baco_like.journal.lock import sole_runner
from baco_like.optimizer import Optimizer, Search, Sharing, WarmStart
from baco_like.optimizer.arguments import default_points
from baco_like.records import Outcome, Trial
from baco_like.results.hypermapper_csv import Cells, read_csv, row
from baco_like.running import MaxEvals, MaxTime
from baco_like.running.sentences import describe_front, describe_values
from baco_like.running.stopping import AnyOf
from baco_like.strategies import default_settings


@dataclass(frozen=True)
class ServeOptions:
    """How a scenario is served.

    Attributes:
        seed: The run's only seed.
        strategy: A strategy's name, in place of the scenario's.
        journal: Also keep the run in this journal; an existing one is resumed, its pending trials first.
        allow_dirs: Folders besides the current one in which the scenario's files may be.
        large: Whether the file to resume from may have more than 64 MiB, unpacked, or 150,000 lines.
        ahead: Number of proposals that are computed while the client measures; see `Optimizer`.
        priors: Files of results of related tasks, such as the same program on another device; see `WarmStart`.
    """

    seed: int = 0
    strategy: str | None = None
    journal: Path | None = None
    allow_dirs: Sequence[Path] = ()
    large: bool = False
    ahead: int = 0
    priors: Sequence[Path] = ()


def serve_stdio(source: Path, options: ServeOptions) -> None:
    """Serve a scenario over standard input and output.

    Raises:
        BacoError: As for `serve` and `read_scenario`; also if the strategy of the options is unknown.
    """
    with open_protocol_streams() as (incoming, outgoing):
        scenario = read_scenario(source, options.allow_dirs)
        try:
            default_settings(options.strategy or scenario.strategy)
        except ValueError as error:
            raise RunFileError(f"--strategy: {error}") from None
        serve(scenario, incoming, outgoing, messages.report_to_stderr, options)


def serve(
    scenario: Scenario,
    incoming: TextIO,
    outgoing: TextIO,
    report: Report,
    options: ServeOptions,
) -> str:
    """Request evaluations from the client until the budget is spent; return the reason of the end.

    Args:
        scenario: The space, the budget and the files of the run.
        incoming: The client's replies.
        outgoing: Receives the lines of the protocol and no others.
        report: Called with a line for each ignored setting, and for the result of the run.
        options: Further settings.

    Raises:
        ConfigError: No result of a prior belongs to the space.
        StrategyError: The strategy has no model that a prior could inform.
        EvaluatorError: The client has ended, or its reply is invalid.
        RunFileError: A file of the scenario cannot be read or written, or is outside the permitted folders.
        JournalError: The journal belongs to another run, or is in use.
        ValueError: The strategy does not exist.
    """
    scenario = replace(scenario, strategy=options.strategy or scenario.strategy)
    files.check_permitted(scenario.output, options.allow_dirs)
    earlier: tuple[list[dict[str, Any]], list[Outcome]] = ([], [])
    if scenario.resume is not None:
        if os.path.exists(scenario.resume) and not os.path.isfile(scenario.resume):  # a pipe
            raise RunFileError(f"{scenario.resume} is not a file to resume from")
        earlier = read_csv(scenario.resume, scenario.layout, large=options.large)
    files.check_samples(scenario.output, scenario.layout)
    warm = [WarmStart(file, mode="prior", large=options.large) for file in options.priors] or None
    try:  # the checks of the optimizer, before anything is written
        _create_optimizer(scenario, replace(options, journal=None, ahead=0), warm)
    except StrategyError as error:
        raise _explain_prior(error, scenario) if warm else error from None
    with contextlib.ExitStack() as stack:
        with explain_os_error(RunFileError, "write", scenario.output):
            scenario.output.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(sole_runner(scenario.output))
        stack.enter_context(sole_runner(options.journal))
        for note in scenario.notes:
            report(note)
        optimizer = _create_optimizer(scenario, options, warm)
        if not optimizer.trials:
            outside = observe_samples(optimizer, *earlier)
            if outside:
                report(
                    f"{outside} of {len(earlier[0])} rows of {scenario.resume} are outside the space"
                )
        samples = stack.enter_context(
            files.open_samples(scenario.output, scenario.layout, optimizer.trials, report)
        )
        reason = Session(scenario, optimizer, samples, report, incoming, outgoing).run()
        report(f"ended: {reason}; {_describe_best(optimizer)}, all rows are in {scenario.output}")
    return reason


def _describe_best(optimizer: Optimizer) -> str:
    """Return the best value with its configuration; with several objectives the range of the front and its knee."""
    best = optimizer.best
    if best is None:
        return "no evaluation succeeded"
    config = ", ".join(f"{name}={value}" for name, value in best.config.items())
    objectives = optimizer.options.aim.several
    if not objectives:
        return f"best {best.value!r} with {config}"
    knee = describe_values(best, objectives)
    return f"{describe_front(optimizer.front, objectives)}; knee {knee} with {config}"


def _explain_prior(error: StrategyError, scenario: Scenario) -> StrategyError:
    """Return the error of a strategy that cannot use a prior, in the words of a scenario."""
    remedies = []
    if scenario.strategy == "random_forest" or scenario.settings.get("surrogate") == "forest":
        remedies.append('write "models": {"model": "gaussian_process"} into the scenario')
    if scenario.strategy not in ("auto", "random_forest"):
        remedies.append("take the strategy auto")
    problem = str(error).partition(";")[0]
    return StrategyError(f"{problem}; {' and '.join(remedies)}, or leave the prior out")


def _create_optimizer(
    scenario: Scenario, options: ServeOptions, warm_start: Sequence[WarmStart] | None
) -> Optimizer:
    settings = {"initial": max(1, scenario.design), "design": scenario.sampling}
    settings |= scenario.settings
    supported = default_settings(scenario.strategy)
    return Optimizer(
        scenario.space,
        dict.fromkeys(scenario.layout.objectives, "minimize"),
        options.seed,
        budget=scenario.evaluations,
        strategy=Search(
            scenario.strategy,
            {key: value for key, value in settings.items() if key in supported},
            default_points(scenario.space),  # the scenario's notes report an infeasible default
        ),
        storage=options.journal,
        sharing=Sharing(ahead=options.ahead),
        warm_start=warm_start,
    )


def observe_samples(
    optimizer: Optimizer, configs: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]
) -> int:
    """Observe the contents of a file of samples; return the number of configurations outside the space.

    Those are recorded, but no model uses them.

    Raises:
        JournalError: An observation cannot be recorded.
    """
    for config, outcome in zip(configs, outcomes, strict=True):
        value = {optimizer.options.aim.first.name: outcome.value, **outcome.metrics}
        optimizer.observe(
            config,
            value if outcome.value is not None else None,
            failed=outcome.failed,
            message=outcome.message,
            extra=outcome.extra,
            imported=True,
        )
    return sum(not optimizer.space.contains(config) for config in configs)


@dataclass
class Session:
    """One session with a client.

    Attributes:
        scenario: The settings of the run.
        optimizer: Suggests the configurations.
        samples: The file to which each evaluated row is appended.
        report: Writes one line to the user.
        incoming: The client's replies.
        outgoing: Requests to the client.
        has_warned: Whether it was reported that replies do not match the requests.
    """

    scenario: Scenario
    optimizer: Optimizer
    samples: TextIO
    report: Report
    incoming: TextIO
    outgoing: TextIO
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
            self._evaluate(trials)
        self._send(messages.END)
        return reason or "the space is exhausted"

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
