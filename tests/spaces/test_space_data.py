"""The sizes of the community's public spaces; skipped where the files are not there."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest

from baco_like.parameters import Real
from baco_like.spaces.neighbourhoods import hamming
from baco_like.spaces.space import Space

BESIDE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("BACO_LIKE_DATA", BESIDE))

pytestmark = pytest.mark.skipif(
    not (DATA / "spaces").is_dir(), reason="no public data: set BACO_LIKE_DATA"
)


@pytest.mark.parametrize(
    ("name", "size", "feasible"),
    [
        ("hotspot_milo", 4_440_000, 82_984),
        ("gemm_milo", 663_552, 116_928),
        ("convolution_milo", 10_240, 4_362),
        ("dedispersion_milo", 22_272, 11_130),
        ("pnpoly", 4_092, 4_092),
    ],
)
def test_t1_spaces(name: str, size: int, feasible: int) -> None:
    space = Space.from_t1(DATA / "spaces" / f"{name}.json")
    assert (space.size, space.feasible_size) == (size, feasible)


@pytest.mark.parametrize(
    ("name", "feasible"),
    [
        ("rs_cot_1024_scenario", 339_724_440),
        ("harris", 10_482_439),
        ("perm", 77_760),
        ("base_hartmann6_discrete", 11**6),  # its ordinals are no integers
    ],
)
def test_scenarios(name: str, feasible: int) -> None:
    space = Space.from_baco(DATA / "scenarios" / f"{name}.json")
    assert space.feasible_size == feasible
    assert space.notes == ()
    assert space.default_config is not None
    rows = space.feasible.sample(500, np.random.default_rng(0))
    assert space.satisfied(rows).all()
    assert np.array_equal(space.feasible.unindex(space.feasible.index(rows)), rows)
    assert Space.from_dict(space.to_dict()) == space


def test_hotspot_of_the_papers() -> None:
    described = json.loads((DATA / "spaces" / "hotspot_milo.json").read_text())
    space = described["ConfigurationSpace"]
    condition = next(c["Expression"] for c in space["Conditions"] if "49152" in c["Expression"])
    shared = condition.split("<=")[0]
    space["TuningParameters"].append(
        {"Name": "blocks_per_sm", "Type": "int", "Values": "[0, 1, 2, 3, 4]"}
    )
    space["Conditions"].append(
        {"Expression": f"blocks_per_sm == 0 or ({shared}) * blocks_per_sm <= 102400"}
    )
    hotspot = Space.from_t1(described)
    assert (hotspot.size, hotspot.feasible_size) == (22_200_000, 349_853)
    codes = hotspot.feasible.sample(50, np.random.default_rng(0))
    rows, owner = hamming(hotspot, codes, np.random.default_rng(1))
    assert hotspot.satisfied(rows).all()
    assert (np.abs(rows - codes[owner]) > 0).sum(axis=1).max() == 1


def test_a_scenario_with_reals() -> None:
    space = Space.from_baco(DATA / "scenarios" / "branin4_scenario_feas.json")
    assert space.parameters["x1"] == Real(-5, 10, default=0)
    assert (space.feasible_size, space.notes) == (np.inf, ())
    assert Space.from_dict(space.to_dict()) == space


def test_the_orders_of_a_scenario_with_a_permutation() -> None:
    space = Space.from_baco(DATA / "scenarios" / "perm.json")

    def allowed(p: tuple[int, ...]) -> bool:
        at = p.index
        first = p[1] != 1 and at(2) < at(4) and at(0) < at(2) and at(1) < at(2)
        return first or (at(4) < at(2) and at(0) < at(4) and at(1) < at(4))

    seen = {config["p"] for config in space.sample(400, seed=1)}
    assert seen == {order for order in itertools.permutations(range(5)) if allowed(order)}
