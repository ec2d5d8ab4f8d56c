"""Bounds of a parameter from its comparisons with constants: ``0.1 <= x <= 1e-3 * 200``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

from baco_like.constraints.language import tree
from baco_like.constraints.language.tree import Node
from baco_like.parameters.values import is_number

Bounds = tuple[float, float]

_MIRRORED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "=="}


def find_bounds(node: Node, name: str) -> Bounds:
    """Return the least and the greatest number that comparisons of a parameter with constants allow.

    The bounds themselves may be allowed or not. Other conditions, and comparisons joined by ``or``, give no bound.
    """
    if isinstance(node, tree.Junction) and node.operator == "and":
        return _both([find_bounds(part, name) for part in node.parts])
    if not isinstance(node, tree.Comparison):
        return -math.inf, math.inf
    sides = pairwise((node.left, *node.rights))
    steps = zip(node.operators, sides, strict=True)
    return _both([_step(sign, left, right, name) for sign, (left, right) in steps])


def _step(sign: str, left: Node, right: Node, name: str) -> Bounds:
    if isinstance(right, tree.Name):
        sign, left, right = _MIRRORED.get(sign, ""), right, left
    mine = isinstance(left, tree.Name) and left.name == name
    if not (mine and isinstance(right, tree.Literal) and is_number(right.value)):
        return -math.inf, math.inf
    number = float(right.value)
    low = number if sign in (">", ">=", "==") else -math.inf
    return low, number if sign in ("<", "<=", "==") else math.inf


def _both(found: list[Bounds]) -> Bounds:
    return max(low for low, _ in found), min(high for _, high in found)
