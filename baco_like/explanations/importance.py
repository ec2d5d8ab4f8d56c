"""Importance of parameters: the share of the variance of the cost, and of failures, that each one causes.

The variance is taken over all feasible configurations, not over the evaluated ones, which crowd around the best: models
of the history predict the others. Two shares are given. The *total* effect of a parameter is the variance that is left
when all other parameters are fixed, E[Var(y | others)] / Var(y); the effect *alone* is Var(E[y | parameter]) / Var(y)
(Sobol' indices of total and first order: Saltelli et al., Computer Physics Communications 2010, section 2; functional
ANOVA: Hutter et al., ICML 2014). Known constraints are respected: only feasible configurations are compared.

The cost is the logarithm (or the scale that `fit_transform` chooses), cut off at a quantile of the feasible
configurations: differences between bad configurations do not matter. (Hutter et al. cut off in the same way, at the
default's cost.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from baco_like._optional import data_frame
from baco_like._output import align_cells, in_percent
from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.explanations.models import ENDS, HistoryModels, fit_models
from baco_like.parameters.protocol import is_permutation, is_sequence
from baco_like.records import History
from baco_like.spaces import Space

if TYPE_CHECKING:
    import pandas as pd

QUANTILE = 0.5
"""Costs above this quantile of the feasible configurations count as the quantile. Of 0.25, 0.5, 0.75 and 1 it gave the
highest rank correlation with the exact values (benchmarks/quality/results/README.md)."""

STRETCH, MARGIN = 1.5, 0.02
"""The drawn intervals are stretched from the median by this factor and widened by this share. Models that are fitted to
few observations agree too much, above all on parameters that varied little. Without it the intervals covered 78 % of
the exact values (benchmarks/quality/results/README.md)."""

PAIRED_ELEMENTS = 8
"""Permutations with more elements are not explained by pairwise orders: there are too many pairs."""

BINS = 16
"""Groups of the values of a parameter with many values, for its effect alone."""

ROWS = 2**13
"""Largest number of varied configurations; each is predicted by every drawn function."""

BASES = (48, 512)
"""Smallest and largest number of random configurations that are varied."""

VALUES = 16
"""Most values of a parameter that are tried; of a parameter with more, random ones."""


@dataclass(frozen=True)
class Effect:
    """Shares of variance that a parameter, or one feature of a permutation, causes; intervals cover 90 %.

    Attributes:
        name: Name of the parameter; of a feature of a permutation, such as ``order: position of k``.
        share: Total effect on the cost, from 0 to 1; of a feature, its effect alone.
        low: Lower end of the interval of `share`.
        high: Upper end.
        alone: Effect on the cost without interactions.
        failing: Total effect on the probability of failing; NaN if all or no trials failed.
        failing_low: Lower end of the interval of `failing`.
        failing_high: Upper end.
    """

    name: str
    share: float
    low: float
    high: float
    alone: float
    failing: float
    failing_low: float
    failing_high: float

    def cells(self) -> list[str]:
        """Return the row of a table, see `IMPORTANCE_HEAD`."""
        cost = (in_percent(self.share), _range(self.low, self.high), in_percent(self.alone))
        ends = _range(self.failing_low, self.failing_high)
        return [self.name, *cost, in_percent(self.failing), ends]


def _range(low: float, high: float) -> str:
    return "-" if np.isnan(low) else f"{in_percent(low)} to {in_percent(high)}"


IMPORTANCE_HEAD = (
    "parameter",
    "total effect",
    "90 % interval",
    "alone",
    "of failures",
    "90 % interval",
)
"""The columns of a table of effects; the last two are about failures."""


@dataclass(frozen=True, repr=False)
class Importance:
    """The importance of all parameters, the most important first; an iterable of `Effect`.

    Attributes:
        effects: One for each parameter that is not a constant, ordered by `Effect.share`.
        features: Positions of elements and orders of pairs of elements of permutations, ordered by `Effect.share`.
        trials: Number of observed trials.
        failed: Share of them that failed.
        quantile: Costs above this quantile of the feasible configurations count as the quantile.
    """

    effects: tuple[Effect, ...]
    features: tuple[Effect, ...]
    trials: int
    failed: float
    quantile: float

    def __iter__(self) -> Iterator[Effect]:
        return iter(self.effects)

    def __len__(self) -> int:
        return len(self.effects)

    def __getitem__(self, name: str) -> Effect:
        for effect in (*self.effects, *self.features):
            if effect.name == name:
                return effect
        raise KeyError(name)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per effect, features of permutations last; the columns are the attributes of `Effect`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return data_frame([vars(effect) for effect in (*self.effects, *self.features)])

    @override
    def __repr__(self) -> str:
        rows = [effect.cells() for effect in (*self.effects, *self.features)]
        shown = len(IMPORTANCE_HEAD) if self.failed else 4
        return "\n".join(align_cells([row[:shown] for row in (IMPORTANCE_HEAD, *rows)], left=1))


def compute_importance(
    history: History,
    seed: int = 0,
    *,
    quantile: float = QUANTILE,
    models: HistoryModels | None = None,
) -> Importance:
    """Return the importance of every parameter; the same history and seed give the same result.

    Args:
        history: The observations.
        seed: Seed of the run.
        quantile: Costs above this quantile of the feasible configurations count as the quantile; 1: none.
        models: Models of the history, if they are fitted already.

    Raises:
        TrialError: Fewer than five trials have succeeded.
        ValueError: ``quantile`` is not above 0 and at most 1.
    """
    if not 0.0 < quantile <= 1.0:
        raise ValueError(f"quantile = {quantile!r}: expected a number above 0 and at most 1")
    models = fit_models(history, seed) if models is None else models
    history, space = models.history, models.space
    rng = generator(seed, Purpose.EXPLAIN, len(history) + 1)
    rows = base_rows(space, rng)
    costs, failing = models.costs(rows), models.failure(rows)
    cutoffs = _cutoffs(costs, 1.0 - failing.mean(axis=0), quantile)
    base = _Predicted(np.minimum(costs, cutoffs), failing, bool(models.failures))
    effects, features = [], []
    for name in space.active:
        variation = vary(space, name, rows, rng)
        varied = np.minimum(models.costs(variation.codes), cutoffs)
        total = base.share_of_costs(variance_within(varied, variation))
        failed = base.share_of_failures(variance_within(models.failure(variation.codes), variation))
        alone = base.share_of_costs(variance_between(base.costs, value_groups(space, name, rows)))
        effects.append(_effect(name, total, alone, failed, len(models.forests)))
        for feature, group in order_groups(space, name, rows):
            alone = base.share_of_costs(variance_between(base.costs, group))
            failed = base.share_of_failures(variance_between(base.failing, group))
            features.append(_effect(feature, alone, alone, failed, len(models.forests)))
    effects.sort(key=_order)
    features.sort(key=_order)
    return Importance(tuple(effects), tuple(features), len(history), models.failed, quantile)


@dataclass(frozen=True, eq=False)
class _Predicted:
    """Predictions for random configurations.

    Attributes:
        costs: Drawn costs, ``(draws, n)``.
        failing: Drawn probabilities of failing, ``(draws, n)``.
        fails: Whether failing is modelled.
    """

    costs: Array
    failing: Array
    fails: bool

    def share_of_costs(self, part: Array) -> Array:
        return _shares(part, self.costs.var(axis=1))

    def share_of_failures(self, part: Array) -> Array:
        """Return the shares, or NaN if failing is not modelled."""
        return _shares(part, self.failing.var(axis=1)) if self.fails else np.full(1, np.nan)


def _cutoffs(costs: Array, runs: Array, quantile: float) -> Array:
    """Return the quantile of each drawn function over rows that run with some probability, ``(draws, 1)``."""
    order = np.argsort(costs, axis=1)
    cumulated = np.cumsum(runs[order], axis=1) / runs.sum()
    at = np.minimum((cumulated < quantile - 1e-12).sum(axis=1), costs.shape[1] - 1)
    rows = np.arange(len(costs))
    return np.asarray(costs[rows, order[rows, at]])[:, None]


def _order(effect: Effect) -> tuple[float, float]:
    return -effect.share, -effect.alone


def _shares(part: Array, whole: Array) -> Array:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 1e-24).clip(0.0, 1.0)


def _effect(name: str, total: Array, alone: Array, failing: Array, forests: int) -> Effect:
    """Return the effect of drawn shares, ``(draws,)`` each; the last ``forests`` of the first two are of forests."""
    low, _, high = _interval(total)
    share, own = _balanced_median(total, forests), _balanced_median(alone, forests)
    failing_low, fails, failing_high = _interval(failing)
    return Effect(name, share, low, high, own, fails, failing_low, failing_high)


def _balanced_median(drawn: Array, forests: int) -> float:
    """Return the median of drawn shares, in which both kinds of model count the same, whatever their draws.

    Functions drawn from a Gaussian process vary along parameters that the observations say nothing about, such as
    flags that changed in few of them. Without the balance, its more numerous draws outvoted the forests.
    """
    first, last = np.split(drawn, [len(drawn) - forests])
    if not len(first) or not len(last):
        return float(np.median(drawn))
    return float(np.median(np.concatenate([first.repeat(len(last)), last.repeat(len(first))])))


def _interval(drawn: Array) -> tuple[float, float, float]:
    """Return lower end, median and upper end of drawn shares; NaN if they are NaN."""
    if np.isnan(drawn).any():
        return float("nan"), float("nan"), float("nan")
    low, middle, high = np.quantile(drawn, ENDS).tolist()
    ends = middle + STRETCH * (low - middle) - MARGIN, middle + STRETCH * (high - middle) + MARGIN
    return max(0.0, ends[0]), middle, min(1.0, ends[1])


def order_groups(space: Space, name: str, rows: Codes) -> Iterator[tuple[str, Ints]]:
    """Yield the features of a permutation that vary, each with the group of every row by it, ``(n,)``.

    Of a sequence they are the elements that some rows have.
    """
    parameter = space.parameters[name]
    if is_sequence(parameter):
        own = rows[:, space.columns[name]]
        for code, element in enumerate(parameter.elements):
            _, present = np.unique((own == code).any(axis=1), return_inverse=True)
            if present.any():
                yield f"{name}: has {element}", present.reshape(-1)
    if not is_permutation(parameter):
        return
    codes = rows[:, space.columns[name]].astype(np.int64)
    inactive = ~space.activity.where(name, rows)
    codes[inactive] = parameter.width  # a group of its own
    elements = parameter.elements
    for element, positions in zip(elements, codes.T, strict=True):
        found, group = np.unique(positions, return_inverse=True)
        if len(found) > 1:
            yield f"{name}: position of {element}", group.reshape(-1)
    if len(elements) > PAIRED_ELEMENTS:
        return
    for (one, first), (two, second) in combinations(zip(elements, codes.T, strict=True), 2):
        before = (first < second).astype(np.int64)
        if 0 < before.sum() < (~inactive).sum():
            before[inactive] = 2
            yield f"{name}: {one} before {two}", before


def value_groups(space: Space, name: str, rows: Codes) -> Ints:
    """Return the group of each row by the value of a parameter; many values are joined to `BINS` groups, ``(n,)``."""
    codes = rows[:, space.columns[name]]
    _, group = np.unique(codes, axis=0, return_inverse=True)
    group = group.reshape(-1)
    if codes.shape[1] == 1 and group.max() >= BINS:
        edges = np.quantile(codes[:, 0], np.linspace(0.0, 1.0, BINS + 1)[1:-1])
        _, group = np.unique(np.searchsorted(edges, codes[:, 0]), return_inverse=True)
    inactive = ~space.activity.where(name, rows)
    if inactive.any():  # a group of its own
        _, group = np.unique(np.where(inactive, -1, group), return_inverse=True)
    return np.asarray(group, dtype=np.int64)


# Random feasible configurations, and what becomes of them when one parameter changes ----------------------------------


@dataclass(frozen=True, eq=False)
class Variation:
    """Feasible variants of some configurations in one parameter.

    Attributes:
        codes: The variants, ``(m, w)``; those of one configuration include itself.
        owner: The configuration of each variant, ``(m,)``.
        complete: Whether all values of the parameter were tried, instead of random ones.
    """

    codes: Codes
    owner: Ints
    complete: bool


def base_rows(space: Space, rng: Rng) -> Codes:
    """Return random feasible configurations, ``(n, w)``: all of them if there are few."""
    least, most = BASES
    changes = sum(min(VALUES, space.parameters[name].cardinality) for name in space.active)
    count = int(np.clip(ROWS / max(changes, 1), least, most))
    size = space.feasible.count
    if size is not None and size <= count:
        return space.feasible.listed
    return space.feasible.sample(count, rng)


def vary(space: Space, name: str, rows: Codes, rng: Rng) -> Variation:
    """Return the feasible variants of configurations, ``(n, w)``, in one parameter.

    Given the other parameters, the variants of a row are all feasible values, or uniform draws from them.
    """
    at = space.columns[name]
    values, complete = candidate_values(space, name, len(rows), rng)
    n, tried = len(rows), values.shape[1]
    codes = np.repeat(rows, tried, axis=0)
    codes[:, at] = values.reshape(n * tried, -1)
    codes = space.activity.at_rest(codes)
    owner = np.repeat(np.arange(n), tried)
    changed = (codes[:, at] != rows[owner][:, at]).any(axis=1)
    keep = space.feasible.contains(codes) & changed
    # Random draws of the value that a row has already would be dropped: they are repetitions of the row itself.
    if not complete:
        keep |= ~changed
    every = np.concatenate([rows, codes[keep]])
    owners = np.concatenate([np.arange(n), owner[keep]])
    order = np.argsort(owners, kind="stable")
    return Variation(every[order], owners[order], complete)


def candidate_values(space: Space, name: str, n: int, rng: Rng) -> tuple[Codes, bool]:
    """Return the codes to try for each of n rows, ``(n, tried, width)``, and whether they are all values."""
    parameter, at = space.parameters[name], space.columns[name]
    used = space.feasible.used(at.start) if parameter.width == 1 else None
    if used is not None and len(used) <= VALUES:
        return np.broadcast_to(used[None, :, None], (n, len(used), 1)), True
    if used is not None:
        return rng.choice(used, size=(n, VALUES))[:, :, None], False
    drawn = parameter.sample_uniform(n * VALUES, rng)
    return drawn.reshape(n, VALUES, -1), False


def variance_within(values: Array, variation: Variation) -> Array:
    """Return the mean variance among the variants of a configuration, ``(draws, m)`` -> ``(draws,)``.

    This is the numerator of the total effect, E[Var(y | all other parameters)].
    """
    size = np.bincount(variation.owner)
    mean = sums(values, variation.owner) / size
    squares = sums((values - mean[:, variation.owner]) ** 2, variation.owner)
    divisor = size if variation.complete else np.maximum(size - 1, 1)
    return np.asarray((squares / divisor).mean(axis=1))


def variance_between(values: Array, group: Ints) -> Array:
    """Return the variance of the means of groups, ``(draws, n)`` -> ``(draws,)``.

    This is Var(E[y | group]) for random rows, without the part that comes from the finite size of the groups: the
    estimator of the variance component of a one-way analysis of variance, at least 0.
    """
    n, groups = len(group), int(group.max()) + 1
    size = np.bincount(group)
    mean = sums(values, group) / size
    grand = values.mean(axis=1, keepdims=True)
    between = ((mean - grand) ** 2 * size).sum(axis=1)
    within = ((values - mean[:, group]) ** 2).sum(axis=1)
    chance = (groups - 1) * within / max(n - groups, 1)
    return np.asarray(np.maximum(between - chance, 0.0) / n)


def sums(values: Array, group: Ints) -> Array:
    """Return the sums of the columns of each group, ``(draws, m)`` -> ``(draws, groups)``."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(int(group.max()) + 1))
    return np.asarray(np.add.reduceat(values[:, order], starts, axis=1))
