"""The loop nest: generated code is right for every feasible schedule, and what is wrong is told."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest

from baco_like.evaluators.c_loop_nest import LoopNestEvaluator, Settings, bench, schedule_of
from baco_like.evaluators.c_loop_nest.source import (
    DOMAINS,
    LOOPS,
    PRAGMAS,
    Schedule,
    compiler_flags,
    kernel_source,
    violation,
)
from baco_like.evaluators.kernels.harnessed import read_report
from baco_like.evaluators.protocol import SourceProvider
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.real import Real
from baco_like.records.trial import Outcome, Status, Trial
from baco_like.spaces.space import Space

SIZE = 24
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert list(place.iterdir()) == []


@pytest.fixture
def space() -> Space:
    tile = [1, 2, 3, 4, 6, 8, 12, 24, 5]
    return Space(
        {
            "order": Permutation(list(LOOPS)),
            "ti": tile,
            "tj": tile,
            "tk": tile,
            "unroll": [1, 2, 4, 16],
            "pragma": list(PRAGMAS),
            "opt": ["-O1", "-O2", "-O3"],
            "march": ["generic", "native"],
            "fast_math": [False, True],
            "threads": [1, 2],
        },
        constraints=[
            "24 % ti == 0",
            "24 % tj == 0",
            "24 % tk == 0",
            "threads == 1 or pos(order, 'ko') > 0",
            "threads == 1 or pos(order, 'ki') > 0",
            "pragma != 'omp simd' or unroll == 1",
        ],
    )


def evaluate(evaluator: LoopNestEvaluator, **config: Any) -> Outcome:
    evaluator.submit(Trial(4, config))
    (outcome,) = evaluator.wait()
    return outcome


@needs_cc
def test_every_feasible_schedule_is_right(space: Space) -> None:
    evaluator = LoopNestEvaluator(space, Settings(SIZE), Repeats(2, 2))
    configs = space.sample(45, seed=1)
    for config in configs:
        outcome = evaluate(evaluator, **config)
        assert outcome.status is Status.OK, (config, outcome.message)
        assert len(outcome.repeats) == 2
        assert all(value > 0 for value in outcome.repeats)
    evaluator.close()


@needs_cc
def test_the_plain_nest_is_the_default() -> None:
    evaluator = LoopNestEvaluator(Space({"ti": [1, 2]}), Settings(SIZE, scale=1e6), Repeats(3, 3))
    outcome = evaluate(evaluator, ti=1)
    assert len(outcome.repeats) == 3
    assert set(outcome.extra["seconds"]) == {"compile", "run"}
    source = evaluator.source({"ti": 1})
    loops = [line.split()[2] for line in source.splitlines() if line.strip().startswith("for (int")]
    assert loops == ["q", "io", "jo", "ko"]
    assert "pragma" not in source.split("void kernel")[1]
    assert compiler_flags(Schedule()) == ["-O2"]
    assert isinstance(evaluator, SourceProvider)
    assert evaluator.source_name == "matmul.c"
    evaluator.close()
    evaluator.close()


@needs_cc
def test_it_goes_on_after_close() -> None:
    evaluator = LoopNestEvaluator(Space({"ti": [1, 2]}), Settings(SIZE), Repeats())
    assert evaluate(evaluator, ti=2).status is Status.OK
    evaluator.close()
    assert evaluate(evaluator, ti=1).status is Status.OK
    evaluator.close()


def with_kernel(monkeypatch: pytest.MonkeyPatch, body: str) -> LoopNestEvaluator:
    """Return an evaluator whose every kernel has this body."""
    source = "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <math.h>\n"
    source += f"void kernel(const float *A, const float *B, float *C) {{ {body} }}\n"
    monkeypatch.setattr(bench, "kernel_source", lambda schedule, size: source)
    return LoopNestEvaluator(Space({"ti": [1, 2]}), Settings(SIZE, timeout=0.3), Repeats(2, 2))


RIGHT = (
    "for (int i = 0; i < 24; i++) for (int j = 0; j < 24; j++) { float s = 0; "
    "for (int k = 0; k < 24; k++) s += A[24 * i + k] * B[24 * k + j]; C[24 * i + j] = s; }"
)
SECOND_TIME = f"static int calls; {RIGHT} if (++calls >= 2)"


@needs_cc
@pytest.mark.parametrize(
    ("body", "word", "message"),
    [
        ("*(volatile int *)0 = 1;", "runtime", "SIGSEGV"),
        ("abort();", "runtime", "SIGABRT"),
        ("exit(5);", "runtime", "exit code 5"),
        ("exit(0);", "runtime", "exit code 0"),
        ("memset(C, 0, 24 * 24 * 4);", "correctness", "differs from the reference by"),
        ("for (int q = 0; q < 576; q++) C[q] = NAN;", "correctness", "differs"),
        (f"{RIGHT} C[575] += 0.01f;", "correctness", "differs"),
        (f"{SECOND_TIME} C[0] = 1e9f;", "correctness", "differs"),
        (f"{SECOND_TIME} abort();", "runtime", "SIGABRT"),
        (
            f"static int n; {RIGHT} if (++n == 3) for (;;) pause();",
            "timeout",
            "a repeat was stopped",
        ),
        ("this is no C;", "compile", "error"),
    ],
)
def test_what_a_kernel_may_do(
    monkeypatch: pytest.MonkeyPatch, body: str, word: str, message: str
) -> None:
    evaluator = with_kernel(monkeypatch, body)
    outcome = evaluate(evaluator, ti=1)
    evaluator.close()
    assert (outcome.status, outcome.failed) == (Status.FAILED, word)
    assert message in outcome.message


@needs_cc
@pytest.mark.parametrize("body", ["for (;;) pause();", "volatile int go = 1; while (go) {}"])
def test_a_hang_is_censored_at_the_limit(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    evaluator = with_kernel(monkeypatch, body)
    outcome = evaluate(evaluator, ti=1)
    evaluator.close()
    assert (outcome.status, outcome.failed) == (Status.CENSORED, "timeout")
    assert outcome.bound == pytest.approx(300.0)


@needs_cc
def test_a_compiler_that_hangs_is_a_timeout(tmp_path: Path) -> None:
    compiler = tmp_path / "slow-cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *kernel*) sleep 30;; esac\nexec {shutil.which("cc")} "$@"\n'
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    settings = Settings(
        SIZE, compiler=str(compiler), build_timeout=3.0
    )  # the harness compiles in time, also on a busy machine
    evaluator = LoopNestEvaluator(Space({"ti": [1, 2]}), settings)
    outcome = evaluate(evaluator, ti=1)
    evaluator.close()
    assert (outcome.status, outcome.failed) == (Status.FAILED, "timeout")


@needs_cc
def test_a_compiler_that_compiles_nothing_is_broken(tmp_path: Path) -> None:
    evaluator = LoopNestEvaluator(Space({"ti": [1, 2]}), Settings(SIZE, compiler="false"))
    with pytest.raises(EvaluatorError, match="harness"):
        evaluate(evaluator, ti=1)
    evaluator.close()


@needs_cc
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"ti": 5}, "ti = 5 does not divide the size 24"),
        ({"order": ("ko", "io", "jo", "ii", "ji", "ki"), "threads": 2}, "race for the sums"),
        ({"order": ("ki", "io", "jo", "ii", "ji", "ko"), "threads": 2}, "race for the sums"),
    ],
)
def test_programs_that_cannot_be_right_are_not_run(
    space: Space, config: dict[str, Any], message: str
) -> None:
    evaluator = LoopNestEvaluator(space, Settings(SIZE))
    outcome = evaluate(evaluator, **config)
    assert outcome.failed == "constraints"
    assert message in outcome.message
    with pytest.raises(EvaluatorError, match=message):
        evaluator.source(config)
    evaluator.close()


@needs_cc
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"tI": [1, 2]}, "no parameter 'tI'; did you mean 'ti'"),
        ({"ti": [0, 2]}, "'ti': 0 is not a whole number"),
        ({"ti": [1.5, 2.0]}, "'ti': 1.5"),
        ({"tj": Real(1.0, 2.0)}, "'tj'"),
        ({"order": Permutation(["i", "j", "k"])}, "a permutation of io, jo"),
        ({"pragma": ["none", "simd"]}, "'simd' is not one of none, ivdep, omp simd"),
        ({"opt": ["-O2", "-O2 -fplugin=x"]}, "'opt'"),
        ({"march": ["native", "-x"]}, "'march'"),
        ({"fast_math": ["yes", "no"]}, "true or false"),
        ({"threads": Ordinal([1, -2][::-1])}, "'threads'"),
    ],
)
def test_spaces_that_are_not_understood(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(EvaluatorError, match=message) as caught:
        LoopNestEvaluator(Space(parameters), Settings(SIZE))
    assert "\n" not in str(caught.value)


def test_a_missing_compiler_is_told(space: Space) -> None:
    with pytest.raises(EvaluatorError, match="'no-such-cc' is not on PATH"):
        LoopNestEvaluator(space, Settings(SIZE, compiler="no-such-cc"))


@needs_cc
def test_a_compiler_without_openmp_is_told(space: Space, tmp_path: Path) -> None:
    compiler = tmp_path / "cc-without"
    compiler.write_text("#!/bin/sh\necho unsupported option >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(EvaluatorError, match=r"cannot compile OpenMP.*unsupported option"):
        LoopNestEvaluator(space, Settings(SIZE, compiler=str(compiler)))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "needs the key 'size'"),
        ({"size": 0}, "size = 0"),
        ({"size": 24, "sise": 3}, "did you mean 'size'"),
        ({"size": 24, "tolerance": 0}, "tolerance"),
    ],
)
def test_wrong_tables(space: Space, entries: dict[str, Any], message: str) -> None:
    with pytest.raises(RunFileError, match=message):
        LoopNestEvaluator.from_table(Table("evaluator", entries), space, "ms", Path())


def test_the_unit_is_one_of_time(space: Space) -> None:
    with pytest.raises(RunFileError, match="measures time, not 'GB/s'"):
        LoopNestEvaluator.from_table(Table("evaluator", {"size": 24}), space, "GB/s", Path())


def test_innermost_sums_have_an_accumulator_and_a_reduction() -> None:
    schedule = Schedule(tk=4, pragma="omp simd")
    source = kernel_source(schedule, 8)
    assert "#pragma omp simd reduction(+ : sum)" in source
    other = replace(schedule, order=("io", "jo", "ko", "ii", "ki", "ji"), tj=4)
    assert "reduction" not in kernel_source(other, 8)


def test_threads_always_share_the_first_loop_of_the_order() -> None:
    for order in (LOOPS, ("ii", "io", "jo", "ko", "ji", "ki")):
        lines = kernel_source(Schedule(order=order, threads=2, ti=1), 8).splitlines()
        place = next(i for i, line in enumerate(lines) if "omp parallel for" in line)
        assert lines[place + 1].strip().startswith(f"for (int {order[0]} ")


def test_flags() -> None:
    schedule = Schedule(opt="-O3", march="native", fast_math=True, threads=2)
    assert compiler_flags(schedule) == ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
    assert compiler_flags(Schedule(pragma="omp simd")) == ["-O2", "-fopenmp-simd"]


def test_every_field_of_a_schedule_has_a_domain_that_holds_its_default() -> None:
    assert {field.name for field in fields(Schedule)} == set(DOMAINS)
    assert schedule_of(asdict(Schedule())) == schedule_of({}) == Schedule()
    assert violation(Schedule(), 7) is None


def test_a_torn_report_is_read_as_far_as_it_goes() -> None:
    report = read_report('{"seconds": 1.5e-3}\n{"seconds": 2.0e\nnoise\n{"error": 4}\n[1]\n')
    assert report.seconds == (0.0015,)
    assert report.error == 4.0


@needs_cc
def test_warm_ups_and_more_repeats_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel counts its calls in a file: two warm-ups and two repeats a process."""
    monkeypatch.setattr(bench, "kernel_source", lambda schedule, size: counting())
    settings = Settings(SIZE, warmup=2)
    rule = Repeats(2, 4, relative_error=1e-9)
    evaluator = LoopNestEvaluator(Space({"ti": [1, 2]}), settings, rule)
    evaluator.submit(Trial(4, {"ti": 1}))
    (outcome,) = evaluator.wait()
    assert len(outcome.repeats) == 4, outcome
    folder = next(Path(tempfile.gettempdir()).iterdir())
    assert (folder / "calls").read_text() == "x" * 8
    evaluator.close()


def counting() -> str:
    head = "#include <stdio.h>\nvoid kernel(const float *A, const float *B, float *C) { "
    tell = 'FILE *f = fopen("calls", "a"); fputc(\'x\', f); fclose(f); '
    return f"{head}{tell}{RIGHT} }}\n"


@needs_cc
def test_a_kernel_that_is_clearly_slower_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one counts, the second one sleeps for longer than the test may take."""
    bodies = iter([f"{RIGHT} usleep(10000);", f"{RIGHT} sleep(60);"])
    head = "#include <unistd.h>\nvoid kernel(const float *A, const float *B, float *C) { "
    monkeypatch.setattr(bench, "kernel_source", lambda schedule, size: f"{head}{next(bodies)} }}\n")
    settings = Settings(SIZE, timeout=60.0)
    evaluator = LoopNestEvaluator(Space({"ti": [1, 2]}), settings, Repeats(2, 2, slow_ratio=3.0))
    fast, slow = evaluate(evaluator, ti=1), evaluate(evaluator, ti=2)
    evaluator.close()
    assert fast.value is not None
    assert (slow.status, slow.failed) == (Status.CENSORED, "timeout")
    assert slow.bound == pytest.approx(3 * fast.value)


@needs_cc
def test_kernels_are_compiled_ahead() -> None:
    evaluator = LoopNestEvaluator(Space({"ti": [1, 2, 3, 4]}), Settings(SIZE), Repeats(), ahead=2)
    for number in range(4):
        evaluator.submit(Trial(number, {"ti": number + 1}))
    outcomes = [one for _ in range(4) for one in evaluator.wait()]
    assert sorted(one.trial_id for one in outcomes) == [0, 1, 2, 3]
    assert all(one.status is Status.OK for one in outcomes)
    evaluator.close()


@needs_cc
def test_memory_and_cpus_reach_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"{RIGHT} if (!malloc(1u << 30)) abort();"
    for memory, word in ((None, None), (256 << 20, "runtime")):
        head = "#include <stdlib.h>\nvoid kernel(const float *A, const float *B, float *C) { "
        source = f"{head}{body} }}\n"
        monkeypatch.setattr(bench, "kernel_source", lambda a, b, s=source: s)
        cpus = frozenset({min(os.sched_getaffinity(0))}) if sys.platform == "linux" else None
        settings = Settings(SIZE, memory=memory, cpus=cpus)
        evaluator = LoopNestEvaluator(Space({"ti": [1, 2]}), settings, Repeats())
        outcome = evaluate(evaluator, ti=1)
        evaluator.close()
        assert outcome.failed == word, outcome.message
