"""The process behind a `Worker`: it reads requests, calls the handler and writes replies.

Requests and replies are JSON objects, one per line, over two pipes that nothing else uses: standard output belongs to
the kernels. The first line names the target to serve. This module imports only the standard library, so that a restart
costs no more than the imports of the target.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import IO, Any

Handler = Callable[[Any, "Report"], Any]


class Report:
    """Lets a handler report its progress; the other side gets it at once, so that a crash does not lose it.

    Attributes:
        number: Number of the request.
    """

    def __init__(self, replies: IO[bytes], number: int) -> None:
        self._replies = replies
        self.number = number

    def stage(self, name: str, limit: float | None = None) -> None:
        """Enter a stage, such as ``compile``, ``run`` or ``check``.

        Args:
            name: Name under which its seconds are recorded; the seconds of repeated stages are added.
            limit: Limit of the stage in seconds, from now on; None keeps the present deadline.
        """
        self.send({"stage": name, "limit": limit})

    def note(self, value: Any) -> None:
        """Record a JSON value, such as a measured repeat."""
        self.send({"note": value})

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a line.

        Raises:
            TypeError, ValueError: The message is not JSON: it holds an object, NaN or an infinity.
        """
        fields = {"number": self.number, "at": time.perf_counter(), **message}
        line = json.dumps(fields, allow_nan=False)
        self._replies.write(line.encode("ascii") + b"\n")
        self._replies.flush()


_FILE_LOCKS = 10
"""RLIMIT_LOCKS of Linux, which the module `resource` does not name."""


def main(requests: int, replies: int, mark: int) -> None:
    """Serve until the pipe of requests ends.

    Args:
        requests: Descriptor to read from.
        replies: Descriptor to write to.
        mark: The soft limit of file locks by which its parent finds what this process leaves behind.
    """
    if sys.platform == "linux":
        # It fails if an administrator has set a lower hard limit.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(_FILE_LOCKS, (mark, resource.getrlimit(_FILE_LOCKS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # Children of the handler must not hold the pipes open after this process has ended.
    for descriptor in (requests, replies):
        os.set_inheritable(descriptor, False)
    with os.fdopen(requests, "rb") as lines, os.fdopen(replies, "wb") as out:
        opening = json.loads(lines.readline())
        report = Report(out, opening["number"])
        try:
            handler = _open(**opening["content"])
        except Exception as error:
            return report.send({"error": describe_error(error)})
        report.send({"answer": None})
        for line in lines:
            request = json.loads(line)
            report = Report(out, request["number"])
            try:
                report.send({"answer": handler(request["content"], report)})
            except Exception as error:
                report.send({"error": describe_error(error)})


def _open(target: str, settings: Any, memory: int | None) -> Handler:
    """Set the limit of memory and return the target's handler."""
    if memory is not None:
        limit_memory(memory)
    module, _, name = target.partition(":")
    handler: Handler = getattr(importlib.import_module(module), name)(settings)
    return handler


def limit_memory(memory: int) -> None:
    """Limit the memory of this process to so many bytes."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = memory if hard == resource.RLIM_INFINITY else min(memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def serve_search(settings: Any) -> Handler:
    """Return the handler of requests ``[pattern, text]``: the last match that is not empty and its groups, or None.

    A pattern such as ``.*`` also matches the empty text at the end of a line.
    """

    def find(request: Any, report: Report) -> Any:
        pattern, text = request
        last = None
        for match in re.finditer(pattern, text, re.MULTILINE):
            last = match if match[0] else last
        return last and [last[0], *last.groups()]

    return find


def describe_error(error: Exception) -> dict[str, str]:
    """Return an exception's class (with its top-level package), its message, and where it was raised."""
    kind = type(error)
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "kind": f"{kind.__module__.split('.')[0]}.{kind.__name__}",
        "message": str(error),
        "place": f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "",
    }
