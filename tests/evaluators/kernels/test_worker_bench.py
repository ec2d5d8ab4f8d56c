"""Kernels in a worker: every failure is an outcome, and a kernel does not suffer for the faults of another."""

import contextlib
import threading
from pathlib import Path

import kernel_targets
import numpy as np
import patient
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like.evaluators import Repeats, StagedEvaluator
from baco_like.evaluators.kernels import timing
from baco_like.evaluators.kernels.arguments import TIMED
from baco_like.evaluators.kernels.bench import KernelBench, KernelSettings
from baco_like.evaluators.kernels.timing import CompiledKernel, KernelLimits, Measurement
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Status, Trial

LIMITS = KernelLimits(timeout=60.0, build_timeout=60.0, launch_timeout=60.0)
SHORT = KernelLimits(timeout=0.3, build_timeout=0.6, launch_timeout=0.3)
DEFAULT = {"fault": "none", "at": 0, "seconds": 0.25, "log": "", "program": None}


def complete(config):
    if "typo" in config:
        raise EvaluatorError("no parameter 'typo'")
    return {**DEFAULT, **config}


def bench(limits=LIMITS):
    chosen = KernelSettings("", 1, timeout=limits.timeout, build_timeout=limits.build_timeout)
    serve, launch = "kernel_targets:serve", limits.launch_timeout
    return KernelBench(serve, chosen, Path(), complete, launch_timeout=launch)


@pytest.fixture(scope="module")
def evaluator():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent))
        made = StagedEvaluator(bench(), Repeats(3))
        yield made
        made.close()


@pytest.fixture
def hasty(evaluator):
    """An evaluator with short limits, for kernels that hang."""
    made = StagedEvaluator(bench(SHORT), Repeats(3))
    yield made
    made.close()


def evaluate(evaluator, **config):
    evaluator.submit(Trial(4, config))
    (outcome,) = evaluator.wait()
    return outcome


def test_times_are_in_the_objectives_unit(evaluator):
    outcome = evaluate(evaluator)
    assert (outcome.status, outcome.value, outcome.repeats) == (Status.OK, 250.0, (250.0,) * 3)
    assert set(outcome.extra["seconds"]) == {"compile", "launch", "check", "run"}
    assert outcome.metrics == {"error": 0.0}


@pytest.mark.parametrize(
    ("config", "word", "message"),
    [
        ({"fault": "compile"}, "compile", "compile: builtins.SyntaxError: no such word"),
        ({"fault": "compiler crash"}, "compile", "SIGSEGV"),
        ({"fault": "crash"}, "runtime", "launch: ended by SIGSEGV"),
        ({"fault": "crash", "at": 2}, "runtime", "run: ended by SIGSEGV"),
        ({"fault": "exit"}, "runtime", "exit code 3"),
        ({"fault": "launch"}, "runtime", "builtins.RuntimeError: out of resources"),
        ({"fault": "wrong"}, "correctness", "element (0, 0) is 1.5 instead of 1"),
        ({"fault": "wrong", "at": 3}, "correctness", "check: element (0, 0)"),
        ({"fault": "nan"}, "correctness", "element (0, 2) is nan instead of 3"),
        ({"fault": "silent"}, "correctness", "element (0, 0) is nan instead of 1"),
        ({"fault": "silent", "at": 3}, "correctness", "element (0, 0) is -6.515823e+35 instead"),
        ({"fault": "keep"}, "correctness", "element (0, 0) is 2.0 instead of 1.0"),
        ({"fault": "known"}, "correctness", "with inputs of seed 7"),
        ({"seconds": -1e-9}, "runtime", "ArithmeticError: a launch took -1e-09 s by the clock"),
    ],
)
def test_failures(evaluator, config, word, message):
    outcome = evaluate(evaluator, **config)
    assert (outcome.status, outcome.failed) == (Status.FAILED, word)
    assert message in outcome.message


def hang(evaluator, message, status=Status.FAILED, **config):
    return patient.evaluate(
        evaluator,
        Trial(4, config),
        lambda outcome: (outcome.status, outcome.message) == (status, message),
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"fault": "compiler hang"}, "compile: stopped after 0.6 s"),
        ({"fault": "hang", "at": 2}, "run: stopped after 0.3 s"),
    ],
)
def test_a_hang_is_stopped(hasty, config, message):
    outcome = hang(hasty, message, **config)
    assert (outcome.status, outcome.failed) == (Status.FAILED, "timeout")
    assert message in outcome.message


@pytest.mark.parametrize(
    "messages",
    [
        [{"answer": 3}],
        [{"answer": {"problem": 3}}],
        [{"answer": {"problem": None}}],
        [{"answer": None}],
        [{"answer": {"identity": "p", "build": {}}}],
        [{"note": "x"}, {"answer": {"problem": None}}],
        [{"note": 1e308}, {"answer": {"problem": None}}],
        [{"number": 7, "answer": None}],
    ],
)
def test_forged_messages_of_a_kernel_are_failures_of_this_kernel(evaluator, messages):
    outcome = evaluate(evaluator, fault="forge", at=1, messages=messages)
    assert (outcome.status, outcome.failed) == (Status.FAILED, "runtime")
    assert "something else than an answer" in outcome.message
    assert evaluate(evaluator).value == 250.0


def test_equal_programs_run_once(evaluator, tmp_path):
    log = tmp_path / "log"
    for seconds in (0.5, 0.75):
        outcome = evaluate(evaluator, seconds=seconds, log=str(log), program="p")
        assert outcome.value == 500.0
    assert len(log.read_text().split()) == 4  # three measurements, and the first launch
    assert outcome.extra["same_program"] == 4


def test_a_compilation_with_a_wrong_identity_fails(evaluator):
    outcome = evaluate(evaluator, program=3)
    assert (outcome.status, outcome.failed) == (Status.FAILED, "compile")
    assert "got `int` - at `$.identity`" in outcome.message


@pytest.mark.parametrize(("at", "stage"), [(0, "launch"), (1, "run")])
def test_a_kernel_that_was_stopped_before_it_was_timed_is_censored(hasty, at, stage):
    message = f"{stage}: stopped after 0.3 s"
    outcome = hang(hasty, message, Status.CENSORED, fault="hang", at=at)
    assert (outcome.status, outcome.failed) == (Status.CENSORED, "timeout")
    assert outcome.bound == 300.0


def test_a_first_launch_with_a_limit_of_its_own_says_nothing_of_the_kernel(evaluator):
    compiling = StagedEvaluator(bench(KernelLimits(0.2, 0.4, 0.4)), Repeats(1))
    outcome = hang(compiling, "launch: stopped after 0.4 s", fault="hang")
    compiling.close()
    assert (outcome.status, outcome.failed) == (Status.FAILED, "timeout")


def test_what_was_measured_before_is_kept(evaluator):
    assert evaluate(evaluator, fault="crash", at=3).extra["repeats"] == [250.0, 250.0]


@pytest.mark.parametrize("fault", ["none", "victim"])
def test_what_an_earlier_kernel_has_spoilt_is_not_the_next_ones_fault(evaluator, fault):
    assert evaluate(evaluator, fault="corrupt").status is Status.OK
    assert evaluate(evaluator, fault=fault).status is Status.OK


def test_a_crash_is_tried_again_only_where_another_may_be_to_blame(evaluator, tmp_path):
    alone, after = tmp_path / "alone", tmp_path / "after"
    evaluator.close()
    evaluate(evaluator, fault="crash", log=str(alone))
    evaluate(evaluator)
    evaluate(evaluator, fault="crash", log=str(after))
    assert [len(log.read_text().splitlines()) for log in (alone, after)] == [1, 2]


def test_no_further_repeats_once_it_is_slow(evaluator, tmp_path):
    made = StagedEvaluator(bench(), Repeats(4, slow_ratio=2.0))
    assert evaluate(made, seconds=0.01).value == 10.0
    log = tmp_path / "log"
    outcome = evaluate(made, seconds=0.05, log=str(log))
    made.close()
    assert (outcome.status, outcome.bound) == (Status.CENSORED, 50.0)
    assert len(log.read_text().splitlines()) == 2  # the launch and one run


def test_builds_ahead_wait_in_the_worker(evaluator):
    made = StagedEvaluator(bench(), Repeats(1), ahead=2)
    faults = ("none", "crash", "none", "compile", "none")
    words = {}
    for i, fault in enumerate(faults):
        made.submit(Trial(i, {"fault": fault}))
    for _ in faults:
        (outcome,) = made.wait()
        words[outcome.trial_id] = outcome.failed
    made.close()
    assert words == {0: None, 1: "runtime", 2: None, 3: "compile", 4: None}


def test_values_that_are_not_understood_end_the_run(evaluator):
    with pytest.raises(EvaluatorError, match="no parameter 'typo'"):
        evaluate(evaluator, typo=1)


class Clocked(CompiledKernel):
    """A kernel whose launches take some steps of a clock."""

    is_on_host = False  # the load of this machine does not matter

    def __init__(self, steps, most):
        self.arguments, self._steps, self._most = kernel_targets.make_arguments(), steps, most
        self.calls = []

    @property
    def most_launches(self):
        return self._most

    def time(self, launches, limit):
        self.calls.append(launches)
        values, output = (block.array for block in self.arguments.blocks)
        assert set(output) in ({0xFF}, {0x7A}, {0xFA})
        output[:] = values
        return launches * self._steps * self.step


class Notes:
    def __init__(self):
        self.values = []

    def stage(self, name, limit):
        assert limit > 0

    def note(self, value):
        self.values.append(value)


@given(
    steps=st.integers(0, 300) | st.floats(0.5, 1e4),
    most=st.sampled_from([1, 7, 10**6]),
    count=st.integers(1, 3),
)
def test_a_sample_is_a_hundred_steps_of_the_clock(steps, most, count):
    kernel, report = Clocked(steps, most), Notes()
    request = {
        "count": count,
        "launch": 1.0,
        "timeout": 1.0,
        "enough": 1.0,
        "near": 1.0,
        "grace": 0.0,
    }
    answer = Measurement(kernel, LIMITS)(request, report)
    assert answer["problem"] is None
    assert report.values == pytest.approx([steps * kernel.step] * count)
    assert max(kernel.calls) <= most
    if most > 1000:
        launches = kernel.calls[-1]  # of the last sample
        assert steps * launches >= 100 or launches == 1000
    is_coarse = steps * min(most, 1000) < 10
    assert ("below the resolution" in answer["notes"].get("resolution", "")) == is_coarse


REQUEST = {"count": 3, "launch": 1.0, "timeout": 1.0, "enough": 1.0, "near": 1.0, "grace": 0.0}


@pytest.mark.parametrize(
    ("slow", "is_busy", "problem", "notes"),
    [
        ([], True, None, set()),
        ([0], True, None, set()),  # its caches were cold
        ([0, 1], True, "the kernel keeps results", set()),
        ([0, 1, 2], True, "the kernel keeps results", set()),
        (range(9), True, None, {"new inputs"}),  # its time depends on the inputs
        ([0, 1], False, None, set()),  # another process has delayed it
    ],
)
def test_a_kernel_that_keeps_results_is_found(slow, is_busy, problem, notes, monkeypatch):
    """Its launches with new inputs are slow, those with inputs that it knows are not."""
    kernel, cpu, launches = Clocked(1e6, 1), [0.0], iter(range(9))
    plain = kernel.time

    def time(count, limit):
        is_slow = kernel.arguments.draw != TIMED and next(launches) in slow
        seconds = plain(count, limit) * (2 if is_slow else 1)
        cpu[0] += seconds * is_busy
        return seconds

    kernel.time = time
    monkeypatch.setattr("time.process_time", lambda: cpu[0])
    answer = Measurement(kernel, LIMITS)(REQUEST, Notes())
    assert str(answer["problem"]).startswith(str(problem))
    assert answer["notes"].keys() == notes


@pytest.mark.parametrize(
    ("first", "limits", "launches"),
    [
        (1, {}, [4, 7]),
        (2, {}, [5, 8]),
        (2, {"enough": 1e-4}, [2, 3]),
        (2, {"near": 1e-4}, [4, 7]),
    ],
)
def test_a_kernel_has_more_inputs_only_if_its_first_launch_is_long(
    first, limits, launches, monkeypatch
):
    """Further launches would cost a tenth of a run, and none is made for a kernel that is too slow anyway."""
    kernel, cpu = Clocked(1e6, 1), [0.0]
    plain = kernel.time

    def time(count, limit):
        seconds = plain(count, limit) * (1 if len(kernel.calls) > 1 else first)
        cpu[0] += seconds
        return seconds

    kernel.time = time
    monkeypatch.setattr("time.process_time", lambda: cpu[0])
    measurement = Measurement(kernel, LIMITS)
    for number in launches:
        answer = measurement({**REQUEST, **limits}, Notes())
        assert (answer["problem"], len(kernel.calls)) == (None, number)


@pytest.mark.parametrize(
    ("delays", "cpus", "times", "note"),
    [
        ([0, 0, 0, 0, 0], 1, [1, 1, 1], ""),
        ([0, 3, 0, 0, 0], 1, [1, 1, 1], ""),  # one sample is measured again
        ([3, 2, 1, 3, 1, 0], 1, [2, 2, 1], "50%"),  # of three, three are measured again
        ([3, 2, 0, 3, 1, 0], 1, [1, 2, 1], ""),  # the median is right
        ([3, 1, 3, 3, 3, 3], 1, [2, 4, 4], "75%"),
        ([3, 3, 3], 0, [4, 4, 4], "75%"),  # threads that have no CPU would wait again
    ],
)
def test_a_sample_that_waits_for_a_processor_is_measured_again(
    delays, cpus, times, note, monkeypatch
):
    """The clock advances by a launch and by the time that it waits for other processes."""
    kernel, clock, waited, left = Clocked(1e6, 1), [0.0], [0.0], iter([0, *delays, *([0] * 9)])
    plain, kernel.is_on_host = kernel.time, True

    def time(count, limit):
        delay = next(left) * plain(count, limit)
        waited[0] += delay
        clock[0] += delay + 1e-3
        return delay + 1e-3

    kernel.time = time
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(timing.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(timing, "_count_cpus", lambda: cpus)
    monkeypatch.setattr(timing, "_thread_seconds", lambda: {"1": np.array([0.0, waited[0]])})
    notes = Notes()
    answer = Measurement(kernel, LIMITS)(REQUEST, notes)
    assert [round(value * 1e3) for value in notes.values] == times
    assert note in answer["notes"].get("delayed", "")
    assert (
        not note
        or "a race between threads that take turns does not show" in answer["notes"]["delayed"]
    )
    assert ("delayed" in answer["notes"]) == bool(note)


def test_the_result_of_a_sample_that_is_measured_again_is_checked_too(monkeypatch):
    kernel, waited = Clocked(1e6, 1), iter([0.0, 0.0, 0.0, 9.0, *([9.0] * 9)])
    plain, kernel.is_on_host = kernel.time, True

    def time(count, limit):
        seconds = plain(count, limit)
        if len(kernel.calls) == 2:  # the sample that waits for nine seconds
            kernel.arguments.blocks[1].array[3] ^= 0x80  # the sign of the first element
        return seconds

    kernel.time = time
    monkeypatch.setattr(timing, "_thread_seconds", lambda: {"1": np.array([0.0, next(waited)])})
    answer = Measurement(kernel, LIMITS)(REQUEST, Notes())
    assert len(kernel.calls) == 2
    assert "1 of 6 elements is wrong" in answer["problem"]


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="needs schedstat of Linux")
def test_the_time_that_threads_wait_for_a_processor_is_read():
    before = timing._thread_seconds()
    assert all((seconds >= 0).all() and (seconds < 1e6).all() for seconds in before.values())
    assert str(threading.get_native_id()) in before


@pytest.mark.parametrize("is_delayed", [False, True])
def test_a_launch_that_waits_for_a_processor_keeps_no_results(is_delayed, monkeypatch):
    """The first launch, and the first one with later inputs, take a hundred times as long; other threads may spin."""
    kernel, cpu, waited = Clocked(1e6, 1), [0.0], [0.0]
    plain, kernel.is_on_host = kernel.time, True

    def time(count, limit):
        seconds = plain(count, limit)
        if len(kernel.calls) in (1, 5):
            seconds *= 100
            waited[0] += 0.99 * seconds if is_delayed else 0.0
        cpu[0] += seconds
        return seconds

    kernel.time = time
    monkeypatch.setattr("time.process_time", lambda: cpu[0])
    monkeypatch.setattr(timing, "_thread_seconds", lambda: {"1": np.array([0.0, waited[0]])})
    problem = Measurement(kernel, LIMITS)(REQUEST, Notes())["problem"]
    assert (problem is None) == is_delayed, (problem, len(kernel.calls))


@pytest.mark.parametrize("is_refused", [False, True])
def test_allocations_are_filled_in_the_first_launch_only(is_refused, monkeypatch):
    kernel, complements, seen = Clocked(1e6, 1), [0], []
    plain = kernel.time

    def time(count, limit):
        seen.append(complements[-1])
        if is_refused:
            raise RuntimeError("refused")
        return plain(count, limit)

    kernel.time = time
    monkeypatch.setattr(timing, "_fill_allocations", complements.append)
    with pytest.raises(RuntimeError) if is_refused else contextlib.nullcontext():
        Measurement(kernel, LIMITS)(REQUEST, Notes())
    assert seen[0] != 0
    assert {*seen[1:], complements[-1]} == {0}


def test_inputs_that_do_not_depend_on_the_seed_get_a_note():
    kernel = Clocked(1e6, 1)
    kernel.arguments = kernel_targets.make_arguments(1)
    answer = Measurement(kernel, LIMITS)(REQUEST, Notes())
    assert (answer["notes"].keys(), len(kernel.calls)) == ({"same inputs"}, 4)
