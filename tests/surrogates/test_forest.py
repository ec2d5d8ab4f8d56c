import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeRegressor

from baco_like import Integer, Space
from baco_like.surrogates.forest import (
    ForestFeasibility,
    Growth,
    RandomForest,
    grow_trees,
    predict_by_tree,
    refit_point,
)
from baco_like.surrogates.protocol import Data

SPACE = Space({"a": Integer(0, 40), "b": Integer(0, 40)})


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture(scope="module")
def labelled():
    codes = SPACE.feasible.sample(120, rng(1))
    return codes, codes[:, 0] + codes[:, 1] > 25.0


def plain(codes, y):
    return Data(codes, y, np.zeros(len(y)), np.zeros(len(y), dtype=bool))


def test_leaves_equal_the_predictions_of_scikit_learn():
    features = rng(1).random((60, 4))
    y = rng(2).standard_normal(60)
    growth = Growth(trees=7, max_features=0.5, min_samples_leaf=2, bootstrap=False)
    trees = grow_trees(features, y, growth, rng(3))
    unseen = rng(4).random((200, 4))
    found = predict_by_tree(trees, [tree.value[:, 0, 0] for tree in trees], unseen)
    chance = np.random.RandomState(rng(3).integers(2**31))
    for i in range(7):
        reference = DecisionTreeRegressor(
            max_features=0.5, min_samples_leaf=2, random_state=chance
        ).fit(features.astype(np.float32), y)
        np.testing.assert_allclose(found[i], reference.predict(unseen), rtol=1e-12)


def test_an_unsmoothed_forest_equals_the_classifier_of_scikit_learn(labelled):
    codes, feasible = labelled
    growth = Growth(trees=200, max_features=1.0, bootstrap=True)
    model = ForestFeasibility(growth, smoothing=1e-9, every=1).fit(SPACE, codes, feasible, 3)
    reference = RandomForestClassifier(200, max_features=1.0, random_state=1)
    reference.fit(SPACE.features(codes), feasible)
    candidates = SPACE.feasible.sample(300, rng(5))
    expected = reference.predict_proba(SPACE.features(candidates))[:, 1]
    # The same distribution of trees, other draws.
    assert np.abs(model.probability(candidates) - expected).mean() < 0.03


def test_variance_is_the_total_variance():
    codes = SPACE.feasible.sample(50, rng(1))
    y = np.sin(codes[:, 0] / 5.0)
    model = RandomForest(Growth(trees=9, min_samples_leaf=4)).fit(SPACE, plain(codes, y), rng(2))
    candidates = SPACE.feasible.sample(20, rng(3))
    mean, variance = model.predict(candidates)
    rows = SPACE.features(candidates).astype(np.float32)
    leaves = [tree.apply(rows) for tree in model.trees]
    means = np.array([t.value[leaf, 0, 0] for t, leaf in zip(model.trees, leaves, strict=True)])
    squares = (
        np.array([t.impurity[leaf] for t, leaf in zip(model.trees, leaves, strict=True)]) + means**2
    )
    np.testing.assert_allclose(mean, means.mean(0))
    np.testing.assert_allclose(variance, squares.mean(0) - means.mean(0) ** 2, atol=1e-6)
    assert model.hyperparameters == {}


def test_a_space_of_constants_has_a_forest():
    space = Space({"a": [1]})
    codes = space.feasible.sample(3, rng())
    model = RandomForest().fit(space, plain(codes, np.array([1.0, 2.0, 3.0])), rng())
    assert np.ptp(model.predict(codes)[0]) == 0.0


def test_feasibility_is_learned(labelled):
    codes, feasible = labelled
    model = ForestFeasibility().fit(SPACE, codes, feasible, 0)
    unseen = SPACE.feasible.sample(500, rng(9))
    probability = model.probability(unseen)
    truth = unseen[:, 0] + unseen[:, 1] > 25.0
    assert np.all((probability > 0.0) & (probability < 1.0))
    assert np.mean((probability > 0.5) == truth) > 0.9


def test_one_failure_or_success_does_not_decide_its_neighbourhood():
    codes = np.column_stack([np.arange(11.0) * 4.0, np.zeros(11)])
    one_failure = np.ones(11, dtype=bool)
    one_failure[5] = False
    at = ForestFeasibility().fit(SPACE, codes, one_failure, 0).probability(codes)
    assert 0.3 < at[5] < 0.95
    assert np.argmin(at) == 5
    one_success = ~one_failure
    at = ForestFeasibility().fit(SPACE, codes, one_success, 0).probability(codes)
    assert 0.05 < at[5] < 0.7
    assert np.argmax(at) == 5


def test_the_model_depends_only_on_seed_and_history(labelled):
    codes, feasible = labelled
    candidates = SPACE.feasible.sample(50, rng(2))
    recipe = ForestFeasibility()
    first = recipe.fit(SPACE, codes, feasible, 7).probability(candidates)
    for seed in range(12):  # push the first forest out of the cache
        recipe.fit(SPACE, codes, feasible, seed + 100)
    np.testing.assert_array_equal(
        recipe.fit(SPACE, codes, feasible, 7).probability(candidates), first
    )
    assert np.any(recipe.fit(SPACE, codes, feasible, 8).probability(candidates) != first)


def test_the_model_is_refitted_only_at_refit_points(labelled):
    codes, _ = labelled
    candidates = SPACE.feasible.sample(50, rng(2))
    recipe = ForestFeasibility(every=5)
    feasible = np.ones(20, dtype=bool)
    feasible[[3, 9]] = False
    probabilities = {
        n: recipe.fit(SPACE, codes[:n], feasible[:n], 1).probability(candidates).tobytes()
        for n in range(10, 21)
    }
    assert [n for n in range(11, 21) if probabilities[n] != probabilities[n - 1]] == [15, 20]


@pytest.mark.parametrize(
    ("text", "every", "expected"),
    [
        ("", 5, 0),
        ("++++", 5, 4),
        ("---", 5, 3),
        ("++-", 5, 3),
        ("++-++++", 5, 3),
        ("++-+++++", 5, 8),
        ("++-+++++++++", 5, 8),
        ("--+", 5, 3),
        ("--++", 5, 3),
        ("--+++++", 5, 7),
        ("-+-+", 1, 4),
    ],
)
def test_refit_points(text, every, expected):
    feasible = np.array([c == "+" for c in text], dtype=bool)
    assert refit_point(feasible, every) == expected


def test_rows_added_to_the_leaves_move_the_probability(labelled):
    codes, feasible = labelled
    model = ForestFeasibility().fit(SPACE, codes, feasible, 3)
    at = codes[:1]
    failed = model.add_rows(np.repeat(at, 3, axis=0), np.zeros(3, dtype=bool))
    assert failed.probability(at)[0] < model.probability(at)[0]
    in_turn = model
    for _ in range(3):
        in_turn = in_turn.add_rows(at, np.zeros(1, dtype=bool))
    everywhere = SPACE.feasible.sample(50, rng(5))
    np.testing.assert_allclose(in_turn.probability(everywhere), failed.probability(everywhere))
    assert model.add_rows(codes[:0], feasible[:0]) is model


def test_the_trees_are_grown_from_a_limited_number_of_rows():
    codes = SPACE.feasible.sample(60, rng(1))
    labels = np.arange(60) % 2 == 0
    model = ForestFeasibility(Growth(most_rows=7)).fit(SPACE, codes, labels, 0)
    assert {int(tree.weighted_n_node_samples[0]) for tree in model.trees} == {7}
