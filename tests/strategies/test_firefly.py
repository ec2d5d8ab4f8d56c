import numpy as np
from population_runs import Run, in_order

from baco_like import Categorical, Integer, Space
from baco_like.strategies import Firefly
from baco_like.strategies.evolutionary.swarms import Fireflies, snap_to_feasible
from baco_like.strategies.geometry import UnitBox
from baco_like.strategies.moves import draw_uniform
from baco_like.strategies.protocol import Problem

SPACE = Space(
    {"a": Integer(0, 99), "seven": [7], "b": Integer(0, 49), "c": Categorical(["p", "q", "r"])},
    constraints=["(a + b) % 3 == 0 or b == 4"],
)
FREE = Space({"a": Integer(0, 99), "b": Integer(0, 99)})


def bowl(code):
    return float(((code[[0, 2]] - 3.0) ** 2).sum() + code[3])


def reference(space, cost, fireflies, seed, evaluations):
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
    run = Run(fireflies, SPACE, bowl, seed=2)
    rows, tags = run.go(80)
    expected = in_order(reference(SPACE, bowl, fireflies, run.state.seed, 300))
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
