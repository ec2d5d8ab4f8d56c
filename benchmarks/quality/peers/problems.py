"""The problems of the comparison: a space with the cost of every feasible configuration.

A configuration travels as its row, a tuple of values in the order of the parameters (a permutation is one value, the
tuple of its elements). Peers that know no permutations see one parameter that chooses among the feasible orders.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Categorical, Integer, Permutation, Space
from baco_like.benchmarking.problems import tables
from baco_like.benchmarking.score import Baseline
from baco_like.evaluators.replay import load

from . import modelled

Values = tuple[Any, ...]

OUTSIDE = -1
"""The number of a row that a known constraint excludes."""

RECORDED = Path(__file__).parents[2] / "recorded"

COMPILER = ("loop_nest", "hidden", "halide", "blur")
"""Names of the recorded compiler spaces there."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A space with the result of every configuration.

    Attributes:
        name: Label in rows and tables.
        group: ``gpu``, ``compiler``, ``synthetic`` or ``modelled``.
        space: With its known constraints, without defaults.
        rows: All feasible configurations.
        costs: Cost of each row, NaN for a failure, ``(n,)``.
    """

    name: str
    group: str
    space: Space
    rows: Sequence[Values]
    costs: np.ndarray

    @property
    def names(self) -> list[str]:
        return list(self.space.parameters)

    @cached_property
    def number(self) -> Mapping[Values, int]:
        """Numbers of the rows."""
        return {row: i for i, row in enumerate(self.rows)}

    @cached_property
    def choices(self) -> tuple[Values, ...]:
        """The values of each parameter; of a permutation the orders that occur."""
        listed = []
        for i, one in enumerate(self.space.parameters.values()):
            if isinstance(one, Permutation):
                listed.append(tuple(sorted({row[i] for row in self.rows})))
            else:
                own = range(one.low, one.high + 1) if isinstance(one, Integer) else one.values
                listed.append(tuple(own))
        return tuple(listed)

    @cached_property
    def unordered(self) -> tuple[bool, ...]:
        """Which parameters have values without an order: categoricals and permutations."""
        parameters = self.space.parameters.values()
        return tuple(isinstance(one, Categorical | Permutation) for one in parameters)

    @cached_property
    def start(self) -> tuple[int, ...] | None:
        """Indices into `choices` of the default configuration, which every peer measures first; None without one."""
        default = self.space.default_config
        if default is None:
            return None
        return tuple(
            own.index(default[name]) for name, own in zip(self.names, self.choices, strict=True)
        )

    @cached_property
    def baseline(self) -> Baseline:
        return Baseline.from_costs(self.costs)

    @property
    def best(self) -> float:
        """The least cost, or the best one known."""
        return float(np.nanmin(self.costs))

    def cost(self, number: int) -> float:
        """Return what a row costs, NaN if it fails."""
        return float(self.costs[number])

    @property
    def evaluations(self) -> int:
        """The methodology's budget."""
        return self.baseline.evaluations()[1]

    def row_of(self, indices: Sequence[int]) -> int:
        """Return the number of the row with these indices into `choices`, or `OUTSIDE`."""
        values = tuple(own[int(i)] for own, i in zip(self.choices, indices, strict=True))
        return self.number.get(values, OUTSIDE)


def names(data: Path | None) -> dict[str, str]:
    """Return the group of each problem that is there."""
    found = dict.fromkeys(_gpu(data), "gpu")
    return {
        **found,
        **dict.fromkeys(COMPILER, "compiler"),
        **{name: group for name, (group, _) in _MADE.items()},
    }


def suite_names(data: Path | None) -> dict[str, str]:
    """Return the group of each problem of the suite that is there; the modelled kernels are for `compare.py`."""
    from . import compilers, demo, made

    found = {name: group for name, group in names(data).items() if group != "modelled"}
    if data is not None and (data / "compilers").is_dir():
        found.update(dict.fromkeys(compilers.CATBENCH, "catbench"))
        found.update(dict.fromkeys(compilers.FLAGS, "flags"))
    found[demo.NAME] = "demo"
    found.update({name: made.GROUPS[name.split("_")[0]] for name in made.MADE})
    return found


@cache
def problem(name: str, data: Path | None) -> Problem:
    """Return a problem by its name."""
    from . import compilers, demo, made

    if name in made.MADE:
        return made.MADE[name]()
    if name == demo.NAME:
        return demo.problem()
    if name in (*compilers.CATBENCH, *compilers.FLAGS):
        assert data is not None
        return compilers.problem(name, data)
    if name in _MADE:
        group, make = _MADE[name]
        space, costs = make()
        return Problem(name, group, space, _rows(space), costs)
    if name in COMPILER:
        described = json.loads((RECORDED / f"{name}.space.json").read_text(encoding="utf-8"))
        return _recorded(name, "compiler", Space.from_dict(described), RECORDED / f"{name}.json.gz")
    table = _gpu(data)[name]
    assert data is not None
    described = json.loads((data / "spaces" / f"{table.parent.name}.json").read_text("utf-8"))
    return _recorded(name, "gpu", Space.from_t1(_without_defaults(described)), table)


def _recorded(name: str, group: str, space: Space, path: Path) -> Problem:
    recorded = load(path)
    rows = _rows(space)
    order = [recorded.names.index(one) for one in space.parameters]
    values = {tuple(row[i] for i in order): e.value for row, e in recorded.entries.items()}
    costs = [np.nan if values[row] is None else values[row] for row in rows]
    return Problem(name, group, space, rows, np.array(costs))


def _rows(space: Space) -> list[Values]:
    return [tuple(config.values()) for config in space.decode(space.feasible.listed)]


def _gpu(data: Path | None) -> dict[str, Path]:
    """Return the tables below ``recorded`` whose space is described in ``spaces``."""
    if data is None:
        return {}
    tables = sorted((data / "recorded").rglob("*.json.gz"))
    described = {p.stem for p in (data / "spaces").glob("*.json")}
    return {
        f"{p.parent.name}/{p.name.removesuffix('.json.gz').removesuffix('_T4')}": p
        for p in tables
        if p.parent.name in described
    }


def _without_defaults(document: Any) -> Any:
    """Return a T1 document without the default configuration, which no peer is given either."""
    if isinstance(document, dict):
        return {k: _without_defaults(v) for k, v in document.items() if k != "Default"}
    if isinstance(document, list):
        return [_without_defaults(one) for one in document]
    return document


_DEVICES = {"narrow": modelled.NARROW, "wide": modelled.WIDE}

_MADE: Mapping[str, tuple[str, Callable[[], tuple[Space, np.ndarray]]]] = {
    **{
        f"synthetic_{make.__name__}": ("synthetic", make)
        for make in (tables.flags, tables.tiles, tables.passes)
    },
    **{
        f"{make.__name__}/{device}": ("modelled", partial(make, known))
        for make in (modelled.gemm, modelled.hotspot, modelled.pnpoly, modelled.expdist)
        for device, known in _DEVICES.items()
    },
}
