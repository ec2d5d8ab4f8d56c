"""Kernel Tuner's own functions with our strategies: a script of its users changes the import and nothing else.

``from baco_like.integrations.kernel_tuner import tune_kernel`` in place of ``from kernel_tuner import tune_kernel``:
Kernel Tuner goes on compiling, checking and timing the kernels, what is tried next is decided here. All other names of
`kernel_tuner`, such as ``run_kernel``, can be imported from here too; they are Kernel Tuner's.
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

__all__ = ["EQUALS", "tune_cache", "tune_kernel"]

EQUALS: Mapping[str, str] = {
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
"""From Kernel Tuner's name of a strategy to the one here that is nearest to it."""

_COMMON = ("max_fevals", "time_limit", "x0", "searchspace_construction_options")
"""Strategy options that Kernel Tuner reads itself, or that every strategy of ours does."""


def tune_kernel(
    *args: Any,
    strategy: Any = None,
    strategy_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Do what `kernel_tuner.tune_kernel` does, with a strategy of ours.

    Args:
        *args: As there.
        strategy: Kernel Tuner's name of a strategy (see `EQUALS`), one of ours, or an object that Kernel Tuner takes.
            None is ``auto`` with a budget; without one everything is measured, as there.
        strategy_options: As there, and ``batch``. With a name that only we have also that strategy's settings; what
            Kernel Tuner's strategy of that name would read has no effect, and a warning says so.
        **kwargs: As there.

    Returns:
        The results and the environment, as there.

    Raises:
        ValueError: There is no such strategy or setting.
    """
    chosen, options = _chosen(strategy, strategy_options or {})
    with _all_workers(chosen):
        found: tuple[list[dict[str, Any]], dict[str, Any]] = kernel_tuner.tune_kernel(
            *args, strategy=chosen, strategy_options=options, **kwargs
        )
    return found


def tune_cache(
    cache_path: str | os.PathLike[str],
    restrictions: list[Any] | None = None,
    *,
    strategy: Any = None,
    strategy_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Do what `kernel_tuner.tune_cache` does, with a strategy of ours: simulate from a cache file.

    Arguments and errors are those of `tune_kernel`. Kernel Tuner leaves out what has failed in the file.
    """
    chosen, options = _chosen(strategy, strategy_options or {})
    found: tuple[list[dict[str, Any]], dict[str, Any]] = kernel_tuner.tune_cache(
        os.fspath(cache_path),
        restrictions,
        strategy=chosen,
        strategy_options=options,
        **kwargs,
    )
    return found


def __getattr__(name: str) -> Any:
    return getattr(kernel_tuner, name)


@contextmanager
def _all_workers(strategy: Any) -> Iterator[None]:
    """Let the parallel runner (Kernel Tuner 1.5) give a strategy of ours all its workers.

    It gives one to every strategy that is not in a list of its own.
    """
    known = getattr(importlib.import_module("kernel_tuner.interface"), "_STRATEGY_PARALLEL", None)
    if not isinstance(known, list) or not isinstance(strategy, BacoStrategy):
        yield
        return
    known.append(strategy)
    try:
        yield
    finally:
        known.remove(strategy)


def _chosen(strategy: Any, options: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return what Kernel Tuner is given: a strategy, and the options that are left for it."""
    common = {name: value for name, value in options.items() if name in _COMMON}
    own = {name: value for name, value in options.items() if name not in _COMMON}
    limited = any(common.get(name) is not None for name in ("max_fevals", "time_limit"))
    if strategy is None:
        strategy = "auto" if limited else "exhaustive"
    if not isinstance(strategy, str):
        return strategy, dict(options)
    batch = own.pop("batch", None)
    if strategy in EQUALS:
        if not limited:
            common |= _generations(own, strategy)
        _warn_of(own, strategy)
        return BacoStrategy(EQUALS[strategy], batch=batch), common
    if strategy not in STRATEGIES:
        raise ValueError(
            f"strategy = {strategy!r} has no equal here: leave it out for the recommended one, or take one of "
            f"{', '.join(sorted({*EQUALS, *STRATEGIES}))}"
        )
    return BacoStrategy(strategy, settings=own, batch=batch), common


def _generations(options: dict[str, Any], strategy: str) -> dict[str, Any]:
    """Return the budget that a population and its generations make; warn where there is no budget at all."""
    if {"popsize", "maxiter"} <= options.keys():
        return {"max_fevals": options.pop("popsize") * options.pop("maxiter")}
    warnings.warn(
        f"strategy {strategy!r} without max_fevals or time_limit measures every configuration here, where that of "
        "Kernel Tuner may end sooner; give one of these strategy_options",
        BacoWarning,
        stacklevel=4,
    )
    return {}


def _warn_of(options: Mapping[str, Any], strategy: str) -> None:
    if options:
        ours = EQUALS[strategy]
        warnings.warn(
            f"strategy_options {', '.join(options)} of {strategy!r} are Kernel Tuner's own and have no effect here; "
            f"for settings of ours write strategy=BacoStrategy({ours!r}, settings={{...}})",
            BacoWarning,
            stacklevel=4,
        )
