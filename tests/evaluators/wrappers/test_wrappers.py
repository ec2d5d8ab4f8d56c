"""Evaluators around evaluators, with a scripted inner evaluator."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from baco_like.evaluators import (
    CachedEvaluator,
    CheckedEvaluator,
    RepeatedEvaluator,
    Repeats,
    ResultCache,
    registry,
    unwrap,
)
from baco_like.evaluators.result_cache import digest
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Status, Trial
from baco_like.spaces.space import Space


@dataclass
class Told:
    """Gives every trial the next of the outcomes of its configuration ``x``."""

    says: dict[int, list[Any]]
    capacity: int = 2
    queue: deque[Trial] = field(default_factory=deque)
    evaluated: list[int] = field(default_factory=list)
    closed: int = 0

    def submit(self, trial: Trial) -> None:
        self.queue.append(trial)
        self.evaluated.append(trial["x"])

    def wait(self) -> Sequence[Outcome]:
        if not self.queue:
            raise EvaluatorError("wait() without a submitted trial")
        return [self._outcome(self.queue.popleft())]

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        found = [self._outcome(trial) for trial in self.queue]
        self.queue.clear()
        return found

    def close(self) -> None:
        self.queue.clear()
        self.closed += 1

    def _outcome(self, trial: Trial) -> Outcome:
        said = self.says[trial["x"]].pop(0)
        extra = {"seconds": {"run": 1.0}}
        if isinstance(said, str):
            return Outcome.failure(trial.id, said, "no", extra=extra)
        if said < 0:
            return Outcome.censored(trial.id, -said, extra=extra)
        metrics = {"energy": 2 * said}
        return Outcome.success(trial.id, (said,), metrics=metrics, extra=extra)


def evaluate(evaluator: Any, *xs: int) -> list[Outcome]:
    for number, x in enumerate(xs):
        evaluator.submit(Trial(number, {"x": x}))
    done: list[Outcome] = []
    while len(done) < len(xs):
        done += evaluator.wait()
    return sorted(done, key=lambda one: one.trial_id)


# Repeated --------------------------------------------------------------------------------------------------------


def test_repeats_are_joined() -> None:
    inner = Told({1: [3.0, 1.0, 2.0], 2: [5.0] * 3})
    evaluator = RepeatedEvaluator(inner, Repeats(3, 3))
    first, second = evaluate(evaluator, 1, 2)
    assert (first.value, first.repeats) == (2.0, (3.0, 1.0, 2.0))
    assert (first.metrics, first.extra["seconds"]) == ({"energy": 4.0}, {"run": 3.0})
    assert second.repeats == (5.0,) * 3
    assert inner.evaluated == [1, 2, 1, 2, 1, 2]
    assert evaluator.capacity == 2


def test_the_first_failure_is_the_trials() -> None:
    inner = Told({1: [3.0, "runtime"], 2: ["compile"], 3: [-9.0], 4: [4.0, -9.0]})
    evaluator = RepeatedEvaluator(inner, Repeats(3, 3))
    late, soon, censored, spike = evaluate(evaluator, 1, 2, 3, 4)
    assert (late.failed, late.message) == ("runtime", "repeat 2: no")
    assert late.extra == {"seconds": {"run": 2.0}, "repeats": [3.0]}
    assert (soon.failed, soon.message) == ("compile", "no")
    assert (censored.status, censored.bound) == (Status.CENSORED, 9.0)
    assert (spike.status, spike.failed, spike.bound) == (Status.FAILED, "timeout", None)


def test_clearly_slower_is_censored_and_steady_is_enough() -> None:
    inner = Told({1: [1.0] * 9, 2: [3.5], 3: [2.0, 2.0]})
    evaluator = RepeatedEvaluator(inner, Repeats(2, 9, relative_error=0.1, slow_ratio=3.0))
    best, slow, fine = (evaluate(evaluator, x)[0] for x in (1, 2, 3))
    assert best.repeats == (1.0, 1.0)
    assert (slow.status, slow.bound, slow.extra["repeats"]) == (Status.CENSORED, 3.5, [3.5])
    assert "more than 3 times the best, 1" in slow.message
    assert fine.repeats == (2.0, 2.0)


def test_what_was_begun_is_collected() -> None:
    inner = Told({1: [1.0, 2.0], 2: [4.0]})
    evaluator = RepeatedEvaluator(inner, Repeats(5, 5))
    evaluator.submit(Trial(0, {"x": 1}))
    evaluator._convert(inner.wait())
    evaluator.submit(Trial(1, {"x": 2}))
    found = {one.trial_id: one.repeats for one in evaluator.collect(None)}
    assert found == {0: (1.0, 2.0), 1: (4.0,)}
    assert evaluator.collect(None) == []


# Checked ---------------------------------------------------------------------------------------------------------


def test_a_wrong_result_is_a_failure() -> None:
    seen: list[tuple[int, float | None]] = []

    def check(trial: Trial, outcome: Outcome) -> str | None:
        seen.append((trial["x"], outcome.value))
        return "the sum is wrong" if trial["x"] == 2 else None

    inner = Told({1: [1.0], 2: [2.0], 3: ["compile"]})
    right, wrong, failed = evaluate(CheckedEvaluator(inner, check), 1, 2, 3)
    assert right.value == 1.0
    assert (wrong.failed, wrong.message) == ("correctness", "check: the sum is wrong")
    assert wrong.extra["repeats"] == [2.0]
    assert set(wrong.extra["seconds"]) == {"run", "check"}
    assert failed.failed == "compile"
    assert seen == [(1, 1.0), (2, 2.0)]


# Cached ----------------------------------------------------------------------------------------------------------


CONTEXT = {"size": 64, "flags": ["-O2"]}


def cached(path: Path, inner: Told, context: dict[str, Any] = CONTEXT) -> CachedEvaluator:
    return CachedEvaluator(inner, ResultCache(path, context))


def test_what_is_known_is_not_evaluated_again(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    inner = Told({1: [1.5], 2: ["compile"], 3: ["runtime", 3.0], 4: [-9.0, 4.0]})
    evaluate(cached(path, inner), 1, 2, 3, 4)
    again = Told({3: [3.0], 4: [4.0]})
    evaluator = cached(path, again)
    one, two, three, four = evaluate(evaluator, 1, 2, 3, 4)
    assert again.evaluated == [3, 4]  # a crash and a limit may be chance
    assert (one.trial_id, one.value, one.extra["cached"]) == (0, 1.5, True)
    assert (two.failed, two.message, two.extra["cached"]) == ("compile", "no", True)
    assert (three.value, four.value, "cached" in four.extra) == (3.0, 4.0, False)
    assert one.metrics == {"energy": 3.0}
    assert (evaluator.capacity, unwrap(evaluator)) == (2, again)


def test_permutations_are_found_again(tmp_path: Path) -> None:
    path, config = tmp_path / "results.jsonl", {"order": ("i", "j"), "x": 1}
    trial = Trial(0, config).with_outcome(Outcome.success(0, (2.0,)))
    ResultCache(path, {}).keep(trial)
    found = ResultCache(path, {}).find(Trial(3, dict(reversed(config.items()))))
    assert found is not None
    assert found.value == 2.0


def test_runs_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    first, second = ResultCache(path, CONTEXT), ResultCache(path, CONTEXT)
    threads = [
        threading.Thread(target=lambda i=i: (first, second)[i % 2].keep(done(i))) for i in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for cache in (first, second, ResultCache(path, CONTEXT)):
        assert all(cache.find(done(i)) is not None for i in range(20))
        assert len(cache) == 20


def done(x: int) -> Trial:
    return Trial(x, {"x": x}).with_outcome(Outcome.success(x, (1.0,)))


def test_a_torn_line_is_dropped_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for x in (1, 2):
        ResultCache(path, CONTEXT).keep(done(x))
    os.truncate(path, path.stat().st_size - 5)
    cache = ResultCache(path, CONTEXT)
    assert (cache.find(done(1)) is None, cache.find(done(2)) is None) == (False, True)
    cache.keep(done(3))
    assert len(ResultCache(path, CONTEXT)) == 2
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"cache": 1, "context": {"size": 32, "flags": ["-O2"]}}\n', "size was 32 and is 64"),
        ('{"cache": 1, "context": {"size": 64}}\n', "flags was None"),
        ('{"cache": 2}\n', "not a cache of version 1"),
        ('{"event": "opened"}\n', "not a cache"),
        ("\0\0\n", "damaged at byte 0"),
        ('{"cache": 1, "context": {"size": 64, "flags": ["-O2"]}}\n{"id": 3}\n', "damaged"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(content)
    with pytest.raises(EvaluatorError, match=message):
        ResultCache(path, CONTEXT)
    assert path.read_text() == content


def test_a_file_that_cannot_be_written_loses_no_outcome(tmp_path: Path) -> None:
    evaluator = cached(tmp_path / "absent" / "results.jsonl", Told({1: [1.0], 2: [2.0]}))
    assert evaluate(evaluator, 1)[0].value == 1.0
    with pytest.raises(EvaluatorError, match="the cache"):
        evaluator.submit(Trial(1, {"x": 2}))


def test_the_cache_of_a_toml_file(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("1")
    space = Space({"x": [1, 2]})
    entries = {
        "kind": "command",
        "run": "sh -c 'echo x >> runs; cat source'",
        "measure": "regex",
        "pattern": ".+",
        "cache": "results.jsonl",
        "cache_files": ["source"],
    }

    def run(**more: Any) -> Outcome:
        table = Table("evaluator", {**entries, **more})
        return evaluate(registry.create(table, space, "ms", tmp_path), 1)[0]

    assert [run().value, run().value] == [1.0, 1.0]
    assert (tmp_path / "runs").read_text() == "x\n"
    (tmp_path / "source").write_text("2")
    with pytest.raises(EvaluatorError, match="source was"):
        run()
    with pytest.raises(EvaluatorError, match="cannot be read"):
        run(cache_files=["absent"])
    assert run(cache="other.jsonl").value == 2.0
    del entries["cache"]
    with pytest.raises(RunFileError, match="cache = FILE"):
        run()


def test_a_digest_is_of_the_content(tmp_path: Path) -> None:
    left, right = tmp_path / "left", tmp_path / "right"
    left.write_text("a")
    right.write_text("a")
    assert digest(left) == digest(right)
    right.write_text("b")
    assert digest(left) != digest(right)


@pytest.mark.parametrize("wrap", ["repeated", "checked", "cached"])
def test_close_reaches_the_inner_one(wrap: str, tmp_path: Path) -> None:
    inner = Told({1: [1.0]})
    evaluator: Any = {
        "repeated": lambda: RepeatedEvaluator(inner, Repeats()),
        "checked": lambda: CheckedEvaluator(inner, lambda trial, outcome: None),
        "cached": lambda: cached(tmp_path / "c", inner),
    }[wrap]()
    evaluator.submit(Trial(0, {"x": 1}))
    evaluator.close()
    assert (inner.closed, evaluator.collect(0.0)) == (1, [])
