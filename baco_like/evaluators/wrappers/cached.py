"""Keep results in a file, so that no configuration is evaluated twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from typing_extensions import override

from baco_like.evaluators.protocol import Evaluator, WrappingEvaluator
from baco_like.evaluators.result_cache import ResultCache
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome, Trial


class CachedEvaluator(WrappingEvaluator):
    """Answers known configurations from a cache, and keeps the results of the inner evaluator.

    It keeps values and the failures that would happen again (``compile``, ``constraints``, ``correctness``). An outcome
    from the cache has ``extra["cached"]``; its timings are those of the original evaluation. Not for runs with
    ``noise="repeat"``, which need new measurements of the same configuration.

    Args:
        inner: Evaluates unknown configurations.
        cache: The known results.
    """

    def __init__(self, inner: Evaluator, cache: ResultCache) -> None:
        super().__init__(inner)
        self._cache = cache
        self._known: list[Outcome] = []
        self._error: EvaluatorError | None = None

    @override
    def submit(self, trial: Trial) -> None:
        """Look a trial up, or pass it to the inner evaluator.

        Raises:
            EvaluatorError: The file cannot be read, or an earlier result could not be written.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error
        outcome = self._cache.find(trial)
        if outcome is None:
            super().submit(trial)
        else:
            extra = {**outcome.extra, "cached": True}
            self._known.append(replace(outcome, trial_id=trial.id, extra=extra))

    @override
    def wait(self) -> Sequence[Outcome]:
        """Return the outcomes from the cache, otherwise wait for the inner evaluator."""
        known, self._known = self._known, []
        return known or super().wait()

    @override
    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Return the outcomes from the cache, and what the inner evaluator has left."""
        known, self._known = self._known, []
        return [*known, *super().collect(timeout)]

    @override
    def close(self) -> None:
        """Close the inner evaluator; the file stays."""
        self._known.clear()
        super().close()

    @override
    def _convert_outcome(self, trial: Trial, outcome: Outcome) -> Outcome:
        """Write an outcome to the cache and return it.

        The next `submit` raises an error of the file: raised here, it would lose outcomes.
        """
        try:
            self._cache.keep(trial.with_outcome(outcome))
        except EvaluatorError as error:
            self._error = error
        return outcome
