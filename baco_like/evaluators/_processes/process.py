"""Run commands that may hang, crash, flood their output or leave children behind.

The command leads its own session, and therefore a process group that can be killed as a whole. Its output is read as
it comes; only the beginning and the end are kept. The group is gone when `run` returns or raises (also after Ctrl-C),
and soon after this process is killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from baco_like.evaluators._processes import group, guardian
from baco_like.evaluators._processes.output import OutputBuffer
from baco_like.evaluators._processes.pinning import restrict_cpus
from baco_like.evaluators._processes.stop import Stop
from baco_like.exceptions import EvaluatorError

_LINKER = re.compile(r"(\S*[/-])?(ld|lld|ld\.\w+): ")

_GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL."""

_POLL_INTERVAL = 0.02
"""Seconds between two checks of the child on systems whose selectors cannot wait for its end (no pidfd)."""

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


def run(
    command: Sequence[str],
    *,
    timeout: float | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    memory: int | None = None,
    cpus: frozenset[int] | None = None,
    stop: Stop | None = None,
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

    Raises:
        OSError: The program cannot be started (not found, not executable).
        EvaluatorError: It was ended by ``stop``.
    """
    mark = group.new_mark()
    variables = {**os.environ, **(environment or {}), **group.mark_variable(mark)}
    outputs = (OutputBuffer(), OutputBuffer())
    guardian.prepare()  # before the clock starts
    started = time.perf_counter()
    with restrict_cpus(cpus):
        child = subprocess.Popen(
            _add_limits(command, memory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
    seconds, timed_out = _attend(child, timeout, outputs, started, mark, stop)
    out, err = (output.text() for output in outputs)
    status = child.returncode
    if status >= 0:
        return Finished(status, None, timed_out, out, err, seconds)
    return Finished(None, group.signal_name(-status), timed_out, out, err, seconds)


def _attend(
    child: subprocess.Popen[bytes],
    timeout: float | None,
    outputs: Sequence[OutputBuffer],
    started: float,
    mark: str,
    stop: Stop | None,
) -> tuple[float, bool]:
    """Read a child's outputs until it and its children are gone; return its seconds and whether it timed out."""
    seconds, timed_out = 0.0, False
    try:
        with guardian.guard(child.pid), _watch(child, outputs, stop) as watch:
            timed_out = not watch.wait_for_exit(timeout)
            seconds = time.perf_counter() - started
            if timed_out:
                group.signal_group(child, signal.SIGTERM)
                watch.wait_for_exit(_GRACE)
            # Also after a normal exit: its children may still run, and hold the pipes open.
            group.signal_group(child, signal.SIGKILL)
            watch.drain()
    except BaseException:  # KeyboardInterrupt, too
        group.signal_group(child, signal.SIGKILL)
        raise
    finally:
        group.kill_marked(mark, since=child.pid)
        group.reap(child)
    return seconds, timed_out


@dataclass(frozen=True)
class _Watch:
    """Reads the outputs of a child while waiting for its end."""

    child: subprocess.Popen[bytes]
    selector: selectors.BaseSelector
    has_end_descriptor: bool
    """Whether the selector wakes up when the child ends."""

    def wait_for_exit(self, timeout: float | None) -> bool:
        """Wait for the child's end; return whether it came within ``timeout`` seconds."""
        deadline = None if timeout is None else time.perf_counter() + timeout
        longest = 3600.0 if self.has_end_descriptor else _POLL_INTERVAL
        while not group.has_ended(self.child):
            remaining = 3600.0 if deadline is None else deadline - time.perf_counter()
            if remaining <= 0:
                return False
            self._read(min(remaining, longest))
        return True

    def drain(self) -> None:
        """Read what is left in the pipes, for a short time at most."""
        deadline = time.perf_counter() + _DRAIN_TIMEOUT
        while self._has_open_pipes() and time.perf_counter() < deadline:
            self._read(0.05, pipes_only=True)

    def _has_open_pipes(self) -> bool:
        return any(isinstance(key.data, OutputBuffer) for key in self.selector.get_map().values())

    def _read(self, timeout: float, pipes_only: bool = False) -> None:
        ready = self.selector.select(timeout)
        for key, _ in ready:
            if isinstance(key.data, Stop):
                raise EvaluatorError("the command was ended because the evaluator is closed")
            if key.data is None:  # the child's end; its descriptor stays readable
                if pipes_only:
                    self.selector.unregister(key.fileobj)
                continue
            chunk = os.read(key.fd, 1 << 16)
            if chunk:
                key.data.add(chunk)
            else:
                self.selector.unregister(key.fileobj)


@contextlib.contextmanager
def _watch(
    child: subprocess.Popen[bytes], outputs: Sequence[OutputBuffer], stop: Stop | None
) -> Iterator[_Watch]:
    pipes: list[IO[bytes]] = [pipe for pipe in (child.stdout, child.stderr) if pipe is not None]
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for pipe, output in zip(pipes, outputs, strict=True):
            stack.callback(pipe.close)
            selector.register(pipe, selectors.EVENT_READ, output)
        end = group.end_descriptor(child)
        if end is not None:
            stack.callback(os.close, end)
            selector.register(end, selectors.EVENT_READ, None)
        if stop is not None:
            selector.register(stop, selectors.EVENT_READ, stop)
        yield _Watch(child, selector, end is not None)


def _add_limits(command: Sequence[str], memory: int | None) -> list[str]:
    """Return the command, started through ``ulimit`` if it needs limits.

    A small shell sets the limits in the child before the program starts. The program and its arguments are positional
    parameters, which the shell never interprets. (`subprocess` can also call Python code between fork and exec, but
    this is unsafe in a process with threads.)
    """
    limits = []
    if resource.getrlimit(resource.RLIMIT_CORE)[0] != 0:
        limits.append(
            "ulimit -c 0"
        )  # a crash is an ordinary outcome, and must not leave a core file
    if memory is not None:
        limits.append(f"ulimit -v {max(1, memory // 1024)}")
    if not limits:
        return list(command)
    return ["/bin/sh", "-c", " && ".join([*limits, 'exec "$@"']), "sh", *command]
