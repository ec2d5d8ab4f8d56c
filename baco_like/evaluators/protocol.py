"""Evaluators run configurations; they know nothing of whoever decides what to run.

A build, a launch, a check or a limit that fails is an outcome with its word, never an exception;
an exception (`EvaluatorError`) says that the evaluator itself is broken and ends the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from baco_like.records.trial import Outcome, Trial


class Evaluator(Protocol):
    """Runs trials, one or many at a time."""

    @property
    def capacity(self) -> int:
        """How many trials may be in flight at once, at least 1."""

    def submit(self, trial: Trial) -> None:
        """Start (or queue) the evaluation of a trial."""

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one submitted trial is done; return the outcomes of all that are."""

    def close(self) -> None:
        """Stop what is running, with its children, and remove what was made; idempotent."""


@runtime_checkable
class Collector(Protocol):
    """What an evaluator that runs many trials at once may offer besides: what is done when a run breaks off."""

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Take back what has not started, and return the outcomes that `Evaluator.wait` has not returned.

        Args:
            timeout: Seconds to wait for what is running; None is as long as it takes.
        """


@runtime_checkable
class SourceProvider(Protocol):
    """What an evaluator may offer besides: the source of a configuration's program."""

    @property
    def source_name(self) -> str:
        """File name for the source, such as ``matmul.c``."""

    def source(self, config: Mapping[str, Any]) -> str:
        """Return the source for one configuration of the space.

        Raises:
            EvaluatorError: There is no correct program for it.
        """


def collected(evaluator: Evaluator, timeout: float | None) -> Sequence[Outcome]:
    """Return what an evaluator has left when a run breaks off; nothing where it is no `Collector`."""
    return evaluator.collect(timeout) if isinstance(evaluator, Collector) else ()


def unwrapped(evaluator: Evaluator) -> Evaluator:
    """Return the evaluator within all wrappers: each has what it wraps in its attribute ``inner``."""
    while (inner := getattr(evaluator, "inner", None)) is not None:
        evaluator = inner
    return evaluator
