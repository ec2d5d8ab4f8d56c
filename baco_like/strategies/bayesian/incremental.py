"""Proposals from one fit for many observations, for batches and while several trials are pending.

The hyperparameters hold between refits (`last_refit`), and new observations become rows of the model. The candidates
are all feasible configurations if these are few, otherwise the best rows of one search. Each proposal is the best
candidate if the pending trials and the proposals before it had the costs that the model predicts ("kriging believer":
Ginsbourger, Le Riche and Carraro 2010), which takes one rank-one update.

All that is kept between calls is a function of the observations (`History.derive`), so a resumed run makes the same
proposals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from baco_like import acquisitions, surrogates
from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.acquisitions.functions import (
    add_feasibility,
    comparable,
    draw_minimum,
    feasibility_weight,
    prior_weight,
)
from baco_like.acquisitions.optimizers import ExhaustiveSearch, best_free_indices
from baco_like.acquisitions.registry import bind_acquisition
from baco_like.records import History, Proposal, Status
from baco_like.spaces import Space
from baco_like.strategies.bayesian.fitting import (
    NEEDED,
    Fitted,
    ModelValues,
    Recipe,
    has_prior,
    incumbents,
    last_hyperparameters,
    model_values,
    tags,
)
from baco_like.strategies.protocol import Problem
from baco_like.surrogates.forest import ConstantFeasibility
from baco_like.surrogates.gp.devices import has_gpu
from baco_like.surrogates.gp.growing import (
    EVERY_COUNT,
    CandidatePosterior,
    CandidateTable,
    add_rows,
    last_refit,
)
from baco_like.surrogates.gp.model import GPModel

LISTED_ROWS = 1500
"""Most rows of a model whose candidates are all feasible configurations: their table grows with it."""

SEARCHED_ROWS = 600
"""Most rows of a model that a search asks for thousands of new candidates: each takes time with its square."""

POOL = 1024
"""Least number of candidates that one search returns for several proposals."""

MOST_BELIEVED = 256
"""Most pending trials that the model is conditioned on, those with the highest scores: others do not change the best
candidate, and with 1,000 of them a suggestion took half a second."""

ROUND = 64
"""Number of proposals that are chosen among the `POOL` best candidates, before the others are updated too."""

APART = 0.01
"""Least distance of the features of two rows that a search of a space with reals contributes to a batch."""

FEW_PENDING = 1
"""With more pending trials than this, or for a batch, the proposals come from one fit and one search."""


SCREENED = 16
"""Number of the best configurations of all that are scored again in double precision."""


class GrownModel(NamedTuple):
    """A model of the observations of a history.

    Attributes:
        model: The Gaussian process.
        rows: Indices of the observations that are its rows.
        covered: Indices of all observations with a value that it knows or has left out.
    """

    model: GPModel
    rows: Ints
    covered: Ints


@dataclass(frozen=True)
class _Predicted:
    """A model whose predictions for given candidates are known; it passes everything else on."""

    model: GPModel
    posterior: CandidatePosterior

    @property
    def hyperparameters(self) -> Mapping[str, Any]:
        return self.model.hyperparameters

    def predict(self, codes: Codes) -> tuple[Array, Array]:
        if codes is self.posterior.table.codes:
            return self.posterior.mean, self.posterior.variance
        return self.model.predict(codes)

    def draw(self, rng: Rng) -> Callable[[Codes], Array]:
        return self.model.draw(rng)


def is_incremental(strategy: Recipe, history: History, pending: int, n: int) -> bool:
    """Return whether the proposals come from a model with held hyperparameters, instead of a new fit for each.

    It takes a Gaussian process in closed form. With more observations than this uses, and if torch finds a GPU, the
    GPyTorch model is fitted to all of them instead.
    """
    surrogate, count = strategy.surrogate, len(history)
    if not strategy.holds or not isinstance(surrogate, surrogates.GaussianProcess):
        return False
    if n == 1 and pending <= FEW_PENDING and count <= EVERY_COUNT:
        return False
    return count <= surrogate.effort.seen_rows or not has_gpu()


@dataclass(frozen=True)
class Incremental:
    """The models of one call.

    Attributes:
        strategy: The strategy.
        problem: The problem.
        history: The history of the call.
        seed: Seed of all that is kept between calls.
        step: Number of observations that share one fit and one search, while many trials are pending.
    """

    strategy: Recipe
    problem: Problem
    history: History
    seed: int
    step: int = 1

    @classmethod
    def of(
        cls, strategy: Recipe, problem: Problem, history: History, seed: int, pending: int
    ) -> Incremental:
        """Return the models for a number of pending trials.

        A quarter of the pending trials share a fit, but at most an eighth of the observations: while many are pending,
        each observation says little more than the others that are about to come.
        """
        shared = max(1, min(pending // 4, len(history) // 8))
        return cls(strategy, problem, history, seed, 1 << (shared.bit_length() - 1))

    @property
    def is_listed(self) -> bool:
        """Whether all feasible configurations are candidates."""
        return isinstance(self.strategy.search_of(self.problem.space), ExhaustiveSearch)

    def fit(self) -> Fitted:
        """Return the models of all observations."""
        return self._join_models(self._grow(self._held, self.history))

    def posterior(self, n: int) -> tuple[Fitted, CandidatePosterior]:
        """Return the models of all observations, and their posterior at the candidates for n proposals."""
        single = n == 1 and len(self.history.pending_codes) <= FEW_PENDING
        base, table = self._listed if self.is_listed and single else self._search(n)

        def grow() -> tuple[Fitted, GPModel, CandidateTable]:
            grown = self._grow(base, self.history)
            return self._join_models(grown), grown.model, table

        # The same model serves until the next observation. It keeps the table, so that no other one gets its id.
        key = id(table), self.seed
        fitted, model, _ = self.history.derive(("grown", self.strategy), key, grow)
        return fitted, CandidatePosterior(table, model)

    @property
    def _anchor(self) -> History:
        """The history at the last refit."""
        count = len(self.history)
        anchor = self.history.first(last_refit(count, self.step))
        has_model = np.count_nonzero(anchor.where(Status.OK)) >= NEEDED
        return anchor if has_model else self.history.first(count)

    @property
    def _held(self) -> GrownModel:
        """The model of the last refit."""
        anchor, strategy = self._anchor, self.strategy
        start = last_hyperparameters(anchor)
        most = LISTED_ROWS if self.is_listed else SEARCHED_ROWS

        def fit() -> GrownModel:
            """Fit the hyperparameters to the anchor."""
            values = self._values(anchor)
            rng = generator(self.seed, Purpose.HOLD, 2 * len(anchor))
            view = strategy.view(self.problem.space)
            model, rows = self._surrogate.hold(view, values.data, rng, start, most)
            return GrownModel(model, values.rows[rows], values.rows)

        return anchor.derive(("held", strategy), (self.seed, repr(start)), fit)

    @property
    def _listed(self) -> tuple[GrownModel, CandidateTable]:
        """The model of the last refit, and its table of all feasible configurations."""
        anchor, held = self._anchor, self._held
        rows = self.problem.space.feasible.listed

        def make() -> tuple[GrownModel, CandidateTable]:
            # Other acquisition functions may draw their scores, so that they cannot be computed twice.
            is_fixed = isinstance(self.strategy.acquisition, acquisitions.ExpectedImprovement)
            return held, CandidateTable.of(held.model, rows, is_single=is_fixed)

        return anchor.derive(("listed", self.strategy), id(held.model), make)

    def _search(self, n: int) -> tuple[GrownModel, CandidateTable]:
        """Return a model of most observations, and its table of the best rows of one search."""
        count, fitted_at = len(self.history), len(self._anchor)
        history = self.history.first(max(count - count % self.step, fitted_at))
        wanted = 2 * (n + len(self.history.pending_codes))
        size = max(POOL, 1 << (wanted - 1).bit_length())

        def search() -> tuple[GrownModel, CandidateTable]:
            """Search for the best rows with the model of the history at the last refit of the table."""
            grown = self._grow(self._held, history)
            fitted = self._join_models(grown, history)
            rng = generator(self.seed, Purpose.HOLD, 2 * len(history) + 1)
            excluded = partial(self.problem.is_excluded, history)
            if self.is_listed:
                posterior = CandidatePosterior(self._listed[1], grown.model)
                scored = Scored(self, fitted, posterior, 0.0, rng)
                best = best_free_indices(posterior.table.codes, scored(), size, rng, excluded)
                return grown, CandidateTable.of(grown.model, posterior.table.codes[best])
            space, strategy = self.problem.space, self.strategy
            score = strategy.score(self.problem, history, fitted, fitted.model, 0.0, rng)
            search, start = strategy.search_of(space), incumbents(history)
            rows, _ = search.maximise(score, space, size, rng, start, excluded)
            if space.size == math.inf:
                # Rows that have climbed gather at few points, which a batch would repeat.
                draws = space.feasible.spread(size, rng)
                rows = np.concatenate([_apart(space, rows), draws[~excluded(draws)]])
            return grown, CandidateTable.of(grown.model, rows)

        return history.derive(("search", self.strategy), (self.seed, fitted_at, size), search)

    def _values(self, history: History) -> ModelValues:
        return model_values(history, self.strategy.scale, self.strategy.failed_as)

    @property
    def _surrogate(self) -> surrogates.GaussianProcess:
        assert isinstance(self.strategy.surrogate, surrogates.GaussianProcess)
        return self.strategy.surrogate

    def _grow(self, base: GrownModel, history: History) -> GrownModel:
        """Return the model with the observations that ``base`` does not know, and with the present values of all."""
        values = self._values(history)
        new = np.setdiff1d(values.rows, base.covered, assume_unique=True)
        rows = np.concatenate([base.rows, new])
        data = values.data.rows(np.searchsorted(values.rows, rows))
        variance, mean = data.variance[len(base.rows) :], self._surrogate.mean
        model = add_rows(base.model, history.codes[new], variance, data.y, data.censored, mean)
        return GrownModel(model, rows, values.rows)

    def _join_models(self, grown: GrownModel, history: History | None = None) -> Fitted:
        history = self.history if history is None else history
        values = self._values(history)
        data = values.data.rows(np.searchsorted(values.rows, grown.rows))
        feasibility = self.strategy.fit_feasibility(self.problem.space, history, self.seed)
        return values.fitted(data, grown.model, feasibility)


def _apart(space: Space, rows: Codes) -> Codes:
    """Return the rows, best first, without those that are nearer than `APART` to a better one."""
    features = space.features(rows)
    kept = np.empty((0, features.shape[1]))
    chosen = []
    for i, row in enumerate(features):
        if not len(kept) or ((kept - row) ** 2).sum(axis=1).min() >= APART**2:
            kept = np.vstack([kept, row])
            chosen.append(i)
    return rows[chosen]


class Scored:
    """The weighted acquisition function at the candidates of a posterior.

    Args:
        models: The models of the call.
        fitted: The fitted models.
        posterior: The candidates.
        minimum: Least accepted probability of feasibility.
        rng: Random generator of the acquisition function.

    Attributes:
        incumbent: The value that a candidate must fall below.
        posterior: The candidates.
    """

    incumbent: float
    posterior: CandidatePosterior

    def __init__(
        self,
        models: Incremental,
        fitted: Fitted,
        posterior: CandidatePosterior,
        minimum: float,
        rng: Rng,
    ) -> None:
        strategy, space, codes = models.strategy, models.problem.space, posterior.table.codes
        assert isinstance(fitted.model, GPModel)
        self.incumbent = fitted.incumbent
        self._acquisition, self._model = strategy.acquisition, _Predicted(fitted.model, posterior)
        self.posterior, self._minimum, self._rng = posterior, minimum, rng
        self._prior: Array | None = None
        if has_prior(space):
            weight = prior_weight(space.log_density, len(models.history), strategy.belief)
            self._prior = weight(codes)
        self._feasible: Array | None = None
        if not isinstance(fitted.feasibility, ConstantFeasibility):
            self._feasible = feasibility_weight(fitted.feasibility, codes)

    def __call__(self) -> Array:
        """Return the scores, ``(m,)``."""
        score = bind_acquisition(self._acquisition, self._model, self.incumbent, self._rng)
        scores = comparable(score(self.posterior.table.codes))
        if self._prior is not None:
            scores = scores + self._prior
        if self._feasible is not None:
            scores = add_feasibility(scores, self._feasible, self._minimum)
        return scores

    def believe(self, codes: Codes) -> None:
        """Condition the posterior on rows with the values that the model predicts, and lower the incumbent to these."""
        if len(codes) > MOST_BELIEVED:
            scores = bind_acquisition(self._acquisition, self._model, self.incumbent, self._rng)(
                codes
            )
            codes = codes[np.sort(np.argsort(-comparable(scores), kind="stable")[:MOST_BELIEVED])]
        believed = self.posterior.believe(codes)
        self.incumbent = min(self.incumbent, float(believed.min()))

    def believe_candidates(self, rows: Ints) -> None:
        """Do the same for candidates."""
        self.posterior.believe_candidates(rows)
        self.incumbent = min(self.incumbent, float(self.posterior.mean[rows].min()))

    def subset(self, rows: Ints) -> Scored:
        """Return the scores of some candidates, with a separate posterior."""
        other = copy(self)
        other.posterior = self.posterior.subset(rows)
        other._model = _Predicted(self._model.model, other.posterior)
        other._prior = None if self._prior is None else self._prior[rows]
        other._feasible = None if self._feasible is None else self._feasible[rows]
        return other


def propose(models: Incremental, n: int, rng: Rng) -> list[Proposal]:
    """Return n proposals from the candidates, fewer if there are no more.

    Args:
        models: The models of the call.
        n: Number of proposals.
        rng: Random generator.
    """
    problem, history = models.problem, models.history
    fitted, posterior = models.posterior(n)
    assert isinstance(fitted.model, GPModel)
    minimum = draw_minimum(rng, models.strategy.largest_minimum)
    excluded, pending = partial(problem.is_excluded, history), history.pending_codes

    def score(posterior: CandidatePosterior) -> Scored:
        scored = Scored(models, fitted, posterior, minimum, rng)
        if len(pending):
            scored.believe(pending)
        return scored

    if posterior.table.is_single:
        screened = score(posterior)()
        best = best_free_indices(posterior.table.codes, screened, SCREENED, rng, excluded)
        table = CandidateTable.of(fitted.model, posterior.table.codes[best])
        posterior = CandidatePosterior(table, fitted.model)
    mean, variance = posterior.mean, posterior.variance
    scored = score(posterior)
    kept = n if n == 1 else max(POOL, 2 * n)
    rows = best_free_indices(posterior.table.codes, scored(), kept, rng, excluded)
    chosen = rows[_choose(scored.subset(rows), min(n, len(rows))) if n > 1 else slice(None)]
    codes = posterior.table.codes[chosen]
    feasible = fitted.feasibility.probability(codes)
    notes = tags(fitted, mean[chosen], variance[chosen], feasible, history.direction)
    return [Proposal(row, note) for row, note in zip(codes, notes, strict=True)]


def _choose(scored: Scored, n: int) -> list[int]:
    """Return the indices of n candidates, each the best one if those before it had their predicted values."""
    chosen: list[int] = []
    open_rows = np.arange(len(scored.posterior.mean))
    while len(chosen) < n:
        count = min(ROUND, n - len(chosen))
        order = np.argsort(-scored()[open_rows], kind="stable")
        leading = open_rows[order[: max(POOL, count)]]
        taken = leading[_choose_in_turn(scored.subset(leading), count)]
        chosen += taken.tolist()
        open_rows = np.setdiff1d(open_rows, taken, assume_unique=True)
        if len(chosen) < n:
            scored.believe_candidates(taken)
    return chosen


def _choose_in_turn(scored: Scored, n: int) -> list[int]:
    """Return the indices of n candidates, after a rank-one update for each."""
    chosen: list[int] = []
    taken = np.zeros(len(scored.posterior.mean), dtype=np.bool_)
    while len(chosen) < n:
        scores = np.maximum(scored(), np.finfo(float).min)  # above those that are taken
        latest = int(np.argmax(np.where(taken, -np.inf, scores)))
        chosen.append(latest)
        taken[latest] = True
        if len(chosen) < n:
            scored.believe_candidates(np.array([latest]))
    return chosen
