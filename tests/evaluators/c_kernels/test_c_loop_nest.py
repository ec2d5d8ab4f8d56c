"""Kernels in C: the generated code of the loop nest is correct for every feasible schedule; every fault is reported."""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, fields
from pathlib import Path

import patient
import pytest
from c_loop_nest import LOOPS, PRAGMAS, Schedule, check, domains, flags, source
from kernel_checks import KERNELS
from process_checks import PATIENCE

from baco_like.evaluators import CKernelEvaluator, CKernelSettings, Repeats
from baco_like.evaluators.kernels import c, complete_config
from baco_like.evaluators.protocol import SourceProvider
from baco_like.exceptions import EvaluatorError
from baco_like.parameters import Ordinal, Permutation, Real
from baco_like.records.trial import Status, Trial
from baco_like.spaces.space import Space

pytestmark = pytest.mark.usefixtures("temporary")

SIZE = 24
PROBLEM = KERNELS / "c_loop_nest.py"
HARNESS = Path(c.__file__).with_name("harness.c")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture
def space():
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


def settings(**changed):
    return CKernelSettings(**{"problem": PROBLEM, "size": SIZE, **changed})


def evaluate(evaluator, is_expected=None, **config):
    return patient.evaluate(evaluator, Trial(4, config), is_expected)


@needs_cc
def test_every_feasible_schedule_is_right(space):
    evaluator = CKernelEvaluator(space, settings(repeats=Repeats(2)))
    configs = space.sample(20, seed=1)
    for config in configs:
        outcome = evaluate(evaluator, **config)
        assert outcome.status is Status.OK, (config, outcome.message)
        assert len(outcome.repeats) == 2
        assert all(value > 0 for value in outcome.repeats)
    evaluator.close()


@needs_cc
def test_the_plain_nest_is_the_default():
    evaluator = CKernelEvaluator(Space({"ti": [1, 2]}), settings(scale=1e6, repeats=Repeats(3)))
    outcome = evaluate(evaluator, ti=1)
    assert len(outcome.repeats) == 3
    assert set(outcome.extra["seconds"]) == {"compile", "launch", "check", "run"}
    text = evaluator.source({"ti": 1})
    loops = [line.split()[2] for line in text.splitlines() if line.strip().startswith("for (int")]
    assert loops == ["q", "io", "jo", "ko"]
    assert "pragma" not in text.split("void kernel")[1]
    assert flags({}) == ["-O2"]
    assert isinstance(evaluator, SourceProvider)
    assert evaluator.source_name == "c_loop_nest.c"
    evaluator.close()
    evaluator.close()


def with_sources(folder, *sources, **changed):
    """Return an evaluator whose kernels have these sources in turn; the last is repeated."""
    problem = folder / "problem.py"
    problem.write_text(
        f"from c_loop_nest import inputs, expected, magnitude\nSOURCES = {list(sources)!r}\n"
        "def source(config, size):\n    return SOURCES.pop(0) if len(SOURCES) > 1 else SOURCES[0]\n"
    )
    return CKernelEvaluator(Space({"ti": [1, 2]}), settings(problem=problem, **changed))


RIGHT = (
    "for (int i = 0; i < 24; i++) for (int j = 0; j < 24; j++) { float s = 0; "
    "for (int k = 0; k < 24; k++) s += A[24 * i + k] * B[24 * k + j]; C[24 * i + j] = s; }"
)
SECOND_TIME = f"static int calls; {RIGHT} if (++calls >= 2)"


FAILED, CENSORED = Status.FAILED, Status.CENSORED
FAULTS = [
    (f"{RIGHT} C[575] += 0.01f;", FAILED, "correctness", "element (23, 23)"),
    (f"{SECOND_TIME} abort();", FAILED, "runtime", "SIGABRT"),
    (
        f"static int n; {RIGHT} if (++n == 4) pause();",
        FAILED,
        "timeout",
        "run: stopped after 0.3 s",
    ),
    ("this is no C;", FAILED, "compile", "error"),
    (
        f"{RIGHT} char *p = mmap(0, 64, PROT_READ, MAP_SHARED, fileno(tmpfile()), 0); C[0] = p[0];",
        FAILED,
        "runtime",
        "SIGBUS",
    ),
    ("volatile int go = 1; while (go) {}", CENSORED, "timeout", "stopped after 0.3 s"),
]
"""What a kernel may do besides the cases of `bench_cases`."""


@needs_cc
def test_what_a_kernel_may_do(tmp_path):
    headers = ("stdlib", "string", "unistd", "math", "stdio", "sys/mman")
    head = "".join(f"#include <{name}.h>\n" for name in headers)
    signature = "void kernel(const float *A, const float *B, float *C)"
    sources = [f"{head}{signature} {{ {body} }}" for body, *_ in FAULTS]
    problem = tmp_path / "problem.py"
    problem.write_text(
        f"from c_loop_nest import inputs, expected, magnitude\nSOURCES = {sources!r}\n"
        "def source(config, size):\n    return SOURCES[config['ti']]\n"
    )
    chosen = settings(problem=problem, timeout=0.3, repeats=Repeats(2))
    evaluator = CKernelEvaluator(Space({"ti": list(range(len(FAULTS)))}), chosen)
    for number, (body, status, word, message) in enumerate(FAULTS):
        expected = patient.says(message)
        outcome = evaluate(
            evaluator, lambda o, s=status, e=expected: o.status is s and e(o), ti=number
        )
        assert (outcome.status, outcome.failed) == (status, word), (body, outcome.message)
        assert message in outcome.message, body
        assert status is FAILED or outcome.bound == pytest.approx(300.0)
    evaluator.close()


@needs_cc
def test_headers_beside_the_problem_file_are_found_and_unused_macros_are_noted(tmp_path):
    """TILE is misspelt in the header's #if; a source that cannot be read is an error of one line.

    A header with the name of one of the C library does not take its place.
    """
    (tmp_path / "features.h").write_text("#error not the C library's\n")
    (tmp_path / "body.h").write_text(
        f"#if TYLE == 2 || UNROLL == 3\n#endif\n#define BODY {RIGHT}\n"
    )
    text = '#include <stdlib.h>\n#include "body.h"\nvoid kernel(const float *A, const float *B, float *C) { BODY }'
    problem = tmp_path / "problem.py"
    problem.write_text(
        f"from c_loop_nest import inputs, expected, magnitude\nSOURCE = {text!r}\n"
        "def flags(config):\n    return [f'-DTILE={config[\"ti\"]}', '-DUNROLL']\n"
        "def source(config, size):\n    return SOURCE if config['ti'] < 3 else open('none.c').read()\n"
    )
    evaluator = CKernelEvaluator(Space({"ti": [1, 2, 3]}), settings(problem=problem))
    outcome = evaluate(evaluator, ti=1)
    assert outcome.status is Status.OK, outcome.message
    assert "the macro TILE does not occur in the source" in outcome.extra["notes"]["macro"]
    with pytest.raises(
        EvaluatorError, match=r"problem.py, line 6, in source: FileNotFoundError: .*none.c"
    ):
        evaluate(evaluator, ti=3)
    evaluator.close()
    problem.write_text(problem.read_text().replace("def source", "def sauce"))
    with pytest.raises(EvaluatorError, match=r"has no 'source'.*did you mean 'SOURCE'"):
        CKernelEvaluator(Space({"ti": [1]}), settings(problem=problem))


@needs_cc
def test_flags_may_be_paths_and_define_macros_of_the_c_library(tmp_path):
    """A macro may be defined by two flags, and have arguments."""
    text = f"void kernel(const float *A, const float *B, float *C) {{ ROUND(1) {RIGHT} }}"
    problem = tmp_path / "problem.py"
    problem.write_text(
        f"from pathlib import Path\nimport baco_like\nfrom c_loop_nest import inputs, expected, magnitude\n"
        "LIBRARY = ['-DNDEBUG', '-D_GNU_SOURCE', '-D', 'ROUND(x)=', '-I', Path(__file__).parent]\n"
        "def flags(config):\n"
        "    if config['ti'] == 3:\n        raise baco_like.Infeasible('no flags')\n"
        "    return [*LIBRARY, *(['-D', 'TILE=2', '-O3'] if config['ti'] == 2 else [])]\n"
        f"def source(config, size):\n    return {text!r}\n"
    )
    evaluator = CKernelEvaluator(Space({"ti": [1, 2, 3]}), settings(problem=problem))
    plain, unused, infeasible = (evaluate(evaluator, patient.says(""), ti=ti) for ti in (1, 2, 3))
    evaluator.close()
    assert "macro" not in plain.extra.get("notes", {})
    assert "the macro TILE does not occur" in unused.extra["notes"]["macro"]
    assert (infeasible.status, infeasible.message) == (Status.FAILED, "no flags")


@needs_cc
def test_the_harness_needs_no_header_that_macos_refuses(tmp_path):
    (tmp_path / "ucontext.h").write_text("#error refused\n")
    text = f"#define LAUNCH(kernel, a) ((void (*)(void))(kernel))()\n{HARNESS.read_text()}"
    command = ["cc", "-U__linux__", f"-I{tmp_path}", "-Werror", "-D_GNU_SOURCE"]
    options = ["-fsyntax-only", "-x", "c", "-"]
    found = subprocess.run([*command, *options], input=text, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


@needs_cc
def test_the_largest_error_of_all_checks_is_a_metric(tmp_path):
    sources = [
        "void kernel(const float *A, const float *B, float *C) "
        f"{{ {SECOND_TIME} C[7] += {added}; }}"  # only the last check sees it
        for added in ("0.0f", "0.25f", "0.5f")
    ]
    evaluator = with_sources(tmp_path, *sources, tolerance=0.9, repeats=Repeats(2))
    errors = [evaluate(evaluator, ti=1).metrics["error"] for _ in sources]
    evaluator.close()
    assert 0.0 <= errors[0] < 1e-6
    assert errors[1] < errors[2]  # relative to the largest magnitude, which depends on the seed
    assert 0.01 < errors[2] < 0.9
    assert evaluator.bench.metric_names == ("program_bytes", "error")


@needs_cc
def test_a_compiler_that_hangs_is_a_timeout(tmp_path):
    compiler = tmp_path / "slow-cc"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *kernel*) sleep 300;; esac\nexec {shutil.which("cc")} "$@"\n'
    )
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    for build_timeout in (3.0, 30.0, 90.0):  # the harness needs more on a busy machine
        slow = settings(compiler=str(compiler), build_timeout=build_timeout)
        evaluator = CKernelEvaluator(Space({"ti": [1, 2]}), slow)
        with contextlib.suppress(EvaluatorError), contextlib.closing(evaluator):
            outcome = evaluate(evaluator, lambda outcome: True, ti=1)
            break
    assert (outcome.status, outcome.failed) == (Status.FAILED, "timeout")


@needs_cc
def test_a_compiler_that_compiles_nothing_is_broken(tmp_path):
    evaluator = CKernelEvaluator(Space({"ti": [1, 2]}), settings(compiler="false"))
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
def test_programs_that_cannot_be_right_are_not_run(space, config, message):
    evaluator = CKernelEvaluator(space, settings())
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
def test_spaces_that_are_not_understood(parameters, message):
    with pytest.raises(EvaluatorError, match=message) as caught:
        CKernelEvaluator(Space(parameters), settings())
    assert "\n" not in str(caught.value)


def test_a_missing_compiler_is_told(space):
    with pytest.raises(EvaluatorError, match="'no-such-cc' is not on PATH"):
        CKernelEvaluator(space, settings(compiler="no-such-cc"))


@needs_cc
def test_a_compiler_without_openmp_is_told(space, tmp_path):
    compiler = tmp_path / "cc-without"
    compiler.write_text("#!/bin/sh\necho unsupported option >&2\nexit 1\n")
    compiler.chmod(0o755)
    with pytest.raises(EvaluatorError, match=r"does not accept -fopenmp.*unsupported option"):
        CKernelEvaluator(space, settings(compiler=str(compiler)))


def test_innermost_sums_have_an_accumulator_and_a_reduction():
    config = {"tk": 4, "pragma": "omp simd"}
    assert "#pragma omp simd reduction(+ : sum)" in source(config, 8)
    other = {**config, "order": ("io", "jo", "ko", "ii", "ki", "ji"), "tj": 4}
    assert "reduction" not in source(other, 8)


def test_threads_always_share_the_first_loop_of_the_order():
    for order in (LOOPS, ("ii", "io", "jo", "ko", "ji", "ki")):
        lines = source({"order": order, "threads": 2, "ti": 1}, 8).splitlines()
        place = next(i for i, line in enumerate(lines) if "omp parallel for" in line)
        assert lines[place + 1].strip().startswith(f"for (int {order[0]} ")


def test_flags():
    config = {"opt": "-O3", "march": "native", "fast_math": True, "threads": 2}
    assert flags(config) == ["-O3", "-march=native", "-ffast-math", "-fopenmp"]
    assert flags({"pragma": "omp simd"}) == ["-O2", "-fopenmp-simd"]


def test_every_field_of_a_schedule_has_a_domain_that_holds_its_default():
    assert {field.name for field in fields(Schedule)} == set(domains())
    for config in (asdict(Schedule()), {}):
        assert Schedule(**complete_config("c_loop_nest", domains(), config)) == Schedule()
    check(Schedule(), 7)


@needs_cc
def test_warm_ups_and_more_repeats_where_they_are_wanted(tmp_path):
    """The kernel counts its calls in a file: two warm-ups and two repeats a process."""
    rule, counts = Repeats(2, 4, relative_error=1e-9), []
    for _ in range(8):  # a sample that other processes delay is measured again
        evaluator = with_sources(tmp_path, counting(), warmup=2, repeats=rule)
        evaluator.submit(Trial(4, {"ti": 1}))
        (outcome,) = evaluator.wait()
        assert len(outcome.repeats) == 4, outcome
        (calls,) = Path(tempfile.gettempdir()).glob("*/calls")
        counts.append(len(calls.read_text()))
        evaluator.close()
        if counts[-1] == 8:
            break
    assert counts[-1] == 8, counts


def counting():
    """Return a kernel that counts its calls in a file; no two calls take equally long."""
    head = "#include <stdio.h>\n#include <unistd.h>\n"
    head += "void kernel(const float *A, const float *B, float *C) { static int n; usleep(2000 + 50 * ++n); "
    tell = 'FILE *f = fopen("calls", "a"); fputc(\'x\', f); fclose(f); '
    return f"{head}{tell}{RIGHT} }}\n"


@needs_cc
def test_a_kernel_that_is_clearly_slower_is_stopped(tmp_path):
    """The first one counts, the second one sleeps for longer than the test may take."""
    bodies = [f"{RIGHT} usleep(10000);", f"{RIGHT} sleep(60);"]
    head = "#include <unistd.h>\nvoid kernel(const float *A, const float *B, float *C) { "
    sources = (f"{head}{body} }}\n" for body in bodies)
    rule = Repeats(2, slow_ratio=3.0)
    evaluator = with_sources(tmp_path, *sources, timeout=60.0, repeats=rule)
    fast = evaluate(evaluator, ti=1)
    slow = evaluate(evaluator, lambda outcome: outcome.status is Status.CENSORED, ti=2)
    evaluator.close()
    assert (slow.status, slow.failed) == (Status.CENSORED, "timeout")
    assert slow.bound == pytest.approx(3 * fast.value)


@needs_cc
@pytest.mark.parametrize(
    "body",
    [
        f"volatile char *p = malloc(32 << 20); p[9] = 1; {RIGHT} free((char *)p);",
        f"static int calls; if (!calls++) usleep(5000); {RIGHT}",  # as threads that start
    ],
)
def test_a_kernel_is_not_slow_that_allocates_much_or_starts_threads(tmp_path, body):
    """The first launch may take longer than a clearly slower kernel: what it allocates is filled in it, too."""
    head = "#include <stdlib.h>\n#include <unistd.h>\n"
    head += "void kernel(const float *A, const float *B, float *C) { "
    sources = (f"{head}{text} }}\n" for text in (RIGHT, body))
    rule = Repeats(2, slow_ratio=20.0)
    evaluator = with_sources(tmp_path, *sources, timeout=60.0, repeats=rule)
    outcomes = [evaluate(evaluator, ti=ti) for ti in (1, 2)]
    evaluator.close()
    assert [outcome.status for outcome in outcomes] == [Status.OK] * 2, outcomes[1].message


@needs_cc
def test_memory_and_cpus_reach_the_kernel(tmp_path):
    body = f"{RIGHT} if (!malloc(1u << 30)) abort();"
    for memory, word in ((None, None), (256 << 20, "runtime")):
        head = "#include <stdlib.h>\nvoid kernel(const float *A, const float *B, float *C) { "
        text = f"{head}{body} }}\n"
        cpus = frozenset({min(os.sched_getaffinity(0))}) if sys.platform == "linux" else None
        evaluator = with_sources(tmp_path, text, memory=memory, cpus=cpus, repeats=Repeats())
        outcome = evaluate(evaluator, ti=1)
        evaluator.close()
        assert outcome.failed == word, outcome.message


@needs_cc
def test_equal_programs_are_measured_once(tmp_path):
    """The second source differs by a comment only."""
    other = counting().replace("{ ", "{ /* the same */ ", 1)
    counts = []
    for _ in range(8):  # a sample that other processes delay is measured again
        evaluator = with_sources(tmp_path, counting(), other, repeats=Repeats(2))
        first, second = evaluate(evaluator, ti=1), evaluate(evaluator, ti=2)
        (calls,) = Path(tempfile.gettempdir()).glob("*/calls")
        counts.append(len(calls.read_text()))
        evaluator.close()
        if counts[-1] == 3:
            break
    assert counts[-1] == 3, counts
    assert second.repeats == first.repeats
    assert second.extra["same_program"] == first.trial_id


@needs_cc
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_process_of_the_next_kernel_ends_with_the_worker(is_killed):
    evaluator = CKernelEvaluator(Space({"ti": [1, 2]}), settings(repeats=Repeats()))
    assert evaluate(evaluator).status is Status.OK
    bench = evaluator._c_bench
    bench.request({}, size=SIZE)  # when this is answered, the process of the last kernel is gone
    pid = bench.worker._channel.child.process.pid
    (waiting,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert is_running(waiting)
    if is_killed:
        os.kill(pid, signal.SIGKILL)
    else:
        evaluator.close()
    deadline = time.monotonic() + PATIENCE
    while is_running(waiting):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    evaluator.close()


def is_running(process):
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


@needs_cc
def test_the_size_may_be_the_fidelity():
    space = Space({"ti": [1, 2]}, fidelity={"size": [8, 16]})
    evaluator = CKernelEvaluator(space, settings(repeats=Repeats()))
    outcomes = [evaluate(evaluator, ti=ti, size=size) for size, ti in ((8, 2), (16, 2), (8, 1))]
    assert [o.status for o in outcomes] == [Status.OK] * 3, outcomes
    assert "same_program" not in outcomes[1].extra
    assert "8" in evaluator.source({"ti": 2, "size": 8})
    evaluator.close()
