"""What the parameters of a generated kernel may be; a value that is not understood is told before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from baco_like.evaluators.settings_table import shown, suggestion
from baco_like.exceptions import EvaluatorError
from baco_like.parameters.protocol import Parameter

_LISTED = 4096
"""Up to so many values of a parameter are checked in advance; more are checked as they come."""


@dataclass(frozen=True)
class Domain:
    """What one parameter may be.

    Attributes:
        understood: Whether a value is one of it.
        wanted: What messages say it should be.
        default: What it is where a space leaves it out.
    """

    understood: Callable[[Any], bool]
    wanted: str
    default: Any


def count(default: int = 1, high: int = 2**20) -> Domain:
    """Return the domain of whole numbers from 1."""
    wanted = f"a whole number from 1 to {high}"
    return Domain(lambda v: _whole(v) and 1 <= v <= high, wanted, default)


def number_below(bound: int, default: int = 0) -> Domain:
    """Return the domain of whole numbers from 0 that are less than ``bound``."""
    wanted = f"a whole number from 0 to {bound - 1}"
    return Domain(lambda v: _whole(v) and 0 <= v < bound, wanted, default)


def switch(default: bool = False) -> Domain:
    """Return the domain of what is on or off: true or false, or 1 or 0."""
    return Domain(lambda v: isinstance(v, (bool, int)) and v in (0, 1), "true or false", default)


def choice(*options: str) -> Domain:
    """Return the domain of some words, of which the first is the default."""
    return Domain(lambda v: v in options, f"one of {', '.join(options)}", options[0])


def order_of(*elements: str) -> Domain:
    """Return the domain of the permutations of some words; the default is as they are given."""
    wanted = f"a permutation of {', '.join(elements)}"
    known = sorted(elements)
    return Domain(lambda v: isinstance(v, tuple) and sorted(v) == known, wanted, elements)


def completed(
    kind: str, domains: Mapping[str, Domain], config: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a configuration with the defaults of what it leaves out.

    Raises:
        EvaluatorError: A parameter or a value is not understood.
    """
    for name, value in config.items():
        if name not in domains:
            raise EvaluatorError(f"{kind} has no parameter {name!r}; {suggestion(name, domains)}")
        if not domains[name].understood(value):
            raise EvaluatorError(
                f"{kind} parameter {name!r}: {shown(value)} is not {domains[name].wanted}"
            )
    return {**{name: domain.default for name, domain in domains.items()}, **config}


def check_parameters(
    kind: str, domains: Mapping[str, Domain], parameters: Mapping[str, Parameter]
) -> None:
    """Raise `EvaluatorError` if a parameter, or one of its values, is not understood."""
    for name, parameter in parameters.items():
        for value in values_of(parameter):
            completed(kind, domains, {name: value})


def values_of(parameter: Parameter) -> Sequence[Any]:
    """Return the values of a parameter, or one of them where they cannot be listed."""
    if parameter.width == 1 and parameter.cardinality <= _LISTED:
        return parameter.decode(np.arange(parameter.cardinality, dtype=np.float64)[:, None])
    return parameter.decode(parameter.sample(1, np.random.default_rng(0)))


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
