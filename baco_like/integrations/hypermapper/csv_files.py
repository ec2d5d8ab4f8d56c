"""The CSV files of BaCO and HyperMapper, read as data for an optimizer and written from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from baco_like.optimizer import Optimizer
from baco_like.records.trial import Outcome
from baco_like.results.hypermapper_csv import csv_text, header, read_csv, row, write_csv

__all__ = ["csv_text", "header", "observe_rows", "read_csv", "row", "write_csv"]


def observe_rows(
    optimizer: Optimizer, configs: Sequence[Mapping[str, Any]], outcomes: Sequence[Outcome]
) -> int:
    """Tell an optimizer what a file holds, and return how many of its configurations the space does not allow.

    Those are kept, but no model sees them.

    Raises:
        JournalError: It could not be recorded.
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
