"""The `Optimizer`, and warm starts from earlier results."""

from baco_like.optimizer.arguments import Search, Sharing
from baco_like.optimizer.optimizer import Callback, Optimizer
from baco_like.optimizer.proposing import ProposalAnswer
from baco_like.optimizer.warm_start_sources import WarmStart

__all__ = [
    "Callback",
    "Optimizer",
    "ProposalAnswer",
    "Search",
    "Sharing",
    "WarmStart",
]
