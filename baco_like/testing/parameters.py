"""Checks that every parameter type must pass, as functions of a parameter; `CHECKS` lists them.

Run them on your own parameter type::

    for check in CHECKS:
        check(MyParameter(...))
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from baco_like._typing import Codes
from baco_like.exceptions import ConfigError
from baco_like.journal.memory import MemoryJournal
from baco_like.optimizer import Optimizer
from baco_like.parameters.protocol import (
    ContinuousParameter,
    Parameter,
    ParameterKind,
    PermutationParameter,
)
from baco_like.parameters.registry import parameter_from_dict, parameter_to_dict
from baco_like.spaces.space import Space

Check = Callable[[Parameter], None]

_PROPORTIONAL = 1.4
"""Largest over smallest ratio of two distances that count as proportional.

Only the naive metric of long permutations needs it: its features are hashed, so their distances vary by some per cent.
"""

_DRAWS = 200

_LISTED = 1000
"""Parameters of at most this number of values are checked value by value."""


def _codes(parameter: Parameter) -> Codes:
    """Return all codes of a small scalar parameter, else random ones."""
    if parameter.width == 1 and parameter.cardinality <= _LISTED:
        count = int(parameter.cardinality)
        return parameter.code_range[0] + np.arange(count, dtype=np.float64)[:, None]
    return parameter.sample_uniform(_DRAWS, np.random.default_rng(0))


def encoding_is_the_inverse_of_decoding(parameter: Parameter) -> None:
    """Legal codes survive decoding and encoding, and decoded values are contained in the parameter."""
    codes = _codes(parameter)
    assert codes.shape[1] == parameter.width, "codes have `width` columns"
    assert codes.dtype == np.float64, "codes are float64"
    values = parameter.decode(codes)
    assert all(parameter.contains(value) for value in values), (
        "contains() is True for every decoded value"
    )
    np.testing.assert_array_equal(
        parameter.encode(values), codes, err_msg="encode() is the inverse of decode()"
    )
    assert parameter.legal(codes).all(), "legal() is True for the code of every value"
    low, high = parameter.code_range
    assert codes.min() >= low, "no code is below `code_range`"
    assert codes.max() <= high, "no code is above `code_range`"
    if parameter.width == 1 and parameter.cardinality <= _LISTED:
        assert len(set(map(repr, values))) == parameter.cardinality, (
            "`cardinality` is the number of distinct values"
        )
    if parameter.values is not None:
        assert list(parameter.values) == values[: len(parameter.values)], (
            "`values` are in the order of their codes"
        )


def unknown_values_are_rejected(parameter: Parameter) -> None:
    """A value outside the domain is not contained, and `encode` raises `ConfigError`."""
    outside = object()
    assert not parameter.contains(outside), "contains() is False for a value outside the domain"
    try:
        parameter.encode([outside])
    except ConfigError:
        pass
    else:
        raise AssertionError("encode() accepted a value outside the domain")
    low, high = parameter.code_range
    illegal = np.array([[low - 1.0] * parameter.width, [high + 1.0] * parameter.width])
    assert not parameter.legal(illegal).any(), "legal() is False outside `code_range`"


def draws_are_legal_and_depend_on_the_generator(parameter: Parameter) -> None:
    """Both samplers return legal codes of the right shape, and the same generator gives the same codes."""
    for sample in (parameter.sample, parameter.sample_uniform):
        codes = sample(_DRAWS, np.random.default_rng(3))
        assert codes.shape == (_DRAWS, parameter.width), (
            "a sample of n codes has the shape (n, width)"
        )
        assert parameter.legal(codes).all(), "samplers draw legal codes"
        np.testing.assert_array_equal(
            codes,
            sample(_DRAWS, np.random.default_rng(3)),
            err_msg="equal generators give equal samples",
        )
    assert np.isfinite(
        parameter.log_density(parameter.sample(5, np.random.default_rng(0)))
    ).all(), "log_density() is finite for drawn codes"


def unit_scale_and_codes_correspond(parameter: Parameter) -> None:
    """`from_unit` undoes `to_unit`, and every point of the unit cube has a legal code."""
    codes = _codes(parameter)
    points = parameter.to_unit(codes)
    assert points.shape == codes.shape, "to_unit() keeps the shape"
    assert points.min() >= 0.0, "no coordinate of to_unit() is below 0"
    assert points.max() <= 1.0, "no coordinate of to_unit() is above 1"
    np.testing.assert_allclose(
        parameter.from_unit(points),
        codes,
        rtol=1e-9,
        atol=1e-9,
        err_msg="from_unit() is the inverse of to_unit()",
    )
    corners = np.array([[0.0] * parameter.width, [1.0] * parameter.width])
    assert parameter.legal(parameter.from_unit(corners)).all(), (
        "from_unit() gives legal codes at the ends of [0, 1]"
    )
    if parameter.kind in (ParameterKind.ORDERED, ParameterKind.UNORDERED):
        lengths = parameter.interval_lengths(codes)
        assert lengths is None or (lengths.shape == (len(codes),) and lengths.min() > 0), (
            "interval_lengths() is None or has one positive number for each code"
        )


def neighbours_fit_the_kind(parameter: Parameter) -> None:
    """Neighbours are legal other values, with increasing owners, and as many as the kind says."""
    codes = _codes(parameter)[:50]
    rows, owner = parameter.neighbours(codes)
    assert rows.shape == (len(owner), parameter.width), (
        "neighbours() returns one owner for each row"
    )
    assert (np.diff(owner) >= 0).all(), "the owners of neighbours increase"
    assert parameter.legal(rows).all(), "neighbours are legal"
    assert (rows != codes[owner]).any(axis=1).all(), "a value is not its own neighbour"
    counts = np.bincount(owner, minlength=len(codes))
    if parameter.kind is ParameterKind.CONTINUOUS:
        assert counts.sum() == 0, "a continuous parameter has no neighbours"
        assert isinstance(parameter, ContinuousParameter), (
            "a continuous parameter is a ContinuousParameter: it has narrowed()"
        )
    if parameter.kind is ParameterKind.ORDERED:
        assert (np.abs(rows - codes[owner]) == 1.0).all(), (
            "the codes of ordered neighbours differ by 1"
        )
    if parameter.kind is ParameterKind.UNORDERED:
        assert (counts == parameter.cardinality - 1).all(), (
            "all other values are neighbours of an unordered value"
        )
    if parameter.kind is ParameterKind.PERMUTATION:
        assert (counts == parameter.width - 1).all(), "an order of m elements has m - 1 neighbours"
        assert isinstance(parameter, PermutationParameter), (
            "a permutation is a PermutationParameter"
        )


def features_measure_the_distance(parameter: Parameter) -> None:
    """Distances are symmetric and 0 for equal values only; the features' Euclidean distance is the scaled distance.

    The square of the Euclidean distance may be the scaled distance instead.
    """
    codes = _codes(parameter)[:50]
    distance = parameter.distance(codes, codes)
    assert distance.shape == (len(codes), len(codes)), "distance() has one number for each pair"
    np.testing.assert_allclose(distance, distance.T, atol=1e-9, err_msg="distances are symmetric")
    assert (np.diag(distance) == 0).all(), "the distance of a value from itself is 0"
    same = (codes[:, None, :] == codes[None, :, :]).all(axis=2)
    assert (distance[~same] > 0).all(), "the distance of two different values is positive"
    features = parameter.features(codes)
    assert len(features) == len(codes), "features() has one row for each value"
    assert np.isfinite(features).all(), "features are finite"
    assert (features.shape[1] == 0) == (parameter.cardinality == 1), (
        "a constant has no feature columns, and every other parameter has at least one"
    )
    apart = np.sqrt(((features[:, None, :] - features[None, :, :]) ** 2).sum(axis=2))
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
    codes = _codes(parameter)
    column = parameter.column(codes)
    assert len(column) == len(codes), "column() has one entry for each row"
    if column.dtype.kind in "iuf" and column.ndim == 1:
        assert parameter.extent.low <= column.min(), "no entry of column() is below `extent`"
        assert column.max() <= parameter.extent.high, "no entry of column() is above `extent`"


def texts_and_json_are_read_back(parameter: Parameter) -> None:
    """Values survive as text and as JSON, and the parameter survives its JSON description."""
    for value in parameter.decode(_codes(parameter)[:50]):
        assert parameter.value_from_text(value) == value, (
            "value_from_text() returns a value unchanged"
        )
        assert parameter.value_from_text(json.loads(json.dumps(value))) == value, (
            "value_from_text() reads a JSON value back"
        )
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        assert parameter.value_from_text(text) == value, "value_from_text() reads str(value) back"
    written: dict[str, Any] = json.loads(json.dumps(parameter_to_dict(parameter)))
    assert parameter_from_dict(written) == parameter, (
        "the JSON of to_dict() gives an equal parameter"
    )
    assert Space({"p": parameter}) == Space.from_dict(Space({"p": parameter}).to_dict()), (
        "a space of this parameter survives to_dict()"
    )


def runs_and_resumes(parameter: Parameter) -> None:
    """The default strategy suggests feasible values, and a run that was read from its journal continues the same."""
    space = Space({"p": parameter, "other": [1, 2, 4, 8]})
    count = math.inf if space.feasible.count is None else space.feasible.count
    journal = MemoryJournal()
    optimizer = Optimizer(space, seed=0, storage=journal)
    steps = int(min(12, count)) - 1
    for number in range(steps):
        trial = optimizer.suggest()
        assert space.contains(trial.config), f"suggestions are feasible: {trial}"
        optimizer.observe(trial, 1.0 + number % 5)
    events = json.loads(json.dumps(journal.events))
    resumed = Optimizer(space, seed=0, storage=MemoryJournal(events))
    assert dict(resumed.suggest().config) == dict(optimizer.suggest().config), (
        "a resumed run suggests the same"
    )


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
