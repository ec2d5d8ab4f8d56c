"""Programs of trials: named by the user's loop, kept in the journal, and numbered for strategies."""

import json
import math
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

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
    Workers,
    cli,
    tune,
)
from baco_like.records import History, Outcome, Trial
from baco_like.records.objective_values import outcome_from
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.summary import search_section

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


# ---- Trials whose program an earlier trial had: no evaluations, but builds, with one count everywhere ----


INERT = {"a": list(range(40)), "inert": list(range(3))}


def value(trial):
    """Return the same program for four values of ``a`` and all of ``inert``."""
    return {"value": trial["a"] // 4, "program": f"program {trial['a'] // 4}"}


def search(evaluations, function=value, **more):
    stop = MaxEvals(evaluations, more.pop("builds", None))
    return tune(function, INERT, stop=stop, strategy="random_search", progress=False, **more)


def test_a_run_has_as_many_different_programs_as_evaluations():
    result = search(8)
    history = result.optimizer.history
    assert result.reason == "8 evaluations"
    assert len(set(history.programs.tolist())) == history.searched == 8
    assert history.builds == len(result.trials) > 8
    assert value(result.trials[-1]) not in map(value, result.trials[:-1])


def test_as_many_builds_as_evaluations_count_each_trial():
    result = search(8, builds=8)
    new = result.optimizer.history.searched
    assert (len(result.trials), new < 8) == (8, True)
    assert result.reason == f"8 builds, of which {new} are evaluations"


def test_a_run_ends_where_no_parameter_changes_the_program():
    result = search(2, lambda trial: {"value": 1.0, "program": "always"})
    assert (len(result.trials), result.reason) == (20, "20 builds, of which 1 are evaluations")


@pytest.mark.parametrize("first", [{"evaluations": 3}, {"evaluations": 8, "builds": 6}])
def test_a_resumed_run_ends_at_the_same_trial(tmp_path, first):
    whole = search(8)
    part = search(**first, storage=tmp_path / "run.jsonl")
    resumed = search(8, storage=tmp_path / "run.jsonl")
    assert len(part.trials) < len(resumed.trials)
    assert [dict(t) for t in resumed.trials] == [dict(t) for t in whole.trials]
    assert resumed.reason == whole.reason


def test_pending_trials_count_until_their_program_is_known():
    with ThreadPoolExecutor(4) as executor:
        result = search(8, workers=Workers(executor=executor, max_pending=4))
    assert (result.optimizer.history.searched, result.reason) == (8, "8 evaluations")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_flags_that_do_not_change_a_c_program(tmp_path, capsys):
    """A program without loops is the same for all of these flags; every text has the same count."""
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "one.toml").write_text(
        """
        [flags]
        compiler = "gcc"
        level = "-O2"
        on_off = ["-funroll-loops", "-fivopts", "-fpeel-loops"]
        [objective]
        name = "size"
        exact = true
        [evaluator]
        kind = "command"
        build = "gcc {flags} -c one.c -o {workdir}/one.o"
        run = "true"
        measure = "size"
        program = "{workdir}/one.o"
        [evaluator.metrics]
        size = "text({workdir}/one.o)"
        [budget]
        evaluations = 3
        builds = 5
        [optimizer]
        strategy = "random_search"
        """
    )
    out = tmp_path / "out"
    assert cli.main(["tune", str(tmp_path / "one.toml"), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    journal = out / "run.jsonl"
    history = Optimizer.load(journal).history
    assert (history.searched, history.builds) == (1, 5)
    assert sum("same_program" in trial.extra for trial in history.trials) == 4
    counted = "1 evaluations, 5 builds"
    assert re.search(r"^1/3 .*, 5 builds", printed, re.MULTILINE)
    assert counted in printed
    best = json.loads((out / "best.json").read_text())
    assert (best["evaluations"], best["builds"]) == (1, 5)
    assert cli.main(["show", str(journal)]) == 0
    assert "1 of 3 evaluations, 5 builds" in capsys.readouterr().out
    pytest.importorskip("vl_convert")
    section = search_section(RunFacts(journal))
    assert section.answer.startswith(f"{counted}; failures: none")
    assert section.parts[-1].rows[-1][0] == 1  # all trials belong to the first evaluation
