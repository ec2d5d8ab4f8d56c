r"""A persistent process that answers requests, and may crash, hang or flood its output.

Evaluators whose start is expensive (a JIT, a GPU context) work in such a process instead of one process per evaluation.
Write two functions in a module that can be imported::

    def serve(settings):                     # once per process; settings are any JSON value
        device = open_device(settings["platform"])

        def handle(request, report):         # once per request; request and answer are JSON values
            report.stage("compile", limit=60.0)      # seconds for this stage, from now on
            program = device.build(request["source"])
            report.stage("run", limit=10.0)
            for _ in range(request["repeats"]):
                report.note(program.run())           # kept even if the next run crashes
            return {"registers": program.registers}

        return handle

and in the evaluator::

    worker = Worker("package.module:serve", settings={"platform": "..."}, memory=4 << 30)
    reply = worker.request({"source": "...", "repeats": 5}, timeout=60.0)
    if reply.ok:
        Outcome.success(trial.id, reply.notes, extra={"seconds": reply.seconds})
    else:
        reply.failure(trial.id)              # failure word by stage; message with signal, limit or error
    ...
    worker.close()

The process starts with the first request, and again with the first request after it has ended. An exception of the
handler is an answer too (`Reply.error`), and the process continues. An exit, a signal or a limit ends the process with
its whole group. The ends of its standard output and standard error are kept in `Reply.output`. Its temporary files go
to a folder (``TMPDIR``) that is removed with the process. Nothing is pickled, and no message is trusted: a line that is
not a message of this protocol ends the process, and ``check=`` does the same for answers of another form.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes import group, guardian
from baco_like.evaluators._processes.exchange import Channel, Reply
from baco_like.evaluators._processes.process import restrict_cpus
from baco_like.evaluators._processes.temporary import LazyFolder
from baco_like.exceptions import EvaluatorError

_START_TIMEOUT = 120.0
"""Limit of the start in seconds: the imports and the call of ``target``."""

_EXIT_TIMEOUT = 2.0
"""Seconds that an idle process has to end on its own when it is closed."""

_BOOT = (
    "import sys; sys.path[:] = sys.argv[3].split('\\n'); "
    "from baco_like.evaluators._processes.worker_main import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4]))"
)
"""Program of the process. Its arguments are the two descriptors, this process's import path and the mark."""


class Worker:
    """One process that answers requests, one at a time; threads may share it.

    Args:
        target: ``package.module:function``; the function gets the settings and returns the handler, see above.
        settings: Any JSON value.
        memory: Limit of the address space in bytes. Python's own memory counts, so allow a gigabyte more than the
            kernels need. Not for CUDA, which reserves far more than it uses.
        environment: Variables in addition to the ones of this process.
        folder: Working directory; by default the one of this process.
        cpus: Numbers of the CPUs that it may use; None for the CPUs of this process.
    """

    def __init__(
        self,
        target: str,
        *,
        settings: Any = None,
        memory: int | None = None,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        cpus: frozenset[int] | None = None,
    ) -> None:
        self._opening = {"target": target, "settings": settings, "memory": memory}
        self._environment, self._folder, self._cpus = dict(environment or {}), folder, cpus
        self._lock = threading.Lock()  # held during a request; `kill` must work without it
        self._process: _WorkerProcess | None = None
        self.starts = 0  # number of processes started so far

    def request(
        self, request: Any, *, timeout: float, check: Callable[[Reply], object] | None = None
    ) -> Reply:
        """Send a request and wait for the reply; starts the process if it is not running.

        Args:
            request: Any JSON value.
            timeout: Seconds until the handler answers or enters a stage with its own limit.
            check: Raises a `ValueError`, `TypeError`, `LookupError`, `AttributeError` or `ArithmeticError` if the value
                or the notes are not of the expected form. A kernel may write such messages into the pipe; the process
                is then ended, and the reply says why.

        Raises:
            EvaluatorError: The process cannot be started, or its target raises or dies before any request.
        """
        with self._lock:
            try:
                reply = self._ensure_started().channel.ask(request, timeout)
                if check is not None:
                    _apply_check(check, reply)
            except BaseException:  # Ctrl-C, too: the next request must not read this one's reply
                self._end()
                raise
            if reply.ended is not None:
                self._end()
            return reply

    def kill(self) -> None:
        """Kill the process, also while another thread waits for its reply, which then reports SIGKILL."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process with its children and temporary files; the next request starts another.

        If another thread waits for a reply, the process is killed.
        """
        if self._lock.locked():
            self.kill()
        with self._lock:
            if self._process is not None:
                self._process.wait_for_exit()
            self._end()

    def _ensure_started(self) -> _WorkerProcess:
        if self._process is not None and not self._process.is_alive:
            self._end()  # it died between two requests
        if self._process is None:
            with group.delayed_signals():
                self._process = _WorkerProcess(self._environment, self._folder, self._cpus)
            self.starts += 1
            reply = self._process.channel.ask(self._opening, _START_TIMEOUT)
            if not reply.ok:
                target = self._opening["target"]
                raise EvaluatorError(f"the worker {target!r} does not start: {reply.describe()}")
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process = None


def _apply_check(check: Callable[[Reply], object], reply: Reply) -> None:
    try:
        check(reply)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        reply.reject(" ".join(f"{type(error).__name__}: {error}".split())[:300])


class _WorkerProcess:
    """A started process."""

    def __init__(
        self, environment: Mapping[str, str], workdir: Path | None, cpus: frozenset[int] | None
    ) -> None:
        folder, mark, owner = LazyFolder(), group.new_mark(), os.getpid()
        child_requests, requests = os.pipe()
        replies, child_replies = os.pipe()
        ends, number = (child_requests, child_replies), str(group.mark_number(mark))
        try:
            variables = {"TMPDIR": str(folder.path), **environment, **group.mark_variable(mark)}
            with restrict_cpus(cpus):
                child = subprocess.Popen(
                    [sys.executable, "-c", _BOOT, *map(str, ends), "\n".join(sys.path), number],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd=workdir,
                    env={**os.environ, **variables},
                    pass_fds=ends,
                    start_new_session=True,
                )
        except BaseException:
            os.close(requests)
            os.close(replies)
            folder.close()
            raise
        finally:
            # If this process kept the child's ends open, it would never see the end of the pipes.
            for descriptor in ends:
                os.close(descriptor)
        for descriptor in (requests, replies):
            os.set_blocking(descriptor, False)
        guard = contextlib.ExitStack()
        guard.enter_context(guardian.guard(child.pid, group.mark_number(mark)))
        channel = Channel(child, requests, replies)

        def clean_up() -> None:
            """End the process with its group, and remove its folder."""
            if os.getpid() != owner:  # a fork has copies, but the process belongs to its parent
                return
            group.signal_group(child, signal.SIGKILL)
            group.kill_marked(mark, since=child.pid)
            group.reap(child)
            guard.close()
            channel.close()
            folder.close()

        # `kill` may come from another thread at any time. Once the child is reaped, its number may belong to another
        # process, so that the two must not overlap.
        self._reap_lock = threading.Lock()
        self._child, self.channel = child, channel
        # Also called when this object is garbage or Python ends; `clean_up` must not refer to it.
        self._finalizer = weakref.finalize(self, clean_up)

    @property
    def is_alive(self) -> bool:
        return not group.has_ended(self._child)

    def wait_for_exit(self) -> None:
        """Tell an idle process to end, and wait for it a short time."""
        self.channel.end_requests()
        deadline = time.monotonic() + _EXIT_TIMEOUT
        while self.is_alive and time.monotonic() < deadline:
            time.sleep(0.002)

    def kill(self) -> None:
        """Kill the group."""
        with self._reap_lock:
            group.signal_group(self._child, signal.SIGKILL)

    def end(self) -> None:
        """Kill the group, close the pipes and remove the temporary files."""
        with self._reap_lock:
            self._finalizer()
