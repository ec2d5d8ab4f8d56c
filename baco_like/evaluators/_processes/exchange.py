"""Requests and replies over pipes to a process that may die, hang or flood its output at any moment.

Every line is one JSON object with the number of its request. A thread of the process may still write after its request
was answered; by the number such a line is not taken for a part of the next reply.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from baco_like.evaluators._processes import group
from baco_like.evaluators._processes.output import OutputBuffer

_MAX_LINE = 64 << 20
"""Bytes of a line; a process that writes a longer line is ended."""

_POLL_INTERVAL = 0.02
"""Seconds between two checks of the child on systems whose selectors cannot wait for its end (no pidfd)."""

START = "start"
"""The stage before the first named stage; its time counts only if no other stage follows."""

_CHUNK = 1 << 16


@dataclass
class Exchange:
    """A request and its reply so far.

    Attributes:
        number: Number of the request.
        limit: Limit of the present stage in seconds, or of the whole request if no stage has its own limit.
        stage: The present stage.
        seconds: Wall time by stage.
        notes: Recorded notes.
        answer: The last line, with the key ``answer`` or ``error``.
        ended: Why there is no answer: how the process has ended, or why it has to be ended.
        timed_out: Whether there is no answer because the time is over.
        output: Standard output and error of the process.
    """

    number: int
    limit: float
    stage: str = START
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[Any] = field(default_factory=list)
    answer: Mapping[str, Any] | None = None
    ended: str | None = None
    timed_out: bool = False
    output: OutputBuffer = field(default_factory=OutputBuffer)

    def __post_init__(self) -> None:
        self._entered = time.perf_counter()
        self._deadline = self._entered + self.limit

    @property
    def is_open(self) -> bool:
        """Whether there is neither an answer nor an end yet."""
        return self.answer is None and self.ended is None

    def remaining(self) -> float:
        """Return the seconds until the deadline, negative after it."""
        return self._deadline - time.perf_counter()

    def read_line(self, line: bytes) -> None:
        """Read one line; lines of other requests are ignored."""
        try:
            message = json.loads(line)
            number, at = message["number"], float(message["at"])
        except (ValueError, TypeError, KeyError, RecursionError):
            self.ended = "it wrote something else than an answer into its pipe"
            return
        if number != self.number or not self.is_open:
            return
        if "stage" in message:
            self._end_stage(at)
            self._enter(message["stage"], message["limit"])
        elif "note" in message:
            self.notes.append(message["note"])
        else:
            self._end_stage(at)
            self.answer = message

    def close(self) -> None:
        """Stop the clock."""
        if self.answer is None:
            self._end_stage(time.perf_counter())

    def _enter(self, stage: str, limit: float | None) -> None:
        self.stage = stage
        self.seconds.pop(START, None)
        if limit is not None:
            self.limit, self._deadline = limit, self._entered + limit

    def _end_stage(self, at: float) -> None:
        """Add the seconds of the present stage.

        Args:
            at: When the process entered the next stage, by its own clock. Both processes read the same monotonic
                clock, and this one may receive the line late. An impossible time is replaced by the present.
        """
        now = time.perf_counter()
        moment = at if self._entered <= at <= now else now
        self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + moment - self._entered
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
        self._count = 0
        self._unsent = self._partial = b""

    def ask(self, content: Any, timeout: float) -> Exchange:
        """Send a request and read until its answer, the end of the process or the end of the time."""
        self._unsent = json.dumps({"number": self._count, "content": content}).encode() + b"\n"
        exchange = Exchange(self._count, timeout)
        self._count += 1
        end = group.end_descriptor(self._child)
        with contextlib.ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            selector.register(self._requests, selectors.EVENT_WRITE)
            selector.register(self._replies, selectors.EVENT_READ)
            selector.register(self._output, selectors.EVENT_READ)
            if end is not None:
                stack.callback(os.close, end)
                selector.register(end, selectors.EVENT_READ)
            longest_wait = _POLL_INTERVAL if end is None else 3600.0
            while exchange.is_open:
                self._step(exchange, selector, longest_wait)
        # The output may be endless, so read at most 64 chunks more.
        for _ in range(64):
            if not self._read_output(exchange):
                break
        exchange.close()
        return exchange

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

    def _step(
        self, exchange: Exchange, selector: selectors.BaseSelector, longest_wait: float
    ) -> None:
        """Wait for the next event and handle it."""
        remaining = exchange.remaining()
        if remaining <= 0:
            exchange.timed_out = True
            exchange.ended = f"stopped after {exchange.limit:.3g} s"
            return
        for key, _ in selector.select(min(remaining, longest_wait)):
            if key.fd == self._requests and self._send():
                selector.unregister(self._requests)
            elif key.fd == self._replies and not self._receive(exchange):
                selector.unregister(self._replies)
            elif key.fd == self._output and not self._read_output(exchange):
                selector.unregister(self._output)
        if exchange.is_open and group.has_ended(self._child):
            # Its last lines may still be in the pipe: it wrote them before it ended, and select() came before.
            self._receive(exchange)
            if exchange.is_open:
                exchange.ended = _describe_end(self._child)

    def _send(self) -> bool:
        """Write as much as the pipe accepts; return whether the request is sent completely."""
        try:
            self._unsent = self._unsent[os.write(self._requests, self._unsent) :]
        except BlockingIOError:
            return False
        except OSError:  # the reader is gone; the end of the process explains why
            self._unsent = b""
        return not self._unsent

    def _receive(self, exchange: Exchange) -> bool:
        """Read the available replies; return whether more may come."""
        while exchange.is_open:
            chunk = _read(self._replies)
            if not chunk:
                return chunk is None
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                exchange.read_line(self._partial + line)
                self._partial = b""
            self._partial += rest
            if len(self._partial) > _MAX_LINE:
                exchange.ended = f"its answer has more than {_MAX_LINE >> 20} MiB"
        return True

    def _read_output(self, exchange: Exchange) -> bool:
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


def _describe_end(child: subprocess.Popen[bytes]) -> str:
    """Return how a child that is not reaped yet has ended."""
    status = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    assert status is not None
    if status.si_code == os.CLD_EXITED:
        return f"exit code {status.si_status}"
    return f"ended by {group.signal_name(status.si_status)}"
