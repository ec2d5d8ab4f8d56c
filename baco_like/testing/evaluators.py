"""Conformance checks for evaluators: functions of a case, listed in `CHECKS`.

Use them in your own repository to test your evaluator. With pytest, ``tests/test_my_evaluator.py`` is::

    import pytest
    from baco_like.testing import evaluators
    from my_package import MyEvaluator

    CONFIGS = [{"tile": 8}, {"tile": 16}, {"tile": 7}]   # at least two; one of them may fail

    @pytest.mark.parametrize("check", evaluators.CHECKS, ids=lambda check: check.__name__)
    def test_my_evaluator(check):
        check(evaluators.Case(lambda: MyEvaluator(device=0), CONFIGS))

Each check makes its own evaluators and closes them. A violation is an `AssertionError`.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import active_count
from typing import Any

from baco_like.evaluators import Collector, Evaluator
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import normalise, observed_event
from baco_like.records.trial import FAILURE_WORDS, Outcome, Status, Trial
from baco_like.testing import assert_raises

_CLOSING_TIME = 30.0
"""Seconds that threads and processes have to end after `Evaluator.close`."""


@dataclass(frozen=True)
class Case:
    """An evaluator and configurations to test it with.

    Attributes:
        make: Returns a new evaluator.
        configs: At least two configurations; some may fail.
    """

    make: Callable[[], Evaluator]
    configs: Sequence[Mapping[str, Any]]


Check = Callable[[Case], None]


def _make_trials(case: Case, first: int = 0) -> list[Trial]:
    return [Trial(first + i, config) for i, config in enumerate(case.configs)]


def _evaluate_all(evaluator: Evaluator, trials: Sequence[Trial]) -> list[Outcome]:
    """Evaluate trials, with as many pending trials as the capacity allows."""
    waiting, pending, done = list(trials), set[int](), list[Outcome]()
    while waiting or pending:
        while waiting and len(pending) < evaluator.capacity:
            trial = waiting.pop(0)
            evaluator.submit(trial)
            pending.add(trial.id)
        outcomes = evaluator.wait()
        assert outcomes, "wait() has returned no outcome"
        for outcome in outcomes:
            pending.remove(outcome.trial_id)
        done += outcomes
    return done


def each_trial_has_one_outcome(case: Case) -> None:
    """Each submitted trial has one outcome, under its own number, also with several pending trials."""
    with closing(case.make()) as evaluator:
        assert evaluator.capacity >= 1, "the capacity is at least 1"
        trials = _make_trials(case, first=7)
        numbers = sorted(outcome.trial_id for outcome in _evaluate_all(evaluator, trials))
        assert numbers == [trial.id for trial in trials], "each submitted trial has one outcome"


def outcomes_are_complete(case: Case) -> None:
    """Successes have a value, others a failure word; all parts are JSON values; times of stages are in seconds."""
    trials = _make_trials(case)
    with closing(case.make()) as evaluator:
        outcomes = _evaluate_all(evaluator, trials)
    for outcome in outcomes:
        status, failed = outcome.status, outcome.failed
        final = (Status.OK, Status.FAILED, Status.CENSORED)
        assert status in final, "the status is OK, FAILED or CENSORED"
        assert (outcome.value is not None) == (status is Status.OK), "only successes have a value"
        is_censored = status is Status.CENSORED
        assert (outcome.bound is not None) == is_censored, "only censored outcomes have a bound"
        assert (failed is None) == (status is Status.OK), "only successes lack a failure word"
        assert failed in (None, *FAILURE_WORDS), f"the failure word is one of {FAILURE_WORDS}"
        for stage, seconds in outcome.extra.get("seconds", {}).items():
            assert isinstance(stage, str), "`extra['seconds']` has the names of stages"
            assert seconds >= 0, "the times in `extra['seconds']` are not negative"
        event = observed_event([trials[outcome.trial_id]], [outcome])
        assert normalise(event) == json.loads(json.dumps(event)), "outcomes consist of JSON values"


def waiting_without_a_trial_is_an_error(case: Case) -> None:
    """`Evaluator.wait` without a submitted trial raises `EvaluatorError` and does not wait forever."""
    with closing(case.make()) as evaluator, assert_raises(EvaluatorError, msg="wait()"):
        evaluator.wait()


def closing_drops_trials_and_allows_new_ones(case: Case) -> None:
    """`Evaluator.close` may be called at any time; pending trials are dropped, and new ones are accepted."""
    with closing(case.make()) as evaluator:
        evaluator.close()
        _submit(evaluator, case)
        evaluator.close()
        evaluator.close()
        outcomes = _evaluate_all(evaluator, _make_trials(case, first=100)[:1])
        numbers = [outcome.trial_id for outcome in outcomes]
        assert numbers == [100], "after close() only new trials have outcomes"


def collected_outcomes_come_once(case: Case) -> None:
    """A `Collector` returns only outcomes of submitted trials, and each only once."""
    with closing(case.make()) as evaluator:
        if not isinstance(evaluator, Collector):
            return
        submitted = _submit(evaluator, case)
        numbers = [outcome.trial_id for outcome in evaluator.collect(30.0)]
        assert len(set(numbers)) == len(numbers), "collect() returns no outcome twice"
        assert set(numbers) <= submitted, "collect() returns only outcomes of submitted trials"
        assert evaluator.collect(0.0) == [], "collect() returns nothing if no trial is pending"


def closing_removes_threads_processes_and_files(case: Case) -> None:
    """After `Evaluator.close` there are no more threads, child processes and descriptors than before."""
    with closing(case.make()) as evaluator:  # makes objects that are made once per process
        _evaluate_all(evaluator, _make_trials(case)[:1])
    before = _count_resources()
    with closing(case.make()) as evaluator:
        _evaluate_all(evaluator, _make_trials(case))
    with closing(case.make()) as evaluator:
        _submit(evaluator, case)
    del evaluator
    deadline = time.monotonic() + _CLOSING_TIME
    while _find_increased(before, _count_resources()) and time.monotonic() < deadline:
        time.sleep(0.01)
    increased = _find_increased(before, _count_resources())
    assert not increased, f"close() leaves resources open: {increased}, {before} before"


def _submit(evaluator: Evaluator, case: Case) -> set[int]:
    """Submit as many trials as the capacity allows, and return their ids."""
    trials = _make_trials(case)[: evaluator.capacity]
    for trial in trials:
        evaluator.submit(trial)
    return {trial.id for trial in trials}


def _count_resources() -> dict[str, int]:
    gc.collect()
    own = Path("/proc/self")  # absent on some systems
    children = 0
    for entry in (own / "task").glob("*"):
        with suppress(OSError):  # a thread that has just ended
            children += len((entry / "children").read_text().split())
    descriptors = len(os.listdir(own / "fd")) if own.exists() else 0
    return {"threads": active_count(), "children": children, "descriptors": descriptors}


def _find_increased(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in now.items() if count > before[name]}


CHECKS: tuple[Check, ...] = (
    each_trial_has_one_outcome,
    outcomes_are_complete,
    waiting_without_a_trial_is_an_error,
    closing_drops_trials_and_allows_new_ones,
    collected_outcomes_come_once,
    closing_removes_threads_processes_and_files,
)
