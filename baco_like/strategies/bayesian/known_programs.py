"""Keeps away from configurations that probably give a program that the run has measured.

Different configurations often give the same program: a compiler ignores many flags, or another flag decides. Equal
hashes of builds tell which parameters are probably inert.
"""

from __future__ import annotations

import numpy as np

from baco_like._typing import Array, Codes
from baco_like.acquisitions.protocol import Score
from baco_like.records import History

EXPECTED = 0.1
"""Chance that a change of one parameter changes the program, before anything is known; the weight of one observation.
Of the flags of gcc, one in five changes a program at all."""

COMPARED = 8
"""Number of the best programs with which a candidate is compared."""

COUNTED = 300
"""Most trials whose programs are compared with each other, the last ones: the time grows with the square."""

LEAST = 1e-3
"""Least chance of a new program."""


def chance_of_effect(history: History) -> Array:
    """Return for each code column the chance that a change of it changes the program, ``(w,)``.

    Each trial is compared with one before it: the last with an equal program, otherwise the nearest. In equal programs
    all changes were inert; of the changes that gave another program, each has its share of the effect.
    """
    codes, programs = history.codes, history.programs
    known = np.flatnonzero((programs >= 0) & ~np.isnan(codes).any(axis=1))[-COUNTED:]
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
    inert = np.log1p(-np.minimum(chance, 0.999)).astype(np.float32)  # which halves the time
    known = _best_programs(history)

    def weighted(codes: Codes) -> Array:
        equal = np.full(len(codes), -np.inf)
        for row in known:
            np.maximum(equal, (codes != row).astype(np.float32) @ inert, out=equal)
        return np.asarray(score(codes) + np.log(np.maximum(-np.expm1(equal), LEAST)))

    return weighted


def _best_programs(history: History) -> Codes:
    """Return a configuration of each of the best programs, ``(<= COMPARED, w)``."""
    programs = history.programs
    usable = (programs == np.arange(len(programs))) & ~np.isnan(history.codes).any(axis=1)
    order = np.argsort(history.costs, kind="stable")  # NaN, of a failure, comes last
    codes: Codes = history.codes[order[usable[order]][:COMPARED]]
    return codes
