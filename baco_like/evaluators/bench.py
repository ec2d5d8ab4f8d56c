"""The bench protocol: build a configuration, then measure it.

`baco_like.evaluators.staged.StagedEvaluator` turns a bench into an evaluator. It decides how many times to measure and
when to build ahead; the bench only builds and measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from baco_like.records.trial import Outcome, Trial


class StageFailure(Exception):
    """A stage has failed; the evaluator turns this exception into the trial's outcome.

    Args:
        word: The failure word.
        message: The stage and what happened.
        bound: Lower bound of the value, in the objective's unit, if a run was stopped at its limit.
        repeats: Values that this call had measured before the failure.
    """

    def __init__(
        self,
        word: str,
        message: str,
        *,
        bound: float | None = None,
        repeats: tuple[float, ...] = (),
    ) -> None:
        super().__init__(message)
        self.word, self.message, self.bound, self.repeats = word, message, bound, repeats

    def outcome(self, trial_id: int, extra: Mapping[str, Any]) -> Outcome:
        """Return the trial's outcome: censored if there is a bound, otherwise failed."""
        if self.bound is not None:
            return Outcome.censored(trial_id, self.bound, self.word, self.message, extra=extra)
        return Outcome.failure(trial_id, self.word, self.message, extra=extra)


class Built(Protocol):
    """A configuration that is built and can be measured."""

    def measure(self, count: int, limit: float | None) -> tuple[float, ...]:
        """Measure it; the first call also does the warm-up and checks the result.

        Args:
            count: Number of measurements, at least 1.
            limit: Largest value worth measuring, in the objective's unit (smaller is better), or None. A run that
                reaches it may be stopped (`StageFailure` with a bound), and no further run need start.

        Returns:
            The measured values, 1 to ``count``; the last may exceed ``limit``.

        Raises:
            StageFailure: The run, or the check of its result, has failed.
        """

    def discard(self) -> None:
        """Remove the built files; idempotent."""


class Bench(Protocol):
    """Builds configurations. Several threads may build at a time; one thread measures."""

    def build(self, trial: Trial, seconds: dict[str, float]) -> Built:
        """Build a configuration.

        Args:
            trial: The configuration.
            seconds: Wall time by stage (``compile``, ``run``, ``check``). This call and the calls of the returned
                object add their times, failed or not.

        Raises:
            StageFailure: The build has failed; all its files are removed.
            EvaluatorError: No configuration can be built.
        """

    def close(self) -> None:
        """End running builds and remove all files; the next `build` makes them again.

        The evaluator calls it repeatedly until the builds in other threads have ended.
        """
