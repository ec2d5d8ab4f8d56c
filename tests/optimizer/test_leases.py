"""Leases when the clock is set, between machines, and after a reboot."""

import fcntl
import itertools
import json
import os
import signal
import sys
import threading
import time
import warnings
from functools import partial

import pytest

from baco_like import (
    MaxEvals,
    Optimizer,
    Ordinal,
    Outcome,
    Sharing,
    Space,
    Trial,
    TrialError,
    Workers,
    tune,
)
from baco_like.exceptions import BacoWarning, JournalError
from baco_like.journal import MemoryJournal
from baco_like.journal.lock import sole_runner
from baco_like.journal.repairing import repair
from baco_like.records import leases
from baco_like.records.leases import Lease, Moment, read_clocks

SPACE = Space({"x": [1, 2, 3, 4]})
DAY = 86400.0


class Clocks:
    """The clocks of a machine; the wall clock can be set."""

    def __init__(self):
        self.wall, self.boot, self.uptime = 1e9, "first", 500.0

    def __call__(self):
        return Moment(self.wall, self.boot, self.uptime)

    def advance(self, seconds):
        self.wall, self.uptime = self.wall + seconds, self.uptime + seconds


@pytest.fixture
def clocks(monkeypatch):
    made = Clocks()
    monkeypatch.setattr("baco_like.optimizer.optimizer.read_clocks", made)
    return made


def opened(path, lease=60.0):
    return Optimizer(SPACE, strategy="random_search", storage=path, sharing=Sharing(lease=lease))


@pytest.mark.parametrize("set_by", [-DAY, DAY])
def test_a_clock_that_is_set_changes_no_lease_of_the_machine(tmp_path, clocks, set_by):
    trial = opened(tmp_path / "j").suggest()
    other = opened(tmp_path / "j")
    clocks.advance(59)
    clocks.wall += set_by
    with pytest.warns(BacoWarning, match="set (forward|back) by 86400 s during a lease"):
        assert other.suggest().id == 1  # the worker of trial 0 is at work
    clocks.advance(1)
    assert other.suggest().id == trial.id


def test_a_claimed_trial_has_such_a_lease_too(tmp_path, clocks):
    trial = opened(tmp_path / "j").claim({"x": 2})
    assert trial.lease == Lease(60.0, clocks())
    assert Optimizer.load(tmp_path / "j").pending[0].lease == trial.lease
    clocks.advance(60)
    again = opened(tmp_path / "j").suggest()
    assert (again.id, again.lease) == (trial.id, Lease(60.0, clocks()))


@pytest.mark.parametrize(
    ("boot", "uptime"),
    [("second", 1.0), (None, None), ("first", 200.0)],
    ids=["another boot", "no boot id", "a snapshot with the same boot id"],
)
def test_another_machine_or_boot_compares_wall_clocks(tmp_path, clocks, boot, uptime):
    opened(tmp_path / "j").suggest()
    clocks.boot, clocks.uptime = boot, uptime
    clocks.wall += 59
    assert opened(tmp_path / "j").suggest().id == 1
    clocks.wall += 1
    assert opened(tmp_path / "j").suggest().id == 0


def test_a_lease_that_begins_in_the_future_is_reported(tmp_path, clocks):
    opened(tmp_path / "j").suggest()
    clocks.boot, clocks.wall = "another machine", clocks.wall - 30
    other = opened(tmp_path / "j")
    with pytest.warns(BacoWarning, match="began 30 s in the future.*NTP"):
        other.suggest()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.suggest()  # once is enough
        opened(tmp_path / "j", None).suggest()  # not concerned


def test_small_corrections_are_not_reported(tmp_path, clocks):
    optimizer = opened(tmp_path / "j")
    optimizer.suggest()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clocks.wall += 1.5
        optimizer.suggest()
        clocks.wall -= 1.5
        optimizer.suggest()


@pytest.mark.parametrize(
    "lease",
    [
        7,
        {},
        {"seconds": -1.0},
        {"seconds": True},
        {"seconds": 1.0, "boot": "b"},
        {"seconds": 1.0, "uptime": 1.0},
        {"seconds": 1.0, "boot": 1, "uptime": 1.0},
        {"seconds": 1.0, "boot": "b", "uptime": "1"},
    ],
)
def test_a_forged_lease_is_refused(lease):
    journal = MemoryJournal()
    opened(journal).suggest()
    forged = MemoryJournal([journal.events[0], {**journal.events[1], "lease": lease}])
    with pytest.raises(JournalError, match=r"event 1 .*lease"):
        opened(forged)


def test_the_event_has_both_clocks(tmp_path, clocks):
    opened(tmp_path / "j").suggest()
    event = json.loads((tmp_path / "j").read_text().splitlines()[1])
    assert event["until"] == clocks.wall + 60
    assert event["lease"] == {"seconds": 60.0, "boot": "first", "uptime": 500.0}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no boot id")
def test_the_clocks_of_linux():
    first, second = read_clocks(), read_clocks()
    assert first.boot == second.boot
    assert 0 < first.uptime <= second.uptime


def test_without_a_boot_id_there_is_the_wall_clock(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "_BOOT_ID", tmp_path / "missing")
    moment = read_clocks()
    assert (moment.boot, moment.uptime) == (None, None)
    assert moment.wall > 0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no boot id")
def test_the_boot_is_that_of_the_machine_now_also_in_a_restored_container(tmp_path, monkeypatch):
    before = read_clocks()
    (tmp_path / "boot_id").write_text("other\n")
    (tmp_path / "offsets").write_text(
        "monotonic           -7         0\nboottime           -1000 500000000\n"
    )
    monkeypatch.setattr(leases, "_BOOT_ID", tmp_path / "boot_id")
    monkeypatch.setattr(leases, "_OFFSETS", tmp_path / "offsets")
    after = read_clocks()
    assert after.boot == "other"
    assert before.uptime + 999 < after.uptime < before.uptime + 1099


# Signs of life and late results ----------------------------------------------------------------------------------


def test_a_sign_of_life_extends_a_lease(tmp_path, clocks):
    worker = opened(tmp_path / "j")
    trial = worker.suggest()
    clocks.advance(50)
    (renewed,) = worker.renew(trial)
    assert (renewed.id, renewed.lease) == (trial.id, Lease(60.0, clocks()))
    clocks.advance(50)
    other = opened(tmp_path / "j")
    assert other.pending[0].lease == renewed.lease
    assert other.suggest().id == 1
    clocks.advance(10)
    assert other.suggest().id == trial.id  # there was no further sign of life


def test_a_sign_of_life_says_which_trials_are_still_pending(tmp_path, clocks):
    worker, other = opened(tmp_path / "j"), opened(tmp_path / "j")
    first, second = worker.suggest(2)
    clocks.advance(61)
    other.observe(other.suggest(), 1.0)
    assert [trial.id for trial in worker.renew([first, second])] == [1]
    worker.observe(first, 2.0)  # both workers had it
    other.abandon(second)
    assert worker.renew([first, second]) == []
    worker.observe(second, 3.0)
    found = [(t.value, t.origin, t.extra.get("late")) for t in worker.trials]
    assert found == [(1.0, "strategy", None), (2.0, "late", 0), (3.0, "late", 1)]
    with pytest.raises(TrialError, match="trial 1 was abandoned"):
        worker.observe(second, 4.0)


def test_a_late_result_of_another_run_is_refused(tmp_path, clocks):
    run = opened(tmp_path / "j")
    trial = run.suggest()
    run.abandon(trial)
    other = next(config for config in SPACE.sample(4, seed=0) if config != dict(trial.config))
    with pytest.raises(TrialError, match="trial 0 was abandoned"):
        run.observe(Trial(trial.id, other), 1.0)


def test_late_results_are_recorded_whatever_became_of_their_trials(clocks):
    run = opened(MemoryJournal())
    done, given_up, pending = run.suggest(3)
    run.observe(done, 1.0)
    run.abandon(given_up)
    late = [
        trial.with_outcome(Outcome.success(trial.id, (float(trial.id + 5),)))
        for trial in (done, given_up, pending, pending)
    ]
    run.complete_late(late)
    found = [(t.value, t.origin, dict(t.config)) for t in run.trials[1:]]
    assert found == [
        (5.0, "late", dict(done.config)),
        (6.0, "late", dict(given_up.config)),
        (7.0, "strategy", dict(pending.config)),
        (7.0, "late", dict(pending.config)),
    ]
    with pytest.raises(TrialError, match="no outcome"):
        run.complete_late([done])
    assert len(opened(run.journal).trials) == 5


def test_the_heartbeat_extends_leases_while_its_block_runs(monkeypatch):
    monkeypatch.setattr("baco_like.records.leases.BEATS", 1000)
    run = opened(MemoryJournal())
    trial = run.suggest()

    def count_renewals():
        return sum(event["event"] == "renewed" for event in run.journal.events)

    with run.heartbeat(trial):
        while count_renewals() < 2:
            threading.Event().wait(0.01)
    ended = count_renewals()
    lease = run.pending[0].lease
    assert lease.start.uptime > trial.lease.start.uptime
    threading.Event().wait(0.1)
    assert count_renewals() == ended


def test_without_leases_there_are_no_signs_of_life():
    run = opened(MemoryJournal(), None)
    trial = run.suggest()
    with pytest.raises(ValueError, match="no leases"):
        run.renew(trial)
    with pytest.raises(ValueError, match="no leases"), run.heartbeat(trial):
        pass


def test_a_repair_keeps_signs_of_life(tmp_path, clocks):
    run = opened(tmp_path / "j")
    trial = run.suggest()
    clocks.advance(30)
    run.renew(trial)
    repair(tmp_path / "j", tmp_path / "k")
    assert opened(tmp_path / "k").pending[0].lease == run.pending[0].lease


# ---- Pending trials without a lease: who gets them after `kill -9` at any point of `suggest` and `observe` ----


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

GRID = Space({"a": Ordinal([1, 2, 4, 8, 16]), "b": Ordinal([1, 2, 3])})
LENGTH = 2


def opened_without_lease(path, lease=None, **options):
    given = {"strategy": "random_search", "sharing": Sharing(lease=lease), **options}
    return Optimizer(GRID, seed=5, storage=path, **given)


def value(trial):
    return trial["a"] + trial["b"] / 10


def in_child(work, *args):
    """Run a function in a forked process; return its wait status."""
    child = os.fork()
    if not child:
        try:
            work(*args)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def loop(path, told=None):
    """Suggest and observe until the run has all trials; write the numbers of acknowledged ones."""
    opt = opened_without_lease(path)
    while len(opt.trials) < LENGTH or opt.pending:
        for trial in opt.suggest(len(opt.pending) or 1):
            opt.observe(trial, value(trial))
            if told is not None:
                os.write(told, b"%d\n" % trial.id)
    return opt


def killed_at(point, path, told):
    """Do the same, but kill this process before a call of the system, or after half of a write."""
    calls, writes = itertools.count(), os.pwrite

    def patched(function, *args, **kwargs):
        if next(calls) == point:
            if function is writes:
                function(args[0], args[1][: len(args[1]) // 2], args[2])
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)

    for name in ("open", "pwrite", "fsync", "ftruncate", "unlink", "close"):
        setattr(os, name, partial(patched, getattr(os, name)))
    fcntl.flock = partial(patched, fcntl.flock)
    loop(path, told)


def test_a_kill_at_every_point_changes_no_suggestion(tmp_path):
    begun = tmp_path / "begun.jsonl"
    opt = opened_without_lease(begun)
    opt.observe(opt.suggest(), 1.0)
    kept = begun.read_bytes()
    whole = {t.id: (dict(t), t.value) for t in loop(begun).trials}
    for point in itertools.count():
        path, told = tmp_path / f"{point}.jsonl", tmp_path / f"{point}.told"
        path.write_bytes(kept)
        fd = os.open(told, os.O_WRONLY | os.O_CREAT)
        code = in_child(killed_at, point, path, fd)
        os.close(fd)
        opt = loop(path)
        trials = {t.id: (dict(t), t.value) for t in opt.trials}
        assert trials.items() <= whole.items()
        assert {int(line) for line in told.read_text().split()} <= trials.keys()
        assert not opt.pending
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert point > 20


class Neighbour:
    """Another process with an optimizer of the same journal, which does what it is told."""

    def __init__(self, path, **options):
        (self.read, write), (read, self.write) = os.pipe(), os.pipe()
        self.process = os.fork()
        if not self.process:
            try:
                opt = opened_without_lease(path, **options)
                while order := os.read(read, 1):
                    trial = opt.suggest() if order == b"s" else opt.pending[-1]
                    if order == b"o":
                        opt.observe(trial, 1.0)
                    os.write(write, b"%4d" % trial.id)
            finally:
                os._exit(0)

    def do(self, order):
        os.write(self.write, order)
        return int(os.read(self.read, 4))

    def kill(self):
        os.kill(self.process, signal.SIGKILL)
        os.waitpid(self.process, 0)


def test_a_pending_trial_stays_with_its_process_while_that_lives(tmp_path):
    path = tmp_path / "run.jsonl"
    opt, other = opened_without_lease(path), Neighbour(path)
    assert other.do(b"s") == 0
    assert opt.suggest().id == 1  # not alone: the first one stays with its process
    other.kill()
    assert opt.suggest().id == 2  # nor is it taken as long as others of this process are pending
    third = Neighbour(path)
    assert third.do(b"s") == 3  # this process may still evaluate 1 and 2
    third.kill()
    for trial in [t for t in opt.pending if t.id in (1, 2)]:
        opt.observe(trial, 1.0)
    trials = opt.suggest(3)  # alone now
    assert [t.id for t in trials] == [0, 3, 4]
    assert trials[0].config == opt.history.find(0).config


def test_a_trial_with_a_lease_comes_back_after_the_lease_only(tmp_path):
    path = tmp_path / "run.jsonl"
    first = Neighbour(path, lease=3600)
    assert first.do(b"s") == 0
    first.kill()
    assert opened_without_lease(path, lease=3600).suggest().id == 1
    assert opened_without_lease(path).suggest().id == 2


def member(path, log, name, dies):
    """Run a member of a shared run; while it dies, its second evaluation does not come to its end."""
    started, begun = time.time(), itertools.count()

    def evaluate(trial):
        lease = next(t.lease for t in Optimizer.load(path).pending if t.id == trial.id)
        if lease.start.wall < started:
            os.write(log, b"old lease\n")
        if dies and next(begun) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        os.write(log, b"%d\n" % trial.id)
        return value(trial)

    tune(
        evaluate,
        GRID,
        strategy="random_search",
        stop=MaxEvals(12),
        storage=path,
        workers=Workers(worker=name, lease=60.0),
        progress=False,
    )


def test_members_that_are_killed_again_and_again_measure_no_trial_twice(tmp_path):
    path = tmp_path / "run.jsonl"
    log = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    codes = [in_child(member, path, log, f"m{i % 2}", True) for i in range(8)]
    assert codes.count(-signal.SIGKILL) == 8
    for name in ("m0", "m1"):
        assert in_child(member, path, log, name, False) == 0
    os.close(log)
    lines = (tmp_path / "log").read_text().split("\n")[:-1]
    assert sorted(map(str, range(len(lines)))) == sorted(lines)
    trials = Optimizer.load(path).trials
    assert len({tuple(trial.values()) for trial in trials}) == len(trials) == 12


def test_two_optimizers_of_one_process_keep_their_trials(tmp_path):
    path = tmp_path / "run.jsonl"
    one, two = opened_without_lease(path), opened_without_lease(path)
    assert (one.suggest().id, two.suggest().id) == (0, 1)
    del one
    assert opened_without_lease(path).suggest().id == 2


def test_many_threads_and_processes_suggest_each_trial_once(tmp_path):
    path = tmp_path / "run.jsonl"
    left = Neighbour(path)
    lost = [left.do(b"s") for _ in range(4)]
    left.kill()
    ids = []

    def work(opt):
        ids.append(opt.suggest().id)

    shared = opened_without_lease(path)
    threads = [
        threading.Thread(target=work, args=[o])
        for o in (shared, shared, opened_without_lease(path))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    others = [Neighbour(path) for _ in range(2)]
    ids += [other.do(b"s") for other in others]
    for other in others:
        other.kill()
    assert sorted(ids[:3]) == lost[:3]
    assert len(set(ids)) == 5


def test_an_own_loop_and_a_run_do_not_share_a_journal_by_chance(tmp_path):
    path = tmp_path / "run.jsonl"
    opt, other = opened_without_lease(path), Neighbour(path)
    other.do(b"s")
    with pytest.raises(Exception, match=f"in use by another run .process {other.process}"):
        sole_runner(path).__enter__()
    other.do(b"o")
    with sole_runner(path):
        assert opt.suggest().id == 1  # this process has the run
        begun = time.monotonic()
        assert other.do(b"s") == 2  # beside it, without a lock
        assert time.monotonic() - begun < 30
    other.kill()


def test_a_member_that_is_alone_gets_what_a_killed_loop_has_left(tmp_path):
    path = tmp_path / "run.jsonl"
    left = Neighbour(path)
    assert left.do(b"s") == 0
    left.kill()
    result = tune(
        value,
        GRID,
        strategy="random_search",
        seed=5,
        stop=MaxEvals(3),
        storage=path,
        workers=Workers(worker="m0"),
        progress=False,
    )
    assert [trial.id for trial in result.trials] == [0, 1, 2]


def test_observe_returns_the_completed_trial(tmp_path):
    opt = opened_without_lease(tmp_path / "run.jsonl")
    trial = opt.suggest()
    done = opt.observe(trial, 2.0)
    assert (done.id, done.value, trial.value, trial.outcome) == (trial.id, 2.0, None, None)
    trials = opt.suggest(2)
    assert [t.value for t in opt.observe(trials, [1.0, 3.0])] == [1.0, 3.0]
    told = opt.observe({"a": 16, "b": 3}, failed="compile")
    assert (told.failure, told.origin, dict(told)) == ("compile", "told", {"a": 16, "b": 3})
