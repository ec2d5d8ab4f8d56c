"""Strategies: algorithms that propose configurations.

`create_strategy` makes a strategy by its name in `STRATEGIES`; the classes are for strategies with custom parts, and
`Strategy` is the interface to implement for a new one.
"""

from baco_like.strategies.auto import Auto
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.kernel_tuner_bo import KernelTunerBO
from baco_like.strategies.bayesian.transfer_learning import TransferLearning
from baco_like.strategies.composite.arm_selection import AreaUnderCurve, ArmRule, RoundRobin
from baco_like.strategies.composite.phased import Design, Phased
from baco_like.strategies.composite.portfolio import Portfolio
from baco_like.strategies.composite.random_interleaving import RandomInterleaving
from baco_like.strategies.exhaustive import Exhaustive
from baco_like.strategies.protocol import (
    Prediction,
    Predictive,
    Problem,
    RelatedTask,
    Strategy,
    TaskAware,
)
from baco_like.strategies.racing.iterated_racing import Racing
from baco_like.strategies.random_search import RandomSearch
from baco_like.strategies.registry import (
    DESIGNS,
    STRATEGIES,
    create_strategy,
    default_settings,
    describe_strategy,
)

__all__ = [
    "DESIGNS",
    "STRATEGIES",
    "AreaUnderCurve",
    "ArmRule",
    "Auto",
    "Bayesian",
    "Design",
    "Exhaustive",
    "KernelTunerBO",
    "Phased",
    "Portfolio",
    "Prediction",
    "Predictive",
    "Problem",
    "Racing",
    "RandomInterleaving",
    "RandomSearch",
    "RelatedTask",
    "RoundRobin",
    "Strategy",
    "TaskAware",
    "TransferLearning",
    "create_strategy",
    "default_settings",
    "describe_strategy",
]
