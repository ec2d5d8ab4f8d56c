"""Standard problems for studies: functions whose optimum is known, with their spaces.

Every problem is fixed by its name. `PROBLEMS` makes them; `load_problem` returns one by its name.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from functools import partial

from baco_like.benchmarking.problems import conditional, flags, mixed, orders, reals, tables
from baco_like.benchmarking.problems.problem import FunctionProblem, load_problem, problem

__all__ = ["PROBLEMS", "FunctionProblem", "load_problem", "problem"]

PROBLEMS: Mapping[str, Callable[[], FunctionProblem]] = {
    **{f"tour_{n}": partial(orders.tour, n) for n in (8, 12, 15)},
    **{f"assignment_{n}": partial(orders.assignment, n) for n in (8, 10, 15)},
    **{f"schedule_{n}": partial(orders.schedule, n) for n in (8, 12)},
    **{f"flags_{n}": partial(flags.flags, n) for n in (24, 25)},
    **{f"wide_{seed}": partial(flags.wide, seed) for seed in range(3)},
    **{f"mixed_{seed}": partial(mixed.mixed, seed) for seed in range(2)},
    **{f"mixed_14_{seed}": partial(mixed.mixed_14, seed) for seed in range(2)},
    **{
        f"listed_{make.__name__}": partial(tables.listed_problem, f"listed_{make.__name__}", make)
        for make in (tables.flags, tables.tiles, tables.passes)
    },
    "branin": reals.branin_problem,
    **{f"hartmann_{n}": partial(reals.hartmann_problem, n) for n in (3, 6)},
    "branin_order": reals.branin_order,
    "hartmann_order": reals.hartmann_order,
    **{f"conditional_{name}": partial(conditional.conditional, name) for name in conditional.NAMES},
}
"""Functions that make the problems, by name."""


def unknown_problem(name: str) -> str:
    """Return the message for a name that is neither one of `PROBLEMS` nor ``module:attribute``."""
    near = difflib.get_close_matches(name, PROBLEMS, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"the problems are {', '.join(PROBLEMS)}."
    return f"there is no problem or file {name!r}; {hint} Your own is written module:function"
