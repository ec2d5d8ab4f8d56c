"""Bayesian optimization beyond the conformance suite: search, random interleaving, a uniform draw after a stall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from baco_like import Categorical, Integer, Optimizer, Ordinal, Permutation, Real, Search, Space
from baco_like.acquisitions.functions import LowerConfidenceBound
from baco_like.records import Proposal
from baco_like.records.history import History
from baco_like.strategies import RandomAfterStall, RandomInterleaving, Torczon, create_strategy
from baco_like.strategies.baselines import RandomSearch
from baco_like.strategies.bayesian.bayesian import Bayesian, BayesianState
from baco_like.strategies.protocol import Problem
from baco_like.surrogates.forest import RandomForest
from baco_like.surrogates.gp.gaussian_process import GaussianProcess

MIXED = Space(
    {
        "eps": Real(1e-6, 1e-1, log=True),
        "unroll": Integer(1, 32, log=True),
        "tile": Ordinal([8, 16, 32, 64, 128, 256], log=True),
        "flags": Categorical(["-O1", "-O2", "-O3", "-Ofast"]),
        "loops": Permutation(["i", "j", "k", "l"]),
    },
    constraints=["tile % unroll == 0", "pos(loops, 'k') > pos(loops, 'i')"],
)


def hidden_failure(config):
    """Return whether a configuration fails for a reason that no constraint tells; about 30 % do."""
    too_much = config["tile"] * config["unroll"] > 768
    return too_much or (config["flags"] == "-Ofast" and config["loops"][0] == "l")


def mixed_cost(config):
    order = sum(abs(config["loops"].index(x) - i) for i, x in enumerate("iljk"))
    return 1 + (np.log2(config["tile"]) - 6) ** 2 + order + abs(np.log10(config["eps"]) + 3) / 3


def test_many_observations_with_thirty_percent_hidden_failures():
    share = np.mean([hidden_failure(c) for c in MIXED.sample(4000, seed=1)])
    assert 0.25 < share < 0.35
    opt = Optimizer(MIXED, seed=2)
    seen = set()

    def observe(trial):
        if hidden_failure(trial):
            opt.observe(trial, failed="runtime")
        else:
            opt.observe(trial, mixed_cost(trial))

    def suggest(number):
        for _ in range(number):
            trial = opt.suggest()
            assert MIXED.contains(trial.config)
            assert tuple(trial.values()) not in seen
            seen.add(tuple(trial.values()))
            observe(trial)
        return [t.failure is not None for t in opt.trials[-number:]]

    # They are learnt: uniform draws would fail as often as `share`.
    assert np.mean(suggest(40)[10:]) < share
    assert opt.best_value < 1.2
    for config in MIXED.sample(110, seed=3):  # the next suggestions are slower
        seen.add(tuple(config.values()))
        observe(config)
    assert np.mean(suggest(10)) < share


ORDERS = Space({"p": Permutation(["a", "b", "c", "d", "e"])})


def order_cost(config):
    """Return a cost with one optimum, (d, a, c, e, b), and neighbours that are not all better than their own."""
    position = [config["p"].index(x) for x in "abcde"]
    moves = sum((i - j) ** 2 for i, j in zip(position, [1, 4, 2, 0, 3], strict=True))
    return 1 + moves + 3 * (position[2] == 4)


def evaluations_to_optimum(strategy, seed):
    opt = Optimizer(ORDERS, seed=seed, strategy=strategy)
    for n in range(1, 121):
        trial = opt.suggest()
        if order_cost(trial) == 1:
            return n
        opt.observe(trial, order_cost(trial))
    raise AssertionError("the optimum was not among all configurations")


def test_the_model_finds_the_best_permutation_before_random_search():
    model = [evaluations_to_optimum("bayesian", seed) for seed in range(20)]
    chance = [evaluations_to_optimum("random_search", seed) for seed in range(20)]
    assert mannwhitneyu(model, chance, alternative="less").pvalue < 0.01


def test_a_batch_spreads_out():
    space = Space({"x": Real(0.0, 1.0), "y": Real(0.0, 1.0)})
    opt = Optimizer(space, seed=1, strategy=Search(initial=6))
    for _ in range(10):
        trial = opt.suggest()
        opt.observe(trial, (trial["x"] - 0.4) ** 2 + (trial["y"] - 0.6) ** 2 + 0.1)
    rows = space.encode([t.config for t in opt.suggest(6)])
    gaps = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1))[np.triu_indices(6, 1)]
    assert gaps.min() > 1e-3


def test_a_censored_value_is_learnt_as_slow_but_feasible():
    space = Space({"x": Ordinal(list(range(30)))})
    opt = Optimizer(space, seed=1, strategy=Search(initial=5))
    for _ in range(12):
        trial = opt.suggest()
        if trial["x"] > 20:
            opt.observe(trial, failed="timeout", bound=50.0)
        else:
            opt.observe(trial, 5.0 + trial["x"])
    assert any(t.bound for t in opt.trials)
    mean, _, feasible = opt.predict([{"x": 0}, {"x": 29}])
    assert mean[1] > 2 * mean[0]
    assert (feasible > 0.5).all()
    assert opt.best_value == 5.0


def test_an_empty_history_asks_for_exploration():
    problem = Problem(MIXED)
    proposals = Bayesian().ask(
        problem, History.start(MIXED), BayesianState(1), 3, np.random.default_rng(0)
    )
    assert [p.tag for p in proposals] == [{"phase": "explore"}] * 3


def test_a_prior_on_values_draws_the_first_proposals_and_fades():
    weights = [0.98] + [0.02 / 59] * 59
    believing = Space({"x": Ordinal(list(range(60)), prior=weights)})
    plain = Space({"x": Ordinal(list(range(60)))})

    def proposed(space, n):
        opt = Optimizer(space, seed=2, strategy=Search(settings={"initial": 3}))
        for config in ({"x": 20}, {"x": 40}, {"x": 59}):
            opt.observe(config, 10.0 + (config["x"] - 35) ** 2 / 100)
        for _ in range(n):
            trial = opt.suggest()
            opt.observe(trial, 10.0 + (trial["x"] - 35) ** 2 / 100)
        return [t["x"] for t in opt.trials[3:]], opt.best_config

    assert proposed(believing, 1)[0] == [0]
    assert proposed(plain, 1)[0] != [0]
    assert proposed(believing, 20)[1] == {"x": 35}


def test_an_unknown_design():
    with pytest.raises(ValueError, match="latin_hypercube"):
        Optimizer(MIXED, strategy=Search(settings={"design": "lhs"}))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("bound", [-1e6, -20.0, -1.0, 0.0, 0.01, 1.0, 20.0, 6e4])
def test_no_bound_makes_the_model_a_cliff(sign, bound):
    """Values of one sign are modelled by their logarithms, where a bound of 0 is infinitely far."""
    space = Space({"x": Ordinal(list(range(30)))})
    opt = Optimizer(space, seed=1)
    for x in range(0, 28, 3):
        opt.observe({"x": x}, (5.0 + x) if sign > 0 else -1.0 * (40.0 - x))
    opt.observe({"x": 29}, failed="timeout", bound=bound)
    told = {t["x"]: t.value for t in opt.trials if t.value is not None}
    mean, std, _ = opt.predict([{"x": x} for x in told])
    np.testing.assert_allclose(mean, list(told.values()), rtol=0.2)
    assert (std < 5.0).all()


def test_the_recommended_trial_of_a_rate_is_that_of_the_time():
    """The mean of a log-normal belief grows with its spread, for times away from the best and for rates towards it."""
    space = Space({"x": Ordinal(list(range(30)))})
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = rng.integers(0, 30, size=12)
        logs = 0.1 * points + rng.normal(scale=1.5, size=12)
        chosen = []
        for direction, sign in (("minimize", 1.0), ("maximize", -1.0)):
            opt = Optimizer(space, direction, seed=1, strategy=Search(noise="repeat"))
            for x, log in zip(points.tolist(), logs.tolist(), strict=True):
                opt.observe({"x": x}, float(np.exp(sign * log)))
            chosen.append(opt.recommend().config)
        assert chosen[0] == chosen[1]


# ---- Random interleaving, and the preset `smac` that uses it ----


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
        ({"random_share": 1.5}, "random_share = 1.5: expected a number of at least 0"),
        ({"design": "grid"}, "design 'grid' is unknown"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        create_strategy("smac", settings)


# ---- The uniform draw after suggestions that did not bring the gain that their model expected ----


@dataclass(frozen=True)
class Promising(RandomSearch):
    """Draws uniformly, and always expects half a gain."""

    p_gain: float = 0.5

    def ask(self, problem, history, state, n, rng) -> Sequence[Proposal]:
        drawn = super().ask(problem, history, state, n, rng)
        return [Proposal(p.code, {"phase": "model", "p_gain": self.p_gain}) for p in drawn]


def phases_of(values, p_gain=0.5, direction="minimize"):
    """Return the phase of each trial of a run; None is a failure."""
    strategy = RandomAfterStall(Promising(p_gain), expected=2.0)
    optimizer = Optimizer(SPACE, direction, strategy=strategy, seed=2)
    for value in values:
        trial = optimizer.suggest()
        if value is None:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, value)
    return [trial.tag["phase"] for trial in optimizer.trials]


def test_a_draw_follows_when_the_expected_gains_do_not_come() -> None:
    # The first value is the last gain. Then four suggestions expect two gains, and a draw follows, again and again.
    found = phases_of([1.0] * 15)
    assert found == ["model"] * 5 + ["restart"] + ["model"] * 4 + ["restart"] + ["model"] * 4


def test_a_gain_starts_the_count_again() -> None:
    assert phases_of([1.0] * 4 + [0.9] * 6) == ["model"] * 9 + ["restart"]


def test_failures_count() -> None:
    assert phases_of([1.0, None, None, None, None, None]) == ["model"] * 5 + ["restart"]


def test_without_a_success_there_is_no_draw() -> None:
    assert set(phases_of([None] * 8)) == {"model"}


def test_the_best_is_the_largest_value_where_values_are_maximised() -> None:
    rising = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    assert set(phases_of(rising, direction="maximize")) == {"model"}
    assert "restart" in phases_of(rising)


def test_a_batch_holds_one_draw_and_a_pending_draw_is_not_repeated() -> None:
    strategy = RandomAfterStall(Promising(), expected=2.0)
    optimizer = Optimizer(SPACE, strategy=strategy, seed=2)
    optimizer.observe(list(optimizer.suggest(5)), [1.0] * 5)
    batch = optimizer.suggest(3)
    assert [trial.tag["phase"] for trial in batch] == ["restart", "model", "model"]
    assert optimizer.suggest().tag["phase"] == "model"
    assert "expected 2.0 gains" in batch[0].tag["note"]


def test_a_model_says_in_its_tags_how_probable_a_gain_is() -> None:
    """Values are modelled by their logarithm, so the prediction is a lognormal distribution with known moments."""
    optimizer = Optimizer(SPACE, seed=1)
    compared = 0
    for _ in range(25):
        trial = optimizer.suggest()
        if trial.tag["phase"] == "model":
            variance = math.log1p((trial.tag["std"] / trial.tag["mean"]) ** 2)
            centre = math.log(trial.tag["mean"]) - variance / 2
            z = (math.log(optimizer.best.value) - centre) / math.sqrt(variance)
            assert trial.tag["p_gain"] == pytest.approx(NormalDist().cdf(z), abs=1e-6)
            compared += 1
        optimizer.observe(trial, math.exp(0.1 * ((trial["a"] - 13) ** 2 + trial["b"]) ** 0.5))
    assert compared > 10


def test_a_number_of_gains_that_is_not_positive_is_refused() -> None:
    with pytest.raises(ValueError, match="expected = 0"):
        RandomAfterStall(Promising(), expected=0.0)
