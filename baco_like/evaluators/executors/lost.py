"""Workers that are lost: which exceptions mean that nobody knows what became of a call.

Those of cluster packages are known by name, so that none of the packages is imported for it.
"""

from __future__ import annotations

import concurrent.futures

_BY_NAME = frozenset(
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
"""The package and the name of a class."""


class LostWorker(concurrent.futures.BrokenExecutor):
    """The process that made a call has died; the executor goes on."""


def is_lost(error: BaseException) -> bool:
    """Whether an exception says that a call's worker is lost, rather than that the call has failed."""
    if isinstance(error, (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError)):
        return True
    names = {(base.__module__.split(".", 1)[0], base.__name__) for base in type(error).__mro__}
    return not _BY_NAME.isdisjoint(names)
