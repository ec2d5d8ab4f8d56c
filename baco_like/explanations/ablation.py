"""The path from one configuration to another by single changes, and what each change brings.

At every step, of the changes that are left, the one with the lowest predicted cost is made (ablation: Fawcett and Hoos,
Journal of Heuristics 2016; with predictions instead of new measurements: Biedenkapp et al., AAAI 2017). Where a
configuration on the path was measured, its measurement is shown instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, groupby
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from baco_like._optional import data_frame
from baco_like._output import align_cells, show
from baco_like._typing import Array
from baco_like.exceptions import ConfigError, TrialError
from baco_like.explanations.models import ENDS, HistoryModels, fit_models
from baco_like.records import History, Status
from baco_like.records.confirmation import winner_of
from baco_like.records.objective import sign_of
from baco_like.records.rows import row_keys
from baco_like.spaces import Space

if TYPE_CHECKING:
    import pandas as pd

WEAK = 0.01
"""A change that brings less than this share of the last value of its path is weak, if it is not significant either."""

MOST_PATH_PREDICTIONS = 4096
"""Pairs of changes are tried together only while there are no more than this; then all remaining changes are."""


@dataclass(frozen=True)
class AblationStep:
    """One change, and the value after it, in the user's unit.

    Attributes:
        parameters: Names of the changed parameters; several only if constraints forbid every single change, or if the
            change switches conditional parameters on or off.
        before: Their values before the change; None for an inactive parameter.
        after: Their values after it.
        value: Value of the configuration after the change: the median of its measurements, or predicted; NaN if it
            was measured and failed.
        low: Lower end of the 90 % interval of a predicted value; a measured value otherwise.
        high: Upper end.
        measured: Whether the configuration was measured.
        change: ``value`` minus the value before the change.
        runs: Probability that the configuration runs; 0 or 1 if it was measured.
        change_low: Lower end of the 90 % interval of the change, by the models; NaN without one.
        change_high: Upper end.
    """

    parameters: tuple[str, ...]
    before: tuple[Any, ...]
    after: tuple[Any, ...]
    value: float
    low: float
    high: float
    measured: bool
    change: float
    runs: float
    change_low: float = math.nan
    change_high: float = math.nan

    @property
    def is_significant(self) -> bool:
        """Whether the interval of the change excludes 0, or the value before or after it is a failure."""
        return not self.change_low <= 0.0 <= self.change_high

    @property
    def name(self) -> str:
        """The changes in words."""
        changes = zip(self.parameters, self.before, self.after, strict=True)
        text = ", ".join(f"{n}: {show(a)} → {show(b)}" for n, a, b in changes) or "start"
        return f"{len(self.parameters)} changes: {text}" if len(self.parameters) > 1 else text

    def cells(self, origin: AblationStep) -> list[str]:
        """Return the row of a table, see `ABLATION_HEAD`; ``origin`` is the first step of the path."""
        known = "measured" if self.measured else f"predicted, {show(self.low)} to {show(self.high)}"
        gain = "-"
        if self.parameters and not math.isnan(self.change):
            gain = f"{self.change:+.4g}"
            if origin.value and not math.isnan(origin.value):
                gain += f" ({100.0 * self.change / abs(origin.value):+.1f} %)"
        uncertain = "" if self.is_significant or not self.parameters else "uncertain"
        value = "fails" if math.isnan(self.value) else show(self.value)
        return [self.name, value, known, gain, uncertain]


ABLATION_HEAD = ("change", "value", "measured, or predicted with 90 % interval", "brings", "")
"""The columns of a table of a path; what a change brings has its share of the value at the start."""


def merge_steps(steps: Sequence[AblationStep]) -> tuple[AblationStep, ...]:
    """Return the steps of a path with weak ones in a row as one step: each below `WEAK` and not significant.

    The interval of the change of a merged step is unknown (NaN).
    """
    least = WEAK * abs(steps[-1].value) if steps else 0.0
    merged: list[AblationStep] = []
    for is_weak, group in groupby(
        steps, key=lambda step: not step.is_significant and abs(step.change) < least
    ):
        members = list(group)
        if not is_weak or len(members) == 1:
            merged += members
            continue
        joined: dict[str, Any] = {
            name: tuple(chain.from_iterable(getattr(step, name) for step in members))
            for name in ("parameters", "before", "after")
        }
        total = math.fsum(step.change for step in members)
        nan = math.nan
        merged.append(replace(members[-1], **joined, change=total, change_low=nan, change_high=nan))
    return tuple(merged)


@dataclass(frozen=True, repr=False)
class Ablation:
    """The path between two configurations; an iterable of `AblationStep`.

    Attributes:
        start: The first configuration.
        end: The last configuration.
        origin: `AblationStep` of the first configuration, without changes.
        steps: The changes, in the order in which they are made.
    """

    start: Mapping[str, Any]
    end: Mapping[str, Any]
    origin: AblationStep
    steps: tuple[AblationStep, ...]

    def __iter__(self) -> Iterator[AblationStep]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per step, the first configuration included; the columns are the attributes of `AblationStep`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return data_frame([vars(step) for step in (self.origin, *self.steps)])

    @override
    def __repr__(self) -> str:
        rows = [step.cells(self.origin) for step in (self.origin, *self.steps)]
        return "\n".join(align_cells([ABLATION_HEAD, *rows], left=1))


def find_ablation(
    history: History,
    seed: int = 0,
    *,
    start: Mapping[str, Any] | None = None,
    end: Mapping[str, Any] | None = None,
    models: HistoryModels | None = None,
) -> Ablation:
    """Return the path between two configurations; the same history and seed give the same path.

    Args:
        history: The observations.
        seed: Seed of the run.
        start: First configuration; by default the space's default configuration, or if a parameter has no default, the
            first successful trial of the run.
        end: Last configuration; by default the winner of the confirmation, else the best observed one.
        models: Models of the history, if they are fitted already.

    Raises:
        ConfigError: A configuration does not belong to the space.
        TrialError: Fewer than five trials have succeeded.
    """
    models = fit_models(history, seed) if models is None else models
    if end is None:
        winner, _ = winner_of(history)
        assert winner is not None  # `fit_models` has found successes
        end = dict(winner.config)
    history, space = models.history, models.space
    start = _first(history) if start is None else dict(start)
    for name, config in (("start", start), ("end", end)):
        reasons = space.explain(config)
        if reasons:
            raise ConfigError(f"{name}: {'; '.join(reasons)}; give another configuration")
    valued = _ValuedPath(history, models)
    codes = space.encode([start, end])
    row, target = codes[0].copy(), codes[1]
    differing = _find_differences(space, row, target)
    origin = valued.step(row, (), space, row, np.nan)
    steps: list[AblationStep] = []
    value = origin.value
    while differing:
        changed, following = _best_change(valued, space, row, target, differing)
        step = valued.step(following, changed, space, row, value)
        steps.append(step)
        differing = _find_differences(space, following, target)
        row, value = following, step.value
    return Ablation(start, end, origin, tuple(steps))


def _find_differences(space: Space, row: Array, other: Array) -> list[str]:
    return [n for n in space.active if (row[space.columns[n]] != other[space.columns[n]]).any()]


def _first(history: History) -> dict[str, Any]:
    default = history.space.default_config
    if default is not None and history.space.contains(default):
        return default
    rows = np.flatnonzero(history.where(Status.OK)[history.warm :]) + history.warm
    if not len(rows):
        raise TrialError("no trial of this run has succeeded; give start=, a configuration")
    return dict(history.trials[int(rows[0])].config)


def _best_change(
    valued: _ValuedPath, space: Space, row: Array, target: Array, differing: Sequence[str]
) -> tuple[tuple[str, ...], Array]:
    """Return the parameters that are changed next, several only if constraints ask for it, and the row after."""
    groups: list[list[tuple[str, ...]]] = [[(name,) for name in differing]]
    if len(differing) > 2 and len(differing) ** 2 <= 2 * MOST_PATH_PREDICTIONS:
        groups.append(list(combinations(differing, 2)))
    groups.append([tuple(differing)])
    for changes in groups:
        rows = np.repeat(row[None, :], len(changes), axis=0)
        for following, names in zip(rows, changes, strict=True):
            for name in names:
                following[space.columns[name]] = target[space.columns[name]]
        rows = space.activity.at_rest(rows)  # a change may switch other parameters on or off
        allowed = np.flatnonzero(space.feasible.contains(rows) & (rows != row).any(axis=1))
        if len(allowed):
            best = allowed[np.argmin(valued.expected(rows[allowed]))]
            changed = changes[best]
            # A parameter may be switched on at its resting value, which its code has already.
            if space.activity:
                before, after = space.decode(np.stack([row, rows[best]]))
                changed = tuple(n for n in space.names if before.get(n) != after.get(n))
            return changed, rows[best]
    raise AssertionError("the last group ends at the target, which is feasible")


class _ValuedPath:
    """Measured or predicted values of configurations.

    Args:
        history: The measurements.
        models: Predict the others.
    """

    def __init__(self, history: History, models: HistoryModels) -> None:
        self._models, self._sign = models, sign_of(history.direction)
        self._measured: dict[bytes, list[float]] = {}
        known = history.where(Status.OK) | history.where(Status.FAILED)
        keys = row_keys(history.codes[known])
        for key, cost in zip(keys, history.costs[known], strict=True):
            self._measured.setdefault(key, []).append(float(cost))

    def expected(self, codes: Array) -> Array:
        """Return the costs to compare on the models' scale; configurations that probably fail come last, ``(m,)``."""
        costs = np.median(self._models.costs(codes), axis=0)
        failing = self._models.failure(codes).mean(axis=0)
        for i, key in enumerate(row_keys(codes)):
            if key in self._measured:
                cost = _median(self._measured[key])
                failing[i] = float(np.isnan(cost))
                costs[i] = (
                    costs[i] if np.isnan(cost) else self._models.scale.forward(np.array(cost))
                )
        return np.asarray(costs + np.where(failing > 0.5, 1e6, 0.0))

    def step(
        self, code: Array, changed: tuple[str, ...], space: Space, row: Array, value: float
    ) -> AblationStep:
        """Return the step from a row to the row ``code``, ``(w,)`` each; ``value`` is the value before it."""
        (before,), (after,) = space.decode(row[None, :]), space.decode(code[None, :])
        measured = self._measured.get(row_keys(code[None, :])[0])
        if measured is None:
            drawn = self._models.costs(code[None, :])[:, 0]
            low, cost, high = self._models.interval(drawn)
            runs = 1.0 - float(self._models.failure(code[None, :]).mean())
        else:
            low = cost = high = self._sign * _median(measured)
            runs = float(not np.isnan(cost))
        change_low, change_high = self._change_interval(row, code)
        if np.isnan(cost - value):
            change_low = change_high = math.nan
        return AblationStep(
            changed,
            tuple(map(before.get, changed)),
            tuple(map(after.get, changed)),
            float(cost),
            float(low),
            float(high),
            measured is not None,
            float(cost - value),
            runs,
            change_low,
            change_high,
        )

    def _change_interval(self, before: Array, after: Array) -> tuple[float, float]:
        """Return the 90 % interval of the difference of two rows; the models know the noise of measured rows too."""
        drawn = self._models.scale.backward(self._models.costs(np.stack([before, after])))
        ends = np.quantile(drawn[:, 1] - drawn[:, 0], ENDS)
        low, _, high = sorted((self._sign * ends).tolist())
        return low, high


def _median(costs: Sequence[float]) -> float:
    """Return the median of the costs that are not NaN, or NaN if all are."""
    good = [cost for cost in costs if not np.isnan(cost)]
    return float(np.median(good)) if good else float("nan")
