"""The default strategy on hundreds of parameters, such as the flags of a compiler."""

import numpy as np
import pytest

from baco_like import Categorical, Optimizer, Space
from baco_like.records import History
from baco_like.records.trial import Outcome, Trial
from baco_like.strategies.bayesian.repeats import EXPECTED, chance_of_effect, prefer_new_programs

COUNT = 100
_rng = np.random.default_rng(5)
ACTIVE = dict(zip(_rng.permutation(COUNT)[:24].tolist(), _rng.standard_normal(24), strict=True))
BEST = 100.0 + sum(effect for effect in ACTIVE.values() if effect < 0.0)


def flags(count=COUNT, **options):
    return Space(
        {f"f{i}": Categorical([False, True], default=False) for i in range(count)}, **options
    )


def cost(config):
    return 100.0 + sum(effect for place, effect in ACTIVE.items() if config[f"f{place}"])


def program(config):
    return "program" + " ".join(str(place) for place in ACTIVE if config[f"f{place}"])


def run(space, trials, seed=0):
    optimizer = Optimizer(space, seed=seed)
    for _ in range(trials):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial.config), program=program(trial.config))
    return optimizer


def test_the_design_changes_every_parameter_once():
    trials = run(flags(), 9).trials
    assert not any(trials[0].config.values())
    changes = [{name for name, on in trial.config.items() if on} for trial in trials[1:]]
    assert set().union(*changes) == set(flags().parameters)
    assert sum(map(len, changes)) == COUNT


@pytest.mark.parametrize("seed", range(3))
def test_most_of_the_gain_is_found_within_half_as_many_trials_as_flags(seed):
    draws = np.random.default_rng(seed).random((50, COUNT)) < 0.5
    drawn = min(cost({f"f{i}": on for i, on in enumerate(row)}) for row in draws)
    assert run(flags(), 50, seed).best_value - BEST < 0.4 * (drawn - BEST)


def history_of_programs(space, runs):
    """Return the history of trials in which the flags f3 and f4 decide about the program."""
    history = History.start(space)
    for number, on in enumerate(runs):
        config = {f"f{i}": i in on for i in range(6)}
        extra = {"program": f"{config['f3']} {config['f4']}"}
        outcome = Outcome.success(number, (1.0,), extra=extra)
        trial = Trial(number, config, None, "user")
        history, _ = history.complete([outcome], {number: (trial, space.encode([config])[0])})
    return history


RUNS = [(), (0,), (1,), (2,), (0, 1, 2, 3), (0, 1, 2), (4,), (0, 4)]


def test_equal_programs_show_which_flags_are_inert():
    chance = chance_of_effect(history_of_programs(flags(6), RUNS))
    assert min(chance[[3, 4]]) > 2 * max(chance[[0, 1, 2]])
    assert chance[5] == EXPECTED  # never changed


def test_configurations_of_known_programs_are_avoided():
    space = flags(6)
    history = history_of_programs(space, RUNS)
    rows = space.encode([{f"f{i}": i in on for i in range(6)} for on in ((0,), (1, 2), (3, 4))])
    score = prefer_new_programs(lambda codes: np.zeros(len(codes)), history)
    assert (np.diff(score(rows)) > 0.5).all()
    unnamed = prefer_new_programs(np.sum, History.start(space))
    assert unnamed is np.sum


def test_constraints_hold_in_the_design_and_the_search():
    exclusive = [f"not (f{i} and f{i + 1})" for i in range(0, 40, 2)]
    space = flags(40, constraints=exclusive)
    optimizer = Optimizer(space, seed=0)
    for _ in range(20):
        trial = optimizer.suggest()
        assert space.contains(trial.config)
        optimizer.observe(trial, float(sum(trial.config.values()) % 7))


def test_without_a_default_the_trials_spread_first():
    space = Space({f"f{i}": [False, True] for i in range(COUNT)})
    optimizer = run(space, 40)
    draws = np.random.default_rng(0).random((40, COUNT)) < 0.5
    drawn = min(cost({f"f{i}": on for i, on in enumerate(row)}) for row in draws)
    assert optimizer.best_value - BEST < 0.6 * (drawn - BEST)
