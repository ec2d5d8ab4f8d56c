"""Strategies: algorithms that propose configurations.

`create_strategy` makes a strategy by its name in `STRATEGIES`; the classes are for strategies with custom parts, and
`Strategy` is the interface to implement for a new one.
"""

from baco_like.strategies.auto import Auto
from baco_like.strategies.baselines import Exhaustive, RandomSearch
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.fitting import plain, with_quantities
from baco_like.strategies.bayesian.kernel_tuner_bo import KernelTunerBO
from baco_like.strategies.direct.global_minimisers import BasinHopping, DualAnnealing
from baco_like.strategies.direct.pattern_search import PatternSearch, Torczon
from baco_like.strategies.evolutionary.differential_evolution import DifferentialEvolution
from baco_like.strategies.evolutionary.genetic import NSGA2, GeneticAlgorithm
from baco_like.strategies.evolutionary.swarms import Firefly, ParticleSwarm
from baco_like.strategies.initial_phase import Phased
from baco_like.strategies.local.genetic_local_search import GeneticLocalSearch
from baco_like.strategies.local.searches import (
    IteratedLocalSearch,
    MultiStartLocalSearch,
    SimulatedAnnealing,
    TabuSearch,
)
from baco_like.strategies.portfolio import Portfolio
from baco_like.strategies.protocol import Prediction, Problem, RelatedTask, Strategy
from baco_like.strategies.racing import Racing
from baco_like.strategies.registry import DESIGNS, STRATEGIES, create_strategy, default_settings
from baco_like.strategies.wrappers import RandomAfterStall, RandomInterleaving

__all__ = [
    "DESIGNS",
    "NSGA2",
    "STRATEGIES",
    "Auto",
    "BasinHopping",
    "Bayesian",
    "DifferentialEvolution",
    "DualAnnealing",
    "Exhaustive",
    "Firefly",
    "GeneticAlgorithm",
    "GeneticLocalSearch",
    "IteratedLocalSearch",
    "KernelTunerBO",
    "MultiStartLocalSearch",
    "ParticleSwarm",
    "PatternSearch",
    "Phased",
    "Portfolio",
    "Prediction",
    "Problem",
    "Racing",
    "RandomAfterStall",
    "RandomInterleaving",
    "RandomSearch",
    "RelatedTask",
    "SimulatedAnnealing",
    "Strategy",
    "TabuSearch",
    "Torczon",
    "create_strategy",
    "default_settings",
    "plain",
    "with_quantities",
]
