"""The beginning and the end of an output of any length."""

from __future__ import annotations

KEPT_BYTES = 1 << 20
"""How much of an output is kept; the beginning and the end, a half each."""


class Kept:
    """Takes an output chunk by chunk; its memory does not grow with the output."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """Take the next chunk."""
        half = KEPT_BYTES // 2
        room = half - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * half:
            self._dropped += len(self._tail) - half
            del self._tail[:-half]

    def text(self) -> str:
        """Return what is kept; invalid UTF-8 is replaced, and a line says how much was left out."""
        gap = f"\n[{self._dropped} bytes left out]\n".encode() if self._dropped else b""
        return bytes(self._head + gap + self._tail).decode("utf-8", errors="replace")
