"""The mutants of differential evolution, and which of their coordinates replace a member's (Storn and Price 1997)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from baco_like._typing import Array, Ints, Mask, Rng

Difference = Callable[[Array, Array, Sequence[Array], float], Array]
"""From the members, ``(n, k)``, the best point, ``(k,)``, random other members, ``(n, k)`` each, and the weight F to
mutants, ``(n, k)``."""


@dataclass(frozen=True)
class Donor:
    """How a mutant is made.

    Attributes:
        others: How many random other members it takes.
        mutant: Makes them.
    """

    others: int
    mutant: Difference


def _best1(own: Array, best: Array, r: Sequence[Array], f: float) -> Array:
    return best + f * (r[0] - r[1])


def _best2(own: Array, best: Array, r: Sequence[Array], f: float) -> Array:
    return best + f * (r[0] + r[1] - r[2] - r[3])


def _rand1(own: Array, best: Array, r: Sequence[Array], f: float) -> Array:
    return r[0] + f * (r[1] - r[2])


def _rand2(own: Array, best: Array, r: Sequence[Array], f: float) -> Array:
    return r[0] + f * (r[1] + r[2] - r[3] - r[4])


def _current_to_best1(own: Array, best: Array, r: Sequence[Array], f: float) -> Array:
    return own + f * (best - own + r[0] - r[1])


def _rand_to_best1(own: Array, best: Array, r: Sequence[Array], f: float) -> Array:
    return r[0] + f * (best - r[0] + r[1] - r[2])


DONORS: Mapping[str, Donor] = {
    "best1": Donor(2, _best1),
    "best2": Donor(4, _best2),
    "rand1": Donor(3, _rand1),
    "rand2": Donor(5, _rand2),
    "currenttobest1": Donor(2, _current_to_best1),
    "randtobest1": Donor(3, _rand_to_best1),
}
"""Names of mutants, as scipy and Kernel Tuner have them."""

Cross = Callable[[int, int, float, Rng], Mask]
"""Which coordinates of n mutants, of k each, replace those of the member: ``(n, k)``, at least one."""


def binomial(n: int, k: int, rate: float, rng: Rng) -> Mask:
    """Return independent tosses, and one random coordinate in any case."""
    taken = rng.random((n, k)) < rate
    return np.asarray(taken | (np.arange(k) == rng.integers(0, max(1, k), (n, 1))))


def exponential(n: int, k: int, rate: float, rng: Rng) -> Mask:
    """Return a stretch, around the end, that goes on behind its random begin as long as tosses succeed."""
    begin = rng.integers(0, max(1, k), (n, 1))
    going = np.cumprod(rng.random((n, max(0, k - 1))) < rate, axis=1)
    length = 1 + going.sum(axis=1, keepdims=True)
    return np.asarray((np.arange(k) - begin) % max(1, k) < length)


CROSSES: Mapping[str, Cross] = {"bin": binomial, "exp": exponential}
"""Names of crossovers."""

METHODS: Mapping[str, tuple[Donor, Cross]] = {
    donor + cross: (DONORS[donor], CROSSES[cross]) for donor in DONORS for cross in CROSSES
}
"""Names such as ``best1bin``."""


def random_others(n: int, count: int, rng: Rng) -> Ints:
    """Return for each of n members so many different others, ``(n, count)``; with repetition where n is too small."""
    if n <= count:
        return rng.integers(0, n, (n, count))
    keys = rng.random((n, n))
    np.fill_diagonal(keys, 2.0)
    return np.argsort(keys, axis=1)[:, :count]
