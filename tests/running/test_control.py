"""The incumbent is measured again during a run, so that drift of the machine is noticed."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from baco_like import MaxEvals, Measuring, Optimizer, Ordinal, Recheck, Search, Space, tune
from baco_like.records import Objective
from baco_like.records.drift import read_drift
from baco_like.running.confirming import rank_candidates
from baco_like.running.findings import Findings
from baco_like.running.machine import describe_machine
from baco_like.running.progress import show_progress
from baco_like.running.sentences import format_summary

SPACE = Space({"x": Ordinal(list(range(1, 201)), default=200)})
PLAIN: dict[str, Any] = {"strategy": "random_search", "progress": False, "seed": 2}


def machine(slower=1.0, since=40, spread=0.002):
    """Return a noisy function that becomes slower by a factor at some trial; values depend on trials only."""

    def fn(trial):
        speed = slower if trial.id >= since else 1.0
        noise = np.random.default_rng(trial.id).lognormal(0.0, spread)
        return float((100 + trial["x"]) * speed * noise)

    return fn


def run(fn, evaluations, every, **more):
    """Tune with rechecks."""
    recheck = Recheck(every) if isinstance(every, int) else every
    measuring = Measuring(recheck=recheck)
    return tune(fn, SPACE, stop=MaxEvals(evaluations), measuring=measuring, **PLAIN | more)


def test_without_drift_the_incumbent_is_measured_again_and_nothing_is_reported():
    result = run(machine(), 80, 20)
    controls = [trial for trial in result.trials if trial.origin == "control"]
    assert 3 <= len(controls) <= 8
    assert len(result.trials) == 80, "they count as evaluations"
    drift = read_drift(result.optimizer.history)
    assert drift.changes == ()
    assert all(abs(point.level - 1.0) < 0.02 for point in drift.points)
    assert "Drift" not in format_summary(Findings(result.optimizer.history, Objective()))


@pytest.mark.parametrize(("slower", "word"), [(1.3, "worse"), (0.7, "better")])
def test_a_change_is_confirmed_reported_and_the_best_are_measured_again(slower, word):
    result = run(machine(slower), 80, 15)
    history = result.optimizer.history
    (change,) = read_drift(history).changes
    assert change.level == pytest.approx(slower, abs=0.02)
    assert 40 < change.row <= 60
    after = result.trials[change.row + 1 : change.row + 4]
    before = sorted(
        (t for t in result.trials[: change.row] if t.origin != "control"),
        key=lambda t: t.value or 0,
    )
    measured = {
        t["x"] for t in result.trials[change.row - 1 : change.row + 4] if t.origin == "control"
    }
    assert {t["x"] for t in before[:3]} <= measured
    assert any(trial.origin == "control" for trial in after)
    text = format_summary(Findings(history, Objective()))
    assert f"Drift: values became 30 % {word} until evaluation {change.row + 1}" in text
    optimizer, stream = Optimizer(SPACE, strategy="random_search"), io.StringIO()
    shown = show_progress(stream, None)
    for trial in result.trials:
        copy = optimizer.measure_again(trial.config, trial.origin)
        optimizer.observe(copy, trial.value)
        shown.update(optimizer.history, optimizer.trials[-1])
    assert stream.getvalue().count(f"Drift: values became 30 % {word}") == 1


@pytest.mark.parametrize(("threshold", "count"), [(0.05, 1), (0.5, 0)])
def test_progress_shows_drift_beyond_the_threshold(threshold, count, capsys):
    run(machine(1.3), 80, Recheck(15, threshold), progress=True)
    assert capsys.readouterr().err.count("Drift: values became 30 % worse") == count


def test_one_disturbed_value_is_no_drift():
    disturbed = [0]

    def fn(trial):
        if trial.id > 30 and trial["x"] == best[0] and not disturbed[0]:
            disturbed[0] = trial.id
            return 3.0 * (100 + trial["x"])
        return machine()(trial)

    best = [min(t["x"] for t in run(machine(), 20, None).trials)]
    result = run(fn, 80, 20)
    assert disturbed[0] > 30
    assert read_drift(result.optimizer.history).changes == ()


def test_a_deterministic_function_is_measured_again_twice_at_most():
    result = run(lambda t: 1.0 + t["x"], 100, 10)
    controls = [trial for trial in result.trials if trial.origin == "control"]
    assert 0 < len(controls) <= 4
    assert all(trial.origin != "control" for trial in result.trials[60:])


def test_controls_follow_evaluations_not_builds():
    def inert(trial):
        return {"value": 1.0, "program": "always"}

    result = run(inert, 3, 2)
    assert len(result.trials) == 30
    assert all(trial.origin != "control" for trial in result.trials)


def test_a_resumed_run_makes_the_same_controls(tmp_path):
    whole = run(machine(1.3), 70, 15)
    for evaluations in (16, 48, 70):
        resumed = run(machine(1.3), evaluations, 15, storage=tmp_path / "run.jsonl")
    assert repr(resumed.trials) == repr(whole.trials)


def test_off_by_default_for_functions_without_noise():
    fn = machine(spread=0.05)
    assert all(trial.origin != "control" for trial in run(fn, 60, None).trials)
    noisy = run(fn, 60, None, strategy=Search("random_search", noise="repeat"))
    assert any(trial.origin == "control" for trial in noisy.trials)
    with pytest.raises(ValueError, match="every = -1: expected a whole number, 0 or more"):
        Recheck(-1)
    with pytest.raises(ValueError, match="threshold = 0"):
        Recheck(5, 0.0)


@pytest.mark.parametrize("strategy", ["auto", "genetic_algorithm", "tabu_search", "racing"])
def test_every_family_of_strategies_accepts_controls(strategy):
    assert len(run(machine(spread=0.05), 24, 4, strategy=strategy).trials) == 24


def test_candidates_are_chosen_by_values_without_the_drift():
    """The machine is slower by a factor of 2 when the best configuration is measured."""
    optimizer = Optimizer(SPACE, strategy="random_search")
    for x, factor, origin in (
        *((50, 1.0, "strategy"), (60, 1.0, "strategy"), (50, 1.0, "control")),
        *((50, 2.0, "control"), (50, 2.0, "control"), (1, 2.0, "strategy")),
    ):
        optimizer.observe(optimizer.measure_again({"x": x}, origin), (100.0 + x) * factor)
    assert optimizer.best_config == {"x": 50}
    assert rank_candidates(optimizer, 1)[0]["x"] == 1


# The machine ----------------------------------------------------------------------------------------------------------


def test_notes_on_the_machine(tmp_path, monkeypatch):
    assert describe_machine() == [], "switched off for tests"
    monkeypatch.delenv("BACO_LIKE_MACHINE_CHECK")
    assert describe_machine(tmp_path) == []
    files = {
        "proc/loadavg": "99.5 3.1 2.0 1/96 19096\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    busy, governor, turbo = describe_machine(tmp_path)
    assert busy.startswith("the machine is busy: load 99.5 on")
    assert "cpupower frequency-set -g performance" in governor
    assert "echo 1 | sudo tee" in turbo
    (tmp_path / "proc/loadavg").write_text("0.00 0.0 0.0\n")
    (tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").write_text("schedutil")
    (tmp_path / "sys/devices/system/cpu/intel_pstate/no_turbo").write_text("1")
    assert describe_machine(tmp_path) == []
