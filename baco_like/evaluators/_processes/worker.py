r"""A persistent process that answers requests, and may crash, hang or flood while it does so.

Evaluators whose start is dear (a JIT, a GPU context) do their work in one such process instead of one per evaluation.
Write two functions in a module that can be imported::

    def serve(settings):                     # once per process; settings are any JSON value
        device = open_device(settings["platform"])

        def handle(request, report):         # once per request; request and answer are JSON values
            report.stage("compile", limit=60.0)      # seconds for this stage, from now on
            program = device.build(request["source"])
            report.stage("run", limit=10.0)
            for _ in range(request["repeats"]):
                report.note(program.run())           # kept even if the next one crashes
            return {"registers": program.registers}

        return handle

and in the evaluator::

    worker = Worker("package.module:serve", settings={"platform": "..."}, memory=4 << 30)
    reply = worker.request({"source": "...", "repeats": 5}, timeout=60.0)
    if reply.ok:
        Outcome.success(trial.id, reply.notes, extra={"seconds": reply.seconds})
    else:
        reply.failure(trial.id)              # the word by stage, the message with signal, limit or error
    ...
    worker.close()

The process starts with the first request, and again with the first one after it has ended, whatever ended it. What the
handler raises is an answer too (`Reply.error`), after which the process goes on; exiting, a signal or a limit ends it
with its whole group. Standard output and standard error of the process are its own: their ends are kept in
`Reply.said`. Temporary files go to a folder (``TMPDIR``) that is removed with the process. Nothing is pickled.
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
from baco_like.evaluators._processes.exchange import Channel, Exchange
from baco_like.evaluators._processes.pinning import pinned
from baco_like.evaluators._processes.workplace import Workplace
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome

STAGE_WORDS: Mapping[str, str] = {"compile": "compile", "check": "correctness"}
"""Failure words by stage; in any other stage a failure is ``runtime``."""

_MESSAGE_LENGTH = 4000
"""Characters kept of what a handler has raised; compilers may print megabytes."""

_PARTING = 2.0
"""Seconds that an idle process has to end by itself when it is closed."""

_BOOT = (
    "import sys; sys.path[:] = sys.argv[3].split('\\n'); "
    "from baco_like.evaluators._processes.worker_main import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


@dataclass(frozen=True)
class Reply:
    """What came of a request.

    Attributes:
        value: What the handler has returned, if it has.
        error: Class and message of what it has raised, such as ``halide.HalideError: ...``, or None.
        ended: How the process ended instead of answering: a signal's name, ``exit code 3``, a limit; or None.
        timed_out: Whether it was ended because a stage's time was over.
        stage: The stage it was in at the end; ``start`` before the handler has named one.
        seconds: Wall time by stage.
        notes: What the handler has noted, in order.
        said: What the process wrote to standard output and standard error meanwhile, the ends of it.
        place: File and line where the handler has raised, if it has.
    """

    value: Any
    error: str | None
    ended: str | None
    timed_out: bool
    stage: str
    seconds: Mapping[str, float]
    notes: tuple[Any, ...]
    said: str
    place: str = ""

    @property
    def ok(self) -> bool:
        """Whether the handler has returned."""
        return self.error is None and self.ended is None

    def describe(self) -> str:
        """Return the stage, what happened, and the last line that the process wrote if it died.

        It is one line, unless the handler has raised a message of several.
        """
        if self.error is not None:
            return f"{self.stage}: {self.error[:_MESSAGE_LENGTH]}"
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        last = f": {lines[-1][:300]}" if self.ended is not None and lines else ""
        return f"{self.stage}: {self.ended or 'done'}{last}"

    def failure(self, trial_id: int, words: Mapping[str, str] = STAGE_WORDS) -> Outcome:
        """Return the failed outcome of a request that is not `ok`.

        Args:
            trial_id: Which trial.
            words: Failure words by stage; ``timeout`` where a stage's time was over.
        """
        word = "timeout" if self.timed_out else words.get(self.stage, "runtime")
        extra: dict[str, Any] = {"seconds": dict(self.seconds)}
        repeats = [note for note in self.notes if isinstance(note, float)]
        if repeats:
            extra["repeats"] = repeats
        return Outcome.failure(trial_id, word, self.describe(), extra=extra)


def _reply(exchange: Exchange) -> Reply:
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
        said=exchange.said.text(),
        place="" if error is None else error.get("place", ""),
    )


class Worker:
    """One process that answers requests, one at a time; threads may share it.

    Args:
        target: ``package.module:function``; the function gets the settings and returns the handler, see above.
        settings: Any JSON value.
        memory: Limit of its address space in bytes. What the process needs by itself counts, so leave a gigabyte more
            than the kernels may have; not for CUDA, which reserves far more than it uses.
        environment: Variables to set beside the caller's own.
        folder: Where it runs; by default where the caller runs.
        cpus: The CPUs that it may use; None: those of the caller.
        start_timeout: Seconds for its start: the imports and the call of ``target``.
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
        self._plan = _Plan(target, settings, memory, dict(environment or {}), folder, cpus)
        self._start_timeout = start_timeout
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._starts = 0

    @property
    def starts(self) -> int:
        """How many processes have been started so far."""
        return self._starts

    def request(self, request: Any, *, timeout: float) -> Reply:
        """Send a request and wait for what comes of it; starts the process where none runs.

        Args:
            request: Any JSON value.
            timeout: Seconds until the handler answers or enters a stage with a limit of its own.

        Raises:
            EvaluatorError: The process cannot be started, or its target raises or dies before any request.
        """
        with self._lock:
            running = self._started()
            try:
                reply = _reply(running.channel.ask(request, timeout))
            except BaseException:
                self._end()
                raise
            if reply.ended is not None:
                self._end()
            return reply

    def kill(self) -> None:
        """End the process at once, also while another thread waits for its reply, which tells of SIGKILL then."""
        running = self._running
        if running is not None:
            running.kill()

    def close(self) -> None:
        """End the process, with its children and its temporary files; the next request starts another."""
        with self._lock:
            if self._running is not None:
                self._running.part()
            self._end()

    def _started(self) -> _Running:
        if self._running is not None and not self._running.alive:
            self._end()  # it died between two requests
        if self._running is None:
            self._running = _Running(self._plan)
            self._starts += 1
            try:
                self._open(self._running)
            except BaseException:
                self._end()
                raise
        return self._running

    def _open(self, running: _Running) -> None:
        plan = self._plan
        opening = {"target": plan.target, "settings": plan.settings, "memory": plan.memory}
        reply = _reply(running.channel.ask(opening, self._start_timeout))
        if not reply.ok:
            raise EvaluatorError(f"the worker {plan.target!r} does not start: {reply.describe()}")

    def _end(self) -> None:
        if self._running is not None:
            self._running.end()
        self._running = None


@dataclass(frozen=True)
class _Plan:
    target: str
    settings: Any
    memory: int | None
    environment: Mapping[str, str]
    folder: Path | None
    cpus: frozenset[int] | None


class _Running:
    """A process that has been started."""

    def __init__(self, plan: _Plan) -> None:
        workplace, mark = Workplace(), group.new_mark()
        theirs, requests = os.pipe()
        replies, answers = os.pipe()
        try:
            with pinned(plan.cpus):
                child = _process(plan, (theirs, answers), str(workplace.folder), mark)
        except BaseException:
            os.close(requests)
            os.close(replies)
            workplace.close()
            raise
        finally:
            os.close(theirs)
            os.close(answers)
        for descriptor in (requests, replies):
            os.set_blocking(descriptor, False)
        guard = contextlib.ExitStack()
        guard.enter_context(guardian.guarded(child.pid))
        self._reaping = threading.Lock()  # the number of what is reaped may be another's
        self._child, self.channel = child, Channel(child, requests, replies)
        self._finalizer = weakref.finalize(
            self, _ended, child, mark, self.channel, guard, workplace, os.getpid()
        )

    @property
    def alive(self) -> bool:
        return not group.has_ended(self._child)

    def part(self) -> None:
        """Let an idle process end by itself, for a moment."""
        self.channel.end_of_requests()
        deadline = time.monotonic() + _PARTING
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.002)

    def kill(self) -> None:
        """Kill the group."""
        with self._reaping:
            group.signal_group(self._child, signal.SIGKILL)

    def end(self) -> None:
        """Kill the group, and remove what was made."""
        with self._reaping:
            self._finalizer()


def _process(
    plan: _Plan, descriptors: tuple[int, int], temporary: str, mark: str
) -> subprocess.Popen[bytes]:
    theirs, answers = descriptors
    own = {"TMPDIR": temporary, **plan.environment, **group.marked(mark)}
    return subprocess.Popen(
        [sys.executable, "-c", _BOOT, str(theirs), str(answers), "\n".join(sys.path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=plan.folder,
        env={**os.environ, **own},
        pass_fds=descriptors,
        start_new_session=True,
    )


def _ended(
    child: subprocess.Popen[bytes],
    mark: str,
    channel: Channel,
    guard: contextlib.ExitStack,
    workplace: Workplace,
    owner: int,
) -> None:
    if os.getpid() != owner:  # a fork of the caller, which has copies of all this
        return
    group.signal_group(child, signal.SIGKILL)
    group.kill_marked(mark, since=child.pid)
    group.reap(child)
    guard.close()
    channel.close()
    workplace.close()
