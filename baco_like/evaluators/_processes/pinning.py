"""Which CPUs a child may use, so that a measurement is not moved about nor disturbed by builds."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError


def cpus_from_table(table: Table) -> frozenset[int] | None:
    """Read the key ``cpus``, an array of CPU numbers, or None where it is absent.

    Raises:
        RunFileError: It is no array of whole numbers.
        EvaluatorError: This process may not use one of them, or the system cannot pin.
    """
    if not table.has("cpus"):
        return None
    listed = table.array("cpus")
    if not listed or not all(isinstance(one, int) and not isinstance(one, bool) for one in listed):
        raise table.wrong("cpus", listed, "an array of CPU numbers such as [2, 3]")
    check_cpus(frozenset(listed), table.at("cpus"))
    return frozenset(listed)


def check_cpus(cpus: frozenset[int], where: str) -> None:
    """Raise `EvaluatorError` if this process may not use one of the CPUs."""
    if sys.platform != "linux":
        raise EvaluatorError(f"{where}: this system cannot pin; leave it out")
    allowed = os.sched_getaffinity(0)
    absent = sorted(cpus - allowed)
    if absent:
        some = ", ".join(map(str, sorted(allowed)[:16]))
        raise EvaluatorError(
            f"{where}: there is no CPU {absent[0]} for this process; it has {some}"
        )


@contextlib.contextmanager
def pinned(cpus: frozenset[int] | None) -> Iterator[None]:
    """Let what the calling thread starts within the ``with`` block use these CPUs alone.

    A child inherits the CPUs of the thread that starts it; other threads keep theirs.
    """
    if cpus is None or sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
