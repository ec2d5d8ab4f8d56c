import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from population_runs import Run, in_order

from baco_like import Categorical, Integer, Permutation, Real, Space
from baco_like.spaces.neighbourhoods import nearest
from baco_like.strategies import DifferentialEvolution, create_strategy
from baco_like.strategies.evolutionary.differential_evolution import (
    DONORS,
    METHODS,
    cross_binomial,
    cross_exponential,
    draw_others,
)
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.moves import (
    draw_latin_hypercube,
    draw_uniform,
    repair_by_nearest,
)
from baco_like.strategies.protocol import Problem

SPACE = Space(
    {"a": Integer(0, 9), "seven": [7], "b": Integer(0, 9), "c": Categorical(["p", "q", "r"])},
    constraints=["a + b <= 12", "b % 3 != 1"],
)
MIXED = Space(
    {"x": Real(0.0, 1.0), "o": Permutation(["i", "j", "k", "l"]), "n": Integer(1, 9)},
    constraints=["pos(o, 'i') < pos(o, 'k')", "n % 2 == 1"],
)


def bowl(code):
    return float(((code[[0, 2]] - 4.0) ** 2).sum() + code[3])


def reference(space, cost, settings, seed, generations):
    """Algorithm 1 of Willemsen et al. on value indices, a generation at a time; returns every evaluated row."""
    columns = [space.columns[name].start for name in space.active]
    top = np.array([space.parameters[name].cardinality - 1 for name in space.active])
    donor, cross = METHODS[settings.method]
    rng = np.random.default_rng([seed, 0, 0])
    population = draw_latin_hypercube(space, settings.population_per_parameter * len(top), rng)
    costs = [cost(row) for row in population]
    best = population[int(np.argmin(costs))].copy()
    evaluated, still = [*population.copy()], 0
    for generation in range(1, generations):
        rng = np.random.default_rng([seed, generation, 0])
        n = len(population)
        if still == 2:
            population = draw_uniform(space, n, rng)
            costs, still = [cost(row) for row in population], 0
            evaluated += [*population.copy()]
            if min(costs) <= cost(best):
                best = population[int(np.argmin(costs))].copy()
            continue
        others = draw_others(n, donor.others, rng)
        weight = rng.uniform(*settings.weight_range)
        taken = cross(n, len(top), settings.recombination, rng)
        trials = population.copy()
        for i in range(n):
            own, lead = population[i, columns], best[columns]
            picked = [population[j, columns] for j in others[i]]
            mutant = donor.mutant(own, lead, picked, weight)
            mutant = np.clip(np.floor(mutant + 0.5), 0, top)
            trials[i, columns] = np.where(taken[i], mutant, own)
        bad = ~space.feasible.contains(trials)
        trials[bad] = nearest(space, trials[bad], rng)
        evaluated += [*trials]
        still += 1
        for i in range(n):
            among = any((trials[i] == other).all() for other in population)
            if cost(trials[i]) <= costs[i] and not among:
                population[i], costs[i], still = trials[i], cost(trials[i]), 0
                if costs[i] <= cost(best):
                    best = trials[i].copy()
    return evaluated


@pytest.mark.parametrize("method", ["best1bin", "rand1exp", "currenttobest1bin"])
def test_with_outcomes_in_order_it_is_algorithm_1(method):
    settings = DifferentialEvolution(method=method, population_per_parameter=3).for_budget(None)
    run = Run(settings, SPACE, bowl, seed=1)
    rows, tags = run.go(60)
    expected = in_order(
        reference(SPACE, bowl, settings, run.state.seed, tags[-1]["generation"] + 1)
    )
    assert [tuple(row) for row in rows] == expected[:60]
    assert tags[-1]["generation"] > 5


def test_mutants_by_hand():
    own, best = np.array([[1.0]]), np.array([10.0])
    r = [np.array([[float(v)]]) for v in (2, 3, 5, 7, 11)]
    made = {
        name: float(d.mutant(own, best, r[: d.others], 0.5)[0, 0]) for name, d in DONORS.items()
    }
    assert made == {
        "best1": 10 + 0.5 * (2 - 3),
        "best2": 10 + 0.5 * (2 + 3 - 5 - 7),
        "rand1": 2 + 0.5 * (3 - 5),
        "rand2": 2 + 0.5 * (3 + 5 - 7 - 11),
        "currenttobest1": 1 + 0.5 * (10 - 1 + 2 - 3),
        "randtobest1": 2 + 0.5 * (10 - 2 + 3 - 5),
    }


def test_binomial_takes_one_coordinate_and_others_by_chance():
    taken = cross_binomial(20_000, 4, 0.3, np.random.default_rng(0))
    assert taken.any(axis=1).all()
    np.testing.assert_allclose(taken.mean(axis=0), 1 / 4 + 3 / 4 * 0.3, atol=0.015)
    assert (cross_binomial(100, 4, 0.0, np.random.default_rng(0)).sum(axis=1) == 1).all()


def test_exponential_takes_a_stretch_of_geometric_length():
    taken = cross_exponential(40_000, 4, 0.5, np.random.default_rng(0))
    lengths = np.bincount(taken.sum(axis=1), minlength=5) / 40_000
    np.testing.assert_allclose(lengths, [0, 1 / 2, 1 / 4, 1 / 8, 1 / 8], atol=0.01)
    begins = taken & ~np.roll(taken, 1, axis=1)
    assert (begins.sum(axis=1) <= 1).all()  # one stretch, perhaps around the end
    np.testing.assert_allclose(taken.mean(axis=0), taken.mean(), atol=0.01)
    assert cross_exponential(100, 4, 1.0, np.random.default_rng(0)).all()


@given(st.integers(1, 9), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_others_differ_wherever_there_are_enough(n, count, seed):
    others = draw_others(n, count, np.random.default_rng(seed))
    assert others.shape == (n, count)
    if n > count:
        assert all(len({i, *row}) == count + 1 for i, row in enumerate(others.tolist()))


def test_a_generation_that_changes_nothing_twice_is_drawn_again():
    run = Run(
        create_strategy("differential_evolution", {"population_per_parameter": 3}), SPACE, bowl
    )
    founders = run.state.candidates
    algorithm, problem = run.state.algorithm, Problem(SPACE)
    costs = np.arange(9.0)
    members = algorithm.form_population(founders, costs)
    rng = np.random.default_rng(0)
    for _ in range(2):
        trial = algorithm.breed(problem.space, members, rng)
        members = algorithm.select_members(members, trial, np.full(9, 100.0), rng)
    assert members.stagnant == 2
    fresh = algorithm.breed(problem.space, members, rng)
    members = algorithm.select_members(members, fresh, np.full(9, 50.0), rng)
    np.testing.assert_array_equal(members.codes, fresh.codes)
    assert members.stagnant == 0
    assert (members.best_cost, members.best.tolist()) == (0.0, founders.codes[0].tolist())


def test_a_trial_vector_that_is_a_member_already_replaces_nothing():
    algorithm = DifferentialEvolution(population_per_parameter=2).for_budget(None)
    problem, rng = Problem(SPACE), np.random.default_rng(0)
    founders = algorithm.draw_founders(problem.space, rng)
    members = algorithm.form_population(founders, np.arange(6.0))
    shifted = type(founders)(np.roll(founders.codes, 1, axis=0))
    after = algorithm.select_members(members, shifted, np.full(6, -1.0), rng)
    np.testing.assert_array_equal(after.codes, members.codes)
    assert after.stagnant == 1


@pytest.mark.parametrize("space", [SPACE, MIXED], ids=["listed", "mixed"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_breeds_feasible_configurations(space, method):
    algorithm = DifferentialEvolution(method=method, population_per_parameter=2).for_budget(None)
    problem, rng = Problem(space), np.random.default_rng(0)
    founders = algorithm.draw_founders(problem.space, rng)
    assert space.feasible.contains(founders.codes).all()
    members = algorithm.form_population(founders, rng.random(len(founders)))
    trials = algorithm.breed(problem.space, members, rng)
    assert space.feasible.contains(trials.codes).all()
    assert len(trials) == len(founders)


def test_repair_is_to_the_nearest_by_index_distance():
    rng = np.random.default_rng(0)
    box = UnitBox.of(SPACE)
    rows = box.from_unit(rng.random((200, box.axes)))
    everything = np.concatenate(list(SPACE.feasible.iterate()))
    repaired = repair_by_nearest(SPACE, rows, rng)
    assert SPACE.feasible.contains(repaired).all()
    apart = np.abs(rows[:, None, :3] - everything[None, :, :3]).sum(axis=2)
    apart += rows[:, None, 3] != everything[None, :, 3]
    own = np.abs(rows[:, :3] - repaired[:, :3]).sum(axis=1) + (rows[:, 3] != repaired[:, 3])
    np.testing.assert_array_equal(own, apart.min(axis=1))


def test_there_are_enough_members_for_the_differences():
    one = Space({"a": Integer(0, 99)})
    assert DifferentialEvolution(method="best1bin", population_per_parameter=1).size(one) == 5
    assert DifferentialEvolution(method="rand2bin", population_per_parameter=1).size(one) == 6
    assert DifferentialEvolution(method="best1bin", population_per_parameter=16).size(one) == 16


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weight": 3.0}, "weight .* is out of range"),
        ({"weight": [0.7, 0.2]}, "weight .* is out of range"),
        ({"weight": [0.1, 0.2, 0.3]}, "must be one number or two"),
    ],
)
def test_wrong_settings_are_refused_at_once(settings, message):
    with pytest.raises(ValueError, match=message):
        create_strategy("differential_evolution", settings)
