"""Runs of a strategy without an optimizer, so that tests can look at its state."""

import numpy as np

from baco_like.records.history import History
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.design import uniform
from baco_like.strategies.protocol import Problem


class Run:
    """A strategy in the middle of a run; ``cost`` maps a row of codes to a number, None or infinity (a failure)."""

    def __init__(self, strategy, space, cost, seed=0, **problem):
        self.strategy, self.cost = strategy, cost
        self.problem = Problem(space, **problem)
        self.rng = np.random.default_rng(seed)
        self.history = History.start(space)
        self.state = strategy.init(self.problem, self.rng)

    def ask(self, n=1):
        """Return pending trials with their rows; uniform draws are added as the optimizer does."""
        found = list(self.strategy.ask(self.problem, self.history, self.state, n, self.rng))
        codes = np.array([p.code for p in found]).reshape(-1, self.problem.space.width)
        beyond = self.history.assume_pending(codes)
        fill = uniform(
            self.problem.space,
            n - len(codes),
            self.rng,
            lambda rows: self.problem.is_excluded(beyond, rows),
        )
        codes = np.concatenate([codes, fill])
        tags = [p.tag for p in found] + [None] * len(fill)
        configs = self.problem.space.decode(codes)
        first = self.history.next_id
        trials = [
            Trial(first + i, config, tag, "strategy" if tag else "fill")
            for i, (config, tag) in enumerate(zip(configs, tags, strict=True))
        ]
        self.history = self.history.add_pending(trials, codes)
        return list(zip(trials, codes, strict=True))

    def tell(self, trial, code):
        """Observe a pending trial."""
        cost = self.cost(code)
        good = cost is not None and np.isfinite(cost)
        outcome = (
            Outcome.success(trial.id, (cost,)) if good else Outcome.failure(trial.id, "runtime")
        )
        self._observe(outcome)

    def report(self, code, cost):
        """Observe a configuration that was not suggested."""
        number = self.history.next_id
        (config,) = self.problem.space.decode(code[None, :])
        trial = Trial(number, config, None, "told")
        self._observe(Outcome.success(number, (cost,)), {number: (trial, code)})

    def _observe(self, outcome, unsuggested=None):
        self.history, (observed,) = self.history.complete([outcome], unsuggested)
        self.state = self.strategy.tell(self.problem, self.state, observed, self.rng)

    def go(self, n):
        """Return the rows and the tags of n trials, each observed before the next is asked for."""
        rows, tags = [], []
        for _ in range(n):
            ((trial, code),) = self.ask()
            self.tell(trial, code)
            rows.append(code)
            tags.append(trial.tag)
        return np.array(rows), tags


def in_order(evaluated, feasible=lambda row: True):
    """Return the distinct rows of a plain loop's evaluations in the order in which they come first."""
    return list(dict.fromkeys(tuple(row) for row in evaluated if feasible(row)))
