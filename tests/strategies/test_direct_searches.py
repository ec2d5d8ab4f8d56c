"""Pattern search and multidirectional search against plain loops and by hand."""

import numpy as np
import pytest

from baco_like import Ordinal, Search, Space
from baco_like._random import Purpose, generator
from baco_like.optimizer import Optimizer
from baco_like.strategies import PatternSearch, Torczon
from baco_like.strategies.geometry import RepairedBox
from baco_like.strategies.protocol import Problem

SIDES = {
    "a": 16,
    "b": 32,
    "c": 8,
}  # powers of two: halves of steps are exact in the unit box as well
SPACE = Space({name: Ordinal(list(range(count))) for name, count in SIDES.items()})
COUNTS = np.array(list(SIDES.values()), dtype=float)


def cost(values):
    a, b, c = values
    return 5.0 + (a - 13) ** 2 + 0.5 * (b - 7 - a) ** 2 + (c - 4) ** 2


def evaluated(strategy, n, start=None, seed=2):
    optimizer = Optimizer(SPACE, strategy=strategy, seed=seed)
    if start is not None:
        optimizer.enqueue(dict(zip(SIDES, start, strict=True)))
    for _ in range(n):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial.values()))
    return [tuple(trial.config.values()) for trial in optimizer.trials]


def starts(strategy, seed=2):
    """Return where a run with this seed begins, and the later random starts, as the strategy draws them."""
    state = strategy.init(Problem(SPACE), generator(seed, Purpose.INIT))
    rng, box = np.random.Generator(np.random.PCG64(0)), RepairedBox(SPACE)
    rng.bit_generator.state = state.rng_state
    while True:
        yield box.starts(16, rng)


class Known:
    """Returns values by index and keeps the order of first visits."""

    def __init__(self):
        self.seen = {}

    def __call__(self, index):
        whole = tuple(int(i) for i in np.clip(np.floor(index + 0.5), 0, COUNTS - 1))
        self.seen.setdefault(whole, cost(whole))
        return self.seen[whole]

    def fresh(self, rows):
        return next(row for row in rows if tuple(row.astype(int)) not in self.seen)


def hooke_and_jeeves(n, seed=2, share=0.25):
    """Hooke and Jeeves' search on indices, written plainly."""
    known, rows = Known(), starts(PatternSearch(), seed)

    def explored(base, value, steps):
        for axis in range(3):
            for sign in (1, -1):
                other = base.copy()
                other[axis] = np.clip(other[axis] + sign * steps[axis], -0.5, COUNTS[axis] - 0.5)
                if known(other) < value:
                    base, value = np.clip(np.floor(other + 0.5), 0, COUNTS - 1), known(other)
                    break
        return base, value

    while len(known.seen) < n:
        base, size = known.fresh(next(rows)), share
        value = known(base)
        while len(known.seen) < n:
            steps = np.maximum(np.round(size * COUNTS), 1)
            found, better = explored(base, value, steps)
            if better >= value:
                if (steps == np.maximum(np.round(size / 2 * COUNTS), 1)).all():
                    break
                size /= 2
                continue
            while better < value:
                previous, base, value = base, found, better
                leap = np.clip(2 * base - previous, -0.5, COUNTS - 0.5)
                found, better = explored(leap, known(leap), steps)
    return list(known.seen)[:n]


def multidirectional(n, seed=2, side=0.25):
    """Torczon's search on indices, written plainly."""
    known, rows = Known(), starts(Torczon(), seed)
    while len(known.seen) < n:
        start = known.fresh(next(rows))
        steps = np.where(start + 0.5 <= COUNTS / 2, 1, -1) * np.maximum(np.round(side * COUNTS), 1)
        simplex = [(known(v), i, v) for i, v in enumerate([start, *(start + np.diag(steps))])]
        while len(known.seen) < n:
            simplex = [(c, i, v) for i, (c, _, v) in enumerate(sorted(simplex, key=lambda s: s[0]))]
            (least, _, best), others = simplex[0], [v for _, _, v in simplex[1:]]
            if (np.ptp([v for _, _, v in simplex], axis=0) < 1).all():
                break

            def moved(factor, best=best, others=others):
                vertices = [best + factor * (v - best) for v in others]
                return [(known(v), i, v) for i, v in enumerate(vertices)]

            chosen = moved(-1)
            if min(chosen)[0] < least:
                larger = moved(-2)
                chosen = larger if min(larger)[0] < min(chosen)[0] else chosen
            else:
                chosen = moved(0.5)
            simplex = [(least, -1, best), *chosen]
    return list(known.seen)[:n]


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_pattern_search_is_the_plain_loop_with_its_restarts(seed):
    assert evaluated(PatternSearch(), 130, seed=seed) == hooke_and_jeeves(130, seed)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_torczons_search_is_the_plain_loop_with_its_restarts(seed):
    assert evaluated(Torczon(), 130, seed=seed) == multidirectional(130, seed)


def test_a_pattern_search_by_hand():
    """Along one axis of 16 from 4 with step 4, towards 11: up, leap to 12, and with 2 and 1 back to 11."""
    space = Space({"a": Ordinal(list(range(16)))})
    optimizer = Optimizer(space, strategy=Search(PatternSearch(), initial=[{"a": 4}]), seed=0)
    values = []
    for _ in range(8):
        trial = optimizer.suggest()
        values.append(trial["a"])
        optimizer.observe(trial, 1.0 + abs(trial["a"] - 11))
    # 4; 8 is better; leap to 12 and explore 15 (the border) and 8; 12 is better; leap to 15: 12 is not better
    # than the base; around 12: 15, 8; step 2: 14, 10, step 1: 13, 11
    assert values == [4, 8, 12, 15, 14, 10, 13, 11]


def test_the_least_value_of_a_bowl_is_found():
    assert (13, 20, 4) in evaluated(PatternSearch(), 100, start=(2, 28, 7))
    assert (13, 20, 4) in evaluated(Torczon(), 350, start=(2, 28, 7))
