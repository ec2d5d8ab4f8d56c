"""The Optimizer, and the pure functions that it is made of."""

from baco_like.optimizer.core import Callback, Optimizer
from baco_like.optimizer.migration import Migration, migrate

__all__ = ["Callback", "Migration", "Optimizer", "migrate"]
