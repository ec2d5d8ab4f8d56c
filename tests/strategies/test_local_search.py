import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from plain_climbing import Objective, climb_best, climb_first, neighbours
from population_runs import Run

from baco_like import Categorical, Integer, Optimizer, Permutation, Real, Search, Space
from baco_like.spaces.neighbourhoods import adjacent
from baco_like.strategies import create_strategy
from baco_like.strategies.local.base import Neighbourhoods, Scan
from baco_like.strategies.moves import number_of_changes, perturb
from baco_like.strategies.observed_costs import ObservedCosts

RNG = np.random.default_rng
NAMES = ("multi_start_local_search", "iterated_local_search", "tabu_search")
SPACE = Space(
    {"seven": [7], "a": Integer(0, 9), "b": Integer(0, 9), "c": Categorical(["p", "q", "r"]),
     "o": Permutation(["i", "j", "k", "l"]), "d": Integer(0, 9)},
    constraints=["a + b <= 13", "b % 4 != 1", "pos(o, 'i') < pos(o, 'k')"],
)  # fmt: skip
REALS = Space({"x": Real(-1.0, 1.0), "y": Real(-1.0, 1.0), "z": Real(-1.0, 1.0)})


def rugged(code):
    """No two configurations cost the same, and there are many local minima; one in about nine fails."""
    a, b, c, d = code[1], code[2], code[3], code[8]
    if (a + 2 * b + d) % 9 == 4:
        return None
    smooth = (a - 6) ** 2 + (b - 6) ** 2 + (d - 3) ** 2 + 5 * c + code[4]
    return float(
        smooth + 12 * np.sin(3 * a + 5 * b + 7 * d + c) + 1e-3 * code @ np.sqrt(np.arange(2, 11))
    )


def bowl(code):
    return float(((code - 0.3) ** 2).sum())


def sample(rng):
    return SPACE.feasible.sample(1, rng)[0]


# The algorithms against plain loops.


def climb(f, row, rng, improvement, name, restart, order="mixed"):
    if improvement == "best":
        return climb_best(SPACE, f, row, rng, name)
    return climb_first(SPACE, f, row, rng, name, restart, order == "mixed")


@pytest.mark.parametrize("order", ["mixed", "by_parameter"])
@pytest.mark.parametrize("name", ["hamming", "adjacent"])
@pytest.mark.parametrize(("improvement", "restart"), [("first", True), ("first", False), ("best", None)])  # fmt: skip
def test_multi_start_is_the_plain_loop(improvement, restart, name, order):
    settings = {"improvement": improvement, "neighbourhood": name, "restart": restart}
    settings["order"] = order
    strategy = create_strategy("multi_start_local_search", settings)
    rows, tags = Run(strategy, SPACE, rugged, seed=4).go(250)
    rng, f, starts = RNG(4), Objective(rugged), 0
    while len(f.seen) < 250:
        climb(f, sample(rng), rng, improvement, name, restart, order)
        starts += 1
    assert [tuple(row) for row in rows] == list(f.seen)[:250]
    assert starts > 1
    assert [tag["phase"] for tag in tags].count("start") in (starts, starts - 1)


@pytest.mark.parametrize("improvement", ["first", "best"])
@pytest.mark.parametrize(("perturbation", "patience"), [(0.05, 10), (0.2, 2), (1.0, 25)])
def test_iterated_is_the_plain_loop(improvement, perturbation, patience):
    settings = {"neighbourhood": "adjacent", "perturbation": perturbation, "patience": patience}
    strategy = create_strategy("iterated_local_search", {"improvement": improvement, **settings})
    rows, _ = Run(strategy, SPACE, rugged, seed=1).go(200)
    rng, f = RNG(1), Objective(rugged)
    count = int(perturbation * (10 + 7 + 3 + 4 + 10))  # b takes 7 values
    assert number_of_changes(SPACE, perturbation) == max(1, count)
    best, least, idle, start, restarts = None, math.inf, 0, sample(rng), 0
    while len(f.seen) < 200:
        minimum, cost = climb(f, start, rng, improvement, "adjacent", False)
        idle = 0 if cost < least else idle + 1
        best, least = (minimum, cost) if cost < least else (best, least)
        if idle < patience:
            start = perturb(SPACE, best, max(1, count), rng)
        else:
            start, idle, restarts = sample(rng), 0, restarts + 1
    assert [tuple(row) for row in rows] == list(f.seen)[:200]
    assert restarts > 0 or patience > 2


@pytest.mark.parametrize("size", [1, 5, 2000])
@pytest.mark.parametrize("improvement", ["first", "best"])
def test_tabu_is_the_plain_loop(improvement, size):
    strategy = create_strategy("tabu_search", {"improvement": improvement, "tabu_size": size})
    rows, tags = Run(strategy, SPACE, rugged, seed=3).go(200)
    rng, f, visited = RNG(3), Objective(rugged), []
    row = sample(rng)
    cost = f(row)
    for _ in range(
        60
    ):  # the strategy stops after 50 silent moves, where a short list goes round in circles
        visited = [*visited, tuple(row)][-size:]
        _, around = neighbours(SPACE, row, rng, "hamming")
        free = [other for other, _ in around if tuple(other) not in visited]
        values = []
        for other in free:
            values.append(f(other))
            if improvement == "first" and values[-1] < cost:
                break
        row, cost = free[int(np.argmin(values))], min(values)
        if len(f.seen) >= 200:
            break
    if size == 2000:
        assert [tag["phase"] for tag in tags] == ["start"] + ["neighbour"] * 199
    plain = list(f.seen)[:200]
    assert [tuple(row) for row in rows][: len(plain)] == plain
    assert len(plain) > (150 if size == 2000 else 40)


# The parts of the algorithms.


def test_tabu_moves_to_the_best_neighbour_where_none_is_better_and_never_back():
    space = Space({"x": Integer(0, 9)})
    costs = [9, 7, 3, 5, 6, 8, 1, 2, 4, 10]
    settings = {"improvement": "best", "neighbourhood": "adjacent"}
    strategy = create_strategy("tabu_search", settings)
    run = Run(strategy, space, lambda code: float(costs[int(code[0])]))
    run.state = replace(run.state, scans=(Scan.start(np.array([4.0]), ObservedCosts()),))
    rows, _ = run.go(8)
    # from 4 it looks at 3 and 5 and goes to 3, though 3 is not better; then only 2, 1, 0 are free
    assert rows[0, 0] == 4
    assert set(rows[1:3, 0]) == {3, 5}
    assert rows[3:6, 0].tolist() == [2, 1, 0]
    assert not np.isin(rows[6:, 0], rows[:6, 0]).any()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_perturbation_changes_as_many_parameters(count):
    space = Space({f"x{i}": Integer(0, 9) for i in range(4)} | {"o": Permutation(list("abcde"))})
    rng = RNG(0)
    sizes = []
    for row in space.feasible.sample(60, rng):
        other = perturb(space, row, count, rng)
        sizes.append(sum((other[at] != row[at]).any() for at in space.columns.values()))
    assert set(sizes) <= set(range(count + 1))
    assert np.mean(sizes) > 0.7 * count
    assert count > 1 or min(sizes) == 1


def test_a_perturbation_stays_feasible_and_a_large_one_is_a_uniform_draw():
    rng = RNG(0)
    row = sample(rng)
    for count in (1, 3, 1000):
        rows = np.array([perturb(SPACE, row, count, rng) for _ in range(300)])
        assert SPACE.feasible.contains(rows).all()
    uniform = SPACE.feasible.sample(3000, rng)
    spread = uniform.std(axis=0) / np.sqrt(300) + 1e-9
    assert (abs(rows.mean(axis=0) - uniform.mean(axis=0)) < 4.5 * spread).all()


def test_a_perturbation_without_other_values_is_the_row_itself():
    space = Space({"one": [7], "word": ["x"]})
    row = space.feasible.sample(1, RNG(0))[0]
    assert perturb(space, row, 3, RNG(0)).tolist() == row.tolist()
    two = Space({"p": Permutation(["a", "b"])})
    assert perturb(two, np.array([0.0, 1.0]), 1, RNG(0)).tolist() == [1.0, 0.0]


def test_cached_neighbours_match_the_definition():
    near = Neighbourhoods(SPACE, "adjacent")
    row = sample(RNG(5))
    for _ in range(2):
        around = near.around(row, RNG(0))
        expected, _ = adjacent(SPACE, row[None, :], RNG(0))
        assert around.rows.tolist() == expected.tolist()
        for other, gene in zip(around.rows, around.genes, strict=True):
            at = SPACE.columns[SPACE.active[gene]]
            assert (other[at] != row[at]).any()
    reals = Neighbourhoods(REALS, "hamming")
    point = REALS.feasible.sample(1, RNG(0))[0]
    first, second = (reals.around(point, rng) for rng in (RNG(1), RNG(2)))
    assert not np.array_equal(first.rows, second.rows)


def test_of_many_values_some_random_ones_are_neighbours():
    space = Space({"n": list(range(1000)), "m": list(range(20))}, ["n % 2 == 0"])
    row = space.feasible.sample(1, RNG(0))[0]
    near = Neighbourhoods(space, "hamming")
    first, second = (near.around(row, rng) for rng in (RNG(1), RNG(2)))
    assert 40 < np.bincount(first.genes)[0] <= 64
    assert np.bincount(first.genes)[1] == 19
    assert set(first.keys) != set(second.keys)
    assert number_of_changes(space, 1.0) == 64 + 20
    others = {int(perturb(space, row, 1, RNG(i))[0]) for i in range(60)}
    assert len(others) > 20
    assert all(n % 2 == 0 for n in others)


def test_given_up_costs_count_as_failures_and_early_improvements_count_at_once():
    rows = np.arange(4.0)[:, None]
    keys = [b"0", b"1", b"2", b"3"]
    scan = Scan(rows, keys, np.full(4, np.nan), first=True, threshold=5.0)
    assert scan.add_cost(b"other", 1.0) is scan
    scan = scan.add_cost(b"2", 6.0)
    assert scan.unknown.tolist() == [0, 1, 3]
    early = scan.add_cost(b"3", 4.0)
    assert (early.settled, early.better) == (True, 3)
    assert early.add_cost(b"0", 1.0).better == 3
    given_up = scan.give_up()
    assert (given_up.settled, given_up.better) == (True, None)
    patient = Scan(rows, keys, np.full(4, np.nan), first=False, threshold=5.0).add_cost(b"3", 4.0)
    assert not patient.settled
    assert patient.give_up().better == 3
    known = Scan.start(np.array([1.0]), ObservedCosts())
    assert known.unknown.tolist() == [0]


# Runs with pending, lost and reported trials.


@pytest.mark.parametrize("improvement", ["first", "best"])
@pytest.mark.parametrize("name", NAMES)
def test_several_pending_trials_with_a_lost_one(name, improvement):
    run = Run(create_strategy(name, {"improvement": improvement}), SPACE, rugged, seed=2)
    rng, pending, seen = RNG(0), [], set()
    lost = run.ask(1)
    for _ in range(60):
        pending += run.ask(6 - len(pending))
        seen |= {tuple(code) for _, code in pending}
        for _ in range(3):
            run.tell(*pending.pop(int(rng.integers(len(pending)))))
    assert tuple(lost[0][1]) not in seen
    assert {"neighbour", "spare"} <= {trial.tag["phase"] for trial in run.history.trials}
    assert run.state.turn > 5
    assert len(run.state.spares) <= 64


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_neighbour_is_skipped(name):
    """With one worker of two hanging, the climb ends in a local minimum and the next one begins."""
    space = Space({"x": Integer(0, 5), "y": Integer(0, 5)})
    run = Run(
        create_strategy(name, {"improvement": "best", "neighbourhood": "adjacent"}), space, bowl
    )
    run.go(1)
    (_,) = run.ask()  # one of the neighbours, never observed
    turn = run.state.turn
    run.go(12)
    assert run.state.turn > turn


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("name", NAMES)
def test_a_better_reported_configuration_is_the_next_start(name, before):
    run = Run(create_strategy(name, {}), SPACE, rugged, seed=1)
    run.go(before)
    row = sample(RNG(9))
    run.report(row, -1e6)
    waited = 0
    while run.state.surprise is not None:
        run.go(1)
        waited += 1
    assert (run.state.scans[0].base == row).all()
    assert (waited > 0) == (before > 0)
    assert run.state.best_cost == -1e6


@pytest.mark.parametrize("name", NAMES)
def test_worse_reported_configurations_change_nothing(name):
    runs = [Run(create_strategy(name, {}), SPACE, rugged, seed=1) for _ in range(2)]
    for run in runs:
        run.go(30)
    before = runs[1].rng.bit_generator.state
    known = {tuple(code) for code in runs[1].history.codes}
    aside = next(row for row in SPACE.feasible.sample(500, RNG(3)) if tuple(row) not in known)
    runs[1].report(aside, 1e6)
    runs[1].rng.bit_generator.state = before
    assert runs[0].go(5)[0].tolist() == runs[1].go(5)[0].tolist()


@pytest.mark.parametrize("name", [*NAMES, "simulated_annealing", "genetic_local_search"])
def test_noisy_configurations_are_evaluated_again_and_failed_ones_are_not(name):
    space, rng = Space({"x": Integer(0, 5), "y": Integer(0, 1)}), RNG(0)

    def noisy(code):
        return None if code[0] == 3 else float((code[0] - 1) ** 2 + rng.normal())

    rows, tags = Run(create_strategy(name, {}), space, noisy, noise="repeat").go(60)
    times = Counter(map(tuple, rows))
    assert all(times[row] == 1 for row in times if row[0] == 3)
    assert max(times.values()) > 3
    assert all(tags)


def test_a_restart_goes_with_first_improvement():
    with pytest.raises(ValueError, match="restart True has no effect"):
        create_strategy("multi_start_local_search", {"improvement": "best", "restart": True})


@pytest.mark.parametrize("name", ["multi_start_local_search", "iterated_local_search"])
@pytest.mark.parametrize("restart", [True, False])
def test_a_search_with_a_small_budget_changes_most_parameters(name, restart):
    space = Space({f"p{i}": list(range(20)) for i in range(25)})

    def count_changed(order):
        settings = {"restart": restart, "order": order, "neighbourhood": "hamming"}
        optimizer = Optimizer(space, strategy=Search(name, settings), seed=3, budget=60)
        first = optimizer.suggest()
        optimizer.observe(first, 1.0)
        changed = set()
        for _ in range(60):  # no improvement: the neighbours of the first configuration
            trial = optimizer.suggest()
            changed |= {key for key in trial if trial[key] != first[key]}
            optimizer.observe(trial, 2.0)
        return len(changed)

    assert count_changed("mixed") > 15  # 60 draws of 25 parameters: 23 are expected
    assert count_changed("by_parameter") <= 4


@pytest.mark.parametrize("restart", [True, False])
def test_a_search_in_mixed_order_finds_a_local_minimum(restart):
    space = Space({f"p{i}": list(range(4)) for i in range(5)})
    settings = {"restart": restart, "neighbourhood": "hamming"}
    optimizer = Optimizer(space, strategy=Search("multi_start_local_search", settings), budget=300)
    for _ in range(300):
        trial = optimizer.suggest()
        optimizer.observe(trial, float(sum((x - 1) ** 2 for x in trial.values())))
    assert optimizer.best_value == 0.0
