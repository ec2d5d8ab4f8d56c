import numpy as np
import pytest
from scipy import stats

from baco_like.surrogates.gp.prior import Flat, Gamma, LogNormal, Priors

PRIORS = [Gamma(3.0, 6.0), Gamma(1.1, 0.05), LogNormal(0.5, 1.3), Flat(0.1, 4.0)]
X = np.geomspace(1e-3, 30.0, 15)


@pytest.mark.parametrize(
    ("prior", "reference"),
    [
        (Gamma(3.0, 6.0), stats.gamma(3.0, scale=1 / 6.0)),
        (LogNormal(0.5, 1.3), stats.lognorm(1.3, scale=0.5)),
    ],
)
def test_density_equals_scipy(prior, reference):
    np.testing.assert_allclose(prior.log_density(X), reference.logpdf(X), rtol=1e-10)
    sample = prior.sample((2000,), np.random.default_rng(1))
    assert stats.kstest(sample, reference.cdf).pvalue > 0.01


@pytest.mark.parametrize("prior", PRIORS)
def test_gradient_equals_finite_differences_of_the_density(prior):
    step = 1e-6 * X
    difference = (prior.log_density(X + step) - prior.log_density(X - step)) / (2.0 * step)
    np.testing.assert_allclose(prior.gradient(X), difference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("noise", [Gamma(1.1, 10.0), LogNormal(0.1, 1.0)])
def test_the_joint_prior_applies_each_prior_to_its_numbers(noise):
    priors = Priors(Gamma(3.0, 6.0), Gamma(2.0, 0.5), noise)
    joint, each = priors.joint(2), [priors.lengthscale] * 2 + [priors.outputscale, noise]
    x = np.abs(np.random.default_rng(2).normal(size=(5, 4))) + 0.01
    columns = [prior.log_density(x[:, i]) for i, prior in enumerate(each)]
    np.testing.assert_allclose(joint.log_density(x), np.transpose(columns), rtol=1e-12)
    slopes = [prior.gradient(x[0, i]) for i, prior in enumerate(each)]
    np.testing.assert_allclose(joint.gradient(x[0]), slopes, rtol=1e-12)
    drawn = joint.sample((4000, 4), np.random.default_rng(3))
    means = [drawn[:, i].mean() for i in range(3)]
    np.testing.assert_allclose(means, [0.5, 0.5, 4.0], rtol=0.1)


def test_draws_of_a_flat_prior_lie_in_its_range():
    drawn = Flat(0.1, 4.0).sample((500,), np.random.default_rng(0))
    assert drawn.min() >= 0.1
    assert drawn.max() <= 4.0
