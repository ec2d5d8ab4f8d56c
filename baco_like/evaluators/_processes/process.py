"""Run commands that may hang, crash, flood their output or leave children behind.

The command leads its own session, and therefore a process group that can be killed as a whole. Its output is read as
it comes; only the beginning and the end are kept. The group is gone when `run_command` returns or raises (also after
Ctrl-C), and soon after this process is killed.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

from baco_like._tables import Shape
from baco_like.evaluators._processes.child import (
    Child,
    delayed_signals,
    mark_shell,
    new_mark,
    prepare,
    signal_name,
)
from baco_like.exceptions import EvaluatorError

_LINKER = re.compile(r"(\S*[/-])?(ld|lld|ld\.\w+): ")

_GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL."""

MAX_BYTES = 1 << 20
"""Bytes kept of an output: half from the beginning, half from the end."""

_DRAIN_TIMEOUT = 0.2
"""Seconds to read the rest of the output, if a process outside the group still holds the pipe open."""


@dataclass(frozen=True)
class Finished:
    """How a command ended.

    Attributes:
        code: Exit code, or None if a signal ended it.
        signal: Name of the signal that ended it, such as ``SIGSEGV``, or None.
        timed_out: Whether it was ended because its time was over.
        out: Standard output; invalid UTF-8 is replaced, and the middle of a long output is left out.
        err: Standard error, in the same form.
        seconds: Wall time from start to end.
    """

    code: int | None
    signal: str | None
    timed_out: bool
    out: str
    err: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether it ended with exit code 0, in time."""
        return self.code == 0 and not self.timed_out

    def describe(self) -> str:
        """Return one line: how the command ended, and the most telling line of its output.

        This is the first line with the word "error" or from the linker, otherwise the last line.
        """
        if self.timed_out:
            end = f"stopped after {self.seconds:.3g} s"
        else:
            end = f"exit code {self.code}" if self.signal is None else f"ended by {self.signal}"
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        if not lines:
            return end
        errors = (line for line in lines if "error" in line.lower() or _LINKER.match(line))
        return f"{end}: {next(errors, lines[-1])[:300]}"


class OutputBuffer:
    """Collects an output chunk by chunk; its memory does not grow with the output."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Append a chunk."""
        half = MAX_BYTES // 2
        room = half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Cut only when twice too long: cutting after each chunk would copy half a megabyte each time.
        if len(self._tail) > 2 * half:
            self._dropped += len(self._tail) - half
            del self._tail[:-half]

    def text(self) -> str:
        """Return the kept text; invalid UTF-8 is replaced, and a line says how many bytes were left out."""
        gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", errors="replace")


class Stop:
    """A request to end all commands that run in other threads; once set, it stays set.

    A running command waits for the output of its child in a selector. A pipe wakes it there, which a
    `threading.Event` could not. Commands that start later see the same readable pipe, and end at once.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._is_set = False
        for descriptor in (self._reader, self._writer):
            weakref.finalize(self, os.close, descriptor)

    def fileno(self) -> int:
        """Return a descriptor that becomes readable when the request is set."""
        return self._reader

    def set(self) -> None:
        """Set the request; idempotent."""
        if not self._is_set:
            self._is_set = True
            os.write(self._writer, b"x")


def run_command(
    command: Sequence[str],
    *,
    timeout: float | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    memory: int | None = None,
    cpus: frozenset[int] | None = None,
    stop: Stop | None = None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> Finished:
    """Run a command to its end, or kill it with all its children.

    Args:
        command: Program and arguments; no shell interprets them.
        timeout: Limit of the wall time in seconds. The group gets SIGTERM at that moment, and SIGKILL 0.3 s later.
        folder: Working directory.
        environment: Variables in addition to the ones of this process.
        memory: Limit of the address space in bytes, of each process separately.
        cpus: Numbers of the CPUs that it may use; None for the CPUs of this process.
        stop: Lets another thread end the command.
        stdin: Its standard input: a file, by default none.

    Raises:
        OSError: The program cannot be started (not found, not executable).
        EvaluatorError: It was ended by ``stop``.
    """
    mark, environment = new_mark(), environment or {}
    _check_program(command[0], folder, {**os.environ, **environment})
    outputs = (OutputBuffer(), OutputBuffer())
    prepare()  # before the clock starts
    child, started = None, time.perf_counter()
    try:
        with contextlib.ExitStack() as stack:
            with delayed_signals():
                child = Child(
                    _add_limits(command, memory, mark),
                    mark,
                    contextlib.ExitStack(),
                    environment=environment,
                    cwd=folder,
                    cpus=cpus,
                    stdin=stdin,
                    stderr=subprocess.PIPE,
                )
            watch = _Watch(child, outputs, stop, stack)
            timed_out = not watch.wait_for_exit(timeout)
            seconds = time.perf_counter() - started
            if timed_out:
                child.send(signal.SIGTERM)
                watch.wait_for_exit(_GRACE)
            # Also after a normal exit: its children may still run, and hold the pipes open.
            child.send(signal.SIGKILL)
            watch.drain()
    finally:
        if child is not None:
            child.end()
    out, err = (output.text() for output in outputs)
    status = child.process.returncode
    code, name = (status, None) if status >= 0 else (None, signal_name(-status))
    return Finished(code, name, timed_out, out, err, seconds)


class _Watch:
    """Reads the outputs of a child while waiting for its end.

    Args:
        child: The child.
        outputs: Buffers of its standard output and its standard error.
        stop: Ends the waiting.
        stack: Closes the selector.
    """

    def __init__(
        self,
        child: Child,
        outputs: Sequence[OutputBuffer],
        stop: Stop | None,
        stack: contextlib.ExitStack,
    ) -> None:
        self._child = child
        self._selector, self._longest_wait = stack.enter_context(child.end_selector())
        pipes = child.process.stdout, child.process.stderr
        for pipe, output in zip(pipes, outputs, strict=True):
            assert pipe is not None
            self._selector.register(pipe, selectors.EVENT_READ, output)
        if stop is not None:
            self._selector.register(stop, selectors.EVENT_READ, stop)

    def wait_for_exit(self, timeout: float | None) -> bool:
        """Wait for the child's end; return whether it came within ``timeout`` seconds."""
        deadline = math.inf if timeout is None else time.perf_counter() + timeout
        while not self._child.has_ended:
            remaining = deadline - time.perf_counter()
            if remaining <= 0:
                return False
            self._read(min(remaining, self._longest_wait))
        return True

    def drain(self) -> None:
        """Read what is left in the pipes, for a short time at most."""
        deadline = time.perf_counter() + _DRAIN_TIMEOUT
        while time.perf_counter() < deadline and any(
            isinstance(key.data, OutputBuffer) for key in self._selector.get_map().values()
        ):
            self._read(0.05, pipes_only=True)

    def _read(self, timeout: float, pipes_only: bool = False) -> None:
        for key, _ in self._selector.select(timeout):
            if isinstance(key.data, Stop):
                raise EvaluatorError("the command was ended because the evaluator is closed")
            if key.data is None:  # the child's end; its descriptor stays readable
                if pipes_only:
                    self._selector.unregister(key.fileobj)
                continue
            chunk = os.read(key.fd, 1 << 16)
            if chunk:
                key.data.add(chunk)
            else:
                self._selector.unregister(key.fileobj)


def _check_program(program: str, folder: Path | None, variables: Mapping[str, str]) -> None:
    """Raise the error of starting a program that is missing; the shell of `_add_limits` would only print it.

    Raises:
        OSError: It does not exist or is not executable.
    """
    if os.sep in program:
        path: str | None = os.path.join(folder or "", program)
    else:
        path = shutil.which(program, path=variables.get("PATH", os.defpath))
    if path is None or not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), program)


def _add_limits(command: Sequence[str], memory: int | None, mark: int) -> list[str]:
    """Return the command, started through ``ulimit`` if it needs limits, or a limit as its mark.

    A small shell sets the limits in the child before the program starts. The program and its arguments are positional
    parameters, which the shell never interprets. (`subprocess` can also call Python code between fork and exec, but
    this is unsafe in a process with threads.)
    """
    limits = mark_shell(mark)
    if resource.getrlimit(resource.RLIMIT_CORE)[0] != 0:
        # A crash is an ordinary outcome, and must not leave a core file.
        limits.append("ulimit -c 0")
    if memory is not None:
        limits.append(f"ulimit -v {max(1, memory // 1024)}")
    if not limits:
        return list(command)
    return ["/bin/sh", "-c", " && ".join([*limits, 'exec "$@"']), "sh", *command]


Cpus = Annotated[
    frozenset[int],
    Shape(
        title="an array of CPU numbers such as [2, 3]",
        type="array",
        items={"type": "integer"},
        minItems=1,
    ),
    frozenset,
]
"""Numbers of CPUs."""


def check_cpus(cpus: frozenset[int] | None) -> None:
    """Raise `EvaluatorError` if this process may not use one of the CPUs; None are all."""
    where = "[evaluator] cpus"
    if cpus is None:
        return
    if sys.platform != "linux":
        raise EvaluatorError(f"{where}: this system cannot restrict CPUs; leave it out")
    allowed = os.sched_getaffinity(0)
    absent = sorted(cpus - allowed)
    if absent:
        some = ", ".join(map(str, sorted(allowed)[:16]))
        raise EvaluatorError(
            f"{where}: there is no CPU {absent[0]} for this process; it has {some}"
        )
