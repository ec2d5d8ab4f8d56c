"""The `Optimizer`, warm starts from earlier results, and migration of a run to a changed space."""

from baco_like.optimizer.arguments import Search, Sharing
from baco_like.optimizer.migration import Migration, migrate
from baco_like.optimizer.optimizer import Callback, Optimizer
from baco_like.optimizer.proposing import ProposalAnswer
from baco_like.optimizer.warm_start_sources import WarmStart

__all__ = [
    "Callback",
    "Migration",
    "Optimizer",
    "ProposalAnswer",
    "Search",
    "Sharing",
    "WarmStart",
    "migrate",
]
