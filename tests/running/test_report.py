"""Progress, summary and convergence plot of a run."""

import fcntl
import io
import json
import os
import pty
import select
import struct
import sys
import termios
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pytest

from baco_like import Integer, Optimizer, Ordinal, Outcome, Search, Space, Tasks
from baco_like._output import print_line, silence
from baco_like.exceptions import MissingExtra
from baco_like.records import Objective
from baco_like.records.confirmation import CandidateResults
from baco_like.records.plan import ConfirmationPlan
from baco_like.records.trial import LEVELS, Trial, measurement_notes
from baco_like.running import progress
from baco_like.running.drawing import plot_convergence
from baco_like.running.findings import Findings, convergence, model_start, write_best
from baco_like.running.progress import Display, TrialProgress, show_progress
from baco_like.running.sentences import format_summary

TIME = Objective("time", "ms")


def optimizer(results, direction="minimize"):
    """Return an optimizer that has observed numbers, or pairs of a failure word and a message."""
    opt = Optimizer(Space({"a": list(range(50))}), direction, strategy="random_search")
    for result in results:
        observe(opt, result)
    return opt


def observe(opt, result):
    if isinstance(result, tuple):
        opt.observe(opt.suggest(), failed=result[0], message=result[1])
    else:
        opt.observe(opt.suggest(), result)
    return opt.trials[-1]


# Progress --------------------------------------------------------------------------------------------------------


def lines(total, results, before=()):
    opt, stream = optimizer(before), io.StringIO()
    shown = show_progress(stream, total, "ms")
    for result in results:
        trial = observe(opt, result)
        shown.update(opt.history, trial)
    shown.close()
    return stream.getvalue().splitlines()


def test_plain_lines_count_and_name_the_best():
    first, second = lines(12, [3.0, 2.0])
    assert first.startswith(" 1/12  best 3 ms, trial 0: 3 ms, ")
    assert second.startswith(" 2/12  best 2 ms, trial 1: 2 ms, ")
    assert second.endswith(" s left")


def test_without_a_total_there_is_no_time_left():
    assert lines(None, [3.0]) == ["1  best 3 ms, trial 0: 3 ms"]


def test_the_first_failure_of_each_word_is_explained():
    shown = lines(
        None,
        [
            ("compile", "build: exit code 1: no header\nlong\nstory"),
            ("compile", "other"),
            ("runtime", ""),
        ],
    )
    assert shown == [
        "1  best none, trial 0: compile, failed: compile 1",
        "first failure of kind compile: build: exit code 1: no header",
        "2  best none, trial 1: compile, failed: compile 2",
        "3  best none, trial 2: runtime, failed: compile 2, runtime 1",
        "first failure of kind runtime: no message",
    ]


def test_failures_of_a_resumed_run_and_of_a_batch_are_counted_once():
    opt, stream = optimizer([("compile", "x")]), io.StringIO()
    trials = opt.suggest(3)
    opt.complete([Outcome.failure(t.id, "compile", "y") for t in trials])
    shown = TrialProgress(Display(stream, None))
    for trial in trials:
        shown.update(opt.history, opt.history.find(trial.id))
    assert stream.getvalue().splitlines()[-1].endswith("failed: compile 4")


def censored(opt, bound, slow):
    trial = opt.suggest()
    opt.observe(trial, failed="timeout", bound=bound, extra={"stopped": "slow"} if slow else {})
    return opt.trials[-1]


def test_censored_trials_are_counted_apart_from_failures(tmp_path):
    opt, stream = optimizer([3.0, ("compile", "no header")]), io.StringIO()
    shown = show_progress(stream, None, "ms")
    for slow in (True, True, False):
        trial = censored(opt, 9.0, slow)
        shown.update(opt.history, trial)
    last = stream.getvalue().splitlines()[-1]
    assert last == (
        "5  best 3 ms, trial 4: >= 9 ms, failed: compile 1, censored: slow 2, at the time limit 1"
    )
    assert "first failure of kind timeout" not in stream.getvalue()
    summary = Findings(opt.history, TIME)
    assert summary.failures == {"compile": 1}
    text = format_summary(summary)
    assert "failures: compile 1; censored: slow 2, at the time limit 1" in text
    write_best(summary, tmp_path / "best.json", seed=3)
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["censored"] == {"slow": 2, "at the time limit": 1}
    assert best["failures"] == {"compile": 1}


def test_a_censored_default_is_shown_by_its_bound():
    opt = Optimizer(Space({"a": Ordinal([1, 2, 3], default=2)}), strategy="random_search")
    censored(opt, 9.0, False)
    observe(opt, 3.0)
    assert "(the default: >= 9 ms)" in format_summary(Findings(opt.history, TIME))


def test_the_plot_shows_censored_values_at_their_bounds(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    opt, drawn = optimizer([3.0, ("compile", "x")]), {}
    censored(opt, 9.0, False)
    from matplotlib.axes import Axes

    real = Axes.plot

    def plot(axes, x, y, *arguments, **settings):
        drawn[settings["label"]] = list(y)
        return real(axes, x, y, *arguments, **settings)

    monkeypatch.setattr(Axes, "plot", plot)
    plot_convergence(opt.history, TIME, tmp_path / "plot.png")
    assert drawn["censored (at least)"][2:] == [9.0]
    assert len(drawn["failed"]) == 1


def test_the_remaining_time_honours_the_time_limit(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    opt, stream = optimizer([]), io.StringIO()
    shown = show_progress(stream, 100, "ms", 60.0)
    for value, now[0] in ((3.0, 10.0), (2.0, 50.0)):
        trial = observe(opt, value)
        shown.update(opt.history, trial)
    first, second = stream.getvalue().splitlines()
    assert first.endswith(", 50 s left")  # not 990
    assert second.endswith(", 10 s left")


def test_a_time_limit_alone_gives_a_remaining_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    opt, stream = optimizer([3.0]), io.StringIO()
    shown, now[0] = show_progress(stream, None, "ms", 60.0), 10.0
    shown.update(opt.history, opt.trials[0])
    assert stream.getvalue() == "1  best 3 ms, trial 0: 3 ms, 50 s left\n"


def test_a_bar_with_a_time_limit_shows_our_estimate():
    pytest.importorskip("tqdm")

    def use(stream):
        opt = optimizer([])
        shown = show_progress(stream, 1000, "ms", 60.0)
        trial = observe(opt, 2.0)
        shown.update(opt.history, trial)
        shown.close()

    text = on_terminal(use)
    assert " s left" in text
    assert "eval/s" not in text


def on_terminal(use):
    """Return what ``use(stream)`` writes to a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))
    with os.fdopen(theirs, "w") as stream:
        use(stream)
        stream.flush()
        shown = b""
        while select.select([ours], [], [], 0.1)[0]:
            shown += os.read(ours, 1 << 16)
    os.close(ours)
    return shown.decode()


def test_a_bar_on_a_terminal():
    pytest.importorskip("tqdm")

    def use(stream):
        opt = optimizer([])
        shown = show_progress(stream, 2, "ms")
        assert shown._display._bar is not None
        for result in (("compile", "no header"), 2.0):
            trial = observe(opt, result)
            shown.update(opt.history, trial)
        shown.close()

    text = on_terminal(use)
    assert "2/2" in text
    assert "best 2 ms" in text
    assert text.count("first failure of kind compile: no header") == 1


def test_plain_lines_on_a_terminal_without_tqdm(monkeypatch):
    def missing(module, extra):
        raise MissingExtra(module, extra)

    monkeypatch.setattr(progress, "require", missing)
    opt = optimizer([1.0])
    text = on_terminal(lambda s: show_progress(s, None).update(opt.history, opt.trials[0]))
    assert text.strip() == "1  best 1, trial 0: 1"


def test_progress_with_tasks_shows_the_best_of_the_same_task():
    space = Space({"x": Integer(1, 8)}, tasks=Tasks([{"n": 1}, {"n": 2}]))
    opt, lines = Optimizer(space, strategy="random_search"), {}
    while len(opt.trials) < 6:
        trial = opt.suggest()
        opt.observe(trial, 100.0 * trial.task["n"] + trial.config["x"])
        stream = io.StringIO()
        show_progress(stream, None).update(opt.history, opt.trials[-1])
        lines[trial.task["n"]] = stream.getvalue()
    best = min(t.value for t in opt.trials if t.task == {"n": 2})
    assert lines[2].split(",")[0].endswith(f"n=2: best {best:.4g}")


class Broken(io.StringIO):
    def write(self, text):
        raise BrokenPipeError


def test_progress_stops_when_its_stream_is_closed():
    opt, stream = optimizer([1.0]), Broken()
    shown = TrialProgress(Display(stream, None))
    shown.update(opt.history, opt.trials[0])
    shown.update(opt.history, opt.trials[0])
    shown.close()


def test_errors_within_progress_are_raised():
    shown = TrialProgress(Display(sys.stdout, None))
    with pytest.raises(AttributeError):
        shown.update(None, None)


def test_printing_to_a_closed_pipe(monkeypatch):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        print_line("lost")
        print_line("lost too")
    silence(io.StringIO())  # no file: nothing to do


# Summary ---------------------------------------------------------------------------------------------------------


def test_a_summary_without_success_shows_the_messages():
    opt = optimizer([("compile", "a"), ("compile", "b\nc"), ("compile", "b\nd"), ("runtime", "e")])
    summary = Findings(opt.history, TIME)
    assert format_summary(summary).splitlines() == [
        "4 evaluations; failures: compile 3, runtime 1. No evaluation has succeeded yet.",
        "  compile: b",
        "  runtime: e",
    ]


def test_best_json(tmp_path):
    opt = optimizer([[4.0, 2.0], ("compile", "b"), 5.0])
    write_best(Findings(opt.history, TIME), tmp_path / "best.json", seed=3)
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["config"] == dict(opt.trials[0].config)
    assert (best["value"], best["repeats"], best["unit"]) == (3.0, [4.0, 2.0], "ms")
    assert best["failures"] == {"compile": 1}
    assert best["failure_messages"] == {"compile": "b"}
    assert (best["evaluations"], best["seed"], best["speedup"]) == (3, 3, None)


def test_the_winner_of_the_confirmation_is_the_best(tmp_path):
    opt = optimizer([4.0, 3.0])
    candidates = opt.trials[::-1]
    opt.start_confirmation(ConfirmationPlan(tuple(dict(t.config) for t in candidates), (1, 0)))
    for k, value in ((0, 9.0), (1, 4.5), (1, 4.5)):
        opt.observe(opt.measure_again(candidates[k].config, "confirmation"), value)
    write_best(Findings(opt.history, TIME), tmp_path / "best.json", seed=3)
    best = json.loads((tmp_path / "best.json").read_text())
    assert (best["trial"], best["value"], best["repeats"]) == (0, 4.5, [4.5, 4.5])
    found = [(one["trial"], one["observed"], one["value"]) for one in best["confirmation"]]
    assert found == [(1, 3.0, 9.0), (0, 4.0, 4.5)]


def test_the_best_of_the_search_remains_if_all_candidates_fail_when_measured_again():
    opt = optimizer([4.0, 3.0])
    opt.start_confirmation(ConfirmationPlan((dict(opt.trials[1].config),), (1,)))
    opt.observe(opt.measure_again(opt.trials[1].config, "confirmation"), failed="runtime")
    summary = Findings(opt.history, TIME)
    assert summary.best.id == 1
    assert "Failed when measured again: trial 1 (runtime)." in format_summary(summary)


# Convergence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("direction", "expected"), [("minimize", [np.nan, 3, 3, 2]), ("maximize", [np.nan, 3, 4, 4])]
)
def test_best_so_far(direction, expected):
    history = optimizer([("compile", ""), 3.0, 4.0, 2.0], direction).history
    np.testing.assert_array_equal(convergence(history), expected)


def test_imported_values_outside_the_space_are_not_the_best():
    opt = optimizer([])
    opt.observe({"a": 999}, 1.0, imported=True)
    observe(opt, 3.0)
    np.testing.assert_array_equal(convergence(opt.history), [np.nan, 3.0])
    assert convergence(opt.history)[-1] == opt.best_value


def test_the_plot_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    opt = optimizer([("compile", ""), 3.0, 400.0])
    assert model_start(opt.trials) is None
    plot_convergence(opt.history, TIME, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


# Outlook in the progress ------------------------------------------------------------------------------------------


def test_the_outlook_is_shown_now_and_then(monkeypatch):
    clock, computed = [0.0], []

    def compute(history, evaluations):
        computed.append(history.evaluations)
        clock[0] += 0.5
        return SimpleNamespace(expected=0.021, evaluations=evaluations)

    monkeypatch.setattr(progress, "estimate_outlook", compute)
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    text = progress.OutlookText()
    shown = {}
    for evaluations in range(1, 41):
        clock[0] += 10.0
        shown[evaluations] = text.update(
            SimpleNamespace(evaluations=evaluations, searched=evaluations)
        )
    assert shown[9] == ""
    assert shown[10] == shown[19] == ", expected in the 20 after evaluation 10: 2.1 % better"
    assert shown[40] == ", expected in the 20 after evaluation 40: 2.1 % better"
    assert computed == [10, 20, 30, 40]
    at_45 = SimpleNamespace(evaluations=45, searched=45)
    assert text.update(at_45, left=0) == ""
    clock[0] += 1e4
    at_55 = SimpleNamespace(evaluations=55, searched=55)
    assert text.update(at_55, left=5) == ", expected in the 5 after evaluation 55: 2.1 % better"
    assert text.update(SimpleNamespace(evaluations=60, searched=60)) == ""


def test_the_progress_of_a_finished_search_has_no_outlook(monkeypatch):
    monkeypatch.setattr(progress, "OUTLOOK_SHARE", 1e9)
    stream = io.StringIO()
    shown = progress.TrialProgress(progress.Display(stream, 12))
    optimizer = Optimizer({"x": list(range(40))}, strategy="random_search")
    for _ in range(12):
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + trial["x"])
        shown.update(optimizer.history, optimizer.trials[-1])
    lines = stream.getvalue().splitlines()
    assert "expected in the 2 after evaluation 10: " in lines[10]
    assert "expected" not in lines[11]


def test_a_fast_run_spends_no_time_on_the_outlook(monkeypatch):
    monkeypatch.setattr(progress, "estimate_outlook", pytest.fail)
    text = progress.OutlookText()
    assert text.update(SimpleNamespace(evaluations=100, searched=100)) == ""


def test_a_run_of_failures_shows_no_outlook(monkeypatch):
    monkeypatch.setattr(progress, "OUTLOOK_SECONDS", 0.0)
    failing = optimizer([("compile", "no header")] * 10)
    assert progress.OutlookText().update(failing.history) == ""


# ---- Notes on how a trial was measured, and values of 0 ----


def test_a_note_is_shown_once_for_its_kind_and_with_the_best(tmp_path):
    space, stream = Space({"x": [1, 2, 3]}), StringIO()

    def outcome(trial):
        extra = {"notes": {"resolution": f"coarse {trial['x']}"}}
        return Outcome.success(trial.id, (0.0 if trial["x"] == 2 else 1.0,), extra=extra)

    optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    progress = TrialProgress(Display(stream, 3), "ms")
    for _ in range(3):
        trial = optimizer.suggest()
        optimizer.complete([outcome(trial)])
        progress.update(optimizer.history, optimizer.trials[-1])
    assert stream.getvalue().count("first note of kind resolution") == 1
    summary = Findings(optimizer.history, Objective("time", "ms"))
    assert [line.partition(": ")[2] for line in summary.notes] == ["coarse 2."]
    write_best(summary, tmp_path / "best.json", seed=1)
    best = json.loads((tmp_path / "best.json").read_text())
    assert (best["notes"], best["drift"]) == (summary.notes, [])
    assert summary.speedup is None or summary.is_default_best
    assert "inf" not in format_summary(summary)


def test_the_optimization_levels_are_told_whichever_trial_wins(tmp_path):
    """The note is of the program, so a winner without it, such as a confirmed one, does not hide it."""
    search = Search(initial=[{"x": 1}, {"x": 2}])
    optimizer = Optimizer({"x": [1, 2, 3]}, {"size": "minimize"}, strategy=search)
    for extra in ({"notes": {LEVELS: "-O2 9, -Oz 7"}}, {}):
        trial = optimizer.suggest()
        optimizer.complete([Outcome.success(trial.id, (5.0 - trial["x"],), extra=extra)])
    found = Findings(optimizer.history, Objective("size", "bytes"))
    line = "Optimization levels to compare with, size (bytes): -O2 9, -Oz 7."
    assert (found.best["x"], found.notes) == (2, [line])
    assert line in format_summary(found)


@pytest.mark.parametrize("best", [1.0, None])
def test_a_default_that_fails_its_check_is_suspect(best):
    space = Space({"x": Ordinal([1, 2], default=1)})
    optimizer = Optimizer(space, {"time": "minimize"})
    optimizer.observe({"x": 1}, failed="correctness")
    if best is not None:
        optimizer.observe({"x": 2}, best)
    text = format_summary(Findings(optimizer.history, Objective("time", "ms")))
    assert "The default fails its check: suspect the program" in text


def test_known_values_of_a_candidate_keep_its_notes():
    trial = Trial(1, {"x": 1}).with_outcome(
        Outcome.success(1, (1.0,), extra={"notes": {"resolution": "coarse"}})
    )
    kept = CandidateResults(trial, (1.0,)).to_trial()
    assert measurement_notes(kept) == {"resolution": "coarse"}


def test_a_confirmation_has_the_notes_of_its_own_measurements():
    def outcome(**notes):
        return Outcome.success(1, (1.0,), extra={"notes": notes})

    trial = Trial(1, {"x": 1}).with_outcome(outcome(busy="in the search"))
    results = CandidateResults(trial).add(outcome(resolution="coarse"))
    assert measurement_notes(results.to_trial()) == {"resolution": "coarse"}
    assert measurement_notes(results.add(outcome()).to_trial()) == {}
