"""The strategy `ehvi`: its reference point, and repeated outcomes."""

from itertools import pairwise

import numpy as np
import pytest

from baco_like import Categorical, Optimizer, Ordinal, Permutation, Space
from baco_like.strategies.bayesian import several_objectives
from baco_like.strategies.bayesian.repeats import fit_inert, log_new
from baco_like.strategies.bayesian.several_objectives import choose_reference


@pytest.mark.parametrize(("quantile", "expected"), [(0.5, [1.0, 1.5]), (0.9, [1.8, 1.9])])
def test_the_reference_point_stays_when_later_values_gather_at_one_point(
    quantile: float, expected: list[float]
) -> None:
    """It is far from the front, so that the other end of the front is searched too."""
    first = np.column_stack([np.linspace(0.0, 2.0, 10), np.linspace(2.0, 1.0, 10)])
    later = np.column_stack([np.zeros(50), np.linspace(0.5, 0.6, 50)])
    values = np.concatenate([first, later])
    reference = choose_reference(values, later[:1], first.T, quantile, 0.1)
    np.testing.assert_allclose(reference, expected)


def test_the_reference_point_is_beyond_the_whole_front():
    front = np.array([[0.0, 4.0], [1.0, 1.0], [5.0, 0.0]])
    np.testing.assert_allclose(choose_reference(front, front, front.T, 0.5, 0.1), [5.5, 4.4])
    np.testing.assert_allclose(choose_reference(front, front, front.T, 0.5, 1.0), [10.0, 8.0])


FLAGS = Space({f"f{i}": Categorical(["off", "on"]) for i in range(6)})
MIXED = Space(
    {"k": Ordinal([1, 2, 4]), "order": Permutation(list("abcd")), "f": Categorical([0, 1])}
)
TWO = {"time": "minimize", "size": "minimize"}


def program(config):
    """Return two metrics: f4 and f5 do nothing, and f3 does nothing without f0."""
    on = [config[f"f{i}"] == "on" for i in range(6)]
    third = on[3] and on[0]
    time = 5.0 - 2.0 * on[0] - on[1] + 0.7 * on[2] - 1.3 * third + 0.5 * (on[1] and on[2])
    return {"time": time, "size": 3.0 + 1.5 * on[0] + on[1] - on[2] + 0.4 * third}


def observed(space, count, outcome, seed=0):
    configs = space.sample(count, seed=seed)
    codes = space.encode(configs)
    return codes, np.array([list(outcome(config).values()) for config in configs])


def test_without_equal_outcomes_nothing_is_learned():
    codes = FLAGS.encode(FLAGS.sample(10, seed=1))
    costs = np.column_stack([np.arange(10.0), np.zeros(10)])
    assert fit_inert(FLAGS, codes, costs) is None


def test_the_probabilities_of_one_parameter_are_shares_of_pairs():
    """Four values in two classes: two of six pairs are equal, and one of five imaginary pairs is."""
    space = Space({"k": Ordinal([1, 2, 3, 4])})
    codes = space.encode([{"k": k} for k in (1, 2, 3, 4)])
    costs = np.array([[0.0, 1.0], [0.0, 1.0], [2.0, 0.0], [2.0, 0.0]])
    found = fit_inert(space, codes, costs)
    np.testing.assert_allclose(np.exp(found), [3.0 / 11.0], rtol=1e-3)


def test_the_probabilities_are_most_probable():
    codes, costs = observed(FLAGS, 40, program)
    first, second = np.triu_indices(len(codes), 1)
    differs = codes[first] != codes[second]
    equal = (costs[first] == costs[second]).all(axis=1)
    differs, equal = differs[differs.any(axis=1)], equal[differs.any(axis=1)]

    def density(log_inert):
        log_equal = (differs * log_inert).sum(axis=1)
        pairs = np.where(equal, log_equal, np.log(-np.expm1(log_equal))).sum()
        return pairs + log_inert.sum() + 4.0 * np.log(-np.expm1(log_inert)).sum()

    found = fit_inert(FLAGS, codes, costs)
    inert = np.exp(found)
    assert inert[[4, 5]].min() > 0.8, "flags that do nothing"
    assert inert[:3].max() < 0.2, "flags that act"
    assert inert[:3].max() < inert[3] < inert[[4, 5]].min(), "a flag that acts under another one"
    for step in 0.05 * np.vstack([np.eye(6), -np.eye(6)]):
        odds = found - np.log(-np.expm1(found)) + step
        assert density(-np.logaddexp(0.0, -odds)) < density(found)


def test_the_probability_of_a_new_outcome_counts_all_known_ones():
    rng = np.random.default_rng(3)
    codes = MIXED.feasible.sample(30, rng)
    known, candidates = codes[:20], codes[19:]
    inert = np.log([0.2, 0.5, 0.7])
    expected = np.zeros(len(candidates))
    for i, row in enumerate(candidates):
        for other in known:
            differs = [bool((row[c] != other[c]).any()) for c in MIXED.columns.values()]
            expected[i] += (
                np.log(1.0 - np.exp(np.dot(differs, inert))) if any(differs) else np.log(1e-9)
            )
    assert expected.min() < np.log(1e-8), "one candidate is known itself"
    np.testing.assert_allclose(log_new(MIXED, inert, known)(candidates), expected)


def run(evaluations, seed, storage=None):
    optimizer = Optimizer(FLAGS, TWO, strategy="ehvi", seed=seed, storage=storage)
    for _ in range(evaluations):
        trial = optimizer.suggest()
        optimizer.observe(trial, program(trial.config))
    return optimizer


def count_distinct(optimizer):
    return len({tuple(program(trial.config).values()) for trial in optimizer.trials})


def test_ehvi_finds_more_outcomes_than_without_the_probability(monkeypatch):
    found = [count_distinct(run(20, seed)) for seed in range(4)]
    monkeypatch.setattr(several_objectives, "fit_inert", lambda *_: None)
    monkeypatch.setattr(several_objectives, "_has_repeated", lambda _: False)
    without = [count_distinct(run(20, seed)) for seed in range(4)]
    assert np.mean(found) > np.mean(without) + 0.5


def test_a_forest_follows_a_repeated_outcome_and_keeps_the_hyperparameters():
    trials = run(24, 0).trials
    outcomes = [tuple(program(trial.config).values()) for trial in trials]
    repeated = 0
    for i, (before, trial) in enumerate(pairwise(trials), 1):
        if before.tag.get("phase") != "model" or trial.tag.get("phase") != "model":
            continue
        is_repeat = outcomes[i - 1] in outcomes[: i - 1]
        repeated += is_repeat
        kept = before.tag["hyperparameters"] == trial.tag["hyperparameters"]
        assert kept == is_repeat
        if is_repeat:
            assert trial.tag["fitted_at"] == [at + 1 for at in before.tag["fitted_at"]]
    assert repeated


def test_many_flags_are_told_apart_from_part_of_the_pairs():
    """Nearly every pair differs in other flags, so the fit leaves most kinds of pairs out."""
    space = Space({f"f{i}": Categorical([0, 1]) for i in range(80)})
    rng = np.random.default_rng(0)
    codes = np.repeat(space.feasible.sample(1, rng), 120, axis=0)
    for row in codes[1:]:
        changed = rng.choice(80, 3, replace=False)
        row[changed] = 1.0 - row[changed]
    costs = codes[:, :5] @ np.array([[1.0, 2.0], [2.0, 1.0], [4.0, 0.5], [8.0, 3.0], [16.0, 7.0]])
    inert = np.exp(fit_inert(space, codes, costs))
    assert inert[:5].max() < 0.5
    assert np.median(inert[5:]) > 0.8
