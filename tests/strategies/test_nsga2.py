"""NSGA-II: sorting against pymoo, and what the conformance suite does not check."""

import numpy as np
import pytest

from baco_like import Aim, Optimizer, Permutation, Space
from baco_like.records import Status
from baco_like.records.front import front_numbers
from baco_like.strategies import NSGA2
from baco_like.strategies.evolutionary.genetic import NonDominatedSorting, best_first

OBJECTIVES = {"time": "minimize", "rate": "maximize"}


def test_fronts_and_survivors_are_those_of_pymoo():
    i = np.arange(24.0)
    costs = np.column_stack([(7 * i + 3) % 23 / 23 + i * 1e-3, (5 * i + 11) % 19 / 19 - i * 1e-3])
    # pymoo 0.6.1.3: NonDominatedSorting().do and RankAndCrowding().do(n_survive=9), which cuts the third front
    fronts = [1, 4, 3, 0, 3, 5, 4, 2, 4, 6, 1, 3, 5, 0, 2, 4, 0, 1, 3, 5, 3, 2, 4, 2]
    assert front_numbers(costs).tolist() == fronts
    assert sorted(best_first(costs)[:9]) == [0, 3, 10, 13, 14, 16, 17, 21, 23]


def test_survivors_under_limits_are_those_of_pymoo():
    i = np.arange(24.0)
    costs = np.column_stack([(7 * i + 3) % 23 / 23 + i * 1e-3, (5 * i + 11) % 19 / 19 - i * 1e-3])
    violations = np.where(i % 3 == 0, 0.0, (11 * i + 5) % 17 / 17)
    costs[violations > 0.0] = np.inf
    order = best_first(np.column_stack([costs, violations]), limited=True)
    # pymoo 0.6.2: RankAndCrowding().do(n_survive=n) with one inequality; the first cuts the second front of the
    # feasible members, the second takes all of these and five others.
    assert sorted(order[:5]) == [0, 3, 6, 18, 21]
    assert sorted(order[:13]) == [0, 3, 6, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23]


def test_failures_come_after_all_violations():
    costs = np.array([[np.inf, np.inf], [np.inf, 2.0], [5.0, 0.0], [np.inf, 0.5], [1.0, 0.0]])
    assert best_first(costs, limited=True).tolist() == [4, 2, 3, 1, 0]


def test_mates_differ_and_the_best_mate_most_often():
    costs = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [np.inf, np.inf]])
    first, second = NonDominatedSorting().mates(costs, 2000, np.random.default_rng(0))
    assert (first != second).all()
    # The best of n wins a tournament of two with probability 1 - (1 - 1/n)**2, the worst with (1/n)**2.
    assert np.bincount(first) / 2000 == pytest.approx([7 / 16, 5 / 16, 3 / 16, 1 / 16], abs=0.03)


def test_one_objective_keeps_the_best():
    assert best_first(np.array([3.0, np.inf, 1.0, 2.0])).tolist() == [2, 3, 0, 1]


def test_members_are_distinct_while_there_are_enough():
    space = Space({"a": [1, 2], "b": [1, 2]})
    optimizer = Optimizer(space, OBJECTIVES, strategy=NSGA2(population=4))
    for _ in range(4):
        trial = optimizer.suggest()
        optimizer.observe(trial, {"time": float(trial["a"]), "rate": 1.0 + trial["b"]})
    state = optimizer.state.strategy_state
    codes = {tuple(code) for code in state.population.codes}
    assert len(codes) == len(state.population.codes) == 4


def observe(optimizer, trial):
    order = trial["order"]
    if order[0] == "d":
        optimizer.observe(trial, failed="runtime")
        return
    inversions = sum(x > y for i, x in enumerate(order) for y in order[i + 1 :])
    time = 1.0 + inversions + abs(np.log2(trial["tile"]) - 2) + 0.1 * order.index("b")
    optimizer.observe(trial, {"time": time, "rate": inversions - abs(np.log2(trial["tile"]) - 4)})


def evaluated(strategy, seed, count=120):
    space = Space({"order": Permutation(list("abcdef")), "tile": [2**i for i in range(9)]})
    optimizer = Optimizer(space, OBJECTIVES, strategy=strategy, seed=seed, budget=count)
    for _ in range(count):
        observe(optimizer, optimizer.suggest())
    return optimizer


@pytest.mark.parametrize("objectives", [OBJECTIVES, {"time": "minimize"}])
def test_the_smallest_violations_survive_while_nothing_is_within_the_limits(objectives):
    space = Space({"a": list(range(1, 9)), "b": list(range(1, 9))})
    optimizer = Optimizer(
        space, Aim(objectives, ["size <= 10"]), strategy=NSGA2(population=6), budget=30
    )
    for count in range(30):
        trial = optimizer.suggest()
        if count % 5 == 4:
            optimizer.observe(trial, failed="runtime")
            continue
        size = 20 + trial["a"] * trial["b"]
        optimizer.observe(trial, {"time": float(trial["a"]), "rate": 1.0, "size": size})
    population = optimizer.state.strategy_state.population
    assert population.costs.shape == (6, len(objectives) + 1)
    assert np.isinf(population.costs[:, :-1]).all()
    sizes = sorted(t.metrics["size"] for t in optimizer.trials if t.failure == "limit")
    # The median of all is worse than the worst member, and the failures are not among the members.
    assert population.costs[:, -1].max() < sizes[len(sizes) // 2] / 10 - 1


def test_it_gets_within_limits_that_few_configurations_meet():
    values = list(range(32))
    space = Space({name: values for name in "abc"})
    found = {"nsga2": 0, "random_search": 0}
    for name in found:
        for seed in range(3):
            optimizer = Optimizer(
                space, Aim(OBJECTIVES, ["size <= 10"]), strategy=name, seed=seed, budget=200
            )
            for _ in range(200):
                trial = optimizer.suggest()
                size = trial["a"] + trial["b"] + trial["c"]
                optimizer.observe(
                    trial, {"time": 1.0 + trial["a"], "rate": trial["b"], "size": size}
                )
            found[name] += sum(trial.failure is None for trial in optimizer.trials)
    assert found["nsga2"] > 5 * found["random_search"]


def test_it_finds_more_than_random_search():
    reference = {"time": 25.0, "rate": -6.0}
    volumes = {
        name: [evaluated(name, seed).hypervolume(reference) for seed in range(2)]
        for name in ("nsga2", "random_search")
    }
    assert np.mean(volumes["nsga2"]) > np.mean(volumes["random_search"])


def test_failures_do_not_survive():
    optimizer = evaluated("nsga2", 0)
    population = optimizer.state.strategy_state.population
    failed = {t.code.tobytes() for t in optimizer.trials if t.status is Status.FAILED}
    assert failed
    assert not failed & {code.tobytes() for code in population.codes}
    assert population.costs.shape == (20, 2)
