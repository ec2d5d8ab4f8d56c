"""Results of every format, read and written by one function each."""

from __future__ import annotations

import gzip
import json
import math
import os
import secrets
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import (
    Categorical,
    Optimizer,
    Ordinal,
    Permutation,
    Sequence,
    Space,
    WarmStart,
    WarmStartWarning,
    cli,
)
from baco_like._output import replace_file
from baco_like.exceptions import RunFileError, SpaceError
from baco_like.records.trial import FAILURE_WORDS, Outcome, Status, Trial
from baco_like.results import Recording, read, write
from baco_like.results.formats import FORMATS
from baco_like.results.recording import recorded_trials

SPACE = Space(
    {"tile": Ordinal([1, 2, 4], log=True), "loops": Permutation(["i", "j"])},
    constraints=["tile > 1 or pos(loops, 'i') == 0"],
)

EXACT = ("t4", "kernel_tuner", "ktt", "csv")
COLUMNS = "id,x,v,status,failed,message,bound,sem,repeats,origin,worker,started,ended,baco_like\n"
"""The formats that say everything; BaCO's CSV has only the value and whether it ran."""

# There and back -------------------------------------------------------------------------------------------------

numbers = st.floats(allow_nan=False, allow_infinity=False)
times = st.floats(min_value=1e-9, max_value=1e5)
words = st.sampled_from(FAILURE_WORDS) | st.text(min_size=1, max_size=8)
columns = st.sampled_from(
    [
        st.integers(-(2**70), 2**70),
        numbers,
        st.text(max_size=6),
        st.booleans(),
        st.permutations([0, 1, 2]).map(tuple),
        st.permutations(["i", "j"]).map(tuple),
        st.sampled_from(
            [1, 1.0, True, "1", "true", "1.0", "[1]", "null", "", " x", 'a"b', "a\r\nb"]
        ),
    ]
)
outcomes = st.one_of(
    st.builds(
        Outcome.success,
        st.just(0),
        st.lists(numbers, min_size=1, max_size=4).map(tuple),
        metrics=st.dictionaries(st.text(max_size=5), numbers, max_size=2),
        extra=st.just({}) | st.fixed_dictionaries({"note": st.text(max_size=5)}),
    ),
    st.builds(Outcome.failure, st.just(0), words, st.text(max_size=20)),
    st.builds(Outcome.censored, st.just(0), numbers, words, st.text(max_size=9)),
)
stages = st.dictionaries(
    st.sampled_from(["compile", "run", "check", "overhead", "link"]), times, max_size=3
)


@st.composite
def recordings(draw: Any) -> Recording:
    name = st.text(max_size=5) | st.sampled_from(["status", "message", "Name", "value"])
    names = draw(st.lists(name, min_size=1, max_size=3, unique=True))
    kinds = [draw(columns) for _ in names]
    rows = draw(st.lists(st.tuples(*kinds), min_size=1, max_size=4, unique_by=repr))
    found = []
    for number, _ in enumerate(rows):
        outcome, seconds = draw(outcomes), draw(stages)
        extra = {**outcome.extra, **({"seconds": seconds} if seconds else {})}
        found.append(replace(outcome, trial_id=number, extra=extra))
    objective = draw(st.sampled_from(["time", "power", "a [b]"]))
    unit = draw(st.sampled_from(["ms", "s", ""]))
    return Recording(tuple(names), tuple(rows), tuple(found), objective, unit)


def same(one: Recording, other: Recording) -> bool:
    """Whether two recordings are equal, 1, 1.0 and True being three values."""
    return repr((one.names, one.rows, one.domains)) == repr(
        (other.names, other.rows, other.domains)
    ) and (one == other)


@pytest.mark.parametrize("kind", EXACT)
@given(found=recordings())
def test_there_and_back_nothing_changes(
    tmp_path_factory: pytest.TempPathFactory, kind: str, found: Recording
) -> None:
    path = tmp_path_factory.mktemp("there") / "results.gz"
    assert write(found, path, kind) == len(found)
    assert same(read(path), found)


def test_what_the_whole_says_stays_too(journal: Path, tmp_path: Path) -> None:
    found = read(journal)
    for kind in ("t4", "kernel_tuner", "ktt"):
        write(found, tmp_path / kind, kind)
        assert same(read(tmp_path / kind), found)
    write(found, tmp_path / "csv", "csv")
    assert same(
        read(tmp_path / "csv"),
        replace(found, direction=None, described=None, domains={}, context={}),
    )


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    found = Recording(("x",), ((1,),), (Outcome.success(0, (1.0,)),), "time", "ms")
    for kind, place in (("t4", "metadata"), ("ktt", "Metadata"), ("kernel_tuner", None)):
        write(found, tmp_path / kind, kind, {"device_name": "none of ours"})
        told = json.loads((tmp_path / kind).read_text())
        assert (told if place is None else told[place])["device_name"] == "none of ours"
        assert same(read(tmp_path / kind), found)


@pytest.mark.parametrize("name", ["time", "times", "compile_time", "__error__", "baco_like"])
def test_names_that_a_cache_of_kernel_tuner_has_itself(tmp_path: Path, name: str) -> None:
    found = Recording((name,), ((1,),), (Outcome.success(0, (1.0,)),), "time", "ms")
    with pytest.raises(ValueError, match=f"its own '{name}'; rename"):
        write(found, tmp_path / "cache", "kernel_tuner")
    for kind in ("t4", "ktt", "csv"):
        write(found, tmp_path / kind, kind)
        assert same(read(tmp_path / kind), found)


def test_a_plain_row_has_nothing_of_ours(tmp_path: Path) -> None:
    outcome = Outcome.success(0, (1.5, 2.5, 2.0), extra={"seconds": {"compile": 0.1, "run": 0.3}})
    failure = Outcome.failure(1, "compile", "no such register")
    found = Recording(("x",), ((1,), (2,)), (outcome, failure), "time", "ms")
    for kind in ("t4", "kernel_tuner", "ktt"):
        write(found, tmp_path / kind, kind)
    assert "baco_like" not in (tmp_path / "t4").read_text()
    rows = json.loads((tmp_path / "kernel_tuner").read_text())["cache"]
    assert ["baco_like" in row for row in rows.values()] == [False, True]  # it has no messages
    rows = json.loads((tmp_path / "ktt").read_text())["Results"]
    assert ["baco_like" in row for row in rows] == [True, True]  # nor have KTT's, and no repeats


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    found = Recording(("x",), ((1,),), (Outcome.success(0, (1.0,)),), "power", "W")
    path = tmp_path / "results.json"
    write(found, path, "t4")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"'W' is not a unit of time.*write t4 or csv"):
        write(found, path, "ktt")
    with pytest.raises(ValueError, match="'t5' is unknown; it is one of t4, kernel_tuner"):
        write(found, path, "t5")
    with pytest.raises(ValueError, match="'csv' has no place for metadata"):
        write(found, path, "csv", {"device": "none"})
    wrong = replace(found.outcomes[0], extra={"note": math.nan})
    for kind in EXACT[:2]:
        with pytest.raises(ValueError, match="JSON"):
            write(replace(found, outcomes=(wrong,)), path, kind)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]
    assert set(EXACT) | {"baco"} == set(FORMATS)


# Runs -----------------------------------------------------------------------------------------------------------


def run_with_code(path: Path) -> Optimizer:
    """Return a run whose space has a callable as a constraint; its first trial fails."""
    space = Space(
        {"n": [1, 2, 4, 8], "kind": ["a", "b"], "p": Permutation(range(3))},
        constraints=[lambda n, kind: n > 1 or kind == "a"],
    )
    opt = Optimizer(space, {"time": "minimize"}, strategy="random_search", storage=path)
    for number, trial in enumerate(opt.suggest(6)):
        failed = None if number else "compile"
        opt.observe(
            trial, None if failed else {"time": [1.0, 1.0 + number], "energy": 3.0}, failed=failed
        )
    return opt


def run_with_tasks(path: Path) -> Optimizer:
    space = Space(
        {"kind": ["a", "b"], "tile": [1, 2]},
        when={"tile": "kind == 'b'"},
        tasks=[{"n": 1}, {"n": 2}],
    )
    opt = Optimizer(space, {"time": "minimize"}, storage=path)
    for n in (1, 2):
        opt.observe({"kind": "a", "n": n}, 2.0 * n)
        opt.observe({"kind": "b", "tile": 2, "n": n}, 1.0 * n)
    return opt


def run_with_a_sequence(path: Path) -> Optimizer:
    """Return a run of ten trials, the first one without passes."""
    space = Space({"passes": Sequence(["gvn", "loop(a,b)", "dce"], 4), "u": [1, 2, 4, 8]})
    opt = Optimizer(space, {"time": "minimize"}, strategy="random_search", storage=path)
    opt.enqueue({"passes": (), "u": 2})
    for trial in opt.suggest(10):
        opt.observe(trial, len(trial["passes"]) + 1.0 / trial["u"])
    return opt


@pytest.mark.parametrize("make", [run_with_code, run_with_tasks, run_with_a_sequence])
@pytest.mark.parametrize("kind", [*EXACT, "baco", "frame"])
def test_a_run_comes_back(tmp_path: Path, kind: str, make: Any) -> None:
    opt, path = make(tmp_path / "run.jsonl"), tmp_path / "file.gz"
    if kind == "baco" and make is run_with_a_sequence:
        with pytest.raises(SpaceError, match="no sequences; use the journal"):
            opt.export(kind, path)
        return
    if kind == "frame":
        opt.to_dataframe().to_csv(path, index=False)
    else:
        command = ["export", "--format", kind, str(tmp_path / "run.jsonl"), str(path)]
        assert cli.main(command) == 0
    found = read(path)
    assert found.configs == [dict(trial.config) for trial in opt.trials]
    assert [one.value for one in found.outcomes] == [trial.value for trial in opt.trials]
    if kind in EXACT:
        told = [(o.repeats, o.metrics, o.failed, o.sem) for o in found.outcomes]
        assert told == [(t.repeats, t.metrics, t.failure, t.outcome.sem) for t in opt.trials]
    again = Optimizer(opt.space, {"time": "minimize"}, warm_start=WarmStart(path))
    assert [t.value for t in again.history.trials] == [t.value for t in opt.trials]


# Our journals ---------------------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "run.jsonl"
    context = {"[objective] unit": "ms"}
    opt = Optimizer(SPACE, {"time": "minimize"}, storage=path, context=context)
    one, two, three, _pending = opt.suggest(4)
    opt.observe(one, [1.0, 3.0], extra={"seconds": {"build": 0.5, "run": 1.5}})
    opt.observe(two, failed="compile", message="error\nand more")
    opt.observe(three, failed="timeout", bound=10.0)
    return path


def test_a_journal(journal: Path) -> None:
    found = read(journal)
    trials = Optimizer.load(journal).trials
    assert found.names == ("tile", "loops")
    assert found.configs == [dict(trial.config) for trial in trials]
    assert [one.status for one in found.outcomes] == [Status.OK, Status.FAILED, Status.CENSORED]
    assert found.outcomes[0].value == 2.0
    assert found.outcomes[0].repeats == (1.0, 3.0)
    assert found.outcomes[0].extra["seconds"] == {"compile": 0.5, "run": 1.5}
    assert found.outcomes[1].message == "error\nand more"
    assert found.outcomes[2].bound == 10.0
    assert (found.objective, found.unit, found.direction) == ("time", "ms", "minimize")
    assert found.space().to_dict() == SPACE.to_dict()
    assert found.parameters == SPACE.parameters


def test_a_journal_without_an_observation(tmp_path: Path) -> None:
    Optimizer(SPACE, storage=tmp_path / "run.jsonl").suggest()
    with pytest.raises(RunFileError, match="this run has no observations"):
        read(tmp_path / "run.jsonl")
    with pytest.raises(ValueError, match="no entries"):
        Optimizer(SPACE).export("t4", tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_compressed_journal_is_told_as_such(journal: Path) -> None:
    packed = journal.with_name("run.jsonl.gz")
    packed.write_bytes(gzip.compress(journal.read_bytes()))
    with pytest.raises(RunFileError, match="unpack it first"):
        read(packed)


def test_rows_of_other_parameters_are_left_out_and_counted(tmp_path: Path) -> None:
    opt = Optimizer(Space({"x": [1, 2]}))
    opt.observe({"x": 1}, 1.0)
    opt.observe({"x": 1, "y": 2}, 2.0, imported=True)
    found = recorded_trials(opt.trials)
    assert found.rows == ((1,),)
    assert found.notes == ("rows with other parameters than x that were left out: 1",)


# As spaces ------------------------------------------------------------------------------------------------------


def test_the_rows_are_the_space_where_the_file_describes_none() -> None:
    outcomes = (
        Outcome.success(0, (1.0,)),
        Outcome.failure(1, "runtime"),
        Outcome.failure(2, "constraints"),
    )
    found = Recording(("x", "p"), ((1, (0, 1)), (2, (1, 0)), (2, (0, 1))), outcomes)
    assert list(found.space()) == [{"x": 1, "p": (0, 1)}, {"x": 2, "p": (1, 0)}]
    assert found.parameters == {"x": Ordinal([1, 2]), "p": Permutation([0, 1])}
    with pytest.raises(SpaceError, match="no row"):
        Recording(("x",), ((1,),), outcomes[2:]).space()


# Other tools' files ---------------------------------------------------------------------------------------------


def saved(folder: Path, content: Any) -> Path:
    path = folder / "file"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def ktt(**changes: Any) -> dict[str, Any]:
    """Return a file as KTT writes it."""
    row = {
        "KernelName": "k",
        "Status": "Ok",
        "TotalDuration": 0.002,
        "TotalOverhead": 0.75,
        "ExtraDuration": 0.0,
        "DataMovementOverhead": 0.125,
        "ValidationOverhead": 0.25,
        "SearcherOverhead": 0.0625,
        "CompilationOverhead": 0.5,
        "ProfilingOverhead": 0.0,
        "Configuration": [
            {"Name": "size", "ValueType": "UnsignedInt", "Value": 16},
            {"Name": "kind", "ValueType": "String", "Value": "float4"},
        ],
        "ComputationResults": [],
    }
    return {
        "Metadata": {"ComputeApi": "CUDA", "Device": "none", "TimeUnit": "Seconds"},
        "Results": [{**row, **changes}],
    }


def test_ktt(tmp_path: Path) -> None:
    found = read(saved(tmp_path, ktt()))
    assert found.configs == [{"size": 16, "kind": "float4"}]
    assert (found.objective, found.unit) == ("time", "s")
    assert found.outcomes[0].value == 0.002
    assert found.outcomes[0].extra["seconds"] == {
        "compile": 0.5,
        "check": 0.25,
        "overhead": 0.125,
        "run": 0.002,
    }


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("ComputationFailed", "runtime"),
        ("ValidationFailed", "correctness"),
        ("CompilationFailed", "compile"),
        ("DeviceLimitsExceeded", "runtime"),
        ("SomethingNew", "runtime"),
    ],
)
def test_what_failed_in_ktt(tmp_path: Path, status: str, word: str) -> None:
    found = read(saved(tmp_path, ktt(Status=status, TotalDuration=1.8446744073709552e13)))
    assert (found.outcomes[0].failed, found.outcomes[0].message) == (word, status)
    assert found.outcomes[0].value is None


def test_an_older_file_of_ktt(tmp_path: Path) -> None:
    old = ktt()
    (row,) = old["Results"]
    old["Metadata"] = {"TimeUnit": "Nanoseconds"}
    for name in [name for name in row if name.endswith("Overhead") and name != "TotalOverhead"]:
        del row[name]
    row["TotalDuration"], row["TotalOverhead"] = 2000.0, 1e9
    row["Configuration"] = [
        {"Name": "size", "IsDouble": False, "Value": 16},
        {"Name": "share", "IsDouble": True, "Value": 0.5},
    ]
    found = read(saved(tmp_path, old))
    assert found.configs == [{"size": 16, "share": 0.5}]
    assert (found.outcomes[0].value, found.unit) == (2000.0, "ns")
    assert found.outcomes[0].extra["seconds"] == {"overhead": 1.0, "run": 2e-6}


def t4_rows(
    folder: Path, outcomes: list[Outcome], objective: str = "time", unit: str = "ms"
) -> Any:
    """Return the document of a file, and its rows."""
    config = {"order": ("j", "i"), "tile": 1, "flag": "-O2", "fast": False}
    trials = [Trial(i, config, outcome=outcome) for i, outcome in enumerate(outcomes)]
    found = recorded_trials([*trials, Trial(9, config)], objective=objective, unit=unit)
    write(found, folder / "t4", "t4", {"machine": "none"})
    document = json.loads((folder / "t4").read_text())
    return document, document["results"]


def test_t4_has_what_the_schema_asks_for(tmp_path: Path) -> None:
    document, (row,) = t4_rows(tmp_path, [Outcome.success(1, (1.0,))])  # none that is pending
    assert document["schema_version"] == "1.0.0"
    assert document["metadata"] == {"timeunit": "milliseconds", "machine": "none"}
    assert row["configuration"] == {"order": ["j", "i"], "tile": 1, "flag": "-O2", "fast": False}
    needed = {"configuration", "times", "invalidity", "correctness", "measurements", "objectives"}
    assert needed <= set(row)
    times = {"compilation", "framework", "search_algorithm", "validation", "runtimes"}
    assert times <= set(row["times"])
    assert row["measurements"] == [{"name": "time", "value": 1.0, "unit": "ms"}]
    assert row["objectives"] == ["time"]
    other, censored = (
        Outcome.failure(1, "out of memory", "8 GiB"),
        Outcome.censored(2, 100.0, message="stopped"),
    )
    _, rows = t4_rows(tmp_path, [other, censored])
    assert [row["invalidity"] for row in rows] == ["runtime", "timeout"]
    assert [row["correctness"] for row in rows] == [0, 0]
    assert [row["measurements"][0]["value"] for row in rows] == ["out of memory: 8 GiB", "stopped"]
    _, (row,) = t4_rows(tmp_path, [Outcome.success(1, (1.0, 2.0, 3.0))], "power", "W")
    assert row["times"]["runtimes"] == []  # they are in milliseconds
    assert row["measurements"] == [{"name": "power", "value": 2.0, "unit": "W"}]


def test_t4_as_ktt_writes_it_with_values_as_texts(tmp_path: Path) -> None:
    row = {
        "timestamp": "",
        "configuration": {"a": "16", "b": "0.500000", "c": "-3", "d": "true", "e": "float4"},
        "times": {"compilation_time": 2.0, "framework": 0, "validation": 1.0, "runtimes": [0.25]},
        "invalidity": "correct",
        "correctness": 1,
        "objectives": ["time"],
        "measurements": [
            {"name": "time", "value": 0.25, "unit": ""},
            {"name": "registers", "type": "UnsignedInt", "value": 32, "unit": ""},
        ],
    }
    metadata = {"autotuner": "KTT", "timeunit": "seconds"}
    found = read(saved(tmp_path, {"metadata": metadata, "results": [row]}))
    assert found.configs == [{"a": 16, "b": 0.5, "c": -3, "d": True, "e": "float4"}]
    assert (found.unit, found.outcomes[0].metrics) == ("s", {"registers": 32.0})
    assert found.outcomes[0].extra["seconds"] == {"compile": 2.0, "check": 1.0, "run": 0.25}


def test_a_cache_of_kernel_tuner_1_5(tmp_path: Path) -> None:
    rows = {
        "1": {"x": 1, "time": 2.0, "energy": 5.0, "times": [1.0, 3.0], "compile_time": 100.0},
        "2": {"x": 2, "__error__": "InvalidConfig", "compile_time": 0},
    }
    cache = {"tune_params_keys": ["x"], "tune_params": {"x": [1, 2, 4]}, "objective": ["time"]}
    path = saved(tmp_path, {**cache, "cache": rows})
    found = read(path)
    assert (found.objective, found.unit, found.domains) == ("time", "ms", {"x": (1, 2, 4)})
    assert (found.outcomes[0].value, found.outcomes[0].metrics) == (2.0, {"energy": 5.0})
    assert found.outcomes[1].failed == "constraints"
    other = read(path, objective="energy")
    assert (other.objective, other.unit, other.outcomes[0].value) == ("energy", "", 5.0)
    assert other.outcomes[0].metrics == {"time": 2.0}
    with pytest.raises(RunFileError, match=r"no measurement 'power'; it has .*energy, time"):
        read(path, objective="power")
    path = saved(tmp_path, {**cache, "cache": rows, "objective": ["time", "energy"]})
    with pytest.raises(RunFileError, match=r"several objectives .time, energy.; name the one"):
        read(path)
    assert read(path, objective="time").objective == "time"


SAMPLES = """x,tile,p,runtime,Valid,timestamp
0.0,4,"(0, 2, 1)",14.527795791625977,True,1700000000000
-3.5,8,"(2, 1, 0)",-1.0,False,1700000000011
"""


def test_samples_of_baco_without_the_scenario(tmp_path: Path) -> None:
    found = read(saved(tmp_path, SAMPLES))
    assert found.configs == [
        {"x": 0.0, "tile": 4, "p": (0, 2, 1)},
        {"x": -3.5, "tile": 8, "p": (2, 1, 0)},
    ]
    assert found.objective == "runtime"
    assert [one.value for one in found.outcomes] == [14.527795791625977, None]
    assert found.outcomes[1].failed == "runtime"


@pytest.mark.parametrize(
    ("text", "names", "objective", "values"),
    [
        ("a,b,Value\n1,x,2.5\n2,y,nan\n", ("a", "b"), "Value", [2.5, None]),
        ("a,b,Value,ok\n1,x,2.5,true\n2,y,3,false\n", ("a", "b"), "Value", [2.5, None]),
        ("a, Value, Timestamp\n1, 2.5, 0\n2, 3, 1\n3,", ("a",), "Value", [2.5, 3.0]),
        ("a,time,energy,Valid\n1,2.5,7,True\n", ("a",), "time", [2.5]),
    ],
)
def test_samples_with_fewer_columns(
    tmp_path: Path, text: str, names: tuple[str, ...], objective: str, values: list[float]
) -> None:
    path = saved(tmp_path, text)
    found = read(path, objective=objective if "energy" in text else None)
    assert (found.names, found.objective) == (names, objective)
    assert [one.value for one in found.outcomes] == values
    with pytest.raises(RunFileError, match="lacks 'power'"):
        read(path, objective="power")
    with pytest.raises(RunFileError, match="no parameter before the objective 'a'; move"):
        read(path, objective="a")


def test_samples_there_and_back(tmp_path: Path) -> None:
    found = read(saved(tmp_path, SAMPLES))
    write(found, tmp_path / "back", "baco")
    assert (tmp_path / "back").read_text().lower() == SAMPLES.lower()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("some text", "unknown format; known formats are a journal .* T4 .* KTT's .* a CSV"),
        ({"ConfigurationSpace": {}}, r"describes a space, for Space.from_t1"),
        ({"input_parameters": {}}, r"describes a space, for Space.from_baco"),
        (SPACE.to_dict(), r"describes a space, for Space.from_dict"),
        ({"metadata": {}, "schema_version": "1.0.0"}, "unknown format"),
        ("SQLite format 3\0\1,\n", "unknown format; known formats are"),
        ("SQLite format 3\0,", "unknown format; known formats are"),
        ("a,b", "without a complete line"),
        ({"Results": []}, "no entries"),
        ({"Results": [{}]}, "damaged"),
        ({"Results": [3]}, "damaged"),
        (ktt(Status=3, Configuration=3), "damaged"),
        ("a,a,b\n1,1,2\n", "two columns"),
        ("a,b\n", "no entries"),
        ("a,b\n1,2,3\n", "damaged"),
        ("Value,Valid\n1,True\n", "lacks parameters and an objective"),
        (
            f"{COLUMNS}0,1,,ok,,,,,,,,,,\n",
            "damaged.*'ok'",
        ),
        (f"{COLUMNS}0,1,2,what,,,,,,,,,,\n", "damaged"),
        (f"{COLUMNS}0,1,2,ok,,,,,,,,,,{{\n", "damaged"),
        (f"{COLUMNS}0,1,2,ok,,,,,,,,,,3\n", "damaged"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: Any, message: str) -> None:
    path = saved(tmp_path, content)
    with pytest.raises(RunFileError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))


def test_a_file_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut, the name stands for the old content or for the whole new one."""
    calls = []
    sync, rename = os.fsync, os.replace

    def fsync(fd: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "sync file")
        sync(fd)

    def replace(old: Path, new: Path) -> None:
        calls.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    replace_file(tmp_path / "results.csv", b"new")
    assert calls == ["sync file", "rename", "sync folder"]
    assert os.listdir(tmp_path) == ["results.csv"]


def test_writing_a_file_follows_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0")
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "results.csv.0.part").symlink_to(other)
    with pytest.raises(FileExistsError):
        replace_file(tmp_path / "results.csv", b"new")
    assert other.read_text() == "kept"
    assert not (tmp_path / "results.csv").exists()


@pytest.mark.parametrize("limit", ["MOST_BYTES", "_MOST_MEMBERS"])
def test_empty_parts_of_a_compressed_file_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    path = tmp_path / "r"
    path.write_bytes(gzip.compress(b"") * 200 + gzip.compress(b"x,time\n1,2\n"))
    assert len(read(path)) == 1
    monkeypatch.setattr(f"baco_like.results.files.{limit}", 200)
    with pytest.raises(RunFileError, match="allow it"):
        read(path)
    assert len(read(path, large=True)) == 1


def test_named_pipes_and_devices_are_no_files_of_results(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it would wait for its other end
    for path in (pipe, Path(os.devnull)):
        with pytest.raises(RunFileError, match="not a regular file"):
            read(path)
    before = pipe.lstat()
    for target in (pipe, tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            replace_file(target, b"new")
    assert os.path.samestat(before, pipe.lstat())
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize(
    "header",
    ["x,v\n{},2\n", f"{COLUMNS}0,{{}},2,ok,,,,,,,,,,\n"],
)
def test_brackets_in_a_cell_cannot_exhaust_the_stack(tmp_path: Path, header: str) -> None:
    cell = "(" * 20_000 + ")" * 20_000
    path = saved(tmp_path, header.format(cell))
    assert len(read(path)) == 1


def test_a_value_that_no_parameter_can_have_is_refused(tmp_path):
    row = {"configuration": {"a": {"b": 1}}, "invalidity": "correct", "measurements": []}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"results": [row], "schema_version": "1.0.0"}))
    with pytest.raises(RunFileError, match="'a' has the value"):
        read(path)


def test_any_measurement_of_a_journal_may_count(tmp_path):
    opt = Optimizer(
        {"a": [1, 2, 4]}, {"time": "minimize"}, strategy="exhaustive", storage=tmp_path / "j"
    )
    opt.observe(opt.suggest(), {"time": [0.5, 1.5], "energy": [8.0, 9.0, 9.5], "size": [2, 3]})
    opt.observe(opt.suggest(), failed="timeout", bound=5.0)
    opt.observe(opt.suggest(), 3.0)
    found = read(tmp_path / "j", objective="energy")
    assert (found.objective, found.direction, len(found)) == ("energy", None, 2)
    first = found.outcomes[0]
    assert (first.value, first.metrics) == (9.0, {"time": 1.0, "size": 2.5})
    assert first.repeats == (8.0, 9.0, 9.5)
    assert first.metric_repeats == {"time": (0.5, 1.5), "size": (2.0, 3.0)}
    assert (found.outcomes[1].failed, found.outcomes[1].bound) == ("timeout", None)
    assert found.notes == ("rows without the measurement 'energy' that were left out: 1",)
    with pytest.raises(RunFileError, match="is 'time', and it has no measurement 'power'"):
        read(tmp_path / "j", objective="power")


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize(("name", "direction"), [("energy", (None,)), ("GB/s", (None, "maximize"))])
def test_unit_and_direction_belong_to_the_objective(tmp_path, kind, name, direction):
    opt = Optimizer({"a": [1, 2, 4]}, {"time": "minimize"}, storage=tmp_path / "j")
    for a in (1, 2):
        opt.observe({"a": a}, {"time": 1.0 * a, name: 5.0 / a})
    write(replace(read(tmp_path / "j"), unit="s"), tmp_path / "file", kind)
    assert read(tmp_path / "file").unit == "s"
    found = read(tmp_path / "file", objective=name)
    assert (found.unit, found.direction in direction) == ("", True)
    again = Optimizer({"a": [1, 2, 4]}, {name: "maximize"}, warm_start=tmp_path / "file")
    assert again.best_value == 5.0


@pytest.mark.parametrize("index", [True, False])
def test_a_data_frame_of_ours_that_pandas_has_written(tmp_path, index):
    space = Space({"id": [1, 2, 4], "on": [True, False], "p": Permutation(["i", "j"])})
    opt = Optimizer(space, {"time": "minimize"}, strategy="exhaustive")
    built = {"size.text": 1840.0, "code.loads": 0.1 + 0.2}
    opt.observe(opt.suggest(), {"time": [1.0, 2.0, 4.0], "energy": 9.0}, build=built)
    opt.observe(opt.suggest(), failed="compile", message="no register\nleft, 'sorry'")
    opt.observe(opt.suggest(), failed="timeout", bound=5.5)
    opt.observe(opt.suggest(), 3.0)
    opt.to_dataframe().to_csv(tmp_path / "run.csv", index=index)
    found = read(tmp_path / "run.csv")
    assert found.objective == "time"
    assert found.configs == [dict(trial.config) for trial in opt.trials]
    told = [
        replace(t.outcome, trial_id=i, repeats=(), extra={"started": t.started, "ended": t.ended})
        for i, t in enumerate(opt.trials)
        if t.outcome is not None
    ]
    assert list(found.outcomes) == told
    assert opt.export("csv", tmp_path / "table.csv") == 4
    assert [o.build for o in read(tmp_path / "table.csv").outcomes] == [built, {}, {}, {}]
    again = Optimizer(space, {"time": "minimize"}, warm_start=tmp_path / "run.csv")
    assert [t.value for t in again.trials] == [2.0, None, None, 3.0]
    assert read(tmp_path / "run.csv", "energy").outcomes[0].value == 9.0


@pytest.mark.parametrize("kind", ["t4", "kernel_tuner", "ktt"])
def test_none_is_written_and_read(tmp_path, kind):
    opt = Optimizer(Space({"a": [1, 2], "pad": [None, (8, 8)]}, when={"a": "pad is None"}))
    for config in opt.space:
        opt.observe(config, 1.0)
    opt.export(kind, tmp_path / "file")
    assert read(tmp_path / "file").configs == [dict(trial.config) for trial in opt.trials]


@pytest.mark.parametrize("header", ["v,x,time\n", COLUMNS.replace("x,v", "v,x,time")])
def test_two_texts_of_one_number_are_texts(tmp_path, header):
    before, after = ("0,", ",ok,,,,,,,,,,") if header[:2] == "id" else ("", "")
    rows = [("1.10", "0.50", 5.0), ("1.1", "-0.0", 3.0), ("1.2", "0", 4.0)]
    lines = [f"{before}{v},{x},{time}{after}\n" for v, x, time in rows]
    path = saved(tmp_path, header + "".join(lines))
    found = read(path)
    assert found.rows == (("1.10", 0.5), ("1.1", 0.0), ("1.2", 0.0))
    space = Space({"v": Categorical(["1.1", "1.10", "1.2"]), "x": Ordinal([0, 0.5])})
    again = Optimizer(space, warm_start=path)
    assert [(t["v"], t["x"], t.value) for t in again.trials] == [
        ("1.10", 0.5, 5.0),
        ("1.1", 0, 3.0),
        ("1.2", 0, 4.0),
    ]


def test_a_number_means_the_only_text_that_it_may_have_been(tmp_path):
    path = saved(tmp_path, "v,time\n1.10,5\n1.2,4\n")
    (first, _) = Optimizer({"v": ["1.10", "1.2"]}, warm_start=path).trials
    assert first["v"] == "1.10"
    with pytest.warns(WarmStartWarning, match="1 of 2 .* another value of 'v'"):
        (only,) = Optimizer({"v": ["1.1", "1.10", "1.2"]}, warm_start=path).trials
    assert only["v"] == "1.2"


def test_an_empty_cell_is_inactive_or_the_empty_text(tmp_path):
    space = Space(
        {
            "kind": ["a", "b"],
            "flag": ["", "-fast"],
            "mode": ["x", "y"],
            "n": [8, 16],
            "one": ["", "z"],
        },
        when={"mode": "kind == 'b'", "n": "mode == 'y'", "one": "kind == 'a'"},
    )
    opt = Optimizer(space, {"time": "minimize"}, strategy="exhaustive")
    for trial in opt.suggest(space.feasible_size):
        opt.observe(trial, 1.0 + trial.id)
    configs = [dict(trial.config) for trial in opt.trials]
    opt.to_dataframe().to_csv(tmp_path / "run.csv", index=False)
    found = read(tmp_path / "run.csv")
    # The file has the same cell for an inactive `one` and for its value "".
    shown = [{n: v for n, v in c.items() if (n, v) != ("one", "")} for c in configs]
    known = [{n: v for n, v in c.items() if n != "one"} for c in found.configs]
    assert known == [{n: v for n, v in c.items() if n != "one"} for c in configs]
    assert [{n: v for n, v in c.items() if (n, v) != ("one", "")} for c in found.configs] == shown
    assert all(found.find(config).value == 1.0 + i for i, config in enumerate(configs))
    again = Optimizer(space, {"time": "minimize"}, warm_start=tmp_path / "run.csv")
    assert [dict(trial.config) for trial in again.trials] == configs
    plain = "flag,time\n,1.0\n-fast,2.0\n,3.0\n"
    (tmp_path / "plain.csv").write_text(plain)
    assert [c["flag"] for c in read(tmp_path / "plain.csv").configs] == ["", "-fast", ""]


def test_a_table_of_a_conditional_run_is_a_conditional_space(tmp_path):
    space = Space(
        {"kind": ["a", "b"], "n": [8, 16, 32], "deep": [1, 2], "p": Permutation(["i", "j"])},
        when={"n": "kind == 'b'", "deep": "n > 8", "p": "kind == 'a'"},
    )
    opt = Optimizer(space, {"time": "minimize"}, strategy="exhaustive")
    for trial in opt.suggest(space.feasible_size):
        opt.observe(trial, 1.0)
    configs = {tuple(sorted(trial.config.items())) for trial in opt.trials}
    opt.to_dataframe().to_csv(tmp_path / "frame", index=False)
    opt.export("csv", tmp_path / "csv")
    opt.export("baco", tmp_path / "baco")
    tables = [read(tmp_path / name).space() for name in ("frame", "csv", "baco")]
    frame = opt.to_dataframe()[list(space.names)]
    floats = frame.astype(
        {"n": float, "deep": float}
    )  # as pandas has whole numbers with empty cells
    for found in (*tables, Space.from_dataframe(frame), Space.from_dataframe(floats)):
        assert {tuple(sorted(config.items())) for config in found} == configs
        assert found.parameters["n"].values == (8, 16, 32)
        assert found.conditions.texts == {
            "n": "kind not in ['a']",
            "deep": "n > 8",
            "p": "kind not in ['b']",
        }


def test_a_violated_table_names_inactive_parameters():
    space = Space.from_dataframe([{"a": 1}, {"a": 2, "b": 5}, {"a": 2, "b": 6}, {"a": 3, "b": 5}])
    (reason,) = space.explain({"a": 3, "b": 6})
    assert reason.endswith("violated: a = 3, b = 6")
    smaller = Space.from_dataframe(
        [{"a": 1, "c": 1}, {"a": 2, "b": 5, "c": 2}, {"a": 2, "b": 6, "c": 1}]
    )
    (reason,) = smaller.explain({"a": 1, "c": 2})
    assert reason.endswith("violated: a = 1, c = 2, b is inactive")


def test_empty_cells_that_no_column_explains_are_named():
    rows = [{"a": 1, "b": 2}, {"a": 1}, {"a": 2}]
    with pytest.raises(
        SpaceError, match=r"column 'b' has no value in row 1, .*Space\(\.\.\., when="
    ):
        Space.from_dataframe(rows)
    with pytest.raises(SpaceError, match="column 'b' has no value; drop it"):
        Space.from_dataframe([{"a": 1, "b": None}, {"a": 2, "b": None}])


def test_a_row_of_a_cache_that_lacks_a_parameter_is_left_out(tmp_path):
    row = {"n": 1, "m": 2, "time": 3.0}
    cache = {
        "tune_params_keys": ["n", "m"],
        "tune_params": {"n": [1], "m": [2]},
        "cache": {"1,2": row, "1": {"n": 1, "time": 2.0}},
    }
    (tmp_path / "cache.json").write_text(json.dumps(cache))
    found = read(tmp_path / "cache.json")
    assert found.rows == ((1, 2),)
    assert found.notes == ("rows with other parameters than n, m that were left out: 1",)


def test_a_recording_becomes_a_dataframe():
    pytest.importorskip("pandas")
    outcomes = (Outcome.success(0, (2.0, 4.0)), Outcome.failure(1, "compile"))
    frame = Recording(("a",), ((1,), (2,)), outcomes, objective="time").to_dataframe()
    assert frame["a"].tolist() == [1, 2]
    assert frame["time"][0] == 3.0
    assert frame["failed"][1] == "compile"


def test_the_results_of_one_task_are_exported_without_its_descriptor(tmp_path, capsys):
    space = Space({"tile": [1, 2]}, tasks=[{"n": 1, "device": "a"}, {"n": 2, "device": "a"}])
    optimizer = Optimizer(space, {"time": "minimize"}, storage=tmp_path / "run.jsonl")
    for n, tile, value in ((1, 1, 3.0), (2, 1, 4.0), (2, 2, 5.0)):
        optimizer.observe({"tile": tile, "n": n, "device": "a"}, value)
    assert optimizer.export("t4", tmp_path / "own.json", task={"n": 2, "device": "a"}) == 2
    command = ["export", "--format", "t4", "--task", "n=2,device=a", str(tmp_path / "run.jsonl")]
    assert cli.main([*command, str(tmp_path / "x.json")]) == 0
    for name in ("own.json", "x.json"):
        found = read(tmp_path / name)
        assert found.names == ("tile",)
        assert [outcome.value for outcome in found.outcomes] == [4.0, 5.0]
        assert list(found.space().names) == ["tile"]
    for words, message in (("m=2", "no descriptor 'm'"), ("n=3", "no result belongs")):
        command[4] = words
        assert cli.main([*command, str(tmp_path / "y.json")]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SpaceError, match="the tasks are"):
        optimizer.export("t4", tmp_path / "z.json", task={"n": 3})
