from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from baco_like.evaluators.replay import Recorded, ReplayEvaluator, load
from baco_like.evaluators.table import Table
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space


def t4_row(x: int, **changes: Any) -> dict[str, Any]:
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


def write(folder: Path, content: Any, name: str = "table.json") -> Path:
    path = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_t4(tmp_path: Path, name: str) -> None:
    table = load(write(tmp_path, T4, name).rename(tmp_path / "any-name"))
    assert table.names == ("x", "y")
    assert table.domains == {"x": (1, 2, 3, 4), "y": ("a",)}
    assert (table.objective, table.unit) == ("time", "ms")
    entry = table.entry({"y": "a", "x": 4})
    assert entry is not None
    assert (entry.value, entry.repeats, entry.failed) == (8.0, (4000.0, 12000.0), None)
    assert entry.seconds == {"compile": 0.5, "run": 16.0}
    failed = table.entry({"x": 2, "y": "a"})
    assert failed is not None
    assert (failed.value, failed.failed, failed.message) == (
        None,
        "compile",
        "CompilationFailedConfig",
    )
    assert failed.seconds == {"compile": 0.25}
    nan = table.entry({"x": 3, "y": "a"})
    assert nan is not None
    assert (nan.value, nan.failed) == (None, "runtime")
    assert table.entry({"x": 9, "y": "a"}) is None


def test_kernel_tuner_cache(tmp_path: Path) -> None:
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
    assert table.measured({"x": 1, "y": 0})
    assert not table.measured({"x": 4, "y": 1})


def test_a_cache_cut_anywhere_keeps_its_whole_entries(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "none of the formats that can be read: a journal"),
        ("[]", "none of the formats"),
        ('{"results": 3}', "none of the formats"),
        ('{"results": []}', "no entries"),
        ('{"results": [{}]}', "damaged"),
        ('{"results": [{"configuration": {"x": [1]}}]}', "damaged"),
        ('{"cache": {}}', "damaged"),
        ('{"tune_params_keys": ["x"], "tune_params": {"x": [1]}, "cache": {}}', "no entries"),
        ('{"tune_params_keys": ["x"], "tune_params": {"x": [1]}, "cache": {"1": 3}}', "damaged"),
        ("[" * 100_000, "none of the formats"),
        ('"cache": {' + "[" * 100_000, "none of the formats"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(EvaluatorError, match=message):
        load(write(tmp_path, content))


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
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_value_anywhere_is_read_or_told(
    tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
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


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(EvaluatorError, match="cannot be read"):
        load(tmp_path / "absent")
    path = tmp_path / "torn.gz"
    path.write_bytes(gzip.compress(json.dumps(T4).encode())[:-20])
    with pytest.raises(EvaluatorError, match="cannot be read"):
        load(path)


@pytest.fixture
def table(tmp_path: Path) -> Recorded:
    return load(write(tmp_path, T4))


def ask(evaluator: ReplayEvaluator, trial_id: int, x: int) -> Outcome:
    evaluator.submit(Trial(trial_id, {"x": x, "y": "a"}))
    (outcome,) = evaluator.wait()
    return outcome


def test_replay_answers_and_keeps_the_time(table: Recorded) -> None:
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


def test_values_may_be_drawn_from_the_repeats(table: Recorded) -> None:
    values = [ask(ReplayEvaluator(table, draw_seed=1), i, 4).value for i in range(40)]
    again = [ask(ReplayEvaluator(table, draw_seed=1), i, 4).value for i in range(40)]
    assert set(values) == {4000.0, 12000.0}
    assert values == again
    assert values != [ask(ReplayEvaluator(table, draw_seed=2), i, 4).value for i in range(40)]


def test_from_table(tmp_path: Path) -> None:
    write(tmp_path, T4)
    space = Space({"x": [1, 2, 3, 4], "y": ["a"]})
    entries = {"kind": "replay", "file": "table.json", "capacity": 4}
    made = ReplayEvaluator.from_table(Table("evaluator", entries), space, "ms", tmp_path)
    assert made.capacity == 4
    assert ask(made, 0, 1).value == 2.0
    with pytest.raises(RunFileError, match="did you mean 'file'"):
        ReplayEvaluator.from_table(Table("evaluator", {"fil": "x"}), space, "ms", tmp_path)
    other = Space({"x": [1], "xx": [2], "y": ["a"]})
    with pytest.raises(EvaluatorError, match="no parameter 'xx'"):
        ReplayEvaluator.from_table(Table("evaluator", entries), other, "ms", tmp_path)
    with pytest.raises(EvaluatorError, match="the space has no parameter 'y'"):
        ReplayEvaluator.from_table(Table("evaluator", entries), Space({"x": [1]}), "ms", tmp_path)
