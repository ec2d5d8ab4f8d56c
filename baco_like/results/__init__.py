"""Recorded results: one table (`Recording`), read from and written to the formats of several tools."""

from baco_like.results.formats import FORMATS, read, write
from baco_like.results.recording import Recording, recorded_trials

__all__ = ["FORMATS", "Recording", "read", "recorded_trials", "write"]
