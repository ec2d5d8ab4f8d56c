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
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco_like.evaluators import Collector, Evaluator
from baco_like.exceptions import EvaluatorError
from baco_like.journal.events import normalise, observed_event
from baco_like.records.trial import FAILURE_WORDS, Outcome, Status, Trial

_PATIENCE = 5.0
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


def _use_and_close(case: Case, use: Callable[[Evaluator], object]) -> None:
    evaluator = case.make()
    try:
        use(evaluator)
    finally:
        evaluator.close()


def each_trial_has_one_outcome(case: Case) -> None:
    """Each submitted trial has one outcome, under its own number, also with several pending trials."""

    def use(evaluator: Evaluator) -> None:
        assert evaluator.capacity >= 1, "the capacity is at least 1"
        trials = _make_trials(case, first=7)
        numbers = sorted(outcome.trial_id for outcome in _evaluate_all(evaluator, trials))
        assert numbers == [trial.id for trial in trials], "each submitted trial has one outcome"

    _use_and_close(case, use)


def outcomes_are_complete(case: Case) -> None:
    """Successes have a value, others a failure word; all parts are JSON values; times of stages are in seconds."""

    def use(evaluator: Evaluator) -> None:
        trials = {trial.id: trial for trial in _make_trials(case)}
        for outcome in _evaluate_all(evaluator, list(trials.values())):
            assert outcome.status in (Status.OK, Status.FAILED, Status.CENSORED), (
                "the status is OK, FAILED or CENSORED"
            )
            assert (outcome.value is not None) == (outcome.status is Status.OK), (
                "successes, and only these, have a value"
            )
            assert (outcome.bound is not None) == (outcome.status is Status.CENSORED), (
                "censored outcomes, and only these, have a bound"
            )
            assert (outcome.failed is None) == (outcome.status is Status.OK), (
                "all outcomes but successes have a failure word"
            )
            assert outcome.failed is None or outcome.failed in FAILURE_WORDS, (
                f"the failure word is one of {FAILURE_WORDS}"
            )
            seconds = outcome.extra.get("seconds", {})
            assert all(isinstance(name, str) and value >= 0 for name, value in seconds.items()), (
                "`extra['seconds']` maps names of stages to times that are not negative"
            )
            event = observed_event([trials[outcome.trial_id].with_outcome(outcome)])
            assert normalise(event) == json.loads(json.dumps(event)), (
                "all parts of an outcome are JSON values"
            )

    _use_and_close(case, use)


def waiting_without_a_trial_is_an_error(case: Case) -> None:
    """`Evaluator.wait` without a submitted trial raises `EvaluatorError` and does not wait forever."""

    def use(evaluator: Evaluator) -> None:
        try:
            evaluator.wait()
        except EvaluatorError:
            return
        raise AssertionError("wait() without a submitted trial did not raise EvaluatorError")

    _use_and_close(case, use)


def closing_drops_trials_and_allows_new_ones(case: Case) -> None:
    """`Evaluator.close` may be called at any time; pending trials are dropped, and new ones are accepted."""

    def use(evaluator: Evaluator) -> None:
        evaluator.close()
        for trial in _make_trials(case)[: evaluator.capacity]:
            evaluator.submit(trial)
        evaluator.close()
        evaluator.close()
        outcomes = _evaluate_all(evaluator, _make_trials(case, first=100)[:1])
        assert [outcome.trial_id for outcome in outcomes] == [100], (
            "after close() only new trials have outcomes"
        )

    _use_and_close(case, use)


def collected_outcomes_come_once(case: Case) -> None:
    """A `Collector` returns only outcomes of submitted trials, and each only once."""

    def use(evaluator: Evaluator) -> None:
        if not isinstance(evaluator, Collector):
            return
        trials = _make_trials(case)[: evaluator.capacity]
        for trial in trials:
            evaluator.submit(trial)
        numbers = [outcome.trial_id for outcome in evaluator.collect(30.0)]
        assert len(set(numbers)) == len(numbers), "collect() returns no outcome twice"
        assert set(numbers) <= {trial.id for trial in trials}, (
            "collect() returns only outcomes of submitted trials"
        )
        assert evaluator.collect(0.0) == [], "collect() returns nothing if no trial is pending"

    _use_and_close(case, use)


def closing_removes_threads_processes_and_files(case: Case) -> None:
    """After `Evaluator.close` there are no more threads, child processes and descriptors than before."""
    _use_and_close(case, lambda evaluator: None)  # objects that are made once per process
    _use_and_close(case, lambda evaluator: _evaluate_all(evaluator, _make_trials(case)[:1]))
    before = _count_resources()
    _use_and_close(case, lambda evaluator: _evaluate_all(evaluator, _make_trials(case)))
    evaluator = case.make()
    for trial in _make_trials(case)[: evaluator.capacity]:
        evaluator.submit(trial)
    evaluator.close()
    del evaluator
    deadline = time.monotonic() + _PATIENCE
    while _increased(before, _count_resources()) and time.monotonic() < deadline:
        time.sleep(0.01)
    after = _count_resources()
    assert not _increased(before, after), (
        f"close() leaves resources open: {before} before, {after} after"
    )


def _count_resources() -> dict[str, int]:
    gc.collect()
    own = Path("/proc/self")
    children = (entry / "children" for entry in (own / "task").glob("*"))
    return {
        "threads": threading.active_count(),
        "children": sum(len(_read(path).split()) for path in children),
        "descriptors": len(os.listdir(own / "fd")) if own.exists() else 0,
    }


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # a thread that has just ended, or a system without /proc
        return ""


def _increased(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    return [name for name, count in now.items() if count > before[name]]


CHECKS: tuple[Check, ...] = (
    each_trial_has_one_outcome,
    outcomes_are_complete,
    waiting_without_a_trial_is_an_error,
    closing_drops_trials_and_allows_new_ones,
    collected_outcomes_come_once,
    closing_removes_threads_processes_and_files,
)
