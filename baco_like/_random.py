"""Random generators, derived from the run's only seed by purpose and index.

A generator does not depend on earlier draws, so a resumed run draws the same numbers as an uninterrupted one.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from baco_like._typing import Rng


class Purpose(IntEnum):
    """Use of a generator. The numbers decide the random draws of existing journals, so they never change."""

    INIT = 0
    ASK = 1
    TELL = 2
    FILL = 3
    MODEL = 4
    SAMPLE = 5
    EVALUATE = 6
    WARM = 7
    CONFIRM = 8
    EXPLAIN = 9
    FALLBACK = 10
    HOLD = 11
    PROPOSE = 12
    CHOOSE = 13


def generator(seed: int, purpose: Purpose, index: int = 0, stream: int | None = None) -> Rng:
    """Return the generator for one call.

    Args:
        seed: The run's only seed, a non-negative integer.
        purpose: Use of the generator.
        index: Number of the call with this purpose, usually a trial's number.
        stream: Number of the optimizer's own stream among several that share a run, or None.
    """
    own = [] if stream is None else [stream]
    return np.random.default_rng([seed, int(purpose), index, *own])
