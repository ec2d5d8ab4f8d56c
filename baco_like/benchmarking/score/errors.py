"""Simple measures: fraction of the optimum, mean absolute error, mean deviation factor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from baco_like._typing import Array

CHECKPOINTS = range(40, 221, 20)
"""Numbers of evaluations at which the 2021 paper takes the error: 20 i for i = 2 to 11."""


def fraction_of_optimum(curves: Array, optimum: float) -> Array:
    """Return optimum / cost, 1 at the optimum ("Benchmarking optimization algorithms", section VII-A).

    Args:
        curves: Best cost so far, of any shape; NaN, before the first success, gives 0. Costs are all positive, or all
            negative (a maximised objective); then the fraction is cost / optimum.
        optimum: The smallest cost of the space.

    Raises:
        ValueError: The optimum is 0, or the costs have different signs; then the fraction is not defined.
    """
    if optimum == 0 or (optimum < 0 and bool((np.asarray(curves) > 0).any())):
        raise ValueError(
            f"optimum = {optimum:g}, and costs are not all of its sign; there is no fraction of it, use "
            "`mean_absolute_error`"
        )
    fractions = optimum / curves if optimum > 0 else curves / optimum
    return np.where(np.isnan(curves), 0.0, fractions)


def at_budgets(curves: Array, budgets: Sequence[int]) -> Array:
    """Return the best costs after given numbers of evaluations, ``(runs, budgets)``; shorter runs keep their last.

    Raises:
        ValueError: A budget is below 1.
    """
    numbers = np.asarray(budgets, dtype=np.int64)
    if not len(numbers) or numbers.min() < 1:
        raise ValueError(f"budgets = {list(budgets)}; give numbers of evaluations from 1 up")
    return curves[:, np.minimum(numbers, curves.shape[1]) - 1]


def mean_absolute_error(
    curves: Array, optimum: float, checkpoints: Sequence[int] = CHECKPOINTS
) -> Array:
    """Return the mean of |best so far - optimum| over several numbers of evaluations, per run, ``(runs,)``.

    "Bayesian Optimization for auto-tuning GPU kernels", section IV-A.

    Args:
        curves: Best cost so far, ``(runs, evaluations)``.
        optimum: The smallest cost of the space.
        checkpoints: Numbers of evaluations; the paper's are 40, 60, ... 220.

    Raises:
        ValueError: The curves end before the last checkpoint.
    """
    if max(checkpoints) > curves.shape[1]:
        raise ValueError(
            f"curves have {curves.shape[1]} evaluations; give checkpoints below {max(checkpoints)}"
        )
    errors: Array = np.abs(at_budgets(curves, checkpoints) - optimum).mean(axis=1)
    return errors


def mean_deviation_factor(errors: npt.ArrayLike) -> tuple[Array, Array]:
    """Return the mean deviation factor of each strategy and the standard deviation of its factors.

    A factor is the ratio of a strategy's error on a space to the mean error of all strategies on it ("Bayesian
    Optimization for auto-tuning GPU kernels", section IV-A). Below 1 is better than the average strategy.

    Args:
        errors: Mean over the runs of `mean_absolute_error`, ``(strategies, spaces)``.

    Returns:
        Means and standard deviations over the spaces, ``(strategies,)`` each.
    """
    table = np.asarray(errors, dtype=float)
    mean = table.mean(axis=0)
    factors = np.divide(table, mean, out=np.ones_like(table), where=mean > 0)
    return factors.mean(axis=1), factors.std(axis=1)
