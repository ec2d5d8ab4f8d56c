"""The plan of a confirmation, as in the journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Simplification:
    """How the winner of a run became simpler, see `Optimizer.simplify`.

    Attributes:
        trial: Number of the trial that was the winner before.
        dropped: Names of its parameters that have returned to their defaults.
        kept: Names of those that still differ from their defaults.
        measurements: Number of measurements that tested which of them matter.
        budget: Largest number of these measurements.
        is_minimal: Whether it is shown that no single one of ``kept`` can return too, nor an element be dropped.
        elements: Number of elements that its sequences have lost.
    """

    trial: int
    dropped: Sequence[str]
    kept: Sequence[str]
    measurements: int
    budget: int
    is_minimal: bool
    elements: int = 0


@dataclass(frozen=True)
class ConfirmationPlan:
    """The candidates of a confirmation, as in the journal.

    Attributes:
        configs: Their configurations, the most promising first.
        observed: The id of the trial that made each a candidate; None for a default that was not observed.
        default: Index of the default configuration, or None.
        confidence: Joint probability of the intervals.
        tolerance: Relative difference that does not matter.
        start: Number of observations before the confirmation.
        known: Values of each candidate that were measured before, in rounds; empty if there are none.
        exact: Whether each measurement of a candidate gives the same value, so that intervals have no width.
        simplification: How the winner of an earlier confirmation became one of the candidates, or None.
    """

    configs: tuple[Mapping[str, Any], ...]
    observed: tuple[int | None, ...]
    default: int | None = None
    confidence: float = 0.95
    tolerance: float = 0.01
    start: int = 0
    known: tuple[tuple[float, ...], ...] = ()
    exact: bool = False
    simplification: Simplification | None = None
