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
import json
import math
import os
import secrets
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baco_like._checks import is_whole
from baco_like.evaluators._processes.child import Child, delayed_signals, new_mark
from baco_like.evaluators._processes.process import OutputBuffer
from baco_like.evaluators._processes.temporary import LazyFolder
from baco_like.exceptions import EvaluatorError
from baco_like.records.objective_values import finite_number
from baco_like.records.trial import Outcome

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

_MAX_REPLY = 64 << 20
"""Bytes of all messages of one request; a process that writes more is ended."""

_WORD_LENGTH = _MAX_STAGES = 100
"""Longest name of a stage in characters, and the largest number of names; the journal keeps the seconds of each."""

START = "start"
"""The stage before the first named stage; its time counts only if no other stage follows."""

_STAGE_WORDS: Mapping[str, str] = {"compile": "compile", "check": "correctness"}
"""Failure words by stage; a failure in any other stage is ``runtime``."""

_KINDS = ("stage", "note", "answer", "error")
"""The kinds of messages, by the key that only they have."""

MESSAGE_LENGTH = 4000
"""Characters kept of a handler's exception and of a tool's output; compilers may print megabytes."""

_CHUNK = 1 << 16


class Worker:
    """One process that answers requests, one at a time; threads may share it.

    Args:
        target: ``package.module:function``; the function gets the settings and returns the handler, see above.
        settings: Any JSON value.
        memory: Limit of the address space in bytes. Python's own memory counts, so allow a gigabyte more than the
            kernels need. Not for CUDA, which reserves far more than it uses.
        environment: Variables in addition to the ones of this process. A variable ``TMPDIR`` replaces the folder.
        cpus: Numbers of the CPUs that it may use; None for the CPUs of this process.
    """

    def __init__(
        self,
        target: str,
        *,
        settings: Any = None,
        memory: int | None = None,
        environment: Mapping[str, str] | None = None,
        cpus: frozenset[int] | None = None,
    ) -> None:
        self._opening = {"target": target, "settings": settings, "memory": memory}
        self._environment, self._cpus = dict(environment or {}), cpus
        self._lock = threading.Lock()  # held during a request; `kill` must work without it
        self._channel: Channel | None = None
        self._is_starting = False  # whether the process has yet to say that it can answer
        self.starts = 0  # number of processes started so far

    def start(self) -> None:
        """Start the process if it is not running. Only the next request waits until it can answer."""
        with self._lock:
            self._start()

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
                channel = self._ensure_started()
                channel.send(request)
                reply = channel.wait(timeout)
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
        channel = self._channel
        if channel is not None:
            channel.child.send(signal.SIGKILL)

    def close(self) -> None:
        """End the process with its children and temporary files; the next request starts another.

        If another thread waits for a reply, the process is killed.
        """
        if self._lock.locked():
            self.kill()
        with self._lock:
            if self._channel is not None:
                self._channel.end_requests()
                deadline = time.monotonic() + _EXIT_TIMEOUT
                while not self._channel.child.has_ended and time.monotonic() < deadline:
                    time.sleep(0.002)
            self._end()

    def _ensure_started(self) -> Channel:
        channel = self._start()
        if self._is_starting:
            reply = channel.wait(_START_TIMEOUT)
            self._is_starting = False
            if not reply.ok:
                target = self._opening["target"]
                raise EvaluatorError(f"the worker {target!r} does not start: {reply.describe()}")
        return channel

    def _start(self) -> Channel:
        if self._channel is not None and not self._is_starting and self._channel.child.has_ended:
            self._end()  # it died between two requests
        if self._channel is None:
            with delayed_signals():
                self._channel = _start_process(self._environment, self._cpus)
            self.starts += 1
            self._channel.send(self._opening)
            self._is_starting = True
        return self._channel

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.child.end()
        self._channel, self._is_starting = None, False


def _apply_check(check: Callable[[Reply], object], reply: Reply) -> None:
    try:
        check(reply)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        reply.reject(" ".join(f"{type(error).__name__}: {error}".split())[:300])


def _start_process(environment: Mapping[str, str], cpus: frozenset[int] | None) -> Channel:
    """Start a process, and return the pipes to it."""
    mark, temporary, resources = new_mark(), LazyFolder(), contextlib.ExitStack()
    variables = {"TMPDIR": "", **environment}
    variables["TMPDIR"] = variables["TMPDIR"] or str(temporary.path)
    resources.callback(temporary.close)
    child_requests, requests = os.pipe()
    replies, child_replies = os.pipe()
    for descriptor in (requests, replies):
        os.set_blocking(descriptor, False)
        resources.callback(os.close, descriptor)
    ends = (child_requests, child_replies)
    try:
        child = Child(
            [sys.executable, "-c", _BOOT, *map(str, ends), "\n".join(sys.path), str(mark)],
            mark,
            resources,
            environment=variables,
            cpus=cpus,
            stderr=subprocess.STDOUT,
            pass_fds=ends,
        )
    finally:
        # If this process kept the child's ends open, it would never see the end of the pipes.
        for descriptor in ends:
            os.close(descriptor)
    return Channel(child, requests, replies)


@dataclass
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

    value: Any = None
    error: str | None = None
    ended: str | None = None
    timed_out: bool = False
    stage: str = START
    seconds: dict[str, float] = field(default_factory=dict)
    notes: tuple[Any, ...] = ()
    output: str = ""
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
            return f"{self.stage}: {self.error[:MESSAGE_LENGTH]}"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        last = f": {lines[-1][:300]}" if self.ended is not None and lines else ""
        return f"{self.stage}: {self.ended or 'done'}{last}"

    def reject(self, problem: str) -> None:
        """Drop the value and the notes because they are not of the expected form; the process has to end."""
        self.value, self.error, self.notes, self.place = None, None, (), ""
        self.ended = describe_invalid(problem)

    def failure(self, trial_id: int) -> Outcome:
        """Return the failed outcome of a request that is not `ok`; a stage whose time was over is ``timeout``."""
        word = "timeout" if self.timed_out else _STAGE_WORDS.get(self.stage, "runtime")
        extra: dict[str, Any] = {"seconds": dict(self.seconds)}
        repeats = [note for note in self.notes if isinstance(note, float)]
        if repeats:
            extra["repeats"] = repeats
        return Outcome.failure(trial_id, word, self.describe(), extra=extra)


def describe_invalid(problem: str) -> str:
    """Return how a process has ended that did not keep to the protocol."""
    return f"it wrote something else than an answer into its pipe ({problem})"


def read_message(line: bytes) -> dict[str, Any]:
    """Return the message in a line, one of those that `worker_main` writes.

    A kernel may write into the pipe, by a bug or on purpose, so no message is trusted: names and types are as expected,
    and all numbers are finite. Only the sender of the request knows the form of notes and of the answer.

    Raises:
        ValueError: The message is malformed; the text says why.
    """
    try:
        message = json.loads(line, parse_constant=_read_number, parse_float=_read_number)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("it is not a JSON object")
    kinds = [kind for kind in _KINDS if kind in message]
    if len(kinds) != 1:
        raise ValueError(f"expected one of the keys {', '.join(_KINDS)}, not {kinds or 'none'}")
    if not is_whole(message.get("number")):
        raise ValueError("'number' is not the number of a request")
    if finite_number(message.get("at")) is None:
        raise ValueError(f"'at' is not a time: {message.get('at')!r:.80}")
    if "stage" in message:
        stage, limit = message["stage"], message.get("limit")
        if not isinstance(stage, str) or not 0 < len(stage) <= _WORD_LENGTH:
            raise ValueError(
                f"the stage is {stage!r:.80}, not a name of 1 to {_WORD_LENGTH} characters"
            )
        if limit is not None and finite_number(limit) is None:
            raise ValueError(
                f"the limit of stage {stage!r} is {limit!r:.80}, not a number of seconds"
            )
    if "error" in message:
        error = message["error"]
        parts = error.values() if isinstance(error, dict) else (None,)
        if not all(isinstance(part, str) for part in parts) or not {"kind", "message"} <= set(
            error
        ):
            raise ValueError(f"the error is {error!r:.80}, not its class and message")
    return message


def _read_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.40} is not a finite number")
    return number


class _Exchange:
    """A request and its reply so far.

    Args:
        number: Number of the request.
        first: Number of the first request to this process.
        limit: Limit of the whole request in seconds, until a stage has its own limit.
    """

    def __init__(self, number: int, first: int, limit: float) -> None:
        self.reply, self.is_open = Reply(), True
        self.output, self._notes = OutputBuffer(), list[Any]()
        self._number, self._first, self._limit = number, first, limit
        self._entered = time.perf_counter()
        self._deadline = self._entered + limit

    def remaining(self) -> float:
        """Return the seconds until the deadline, negative after it."""
        return self._deadline - time.perf_counter()

    def end(self, reason: str) -> None:
        """End the exchange without an answer."""
        if self.is_open:
            self._end_stage(time.perf_counter())
        self.reply.ended, self.is_open = reason, False

    def end_late(self) -> None:
        """End the exchange because its time is over."""
        self.reply.timed_out = True
        self.end(f"stopped after {self._limit:.3g} s")

    def read_line(self, line: bytes) -> None:
        """Read one line; lines of earlier requests are ignored."""
        if not self.is_open:
            return
        try:
            message = read_message(line)
        except ValueError as problem:
            self.end(describe_invalid(str(problem)))
            return
        if message["number"] != self._number:
            if not self._first <= message["number"] < self._number:
                self.end(describe_invalid("it has a number that no request had"))
            return
        reply, at = self.reply, float(message["at"])
        if "stage" in message:
            self._end_stage(at)
            reply.stage, limit = message["stage"], message.get("limit")
            reply.seconds.pop(START, None)
            if len(reply.seconds) > _MAX_STAGES:
                self.end(f"it named more than {_MAX_STAGES} stages")
            if limit is not None:
                self._limit, self._deadline = float(limit), self._entered + float(limit)
        elif "note" in message:
            self._notes.append(message["note"])
        else:
            self._end_stage(at)
            self.is_open = False
            reply.value, error = message.get("answer"), message.get("error")
            if error is not None:
                reply.error = f"{error['kind']}: {error['message']}"
                reply.place = error.get("place", "")

    def complete_reply(self) -> Reply:
        """Return the reply, with the notes and the output."""
        self.reply.notes, self.reply.output = tuple(self._notes), self.output.text()
        return self.reply

    def _end_stage(self, at: float) -> None:
        """Add the seconds of the present stage.

        Args:
            at: When the process entered the next stage, by its own clock. Both processes read the same monotonic
                clock, and this one may receive the line late. An impossible time is replaced by the present.
        """
        now = time.perf_counter()
        moment = at if self._entered <= at <= now else now
        seconds, stage = self.reply.seconds, self.reply.stage
        seconds[stage] = seconds.get(stage, 0.0) + moment - self._entered
        self._entered = moment


class Channel:
    """The three pipes of a child: requests to it, replies from it, and its standard output.

    All are non-blocking and are served by one selector. A blocking write could wait forever for a child that does not
    read, while the child waits for this process to empty its output.

    Args:
        child: The process.
        requests: Non-blocking descriptor to write to.
        replies: Non-blocking descriptor to read from.
    """

    def __init__(self, child: Child, requests: int, replies: int) -> None:
        assert child.process.stdout is not None
        self.child, self._requests, self._replies = child, requests, replies
        self._output = child.process.stdout.fileno()
        os.set_blocking(self._output, False)
        # A kernel that writes into the pipe on purpose cannot guess the number.
        self._first = self._count = secrets.randbits(48)
        self._received = 0
        self._unsent, self._partial = b"", bytearray()

    def send(self, content: Any) -> None:
        """Send a request, or as much of it as the pipe accepts at once."""
        self._unsent = json.dumps({"number": self._count, "content": content}).encode() + b"\n"
        self._count, self._received = self._count + 1, len(self._partial)
        self._send_more()

    def wait(self, timeout: float) -> Reply:
        """Read until the answer to the last request, the end of the process or the end of the time."""
        exchange = _Exchange(self._count - 1, self._first, timeout)
        with self.child.end_selector() as (selector, longest_wait):
            selector.register(self._requests, selectors.EVENT_WRITE, self._send_more)
            selector.register(self._replies, selectors.EVENT_READ, self._receive)
            selector.register(self._output, selectors.EVENT_READ, self._read_output)
            while exchange.is_open:
                remaining = exchange.remaining()
                if remaining <= 0:
                    exchange.end_late()
                    break
                for key, _ in selector.select(min(remaining, longest_wait)):
                    if key.data is not None and not key.data(exchange):
                        selector.unregister(key.fd)
                if exchange.is_open and self.child.has_ended:
                    # Its last lines may still be in the pipe: it wrote them before it ended, and select() came before.
                    self._receive(exchange)
                    if exchange.is_open:
                        exchange.end(self.child.describe_end())
        # The output may be endless, so read at most 64 chunks more.
        for _ in range(64):
            if not self._read_output(exchange):
                break
        return exchange.complete_reply()

    def end_requests(self) -> None:
        """Close the pipe of requests, which tells the process to end."""
        # The descriptor's number stays in use until `close`, so that it cannot be given to another file before.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._requests)
        os.close(null)

    def _send_more(self, exchange: _Exchange | None = None) -> bool:
        """Write as much as the pipe accepts; return whether there is more to send."""
        try:
            self._unsent = self._unsent[os.write(self._requests, self._unsent) :]
        except BlockingIOError:
            return True
        except OSError:  # the reader is gone; the end of the process explains why
            return False
        return bool(self._unsent)

    def _receive(self, exchange: _Exchange) -> bool:
        """Read the available replies; return whether more may come."""
        while exchange.is_open:
            chunk = _read(self._replies)
            if not chunk:
                return chunk is None
            self._received += len(chunk)
            if self._received > _MAX_REPLY:
                exchange.end(f"its answer has more than {_MAX_REPLY >> 20} MiB")
                break
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                exchange.read_line(bytes(self._partial) + line)
                self._partial.clear()
            self._partial += rest
        return True

    def _read_output(self, exchange: _Exchange) -> bool:
        """Read a chunk of the standard output; return whether more may come."""
        chunk = _read(self._output)
        exchange.output.add(chunk or b"")
        return chunk != b""


def _read(descriptor: int) -> bytes | None:
    """Return the available bytes, an empty text at the end of the pipe, or None if there are none yet."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None
