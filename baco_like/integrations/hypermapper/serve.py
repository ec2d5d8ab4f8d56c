"""``baco-like serve``: a compiler that was written for HyperMapper or BaCO drives us over stdin and stdout."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from baco_like.exceptions import RunFileError
from baco_like.integrations.hypermapper.conversation import Conversation
from baco_like.integrations.hypermapper.csv_files import csv_text, observe_rows, read_csv, write_csv
from baco_like.integrations.hypermapper.scenario import Scenario, read_scenario
from baco_like.integrations.hypermapper.streams import (
    Report,
    also_in,
    named_errors,
    protocol_streams,
    to_stderr,
)
from baco_like.optimizer import Optimizer
from baco_like.optimizer.setup import default_first
from baco_like.records.trial import Outcome, Trial
from baco_like.running.lock import sole_runner
from baco_like.strategies import default_settings


def run(source: Path, seed: int, strategy: str | None, journal: Path | None) -> None:
    """Do what ``baco-like serve`` does.

    Raises:
        BacoError: As `serve` and `read_scenario` say; ``strategy`` is unknown.
    """
    with protocol_streams() as (incoming, outgoing):
        scenario = read_scenario(source)
        try:
            default_settings(strategy or scenario.strategy)
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
    old: tuple[list[dict[str, Any]], list[Outcome]] = ([], [])
    if scenario.resume is not None:
        old = read_csv(scenario.resume, scenario.layout)
    _optimizer(scenario, seed, strategy, None)  # its checks, before anything is written
    with contextlib.ExitStack() as stack:
        with named_errors(scenario.output):
            scenario.output.parent.mkdir(parents=True, exist_ok=True)
        stack.enter_context(sole_runner(scenario.output))
        stack.enter_context(sole_runner(journal))
        report = stack.enter_context(also_in(scenario.log, report))
        for note in scenario.notes:
            report(note)
        optimizer = _optimizer(scenario, seed, strategy, journal)
        if not optimizer.trials:
            outside = observe_rows(optimizer, *old)
            if outside:
                report(f"{outside} of {len(old[0])} rows to go on from are not in the space")
        samples = stack.enter_context(_samples(scenario, optimizer.trials, report))
        run = Conversation(scenario, optimizer, incoming, outgoing, samples, report)
        reason = run.whole()
        report(f"ended: {reason}; {_summary(optimizer.best)}, all rows are in {scenario.output}")
    return reason


def _optimizer(
    scenario: Scenario, seed: int, strategy: str | None, journal: Path | None
) -> Optimizer:
    name = strategy or scenario.strategy
    wanted = {"initial": max(1, scenario.design), "design": scenario.sampling}
    known = default_settings(name)
    return Optimizer(
        scenario.space,
        "minimize",
        seed,
        objective=scenario.layout.objective,
        budget=scenario.evaluations,
        strategy=name,
        settings={key: value for key, value in wanted.items() if key in known},
        initial=default_first(scenario.space),  # that it cannot run is among the scenario's notes
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
    with named_errors(path):
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
