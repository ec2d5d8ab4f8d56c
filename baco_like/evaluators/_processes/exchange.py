"""Requests and replies over pipes to a process that may die, hang or flood at any moment.

Every line is one JSON object with the number of the request that it belongs to, so that what a thread of the process
says too late is not taken for a part of the next reply.
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
from baco_like.evaluators._processes.kept import Kept

_LONGEST_LINE = 64 << 20
"""Bytes of a line; a process that writes a longer one is ended."""

_SLICE = 0.02
"""Seconds between two looks at the child where the system cannot tell of its end (no pidfd)."""

START = "start"
"""The stage before the first that is named; its moment counts only where there is no other."""

_CHUNK = 1 << 16


@dataclass
class Exchange:
    """One request and what has come of it so far.

    Attributes:
        number: Of the request.
        stage: The stage that the process is in.
        limit: Seconds of this stage, or of the request where no stage has its own.
        seconds: Wall time by stage.
        notes: What was noted.
        answer: The last line, with the key ``answer`` or ``error``.
        ended: Why there will be no answer: how the process has ended, or why it has to be ended.
        timed_out: Whether that is because the time is over.
        said: What the process wrote to its standard output and error.
    """

    number: int
    limit: float
    stage: str = START
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[Any] = field(default_factory=list)
    answer: Mapping[str, Any] | None = None
    ended: str | None = None
    timed_out: bool = False
    said: Kept = field(default_factory=Kept)

    def __post_init__(self) -> None:
        self._entered = time.perf_counter()
        self._deadline = self._entered + self.limit

    @property
    def open(self) -> bool:
        """Whether there is neither an answer nor an end."""
        return self.answer is None and self.ended is None

    def remaining(self) -> float:
        """Return the seconds that are left, below 0 when the time is over."""
        return self._deadline - time.perf_counter()

    def take(self, line: bytes) -> None:
        """Read one line; what belongs to another request is left out."""
        try:
            message = json.loads(line)
            number, at = message["number"], float(message["at"])
        except (ValueError, TypeError, KeyError, RecursionError):
            self.ended = "it wrote something else than an answer into its pipe"
            return
        if number != self.number or not self.open:
            return
        if "stage" in message:
            self._count(at)
            self._enter(message["stage"], message["limit"])
        elif "note" in message:
            self.notes.append(message["note"])
        else:
            self._count(at)
            self.answer = message

    def close(self) -> None:
        """Stop the clock."""
        if self.answer is None:
            self._count(time.perf_counter())

    def _enter(self, stage: str, limit: float | None) -> None:
        self.stage = stage
        self.seconds.pop(START, None)
        if limit is not None:
            self.limit, self._deadline = limit, self._entered + limit

    def _count(self, told: float) -> None:
        """End the stage; by the word of the process (the clock is the system's), as this one may hear of it late."""
        now = time.perf_counter()
        moment = told if self._entered <= told <= now else now
        self.seconds[self.stage] = self.seconds.get(self.stage, 0.0) + moment - self._entered
        self._entered = moment


class Channel:
    """The three pipes of a child.

    Args:
        child: Its standard output is a pipe.
        requests: Descriptor to write to, not blocking; the channel owns it.
        replies: Descriptor to read from, likewise.
    """

    def __init__(self, child: subprocess.Popen[bytes], requests: int, replies: int) -> None:
        assert child.stdout is not None
        self._child, self._requests, self._replies = child, requests, replies
        self._output = child.stdout.fileno()
        os.set_blocking(self._output, False)
        self._numbers = 0
        self._unsent = self._partial = b""

    def ask(self, content: Any, timeout: float) -> Exchange:
        """Send a request and read until its answer, the end of the process or the end of the time."""
        self._unsent = json.dumps({"number": self._numbers, "content": content}).encode() + b"\n"
        exchange = Exchange(self._numbers, timeout)
        self._numbers += 1
        end = group.end_descriptor(self._child)
        with contextlib.ExitStack() as stack:
            selector = stack.enter_context(selectors.DefaultSelector())
            selector.register(self._requests, selectors.EVENT_WRITE)
            selector.register(self._replies, selectors.EVENT_READ)
            selector.register(self._output, selectors.EVENT_READ)
            if end is not None:
                stack.callback(os.close, end)
                selector.register(end, selectors.EVENT_READ)
            while exchange.open:
                self._step(exchange, selector, told=end is not None)
        self._listen(exchange)
        exchange.close()
        return exchange

    def end_of_requests(self) -> None:
        """Close the pipe of requests, by which the process knows that it may end."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._requests)  # the number stays taken until `close`
        os.close(null)

    def close(self) -> None:
        """Close the pipes."""
        os.close(self._requests)
        os.close(self._replies)
        if self._child.stdout is not None:
            self._child.stdout.close()

    def _step(self, exchange: Exchange, selector: selectors.BaseSelector, told: bool) -> None:
        remaining = exchange.remaining()
        if remaining <= 0:
            exchange.timed_out = True
            exchange.ended = f"stopped after {exchange.limit:.3g} s"
            return
        for key, _ in selector.select(min(remaining, 3600.0 if told else _SLICE)):
            if key.fd == self._requests and self._send():
                selector.unregister(self._requests)
            elif key.fd == self._replies and not self._receive(exchange):
                selector.unregister(self._replies)
            elif key.fd == self._output and not self._listen_once(exchange):
                selector.unregister(self._output)
        if exchange.open and group.has_ended(self._child):
            self._receive(exchange)
            if exchange.open:
                exchange.ended = _how(self._child)

    def _send(self) -> bool:
        """Send what the pipe takes; return whether there is no more to send."""
        try:
            self._unsent = self._unsent[os.write(self._requests, self._unsent) :]
        except BlockingIOError:
            return False
        except OSError:  # nobody reads any more; its end tells why
            self._unsent = b""
        return not self._unsent

    def _receive(self, exchange: Exchange) -> bool:
        """Read what has come; return whether more may come."""
        while exchange.open:
            chunk = _read(self._replies)
            if not chunk:
                return chunk is None
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                exchange.take(self._partial + line)
                self._partial = b""
            self._partial += rest
            if len(self._partial) > _LONGEST_LINE:
                exchange.ended = f"its answer has more than {_LONGEST_LINE >> 20} MiB"
        return True

    def _listen(self, exchange: Exchange) -> None:
        """Read what it has written so far; a flood may go on, so there is an end to this."""
        for _ in range(64):
            if not self._listen_once(exchange):
                return

    def _listen_once(self, exchange: Exchange) -> bool:
        chunk = _read(self._output)
        exchange.said.add(chunk or b"")
        return chunk != b""


def _read(descriptor: int) -> bytes | None:
    """Return what can be read, nothing at the end, or None where nothing is there yet."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


def _how(child: subprocess.Popen[bytes]) -> str:
    """Return how a child that is not reaped yet has ended."""
    status = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    assert status is not None
    if status.si_code == os.CLD_EXITED:
        return f"exit code {status.si_status}"
    return f"ended by {group.signal_name(status.si_status)}"
