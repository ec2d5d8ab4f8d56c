"""The beginning and the end of an output of any length."""

from __future__ import annotations

MAX_BYTES = 1 << 20
"""Bytes kept of an output: half from the beginning, half from the end."""


class OutputBuffer:
    """Collects an output chunk by chunk; its memory does not grow with the output."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Append a chunk."""
        half = MAX_BYTES // 2
        room = half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Cut only when twice too long: cutting after each chunk would copy half a megabyte each time.
        if len(self._tail) > 2 * half:
            self._dropped += len(self._tail) - half
            del self._tail[:-half]

    def text(self) -> str:
        """Return the kept text; invalid UTF-8 is replaced, and a line says how many bytes were left out."""
        gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", errors="replace")
