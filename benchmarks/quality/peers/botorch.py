"""BoTorch's Gaussian process for mixed inputs and log expected improvement, with their defaults.

Ordered parameters are indices scaled to [0, 1], unordered ones are categorical, and a permutation is the positions of
its elements. BoTorch's optimizers do not support the known constraints, so the acquisition function is maximised over
feasible configurations: 2,000 uniform draws and the neighbours of the five best. The first ten are uniform draws. A
hidden failure is reported with the worst cost so far. Costs are logarithms, as BoTorch standardises but does not warp.
"""

import numpy as np
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import MixedSingleTaskGP, SingleTaskGP
from gpytorch.mlls import ExactMarginalLogLikelihood

from baco_like.parameters import ParameterKind
from baco_like.spaces import Space
from baco_like.spaces.neighbourhoods import hamming

from .measure import Measure

FIRST = 10
DRAWS = 2000
BEST = 5


def run(measure: Measure, seed: int) -> None:
    space, rng = measure.problem.space, np.random.default_rng(seed)
    torch.manual_seed(seed)
    rows, costs = np.empty((0, space.width)), np.empty(0)
    while True:
        pool = space.feasible.sample(DRAWS, rng)
        if len(costs) >= FIRST:
            neighbours, _ = hamming(space, rows[np.argsort(costs)[:BEST]], rng)
            pool = np.concatenate([pool, neighbours])
        is_new = ~(pool[:, None] == rows).all(axis=2).any(axis=1)
        pool = pool[is_new] if is_new.any() else pool
        varied = (
            len(costs) >= FIRST
            and np.isfinite(costs).any()
            and np.ptp(costs[np.isfinite(costs)]) > 0
        )
        row = pool[_best(space, rows, costs, pool)] if varied else pool[0]
        cost = measure(_number(measure, row))
        rows = np.concatenate([rows, row[None]])
        costs = np.append(costs, np.inf if cost is None else cost)


def _best(space: Space, rows: np.ndarray, costs: np.ndarray, pool: np.ndarray) -> int:
    """Return the index of the candidate with the highest acquisition value."""
    worst = costs[np.isfinite(costs)].max()
    y = -torch.tensor(np.log(np.where(np.isfinite(costs), costs, worst)))[:, None]
    x, unordered = _inputs(space, rows)
    model = MixedSingleTaskGP(x, y, unordered) if unordered else SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = LogExpectedImprovement(model, best_f=y.max())
    with torch.no_grad():
        return int(acquisition(_inputs(space, pool)[0][:, None]).argmax())


def _inputs(space: Space, rows: np.ndarray) -> tuple[torch.Tensor, list[int]]:
    """Return the inputs of configurations and the indices of the unordered columns."""
    spans = np.ones(space.width)
    unordered = []
    for name, parameter in space.parameters.items():
        columns = space.columns[name]
        if parameter.kind is ParameterKind.PERMUTATION:
            spans[columns] = columns.stop - columns.start - 1
        elif parameter.kind is ParameterKind.ORDERED:
            spans[columns] = max(len(space.values(name)) - 1, 1)
        else:
            unordered.append(columns.start)
    return torch.tensor(rows / spans), unordered


def _number(measure: Measure, row: np.ndarray) -> int:
    """Return the problem's number of a configuration."""
    problem = measure.problem
    config = problem.space.decode(row[None])[0]
    return problem.row_of(
        [own.index(config[name]) for name, own in zip(problem.names, problem.choices, strict=True)]
    )
