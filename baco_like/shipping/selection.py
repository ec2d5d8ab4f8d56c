"""How the configuration of a task is chosen; a shipped Python module has the source of this module.

So it uses the standard library only, and plain values: kinds of descriptors as their names, and a decision tree as
``(descriptor, value, if yes, if no)`` with the rank of each entry, 0 first, at its leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def choose(
    task: Mapping[str, Any],
    kinds: Mapping[str, str],
    known: Sequence[Mapping[str, Any]],
    tree: Any,
    allowed: Sequence[Sequence[bool]],
    may_use: Callable[[int, Mapping[str, Any]], bool],
) -> int:
    """Return the index of the configuration for a task: the number of entries for the default, -1 for none."""
    distances = [measure_distance(kinds, each, task) for each in known]
    near = [i for i in range(len(known)) if distances[i] < float("inf")]
    near.sort(key=distances.__getitem__)
    own = allowed[near[0]] if near else [True] * len(allowed[0])
    if tree is not None and near:
        ranks = find_leaf(tree, task)
        near.sort(key=lambda i: ranks[i] if distances[i] > 1.0 else -1)
    every = [*near, *range(len(known), len(allowed[0]))]
    return next((i for i in every if own[i] and may_use(i, task)), -1)


def measure_distance(
    kinds: Mapping[str, str], known: Mapping[str, Any], task: Mapping[str, Any]
) -> float:
    """Return the product of the ratios of the sizes; infinity if other descriptors differ."""
    distance = 1.0
    for name, kind in kinds.items():
        old, new = known[name], task[name]
        if kind == "size":
            is_number = hasattr(new, "__float__") and not isinstance(new, bool)  # also of NumPy
            if not is_number or not 0 < new < float("inf"):
                return float("inf")
            distance *= max(old / new, new / old)
        elif old != new or isinstance(old, str) != isinstance(new, str):
            return float("inf")
    return distance


def find_leaf(tree: Any, task: Mapping[str, Any]) -> Any:
    """Return the leaf of a decision tree for a task."""
    while isinstance(tree, tuple):
        name, value, yes, no = tree
        is_yes = task[name] == value if isinstance(value, (str, bool)) else task[name] <= value
        tree = yes if is_yes else no
    return tree
