"""Keep results in a file, so that no configuration is evaluated twice."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

from typing_extensions import override

from baco_like.evaluators.protocol import Evaluator, WrappingEvaluator
from baco_like.evaluators.result_cache import ResultCache
from baco_like.exceptions import BacoWarning, EvaluatorError
from baco_like.records.trial import Outcome, Trial


class CachedEvaluator(WrappingEvaluator):
    """Answers known configurations from a cache, and keeps the results of the inner evaluator.

    It keeps values and the failures that would happen again (``compile``, ``constraints``, ``correctness``). An outcome
    from the cache has ``extra["cached"]``; its timings are those of the original evaluation. Not for runs with
    ``noise="repeat"``, which need new measurements of the same configuration.

    Args:
        inner: Evaluates unknown configurations.
        cache: The known results. If its file cannot be read or written, the evaluator warns and continues.
    """

    def __init__(self, inner: Evaluator, cache: ResultCache) -> None:
        super().__init__(inner)
        self._cache = cache
        self._known: list[Outcome] = []
        self._problem: EvaluatorError | None = None
        self._has_warned = False

    @override
    def submit(self, trial: Trial) -> None:
        """Look a trial up, or pass it to the inner evaluator. If the cache fails, one warning says so."""
        try:
            outcome = self._cache.find(trial)
        except EvaluatorError as error:
            outcome, self._problem = None, error
        if outcome is None:
            super().submit(trial)
        else:
            extra = {**outcome.extra, "cached": True}
            self._known.append(replace(outcome, trial_id=trial.id, extra=extra))
        self._warn()

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
        self._warn()

    def _warn(self) -> None:
        if self._problem is not None and not self._has_warned:
            self._has_warned = True
            text = f"{self._problem}; the run continues without it"
            warnings.warn(text, BacoWarning, stacklevel=3)

    @override
    def _convert_outcome(self, trial: Trial, outcome: Outcome) -> Outcome:
        """Write an outcome to the cache and return it.

        The next `submit` or `close` warns of an error of the file. A warning that is turned into an error would lose
        outcomes here.
        """
        try:
            self._cache.keep(trial.with_outcome(outcome))
        except EvaluatorError as error:
            self._problem = error
        return outcome
