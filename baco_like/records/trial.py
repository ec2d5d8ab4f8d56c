"""Frozen records: a strategy's proposal, the trial it becomes, and what came of it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._typing import Array

FAILURE_WORDS = ("compile", "runtime", "correctness", "timeout", "constraints")
"""The words of the T4 result format; free text is allowed beside them."""


class Status(str, Enum):
    """What is known of a trial."""

    PENDING = "pending"
    OK = "ok"
    FAILED = "failed"
    CENSORED = "censored"
    """Stopped at a bound: the value is at least ``Outcome.bound``, and the configuration is feasible."""
    ABANDONED = "abandoned"


@dataclass(frozen=True)
class Proposal:
    """A point that a strategy would like to see.

    Attributes:
        code: One row of codes, ``(w,)``.
        tag: The strategy's note to itself, any JSON value; it comes back with the observation.
    """

    code: Array
    tag: Any = None


@dataclass(frozen=True)
class Outcome:
    """What came of a trial. Build one with `success`, `failure` or `censored`.

    Attributes:
        trial_id: Which trial.
        status: OK, FAILED or CENSORED.
        value: The objective in the user's unit (median of the repeats), or None unless OK.
        repeats: Every measured value, in order.
        sem: Standard error of the value, or None where there are not two repeats.
        failed: The failure word, or None.
        message: What the failing tool said.
        bound: The value is at least this (CENSORED).
        metrics: Further named numbers that were observed.
        extra: Anything else as JSON values, such as stage timings in seconds.
        problem: Why what was measured is no value, where it was to be one: what a warning tells. Not kept.
    """

    trial_id: int
    status: Status
    value: float | None = None
    repeats: tuple[float, ...] = ()
    sem: float | None = None
    failed: str | None = None
    message: str = ""
    bound: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    problem: str = field(default="", compare=False)

    @classmethod
    def success(
        cls,
        trial_id: int,
        repeats: tuple[float, ...],
        *,
        metrics: Mapping[str, float] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Return an OK outcome whose value is the median of ``repeats`` (one or more finite numbers)."""
        return cls(
            trial_id,
            Status.OK,
            value=median(repeats),
            repeats=repeats,
            sem=standard_error(repeats),
            metrics=metrics or {},
            extra=extra or {},
        )

    @classmethod
    def failure(
        cls,
        trial_id: int,
        failed: str,
        message: str = "",
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Return a FAILED outcome with its word."""
        return cls(trial_id, Status.FAILED, failed=failed, message=message, extra=extra or {})

    @classmethod
    def censored(
        cls,
        trial_id: int,
        bound: float,
        failed: str = "timeout",
        message: str = "",
        *,
        extra: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Return a CENSORED outcome: it was stopped, and its value is at least ``bound``."""
        return cls(
            trial_id,
            Status.CENSORED,
            failed=failed,
            message=message,
            bound=bound,
            extra=extra or {},
        )


def standard_error(repeats: tuple[float, ...]) -> float | None:
    """Return the standard error of the mean of two or more repeats, else None.

    It stands for the spread of the median too: for normal noise the median's is 1.25 times as large. Where it is
    larger than any float it is None as well.
    """
    if len(repeats) < 2:
        return None
    unit = _unit(repeats)
    found = float(np.std(np.array(repeats) / unit, ddof=1) / math.sqrt(len(repeats))) * unit
    return found if math.isfinite(found) else None


def median(repeats: tuple[float, ...]) -> float:
    """Return the median of one or more finite numbers; the mean of two large ones does not overflow."""
    unit = _unit(repeats)
    return (
        float(repeats[0])
        if len(repeats) == 1
        else float(np.median(np.array(repeats) / unit)) * unit
    )


def _unit(repeats: tuple[float, ...]) -> float:
    """Return a power of two by which the numbers can be divided so that their squares are harmless."""
    largest = max(map(abs, repeats))
    harmless = largest == 0.0 or 1e-100 < largest < 1e100
    return 1.0 if harmless else 2.0 ** max(math.frexp(largest)[1] - 1, -1022)


@dataclass(frozen=True, eq=False)
class Trial(Mapping[str, Any]):
    """A numbered configuration; as a mapping it is the configuration itself, so ``kernel(**trial)`` works.

    Attributes:
        id: Its number in the run, never used twice.
        config: The configuration in plain Python values.
        tag: The strategy's note, returned to it with the outcome.
        origin: Where it came from: ``strategy``, ``fill``, ``enqueued``, ``told``, ``imported`` or ``warm`` (an earlier
            result that the run began with).
        outcome: What came of it, or None while it is pending.
        abandoned: Why it was given up, or None.
        until: End of the lease of whom it was suggested to, in seconds since 1970, or None: it has no end. After it
            the trial is offered again; whoever reports first is heard.
    """

    id: int
    config: Mapping[str, Any]
    tag: Any = None
    origin: str = "strategy"
    outcome: Outcome | None = None
    abandoned: str | None = None
    until: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", MappingProxyType(dict(self.config)))

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "config": dict(self.config),
        }  # a proxy cannot travel to other processes

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, config=MappingProxyType(state["config"]))

    @override
    def __getitem__(self, name: str) -> Any:
        return self.config[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.config)

    @override
    def __len__(self) -> int:
        return len(self.config)

    @override
    def __repr__(self) -> str:
        shown = self.failure or ("pending" if self.value is None else repr(self.value))
        return f"Trial({self.id}, {dict(self.config)!r}, {shown})"

    @property
    def status(self) -> Status:
        """Pending, ok, failed, censored or abandoned."""
        if self.abandoned is not None:
            return Status.ABANDONED
        return Status.PENDING if self.outcome is None else self.outcome.status

    @property
    def value(self) -> float | None:
        """The observed value, or None while pending and when failed."""
        return None if self.outcome is None else self.outcome.value

    @property
    def failure(self) -> str | None:
        """The failure word, such as ``compile``; None unless failed or censored."""
        return None if self.outcome is None else self.outcome.failed

    @property
    def failed(self) -> str | None:
        """Deprecated spelling of `failure`."""
        warnings.warn(
            "Trial.failed is deprecated and goes in the next release; use Trial.failure",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.failure

    @property
    def message(self) -> str:
        """What the failing tool said."""
        return "" if self.outcome is None else self.outcome.message

    @property
    def bound(self) -> float | None:
        """Lower bound of a censored value, or None."""
        return None if self.outcome is None else self.outcome.bound

    @property
    def repeats(self) -> tuple[float, ...]:
        """Every measured value, in order."""
        return () if self.outcome is None else self.outcome.repeats

    @property
    def sem(self) -> float | None:
        """Standard error of the value, or None."""
        return None if self.outcome is None else self.outcome.sem

    @property
    def extra(self) -> Mapping[str, Any]:
        """What else was told with the outcome."""
        return {} if self.outcome is None else self.outcome.extra

    def completed(self, outcome: Outcome) -> Trial:
        """Return the trial with its outcome."""
        return Trial(
            self.id, self.config, self.tag, self.origin, outcome, self.abandoned, self.until
        )
