import numpy as np
import pytest

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.surrogates.gp.gaussian_process import load_gpytorch
from baco_like.surrogates.protocol import Data

load_gpytorch()  # without the warning of its dependencies, which would be an error here


@pytest.fixture(scope="session")
def mixed() -> Space:
    """Return a space with every kind of parameter, including a constant."""
    return Space(
        {
            "tile": Ordinal([1, 2, 4, 8, 16, 32], log=True),
            "unroll": Integer(1, 16),
            "eps": Real(1e-4, 1e-1, log=True),
            "flag": Categorical(["-O1", "-O2", "-O3"]),
            "order": Permutation(["i", "j", "k", "l"]),
            "device": ["gpu"],
        }
    )


@pytest.fixture(scope="session")
def make_data():
    """Return a function that makes data with a smooth dependence on all features."""

    def make(space, n, seed=0, noise=0.05, variance=None, censored=None):
        rng = np.random.default_rng(seed)
        codes = space.feasible.sample(n, rng)
        features = space.features(codes)
        y = np.sin(3.0 * features @ np.linspace(0.2, 1.0, features.shape[1]))
        y = y + noise * rng.standard_normal(n)
        return Data(
            codes,
            y,
            np.zeros(n) if variance is None else variance,
            np.zeros(n, dtype=bool) if censored is None else censored,
        )

    return make
