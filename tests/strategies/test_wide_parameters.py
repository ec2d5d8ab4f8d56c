"""Custom parameters of several code columns: their kind decides how they are changed, counted and constrained."""

import json
from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nightly import cover
from scipy.spatial.distance import cdist

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.benchmarking.landscape import neighbour_pairs, read_space_columns
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import ParameterKind, register_parameter
from baco_like.parameters.bases import ParameterDefaults
from baco_like.parameters.values import ColumnKind, Extent
from baco_like.spaces import design, neighbourhoods
from baco_like.strategies import STRATEGIES, create_strategy, default_settings
from baco_like.strategies.geometry import UnitBox
from baco_like.testing.parameters import CHECKS
from baco_like.testing.strategies import resume_is_continue

SIDE = 4


@final
@dataclass(frozen=True)
class Point(ParameterDefaults):
    """A point with whole coordinates below `SIDE`, or with any coordinates from 0 to SIDE - 1."""

    type: str
    width: int = 2
    default = None
    code_range = (0.0, SIDE - 1.0)
    extent = Extent(ColumnKind.OBJECT)

    @property
    def kind(self):
        return {
            "pixel": ParameterKind.ORDERED,
            "unlisted": ParameterKind.ORDERED,
            "pair": ParameterKind.UNORDERED,
            "complex": ParameterKind.CONTINUOUS,
        }[self.type]

    @property
    def whole(self):
        return self.kind is not ParameterKind.CONTINUOUS

    @property
    def values(self):
        every = list(product(range(SIDE), repeat=self.width))
        return every if self.type in ("pixel", "pair") else None

    @property
    def cardinality(self):
        return SIDE**self.width if self.whole else np.inf

    def contains(self, value):
        if not (isinstance(value, tuple) and len(value) == self.width):
            return False
        return bool(self.legal(np.array([value], dtype=float))[0])

    def encode(self, values):
        for value in values:
            if not self.contains(value):
                raise ConfigError(f"{value!r} is no point")
        return np.array(values, dtype=float).reshape(-1, self.width)

    def decode(self, codes):
        return [tuple(map(int if self.whole else float, row)) for row in codes]

    def value_from_text(self, text):
        if isinstance(text, str):
            text = json.loads(f"[{text}]")
        return tuple(text) if self.contains(tuple(text)) else None

    def column(self, codes):
        column = np.empty(len(codes), dtype=object)
        column[:] = self.decode(codes)
        return column

    def legal(self, codes):
        inside = (codes >= 0) & (codes <= SIDE - 1)
        return (inside & (codes == np.floor(codes)) if self.whole else inside).all(axis=1)

    def sample_uniform(self, n, rng):
        return self.from_unit(rng.random((n, self.width)))

    sample = sample_uniform

    def log_density(self, codes):
        return np.zeros(len(codes))

    def to_unit(self, codes):
        return (codes + 0.5) / SIDE if self.whole else codes / (SIDE - 1)

    def from_unit(self, points):
        return np.minimum(points * SIDE // 1, SIDE - 1) if self.whole else points * (SIDE - 1)

    def neighbours(self, codes):
        if not self.whole:
            return codes[:0], np.empty(0, dtype=np.int64)
        every = np.array(list(product(range(SIDE), repeat=self.width)), dtype=float)
        apart = np.abs(codes[:, None] - every).sum(axis=2)
        near = apart == 1 if self.kind is ParameterKind.ORDERED else apart > 0
        owner, other = np.nonzero(near)
        return every[other], owner

    def distance(self, a, b):
        return cdist(self.features(a), self.features(b))

    def features(self, codes):
        return codes / ((SIDE - 1) * np.sqrt(self.width))

    def to_dict(self):
        return {"type": "test_point", "kind": self.type, "width": self.width}


register_parameter("test_point", lambda kind, width: Point(kind, width))

POINTS = [Point("pixel"), Point("unlisted"), Point("pair", 3), Point("complex")]
IDS = [point.type for point in POINTS]
OTHERS = {"tile": [1, 2, 4, 8], "unroll": [1, 2, 3], "layout": ["row", "column"]}


def spaces(point):
    yield Space({"at": point, **OTHERS})
    yield Space({"at": point, **OTHERS}, constraints=["tile * unroll <= 8"])


SPACES = {f"{point.type} {i}": space for point in POINTS for i, space in enumerate(spaces(point))}


def corner(at, tile):
    """Return a constraint on the point and another parameter."""
    return at[0] <= at[1] and tile > at[0]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("point", POINTS, ids=IDS)
def test_the_points_conform(point, check):
    check(point)


def _is_listed(name, kind):
    return name != "exhaustive" or SPACES[kind].feasible.count is not None


@pytest.mark.parametrize(("name", "kind"), cover(STRATEGIES, SPACES, valid=_is_listed, share=8))
def test_every_strategy_runs(name, kind):
    shorter = (default_settings(name).get("initial") or 0) > 6
    resume_is_continue(create_strategy(name, {"initial": 6} if shorter else {}), SPACES[kind])


@pytest.mark.parametrize("point", POINTS, ids=IDS)
def test_constraints_read_a_point(point):
    space = Space({"at": point, **OTHERS}, constraints=[corner, "tile * unroll <= 8"])
    assert (space.feasible.count is not None) == (point.values is not None)
    if point.values is not None:
        expected = sum(
            corner(at, tile) and tile * unroll <= 8
            for at, tile, unroll in product(point.values, [1, 2, 4, 8], [1, 2, 3])
        )
        assert space.feasible.count == 2 * expected
        assert len({tuple(row) for row in space.feasible.listed.tolist()}) == 2 * expected
    rng = np.random.default_rng(0)
    rows = space.feasible.sample(50, rng)
    assert all(corner(c["at"], c["tile"]) for c in space.decode(rows))
    for find in (neighbourhoods.hamming, neighbourhoods.adjacent):
        near, owner = find(space, rows, rng)
        assert space.feasible.contains(near).all()
        changed = (near != rows[owner])[:, space.columns["at"]].any(axis=1)
        assert changed.any()
        assert ((near != rows[owner])[changed, -3:] == 0).all()
    resume_is_continue(create_strategy("genetic_algorithm"), space)


@pytest.mark.parametrize("point", POINTS, ids=IDS)
def test_designs_neighbourhoods_and_crossings(point):
    for space in spaces(point):
        rng = np.random.default_rng(0)
        for draw in (design.uniform, design.latin_hypercube, design.middle):
            rows = draw(space, 12, rng, design.exclude_nothing)
            assert len(rows) == 12
            assert space.feasible.contains(rows).all()
        outside = rows.copy()
        outside[:, space.columns["tile"]] = 3
        outside[:, space.columns["unroll"]] = 2
        for some in (rows, outside):
            assert space.feasible.contains(space.feasible.nearest(some, rng)).all()
            for find in (neighbourhoods.strictly_adjacent, neighbourhoods.jointly_adjacent):
                assert space.feasible.contains(find(space, some, rng)[0]).all()


def test_all_values_of_a_listed_point_are_neighbours():
    for point in POINTS[0], POINTS[2]:
        for space in spaces(point):
            rows = space.feasible.sample(1, np.random.default_rng(0))
            near, _ = neighbourhoods.hamming(space, rows, np.random.default_rng(0))
            other = near[(near != rows)[:, space.columns["at"]].any(axis=1)]
            assert len(other) == len(point.values) - 1


def test_steps_in_a_table():
    space = Space({"at": POINTS[0], "tile": [1, 2, 4, 8]})
    codes = space.feasible.listed
    for neighbourhood, find in (
        ("adjacent", neighbourhoods.adjacent),
        ("hamming", neighbourhoods.hamming),
    ):
        table = read_space_columns(space, codes, neighbourhood)
        pairs = sum(len(first) for first, _ in neighbour_pairs(table))
        near, _ = find(space, codes, np.random.default_rng(0))
        assert 2 * pairs == len(near)


def test_a_table_cannot_limit_a_point():
    with pytest.raises(SpaceError, match="'at' has 2 code columns"):
        TableConstraint.of({"at": POINTS[0]}, np.array([[0.0, 1.0]]))


# ----  ----


ALL = Space(
    {
        "x": Real(1e-4, 10.0, log=True),
        "seven": [7],
        "k": Integer(3, 12),
        "g": Integer(1, 100, log=True),
        "o": Permutation(["i", "j", "l"]),
        "c": Categorical(["p", "q"]),
        "r": Real(2.0, 2.0),
        "wide": Integer(0, 2**40),
        "biglog": Integer(5, 2**40, log=True),
        "t": Ordinal([1, 2, 4, 8, 16], log=True),
    }
)


@given(st.integers(0, 2**32 - 1))
def test_codes_come_back_from_their_points(seed):
    codes = ALL.feasible.sample(20, np.random.default_rng(seed))
    points = UnitBox.of(ALL).to_unit(codes)
    assert points.shape == (20, 10)
    assert ((points >= 0) & (points <= 1)).all()
    np.testing.assert_allclose(UnitBox.of(ALL).from_unit(points), codes, rtol=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_every_point_has_legal_codes(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(0.5, 1.0, (50, 10))
    assert ALL.feasible.contains(UnitBox.of(ALL).from_unit(points)).all()


def test_values_lie_on_the_grid_of_the_survey():
    space = Space({"t": [1, 2, 4, 8], "c": Categorical(["p", "q"])})
    points = UnitBox.of(space).to_unit(space.encode([{"t": 1, "c": "q"}, {"t": 8, "c": "p"}]))
    np.testing.assert_allclose(points, [[1 / 8, 3 / 4], [7 / 8, 1 / 4]])
    codes = UnitBox.of(space).from_unit(
        np.array([[0.0, 0.49], [0.2501, 0.51], [0.99, 1.0], [1.0, -3.0]])
    )
    np.testing.assert_array_equal(codes, [[0, 0], [1, 1], [3, 1], [3, 0]])


def test_reals_and_logarithms_by_their_scale():
    space = Space({"x": Real(1.0, 100.0, log=True), "y": Real(-1.0, 3.0)})
    np.testing.assert_allclose(UnitBox.of(space).to_unit(np.array([[10.0, 0.0]])), [[0.5, 0.25]])
    np.testing.assert_allclose(
        UnitBox.of(space).from_unit(np.array([[0.25, 0.75]])), [[10**0.5, 2.0]]
    )


def test_an_integer_with_log_has_intervals_of_its_logarithm():
    space = Space({"g": Integer(1, 4, log=True)})
    length = np.log(4.5 / 0.5)
    ends = np.log(np.array([0.5, 1.5, 2.5, 3.5, 4.5]) / 0.5) / length
    np.testing.assert_allclose(
        UnitBox.of(space).to_unit(np.arange(4.0)[:, None])[:, 0], (ends[1:] + ends[:-1]) / 2
    )
    inside = np.concatenate([ends[:-1] + 1e-9, ends[1:] - 1e-9])
    np.testing.assert_array_equal(
        UnitBox.of(space).from_unit(inside[:, None])[:, 0], [0, 1, 2, 3] * 2
    )


def test_permutations_by_random_keys():
    space = Space({"o": Permutation(["a", "b", "c"])})
    codes = UnitBox.of(space).from_unit(np.array([[0.9, 0.1, 0.5], [0.5, 0.5, 0.2]]))
    assert [c["o"] for c in space.decode(codes)] == [("b", "c", "a"), ("c", "a", "b")]


def test_one_step_is_equally_long_on_every_axis_of_the_scaled_box():
    space = Space(
        {"t": list(range(8)), "c": Categorical(["p", "q"]), "o": Permutation(list("abcd"))}
    )
    box = UnitBox.of(space)
    np.testing.assert_allclose(box.extents, [1.0, 0.25, 0.5, 0.5, 0.5, 0.5])
    codes = np.array([[0.0, 0, 0, 1, 2, 3], [1.0, 1, 1, 0, 3, 2]])
    left, right = box.to_unit(codes) * box.extents
    np.testing.assert_allclose(np.abs(left - right), 1 / 8)


@pytest.mark.parametrize(
    ("parameters", "extents"),
    [
        ({"x": Real(0, 1), "f": [True, False], "t": [1, 2, 3, 4]}, [1.0, 0.5, 1.0]),
        ({"x": Real(0, 1)}, [1.0]),
        ({"n": Integer(0, 10**6), "t": [1, 2, 3]}, [1.0, 1.0]),
        ({"seven": [7]}, []),
    ],
)
def test_reals_and_wide_integers_have_the_whole_axis(parameters, extents):
    space = Space(parameters)
    box = UnitBox.of(space)
    np.testing.assert_allclose(box.extents, extents)
    assert space.feasible.contains(box.from_unit(np.full((2, box.axes), 0.3))).all()
