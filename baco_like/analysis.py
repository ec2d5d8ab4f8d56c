"""Deprecated name of `baco_like.benchmarking`; removed in the release after 0.1."""

import warnings

from baco_like.benchmarking import landscape, score

__all__ = ["landscape", "score"]

message = "baco_like.analysis is now baco_like.benchmarking; import score and landscape there"
warnings.warn(message, DeprecationWarning, stacklevel=2)
