import concurrent.futures
import math
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from types import MappingProxyType

import pytest

from baco_like.evaluators import FunctionEvaluator
from baco_like.evaluators.executors.base import LostWorker
from baco_like.evaluators.function.call import DEFAULT_FAILURES, failure_word
from baco_like.exceptions import EvaluatorError, Infeasible
from baco_like.records.trial import Status, Trial


def trials(n):
    return [
        Trial(i, MappingProxyType({"x": i, "order": ("i", "j")}), tag=object()) for i in range(n)
    ]


def evaluate(fn, **settings):
    evaluator = FunctionEvaluator(fn, **settings)
    evaluator.submit(trials(4)[3])
    (outcome,) = evaluator.wait()
    evaluator.close()
    return outcome


def raising(error):
    def fn(trial):
        raise error

    return fn


def square(trial):
    return float(trial["x"] ** 2)


def die(trial):
    os._exit(3)


def test_the_function_gets_a_read_only_mapping():
    def kernel(x, order):
        assert order == ("i", "j")
        return float(x)

    def fn(trial):
        with pytest.raises(TypeError):
            trial["x"] = 1
        return kernel(**trial) + trial.id

    assert evaluate(fn).value == 6.0


def test_time_of_the_call_is_kept():
    outcome = evaluate(square)
    assert outcome.value == 9.0
    assert outcome.extra["seconds"]["run"] >= 0


def test_repeats_call_again_and_keep_all_values():
    values = iter([3.0, 1.0, 2.0])
    outcome = evaluate(lambda trial: next(values), repeats=3)
    assert (outcome.value, outcome.repeats) == (2.0, (3.0, 1.0, 2.0))


def test_repeats_of_lists_and_metrics_are_joined():
    assert evaluate(lambda trial: [1.0, 2.0], repeats=2).repeats == (1.0, 2.0, 1.0, 2.0)
    outcome = evaluate(lambda trial: {"time": 1.0, "energy": 5.0}, repeats=2, objective="time")
    assert outcome.repeats == (1.0, 1.0)
    assert outcome.metrics == {"energy": 5.0}


def test_a_nan_is_a_failure():
    outcome = evaluate(lambda trial: math.nan)
    assert (outcome.failed, outcome.problem) == ("runtime", "the value nan is not a finite number")


def test_a_metric_may_be_missing_from_some_repeats():
    results = iter([{"time": 1.0}, {"time": 2.0, "energy": 5.0}, {"time": 3.0, "energy": 7.0}])
    outcome = evaluate(lambda trial: next(results), repeats=3, objective="time")
    assert (outcome.repeats, outcome.metrics) == ((1.0, 2.0, 3.0), {"energy": 6.0})
    results = iter([{"time": 1.0, "energy": 5.0}, {"energy": 7.0}])
    outcome = evaluate(lambda trial: next(results), repeats=2, objective="time")
    assert (outcome.failed, outcome.message[:11]) == ("runtime", "repeat 2 of")


def fake(module, name):
    error = type(name, (RuntimeError,), {"__module__": module})("boom")
    return error


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (Infeasible("no", failed="constraints"), "constraints"),
        (Infeasible(), "runtime"),
        (subprocess.CalledProcessError(1, "cc"), "runtime"),
        (subprocess.TimeoutExpired("k", 3), "timeout"),
        (TimeoutError(), "timeout"),
        (concurrent.futures.TimeoutError(), "timeout"),
        (fake("cupy_backends.cuda.api.driver", "CUDADriverError"), "runtime"),
        (fake("cupy.cuda.compiler", "CompileException"), "compile"),
        (fake("pycuda._driver", "LaunchError"), "runtime"),
        (fake("triton.compiler.errors", "CompilationError"), "compile"),
    ],
)
def test_default_failures(error, word):
    outcome = evaluate(raising(error))
    assert (outcome.status, outcome.failed) == (Status.FAILED, word)


@pytest.mark.parametrize(
    "error", [ValueError("typo"), KeyError("tile"), MemoryError(), fake("my", "LaunchError")]
)
def test_any_other_exception_ends_the_run(error):
    with pytest.raises(type(error)):
        evaluate(raising(error))


def test_ctrl_c_is_never_a_failure():
    with pytest.raises(KeyboardInterrupt):
        evaluate(raising(KeyboardInterrupt()), failures=(BaseException,))


def test_own_failure_types():
    class CompileError(Exception):
        pass

    outcome = evaluate(raising(CompileError("line 3")), failures=(CompileError,))
    assert (outcome.failed, outcome.message) == ("compile", "CompileError: line 3")
    with pytest.raises(TimeoutError):
        evaluate(raising(TimeoutError()), failures=(CompileError,))
    assert evaluate(raising(Infeasible("x")), failures=()).failed == "runtime"
    assert failure_word(ZeroDivisionError(), (*DEFAULT_FAILURES, ArithmeticError)) == "runtime"


def test_retries_until_it_works_and_no_longer():
    calls = []

    def flaky(trial):
        calls.append(trial.id)
        if len(calls) < 3:
            raise TimeoutError
        return 1.0

    assert evaluate(flaky, retries=5).value == 1.0
    assert len(calls) == 3
    calls.clear()
    assert evaluate(flaky, retries=1).failed == "timeout"
    assert len(calls) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"repeats": 0},
        {"repeats": True},
        {"retries": -1},
        {"max_pending": 0},
        {"repeats": 1.5},
        {"executor": 4},
        {"executor": concurrent.futures.ThreadPoolExecutor},
        {"executor": 4, "max_pending": 2},
    ],
)
def test_wrong_arguments_are_named(settings):
    with pytest.raises(EvaluatorError, match=next(iter(settings))):
        FunctionEvaluator(square, **settings)


def test_not_callable_and_nothing_submitted():
    with pytest.raises(EvaluatorError, match="not callable"):
        FunctionEvaluator(3)
    with pytest.raises(EvaluatorError, match="without a submitted trial"):
        FunctionEvaluator(square).wait()


def test_capacity():
    assert FunctionEvaluator(square).capacity == 1
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert FunctionEvaluator(square, executor=pool).capacity == 3
        assert FunctionEvaluator(square, executor=pool, max_pending=7).capacity == 7


def test_wait_returns_with_the_first_and_is_no_barrier():
    release = threading.Event()

    def fn(trial):
        if trial.id == 0:
            release.wait(20)
        return 1.0

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        evaluator = FunctionEvaluator(fn, executor=pool)
        for trial in trials(2):
            evaluator.submit(trial)
        assert [outcome.trial_id for outcome in evaluator.wait()] == [1]
        release.set()
        assert [outcome.trial_id for outcome in evaluator.wait()] == [0]


def test_exceptions_come_out_of_the_executor():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert evaluate(raising(TimeoutError()), executor=pool).failed == "timeout"
        with pytest.raises(ZeroDivisionError):
            evaluate(raising(ZeroDivisionError()), executor=pool)


def test_close_takes_back_what_has_not_started():
    started = []
    release = threading.Event()

    def fn(trial):
        started.append(trial.id)
        release.wait(20)
        return 1.0

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        evaluator = FunctionEvaluator(fn, executor=pool, max_pending=3)
        for trial in trials(3):
            evaluator.submit(trial)
        while not started:
            time.sleep(0.005)
        evaluator.close()
        release.set()
    assert started == [0]


@pytest.mark.skipif(sys.platform == "win32", reason="os._exit in a worker")
def test_a_lost_worker_is_an_evaluator_error():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        evaluator = FunctionEvaluator(die, executor=pool)
        evaluator.submit(trials(1)[0])
        with pytest.raises(EvaluatorError, match="lost a worker"):
            evaluator.wait()
        with pytest.raises(
            EvaluatorError, match="lost a worker"
        ):  # also where it is noticed on the way in
            evaluator.submit(trials(1)[0])


class DyingLane:
    """An executor whose first calls lose their process."""

    _max_workers = 1

    def __init__(self, losses):
        self.losses, self.calls = losses, 0

    def submit(self, fn, /, *args):
        self.calls += 1
        future = concurrent.futures.Future()
        if self.calls <= self.losses:
            future.set_exception(LostWorker("the process died while it made this call"))
        else:
            future.set_result(fn(*args))
        return future


def test_a_lost_process_costs_one_of_three_attempts():
    for losses, failed in ((0, None), (2, None), (3, "runtime")):
        lane = DyingLane(losses)
        evaluator = FunctionEvaluator(square, executor=lane)
        evaluator.submit(trials(1)[0])
        (outcome,) = evaluator.wait()
        assert (outcome.failed, lane.calls) == (failed, losses + 1)  # the last one may do nothing
        evaluator.submit(trials(1)[0])  # the run goes on
        assert len(evaluator.wait()) == 1
    assert "handed out 3 times" in outcome.message


def test_an_executor_that_loses_every_call_ends_the_run_without_a_failure():
    evaluator = FunctionEvaluator(square, executor=DyingLane(4))
    evaluator.submit(trials(1)[0])
    with pytest.raises(EvaluatorError, match="still pending"):
        evaluator.wait()


class ForeignFuture:
    """A future that only has done, result and cancel, as those of Dask and submitit."""

    def __init__(self, value):
        self._looks = 0
        self._value = value

    def done(self):
        self._looks += 1
        return self._looks > 2

    def result(self):
        return self._value

    def cancel(self):
        return False


class ForeignExecutor:
    def submit(self, fn, /, *args):
        return ForeignFuture(fn(*args))


def test_foreign_futures_are_polled():
    assert evaluate(square, executor=ForeignExecutor()).value == 9.0


def both_done(evaluator):
    while sum(future.done() for future in evaluator._pending.values()) < 3:
        time.sleep(0.005)


def one_fails(trial):
    if trial.id == 1:
        raise ZeroDivisionError
    return 1.0


def test_outcomes_come_before_the_exception_of_another_trial():
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        evaluator = FunctionEvaluator(one_fails, executor=pool)
        for trial in trials(3):
            evaluator.submit(trial)
        both_done(evaluator)
        assert [outcome.trial_id for outcome in evaluator.wait()] == [0, 2]
        with pytest.raises(ZeroDivisionError):
            evaluator.submit(trials(4)[3])
        with pytest.raises(EvaluatorError, match="without a submitted trial"):
            evaluator.wait()


def test_collect_takes_back_what_waits_and_returns_what_runs():
    release = threading.Event()

    def fn(trial):
        release.wait(20)
        return 1.0

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        evaluator = FunctionEvaluator(fn, executor=pool, max_pending=3)
        for trial in trials(3):
            evaluator.submit(trial)
        assert evaluator.collect(0.0) == []
        release.set()
        assert [outcome.trial_id for outcome in evaluator.collect(None)] == [0]
        assert evaluator.collect(None) == []


def test_repeats_before_a_failing_one_are_kept():
    values = iter([3.0, [1.0, math.inf], Infeasible("no")])

    def fn(trial):
        value = next(values)
        if isinstance(value, Infeasible):
            raise value
        return value

    outcome = evaluate(fn, repeats=3)
    assert (outcome.failed, outcome.extra["repeats"]) == ("runtime", [3.0, 1.0])
    assert "repeats" not in evaluate(raising(Infeasible())).extra


@pytest.mark.parametrize("failures", [ValueError, (3,), "runtime"])
def test_wrong_failures_are_told(failures):
    with pytest.raises(EvaluatorError, match="failures"):
        FunctionEvaluator(square, failures=failures)
