"""Proposals for many observations, for batches and while several trials are pending."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from baco_like import Integer, Optimizer, Ordinal, Real, Sharing, Space
from baco_like.acquisitions import LocalSearch, ThompsonSampling
from baco_like.acquisitions.functions import condition_on_pending, log_ei
from baco_like.records.history import History
from baco_like.strategies.bayesian import incremental
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.incremental import SCREENED, Incremental, propose
from baco_like.strategies.protocol import Problem
from baco_like.surrogates import GaussianProcess
from baco_like.surrogates.gp.growing import EVERY_COUNT, CandidateTable

SMALL = Space({"a": Integer(0, 29), "b": Integer(0, 29)}, constraints=["a + b <= 40"])
LARGE = Space({f"p{i}": Ordinal([2**k for k in range(8)]) for i in range(6)})
MANY = EVERY_COUNT + 15


def cost(config):
    return 1.0 + sum(np.log2(1 + abs(value - 9)) for value in config.values())


def observe(optimizer, trials):
    """Report a list of trials; those at the border fail."""
    for trial in trials:
        if trial[optimizer.space.names[0]] >= (27 if optimizer.space is SMALL else 128):
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, cost(trial.config if hasattr(trial, "config") else trial))


def started(space, count, **options):
    optimizer = Optimizer(space, seed=3, **options)
    observe(optimizer, space.sample(count, seed=5))
    return optimizer


@pytest.fixture
def work(monkeypatch):
    """Count the fits of hyperparameters and the searches."""
    count = Counter()

    def counted(kind, name):
        original = getattr(kind, name)

        def call(self, *args, **kwargs):
            count[name] += 1
            return original(self, *args, **kwargs)

        monkeypatch.setattr(kind, name, call)

    counted(GaussianProcess, "fit")
    counted(GaussianProcess, "hold")
    counted(LocalSearch, "maximise")
    return count


@pytest.mark.parametrize("space", [SMALL, LARGE], ids=["listed", "searched"])
def test_a_resumed_run_continues_alike(tmp_path, space):
    path = tmp_path / "run.jsonl"
    optimizer = started(
        space, MANY, storage=path, sharing=Sharing(lease=3600.0)
    )  # pending trials stay pending

    def advance(optimizer):
        observe(optimizer, [optimizer.suggest()])
        batch = optimizer.suggest(12)
        observe(optimizer, batch[3:9])
        return [optimizer.suggest().config for _ in range(3)]

    advance(optimizer)
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(path.read_bytes())
    resumed = Optimizer.load(
        copy, sharing=Sharing(lease=3600.0)
    )  # with none of the models that the first one keeps
    assert advance(optimizer) == advance(resumed)


def test_hyperparameters_hold_between_refits(work):
    optimizer = started(SMALL, MANY)
    for _ in range(12):  # with a refit at 242 of 235 to 247
        observe(optimizer, [optimizer.suggest()])
    assert work["hold"] == 2
    assert work["fit"] == 0
    own = [trial.tag for trial in optimizer.trials[MANY:] if trial.tag]
    held = {tuple(tag["hyperparameters"]["lengthscales"]) for tag in own if "mean" in tag}
    assert len(held) == 2


def test_few_observations_one_at_a_time_are_fitted_anew(work):
    optimizer = started(SMALL, 30)
    optimizer.suggest()
    optimizer.suggest()  # one is pending
    assert (work["fit"], work["hold"]) == (2, 0)


@pytest.mark.parametrize("count", [40, MANY])
def test_a_batch_takes_one_fit_and_one_search(work, count):
    trials = started(LARGE, count).suggest(64)
    assert len({tuple(trial.config.values()) for trial in trials}) == 64
    assert {trial.origin for trial in trials} == {"strategy"}
    assert (work["hold"], work["maximise"], work["fit"]) == (1, 1, 0)


def test_asking_one_by_one_while_trials_are_pending_shares_the_work(work):
    optimizer = started(LARGE, 100)
    for _ in range(64):
        optimizer.suggest()
    assert work["fit"] == 2  # for the first two
    assert work["hold"] + work["maximise"] <= 10
    work.clear()
    for trial in optimizer.pending[:32]:  # workers that finish one after the other
        observe(optimizer, [trial])
        optimizer.suggest()
    assert work["hold"] <= 4
    assert work["maximise"] <= 6


def test_a_batch_is_the_greedy_choice_of_a_believer():
    """Each proposal has the highest expected improvement of the model conditioned on those before it."""
    strategy = Bayesian(GaussianProcess(mean="constant"))
    history, problem = History.start(SMALL), Problem(SMALL)
    optimizer = Optimizer(SMALL, seed=1, strategy="random_search")
    optimizer.observe(configs := SMALL.sample(60, seed=2), [cost(c) for c in configs])
    history = optimizer.history.add_pending([], np.empty((0, 2)))
    models = Incremental.of(strategy, problem, history, 7, 0)
    rows = [p.code for p in propose(models, 6, np.random.default_rng(0))]
    fitted, _ = models.posterior(6)
    candidates = SMALL.feasible.listed[~history.is_excluded(SMALL.feasible.listed)]
    model, incumbent = fitted.model, fitted.incumbent
    for row in rows:
        score = log_ei(*model.predict(candidates), incumbent)
        is_row = (candidates == row).all(axis=1)
        assert score[is_row][0] >= score.max() - 1e-6
        candidates = candidates[~is_row]
        incumbent = min(incumbent, float(model.predict(row[None])[0][0]))
        model = condition_on_pending(model, row[None])
    assert len({tuple(row) for row in rows}) == 6


def test_single_precision_only_finds_the_configurations_to_score(monkeypatch):
    """The suggestions and their predictions come from double precision."""
    tables = []
    original = CandidateTable.of.__func__

    def of(cls, model, codes, is_single=False):
        tables.append((len(codes), is_single and is_allowed))
        return original(cls, model, codes, is_single and is_allowed)

    monkeypatch.setattr(CandidateTable, "of", classmethod(of))
    found = {}
    for is_allowed in (True, False):
        optimizer = started(SMALL, MANY)
        found[is_allowed] = []
        for _ in range(3):
            trial = optimizer.suggest()
            found[is_allowed].append((dict(trial.config), trial.tag["mean"], trial.tag["std"]))
            observe(optimizer, [trial])
    every = len(SMALL.feasible.listed)
    assert tables == [(every, True), *[(SCREENED, False)] * 3, (every, False)]
    for one, other in zip(found[True], found[False], strict=True):
        assert one[0] == other[0]
        assert one[1:] == pytest.approx(other[1:], rel=1e-9)


def test_a_tag_says_that_the_model_leaves_observations_out(monkeypatch):
    monkeypatch.setattr(incremental, "SEARCHED_ROWS", 50)
    monkeypatch.setattr(incremental, "LISTED_ROWS", 60)
    for space, rows in ((LARGE, 50), (SMALL, 60)):
        optimizer = started(space, 233)
        tag = optimizer.suggest().tag
        assert (tag["model_rows"], tag["of"]) == (rows + 2, 233)
    assert "of" not in started(SMALL, 40).suggest().tag


def test_other_acquisition_functions_and_real_parameters():
    space = Space({"x": Real(0.0, 1.0), "y": Real(0.0, 1.0), "n": Integer(1, 8)})
    for acquisition in (ThompsonSampling(), Bayesian().acquisition):
        optimizer = Optimizer(space, seed=0, strategy=Bayesian(acquisition=acquisition))
        for config in space.sample(20, seed=1):
            optimizer.observe(config, 1 + (config["x"] - 0.3) ** 2 + config["y"] + config["n"] / 9)
        batch = optimizer.suggest(5)
        assert len({tuple(trial.config.values()) for trial in batch}) == 5
        assert {trial.origin for trial in batch} == {"strategy"}


def test_a_part_that_is_not_frozen_works_too():
    @dataclass
    class Lower:
        weight: float = 1.0

        def bind(self, model, incumbent, rng):
            return lambda codes: self.weight - model.predict(codes)[0]

    optimizer = started(SMALL, 40, strategy=Bayesian(acquisition=Lower()))
    assert len(optimizer.suggest(4)) == 4


def test_a_batch_larger_than_the_rest_of_the_space_takes_all_of_it():
    space = Space({"a": Integer(0, 9), "b": Integer(0, 9)})
    optimizer = Optimizer(space, seed=3, strategy="bayesian")
    configs = space.decode(space.feasible.listed[:60])
    optimizer.observe(configs, [cost(config) for config in configs])
    assert len(optimizer.suggest(64)) == 40


def test_predictions_come_from_the_same_model(work):
    optimizer = started(LARGE, MANY)
    optimizer.predict([LARGE.sample(1, seed=0)[0]])
    assert (work["hold"], work["fit"]) == (1, 0)
