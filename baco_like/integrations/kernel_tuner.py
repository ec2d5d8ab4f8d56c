"""Kernel Tuner's own functions with the strategies of this package: a script changes its import and nothing else.

Write ``from baco_like.integrations.kernel_tuner import tune_kernel`` in place of
``from kernel_tuner import tune_kernel``. Kernel Tuner still compiles, checks and times the kernels; this package
decides which configuration is next. All other names of `kernel_tuner`, such as ``run_kernel``, can be imported from
here too; they are Kernel Tuner's.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._optional import needs_extra
from baco_like.exceptions import BacoWarning, SpaceExhausted
from baco_like.integrations._shared import ForeignRow, ListedSpace, check_options, read_listed_space
from baco_like.journal import Journal
from baco_like.optimizer import Optimizer, Search
from baco_like.records import Outcome, Trial
from baco_like.records.objective import Direction
from baco_like.records.objective_values import finite_number
from baco_like.results.tuner_json import cache_outcome
from baco_like.strategies import Strategy
from baco_like.strategies.registry import REGISTRY

with needs_extra("kernel_tuner", "kernel-tuner"):
    import kernel_tuner
    from kernel_tuner.searchspace import Searchspace
    from kernel_tuner.strategies.common import CostFunc
    from kernel_tuner.strategies.wrapper import OptAlg, OptAlgWrapper

__all__ = ["STRATEGY_NAMES", "BacoStrategy", "tune_cache", "tune_kernel"]

STRATEGY_NAMES: Mapping[str, str] = {
    "basinhopping": "basin_hopping",
    "bayes_opt": "kernel_tuner_bo",
    "brute_force": "exhaustive",
    "diff_evo": "differential_evolution",
    "dual_annealing": "dual_annealing",
    "firefly_algorithm": "firefly",
    "genetic_algorithm": "genetic_algorithm",
    "greedy_ils": "iterated_local_search",
    "greedy_mls": "multi_start_local_search",
    "mls": "multi_start_local_search",
    "nsga2": "nsga2",
    "ordered_greedy_mls": "multi_start_local_search",
    "pso": "particle_swarm",
    "random_sample": "random_search",
    "simulated_annealing": "simulated_annealing",
    "skopt": "random_forest",
}
"""Maps Kernel Tuner's name of a strategy to the closest strategy of this package."""

_COMMON_OPTIONS = ("max_fevals", "time_limit", "x0", "searchspace_construction_options")
"""Strategy options that Kernel Tuner itself or every strategy of this package reads."""

_Results = tuple[list[dict[str, Any]], dict[str, Any]]


def tune_kernel(
    *args: Any,
    strategy: Any = None,
    strategy_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> _Results:
    """Run `kernel_tuner.tune_kernel` with a strategy of this package.

    Args:
        *args: As for Kernel Tuner.
        strategy: A strategy name of Kernel Tuner (see `STRATEGY_NAMES`) or of this package, or an object that Kernel
            Tuner accepts. None uses ``auto`` if there is a budget, else evaluates everything, as Kernel Tuner does.
        strategy_options: As for Kernel Tuner, plus ``batch``. A strategy name that only this package has also accepts
            that strategy's settings. Other options of a Kernel Tuner strategy have no effect and cause a warning.
        **kwargs: As for Kernel Tuner.

    Returns:
        The results and the environment, as from Kernel Tuner.

    Raises:
        ValueError: The strategy, an option or a setting does not exist.
    """
    chosen, options = _choose_strategy(strategy, strategy_options or {})
    with _all_workers(chosen):
        results: _Results = kernel_tuner.tune_kernel(
            *args, strategy=chosen, strategy_options=options, **kwargs
        )
    return results


def tune_cache(
    cache_path: str | os.PathLike[str],
    restrictions: list[Any] | None = None,
    *,
    strategy: Any = None,
    strategy_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> _Results:
    """Run `kernel_tuner.tune_cache`, a simulation from a cache file, with a strategy of this package.

    Arguments and errors are the same as in `tune_kernel`. Kernel Tuner skips failed entries of the file.
    """
    chosen, options = _choose_strategy(strategy, strategy_options or {})
    results: _Results = kernel_tuner.tune_cache(
        os.fspath(cache_path), restrictions, strategy=chosen, strategy_options=options, **kwargs
    )
    return results


def __getattr__(name: str) -> Any:
    return getattr(kernel_tuner, name)


@contextmanager
def _all_workers(strategy: Any) -> Iterator[None]:
    """Let the parallel runner of Kernel Tuner 1.5 give all its workers to a strategy of this package.

    The runner gives a single worker to every strategy that is missing in its own list.
    """
    parallel = getattr(
        importlib.import_module("kernel_tuner.interface"), "_STRATEGY_PARALLEL", None
    )
    if not isinstance(parallel, list) or not isinstance(strategy, BacoStrategy):
        yield
        return
    parallel.append(strategy)
    try:
        yield
    finally:
        parallel.remove(strategy)


def _choose_strategy(strategy: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the strategy object for Kernel Tuner, and the options that Kernel Tuner still has to read."""
    common = {name: value for name, value in options.items() if name in _COMMON_OPTIONS}
    own = {name: value for name, value in options.items() if name not in _COMMON_OPTIONS}
    limited = any(common.get(name) is not None for name in ("max_fevals", "time_limit"))
    if strategy is None:
        strategy = "auto" if limited else "exhaustive"
    if not isinstance(strategy, str):
        return strategy, dict(options)
    batch = own.pop("batch", None)
    if strategy in STRATEGY_NAMES:
        known = _options_of(strategy)
        if known is not None and (unknown := [name for name in own if name not in known]):
            raise ValueError(
                f"strategy_options {', '.join(unknown)}: {strategy!r} of Kernel Tuner has no such option; it has "
                f"{', '.join([*known, *_COMMON_OPTIONS, 'batch'])}; for settings of ours write "
                f"strategy=BacoStrategy(Search({STRATEGY_NAMES[strategy]!r}, {{...}}))"
            )
        if not limited and {"popsize", "maxiter"} <= own.keys():
            common["max_fevals"] = own.pop("popsize") * own.pop("maxiter")
        elif not limited:
            _warn(
                f"strategy {strategy!r} without max_fevals or time_limit measures every configuration here, while "
                "Kernel Tuner's own may end sooner; give one of these strategy_options"
            )
        if own:
            ours = STRATEGY_NAMES[strategy]
            _warn(
                f"strategy_options {', '.join(own)} of {strategy!r} belong to Kernel Tuner's strategy and have no "
                f"effect here; for settings of ours write strategy=BacoStrategy(Search({ours!r}, {{...}}))"
            )
        return BacoStrategy(STRATEGY_NAMES[strategy], batch=batch), common
    if strategy not in REGISTRY:
        raise ValueError(
            f"strategy = {strategy!r} has no equal here: omit it for the recommended strategy, or use one of "
            f"{', '.join(sorted({*STRATEGY_NAMES, *REGISTRY.names}))}"
        )
    return BacoStrategy(Search(strategy, own), batch=batch), common


def _options_of(strategy: str) -> list[str] | None:
    """Return the options of a strategy of Kernel Tuner; None if this cannot be found out."""
    modules = getattr(importlib.import_module("kernel_tuner.interface"), "strategy_map", {})
    try:  # packages of the strategy may be missing
        return list(modules[strategy]._options)
    except (ImportError, KeyError, AttributeError):
        return None


def _warn(message: str) -> None:
    # The frames are _warn, _choose_strategy, tune_kernel and the user's script.
    warnings.warn(message, BacoWarning, stacklevel=4)


class BacoStrategy(OptAlg):  # type: ignore[misc]  # Kernel Tuner has no types
    """A strategy for ``kernel_tuner.tune_kernel(strategy=BacoStrategy())``, ``tune_cache`` and T1 files.

    Every suggestion is new and satisfies the restrictions; the strategy learns from each kind of failure. The run ends
    after ``max_fevals`` evaluations, after ``time_limit``, or when every configuration is evaluated. ``x0`` of the
    strategy options is evaluated first. The same seed, ``max_fevals`` and results give the same run. A run on an
    existing cache file of Kernel Tuner therefore repeats its evaluations from the file and continues after them.

    Args:
        strategy: A registered name, a strategy object, or a `Search` with settings.
        seed: Seed of the suggestions; None takes the ``seed`` of ``tune_kernel``, else 0.
        batch: Configurations passed to Kernel Tuner at once; None passes one for each worker of its runner.
        warm_start: Results of earlier runs, as for `Optimizer`; they are read when Kernel Tuner starts the run.
        storage: A journal, as for `Optimizer`, or a run on a server, which several machines tune together.

    Attributes:
        optimizer: The optimizer of the latest run: its trials and its model (``predict``, ``recommend``). None before
            the first run.

    Raises:
        ValueError: The strategy or a setting does not exist, or ``batch`` is not an integer from 1.
    """

    def __init__(
        self,
        strategy: str | Strategy[Any] | Search = "auto",
        *,
        seed: int | None = None,
        batch: int | None = None,
        warm_start: Any = None,
        storage: str | os.PathLike[str] | Journal | None = None,
    ) -> None:
        super().__init__()
        self.constraint_aware = False  # suggestions are feasible, Kernel Tuner need not repair them
        self.optimizer: Optimizer | None = None
        self._options = {**check_options(strategy, warm_start), "storage": storage}
        self._seed = seed
        self._batch = None if batch is None else whole_number("batch", batch, 1)

    def tune(self, searchspace: Searchspace, runner: Any, tuning_options: Any) -> list[Any]:
        """Return the rows that Kernel Tuner reports; Kernel Tuner calls this.

        Raises:
            StrategyError: There are several objectives, and the strategy optimises one.
        """
        rows: list[Any] = OptAlgWrapper(self).tune(searchspace, runner, tuning_options)
        return rows

    @override
    def __call__(self, func: CostFunc, searchspace: Searchspace) -> tuple[ForeignRow, float] | None:
        """Evaluate suggestions until Kernel Tuner's budget is spent or the space is exhausted.

        Returns:
            The best configuration and its objective, or None if every evaluation failed. With several objectives the
            knee of the front and its first objective.

        Raises:
            StrategyError: There are several objectives, and the strategy optimises one.
            ConfigError: No result of a warm start belongs to the space.
            StopCriterionReached: The budget is spent; Kernel Tuner catches it.
        """
        options = func.tuning_options
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
        directions: list[Direction] = [
            "maximize" if is_higher_better else "minimize"
            for is_higher_better in options.objective_higher_is_better
        ]
        # Journals of one objective have its default name.
        names = options.objective if len(directions) > 1 else ["value"]
        strategy_options = options.strategy_options
        seed = options.get("seed") if self._seed is None else self._seed
        optimizer = Optimizer(
            listed.space,
            dict(zip(names, directions, strict=True)),
            0 if seed is None else seed,
            budget=strategy_options.get("max_fevals"),
            **self._options,
        )
        if strategy_options.get("x0") is not None:
            first = listed.to_config(strategy_options["x0"])
            if not (optimizer.trials or optimizer.pending):  # else the run was begun before
                optimizer.enqueue(first)
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
    objective, *further = func.tuning_options.objective
    observed = 0
    for trial, row in zip(trials, rows, strict=True):
        result = func.unique_results.get(",".join(map(str, row)))
        if result is None:  # the budget was spent before
            optimizer.abandon(trial, "Kernel Tuner has not evaluated it")
            continue
        outcome = cache_outcome(result, optimizer.space.names, objective)
        values = {optimizer.options.aim.first.name: outcome.value}
        values |= {name: finite_number(result.get(name)) for name in further}
        if outcome.value is not None and None in values.values():
            name = next(name for name, value in values.items() if value is None)
            outcome = Outcome.failure(trial.id, "runtime", f"{name} = {result.get(name)!r:.200}")
        optimizer.observe(
            trial,
            values if outcome.value is not None else None,
            failed=outcome.failed,
            message=outcome.message,
            extra={"repeats": list(outcome.repeats), "seconds": {}, **outcome.extra},
        )
        observed += 1
    return observed
