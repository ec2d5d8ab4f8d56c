"""Evaluators around evaluators, with a scripted inner evaluator."""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from baco_like._tables import Table
from baco_like.evaluators import (
    CachedEvaluator,
    CheckedEvaluator,
    RepeatedEvaluator,
    Repeats,
    ResultCache,
    registry,
)
from baco_like.evaluators.protocol import unwrap
from baco_like.exceptions import BacoWarning, EvaluatorError
from baco_like.journal.json_lines import checksum, decode_line, encode_line
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

    def submit(self, trial):
        self.queue.append(trial)
        self.evaluated.append(trial["x"])

    def wait(self):
        if not self.queue:
            raise EvaluatorError("wait() without a submitted trial")
        return [self._outcome(self.queue.popleft())]

    def collect(self, timeout):
        found = [self._outcome(trial) for trial in self.queue]
        self.queue.clear()
        return found

    def close(self):
        self.queue.clear()
        self.closed += 1

    def _outcome(self, trial):
        said = self.says[trial["x"]].pop(0)
        extra = {"seconds": {"run": 1.0}}
        if isinstance(said, str):
            return Outcome.failure(trial.id, said, "no", extra=extra)
        if said < 0:
            return Outcome.censored(trial.id, -said, extra=extra)
        metrics = {"energy": 2 * said}
        return Outcome.success(trial.id, (said,), metrics=metrics, extra=extra)


def evaluate(evaluator, *xs):
    for number, x in enumerate(xs):
        evaluator.submit(Trial(number, {"x": x}))
    done = []
    while len(done) < len(xs):
        done += evaluator.wait()
    return sorted(done, key=lambda one: one.trial_id)


# Repeated --------------------------------------------------------------------------------------------------------


def test_repeats_are_joined():
    inner = Told({1: [3.0, 1.0, 2.0], 2: [5.0] * 3})
    evaluator = RepeatedEvaluator(inner, Repeats(3))
    first, second = evaluate(evaluator, 1, 2)
    assert (first.value, first.repeats) == (2.0, (3.0, 1.0, 2.0))
    assert (first.metrics, first.extra["seconds"]) == ({"energy": 4.0}, {"run": 3.0})
    assert first.metric_repeats == {"energy": (6.0, 2.0, 4.0)}
    assert second.repeats == (5.0,) * 3
    assert inner.evaluated == [1, 2, 1, 2, 1, 2]
    assert evaluator.capacity == 2


def test_the_first_failure_is_the_trials():
    inner = Told({1: [3.0, "runtime"], 2: ["compile"], 3: [-9.0], 4: [4.0, -9.0]})
    evaluator = RepeatedEvaluator(inner, Repeats(3))
    late, soon, censored, spike = evaluate(evaluator, 1, 2, 3, 4)
    assert (late.failed, late.message) == ("runtime", "repeat 2: no")
    assert late.extra == {"seconds": {"run": 2.0}, "repeats": [3.0]}
    assert (soon.failed, soon.message) == ("compile", "no")
    assert (censored.status, censored.bound) == (Status.CENSORED, 9.0)
    assert (spike.status, spike.failed, spike.bound) == (Status.FAILED, "timeout", None)


def test_clearly_slower_is_censored_and_steady_is_enough():
    inner = Told({1: [1.0] * 9, 2: [3.5], 3: [2.0, 2.0]})
    evaluator = RepeatedEvaluator(inner, Repeats(2, 9, relative_error=0.1, slow_ratio=3.0))
    best, slow, fine = (evaluate(evaluator, x)[0] for x in (1, 2, 3))
    assert best.repeats == (1.0, 1.0)
    assert (slow.status, slow.bound, slow.extra["repeats"]) == (Status.CENSORED, 3.5, [3.5])
    assert "more than 3 times the best, 1" in slow.message
    assert fine.repeats == (2.0, 2.0)


def test_what_was_begun_is_collected():
    inner = Told({1: [1.0, 2.0], 2: [4.0]})
    evaluator = RepeatedEvaluator(inner, Repeats(5))
    evaluator.submit(Trial(0, {"x": 1}))
    evaluator._convert(inner.wait())
    evaluator.submit(Trial(1, {"x": 2}))
    found = {one.trial_id: one.repeats for one in evaluator.collect(None)}
    assert found == {0: (1.0, 2.0), 1: (4.0,)}
    assert evaluator.collect(None) == []


# Checked ---------------------------------------------------------------------------------------------------------


def test_a_wrong_result_is_a_failure():
    seen = []

    def check(trial, outcome):
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


def cached(path, inner, context=CONTEXT):
    return CachedEvaluator(inner, ResultCache(path, context))


def test_what_is_known_is_not_evaluated_again(tmp_path):
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


def test_permutations_are_found_again(tmp_path):
    path, config = tmp_path / "results.jsonl", {"order": ("i", "j"), "x": 1}
    trial = Trial(0, config).with_outcome(Outcome.success(0, (2.0,)))
    ResultCache(path, {}).keep(trial)
    found = ResultCache(path, {}).find(Trial(3, dict(reversed(config.items()))))
    assert found.value == 2.0


def test_runs_share_a_file(tmp_path):
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


def done(x):
    return Trial(x, {"x": x}).with_outcome(Outcome.success(x, (1.0,)))


def two_results(path):
    for x in (1, 2):
        ResultCache(path, CONTEXT).keep(done(x))
    return path.read_bytes()


def values(cache):
    found = [cache.find(done(x)) for x in (1, 2, 3)]
    return [None if outcome is None else outcome.value for outcome in found]


def test_a_file_that_is_cut_anywhere_stays_usable(tmp_path):
    path = tmp_path / "results.jsonl"
    data = two_results(path)
    for cut in {*range(0, len(data), 5), len(data) - 1}:
        path.write_bytes(data[:cut])
        cache = ResultCache(path, CONTEXT)
        whole = data[: cut + 1].count(b"\n")  # a line end may be missing
        assert values(cache) == [1.0 if whole > x else None for x in (1, 2, 3)]
        cache.keep(done(3))
        assert values(ResultCache(path, CONTEXT)) == [*values(cache)[:2], 1.0]


def test_a_changed_byte_is_never_read_as_another_value(tmp_path):
    path = tmp_path / "results.jsonl"
    data = two_results(path)
    for place in range(0, len(data), 3):
        changed = bytearray(data)
        changed[place] ^= 0x02
        path.write_bytes(changed)
        with pytest.raises(EvaluatorError, match=r"is damaged in line [123]; remove|not a cache"):
            ResultCache(path, CONTEXT)


def head(**fields):
    """Return the first line of a cache with other fields."""
    return encode_line(0, {"event": "cache", "version": 3, "context": CONTEXT, **fields}).decode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (head(context={"size": 32, "flags": ["-O2"]}), "size was 32, now 64"),
        (head(context={"size": 64}), "flags was None"),
        (head(version=9), "has version 9, this program reads 3"),
        (head(context=None), "not a cache"),
        ('{"event": "opened"}\n', "not a cache"),
        ("int main() { return 0; }", "not a cache"),
        (encode_line(0, {"event": "opened"}).decode(), "not a cache"),
    ],
)
def test_another_file_is_refused(tmp_path, content, message):
    path = tmp_path / "results.jsonl"
    path.write_text(content)
    with pytest.raises(EvaluatorError, match=message):
        ResultCache(path, CONTEXT)
    assert path.read_text() == content


@pytest.mark.parametrize(
    "fields", [{"value": "3"}, {"value": True}, {"repeats": "abc"}, {"sem": -1.0}, {"metrics": [1]}]
)
def test_an_edited_line_with_a_correct_checksum_is_refused(tmp_path, fields):
    path = tmp_path / "cache"
    ResultCache(path, {}).keep(Trial(0, {"x": 0}, outcome=Outcome.success(0, [1.0])))
    line = path.read_bytes().splitlines()[1]
    row, _ = decode_line(line, 1)
    edited = {**row, "config": {"x": 1}, **fields}
    with path.open("ab") as file:
        file.write(encode_line(2, edited, checksum(line)))
    with pytest.raises(EvaluatorError, match="is damaged in line 3"):
        ResultCache(path, {})


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path):
    evaluator = cached(tmp_path / "absent" / "results.jsonl", Told({1: [1.0], 2: [2.0], 3: [3.0]}))
    assert evaluate(evaluator, 1)[0].value == 1.0
    with pytest.warns(BacoWarning, match="absent.*; the run continues without it"):
        evaluator.submit(Trial(1, {"x": 2}))
    assert [outcome.value for outcome in evaluator.wait()] == [2.0]
    assert evaluate(evaluator, 3)[0].value == 3.0  # no second warning
    evaluator.close()


def test_a_warning_comes_at_the_end_at_the_latest(tmp_path):
    evaluator = cached(tmp_path / "absent" / "results.jsonl", Told({1: [1.0]}))
    evaluate(evaluator, 1)
    with pytest.warns(BacoWarning, match="absent"):
        evaluator.close()


def test_a_cache_that_becomes_unreadable_is_a_warning(tmp_path):
    evaluator = cached(tmp_path / "results.jsonl", Told({1: [1.0]}))
    (tmp_path / "results.jsonl").mkdir()
    with pytest.warns(BacoWarning, match="cannot be read"):
        evaluator.submit(Trial(0, {"x": 1}))
    assert [outcome.value for outcome in evaluator.wait()] == [1.0]


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    path = tmp_path / "results.jsonl"
    data = two_results(path)
    write = os.pwrite

    def full(fd, text, place):
        if len(text) < 50:
            raise OSError(errno.ENOSPC, "no space")
        return write(fd, text[:50], place)

    cache = ResultCache(path, CONTEXT)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(EvaluatorError, match=r"no space.*make room"):
        cache.keep(done(3))
    assert path.read_bytes() == data
    assert values(cache) == [1.0, 1.0, 1.0]


def test_a_result_is_on_the_disk_when_it_is_kept(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    path = tmp_path / "results.jsonl"
    two_results(path)
    assert synced == [str(path), str(tmp_path), str(path), str(path)]


def test_the_cache_of_a_toml_file(tmp_path):
    (tmp_path / "source").write_text("1")
    space = Space({"x": [1, 2]})
    entries = {
        "kind": "command",
        "run": "sh -c 'echo x >> runs; cat source'",
        "measure": "regex",
        "pattern": ".+",
        "cache": "results.jsonl",
        "files": ["source"],
    }

    def run(**more):
        table = Table("evaluator", {**entries, **more})
        return evaluate(registry.create(table, space, "ms", tmp_path), 1)[0]

    assert [run().value, run().value] == [1.0, 1.0]
    assert (tmp_path / "runs").read_text() == "x\n"
    (tmp_path / "source").write_text("2")
    with pytest.raises(EvaluatorError, match="source was edited"):
        run()
    with pytest.raises(EvaluatorError, match="cannot be read"):
        run(files=["absent"])
    assert run(cache="other.jsonl").value == 2.0
    del entries["cache"]
    assert run().value == 2.0


@pytest.mark.parametrize("wrap", ["repeated", "checked", "cached"])
def test_close_reaches_the_inner_one(wrap, tmp_path):
    inner = Told({1: [1.0]})
    evaluator = {
        "repeated": lambda: RepeatedEvaluator(inner, Repeats()),
        "checked": lambda: CheckedEvaluator(inner, lambda trial, outcome: None),
        "cached": lambda: cached(tmp_path / "c", inner),
    }[wrap]()
    evaluator.submit(Trial(0, {"x": 1}))
    evaluator.close()
    assert (inner.closed, evaluator.collect(0.0)) == (1, [])


def test_a_null_character_in_the_path_of_a_cache_is_an_evaluator_error():
    with pytest.raises(EvaluatorError, match="null byte"):
        ResultCache(Path("a\0b"), {})
