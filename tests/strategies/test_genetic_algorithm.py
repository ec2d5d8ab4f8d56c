import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from population_runs import Run, in_order
from scipy.stats import beta

from baco_like import Categorical, Integer, Permutation, Real, Space
from baco_like.spaces.neighbourhoods import hamming
from baco_like.strategies import GeneticAlgorithm, create_strategy
from baco_like.strategies.moves import (
    BetaRank,
    Tournament,
    change_genes,
    draw_uniform,
    insert_element,
    one_point,
    repair_by_neighbour,
    step_to_neighbours,
    swap_elements,
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


def test_settings_of_the_papers():
    aware = create_strategy("genetic_algorithm", {})
    paper = GeneticAlgorithm("aware", 20, "one_point", "beta_rank", None, 5)
    assert aware.for_budget(25) == aware.for_budget(1600) == paper
    unaware = create_strategy("genetic_algorithm", {"constraints": "penalty"})
    low, high = unaware.for_budget(25), unaware.for_budget(1600)
    assert (low.population, low.mutation, low.selection_rule) == (
        8,
        0.02,
        Tournament(8),
    )
    assert (high.population, high.mutation, high.selection_rule) == (
        320,
        0.02,
        Tournament(4),
    )
    assert (low.crossover, high.crossover) == ("one_point", "two_point")
    same = {"population": 20, "selection": "beta_rank", "mutation_chance": 5}
    chosen = create_strategy("genetic_algorithm", {"constraints": "penalty", **same}).for_budget(
        200
    )
    assert (chosen.population, chosen.selection_rule, chosen.mutation_chance) == (
        20,
        BetaRank(),
        5,
    )
    rate = create_strategy("genetic_algorithm", {"mutation": 0.5}).for_budget(200)
    assert rate.mutation == 0.5


def test_a_chance_and_a_rate_of_mutations_exclude_each_other():
    with pytest.raises(ValueError, match="exclude each other"):
        create_strategy("genetic_algorithm", {"mutation": 0.1, "mutation_chance": 5})
