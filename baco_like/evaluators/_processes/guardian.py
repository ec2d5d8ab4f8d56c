"""End child processes if this process is killed.

A process that gets SIGKILL cannot end its children. A small shell next to it therefore reads from a pipe which process
groups are running. When the pipe ends, because its only writer has died, the shell kills the groups that are left, and
the processes that have left these groups with their mark (`group`).

The alternative, the kernel's parent death signal, reaches the direct child only. Also, Python can set it only between
fork and exec, where running Python code is unsafe in a process with threads.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

from baco_like._forks import renew_lock_in_child

_SCRIPT = """
groups= marks=
while read -r sign group mark; do
    rest=
    for each in $groups; do
        [ "$each" = "$group" ] || rest="$rest $each"
    done
    groups=$rest rest=
    for each in $marks; do
        [ "$each" = "$mark" ] || rest="$rest $each"
    done
    marks=$rest
    [ "$sign" = + ] && groups="$groups $group" && marks="$marks $mark"
done
for group in $groups; do
    kill -s KILL -- "-$group"
done
[ "$marks" ] || exit
pattern=
for mark in $marks; do
    pattern="$pattern|$mark"
done
for round in 1 2 3; do
    for limits in $(grep -lsE "^Max file locks +(${pattern#?}) " /proc/[0-9]*/limits); do
        number=${limits#/proc/}
        kill -s KILL "${number%/limits}"
    done
done
"""

_shells: dict[int, subprocess.Popen[bytes]] = {}
"""The shell of each process, by process number: after a fork the child has a copy of the parent's entry."""

_lock = threading.RLock()
renew_lock_in_child(sys.modules[__name__], "_lock")


def prepare() -> None:
    """Start the shell if there is none yet; this takes milliseconds, once per process."""
    with _lock:
        if os.getpid() in _shells:
            return
        if not _shells:
            atexit.register(_close)
        # On a system without /bin/sh the groups are not guarded; everything else works.
        with contextlib.suppress(OSError):
            shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                bufsize=0,
                start_new_session=True,  # so that Ctrl-C does not reach the shell
            )
            assert shell.stdin is not None
            os.set_blocking(shell.stdin.fileno(), False)
            _shells[os.getpid()] = shell


@contextlib.contextmanager
def guard(group: int, mark: int) -> Iterator[None]:
    """Have a process group killed if this process dies within the ``with`` block, in whatever way.

    Args:
        group: Number of the group.
        mark: The limit of file locks that its processes have, which may have left the group.
    """
    prepare()
    _send(f"+ {group} {mark}\n")
    try:
        yield
    finally:
        _send(f"- {group} {mark}\n")


def _send(line: str) -> None:
    with _lock:
        shell = _shells.get(os.getpid())
        if shell is None or shell.stdin is None:
            return
        try:
            # Writes of less than PIPE_BUF bytes to a pipe are atomic.
            os.write(shell.stdin.fileno(), line.encode())
        except OSError:
            # The shell is dead, or it is stopped and its pipe is full. A shell that has missed a line may later kill
            # a group whose number belongs to another process by then.
            shell.kill()
            _close()


def _close() -> None:
    shell = _shells.pop(os.getpid(), None)
    if shell is not None and shell.stdin is not None:
        shell.stdin.close()
        shell.wait()
