"""Keeps away from configurations that probably give a program that the run has measured.

Different configurations often give the same program: a compiler ignores many flags, or another flag decides. Equal
hashes of builds tell which parameters are probably inert.
"""

from __future__ import annotations

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
    usable = (programs == np.arange(len(programs))) & ~np.isnan(history.codes).any(axis=1)
    order = np.argsort(history.costs, kind="stable")  # NaN, of a failure, comes last
    codes: Codes = history.codes[order[usable[order]][:COMPARED]]
    return codes
