"""The genetic algorithm and NSGA-II, against plain loops and pymoo."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from population_runs import Run, in_order
from scipy.stats import beta

from baco_like import Aim, Categorical, Integer, Optimizer, Permutation, Real, Space
from baco_like.records import Status
from baco_like.records.front import iterate_fronts
from baco_like.spaces.neighbourhoods import hamming
from baco_like.strategies import NSGA2, GeneticAlgorithm, create_strategy
from baco_like.strategies.evolutionary.genetic import NonDominatedSorting, best_first
from baco_like.strategies.moves import (
    CROSSOVERS,
    BetaRank,
    Tournament,
    change_genes,
    cross_orders,
    disruptive_uniform,
    draw_uniform,
    insert_element,
    one_point,
    repair_by_neighbour,
    step_to_neighbours,
    swap_elements,
    two_point,
    uniform,
)

SPACE = Space(
    {"seven": [7], "a": Integer(0, 7), "b": Integer(0, 7), "c": Categorical(["p", "q", "r"]),
     "o": Permutation(["i", "j", "k", "l"]), "d": Integer(0, 7)},
    constraints=["a + b <= 9", "b % 3 != 1", "pos(o, 'i') < pos(o, 'k')"],
)  # fmt: skip


def bowl(code):
    return float(((code[1:3] - 3.0) ** 2).sum() + (code[4] - code[8]) ** 2 + code[3])


def reference(space, cost, settings, seed, generations):
    """The plain generational loop; returns every evaluated row, known ones included."""
    rng = np.random.default_rng([seed, 0, 0])
    population = draw_uniform(space, settings.population, rng)
    evaluated = [*population]
    for generation in range(1, generations):
        rng = np.random.default_rng([seed, generation, 0])
        costs = np.array([cost(row) for row in population])
        children = []
        for size in (len(population), 4 * len(population)):
            if len(children) == len(population):
                break
            pairs = settings.selection_rule.mates(costs, size // 2, rng)
            crossed = one_point(space, population[pairs[0]], population[pairs[1]], rng)
            young = np.array([child for pair in zip(*crossed, strict=True) for child in pair])
            young = repair_by_neighbour(space, young, rng)
            changes = settings.select_genes(size, len(space.active), rng)
            for child in step_to_neighbours(space, young, changes, rng):
                new = not any((child == other).all() for other in children)
                if new and len(children) < len(population):
                    children.append(child)
        population = np.array(children)
        evaluated += children
    return evaluated


def test_with_outcomes_in_order_it_is_exactly_generational():
    settings = GeneticAlgorithm(population=10).for_budget(None)
    run = Run(settings, SPACE, bowl, seed=4)
    rows, tags = run.go(70)
    expected = in_order(reference(SPACE, bowl, settings, run.state.seed, 12))
    assert [tuple(row) for row in rows] == expected[:70]
    assert tags[-1]["generation"] > 5


def test_all_of_the_old_are_replaced_by_beta_rank():
    run = Run(create_strategy("genetic_algorithm", {"population": 10}), SPACE, bowl)
    run.go(10)
    children = run.state.candidates.codes
    while run.state.generation == 1:
        run.go(1)
    np.testing.assert_array_equal(run.state.population.codes, children)


def test_tournaments_keep_the_best_of_old_and_young():
    settings = {"population": 10, "selection": "tournament", "tournament": 20}
    run = Run(create_strategy("genetic_algorithm", settings), SPACE, bowl)
    rows, _ = run.go(10)
    while run.state.generation == 1:
        rows = np.concatenate([rows, run.go(1)[0]])
    best = min(map(bowl, rows))  # all twenty compete for every place
    assert run.state.population.costs.tolist() == [best] * 10


@pytest.mark.parametrize("n", [2, 3, 10])
def test_beta_rank_follows_the_distribution(n):
    costs = np.random.default_rng(0).permutation(n).astype(float)
    costs[costs == n - 1] = np.inf
    mothers, fathers = BetaRank().mates(costs, 20_000, np.random.default_rng(1))
    assert (mothers != fathers).all()
    order = np.argsort(costs)
    expected = np.diff(beta(1.0, 2.5).cdf(np.arange(n + 1) / n))
    found = np.bincount(mothers, minlength=n)[order] / 20_000
    np.testing.assert_allclose(found, expected, atol=0.015)


@pytest.mark.parametrize("selection", [BetaRank(), Tournament()])
def test_one_member_mates_with_itself(selection):
    mothers, fathers = selection.mates(np.array([3.0]), 4, np.random.default_rng(0))
    assert mothers.tolist() == fathers.tolist() == [0] * 4


@pytest.mark.parametrize("n", [2, 5, 8])
def test_in_tournaments_all_mate_alike_and_never_with_themselves(n):
    mothers, fathers = Tournament().mates(np.arange(float(n)), 5000, np.random.default_rng(0))
    assert len(mothers) == len(fathers) == 5000
    assert (mothers != fathers).all()
    shares = np.bincount(np.concatenate([mothers, fathers])) / 10_000
    np.testing.assert_allclose(shares, 1 / n, atol=0.02)


def test_the_winner_of_a_tournament_is_the_best_of_its_size():
    old, young = np.arange(10.0, 15.0), np.arange(5.0)
    rng = np.random.default_rng(0)
    won = np.concatenate([Tournament(3).survivors(old, young, rng) for _ in range(2000)])
    rank = np.argsort(np.concatenate([old, young])).argsort()[won]
    # The best of 3 distinct out of 10 has rank r with chance C(9 - r, 2) / C(10, 3).
    expected = [(9 - r) * (8 - r) / 2 / 120 for r in range(10)]
    np.testing.assert_allclose(np.bincount(rank, minlength=10) / 10_000, expected, atol=0.015)


def test_one_in_five_changes_in_one_gene():
    genes = GeneticAlgorithm(mutation_chance=5).select_genes(20_000, 4, np.random.default_rng(0))
    assert set(genes.sum(axis=1)) == {0, 1}
    np.testing.assert_allclose(genes.mean(axis=0), 1 / 20, atol=0.005)


def test_every_gene_changes_with_the_same_chance():
    genes = GeneticAlgorithm(mutation=0.3).select_genes(20_000, 4, np.random.default_rng(0))
    np.testing.assert_allclose(genes.mean(axis=0), 0.3, atol=0.015)
    assert abs((genes[:, 0] & genes[:, 1]).mean() - 0.09) < 0.01


def test_a_feasible_step_is_to_a_hamming_neighbour_each_as_likely():
    rows = np.tile(SPACE.feasible.sample(1, np.random.default_rng(3)), (20_000, 1))
    genes = np.zeros((len(rows), len(SPACE.active)), dtype=bool)
    genes[:, 0] = True
    found = step_to_neighbours(SPACE, rows, genes, np.random.default_rng(4))
    assert SPACE.feasible.contains(found).all()
    numbers = (found[:, [1, 2, 3, 8]] != rows[:, [1, 2, 3, 8]]).any(axis=1)
    orders = (found[:, 4:8] != rows[:, 4:8]).any(axis=1)
    assert (numbers ^ orders).all()
    near, _ = hamming(SPACE, rows[:1], np.random.default_rng(0))
    same_order = near[(near[:, 4:8] == rows[0, 4:8]).all(axis=1)]
    counts = {tuple(row): 0 for row in same_order}
    for row in found[numbers]:
        counts[tuple(row)] += 1
    np.testing.assert_allclose(np.array([*counts.values()]) / len(rows), 1 / len(near), atol=0.01)


def test_unmarked_rows_and_rows_without_neighbours_stay():
    rows = SPACE.feasible.sample(5, np.random.default_rng(0))
    none = np.zeros((5, len(SPACE.active)), dtype=bool)
    np.testing.assert_array_equal(
        step_to_neighbours(SPACE, rows, none, np.random.default_rng(0)), rows
    )
    lonely = Space({"a": [1, 2], "b": [1, 2]}, constraints=["a == b"])
    rows = lonely.feasible.sample(5, np.random.default_rng(0))
    every = np.ones((5, 2), dtype=bool)
    np.testing.assert_array_equal(
        step_to_neighbours(lonely, rows, every, np.random.default_rng(0)), rows
    )


def test_any_steps_change_exactly_the_marked_genes():
    space = Space({**SPACE.parameters, "x": Real(0.0, 1.0)})
    rng = np.random.default_rng(0)
    rows = space.feasible.sample(300, rng)
    genes = rng.random((300, len(space.active))) < 0.4
    found = change_genes(space, rows, genes, rng)
    for gene, name in enumerate(space.active):
        at = space.columns[name]
        changed = (found[:, at] != rows[:, at]).any(axis=1)
        np.testing.assert_array_equal(changed, genes[:, gene])
        assert space.parameters[name].legal(found[:, at]).all()


@given(st.permutations(range(5)), st.integers(0, 2**32 - 1))
def test_swaps_and_insertions_of_permutations(order, seed):
    codes = np.argsort([order]).astype(float)
    swaps, insertions = set(), set()
    for i, j in ((i, j) for i in range(5) for j in range(5) if i != j):
        other = list(order)
        other[i], other[j] = other[j], other[i]
        swaps.add(tuple(other))
        other = list(order)
        other.insert(j, other.pop(i))
        insertions.add(tuple(other))
    rng = np.random.default_rng(seed)
    assert tuple(np.argsort(swap_elements(codes, rng)[0])) in swaps
    assert tuple(np.argsort(insert_element(codes, rng)[0])) in insertions


def test_every_insertion_occurs():
    codes = np.tile(np.arange(4.0), (2000, 1))
    found = {
        tuple(row) for row in np.argsort(insert_element(codes, np.random.default_rng(0)), axis=1)
    }
    assert len(found) == 9  # of 12 moves 3 neighbouring swaps are the same either way


def test_a_chance_and_a_rate_of_mutations_exclude_each_other():
    with pytest.raises(ValueError, match="exclude each other"):
        create_strategy("genetic_algorithm", {"mutation": 0.1, "mutation_chance": 5})


OBJECTIVES = {"time": "minimize", "rate": "maximize"}


def test_fronts_and_survivors_are_those_of_pymoo():
    i = np.arange(24.0)
    costs = np.column_stack([(7 * i + 3) % 23 / 23 + i * 1e-3, (5 * i + 11) % 19 / 19 - i * 1e-3])
    # pymoo 0.6.1.3: NonDominatedSorting().do and RankAndCrowding().do(n_survive=9), which cuts the third front
    fronts = [1, 4, 3, 0, 3, 5, 4, 2, 4, 6, 1, 3, 5, 0, 2, 4, 0, 1, 3, 5, 3, 2, 4, 2]
    found = {row: number for number, rows in enumerate(iterate_fronts(costs)) for row in rows}
    assert [found[row] for row in range(24)] == fronts
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


# ----  ----


FIVE = Space({"seven": [7], **{f"v{i}": Integer(0, 9) for i in range(5)}})
MIXED = Space(
    {
        "a": Integer(0, 9),
        "o": Permutation(list("abcdef")),
        "b": Integer(0, 9),
        "p": Permutation([1, 2, 3]),
    }
)


def exchanged(crossover, n=4000):
    """Return which genes came from the father in the first children, where all genes differ."""
    mothers, fathers = np.zeros((n, 6)), np.zeros((n, 6))
    fathers[:, 1:] = 1.0
    one, other = crossover(FIVE, mothers, fathers, np.random.default_rng(0))
    np.testing.assert_array_equal(one + other, mothers + fathers)
    assert (one[:, 0] == 0).all()
    return one[:, 1:].astype(int)


def shares(masks):
    patterns, counts = np.unique(masks, axis=0, return_counts=True)
    return {tuple(p): c / len(masks) for p, c in zip(patterns.tolist(), counts, strict=True)}


def test_one_cut_anywhere_between_two_genes():
    found = shares(exchanged(one_point))
    assert set(found) == {(0,) * k + (1,) * (5 - k) for k in range(1, 5)}
    assert all(abs(share - 1 / 4) < 0.03 for share in found.values())


def test_two_cuts_exchange_a_stretch():
    found = shares(exchanged(two_point))
    stretches = {
        (0,) * a + (1,) * b + (0,) * (5 - a - b) for b in range(1, 5) for a in range(6 - b)
    }
    assert set(found) == stretches


def test_uniform_tosses_a_coin_for_every_gene():
    found = shares(exchanged(uniform))
    assert len(found) == 32
    assert all(abs(share - 1 / 32) < 0.015 for share in found.values())


def test_disruptive_exchanges_half_of_the_genes_that_differ():
    assert set(exchanged(disruptive_uniform).sum(axis=1)) == {3}
    mothers = np.array([[0.0, 1, 2, 3, 4, 5]] * 500)
    fathers = np.array([[0.0, 1, 9, 3, 9, 5]] * 500)
    one, other = disruptive_uniform(FIVE, mothers, fathers, np.random.default_rng(1))
    assert {tuple(row) for row in one.tolist()} == {(0, 1, 2, 3, 9, 5), (0, 1, 9, 3, 4, 5)}
    np.testing.assert_array_equal(one + other, mothers + fathers)


@pytest.mark.parametrize("crossover", CROSSOVERS.values(), ids=CROSSOVERS)
@given(seed=st.integers(0, 2**32 - 1))
def test_children_are_legal_and_equal_parents_have_themselves(crossover, seed):
    rng = np.random.default_rng(seed)
    mothers, fathers = MIXED.feasible.sample(8, rng), MIXED.feasible.sample(8, rng)
    for children in crossover(MIXED, mothers, fathers, rng):
        assert MIXED.feasible.contains(children).all()
    for children in crossover(MIXED, mothers, mothers, rng):
        np.testing.assert_array_equal(children, mothers)


@pytest.mark.parametrize("crossover", CROSSOVERS.values(), ids=CROSSOVERS)
@pytest.mark.parametrize("parameters", [{"seven": [7]}, {"a": [1, 2, 3]}])
def test_spaces_with_hardly_any_gene(crossover, parameters):
    space, rng = Space(parameters), np.random.default_rng(0)
    one, other = crossover(space, np.zeros((3, 1)), np.zeros((3, 1)), rng)
    np.testing.assert_array_equal(one, np.zeros((3, 1)))
    np.testing.assert_array_equal(other, np.zeros((3, 1)))


def davis(keeping, filling, start, stop):
    """Davis's order crossover on orders of elements, as in a textbook."""
    m = len(keeping)
    child = [None] * m
    child[start:stop] = keeping[start:stop]
    missing = [filling[(stop + i) % m] for i in range(m)]
    missing = [element for element in missing if element not in child]
    for i in range(m - (stop - start)):
        child[(stop + i) % m] = missing[i]
    return child


@given(st.data())
def test_order_crossover_is_that_of_the_textbook(data):
    m = data.draw(st.integers(1, 8))
    ours, theirs = data.draw(st.permutations(range(m))), data.draw(st.permutations(range(m)))
    start, stop = sorted(data.draw(st.tuples(st.integers(0, m), st.integers(0, m))))
    codes = [np.argsort([order]).astype(float) for order in (ours, theirs)]
    child = cross_orders(*codes, np.array([start]), np.array([stop]))
    assert np.argsort(child[0]).tolist() == davis(ours, theirs, start, stop)


def test_order_crossover_by_hand():
    keeping = np.argsort([[0, 1, 2, 3, 4, 5]]).astype(float)
    filling = np.argsort([[5, 3, 1, 0, 2, 4]]).astype(float)
    child = cross_orders(keeping, filling, np.array([2]), np.array([4]))
    assert np.argsort(child[0]).tolist() == [1, 0, 2, 3, 4, 5]
