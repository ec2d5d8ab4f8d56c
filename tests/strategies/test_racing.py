"""Racing: the test that drops candidates, the rounds of a race, and what a race leaves to the next."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import friedmanchisquare
from scipy.stats import t as student

from baco_like import Categorical, Ordinal, Permutation, Real, Search, Space
from baco_like.optimizer import Optimizer
from baco_like.strategies import Racing
from baco_like.strategies.racing import draw_near_elites, worse_than_best

SPACE = Space({name: Ordinal(list(range(12))) for name in "abcd"}, constraints=["a + b <= 18"])


def cost(config):
    return 10.0 + sum((value - 8) ** 2 for value in config.values())


def run(optimizer, n, noise, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial) * float(rng.lognormal(0.0, noise)))


# The test.


@given(st.integers(3, 8), st.integers(2, 7), st.integers(0, 10**6))
def test_friedmans_statistic_and_conovers_difference_are_the_textbooks(m, blocks, seed):
    rng = np.random.default_rng(seed)
    costs = np.round(rng.normal(size=(blocks, m)) + np.linspace(0, 2, m), 1)
    from scipy.stats import rankdata

    ranks = rankdata(costs, axis=1)
    sums = ranks.sum(axis=0)
    expected = np.zeros(m, dtype=bool)
    if friedmanchisquare(*costs.T).pvalue < 0.05:
        freedom = (blocks - 1) * (m - 1)
        quadratic = 2 * (blocks * (ranks**2).sum() - (sums**2).sum()) / freedom
        difference = student.ppf(0.975, freedom) * np.sqrt(max(0.0, quadratic))
        expected = sums - sums.min() > difference
    assert (worse_than_best(costs, 0.05) == expected).all()


def test_candidates_that_agree_in_every_block_are_distinguished_and_ties_are_not():
    agree = np.tile(np.arange(10.0), (2, 1))
    assert worse_than_best(agree, 0.05).tolist() == [False] + [True] * 9
    assert not worse_than_best(np.ones((5, 4)), 0.05).any()
    assert not worse_than_best(agree[:, :3], 0.05).any()  # two blocks of three prove nothing


# A race.


def test_every_survivor_is_evaluated_once_a_round_and_the_worse_ones_no_more():
    optimizer = Optimizer(SPACE, strategy=Search(Racing(), noise="repeat"), budget=300, seed=1)
    first = len(optimizer.state.strategy_state.candidates)
    run(optimizer, first, 0.001)
    assert len({tuple(t.values()) for t in optimizer.trials}) == first
    run(optimizer, first, 0.001)
    counts = Counter(tuple(t.values()) for t in optimizer.trials)
    assert set(counts.values()) == {2}
    state = (
        optimizer.state.strategy_state
    )  # the test has dropped all but the best, so the next race has begun
    assert state.number == 2
    best = sorted(counts, key=lambda values: cost(dict(zip("abcd", values, strict=True))))
    kept = [tuple(row) for row in state.candidates[: len(state.costs)] if tuple(row) in counts]
    assert kept[0] == best[0]
    assert all(len(costs) == 2 for costs in state.costs[: len(kept)])


def test_noise_that_hides_the_differences_needs_more_rounds():
    rounds = {}
    for noise in (0.001, 3.0):
        optimizer = Optimizer(SPACE, strategy=Search(Racing(), noise="repeat"), budget=300, seed=1)
        begun = optimizer.state.strategy_state.number
        highest = 0
        while optimizer.state.strategy_state.number == begun:
            run(optimizer, 1, noise, seed=len(optimizer.trials))
            highest = max(highest, optimizer.state.strategy_state.round)
        rounds[noise] = highest
    assert rounds[0.001] == 2
    assert rounds[3.0] > 2


def test_no_test_before_the_first_test():
    optimizer = Optimizer(
        SPACE, strategy=Search(Racing(first_test=4), noise="repeat"), budget=400, seed=1
    )
    first = len(optimizer.state.strategy_state.candidates)
    run(optimizer, 4 * first - 1, 0.001)
    assert optimizer.state.strategy_state.alive.all()
    run(optimizer, 1, 0.001)
    assert optimizer.state.strategy_state.number == 2


def test_without_noise_nothing_is_evaluated_twice_and_the_best_are_the_elites():
    optimizer = Optimizer(SPACE, strategy=Racing(), budget=60, seed=1)
    first = len(optimizer.state.strategy_state.candidates)
    assert first == 15  # a quarter of the budget, since four races are planned
    run(optimizer, first, 0.0)
    ranked = sorted(optimizer.trials, key=lambda trial: trial.value)
    elites = optimizer.state.strategy_state.candidates[:4]
    assert [tuple(row) for row in elites] == [tuple(t.values()) for t in ranked[:4]]
    run(optimizer, 45, 0.0)
    assert len({tuple(t.values()) for t in optimizer.trials}) == 60


def test_a_failed_candidate_is_out_of_the_race():
    optimizer = Optimizer(SPACE, strategy=Search(Racing(), noise="repeat"), budget=300, seed=1)
    failed = optimizer.suggest()
    optimizer.observe(failed, failed="compile")
    run(optimizer, 120, 0.1)
    assert sum(dict(t) == dict(failed) for t in optimizer.trials) == 1


def test_a_race_goes_on_without_an_outcome_that_does_not_come():
    optimizer = Optimizer(SPACE, strategy=Search(Racing(), noise="repeat"), budget=200, seed=1)
    lost = optimizer.suggest()
    run(optimizer, 120, 0.1)
    assert {t.tag["race"] for t in optimizer.trials if t.tag} == {1, 2, 3, 4}
    assert optimizer.pending == [lost]


def test_a_reported_point_that_is_not_a_candidate_joins_the_next_race():
    optimizer = Optimizer(SPACE, strategy=Racing(), budget=60, seed=1)
    optimizer.observe({"a": 8, "b": 8, "c": 8, "d": 8}, 10.0)
    run(optimizer, 15, 0.0)
    state = optimizer.state.strategy_state
    assert [8.0] * 4 in state.candidates.tolist()
    assert state.number == 2
    run(optimizer, len(state.missing), 0.0)
    assert optimizer.state.strategy_state.candidates[0].tolist() == [8.0] * 4


def test_the_best_of_a_noisy_bowl_is_evaluated_often():
    means = []
    for seed in range(3):
        optimizer = Optimizer(
            SPACE, strategy=Search(Racing(), noise="repeat"), budget=250, seed=seed
        )
        run(optimizer, 250, 0.1, seed)
        ((values, count),) = Counter(tuple(t.values()) for t in optimizer.trials).most_common(1)
        assert count >= 5
        means.append(cost(dict(zip("abcd", values, strict=True))))
    assert np.median(means) < 20  # of 10 to 266


# The draws.

MIXED = Space(
    {
        "x": Real(0.0, 1.0),
        "n": Ordinal(list(range(50))),
        "c": Categorical(["p", "q", "r", "s"]),
        "o": Permutation(["i", "j", "k"]),
    },
    constraints=["n < 40 or x < 0.5"],
)


def test_draws_are_feasible_and_near_their_elite():
    elites = MIXED.feasible.sample(2, np.random.default_rng(0))
    near = draw_near_elites(MIXED, elites[:1], 400, 0.02, 0.9, np.random.default_rng(1))
    wide = draw_near_elites(MIXED, elites[:1], 400, 0.5, 0.0, np.random.default_rng(1))
    assert MIXED.feasible.contains(near).all()
    assert MIXED.feasible.contains(wide).all()
    distance = [np.abs(rows[:, 1] - elites[0, 1]).mean() for rows in (near, wide)]
    assert distance[0] < 2 < distance[1]
    same = [(rows[:, 2] == elites[0, 2]).mean() for rows in (near, wide)]
    assert same[0] == pytest.approx(0.9 + 0.1 / 4, abs=0.06)
    assert same[1] == pytest.approx(1 / 4, abs=0.08)


def test_better_elites_have_more_draws():
    elites = np.array([[0.0] * 4, [11.0, 0.0, 0.0, 11.0]])
    rows = draw_near_elites(SPACE, elites, 1200, 0.01, 0.0, np.random.default_rng(1))
    assert (rows[:, 0] < 6).mean() == pytest.approx(2 / 3, abs=0.05)
