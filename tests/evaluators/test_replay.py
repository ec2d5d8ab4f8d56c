import gzip
import json
import math
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baco_like import Aim, MaxEvals, Optimizer, Permutation, Search, run
from baco_like._tables import Table
from baco_like.evaluators import Repeats, ReplayEvaluator
from baco_like.evaluators.protocol import RunArguments
from baco_like.evaluators.replay import load
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.results import formats as storage
from baco_like.results.formats import Recording, read
from baco_like.results.recording import recorded_trials
from baco_like.spaces.space import Space


def t4_row(x, **changes):
    row = {
        "configuration": {"x": x, "y": "a"},
        "times": {"compilation": 500.0, "validation": 0, "runtimes": [1000.0 * x, 3000.0 * x]},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [
            {"name": "power", "value": 9, "unit": "W"},
            {"name": "time", "value": 2.0 * x, "unit": ""},
        ],
        "objectives": ["time"],
    }
    return {**row, **changes}


T4 = {
    "schema_version": "1.0.0",
    "metadata": {"timeunit": "miliseconds"},
    "results": [
        t4_row(4),
        t4_row(1),
        t4_row(
            2,
            invalidity="compile",
            measurements=[{"name": "time", "value": "CompilationFailedConfig", "unit": ""}],
            times={"compilation_time": 250.0},
        ),
        t4_row(3, measurements=[{"name": "time", "value": float("nan"), "unit": ""}]),
    ],
}

CACHE = """{
"device_name": "a \\"cache\\" device",
"tune_params_keys": ["x", "y"],
"tune_params": {"x": [1, 2, 4, 8], "y": [0, 1]},
"cache": {
"1,0": {"x": 1, "y": 0, "time": 5.0, "times": [4.0, 6.0], "compile_time": 100.0, "benchmark_time": 50.0},
"2,0": {"x": 2, "y": 0, "time": "CompilationFailedConfig", "compile_time": 70.0},
"4,0": {"x": 4, "y": 0, "time": 1.5, "__error__": "RuntimeFailedConfig"},
"8,0": {"x": 8, "y": 0, "time": "InvalidConfig"},
"1,1": {"x": 1, "y": 1, "time": 1e20},
"2,1": {"x": 2, "y": 1, "time": "Something new"}
}
}
"""


def write(folder, content, name="table.json"):
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_t4(tmp_path, name):
    table = load(write(tmp_path, T4, name).rename(tmp_path / "any-name"))
    assert table.names == ("x", "y")
    assert table.domains == {"x": (1, 2, 3, 4), "y": ("a",)}
    assert (table.objective, table.unit) == ("time", "ms")
    entry = table.find({"y": "a", "x": 4})
    assert (entry.value, entry.repeats, entry.failed) == (8.0, (4000.0, 12000.0), None)
    assert entry.seconds == {"compile": 0.5, "run": 16.0}
    failed = table.find({"x": 2, "y": "a"})
    assert (failed.value, failed.failed, failed.message) == (
        None,
        "compile",
        "CompilationFailedConfig",
    )
    assert failed.seconds == {"compile": 0.25}
    nan = table.find({"x": 3, "y": "a"})
    assert (nan.value, nan.failed) == (None, "runtime")
    assert table.find({"x": 9, "y": "a"}) is None


def test_kernel_tuner_cache(tmp_path):
    table = load(write(tmp_path, CACHE))
    assert table.domains == {"x": (1, 2, 4, 8), "y": (0, 1)}
    assert table.unit == "ms"
    words = {values: entry.failed for values, entry in table.entries.items()}
    assert words == {
        (1, 0): None,
        (2, 0): "compile",
        (4, 0): "runtime",
        (8, 0): "constraints",
        (1, 1): "runtime",
        (2, 1): "runtime",
    }
    entry = table.entries[1, 0]
    assert (entry.value, entry.repeats) == (5.0, (4.0, 6.0))
    assert entry.seconds == {"compile": 0.1, "run": 0.05}
    assert table.contains({"x": 1, "y": 0})
    assert not table.contains({"x": 4, "y": 1})


def test_a_cache_cut_anywhere_keeps_its_whole_entries(tmp_path):
    whole = load(write(tmp_path, CACHE)).entries
    first = CACHE.index('"1,0"')
    ends = [match.end() for match in re.finditer(r"\}(?=,?\n)", CACHE) if match.start() > first][:6]
    for cut in range(first, len(CACHE)):
        complete = sum(end <= cut for end in ends)
        path = write(tmp_path, CACHE[:cut])
        if complete == 0:
            with pytest.raises(EvaluatorError, match="no entries"):
                load(path)
        else:
            assert load(path).entries == dict(list(whole.items())[:complete])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2)
    ),
    max_leaves=4,
)
PLACES = [
    *(("results", 0, key) for key in t4_row(1)),
    ("results", 0, "configuration", "x"),
    ("results", 0, "measurements", 1),
    ("results", 0, "measurements", 1, "value"),
    ("results", 0, "times", "runtimes"),
    ("results", 0, "times", "compilation"),
    ("results", 0),
    ("metadata",),
    ("tune_params",),
    ("tune_params", "x"),
    ("tune_params_keys",),
    ("cache", "1,0"),
    ("cache", "1,0", "time"),
    ("cache", "1,0", "times"),
    ("cache", "1,0", "__error__"),
    ("objective",),
]


@given(st.sampled_from(PLACES), VALUES)
@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_anywhere_is_read_or_told(tmp_path, place, value):
    in_t4 = place[0] in ("results", "metadata")
    document = json.loads(json.dumps(T4) if in_t4 else CACHE)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    try:
        table = load(write(tmp_path, document))
    except EvaluatorError:
        return
    for entry in table.entries.values():
        assert (entry.value is None) != (entry.failed is None)
        assert entry.value is None or math.isfinite(entry.value)


@pytest.fixture
def table(tmp_path):
    return load(write(tmp_path, T4))


def ask(evaluator, trial_id, x):
    evaluator.submit(Trial(trial_id, {"x": x, "y": "a"}))
    (outcome,) = evaluator.wait()
    return outcome


def test_replay_answers_and_keeps_the_time(table):
    evaluator = ReplayEvaluator(table)
    assert ask(evaluator, 0, 4).value == 8.0
    assert ask(evaluator, 1, 4).value == 8.0
    assert evaluator.clock == 33.0
    failure = ask(evaluator, 2, 2)
    assert (failure.failed, failure.extra["seconds"]) == ("compile", {"compile": 0.25})
    assert ask(evaluator, 3, 17).failed == "constraints"
    assert evaluator.clock == 33.25
    with pytest.raises(EvaluatorError, match="without a submitted trial"):
        evaluator.wait()
    evaluator.close()


def test_values_may_be_drawn_from_the_repeats(table):
    values = [ask(ReplayEvaluator(table, draw_seed=1), i, 4).value for i in range(40)]
    again = [ask(ReplayEvaluator(table, draw_seed=1), i, 4).value for i in range(40)]
    assert set(values) == {4000.0, 12000.0}
    assert values == again
    assert values != [ask(ReplayEvaluator(table, draw_seed=2), i, 4).value for i in range(40)]


def test_from_table(tmp_path):
    write(tmp_path, T4)
    space = Space({"x": [1, 2, 3, 4], "y": ["a"]})
    entries = {"kind": "replay", "file": "table.json", "capacity": 4}
    made = ReplayEvaluator.from_table(
        Table("evaluator", entries), RunArguments(space, "ms", tmp_path)
    )
    assert made.capacity == 4
    assert ask(made, 0, 1).value == 2.0
    with pytest.raises(RunFileError, match="did you mean 'file'"):
        ReplayEvaluator.from_table(
            Table("evaluator", {"fil": "x"}), RunArguments(space, "ms", tmp_path)
        )
    other = Space({"x": [1], "xx": [2], "y": ["a"]})
    with pytest.raises(EvaluatorError, match="no parameter 'xx'"):
        ReplayEvaluator.from_table(Table("evaluator", entries), RunArguments(other, "ms", tmp_path))
    with pytest.raises(EvaluatorError, match="the space has no parameter 'y'"):
        ReplayEvaluator.from_table(
            Table("evaluator", entries), RunArguments(Space({"x": [1]}), "ms", tmp_path)
        )


# A simulated device -----------------------------------------------------------------------------------------------


def timed(seconds, capacity):
    rows = tuple((x,) for x in seconds)
    outcomes = tuple(
        Outcome.success(i, (1.0 * x,), extra={"seconds": {"run": took}})
        for i, (x, took) in enumerate(seconds.items())
    )
    return ReplayEvaluator(Recording(("x",), rows, outcomes, "time", "ms"), capacity=capacity)


def test_devices_work_side_by_side_and_the_first_to_end_is_told_first():
    device = timed({1: 5.0, 2: 1.0, 3: 2.0, 4: 0.5}, capacity=2)
    for x in (1, 2):
        device.submit(Trial(x, {"x": x}))
    ended = [(device.wait()[0].trial_id, device.clock)]
    device.submit(Trial(3, {"x": 3}))  # on the second device, from 1.0 to 3.0
    ended.append((device.wait()[0].trial_id, device.clock))
    device.submit(Trial(4, {"x": 4}))  # there again, from 3.0 to 3.5
    ended += [(device.wait()[0].trial_id, device.clock) for _ in range(2)]
    assert ended == [(2, 1.0), (3, 3.0), (4, 3.5), (1, 5.0)]
    device.submit(Trial(5, {"x": 2}))  # wait() was not called before 5.0
    device.wait()
    assert device.clock == 6.0
    device.submit(Trial(6, {"x": 1}))
    device.close()
    with pytest.raises(EvaluatorError, match="without a submitted trial"):
        device.wait()
    with pytest.raises(ValueError, match="capacity"):
        timed({1: 1.0}, capacity=0)


@given(
    st.lists(st.floats(0.0, 100.0), min_size=1, max_size=12), st.integers(min_value=1, max_value=4)
)
def test_the_clock_is_that_of_a_list_schedule(took, capacity):
    device = timed(dict(enumerate(took)), capacity)
    free = [0.0] * capacity
    ends = []
    for x, seconds in enumerate(took):
        if x >= capacity:
            device.wait()
        begin = max(min(free), device.clock)
        free[free.index(min(free))] = begin + seconds
        ends.append(begin + seconds)
        device.submit(Trial(x, {"x": x}))
    for _ in range(min(capacity, len(took))):
        device.wait()
    assert device.clock == max(ends)


def test_everything_of_an_outcome_is_replayed(tmp_path):
    outcomes = (
        Outcome.success(0, (1.0, 3.0), metrics={"energy": 4.0}, extra={"seconds": {"run": 2.0}}),
        Outcome.censored(1, 10.0, message="stopped"),
        Outcome.failure(2, "out of memory", "8 GiB"),
    )
    found = Recording(("x", "y"), ((1, "a"), (2, "a"), (3, "a")), outcomes, "time", "ms")
    for kind in ("t4", "kernel_tuner", "ktt", "csv"):
        storage.write(found, tmp_path / kind, kind)
        device = ReplayEvaluator(load(tmp_path / kind))
        ran, stopped, failed = (ask(device, i, i + 1) for i in range(3))
        assert (ran.value, ran.metrics, stopped.bound) == (2.0, {"energy": 4.0}, 10.0)
        assert (failed.failed, failed.message) == ("out of memory", "8 GiB")
        assert device.clock == 2.0
    storage.write(found, tmp_path / "baco", "baco")
    device = ReplayEvaluator(load(tmp_path / "baco"))
    assert [ask(device, i, i + 1).value for i in range(3)] == [2.0, None, None]


def test_a_journal_is_a_device(tmp_path):
    opt = Optimizer(
        Space({"x": [1, 2, 3], "y": ["a"]}),
        storage=tmp_path / "run.jsonl",
        strategy=Search(noise="repeat"),
    )
    for value in (1.0, 2.0, 6.0):
        opt.observe({"x": 1, "y": "a"}, [value, value + 1])
    opt.observe({"x": 2, "y": "a"}, 1.0)
    opt.observe({"x": 2, "y": "a"}, failed="runtime")
    table = load(tmp_path / "run.jsonl")
    assert table.entries[1, "a"].repeats == (1.0, 2.0, 2.0, 3.0, 6.0, 7.0)
    assert table.entries[1, "a"].value == 2.5
    assert table.entries[2, "a"].failed == "runtime"
    drawn = {ask(ReplayEvaluator(table, draw_seed=3), i, 1).value for i in range(60)}
    assert drawn == {1.0, 2.0, 3.0, 6.0, 7.0}


def test_texts_of_a_file_stand_for_the_values_of_a_space(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text('x,flag,p,kind,Value\n16.0,True,"(0, 1)",4,1.5\n0.25,false,"(1, 0)",8,2.5\n')
    table = load(path)
    for config, value in (
        ({"x": 16, "flag": True, "p": (0, 1), "kind": "4"}, 1.5),
        ({"x": 0.25, "flag": False, "p": (1, 0), "kind": "8"}, 2.5),
    ):
        entry = table.find(config)
        assert entry.value == value
    assert table.find({"x": 16, "flag": False, "p": (0, 1), "kind": "4"}) is None
    space = Space(
        {"x": [16, 0.25], "flag": [True, False], "p": Permutation([0, 1]), "kind": ["4", "8"]}
    )
    entries = {"file": "samples.csv", "objective": "Value"}
    ReplayEvaluator.from_table(Table("evaluator", entries), RunArguments(space, "ms", tmp_path))
    other = Space({**space.parameters, "kind": ["16"]})
    with pytest.raises(EvaluatorError, match=r"'kind': none of the recorded values \[4, 8\]"):
        ReplayEvaluator.from_table(Table("evaluator", entries), RunArguments(other, "ms", tmp_path))
    wrong = {"file": "samples.csv", "objective": "power"}
    with pytest.raises(EvaluatorError, match="lacks 'power'"):
        ReplayEvaluator.from_table(Table("evaluator", wrong), RunArguments(space, "ms", tmp_path))


def test_whole_numbers_beyond_the_exact_floats_are_not_confused(tmp_path):
    rows = [f"{2**60 + i},x,{i}.5" for i in range(3)]
    table = read(write(tmp_path, "\n".join(["big,kind,time", *rows, "1e20,x,7.5", ""]), "t.csv"))
    for i in range(3):  # the text is not equal, so that the numbers are compared as texts
        assert table.find({"big": 2**60 + i, "kind": ("x",)}).value == i + 0.5
    assert table.find({"big": 10**20, "kind": ("x",)}).value == 7.5
    assert table.find({"big": 2**60 + 3, "kind": ("x",)}) is None


def table_of_runs(*rows):
    """Return results of x = 0, 1, ... with these repeats in milliseconds, and a build of half a second."""
    times = {"compilation": 500.0, "validation": 0}
    results = [
        t4_row(
            x,
            times={**times, "runtimes": row},
            measurements=[{"name": "time", "value": sum(row) / len(row)}],
        )
        for x, row in enumerate(rows)
    ]
    return storage.from_t4({**T4, "results": results})


def replayed(device, count):
    outcomes = []
    for x in range(count):
        device.submit(Trial(x, {"x": x, "y": "a"}))
        outcomes += device.wait()
    return outcomes


def test_few_repeats_first_take_less_simulated_time():
    rows = ([1000.0] * 8, [2000.0] * 8, [1000.0] * 3 + [900.0] * 4 + [1000.0])
    device = ReplayEvaluator(table_of_runs(*rows), repeats=Repeats(99, first_repeats=2))
    outcomes = replayed(device, 3)
    assert [len(o.repeats) for o in outcomes] == [2, 2, 8]
    assert [o.value for o in outcomes] == [1000.0, 2000.0, pytest.approx(950.0)]
    assert [o.seconds["run"] for o in outcomes] == [2.0, 4.0, pytest.approx(7.6)]
    assert device.clock == pytest.approx(3 * 0.5 + 13.6)


def test_all_repeats_are_made_while_they_take_little_of_the_build():
    """The build takes 500 ms; four runs of 10 ms may be made, but not eight."""
    device = ReplayEvaluator(table_of_runs([10.0] * 20), repeats=Repeats(99, first_repeats=2))
    assert len(replayed(device, 1)[0].repeats) == 8


def test_a_slow_configuration_is_stopped_at_the_limit_of_the_moment():
    device = ReplayEvaluator(
        table_of_runs([1000.0] * 4, [9000.0] * 4), repeats=Repeats(99, slow_ratio=2.0)
    )
    _, slow = replayed(device, 2)
    assert (slow.bound, slow.is_slow, slow.seconds["run"]) == (2000.0, True, pytest.approx(2.0))
    resumed = ReplayEvaluator(
        table_of_runs([1000.0] * 4, [9000.0] * 4), repeats=Repeats(99, slow_ratio=2.0)
    )
    resumed.recall([Trial(0, {"x": 0, "y": "a"}, outcome=Outcome.success(0, (1000.0,)))])
    resumed.submit(Trial(1, {"x": 1, "y": "a"}))
    assert resumed.wait() == [slow]


def test_drawn_repeats_do_not_go_with_a_rule():
    with pytest.raises(EvaluatorError, match="draw_seed draws one repeat"):
        ReplayEvaluator(table_of_runs([1.0, 1.0]), draw_seed=1, repeats=Repeats())


def test_results_beyond_the_limits_of_their_run_have_their_values():
    source = Optimizer({"x": [1, 2, 3]}, Aim({"time": "minimize"}, ["mem <= 1"]))
    for x in (1, 2, 3):
        source.observe({"x": x}, {"time": 5.0 - x, "mem": x})
    table = recorded_trials(source.trials, objective="time")
    again = Optimizer(source.space, Aim({"time": "minimize"}, ["mem <= 2"]))
    run(again, ReplayEvaluator(table), MaxEvals(3))
    found = {trial["x"]: (trial.value, trial.failure) for trial in again.trials}
    assert found == {1: (4.0, None), 2: (3.0, None), 3: (None, "limit")}
