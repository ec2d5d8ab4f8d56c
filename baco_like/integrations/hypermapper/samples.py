"""The files of samples of BaCO and HyperMapper, read as data for an optimizer and written from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baco_like.optimizer import Optimizer
from baco_like.records.trial import Outcome
from baco_like.results.hypermapper_csv import read_csv as read_samples
from baco_like.results.hypermapper_csv import write_csv as write_samples

__all__ = ["observe_samples", "read_samples", "write_samples"]


def observe_samples(
    optimizer: Optimizer, configs: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]
) -> int:
    """Observe the contents of a file; return the number of configurations outside the space.

    Those are recorded, but no model uses them.

    Raises:
        JournalError: An observation cannot be recorded.
    """
    for config, outcome in zip(configs, outcomes, strict=True):
        optimizer.observe(
            config,
            outcome.value,
            failed=outcome.failed,
            message=outcome.message,
            extra=outcome.extra,
            imported=True,
        )
    return sum(not optimizer.space.contains(config) for config in configs)
