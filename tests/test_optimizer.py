"""The optimizer's promises: api.md's rules, each as a test."""

import json
import math
import pickle
import warnings
from dataclasses import dataclass
from functools import partial

import pytest
from idle import Idle

from baco_like import (
    Aim,
    Categorical,
    ConfigError,
    Cover,
    FailureWarning,
    Integer,
    JournalError,
    MaxEvals,
    Optimizer,
    Ordinal,
    Outcome,
    Permutation,
    Real,
    Search,
    Sharing,
    Space,
    SpaceExhausted,
    SpaceWarning,
    Status,
    TrialError,
    WarmStartWarning,
    run,
    tune,
)
from baco_like.evaluators import FunctionEvaluator
from baco_like.exceptions import BacoWarning
from baco_like.journal import MemoryJournal
from baco_like.journal.json_lines import JsonlJournal
from baco_like.records import Proposal
from baco_like.records.leases import Moment
from baco_like.running.confirming import rank_candidates
from baco_like.running.journal_view import JournalView, describe_run
from baco_like.strategies import Exhaustive, RandomSearch


@pytest.fixture
def space():
    return Space(
        {"a": Ordinal([1, 2, 4, 8], log=True), "b": [1, 2, 3]}, constraints=["a * b <= 16"]
    )


@pytest.fixture
def opt(space):
    return Optimizer(space, strategy="random_search", seed=1)


def ids(trials):
    return [t.id for t in trials]


def test_a_trial_is_a_read_only_mapping_of_plain_values(opt):
    trial = opt.suggest()
    assert (lambda **kw: kw)(**trial) == dict(trial.config)
    assert type(trial["a"]) is int
    with pytest.raises(TypeError):
        trial["a"] = 3


def test_values_of_every_kind_are_plain_python():
    space = Space(
        {
            "r": Real(0.0, 1.0),
            "i": Integer(1, 5),
            "f": [True, False],
            "s": Categorical(["x", "y"]),
            "p": Permutation(["i", "j", "k"]),
        }
    )
    trial = Optimizer(space, strategy="random_search").suggest()
    assert [type(trial[k]) for k in "rifsp"] == [float, int, bool, str, tuple]


def test_failures_keep_their_word_and_never_come_back(space):
    word = "my own word"
    opt = Optimizer(space, strategy=Search("random_search", noise="repeat"))
    trial = opt.suggest()
    opt.observe(trial, failed=word, message="log")
    assert (opt.trials[0].failure, opt.trials[0].message) == (word, "log")
    for _ in range(30):
        new = opt.suggest()
        assert new.config != trial.config
        opt.observe(new, 1.0)


@pytest.mark.parametrize("value", [None, math.nan])
def test_what_is_no_number_is_a_failure_with_one_warning(opt, value):
    with pytest.warns(FailureWarning) as caught:
        opt.observe(opt.suggest(), value)
    assert len(caught) == 1
    assert opt.trials[0].status is Status.FAILED
    assert opt.best is None
    opt.observe(opt.suggest(), 1.0)
    assert opt.best_value == 1.0


def test_a_warning_that_is_an_error_loses_nothing(opt, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trial = opt.suggest()
        with pytest.raises(FailureWarning, match="recorded as a failure"):
            opt.observe(trial, math.nan)
        assert (ids(opt.trials), opt.trials[0].failure) == ([trial.id], "runtime")
        with pytest.raises(FailureWarning):
            run(opt, FunctionEvaluator(lambda trial: math.nan), MaxEvals(3))
    assert [t.failure for t in opt.trials] == ["runtime"] * 2


def test_a_timeout_with_a_bound_is_censored(space):
    opt = Optimizer(space, strategy="random_search")
    opt.observe(opt.suggest(), failed="timeout", bound=10.0)
    assert (opt.trials[0].status, opt.trials[0].bound) == (Status.CENSORED, 10.0)
    assert opt.best is None
    opt = Optimizer(space, "maximize", strategy="random_search")
    with pytest.raises(TrialError, match="maximising"):
        opt.observe(opt.suggest(), failed="timeout", bound=10.0)


def test_refusals_change_nothing(opt):
    a, b = opt.suggest(2)
    opt.observe(a, 1.0)
    before = repr(opt.trials), repr(opt.pending)
    for wrong, message in [
        (lambda: opt.observe(a, 2.0), "trial 0 is already observed; pending are 1"),
        (lambda: opt.observe([b, b], [1.0, 2.0]), "twice"),
        (lambda: opt.observe([b], [1.0, 2.0]), "1 trials need a list of 1 values"),
        (lambda: opt.observe([b, a], [1.0, 2.0]), "already observed"),
        (lambda: opt.observe([b, {"a": 1, "b": 1}], "ab"), "2 trials need a list of 2 values"),
        (lambda: opt.observe([b, {"a": 1, "b": 1}], b"ab"), "2 trials need a list of 2 values"),
        (lambda: opt.abandon(a), "already observed"),
        (lambda: opt.complete([Outcome.success(7, (1.0,))]), "trial 7 is unknown"),
        (lambda: opt.complete([Outcome(1, Status.OK, value=math.nan)]), "finite"),
        (lambda: opt.complete([Outcome(1, Status.FAILED, value=1.0)]), "does not fit status"),
        (lambda: opt.observe(3, 1.0), "not 3"),
        (lambda: opt.observe([b, 5], [1.0, 2.0]), "observe takes"),
        (lambda: opt.abandon(dict(b)), "abandon takes"),
        (lambda: opt.observe(b, 1.0, extra=5), "extra must be"),
        (lambda: opt.observe(b, 1.0, failed="compile"), "not both"),
        (lambda: opt.suggest(0), "n must be a whole number"),
        (lambda: opt.observe({"a": 999, "b": 3}, 1.0), "999"),
        (lambda: opt.observe({"a": 8, "b": 3}, 1.0), r"a \* b <= 16"),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
        assert (repr(opt.trials), repr(opt.pending)) == before


def test_a_trial_that_is_not_pending_is_refused_when_no_trial_is_pending(opt):
    trial = opt.suggest()
    opt.observe(trial, 1.0, message=None)
    assert opt.trials[0].message == ""
    with pytest.raises(
        TrialError, match="trial 0 is already observed; this optimizer has no pending"
    ):
        opt.observe(trial, 1.0)


def test_a_trial_of_another_run_is_refused(space):
    one, two = (Optimizer(space, strategy="random_search", seed=s) for s in (1, 2))
    trial, mine = two.suggest(), one.suggest()
    assert trial.id == mine.id
    assert trial.config != mine.config
    with pytest.raises(TrialError, match="another run"):
        one.observe(trial, 1.0)


def test_a_class_instead_of_a_strategy_is_named():
    class Greedy:
        init = ask = tell = print

    with pytest.raises(ValueError, match=r"it is a class; give an object, Greedy\(\.\.\.\)"):
        Optimizer({"a": [1, 2]}, strategy=Greedy)


def test_imported_configurations_may_lie_outside_and_are_not_modelled(opt):
    opt.observe({"a": 999, "b": 3, "more": "x"}, 0.001, imported=True)
    opt.observe({"a": 2, "b": 2}, 1.0, imported=True)
    assert len(opt.trials) == 2
    assert opt.best_value == 1.0
    assert not any(dict(opt.suggest()) == {"a": 2, "b": 2} for _ in range(9))


def test_only_imported_results_of_the_space_may_be_the_best(space, tmp_path):
    opt = Optimizer(space, storage=tmp_path / "run.jsonl")
    best = opt.observe({"a": 2, "b": 2}, [1.0, 1.1, 1.2], imported=True)
    for trial in opt.suggest(6):
        opt.observe(trial, [9.0, 9.1, 9.2])
    opt.observe({"a": 999, "b": 3}, [0.1, 0.1, 0.2], imported=True)
    assert opt.best == opt.recommend() == best
    assert rank_candidates(opt, 1) == [best]
    assert "999" not in opt._repr_html_() + describe_run(JournalView(tmp_path / "run.jsonl"), 9, 99)


def test_enqueued_configurations_come_first(opt):
    opt.enqueue({"a": 8, "b": 2})
    opt.enqueue({"a": 1, "b": 1})
    first, second, third = opt.suggest(3)
    assert (dict(first), dict(second)) == ({"a": 8, "b": 2}, {"a": 1, "b": 1})
    assert (first.origin, third.origin) == ("enqueued", "strategy")
    with pytest.raises(ConfigError, match="already observed or pending"):
        opt.enqueue({"a": 8, "b": 2})
    with pytest.raises(ConfigError, match=r"a \* b <= 16"):
        opt.enqueue({"a": 8, "b": 3})


def test_initial_points_are_the_first_design(space):
    points = [{"a": 8, "b": 2}, {"a": 1, "b": 1}]
    opt = Optimizer(space, strategy=Search(initial=points))
    assert [dict(t) for t in opt.suggest(2)] == points
    assert opt.options.strategy["settings"]["initial"] == 2
    with pytest.raises(ConfigError):
        Optimizer(space, strategy=Search(initial=[{"a": 3, "b": 1}]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"aim": "up"}, "= 'up': expected 'minimize' or 'maximize'"),
        ({"seed": -1}, "seed = -1: expected a whole number, 0 or more"),
        ({"seed": True}, "seed = True: expected a whole number"),
        ({"budget": 0}, "budget = 0: expected a whole number, 1 or more"),
        ({"strategy": "bayesain"}, "did you mean 'bayesian'"),
        ({"strategy": None}, "strategy = None: give a name"),
        ({"strategy": RandomSearch}, "strategy = .*RandomSearch.*: it is a class; give an object"),
    ],
)
def test_wrong_arguments_name_the_way_out(space, arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        Optimizer(space, storage=tmp_path / "run.jsonl", **arguments)
    assert not (tmp_path / "run.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": "some"}, "noise must be one of"),
        ({"strategy": "random_search", "initial": 5}, "no setting 'initial'"),
        ({"settings": {"inital": 5}}, "no setting 'inital'"),
        ({"strategy": RandomSearch(), "initial": 5}, "go with a strategy's name"),
    ],
)
def test_a_wrong_search_names_the_way_out(arguments, message):
    with pytest.raises(ValueError, match=message):
        Search(**arguments)


@pytest.mark.parametrize(
    ("keyword", "way_out"),
    [
        ("limits", r"aim=Aim\(limits=...\)"),
        ("noise", r"strategy=Search\(noise=...\)"),
        ("lease", r"=(Sharing|Workers)\(lease=...\)"),
        ("tasks", r"space=Space\(tasks=...\)"),
    ],
)
def test_the_error_of_a_wrong_keyword_names_the_value_that_has_it(space, keyword, way_out):
    for call in (Optimizer, partial(tune, lambda trial: 1.0, stop=MaxEvals(1))):
        with pytest.raises(TypeError, match=way_out):
            call(space=space, **{keyword: None})
        with pytest.raises(TypeError, match="unexpected keyword argument 'lmits'"):
            call(space=space, lmits=())
    with pytest.raises(TypeError, match=r"measuring=Measuring\(repeats=...\)"):
        tune(lambda trial: 1.0, space, stop=MaxEvals(1), repeats=3)


def test_noise_repeat_may_suggest_an_observed_configuration():
    class Again(Idle):
        def ask(self, problem, history, state, n, rng):
            return [Proposal(problem.space.encode([{"a": 1}])[0])]

    space = Space({"a": [1, 2]})
    opt = Optimizer(space, strategy=Search(Again(), noise="repeat"))
    for _ in range(3):
        opt.observe(opt.suggest(), 1.0)
    assert [t["a"] for t in opt.trials] == [1, 1, 1]
    opt = Optimizer(space, strategy=Again())
    opt.observe(opt.suggest(), 1.0)
    with pytest.raises(RuntimeError, match=r"bug in strategy .*Again: it proposed an observed"):
        opt.suggest()


# The journal -------------------------------------------------------------------------------------------------------


def drive(opt, n, start=0):
    for i in range(start, n):
        trial = opt.suggest()
        if i % 4 == 1:
            opt.observe(trial, failed="compile", message="no")
        else:
            opt.observe(trial, [1.0 + trial["a"] / trial["b"], 1.1])


def test_resume_continues_as_if_nothing_had_happened(space, tmp_path):
    whole = Optimizer(space, seed=3, strategy=Search(initial=3), storage=tmp_path / "whole.jsonl")
    drive(whole, 8)
    parts = Optimizer(space, seed=3, strategy=Search(initial=3), storage=tmp_path / "parts.jsonl")
    for stop in range(1, 9):
        drive(parts, stop, stop - 1)
        parts = Optimizer.load(tmp_path / "parts.jsonl")
    assert [dict(t) for t in parts.trials] == [dict(t) for t in whole.trials]
    assert [t.tag for t in parts.trials] == [t.tag for t in whole.trials]
    assert [t.repeats for t in parts.trials] == [t.repeats for t in whole.trials]


def test_another_space_is_refused_with_the_difference(space, tmp_path):
    path = tmp_path / "j"
    drive(Optimizer(space, strategy="random_search", storage=path), 2)
    before = path.read_bytes()
    other = Space({"a": Ordinal([1, 2, 4], log=True), "c": [1, 2]}, constraints=["a * c <= 16"])
    with pytest.raises(JournalError) as caught:
        Optimizer(other, strategy="random_search", storage=path)
    for part in ("parameter 'b' was removed", "parameter 'c' was added", "parameter 'a' was"):
        assert part in str(caught.value)
    with pytest.raises(JournalError, match="parameter"):
        Optimizer.load(path, space=other)
    assert path.read_bytes() == before


TASKS = Space({"a": [1, 2]}, tasks=[{"n": 1}, {"n": 2}])
TWO = {"time": "minimize", "size": "minimize"}


@pytest.mark.parametrize(
    ("first", "other", "message"),
    [
        ({"seed": 0}, {"seed": 1}, "seed was 0, now 1"),
        ({"strategy": "random_search"}, {"strategy": "bayesian"}, "strategy was"),
        ({"aim": "minimize"}, {"aim": "maximize"}, "direction was"),
        ({"aim": {"time": "minimize"}}, {"aim": {"size": "minimize"}}, "objective was"),
        ({"aim": TWO}, {"aim": {**TWO, "size": "maximize"}}, "objectives was"),
        ({"aim": TWO}, {"aim": {"time": "minimize"}}, "objectives was"),
        (
            {"aim": Aim(limits=["size <= 3"])},
            {"aim": Aim(limits=["size <= 4"])},
            r"limits was \['size <= 3'\], now \['size <= 4'\]",
        ),
        ({"space": TASKS, "aim": Aim(goal=Cover(2))}, {"space": TASKS}, "goal was"),
        (
            {"context": {"unit": "ms", "shape": (1, 2)}},
            {"context": {"unit": "s", "shape": (1, 3)}},
            r"unit was 'ms', now 's'; shape was \[1, 2\], now \[1, 3\]",
        ),
        ({}, {"strategy": Search(initial=[{"a": 1, "b": 1}])}, "the first points were"),
    ],
)
def test_another_option_is_refused_with_the_difference(space, tmp_path, first, other, message):
    path = tmp_path / "j"
    for _ in range(2):  # the same again is accepted
        Optimizer(**{"space": space, "storage": path, **first})
    before = path.read_bytes()
    with pytest.raises(JournalError, match=message):
        Optimizer(**{"space": space, "storage": path, **other})
    assert path.read_bytes() == before


def test_the_budget_is_fixed_on_resume(space, tmp_path):
    Optimizer(space, budget=20, storage=tmp_path / "j")
    assert Optimizer(space, budget=50, storage=tmp_path / "j").options.budget == 20


def test_callables_must_be_given_again(tmp_path):
    space = Space({"a": [1, 2, 3]}, constraints=[lambda a: a != 2])
    drive_one = Optimizer(space, strategy="random_search", storage=tmp_path / "j")
    drive_one.observe(drive_one.suggest(), 1.0)
    with pytest.raises(ValueError, match="callable"):
        Optimizer.load(tmp_path / "j")
    assert len(Optimizer.load(tmp_path / "j", space=space).trials) == 1


def test_a_strategy_object_must_be_given_again_to_continue(space, tmp_path):
    Optimizer(space, strategy=RandomSearch(), storage=tmp_path / "j")
    with pytest.raises(JournalError, match="was made with a strategy object"):
        Optimizer.load(tmp_path / "j").suggest()
    Optimizer.load(tmp_path / "j", strategy=RandomSearch()).suggest()


def test_a_named_strategy_may_be_given_as_the_same_object(space, tmp_path):
    Optimizer(space, strategy="random_search", storage=tmp_path / "j").suggest()
    Optimizer.load(tmp_path / "j", strategy=RandomSearch()).suggest()
    with pytest.raises(JournalError, match=r"strategy was .*RandomSearch.*, now .*Exhaustive"):
        Optimizer.load(tmp_path / "j", strategy=Exhaustive())


def test_two_optimizers_share_a_journal(space, tmp_path):
    one = Optimizer(space, strategy="random_search", storage=tmp_path / "j")
    two = Optimizer(space, strategy="random_search", storage=tmp_path / "j")
    a, b = one.suggest(), two.suggest()
    assert a.id != b.id
    assert a.config != b.config
    two.observe(a, 1.0)
    one.observe(b, 2.0)
    with pytest.raises(TrialError, match="already observed"):
        one.observe(a, 3.0)
    assert ids(one.trials) == [0, 1]
    two.suggest()
    assert ids(two.trials) == [0, 1]


def test_load_without_a_journal(tmp_path):
    with pytest.raises(JournalError, match="does not exist"):
        Optimizer.load(tmp_path / "none.jsonl")
    (tmp_path / "other.jsonl").write_text('{"hello": 1}\n')
    with pytest.raises(JournalError, match="event 0"):
        Optimizer.load(tmp_path / "other.jsonl")


def test_parameter_values_are_exact_through_the_journal(tmp_path):
    values = [1e-12, 0.5, 1e20]
    space = Space(
        {"x": Ordinal(values), "n": [2**53 + 1, 2**53 + 2], "i": Integer(2**53 + 1, 2**53 + 3)}
    )
    opt = Optimizer(space, strategy="exhaustive", storage=tmp_path / "j")
    for _ in range(18):
        opt.observe(opt.suggest(), 1.0)
    again = Optimizer.load(tmp_path / "j")
    assert {(t["x"], t["n"], t["i"]) for t in again.trials} == {
        (x, n, i)
        for x in values
        for n in (2**53 + 1, 2**53 + 2)
        for i in range(2**53 + 1, 2**53 + 4)
    }


# The model ---------------------------------------------------------------------------------------------------------


def test_predict_and_why_and_recommend(space):
    opt = Optimizer(space, seed=2, strategy=Search(initial=4, noise="repeat"))
    with pytest.raises(TrialError, match="successful"):
        opt.predict([{"a": 1, "b": 1}])
    for _ in range(8):
        trial = opt.suggest()
        opt.observe(trial, 1.0 + trial["a"] * trial["b"])
    mean, std, feasible = opt.predict([{"a": 1, "b": 1}, {"a": 8, "b": 2}])
    assert mean.shape == std.shape == feasible.shape == (2,)
    assert mean[0] < mean[1]
    assert (std >= 0).all()
    assert opt.recommend() is not None
    note = opt.why(opt.trials[-1])
    assert note["phase"] == "model"
    assert {"origin", "mean", "std", "p_feasible", "p_gain"} <= set(note)
    with pytest.raises(TrialError, match="no model"):
        Optimizer(space, strategy="random_search").predict([{"a": 1, "b": 1}])


# Several threads, writers and interruptions ------------------------------------------------------------------------


class Telling(Idle):
    """Random search whose tell raises an error if ``broken`` is set."""

    broken = False

    def tell(self, problem, state, observation, rng):
        if self.broken:
            raise RuntimeError("tell failed")
        return (state or 0) + 1


def test_a_strategy_that_fails_leaves_journal_and_memory_as_they_were(space, tmp_path):
    strategy = Telling()
    opt = Optimizer(space, strategy=strategy, storage=tmp_path / "j")
    trial = opt.suggest()
    before = (tmp_path / "j").read_bytes()
    strategy.broken = True
    with pytest.raises(RuntimeError, match="tell failed"):
        opt.observe(trial, 1.0)
    assert (tmp_path / "j").read_bytes() == before
    strategy.broken = False
    opt.observe(trial, 1.0)
    assert ids(Optimizer.load(tmp_path / "j", strategy=Telling()).trials) == [0]


@dataclass(frozen=True)
class Interrupted:
    """A journal whose append is interrupted just after it has written."""

    inner: object
    due: list

    def read(self, after):
        return self.inner.read(after)

    def append(self, event, after):
        mark = self.inner.append(event, after)
        if self.due:
            raise self.due.pop()
        return mark


@pytest.mark.parametrize("memory", [True, False])
def test_an_interruption_after_the_write_is_made_good_by_the_next_call(space, tmp_path, memory):
    due = []
    journal = Interrupted(MemoryJournal() if memory else JsonlJournal(tmp_path / "j"), due)
    opt = Optimizer(space, strategy="random_search", storage=journal)
    due.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        opt.suggest()
    second = opt.suggest()
    assert second.id == 1
    assert ids(opt.pending) == [0, 1]
    due.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        opt.observe(second, 2.0)
    with pytest.raises(TrialError, match="already observed"):
        opt.observe(second, 2.0)
    again = Optimizer(space, strategy="random_search", storage=journal)
    assert (ids(again.pending), ids(again.trials)) == ([0], [1])


def test_callbacks_that_call_back_or_fail_lose_nothing(space, tmp_path):
    heard = []

    def callback(opt, trial):
        heard.append(trial.id)
        if trial.id == 0:
            opt.observe(opt.suggest(), 5.0)  # trial 3
        if trial.id == 1:
            raise ZeroDivisionError

    opt = Optimizer(space, strategy="random_search", callbacks=[callback], storage=tmp_path / "j")
    trials = opt.suggest(3)
    with pytest.raises(ZeroDivisionError):
        opt.observe(trials, [1.0, 2.0, 3.0])
    assert ids(opt.trials) == [0, 1, 2, 3]
    opt.observe(opt.suggest(), 4.0)
    assert heard == [0, 1, 2, 3, 4]
    assert ids(Optimizer.load(tmp_path / "j").trials) == [0, 1, 2, 3, 4]


def test_every_callback_hears_of_a_trial_also_after_one_that_fails(space):
    heard = []

    def fails(opt, trial):
        heard.append(("fails", trial.id))
        raise ZeroDivisionError

    def listens(opt, trial):
        heard.append(("listens", trial.id))

    opt = Optimizer(space, strategy="random_search", callbacks=[listens, fails, listens])
    with pytest.raises(ZeroDivisionError):
        opt.observe(opt.suggest(), 1.0)
    assert heard == [("listens", 0), ("fails", 0), ("listens", 0)]


def test_anothers_events_survive_a_callback_that_fails(space, tmp_path):
    def fails(opt, trial):
        raise ZeroDivisionError

    one = Optimizer(space, strategy="random_search", storage=tmp_path / "j")
    two = Optimizer(space, strategy="random_search", storage=tmp_path / "j", callbacks=[fails])
    one.observe(one.suggest(3), [1.0, 2.0, 3.0])
    with pytest.raises(ZeroDivisionError):
        two.suggest()
    assert ids(two.trials) == [0, 1, 2]
    assert ids(two.pending) == [3]


def test_the_default_configuration_comes_first():
    space = Space({"a": Ordinal([1, 2, 4], default=4), "b": Integer(1, 50, default=7), "c": [3]})
    assert dict(Optimizer(space, seed=1).suggest()) == {"a": 4, "b": 7, "c": 3}
    points = [{"a": 1, "b": 1, "c": 3}]
    assert dict(Optimizer(space, seed=1, strategy=Search(initial=points)).suggest()) == points[0]
    infeasible = Space({"a": Ordinal([1, 2, 4], default=4)}, constraints=["a < 4"])
    with pytest.warns(SpaceWarning, match="a < 4 violated: 4; change a default"):
        assert Optimizer(infeasible).suggest()["a"] < 4
    assert Optimizer(infeasible, strategy=Search(initial=[{"a": 1}])).suggest()["a"] == 1


@pytest.mark.parametrize(
    "repeats",
    [[1e300, -1e300], [1e200, 2e200, 3e200], [1.7e308] * 2, [5e-324, 1e-300], [0.1]],
)
def test_repeats_of_any_size_are_kept(space, tmp_path, repeats):
    opt = Optimizer(space, strategy="random_search", storage=tmp_path / "j")
    opt.observe(opt.suggest(), repeats)
    (seen,) = Optimizer.load(tmp_path / "j").trials
    assert seen.repeats == tuple(repeats)
    assert min(repeats) <= seen.value <= max(repeats)
    assert seen.sem is None or math.isfinite(seen.sem)


def test_tuples_among_the_settings_are_the_lists_that_a_journal_makes_of_them(space, tmp_path):
    search = Search("portfolio", {"arms": ("random_search", "tabu_search")})
    for _ in range(2):
        Optimizer(space, storage=tmp_path / "j", strategy=search)


def test_a_table_without_rows_has_the_columns():
    opt = Optimizer(Space({"a": ["x", "y"], "n": [1, 2]}, when={"n": "a == 'x'"}))
    empty = opt.to_dataframe()
    opt.observe(opt.suggest(), 1.0)
    assert len(empty) == 0
    assert list(empty.columns) == [c for c in opt.to_dataframe() if not c.startswith("seconds_")]


def test_columns_of_parameters_are_never_overwritten():
    space = Space({"value": [1, 2, 3], "id": [10, 20], "status": ["x", "y"]})
    opt = Optimizer(space, strategy="random_search")
    trial = opt.suggest()
    opt.observe(trial, 0.5)
    (row,) = opt.to_dataframe().to_dict("records")
    assert {name: row[name] for name in space.names} == dict(trial)
    assert (row["trial_value"], row["trial_id"], row["trial_status"]) == (0.5, 0, "ok")


def test_columns_are_never_overwritten_by_metrics(tmp_path):
    opt = Optimizer({"x": [1, 2, 3]}, {"sem": "minimize"}, strategy="random_search")
    metrics = {"sem": 5.0, "x": 6.0, "id": 7.0, "status": 8.0}
    opt.complete([Outcome.success(opt.suggest().id, (0.5,), metrics=metrics)])
    (row,) = opt.to_dataframe().to_dict("records")
    assert (row["sem"], row["x"], row["id"], row["status"]) == (0.5, opt.trials[0]["x"], 0, "ok")
    assert (row["trial_x"], row["trial_id"], row["trial_status"]) == (6.0, 7.0, 8.0)
    assert row["trial_trial_sem"] == 5.0
    opt.export("t4", tmp_path / "t4.json")
    (result,) = json.loads((tmp_path / "t4.json").read_text())["results"]
    assert [m["value"] for m in result["measurements"] if m["name"] == "sem"] == [0.5]
    again = Optimizer({"x": [1, 2, 3]}, {"sem": "minimize"}, warm_start=tmp_path / "t4.json")
    assert again.trials[0].metrics == metrics


def test_a_trial_travels_to_other_processes(opt):
    trial = pickle.loads(pickle.dumps(opt.suggest()))
    assert dict(trial) == dict(opt.pending[0])
    with pytest.raises(TypeError):
        trial.config["a"] = 1


# Leases ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("baco_like.optimizer.optimizer.read_clocks", lambda: Moment(now[0]))
    return now


def leased(space, path, seconds=60, **more):
    return Optimizer(
        space, strategy="random_search", storage=path, sharing=Sharing(lease=seconds), **more
    )


def test_without_a_lease_nothing_is_offered_again(space, tmp_path, clock):
    leased(space, tmp_path / "j").suggest()
    eternal = leased(space, tmp_path / "j", None)
    clock[0] += 1e9
    assert (eternal.suggest().id, eternal.suggest().until) == (1, None)
    assert leased(space, tmp_path / "j").suggest(2)[0].id == 0
    assert ids(leased(space, tmp_path / "j", 1).pending) == [0, 1, 2, 3]


def test_leases_come_back_with_the_journal_and_change_no_suggestion(space, tmp_path, clock):
    undisturbed = leased(space, tmp_path / "whole")
    opt = leased(space, tmp_path / "j")
    first = opt.suggest()
    assert dict(first) == dict(undisturbed.suggest())
    opt = Optimizer.load(tmp_path / "j", sharing=Sharing(lease=5))
    assert opt.pending[0].until == first.until
    clock[0] += 61
    again = opt.suggest()
    assert (again.id, dict(again)) == (first.id, dict(first))
    for one in (undisturbed, Optimizer.load(tmp_path / "j", sharing=Sharing(lease=5))):
        one.observe(first, 1.0)
    for _ in range(3):
        left, right = (
            undisturbed.suggest(),
            Optimizer.load(tmp_path / "j", sharing=Sharing(lease=5)).suggest(),
        )
        assert (left.id, dict(left)) == (right.id, dict(right))


@pytest.mark.parametrize("lease", [0, -1, math.nan, "60", True])
def test_a_wrong_lease_is_told(space, tmp_path, lease):
    with pytest.raises(ValueError, match="lease = "):
        leased(space, tmp_path / "j", lease)
    assert not (tmp_path / "j").exists()


def test_a_run_does_not_start_twice_what_outlives_its_lease(space, tmp_path, clock):
    started, running = [], []

    class Slow:
        capacity = 2

        def submit(self, trial):
            started.append(trial.id)
            running.append(trial.id)

        def wait(self):
            clock[0] += 61
            return [Outcome.success(running.pop(), (1.0,))]

        def close(self):
            pass

    run(leased(space, tmp_path / "j"), Slow(), MaxEvals(4))
    assert sorted(started) == [0, 1, 2, 3]


# Another space -----------------------------------------------------------------------------------------------------


def test_results_count_in_a_changed_space(tmp_path):
    old = Space({"a": Ordinal([1, 2, 4, 8]), "b": Categorical(["x", "y"], default="x"), "c": [7]})
    new = Space(
        {"a": Ordinal([1, 2, 4, 16]), "e": Integer(1, 9, default=5)}, constraints=["a * e < 15"]
    )
    opt = Optimizer(old, strategy="random_search", storage=tmp_path / "old", seed=4, budget=50)
    opt.observe({"a": 1, "b": "x", "c": 7}, [3.0, 4.0, 5.0], extra={"host": "h"})
    opt.observe({"a": 8, "b": "x", "c": 7}, 1.0)  # a value that is no more
    opt.observe({"a": 2, "b": "y", "c": 7}, 2.0)  # what "y" did is not known of the new space
    opt.observe({"a": 2, "b": "x", "c": 7}, failed="compile")
    opt.observe({"a": 4, "b": "x", "c": 7}, 0.5)  # against the new constraint
    before = (tmp_path / "old").read_bytes()
    with pytest.raises(JournalError, match=r"'b' was removed.*'e' was added.*warm_start="):
        Optimizer(new, strategy="random_search", storage=tmp_path / "old", seed=4)
    with pytest.warns(WarmStartWarning, match="3 of 5 results are left out"):
        again = Optimizer(
            new, strategy="random_search", storage=tmp_path / "new", warm_start=tmp_path / "old"
        )
    assert (tmp_path / "old").read_bytes() == before
    assert again.warm_start[0].left_out == {
        "they have another value of 'a' than the space": 1,
        "'b', which the space lacks, was not at its default": 1,
        "a known constraint excludes them": 1,
    }
    assert [(dict(t), t.value) for t in again.trials] == [
        ({"a": 1, "e": 5}, 4.0),
        ({"a": 2, "e": 5}, None),
    ]
    assert again.trials[0].repeats == (3.0, 4.0, 5.0)
    assert again.trials[0].extra["host"] == "h"
    assert again.best.id == 0
    assert new.contains(again.suggest())
    resumed = Optimizer.load(tmp_path / "new")
    assert [dict(t) for t in resumed.trials] == [dict(t) for t in again.trials]


def test_what_a_known_constraint_excludes_is_predicted_not_to_run():
    space = Space({"a": [1, 2, 4, 8], "b": [1, 2, 4, 8]}, constraints=["a * b <= 16"])
    opt = Optimizer(space, strategy="bayesian", seed=1)
    for trial in opt.suggest(6):
        opt.observe(trial, float(trial["a"] * trial["b"]))
    _, _, feasible = opt.predict([{"a": 8, "b": 8}, {"a": 1, "b": 1}])
    assert feasible.tolist() == [0.0, 1.0]
    with pytest.raises(ConfigError, match=r"write predict\(\[config\]\)"):
        opt.predict({"a": 1, "b": 1})
    with pytest.raises(TrialError, match="why takes a trial"):
        opt.why({"a": 1, "b": 1})


def test_what_a_file_cannot_hold_is_told(tmp_path):
    opt = Optimizer({"a": [1, 2]}, strategy="exhaustive")
    opt.observe(opt.suggest(2), [1.0, 2.0])
    opt.observe({"a": 4}, 3.0, imported=True)
    with pytest.warns(BacoWarning, match="1 of 3 results are not in run.csv"):
        assert opt.export("baco", tmp_path / "run.csv") == 2
    assert opt.export("csv", tmp_path / "all.csv") == 3
    opt.observe({"a": 1, "b": 4}, 3.0, imported=True)
    with pytest.warns(BacoWarning, match="left out: 1"):
        assert opt.export("t4", tmp_path / "run.json") == 3


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_lucky_measurement_is_not_recommended_against_many_good_ones(direction):
    sign = 1.0 if direction == "minimize" else -1.0
    opt = Optimizer(
        {"a": list(range(9))}, direction, strategy=Search("random_search", noise="repeat"), seed=1
    )
    assert opt.recommend() is None
    for a, value in enumerate((20.0, 21.0, 19.0, 22.0)):
        opt.observe({"a": a}, sign * value)
    assert opt.recommend() is opt.best  # without repeats the noise is unknown
    for value in (15.5, 19.0, 15.2, 17.0, 15.3, 15.4, 16.1, 15.6):
        opt.observe({"a": 7}, sign * value)
    for value in (21.0, 25.0, 29.0):
        opt.observe({"a": 6}, sign * value)
    opt.observe({"a": 8}, sign * 15.1)
    assert opt.best_config == {"a": 8}
    assert opt.recommend().config == {"a": 7}
    assert opt.recommend().value == sign * 16.1  # nearest to the mean of 7


def test_repeats_that_agree_leave_the_best_the_best():
    opt = Optimizer({"a": [1, 2, 4]}, strategy=Search("random_search", noise="repeat"))
    for a in (4, 2, 1, 1, 2, 4):
        opt.observe({"a": a}, float(a))
    assert opt.recommend().config == {"a": 1}


def test_nothing_but_trials_in_flight_is_no_end_where_repeats_are_wanted():
    opt = Optimizer({"a": [1, 2, 3]}, strategy=Search("random_search", noise="repeat"))
    trials = opt.suggest(4)
    assert len(trials) == 3
    with pytest.raises(SpaceExhausted, match=r"failed or pending.*observe a pending trial first"):
        opt.suggest()
    opt.observe(trials[0], 1.0)
    assert opt.suggest()["a"] == trials[0]["a"]


@pytest.mark.parametrize("storage", [12, {"path": "x"}, [1]])
def test_what_is_no_journal_is_refused(storage):
    with pytest.raises(
        ValueError, match=r"storage = .*: give a path, the URL of a run, a journal, or None"
    ):
        Optimizer({"a": [1, 2]}, storage=storage)
