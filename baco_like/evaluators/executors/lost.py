"""Lost workers: exceptions that say that the result of a call is unknown because its worker has died.

Exceptions of cluster packages are identified by name, so that these packages need not be imported.
"""

from __future__ import annotations

import concurrent.futures

_NAMES = frozenset(
    {
        ("distributed", "KilledWorker"),
        ("distributed", "CommClosedError"),
        ("distributed", "FutureCancelledError"),
        ("mpi4py", "BrokenExecutor"),
        ("ray", "ActorDiedError"),
        ("ray", "LocalRayletDiedError"),
        ("ray", "NodeDiedError"),
        ("ray", "ObjectLostError"),
        ("ray", "OutOfMemoryError"),
        ("ray", "RayActorError"),
        ("ray", "WorkerCrashedError"),
    }
)
"""Top-level package and name of the classes."""


class LostWorker(concurrent.futures.BrokenExecutor):
    """The process of a call has died; the executor still works."""


def is_lost(error: BaseException) -> bool:
    """Whether an exception means that the worker is lost, and not that the call itself has failed."""
    if isinstance(error, (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError)):
        return True
    names = {(base.__module__.split(".", 1)[0], base.__name__) for base in type(error).__mro__}
    return not _NAMES.isdisjoint(names)
