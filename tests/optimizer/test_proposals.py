"""Proposals of sources beside the strategy: the answers, the share of each source, the journal."""

import copy
import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import ConfigError, Optimizer, Sharing, Space, TrialError
from baco_like.journal import JsonlJournal, MemoryJournal
from baco_like.journal.events import START, proposed_event
from baco_like.records.sources import (
    EXPERIENCE,
    LONGEST,
    PROBATION,
    SHORTEST,
    WAIT,
    read_sources,
    source_of,
)
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.summary import search_section
from baco_like.running.findings import Findings
from baco_like.running.journal_view import JournalView, describe_run, describe_trial
from baco_like.running.sentences import tell_sources

SPACE = Space(
    {"tile": [8, 16, 32, 64], "unroll": [1, 2, 4, 8], "name": ["a", "b"]},
    constraints=["tile * unroll <= 256"],
)
CONFIGS = list(SPACE)
WIDE = Space({"x": range(500)})


def optimizer(**arguments):
    return Optimizer(SPACE, **{"seed": 1, "strategy": "random_search", **arguments})


def begin(opt):
    """Return the optimizer after the first trials, which belong to the strategy."""
    search(opt, WAIT, lambda t: 1e6)
    return opt


def search(opt, n, cost, width=1):
    """Observe n trials, some at a time, and return them; a cost of None is a failure."""
    for begin in range(0, n, width):
        for trial in opt.suggest(min(width, n - begin)):
            value = cost(trial)
            opt.observe(trial, value, failed="compile" if value is None else None)
    return opt.trials[-n:]


def test_a_proposal_becomes_a_trial_with_its_source_and_note():
    opt = optimizer(seed=2)
    answer = opt.propose(CONFIGS[5], source="expert", note="big tiles")
    begin(opt)
    assert (answer.accepted, answer.reason, answer.nearest) == (True, "", None)
    trial = opt.suggest()
    assert dict(trial) == CONFIGS[5]
    assert opt.why(trial) == {
        "origin": "proposed",
        "source": "expert",
        "note": "big tiles",
        "trials": 1,
        "gains": 0,
        "share": 0.5,
    }
    assert not opt.history.open_proposals


@pytest.mark.parametrize(
    ("config", "reason", "nearest"),
    [
        (
            {"tile": 64, "unroll": 8, "name": "b"},
            "infeasible: tile * unroll <= 256 violated: 512",
            None,
        ),
        (
            {"tile": 40, "unroll": 1.1, "name": "c"},
            "infeasible: parameter 'tile': 40 is not one of [8, 16, 32, 64]; parameter 'unroll': 1.1 is not one of "
            "[1, 2, 4, 8]; parameter 'name': 'c' is not one of ['a', 'b']",
            {"tile": 32, "unroll": 1, "name": "a"},
        ),
        (
            {"tile": 16},
            "infeasible: the configuration lacks 'unroll', 'name'; the parameters are tile, unroll, name",
            {"tile": 16, "unroll": 2, "name": "a"},
        ),
        (
            {"tile": 32, "unroll": 2, "name": "a"},
            "observed: trial 0, 1.5",
            {"tile": 32, "unroll": 1, "name": "a"},
        ),
        ({"tile": 32, "unroll": 4, "name": "a"}, "failed: trial 1, compile", None),
        ({"tile": 32, "unroll": 8, "name": "a"}, "pending: trial 2", None),
        ({"tile": 64, "unroll": 1, "name": "a"}, "enqueued: it is suggested next", None),
        (
            {"tile": 64, "unroll": 2, "name": "a"},
            "proposed: by 'script', and not tried yet",
            None,
        ),
    ],
)
def test_a_refused_proposal_gets_the_reason_and_the_nearest_legal_configuration(
    config, reason, nearest
):
    opt = optimizer()
    opt.observe({"tile": 32, "unroll": 2, "name": "a"}, 1.5)
    opt.observe({"tile": 32, "unroll": 4, "name": "a"}, failed="compile")
    opt.claim({"tile": 32, "unroll": 8, "name": "a"})
    opt.enqueue({"tile": 64, "unroll": 1, "name": "a"})
    opt.propose({"tile": 64, "unroll": 2, "name": "a"}, source="script")
    before = opt.journal.events
    answer = opt.propose(config, source="expert")
    assert (answer.accepted, answer.reason) == (False, reason)
    assert answer.nearest is not None
    if nearest is not None:
        assert answer.nearest == nearest
    assert opt.journal.events == before


@given(
    config=st.fixed_dictionaries(
        {}, optional={name: st.integers() | st.floats() | st.text() for name in SPACE.names}
    ),
    observed=st.lists(st.sampled_from(CONFIGS), unique_by=str, max_size=len(CONFIGS)),
)
def test_the_nearest_configuration_is_accepted(config, observed):
    opt = optimizer()
    for each in observed:
        opt.observe(each, failed="compile")
    answer = opt.propose(config, source="expert")
    assert answer.accepted == (SPACE.contains(config) and config not in observed)
    assert answer.accepted or (answer.nearest is None) == (len(observed) == len(CONFIGS))
    if answer.nearest is not None:
        assert opt.propose(answer.nearest, source="expert").accepted


def test_an_equal_configuration_is_refused_within_one_call():
    opt = optimizer()
    first, second = opt.propose([CONFIGS[3], CONFIGS[3]], source="expert")
    assert first.accepted
    assert second.reason == "proposed: by 'expert', in the same call"
    assert second.nearest not in (None, CONFIGS[3])


def test_the_event_has_the_source_the_note_and_the_accepted_configurations():
    opt = optimizer()
    opt.propose([CONFIGS[0], {"tile": 1}, CONFIGS[1]], source="script", note="from the paper")
    assert json.dumps(opt.journal.events[-1]) == (
        '{"event": "proposed", "source": "script", "note": "from the paper", "configs": '
        '[{"tile": 8, "unroll": 1, "name": "a"}, {"tile": 8, "unroll": 1, "name": "b"}]}'
    )
    opt.propose(CONFIGS[2], source="script")
    assert list(opt.journal.events[-1]) == ["event", "source", "configs"]


@pytest.mark.parametrize("source", ["", "  ", None, 3])
def test_a_source_needs_a_name(source):
    with pytest.raises(ValueError, match="expected a name, such as 'expert'"):
        optimizer().propose(CONFIGS[0], source=source)


def test_the_name_of_earlier_runs_is_not_a_source():
    opt = optimizer()
    with pytest.raises(ValueError, match="this is the name of earlier runs"):
        opt.propose(CONFIGS[0], source="experience")
    assert not opt.history.open_proposals


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="note = 3: expected a text"):
        optimizer().propose(CONFIGS[0], source="expert", note=3)
    with pytest.raises(ConfigError):
        optimizer().propose([1], source="expert")


def test_an_event_of_another_program_is_checked():
    opt = optimizer()
    for configs in ([{"tile": 64, "unroll": 8, "name": "a"}], [{"tile": 1}]):
        with pytest.raises((TrialError, ConfigError)):
            opt.append(proposed_event("x", "", configs), None)
    with pytest.raises(TrialError, match="source is 3; expected `str`, got `int`"):
        opt.append({"event": "proposed", "source": 3, "configs": []}, None)


@given(
    values=st.lists(st.none() | st.floats(0, 1), min_size=20, max_size=20),
    sources=st.lists(
        st.tuples(st.sampled_from("xyz"), st.integers(0, len(CONFIGS) - 1)), max_size=20
    ),
    width=st.integers(1, 5),
)
def test_shares_resume_and_no_proposal_is_lost(values, sources, width):
    opt = optimizer()
    accepted = {}
    for source, index in sources:
        if opt.propose(CONFIGS[index], source=source).accepted:
            accepted[str(CONFIGS[index])] = source
    values = iter(values)
    for _ in range(20 // width):
        resumed = copy.deepcopy(opt)
        trials = opt.suggest(width)
        same = resumed.suggest(width)
        assert [(dict(t), t.origin, t.tag) for t in same] == [
            (dict(t), t.origin, t.tag) for t in trials
        ]
        proposed = [t for t in trials if t.origin == "proposed"]
        assert len(proposed) <= math.ceil(width / 2)
        assert all(accepted[str(dict(t))] == source_of(t) for t in proposed)
        for trial in trials:
            value = next(values)
            opt.observe(trial, value, failed="compile" if value is None else None)
    tried = {str(dict(t)) for t in opt.trials}
    waiting = {str(p.config) for p in opt.history.open_proposals}
    assert waiting == accepted.keys() - tried
    assert {t.tag["source"] for t in opt.trials if t.origin == "proposed"} == set(
        read_sources(opt.history)
    )


def test_a_source_that_brings_new_bests_gets_every_second_trial():
    opt = Optimizer(WIDE, strategy="random_search")
    opt.propose([{"x": i} for i in range(10)], source="good")
    costs = iter(range(100, 0, -1))
    begin(opt)
    trials = search(opt, 20, lambda t: next(costs) if t.origin == "proposed" else 1000)
    assert [t.origin == "proposed" for t in trials] == [True, False] * 10
    record = read_sources(opt.history)["good"]
    assert (record.trials, record.gains, record.interval) == (10, 10, SHORTEST)
    assert record.best.id == trials[18].id


def test_a_useless_source_keeps_a_small_share_and_a_new_best_restores_it():
    wide = Space({"x": range(500), "good": [False, True]})
    opt = Optimizer(wide, strategy="random_search")
    opt.propose([{"x": i, "good": i == 14} for i in range(20)], source="x")
    begin(opt)
    trials = search(opt, 200, lambda t: 0.5 if t["good"] and t.origin == "proposed" else 1.0)
    own = [t.id for t in trials if t.origin == "proposed"]
    gaps = [b - a for a, b in pairwise(own)]
    assert own[0] == WAIT
    assert gaps[: PROBATION - 1] == [SHORTEST] * (PROBATION - 1)
    assert gaps[PROBATION - 1 :][:5] == [4, 8, 16, LONGEST, LONGEST]
    assert gaps[own.index(read_sources(opt.history)["x"].best.id)] == SHORTEST


@pytest.mark.parametrize("width", [1, 3, 40])
def test_a_source_whose_first_proposals_fail_is_stopped(width):
    opt = Optimizer(WIDE, strategy="random_search")
    opt.propose([{"x": i} for i in range(60)], source="hostile")
    trials = search(opt, 120, lambda t: None if t.origin == "proposed" else 1.0, width)
    assert sum(t.origin == "proposed" for t in trials) == PROBATION
    assert opt.propose({"x": 499}, source="hostile").reason == (
        "stopped: the first 5 proposals of 'hostile' have failed, or are pending; propose under another source if the "
        "reason is gone"
    )
    assert opt.propose(opt.propose({"x": 0}, source="other").nearest, source="other").accepted


def test_several_sources_have_half_of_the_trials_together():
    opt = Optimizer(WIDE, strategy="random_search")
    for k, source in enumerate("abc"):
        opt.propose([{"x": 50 * k + i} for i in range(50)], source=source)
    begin(opt)
    costs = iter(range(1000, 0, -1))
    trials = search(opt, 40, lambda t: next(costs))
    sources = [source_of(t) for t in trials]
    assert [source is None for source in sources] == [False, True] * 20
    assert {source: sources.count(source) for source in "abc"} == {"a": 7, "b": 7, "c": 6}


def test_a_gain_is_one_over_the_trials_of_the_same_task():
    opt = Optimizer(Space({"x": range(50)}, tasks=[{"n": 1}, {"n": 2}]), strategy="random_search")
    opt.observe({"x": 0, "n": 1}, 1.0)
    opt.propose([{"x": 1, "n": 2}, {"x": 1, "n": 1}], source="x")
    search(opt, 20, lambda t: 5.0 if t["n"] == 1 else 1e6 - t.id)
    record = read_sources(opt.history)["x"]
    assert (record.trials, record.gains) == (2, 1)


def test_only_proposals_for_the_task_of_the_worker_are_suggested():
    space = Space({"x": range(900)}, tasks=[{"n": 1}, {"n": 2}])
    opt = Optimizer(space, strategy="random_search", sharing=Sharing(task={"n": 2}))
    begin(opt)
    opt.propose([{"x": 51, "n": 1}, {"x": 51, "n": 2}], source="x")
    assert dict(opt.suggest()) == {"x": 51, "n": 2}
    assert len(opt.history.open_proposals) == 1


def test_proposals_come_before_those_in_store():
    with_store = begin(Optimizer(WIDE, strategy="random_search", sharing=Sharing(ahead=4)))
    with_store.propose({"x": 7}, source="expert")
    assert with_store.suggest().tag == {"source": "expert", "note": ""}


def test_a_queued_configuration_comes_first():
    opt = begin(Optimizer(WIDE, strategy="random_search"))
    opt.propose({"x": 7}, source="expert")
    opt.enqueue({"x": 8})
    assert [t.origin for t in opt.suggest(2)] == ["enqueued", "proposed"]


def test_a_run_in_a_file_continues_with_the_open_proposals(tmp_path):
    opt = optimizer(storage=tmp_path / "run.jsonl")
    opt.claim(CONFIGS[2])
    opt.propose(CONFIGS[3:6], source="x")
    opt.claim(CONFIGS[3])
    kinds = [e["event"] for e, _ in JsonlJournal(tmp_path / "run.jsonl").peek(START)]
    assert kinds == ["opened", "suggested", "proposed", "suggested"]
    again = Optimizer.load(tmp_path / "run.jsonl").history.open_proposals
    assert [p.config for p in again] == CONFIGS[4:6]


def test_a_run_says_which_source_found_what(tmp_path):
    opt = optimizer(storage=tmp_path / "run.jsonl")
    opt.observe(CONFIGS[0], 9.0)
    begin(opt)
    opt.propose(CONFIGS[3:5], source="expert")
    search(opt, 4, lambda t: 1.0 if t.origin == "proposed" else 2.0)
    view = JournalView(tmp_path / "run.jsonl")
    assert tell_sources(Findings(view.history, view.objective)) == [
        "Found by told: 1 trial, 1 new best, best 9.",
        "Found by strategy: 5 trials, 0 new bests, best 2.",
        "Found by expert: 2 trials, 1 new best, best 1.",
    ]
    assert "Found by expert: 2 trials, 1 new best, best 1." in describe_run(view, 3)
    own = next(t for t in view.trials if t.origin == "proposed")
    assert "source  expert" in describe_trial(view, own)
    section = search_section(RunFacts(tmp_path / "run.jsonl"))
    assert ["expert", 2, 1, 1.0] in section.parts[-2].rows


def test_a_run_without_proposals_names_no_source():
    opt = optimizer()
    search(opt, 3, lambda t: 1.0)
    assert not tell_sources(Findings(opt.history, opt.objective))


def cost_of(trial):
    return float(abs(trial["x"] - 400))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"strategy": "auto"}, 380),
        ({"strategy": "random_search"}, 10),
        ({"strategy": "auto", "sharing": Sharing(ahead=2)}, 10),
    ],
)
def test_of_one_source_the_best_prediction_comes_first(arguments, expected):
    opt = Optimizer(WIDE, seed=3, **arguments)
    for x in range(0, 500, 45):
        opt.observe({"x": x}, cost_of({"x": x}))
    opt.propose([{"x": x} for x in (10, 380, 200)], source="expert")
    trial = opt.suggest()
    assert (trial["x"], trial.origin) == (expected, "proposed")


def test_the_order_of_experience_is_kept():
    opt = Optimizer(WIDE, seed=3)
    for x in range(0, 500, 45):
        opt.observe({"x": x}, cost_of({"x": x}))
    advised = proposed_event(EXPERIENCE, "", [{"x": 10}, {"x": 380}])
    again = Optimizer(WIDE, seed=3, storage=MemoryJournal([*opt.journal.events, advised]))
    assert again.suggest()["x"] == 10
