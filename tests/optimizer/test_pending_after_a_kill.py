"""Pending trials without a lease: who gets them after `kill -9` at any point of `suggest` and `observe`."""

import fcntl
import itertools
import os
import signal
import threading
import time
from functools import partial

import pytest

from baco_like import MaxEvals, Optimizer, Ordinal, Sharing, Space, Workers, tune
from baco_like.journal.lock import sole_runner

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SPACE = Space({"a": Ordinal([1, 2, 4, 8, 16]), "b": Ordinal([1, 2, 3])})
LENGTH = 2


def opened(path, lease=None, **options):
    given = {"strategy": "random_search", "sharing": Sharing(lease=lease), **options}
    return Optimizer(SPACE, seed=5, storage=path, **given)


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
    opt = opened(path)
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
    opt = opened(begun)
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
                opt = opened(path, **options)
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
    opt, other = opened(path), Neighbour(path)
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
    assert opened(path, lease=3600).suggest().id == 1
    assert opened(path).suggest().id == 2


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
        SPACE,
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
    one, two = opened(path), opened(path)
    assert (one.suggest().id, two.suggest().id) == (0, 1)
    del one
    assert opened(path).suggest().id == 2


def test_many_threads_and_processes_suggest_each_trial_once(tmp_path):
    path = tmp_path / "run.jsonl"
    left = Neighbour(path)
    lost = [left.do(b"s") for _ in range(4)]
    left.kill()
    ids = []

    def work(opt):
        ids.append(opt.suggest().id)

    shared = opened(path)
    threads = [threading.Thread(target=work, args=[o]) for o in (shared, shared, opened(path))]
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
    opt, other = opened(path), Neighbour(path)
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
        SPACE,
        strategy="random_search",
        seed=5,
        stop=MaxEvals(3),
        storage=path,
        workers=Workers(worker="m0"),
        progress=False,
    )
    assert [trial.id for trial in result.trials] == [0, 1, 2]


def test_observe_returns_the_completed_trial(tmp_path):
    opt = opened(tmp_path / "run.jsonl")
    trial = opt.suggest()
    done = opt.observe(trial, 2.0)
    assert (done.id, done.value, trial.value, trial.outcome) == (trial.id, 2.0, None, None)
    trials = opt.suggest(2)
    assert [t.value for t in opt.observe(trials, [1.0, 3.0])] == [1.0, 3.0]
    told = opt.observe({"a": 16, "b": 3}, failed="compile")
    assert (told.failure, told.origin, dict(told)) == ("compile", "told", {"a": 16, "b": 3})
