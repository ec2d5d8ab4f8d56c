"""Programs of trials: named by the user's loop, kept in the journal, and numbered for strategies."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import (
    MaxEvals,
    Measurement,
    Measuring,
    Optimizer,
    Space,
    TrialError,
    WarmStart,
    tune,
)
from baco_like.records import History, Outcome, Trial
from baco_like.records.reading import outcome_from

SPACE = Space({"a": list(range(12))})
PROGRAMS = st.lists(st.sampled_from(["", "p", "q", "r"]), max_size=20)
ORIGINS = st.sampled_from(["told", "told", "told", "late", "control", "confirmation"])
TRIALS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "p", "q"]), ORIGINS))


@pytest.mark.parametrize(
    "value",
    [
        {"value": 1.5, "program": "p"},
        {"value": Measurement(1.5, 0.1), "program": "p"},
        {"value": [1.5, 1.5], "program": ["p", "p"]},
        {"value": math.nan, "program": "p"},
    ],
)
def test_a_mapping_names_the_program(value):
    outcome = outcome_from(0, value)
    assert (outcome.extra, outcome.metrics) == ({"program": "p"}, {})
    assert outcome_from(0, {**value, "program": None}).extra == {}


def test_an_objective_may_have_this_name():
    outcome = outcome_from(0, {"program": 3.0}, "program")
    assert (outcome.value, outcome.extra) == (3.0, {})


@pytest.mark.parametrize("program", [7, 1.5, b"p", "", " ", ["p", "q"], ["p", None], {}])
def test_a_program_is_one_text(program):
    optimizer = Optimizer(SPACE, strategy="random_search")
    trial = optimizer.suggest()
    with pytest.raises(TrialError, match=r"program = .*: expected one text"):
        optimizer.observe(trial, 1.0, program=program)
    with pytest.raises(TrialError, match=r"program = .*: expected one text"):
        optimizer.observe(trial, {"value": 1.0, "program": program})
    with pytest.raises(TrialError, match="one trial at a time"):
        optimizer.observe([trial], [1.0], program="p")
    with pytest.raises(TrialError, match="are both given"):
        optimizer.observe(trial, {"value": 1.0, "program": "p"}, program="p")
    assert optimizer.trials == []


def test_the_journal_keeps_the_programs_of_every_call(tmp_path):
    path = tmp_path / "run.jsonl"
    optimizer = Optimizer(SPACE, strategy="random_search", storage=path)
    trials = optimizer.suggest(5)
    optimizer.observe(trials[0], 1.0, program="p", seconds=0.5)
    optimizer.observe(trials[1], failed="runtime", program="q")
    optimizer.observe(trials[2], {"value": 1.0, "program": "p"})
    outcome = Outcome.success(trials[3].id, (2.0,), extra={"program": "q"})
    optimizer.complete([outcome])
    optimizer.observe(trials[4], failed="compile")
    for each in (optimizer, Optimizer.load(path)):
        assert each.history.programs.tolist() == [0, 1, 0, 1, -1]
        assert each.trials[0].extra == {"program": "p", "seconds": {"run": 0.5}}


def test_the_function_of_tune_names_the_program():
    def value(trial):
        return {"value": trial["a"], "program": f"p{trial['a'] // 3}"}

    result = tune(value, SPACE, stop=MaxEvals(12), measuring=Measuring(repeats=2), progress=False)
    groups = [trial["a"] // 3 for trial in result.trials]
    firsts = [groups.index(group) for group in groups]
    assert result.optimizer.history.programs.tolist() == firsts


@given(PROGRAMS, st.integers(0, 20), PROGRAMS)
def test_equal_numbers_are_equal_programs_also_where_histories_part(first, kept, more):
    def extend(history, programs):
        for program in programs:
            trial = Trial(history.next_id, {"a": 0}, origin="told")
            extra = {"program": program} if program else {}
            outcome = Outcome.success(trial.id, (1.0,), extra=extra)
            history, _ = history.complete([outcome], {trial.id: (trial, np.zeros(1))})
        return history

    whole = extend(History.start(SPACE), first)
    other = extend(whole.first(kept), more)
    for history, names in ((whole, first), (other, first[:kept] + more)):
        expected = [names.index(name) if name else -1 for name in names]
        assert history.programs.tolist() == expected


def extend(history, rows):
    """Return the history after trials of these configurations, programs and origins."""
    for a, program, origin in rows:
        trial = Trial(history.next_id, {"a": a}, origin=origin)
        outcome = Outcome.success(trial.id, (1.0,), extra={"program": program} if program else {})
        history, _ = history.complete([outcome], {trial.id: (trial, np.array([a]))})
    return history


@given(TRIALS, TRIALS, st.integers(0, 20))
def test_an_evaluation_has_a_program_that_the_run_did_not_know(warm, own, length):
    start = History.start(SPACE)
    outcomes = [
        Outcome.success(i, (1.0,), extra={"program": p}) for i, (_, p, _) in enumerate(warm)
    ]
    trials = [Trial(i, {"a": a}, None, "warm", outcomes[i]) for i, (a, _, _) in enumerate(warm)]
    history, _ = start.add_warm_start(trials) if warm else (start, ())
    whole, shorter = extend(history, own), extend(history, own).first(len(warm) + length)
    for each, rows in ((whole, own), (shorter, own[:length]), (extend(shorter, own), None)):
        rows = own[:length] + own if rows is None else rows
        counts = [
            origin in ("control", "confirmation")
            or not program
            or a == next(first for first, name, _ in rows[: i + 1] if name == program)
            for i, (a, program, origin) in enumerate(rows)
        ]
        search = [origin != "confirmation" for _, _, origin in rows]
        kept = [one and other for one, other in zip(counts, search, strict=True)]
        assert (each.evaluations, each.builds) == (len(rows), sum(search))
        assert each.searched == sum(kept) == len(each.searched_trials)
        assert each.is_search.tolist() == [True] * len(warm) + kept


def test_a_program_of_a_warm_start_is_new_in_this_run():
    source = Optimizer(SPACE, strategy="random_search")
    source.observe({"a": 3}, 1.0, program="p")
    optimizer = Optimizer(SPACE, strategy="random_search", warm_start=WarmStart(source))
    optimizer.observe({"a": 4}, 1.0, program="p")
    optimizer.observe({"a": 5}, 1.0, program="p")
    assert optimizer.history.programs.tolist() == [0, 0, 0]
    assert (optimizer.history.searched, optimizer.history.builds) == (1, 2)
