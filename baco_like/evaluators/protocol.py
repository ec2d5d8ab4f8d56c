"""Evaluators run configurations. They know trials and outcomes and nothing of whoever decides what to run.

A build, a launch, a check or a limit that fails is an outcome with its word, never an exception; an exception
(`EvaluatorError`) says that the evaluator itself is broken and ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from baco_like.records.trial import Outcome, Trial


class Evaluator(Protocol):
    """Runs trials, one or many at a time."""

    @property
    def capacity(self) -> int:
        """How many trials may be in flight at once, at least 1."""

    def submit(self, trial: Trial) -> None:
        """Start (or queue) the evaluation of a trial."""

    def wait(self) -> Sequence[Outcome]:
        """Block until at least one submitted trial is done, and return the outcomes of all that are."""

    def close(self) -> None:
        """Stop what is running, with its children, and remove what was made on the way. May be called twice."""
