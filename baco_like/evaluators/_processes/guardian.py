"""Nothing is left running by a process that is killed.

A process that gets SIGKILL cannot end its children. So a small shell beside it reads which process groups are at work
from a pipe; when the pipe ends, because its only writer is gone, it kills those that are left. (The kernel's parent
death signal reaches the direct child only and can be set from Python only between fork and exec, where code is unsafe
with threads.)
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator

_SCRIPT = """
groups=
while read -r sign group; do
    rest=
    for one in $groups; do
        [ "$one" = "$group" ] || rest="$rest $one"
    done
    groups=$rest
    [ "$sign" = + ] && groups="$groups $group"
done
for group in $groups; do
    kill -s KILL -- "-$group"
done
"""

_shells: dict[int, subprocess.Popen[bytes]] = {}
"""By the process that it serves: after a fork there are two."""

_lock = threading.Lock()


def _forked() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held it


os.register_at_fork(after_in_child=_forked)


def prepare() -> None:
    """Start the shell where there is none yet; a matter of milliseconds, once."""
    with _lock:
        if os.getpid() not in _shells:
            with contextlib.suppress(
                OSError
            ):  # without /bin/sh nothing is guarded, and all else works
                _shells[os.getpid()] = _started()


@contextlib.contextmanager
def guarded(group: int) -> Iterator[None]:
    """Have a process group killed if this process dies within the ``with`` block, however it dies."""
    prepare()
    _tell(f"+ {group}\n")
    try:
        yield
    finally:
        _tell(f"- {group}\n")


def _tell(line: str) -> None:
    with _lock:
        shell = _shells.get(os.getpid())
        if shell is None or shell.stdin is None:
            return
        try:
            os.write(shell.stdin.fileno(), line.encode())  # a short line is written whole or not
        except (
            OSError
        ):  # it is dead, or stopped and its pipe full: it must not act on what it has not heard
            shell.kill()
            _close()


def _started() -> subprocess.Popen[bytes]:
    if not _shells:
        atexit.register(_close)
    shell = subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        bufsize=0,
        start_new_session=True,  # Ctrl-C is not for it
    )
    if shell.stdin is not None:
        os.set_blocking(shell.stdin.fileno(), False)
    return shell


def _close() -> None:
    shell = _shells.pop(os.getpid(), None)
    if shell is not None and shell.stdin is not None:
        shell.stdin.close()
        shell.wait()
