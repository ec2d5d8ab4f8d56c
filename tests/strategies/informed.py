"""A strategy that is given the results of related tasks, as `WarmStart(..., mode="prior")` gives them."""

from dataclasses import dataclass, replace

from baco_like.strategies.protocol import RelatedTask
from baco_like.strategies.wrappers import StrategyWrapper


@dataclass(frozen=True)
class Informed(StrategyWrapper):
    """Gives the results of related tasks to a strategy."""

    related: tuple[RelatedTask, ...]

    def init(self, problem, rng):
        return self.then.init(replace(problem, related=self.related), rng)

    def ask(self, problem, *rest):
        return self.then.ask(replace(problem, related=self.related), *rest)

    def tell(self, problem, *rest):
        return self.then.tell(replace(problem, related=self.related), *rest)

    def predict(self, problem, *rest):
        return self.then.predict(replace(problem, related=self.related), *rest)
