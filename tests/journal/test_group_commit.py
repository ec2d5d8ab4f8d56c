"""Events of several threads share one ``fsync``, and an acknowledged event is on the disk."""

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from baco_like import JournalError, MaxEvals, Optimizer, Workers, tune

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SPACE = {"x": list(range(100)), "y": [1, 2, 3]}


class Disk:
    """Stands for the disk: counts the calls of ``fsync``, and knows how many bytes of the file would survive."""

    def __init__(self, path, monkeypatch):
        self.path, self.calls, self.durable = path, 0, 0
        self.entered, self.permission = threading.Event(), threading.Event()
        self.permission.set()
        self.error: OSError | None = None
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, fd):
        if os.fstat(fd).st_ino != os.stat(self.path).st_ino:
            return
        size = os.fstat(fd).st_size  # what is written during the call is not promised
        self.calls += 1
        self.entered.set()
        assert self.permission.wait(60)
        if self.error is not None:
            raise self.error
        self.durable = max(self.durable, size)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def optimizer(path):
    return Optimizer(SPACE, strategy="random_search", storage=path)


@pytest.fixture
def disk(optimizer, path, monkeypatch):
    return Disk(path, monkeypatch)


def survivors(disk, tmp_path):
    """Return the run that is left after a power cut."""
    copy = tmp_path / "survived.jsonl"
    copy.write_bytes(disk.path.read_bytes()[: disk.durable])
    return Optimizer.load(copy)


def wait_until_written(optimizer, number):
    while len(optimizer.trials) < number:
        threading.Event().wait(0.001)


def test_what_is_acknowledged_survives_a_power_cut(optimizer, disk, tmp_path):
    def work(_):
        for _ in range(5):
            trial = optimizer.suggest()
            optimizer.observe(trial, float(trial["x"]))
            assert trial.id in {t.id for t in survivors(disk, tmp_path / str(trial.id)).trials}

    for number in range(40):
        (tmp_path / str(number)).mkdir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(optimizer.trials) == 40


def test_events_that_are_written_during_a_call_share_the_next(optimizer, disk):
    trials = optimizer.suggest(9)
    disk.calls = 0
    disk.entered.clear()
    disk.permission.clear()
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(optimizer.observe, trials[0], 0.0)
        assert disk.entered.wait(60)
        others = [pool.submit(optimizer.observe, trial, 1.0) for trial in trials[1:]]
        wait_until_written(optimizer, 9)
        assert not any(future.done() for future in [first, *others])
        disk.permission.set()
    assert disk.calls == 2


def test_a_group_of_calls_waits_once(optimizer, disk, tmp_path):
    with optimizer.grouped():
        with optimizer.grouped():
            for trial in optimizer.suggest(3):
                optimizer.observe(trial, 1.0)
            new = optimizer.suggest()
        assert disk.calls == 0
    assert disk.calls == 1
    assert [t.id for t in survivors(disk, tmp_path).pending] == [new.id]


def test_callbacks_see_results_that_are_on_the_disk(path, disk, tmp_path):
    called = []

    def callback(_, trial):
        assert [t.id for t in survivors(disk, tmp_path).trials][-1] == trial.id
        called.append(trial.id)

    optimizer = Optimizer(SPACE, strategy="random_search", storage=path, callbacks=[callback])
    with optimizer.grouped():
        for _ in range(3):
            optimizer.observe(optimizer.suggest(), 1.0)
    assert called == [0, 1, 2]


@pytest.mark.parametrize("number", [1, 4])
def test_an_error_of_the_disk_undoes_every_event_that_shared_the_call(
    optimizer, disk, path, number
):
    trials = optimizer.suggest(number)
    before, history = path.read_bytes(), optimizer.history
    disk.entered.clear()
    disk.permission.clear()
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    with ThreadPoolExecutor(number) as pool:
        futures = [pool.submit(optimizer.observe, trials[0], 0.0)]
        assert disk.entered.wait(60)
        futures += [pool.submit(optimizer.observe, trial, 1.0) for trial in trials[1:]]
        wait_until_written(optimizer, number)
        disk.permission.set()
        errors = [future.exception() for future in futures]
    assert all(isinstance(error, JournalError) for error in errors)
    assert "is not recorded, try again" in str(errors[0])
    assert path.read_bytes() == before
    assert optimizer.history is history
    disk.error = None
    optimizer.observe(trials, [1.0] * number)
    assert [t.id for t in Optimizer.load(path).trials] == [t.id for t in trials]


def test_events_behind_which_others_have_written_are_kept_after_an_error(optimizer, disk, path):
    first, second = optimizer.suggest(2)
    other = Optimizer.load(path)
    disk.entered.clear()
    disk.permission.clear()
    with ThreadPoolExecutor(2) as pool:
        own = pool.submit(optimizer.observe, first, 0.0)
        assert disk.entered.wait(60)
        disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
        others = pool.submit(other.observe, second, 1.0)
        wait_until_written(other, 2)
        disk.permission.set()
        assert isinstance(own.exception(), JournalError)
        assert isinstance(others.exception(), JournalError)
    disk.error = None
    optimizer.suggest()
    assert [t.id for t in optimizer.trials][:1] == [t.id for t in Optimizer.load(path).trials][:1]


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent(optimizer, disk):
    disk.entered.clear()
    disk.permission.clear()
    thread = threading.Thread(target=optimizer.suggest)
    thread.start()
    assert disk.entered.wait(60)
    child = os.fork()
    if not child:
        disk.permission = threading.Event()
        disk.permission.set()
        os._exit(len(optimizer.suggest(2)))
    disk.permission.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_the_result_and_the_next_trial_of_a_run_share_a_call(path, monkeypatch):
    disk = Disk(path, monkeypatch)
    running = []

    def function(trial):
        assert trial.id in {t.id for t in survivors(disk, path.parent).pending}
        assert len(survivors(disk, path.parent).trials) == len(running)
        running.append(disk.calls)
        return float(trial["x"])

    path.touch()
    settings = {"strategy": "random_search", "storage": path, "workers": Workers(ahead=2)}
    tune(function, SPACE, stop=MaxEvals(5), progress=False, **settings)
    assert [later - call for call, later in pairwise(running)] == [1] * 4
    assert len(survivors(disk, path.parent).trials) == 5
