"""Random interleaving, and the preset `smac` that uses it."""

import pytest

from baco_like import Ordinal, Space
from baco_like.acquisitions.functions import LowerConfidenceBound
from baco_like.optimizer import Optimizer
from baco_like.strategies import RandomInterleaving, Torczon, create_strategy
from baco_like.surrogates.forest import RandomForest
from baco_like.surrogates.gp.gaussian_process import GaussianProcess

SPACE = Space({name: Ordinal(list(range(20))) for name in "ab"})


def phases(share, n=1):
    optimizer = Optimizer(SPACE, strategy=RandomInterleaving(Torczon(), share), seed=3)
    for _ in range(60 // n):
        for trial in optimizer.suggest(n):
            optimizer.observe(trial, 1.0 + trial["a"] + trial["b"] * 0.1)
    return [trial.tag["phase"] for trial in optimizer.trials]


@pytest.mark.parametrize("n", [1, 6])
def test_a_share_of_the_proposals_is_random(n):
    assert set(phases(0.0, n)) == {"torczon"}
    assert set(phases(1.0, n)) == {"random"}
    assert 6 <= phases(0.25, n).count("random") <= 24


def test_the_preset_is_a_gaussian_process_with_the_lower_bound():
    preset = create_strategy("smac", {}).then
    assert isinstance(preset.then.surrogate, GaussianProcess)
    assert preset.then.acquisition == LowerConfidenceBound(2.0)
    assert preset.share == 0.08
    assert isinstance(
        create_strategy("smac", {"surrogate": "forest"}).then.then.surrogate, RandomForest
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"surrogate": "tree"}, "surrogate 'tree' is unknown; choose one of gp, gpytorch, forest"),
        ({"acquisition": "pi"}, "acquisition 'pi' is unknown; did you mean 'poi'"),
        ({"random_share": 1.5}, "random_share is 1.5; give a probability from 0 to 1"),
        ({"design": "grid"}, "design 'grid' is unknown"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        create_strategy("smac", settings)
