"""Is it worth going on? The improvement that is left, and the part of it that the next evaluations will find.

Functions are drawn from the posterior of the models, and the minimum of each over the candidates is compared with its
minimum over the evaluated configurations. The differences are distributed as the simple regret (Wilson,
"Stopping Bayesian optimization with probabilistic regret bounds", NeurIPS 2024, section 3; the draws of the minimum are
those of Wang and Jegelka, ICML 2017, section 3.1).

One half of the functions come from Gaussian processes, which extrapolate, and one half from random forests, which
predict no value below the observed ones. The Gaussian processes alone expected two to three times the improvement
that recorded runs found (benchmarks/quality/results/README.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from typing_extensions import override

from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Ints, Mask, Rng
from baco_like.exceptions import TrialError
from baco_like.explanations.models import ENDS, HistoryModels, fit_models
from baco_like.records import History, Status
from baco_like.records.rows import row_keys
from baco_like.spaces import Space
from baco_like.spaces.neighbourhoods import hamming
from baco_like.spaces.space import format_size

CANDIDATES = 3072
"""Number of random candidates; a smaller feasible set is used whole."""

FORESTS = 16
"""Number of forests: growing them takes most of the time."""

NEIGHBOURED = 8
"""Number of best configurations whose neighbours are candidates too."""


@dataclass(frozen=True)
class Outlook:
    """The expected improvement by the next evaluations; improvements are relative to the best value, 0.02 is 2 %.

    `expected` and `remaining` are means over the same drawn functions, so `expected` is never above `remaining`.

    Attributes:
        trials: Number of observations that were used.
        best: The best observed value.
        evaluations: Number of the next evaluations, n.
        expected: Expected improvement within the next n evaluations.
        remaining: Expected improvement that is left to the best configuration of the space.
        low: Lower end of the 90 % interval of the improvement that is left, widened to contain `remaining`.
        high: Upper end.
        feasible: Number of feasible configurations, or None if it is unknown or infinite.
        untried: Number of them that were not evaluated, or None.
    """

    trials: int
    best: float
    evaluations: int
    expected: float
    remaining: float
    low: float
    high: float
    feasible: int | None = None
    untried: int | None = None

    @override
    def __str__(self) -> str:
        text = (
            f"{100.0 * self.expected:.2g} % better than the best measured value, {self.best:.4g}, expected within the "
            f"next {self.evaluations} evaluations; "
            f"{100.0 * self.remaining:.2g} % left in all (90 % interval {100.0 * self.low:.2g} to "
            f"{100.0 * self.high:.2g} %)"
        )
        if self.untried == 0:
            return (
                f"{text}; all {format_size(self.feasible)} feasible configurations were evaluated"
            )
        text += f", according to models of {self.trials} observations"
        if self.untried is not None:
            text += (
                f"; {format_size(self.untried)} of {format_size(self.feasible)} feasible configurations were not "
                "evaluated"
            )
            if self.high <= 0.0:
                text += ", and one of them can still be better than the models expect"
        return text


def estimate_outlook(
    history: History,
    seed: int = 0,
    *,
    evaluations: int = 20,
    count: int | None = None,
    models: HistoryModels | None = None,
) -> Outlook:
    """Return the outlook; the same observations and seed give the same one.

    Args:
        history: The observations.
        seed: Seed of the run.
        evaluations: Number of the next evaluations.
        count: Number of observations to use, in order of arrival; None: all.
        models: Models of these observations, if they are fitted already.

    Raises:
        TrialError: Fewer than five trials have succeeded, the best value is 0, or the run has several objectives or
            tasks.
        ValueError: ``evaluations`` is not positive.
    """
    if history.objectives:
        names = ", ".join(repr(objective.name) for objective in history.objectives)
        raise TrialError(f"the outlook needs a single objective, but the run has several: {names}")
    tasks = history.space.tasks
    if tasks is not None and len(tasks) > 1:
        raise TrialError(
            f"the outlook needs a single task, but the run has several: {', '.join(tasks.names)}"
        )
    if evaluations < 1:
        raise ValueError(f"evaluations = {evaluations!r}: expected a positive number")
    if models is None:
        models = fit_models(history, seed, count=count, forests=FORESTS)
    models = replace(models, forests=models.forests[:FORESTS])
    history = models.history
    count = len(history)
    rng = generator(seed, Purpose.EXPLAIN, count + 3)
    ok = np.flatnonzero(history.where(Status.OK)).astype(np.int64)
    best = history.best()
    assert best is not None
    assert best.value is not None
    if best.value == 0.0:
        raise TrialError("the outlook is relative to the best value, which is 0")
    candidates = _candidates(history, ok, rng)
    feasible, untried = _count_untried(history)
    if not len(candidates):
        return Outlook(count, best.value, evaluations, 0.0, 0.0, 0.0, 0.0, feasible, untried)
    runs = 1.0 - models.failure(candidates).mean(axis=0)
    known, drawn = models.costs_by_kind(history.codes[ok]), models.costs_by_kind(candidates)
    gains = [_relative_gains(models, k, d) * runs for k, d in zip(known, drawn, strict=True)]
    expected = float(np.mean([_expected_gain(gain, evaluations) for gain in gains]))
    left = [gain.max(axis=1) for gain in gains]
    remaining = float(np.mean([part.mean() for part in left]))
    # Both kinds of model count the same, whatever the number of their draws.
    sizes = [len(left[1]), len(left[0])]
    every = np.concatenate([np.repeat(part, size) for part, size in zip(left, sizes, strict=True)])
    low, _, high = np.quantile(every, ENDS).tolist()
    low, high = min(low, remaining), max(high, remaining)
    # Rounding may order two equal means either way.
    expected = min(expected, remaining)
    return Outlook(
        count, best.value, evaluations, expected, remaining, low, high, feasible, untried
    )


def _count_untried(history: History) -> tuple[int | None, int | None]:
    """Return the number of feasible configurations, and of those that were not observed."""
    size = history.space.feasible_size
    if not isinstance(size, int):
        return None, None
    inside = history.codes[history.inside]
    return size, size - len(set(row_keys(inside)))


def _relative_gains(models: HistoryModels, known: Array, drawn: Array) -> Array:
    """Return how much better each candidate is than the best known row, relative to it, at least 0, ``(draws, m)``."""
    incumbents = known.min(axis=1, keepdims=True)
    before, after = models.scale.backward(incumbents), models.scale.backward(drawn)
    unit = np.maximum(np.abs(before), np.finfo(float).tiny)
    return np.asarray(np.maximum(before - after, 0.0) / unit)


def _expected_gain(gains: Array, evaluations: int) -> float:
    """Return the expected best gain of n candidates, chosen greedily; ``gains`` has the shape ``(draws, m)``.

    One half of the draws chooses (batch expected improvement over draws: Wilson, Hutter and Deisenroth, NeurIPS 2018,
    section 4) and the other half values the choice; otherwise the choice would seem better than it is.
    """
    halves, total = (gains[0::2], gains[1::2]), 0.0
    for chooser, judge in (halves, halves[::-1]):
        reached, found = np.zeros(len(chooser)), np.zeros(len(judge))
        for _ in range(min(evaluations, gains.shape[1])):
            better = np.maximum(chooser - reached[:, None], 0.0).sum(axis=0)
            best = int(np.argmax(better))
            if better[best] <= 0.0:
                break
            reached = np.maximum(reached, chooser[:, best])
            found = np.maximum(found, judge[:, best])
        total += float(found.sum())
    return total / len(gains)


def _candidates(history: History, ok: Ints, rng: Rng) -> Codes:
    """Return random feasible rows and the neighbours of the best ones that were not observed."""
    space: Space = history.space
    size = space.feasible.count
    if size is not None and size <= CANDIDATES:
        rows = space.feasible.listed
    else:
        best = history.codes[ok[np.argsort(history.costs[ok], kind="stable")[:NEIGHBOURED]]]
        near, _ = hamming(space, best, rng)
        rows = np.concatenate([space.feasible.spread(CANDIDATES, rng), near])
    return np.asarray(rows[~_seen(history.codes, rows)])


def _seen(known: Codes, rows: Codes) -> Mask:
    keys = set(row_keys(known))
    return np.fromiter((key in keys for key in row_keys(rows)), bool, len(rows))
