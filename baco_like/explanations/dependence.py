"""Partial dependence: how the cost changes with one parameter, or with two, while the others stay unchanged.

Friedman's partial dependence (Annals of Statistics 2001, section 8.2) averages over all configurations with each value
in turn. Known constraints forbid some of these, and a plain average would then compare different configurations. So
the averages come from a two-way fit, cost = configuration + value, to the feasible ones; without constraints the two
are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from baco_like._optional import require
from baco_like._output import align_cells, in_percent, show
from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Ints, Rng
from baco_like.exceptions import TrialError
from baco_like.explanations.importance import Importance, compute_importance, sums
from baco_like.explanations.models import HistoryModels, fit_models
from baco_like.parameters.protocol import is_permutation
from baco_like.records import History
from baco_like.spaces import Space

if TYPE_CHECKING:
    import pandas as pd

SHOWN_VALUES = (16, 6)
"""Most values of a single parameter, and of each parameter of a pair."""

AVERAGED = 96
"""Number of random configurations that every table is averaged over; half of them choose the strongest pairs."""

SAMPLE = 4 * AVERAGED
"""Number of random configurations for positions of elements; they keep the position that they have."""

STRONGEST = 4
"""The strongest pairs are looked for among this many most important parameters."""

_FEWEST, _ROUNDS = 16, 64
"""Configurations with a conditional parameter that a table needs, and further samples that are drawn for them."""

SWEEPS = 12
"""Alternating sweeps of the two-way fit."""


@dataclass(frozen=True)
class DependencePoint:
    """The expected value where some parameters have given values.

    Attributes:
        values: The values of the parameters.
        value: Typical value (geometric mean, if logarithms are modelled), in the user's unit.
        low: Lower end of its 90 % interval.
        high: Upper end.
        runs: Mean probability that a configuration with these values runs.
    """

    values: tuple[Any, ...]
    value: float
    low: float
    high: float
    runs: float

    def cells(self) -> list[Any]:
        """Return the row of a table: the values of the parameters, then the columns of `DEPENDENCE_HEAD`."""
        ends = f"{show(self.low)} to {show(self.high)}"
        return [*map(show, self.values), self.value, ends, in_percent(self.runs)]


DEPENDENCE_HEAD = ("value", "90 % interval", "runs")
"""The columns of a table of points behind those of the parameters."""


@dataclass(frozen=True, repr=False)
class Dependence:
    """Partial dependence on one parameter, on a pair, or on the position of an element of a permutation.

    Attributes:
        names: Names of the parameters.
        points: One for each value, or combination of values, of which a feasible configuration was found.
    """

    names: tuple[str, ...]
    points: tuple[DependencePoint, ...]

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per point: a column for each parameter, then value, low, high and runs.

        Raises:
            MissingExtra: pandas is not installed.
        """
        rows = [[*p.values, p.value, p.low, p.high, p.runs] for p in self.points]
        columns = [*self.names, "value", "low", "high", "runs"]
        frame: pd.DataFrame = require("pandas", "dataframe").DataFrame(rows, columns=columns)
        return frame

    @override
    def __repr__(self) -> str:
        rows = [list(map(show, point.cells())) for point in self.points]
        return "\n".join(align_cells([(*self.names, *DEPENDENCE_HEAD), *rows]))


def compute_dependence(
    history: History,
    seed: int = 0,
    *,
    pairs: int = 2,
    models: HistoryModels | None = None,
    ranking: Importance | None = None,
) -> tuple[Dependence, ...]:
    """Return the dependence on every parameter, the most important first, and on the pairs that interact most.

    A permutation has one entry for the position of each element; a sequence has none.

    Args:
        history: The observations.
        seed: Seed of the run.
        pairs: Number of pairs.
        models: Models of the history, if they are fitted already.
        ranking: The importance, if it is computed already.

    Raises:
        TrialError: Fewer than five trials have succeeded.
    """
    models = fit_models(history, seed) if models is None else models
    ranking = compute_importance(history, seed, models=models) if ranking is None else ranking
    rng, space = generator(seed, Purpose.EXPLAIN, len(models.history) + 2), models.space
    # All tables average over the same configurations; otherwise their levels would differ.
    rows = space.feasible.sample(SAMPLE, rng)
    names = [effect.name for effect in ranking]
    result: list[Dependence] = []
    for name in names:
        if is_permutation(space.parameters[name]):
            result += _positions(models, name, rows, rng)
        elif space.parameters[name].width == 1:
            averaged = _active_rows(space, (name,), rows[:AVERAGED], rng)
            result.append(_Grid(models, (name,), averaged).dependence())
    result = [dependence for dependence in result if dependence.points]
    scalar = [name for name in names if space.parameters[name].width == 1][:STRONGEST]
    few = rows[: AVERAGED // 2]
    tried = [_Grid(models, pair, few) for pair in combinations(scalar, 2)] if pairs else []
    # Parameters of different branches are never active together.
    tried = [grid for grid in tried if not grid.is_empty]
    tried.sort(key=lambda grid: -grid.interaction())
    strongest = [_Grid(models, grid.names, rows[:AVERAGED]) for grid in tried[:pairs]]
    return (*result, *(grid.dependence() for grid in strongest))


def compute_dependence_on(history: History, names: tuple[str, ...], seed: int = 0) -> Dependence:
    """Return the dependence on one or two scalar parameters.

    Args:
        history: The observations.
        names: The parameters.
        seed: Seed of the run.

    Raises:
        TrialError: Fewer than five trials have succeeded, or no drawn configuration has the parameters.
    """
    models = fit_models(history, seed)
    rng, space = generator(seed, Purpose.EXPLAIN, len(models.history) + 2), models.space
    rows = _active_rows(space, names, space.feasible.sample(AVERAGED, rng), rng)
    grid = _Grid(models, names, rows)
    if grid.is_empty:
        raise TrialError(
            f"no random configuration has {' and '.join(map(repr, names))}: the conditions of the space exclude each "
            "other, or hold rarely; choose other parameters"
        )
    return grid.dependence()


def grid_codes(space: Space, name: str, most: int) -> Codes:
    """Return at most so many feasible codes of a scalar parameter, evenly spaced on its scale, ``(g, 1)``.

    With ``log``, they are evenly spaced in the logarithm.
    """
    used, parameter = space.feasible.used(space.columns[name].start), space.parameters[name]
    if used is None:
        return np.unique(parameter.from_unit(np.linspace(0.0, 1.0, most)[:, None]), axis=0)
    if len(used) <= most:
        return np.asarray(used[:, None], dtype=np.float64)
    places = parameter.to_unit(np.asarray(used[:, None], dtype=np.float64))[:, 0]
    wanted = np.linspace(places[0], places[-1], most)
    at = np.unique(np.abs(places[:, None] - wanted).argmin(axis=0))
    return np.asarray(used[at][:, None], dtype=np.float64)


def _active_rows(space: Space, names: tuple[str, ...], rows: Codes, rng: Rng) -> Codes:
    """Return the rows in which parameters are active; if these are few, with further random ones."""

    def having(codes: Codes) -> Codes:
        for name in names:
            codes = codes[space.activity.where(name, codes)]
        return codes

    found = having(rows)
    for _ in range(_ROUNDS if len(found) < len(rows) else 0):
        if len(found) >= _FEWEST:
            break
        found = np.concatenate([found, having(space.feasible.sample(SAMPLE, rng))])
    return found[: len(rows)]


class _Grid:
    """Predictions for random configurations with every combination of values of some parameters.

    Args:
        models: Predict.
        names: One or two scalar parameters.
        rows: The configurations to average over, ``(n, w)``.
    """

    def __init__(self, models: HistoryModels, names: tuple[str, ...], rows: Codes) -> None:
        self._models, self.names, space = models, names, models.space
        kind = len(names) - 1
        axes = [grid_codes(space, name, SHOWN_VALUES[kind])[:, 0] for name in names]
        self._cells = np.stack([g.reshape(-1) for g in np.meshgrid(*axes, indexing="ij")], axis=1)
        self._shape = tuple(map(len, axes))
        for name in names:  # of a conditional parameter, over configurations that have it
            rows = rows[space.activity.where(name, rows)]
        codes = np.repeat(rows, len(self._cells), axis=0)
        for i, name in enumerate(names):
            codes[:, space.columns[name].start] = np.tile(self._cells[:, i], len(rows))
        codes = space.activity.at_rest(codes)
        keep = space.feasible.contains(codes)
        for name in names:
            keep &= space.activity.where(name, codes)
        self._owner = np.repeat(np.arange(len(rows)), len(self._cells))[keep]
        self._cell: Ints = np.tile(np.arange(len(self._cells)), len(rows))[keep]
        self._codes = codes[keep]

    @property
    def is_empty(self) -> bool:
        """Whether no cell has a feasible configuration."""
        return not len(self._codes)

    def means(self) -> Array:
        """Return drawn means of the cost, ``(draws, cells)``; NaN for a cell without feasible configurations."""
        return _two_way(self._models.costs(self._codes), self._owner, self._cell, len(self._cells))

    def interaction(self) -> float:
        """Return the variance that the sum of the two parameters' own effects does not explain."""
        table = self.means().mean(axis=0).reshape(self._shape)
        # A value of one parameter may exclude all values of the other one.
        table = table[np.isfinite(table).any(axis=1)][:, np.isfinite(table).any(axis=0)]
        with np.errstate(invalid="ignore"):
            rows, columns = np.nanmean(table, axis=1, keepdims=True), np.nanmean(table, axis=0)
            return float(np.nanvar(table - rows - columns)) if np.isfinite(table).any() else 0.0

    def dependence(self) -> Dependence:
        """Return the table in the user's unit."""
        failing = self._models.failure(self._codes).mean(axis=0)
        values = [
            self._models.space.parameters[name].decode(self._cells[:, i : i + 1])
            for i, name in enumerate(self.names)
        ]
        return _table(
            self.names,
            list(zip(*values, strict=True)),
            self.means(),
            failing,
            self._cell,
            self._models,
        )


def _positions(models: HistoryModels, name: str, rows: Codes, rng: Rng) -> list[Dependence]:
    """Return the dependence on the position of each element of a permutation, counted from 0, the outermost."""
    space = models.space
    parameter = space.parameters[name]
    assert is_permutation(parameter)
    averaged = int(space.activity.where(name, rows[:AVERAGED]).sum())
    rows = _active_rows(space, (name,), rows, rng)
    if not len(rows):
        return []
    averaged = averaged or len(rows)
    costs, failing = models.costs(rows), models.failure(rows).mean(axis=0)
    # The other tables average over the first rows only.
    costs = costs + (costs[:, :averaged].mean(axis=1) - costs.mean(axis=1))[:, None]
    codes = rows[:, space.columns[name]].astype(np.int64)
    result = []
    for element, position in zip(parameter.elements, codes.T, strict=True):
        size = np.bincount(position, minlength=len(parameter.elements))
        means = np.full((len(costs), len(size)), np.nan)
        seen = size > 0
        means[:, seen] = sums(costs, np.searchsorted(np.flatnonzero(seen), position)) / size[seen]
        label = (f"{name}: position of {element}",)
        values = [(i,) for i in range(len(size))]
        result.append(_table(label, values, means, failing, position, models))
    return result


def _table(
    names: tuple[str, ...],
    values: list[tuple[Any, ...]],
    means: Array,
    failing: Array,
    cell: Ints,
    models: HistoryModels,
) -> Dependence:
    size = np.bincount(cell, minlength=len(values))
    fails = np.bincount(cell, failing, minlength=len(values)) / np.maximum(size, 1)
    points = []
    for i in np.flatnonzero(size):
        low, value, high = models.interval(means[:, i])
        points.append(DependencePoint(values[i], value, low, high, float(1.0 - fails[i])))
    return Dependence(names, tuple(points))


def _two_way(costs: Array, owner: Ints, cell: Ints, cells: int) -> Array:
    """Return the cell means of the least-squares fit cost = owner + cell, ``(draws, m)`` -> ``(draws, cells)``."""
    present, cell = np.unique(cell, return_inverse=True)
    cell = cell.reshape(-1)
    _, owner = np.unique(owner, return_inverse=True)
    owner = owner.reshape(-1)
    by_cell, by_owner = np.bincount(cell), np.bincount(owner)
    effect = np.zeros((len(costs), len(present)))
    level = np.zeros((len(costs), len(by_owner)))
    for _ in range(SWEEPS):
        level = sums(costs - effect[:, cell], owner) / by_owner
        effect = sums(costs - level[:, owner], cell) / by_cell
    table = np.full((len(costs), cells), np.nan)
    table[:, present] = effect + level.mean(axis=1, keepdims=True)
    return table
