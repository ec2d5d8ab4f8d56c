"""Nevergrad and OpenTuner, by ask and tell over indices; Optuna and SMAC3 are in ``benchmarks/quality/peers``.

Both measure the default configuration first. A failure costs the worst value so far.
"""

import argparse
import random
import tempfile
from pathlib import Path

import numpy as np
from peers.measure import Measure, Spent


def nevergrad(measure: Measure, seed: int, optimizer: str) -> None:
    """Run an optimizer of Nevergrad; parameters with equally many values are one choice of it."""
    import nevergrad as ng

    problem = measure.problem
    groups: dict[tuple[bool, int], list[int]] = {}
    for i, own in enumerate(problem.choices):
        if len(own) > 1:
            groups.setdefault((problem.unordered[i], len(own)), []).append(i)
    space = ng.p.Dict(
        **{
            f"{'choice' if unordered else 'number'}{size}": kind(
                range(size), repetitions=len(places)
            )
            for (unordered, size), places in groups.items()
            for kind in (ng.p.Choice if unordered else ng.p.TransitionChoice,)
        }
    )
    space.random_state = np.random.RandomState(seed)
    made = ng.optimizers.registry[optimizer](space, budget=measure.evaluations, num_workers=1)
    start = problem.start
    if start is not None:
        values = (tuple(start[i] for i in places) for places in groups.values())
        made.suggest(dict(zip(space.value, values, strict=True)))
    while True:
        asked = made.ask()
        row = [0] * len(problem.choices)
        for places, values in zip(groups.values(), asked.value.values(), strict=True):
            for i, value in zip(places, values, strict=True):
                row[i] = value
        cost = measure(problem.row_of(row))
        made.tell(asked, measure.worst if cost is None else cost)


def opentuner(measure: Measure, seed: int) -> None:
    """Run OpenTuner's default: a bandit over its techniques."""
    from opentuner import argparsers
    from opentuner.api import TuningRunManager
    from opentuner.measurement.interface import DefaultMeasurementInterface
    from opentuner.resultsdb.models import Result
    from opentuner.search import manipulator

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    problem = measure.problem
    space = manipulator.ConfigurationManipulator()
    varied = [i for i, own in enumerate(problem.choices) if len(own) > 1]
    for i in varied:
        last = len(problem.choices[i]) - 1
        if problem.unordered[i]:
            space.add_parameter(manipulator.EnumParameter(problem.names[i], list(range(last + 1))))
        else:
            space.add_parameter(manipulator.IntegerParameter(problem.names[i], 0, last))
    with tempfile.TemporaryDirectory() as folder:
        parser = argparse.ArgumentParser(parents=argparsers())
        args = parser.parse_args([f"--database=sqlite:///{Path(folder) / 'results.db'}"])
        interface = DefaultMeasurementInterface(args=args, manipulator=space, project_name="suite")
        if problem.start is not None:
            start = {problem.names[i]: problem.start[i] for i in varied}
            interface.seed_configurations = lambda: [start]
        manager = TuningRunManager(interface, args)
        while True:
            desired = manager.get_next_desired_result()
            if desired is None:
                raise Spent
            given = desired.configuration.data
            cost = measure(problem.row_of([given.get(name, 0) for name in problem.names]))
            manager.report_result(desired, Result(time=measure.worst if cost is None else cost))
