"""Bayesian optimization that knows related tasks."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from informed import Informed

from baco_like import (
    Categorical,
    Infeasible,
    Integer,
    MaxEvals,
    Optimizer,
    Permutation,
    Real,
    Search,
    Sharing,
    Space,
    TrialError,
    WarmStart,
    tune,
)
from baco_like.records import Objective
from baco_like.running.findings import Findings
from baco_like.running.sentences import format_summary
from baco_like.strategies.auto import Auto
from baco_like.strategies.multi_task.scores import set_gain
from baco_like.strategies.multi_task.strategy import propose_for_target
from baco_like.strategies.protocol import RelatedTask
from baco_like.testing.strategies import (
    batches_in_any_order,
    ends_when_exhausted,
    only_failures,
    resume_is_continue,
)

SPACE = Space(
    {"a": [1, 2, 4, 8, 16, 32, 64], "b": Integer(1, 12), "c": [True, False]},
    constraints=["a * b <= 256"],
)


def cost(config):
    step = 0.0 if config["c"] else 0.5
    return math.exp(0.4 * (math.log2(config["a"]) - 4) ** 2 + 0.05 * (config["b"] - 7) ** 2 + step)


def known(of, n=40):
    return [(config, of(config)) for config in SPACE.sample(n, seed=2)]


def reached(warm_start, evaluations, seed, fn=cost, **options):
    result = tune(
        fn,
        SPACE,
        stop=MaxEvals(evaluations),
        seed=seed,
        warm_start=warm_start,
        progress=False,
        **options,
    )
    return result.best_value


def test_a_related_task_is_worth_evaluations():
    """Here the other task has its optimum nearby, and values a thousand times as large."""

    def elsewhere(config):
        return 1000.0 * cost({**config, "b": config["b"] + 1})

    prior = WarmStart(known(elsewhere), "prior")
    seeds = range(2)
    with_it = [reached(prior, 6, seed) for seed in seeds]
    without = [reached(None, 6, seed) for seed in seeds]
    assert np.mean(np.log(with_it)) < np.mean(np.log(without))
    assert max(with_it) < 1.3


def test_a_task_in_reversed_order_costs_little():
    prior = WarmStart(known(lambda config: 1.0 / cost(config)), "prior")
    assert reached(prior, 25, 0) < 1.3


@pytest.mark.parametrize("strategy", ["auto", "bayesian", "smac"])
def test_strategies_with_a_gaussian_process_take_it(strategy):
    optimizer = Optimizer(
        SPACE, strategy=Search(strategy, initial=1), warm_start=WarmStart(known(cost), "prior")
    )
    for _ in range(5):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial))
    phases = [optimizer.why(trial).get("phase") for trial in optimizer.trials]
    assert "sources" in phases
    assert optimizer.best_value < 2.0


def test_maximising_takes_the_highest_of_the_source():
    prior = WarmStart(known(lambda config: -cost(config)), "prior")
    assert reached(prior, 5, 0, lambda config: -cost(config), aim="maximize") > -2.0


@pytest.mark.parametrize(("name", "value"), [("c", True), ("a", 16)])
def test_failures_of_the_source_are_avoided_first(name, value):
    """Nothing ran with that ``c``; on either side of that ``a`` much did, and promises most just where it failed."""

    def elsewhere(config):
        return None if config[name] == value else cost(config)

    def here(config):
        if config[name] == value:
            raise Infeasible("as elsewhere")
        return cost(config)

    prior = WarmStart(known(elsewhere), "prior")
    for seed in range(8):
        result = tune(here, SPACE, stop=MaxEvals(4), seed=seed, warm_start=prior, progress=False)
        told = [trial[name] for trial in result.trials if trial.tag.get("phase") == "sources"]
        assert told
        assert value not in told


def test_first_points_avoid_failures_of_this_task():
    """The sources' best all fail; before two successes nothing else is known."""

    def here(config):
        if config["a"] == 16:
            raise Infeasible("not on this device")
        return cost(config)

    prior = WarmStart(known(cost), "prior")
    result = tune(here, SPACE, stop=MaxEvals(14), warm_start=prior, progress=False)
    assert sum(trial.failure is None for trial in result.trials) >= 6


def test_batches_are_distinct_and_predictions_are_the_users():
    optimizer = Optimizer(SPACE, warm_start=WarmStart(known(cost), "prior"))
    with pytest.raises(TrialError, match="needs 2 successful"):
        optimizer.predict([SPACE.sample(1)[0]])
    first = optimizer.suggest(5)
    optimizer.observe(first, [cost(trial) for trial in first])
    second = optimizer.suggest(5)
    assert len({tuple(trial.config.values()) for trial in [*first, *second]}) == 10
    mean, std, feasible = optimizer.predict([trial.config for trial in second])
    assert np.abs(np.log(mean / [cost(trial) for trial in second])).mean() < 0.7
    assert (std > 0.0).all()
    assert feasible == pytest.approx(1.0)


def test_the_weights_are_in_the_journal_and_names_stay_apart():
    sources = [WarmStart(known(cost), "prior"), WarmStart(known(lambda c: 1 / cost(c)), "prior")]
    optimizer = Optimizer(SPACE, warm_start=sources)
    for _ in range(6):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial))
    noted = [optimizer.why(trial).get("weights", {}) for trial in optimizer.trials]
    assert {"list", "this run"} & set().union(*noted)
    assert set().union(*noted) <= {"list", "list (2)", "this run"}


def test_a_prior_without_weight_is_said():
    optimizer = Optimizer(SPACE, warm_start=WarmStart(known(lambda c: 1 / cost(c)), "prior"))
    for _ in range(8):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial))
    assert optimizer.why(optimizer.trials[-1])["weights"] == {"list": 0.0, "this run": 1.0}
    summary = Findings(optimizer.history, Objective())
    assert summary.prior_weights == {"list": 0.0}
    assert "The prior list has no weight: " in format_summary(summary)
    helpful = Optimizer(SPACE, warm_start=WarmStart(known(cost), "prior"))
    for _ in range(4):
        trial = helpful.suggest()
        helpful.observe(trial, cost(trial))
    assert "no weight" not in format_summary(Findings(helpful.history, Objective()))


ALL_KINDS = Space(
    {
        "x": Real(1e-3, 1.0, log=True),
        "n": Integer(1, 40),
        "c": Categorical(["p", "q", "r"]),
        "o": Permutation(["i", "j", "k"]),
    },
    constraints=["n % 2 == 0 or pos(o, 'i') == 0"],
)
SMALL = Space({"a": [1, 2, 3, 4], "f": [True, False], "one": [7]}, constraints=["f or a > 1"])


@pytest.mark.parametrize(
    ("check", "space"),
    [
        (batches_in_any_order, SMALL),
        (resume_is_continue, ALL_KINDS),
        (resume_is_continue, SMALL),
        (only_failures, SMALL),
        (ends_when_exhausted, SMALL),
    ],
)
def test_it_is_a_strategy(check, space):
    codes = space.feasible.sample(15, np.random.default_rng(0))
    values = np.exp(codes[:, 0])
    values[3] = np.nan
    check(Informed(Auto(), (RelatedTask("other", codes, values),)), space)


def test_known_results_of_another_task_give_the_proposals_of_a_prior():
    """`WarmStart(..., task=...)` with one tuned task and ``prior`` are one mechanism, bit for bit."""
    known = [
        ({"a": a, "b": b}, 1.0 + abs(a - 2) + 0.3 * b) for a in range(0, 6, 2) for b in range(4)
    ]
    parameters = {"a": Integer(0, 5), "b": Integer(0, 5)}
    prior = Optimizer(parameters, warm_start=WarmStart(known, "prior"))
    space, start = Space(parameters, tasks=["A", "B"]), WarmStart(known, task="A")
    bound = Optimizer(space, sharing=Sharing(task="B"), warm_start=start)
    for a, b in ((3, 2), (0, 5), (2, 1), (5, 0)):
        value = 10.0 * (1.0 + abs(a - 3) + 0.3 * b)
        prior.observe({"a": a, "b": b}, value)
        bound.observe({"a": a, "b": b, "task": "B"}, value)
    rng = np.random.default_rng(7)
    strategy = prior.state.strategy
    state = strategy.init(prior.state.problem, rng)
    draws = np.random.default_rng(5)
    expected = strategy.ask(prior.state.problem, prior.history, state, 3, draws)
    problem, draws = replace(bound.state.problem, task=1), np.random.default_rng(5)
    found = propose_for_target(Auto(), problem, bound.history, 7, 3, draws)
    configs = prior.space.decode(np.array([proposal.code for proposal in expected]))
    proposed = bound.space.decode(np.array([proposal.code for proposal in found]))
    assert proposed == [{**config, "task": "B"} for config in configs]
    weights = [proposal.tag["weights"] for proposal in found]
    assert [list(w.values()) for w in weights] == [
        list(proposal.tag["weights"].values()) for proposal in expected
    ]
    assert weights[0]["A"] > 0


# ---- On which task a configuration is evaluated: the task that tells most about the set that it may join ----


@dataclass(frozen=True)
class Independent:
    """A model whose tasks are independent: the same prediction for every configuration."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    noise: float = 0.0

    def predict_joint(self, codes, tasks):
        mean = np.tile(np.array(self.mean)[tasks], (len(codes), 1))
        covariance = np.diag(np.array(self.deviation)[tasks] ** 2)
        return mean, np.tile(covariance, (len(codes), 1, 1))


def gain(model, logs, units=(1.0, 1.0, 1.0), aggregate="geometric_mean"):
    count = len(units)
    return set_gain(
        model,
        np.array(units),
        np.zeros(count),
        np.array(logs),
        2,
        aggregate,
        lambda rows: np.ones((len(rows), count), bool),
        np.random.default_rng(0),
    )


ROW = np.zeros((1, 1))
TWO = [[0.0, 0.0, 4.0], [3.0, 3.0, 0.0]]
"""Two configurations: the first one is the best of two tasks, the second one of the third task."""


def test_a_rival_of_one_member_is_evaluated_on_the_tasks_of_this_member():
    score = gain(Independent((2.0, 3.0, -0.5), (1.0, 1.0, 0.15)), TWO)
    value = score.informative(ROW, np.arange(3))
    assert np.argmax(value) == 2
    assert value[2] > 20 * max(value[0], value[1])
    score = gain(Independent((-0.5, -0.5, 4.0), (0.3, 0.6, 2.0)), TWO)
    assert np.argmax(score.informative(ROW, np.arange(3))) == 1


@pytest.mark.parametrize("aggregate", ["geometric_mean", "mean", "worst"])
def test_the_gain_is_that_of_a_direct_simulation(aggregate):
    model = Independent((0.1, -0.4, 2.0), (0.5, 0.3, 0.2))
    score = gain(model, TWO, (1.0, 2.0, 1.0), aggregate)
    rng = np.random.default_rng(1)
    drawn = np.array([1.0, 2.0, 1.0]) * (
        model.mean + model.deviation * rng.standard_normal((200_000, 3))
    )
    combine = {
        "geometric_mean": lambda logs: logs.mean(axis=-1),
        "mean": lambda logs: np.log(np.exp(logs).mean(axis=-1)),
        "worst": lambda logs: logs.max(axis=-1),
    }[aggregate]
    direct = max(
        np.maximum(combine(np.zeros(3)) - combine(np.minimum(drawn, TWO[i])), 0.0).mean()
        for i in (0, 1)
    )
    assert np.exp(score.score(ROW)[0]) == pytest.approx(direct, rel=0.35, abs=1e-3)


def test_a_row_has_the_same_score_alone_and_among_others():
    score = gain(Independent((0.1, -0.4, 2.0), (0.5, 0.3, 0.2)), TWO)
    assert np.allclose(score.score(np.zeros((5, 1))), score.score(ROW)[0], rtol=1e-12)
