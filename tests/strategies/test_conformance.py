"""Every registered strategy passes every check on every kind of space.

In the normal run each strategy meets each kind of space and, except "exhaustive", each check; the nightly run has all
combinations."""

import numpy as np
import pytest
from nightly import cover
from population_runs import Run

from baco_like import Integer, Ordinal, Space
from baco_like.optimizer import Optimizer
from baco_like.strategies import STRATEGIES, create_strategy, default_settings
from baco_like.testing.strategies import (
    BUDGET,
    CHECKS,
    ends_when_exhausted,
    example_spaces,
)

SPACES = example_spaces()


def _with_short_design(name):
    shorter = (default_settings(name).get("initial") or 0) > 6
    return create_strategy(name, {"initial": 6} if shorter else {})


def _applies(name, kind, check):
    if check is ends_when_exhausted:
        return False
    return name != "exhaustive" or SPACES[kind].feasible.count is not None  # reals are not listed


@pytest.mark.parametrize(
    ("name", "kind", "check"), cover(STRATEGIES, SPACES, CHECKS, valid=_applies, share=7)
)
def test_conformance(name, kind, check):
    check(_with_short_design(name), SPACES[kind])


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_small_space_is_exhausted(name):
    ends_when_exhausted(_with_short_design(name), SPACES["small"])


@pytest.mark.parametrize("name", [n for n in STRATEGIES if n != "exhaustive"])
def test_chance_comes_from_the_seed(name):
    space, strategy = SPACES["all kinds"], _with_short_design(name)
    runs = [Optimizer(space, strategy=strategy, seed=seed, budget=BUDGET) for seed in (3, 4)]
    for _ in range(12):
        configs = []
        for run in runs:
            trial = run.suggest()
            run.observe(trial, float(trial.id))
            configs.append(trial.config)
        if configs[0] != configs[1]:
            return
    raise AssertionError("another seed gives other suggestions")


# ---- The searches of this folder find better values than random draws on a smooth problem, seed by seed ----


SPACE = Space(
    {
        "a": Ordinal([2**i for i in range(12)], log=True),
        "b": Ordinal([2**i for i in range(12)], log=True),
        "c": Integer(1, 60),
        "d": Integer(1, 60),
        "e": Ordinal(list(range(10))),
    },
    constraints=["a * b <= 2**16", "c % 2 == 0 or d < 40"],
)
GOAL = {"a": 2**9, "b": 2**4, "c": 44, "d": 12, "e": 7}
N, SEEDS = 40, range(3)


def cost(config):
    features = SPACE.features(SPACE.encode([config, GOAL]))
    return 1.0 + float((((features[0] - features[1]) / np.ptp(RANGES, axis=0)) ** 2).sum())


RANGES = SPACE.features(SPACE.feasible.sample(2000, np.random.default_rng(0)))


def best(name, settings, seed):
    optimizer = Optimizer(SPACE, strategy=create_strategy(name, settings), seed=seed, budget=N)
    for _ in range(N):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial))
    return optimizer.best_value - 1.0


@pytest.fixture(scope="module")
def by_chance():
    return np.median([best("random_search", {}, seed) for seed in SEEDS])


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("pattern_search", {}),
        ("torczon", {}),
        ("racing", {}),
        ("portfolio", {}),
        ("dual_annealing", {"method": "powell"}),
        ("dual_annealing", {"method": "lbfgsb"}),
        ("basin_hopping", {"method": "powell"}),
        ("basin_hopping", {"method": "cobyla"}),
        ("basin_hopping", {"method": "slsqp"}),
    ],
)
def test_it_is_better_than_chance(name, settings, by_chance):
    found = np.median([best(name, settings, seed) for seed in SEEDS])
    assert found < by_chance


SMOOTH = Space({f"x{i}": Integer(0, 11) for i in range(5)}, ["x0 + x1 >= 4"])
SEARCHES = {
    "multi_start_local_search": {},
    "iterated_local_search": {},
    "tabu_search": {},
    "simulated_annealing": {},
    "genetic_local_search": {},
    "genetic_algorithm": {"population": 6},
    "nsga2": {"population": 6},
    "firefly": {"population": 6},
    "differential_evolution": {"population_per_parameter": 3},
    "particle_swarm": {"particles": 6},
}


def steep(code):
    return float(((code - 4.5 - np.arange(5)) ** 2).sum())


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_without_a_model_is_far_better_than_chance(name):
    runs = [Run(create_strategy(name, SEARCHES[name]), SMOOTH, steep, seed) for seed in range(4)]
    ours = [min(map(steep, run.go(100)[0])) for run in runs]
    draws = [SMOOTH.feasible.sample(100, np.random.default_rng(seed)) for seed in range(20)]
    assert np.mean(ours) < 0.7 * np.mean([min(map(steep, rows)) for rows in draws])
