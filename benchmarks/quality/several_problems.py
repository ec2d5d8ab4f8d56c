"""Problems with several metrics for `several_objectives.py`: recorded kernels and synthetic functions, all on grids.

The tables of RISE kernels (`mm`, `harris`, `kmeans` on a Titan RTX, from CATBench) have time and energy. A table covers
part of its space, so a configuration is valued by a model of each column, as in `peers/compilers.py`.

The energy of a slow run is not that of all its repeats: from some time on, the energy for each millisecond drops to a
tenth and less, and the least energies belong to runs that are 100 to 500 times slower than the best. `clean_energies`
finds that time: the first row whose energy per time is below a quarter of the median of the rows with half to all of
its time. For this row and all slower ones, the energy is the time multiplied by that median.

`fast_small` has the time and the size of programs in C (`benchmarks/recorded/fast_small.toml`), completely measured.
"""

import csv
import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from peers import compilers
from peers.valued import random_configs

from baco_like import Categorical, Integer, Permutation, Space
from baco_like.results.formats import read

GRID = 20
RECORDED = Path(__file__).parents[1] / "recorded"
DRAWS = 20_000

Config = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Problem:
    """A space with several metrics.

    Attributes:
        space: The space.
        measure: Returns the metrics of a configuration by name.
        objectives: Names of the metrics that are minimised.
        reference: For each objective the worst value that counts.
        front: Values of the best known front, ``(k, m)``.
        is_log: Whether the volume is that of the logarithms of the values.
        limits: Names of metrics with their largest allowed value.
    """

    space: Space
    measure: Callable[[Config], dict[str, float]]
    objectives: tuple[str, ...]
    reference: tuple[float, ...] = ()
    front: np.ndarray | None = None
    is_log: bool = False
    limits: Mapping[str, float] | None = None


# Synthetic problems ------------------------------------------------------------------------------------------------


def _integers(count: int) -> dict[str, Integer]:
    return {f"x{i}": Integer(0, GRID) for i in range(count)}


def _grid(config: Config, count: int) -> list[float]:
    return [config[f"x{i}"] / GRID for i in range(count)]


def _share_of_inversions(order: tuple[str, ...]) -> float:
    pairs = [(a, b) for i, a in enumerate(order) for b in order[i + 1 :]]
    return sum(a > b for a, b in pairs) / len(pairs)


KINDS = {"a": 0.6, "b": 0.0, "c": 0.3}


def _dtlz2(config: Config, count: int = 5) -> dict[str, float]:
    """Deb, Thiele, Laumanns and Zitzler 2002; a kind moves all but the first variable away from the optimum."""
    x = _grid(config, count)
    g = sum((value - 0.5) ** 2 for value in x[1:]) + KINDS[config.get("kind", "b")]
    angle = x[0] * np.pi / 2
    return {"first": (1 + g) * np.cos(angle), "second": (1 + g) * np.sin(angle)}


def _zdt(config: Config, shape: str, count: int) -> dict[str, float]:
    """Zitzler, Deb and Thiele 2000: ZDT1, ZDT2 and ZDT3; a kind and the inversions of an order add to g."""
    x = _grid(config, count)
    g = 1 + 2 * sum(x[1:]) / max(1, count - 1) + KINDS[config.get("kind", "b")]
    g += _share_of_inversions(config["order"]) if "order" in config else 0.0
    ratio = x[0] / g
    heights = {"1": 1 - np.sqrt(ratio), "2": 1 - ratio**2}
    heights["3"] = 2 - np.sqrt(ratio) - ratio * np.sin(10 * np.pi * x[0])  # 1 higher, so positive
    return {"first": x[0], "second": g * heights[shape]}


def _bnh(config: Config) -> dict[str, float]:
    """Binh and Korn 1997, with its two constraints as metrics; kinds and inversions worsen both objectives."""
    x, y = 5 * config["x0"] / GRID, 3 * config["x1"] / GRID
    worse = 20 * KINDS[config.get("kind", "b")]
    worse += 20 * _share_of_inversions(config["order"]) if "order" in config else 0.0
    return {
        "first": 4 * x * x + 4 * y * y + worse,
        "second": (x - 5) ** 2 + (y - 5) ** 2 + worse,
        "inner": (x - 5) ** 2 + y * y,
        "outer": -((x - 8) ** 2 + (y + 3) ** 2),
    }


BNH_LIMITS = {"inner": 25.0, "outer": -7.7}
FIVE = list("01234")
KIND = {"kind": Categorical(list(KINDS))}
ORDER = {"order": Permutation(FIVE)}

SYNTHETIC: Mapping[str, tuple[Space, Callable[[Config], dict[str, float]], tuple[float, float]]] = {
    "dtlz2": (Space(_integers(5)), _dtlz2, (2.5, 2.5)),
    "dtlz2_categorical": (Space({**_integers(5), **KIND}), _dtlz2, (2.5, 2.5)),
    "zdt1_categorical": (
        Space({**_integers(4), **KIND}),
        partial(_zdt, shape="1", count=4),
        (2.5, 2.5),
    ),
    "zdt2_permutation": (
        Space({**_integers(3), **ORDER}),
        partial(_zdt, shape="2", count=3),
        (2.5, 2.5),
    ),
    "zdt3_mixed": (
        Space({**_integers(3), **KIND, **ORDER}),
        partial(_zdt, shape="3", count=3),
        (2.5, 4.0),
    ),
    "bnh_categorical": (Space({**_integers(2), **KIND}), _bnh, (140.0, 50.0)),
    "bnh_permutation": (Space({**_integers(2), **ORDER}), _bnh, (140.0, 50.0)),
}
"""Space, metrics and reference point."""


def _synthetic(name: str) -> Problem:
    space, measure, reference = SYNTHETIC[name]
    best = {"kind": "b", "order": tuple(FIVE)}
    middle = GRID // 2 if name.startswith("dtlz2") else 0
    if name.startswith("bnh"):
        pairs = [(x, y) for x in range(GRID + 1) for y in range(GRID + 1)]
        known = [{"x0": x, "x1": y, **best} for x, y in pairs]
    else:
        others = {f"x{i}": middle for i in range(1, 5)}
        known = [{**others, **best, "x0": x} for x in range(GRID + 1)]
    rows = [measure({k: c[k] for k in space.names}) for c in known]
    front = np.array([[row["first"], row["second"]] for row in rows])
    limits = BNH_LIMITS if name.startswith("bnh") else None
    return Problem(space, measure, ("first", "second"), reference, front, limits=limits)


# Recorded problems -------------------------------------------------------------------------------------------------


def clean_energies(times: np.ndarray, energies: np.ndarray) -> np.ndarray:
    """Return the energies of runs, corrected where they are not those of all repeats, see the top of this file."""
    order = np.argsort(times, kind="stable")
    t, power = times[order], energies[order] / times[order]
    for i in range(20, len(t)):
        usual = np.median(power[np.searchsorted(t, t[i] / 2) : i + 1])
        if power[i] < usual / 4:
            return np.where(times >= t[i], times * usual, energies)
    return energies


@cache
def _rise(name: str, data: Path) -> Problem:
    space = compilers._space(name.split("_")[0])
    configs, table = [], []
    with gzip.open(data / "compilers" / f"{name}.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if float(row["compute_time"]) > 0:
                configs.append({key: int(float(row[key])) for key in space.names})
                table.append((float(row["compute_time"]), float(row["energy"])))
    times, energies = np.array(table).T
    columns = {"time": times, "energy": clean_energies(times, energies)}
    models = {
        metric: compilers.modelled_table(f"{name}_several_{metric}", "rise", space, configs, values)
        for metric, values in columns.items()
    }

    def measure(config: Config) -> dict[str, float]:
        return {metric: model.evaluate(config) for metric, model in models.items()}

    known = [measure(configs[i]) for i in np.argsort(times)[:200]]
    known += [measure(configs[i]) for i in np.argsort(columns["energy"])[:200]]
    drawn = np.column_stack([model.costs for model in models.values()])
    rows = np.array([list(row.values()) for row in known])
    front = np.concatenate([drawn, rows])
    return Problem(
        space, measure, ("time", "energy"), tuple(np.median(drawn, axis=0)), front, is_log=True
    )


@cache
def _fast_small() -> Problem:
    recorded = read(RECORDED / "fast_small.json.gz")
    space = Space.from_dict(json.loads((RECORDED / "fast_small.space.json").read_text()))
    values = {
        row: {"time": outcome.value, "size": outcome.metrics["program_bytes"]}
        for row, outcome in recorded.entries.items()
    }
    names = recorded.names
    front = np.array([list(row.values()) for row in values.values()])
    return Problem(
        space,
        lambda config: values[tuple(config[name] for name in names)],
        ("time", "size"),
        tuple(np.median(front, axis=0)),
        front,
        is_log=True,
    )


RISE = ("mm_rtxtitan", "harris_rtxtitan", "kmeans_rtxtitan")
NAMES = (*RISE, "fast_small", *SYNTHETIC)


def problem(name: str, data: Path) -> Problem:
    """Return a problem with two objectives by its name."""
    if name in SYNTHETIC:
        return _synthetic(name)
    return _fast_small() if name == "fast_small" else _rise(name, data)


# One objective with limits -----------------------------------------------------------------------------------------

LIMITED: Mapping[str, tuple[str, str, Mapping[str, float]]] = {
    "mm: energy, fast": ("mm_rtxtitan", "energy", {"time": 0.1}),
    "harris: time, little energy": ("harris_rtxtitan", "time", {"energy": 0.15}),
    "kmeans: time, little energy": ("kmeans_rtxtitan", "time", {"energy": 0.15}),
    "kmeans: energy, fast": ("kmeans_rtxtitan", "energy", {"time": 0.15}),
    "C: time, small": ("fast_small", "time", {"size": 0.2}),
    "C: size, fast": ("fast_small", "size", {"time": 0.15}),
    "dtlz2: second, first": ("dtlz2_categorical", "second", {"first": 0.1}),
    "zdt1: second, first": ("zdt1_categorical", "second", {"first": 0.3}),
    "zdt2: first, second": ("zdt2_permutation", "first", {"second": 0.2}),
    "bnh: second, three limits": ("bnh_categorical", "second", {"first": 0.3}),
}
"""Problem, objective, and for each limited metric the share of random configurations that are within the limit."""


def limited_problem(name: str, data: Path) -> Problem:
    """Return a problem with one objective and limits on other metrics."""
    source, objective, shares = LIMITED[name]
    whole = problem(source, data)
    drawn = [whole.measure(config) for config in random_configs(whole.space)[: DRAWS // 20]]
    limits = {
        metric: float(np.quantile([row[metric] for row in drawn], share))
        for metric, share in shares.items()
    }
    limits |= whole.limits or {}
    return Problem(whole.space, whole.measure, (objective,), limits=limits)
