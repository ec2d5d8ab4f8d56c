"""The problems of the comparison by name: recorded tables, spaces made in code, and models of kernels."""

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from baco_like import Space
from baco_like.benchmarking.problems import tables
from baco_like.evaluators.replay import load

from . import compilers, demo, made, modelled
from .problem import RECORDED, Problem, Values

COMPILER = ("loop_nest", "hidden", "halide", "blur")
"""Names of the recorded compiler spaces there."""


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
