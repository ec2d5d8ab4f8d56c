"""The evaluator protocol: evaluators run configurations and do not know who chooses them.

A failed build, launch or check, and an exceeded limit, are outcomes with a failure word. An `EvaluatorError` means
that the evaluator itself is broken; it ends the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from baco_like._tables import TEXT, Key
from baco_like.records.trial import Outcome, Trial

if TYPE_CHECKING:  # else every start of a worker imports the spaces
    from baco_like.spaces.space import Space

KIND = Key("kind", TEXT, "What runs the configurations")
"""The key that every table of an evaluator has."""


@dataclass(frozen=True)
class RunArguments:
    """The arguments that a run passes to its evaluator, in addition to the ``[evaluator]`` table.

    Attributes:
        space: The space.
        unit: The objective's unit.
        folder: Folder of the run file.
        environment: Environment variables of the processes that measure, of a device slot; None without slots.
    """

    space: Space
    unit: str
    folder: Path
    environment: Mapping[str, str] | None = None


class Evaluator(Protocol):
    """Runs trials, one or several at a time."""

    @property
    def capacity(self) -> int:
        """Largest number of pending trials, at least 1; it may change as workers come and go."""

    def submit(self, trial: Trial) -> None:
        """Start (or queue) the evaluation of a trial."""

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one outcome exists, and return the outcomes of all finished trials.

        If `capacity` has grown meanwhile, it may return none, so that the caller can submit more trials.

        Raises:
            EvaluatorError: No trial is submitted, or the evaluator is broken.
        """

    def close(self) -> None:
        """Stop and drop everything, and remove all temporary files.

        It may be called again, and new trials may follow.
        """


@runtime_checkable
class Collector(Protocol):
    """Optional method of an evaluator that runs several trials at a time: collect outcomes when a run breaks off."""

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Cancel trials that have not started, and return the outcomes that `Evaluator.wait` has not returned.

        Args:
            timeout: Seconds to wait for running trials; None to wait for their end.
        """


@runtime_checkable
class LateCollector(Protocol):
    """Optional method of an evaluator that gives trials up: results that come after all."""

    def take_late(self) -> Sequence[Trial]:
        """Return trials with outcomes that came after the trial was given up or had another outcome, each once."""


@runtime_checkable
class SourceProvider(Protocol):
    """Optional methods of an evaluator that generates programs: the source of a configuration."""

    @property
    def source_name(self) -> str:
        """File name of the source, such as ``matmul.c``."""

    def source(self, config: Mapping[str, Any]) -> str:
        """Return the source of a configuration.

        Raises:
            EvaluatorError: The configuration has no correct program.
        """


@runtime_checkable
class HistoryAware(Protocol):
    """Optional method of an evaluator whose measurements depend on earlier ones, such as on the best value."""

    def recall(self, trials: Sequence[Trial], fidelity: str | None = None) -> None:
        """Learn the trials that the run has observed before, so that a resumed run continues as one run.

        Args:
            trials: The observed trials, in order of arrival.
            fidelity: Name of the fidelity parameter, whose levels cannot be compared, or None.
        """


def recall_history(
    evaluator: Evaluator | None, trials: Sequence[Trial], fidelity: str | None = None
) -> None:
    """Show the observed trials to each `HistoryAware` layer of an evaluator and its wrappers."""
    while evaluator is not None:
        if isinstance(evaluator, HistoryAware):
            evaluator.recall(trials, fidelity)
        evaluator = getattr(evaluator, "inner", None)


def collect_rest(evaluator: Evaluator, timeout: float | None) -> Sequence[Outcome]:
    """Return the outcomes that an evaluator has left when a run breaks off; none if it is not a `Collector`."""
    return evaluator.collect(timeout) if isinstance(evaluator, Collector) else ()


def take_late(evaluator: Evaluator) -> Sequence[Trial]:
    """Return the late results of an evaluator; none if it is not a `LateCollector`."""
    return evaluator.take_late() if isinstance(evaluator, LateCollector) else ()


def find_innermost(evaluator: Evaluator) -> list[Evaluator]:
    """Return the evaluators inside all wrappers: one, or one for each device slot."""
    inside = getattr(evaluator, "parts", None) or [getattr(evaluator, "inner", None)]
    found = [e for inner in inside if inner is not None for e in find_innermost(inner)]
    return found or [evaluator]


def unwrap(evaluator: Evaluator) -> Evaluator:
    """Return the evaluator inside all wrappers; of several device slots the first one."""
    return find_innermost(evaluator)[0]
