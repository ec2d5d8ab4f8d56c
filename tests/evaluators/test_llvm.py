"""Pass pipelines on the real tools of LLVM: counts, failures, equal programs, and a wrong compilation."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import patient
import pytest

from baco_like.evaluators import LlvmEvaluator, LlvmSettings, Passes, Repeats
from baco_like.evaluators._processes.llvm_library import find_library
from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators.command.template import Template
from baco_like.evaluators.staged import StageFailure
from baco_like.exceptions import BacoWarning, EvaluatorError
from baco_like.records.trial import PROGRAM, SAME_PROGRAM, Status, Trial

pytestmark = pytest.mark.skipif(
    shutil.which("opt-14") is None or shutil.which("clang-14") is None,
    reason="needs opt, llc and clang of LLVM 14",
)

SOURCE = """
#include <stdio.h>
#include <stdlib.h>
static int work(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * STEP; return s; }
int main(int count, char **words)
{
    int n = count > 1 ? atoi(words[1]) : 10;
    if (n < 0) abort();
    printf("%d\\n", work(n));
    return 3;
}
"""
PASSES = ["sroa", "instcombine", "simplifycfg", "float2int", "licm", "default<Oz>", "default<O2>"]


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "work.c"
    path.write_text(SOURCE)
    return path


def make(source, repeats=None, levels="-", **given):
    passes = given.pop("passes", None) or Passes(PASSES, opt="opt-14")
    cflags = given.pop("cflags", "-DSTEP=3")
    given = {"repeats": repeats or Repeats(), "folder": source.parent, **given}
    evaluator = LlvmEvaluator(LlvmSettings([source], passes, cflags=cflags, **given))
    if levels:  # instead of compiling five programs for the note
        evaluator.bench.levels = lambda: levels
    return evaluator


def evaluate(evaluator, *sequences):
    outcomes = [
        patient.evaluate(evaluator, Trial(number, {"passes": tuple(sequence)}), None)
        for number, sequence in enumerate(sequences)
    ]
    evaluator.close()
    return outcomes


MODULE = """
@table = constant [2 x i32] [i32 1, i32 2]
declare i32 @may_throw(i32)
declare i32 @handler(...)
define i32 @main(i32 %n) personality i32 (...)* @handler {
  switch i32 %n, label %other [
    i32 1, label %one
    i32 2, label %two
  ]
one:                                              ; preds = %0
  %a = invoke i32 @may_throw(i32 %n)
          to label %two unwind label %pad
two:                                              ; preds = %one, %0
  %b = phi i32 [ 0, %0 ], [ %a, %one ]
  ret i32 %b
pad:                                              ; preds = %one
  %c = landingpad { i8*, i32 }
          cleanup
  resume { i8*, i32 } %c
other:                                            ; preds = %0
  unreachable
}
"""


def test_instructions_are_counted_in_a_text_module(tmp_path):
    source = tmp_path / "module.ll"
    source.write_text(MODULE)
    (outcome,) = evaluate(make(source, check=False), [])
    assert (outcome.status, outcome.value) == (Status.OK, 7.0)


def test_counts_metrics_and_levels(source):
    empty, start, same, equal = evaluate(
        make(source, levels="", measure="cycles", front="Oz"),
        [],
        ["default<Oz>"],
        ["sroa", "simplifycfg"],
        ["sroa", "simplifycfg", "float2int"],  # changes nothing here
    )
    for outcome in (empty, start, same, equal):
        assert outcome.status is Status.OK
        assert set(outcome.metrics) == {"instructions", "size"}
    assert (
        start.metrics["instructions"] < same.metrics["instructions"] < empty.metrics["instructions"]
    )
    assert (same.extra.get(SAME_PROGRAM), equal.extra.get(SAME_PROGRAM)) == (None, 2)
    assert equal.value == same.value
    (levels,) = start.extra["notes"].values()
    found = dict(part.split() for part in levels.split(", "))
    assert float(found["-Oz"]) == start.value
    assert set(found) == {"-O0", "-O1", "-O2", "-O3", "-Oz"}


def test_each_objective_has_its_own_number(source):
    values = {}
    for measure in ("instructions", "size"):
        (outcome,) = evaluate(make(source, measure=measure), ["default<Oz>"])
        values[measure] = outcome.value, outcome.metrics
    assert values["size"][1] == {"instructions": values["instructions"][0]}
    assert values["instructions"][1] == {}
    assert values["size"][0] > values["instructions"][0]
    (outcome,) = evaluate(make(source, Repeats(3), measure="time", scale=1e3), ["default<O2>"])
    assert len(outcome.repeats) == 3
    assert min(outcome.repeats) > 0
    assert set(outcome.metrics) == {"instructions", "size"}


FAKE_OPT = """#!/bin/sh
case "$*" in
  *-S*float2int*) kill -SEGV $$ ;;
  *-S*licm*) sleep 60 ;;
  *-S*instcombine*) /usr/bin/env opt-14 "$@" && for target; do :; done && sed -i "s/i32 3/i32 4/" $target ;;
  *) exec /usr/bin/env opt-14 "$@" ;;
esac
"""
"""An opt with a pass that crashes, one that hangs, and one that compiles wrongly."""


def test_failures_have_their_word(source, tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("clang", "llc", "llvm-link"):
        (folder / name).symlink_to(str(shutil.which(f"{name}-14")))
    (folder / "opt").write_text(FAKE_OPT)
    (folder / "opt").chmod(0o755)
    evaluator = make(source, passes=Passes(PASSES, opt=str(folder / "opt")))
    crashed, wrong = evaluate(evaluator, ["float2int"], ["sroa", "instcombine"])
    assert (crashed.failed, "SIGSEGV" in crashed.message) == ("compile", True)
    told = "check: the result differs from -O0: expected 'exit code 3', got 'exit code 4'"
    assert (wrong.failed, wrong.message) == ("correctness", told)
    assert PROGRAM in wrong.extra  # an equal program need not be run
    (fine,) = evaluate(evaluator, [])
    evaluator.bench.open()
    evaluator.bench.settings = replace(evaluator.bench.settings, build_timeout=0.5)
    evaluator.submit(Trial(0, {"passes": ("licm",)}))
    (slow,) = evaluator.wait()
    evaluator.close()
    assert (fine.status, slow.failed) == (Status.OK, "timeout")


def test_a_program_that_cannot_be_checked_is_told(source):
    source.write_text(SOURCE.replace("main", "other"))
    with pytest.raises(EvaluatorError, match="check = false for a source without main"):
        evaluate(make(source), [])
    assert evaluate(make(source, check=False), [])[0].status is Status.OK
    source.write_text(
        'int printf(const char *, ...); int main(void) { printf("%p", (void *)main); }'
    )
    with pytest.raises(EvaluatorError, match="give different outputs"):
        evaluate(make(source), [])
    source.write_text(SOURCE)
    with pytest.raises(EvaluatorError, match="SIGABRT"):
        evaluate(make(source, arguments="-1"), [])
    source.write_text("#error compile error")
    with pytest.raises(EvaluatorError, match="compile error"):
        evaluate(make(source), [])
    source.unlink()
    with pytest.raises(EvaluatorError, match="there is no file"):
        make(source)
    with pytest.raises(ValueError, match='link = "\'m": expected words of a shell'):
        make(source, link="'m")


@pytest.mark.skipif(find_library("opt-14") is None, reason="needs an opt that loads libLLVM")
def test_the_library_gives_the_program_of_opt_and_survives_a_crash(source):
    crash = "function(loop(licm))"  # without MemorySSA
    sequences = [["sroa", "licm", "default<O2>"], [crash], [], ["sroa"]]
    with_library = make(source, passes=Passes([*PASSES, crash], opt="opt-14"))
    by_opt = make(source, passes=with_library.bench.settings.passes)
    by_opt.bench.worker = None
    some, others = evaluate(with_library, *sequences), evaluate(by_opt, *sequences)
    assert [o.extra.get(PROGRAM) for o in some] == [o.extra.get(PROGRAM) for o in others]
    assert [(o.failed, o.value) for o in some] == [(o.failed, o.value) for o in others]
    assert with_library.bench.worker.starts == 2
    assert some[1].failed == "compile"
    assert "LICM requires MemorySSA" in some[1].message
    with_library.bench.open()
    with_library.bench.settings = replace(with_library.bench.settings, build_timeout=1e-4)
    assert evaluate(with_library, ["default<O3>"] * 50)[0].failed == "timeout"


def test_the_script_builds_the_winner(source, tmp_path):
    """From any folder, into a folder of its own."""
    (tmp_path / "work.bc").write_text("a file of the user")
    evaluator = make(source)
    config = {"passes": ("sroa", "instcombine", "licm")}
    script = tmp_path / "it's out" / evaluator.source_name
    script.parent.mkdir()
    script.write_text(evaluator.source(config))
    (outcome,) = evaluate(evaluator, config["passes"])
    before = sorted(tmp_path.iterdir())
    run = {"capture_output": True, "text": True, "cwd": "/"}
    built = subprocess.run(["sh", str(script)], check=True, **run).stdout.strip()
    assert built == str(script.parent / "work-build" / "work")
    done = subprocess.run([built], check=False, **run)
    assert (done.returncode, done.stdout) == (3, "135\n")
    assert outcome.status is Status.OK
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "work.bc").read_text() == "a file of the user"


def test_one_source_may_be_a_path_or_a_text(source):
    passes = Passes(PASSES, opt="opt-14")
    for one in (source, str(source), [str(source)]):
        evaluator = LlvmEvaluator(LlvmSettings(one, passes, cflags="-DSTEP=3"))
        evaluator.bench.levels = lambda: "-"
        assert evaluate(evaluator, [])[0].status is Status.OK


def test_passes_without_opt_are_refused():
    with pytest.raises(ValueError, match=r"name it, as in Passes\(\[...\], opt='opt-14'\)"):
        LlvmSettings("work.c", Passes(["sroa"]))


def test_a_wrong_output_is_told_beside_the_expected_one(source):
    evaluator = make(source)
    evaluator.bench._expected = (3, "first\nsecond\n")
    wrong = Finished(3, None, False, "first\nthird\n", "", 0.0)
    with pytest.raises(StageFailure) as failure:
        evaluator.bench.check(wrong)
    assert failure.value.message.endswith(r"from -O0: expected 'second\n', got 'third\n'")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return 2;", "is empty, ends with exit code 2 and the output ''"),
        ('printf("%d", getchar());', "is empty, ends with exit code 0 and the output '-1'"),
    ],
)
def test_a_program_without_input_is_noted(source, body, told):
    source.write_text(f"#include <stdio.h>\nint main(void) {{ {body} }}")
    with pytest.warns(BacoWarning, match=told):
        evaluate(make(source), [])


def test_a_program_in_cplusplus_is_linked(tmp_path):
    path = tmp_path / "work.cpp"
    path.write_text("#include <iostream>\nint main() { std::cout << 3; }")
    assert evaluate(make(path), [])[0].status is Status.OK


def test_a_time_without_main_is_found_before_the_first_trial(source):
    source.write_text(SOURCE.replace("main", "other"))
    with pytest.raises(EvaluatorError, match="a time needs a program with main"):
        evaluate(make(source, measure="time", check=False), [])


def test_options_of_opt_are_part_of_the_configuration(source):
    names = ["threshold"]
    options = Template.parse("-inline-threshold={threshold}", names, "options")
    evaluator = make(source, passes=Passes(["sroa", "inline"], opt="opt-14"), options=options)
    pipeline = ("sroa", "inline")
    values = []
    for number, threshold in enumerate((-100_000, 1000)):
        evaluator.submit(Trial(number, {"passes": pipeline, "threshold": threshold}))
        values += [outcome.value for outcome in evaluator.wait()]
    evaluator.close()
    assert values[0] != values[1]


def test_a_wrong_compilation_of_llvm_14_is_found():
    """Its pass attributor-cgscc compiles this program wrongly."""
    programs = Path(__file__).parents[2] / "benchmarks" / "compilers" / "programs"
    passes = Passes(["attributor-cgscc"], opt="opt-14")
    evaluator = make(programs / "lz.c", passes=passes, cflags="")
    (outcome,) = evaluate(evaluator, ["attributor-cgscc"])
    assert outcome.failed == "correctness"
