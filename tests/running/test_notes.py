"""Notes on how a trial was measured, and values of 0."""

from io import StringIO

from baco_like import Optimizer, Outcome, Space
from baco_like.records import Objective
from baco_like.running.progress import Display, TrialProgress
from baco_like.running.summary import format_summary, summarise


def test_a_note_is_shown_once_for_its_kind_and_with_the_best() -> None:
    space, stream = Space({"x": [1, 2, 3]}), StringIO()

    def outcome(trial):
        extra = {"notes": {"resolution": f"coarse {trial['x']}"}}
        return Outcome.success(trial.id, (0.0 if trial["x"] == 2 else 1.0,), extra=extra)

    optimizer = Optimizer(space, seed=1, objective="time")
    progress = TrialProgress(Display(stream, 3), "ms")
    for _ in range(3):
        trial = optimizer.suggest()
        optimizer.complete([outcome(trial)])
        progress.update(optimizer.history, optimizer.trials[-1])
    assert stream.getvalue().count("first note of kind resolution") == 1
    summary = summarise(optimizer.history, Objective("time", "ms"))
    assert any("coarse 2" in line for line in summary.drift)
    assert summary.speedup is None or summary.is_default_best
    assert "inf" not in format_summary(summary)
