"""Chance, derived from the one seed by purpose and index and never by what was drawn before."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from baco_like._typing import Rng


class Purpose(IntEnum):
    """What a generator is for; the numbers are part of the journal's meaning and never change."""

    INIT = 0
    ASK = 1
    TELL = 2
    FILL = 3
    MODEL = 4
    SAMPLE = 5
    EVALUATE = 6
    WARM = 7


def generator(seed: int, purpose: Purpose, index: int = 0) -> Rng:
    """Return the generator for one call.

    Args:
        seed: The run's only seed, a non-negative integer.
        purpose: What the call is for.
        index: Which call of that purpose, usually a trial's number.
    """
    return np.random.default_rng([seed, int(purpose), index])
