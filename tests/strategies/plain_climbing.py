"""Hill climbing as a plain loop over an objective that answers at once; chance is drawn in the strategies' order."""

import math

import numpy as np

from baco_like.spaces.neighbourhoods import adjacent, hamming


class Objective:
    """Costs of rows; ``seen`` are those that were asked for, in the order in which they first were."""

    def __init__(self, cost):
        self.cost, self.seen = cost, {}

    def __call__(self, row):
        if tuple(row) not in self.seen:
            cost = self.cost(row)
            self.seen[tuple(row)] = math.inf if cost is None else cost
        return self.seen[tuple(row)]


def rugged(code):
    """No two configurations cost the same; one in seven fails."""
    if int(code.sum()) % 7 == 3:
        return None
    return float(
        ((code - 5) ** 2).sum() + 9 * math.sin(code @ [3, 5, 7, 2]) + 1e-3 * code @ [1, 2, 3, 5]
    )


def neighbours(space, row, rng, name, ranks=None, begin=0, mixed=False):
    """Return the order of the parameters, and the neighbours in this order with the parameter each changes."""
    rows, _ = {"hamming": hamming, "adjacent": adjacent}[name](space, row[None, :], rng)
    genes = []
    for other in rows:
        (gene,) = [
            i
            for i, one in enumerate(space.active)
            if (other[space.columns[one]] != row[space.columns[one]]).any()
        ]
        genes.append(gene)
    ranks = rng.permutation(len(space.active)) if ranks is None else ranks
    jitter = rng.random(len(rows))
    if mixed:
        order = sorted(range(len(rows)), key=lambda i: jitter[i])
        return ranks, [(rows[i], genes[i]) for i in order]
    order = sorted(range(len(rows)), key=lambda i: (ranks[genes[i]], jitter[i]))
    return ranks, [(rows[i], genes[i]) for i in order if ranks[genes[i]] >= begin]


def climb_first(space, f, row, rng, name, restart, mixed=False):
    """Return the local minimum and its cost."""
    cost, ranks, begin, whole = f(row), None, 0, True
    while True:
        is_new = ranks is None
        ranks, around = neighbours(space, row, rng, name, ranks, begin, mixed)
        if mixed and not is_new:
            around = around[:begin]
        for i, (other, gene) in enumerate(around):
            if (value := f(other)) < cost:
                row, cost, whole = other, value, restart
                left = len(around) - i - 1 if mixed else ranks[gene]
                ranks, begin = (None, 0) if restart else (ranks, left)
                break
        else:
            if whole:
                return row, cost
            ranks, begin, whole = None, 0, True


def climb_best(space, f, row, rng, name):
    """Return the local minimum and its cost."""
    cost = f(row)
    while True:
        _, around = neighbours(space, row, rng, name)
        values = [f(other) for other, _ in around]
        if not values or not min(values) < cost:
            return row, cost
        row, cost = around[int(np.argmin(values))][0], min(values)
