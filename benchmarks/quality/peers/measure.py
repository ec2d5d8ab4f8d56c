"""Answers to the questions of a peer, and the rule for counting evaluations, equal for all peers."""

import time
from collections.abc import Callable
from typing import Any

from .problem import OUTSIDE, Problem

PATIENCE = 50
"""Largest number of questions for each evaluation of the budget: some peers repeat the same question without end."""

EVERY = 10
"""The CPU clock and the number of questions are kept after every so many evaluations."""


class Spent(Exception):
    """The run is over."""


class Measure:
    """Answers a peer's questions until its evaluations are spent, or it is `stopped` from outside.

    A configuration that succeeds or fails is an evaluation the first time it is requested. Excluded and repeated
    configurations are answered but not counted, in the peers' favour. ``program`` names the build of a row.
    """

    def __init__(
        self, problem: Problem, evaluations: int, clock: Callable[[], float] = time.process_time
    ) -> None:
        self.problem = problem
        self.evaluations = evaluations
        self.seen: list[int] = []
        self.excluded = self.repeated = 0
        self.cpu: list[float] = []
        self.asked: list[int] = []
        self.worst = 0.0
        self.stopped = False
        self.program: Callable[[int], str | None] = lambda _: None
        self._known: set[int] = set()
        self._clock = clock
        self._began, self._began_wall = clock(), time.perf_counter()

    def __call__(self, number: int) -> float | None:
        """Return the cost of a row, or None if it fails or is `OUTSIDE`.

        Raises:
            Spent: That was the last evaluation, or the peer has asked too often.
        """
        if number == OUTSIDE:
            self.excluded += 1
        elif number in self._known:
            self.repeated += 1
        else:
            self._count(number)
        if len(self.seen) >= self.evaluations or self._questions >= PATIENCE * self.evaluations:
            raise Spent
        cost = None if number == OUTSIDE else self.problem.cost(number)
        if cost is None or cost != cost:
            return None
        self.worst = max(self.worst, cost)
        return cost

    @property
    def _questions(self) -> int:
        return len(self.seen) + self.excluded + self.repeated

    def _count(self, number: int) -> None:
        self._known.add(number)
        self.seen.append(number)
        if len(self.seen) % EVERY == 0:
            self.cpu.append(round(self._clock() - self._began, 4))
            self.asked.append(self._questions)

    def row(self) -> dict[str, Any]:
        """Return the run as a row of the results."""
        costs = [self.problem.cost(number) for number in self.seen]
        return {
            "values": [None if c != c else float(f"{c:.7g}") for c in costs],
            "excluded": self.excluded,
            "repeated": self.repeated,
            "stopped": self.stopped,
            "cpu": self.cpu,
            "asked": self.asked,
            "cpu_total": round(self._clock() - self._began, 4),
            "wall_total": round(time.perf_counter() - self._began_wall, 4),
        }
