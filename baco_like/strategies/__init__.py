"""Strategies: algorithms that propose configurations.

`create_strategy` makes a strategy by its name in `STRATEGIES`; the classes are for strategies with custom parts, and
`Strategy` is the interface to implement for a new one.
"""

from baco_like.strategies.auto import Auto
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.kernel_tuner_bo import KernelTunerBO
from baco_like.strategies.composite.adaptive_design import AdaptiveDesign
from baco_like.strategies.composite.portfolio import AreaUnderCurve, ArmRule, Portfolio, RoundRobin
from baco_like.strategies.composite.wrappers import (
    Design,
    Phased,
    RandomAfterStall,
    RandomInterleaving,
)
from baco_like.strategies.direct.base import ReplayedStrategy
from baco_like.strategies.direct.global_minimisers import BasinHopping, DualAnnealing
from baco_like.strategies.direct.pattern_search import PatternSearch, Torczon
from baco_like.strategies.evolutionary.base import PopulationStrategy
from baco_like.strategies.evolutionary.differential_evolution import DifferentialEvolution
from baco_like.strategies.evolutionary.genetic_algorithm import GeneticAlgorithm
from baco_like.strategies.evolutionary.nsga2 import NSGA2
from baco_like.strategies.evolutionary.swarms import Firefly, ParticleSwarm
from baco_like.strategies.exhaustive import Exhaustive
from baco_like.strategies.local.base import Climber, LocalSearchStrategy
from baco_like.strategies.local.genetic_local_search import GeneticLocalSearch
from baco_like.strategies.local.local_search import IteratedLocalSearch, MultiStartLocalSearch
from baco_like.strategies.local.simulated_annealing import SimulatedAnnealing
from baco_like.strategies.local.tabu_search import TabuSearch
from baco_like.strategies.moves import BetaRank, Crossover, Selection, Tournament
from baco_like.strategies.protocol import (
    Prediction,
    Predictive,
    Problem,
    RelatedTask,
    Strategy,
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
    "NSGA2",
    "STRATEGIES",
    "AdaptiveDesign",
    "AreaUnderCurve",
    "ArmRule",
    "Auto",
    "BasinHopping",
    "Bayesian",
    "BetaRank",
    "Climber",
    "Crossover",
    "Design",
    "DifferentialEvolution",
    "DualAnnealing",
    "Exhaustive",
    "Firefly",
    "GeneticAlgorithm",
    "GeneticLocalSearch",
    "IteratedLocalSearch",
    "KernelTunerBO",
    "LocalSearchStrategy",
    "MultiStartLocalSearch",
    "ParticleSwarm",
    "PatternSearch",
    "Phased",
    "PopulationStrategy",
    "Portfolio",
    "Prediction",
    "Predictive",
    "Problem",
    "Racing",
    "RandomAfterStall",
    "RandomInterleaving",
    "RandomSearch",
    "RelatedTask",
    "ReplayedStrategy",
    "RoundRobin",
    "Selection",
    "SimulatedAnnealing",
    "Strategy",
    "TabuSearch",
    "Torczon",
    "Tournament",
    "create_strategy",
    "default_settings",
    "describe_strategy",
]
