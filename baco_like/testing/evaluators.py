"""What every evaluator must do, as functions of a case; `CHECKS` lists them.

Third parties can run the same checks on an evaluator of their own::

    for check in CHECKS:
        check(Case(lambda: MyEvaluator(...), configs))
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
"""Seconds that threads and processes have to go after `Evaluator.close`."""


@dataclass(frozen=True)
class Case:
    """An evaluator and what it is tried with.

    Attributes:
        make: Returns a new one; it may have no effect yet.
        configs: At least two configurations, good and bad ones.
    """

    make: Callable[[], Evaluator]
    configs: Sequence[Mapping[str, Any]]


Check = Callable[[Case], None]


def _trials(case: Case, first: int = 0) -> list[Trial]:
    return [Trial(first + i, config) for i, config in enumerate(case.configs)]


def _evaluated(evaluator: Evaluator, trials: Sequence[Trial]) -> list[Outcome]:
    """Evaluate trials with as many in flight as there is room for."""
    waiting, flying, done = list(trials), set[int](), list[Outcome]()
    while waiting or flying:
        while waiting and len(flying) < evaluator.capacity:
            trial = waiting.pop(0)
            evaluator.submit(trial)
            flying.add(trial.id)
        outcomes = evaluator.wait()
        assert outcomes, "wait() has returned nothing"
        for outcome in outcomes:
            flying.remove(outcome.trial_id)
        done += outcomes
    return done


def _closed(case: Case, use: Callable[[Evaluator], object]) -> None:
    evaluator = case.make()
    try:
        use(evaluator)
    finally:
        evaluator.close()


def every_trial_comes_out_once(case: Case) -> None:
    """Each submitted trial has one outcome, under its own number, with several in flight where there is room."""

    def use(evaluator: Evaluator) -> None:
        assert evaluator.capacity >= 1
        trials = _trials(case, first=7)
        found = sorted(outcome.trial_id for outcome in _evaluated(evaluator, trials))
        assert found == [trial.id for trial in trials]

    _closed(case, use)


def outcomes_are_whole(case: Case) -> None:
    """A value exactly where it has succeeded, a word exactly where not; JSON throughout; times of stages in seconds."""

    def use(evaluator: Evaluator) -> None:
        trials = {trial.id: trial for trial in _trials(case)}
        for outcome in _evaluated(evaluator, list(trials.values())):
            assert outcome.status in (Status.OK, Status.FAILED, Status.CENSORED)
            assert (outcome.value is not None) == (outcome.status is Status.OK)
            assert (outcome.bound is not None) == (outcome.status is Status.CENSORED)
            assert (outcome.failed is None) == (outcome.status is Status.OK)
            assert outcome.failed is None or outcome.failed in FAILURE_WORDS
            seconds = outcome.extra.get("seconds", {})
            assert all(isinstance(name, str) and value >= 0 for name, value in seconds.items())
            event = observed_event([trials[outcome.trial_id].with_outcome(outcome)])
            assert normalise(event) == json.loads(json.dumps(event))

    _closed(case, use)


def nothing_submitted_is_an_error(case: Case) -> None:
    """`Evaluator.wait` without a submitted trial raises instead of waiting for ever."""

    def use(evaluator: Evaluator) -> None:
        try:
            evaluator.wait()
        except EvaluatorError:
            return
        raise AssertionError("wait() without a submitted trial did not raise EvaluatorError")

    _closed(case, use)


def closing_forgets_and_is_no_end(case: Case) -> None:
    """`Evaluator.close` may be called at any time and again; what was in flight never comes, and new trials do."""

    def use(evaluator: Evaluator) -> None:
        evaluator.close()
        for trial in _trials(case)[: evaluator.capacity]:
            evaluator.submit(trial)
        evaluator.close()
        evaluator.close()
        found = _evaluated(evaluator, _trials(case, first=100)[:1])
        assert [outcome.trial_id for outcome in found] == [100]

    _closed(case, use)


def what_is_left_is_collected(case: Case) -> None:
    """What a `Collector` returns was submitted and comes once; where it had time, all that had started is there."""

    def use(evaluator: Evaluator) -> None:
        if not isinstance(evaluator, Collector):
            return
        trials = _trials(case)[: evaluator.capacity]
        for trial in trials:
            evaluator.submit(trial)
        found = [outcome.trial_id for outcome in evaluator.collect(30.0)]
        assert len(set(found)) == len(found)
        assert set(found) <= {trial.id for trial in trials}
        assert evaluator.collect(0.0) == []

    _closed(case, use)


def nothing_stays(case: Case) -> None:
    """After `Evaluator.close` there is no thread, child process or descriptor that was not there before."""
    _closed(case, lambda evaluator: None)  # what is made once for all
    _closed(case, lambda evaluator: _evaluated(evaluator, _trials(case)[:1]))
    before = _own()
    _closed(case, lambda evaluator: _evaluated(evaluator, _trials(case)))
    evaluator = case.make()
    for trial in _trials(case)[: evaluator.capacity]:
        evaluator.submit(trial)
    evaluator.close()
    del evaluator
    deadline = time.monotonic() + _PATIENCE
    while _more(before, _own()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not _more(before, _own()), (before, _own())


def _own() -> dict[str, int]:
    gc.collect()
    own = Path("/proc/self")
    children = (entry / "children" for entry in (own / "task").glob("*"))
    return {
        "threads": threading.active_count(),
        "children": sum(len(_text(place).split()) for place in children),
        "descriptors": len(os.listdir(own / "fd")) if own.exists() else 0,
    }


def _text(place: Path) -> str:
    try:
        return place.read_text()
    except OSError:  # a thread that has just ended, or a system without it
        return ""


def _more(before: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    return [name for name, count in now.items() if count > before[name]]


CHECKS: tuple[Check, ...] = (
    every_trial_comes_out_once,
    outcomes_are_whole,
    nothing_submitted_is_an_error,
    closing_forgets_and_is_no_end,
    what_is_left_is_collected,
    nothing_stays,
)
