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
to a folder (``TMPDIR``) that is removed with the process. Nothing is pickled.
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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from baco_like.evaluators._processes import group, guardian
from baco_like.evaluators._processes.exchange import Channel
from baco_like.evaluators._processes.pinning import restrict_cpus
from baco_like.evaluators._processes.temporary import LazyFolder
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome

STAGE_WORDS: Mapping[str, str] = {"compile": "compile", "check": "correctness"}
"""Failure words by stage; a failure in any other stage is ``runtime``."""

_MESSAGE_LENGTH = 4000
"""Characters kept of a handler's exception; compilers may print megabytes."""

_EXIT_TIMEOUT = 2.0
"""Seconds that an idle process has to end on its own when it is closed."""

_BOOT = (
    "import sys; sys.path[:] = sys.argv[3].split('\\n'); "
    "from baco_like.evaluators._processes.worker_main import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
"""Program of the process. Its arguments are the two descriptors and this process's import path."""


@dataclass(frozen=True)
class Reply:
    """The reply to a request.

    Attributes:
        value: The handler's return value.
        error: Class and message of the handler's exception, such as ``halide.HalideError: ...``, or None.
        ended: How the process ended without an answer: a signal's name, ``exit code 3``, a limit; or None.
        timed_out: Whether it was ended because the time of a stage was over.
        stage: The stage at the end; ``start`` before the handler has named one.
        seconds: Wall time by stage.
        notes: The handler's notes, in order.
        output: The ends of the process's standard output and standard error during the request.
        place: File and line where the handler raised its exception.
    """

    value: Any
    error: str | None
    ended: str | None
    timed_out: bool
    stage: str
    seconds: Mapping[str, float]
    notes: tuple[Any, ...]
    output: str
    place: str = ""

    @property
    def ok(self) -> bool:
        """Whether the handler has returned a value."""
        return self.error is None and self.ended is None

    def describe(self) -> str:
        """Return the stage, what happened, and the last line of the output if the process died.

        This is one line, unless the message of an exception has several.
        """
        if self.error is not None:
            return f"{self.stage}: {self.error[:_MESSAGE_LENGTH]}"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        last = f": {lines[-1][:300]}" if self.ended is not None and lines else ""
        return f"{self.stage}: {self.ended or 'done'}{last}"

    def failure(self, trial_id: int, words: Mapping[str, str] = STAGE_WORDS) -> Outcome:
        """Return the failed outcome of a request that is not `ok`.

        Args:
            trial_id: Number of the trial.
            words: Failure words by stage; a stage whose time was over is ``timeout``.
        """
        word = "timeout" if self.timed_out else words.get(self.stage, "runtime")
        extra: dict[str, Any] = {"seconds": dict(self.seconds)}
        repeats = [note for note in self.notes if isinstance(note, float)]
        if repeats:
            extra["repeats"] = repeats
        return Outcome.failure(trial_id, word, self.describe(), extra=extra)


def _ask(channel: Channel, content: Any, timeout: float) -> Reply:
    exchange = channel.ask(content, timeout)
    answer = exchange.answer or {}
    error = answer.get("error")
    return Reply(
        value=answer.get("answer"),
        error=None if error is None else f"{error['kind']}: {error['message']}",
        ended=exchange.ended,
        timed_out=exchange.timed_out,
        stage=exchange.stage,
        seconds=exchange.seconds,
        notes=tuple(exchange.notes),
        output=exchange.output.text(),
        place="" if error is None else error.get("place", ""),
    )


@dataclass(frozen=True)
class _WorkerSettings:
    target: str
    settings: Any
    memory: int | None
    environment: Mapping[str, str]
    folder: Path | None
    cpus: frozenset[int] | None


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
        start_timeout: Limit of the start in seconds: the imports and the call of ``target``.
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
        start_timeout: float = 120.0,
    ) -> None:
        self._settings = _WorkerSettings(
            target, settings, memory, dict(environment or {}), folder, cpus
        )
        self._start_timeout = start_timeout
        self._lock = threading.Lock()  # held during a request; `kill` must work without it
        self._process: _WorkerProcess | None = None
        self._starts = 0

    @property
    def starts(self) -> int:
        """Number of processes started so far."""
        return self._starts

    def request(self, request: Any, *, timeout: float) -> Reply:
        """Send a request and wait for the reply; starts the process if it is not running.

        Args:
            request: Any JSON value.
            timeout: Seconds until the handler answers or enters a stage with its own limit.

        Raises:
            EvaluatorError: The process cannot be started, or its target raises or dies before any request.
        """
        with self._lock:
            process = self._ensure_started()
            try:
                reply = _ask(process.channel, request, timeout)
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
        """End the process with its children and temporary files; the next request starts another."""
        with self._lock:
            if self._process is not None:
                self._process.wait_for_exit()
            self._end()

    def _ensure_started(self) -> _WorkerProcess:
        if self._process is not None and not self._process.is_alive:
            self._end()  # it died between two requests
        if self._process is None:
            self._process = _WorkerProcess(self._settings)
            self._starts += 1
            try:
                self._open(self._process)
            except BaseException:
                self._end()
                raise
        return self._process

    def _open(self, process: _WorkerProcess) -> None:
        """Send the first line, which names the target."""
        settings = self._settings
        opening = {
            "target": settings.target,
            "settings": settings.settings,
            "memory": settings.memory,
        }
        reply = _ask(process.channel, opening, self._start_timeout)
        if not reply.ok:
            raise EvaluatorError(
                f"the worker {settings.target!r} does not start: {reply.describe()}"
            )

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process = None


class _WorkerProcess:
    """A started process."""

    def __init__(self, settings: _WorkerSettings) -> None:
        folder, mark = LazyFolder(), group.new_mark()
        child_requests, requests = os.pipe()
        replies, child_replies = os.pipe()
        try:
            with restrict_cpus(settings.cpus):
                child = _start(settings, (child_requests, child_replies), str(folder.path), mark)
        except BaseException:
            os.close(requests)
            os.close(replies)
            folder.close()
            raise
        finally:
            # If this process kept the child's ends open, it would never see the end of the pipes.
            os.close(child_requests)
            os.close(child_replies)
        for descriptor in (requests, replies):
            os.set_blocking(descriptor, False)
        guard = contextlib.ExitStack()
        guard.enter_context(guardian.guard(child.pid))
        # `kill` may come from another thread at any time. Once the child is reaped, its number may belong to another
        # process, so that the two must not overlap.
        self._reap_lock = threading.Lock()
        self._child, self.channel = child, Channel(child, requests, replies)
        self._finalizer = weakref.finalize(
            self, _clean_up, child, mark, self.channel, guard, folder, os.getpid()
        )

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


def _start(
    settings: _WorkerSettings, descriptors: tuple[int, int], temporary: str, mark: str
) -> subprocess.Popen[bytes]:
    requests, replies = descriptors
    variables = {"TMPDIR": temporary, **settings.environment, **group.mark_variable(mark)}
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT, str(requests), str(replies), "\n".join(sys.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=settings.folder,
        env={**os.environ, **variables},
        pass_fds=descriptors,
        start_new_session=True,
    )


def _clean_up(
    child: subprocess.Popen[bytes],
    mark: str,
    channel: Channel,
    guard: contextlib.ExitStack,
    folder: LazyFolder,
    owner: int,
) -> None:
    """End a process and remove its files; also called when its `_WorkerProcess` is garbage or Python ends."""
    if (
        os.getpid() != owner
    ):  # a fork has copies of these objects, but the process belongs to its parent
        return
    group.signal_group(child, signal.SIGKILL)
    group.kill_marked(mark, since=child.pid)
    group.reap(child)
    guard.close()
    channel.close()
    folder.close()
