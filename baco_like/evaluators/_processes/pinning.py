"""Restrict the CPUs of a child process, so that builds do not disturb a measurement."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from baco_like._checks import is_whole
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError


def cpus_from_table(table: Table) -> frozenset[int] | None:
    """Read the key ``cpus``, an array of CPU numbers; None if it is absent.

    Raises:
        RunFileError: The value is not an array of whole numbers.
        EvaluatorError: This process may not use one of the CPUs, or the system cannot restrict CPUs.
    """
    if not table.has("cpus"):
        return None
    numbers = table.array("cpus")
    if not numbers or not all(map(is_whole, numbers)):
        raise table.error("cpus", numbers, "an array of CPU numbers such as [2, 3]")
    check_cpus(frozenset(numbers), table.label("cpus"))
    return frozenset(numbers)


def check_cpus(cpus: frozenset[int], where: str) -> None:
    """Raise `EvaluatorError` if this process may not use one of the CPUs.

    Args:
        cpus: Numbers of CPUs.
        where: Start of the message, such as ``[evaluator] cpus``.
    """
    if sys.platform != "linux":
        raise EvaluatorError(f"{where}: this system cannot restrict CPUs; leave it out")
    allowed = os.sched_getaffinity(0)
    absent = sorted(cpus - allowed)
    if absent:
        some = ", ".join(map(str, sorted(allowed)[:16]))
        raise EvaluatorError(
            f"{where}: there is no CPU {absent[0]} for this process; it has {some}"
        )


@contextlib.contextmanager
def restrict_cpus(cpus: frozenset[int] | None) -> Iterator[None]:
    """Start child processes within the ``with`` block on these CPUs only.

    A child inherits the CPUs of the thread that starts it. Other threads of this process keep their CPUs, because Linux
    sets the affinity of the calling thread (number 0) only.
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
