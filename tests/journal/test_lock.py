"""The journal's lock: free when its holder is gone, and no endless waiting for one that is stopped."""

import errno
import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from baco_like import Optimizer
from baco_like.exceptions import JournalError
from baco_like.journal import lock
from baco_like.journal.lock import find_holders, locked, sole_runner

HOLD = """
import fcntl, os, sys, time
from pathlib import Path
from baco_like.journal.lock import locked
with locked(Path(sys.argv[1]), os.O_RDWR, fcntl.LOCK_EX):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def path(tmp_path):
    (tmp_path / "j").touch()
    return tmp_path / "j"


@pytest.fixture
def holder(path):
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"held\n"
    yield child
    child.kill()
    child.wait()
    child.stdout.close()


def take(path):
    with locked(path, os.O_RDWR, fcntl.LOCK_EX):
        return True


def test_a_killed_holder_is_not_waited_for(path, holder):
    holder.kill()
    assert take(path)


def test_a_stopped_holder_is_named(path, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    with pytest.raises(JournalError, match=f"process {holder.pid}, which is stopped"):
        take(path)
    os.kill(holder.pid, signal.SIGCONT)
    holder.kill()
    assert take(path)


def test_a_holder_that_never_ends_is_given_up(path, holder, monkeypatch):
    monkeypatch.setattr(lock, "_LONGEST_WAIT", 0.05)
    with pytest.raises(JournalError, match="locked by another process"):
        take(path)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of threads that tests may run in
def test_a_process_forked_meanwhile_holds_nothing(path):
    with locked(path, os.O_RDWR, fcntl.LOCK_EX):
        child = os.fork()
        if not child:  # it has the file open too, until it ends
            time.sleep(30)
            os._exit(0)
    try:
        assert take(path)
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_process_that_a_killed_holder_has_forked_holds_nothing(path):
    forking = HOLD.replace('print("held"', 'child = os.fork()\n    child and print("held", child')
    holder = subprocess.Popen([sys.executable, "-c", forking, str(path)], stdout=subprocess.PIPE)
    child = int(holder.stdout.readline().split()[1])
    holder.kill()
    holder.wait()
    try:
        os.kill(child, 0)
        assert take(path)
    finally:
        os.kill(child, signal.SIGKILL)
        holder.stdout.close()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_named(path, monkeypatch, number):
    def refuse(fd, kind):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    for call in (lambda: take(path), lambda: sole_runner(path).__enter__()):
        with pytest.raises(
            JournalError, match=r"has no locks .* keep the journal on a local disk"
        ) as e:
            call()
        assert "make room" not in str(e.value)


def test_a_file_system_that_cannot_sync_a_folder_is_usable(tmp_path, monkeypatch):
    sync = os.fsync

    def fsync(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        sync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    Optimizer({"x": [1, 2]}, strategy="random_search", storage=tmp_path / "j").suggest()
    assert len(Optimizer.load(tmp_path / "j").pending) == 1


def test_readers_do_not_wait_for_each_other(path):
    with locked(path, os.O_RDONLY, fcntl.LOCK_SH), locked(path, os.O_RDONLY, fcntl.LOCK_SH) as fd:
        assert fd > 0


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="needs /proc/locks")
def test_a_process_with_two_locks_is_one_holder(tmp_path):
    path = tmp_path / "shared.lock"
    path.touch()
    with path.open() as first, path.open() as second:
        fcntl.flock(first, fcntl.LOCK_SH)
        fcntl.flock(second, fcntl.LOCK_SH)
        assert find_holders(first.fileno()) == [os.getpid()]
