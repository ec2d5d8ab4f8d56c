import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from population_runs import Run, in_order

from baco_like import Categorical, Integer, Permutation, Real, Space
from baco_like.strategies import ParticleSwarm, create_strategy
from baco_like.strategies.evolutionary.swarms import Swarm, snap_to_feasible
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


def reference(space, cost, swarm, seed, generations):
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
    expected = in_order(reference(SPACE, bowl, swarm, run.state.seed, tags[-1]["generation"] + 1))
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
