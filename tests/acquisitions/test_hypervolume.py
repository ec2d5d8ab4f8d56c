"""The expected gain of hypervolume, against BoTorch and the expected improvement of one objective."""

import numpy as np
import pytest

from baco_like.acquisitions.functions import log_ei
from baco_like.acquisitions.hypervolume import ends_of, log_ehvi
from baco_like.records.front import is_non_dominated, non_dominated_boxes


def _case(objectives, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30, objectives))
    front = points[is_non_dominated(points)]
    return front, rng.normal(size=(50, objectives)), rng.uniform(0.05, 1.5, (50, objectives)) ** 2


@pytest.mark.parametrize("objectives", [2, 3])
def test_it_agrees_with_botorch(objectives):
    pytest.importorskip("botorch", reason="BoTorch comes with the extra ax")
    import torch
    from botorch.acquisition.multi_objective.analytic import ExpectedHypervolumeImprovement
    from botorch.models.deterministic import GenericDeterministicModel
    from botorch.posteriors.gpytorch import GPyTorchPosterior
    from botorch.utils.multi_objective.box_decompositions import NondominatedPartitioning
    from gpytorch.distributions import MultitaskMultivariateNormal

    front, means, variances = _case(objectives, objectives)
    reference = front.max(axis=0) + 0.3

    class Normal(GenericDeterministicModel):
        """A model whose posterior has the given means and variances; BoTorch maximises, so the signs differ."""

        def posterior(self, X, **_):
            rows = X[..., 0, 0].long()
            mean = -torch.tensor(means)[rows][:, None, :]
            covariance = torch.diag_embed(torch.tensor(variances)[rows])
            return GPyTorchPosterior(MultitaskMultivariateNormal(mean, covariance))

    partitioning = NondominatedPartitioning(
        ref_point=-torch.tensor(reference), Y=-torch.tensor(front)
    )
    theirs = ExpectedHypervolumeImprovement(
        Normal(lambda X: X, num_outputs=objectives), (-reference).tolist(), partitioning
    )(torch.arange(50, dtype=torch.double)[:, None, None])
    ours = np.exp(log_ehvi(means, variances, ends_of(*non_dominated_boxes(front, reference))))
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-6, atol=1e-12)


def test_with_one_objective_it_is_expected_improvement():
    means, variances = np.linspace(-3.0, 40.0, 30)[:, None], np.full((30, 1), 0.4)
    boxes = ends_of(*non_dominated_boxes(np.array([[0.2]]), np.array([5.0])))
    ours = log_ehvi(means, variances, boxes)
    np.testing.assert_allclose(ours, log_ei(means[:, 0], variances[:, 0], 0.2), rtol=1e-9)


def test_it_has_a_slope_far_from_the_front():
    front = np.array([[0.0, 1.0], [1.0, 0.0]])
    boxes = ends_of(*non_dominated_boxes(front, np.array([2.0, 2.0])))
    means = np.linspace(50.0, 500.0, 10)[:, None] * np.ones((1, 2))
    scores = log_ehvi(means, np.full((10, 2), 1e-4), boxes)
    assert np.isfinite(scores).all()
    assert (np.diff(scores) < 0.0).all()


@pytest.mark.parametrize("objectives", [2, 3])
def test_the_sum_and_the_sum_of_logarithms_agree(objectives, monkeypatch):
    """Candidates from near the front to so far away that most terms underflow."""
    front, means, variances = _case(objectives, 7)
    boxes = ends_of(*non_dominated_boxes(front, front.max(axis=0) + 0.3))
    means = means + np.linspace(0.0, 12.0, len(means))[:, None]
    by_sum = log_ehvi(means, np.minimum(variances, 0.25), boxes)
    monkeypatch.setattr("baco_like.acquisitions.hypervolume._LEAST", np.inf)
    by_logarithms = log_ehvi(means, np.minimum(variances, 0.25), boxes)
    np.testing.assert_allclose(by_sum, by_logarithms, rtol=1e-9, atol=1e-9)
    assert by_logarithms.min() < -1000.0


def test_an_unknown_mean_concerns_its_candidate_only():
    boxes = ends_of(*non_dominated_boxes(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([2.0, 2.0])))
    means = np.array([[0.5, 0.5], [np.nan, 0.5], [50.0, 50.0]])
    with np.errstate(invalid="ignore"):
        scores = log_ehvi(means, np.full((3, 2), 1e-2), boxes)
    assert np.isnan(scores).tolist() == [False, True, False]
