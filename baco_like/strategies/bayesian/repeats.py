"""Keeps away from configurations that probably repeat a program or an outcome that the run knows.

Different configurations often give the same program: a compiler ignores many flags, or another flag decides. Equal
hashes of builds tell which parameters are probably inert (`prefer_new_programs`).

Without hashes, equal outcomes tell it (`fit_inert`): a flag does nothing without another one, and a loop's order or
unrolling does nothing for some tiles. A Gaussian process that knows no such rule stays uncertain about each of them:
half of the suggestions for a recorded C program repeated an outcome (fast_small in
benchmarks/quality/results/several_objectives.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from baco_like._typing import Array, Codes, Mask
from baco_like.acquisitions.protocol import Score
from baco_like.records import History
from baco_like.spaces import Space

EXPECTED = 0.1
"""Chance that a change of one parameter changes the program, before anything is known; the weight of one observation.
Of the flags of gcc, one in five changes a program at all."""

COMPARED = 8
"""Number of the best programs with which a candidate is compared."""

COUNTED = 200
"""Most trials whose programs are compared with each other, the last ones: the time grows with the square."""

LEAST = 1e-3
"""Least chance of a new program."""


def chance_of_effect(history: History) -> Array:
    """Return for each code column the chance that a change of it changes the program, ``(w,)``.

    Each trial is compared with one before it: the last with an equal program, otherwise the nearest. In equal programs
    all changes were inert; of the changes that gave another program, each has its share of the effect.
    """
    codes, programs = history.codes, history.programs
    known = np.flatnonzero((programs >= 0) & history.inside)[-COUNTED:]
    codes, programs = codes[known], programs[known]
    effects = np.full(codes.shape[1], EXPECTED)
    seen = np.ones(codes.shape[1])
    for i in range(1, len(codes)):
        changed = codes[:i] != codes[i]
        equal = np.flatnonzero(programs[:i] == programs[i])
        if len(equal):
            seen += changed[equal[-1]]
            continue
        other = changed[int(np.argmin(changed.sum(axis=1)))]
        chance = effects[other] / seen[other]
        effects[other] += np.minimum(chance / max(1.0 - np.prod(1.0 - chance), 1e-12), 1.0)
        seen += other
    return np.asarray(effects / seen)


def prefer_new_programs(score: Score, history: History) -> Score:
    """Return the score plus the log of the chance that a configuration gives a program that is new in the run."""
    programs = history.programs
    if not (programs >= 0).any():
        return score
    chance = history.derive("chance_of_effect", None, lambda: chance_of_effect(history))
    inert = np.log1p(-np.minimum(chance, 0.999))
    known = _best_programs(history)
    # For switches the sums are two products of matrices, which take a fraction of the time of comparisons.
    switches = _switches(history.space)
    of_switches, of_others = inert[switches], inert[~switches]
    own, others = known[:, switches] * of_switches, known[:, ~switches]

    def weighted(codes: Codes) -> Array:
        on = codes[:, switches]
        equal = (on @ of_switches)[:, None] + own.sum(axis=1) - 2.0 * on @ own.T
        rest = codes[:, ~switches]
        for i, row in enumerate(others if rest.shape[1] else ()):
            equal[:, i] += (rest != row) @ of_others
        chance_of_new = -np.expm1(np.minimum(equal.max(axis=1), 0.0))
        return np.asarray(score(codes) + np.log(np.maximum(chance_of_new, LEAST)))

    return weighted


def _switches(space: Space) -> Mask:
    """Return which code columns have the codes 0 and 1 only, ``(w,)``."""
    switches = np.zeros(space.width, dtype=np.bool_)
    for name, columns in space.columns.items():
        parameter = space.parameters[name]
        if parameter.width == 1 and parameter.cardinality == 2:
            switches[columns] = tuple(parameter.code_range) == (0, 1)
    return switches


def _best_programs(history: History) -> Codes:
    """Return a configuration of each of the best programs, ``(<= COMPARED, w)``."""
    programs = history.programs
    usable = (programs == np.arange(len(programs))) & history.inside
    order = np.argsort(history.costs, kind="stable")  # NaN, of a failure, comes last
    codes: Codes = history.codes[order[usable[order]][:COMPARED]]
    return codes


_MOST = 120
"""Largest number of observations that are compared, the latest ones: the number of pairs grows with the square."""

_MOST_COMPARISONS = 500_000
"""Largest number of pairs times parameters; with more than 69 parameters fewer observations are compared."""

_MOST_KINDS = 2000
"""Largest number of kinds of pairs that the fit uses, those with the fewest parameters that differ: the others are
almost never equal. With 200 flags nearly every pair differs in other flags, and without this limit and the one above
the fit took 1 s."""

_IMAGINARY = (1.0, 4.0)
"""Imaginary pairs for each parameter, in which it alone differs: with an equal and with another outcome. In 48 runs of
eight problems the mean probability of a repeated outcome was 0.29, and the share of repeated outcomes 0.25."""

_LEAST = 1e-9
"""Floor of a probability, for a configuration that is known itself; its logarithm stays finite."""

_LARGEST = 10.0
"""Largest log odds of a probability."""

_MOST_STEPS = 50
_STEP = 1e-3
"""The fit ends after this number of steps, or after one that changes all log odds by less."""


def fit_inert(space: Space, codes: Codes, costs: Array) -> Array | None:
    """Return for each parameter the log probability that a change of its value does not change the outcome, ``(p,)``.

    The model: two outcomes are equal if each of the parameters that differ is inert, independently and with its own
    probability. The probabilities maximise the posterior density given all pairs of observations.

    Args:
        space: The space.
        codes: The observed configurations, ``(n, w)``.
        costs: Their costs in all objectives, ``(n, m)``.

    Returns:
        None if no two outcomes are equal.
    """
    most = min(_MOST, math.isqrt(2 * _MOST_COMPARISONS // len(space.columns)))
    codes, costs = codes[-most:], costs[-most:]
    equal = np.ones((len(costs), len(costs)), dtype=np.bool_)
    for column in costs.T:
        equal &= np.equal.outer(column, column)
    if np.count_nonzero(equal) == len(costs):
        return None
    keys = _keys(space, codes)
    # Pairs that differ in the same parameters have the same sum of weights, and count together. Numbers of 16 bits are
    # sorted in half the time.
    numbers = np.arange(keys.shape[1])
    weights = (1 << numbers).astype(np.uint16) if len(numbers) <= 16 else np.sin(1.0 + numbers)
    mixed = np.zeros(equal.shape, dtype=weights.dtype)
    for key, weight in zip(keys.T, weights, strict=True):
        mixed += weight * np.not_equal.outer(key, key)
    pairs = np.triu_indices(len(codes), 1)
    _, chosen, pattern = np.unique(mixed[pairs], return_index=True, return_inverse=True)
    first, second = (rows[chosen] for rows in pairs)
    differs = keys[first] != keys[second]
    repeated = np.bincount(pattern[equal[pairs]], minlength=len(chosen)).astype(np.float64)
    others = np.bincount(pattern, minlength=len(chosen)) - repeated
    kept = np.argsort(np.count_nonzero(differs, axis=1), kind="stable")[:_MOST_KINDS]
    return _maximise_posterior(differs[kept].astype(np.float64), repeated[kept], others[kept])


def _maximise_posterior(differs: Array, repeated: Array, others: Array) -> Array:
    """Return the log probabilities of `fit_inert`, ``(p,)``.

    Args:
        differs: For each kind of pair, 1.0 for the parameters that differ, ``(k, p)``.
        repeated: Number of pairs with equal outcomes, ``(k,)``.
        others: Number of pairs with different outcomes.
    """
    inert, active = _IMAGINARY
    changed = differs.any(axis=1)  # the same configuration twice says nothing
    differs, repeated, others = differs[changed], repeated[changed], others[changed]
    counts = repeated @ differs + inert
    odds = np.full(differs.shape[1], np.log(inert / active))
    # Newton's method on the log odds: a general optimizer takes five times as long for so few numbers.
    for _ in range(_MOST_STEPS):
        log_inert = -np.logaddexp(0.0, -odds)
        chance = np.exp(log_inert)
        other_chance = 1.0 - chance
        ratio = 1.0 / np.expm1(-(differs @ log_inert))  # odds of an equal outcome
        expected = others * ratio
        by_log = counts - expected @ differs
        scaled = differs * other_chance
        curvature = (scaled.T * (expected * (1.0 + ratio))) @ scaled
        # Positive where the density is not concave, too; exact at the maximum.
        own = (np.maximum(by_log, 0.0) + active) * chance * other_chance
        curvature.flat[:: len(own) + 1] += own
        step = np.linalg.solve(curvature, by_log * other_chance - active * chance)
        odds = np.clip(odds + np.clip(step, -2.0, 2.0), -_LARGEST, _LARGEST)
        if np.abs(step).max() < _STEP:
            break
    return np.asarray(-np.logaddexp(0.0, -odds))


def log_new(space: Space, inert: Array, known: Codes) -> Callable[[Codes], Array]:
    """Return the function that gives the log probability of a new outcome, ``(n, w)`` -> ``(n,)``.

    Args:
        space: The space.
        inert: The result of `fit_inert`.
        known: The observed and the pending configurations, ``(k, w)``.
    """
    known_keys = _keys(space, known[-_MOST:])

    def score(codes: Codes) -> Array:
        keys = _keys(space, codes)
        log_equal = np.zeros((len(codes), len(known_keys)))
        for column, log_probability in enumerate(inert):
            differs = np.not_equal.outer(keys[:, column], known_keys[:, column])
            log_equal += log_probability * differs
        return np.asarray(np.log(np.maximum(-np.expm1(log_equal), _LEAST)).sum(axis=1))

    return score


def _keys(space: Space, codes: Codes) -> Array:
    """Return one number for the value of each parameter, ``(n, p)``; equal values have equal numbers."""
    parts = list(space.columns.values())
    if len(parts) == codes.shape[1]:
        return codes
    keys = np.empty((len(codes), len(parts)))
    for column, part in enumerate(parts):
        own = codes[:, part]
        # A permutation has a column for each element. Integers wrap around without a rounding error.
        powers = np.power(1_000_003, np.arange(own.shape[1], dtype=np.int64))
        keys[:, column] = own[:, 0] if own.shape[1] == 1 else own.astype(np.int64) @ powers
    return keys
