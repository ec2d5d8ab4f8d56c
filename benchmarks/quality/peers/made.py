"""Problems made in code whose spaces are too large to list: orders, interacting flags, hidden failures.

They are those of `baco_like.benchmarking.problems`, with the costs of uniform draws.
"""

from collections.abc import Callable, Mapping
from functools import partial

from baco_like.benchmarking.problems import load_problem

from .valued import ValuedProblem, valued

NAMES = (
    *("tour_8", "tour_12", "tour_15", "assignment_8", "assignment_10", "assignment_15"),
    *("flags_24", "wide_0", "wide_1", "wide_2", "mixed_0", "mixed_1"),
)

GROUPS = {
    "tour": "orders",
    "assignment": "orders",
    "flags": "flags",
    "wide": "wide",
    "mixed": "mixed",
}
"""The kind of space, by the first word of the name."""


def made(name: str) -> ValuedProblem:
    """Return one of `NAMES`."""
    found = load_problem(name)
    assert found.best_value is not None
    group = GROUPS[name.split("_")[0]]
    return valued(name, group, found.space, found.function, found.best_value)


MADE: Mapping[str, Callable[[], ValuedProblem]] = {name: partial(made, name) for name in NAMES}
