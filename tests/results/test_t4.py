from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like.evaluators.replay import load
from baco_like.records import Objective
from baco_like.records.trial import FAILURE_WORDS, Outcome, Trial
from baco_like.results import recorded_trials, write

TIME = Objective("time", "ms")


def write_t4(path: Path, trials: list[Trial], objective: Objective, metadata: Any = None) -> int:
    found = recorded_trials(trials, objective=objective.name, unit=objective.unit)
    return write(found, path, "t4", metadata)


def trial(number: int, outcome: Outcome | None) -> Trial:
    started = Trial(number, {"order": ("j", "i"), "tile": number, "flag": "-O2", "fast": False})
    return started if outcome is None else started.with_outcome(outcome)


def written(folder: Path, trials: list[Trial], objective: Objective = TIME) -> dict[str, Any]:
    path = folder / "t4.json.gz"
    write_t4(path, trials, objective, {"machine": "none"})
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return document


def test_reads_back_as_it_was_measured(tmp_path: Path) -> None:
    seconds = {"build": 0.25, "run": 0.5, "check": 0.125}
    done = trial(1, Outcome.success(1, (2.0, 3.5, 2.5), extra={"seconds": seconds}))
    assert write_t4(tmp_path / "t4.json", [done], TIME) == 1
    recorded = load(tmp_path / "t4.json")
    entry = recorded.find(done)
    assert entry is not None
    assert (entry.value, entry.repeats, entry.failed) == (2.5, (2.0, 3.5, 2.5), None)
    assert entry.seconds == {"compile": 0.25, "run": 0.5, "check": 0.125}
    assert (recorded.objective, recorded.unit) == ("time", "ms")
    assert recorded.domains["order"] == (("j", "i"),)


@pytest.mark.parametrize("word", FAILURE_WORDS)
def test_every_failure_word_of_the_format_survives(tmp_path: Path, word: str) -> None:
    failed = trial(1, Outcome.failure(1, word, "error: it broke\nand much more"))
    write_t4(tmp_path / "t4.json.gz", [failed], TIME)
    entry = load(tmp_path / "t4.json.gz").find(failed)
    assert entry is not None
    assert (entry.value, entry.failed, entry.message) == (
        None,
        word,
        "error: it broke\nand much more",
    )


def test_other_words_and_censored_values(tmp_path: Path) -> None:
    other = trial(1, Outcome.failure(1, "out of memory", "8 GiB"))
    censored = trial(2, Outcome.censored(2, 100.0, message="stopped"))
    rows = written(tmp_path, [other, censored])["results"]
    assert [row["invalidity"] for row in rows] == ["runtime", "timeout"]
    assert [row["correctness"] for row in rows] == [0, 0]
    assert [row["measurements"][0]["value"] for row in rows] == ["out of memory: 8 GiB", "stopped"]


def test_has_what_the_schema_asks_for(tmp_path: Path) -> None:
    document = written(tmp_path, [trial(1, Outcome.success(1, (1.0,))), trial(2, None)])
    assert document["schema_version"] == "1.0.0"
    assert document["metadata"] == {"timeunit": "milliseconds", "machine": "none"}
    (row,) = document["results"]  # pending trials are left out
    assert row["configuration"] == {"order": ["j", "i"], "tile": 1, "flag": "-O2", "fast": False}
    needed = {"configuration", "times", "invalidity", "correctness", "measurements", "objectives"}
    assert needed <= set(row)
    assert {"compilation", "framework", "search_algorithm", "validation", "runtimes"} <= set(
        row["times"]
    )
    assert row["measurements"] == [{"name": "time", "value": 1.0, "unit": "ms"}]
    assert row["objectives"] == ["time"]


def test_repeats_in_another_unit_are_no_runtimes(tmp_path: Path) -> None:
    done = trial(1, Outcome.success(1, (1.0, 2.0, 3.0)))
    (row,) = written(tmp_path, [done], Objective("power", "W"))["results"]
    assert row["times"]["runtimes"] == []
    assert row["measurements"] == [{"name": "power", "value": 2.0, "unit": "W"}]


def test_same_trials_same_bytes(tmp_path: Path) -> None:
    trials = [trial(i, Outcome.success(i, (1.0 / i,))) for i in range(1, 20)]
    for name in ("a.json.gz", "b.json.gz"):
        write_t4(tmp_path / name, trials, TIME)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_a_refused_value_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "t4.json"
    write_t4(path, [trial(1, Outcome.success(1, (1.0,)))], TIME)
    before = path.read_bytes()
    for wrong in (object(), math.inf):
        with pytest.raises(ValueError, match=r"JSON"):
            write_t4(path, [trial(2, Outcome.success(2, (1.0,)))], TIME, {"wrong": wrong})
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["t4.json"]


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=40)
@given(values=st.lists(finite, min_size=1, max_size=5), words=st.lists(st.text(), max_size=3))
def test_any_finite_values_and_any_words(
    tmp_path_factory: pytest.TempPathFactory, values: list[float], words: list[str]
) -> None:
    trials = [trial(i, Outcome.success(i, (value,))) for i, value in enumerate(values)]
    trials += [trial(100 + i, Outcome.failure(100 + i, word)) for i, word in enumerate(words)]
    path = tmp_path_factory.mktemp("t4") / "t4.json.gz"
    assert write_t4(path, trials, TIME) == len(trials)
    recorded = load(path)
    for one in trials:
        entry = recorded.find(one)
        assert entry is not None
        assert entry.value == one.value
        assert (entry.failed is None) == (one.value is not None)
