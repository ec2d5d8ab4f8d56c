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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from baco_like._optional import require
from baco_like.exceptions import BacoWarning
from baco_like.integrations.kernel_tuner.strategy import BacoStrategy
from baco_like.strategies import STRATEGIES

kernel_tuner = require("kernel_tuner", "kernel-tuner")

__all__ = ["STRATEGY_NAMES", "tune_cache", "tune_kernel"]

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
        ValueError: The strategy or a setting does not exist.
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
                f"effect here; for settings of ours write strategy=BacoStrategy({ours!r}, settings={{...}})"
            )
        return BacoStrategy(STRATEGY_NAMES[strategy], batch=batch), common
    if strategy not in STRATEGIES:
        raise ValueError(
            f"strategy = {strategy!r} has no equal here: omit it for the recommended strategy, or use one of "
            f"{', '.join(sorted({*STRATEGY_NAMES, *STRATEGIES}))}"
        )
    return BacoStrategy(strategy, settings=own, batch=batch), common


def _warn(message: str) -> None:
    # The frames are _warn, _choose_strategy, tune_kernel and the user's script.
    warnings.warn(message, BacoWarning, stacklevel=4)
