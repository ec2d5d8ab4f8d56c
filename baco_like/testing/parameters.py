"""Checks that every parameter type must pass, as functions of a parameter; `CHECKS` lists them.

Run them on your own parameter type::

    for check in CHECKS:
        check(MyParameter(...))
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from baco_like._typing import Codes
from baco_like.exceptions import ConfigError
from baco_like.parameters.protocol import (
    ContinuousParameter,
    Parameter,
    ParameterKind,
    PermutationParameter,
    SequenceParameter,
)
from baco_like.parameters.registry import parameter_from_dict, parameter_to_dict
from baco_like.spaces.space import Space
from baco_like.strategies import Auto
from baco_like.testing import assert_raises
from baco_like.testing.strategies import resume_is_continue

Check = Callable[[Parameter], None]

_PROPORTIONAL = 1.4
"""Largest over smallest ratio of two distances that count as proportional.

Only the naive metric of long permutations needs it: its features are hashed, so their distances vary by some per cent.
"""

_DRAWS = 200

_LISTED = 1000
"""Parameters of at most this number of values are checked value by value."""


def _codes(parameter: Parameter) -> Codes:
    """Return all codes of a small scalar or listed parameter, else random ones."""
    if parameter.width == 1 and parameter.cardinality <= _LISTED:
        count = int(parameter.cardinality)
        return parameter.code_range[0] + np.arange(count, dtype=np.float64)[:, None]
    if parameter.values is not None:
        return parameter.encode(parameter.values[:_LISTED])
    return parameter.sample_uniform(_DRAWS, np.random.default_rng(0))


def encoding_is_the_inverse_of_decoding(parameter: Parameter) -> None:
    """Legal codes survive decoding and encoding, and decoded values are contained in the parameter."""
    codes = _codes(parameter)
    assert codes.shape[1] == parameter.width, "codes have `width` columns"
    assert codes.dtype == np.float64, "codes are float64"
    values = parameter.decode(codes)
    assert all(map(parameter.contains, values)), "contains() is True for every decoded value"
    assert_array_equal(parameter.encode(values), codes, "encode() is the inverse of decode()")
    assert parameter.legal(codes).all(), "legal() is True for the code of every value"
    low, high = parameter.code_range
    assert low <= codes.min() <= codes.max() <= high, "codes lie in `code_range`"
    if parameter.width == 1 and parameter.cardinality <= _LISTED:
        distinct = len(set(map(repr, values)))
        assert distinct == parameter.cardinality, "`cardinality` is the number of distinct values"
    if parameter.values is not None:
        first = values[: len(parameter.values)]
        assert list(parameter.values) == first, "`values` are in the order of their codes"


def unknown_values_are_rejected(parameter: Parameter) -> None:
    """A value outside the domain is not contained, and `encode` raises `ConfigError`."""
    outside = object()
    assert not parameter.contains(outside), "contains() is False for a value outside the domain"
    with assert_raises(ConfigError, msg="encode() of a value outside the domain"):
        parameter.encode([outside])
    low, high = parameter.code_range
    illegal = np.array([[low - 1.0] * parameter.width, [high + 1.0] * parameter.width])
    assert not parameter.legal(illegal).any(), "legal() is False outside `code_range`"


def draws_are_legal_and_depend_on_the_generator(parameter: Parameter) -> None:
    """Both samplers return legal codes of the right shape, and the same generator gives the same codes."""
    for sample in (parameter.sample, parameter.sample_uniform):
        codes, again = (sample(_DRAWS, np.random.default_rng(3)) for _ in range(2))
        assert codes.shape == (_DRAWS, parameter.width), "n drawn codes have the shape (n, width)"
        assert parameter.legal(codes).all(), "samplers draw legal codes"
        assert_array_equal(codes, again, "equal generators give equal samples")
    densities = parameter.log_density(parameter.sample(5, np.random.default_rng(0)))
    assert np.isfinite(densities).all(), "log_density() is finite for drawn codes"


def unit_scale_and_codes_correspond(parameter: Parameter) -> None:
    """`from_unit` undoes `to_unit`, and every point of the unit cube has a legal code."""
    codes = _codes(parameter)
    points = parameter.to_unit(codes)
    assert points.shape == codes.shape, "to_unit() keeps the shape"
    assert 0.0 <= points.min() <= points.max() <= 1.0, "to_unit() gives coordinates in [0, 1]"
    message = "from_unit() is the inverse of to_unit()"
    assert_allclose(parameter.from_unit(points), codes, 1e-9, 1e-9, err_msg=message)
    corners = np.array([[0.0] * parameter.width, [1.0] * parameter.width])
    legal = parameter.legal(parameter.from_unit(corners))
    assert legal.all(), "from_unit() gives legal codes at the ends of [0, 1]"
    if parameter.kind in (ParameterKind.ORDERED, ParameterKind.UNORDERED):
        lengths = parameter.interval_lengths(codes)
        if lengths is not None:
            assert lengths.shape == (len(codes),), "interval_lengths() has one number for each code"
            assert lengths.min() > 0, "interval_lengths() are positive"


def neighbours_fit_the_kind(parameter: Parameter) -> None:
    """Neighbours are legal other values, with increasing owners, and as many as the kind says."""
    codes = _codes(parameter)[:50]
    rows, owner = parameter.neighbours(codes)
    assert rows.shape == (len(owner), parameter.width), "neighbours() gives an owner for each row"
    assert (np.diff(owner) >= 0).all(), "the owners of neighbours increase"
    assert parameter.legal(rows).all(), "neighbours are legal"
    steps = np.abs(rows - codes[owner])
    assert steps.any(axis=1).all(), "a value is not its own neighbour"
    counts = np.bincount(owner, minlength=len(codes))
    match parameter.kind:
        case ParameterKind.CONTINUOUS:
            assert counts.sum() == 0, "a continuous parameter has no neighbours"
            narrowable = parameter.width > 1 or isinstance(parameter, ContinuousParameter)
            assert narrowable, "a continuous number is a ContinuousParameter: it has narrowed()"
        case ParameterKind.ORDERED:
            assert (steps.sum(axis=1) == 1.0).all(), "the codes of ordered neighbours differ by 1"
        case ParameterKind.UNORDERED:
            others = parameter.cardinality - 1
            assert (counts == others).all(), "all other values are neighbours of an unordered value"
        case ParameterKind.PERMUTATION:
            assert (counts == parameter.width - 1).all(), "m elements have m - 1 neighbours"
            ordered = isinstance(parameter, PermutationParameter)
            assert ordered, "a permutation is a PermutationParameter"
        case ParameterKind.SEQUENCE:
            assert isinstance(parameter, SequenceParameter), "a sequence is a SequenceParameter"
            moved = parameter.change(codes, np.random.default_rng(1))
            assert parameter.legal(moved).all(), "moves keep a sequence legal"


def features_measure_the_distance(parameter: Parameter) -> None:
    """Distances are symmetric and 0 for equal values only; the features' Euclidean distance is the scaled distance.

    The square of the Euclidean distance may be the scaled distance instead. A few sequences may be at distance 0.
    """
    codes = _codes(parameter)[:50]
    distance = parameter.distance(codes, codes)
    assert distance.shape == (len(codes), len(codes)), "distance() has one number for each pair"
    assert_allclose(distance, distance.T, atol=1e-9, err_msg="distances are symmetric")
    assert (np.diag(distance) == 0).all(), "the distance of a value from itself is 0"
    same = (codes[:, None, :] == codes[None, :, :]).all(axis=2)
    if parameter.kind is ParameterKind.SEQUENCE:  # features leave out a part of the order
        same |= distance == 0
        assert same.mean() < 0.1, "the distance of most different sequences is positive"
    assert (distance[~same] > 0).all(), "the distance of two different values is positive"
    features = parameter.features(codes)
    assert len(features) == len(codes), "features() has one row for each value"
    assert np.isfinite(features).all(), "features are finite"
    is_constant = parameter.cardinality == 1
    assert (features.shape[1] == 0) == is_constant, "only constants have no feature columns"
    apart = cdist(features, features)
    assert apart.max(initial=0.0) <= 1.1, "the features of two values are at most 1 apart"
    if same.all():
        return
    assert (apart[~same] > 0).all(), "different values have different features"
    ratios = [power[~same] / distance[~same] for power in (apart, apart**2)]
    assert any(ratio.max() <= _PROPORTIONAL * ratio.min() for ratio in ratios), (
        "the features' Euclidean distance, or its square, is proportional to distance()"
    )


def column_has_its_extent(parameter: Parameter) -> None:
    """`column` has one entry for each row, within the bounds of `extent`."""
    codes, extent = _codes(parameter), parameter.extent
    column = parameter.column(codes)
    assert len(column) == len(codes), "column() has one entry for each row"
    if column.dtype.kind in "iuf" and column.ndim == 1:
        bounds = column.min(), column.max()
        assert extent.low <= bounds[0] <= bounds[1] <= extent.high, "column() lies in `extent`"


def texts_and_json_are_read_back(parameter: Parameter) -> None:
    """Values survive as text and as JSON, and the parameter survives its JSON description."""
    for value in parameter.decode(_codes(parameter)[:50]):
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for written in (value, json.loads(json.dumps(value)), text):
            read = parameter.value_from_text(written)
            assert read == value, f"value_from_text({written!r}) returns {value!r}"
    description: dict[str, Any] = json.loads(json.dumps(parameter_to_dict(parameter)))
    assert parameter_from_dict(description) == parameter, "to_dict() describes the parameter"
    space = Space({"p": parameter})
    assert Space.from_dict(space.to_dict()) == space, "a space of this parameter survives to_dict()"


def runs_and_resumes(parameter: Parameter) -> None:
    """The default strategy suggests feasible values, and a run that was read from its journal continues the same."""
    space = Space({"p": parameter, "other": [1, 2, 4, 8]})
    resume_is_continue(Auto(), space)


CHECKS: tuple[Check, ...] = (
    encoding_is_the_inverse_of_decoding,
    unknown_values_are_rejected,
    draws_are_legal_and_depend_on_the_generator,
    unit_scale_and_codes_correspond,
    neighbours_fit_the_kind,
    features_measure_the_distance,
    column_has_its_extent,
    texts_and_json_are_read_back,
    runs_and_resumes,
)
