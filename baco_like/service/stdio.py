"""``baco-like serve --json``: requests on standard input, answers on standard output, one line each."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from baco_like._output import open_protocol_streams
from baco_like.service.runs import Runs


class Answering(Protocol):
    """Answers messages."""

    runs: Runs

    def answer(self, line: bytes) -> bytes | None:
        """Return the answer to a message, or None for a message that gets none."""


def serve_stdio(service: Answering) -> None:
    """Answer the lines of standard input until it ends; standard output has the answers and nothing else."""
    with open_protocol_streams() as (incoming, outgoing):
        serve_lines(service, incoming.buffer, outgoing.buffer)


def serve_lines(service: Answering, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Answer lines until they end, or until the reader of the answers has gone.

    A line without an end is cut off, such as the last line of a client that was killed, and gets no answer.
    """
    most = service.runs.limits.most_bytes
    while line := incoming.readline(most + 2):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = incoming.readline(most)
        if not rest:
            return
        if not (line := line.rstrip(b"\r\n")):
            continue
        try:
            if (answer := service.answer(line)) is not None:
                outgoing.write(answer + b"\n")
                outgoing.flush()
        except OSError:
            return
