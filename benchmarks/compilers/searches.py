"""Searches that an engineer writes in an afternoon. All start at the default configuration and make the same moves.

Each receives a `Measure` of ``benchmarks/quality/peers`` and a seed, and runs until its evaluations are spent. A row
has an index into the values of each parameter. A failure costs infinity.
"""

from collections.abc import Sequence

import numpy as np
from peers.measure import Measure

Row = tuple[int, ...]
MOST_CHANGES = 4


class _Measured:
    """Costs by the number of a configuration, and the random choices of a search.

    Args:
        measure: Returns the cost of a configuration.
        seed: Seed of all random choices.
    """

    def __init__(self, measure: Measure, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.problem, self._measure = measure.problem, measure

    def cost_of(self, number: int) -> float:
        found = self._measure(number)
        return float("inf") if found is None else found


class Moves(_Measured):
    """Random changes of a row, and costs of rows."""

    def __init__(self, measure: Measure, seed: int) -> None:
        super().__init__(measure, seed)
        assert self.problem.start is not None
        self.start: Row = self.problem.start
        self.sizes = np.array([len(own) for own in self.problem.choices])
        self.free = np.flatnonzero(self.sizes > 1)

    def cost(self, row: Row) -> float:
        return self.cost_of(self.problem.row_of(row))

    def change(self, row: Sequence[int], least: int = 1, most: int = MOST_CHANGES) -> Row:
        """Give other values to some parameters, a uniform number of them."""
        number = min(int(self.rng.integers(least, most + 1)), len(self.free))
        changed = list(row)
        for place in self.rng.choice(self.free, number, replace=False):
            other = int(self.rng.integers(self.sizes[place] - 1))
            changed[place] = other + (other >= changed[place])
        return tuple(changed)

    def uniform(self) -> Row:
        return tuple(int(i) for i in self.rng.integers(self.sizes))


def random(measure: Measure, seed: int) -> None:
    """Draw uniformly."""
    moves = Moves(measure, seed)
    moves.cost(moves.start)
    while True:
        moves.cost(moves.uniform())


def evolution(measure: Measure, seed: int) -> None:
    """(1+1) evolution: a child with 1 to 4 changes replaces its parent if it is not worse."""
    moves = Moves(measure, seed)
    best, least = moves.start, moves.cost(moves.start)
    while True:
        child = moves.change(best)
        cost = moves.cost(child)
        if cost <= least:
            best, least = child, cost


def genetic(measure: Measure, seed: int, population: int = 20) -> None:
    """A genetic algorithm: tournaments of two, uniform crossover, 1 to 4 changes, the better half survives."""
    moves = Moves(measure, seed)
    rows = [moves.start, *(moves.change(moves.start) for _ in range(population - 1))]
    alive = [(moves.cost(row), row) for row in rows]
    while True:
        children = []
        for _ in range(population):
            parents = [
                min(alive[int(i)] for i in moves.rng.integers(len(alive), size=2))[1]
                for _ in range(2)
            ]
            mask = moves.rng.random(len(moves.sizes)) < 0.5
            child = moves.change(tuple(np.where(mask, *parents).tolist()))
            children.append((moves.cost(child), child))
        alive = sorted([*alive, *children])[:population]


def iterated(measure: Measure, seed: int, patience: int = 30, kick: int = 8) -> None:
    """Iterated local search: single changes; after so many without a gain, 8 changes of the best row."""
    moves = Moves(measure, seed)
    best = now = (moves.cost(moves.start), moves.start)
    failures = 0
    while True:
        is_kick = failures >= patience
        row = moves.change(best[1], kick, kick) if is_kick else moves.change(now[1], 1, 1)
        found = (moves.cost(row), row)
        failures = 0 if is_kick or found[0] < now[0] else failures + 1
        if is_kick or found[0] <= now[0]:
            now = found
        if found[0] <= best[0]:
            best = found


def forest(
    measure: Measure, seed: int, first: int = 8, important: int = 8, trees: int = 100
) -> None:
    """A random forest in the style of BOCA (Chen et al., ICSE 2021).

    The impurities of the forest name the important parameters. Candidates have all combinations of two values of each
    of them, the best row's and another one, and fewer and fewer settings of the others: half of these settings are near
    one of the three best rows, half are uniform. The candidate with the highest expected improvement is built next.
    """
    from scipy.stats import norm
    from sklearn.ensemble import RandomForestRegressor

    moves = Moves(measure, seed)
    rows = [moves.start, *(moves.change(moves.start) for _ in range(first - 1))]
    costs = [moves.cost(row) for row in rows]
    while True:
        known = np.array(costs)
        y = np.log(np.where(np.isfinite(known), known, known[np.isfinite(known)].max()))
        model = RandomForestRegressor(trees, random_state=len(rows)).fit(np.array(rows), y)
        places = np.argsort(-model.feature_importances_, kind="stable")[:important]
        order = np.argsort(y, kind="stable")[:3]
        settings = max(4, round(16 * 0.5 ** (len(rows) / 50)))  # the decay of BOCA
        bases = [moves.change(rows[order[i % len(order)]]) for i in range(settings // 2)]
        bases += [moves.uniform() for _ in range(settings - len(bases))]
        pool = np.repeat(np.array(bases), 2 ** len(places), axis=0)
        bits = np.arange(2 ** len(places))[:, None] >> np.arange(len(places)) & 1
        other = np.array(moves.change(rows[order[0]], len(moves.free), len(moves.free)))
        two = np.array([np.array(rows[order[0]])[places], other[places]])
        pool[:, places] = np.tile(two[bits, np.arange(len(places))], (settings, 1))
        seen = set(rows)
        pool = np.array(
            [row for row in pool if tuple(row.tolist()) not in seen] or [moves.uniform()]
        )
        each = np.array([tree.predict(pool) for tree in model.estimators_])
        mean, sd = each.mean(axis=0), each.std(axis=0) + 1e-9
        gain = (y.min() - mean) / sd
        improvement = sd * (gain * norm.cdf(gain) + norm.pdf(gain))
        rows.append(tuple(pool[int(np.argmax(improvement))].tolist()))
        costs.append(moves.cost(rows[-1]))


def random_sequences(measure: Measure, seed: int) -> None:
    """Draw the length of a sequence uniformly, then its elements."""
    walk = SequenceMoves(measure, seed)
    walk.cost(walk.start)
    while True:
        length = int(walk.rng.integers(walk.most + 1))
        walk.cost(tuple(walk.element() for _ in range(length)))


def climber(measure: Measure, seed: int) -> None:
    """Climb from the start: a child replaces its parent if it is not worse."""
    walk = SequenceMoves(measure, seed)
    best, least = walk.start, walk.cost(walk.start)
    while True:
        child = walk.change(best)
        cost = walk.cost(child)
        if cost <= least:
            best, least = child, cost


class SequenceMoves(_Measured):
    """Moves of a sequence, the only parameter of the space."""

    def __init__(self, measure: Measure, seed: int) -> None:
        super().__init__(measure, seed)
        (parameter,) = self.problem.space.parameters.values()
        self.start: tuple[str, ...] = parameter.default
        self.most, self._elements = parameter.max_length, parameter.elements

    def cost(self, sequence: tuple[str, ...]) -> float:
        return self.cost_of(self.problem.number[(sequence,)])

    def element(self) -> str:
        return self._elements[int(self.rng.integers(len(self._elements)))]

    def change(self, sequence: tuple[str, ...]) -> tuple[str, ...]:
        """Insert (35 %), delete (15 %), replace (22 %), swap (13 %) or move (15 %) elements."""
        changed = list(sequence)
        while tuple(changed) == sequence:
            kind = self.rng.random()
            place, other = (int(i) for i in self.rng.integers(max(1, len(changed)), size=2))
            if kind < 0.35 and len(changed) < self.most:
                changed.insert(int(self.rng.integers(len(changed) + 1)), self.element())
            elif not changed:
                continue
            elif kind < 0.50:
                del changed[place]
            elif kind < 0.72:
                changed[place] = self.element()
            elif kind < 0.85:
                changed[place], changed[other] = changed[other], changed[place]
            else:
                changed.insert(other, changed.pop(place))
        return tuple(changed)
