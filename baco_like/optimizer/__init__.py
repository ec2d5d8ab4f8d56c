"""The Optimizer, and the pure functions that it is made of."""

from baco_like.optimizer.core import Callback, Optimizer
from baco_like.optimizer.migration import Migration, migrate
from baco_like.optimizer.warm_start import WarmStart

__all__ = ["Callback", "Migration", "Optimizer", "WarmStart", "migrate"]
