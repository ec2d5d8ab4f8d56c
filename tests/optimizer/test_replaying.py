"""What is done once, or not at all: work of a journal that is opened, and checks of an observation."""

from __future__ import annotations

from collections import Counter

import pytest

from baco_like import JournalError, Optimizer, Ordinal, Space, Trial, WarmStart
from baco_like._random import Purpose, generator
from baco_like.exceptions import ConfigError
from baco_like.journal import MemoryJournal
from baco_like.records import Proposal
from baco_like.records.history import History

SPACE = Space({"x": list(range(20)), "y": list(range(20))})


@pytest.mark.parametrize(
    ("strategy", "draws"),
    [("random_search", False), ("auto", False), ("baco", False), ("simulated_annealing", True)],
)
def test_a_generator_for_each_observation_is_made_only_for_strategies_that_draw(
    monkeypatch, strategy, draws
):
    journal = MemoryJournal()
    optimizer = Optimizer(SPACE, strategy=strategy, storage=journal)
    for x in range(5):
        optimizer.observe({"x": x, "y": 3}, float(x))
    made: list[int] = []

    def count(seed, purpose, index=0, stream=None):
        made.extend([index] if purpose is Purpose.TELL else [])
        return generator(seed, purpose, index, stream)

    monkeypatch.setattr("baco_like.optimizer.state.generator", count)
    resumed = Optimizer(SPACE, strategy=strategy, storage=MemoryJournal(list(journal.events)))
    assert made == (list(range(5)) if draws else [])
    assert resumed.suggest() == optimizer.suggest()


# ---- A run with a strategy object is read without the object; only its suggestions need it ----


ORDINALS = Space({"a": Ordinal([1, 2, 4, 8]), "b": Ordinal([1, 2, 3])})


class Counting:
    """Proposes nothing, and its state is the number of observations."""

    several_objectives = True
    uses_tasks = True
    uses_related_tasks = True
    text = "x" * 5000

    def __repr__(self):
        return f"Counting({self.text})"

    def init(self, problem, rng):
        return 0

    def ask(self, problem, history, state, n, rng):
        rows = [row for row in problem.space.sample(50, seed=state)]
        codes = problem.space.encode(rows)
        return [Proposal(code) for code in codes[~problem.is_excluded(history, codes)][:1]]

    def tell(self, problem, state, observation, rng):
        return state + 1


OPTIONS = {
    "one value": {},
    "two values": {"aim": {"t": "minimize", "s": "minimize"}},
    "tasks": {"tasks": [{"n": 1}, {"n": 2}]},
    "related task": {
        "warm_start": WarmStart(
            [({"a": 1, "b": 1}, 2.0), ({"a": 2, "b": 1}, 1.0), ({"a": 4, "b": 1}, 3.0)], "prior"
        )
    },
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_only_a_suggestion_needs_the_object(tmp_path, options):
    path = tmp_path / "run.jsonl"
    own = {key: value for key, value in options.items() if key != "tasks"}
    space = ORDINALS.with_tasks(options.get("tasks"))
    opt = Optimizer(space, strategy=Counting(), storage=path, **own)
    for number in range(4):
        value = {"t": 1.0 + number, "s": 2.0} if "aim" in options else 1.0 + number
        opt.observe(opt.suggest(), value)
    read = Optimizer.load(path)
    assert [t.value for t in read.trials] == [t.value for t in opt.trials]
    assert read.best_config == opt.best_config
    if "tasks" not in options:
        assert dict(read.recommend()) == dict(opt.recommend())
    assert len(read.to_dataframe()) == 4
    assert read.export("csv", tmp_path / "trials.csv") == 4
    if "aim" not in options:
        assert read.ship("json", tmp_path / "best.json").exists()
    before = path.read_bytes()
    with pytest.raises(
        JournalError, match=r"to continue, give it again: load\(path, strategy="
    ) as e:
        read.suggest()
    assert len(str(e.value)) < 120 + len(str(path))
    assert path.read_bytes() == before
    again = Optimizer.load(path, strategy=Counting())
    assert again.suggest().id == 4


def test_another_object_is_refused_in_a_short_message(tmp_path):
    path = tmp_path / "run.jsonl"
    Optimizer(ORDINALS, strategy=Counting(), storage=path)
    other = type("Other", (Counting,), {})()
    with pytest.raises(JournalError, match="belongs to another run") as e:
        Optimizer.load(path, strategy=other)
    assert len(str(e.value)) < 600 + len(str(path))


@pytest.mark.parametrize("is_file", [True, False])
def test_a_refused_space_tells_how_its_results_begin_a_new_run(tmp_path, is_file):
    storage = tmp_path / "run.jsonl" if is_file else MemoryJournal()
    first = Optimizer({"a": [1, 2, 3]}, storage=storage)
    first.observe(first.suggest(), 1.0)
    with pytest.raises(JournalError, match="parameter 'a' was") as e:
        Optimizer({"a": [1, 2]}, storage=storage)
    assert (f"[warm_start] file = '{storage}'" in str(e.value)) == is_file
    assert ("warm_start=Optimizer.load(...) in Python" in str(e.value)) != is_file
    source = storage if is_file else Optimizer.load(storage)
    assert len(Optimizer({"a": [1, 2, 3, 4]}, warm_start=source).trials) == 1


# ---- An observation is checked once, encoded at most once, and built once, whatever the strategy ----


CONSTRAINED = Space({"a": [1, 2, 4, 8], "b": [1, 2, 3, 4]}, constraints=["a * b <= 16"])


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
    opt = Optimizer(CONSTRAINED, strategy=strategy, seed=1)
    for value in (3.0, 2.0, 1.0):
        trial = opt.suggest()
        calls.clear()
        opt.observe(trial, value)
        assert calls == {"complete": 1, "__post_init__": 1}


@pytest.mark.parametrize("strategy", ["genetic_algorithm", "random_search"])
def test_an_observed_configuration_is_encoded_once(calls, strategy):
    opt = Optimizer(CONSTRAINED, strategy=strategy, seed=1)
    calls.clear()
    opt.observe({"a": 4, "b": 2}, 1.0)
    # The trial is built for the journal, from the journal's event, and with its outcome.
    assert calls == {"encode": 1, "complete": 1, "__post_init__": 3}


def test_the_strategy_gets_the_code_and_the_cost():
    opt = Optimizer(CONSTRAINED, "maximize", strategy="genetic_algorithm", seed=1)
    opt.observe(opt.suggest(), 5.0)
    observation = opt.history.last
    assert observation.cost == -5.0
    assert (observation.code == CONSTRAINED.encode([observation.config])[0]).all()
    opt.observe({"a": 3, "b": 2}, 1.0, imported=True)
    assert opt.history.last.code is None


def test_many_configurations_are_encoded_together(calls):
    opt = Optimizer(CONSTRAINED, strategy="random_search", seed=1)
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
    other = Optimizer(CONSTRAINED, strategy="random_search", seed=1)
    other.suggest()
    with pytest.raises(ConfigError, match=r"'a'.*3"):
        other.observe([configs[0], {"a": 3, "b": 1}], [1.0, 2.0])
    assert not other.trials  # all or nothing
