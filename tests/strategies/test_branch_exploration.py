"""Steps into the branches of conditional parameters beside that of the best configuration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from baco_like import Categorical, Integer, Optimizer, Ordinal, Permutation, Real, Space
from baco_like.spaces.design import branch_of, enter
from baco_like.strategies import Bayesian
from baco_like.strategies.auto import Auto, choose
from baco_like.strategies.protocol import Problem

SPACE = Space(
    {
        "kind": Categorical(["plain", "tiled", "fused"]),
        "size": Ordinal([1, 2, 4, 8]),
        "tile": Integer(0, 40),
        "fuse": Integer(0, 40),
        "depth": Integer(1, 3),
        "inner": Categorical(["x", "y"]),
        "order": Permutation(["i", "j", "k"]),
    },
    constraints=["tile + size <= 44"],
    when={
        "tile": "kind == 'tiled'",
        "fuse": "kind == 'fused'",
        "inner": "depth >= 2",
        "order": "inner == 'y'",
    },
)


SMALL = Space(
    {name: SPACE.parameters[name] for name in ("kind", "size", "tile", "fuse")},
    when={"tile": "kind == 'tiled'", "fuse": "kind == 'fused'"},
)


def misleading(config):
    """The branch that looks worst at the middle of its parameter has the best configuration, in a narrow peak."""
    other = 0.1 * abs(config["size"] - 4) + 0.05 * (config.get("depth", 1) - 1)
    if config["kind"] == "plain":
        return 2.0 + other
    if config["kind"] == "tiled":
        return 1.5 + 0.02 * abs(config["tile"] - 18) + other
    return 5.0 - 4.5 * math.exp(-(((config["fuse"] - 31) / 12) ** 2)) + other


def run(count, cost=misleading, seed=1, strategy="auto", space=SPACE, storage=None):
    optimizer = Optimizer(space, seed=seed, strategy=strategy, storage=storage)
    while len(optimizer.trials) < count:
        trial = optimizer.suggest()
        value = cost(trial.config)
        optimizer.observe(trial, value, failed="runtime" if value is None else None)
    return optimizer


def entered(optimizer):
    return [trial.tag.get("branch") for trial in optimizer.trials]


@pytest.mark.parametrize("seed", range(2))
def test_a_branch_that_looks_bad_is_not_given_up(seed):
    optimizer = run(32, seed=seed, space=SMALL)
    assert optimizer.best["kind"] == "fused"
    steps = entered(optimizer)
    assert not any(a and b for a, b in itertools.pairwise(steps))


def test_every_branch_beside_the_best_one_gets_its_share():
    optimizer = run(24)
    rows = optimizer.history.codes
    best = rows[int(np.argmin(optimizer.history.costs))]
    counts = [branch.contains(rows).sum() for branch in branch_of(SPACE, best).neighbours()]
    assert min(counts) >= math.log(24) - 1.5  # the best branch may have changed lately


def test_a_branch_that_fails_gets_no_more_than_the_others():
    optimizer = run(
        20, lambda config: None if config["kind"] == "fused" else misleading(config), seed=2
    )
    failed = [trial for trial in optimizer.trials if trial.failure]
    assert 2 <= len(failed) <= 8


def test_batches_have_at_most_one_step_into_a_branch():
    optimizer = Optimizer(SPACE, seed=1)
    for _ in range(6):
        trials = optimizer.suggest(4)
        assert sum("branch" in trial.tag for trial in trials) <= 1
        optimizer.observe(trials, [misleading(trial.config) for trial in trials])


@pytest.mark.parametrize("seed", range(20))
def test_neighbouring_branches_differ_in_one_step(seed):
    rng = np.random.default_rng(seed)
    (row,) = SPACE.feasible.sample(1, rng)
    own = branch_of(SPACE, row)
    assert own.contains(row[None]).all()
    assert own.text == ""
    for branch in own.neighbours():
        assert not branch.contains(row[None]).any()
        rows = enter(branch, row, rng)
        assert branch.contains(rows).all()
        assert SPACE.feasible.contains(rows).all()
    (config,) = SPACE.decode(row[None])
    texts = {branch.text for branch in own.neighbours()}
    assert {f"kind = {kind!r}" for kind in ("plain", "tiled", "fused")} - texts == {
        f"kind = {config['kind']!r}"
    }
    assert ("inner is inactive" in texts) == ("inner" in config)


def reals():
    return Space(
        {"kind": Categorical(["a", "b"]), "x": Real(0.0, 1.0), "y": Real(0.0, 1.0)},
        when={"y": "kind == 'b'"},
    )


@pytest.mark.parametrize(
    ("space", "scan_limit"),
    [(SPACE, 20_000), (SPACE, 0), (reals(), 0)],
    ids=["scan", "search", "mixed"],
)
def test_the_model_proposes_within_a_region(space, scan_limit):
    optimizer = Optimizer(space, seed=3, strategy="random_search")
    for _ in range(12):
        optimizer.observe(optimizer.suggest(), len(optimizer.trials) % 5 + 0.5)
    kind = space.columns["kind"].start
    problem = Problem(space)
    wanted = replace(problem, region=lambda codes: codes[:, kind] == 1)
    strategy = Bayesian(scan_limit=scan_limit)
    rng = np.random.default_rng(1)
    state = strategy.init(problem, rng)
    proposals = strategy.ask(wanted, optimizer.history, state, 2, rng)
    assert len(proposals) == 2
    assert all(proposal.code[kind] == 1 for proposal in proposals)


def test_imported_trials_outside_the_space_are_left_out():
    optimizer = Optimizer(SPACE, seed=2)
    optimizer.observe({"kind": "gone"}, 0.5, imported=True)
    for _ in range(40):  # the search converges, and then visits the branches by their best values
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + (trial.config["kind"] != "plain"))
    assert any("branch" in trial.tag for trial in optimizer.trials[20:])


def test_spaces_without_conditions_have_no_such_steps():
    space = Space({"kind": Categorical(["a", "b"]), "x": Integer(0, 30)})
    optimizer = run(15, lambda config: config["x"] + (config["kind"] == "a"), space=space)
    assert entered(optimizer) == [None] * 15
    strategy, _ = choose(Problem(space), Auto())
    assert "Branch" not in repr(strategy)
