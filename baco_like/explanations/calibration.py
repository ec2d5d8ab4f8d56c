"""Calibration: predictions of each observation from all others, and their intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from baco_like._random import Purpose, generator
from baco_like.exceptions import TrialError
from baco_like.explanations.importance import LEVEL
from baco_like.explanations.models import LEAST_SUCCESSES, HistoryModels, fit_processes
from baco_like.records import History, Status, sign_of


@dataclass(frozen=True)
class LeftOut:
    """An observation, and what the model predicts for it from all others; in the user's unit.

    Attributes:
        observed: The observed value.
        predicted: The predicted median.
        low: Lower end of the 90 % interval of an observation.
        high: Upper end.
    """

    observed: float
    predicted: float
    low: float
    high: float

    @property
    def is_inside(self) -> bool:
        """Whether the interval covers the observed value."""
        return self.low <= self.observed <= self.high


@dataclass(frozen=True)
class Calibration:
    """Leave-one-out predictions of a run.

    Attributes:
        points: The observations, in order of arrival; at most 300.
        coverage: Share of the observed values that lie in their 90 % intervals.
        correlation: Rank correlation of predicted and observed values; NaN if all are equal.
    """

    points: tuple[LeftOut, ...]
    coverage: float
    correlation: float


def compute_calibration(
    history: History, seed: int = 0, *, models: HistoryModels | None = None
) -> Calibration:
    """Return leave-one-out predictions by the Gaussian process of the default strategy.

    Its hyperparameters are fitted once, to all observations (Rasmussen and Williams 2006, Eq. 5.12).

    Args:
        history: The observations.
        seed: Seed of the run.
        models: Models of the history, if they are fitted already.

    Raises:
        TrialError: Fewer than five trials have succeeded.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ok = history.where(Status.OK)
    if ok.sum() < LEAST_SUCCESSES:
        raise TrialError(
            f"a calibration needs {LEAST_SUCCESSES} successful trials, there are {ok.sum()}; observe more first"
        )
    if models is None:
        rng = generator(seed, Purpose.EXPLAIN, len(history) + 4)
        scale, data, (model,) = fit_processes(history, ok, len(history), rng, 1)
    else:
        scale, data, model = models.scale, models.data, models.process
    mean, deviation = model.leave_one_out()
    total = np.sqrt(deviation**2 + model.fitted.noise)  # an observation has noise, too
    reach = float(ndtri(0.5 + 0.5 * LEVEL))
    sign, known = sign_of(history.direction), ~data.censored
    columns = (data.y, mean, mean - reach * total, mean + reach * total)
    observed, predicted, low, high = (sign * scale.backward(part[known]) for part in columns)
    points = tuple(
        LeftOut(o, p, *sorted(ends))
        for o, p, *ends in np.stack([observed, predicted, low, high], axis=1).tolist()
    )
    ranks = rankdata(observed), rankdata(predicted)
    varies = all(np.ptp(part) > 0.0 for part in ranks)
    correlation = float(np.corrcoef(*ranks)[0, 1]) if varies else float("nan")
    coverage = float(np.mean([point.is_inside for point in points]))
    return Calibration(points, coverage, correlation)
