"""The mutants of differential evolution, and the coordinates that they pass on (Storn and Price 1997)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Ints, Mask, Rng

Mutant = Callable[[Array, Array, Sequence[Array], float], Array]
"""Returns mutants, ``(n, k)``, from the members, ``(n, k)``, the best point, ``(k,)``, random other members, ``(n, k)``
each, and the weight F."""


@dataclass(frozen=True)
class Donor:
    """A formula for mutants.

    Attributes:
        others: Number of random other members in the formula.
        mutant: The formula.
    """

    others: int
    mutant: Mutant


DONORS: Mapping[str, Donor] = {
    "best1": Donor(2, lambda own, best, r, f: best + f * (r[0] - r[1])),
    "best2": Donor(4, lambda own, best, r, f: best + f * (r[0] + r[1] - r[2] - r[3])),
    "rand1": Donor(3, lambda own, best, r, f: r[0] + f * (r[1] - r[2])),
    "rand2": Donor(5, lambda own, best, r, f: r[0] + f * (r[1] + r[2] - r[3] - r[4])),
    "currenttobest1": Donor(2, lambda own, best, r, f: own + f * (best - own + r[0] - r[1])),
    "randtobest1": Donor(3, lambda own, best, r, f: r[0] + f * (best - r[0] + r[1] - r[2])),
}
"""Formulas by the names that scipy and Kernel Tuner use."""

Cross = Callable[[int, int, float, Rng], Mask]
"""Returns which of the k coordinates of n mutants replace the member's, ``(n, k)``, at least one each, at a rate."""


def cross_binomial(n: int, k: int, rate: float, rng: Rng) -> Mask:
    """Take each coordinate with a probability, and one random coordinate in any case."""
    taken = rng.random((n, k)) < rate
    return np.asarray(taken | (np.arange(k) == rng.integers(0, max(1, k), (n, 1))))


def cross_exponential(n: int, k: int, rate: float, rng: Rng) -> Mask:
    """Take consecutive coordinates from a random one on, wrapping around, each next one with a probability."""
    begin = rng.integers(0, max(1, k), (n, 1))
    continues = np.cumprod(rng.random((n, max(0, k - 1))) < rate, axis=1)
    length = 1 + continues.sum(axis=1, keepdims=True)
    return np.asarray((np.arange(k) - begin) % max(1, k) < length)


CROSSES: Mapping[str, Cross] = {"bin": cross_binomial, "exp": cross_exponential}
"""Crossovers by name."""

METHODS: Mapping[str, tuple[Donor, Cross]] = {
    donor + cross: (DONORS[donor], CROSSES[cross]) for donor in DONORS for cross in CROSSES
}
"""Formula and crossover by names such as ``best1bin``."""


def draw_others(n: int, count: int, rng: Rng) -> Ints:
    """Return different random other members for each of n members, ``(n, count)``; repeated ones if n is too small."""
    if n <= count:
        return rng.integers(0, n, (n, count))
    keys = rng.random((n, n))
    np.fill_diagonal(keys, 2.0)
    return np.argsort(keys, axis=1)[:, :count]
