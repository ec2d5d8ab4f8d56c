"""The process behind a `Worker`: it reads requests, calls the handler and writes replies.

One JSON object a line, over two pipes of its own: standard output belongs to the kernels. The first line says what to
serve. It imports nothing but the standard library, so that a restart costs what the target's imports cost.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import time
import traceback
from collections.abc import Callable, Mapping
from typing import IO, Any

Handler = Callable[[Any, "Report"], Any]


class Report:
    """How a handler tells what it does; the caller gets it at once, so a crash does not take it along."""

    def __init__(self, replies: IO[bytes], number: int) -> None:
        self._replies = replies
        self._number = number

    def stage(self, name: str, limit: float | None = None) -> None:
        """Enter a stage, such as ``compile``, ``run`` or ``check``.

        Args:
            name: What its seconds are recorded under; a stage that is entered again goes on counting.
            limit: Seconds that it may take, from now on; None leaves the time that is left.
        """
        self.send({"stage": name, "limit": limit})

    def note(self, value: Any) -> None:
        """Keep a JSON value, such as a repeat that is measured, even if the process dies afterwards."""
        self.send({"note": value})

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a line."""
        line = json.dumps({"number": self._number, "at": time.perf_counter(), **message})
        self._replies.write(line.encode("ascii") + b"\n")
        self._replies.flush()


def main(requests: int, replies: int) -> None:
    """Serve until the pipe of requests ends."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    for number in (requests, replies):
        os.set_inheritable(number, False)
    with os.fdopen(requests, "rb") as lines, os.fdopen(replies, "wb") as out:
        opening = json.loads(lines.readline())
        report = Report(out, opening["number"])
        try:
            handler = _opened(**opening["content"])
        except Exception as error:
            return report.send({"error": told(error)})
        report.send({"answer": None})
        for line in lines:
            request = json.loads(line)
            _answer(handler, request["content"], Report(out, request["number"]))


def _limit_memory(size: int | None) -> None:
    if size is not None:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _opened(target: str, settings: Any, memory: int | None) -> Handler:
    """Return the target's handler."""
    _limit_memory(memory)
    module, _, name = target.partition(":")
    handler: Handler = getattr(importlib.import_module(module), name)(settings)
    return handler


def _answer(handler: Handler, request: Any, report: Report) -> None:
    try:
        report.send({"answer": handler(request, report)})
    except Exception as error:
        report.send({"error": told(error)})


def told(error: Exception) -> dict[str, str]:
    """Return what is told of an exception: its class, with the package it comes from, its message and its place."""
    kind = type(error)
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "kind": f"{kind.__module__.split('.')[0]}.{kind.__name__}",
        "message": str(error),
        "place": f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "",
    }
