"""Stages with a scripted bench: order, repeats, limits, builds ahead."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from baco_like import Integer, MaxEvals, Optimizer, Space, run
from baco_like.evaluators import Built, RepeatedEvaluator, Repeats, StagedEvaluator, StageFailure
from baco_like.evaluators.staged import Builds
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import MEASURED_AGAIN, Status, Trial


@dataclass
class Told:
    """A bench whose configurations contain their times: ``values``, and ``fails`` for a stage."""

    log: list[str] = field(default_factory=list)
    gate: Callable[[Trial], object] = lambda trial: None
    threads: set[str] = field(default_factory=set)
    nears: list[float] = field(default_factory=list)

    def build(self, trial, seconds):
        self.gate(trial)
        self.threads.add(threading.current_thread().name)
        seconds["compile"] = 0.25
        self.log.append(f"build {trial.id}")
        if trial["fails"] == "compile":
            raise StageFailure("compile", "build: no")
        return Made(self, trial, seconds, iter(trial["values"]))

    def close(self):
        self.log.append("close")


@dataclass
class Made(Built):
    bench: Told
    trial: Trial
    seconds: dict[str, float]
    values: Iterator[float]

    def measure(self, count, limit, near):
        self.bench.log.append(f"measure {self.trial.id} {count} {limit}")
        self.bench.nears.append(near)
        self.seconds["run"] = self.seconds.get("run", 0.0) + 1.0
        if self.trial["fails"] == "run":
            raise StageFailure("runtime", "run: SIGSEGV", repeats=(next(self.values),))
        if self.trial["fails"] == "limit" and limit is not None:
            raise StageFailure("timeout", "run: stopped", bound=limit)
        found = []
        while len(found) < count and not (limit is not None and found and min(found) > limit):
            found.append(next(self.values))
        return tuple(found)

    def discard(self):
        self.bench.log.append(f"discard {self.trial.id}")


class Compiled(Told):
    """A bench whose programs are the same for equal ``trial["program"]``."""

    def build(self, trial, seconds):
        made = super().build(trial, seconds)
        made.identity = trial["program"]
        return made


def compiled(number, program, *values, **more):
    config = {"values": values, "fails": more.pop("fails", ""), "program": program, "n": number}
    return Trial(number, {**config, **more.pop("config", {})}, **more)


def trial(number, *values, fails=""):
    return Trial(number, {"values": values, "fails": fails})


def evaluate(evaluator, one):
    evaluator.submit(one)
    (outcome,) = evaluator.wait()
    return outcome


def test_a_trial_is_built_measured_and_discarded():
    bench = Told()
    evaluator = StagedEvaluator(bench, Repeats(3))
    outcome = evaluate(evaluator, trial(7, 3.0, 1.0, 2.0))
    assert (outcome.trial_id, outcome.value, outcome.repeats) == (7, 2.0, (3.0, 1.0, 2.0))
    assert outcome.extra == {"seconds": {"compile": 0.25, "run": 1.0}}
    assert bench.log == ["build 7", "measure 7 3 None", "discard 7"]
    assert bench.threads == {threading.current_thread().name}


@pytest.mark.parametrize(
    ("fails", "word", "seconds", "repeats"),
    [
        ("compile", "compile", {"compile": 0.25}, None),
        ("run", "runtime", {"compile": 0.25, "run": 1.0}, [4.0]),
    ],
)
def test_a_stage_that_fails(fails, word, seconds, repeats):
    bench = Told()
    outcome = evaluate(StagedEvaluator(bench, Repeats(3)), trial(1, 4.0, fails=fails))
    assert (outcome.status, outcome.failed) == (Status.FAILED, word)
    assert outcome.extra["seconds"] == seconds
    assert outcome.extra.get("repeats") == repeats
    assert ("discard 1" in bench.log) == (fails == "run")


def test_adaptive_repeats():
    bench = Told()
    evaluator = StagedEvaluator(bench, Repeats(2, 50, relative_error=0.05))
    assert evaluate(evaluator, trial(0, 1.0, 1.0)).repeats == (1.0, 1.0)
    outcome = evaluate(evaluator, trial(1, 1.0, 1.3, *[1.15] * 48))
    assert 2 < len(outcome.repeats) < 50
    assert outcome.sem <= 0.05 * 1.15


def test_a_clearly_slower_configuration_is_censored_at_what_was_measured():
    bench = Told()
    evaluator = StagedEvaluator(bench, Repeats(5, slow_ratio=3.0))
    evaluate(evaluator, trial(0, *[10.0] * 5))
    outcome = evaluate(evaluator, trial(1, 31.0, 32.0))
    assert (outcome.status, outcome.failed) == (Status.CENSORED, "timeout")
    assert (outcome.bound, outcome.extra["repeats"]) == (31.0, [31.0])
    assert "more than 3 times the best, 10" in outcome.message
    assert bench.log[-2] == "measure 1 5 30.0"
    assert evaluate(evaluator, trial(2, 31.0, *[12.0] * 4)).status is Status.CENSORED
    assert evaluate(evaluator, trial(3, *[29.0] * 5)).value == 29.0


@pytest.mark.parametrize("origin", MEASURED_AGAIN)
def test_what_is_measured_again_is_measured_whole(origin):
    """A slow default configuration would lose its place in the confirmation, or in a check."""
    bench = Told()
    evaluator = StagedEvaluator(bench, Repeats(5, slow_ratio=3.0, first_repeats=2))
    evaluate(evaluator, trial(0, *[10.0] * 5))
    again = replace(trial(1, *[90.0] * 5), origin=origin)
    assert evaluate(evaluator, again).repeats == (90.0,) * 5
    assert bench.log[-2] == "measure 1 5 None"
    inner = StagedEvaluator(bench, Repeats())
    repeated = RepeatedEvaluator(inner, Repeats(3, slow_ratio=3.0))
    evaluate(repeated, trial(2, 10.0))
    assert evaluate(repeated, replace(again, id=3)).status is Status.OK


def test_a_run_that_is_stopped_is_censored_at_the_limit():
    evaluator = StagedEvaluator(Told(), Repeats(2, slow_ratio=2.0))
    evaluate(evaluator, trial(0, 10.0, 10.0))
    outcome = evaluate(evaluator, trial(1, fails="limit"))
    assert (outcome.status, outcome.bound) == (Status.CENSORED, 20.0)


def test_the_best_is_of_successes_and_moves():
    bench = Told()
    evaluator = StagedEvaluator(bench, Repeats(1, slow_ratio=2.0))
    evaluate(evaluator, trial(0, 1.0, fails="run"))
    evaluate(evaluator, trial(1, 8.0))
    evaluate(evaluator, trial(2, 4.0))
    evaluate(evaluator, trial(3, 5.0))
    limits = [line.split()[-1] for line in bench.log if line.startswith("measure")]
    assert limits == ["None", "None", "16.0", "8.0"]


def test_values_near_the_best_may_be_recommended():
    """So may any that is measured again, and with several tasks or objectives."""
    bench, every = Told(), math.inf
    evaluator = StagedEvaluator(bench, Repeats())
    evaluate(evaluator, trial(0, 8.0))
    evaluate(evaluator, trial(1, 4.0))
    evaluate(evaluator, trial(2, 9.0))
    evaluate(evaluator, replace(trial(3, 9.0), origin="confirmation"))
    evaluate(evaluator, replace(trial(4, 9.0), task={"n": 1}))
    assert bench.nears == [every, 10.0, 5.0, every, every]


def test_builds_are_made_ahead_and_measurements_one_at_a_time():
    started = threading.Barrier(3)
    bench = Told(gate=lambda one: started.wait(60))
    evaluator = StagedEvaluator(bench, Repeats(), ahead=3)
    assert evaluator.capacity == 4
    for number in range(3):
        evaluator.submit(trial(number, float(number)))
    outcomes = [one for _ in range(3) for one in evaluator.wait()]
    assert sorted(one.trial_id for one in outcomes) == [0, 1, 2]
    assert threading.current_thread().name not in bench.threads
    evaluator.close()


def test_whatever_is_built_first_is_measured_first():
    slow = threading.Event()
    bench = Told(gate=lambda one: one.id == 0 and slow.wait(60))
    evaluator = StagedEvaluator(bench, Repeats(), ahead=2)
    evaluator.submit(trial(0, 1.0))
    evaluator.submit(trial(1, 1.0))
    assert evaluator.wait()[0].trial_id == 1
    slow.set()
    assert evaluator.wait()[0].trial_id == 0
    evaluator.close()


def test_a_broken_bench_ends_the_run():
    def broken(one):
        raise EvaluatorError("no compiler")

    for ahead in (0, 1):
        evaluator = StagedEvaluator(Told(gate=broken), Repeats(), ahead)
        evaluator.submit(trial(0, 1.0))
        with pytest.raises(EvaluatorError, match="no compiler"):
            evaluator.wait()
        evaluator.close()


def test_closing_discards_what_is_built_and_it_can_go_on():
    bench = Told()
    evaluator = StagedEvaluator(bench, Repeats(), ahead=1)
    evaluator.submit(trial(0, 1.0))
    evaluator.submit(trial(1, 1.0))
    while "build 0" not in bench.log:
        time.sleep(0.001)
    evaluator.close()
    built = {line.split()[1] for line in bench.log if line.startswith("build")}
    gone = {line.split()[1] for line in bench.log if line.startswith("discard")}
    assert built == gone
    evaluator.close()
    assert evaluate(evaluator, trial(2, 5.0)).value == 5.0
    evaluator.close()
    with pytest.raises(EvaluatorError, match="without a submitted trial"):
        evaluator.wait()


def test_wrong_arguments():
    with pytest.raises(EvaluatorError, match="ahead = -1"):
        StagedEvaluator(Told(), Repeats(), ahead=-1)


def measured(bench):
    return [int(line.split()[1]) for line in bench.log if line.startswith("measure")]


def test_equal_programs_are_measured_once():
    bench = Compiled()
    evaluator = StagedEvaluator(bench, Repeats(2))
    first = evaluate(evaluator, compiled(0, "p", 3.0, 4.0))
    second = evaluate(evaluator, compiled(1, "p", 9.0, 9.0))
    assert evaluate(evaluator, compiled(2, None, 5.0, 5.0)).value == 5.0
    assert evaluate(evaluator, compiled(3, None, 6.0, 6.0)).value == 6.0  # nothing identifies it
    assert measured(bench) == [0, 2, 3]
    assert (second.trial_id, second.value, second.repeats) == (1, 3.5, first.repeats)
    assert second.extra == {"seconds": {"compile": 0.25}, "program": "p", "same_program": 0}
    assert first.extra == {"seconds": {"compile": 0.25, "run": 1.0}, "program": "p"}
    assert "discard 1" in bench.log


def test_a_third_equal_program_names_the_measured_trial():
    evaluator = StagedEvaluator(Compiled(), Repeats())
    outcomes = [evaluate(evaluator, compiled(i, "p", 3.0)) for i in range(3)]
    assert [o.extra.get("same_program") for o in outcomes] == [None, 0, 0]


@pytest.mark.parametrize("origin", ["confirmation", "control"])
def test_a_program_is_measured_again_on_purpose(origin):
    bench = Compiled()
    evaluator = StagedEvaluator(bench, Repeats())
    evaluate(evaluator, compiled(0, "p", 3.0))
    evaluate(evaluator, compiled(1, "p", 3.1, origin=origin))
    evaluate(evaluator, compiled(2, "p", 3.2, config={"n": 0, "values": (3.0,)}))  # the same config
    assert measured(bench) == [0, 1, 2]


def test_a_crash_may_be_chance_so_the_program_runs_again():
    bench = Compiled()
    evaluator = StagedEvaluator(bench, Repeats())
    evaluate(evaluator, compiled(0, "p", 3.0, fails="run"))
    assert evaluate(evaluator, compiled(1, "p", 3.0)).value == 3.0


def test_a_resumed_run_knows_the_best_value_and_the_programs():
    """Limits and equal programs are the same as in one run, so that the measurements are too."""
    trials = [compiled(0, "p", 8.0), compiled(1, "q", 4.0)]
    whole = StagedEvaluator(Compiled(), Repeats(slow_ratio=2.0))
    done = [t.with_outcome(evaluate(whole, t)) for t in trials]
    bench = Compiled()
    resumed = StagedEvaluator(bench, Repeats(slow_ratio=2.0))
    resumed.recall(done)
    assert evaluate(resumed, compiled(2, "p", 9.0)).value == 8.0
    evaluate(resumed, compiled(3, "r", 5.0))
    assert bench.log[-2] == "measure 3 1 8.0"
    resumed.recall([])  # the evaluator of another run
    evaluate(resumed, compiled(4, "p", 7.0))
    assert bench.log[-2] == "measure 4 1 None"


class Numbered(Told):
    """A bench whose trials have one measured value, ``trial["x"]``."""

    def build(self, trial, seconds):
        return super().build(
            Trial(trial.id, {"values": (float(trial["x"]),), "fails": ""}), seconds
        )


class MadeWithSize(Made):
    def metrics(self):
        return {"size": self.trial["values"][0]}


class Sized(Numbered):
    """A bench with a metric."""

    def build(self, trial, seconds):
        return MadeWithSize(**vars(super().build(trial, seconds)))


@pytest.mark.parametrize("others", [{}, {"size": "minimize"}])
def test_no_value_is_the_best_of_several_objectives(others):
    bench = Sized()
    optimizer = Optimizer({"x": [1, 2, 3]}, {"time": "minimize", **others})
    run(optimizer, StagedEvaluator(bench, Repeats()), MaxEvals(3))
    assert bench.nears.count(math.inf) == (3 if others else 1)


def test_the_loop_shows_the_history_to_the_evaluator_and_its_wrappers():
    bench = Numbered()
    inner = StagedEvaluator(bench, Repeats(slow_ratio=2.0))
    optimizer = Optimizer({"x": [4, 7]})
    optimizer.observe({"x": 4}, 4.0)
    run(optimizer, RepeatedEvaluator(inner, Repeats(2, slow_ratio=1.5)), MaxEvals(2))
    assert bench.log[1] == "measure 1 1 8.0"
    assert optimizer.trials[1].status is Status.CENSORED  # by the limit of the wrapper, 6


class Measured(Compiled):
    """A bench whose builds have the metric ``size``."""

    def build(self, trial, seconds):
        made = super().build(trial, seconds)
        made.build_metrics = lambda: {"size": float(trial["n"])}
        return made


MANY = Builds(candidates=3)


def test_candidates_are_built_and_only_the_chosen_one_is_measured():
    bench = Measured()
    evaluator = StagedEvaluator(bench, Repeats(1), ahead=2, builds=MANY)
    assert (evaluator.capacity, evaluator.parallel_builds) == (1, 2)
    trials = [compiled(0, "a", 5.0), compiled(1, "b", 6.0), compiled(2, "c", fails="compile")]
    first, second, failed = evaluator.build(trials)
    assert first == ({"size": 0.0}, "a", 0.25)
    assert second.metrics == {"size": 1.0}
    assert (failed.trial_id, failed.failed, failed.seconds) == (2, "compile", {"compile": 0.25})
    outcome = evaluate(evaluator, replace(trials[1], id=7))
    assert (outcome.trial_id, outcome.value, outcome.build) == (7, 6.0, {"size": 1.0})
    assert outcome.seconds == {"compile": 0.25, "run": 1.0}
    assert sum(line.startswith("build") for line in bench.log) == 3
    (known,) = evaluator.build([compiled(3, "b")])
    assert (known.trial_id, known.value, known.extra["same_program"]) == (3, 6.0, 7)
    assert known.build == {"size": 3.0}
    evaluator.close()
    assert sum(line.startswith("discard") for line in bench.log) == 3


def test_only_the_latest_candidates_stay_built():
    bench = Measured()
    evaluator = StagedEvaluator(bench, Repeats(1), builds=MANY)
    for number in range(8):
        evaluator.build([compiled(number, f"p{number}", 1.0)])
    assert [line for line in bench.log if "discard" in line] == ["discard -1", "discard -2"]
    evaluator.close()


class Counted(Told):
    """A bench for numbers ``n``: the metric gives the value, some builds fail, and n and n + 1 have equal programs."""

    def __init__(self, build_seconds):
        super().__init__()
        self.build_seconds = build_seconds

    def build(self, trial, seconds):
        number = trial["n"]
        self.log.append(f"build {number}")
        seconds["compile"] = self.build_seconds
        if number % 7 == 0:
            raise StageFailure("compile", "build: no")
        value = float((number // 2 * 37) % 211)  # nothing that the parameter predicts
        made = Made(self, Trial(trial.id, {"fails": ""}), seconds, iter([value] * 9))
        made.identity = str(number // 2)
        made.build_metrics = lambda: {"size.text": value}
        return made


@pytest.mark.parametrize(("seconds", "most"), [(0.01, 4), (0.4, 2), (5.0, 1)])
def test_a_run_builds_as_many_candidates_as_take_the_time_of_a_measurement(seconds, most):
    space, bench = Space({"n": Integer(1, 400)}), Counted(seconds)
    optimizer = Optimizer(space, seed=1)
    evaluator = StagedEvaluator(bench, Repeats(1), builds=Builds(candidates=4))
    assert run(optimizer, evaluator, MaxEvals(16)) == "16 evaluations"
    measured = sum(line.startswith("measure") for line in bench.log)
    failed = [t for t in optimizer.trials if t.failure == "compile" and t.origin != "candidate"]
    assert measured + len(failed) == optimizer.history.searched == 16
    assert all(trial.build for trial in optimizer.trials if trial.value is not None)
    built = sum(line.startswith("build") for line in bench.log)
    if most == 1:
        assert built == len(optimizer.trials)
        assert not any(trial.origin == "candidate" for trial in optimizer.trials)
    else:
        assert 16 + 4 * (most - 1) <= built <= 16 * (most + 1)
