"""The numbers of the package autotuning-methodology, on a recorded space with and one without failures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from baco_like.benchmarking import score as sc
from baco_like.evaluators.replay import load

RECORDED = Path(__file__).parents[2] / "benchmarks" / "recorded"
STAGES = ["compilation", "benchmark", "validation"]


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    """Import the package for the first test: it takes a second, which each worker would spend to collect the tests."""
    global methodology, StochasticOptimizationAlgorithm, SearchspaceStatistics
    methodology = pytest.importorskip("autotuning_methodology.report_experiments")
    from autotuning_methodology.curves import StochasticOptimizationAlgorithm
    from autotuning_methodology.searchspace_statistics import SearchspaceStatistics


def runs(name: str, count: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Return costs and seconds of runs that prefer the better half more and more."""
    rng = np.random.default_rng(7)
    entries = list(load(RECORDED / f"{name}.json.gz").entries.values())
    costs = np.array([np.nan if e.value is None else e.value for e in entries])
    seconds = np.array([sum(e.seconds.values()) for e in entries])
    good = np.argsort(costs)
    drawn = (rng.beta(1, np.linspace(1, 3, length), (count, length)) * len(good)).astype(int)
    return costs[good[drawn]], seconds[good[drawn]]


def as_they_have_it(costs: np.ndarray, seconds: np.ndarray, best: np.ndarray) -> SimpleNamespace:
    count, length = costs.shape
    numbers = np.tile(np.arange(1.0, length + 1)[:, None], (1, count))
    results = SimpleNamespace(
        fevals_results=numbers,
        objective_time_results=np.cumsum(seconds, axis=1).T,
        objective_time_results_per_key=np.cumsum(seconds, axis=1).T[None],
        objective_performance_best_results=best.T,
        objective_performance_results_per_key=costs.T[None],
    )
    return SimpleNamespace(
        group_name="mine",
        group_display_name="mine",
        device_name="cpu",
        application_name="kernel",
        stochastic=True,
        minimization=True,
        get_results=lambda: results,
    )


def on_all_points(self: Any, x: Any, y: Any, at: Any, **_: Any) -> np.ndarray:
    """The isotonic regression that their bagging repeats on random subsamples, on all points."""
    middle = self.get_isotonic_curve(x, y, at, ymin=y.min(), ymax=y.max())
    return np.stack([middle, middle, middle], axis=1)


@pytest.fixture(
    scope="module", params=[("hidden", 220), ("loop_nest", 220), ("loop_nest", 8)], ids=str
)
def compared(packages, request, tmp_path_factory):
    name, length = request.param
    tmp_path = tmp_path_factory.mktemp(name)
    path = RECORDED / f"{name}.json.gz"
    plain = tmp_path / "table.json"
    document = json.loads(gzip.decompress(path.read_bytes()))
    document["results"].sort(
        key=lambda row: row["invalidity"] != "correct"
    )  # the methodology's package needs a success first
    plain.write_text(json.dumps(document))
    theirs = SearchspaceStatistics("kernel", "cpu", True, STAGES, ["time"], plain, False)
    costs, seconds = runs(name, count=25, length=length)
    curves = sc.best_so_far(costs.tolist())
    described = as_they_have_it(costs, seconds, curves)
    data = methodology.get_aggregation_data(
        tmp_path,
        {"experimental_groups_defaults": {"gpus": ["cpu"], "applications_names": ["kernel"]}},
        {"cpu": {"kernel": theirs}},
        [{"name": "mine", "display_name": "mine"}],
        {"cpu": {"kernel": {"mine": described}}},
        cutoff_percentile=sc.CUTOFF,
    )
    ours = sc.Baseline.from_recorded(load(path))
    return ours, curves, np.cumsum(seconds, axis=1), data, theirs


def test_budgets_agree(compared):
    ours, _, _, _, theirs = compared
    start, stop, first, last = theirs.cutoff_point_fevals_time_start_end(sc.START, sc.CUTOFF)
    assert ours.evaluations() == (start, stop)
    assert ours.time_range() == pytest.approx((first, last), rel=1e-9)
    for cutoff in np.linspace(0.02, 0.99, 12):
        assert sc.budget(ours.costs, cutoff) == theirs.cutoff_point(cutoff)[1]


@pytest.mark.filterwarnings("ignore::UserWarning")  # the package's values for runs that end early
def test_scores_over_evaluations_agree(compared):
    ours, curves, _, data, _ = compared
    ((their_baseline, (their_curve,), stats, _, numbers),) = data.values()
    dist = stats.objective_performances_total_sorted
    _, _, costs, *_ = their_curve.get_curve_over_fevals(numbers, dist, return_split=False)
    mine = sc.score(curves, ours)
    their_scores = their_baseline.get_standardised_curve(numbers, costs, "fevals")
    assert (
        np.abs(ours.at_evaluations(numbers) - their_baseline.get_curve(numbers, "fevals")).max()
        < 1e-9
    )
    assert np.abs(mine.scores - their_scores).max() < 1e-6
    assert mine.mean == pytest.approx(their_scores.mean(), abs=1e-6)


def test_scores_over_time_agree(compared, monkeypatch):
    ours, curves, seconds, data, _ = compared
    monkeypatch.setattr(
        StochasticOptimizationAlgorithm, "_get_prediction_interval_bagging", on_all_points
    )
    (theirs,), *_ = methodology.get_strategies_aggregated_performance(list(data.values()), 0.95)
    mine = sc.score_over_time(curves, seconds, ours)
    assert np.abs(mine.scores - theirs).max() < 1e-6
    assert sc.aggregate([mine]) == pytest.approx(theirs.mean(), abs=1e-6)


def test_over_time_random_subsamples_scatter_around_our_score(compared):
    ours, curves, seconds, data, _ = compared
    np.random.seed(0)  # noqa: NPY002  (their bagging draws from the global state)
    (theirs,), *_ = methodology.get_strategies_aggregated_performance(list(data.values()), 0.95)
    assert sc.score_over_time(curves, seconds, ours).mean == pytest.approx(theirs.mean(), abs=0.1)
