"""An optimizer as a Python object: its text, copies and pickles."""

import copy
import pickle

import pytest

from baco_like import Integer, MaxEvals, Optimizer, Permutation, Real, Space, tune
from baco_like.strategies import STRATEGIES

SPACE = Space({"a": [1, 2, 4, 8], "b": ["<x>", "y"]}, constraints=["a > 1 or b == 'y'"])


def run(**settings):
    optimizer = Optimizer(SPACE, seed=3, **settings)
    for _ in range(4):
        trial = optimizer.suggest()
        optimizer.observe(trial, float(trial["a"]))
    return optimizer


def test_the_text_says_where_the_run_is():
    optimizer = run(aim={"time": "minimize"})
    optimizer.suggest()
    assert repr(optimizer) == (
        f"Optimizer({SPACE!r}, 4 observed, 1 pending, best time {optimizer.best_value:.6g})"
    )
    assert repr(Optimizer(SPACE)).endswith("0 observed, 0 pending, no success)")


def test_notebooks_show_tables():
    optimizer = run()
    assert "<td>&lt;x&gt;</td>" in "".join(t._repr_html_() for t in optimizer.trials)
    assert f"<td>{optimizer.best_value:.6g}</td>" in optimizer._repr_html_()
    assert "Ordinal" in SPACE._repr_html_()
    result = tune(lambda trial: 1.0, SPACE, stop=MaxEvals(2), progress=False)
    assert "<p>2 evaluations</p>" in result._repr_html_()
    conditional = Space({"a": [1, 2], "b": [3]}, when={"b": "a > 1"})
    assert repr(conditional) == "Space(a, b; 0 constraints, 1 conditional, 2 feasible)"
    assert "<td>a &gt; 1</td>" in conditional._repr_html_()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_continues_like_the_original(copied):
    optimizer = run()
    pending = optimizer.suggest()
    other = copied(optimizer)
    assert other.trials == optimizer.trials
    assert other.pending == [pending]
    other.observe(pending, 1.0)
    assert len(optimizer.trials) == 4
    optimizer.observe(pending, 1.0)
    assert other.suggest() == optimizer.suggest()


KINDS = {
    "order": Space({"order": Permutation(["i", "j", "k"]), "x": [1, 2, 3]}),
    "long order": Space(
        {"order": Permutation(list(range(7))), "x": Real(0, 1)}, ["pos(order, 0) < 3"]
    ),
    "conditional": Space(
        {"a": [1, 2, 4], "order": Permutation(["i", "j", "k"])}, when={"order": "a > 1"}
    ),
    "tasks": Space({"a": [1, 2, 4], "b": Integer(1, 9)}, tasks=[{"n": 1}, {"n": 2}]),
}


@pytest.mark.parametrize("space", KINDS.values(), ids=KINDS)
def test_everything_is_pickled_after_a_model_has_used_it(space):
    result = tune(lambda trial: float(trial.id), space, stop=MaxEvals(10), progress=False, seed=1)
    again = pickle.loads(pickle.dumps(result))
    assert again.trials == result.trials
    assert again.optimizer.space == space
    assert again.optimizer.suggest() == result.optimizer.suggest()
    assert pickle.loads(pickle.dumps(space)).sample(3, 0) == space.sample(3, 0)


def test_an_optimizer_with_a_file_is_not_copied(tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(SPACE, storage=path)
    with pytest.raises(TypeError, match=r"Optimizer\.load\('.*run\.jsonl'\)"):
        copy.deepcopy(optimizer)


@pytest.mark.parametrize("name", [n for n in STRATEGIES if "gpytorch" not in n])
def test_every_strategy_is_pickled(name):
    optimizer = run(strategy=name)
    assert pickle.loads(pickle.dumps(optimizer)).suggest() == optimizer.suggest()
