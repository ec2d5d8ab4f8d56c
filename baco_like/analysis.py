"""Deprecated name of `baco_like.benchmarking`; removed in the release after 0.1."""

import warnings

from baco_like.benchmarking import landscape, score

__all__ = ["landscape", "score"]

warnings.warn(
    "baco_like.analysis is now baco_like.benchmarking; import score and landscape from there",
    DeprecationWarning,
    stacklevel=2,
)
