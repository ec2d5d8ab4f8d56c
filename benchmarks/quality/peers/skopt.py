"""scikit-optimize's Gaussian process with its defaults, by ask and tell, over indices.

Known constraints are its ``space_constraint``; a hidden failure is reported with the worst cost so far.
"""

from skopt import Optimizer
from skopt.space import Categorical, Integer

from .measure import Measure
from .problem import OUTSIDE


def run(measure: Measure, seed: int) -> None:
    problem = measure.problem
    varied = [i for i, own in enumerate(problem.choices) if len(own) > 1]
    dimensions = [
        Categorical(list(range(len(problem.choices[i]))))
        if problem.unordered[i]
        else Integer(0, len(problem.choices[i]) - 1)
        for i in varied
    ]

    def number(point: list[int]) -> int:
        indices = [0] * len(problem.choices)
        for i, value in zip(varied, point, strict=True):
            indices[i] = value
        return problem.row_of(indices)

    optimizer = Optimizer(
        dimensions,
        "GP",
        random_state=seed,
        space_constraint=lambda point: number(point) != OUTSIDE,
    )
    while True:
        point = optimizer.ask()
        cost = measure(number(point))
        optimizer.tell(point, measure.worst if cost is None else cost)
