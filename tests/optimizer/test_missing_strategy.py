"""A run with a strategy object is read without the object; only its suggestions need it."""

import pytest

from baco_like import JournalError, Optimizer, Ordinal, Space, WarmStart
from baco_like.records import Proposal

SPACE = Space({"a": Ordinal([1, 2, 4, 8]), "b": Ordinal([1, 2, 3])})


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
    space = SPACE.with_tasks(options.get("tasks"))
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
    Optimizer(SPACE, strategy=Counting(), storage=path)
    other = type("Other", (Counting,), {})()
    with pytest.raises(JournalError, match="belongs to another run") as e:
        Optimizer.load(path, strategy=other)
    assert len(str(e.value)) < 600 + len(str(path))
