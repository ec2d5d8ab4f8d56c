"""Gaussian processes that gain rows while their hyperparameters hold, and their posterior at fixed candidates.

A fit costs hundreds of milliseconds with 1,000 observations, and one more observation moves the hyperparameters little.
So they hold between refits (`last_refit`). New observations, and configurations that are believed to have their
predicted value, become rows below the Cholesky factor:

    [L   0] [L'  B ]   [K       k(X, S)          ]
    [B'  C] [0   C'] = [k(S, X)  k(S, S) + noise ],   B = L^-1 k(X, S),   C C' = k(S, S) + noise - B' B

(Rasmussen and Williams 2006, Appendix A.3; the inverse of the factor grows in the same way.) For m new rows it takes
m n^2 operations instead of n^3 / 3.

`CandidateTable` keeps L^-1 k(X, candidates). Then a new row costs one product with it, and the variance at a candidate
falls by one square.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints, Mask, Rng
from baco_like.surrogates.gp.fit import Mean, solve_mean
from baco_like.surrogates.gp.kernel import cross_squared_distances
from baco_like.surrogates.gp.model import BLOCK, GPModel, safe_cholesky, truncated_mean

EVERY_COUNT = 220
"""Up to this number of observations the hyperparameters are fitted for every suggestion."""

SHARE = 20
"""Beyond `EVERY_COUNT` they are fitted again when the number has grown by one part in this many ..."""

MOST_NEW = 100
"""... or by this many: a model has so many rows more than its informative ones."""

CENTRES = 5
"""Number of the best rows near which `informative_rows` takes rows."""


def last_refit(count: int, step: int = 1) -> int:
    """Return the largest number of observations, up to ``count``, after which the hyperparameters are fitted.

    The schedule depends on the number alone, so a resumed run fits at the same points.

    Args:
        count: Number of observations.
        step: Up to `EVERY_COUNT`, they are fitted at multiples of this.
    """
    if count <= EVERY_COUNT:
        return max(count - count % step, min(count, 1))
    point = EVERY_COUNT
    while True:
        following = point + max(step, min(point // SHARE, MOST_NEW))
        if following > count:
            return point
        point = following


def informative_rows(y: Array, scaled: Features, most: int, rng: Rng) -> Ints:
    """Return the indices of at most ``most`` rows: a half are the best, a quarter are near the best, others are drawn.

    The model is then precise where it decides (a trust region around the incumbents), and knows the rest in outline.

    Args:
        y: Values, ``(n,)``; lower is better.
        scaled: Features divided by the lengthscales, ``(n, k)``.
        most: Largest number of rows.
        rng: Random generator.
    """
    if len(y) <= most:
        return np.arange(len(y))
    order = np.argsort(y, kind="stable")
    best, rest = order[: most // 2], order[most // 2 :]
    distance = cross_squared_distances(scaled[rest], scaled[order[:CENTRES]]).min(axis=1)
    near = np.argsort(distance, kind="stable")[: most // 4]
    others = np.delete(rest, near)
    drawn = rng.choice(others, size=most - len(best) - len(near), replace=False)
    return np.sort(np.concatenate([best, rest[near], drawn]))


def add_rows(
    model: GPModel, codes: Codes, variance: Array, y: Array, censored: Mask, mean: Mean
) -> GPModel:
    """Return the model that also has these rows, with new values for all rows and the same hyperparameters.

    Args:
        model: Has n rows.
        codes: Configurations of the new rows, ``(m, w)``.
        variance: Known variances of their values, ``(m,)``.
        y: Values of the old and the new rows, ``(n + m,)``; bounds where censored.
        censored: Whether each value is only a lower bound, ``(n + m,)``.
        mean: The prior mean.
    """
    grown = model if not len(codes) else _with_rows(model, codes, variance)
    y = impute(grown, y, censored, mean)
    level, alpha = solve_mean(grown.factor, y, mean)
    other = replace(grown, mean=level, residual=y - level)
    # Cached properties, which `replace` drops.
    vars(other).update(alpha=alpha, inverse_factor=grown.inverse_factor)
    return other


def _with_rows(model: GPModel, codes: Codes, variance: Array) -> GPModel:
    """Return the model with more rows, whose values are not set yet."""
    scaled = model.scaled_features(codes)
    inverse, n, m = model.inverse_factor, len(model.rows), len(codes)
    _, below, corner = model.border(scaled, variance)
    factor = np.zeros((n + m, n + m), order="F")
    factor[:n, :n], factor[n:, :n], factor[n:, n:] = model.factor, below.T, corner
    grown = np.zeros((n + m, n + m), order="F")
    grown[:n, :n], grown[n:, n:] = inverse, np.linalg.inv(corner)
    grown[n:, :n] = -grown[n:, n:] @ (below.T @ inverse)
    rows = np.concatenate([model.rows, scaled])
    residual = np.concatenate([model.residual, np.zeros(m)])
    other = replace(model, rows=rows, factor=factor, residual=residual)
    vars(other)["inverse_factor"] = grown
    return other


def impute(model: GPModel, y: Array, censored: Mask, mean: Mean) -> Array:
    """Return the values with censored ones replaced as by `baco_like.surrogates.gp.model.fit_imputed`.

    Both passes use the factor of all rows. The first predicts the censored rows c from the others: with K^-1 of all
    rows, their covariance is ([K^-1]_cc)^-1 and their mean y_c - ([K^-1]_cc)^-1 [K^-1 (y - mean)]_c, whatever y_c is
    (block form of Rasmussen and Williams 2006, Eq. 5.12).
    """
    if censored.all() or not censored.any():
        return y
    y, bound, columns = y.copy(), y[censored], model.inverse_factor[:, censored]
    covariance = np.linalg.inv(columns.T @ columns)
    alpha = solve_mean(model.factor, y, mean)[1][censored]
    y[censored] = truncated_mean(bound - covariance @ alpha, np.diagonal(covariance), bound)
    precision = np.einsum("ij,ij->j", columns, columns)
    alpha = solve_mean(model.factor, y, mean)[1][censored]
    y[censored] = truncated_mean(y[censored] - alpha / precision, 1.0 / precision, bound)
    return y


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """Candidates with what a model needs to predict them, however its values change.

    Attributes:
        codes: The candidates, ``(m, w)``.
        scaled: Their features divided by the lengthscales, ``(m, k)``.
        solved: L^-1 k(X, candidates), transposed, ``(m, n)``; in single precision only to find the best candidates.
        variance: Variance of the noise-free value given the n rows, ``(m,)``.
    """

    codes: Codes
    scaled: Features
    solved: Array
    variance: Array

    @classmethod
    def of(cls, model: GPModel, codes: Codes, is_single: bool = False) -> CandidateTable:
        """Return the table of a model with n rows.

        Single precision takes half the memory and half the time, and its errors are near 1e-6 of the outputscale. So
        what it ranks highest is scored again in double precision.
        """
        from scipy.linalg import get_blas_funcs

        scaled, n = model.scaled_features(codes), len(model.rows)
        inverse = model.inverse_factor
        if is_single:
            inverse = inverse.astype(np.float32, order="F")
        product = get_blas_funcs("trmm", (inverse,))
        solved = np.empty((len(codes), n), inverse.dtype)
        size = max(1, 16 * BLOCK // max(n, 1))
        for at in range(0, len(codes), size):
            # The transpose is in the Fortran order that BLAS expects, as in `GPModel.predict`.
            cross = model.covariance(scaled[at : at + size], model.rows).T
            cross = cross.astype(inverse.dtype, order="F", copy=False)
            solved[at : at + size] = product(1.0, inverse, cross, lower=1, overwrite_b=1).T
        explained = np.einsum("ij,ij->i", solved, solved).astype(float)
        return cls(codes, scaled, solved, model.fitted.outputscale - explained)

    @property
    def is_single(self) -> bool:
        """Whether it is in single precision."""
        return self.solved.dtype == np.float32

    def explain(self, factors: Array) -> Array:
        """Return the products of ``factors``, ``(r, n)``, with the solved covariances, ``(r, m)``."""
        return np.asarray(factors.astype(self.solved.dtype, copy=False) @ self.solved.T, float)

    def subset(self, rows: Ints) -> CandidateTable:
        """Return the table of some candidates only."""
        return CandidateTable(
            self.codes[rows], self.scaled[rows], self.solved[rows], self.variance[rows]
        )


class CandidatePosterior:
    """The posterior at the candidates of a table; it changes as rows are believed to have their predicted values.

    Args:
        table: The candidates, of a model with the first rows of ``model`` and the same hyperparameters.
        model: The model, with r rows more.

    Attributes:
        table: The candidates.
        mean: Mean of the noise-free value at each candidate, ``(m,)``; believed rows do not change it.
        variance: Its variance, ``(m,)``.
    """

    table: CandidateTable
    mean: Array
    variance: Array

    def __init__(self, table: CandidateTable, model: GPModel) -> None:
        n = table.solved.shape[1]
        whitened = model.inverse_factor @ model.residual
        self.table, self._model, self._known = table, model, n
        self._rows = np.empty((0, len(table.codes)))
        self._variance = table.variance
        self.variance = np.maximum(table.variance, 0.0)
        self.mean = model.mean + table.explain(whitened[None, :n])[0]
        if n < len(model.rows):
            cross = model.covariance(model.rows[n:], table.scaled)
            self._append(cross, model.factor[n:, :n], model.factor[n:, n:])
            self.mean += whitened[n:] @ self._rows

    def believe(self, codes: Codes) -> Array:
        """Add rows, ``(q, w)``, believed to have the values that the model predicts; return these, ``(q,)``.

        Call it once, before `believe_candidates`.
        """
        model = self._model
        scaled = model.scaled_features(codes)
        cross, below, corner = model.border(scaled)
        to_candidates = model.covariance(scaled, self.table.scaled)
        self._append(to_candidates, below.T, corner)
        return np.asarray(model.mean + cross.T @ model.alpha)

    def believe_candidates(self, rows: Ints) -> None:
        """Add candidates as such rows; one of them is a rank-one update."""
        from scipy.linalg import solve_triangular

        table, model = self.table, self._model
        covariance = model.covariance(table.scaled[rows], table.scaled)
        covariance -= table.solved[rows] @ table.solved.T
        covariance -= self._rows[:, rows].T @ self._rows
        corner = covariance[:, rows]
        corner[np.diag_indices_from(corner)] += model.fitted.noise
        if len(rows) == 1:
            added = covariance / np.sqrt(max(float(corner[0, 0]), model.fitted.noise))
        else:
            factor = safe_cholesky(corner)
            added = solve_triangular(factor, covariance, lower=True, check_finite=False)
        self._add(added)

    def subset(self, rows: Ints) -> CandidatePosterior:
        """Return the posterior at some candidates; changes of one do not change the other."""
        other = copy(self)
        other.table, other.mean = self.table.subset(rows), self.mean[rows]
        other._rows, other._variance = self._rows[:, rows], self._variance[rows]
        other.variance = self.variance[rows]
        return other

    def _append(self, covariance: Array, below: Array, corner: Array) -> None:
        """Append rows, given their covariance with the candidates and their rows of the factor."""
        from scipy.linalg import solve_triangular

        n = self._known
        covariance = covariance - self.table.explain(below[:, :n])
        if below.shape[1] > n:
            covariance -= below[:, n:] @ self._rows
        rows = solve_triangular(corner, covariance, lower=True, check_finite=False)
        self._add(rows)

    def _add(self, rows: Array) -> None:
        self._rows = np.concatenate([self._rows, rows])
        self._variance = self._variance - np.einsum("ij,ij->j", rows, rows)
        self.variance = np.maximum(self._variance, 0.0)
