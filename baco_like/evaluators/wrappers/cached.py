"""Results that are kept in a file, so that no configuration is evaluated twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from baco_like.evaluators.protocol import Evaluator, collected
from baco_like.evaluators.result_cache import ResultCache
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome, Trial


class CachedEvaluator:
    """Answers what the cache knows, and keeps what the inner evaluator returns.

    Kept are values and the failures that would come again (``compile``, ``constraints``, ``correctness``). An outcome
    from the cache has ``extra["cached"]``; its timings are those of the evaluation. Not for runs with
    ``noise="repeat"``, which want a new measurement of the same configuration.

    Args:
        inner: Evaluates what is not known.
        cache: What is known.
    """

    def __init__(self, inner: Evaluator, cache: ResultCache) -> None:
        self.inner = inner
        self._cache = cache
        self._known: deque[Outcome] = deque()
        self._flying: dict[int, Trial] = {}
        self._error: EvaluatorError | None = None

    @property
    def capacity(self) -> int:
        """That of the inner evaluator."""
        return self.inner.capacity

    def submit(self, trial: Trial) -> None:
        """Look a trial up, or hand it on.

        Raises:
            EvaluatorError: The file cannot be read, or a result could not be written.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error
        found = self._cache.find(trial)
        if found is None:
            self.inner.submit(trial)
            self._flying[trial.id] = trial
        else:
            extra = {**found.extra, "cached": True}
            self._known.append(replace(found, trial_id=trial.id, extra=extra))

    def wait(self) -> Sequence[Outcome]:
        """Return what was known, or else wait for the inner evaluator."""
        if self._known:
            known = list(self._known)
            self._known.clear()
            return known
        return self._kept(self.inner.wait())

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return what was known, and what the inner evaluator has left."""
        known = list(self._known)
        self._known.clear()
        return [*known, *self._kept(collected(self.inner, timeout))]

    def close(self) -> None:
        """Close the inner evaluator; the file stays."""
        self._known.clear()
        self._flying.clear()
        self.inner.close()

    def _kept(self, outcomes: Sequence[Outcome]) -> Sequence[Outcome]:
        """Keep outcomes and return them; what goes wrong is told by the next `submit`, so that none is lost."""
        for outcome in outcomes:
            trial = self._flying.pop(outcome.trial_id).with_outcome(outcome)
            try:
                self._cache.keep(trial)
            except EvaluatorError as error:
                self._error = error
        return outcomes
