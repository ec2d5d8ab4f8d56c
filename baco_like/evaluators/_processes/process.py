"""Running commands that may hang, crash, flood their output or leave children behind.

The command becomes the leader of its own session, hence of a process group that can be killed as a
whole. Its output is read as it comes and only the beginning and the end are kept. Whatever happens,
also Ctrl-C in the caller, the group is gone when `run` returns or raises, and soon after the caller is killed.
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
from baco_like.evaluators._processes.kept import Kept
from baco_like.evaluators._processes.pinning import pinned
from baco_like.evaluators._processes.stop import Stop
from baco_like.exceptions import EvaluatorError

_LINKER = re.compile(r"(\S*[/-])?(ld|lld|ld\.\w+): ")

_GRACE = 0.3
"""Seconds between SIGTERM and SIGKILL."""

_SLICE = 0.02
"""Seconds between two looks at the child where the system cannot tell of its end (no pidfd)."""


@dataclass(frozen=True)
class Finished:
    """How a command ended.

    Attributes:
        code: Exit code, or None if a signal ended it.
        signal: Name of the signal that ended it, such as ``SIGSEGV``, or None.
        timed_out: Whether it was ended because its time was over.
        out: Standard output; invalid UTF-8 is replaced, and the middle of a long one is left out.
        err: Standard error, likewise.
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
        """Whether it ended by itself with exit code 0."""
        return self.code == 0 and not self.timed_out

    def describe(self) -> str:
        """Return one line: how it ended, and its first line with "error" or of the linker, or else its last."""
        if self.timed_out:
            end = f"stopped after {self.seconds:.3g} s"
        else:
            end = f"exit code {self.code}" if self.signal is None else f"ended by {self.signal}"
        said = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        if not said:
            return end
        errors = (line for line in said if "error" in line.lower() or _LINKER.match(line))
        return f"{end}: {next(errors, said[-1])[:300]}"


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
        command: Program and arguments; no shell looks at them.
        timeout: Seconds of wall time; SIGTERM to the group at that moment and SIGKILL 0.3 s later.
        folder: Where it runs.
        environment: Variables to set beside the caller's own.
        memory: Limit of its address space in bytes (of each process on its own).
        cpus: The CPUs that it may use; None: those of the caller.
        stop: Another thread ends it by this.

    Raises:
        OSError: The program cannot be started (not found, not executable).
        EvaluatorError: It was ended by ``stop``.
    """
    mark = group.new_mark()
    variables = {**os.environ, **(environment or {}), **group.marked(mark)}
    outputs = (Kept(), Kept())
    guardian.prepare()  # not while the clock runs
    started = time.perf_counter()
    with pinned(cpus):
        child = subprocess.Popen(
            _limited(command, memory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=variables,
            start_new_session=True,
        )
    seconds, timed_out = _attended(child, timeout, outputs, started, mark, stop)
    return _finished(child.returncode, timed_out, outputs, seconds)


def _attended(
    child: subprocess.Popen[bytes],
    timeout: float | None,
    outputs: tuple[Kept, Kept],
    started: float,
    mark: str,
    stop: Stop | None,
) -> tuple[float, bool]:
    """Read a child's outputs until it and all its own children are gone; return its time and whether that was over."""
    seconds, timed_out = 0.0, False
    try:
        pipes = [pipe for pipe in (child.stdout, child.stderr) if pipe is not None]
        with guardian.guarded(child.pid), _watching(child, pipes, outputs, stop) as watch:
            timed_out = not watch.until_exit(timeout)
            seconds = time.perf_counter() - started
            if timed_out:
                group.signal_group(child, signal.SIGTERM)
                watch.until_exit(_GRACE)
            group.signal_group(child, signal.SIGKILL)
            watch.drain()
    except BaseException:
        group.signal_group(child, signal.SIGKILL)
        raise
    finally:
        group.kill_marked(mark, since=child.pid)
        group.reap(child)
    return seconds, timed_out


def _finished(status: int, timed_out: bool, outputs: tuple[Kept, Kept], seconds: float) -> Finished:
    out, err = (kept.text() for kept in outputs)
    if status >= 0:
        return Finished(status, None, timed_out, out, err, seconds)
    return Finished(None, group.signal_name(-status), timed_out, out, err, seconds)


@dataclass(frozen=True)
class _Watch:
    """Reads a child's outputs while waiting for its end."""

    child: subprocess.Popen[bytes]
    selector: selectors.BaseSelector
    told: bool
    """Whether the selector wakes up when the child ends."""

    def until_exit(self, timeout: float | None) -> bool:
        """Wait for the child's end; return whether it came within ``timeout`` seconds."""
        deadline = None if timeout is None else time.perf_counter() + timeout
        while not group.has_ended(self.child):
            remaining = 3600.0 if deadline is None else deadline - time.perf_counter()
            if remaining <= 0:
                return False
            self._read(min(remaining, 3600.0 if self.told else _SLICE))
        return True

    def drain(self) -> None:
        """Read what is left in the pipes, for a moment at most where somebody still holds them open."""
        deadline = time.perf_counter() + 0.2
        while self._open_pipes() and time.perf_counter() < deadline:
            self._read(0.05, pipes_only=True)

    def _open_pipes(self) -> bool:
        return any(isinstance(key.data, Kept) for key in self.selector.get_map().values())

    def _read(self, timeout: float, pipes_only: bool = False) -> None:
        ready = self.selector.select(timeout)
        for key, _ in ready:
            if isinstance(key.data, Stop):
                raise EvaluatorError("the command was ended because the evaluator is closed")
            if key.data is None:
                if pipes_only:
                    self.selector.unregister(key.fileobj)
                continue
            chunk = os.read(key.fd, 1 << 16)
            if chunk:
                key.data.add(chunk)
            else:
                self.selector.unregister(key.fileobj)


@contextlib.contextmanager
def _watching(
    child: subprocess.Popen[bytes],
    pipes: Sequence[IO[bytes]],
    outputs: Sequence[Kept],
    stop: Stop | None,
) -> Iterator[_Watch]:
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for pipe, kept in zip(pipes, outputs, strict=True):
            stack.callback(pipe.close)
            selector.register(pipe, selectors.EVENT_READ, kept)
        end = group.end_descriptor(child)
        if end is not None:
            stack.callback(os.close, end)
            selector.register(end, selectors.EVENT_READ, None)
        if stop is not None:
            selector.register(stop, selectors.EVENT_READ, stop)
        yield _Watch(child, selector, end is not None)


def _limited(command: Sequence[str], memory: int | None) -> list[str]:
    """Return the command, started through ``ulimit`` where limits are needed.

    A small shell sets them in the child before the program starts; the program and its arguments
    reach it as positional parameters that are never interpreted. (Code of ours between fork and
    exec is unsafe with threads.)
    """
    limits = []
    if resource.getrlimit(resource.RLIMIT_CORE)[0] != 0:
        limits.append("ulimit -c 0")  # a crash is an outcome here, and leaves no file behind
    if memory is not None:
        limits.append(f"ulimit -v {max(1, memory // 1024)}")
    if not limits:
        return list(command)
    return ["/bin/sh", "-c", " && ".join([*limits, 'exec "$@"']), "sh", *command]
