"""The confirmation of a run: its measurements are in the journal, and the default takes part."""

from __future__ import annotations

import io
import json
import re
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from baco_like import (
    Confirm,
    MaxEvals,
    MaxTime,
    Measuring,
    NoImprovement,
    Optimizer,
    Ordinal,
    Search,
    Space,
    tune,
)
from baco_like.evaluators import CachedEvaluator, FunctionEvaluator, ResultCache
from baco_like.exceptions import BacoWarning, Infeasible
from baco_like.journal import repair
from baco_like.records import History, Objective, Outcome, Trial, read_confirmation
from baco_like.records.confirmation import (
    CandidateResults,
    Confirmation,
    winner_of,
)
from baco_like.records.plan import ConfirmationPlan
from baco_like.records.trial import select_best
from baco_like.running import confirm_winner, confirming
from baco_like.running.confirming import leave_time
from baco_like.running.findings import Findings, convergence, write_best
from baco_like.running.progress import Display, TrialProgress
from baco_like.running.sentences import format_speedup, format_summary, tell_confirmation
from baco_like.running.stopping import time_limit

SPACE = Space({"x": Ordinal(list(range(1, 41)), default=40)})
PLAIN: dict[str, Any] = {"strategy": "random_search", "progress": False, "seed": 3}


def noisy(spread=0.01):
    """Return a function with noise and a machine that slows down by 1 % at each call."""
    rng, calls = np.random.default_rng(0), [0]

    def fn(trial):
        calls[0] += 1
        return float((10 + trial["x"]) * 1.01 ** calls[0] * rng.lognormal(0.0, spread))

    return fn


def run(fn, evaluations, confirm, space=SPACE, **more):
    """Tune with a confirmation."""
    measuring = Measuring(confirm=confirm)
    return tune(fn, space, stop=MaxEvals(evaluations), measuring=measuring, **PLAIN | more)


def test_the_default_takes_part_and_the_interval_has_no_drift():
    result = run(noisy(), 40, Confirm(2, 24))
    found = result.confirmation
    assert found.default["x"] == 40
    true = 50 / (10 + found.winner["x"])
    assert found.speedup.low < true < found.speedup.high < 1.15 * true
    assert result.recommended == found.recommended
    assert found.measurements == len(result.trials) - 40 <= 24
    assert {t.origin for t in result.trials[40:]} == {"confirmation"}


@pytest.mark.parametrize(
    ("evaluations", "candidates", "measurements"), [(200, 4, 20), (60, 3, 15), (12, 2, 12)]
)
def test_a_tenth_of_the_evaluations_but_enough_for_five_rounds_by_default(
    evaluations, candidates, measurements
):
    space = Space({"x": Ordinal(list(range(1, 401)), default=400)})
    result = run(noisy(0.5), evaluations, Confirm(3), space)
    assert len(result.confirmation.candidates) == candidates
    assert result.confirmation.measurements == len(result.trials) - evaluations == measurements
    assert all(s is not None and s.high < np.inf for s in result.confirmation.speedups)


def test_a_budget_below_one_round_is_named():
    with pytest.warns(BacoWarning, match="1 measurements are too few for one round of 2 config"):
        few = run(noisy(), 12, Confirm(3, 1))
    assert few.confirmation is None
    assert few.recommended is few.best
    for wrong, message in (((3, 1.5), r"evaluations = 1\.5"), ((-1,), "top must be .*, not -1")):
        with pytest.raises(ValueError, match=message):
            Confirm(*wrong)


def test_everything_is_read_from_the_journal_alone(tmp_path):
    path = tmp_path / "run.jsonl"
    result = run(noisy(), 30, Confirm(2, 12), storage=path)
    loaded = Optimizer.load(path)
    assert repr(read_confirmation(loaded.history)) == repr(result.confirmation)
    again = run(noisy(), 30, Confirm(2, 12), storage=path)
    assert len(again.trials) == len(result.trials), "a finished confirmation is not repeated"
    warm = Optimizer(SPACE, warm_start=path)
    assert len(warm.trials) == len(result.trials)
    longer = run(noisy(), 38, Confirm(2, 12), storage=path)
    assert longer.confirmation is not None
    history = longer.optimizer.history
    assert history.plan.start == len(result.trials) + 8, "new results are confirmed anew"
    assert history.searched == 38, "measurements of a confirmation do not use up the budget"


class Interrupt:
    """A function that is interrupted at one of its calls; its values depend on trials only."""

    def __init__(self, at):
        self.at, self.calls = at, 0

    def __call__(self, trial):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return float((10 + trial["x"]) * np.random.default_rng(trial.id).lognormal(0.0, 0.1))


@pytest.mark.parametrize("at", [21, 23, 27])
def test_an_interrupted_confirmation_goes_on_where_it_stopped(tmp_path, at):
    path = tmp_path / "run.jsonl"
    whole = run(Interrupt(0), 20, Confirm(3, 15))
    part = run(Interrupt(at), 20, Confirm(3, 15), storage=path)
    assert part.reason == "interrupted"
    assert len(part.trials) == at - 1
    resumed = run(Interrupt(0), 20, Confirm(3, 15), storage=path)
    assert repr(resumed.trials) == repr(whole.trials)
    assert repr(resumed.confirmation) == repr(whole.confirmation)


def test_predict_and_recommend_see_the_measurements():
    """One configuration had luck at first; measured again it is as slow as it is."""
    calls: list[int] = []

    def fn(trial):
        calls.append(trial["x"])
        return 1.0 if trial["x"] == 30 and calls.count(30) == 1 else 10.0 + trial["x"]

    result = run(fn, 40, Confirm(3, 20), strategy="exhaustive")
    assert result.best_config == {"x": 30}
    assert result.confirmation.winner["x"] == 1
    recommended = result.optimizer.recommend()
    assert recommended["x"] == 1
    text = format_summary(Findings(result.optimizer.history, Objective()))
    assert "Values that changed by more than 10 %: trial 30 from 1 to 40" in text
    assert "partly luck" not in text


def test_a_confirmation_decides_until_the_search_finds_a_better_value():
    result = run(lambda trial: 10.0 + trial["x"], 20, Confirm(2, 12))
    optimizer, found = result.optimizer, result.confirmation
    worse, better = ({"x": x} for x in (39, 1))
    assert {39, 1}.isdisjoint(trial["x"] for trial in optimizer.trials)
    optimizer.observe(worse, found.winner.value + 1.0)
    again = optimizer.measure_again(found.winner.config)
    optimizer.observe(again, 0.5)  # a lucky control measurement is no progress of the search
    best, confirmation = winner_of(optimizer.history)
    assert (best.id, best.value) == (found.recommended.id, found.recommended.value)
    assert confirmation is not None
    newer = optimizer.observe(better, found.winner.value - 1.0)
    assert winner_of(optimizer.history) == (newer, None)
    assert result.recommended == newer, "the result follows the optimizer"
    text = format_summary(Findings(optimizer.history, Objective()))
    assert "partly luck" in text
    assert optimizer.shipped_run().entries[0].config == better


def test_the_default_is_not_faster_than_itself():
    result = run(lambda trial: 50.0 - trial["x"], 20, Confirm(2, 12))
    assert result.recommended == result.confirmation.default
    summary = Findings(result.optimizer.history, Objective())
    assert summary.speedup == 1.0
    assert "The default configuration is the best one found: value = 10." in format_summary(summary)


def test_the_tied_candidate_closest_to_the_default_is_recommended():
    result = run(
        lambda trial: 1.0 if trial["x"] < 20 else 2.0, 40, Confirm(4, 30), strategy="exhaustive"
    )
    found = result.confirmation
    assert found.recommended is found.tied[0]
    assert found.recommended["x"] == max(trial["x"] for trial in found.tied)
    assert found.default not in found.tied


def test_a_default_that_never_ran_is_no_candidate():
    def fn(trial):
        if trial["x"] == 40:
            raise Infeasible("no room")
        return float(trial["x"])

    result = run(fn, 30, Confirm(2, 9))
    assert (result.confirmation.default, result.confirmation.speedup) == (None, None)
    assert result.recommended == result.confirmation.winner


def test_the_time_limit_holds_for_search_and_confirmation(monkeypatch):
    assert time_limit(MaxEvals(5) | MaxTime(60) | MaxTime(90)) == 60
    assert time_limit(MaxEvals(5) & MaxTime(60)) is None
    assert time_limit(MaxTime(30) & MaxTime(60)) == 60
    assert time_limit(NoImprovement(5)) is None
    history = Optimizer(SPACE).history
    rule = leave_time(MaxEvals(5) | MaxTime(60), Confirm(simplify=0), history)
    assert rule.reason(history, 53.0) is None
    assert rule.reason(history, 54.5) == "54 of 60 seconds; the rest is for the confirmation"
    both = leave_time(MaxTime(60), Confirm(), history)
    assert both.reason(history, 47.0) is None
    assert both.reason(history, 48.5) is not None, "a tenth more for the simplification"
    optimizer = Optimizer(SPACE, strategy="random_search")
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    optimizer._run.opened = 100.0

    def fn(trial):
        now[0] += 4.0
        return float(trial["x"])

    for _ in range(10):
        optimizer.observe(optimizer.suggest(), 1.0 * len(optimizer.trials))
    settings = Confirm(2, evaluations=50, tolerance=0.0)
    confirm_winner(optimizer, FunctionEvaluator(fn), settings, seconds=21.0)
    assert now[0] == 120.0, "five measurements of 4 s fit into 21 s"


def test_a_censored_measurement_counts_with_its_repeats():
    """A slow default is stopped after its first repeat: this repeat is a measurement like any other."""
    slow = Outcome.censored(
        0, 4.0, message="stopped after 1 of 5 repeats", extra={"repeats": [4.0, 5.0]}
    )
    assert CandidateResults(Trial(0, {})).add(slow).values == (4.5,)
    hanging = Outcome.censored(0, 10.0, message="run: stopped at its time limit")
    failed = CandidateResults(Trial(0, {})).add(hanging)
    assert (failed.values, failed.failure) == ((), hanging)
    assert failed.to_trial().failure == "timeout"


def test_repair_keeps_the_confirmation(tmp_path):
    path = tmp_path / "run.jsonl"
    result = run(noisy(), 30, Confirm(2, 12), storage=path)
    kinds = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    assert kinds.count("confirming") == 1
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[3]
    path.write_bytes(b"".join(lines))
    repair(path, tmp_path / "repaired.jsonl")
    found = read_confirmation(Optimizer.load(tmp_path / "repaired.jsonl").history)
    assert found.measurements == result.confirmation.measurements


def test_candidates_are_the_best_by_observed_and_by_predicted_value():
    optimizer = Optimizer(SPACE, strategy=Search("bayesian", {"initial": 8}), seed=1)
    for x in (1, 5, 9, 13, 17, 21, 30, 40):
        optimizer.observe({"x": x}, 100.0 + x if x != 30 else 100.5)
    best = [trial["x"] for trial in confirming.rank_candidates(optimizer, 2)]
    predicted = optimizer.recommend()
    assert best[0] == 30
    assert {30, predicted["x"]} <= set(best) | {predicted["x"]}
    assert len(best) == 2


def results_of(*rows):
    """Return the state of a confirmation with these values; the default is the first candidate."""
    configs = tuple({"x": 40 - k} for k in range(len(rows)))
    results = [
        CandidateResults(Trial(k, c), tuple(r))
        for k, (c, r) in enumerate(zip(configs, rows, strict=True))
    ]
    plan = ConfirmationPlan(configs, tuple(range(len(rows))), 0)
    return Confirmation(plan, tuple(results), "minimize", np.arange(float(len(rows))))


def findings_of(*rows):
    """Return the findings of a run whose confirmation has these values; the default is the first candidate."""
    optimizer = Optimizer(SPACE, strategy="random_search")
    configs = tuple({"x": 40 - k} for k in range(len(rows)))
    for config, values in zip(configs, rows, strict=True):
        optimizer.observe(config, float(np.exp(np.mean(np.log(values)))))
    known = tuple(map(tuple, rows))
    optimizer.start_confirmation(ConfirmationPlan(configs, tuple(range(len(rows))), 0, known=known))
    return Findings(optimizer.history, Objective())


def test_a_tied_default_is_kept(tmp_path):
    """Another candidate is the winner, but not shown to be better."""
    noise = np.random.default_rng(1).lognormal(0.0, 0.01, (2, 8))
    default, other = 36.9 * noise[0], 36.7 * noise[1]
    default[5] = 60.77
    summary = findings_of(list(default), list(other))
    found = summary.confirmation
    assert found.winner is not found.default
    assert found.recommended is found.default
    assert found.speedup.low < 1.0 < found.speedup.high
    assert summary.speedup == 1.0
    text = format_summary(summary)
    assert (
        "No configuration is shown to be better than the default, which is kept: value = " in text
    )
    assert re.search(r"Trial 1 may be: 1\.\d+, 95 % interval 0\.\d+ to 1\.\d+\.", text)
    assert re.search(r"^ +default +trial 1$", text, re.MULTILINE), "the table has both"
    assert "over the default" not in text
    write_best(summary, tmp_path / "best.json", seed=0)
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["is_default"]
    assert best["speedup"] == 1.0
    entry = best["confirmation"][1]
    assert entry["speedup"] == pytest.approx(found.speedup.value)
    assert entry["speedup_low"] < 1.0 < entry["speedup_high"]


def test_an_undecided_confirmation_says_how_to_go_on():
    text = " ".join(tell_confirmation(results_of([30.0], [20.0])))
    assert "Confirmed in 1 round of 2 candidates (2 measurements): not decided" in text
    assert (
        "raise [confirmation] evaluations (Confirm(evaluations=...) in Python) and resume" in text
    )


def test_the_table_of_many_parameters_has_the_changed_ones():
    names = [f"p{i}" for i in range(20)]
    space = Space({name: Ordinal([0, 3], default=0) for name in names})
    optimizer = Optimizer(space, strategy="random_search")
    for value, config in ((9.0, {}), (5.0, {"p7": 3})):
        optimizer.observe(dict.fromkeys(names, 0) | config, value)
    text = format_summary(Findings(optimizer.history, Objective()))
    assert re.search(r"^p7 +0 +3$", text, re.MULTILINE)
    assert "19 more have their default" in text
    assert "p8" not in text


def with_search(state, *values):
    """Return the state in which the search has measured these values of the candidates."""
    pairs = zip(state.results, values, strict=True)
    results = (
        replace(result, trial=result.trial.with_outcome(Outcome.success(k, (value,))))
        for k, (result, value) in enumerate(pairs)
    )
    return replace(state, results=tuple(results))


def test_a_speed_up_that_changes_with_the_load_has_an_interval_with_the_ratio_of_the_search():
    rng = np.random.default_rng(1)
    unstable, stable = rng.lognormal(0.0, 0.2, 6), rng.lognormal(0.0, 0.01, 6)
    for noise, is_wider in ((unstable, True), (stable, False)):
        state = results_of(list(30.0 * noise), list(20.0 * stable[::-1]))
        found = with_search(state, 45.0, 20.0).speedups[1]
        plain = with_search(state, 30.2, 20.0).speedups[1]
        assert (found.search == 2.25) is is_wider
        assert ("with the load: 2.250 in the search" in format_speedup(found, 0.95)) is is_wider
        assert (found.low < 2.25 < found.high) >= is_wider
        assert (found.high > 1.3 * plain.high) is is_wider
        assert found.value == plain.value


def test_a_default_that_is_shown_to_be_worse_is_not_kept():
    noise = np.random.default_rng(1).lognormal(0.0, 0.01, (2, 8))
    found = results_of(list(36.9 * noise[0]), list(18.0 * noise[1]))
    assert found.recommended is found.winner is not found.default


def test_a_confirmed_recommendation_wins_until_the_search_continues():
    optimizer = Optimizer(SPACE, strategy=Search("random_search", noise="repeat"))
    for x, value in ((40, 10.0), (3, 9.0), (2, 5.0)):
        if x != 40:  # the default comes first by itself
            optimizer.enqueue({"x": x})
        optimizer.observe(optimizer.suggest(), value)
    optimizer.start_confirmation(ConfirmationPlan(({"x": 3}, {"x": 40}), (1, 0), 1))
    for _ in range(4):
        for x, value in ((40, 10.0), (3, 9.0)):
            optimizer.observe(optimizer.measure_again({"x": x}, "confirmation"), value)
    recommended = optimizer.recommend()
    assert recommended["x"] == 3, "a trial that was never confirmed does not win"
    assert len(recommended.repeats) == 4
    optimizer.observe(optimizer.suggest(), 4.0)
    recommended = optimizer.recommend()
    assert recommended["x"] != 3 or len(recommended.repeats) < 4


def test_repeats_of_a_confirmation_are_not_progress_of_the_search_but_tell_the_noise():
    result = run(noisy(0.05), 20, Confirm(2, 12))
    history = result.optimizer.history
    assert len(history) > history.searched == 20
    assert len(set(convergence(history)[19:])) == 1
    assert Findings(history, Objective()).noise == pytest.approx(0.05, rel=0.6)
    assert MaxEvals(20).reason(history, 0.0)
    assert MaxEvals(25).room(history) == 5


def test_nothing_is_announced_without_a_success():
    optimizer = Optimizer(SPACE, strategy="random_search")
    optimizer.observe(optimizer.suggest(), failed="compile")
    announced: list[str] = []
    settings = Confirm(evaluations=9)
    evaluator = FunctionEvaluator(lambda trial: 1.0)
    confirm_winner(optimizer, evaluator, settings, announce=announced.append)
    assert not announced
    optimizer.observe(optimizer.suggest(), 2.0)
    confirm_winner(optimizer, evaluator, settings, announce=announced.append)
    assert [text.partition(":")[0] for text in announced] == ["confirming the winner"]


def test_a_run_without_results_does_not_name_none_as_a_failure():
    assert (
        format_summary(Findings(History.start(SPACE), Objective()))
        == "0 evaluations; failures: none. No evaluation has succeeded yet."
    )


def test_progress_names_a_measurement_again_and_counts_the_search():
    stream = io.StringIO()
    shown = TrialProgress(Display(stream, 3))
    optimizer = Optimizer(SPACE, strategy=Search("random_search", noise="repeat"))
    for origin in (None, "confirmation", "control"):
        trial = optimizer.suggest() if origin is None else optimizer.measure_again({"x": 4}, origin)
        optimizer.observe(trial, 2.0)
        shown.update(optimizer.history, optimizer.trials[-1])
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("1/3  best 2, trial 0: 2")
    assert lines[-1].startswith("2/3  best 2, trial 2 again: 2")


def test_a_history_that_is_extended_twice_counts_its_own_search():
    optimizer = Optimizer(SPACE, strategy=Search("random_search", noise="repeat"))
    optimizer.observe(optimizer.suggest(), 2.0)
    trial = optimizer.measure_again({"x": 4}, "confirmation")
    before = optimizer.history
    for value in (3.0, 4.0):  # the second one copies the shared rows
        after, _ = before.complete([Outcome.success(trial.id, (value,))])
        assert (after.evaluations, after.searched) == (2, 1)
    (again,) = Optimizer(SPACE, strategy="random_search").suggest(1)
    copied, _ = after.complete([Outcome.success(99, (1.0,))], {99: (replace(again, id=99), None)})
    assert copied.searched == 2


# ---- The best few are measured again: luck does not win ----


class Noisy:
    """Values are ``x`` and noise; negative ``x`` fail. It notes in which order it was asked."""

    capacity = 1

    def __init__(self, spread=0.1):
        self.rng, self.spread = np.random.default_rng(0), spread
        self.asked: list[float] = []
        self.queue: deque[Trial] = deque()

    def submit(self, trial):
        self.asked.append(trial["x"])
        self.queue.append(trial)

    def wait(self):
        trial = self.queue.popleft()
        if trial["x"] < 0:
            return [Outcome.failure(trial.id, "runtime", "no")]
        noise = self.rng.normal(0, self.spread, 2)
        return [Outcome.success(trial.id, tuple(float(trial["x"] + one) for one in noise))]

    def close(self):
        self.queue.clear()


def observed(number, x, value, **more):
    trial = Trial(number, {"x": x}, **more)
    return trial.with_outcome(
        Outcome.failure(number, "compile") if value is None else Outcome.success(number, (value,))
    )


def confirm(values, evaluator, *, direction="minimize", default=None, top=3, **settings):
    """Confirm the winner of a run that has observed these pairs of ``x`` and a value."""
    space = Space({"x": Ordinal(sorted(x for x, _ in values), default=default)})
    optimizer = Optimizer(space, direction, strategy="random_search")
    for x, value in values:
        optimizer.observe({"x": x}, value)
    return confirm_winner(optimizer, evaluator, Confirm(top, evaluations=500, **settings))


def test_the_clearly_worse_leave_and_the_others_take_turns():
    evaluator = Noisy(spread=0.01)
    confirm([(9.0, 1.0), (2.0, 2.0), (2.0001, 2.0)], evaluator, rounds=8, tolerance=0.0)
    assert sorted(evaluator.asked[:3]) == [2.0, 2.0001, 9.0]
    assert evaluator.asked.count(9.0) < 8
    assert evaluator.asked.count(2.0) == evaluator.asked.count(2.0001) == 8


def test_one_that_is_left_alone_ends_it():
    found = confirm([(1.0, 1.0), (9.0, 1.1)], Noisy(0.01), rounds=50)
    assert found.is_decided
    assert found.rounds == len(evaluations := found.candidates[0].repeats) < 10
    assert found.measurements == 2 * len(evaluations)


def test_those_that_fail_now_leave():
    found = confirm([(-1.0, 0.5), (2.0, 2.0)], Noisy())
    assert found.winner.id == 1
    assert (found.candidates[0].failure, found.candidates[0].extra["observed"]) == ("runtime", 0.5)
    nobody = confirm([(-1.0, 0.5)], Noisy())
    assert (nobody.winner, nobody.candidates[0].failure) == (None, "runtime")
    assert (nobody.is_decided, nobody.recommended, nobody.tied) == (False, None, ())
    assert confirm_winner(Optimizer({"x": [1.0]}), Noisy(), Confirm()) is None


def test_a_cache_is_passed_by(tmp_path):
    inner = Noisy()
    evaluator = CachedEvaluator(inner, ResultCache(tmp_path / "cache", {}))
    confirm([(1.0, 1.0), (1.0001, 1.0)], evaluator, rounds=3)
    assert len(inner.asked) == 6
    assert not (tmp_path / "cache").exists()


def test_the_best_with_different_configurations():
    trials = [
        observed(0, 1.0, 3.0),
        observed(1, 1.0, 2.0),
        observed(2, 2.0, 1.0),
        observed(3, 3.0, None),
        observed(4, 5.0, 9.0),
    ]
    assert [one.id for one in select_best(trials, "minimize", 3)] == [2, 1, 4]
    assert [one.id for one in select_best(trials, "maximize", 2)] == [4, 0]
