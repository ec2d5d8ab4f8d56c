"""Notes on how a trial was measured, and values of 0."""

import json
from io import StringIO

from baco_like import Optimizer, Outcome, Space
from baco_like.records import Objective
from baco_like.records.confirmation import CandidateResults
from baco_like.records.trial import NOT_COMPARED, Trial, measurement_notes
from baco_like.running.findings import Findings, write_best
from baco_like.running.progress import Display, TrialProgress
from baco_like.running.telling import format_summary


def test_a_note_is_shown_once_for_its_kind_and_with_the_best(tmp_path):
    space, stream = Space({"x": [1, 2, 3]}), StringIO()

    def outcome(trial):
        extra = {"notes": {"resolution": f"coarse {trial['x']}", NOT_COMPARED: "hidden"}}
        return Outcome.success(trial.id, (0.0 if trial["x"] == 2 else 1.0,), extra=extra)

    optimizer = Optimizer(space, {"time": "minimize"}, seed=1)
    progress = TrialProgress(Display(stream, 3), "ms")
    for _ in range(3):
        trial = optimizer.suggest()
        optimizer.complete([outcome(trial)])
        progress.update(optimizer.history, optimizer.trials[-1])
    assert stream.getvalue().count("first note of kind resolution") == 1
    summary = Findings(optimizer.history, Objective("time", "ms"))
    assert [line.partition(": ")[2] for line in summary.notes] == ["coarse 2.", "hidden."]
    assert "hidden" not in stream.getvalue()
    write_best(summary, tmp_path / "best.json", seed=1)
    best = json.loads((tmp_path / "best.json").read_text())
    assert (best["notes"], best["drift"]) == (summary.notes, [])
    assert summary.speedup is None or summary.is_default_best
    assert "inf" not in format_summary(summary)


def test_a_confirmation_has_the_notes_of_its_own_measurements():
    def outcome(**notes):
        return Outcome.success(1, (1.0,), extra={"notes": notes})

    trial = Trial(1, {"x": 1}).with_outcome(outcome(**{NOT_COMPARED: "in the search"}))
    results = CandidateResults(trial).add(outcome(resolution="coarse"))
    assert measurement_notes(results.to_trial()) == {"resolution": "coarse"}
    assert measurement_notes(results.add(outcome()).to_trial()) == {}
