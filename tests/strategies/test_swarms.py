"""Particle swarm and firefly, against plain loops."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from population_runs import Run, in_order

from baco_like import Categorical, Integer, Permutation, Real, Space
from baco_like.strategies import Firefly, ParticleSwarm, create_strategy
from baco_like.strategies.evolutionary.swarms import Fireflies, Swarm, snap_to_feasible
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.moves import draw_uniform
from baco_like.strategies.protocol import Problem

SPACE = Space(
    {"a": Integer(0, 9), "seven": [7], "b": Integer(0, 4), "c": Categorical(["p", "q", "r"])},
    constraints=["(a + b) % 3 == 0 or b == 4"],
)
SPARSE = Space({"a": Integer(0, 15), "b": Integer(0, 15)}, constraints=["a == b", "a % 5 == 0"])
MIXED = Space(
    {"x": Real(0.0, 1.0), "o": Permutation(["i", "j", "k", "l"]), "n": Integer(1, 9)},
    constraints=["pos(o, 'i') < pos(o, 'k')", "n % 2 == 1", "x * n <= 4"],
)


def bowl(code):
    return float(((code[[0, 2]] - 3.0) ** 2).sum() + code[3])


def textbook(space, cost, swarm, seed, generations):
    """The textbook's swarm, one particle after the other; returns every evaluated row."""
    box = UnitBox.of(space)
    rng = np.random.default_rng([seed, 0, 0])
    x = box.scaled(draw_uniform(space, swarm.particles, rng))
    v = rng.uniform(-1.0, 1.0, x.shape) * box.extents
    rows = snap_to_feasible(space, x, rng)
    evaluated = [*rows]
    best = [(cost(row), place.copy()) for row, place in zip(rows, x, strict=True)]
    for generation in range(1, generations):
        rng = np.random.default_rng([seed, generation, 0])
        r1, r2 = rng.random(x.shape), rng.random(x.shape)
        _, leader = min(best, key=lambda one: one[0])
        for i in range(len(x)):
            pull = swarm.cognitive * r1[i] * (best[i][1] - x[i])
            pull = pull + swarm.social * r2[i] * (leader - x[i])
            v[i] = swarm.inertia * v[i] + pull
        x = np.minimum(np.maximum(x + v, 0.0), box.extents)
        rows = snap_to_feasible(space, x, rng)
        evaluated += [*rows]
        for i, row in enumerate(rows):
            if cost(row) < best[i][0]:
                best[i] = (cost(row), x[i].copy())
    return evaluated


def test_with_outcomes_in_order_it_is_the_textbooks_swarm():
    swarm = ParticleSwarm(particles=8)
    run = Run(swarm, SPACE, bowl, seed=2)
    rows, tags = run.go(40)
    expected = in_order(textbook(SPACE, bowl, swarm, run.state.seed, tags[-1]["generation"] + 1))
    assert [tuple(row) for row in rows] == expected[:40]
    assert tags[-1]["generation"] > 3


def test_particles_do_not_move_to_the_evaluated_configurations():
    run = Run(create_strategy("particle_swarm", {"particles": 8}), SPACE, bowl, seed=2)
    while run.state.generation < 2:
        run.go(1)
    positions, _ = run.state.candidates.moves
    box = UnitBox.of(SPACE)
    assert SPACE.feasible.contains(run.state.candidates.codes).all()
    assert not SPACE.feasible.contains(box.from_scaled(positions)).all()


def test_leaders_among_the_nearest_particles():
    positions = np.array([[0.0], [0.1], [0.25], [0.9], [1.0]])
    costs = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    swarm = Swarm(positions, positions, positions, costs)
    assert ParticleSwarm(neighbours=2).leaders(swarm).tolist() == [1, 1, 2, 4, 4]
    assert ParticleSwarm(neighbours=1).leaders(swarm).tolist() == [0, 1, 2, 3, 4]
    for all_of_them in (None, 5, 99):
        assert ParticleSwarm(neighbours=all_of_them).leaders(swarm).tolist() == [4] * 5


def test_a_failed_place_is_no_best_place():
    swarm, problem = ParticleSwarm(particles=4), Problem(SPACE)
    rng = np.random.default_rng(0)
    founders = swarm.draw_founders(problem.space, rng)
    first = swarm.form_population(founders, np.array([np.inf, 2.0, np.inf, 3.0]))
    moved = swarm.breed(problem.space, first, rng)
    after = swarm.select_members(first, moved, np.array([4.0, np.inf, np.inf, 1.0]), rng)
    assert after.best_costs.tolist() == [4.0, 2.0, np.inf, 1.0]
    np.testing.assert_array_equal(after.best_positions[1], founders.moves[0][1])
    np.testing.assert_array_equal(after.best_positions[3], moved.moves[0][3])


def adjacent_by_brute_force(space, row):
    """All feasible rows in which a and b have their own, the previous or the next value, and c any."""
    for a, b in itertools.product((-1, 0, 1), repeat=2):
        for c in range(3):
            other = np.array([row[0] + a, 0.0, row[2] + b, float(c)])
            if space.feasible.contains(other[None, :])[0]:
                yield other


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_points_snap_to_the_nearest_strictly_adjacent_configuration(seed):
    rng = np.random.default_rng(seed)
    box = UnitBox.of(SPACE)
    points = rng.random((8, box.axes)) * box.extents
    snapped = snap_to_feasible(SPACE, points, rng)
    own = box.from_scaled(points)
    for point, row, found in zip(points, own, snapped, strict=True):
        if SPACE.feasible.contains(row[None, :])[0]:
            np.testing.assert_array_equal(found, row)
            continue
        near = np.array(list(adjacent_by_brute_force(SPACE, row)))
        least = ((box.to_unit(near) * box.extents - point) ** 2).sum(axis=1).min()
        distance = ((box.to_unit(found[None, :]) * box.extents - point) ** 2).sum()
        assert np.isclose(distance, least)


@pytest.mark.parametrize("space", [SPARSE, MIXED], ids=["sparse", "mixed"])
def test_points_far_from_everything_feasible_snap_as_well(space):
    rng, box = np.random.default_rng(0), UnitBox.of(space)
    points = rng.random((40, box.axes)) * box.extents
    assert not space.feasible.contains(box.from_scaled(points)).all()
    assert space.feasible.contains(snap_to_feasible(space, points, rng)).all()


# ----  ----


LARGER = Space(
    {"a": Integer(0, 99), "seven": [7], "b": Integer(0, 49), "c": Categorical(["p", "q", "r"])},
    constraints=["(a + b) % 3 == 0 or b == 4"],
)
FREE = Space({"a": Integer(0, 99), "b": Integer(0, 99)})


def double_loop(space, cost, fireflies, seed, evaluations):
    """Yang's double loop; returns every evaluated row."""
    box = UnitBox.of(space)
    rng = np.random.default_rng([seed, 0, 0])
    x = box.scaled(draw_uniform(space, fireflies.population, rng))
    evaluated = [*snap_to_feasible(space, x, rng)]
    costs = [cost(row) for row in evaluated]
    step = 0
    while len(evaluated) < evaluations:
        for i in range(len(x)):
            for j in range(len(x)):
                if costs[j] < costs[i]:
                    step += 1
                    rng = np.random.default_rng([seed, step, 0])
                    r = np.linalg.norm(x[i] - x[j])
                    pull = fireflies.attraction * np.exp(-fireflies.absorption * r**2)
                    noise = fireflies.noise * rng.uniform(-0.5, 0.5, (1, len(box.extents)))[0]
                    x[i] = x[i] + pull * (x[j] - x[i]) + noise
                    x[i] = np.minimum(np.maximum(x[i], 0.0), box.extents)
                    (row,) = snap_to_feasible(space, x[i : i + 1], rng)
                    evaluated.append(row)
                    costs[i] = cost(row)
        order = sorted(range(len(x)), key=lambda i: costs[i])
        x, costs = x[order], [costs[i] for i in order]
    return evaluated


def test_with_outcomes_in_order_it_is_the_double_loop():
    fireflies = Firefly(population=7)
    run = Run(fireflies, LARGER, bowl, seed=2)
    rows, tags = run.go(80)
    expected = in_order(double_loop(LARGER, bowl, fireflies, run.state.seed, 300))
    assert [tuple(row) for row in rows] == expected[:80]
    assert tags[-1]["generation"] > 7 * 6  # more than one round


def test_a_move_by_hand():
    fireflies = Firefly(population=2, noise=0.0, attraction=0.5, absorption=2.0)
    problem, rng = Problem(FREE), np.random.default_rng(0)
    founders = fireflies.draw_founders(problem.space, rng)
    positions = np.array([[0.2, 0.9], [0.5, 0.5]])
    founders = type(founders)(founders.codes, (positions, np.arange(2)))
    population = fireflies.form_population(founders, np.array([1.0, 3.0]))
    assert (population.mover, population.towards) == (1, 0)
    candidates = fireflies.breed(problem.space, population, rng)
    moved, movers = candidates.moves
    pull = 0.5 * np.exp(-2.0 * (0.09 + 0.16))
    np.testing.assert_allclose(moved, [[0.5 - 0.3 * pull, 0.5 + 0.4 * pull]])
    assert movers.tolist() == [1]
    after = fireflies.select_members(population, candidates, np.array([0.5]), rng)
    np.testing.assert_allclose(after.positions, [moved[0], positions[0]])  # sorted: brightest first
    assert after.costs.tolist() == [0.5, 1.0]
    assert (after.mover, after.towards) == (1, 0)


def test_all_wander_while_all_are_equally_bright():
    fireflies = Firefly(population=5, noise=0.1)
    problem, rng = Problem(FREE), np.random.default_rng(0)
    founders = fireflies.draw_founders(problem.space, rng)
    population = fireflies.form_population(founders, np.full(5, np.inf))
    assert population.mover is None
    candidates = fireflies.breed(problem.space, population, rng)
    assert len(candidates) == 5
    apart = np.abs(candidates.moves[0] - population.positions)
    assert (apart <= 0.05).all()
    assert (apart > 0.0).any()
    after = fireflies.select_members(population, candidates, np.arange(5.0), rng)
    np.testing.assert_array_equal(after.positions, candidates.moves[0])
    assert (after.mover, after.towards) == (1, 0)


def test_an_outsider_replaces_the_darkest():
    fireflies, problem = Firefly(population=3), Problem(FREE)
    population = Fireflies(np.full((3, 2), 0.5), np.array([1.0, 9.0, 5.0]), 1, 0)
    joined = fireflies.add_outsider(problem.space, population, np.array([0.0, 99.0]), 0.0)
    assert joined.costs.tolist() == [1.0, 0.0, 5.0]
    np.testing.assert_allclose(joined.positions[1], [0.005, 0.995])
    assert (joined.mover, joined.towards) == (2, 0)  # now the second one is the brightest
    assert (
        fireflies.add_outsider(problem.space, population, np.array([0.0, 99.0]), 9.0) is population
    )
