"""A strategy for tests, which replace one of its methods."""


class Idle:
    """Proposes nothing, so that the optimizer draws, and has no state."""

    def init(self, problem, rng):
        return None

    def ask(self, problem, history, state, n, rng):
        return []

    def tell(self, problem, state, observation, rng):
        return state
