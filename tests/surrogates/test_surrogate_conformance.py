"""Conformance of the surrogates and feasibility surrogates on spaces of several kinds."""

import numpy as np
import pytest
from nightly import cover

from baco_like import Ordinal, Permutation, Real, Space
from baco_like.surrogates import MATERN32, GaussianProcess, GPyTorchGP, RandomForest, SparseEffects
from baco_like.surrogates.forest import ForestFeasibility
from baco_like.surrogates.ranking_ensemble import RankingEnsemble, Source
from baco_like.testing.acquisitions import ChosenModel
from baco_like.testing.surrogates import CHECKS, FEASIBILITY_CHECKS, make_data

SPACES = {
    "listed": Space(
        {"x": Ordinal([1, 2, 4, 8, 16], log=True), "flag": ["a", "b", "c"], "k": [3]},
        constraints=["x <= 8 or flag == 'a'"],
    ),
    "mixed": Space({"x": Real(0.0, 1.0), "n": list(range(9)), "p": Permutation(["i", "j", "k"])}),
    "one configuration": Space({"a": [1], "b": [2]}),
}


def ensemble(space):
    model = GaussianProcess().fit(space, make_data(space, 20, seed=9), np.random.default_rng(0))
    return RankingEnsemble(GaussianProcess(), (Source("other", model),))


SURROGATES = {
    "closed form": lambda space: GaussianProcess(),
    "constant mean": lambda space: GaussianProcess(kernel=MATERN32, mean="constant"),
    "fixed": lambda space: GaussianProcess(MATERN32, fixed=(1.5, 1.0, 1e-6)),
    "GPyTorch": lambda space: GPyTorchGP(device="cpu", starts=1, steps=10),
    "fixed in GPyTorch": lambda space: GaussianProcess(
        MATERN32, fixed=(1.5, 1.0, 1e-6)
    ).to_gpytorch("cpu"),
    "forest": lambda space: RandomForest(),
    "effects": lambda space: SparseEffects(),
    "related task": ensemble,
}


@pytest.mark.parametrize(("name", "kind", "check"), cover(SURROGATES, SPACES, CHECKS))
def test_conformance(name, kind, check):
    check(SURROGATES[name](SPACES[kind]), SPACES[kind])


@pytest.mark.parametrize("check", FEASIBILITY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_feasibility_conformance(check, space):
    check(ForestFeasibility(), space)


class IgnoresTheValues:
    def fit(self, space, data, rng, start=None):
        return ChosenModel(lambda c: rng.standard_normal(len(c)), lambda c: np.ones(len(c)))


def test_a_surrogate_that_ignores_the_values_fails():
    failed = set()
    for check in CHECKS:
        try:
            check(IgnoresTheValues(), SPACES["mixed"])
        except AssertionError:
            failed.add(check.__name__)
    assert failed == {
        "values_are_learned",
        "rows_are_independent",
        "joint_predictions_agree",
    }
