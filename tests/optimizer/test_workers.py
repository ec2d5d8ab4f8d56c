"""Several optimizers share one journal without a coordinator."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest
from idle import Idle

from baco_like import (
    ConfigError,
    JournalError,
    MaxEvals,
    Optimizer,
    Real,
    Sharing,
    Space,
    Workers,
    tune,
)
from baco_like.evaluators import FunctionEvaluator
from baco_like.journal.lock import sole_runner
from baco_like.records.leases import read_clocks
from baco_like.running import run
from baco_like.spaces.design import uniform

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SPACE = Space({"a": [1, 2, 4, 8], "b": list(range(8)), "c": Real(0, 1)})
GRID = Space({"x": list(range(12)), "y": list(range(5))})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


def member(path, name, space=SPACE, threads=None, lease=None, **options):
    sharing = Sharing(worker=name, threads=threads, lease=lease)
    return Optimizer(space, seed=1, storage=path, sharing=sharing, **options)


def test_each_member_has_its_own_random_stream(tmp_path):
    def draws(name, folder):
        folder.mkdir(exist_ok=True)
        optimizer = member(folder / f"{name}.jsonl", name, strategy="random_search")
        return [dict(trial) for trial in optimizer.suggest(5)]

    assert draws("n1", tmp_path / "1") == draws("n1", tmp_path / "2")
    assert draws("n1", tmp_path / "1") != draws("n2", tmp_path / "1")


def test_members_see_results_and_pending_trials_of_each_other(path):
    one, two = member(path, "n1"), member(path, "n2")
    mine, theirs = one.suggest(), two.suggest()
    assert dict(mine) != dict(theirs)
    assert [t.worker for t in two.pending] == ["n1", "n2"]
    assert [t.id for t in two.own_pending] == [theirs.id]
    one.observe(mine, 1.0)
    two.refresh()
    assert [t.id for t in two.trials] == [mine.id]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["worker"] for row in rows if row["event"] == "suggested"] == ["n1", "n2"]


@dataclass(frozen=True)
class Meeting(Idle):
    """Two calls of `ask` meet, so that both propose from the same state."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2), repr=False)

    def ask(self, problem, history, state, n, rng):
        if not history.pending:
            self.barrier.wait(30)
        return []  # the optimizer fills up with its own draws


def test_members_compute_proposals_at_the_same_time(path):
    strategy = Meeting()
    # threads=0: the limit of threads holds for the whole process, so calls in one process would take turns.
    members = [member(path, name, strategy=strategy, threads=0) for name in ("n1", "n2")]
    with ThreadPoolExecutor(2) as pool:
        trials = list(pool.map(lambda optimizer: optimizer.suggest(), members))
    assert len({t.id for t in trials}) == 2
    assert len({json.dumps(dict(t)) for t in trials}) == 2


def test_a_proposal_that_another_member_has_made_is_replaced(path, monkeypatch):
    one, two = member(path, "n1", GRID), member(path, "n2", GRID)
    ask = "baco_like.optimizer.ahead.ask_strategy"
    original = __import__("baco_like.optimizer.suggesting", fromlist=["x"]).ask_strategy
    taken = []

    def propose(state, n, stream):
        trials = original(state, n, stream)
        if len(taken) < 5:  # the other one is always faster
            taken.append(dict(trials[0]))
            one.claim(taken[-1])
        return trials

    monkeypatch.setattr(ask, propose)
    trial = two.suggest()
    assert dict(trial) not in taken
    assert (len(taken), trial.tag) == (4, {"phase": "fallback"})


def test_members_share_a_budget_and_no_configuration_is_evaluated_twice(path):
    def work(name):
        optimizer = member(path, name, GRID, budget=40, strategy="random_search")
        return run(optimizer, FunctionEvaluator(lambda t: float(t["x"])), MaxEvals(40))

    with ThreadPoolExecutor(4) as pool:
        reasons = list(pool.map(work, ["n1", "n2", "n3", "n4"]))
    trials = Optimizer.load(path).trials
    assert set(reasons) <= {"40 evaluations", "nothing more may be started"}
    assert 40 <= len(trials) <= 43  # each may have started one more
    assert len({json.dumps(dict(t)) for t in trials}) == len(trials)


def test_a_run_without_a_name_waits_for_the_members(path):
    with sole_runner(path, is_shared=True):
        with sole_runner(path, is_shared=True):
            pass
        with pytest.raises(JournalError, match="in use"), sole_runner(path):
            pass
    with (
        sole_runner(path),
        pytest.raises(JournalError, match="in use"),
        sole_runner(path, is_shared=True),
    ):
        pass


def test_a_killed_member_loses_nothing(path):
    options = {"strategy": "random_search", "space": GRID}
    other = member(path, "n2", lease=0.01, **options)
    child = os.fork()
    if not child:
        optimizer = member(path, "n1", lease=0.01, **options)
        optimizer.observe(optimizer.suggest(), 2.0)
        optimizer.suggest()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    other.refresh()
    assert [t.value for t in other.trials] == [2.0]
    (lost,) = other.pending
    while not other.history.find_expired(read_clocks()):
        threading.Event().wait(0.002)
    again = other.suggest()
    assert (again.id, again.worker, lost.worker) == (lost.id, "n2", "n1")
    other.observe(again, 1.0)
    # A member that comes back under its name goes on with its own trials.
    assert member(path, "n1", **options).own_pending == []


def test_a_member_that_comes_back_evaluates_its_own_pending_trials_first(path):
    ours, theirs = member(path, "n1", GRID).suggest(), member(path, "n2", GRID).suggest()
    evaluated = []

    def function(trial):
        evaluated.append(trial.id)
        return 1.0

    settings = {"workers": Workers(worker="n1"), "seed": 1, "storage": path, "progress": False}
    tune(function, GRID, stop=MaxEvals(3), **settings)
    assert evaluated[0] == ours.id
    assert theirs.id not in evaluated


def test_the_default_still_uses_the_stream_of_the_seed(path):
    trial = Optimizer(GRID, seed=4, strategy="random_search").suggest()
    state = Optimizer(GRID, seed=4, strategy="random_search").state
    row = uniform(GRID, 1, state.generator(1, 0), lambda codes: codes[:, 0] < 0)
    assert GRID.decode(row) == [dict(trial)]


# ---- `Optimizer.claim`: a configuration that was chosen elsewhere becomes a pending trial ----


CONSTRAINED = Space({"a": [1, 2, 4, 8], "b": [1, 2, 3, 4]}, constraints=["a * b <= 16"])
CONFIG = {"a": 2, "b": 3}


@pytest.fixture
def opt(tmp_path):
    return Optimizer(CONSTRAINED, strategy="random_search", storage=tmp_path / "run.jsonl")


def test_a_claimed_configuration_is_pending(opt):
    trial = opt.claim(CONFIG)
    assert (dict(trial), trial.origin, [t.id for t in opt.pending]) == (CONFIG, "enqueued", [0])
    opt.observe(trial, 1.0)
    assert opt.best_config == CONFIG


def test_a_pending_configuration_is_returned(opt):
    (trial, _) = opt.suggest(2)
    assert opt.claim(dict(trial)).id == trial.id
    assert len(opt.pending) == 2


def test_claiming_does_not_wait_for_the_queue(opt):
    opt.enqueue({"a": 8, "b": 1})
    opt.enqueue(CONFIG)
    claimed = opt.claim(CONFIG)
    assert dict(claimed) == CONFIG
    following = opt.suggest(2)
    assert dict(following[0]) == {"a": 8, "b": 1}
    assert CONFIG not in [dict(trial) for trial in following]


def test_claiming_the_next_of_the_queue_takes_it_from_there(opt):
    opt.enqueue(CONFIG)
    opt.claim(CONFIG)
    assert not opt.history.queue


@pytest.mark.parametrize(
    ("config", "message"),
    [({"a": 8, "b": 4}, "violated"), ({"a": 3, "b": 1}, "3 is not"), (CONFIG, "already observed")],
)
def test_what_cannot_be_evaluated_is_refused(opt, config, message):
    opt.observe(CONFIG, 1.0)
    with pytest.raises(ConfigError, match=message):
        opt.claim(config)
    assert not opt.pending


def test_a_claim_survives_in_the_journal(opt):
    opt.claim(CONFIG)
    again = Optimizer.load(opt.journal.path)
    assert [dict(trial) for trial in again.pending] == [CONFIG]
