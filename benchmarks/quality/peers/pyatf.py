"""pyATF's search techniques on its own tree of the space, which has feasible configurations only.

A failure is reported as None, as its cost functions do.
"""

import random
from functools import cache
from typing import Any

from other_packages import Prefix, keep_signal_handlers

from .measure import Measure
from .problem import Problem


def run(measure: Measure, seed: int, technique: str) -> None:
    with keep_signal_handlers():
        from pyatf import search_techniques
    problem = measure.problem
    space = tree(problem)
    random.seed(seed)
    chosen = getattr(search_techniques, technique)()
    chosen.initialize(space.num_tps)
    while True:
        costs = {}
        for coordinates in sorted(chosen.get_next_coordinates()):
            config = space.get_configuration(coordinates)
            costs[coordinates] = measure(problem.row_of([config[name] for name in problem.names]))
        chosen.report_costs(costs)


@cache
def tree(problem: Problem) -> Any:
    """Return pyATF's chain of trees over indices; each parameter is constrained by earlier ones."""
    with keep_signal_handlers():
        from pyatf import TP, Set
        from pyatf.search_space import SearchSpace
    coded = [{value: i for i, value in enumerate(own)} for own in problem.choices]
    rows = [tuple(code[v] for v, code in zip(row, coded, strict=True)) for row in problem.rows]
    parameters = []
    count = 1
    for i, name in enumerate(problem.names):
        prefixes = frozenset(row[: i + 1] for row in rows)
        free = len(prefixes) == count * len(problem.choices[i])
        count = len(prefixes)
        rule = None if free else Prefix(tuple(problem.names[: i + 1]), prefixes)
        parameters.append(TP(name, Set(*range(len(problem.choices[i]))), rule))
    return SearchSpace(*parameters, verbosity=0)
