"""This package's optimizer as a strategy of Kernel Tuner, which compiles, checks and times the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like.exceptions import MissingExtra, SpaceExhausted
from baco_like.integrations._shared.listed_space import (
    ForeignRow,
    ListedSpace,
    read_listed_space,
)
from baco_like.integrations._shared.options import check_options
from baco_like.optimizer import Optimizer
from baco_like.records.trial import Trial
from baco_like.results.kernel_tuner_cache import cache_outcome
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

    Every suggestion is new and satisfies the restrictions; the strategy learns from each kind of failure. The run ends
    after ``max_fevals`` evaluations, after ``time_limit``, or when every configuration is evaluated. ``x0`` of the
    strategy options is evaluated first. The same seed, ``max_fevals`` and results give the same run. A run on an
    existing cache file of Kernel Tuner therefore repeats its evaluations from the file and continues after them.

    Args:
        strategy: A registered name, or a strategy object.
        settings: Settings of the named strategy.
        seed: Seed of the suggestions; None takes the ``seed`` of ``tune_kernel``, else 0.
        batch: Configurations passed to Kernel Tuner at once; None passes one for each worker of its runner.

    Attributes:
        optimizer: The optimizer of the latest run: its trials and its model (``predict``, ``recommend``). None before
            the first run.

    Raises:
        ValueError: The strategy or a setting does not exist, or ``batch`` is not an integer from 1.
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
        self.constraint_aware = False  # suggestions are feasible, Kernel Tuner need not repair them
        self.optimizer: Optimizer | None = None
        self._options: dict[str, Any] = {"strategy": strategy, "settings": settings}
        self._seed = seed
        self._batch = None if batch is None else whole_number("batch", batch, 1)
        check_options(seed=0, **self._options)

    def tune(self, searchspace: Searchspace, runner: Any, tuning_options: Any) -> list[Any]:
        """Return the rows that Kernel Tuner reports; Kernel Tuner calls this.

        Raises:
            ValueError: There are several objectives.
        """
        rows: list[Any] = OptAlgWrapper(self).tune(searchspace, runner, tuning_options)
        return rows

    @override
    def __call__(self, func: CostFunc, searchspace: Searchspace) -> tuple[ForeignRow, float] | None:
        """Evaluate suggestions until Kernel Tuner's budget is spent or the space is exhausted.

        Returns:
            The best configuration and its objective, or None if every evaluation failed.

        Raises:
            ValueError: There are several objectives.
            StopCriterionReached: The budget is spent; Kernel Tuner catches it.
        """
        options = func.tuning_options
        if len(options.objective) > 1:
            raise ValueError(
                f"objectives = {list(options.objective)}: BacoStrategy supports one; name only that one"
            )
        listed = read_listed_space(
            options.tune_params, options.restrictions_unmodified, searchspace.list
        )
        self.optimizer = self._create_optimizer(listed, options)
        while self._evaluate_batch(self.optimizer, func, listed):
            pass
        best = self.optimizer.best
        return None if best is None or best.value is None else (listed.to_row(best), best.value)

    def _create_optimizer(self, listed: ListedSpace, options: Any) -> Optimizer:
        """Return the optimizer of a run; the user's ``x0`` is its first suggestion."""
        (maximize,) = options.objective_higher_is_better
        strategy_options = options.strategy_options
        seed = options.get("seed") if self._seed is None else self._seed
        optimizer = Optimizer(
            listed.space,
            "maximize" if maximize else "minimize",
            0 if seed is None else seed,
            budget=strategy_options.get("max_fevals"),
            **self._options,
        )
        if strategy_options.get("x0") is not None:
            optimizer.enqueue(listed.to_config(strategy_options["x0"]))
        return optimizer

    def _evaluate_batch(self, optimizer: Optimizer, func: CostFunc, listed: ListedSpace) -> bool:
        """Evaluate the next batch; return whether it produced a result.

        Results are recorded also when an interrupt or an error of the kernel ends the batch early.
        """
        budget = func.tuning_options.budget
        budget.raise_exception_if_done()
        batch = self._batch
        if batch is None:  # runners before Kernel Tuner 1.5 have one worker and no such method
            batch = int(getattr(func.runner, "available_parallelism", lambda: 1)())
        try:
            trials = optimizer.suggest(min(batch, budget.get_evaluations_remaining()))
        except SpaceExhausted:
            return False
        rows = [listed.to_row(trial) for trial in trials]
        try:
            func.eval_all(rows, check_restrictions=False)
        finally:
            observed = _observe_results(optimizer, func, trials, rows)
        return observed > 0


def _observe_results(
    optimizer: Optimizer, func: CostFunc, trials: Sequence[Trial], rows: Sequence[ForeignRow]
) -> int:
    """Observe the trials that have a result, abandon the rest, and return the number of results."""
    (objective,) = func.tuning_options.objective
    observed = 0
    for trial, row in zip(trials, rows, strict=True):
        result = func.unique_results.get(",".join(map(str, row)))
        if result is None:  # the budget was spent before
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
        observed += 1
    return observed
