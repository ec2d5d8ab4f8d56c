"""What strategies, surrogates and acquisition functions of other packages return is checked."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from baco_like import Integer, MaxEvals, Optimizer, Outcome, PluginError, Real, Space, run
from baco_like.acquisitions import ExpectedImprovement
from baco_like.records import Proposal
from baco_like.strategies import Bayesian, Portfolio, RandomSearch
from baco_like.surrogates import GaussianProcess
from baco_like.surrogates.forest import ForestFeasibility

SPACE = Space({"a": Integer(0, 7), "b": ["x", "y"]}, constraints=["a < 7 or b == 'x'"])


class Proposing:
    """A strategy that returns what it is given."""

    def __init__(self, returned):
        self.returned = returned

    def init(self, problem, rng):
        return None

    def ask(self, problem, history, state, n, rng):
        return self.returned

    def tell(self, problem, state, observation, rng):
        return state


ROW = SPACE.encode([{"a": 3, "b": "x"}])[0]

MALFORMED = [
    (None, "ask returned None, not a sequence of proposals"),
    ([{"a": 3, "c": 1}], r"proposal 1 is the configuration {'a': 3, 'c': 1}; return Proposal\("),
    ([ROW], "proposal 1 is array"),
    ([Proposal(ROW[:1])], r"has a code with the shape \(1,\); this space needs \(2,\)"),
    ([Proposal("ab")], "has the code 'ab'"),
    ([Proposal(ROW, tag=object())], "has a tag that JSON cannot hold"),
    ([Proposal(ROW, tag={"gain": np.nan})], "has a tag that JSON cannot hold"),
    ([Proposal(ROW), Proposal(ROW)], "2 proposals, asked for 1"),
    ([Proposal(np.array([9.0, 0.0]))], r"\[9.0\] is no code of parameter 'a', Integer"),
    ([Proposal(np.array([3.5, 0.0]))], r"\[3.5\] is no code of parameter 'a'"),
    ([Proposal(np.array([3.0, -1.0]))], r"\[-1.0\] is no code of parameter 'b'"),
    ([Proposal(np.array([3.0, np.nan]))], r"\[nan\] is no code of parameter 'b'"),
    ([Proposal(SPACE.encode([{"a": 7, "b": "y"}])[0])], "{'a': 7, 'b': 'y'}: a < 7 or b == 'x' violated"),
]  # fmt: skip


@pytest.mark.parametrize(("returned", "message"), MALFORMED)
def test_a_malformed_proposal_names_the_strategy_and_the_fault(returned, message):
    with pytest.raises(
        PluginError, match=rf"^bug in strategy test_foreign_parts\.Proposing: .*{message}"
    ):
        Optimizer(SPACE, strategy=Proposing(returned)).suggest()


def test_repeated_proposals():
    strategy = Proposing([Proposal(ROW)] * 2)
    with pytest.raises(PluginError, match="observed, pending or repeated"):
        Optimizer(SPACE, strategy=strategy).suggest(2)


def test_an_arm_of_a_portfolio_is_named():
    with pytest.raises(PluginError, match=r"bug in strategy test_foreign_parts\.Proposing"):
        Optimizer(SPACE, strategy=Portfolio({"own": Proposing([3])})).suggest()


def test_nothing_is_written_for_a_malformed_proposal(tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(SPACE, strategy=Proposing([Proposal(ROW, tag=object())]), storage=path)
    before = path.read_bytes()
    with pytest.raises(PluginError):
        optimizer.suggest()
    assert path.read_bytes() == before
    assert optimizer.pending == []


@dataclass(frozen=True)
class Returns:
    """A model, and the recipe of it, that returns what a function makes of the number of rows."""

    returned: object
    hyperparameters: dict = field(default_factory=dict)

    def fit(self, *arguments):
        return self

    def predict(self, codes):
        return self.returned(len(codes))

    def probability(self, codes):
        return self.returned(len(codes))

    def bind(self, model, incumbent, rng):
        return lambda codes: self.returned(len(codes))


def suggest_by(strategy, n=1):
    optimizer = Optimizer(SPACE, strategy=strategy, seed=1)
    for a in range(4):
        optimizer.observe(
            {"a": a, "b": "x"}, None if a == 1 else a, failed="runtime" if a == 1 else None
        )
    return optimizer.suggest(n)


ones = np.ones
PREDICTED = [
    (lambda n: None, "predict returned NoneType, not mean and variance"),
    (lambda n: (ones(n), -1e-12 * ones(n)), r"variance is negative: -1e-12; .* numpy.maximum"),
    (
        lambda n: (ones(n), np.full(n, np.nan)),
        r"variances of .* are not finite numbers, the first is nan",
    ),
    (
        lambda n: (np.full(n, np.inf), ones(n)),
        "means of .* are not finite numbers, the first is inf",
    ),
    (
        lambda n: (ones((n, 1)), ones(n)),
        r"means have the shape \(.*, 1\), for .* configurations it must be",
    ),
    (lambda n: (ones(n), 1.0), r"variances have the shape \(\)"),
    (lambda n: (["a"] * n, ones(n)), "means are .*, not an array of floats"),
]


@pytest.mark.parametrize(("returned", "message"), PREDICTED)
def test_the_predictions_of_a_surrogate(returned, message):
    with pytest.raises(PluginError, match=rf"^surrogate test_foreign_parts\.Returns: .*{message}"):
        suggest_by(Bayesian(Returns(returned)))


def test_a_surrogate_that_returns_no_model():
    class NoModel:
        def fit(self, space, data, rng, start=None):
            return None

    with pytest.raises(
        PluginError, match="NoModel: fit returned None, which has no method predict"
    ):
        suggest_by(Bayesian(NoModel()))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda n: np.full(n, np.nan), "the scores of .* configurations are NaN; return -inf"),
        (lambda n: 1.0, r"the scores have the shape \(\)"),
        (lambda n: ["a"] * n, "the scores are "),
    ],
)
@pytest.mark.parametrize("n", [1, 3])
def test_the_scores_of_an_acquisition_function(returned, message, n):
    with pytest.raises(
        PluginError, match=rf"^acquisition function test_foreign_parts\.Returns: {message}"
    ):
        suggest_by(Bayesian(acquisition=Returns(returned)), n)


@pytest.mark.parametrize("value", [-0.1, 1.5, np.nan])
def test_the_probabilities_of_a_feasibility_model(value):
    with pytest.raises(PluginError, match=r"^feasibility surrogate test_foreign_parts\.Returns: "):
        suggest_by(Bayesian(feasibility=Returns(lambda n: np.full(n, value))))


class SameModel:
    def __init__(self, model):
        self._model = model
        self.hyperparameters = model.hyperparameters

    def predict(self, codes):
        return self._model.predict(codes)

    def condition(self, codes, y):
        return SameModel(self._model.condition(codes, y))


class SameSurrogate:
    def fit(self, space, data, rng, start=None):
        return SameModel(GaussianProcess().fit(space, data, rng, start))


class SameAcquisition:
    def bind(self, model, incumbent, rng):
        return ExpectedImprovement().bind(model, incumbent, rng)


class SameFeasibility:
    def fit(self, space, codes, feasible, seed):
        return self

    def probability(self, codes):
        return ones(len(codes))


def test_checks_change_no_suggestion():
    foreign = Bayesian(SameSurrogate(), SameAcquisition(), SameFeasibility())

    class NoModelOfFailures(ForestFeasibility):
        def fit(self, *arguments):
            return SameFeasibility()

    own = Bayesian(feasibility=NoModelOfFailures())
    assert suggest_by(foreign)[0].config == suggest_by(own)[0].config
    assert suggest_by(RandomSearch(), 3) == suggest_by(RandomSearch(), 3)
    space = Space({"x": Real(0, 1)})
    runs = [Optimizer(space, strategy=strategy) for strategy in (foreign, own)]
    for each in runs:
        each.observe(each.suggest(4), [0.4, 0.3, 0.2, 0.1])
    assert runs[0].suggest().config == runs[1].suggest().config


class Measuring:
    """An evaluator that returns what a function makes of the submitted trials."""

    capacity = 2

    def __init__(self, returned):
        self.returned, self.submitted = returned, []

    def submit(self, trial):
        self.submitted.append(trial)

    def wait(self):
        return self.returned(self.submitted)

    def close(self):
        pass


OUTCOMES = [
    (lambda trials: None, "wait returned None, not a sequence of one or more outcomes"),
    (lambda trials: [], r"wait returned \[\], not a sequence"),
    (lambda trials: [1.5], r"wait returned 1.5; return Outcome.success\("),
    (lambda trials: [Outcome.success(99, (1.0,))], "an outcome of trial 99 that was not submitted"),
    (lambda trials: [Outcome.success(trials[0].id, (1.0,))] * 2, "an outcome of trial 0 2 times"),
]


@pytest.mark.parametrize(("returned", "message"), OUTCOMES)
def test_the_outcomes_of_an_evaluator(returned, message):
    optimizer = Optimizer(SPACE, strategy="random_search")
    with pytest.raises(
        PluginError, match=rf"^evaluator test_foreign_parts\.Measuring: .*{message}"
    ):
        run(optimizer, Measuring(returned), MaxEvals(4))
    assert optimizer.trials == []
