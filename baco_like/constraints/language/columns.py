"""The values of a column as Python objects, for constraints that are evaluated row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from baco_like._typing import Column
from baco_like.constraints.language.exact import Arrangement
from baco_like.parameters.extent import ColumnKind
from baco_like.parameters.protocol import Parameter, PermutationParameter, is_permutation
from baco_like.parameters.values import is_number


def plain_values(parameter: Parameter, column: Column) -> list[Any]:
    """Return the Python values of a column; a permutation's are `Arrangement` objects."""
    if is_permutation(parameter):
        return [_arrangement(parameter, positions) for positions in column.tolist()]
    values: list[Any] = column.tolist()
    if parameter.values is not None and parameter.extent.kind is ColumnKind.NUMBER:
        own = {float(value): value for value in parameter.values if is_number(value)}
        return [own[value] for value in values]
    return values


def _arrangement(parameter: PermutationParameter, positions: Sequence[int]) -> Arrangement:
    order: list[Any] = [None] * len(positions)
    for element, position in zip(parameter.elements, positions, strict=True):
        order[position] = element
    return Arrangement(tuple(positions), tuple(order))


def finite(*numbers: int | float) -> bool:
    """Whether all are finite."""
    return all(map(math.isfinite, numbers))
