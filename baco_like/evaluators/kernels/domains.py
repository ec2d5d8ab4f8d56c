"""Allowed values of a kernel's parameters, checked before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._checks import is_whole
from baco_like.evaluators.settings_table import shown, suggestion
from baco_like.exceptions import EvaluatorError

if TYPE_CHECKING:  # else every start of a worker imports the parameters
    from baco_like.parameters.protocol import Parameter

_MAX_LISTED = 4096
"""Parameters with more values are checked one value at a time, when a configuration is built."""


@dataclass(frozen=True)
class Domain:
    """Allowed values of one kernel parameter.

    Attributes:
        contains: Returns whether a value is allowed.
        description: The allowed values in words, for error messages.
        default: The value used when the space does not have the parameter.
    """

    contains: Callable[[Any], bool]
    description: str
    default: Any


def count(default: int = 1, high: int = 2**20) -> Domain:
    """Return the domain of whole numbers from 1 to ``high``."""
    return Domain(lambda v: is_whole(v, 1, high), f"a whole number from 1 to {high}", default)


def number_below(bound: int, default: int = 0) -> Domain:
    """Return the domain of whole numbers from 0 to ``bound - 1``."""
    text = f"a whole number from 0 to {bound - 1}"
    return Domain(lambda v: is_whole(v, 0, bound - 1), text, default)


def switch(default: bool = False) -> Domain:
    """Return the domain of True and False, which may also be written 1 and 0."""
    return Domain(lambda v: isinstance(v, (bool, int)) and v in (0, 1), "true or false", default)


def choice(*options: str) -> Domain:
    """Return the domain of the given words; the first is the default."""
    return Domain(lambda v: v in options, f"one of {', '.join(options)}", options[0])


def order_of(*elements: str) -> Domain:
    """Return the domain of all permutations of the elements; the given order is the default."""
    text, known = f"a permutation of {', '.join(elements)}", sorted(elements)
    return Domain(lambda v: isinstance(v, tuple) and sorted(v) == known, text, elements)


def complete_config(
    kernel: str, domains: Mapping[str, Domain], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a configuration with the default of every parameter that it does not have.

    Args:
        kernel: Name of the kernel, for error messages.
        domains: The kernel's parameters.
        config: Values of some of them.

    Raises:
        EvaluatorError: The kernel has no such parameter, or a value is not allowed.
    """
    for name, value in config.items():
        if name not in domains:
            raise EvaluatorError(f"{kernel} has no parameter {name!r}; {suggestion(name, domains)}")
        if not domains[name].contains(value):
            raise EvaluatorError(
                f"{kernel} parameter {name!r}: {shown(value)} is not {domains[name].description}"
            )
    return {**{name: domain.default for name, domain in domains.items()}, **config}


def list_values(parameter: Parameter) -> Sequence[Any]:
    """Return all values of a parameter, or one sample if there are too many to list."""
    if parameter.width == 1 and parameter.cardinality <= _MAX_LISTED:
        return parameter.decode(np.arange(parameter.cardinality, dtype=np.float64)[:, None])
    return parameter.decode(parameter.sample(1, np.random.default_rng(0)))
