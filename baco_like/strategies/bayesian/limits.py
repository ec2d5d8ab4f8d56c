"""Limits on metrics as a model sees them: a Gaussian process of each margin, and the values of outcomes beyond a limit.

An outcome beyond a limit is a failure in the history, because it must not win. But it ran, and its values are known:
they inform the surrogate of the objective. The probability of feasibility is multiplied by the probability that each
limit holds (Gardner et al., "Bayesian optimization with inequality constraints", ICML 2014, section 3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Ints, Mask
from baco_like.acquisitions.functions import log_pi
from baco_like.records import LIMIT, History, Limits, RunLimits, Status, sign_of
from baco_like.records.limits import Margins
from baco_like.records.trial import median, read_metric
from baco_like.spaces import Space
from baco_like.surrogates import Data, FeasibilityModel, Featured, GaussianProcess
from baco_like.surrogates.gp.growing import add_rows
from baco_like.surrogates.gp.model import GPModel
from baco_like.surrogates.gp.prior import LogNormal, Priors
from baco_like.surrogates.transform import standardise

_NEEDED = 2
"""Number of known margins that a model needs."""

SURROGATE = GaussianProcess(priors=Priors(lengthscale=LogNormal(4.0, 1.0)), mean="constant")
"""Models the margins, whatever models the objective. The priors are those of `auto`: most metrics are smooth."""

_CAUTION = 2.0
"""Power of the probability that a limit holds, in the weight of a score.

With 1, the most promising configurations near a limit are beyond it in about half of the evaluations. With 2 the share
beyond fell from 0.62 to 0.46 (DTLZ2), 0.58 to 0.42 (C kernel) and 0.37 to 0.25 (BNH) with best values as good; with 4
the best times of the C kernel were worse (four problems, five seeds).
"""

_ROWS = 600
"""Most rows of a model of a margin."""


@final
@dataclass(frozen=True, eq=False)
class FeasibilityWithLimits:
    """Predicts the probability that a configuration runs and that its metrics are within the limits.

    Attributes:
        running: Predicts the probability of running.
        margins: Model of each margin, and the limit on its scale.
    """

    running: FeasibilityModel
    margins: tuple[tuple[GPModel, float], ...]

    def probability(self, codes: Codes) -> Array:
        """Return the probability for each row, ``(n, w)`` -> ``(n,)``."""
        return self._multiply(codes, 1.0)

    def weight(self, codes: Codes) -> Array:
        """Return the weights of the scores, ``(n, w)`` -> ``(n,)``: the limits have the power `_CAUTION`."""
        return self._multiply(codes, _CAUTION)

    def _multiply(self, codes: Codes, power: float) -> Array:
        total = self.running.probability(codes)
        for model, limit in self.margins:
            total = total * np.exp(power * log_pi(*model.predict(codes), limit))
        return np.asarray(total)


def costs_beyond(history: History) -> tuple[Mask, Array]:
    """Return the outcomes beyond a limit that have a value, a mask ``(n,)``, and the costs with these values, ``(n,)``.

    The history of one objective of several has their costs already (`objective_costs`).
    """
    failed = history.where(Status.FAILED)
    if history.objectives:
        return failed & ~np.isnan(history.costs), history.costs

    def read() -> tuple[Mask, Array]:
        """Return the mask and the costs, which the history keeps."""
        trials, costs = history.trials, history.costs.copy()
        for i in np.flatnonzero(failed & history.inside):
            if trials[i].failure == LIMIT and trials[i].repeats:
                costs[i] = sign_of(history.direction) * median(trials[i].repeats)
        return failed & ~np.isnan(costs), costs

    return history.derive("beyond limits", None, read)


def objective_costs(history: History) -> tuple[Array, Array]:
    """Return the costs and squared standard errors of all objectives, ``(n, m)``, with outcomes beyond a limit."""
    return history.derive("modelled costs", history.objectives, lambda: _read_costs(history))


def _read_costs(history: History) -> tuple[Array, Array]:
    costs, variances = map(np.copy, history.objective_costs())
    trials = history.trials
    for i in np.flatnonzero(history.where(Status.FAILED) & history.inside):
        trial = trials[i]
        others = history.objectives[1:]
        if trial.failure != LIMIT or not trial.repeats:
            continue
        if any(objective.name not in trial.metrics for objective in others):
            continue
        costs[i, 0] = sign_of(history.direction) * median(trial.repeats)
        for j, objective in enumerate(others, 1):
            costs[i, j], variances[i, j] = read_metric(trial, objective)
    return costs, variances


def margins_of(limits: RunLimits, history: History) -> Margins:
    """Return the margins of all observed trials."""
    read = partial(Limits(limits.texts).margins, history.trials, limits.objective)
    return history.derive(("margins", limits), None, read)


def fit_margins(
    limits: RunLimits,
    history: History,
    space: Space,
    view: Callable[[Space], Featured],
    seed: int,
) -> tuple[tuple[GPModel, float], ...]:
    """Return a model of each margin, and the limit on its scale.

    Hyperparameters hold while the number of observations grows by up to an eighth; then a limit costs little beside
    the objective. A margin that never changed has no model.

    Args:
        limits: The limits.
        history: The observations.
        space: The space.
        view: Selects the features.
        seed: Seed of the random numbers.
    """
    values, models = margins_of(limits, history).values, []
    for j in range(values.shape[1]):
        known = np.flatnonzero(history.inside & ~np.isnan(values[:, j]))
        margins = values[known, j]
        if len(known) < _NEEDED or np.ptp(margins) <= 1e-12 * np.abs(margins).max():
            continue
        scale = standardise(margins)
        model, used, last = _hold(history, values[:, j], (limits, j), space, view, seed)
        new = known[known > last]
        rows = np.concatenate([used, new])
        none = np.zeros(len(new))
        y, exact = scale.forward(values[rows, j]), np.zeros(len(rows), dtype=np.bool_)
        model = add_rows(model, history.codes[new], none, y, exact, SURROGATE.mean)
        models.append((model, float(scale.forward(np.zeros(1))[0])))
    return tuple(models)


def _hold(
    history: History,
    margins: Array,
    name: tuple[RunLimits, int],
    space: Space,
    view: Callable[[Space], Featured],
    seed: int,
) -> tuple[GPModel, Ints, int]:
    """Return the model of the last fit of hyperparameters, its rows as observations, and the last known one."""
    count = len(history)
    step = 1 << max(0, (count // 8).bit_length() - 1)
    known = np.flatnonzero(history.inside & ~np.isnan(margins))
    anchor = history.first(count - count % step)
    rows = known[known < len(anchor)]
    if len(rows) < _NEEDED or np.ptp(margins[rows]) == 0.0:
        anchor, rows = history, known

    def fit() -> tuple[GPModel, Ints, int]:
        """Return the model of the anchor, which the history keeps."""
        y = standardise(margins[rows]).forward(margins[rows])
        none = np.zeros(len(rows))
        data = Data(history.codes[rows], y, none, none > 0.0)
        rng = generator(seed, Purpose.HOLD, 2 * len(anchor))
        model, used = SURROGATE.hold(view(space), data, rng, most=_ROWS)
        return model, rows[used], int(rows[-1])

    return anchor.derive(("limit", *name, view), seed, fit)
