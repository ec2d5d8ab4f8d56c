"""Our optimizer as a strategy of Kernel Tuner, which compiles, checks and times the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from baco_like.exceptions import MissingExtra, SpaceExhausted
from baco_like.integrations.listed_space import Row, Translation, translation
from baco_like.journal.header import whole
from baco_like.optimizer import Optimizer
from baco_like.records.trial import Trial
from baco_like.results.kernel_tuner_cache import cache_outcome
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

try:
    from kernel_tuner.searchspace import Searchspace
    from kernel_tuner.strategies.common import CostFunc
    from kernel_tuner.strategies.wrapper import OptAlg, OptAlgWrapper
except ImportError:
    raise MissingExtra("kernel_tuner", "kernel-tuner") from None

__all__ = ["BacoStrategy"]


class BacoStrategy(OptAlg):  # type: ignore[misc]  # Kernel Tuner has no types
    """A strategy for ``kernel_tuner.tune_kernel(strategy=BacoStrategy())``, ``tune_cache`` and T1 files.

    Every suggestion is new and satisfies the restrictions; what failed is learnt with its kind. The run ends by
    ``max_fevals``, ``time_limit``, or when every configuration was evaluated. ``x0`` of the strategy options is
    evaluated first. The same seed, ``max_fevals`` and results give the same run, so one that goes on from Kernel
    Tuner's cache file repeats what is there, and continues.

    Args:
        strategy: A registered name, or a strategy object.
        settings: The named strategy's own settings.
        seed: Of the suggestions; None is the ``seed`` that ``tune_kernel`` was given, else 0.
        batch: How many configurations Kernel Tuner gets at once; None is one for each worker of its runner.

    Attributes:
        optimizer: Of the latest run: its trials, and the model (``predict``, ``recommend``). None before the first.

    Raises:
        ValueError: There is no such strategy or setting, or ``batch`` is no whole number from 1.
    """

    def __init__(
        self,
        strategy: str | Strategy[Any] = "auto",
        *,
        settings: Mapping[str, Any] | None = None,
        seed: int | None = None,
        batch: int | None = None,
    ) -> None:
        super().__init__()
        self.constraint_aware = False  # what is suggested needs no repair
        self.optimizer: Optimizer | None = None
        self._strategy, self._settings, self._seed = strategy, settings, seed
        self._batch = None if batch is None else whole("batch", batch, 1)
        self._optimizer(Space({"any": [0, 1]}), "minimize", 0, None)  # its checks come now

    def tune(self, searchspace: Searchspace, runner: Any, tuning_options: Any) -> list[Any]:
        """Return the rows that Kernel Tuner reports; it calls this.

        Raises:
            ValueError: There are several objectives.
        """
        rows: list[Any] = OptAlgWrapper(self).tune(searchspace, runner, tuning_options)
        return rows

    @override
    def __call__(self, func: CostFunc, searchspace: Searchspace) -> tuple[Row, float] | None:
        """Evaluate suggestions until Kernel Tuner's budget is spent or nothing is left.

        Returns:
            The best configuration and its objective, or None if nothing could run.

        Raises:
            ValueError: There are several objectives.
            StopCriterionReached: The budget is spent; Kernel Tuner catches it.
        """
        options = func.tuning_options
        if len(options.objective) > 1:
            raise ValueError(
                f"objectives = {list(options.objective)}: BacoStrategy optimizes one; name the one that counts"
            )
        words = translation(options.tune_params, options.restrictions_unmodified, searchspace.list)
        self.optimizer = self._begun(words, options)
        while self._step(self.optimizer, func, words):
            pass
        best = self.optimizer.best
        return None if best is None or best.value is None else (words.row(best), best.value)

    def _begun(self, words: Translation, options: Any) -> Optimizer:
        """Return the optimizer of a run, with the user's ``x0`` as its first suggestion."""
        given, (maximise,) = options.strategy_options, options.objective_higher_is_better
        seed = self._seed if self._seed is not None else options.get("seed")
        optimizer = self._optimizer(
            words.space,
            "maximize" if maximise else "minimize",
            0 if seed is None else seed,
            given.get("max_fevals"),
        )
        if given.get("x0") is not None:
            optimizer.enqueue(words.config(given["x0"]))
        return optimizer

    def _optimizer(self, space: Space, direction: Any, seed: int, budget: int | None) -> Optimizer:
        return Optimizer(
            space,
            direction,
            seed,
            budget=budget,
            strategy=self._strategy,
            settings=self._settings,
        )

    def _step(self, optimizer: Optimizer, func: CostFunc, words: Translation) -> bool:
        """Evaluate the next batch, and return whether anything came of it.

        Whatever ends it early, an interrupt or an error of the kernel too, what has a result by then is recorded.
        """
        budget = func.tuning_options.budget
        budget.raise_exception_if_done()
        batch = self._batch if self._batch is not None else _workers(func.runner)
        try:
            trials = optimizer.suggest(min(batch, budget.get_evaluations_remaining()))
        except SpaceExhausted:
            return False
        rows = [words.row(trial) for trial in trials]
        try:
            func.eval_all(rows, check_restrictions=False)
        finally:
            recorded = _record(optimizer, func, trials, rows)
        return recorded > 0


def _workers(runner: Any) -> int:
    """Return how many configurations a runner evaluates at once; those before Kernel Tuner 1.5 do not say."""
    told = getattr(runner, "available_parallelism", None)
    return 1 if told is None else int(told())


def _record(
    optimizer: Optimizer, func: CostFunc, trials: Sequence[Trial], rows: Sequence[Row]
) -> int:
    """Observe the trials that have a result, and return how many; the budget did not reach to the others."""
    (objective,) = func.tuning_options.objective
    recorded = 0
    for trial, row in zip(trials, rows, strict=True):
        result = func.unique_results.get(",".join(map(str, row)))
        if result is None:
            optimizer.abandon(trial, "Kernel Tuner has not evaluated it")
            continue
        outcome = cache_outcome(result, optimizer.space.names, objective)
        optimizer.observe(
            trial,
            outcome.value,
            failed=outcome.failed,
            message=outcome.message,
            extra={"repeats": list(outcome.repeats), "seconds": {}, **outcome.extra},
        )
        recorded += 1
    return recorded
