"""``baco-like serve``: a compiler written for HyperMapper or BaCO requests suggestions over stdin and stdout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from baco_like.exceptions import RunFileError
from baco_like.integrations.hypermapper.samples import (
    observe_samples,
    read_samples,
    write_samples,
)
from baco_like.integrations.hypermapper.scenario import Scenario, read_scenario
from baco_like.integrations.hypermapper.session import Session
from baco_like.integrations.hypermapper.streams import (
    Report,
    name_file_in_errors,
    open_protocol_streams,
    report_to_log,
    report_to_stderr,
)
from baco_like.optimizer import Optimizer
from baco_like.optimizer.setup import default_points
from baco_like.records.trial import Outcome, Trial
from baco_like.results.hypermapper_csv import csv_text
from baco_like.running.lock import sole_runner
from baco_like.strategies import default_settings


def serve_stdio(source: Path, seed: int, strategy: str | None, journal: Path | None) -> None:
    """Serve a scenario over standard input and output.

    Raises:
        BacoError: As for `serve` and `read_scenario`; also if ``strategy`` is unknown.
    """
    with open_protocol_streams() as (incoming, outgoing):
        scenario = read_scenario(source)
        try:
            default_settings(strategy or scenario.strategy)
        except ValueError as error:
            raise RunFileError(f"--strategy: {error}") from None
        serve(
            scenario,
            incoming,
            outgoing,
            report_to_stderr,
            seed=seed,
            strategy=strategy,
            journal=journal,
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
    """Request evaluations from the client until the budget is spent; return the reason of the end.

    Args:
        scenario: The space, the budget and the files of the run.
        incoming: The client's replies.
        outgoing: Receives the lines of the protocol and no others.
        report: Called with a line for each ignored setting, and for the result of the run.
        seed: The run's only seed.
        strategy: A strategy's name, in place of the scenario's.
        journal: Also keep the run in this journal; an existing one is resumed, its pending trials first.

    Raises:
        EvaluatorError: The client has ended, or its reply is invalid.
        RunFileError: A file of the scenario cannot be read or written.
        JournalError: The journal belongs to another run, or is in use.
        ValueError: The strategy does not exist.
    """
    earlier: tuple[list[dict[str, Any]], list[Outcome]] = ([], [])
    if scenario.resume is not None:
        earlier = read_samples(scenario.resume, scenario.layout)
    _create_optimizer(scenario, seed, strategy, None)  # its checks, before anything is written
    with contextlib.ExitStack() as stack:
        with name_file_in_errors(scenario.output):
            scenario.output.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(sole_runner(scenario.output))
        stack.enter_context(sole_runner(journal))
        report = stack.enter_context(report_to_log(scenario.log, report))
        for note in scenario.notes:
            report(note)
        optimizer = _create_optimizer(scenario, seed, strategy, journal)
        if not optimizer.trials:
            outside = observe_samples(optimizer, *earlier)
            if outside:
                report(
                    f"{outside} of {len(earlier[0])} rows of {scenario.resume} are outside the space"
                )
        samples = stack.enter_context(_open_samples(scenario, optimizer.trials, report))
        reason = Session(scenario, optimizer, incoming, outgoing, samples, report).run()
        report(f"ended: {reason}; {_best_text(optimizer.best)}, all rows are in {scenario.output}")
    return reason


def _create_optimizer(
    scenario: Scenario, seed: int, strategy: str | None, journal: Path | None
) -> Optimizer:
    name = strategy or scenario.strategy
    settings = {"initial": max(1, scenario.design), "design": scenario.sampling}
    supported = default_settings(name)
    return Optimizer(
        scenario.space,
        "minimize",
        seed,
        objective=scenario.layout.objective,
        budget=scenario.evaluations,
        strategy=name,
        settings={key: value for key, value in settings.items() if key in supported},
        initial=default_points(scenario.space),  # the scenario's notes report an infeasible default
        storage=journal,
    )


def _best_text(best: Trial | None) -> str:
    if best is None:
        return "no evaluation succeeded"
    config = ", ".join(f"{name}={value}" for name, value in best.config.items())
    return f"best {best.value!r} with {config}"


@contextlib.contextmanager
def _open_samples(scenario: Scenario, trials: Sequence[Trial], report: Report) -> Iterator[TextIO]:
    """Write the observed trials to the file of samples and open it for appending.

    An existing file with rows of another run is renamed, never overwritten.

    Raises:
        RunFileError: The file cannot be written.
    """
    path = scenario.output
    with name_file_in_errors(path):
        if path.exists() and not _is_prefix(path, csv_text(trials, scenario.layout)):
            number = 1
            while (free := path.with_name(f"{path.name}.{number}")).exists():
                number += 1
            path.rename(free)
            report(f"{path} of an earlier run is now {free}")
        write_samples(path, trials, scenario.layout)
        file = path.open("a", encoding="utf-8", newline="", buffering=1)
    with file:
        yield file


def _is_prefix(path: Path, text: str) -> bool:
    """Return whether the complete lines of a file are the first lines of a text."""
    data = path.read_bytes()
    return text.encode().startswith(data[: data.rfind(b"\n") + 1])
