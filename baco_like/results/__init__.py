"""Recorded results: one table (`Recording`), read from and written to the formats of several tools."""

from baco_like.results.formats import read, write
from baco_like.results.recording import Recording

__all__ = ["Recording", "read", "write"]
