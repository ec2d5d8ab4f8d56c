"""An observation is checked once, encoded at most once, and built once, whatever the strategy."""

from collections import Counter

import pytest

from baco_like import Optimizer, Space, Trial
from baco_like.exceptions import ConfigError
from baco_like.records.history import History

SPACE = Space({"a": [1, 2, 4, 8], "b": [1, 2, 3, 4]}, constraints=["a * b <= 16"])


@pytest.fixture
def calls(monkeypatch):
    """Count the calls of the methods that read, check, encode and build."""
    counts = Counter()

    def count(owner, name):
        original = getattr(owner, name)

        def counting(self, *arguments, **keywords):
            counts[name] += 1
            return original(self, *arguments, **keywords)

        monkeypatch.setattr(owner, name, counting)

    count(Space, "encode")
    count(Space, "contains")
    count(Space, "explain")
    count(History, "complete")
    count(Trial, "__post_init__")
    return counts


@pytest.mark.parametrize("strategy", ["genetic_algorithm", "random_search", "simulated_annealing"])
def test_an_observed_trial_is_not_encoded_again(calls, strategy):
    opt = Optimizer(SPACE, strategy=strategy, seed=1)
    for value in (3.0, 2.0, 1.0):
        trial = opt.suggest()
        calls.clear()
        opt.observe(trial, value)
        assert calls == {"complete": 1, "__post_init__": 1}


@pytest.mark.parametrize("strategy", ["genetic_algorithm", "random_search"])
def test_an_observed_configuration_is_encoded_once(calls, strategy):
    opt = Optimizer(SPACE, strategy=strategy, seed=1)
    calls.clear()
    opt.observe({"a": 4, "b": 2}, 1.0)
    # The trial is built for the journal, from the journal's event, and with its outcome.
    assert calls == {"encode": 1, "complete": 1, "__post_init__": 3}


def test_the_strategy_gets_the_code_and_the_cost():
    opt = Optimizer(SPACE, "maximize", strategy="genetic_algorithm", seed=1)
    opt.observe(opt.suggest(), 5.0)
    observation = opt.history.last
    assert observation.cost == -5.0
    assert (observation.code == SPACE.encode([observation.config])[0]).all()
    opt.observe({"a": 3, "b": 2}, 1.0, imported=True)
    assert opt.history.last.code is None


def test_many_configurations_are_encoded_together(calls):
    opt = Optimizer(SPACE, strategy="random_search", seed=1)
    pending = opt.suggest()
    configs = [{"a": a, "b": b} for a in (1, 2, 4) for b in (1, 2, 3, 4)]
    configs = [config for config in configs if config != pending.config]
    calls.clear()
    opt.observe([*configs, pending], [*map(float, range(len(configs))), 99.0])
    assert calls["encode"] == 1
    assert [trial.config for trial in sorted(opt.trials, key=lambda t: t.value)] == [
        *configs,
        pending.config,
    ]
    other = Optimizer(SPACE, strategy="random_search", seed=1)
    other.suggest()
    with pytest.raises(ConfigError, match=r"'a'.*3"):
        other.observe([configs[0], {"a": 3, "b": 1}], [1.0, 2.0])
    assert not other.trials  # all or nothing
