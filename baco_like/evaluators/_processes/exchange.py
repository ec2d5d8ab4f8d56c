"""Requests and replies over pipes to a process that may die, hang or flood its output at any moment.

Every line is one JSON object with the number of its request. A thread of the process may still write after its request
was answered; by the number such a line is not taken for a part of the next reply.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import selectors
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baco_like._checks import is_whole
from baco_like.evaluators._processes import group
from baco_like.evaluators._processes.process import OutputBuffer
from baco_like.records.reading import finite_number
from baco_like.records.trial import Outcome

_MAX_REPLY = 64 << 20
"""Bytes of all messages of one request; a process that writes more is ended."""

_WORD_LENGTH = _MAX_STAGES = 100
"""Longest name of a stage in characters, and the largest number of names; the journal keeps the seconds of each."""

START = "start"
"""The stage before the first named stage; its time counts only if no other stage follows."""

STAGE_WORDS: Mapping[str, str] = {"compile": "compile", "check": "correctness"}
"""Failure words by stage; a failure in any other stage is ``runtime``."""

_MESSAGE_LENGTH = 4000
"""Characters kept of a handler's exception; compilers may print megabytes."""

_CHUNK = 1 << 16


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
            return f"{self.stage}: {self.error[:_MESSAGE_LENGTH]}"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        last = f": {lines[-1][:300]}" if self.ended is not None and lines else ""
        return f"{self.stage}: {self.ended or 'done'}{last}"

    def reject(self, problem: str) -> None:
        """Drop the value and the notes because they are not of the expected form; the process has to end."""
        self.value, self.error, self.notes, self.place = None, None, (), ""
        self.ended = describe_invalid(problem)

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


def describe_invalid(problem: str) -> str:
    """Return how a process has ended that did not keep to the protocol."""
    return f"it wrote something else than an answer into its pipe ({problem})"


def read_message(line: bytes) -> dict[str, Any]:
    """Return the message in a line, one of those that `worker_main` writes.

    A kernel may write into the pipe, by a bug or on purpose, so no message is trusted: names and types are as expected,
    and all numbers are finite.

    Raises:
        ValueError: The message is malformed; the text says why.
    """
    try:
        message = json.loads(line, parse_constant=_read_number, parse_float=_read_number)
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    if not isinstance(message, dict):
        raise ValueError("it is not a JSON object")
    kinds = [kind for kind in _CHECKS if kind in message]
    if len(kinds) != 1:
        raise ValueError(f"expected one of the keys {', '.join(_CHECKS)}, not {kinds or 'none'}")
    if not is_whole(message.get("number")):
        raise ValueError("'number' is not the number of a request")
    if finite_number(message.get("at")) is None:
        raise ValueError(f"'at' is not a time: {message.get('at')!r:.80}")
    _CHECKS[kinds[0]](message)
    return message


def _read_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.40} is not a finite number")
    return number


def _check_stage(message: Mapping[str, Any]) -> None:
    stage, limit = message["stage"], message.get("limit")
    if not isinstance(stage, str) or not 0 < len(stage) <= _WORD_LENGTH:
        raise ValueError(
            f"the stage is {stage!r:.80}, not a name of 1 to {_WORD_LENGTH} characters"
        )
    if limit is not None and finite_number(limit) is None:
        raise ValueError(f"the limit of stage {stage!r} is {limit!r:.80}, not a number of seconds")


def _check_error(message: Mapping[str, Any]) -> None:
    error = message["error"]
    parts = error.values() if isinstance(error, dict) else (None,)
    if not all(isinstance(part, str) for part in parts) or not {"kind", "message"} <= set(error):
        raise ValueError(f"the error is {error!r:.80}, not its class and message")


def _accept(message: Mapping[str, Any]) -> None:
    """Accept any JSON value: only the sender of the request knows the form of notes and of the answer."""


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "stage": _check_stage,
    "note": _accept,
    "answer": _accept,
    "error": _check_error,
}
"""The kinds of messages, each with its check."""


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
        child: Its standard output is a pipe.
        requests: Non-blocking descriptor to write to; the channel owns it.
        replies: Non-blocking descriptor to read from; the channel owns it.
    """

    def __init__(self, child: subprocess.Popen[bytes], requests: int, replies: int) -> None:
        assert child.stdout is not None
        self._child, self._requests, self._replies = child, requests, replies
        self._output = child.stdout.fileno()
        os.set_blocking(self._output, False)
        # A kernel that writes into the pipe on purpose cannot guess the number.
        self._first = self._count = secrets.randbits(48)
        self._received = 0
        self._unsent, self._partial = b"", bytearray()

    def ask(self, content: Any, timeout: float) -> Reply:
        """Send a request and read until its answer, the end of the process or the end of the time."""
        self._unsent = json.dumps({"number": self._count, "content": content}).encode() + b"\n"
        exchange = _Exchange(self._count, self._first, timeout)
        self._count, self._received = self._count + 1, len(self._partial)
        with group.end_selector(self._child) as (selector, longest_wait):
            selector.register(self._requests, selectors.EVENT_WRITE, self._send)
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
                if exchange.is_open and group.has_ended(self._child):
                    # Its last lines may still be in the pipe: it wrote them before it ended, and select() came before.
                    self._receive(exchange)
                    if exchange.is_open:
                        exchange.end(group.describe_end(self._child))
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

    def close(self) -> None:
        """Close the pipes."""
        os.close(self._requests)
        os.close(self._replies)
        if self._child.stdout is not None:
            self._child.stdout.close()

    def _send(self, exchange: _Exchange) -> bool:
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
