"""Optuna's own tests of samplers, for `BacoSampler`; `nox -s nightly` runs them.

With ``noise="repeat"`` a study continues when every configuration is known, as these tests expect.
"""

from functools import partial

import pytest
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase

from baco_like.integrations.optuna import BacoSampler


class TestBacoSampler(BasicSamplerTestCase, RelativeSamplerTestCase):
    """Optuna's tests with this package's sampler."""

    @pytest.fixture
    def sampler(self):
        """Return a function that creates a sampler."""
        return partial(
            BacoSampler, strategy="random_forest", settings={"initial": 3}, noise="repeat"
        )
