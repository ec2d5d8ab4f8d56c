"""Fronts of several objectives: which results no other result dominates, the volume they dominate, and the knee.

All functions work on costs, which are minimised: one row for each result, one column for each objective.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from baco_like._typing import Array, Ints, Mask


def is_non_dominated(costs: Array) -> Mask:
    """Return which rows no other row dominates, ``(n, m)`` -> ``(n,)``.

    A row dominates another one if it is nowhere larger and somewhere smaller. Equal rows do not dominate each other.
    Rows with NaN are dominated.
    """
    costs = np.asarray(costs, dtype=float)
    kept = np.logical_not(np.isnan(costs).any(axis=1))
    order = np.flatnonzero(kept)
    order = order[np.lexsort(costs[order].T[::-1])]  # a row is dominated by earlier ones only
    if costs.shape[1] <= 2 and len(order):
        first, second = costs[order, 0], costs[order, -1]
        # Rows with the same first cost form a group. Its lowest second cost comes first, and has to be
        # below those of all groups before.
        start = np.searchsorted(first, first)
        least = np.minimum.accumulate(second)
        kept[order] = (second == second[start]) & ((start == 0) | (second < least[start - 1]))
        return np.asarray(kept)
    front = np.empty((0, costs.shape[1]))
    for i in order:
        below = (front <= costs[i]).all(axis=1) & (front < costs[i]).any(axis=1)
        if below.any():
            kept[i] = False
        else:
            front = np.vstack([front, costs[i]])
    return np.asarray(kept)


def iterate_fronts(costs: Array, crowded_by: Array | None = None) -> Iterator[Ints]:
    """Yield the rows of one front after the other, ``(n, m)``: first those that no other row dominates.

    Each further front is what no other row dominates without the fronts before. Rows with NaN are in none. Within a
    front, rows with a larger crowding distance come first; equal ones keep their order. This is the crowded-comparison
    operator of Deb, Pratap, Agarwal and Meyarivan, "A fast and elitist multiobjective genetic algorithm: NSGA-II" (IEEE
    TEVC 2002), section III.

    Args:
        costs: The rows.
        crowded_by: Other columns for the crowding distances, ``(n, k)``.
    """
    crowded_by = costs if crowded_by is None else crowded_by
    left = np.flatnonzero(~np.isnan(costs).any(axis=1))
    while len(left):
        is_front = is_non_dominated(costs[left])
        front, left = left[is_front], left[~is_front]
        yield front[np.argsort(-crowding_distances(crowded_by[front]), kind="stable")]


def crowding_distances(costs: Array) -> Array:
    """Return for each row of one front the distance of its neighbours, ``(n, m)`` -> ``(n,)``; infinity at the ends.

    It is the sum over the objectives of the distance between the next lower and the next higher row, each divided by
    the range of the front. Rows with infinite costs have the distance 0. Source: Deb et al. 2002, section III-B.
    """
    costs = np.asarray(costs, dtype=float)
    distances = np.zeros(len(costs))
    finite = np.flatnonzero(np.isfinite(costs).all(axis=1))
    for column in costs[finite].T if len(finite) else ():
        order = np.argsort(column, kind="stable")
        values = column[order]
        extent = values[-1] - values[0]
        distances[finite[order[[0, -1]]]] = np.inf
        if extent > 0.0:
            distances[finite[order[1:-1]]] += (values[2:] - values[:-2]) / extent
    return distances


def hypervolume(costs: Array, reference: Array) -> float:
    """Return the volume that the rows dominate and the reference point bounds, ``(n, m)``, ``(m,)``.

    Source: Zitzler and Thiele, "Multiobjective evolutionary algorithms" (1999). The volume is cut into slices along the
    last objective (While et al., "A faster algorithm for calculating hypervolume", 2006); the time grows as n^(m-1).
    """
    inside = (costs < reference).all(axis=1)
    rows = np.unique(np.asarray(costs, dtype=float)[inside], axis=0)
    return _volume(rows[is_non_dominated(rows)], np.asarray(reference, dtype=float))


def _volume(rows: Array, reference: Array) -> float:
    if not len(rows):
        return 0.0
    if rows.shape[1] == 1:
        return float(reference[0] - rows[:, 0].min())
    rows = rows[np.argsort(rows[:, -1], kind="stable")]
    if rows.shape[1] == 2:
        widths = reference[0] - np.minimum.accumulate(rows[:, 0])
        return float(widths @ np.diff(rows[:, 1], append=reference[1]))
    depths = np.diff(rows[:, -1], append=reference[-1])
    total = 0.0
    for i, depth in enumerate(depths):
        if depth > 0.0:
            slice_of = rows[: i + 1, :-1]
            total += depth * _volume(slice_of[is_non_dominated(slice_of)], reference[:-1])
    return total


def non_dominated_boxes(front: Array, reference: Array) -> tuple[Array, Array]:
    """Return boxes without overlap that fill the region below the reference point that no row dominates.

    The upper corners are the local upper bounds of Lacour, Klamroth and Fonseca, "A box decomposition algorithm to
    compute the hypervolume indicator" (2017), section 3; each is defined by one row for each objective, and box and
    rows are related as in their section 4. There are n + 1 boxes of two objectives, and at most 2 n + 1 of three.

    Args:
        front: Rows that do not dominate each other, ``(n, m)``.
        reference: A point above all rows, ``(m,)``.

    Returns:
        The lower and upper corners, each ``(k, m)``; lower corners are -infinity where a box has no lower end.
    """
    n, m = front.shape
    if m == 2:
        return _strips(front, reference)
    # In ranks no two rows are equal in an objective. Ties become boxes without volume, which are left out at the end.
    ranks = np.empty((n, m))
    for j in range(m):
        ranks[np.lexsort(np.column_stack([front, front[:, j]]).T), j] = np.arange(n)
    upper = np.full((1, m), float(n))
    # defining[b, k] is the row that limits box b in objective k. The reference point limits
    # the first box; it is -infinity in all other objectives.
    defining = np.full((1, m, m), -np.inf)
    defining[0, np.arange(m), np.arange(m)] = float(n)
    for point in ranks:
        above = (point < upper).all(axis=1)
        parents, rows = upper[above], defining[above]
        new_upper, new_defining = [upper[~above]], [defining[~above]]
        for j in range(m):
            others = [k for k in range(m) if k != j]
            is_new = point[j] > rows[:, others, j].max(axis=1, initial=-np.inf)
            child, child_rows = parents[is_new].copy(), rows[is_new].copy()
            child[:, j] = point[j]
            child_rows[:, j] = point
            new_upper.append(child)
            new_defining.append(child_rows)
        upper, defining = np.concatenate(new_upper), np.concatenate(new_defining)
    lower = np.full_like(upper, -np.inf)
    for j in range(1, m):
        lower[:, j] = defining[:, :j, j].max(axis=1)
    scales = np.vstack([np.sort(front, axis=0), reference])
    low = np.full_like(lower, -np.inf)
    for j in range(m):
        known = np.isfinite(lower[:, j])
        low[known, j] = scales[lower[known, j].astype(int), j]
    high = np.take_along_axis(scales, upper.astype(int), axis=0)
    filled = (low < high).all(axis=1)
    return low[filled], high[filled]


def _strips(front: Array, reference: Array) -> tuple[Array, Array]:
    """Return the boxes for two objectives: one below each row, and one beside the last row."""
    ordered = front[np.lexsort(front.T[::-1])]
    upper = np.column_stack(
        [np.append(ordered[:, 0], reference[0]), np.append(reference[1], ordered[:, 1])]
    )
    lower = np.full_like(upper, -np.inf)
    lower[:-1, 1] = ordered[:, 1]
    filled = (lower < upper).all(axis=1)
    return lower[filled], upper[filled]


def knee(costs: Array, weights: Array | None = None) -> int:
    """Return the index of the row nearest to the best value of every objective, ``(n, m)``.

    Each objective is scaled to the range of the non-dominated rows, after a logarithm if all values are positive. The
    distance is Euclidean (compromise programming: Zeleny, "Multiple Criteria Decision Making", 1982).

    Args:
        costs: At least one row without NaN.
        weights: Weights of the objectives, ``(m,)``; a larger one pulls the choice towards the best value.
    """
    front = np.flatnonzero(is_non_dominated(costs))
    rows = np.asarray(costs, dtype=float)[front]
    same_sign = (rows > 0.0).all(axis=0) | (rows < 0.0).all(axis=0)
    rows = np.where(same_sign, np.sign(rows) * np.log(np.where(same_sign, np.abs(rows), 1.0)), rows)
    low, high = rows.min(axis=0), rows.max(axis=0)
    scaled = (rows - low) / np.where(high > low, high - low, 1.0)
    if weights is not None:
        scaled = scaled * weights
    return int(front[np.argmin((scaled**2).sum(axis=1))])
