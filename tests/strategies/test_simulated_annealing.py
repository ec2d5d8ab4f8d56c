import math

import numpy as np
import pytest
from plain_climbing import Objective, climb_best, climb_first, rugged
from population_runs import Run

from baco_like import Integer, Real, Space
from baco_like.strategies import create_strategy
from baco_like.strategies.local.searches import accept_probability
from baco_like.strategies.moves import number_of_changes, perturb

RNG = np.random.default_rng
SPACE = Space({f"x{i}": Integer(0, 11) for i in range(4)}, ["x0 + x1 >= 4", "x2 != x3"])


def annealed(f, n, climber, exploration, temperatures, budget, seed):
    """The plain loop, until n configurations have been evaluated."""
    rng, current, cost = RNG(seed), None, math.inf
    count, (first, last) = number_of_changes(SPACE, exploration), temperatures
    while len(f.seen) < n:
        fresh = current is None
        row = SPACE.feasible.sample(1, rng)[0] if fresh else perturb(SPACE, current, count, rng)
        if climber == "none":
            new = f(row)
        elif climber == "best":
            row, new = climb_best(SPACE, f, row, rng, "hamming")
        else:
            row, new = climb_first(SPACE, f, row, rng, "hamming", True)
        done = len(f.seen) % budget / budget
        heat = first * (last / first) ** done
        if fresh or rng.random() < accept_probability(cost, new, heat):
            current, cost = row, new


@pytest.mark.parametrize("climber", ["none", "random_first", "best"])
@pytest.mark.parametrize("exploration", [0.1, 0.3])
def test_it_is_the_plain_loop(climber, exploration):
    temperatures = {"temperature": 1.0, "final_temperature": 0.1}
    settings = {"hill_climber": climber, "exploration": exploration, **temperatures}
    run = Run(create_strategy("simulated_annealing", settings), SPACE, rugged, seed=5, budget=120)
    rows, _ = run.go(150)
    f = Objective(rugged)
    annealed(f, 150, climber, exploration, (1.0, 0.1), 120, seed=5)
    assert [tuple(row) for row in rows] == list(f.seen)[:150]


def test_acceptance_is_metropolis_on_relative_changes():
    assert accept_probability(2.0, 1.0, 0.1) == 1.0
    assert accept_probability(2.0, 2.0, 0.1) == 1.0
    assert accept_probability(1.0, 1.25, 0.1) == pytest.approx(math.exp(-2.0))
    assert accept_probability(-1.25, -1.0, 0.1) == pytest.approx(math.exp(-2.0))
    assert accept_probability(0.0, 3.0, 0.5) == pytest.approx(math.exp(-2.0))
    assert accept_probability(-1e308, 1e308, 1.0) == pytest.approx(math.exp(-2.0))
    assert accept_probability(1.0, math.inf, 1e9) == 0.0
    assert accept_probability(math.inf, math.inf, 0.1) == 1.0
    assert accept_probability(math.inf, 5.0, 0.1) == 1.0


def test_the_temperature_falls_geometrically_over_the_budget_and_begins_again():
    strategy = create_strategy(
        "simulated_annealing", {"temperature": 1.0, "final_temperature": 0.01}
    )
    temperatures = [strategy.temperature_at(n, 100) for n in (0, 50, 100, 150)]
    assert temperatures == pytest.approx([1.0, 0.1, 1.0, 0.1])
    assert strategy.temperature_at(99, 100) == pytest.approx(0.01**0.99)
    assert strategy.temperature_at(100, None) == pytest.approx(0.1)


def test_hot_it_wanders_and_cold_it_stays_with_the_best():
    space = Space({f"x{i}": Real(0.0, 1.0) for i in range(6)})

    def bowl(code):
        return 1.0 + float(((code - 0.4) ** 2).sum())

    def rows_and_costs(temperature):
        temperatures = {"temperature": temperature, "final_temperature": temperature}
        settings = {"hill_climber": "none", "exploration": 0.02, **temperatures}
        rows, _ = Run(create_strategy("simulated_annealing", settings), space, bowl).go(60)
        return rows, np.array([bowl(row) for row in rows])

    rows, _ = rows_and_costs(1e9)
    assert ((rows[1:] != rows[:-1]).sum(axis=1) == 1).all()
    rows, costs = rows_and_costs(1e-12)
    best = [int(costs[: i + 1].argmin()) for i in range(59)]
    assert ((rows[1:] != rows[best]).sum(axis=1) == 1).all()
    assert costs.min() < costs[0] - 0.1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 1e-6}, "temperature 1e-06 and final_temperature 0.0001 do not fit"),
        ({"temperature": math.inf}, "do not fit"),
        ({"final_temperature": 0.0}, "do not fit"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        create_strategy("simulated_annealing", settings)
