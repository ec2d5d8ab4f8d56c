"""The Optimizer, and the pure functions that it is made of."""

from baco_like.optimizer.core import Callback, Optimizer

__all__ = ["Callback", "Optimizer"]
