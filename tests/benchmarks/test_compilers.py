"""The suite of real compilers: store, checks, objectives, searches, statistics, the recorded part."""

from __future__ import annotations

import gzip
import importlib
import json
import math
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baco_like import Categorical, Optimizer, Ordinal, Sequence, Space, WarmStart
from baco_like.evaluators._processes.llvm_library import find_library

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FOLDER = BENCHMARKS / "compilers"
NAMES = ("compiler_suite", "searches", "packages", "table", "portfolio", "run")

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, Any]]:
    added = [str(FOLDER), str(BENCHMARKS / "quality")]
    sys.path[:0] = added
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        for path in added:
            sys.path.remove(path)
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS)):
                del sys.modules[name]


@pytest.fixture
def offline(modules: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the suite with the recorded part alone; starting any program is an error."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "run", refuse)
    suite = modules["compiler_suite"]
    return suite.Suite(suite.Store(None), offline=True)


@pytest.fixture
def fresh(modules: dict[str, Any]) -> Any:
    suite = modules["compiler_suite"]
    return suite.Suite(suite.Store(None, recorded=None))


# Programs


def test_each_kind_has_a_program_in_each_half(modules: dict[str, Any]) -> None:
    programs = modules["compiler_suite"].read_programs().values()
    assert set(Counter((p.kind, p.half) for p in programs).values()) == {1}
    assert len(programs) >= 24
    files = {path.stem for path in (FOLDER / "programs").glob("*.c")}
    assert files == {"empty", *(p.name for p in programs)}


@needs_gcc
def test_programs_print_their_checksum(fresh: Any) -> None:
    for program in list(fresh.programs.values())[::4]:
        result = fresh.measure("gcc", "-O1", [], "size", program)
        assert result.failed is None, program.name
        assert result.value > 500


@needs_gcc
def test_a_wrong_checksum_and_a_wrong_flag_are_failures(fresh: Any) -> None:
    program = replace(fresh.programs["gemm"], checksum="0" * 16)
    result = fresh.measure("gcc", "-O1", [], "size", program)
    assert (result.value, result.failed) == (None, "wrong result")
    right = fresh.measure("gcc", "-O1", [], "size", fresh.programs["gemm"])
    assert right.value is not None  # the same object, another checksum
    assert fresh.measure("gcc", "-O1", ["-fno-such"], "size", program).failed == "compile"


@pytest.mark.skipif(find_library("opt") is None, reason="needs an opt that loads libLLVM")
def test_passes_are_measured_once_and_checked_where_they_are_good(
    fresh: Any, modules: dict[str, Any]
) -> None:
    problem = fresh.problem("passes-Oz", "ir", "gemm")
    empty, better = problem.measure({"passes": ()}), problem.measure({"passes": ("sroa", "gvn")})
    places = dict.fromkeys(problem.places.parameters, "")
    assert problem.measure({**places, "pass3": "sroa", "pass9": "gvn"}) == better < empty
    assert [r.program for r in problem.results[1:]] == [problem.results[1].program] * 2
    assert problem.reference < better
    size = fresh.problem("passes-Oz", "size", "gemm")
    assert size.measure({"passes": ("sroa", "gvn")}) > better
    if shutil.which("valgrind"):  # it runs a file that is linked
        executed = fresh.problem("passes-Oz", "instructions", "gemm")
        assert executed.measure({"passes": ("sroa", "gvn")}) < executed.measure({"passes": ()})

    fresh.offline = True
    fresh._llvm.close()
    again = fresh.problem("passes-Oz", "ir", "gemm")
    assert [again.measure({"passes": p}) for p in ((), ("sroa", "gvn"))] == [empty, better]
    fresh.offline = False
    fresh.programs["gemm"] = replace(fresh.programs["gemm"], checksum="0" * 16)
    wrong = fresh.problem("passes-Oz", "ir", "gemm")
    wrong.results.append(modules["compiler_suite"].Result(better, None, "other", 0.0))
    assert wrong.measure({"passes": ("sroa", "gvn")}) is None
    assert wrong.results[-1].failed == "wrong result"
    assert wrong.measure({"passes": ()}) == empty  # nobody ships it
    fresh._llvm.close()


def test_a_portfolio_covers_greedily(modules: dict[str, Any], tmp_path: Path) -> None:
    # c has the best mean and a adds to it; b adds nothing, and d is worse than the level.
    values = {"a": [0.50, 0.8, 1.0], "b": [0.60, 0.6, 1.0], "c": [0.60, 0.6, 0.95], "d": [2, 2, 2]}

    class Problem:
        reference = 1.0

        def __init__(self, program: str) -> None:
            self.measure = lambda config: values[config["passes"][0]][int(program)]

    class Suite:
        problem = staticmethod(lambda space, objective, program: Problem(program))

    rows = [
        {"space": "passes-Oz", "objective": "ir", "program": str(i % 3), "winner": [name]}
        for i, name in enumerate("abcd")
    ]
    path = tmp_path / "ideas.csv"
    modules["portfolio"].write_portfolio(Suite(), rows, path)
    assert path.read_text() == "passes,value\nc,1\na,2\n"
    space = Space({"passes": Sequence([*"abcd"], 3)})
    ideas = WarmStart(path, "configs", best=9)
    trials = Optimizer(space, seed=0, warm_start=ideas).suggest(2)
    assert [trial["passes"] for trial in trials] == [("c",), ("a",)]


# Store


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_recorded_runs_need_no_compiler(modules: dict[str, Any], offline: Any, step: int) -> None:
    """Every fifth run has each method, and five of six problems."""
    run = modules["run"]
    rows = offline.store.recorded["rows"]
    again = [run.run_one(offline, unit, unit["seeds"][0]) for unit in run.RECORDED_UNITS[::step]]
    own = {"cpu", "build_seconds"}  # these depend on the machine and on earlier runs
    found, kept = (
        [{k: r[k] for k in r if k not in own} for r in some] for some in (again, rows[:: 2 * step])
    )
    assert found == kept
    text = modules["table"].report(rows, [10], "evolution")
    assert "### gcc-Os, size: 3 programs" in text
    assert text.count("| genetic | 2 |") == 4


def test_the_example_of_ask_and_tell_runs(
    modules: dict[str, Any], offline: Any, capsys: Any
) -> None:
    text = modules["run"].read_example()
    exec(compile(text, "README.md", "exec"), {"own": offline})
    level, ratio = map(float, capsys.readouterr().out.split())
    assert level > 500
    assert ratio >= 1


@pytest.mark.parametrize("change", ["compiler", "source", "header", "argument", "flags", "level"])
def test_a_changed_command_is_not_answered_with_old_values(
    modules: dict[str, Any], offline: Any, tmp_path: Path, change: str
) -> None:
    program, words, level = offline.programs["sorts"], [], "-Os"
    assert offline.measure("gcc", level, words, "size", program).value is not None
    if change == "compiler":
        offline._versions["gcc"] += "."
    elif change in ("source", "header"):
        for name in ("sorts.c", "suite.h"):
            shutil.copy(FOLDER / "programs" / name, tmp_path)
        unchanged = replace(program, folder=tmp_path)
        assert offline.measure("gcc", level, words, "size", unchanged).value is not None
        with (tmp_path / ("sorts.c" if change == "source" else "suite.h")).open("a") as file:
            file.write("\n")
        program = replace(program, folder=tmp_path)
    elif change == "argument":
        program = replace(program, argument="2001")
    elif change == "flags":
        words = ["-fno-such"]
    else:
        level = "-O9"
    with pytest.raises(modules["compiler_suite"].MissingTool):
        offline.measure("gcc", level, words, "size", program)


def fill(path: Path, first: int) -> None:
    sys.path.insert(0, str(FOLDER))
    store = importlib.import_module("compiler_suite").Store(path, recorded=None)
    for i in range(first, first + 150):
        store.put(f"key {i}", {"value": i})


def test_processes_share_a_store(modules: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as pool:
        list(pool.map(fill, [path, path], [0, 100]))
    store = modules["compiler_suite"].Store(path, recorded=None)
    assert [store.get(f"key {i}")["value"] for i in range(250)] == list(range(250))
    assert store.get("key 250") is None


# Objectives


@needs_gcc
def test_text_size_is_that_of_the_executable_sections(
    modules: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "a.c").write_text("int f(int x) { return x * 3; } int g(void) { return f(2); }")
    command = ["gcc", "-O1", "-ffunction-sections", "-c", "a.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["size", "-A", "-d", "a.o"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    lines = [line.split() for line in listed.stdout.splitlines() if line.startswith(".text")]
    size = modules["compiler_suite"].text_size((tmp_path / "a.o").read_bytes())
    assert size == sum(int(line[1]) for line in lines) > 0


@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("valgrind")), reason="needs valgrind")
def test_executed_instructions_do_not_depend_on_the_environment(
    fresh: Any, modules: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, values = fresh.programs["ray"], []
    for text in ("x", "y" * 1000):
        monkeypatch.setenv("ANY_VARIABLE", text)
        own = modules["compiler_suite"].Suite(modules["compiler_suite"].Store(None, recorded=None))
        values.append(own.measure("gcc", "-O1", [], "instructions", program).value)
    assert values[0] == values[1] > 10**6


def test_instructions_of_ir_are_counted(modules: dict[str, Any]) -> None:
    text = """; comment
@x = global i32 0
define i32 @f(i32 %0) {
  switch i32 %0, label %2 [
    i32 1, label %3
  ]

2:                                                ; preds = %1
  ; another comment
  br label %3

3:
  ret i32 0
}
"""
    assert modules["compiler_suite"].count_ir(text) == 3


def test_hot_blocks_end_at_jumps_and_where_counts_change(modules: dict[str, Any]) -> None:
    code = [
        (16, "movl $5, %ecx"),
        (20, "addl %ecx, %eax"),
        (22, "nopw (%rax)"),
        (24, "subl $1, %ecx"),
        (26, "jne 0x14 <f+0x4>"),
        (28, "cmpl %eax, %ebx"),
        (30, "retq"),
    ]
    counts = {16: 1, 20: 100, 22: 100, 24: 100, 26: 100, 28: 100, 30: 100}
    first = (100, ["addl %ecx, %eax", "subl $1, %ecx", "jne 0x14"])
    second = (100, ["cmpl %eax, %ebx", "retq"])
    assert modules["compiler_suite"].hot_blocks(code, counts, 0.5) == [first]
    assert modules["compiler_suite"].hot_blocks(code, counts, 1.0) == [
        first,
        second,
        (1, ["movl $5, %ecx"]),
    ]


def test_executions_leave_out_the_costs_of_calls(modules: dict[str, Any]) -> None:
    text = "fn=(1) f\n0x10 0 3\n0x14 0 4\ncalls=2 0x40 0\n0x14 0 900\n0x10 0 5\n"
    assert modules["compiler_suite"]._executions(text) == {16: 8, 20: 4}


# Searches and packages


def problem(modules: dict[str, Any]) -> Any:
    """Return a made problem whose default is not the first value of each parameter."""
    parameters: dict[str, Any] = {f"x{i}": Ordinal([1, 2, 4, 8], default=4) for i in range(5)}
    parameters |= {f"f{i}": Categorical([False, True], default=True) for i in range(5)}
    parameters["one"] = Ordinal([7], default=7)
    valued = importlib.import_module("peers.valued")
    return valued.ValuedProblem(
        *("made", "made", Space(parameters), range(10**6), np.empty(0)),
        evaluate=lambda c: math.nan if c["x0"] == c["x1"] == 1 else 50.0 + sum(c.values()),
        optimum=1.0,
    )


def sequences(modules: dict[str, Any]) -> Any:
    """Return a made problem whose parameter is a sequence."""
    valued = importlib.import_module("peers.valued")
    space = Space({"passes": Sequence([*"abcd"], 6, default=())})
    return valued.ValuedProblem(
        *("made", "made", space, range(10**6), np.empty(0)),
        evaluate=lambda c: 9.0 + len(c["passes"]) - 2 * c["passes"].count("b"),
        optimum=3.0,
    )


@pytest.mark.parametrize("method", ["random sequences", "climber"])
def test_searches_of_sequences_start_with_the_default(modules: dict[str, Any], method: str) -> None:
    rows = [row for (row,) in measured(modules, method, 0, 200, sequences(modules))]
    assert rows[0] == ()
    assert rows == [row for (row,) in measured(modules, method, 0, 200, sequences(modules))]
    assert {len(row) for row in rows} == set(range(7))
    assert (rows.count(("b",) * 6) == 1) == (method == "climber")


def measured(
    modules: dict[str, Any], method: str, seed: int, n: int, made: Any = None
) -> list[Any]:
    """Return the rows that a method measures."""
    measure = importlib.import_module("peers.measure")
    own, made = modules["run"].METHODS[method], made or problem(modules)
    function = getattr(importlib.import_module(own.module), own.function)
    with pytest.raises(measure.Spent):
        function(measure.Measure(made, n), seed, **own.settings)
    return list(made.number._numbers)


@pytest.mark.parametrize(
    "method",
    [
        "random",
        "evolution",
        "genetic",
        "iterated",
        "forest as in BOCA",
        "random_search",
        "Optuna TPE",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_every_method_measures_the_default_first(modules: dict[str, Any], method: str) -> None:
    n = 10 if "BOCA" in method else 30
    rows = measured(modules, method, 0, n)
    assert rows[0] == (4,) * 5 + (True,) * 5 + (7,)
    assert len(set(rows)) == n
    assert rows == measured(modules, method, 0, n)
    assert rows != measured(modules, method, 1, n)


@pytest.mark.parametrize("method", ["Nevergrad DiscreteOnePlusOne", "OpenTuner", "SMAC3"])
@pytest.mark.filterwarnings("ignore")
def test_packages_measure_the_default_first(modules: dict[str, Any], method: str) -> None:
    pytest.importorskip(modules["run"].METHODS[method].needs[0])
    assert measured(modules, method, 0, 12)[0] == (4,) * 5 + (True,) * 5 + (7,)


def test_a_child_has_one_to_four_changes_of_free_parameters(modules: dict[str, Any]) -> None:
    measure = importlib.import_module("peers.measure")
    moves = modules["searches"].Moves(measure.Measure(problem(modules), 1), 0)
    changes = [
        [
            i
            for i, (a, b) in enumerate(zip(moves.start, moves.change(moves.start), strict=True))
            if a != b
        ]
        for _ in range(300)
    ]
    assert {len(own) for own in changes} == {1, 2, 3, 4}
    assert {i for own in changes for i in own} == set(range(10))


# Statistics


def test_holm_corrects_from_the_smallest_p(modules: dict[str, Any]) -> None:
    holm = modules["table"].holm
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.2]) == pytest.approx([0.2])


def test_the_interval_of_two_problems_is_students(modules: dict[str, Any]) -> None:
    mean = modules["table"].Mean.of([0.1, 0.3])
    half = math.tan(0.475 * math.pi) * 0.1  # Student's t with one degree of freedom is Cauchy's
    expected = [math.exp(0.2), math.exp(0.2 - half), math.exp(0.2 + half)]
    assert [mean.value, mean.low, mean.high] == pytest.approx(expected)
    assert modules["table"].Mean.of([0.5, 0.5]).low == pytest.approx(math.exp(0.5))


def test_two_pairs_have_the_p_of_a_cauchy_distribution(modules: dict[str, Any]) -> None:
    p = modules["table"].paired_p
    assert p([1.0, 2.0]) == pytest.approx(1 - 2 / math.pi * math.atan(3.0))
    assert p([0.0, 0.0]) == p([5.0]) == 1.0
    assert p([2.0, 2.0]) == 0.0


def row(program: str, method: str, seed: int, values: list[float | None]) -> dict[str, Any]:
    """Return a run in which every build is another program."""
    programs = list(range(len(values)))
    fixed = {"space": "s", "objective": "o", "cpu": 1.0, "asked": 10, "has_ended": False}
    own = {
        "program": program,
        "method": method,
        "seed": seed,
        "values": values,
        "programs": programs,
    }
    return {**fixed, **own}


def test_ratios_leave_out_failures_and_later_evaluations(modules: dict[str, Any]) -> None:
    own = row("a", "m", 0, [100.0, None, 80.0, 50.0])
    assert [modules["table"].ratio(own, n) for n in (1, 2, 3, 4)] == [1.0, 1.0, 1.25, 2.0]


def test_methods_are_compared_on_common_problems_and_seeds(modules: dict[str, Any]) -> None:
    table = modules["table"]
    rows = [row("a", "x", s, [100.0, 50.0]) for s in range(3)]
    rows += [row("a", "y", s, [100.0, 80.0 + s]) for s in range(3)]
    rows += [row("b", "x", 0, [100.0, 90.0]), row("b", "y", 1, [100.0, 10.0])]
    runs = table.group(rows, 2)["s", "o"]
    found = table.compare(runs, "x", "y", 2)
    assert (found.ahead, found.behind, found.problems) == (1, 0, 1)
    ratios = [(80.0 + s) / 50 for s in range(3)]
    assert found.mean.value == pytest.approx(np.exp(np.log(ratios).mean()))
    assert table.compare(runs, "y", "x", 2).behind == 1
    assert "| y | 1 | " in table.report(rows, [1, 2], "x")


# The command


def test_finished_runs_are_not_done_again(
    modules: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = modules["run"]
    chosen = [
        "--methods",
        "random,evolution",
        "--programs",
        "sorts,lz",
        "--seeds",
        "2",
        "--evaluations",
        "9",
    ]
    monkeypatch.setattr(sys, "argv", ["run.py", *chosen, "--folder", str(tmp_path)])
    args = run.arguments()
    done = {**row("sorts", "random", 1, [1.0]), "space": "gcc-Os", "objective": "size"}
    lines = [json.dumps({**done, "evaluations": n}) for n in (9, 5)]
    text = "\n".join(lines) + '\n{"space": "cut'
    (tmp_path / "rows.jsonl").write_text(text)
    rows = run.read_rows(tmp_path / "rows.jsonl")
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert run.read_rows(tmp_path / "rows.jsonl.gz") == rows
    units = run.missing_units(args, rows)
    assert [(u["program"], u["method"], u["seeds"]) for u in units] == [
        ("sorts", "random", [0]),
        ("sorts", "evolution", [0, 1]),
        ("lz", "random", [0, 1]),
        ("lz", "evolution", [0, 1]),
    ]


def test_judged_programs_are_refused_in_development(
    modules: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "--programs", "radix"])
    with pytest.raises(SystemExit):
        modules["run"].arguments()
    assert "'radix' is unknown" in capsys.readouterr().err
