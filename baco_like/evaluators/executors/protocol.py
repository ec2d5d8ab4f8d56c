"""The interface that an executor needs, and the number of its workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol


class SubmitsCalls(Protocol):
    """An executor; its futures need ``done()``, ``result()`` and ``cancel()``."""

    def submit(self, fn: Callable[..., Any], /, *args: Any) -> Any:
        """Start a call and return its future."""


def count_workers(executor: Any) -> int:
    """Return the number of an executor's workers, of a Dask cluster's cores, or of this machine's CPUs."""
    for name in ("_max_workers", "num_workers"):
        count = getattr(executor, name, None)
        if isinstance(count, int) and count > 0:
            return count
    client: Any = getattr(executor, "_client", None)  # an executor of Dask
    cores = sum(client.ncores().values()) if hasattr(client, "ncores") else 0
    return cores or os.cpu_count() or 1
