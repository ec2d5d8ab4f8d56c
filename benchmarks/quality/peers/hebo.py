"""HEBO with its defaults, by ask and tell, over indices.

HEBO does not support constraints. An excluded configuration is reported with the worst cost so far, replaced by a new
suggestion, and not charged. A hidden failure is reported with the same cost.
"""

import numpy as np
from hebo.design_space.design_space import DesignSpace
from hebo.optimizers.hebo import HEBO

from .measure import Measure


def run(measure: Measure, seed: int) -> None:
    problem = measure.problem
    np.random.seed(seed)  # noqa: NPY002 - HEBO draws from the global generator
    described = [
        {"name": name, "type": "cat", "categories": list(range(len(own)))}
        if unordered
        else {"name": name, "type": "int", "lb": 0, "ub": len(own) - 1}
        for name, own, unordered in zip(
            problem.names, problem.choices, problem.unordered, strict=True
        )
        if len(own) > 1
    ]
    optimizer = HEBO(DesignSpace().parse(described), scramble_seed=seed)
    while True:
        asked = optimizer.suggest()
        point = asked.iloc[0].to_dict()
        cost = measure(problem.row_of([point.get(name, 0) for name in problem.names]))
        reported = (measure.worst or 1.0) if cost is None else cost
        optimizer.observe(asked, np.array([[reported]]))
