"""The generator, by the real package."""

import subprocess
import sys

import numpy as np
import pytest

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.exceptions import SpaceError

gest_api = pytest.importorskip("gest_api")
from gest_api.vocs import VOCS  # noqa: E402

from baco_like.integrations import BacoGenerator, vocs_variables  # noqa: E402

SPACE = Space(
    {
        "tile": Ordinal([1, 2, 4, 8, 16], log=True, default=4),
        "n": Integer(1, 8, default=2),
        "wide": Integer(1, 10**6, log=True, default=10),
        "eps": Real(1e-6, 1e-1, log=True, default=1e-3),
        "flag": Categorical(["-O2", "-O3"], default="-O2"),
        "p": Permutation(["i", "j", "k"], default=["i", "j", "k"]),
    },
    constraints=["tile * n <= 64", "pos(p, 'i') < pos(p, 'k')"],
)
SMALL = Space({"a": [1, 2, 4], "b": Integer(0, 3)}, constraints=["a + b <= 5"])


def vocs_of(space, goal="MINIMIZE", **more):
    return VOCS(variables=vocs_variables(space), objectives={"f": goal}, **more)


def generator(space=SMALL, goal="MINIMIZE", *, strategy="random_search", batch=1, **more):
    return BacoGenerator(
        vocs_of(space, goal, **more), space, seed=1, strategy=strategy, batch=batch
    )


def test_points_are_feasible_and_new():
    made = generator(SPACE, constants={"alpha": 0.5}, observables={"compile_s"})
    points = made.suggest(20)
    assert made.returns_id
    assert {type(point["tile"]) for point in points} == {int}
    assert points[0]["p"] == "i,j,k"
    assert all(point["alpha"] == 0.5 for point in points)
    assert len({str({**point, "_id": 0}) for point in points}) == 20
    for point in points[::-1]:
        made.ingest([{**point, "f": np.float64(point["n"]), "compile_s": 0.1}])
    trials = made.optimizer.trials
    assert all(SPACE.contains(dict(trial.config)) for trial in trials)
    assert [trial.value for trial in trials] == [point["n"] for point in points[::-1]]
    assert trials[0].outcome.metrics == {"compile_s": 0.1}
    assert not made.optimizer.pending


def test_a_batch_has_the_exact_size_or_raises():
    made = generator(batch=4)
    assert len(made.suggest()) == 4
    assert made.suggest(0) == []
    with pytest.raises(ValueError, match="only 6 configurations are left"):
        made.suggest(7)
    assert len(made.suggest(6)) == 6
    with pytest.raises(ValueError, match="num_points = 1"):
        made.suggest(1)
    assert len(made.optimizer.pending) == SMALL.feasible_size == 10


def test_inactive_parameters_have_any_value():
    space = Space(
        {"a": [1, 2], "b": [1, 2, 3], "p": Permutation(["i", "j"])},
        when={"b": "a == 2", "p": "b == 3"},
    )
    made = generator(space, strategy="exhaustive")
    points = made.suggest(5)
    assert all({"a", "b", "p"} <= set(point) for point in points)
    made.ingest([{**point, "f": 1.0} for point in points[:4]])
    last = {name: value for name, value in points[4].items() if name != "_id"}
    made.ingest([{**last, "f": 1.0}])
    configs = [tuple(trial.config.items()) for trial in made.optimizer.trials]
    assert set(configs) == {tuple(config.items()) for config in space}
    made.ingest([{"a": 1, "b": 3, "p": "j,i", "f": 2.0}])  # another measurement of a = 1
    assert dict(made.optimizer.trials[-1].config) == {"a": 1}


def test_failures_are_observed_with_their_word():
    made = generator(constraints={"ran": ["GREATER_THAN", 0.5]}, observables={"failed"})
    points = made.suggest(5)
    outputs = [
        {"f": 1.0, "ran": True, "failed": ""},
        {"f": float("nan"), "ran": 1, "failed": ""},
        {"f": 2.0, "ran": 0, "failed": ""},
        {"f": 2.0, "ran": 0, "failed": "compile"},
        {"f": np.inf, "ran": 1, "failed": np.str_("timeout")},
    ]
    made.ingest([{**point, **out} for point, out in zip(points, outputs, strict=True)])
    trials = made.optimizer.trials
    words = [None, "runtime", "limit", "compile", "timeout"]
    assert [trial.failure for trial in trials] == words
    assert trials[2].message == "ran > 0.5 is not satisfied: ran = 0"
    assert trials[2].repeats == (2.0,)  # the model knows the value


@pytest.mark.parametrize(
    ("constraint", "limit", "inside", "beyond"),
    [
        (["GREATER_THAN", 0.5], "value('l1-misses') > 0.5", [0.6, True], [0.5, 0.0, False, np.nan]),
        (["LESS_THAN", 3], "value('l1-misses') < 3.0", [2.9, np.float32(1)], [3, 4.0, np.inf]),
        (["BOUNDS", -1, 2], "-1.0 <= value('l1-misses') <= 2.0", [-1, 2, 0], [-1.1, 2.5, None]),
    ],
)
@pytest.mark.filterwarnings("ignore::baco_like.FailureWarning")
def test_constraints_of_a_vocs_are_limits(constraint, limit, inside, beyond):
    made = generator(constraints={"l1-misses": constraint})
    assert made.optimizer.options.aim.limits == (limit,)
    values = [*inside, *beyond]
    points = made.suggest(len(values))
    made.ingest(
        [{**p, "f": 1.0, "l1-misses": value} for p, value in zip(points, values, strict=True)]
    )
    words = [trial.failure for trial in made.optimizer.trials]
    assert words == [None] * len(inside) + ["limit"] * len(beyond)


def test_points_without_id_are_observed():
    made = generator(observables={"watts"})
    known = [{"a": 1, "b": 0, "f": 3.0, "watts": 7}, {"a": np.int64(4), "b": 3.0, "f": 1.0}]
    made.ingest(known)
    made.ingest([{"a": 2, "b": 0, "f": float("nan"), "_id": float("nan")}])
    assert made.optimizer.trials.pop().failure == "runtime"
    assert made.optimizer.trials[0].outcome.metrics == {"watts": 7.0}
    assert [trial.value for trial in made.optimizer.trials] == [3.0, 1.0, None]
    assert {trial.origin for trial in made.optimizer.trials} == {"imported"}
    points = made.suggest(8)  # (4, 3) violates the constraint, and the others are known
    assert not {(1, 0), (2, 0)} & {(point["a"], point["b"]) for point in points}


def test_wrong_results_are_rejected_as_a_whole():
    made = generator(constraints={"ran": ["GREATER_THAN", 0.5]})
    (point,) = made.suggest(1)
    good = {**point, "f": 1.0, "ran": 1}
    wrong = [
        ([good, {**good, "_id": 99}], "99"),
        ([good, good], "twice"),
        ([{**good, "a": 6 - good["a"]}], "leave the _id of another generator out"),
        ([{**good, "b": 77}], "leave the _id of another generator out"),
        ([good, {"a": 1, "f": 1.0, "ran": 1}], "lacks b"),
        ([good, {"a": 1, "b": 0, "ran": 1}], "lacks f"),
        ([{**point, "f": 1.0}], "lacks ran"),
    ]
    for results, message in wrong:
        with pytest.raises(ValueError, match=message):
            made.ingest(results)
        assert not made.optimizer.trials
    made.ingest([good])
    with pytest.raises(ValueError, match="0"):
        made.ingest([good])


def test_several_objectives():
    variables = vocs_variables(SMALL)
    vocs = VOCS(variables=variables, objectives={"f": "MINIMIZE", "g": "MAXIMIZE"})
    made = BacoGenerator(vocs, SMALL, seed=1)
    points = made.suggest(6)
    made.ingest([{**p, "f": 1.0 + p["a"], "g": 2.0 * p["a"] - p["b"]} for p in points[:4]])
    made.ingest([{**points[4], "f": 1.0, "g": np.nan}])
    with pytest.raises(ValueError, match="the result lacks g"):
        made.ingest([{**points[5], "f": 1.0}])
    optimizer = made.optimizer
    assert [o.direction for o in optimizer.history.objectives] == ["minimize", "maximize"]
    assert [trial.failure for trial in optimizer.trials] == [None] * 4 + ["runtime"]
    assert optimizer.trials[0].metrics == {"g": 2.0 * points[0]["a"] - points[0]["b"]}
    assert optimizer.front


def test_an_unsuitable_vocs_is_rejected():
    plain = vocs_variables(SMALL)
    with pytest.raises(ValueError, match="needs one"):
        BacoGenerator(VOCS(variables=plain, objectives={"f": "MINIMIZE", "g": "EXPLORE"}))
    with pytest.raises(ValueError, match="needs one"):
        BacoGenerator(VOCS(variables=plain, objectives={"f": "EXPLORE"}))
    with pytest.raises(ValueError, match="'c' is contextual"):
        BacoGenerator(VOCS(variables={**plain, "c": "CONTEXTUAL"}, objectives={"f": "MINIMIZE"}))
    with pytest.raises(ValueError, match="variables of the VOCS are a, but the space has a, b"):
        BacoGenerator(VOCS(variables={"a": {1}}, objectives={"f": "MINIMIZE"}), SMALL)
    for other in ({1, 2}, [1, 2]):
        vocs = VOCS(variables={**plain, "a": other}, objectives={"f": "MINIMIZE"})
        with pytest.raises(ValueError, match="'a' of the VOCS does not have all values"):
            BacoGenerator(vocs, SMALL)
    with pytest.raises(SpaceError, match="at most 7 elements"):
        vocs_variables(Space({"p": Permutation(range(8))}))
    with pytest.raises(ValueError, match="batch must be"):
        generator(batch=0)


def test_a_vocs_is_converted_to_a_space():
    vocs = VOCS(
        variables={"x": [0.5, 2.0], "n": {4, 1, 2}, "flag": {"b", "a"}, "mixed": {"a", 1}},
        objectives={"f": "MINIMIZE"},
    )
    assert BacoGenerator(vocs).optimizer.space.parameters == {
        "x": Real(0.5, 2.0),
        "n": Ordinal([1, 2, 4]),
        "flag": Categorical(["a", "b"]),
        "mixed": Categorical([1, "a"]),
    }


def test_texts_have_the_same_order_in_every_process():
    code = (
        "from gest_api.vocs import VOCS\n"
        "from baco_like.integrations import BacoGenerator\n"
        "v = VOCS(variables={'c': set('abcdefgh')}, objectives={'f': 'MINIMIZE'})\n"
        "g = BacoGenerator(v, strategy='random_search')\n"
        "print([p['c'] for p in g.suggest(8)])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] != ""
