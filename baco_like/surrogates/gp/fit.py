"""Maximum a posteriori hyperparameters: score many draws from the prior, refine the best few.

BaCO (section 3.2) "first uniformly samples a number of possible hyperparameter settings, then chooses a fraction of
those with highest likelihood, and optimizes them individually using L-BFGS". Here the draws come from the priors and
are scored in one batch, on a subset of the rows if there are many. The last fit's optimum is one more start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like._typing import Array, Ints, Rng
from baco_like.surrogates.gp.evidence import Evidence, Hyperparameters

LENGTHSCALES = (1e-2, 1e2)
OUTPUTSCALES = (1e-3, 1e3)
NOISES = (1e-6, 1e1)


@dataclass(frozen=True)
class Effort:
    """Effort of a fit; the defaults were chosen by measurement (benchmarks/quality/log/surrogate.md).

    Attributes:
        draws: Number of prior draws that are scored.
        scored_rows: Maximum number of rows in the scoring.
        starts: Number of the best draws that are refined if there is no earlier optimum.
        fresh_starts: Number of the best draws that are refined besides an earlier optimum, now and then: one more
            observation moves an optimum little, and looking for another one costs more than following it.
        fresh_every: Fresh starts are used whenever the number of observations is a multiple of this.
        fitted_rows: Maximum number of rows in the refinement.
        seen_rows: Maximum number of rows that the model uses: time grows with their cube, memory with their square.
        steps: Maximum number of L-BFGS-B iterations from one start.
        follow_steps: Maximum number of iterations from an earlier optimum, which the next fit continues. In six GPU
            spaces 3 steps were as good as 4 and saved a twentieth of a suggestion's time; 2 were worse.
        tolerance: L-BFGS-B stops when a step gains less than this, relative to the objective.
    """

    draws: int = 64
    scored_rows: int = 40
    starts: int = 3
    fresh_starts: int = 1
    fresh_every: int = 5
    fitted_rows: int = 400
    seen_rows: int = 2000
    steps: int = 60
    follow_steps: int = 3
    tolerance: float = 1e-5

    def __post_init__(self) -> None:
        for name in ("draws", "scored_rows", "starts", "fresh_every", "fitted_rows", "seen_rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


def maximise_evidence(
    evidence: Evidence,
    effort: Effort,
    rng: Rng,
    start: Mapping[str, Any] | None = None,
    count: int | None = None,
) -> Hyperparameters:
    """Return the hyperparameters with the highest posterior density of all refined starts.

    Args:
        evidence: The observations, or a part of them.
        effort: Effort of the fit.
        rng: Random generator; the only source of randomness.
        start: `to_json` of an earlier optimum; one for another number of parameters is ignored.
        count: Number of all observations; by default those in ``evidence``.
    """
    count = len(evidence.y) if count is None else count
    groups = evidence.squares.shape[0]
    earlier = from_json(start, groups)
    starts = [] if earlier is None else [earlier.logs]
    if earlier is not None and count % effort.fresh_every:
        steps = effort.follow_steps
    else:
        steps = effort.steps
        fresh = effort.starts if earlier is None else effort.fresh_starts
        starts += _best_draws(evidence, effort, fresh, rng)
    return Hyperparameters.from_logs(_refine(evidence, starts, steps, effort.tolerance))


def _best_draws(evidence: Evidence, effort: Effort, count: int, rng: Rng) -> list[Array]:
    """Return the logarithms of the best of many prior draws, scored on a subset of the rows."""
    groups = evidence.squares.shape[0]
    low, high = np.array(_bounds(groups)).T
    draws = np.log(evidence.prior.sample((effort.draws, groups + 2), rng)).clip(low, high)
    scored = evidence.subset(chosen_rows(evidence.y, effort.scored_rows, rng))
    order = np.argsort(-scored.scores(draws), kind="stable")
    return [draws[i] for i in order[:count]]


def to_json(hyperparameters: Hyperparameters) -> dict[str, Any]:
    """Return JSON values; `from_json` is the inverse."""
    return {
        "lengthscales": [float(x) for x in hyperparameters.lengthscales],
        "outputscale": float(hyperparameters.outputscale),
        "noise": float(hyperparameters.noise),
    }


def from_json(values: Mapping[str, Any] | None, groups: int) -> Hyperparameters | None:
    """Return the hyperparameters, or None if the values are not those of ``groups`` parameters."""
    if values is None:
        return None
    try:
        flat = [*values["lengthscales"], values["outputscale"], values["noise"]]
        numbers = np.array([float(x) for x in flat])
    except (KeyError, TypeError, ValueError):
        return None
    if len(numbers) != groups + 2 or not np.all(np.isfinite(numbers) & (numbers > 0.0)):
        return None
    numbers = numbers.clip(*np.exp(np.array(_bounds(groups)).T))
    return Hyperparameters(numbers[:-2], float(numbers[-2]), float(numbers[-1]))


def _bounds(groups: int) -> list[tuple[float, float]]:
    ranges = [LENGTHSCALES] * groups + [OUTPUTSCALES, NOISES]
    return [(math.log(low), math.log(high)) for low, high in ranges]


def chosen_rows(y: Array, most: int, rng: Rng) -> Ints:
    """Return the indices of at most ``most`` rows: one half are the best, the others are drawn from the rest."""
    if len(y) <= most:
        return np.arange(len(y))
    order = np.argsort(y, kind="stable")
    best = order[: most // 2]
    others = rng.choice(order[most // 2 :], size=most - len(best), replace=False)
    return np.sort(np.concatenate([best, others]))


def _refine(evidence: Evidence, starts: Sequence[Array], steps: int, tolerance: float) -> Array:
    """Return the best point that L-BFGS-B reaches from the starts, as logarithms."""
    from scipy.optimize import fmin_l_bfgs_b

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = evidence(theta)
        # L-BFGS-B shortens its step when it meets a large finite value, but not when it meets an infinite one.
        return (-value, -gradient) if math.isfinite(value) else (1e25, np.zeros_like(theta))

    bounds = _bounds(evidence.squares.shape[0])
    factor = tolerance / np.finfo(float).eps
    best, lowest = starts[0], math.inf
    for start in starts:
        refined, value, _ = fmin_l_bfgs_b(
            loss, start, bounds=bounds, factr=factor, pgtol=1e-3, maxiter=steps
        )
        if float(value) < lowest:
            best, lowest = np.asarray(refined), float(value)
    return best
