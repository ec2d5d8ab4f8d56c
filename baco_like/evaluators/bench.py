"""What an evaluator is made of that goes through stages: build a configuration, then measure what was built.

`baco_like.evaluators.staged.StagedEvaluator` makes an evaluator of a bench: it decides how often is measured and when
builds are made ahead. A bench knows how; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from baco_like.records.trial import Outcome, Trial


class StageFailure(Exception):
    """A stage has failed: the trial's outcome, on its way out.

    Args:
        word: The failure word.
        message: The stage and what happened.
        bound: Where a run was stopped: the value is at least this, in the objective's unit.
        repeats: What this call had measured before.
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
        """Return the outcome of the trial."""
        if self.bound is not None:
            return Outcome.censored(trial_id, self.bound, self.word, self.message, extra=extra)
        return Outcome.failure(trial_id, self.word, self.message, extra=extra)


class Built(Protocol):
    """A configuration that is built and waits to be measured."""

    def measure(self, count: int, limit: float | None) -> tuple[float, ...]:
        """Measure it again, after what has to come first (a warm-up, the check of its result).

        Args:
            count: How often, at least 1.
            limit: In the objective's unit, smaller being better. More of it is not worth measuring: a run that has
                taken so long may be stopped (`StageFailure` with a bound), and no other be started.

        Returns:
            The measured values, ``count`` of them or fewer, at least one; the last may be above ``limit``.

        Raises:
            StageFailure: The run, or the check of its result, has failed.
        """

    def discard(self) -> None:
        """Remove what was made; idempotent."""


class Bench(Protocol):
    """Builds configurations. Several threads may build at once, one measures."""

    def build(self, trial: Trial, seconds: dict[str, float]) -> Built:
        """Build a configuration.

        Args:
            trial: The configuration.
            seconds: Wall time by stage (``compile``, ``run``, ``check``); this call and those of what it returns add
                theirs, failed or not.

        Raises:
            StageFailure: The build has failed; nothing of it is left.
            EvaluatorError: Nothing can be built at all.
        """

    def close(self) -> None:
        """End builds that are running, and remove what was made for all of them; the next `build` makes it again.

        It may be called again and again until builds in other threads have ended.
        """
