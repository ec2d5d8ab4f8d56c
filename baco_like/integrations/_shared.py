"""Helpers that several integrations share: options, permutations as texts, parameters and spaces of other tools."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.optimizer import Optimizer, Search
from baco_like.parameters import Categorical, Ordinal, Parameter, Permutation
from baco_like.parameters.values import are_numbers, as_tuple, plain, value_key
from baco_like.records import Trial
from baco_like.spaces import Space
from baco_like.strategies import Strategy

MAX_ORDERS = 5040
"""Largest number of choices for one permutation (7 elements): the tools hold or iterate over all of them."""

ForeignRow = tuple[Any, ...]
"""A configuration of the other tuner: its values in the order of the parameters."""


def check_options(
    strategy: str | Strategy[Any] | Search, warm_start: Any, **options: Any
) -> dict[str, Any]:
    """Return keyword arguments of `Optimizer`; all but the warm start, which needs the space, are checked.

    An adapter so rejects a mistake when it is created, before the other tool has passed the space.

    Raises:
        ValueError: The strategy or a setting does not exist.
    """
    options["strategy"] = Search.of(strategy)
    Optimizer(Space({"any": [0, 1]}), **options)
    return {**options, "warm_start": warm_start}


def observe_answer(optimizer: Optimizer, trial: Trial, value: Any, **result: Any) -> None:
    """Observe the result of a suggestion that the other tool has evaluated.

    Another result may have answered the suggestion in the meantime: then this is a second measurement.
    """
    is_pending = trial.id in optimizer.history.pending
    optimizer.observe(trial if is_pending else dict(trial.config), value, imported=True, **result)


# Permutations as texts such as "i,j,k", for tools whose parameters are lists of choices -------------------------------


def order_texts(name: str, parameter: Permutation, tool: str) -> list[str]:
    """Return the texts of all orders of a permutation.

    Args:
        name: Name of the parameter, for error messages.
        parameter: The permutation.
        tool: Name of the tool, for error messages.

    Raises:
        SpaceError: The permutation has more than seven elements, or two orders have the same text.
    """
    if math.factorial(len(parameter.elements)) > MAX_ORDERS:
        raise SpaceError(
            f"parameter {name!r}: {tool} lists every order of a permutation, so at most 7 elements are supported, "
            f"not {len(parameter.elements)}; use Optimizer directly"
        )
    texts = [str(element) for element in parameter.elements]
    if len(set(texts)) < len(texts) or any("," in text for text in texts):
        raise SpaceError(
            f"parameter {name!r}: {tool} needs elements that differ as text and contain no comma, not {texts}"
        )
    return [",".join(order) for order in itertools.permutations(texts)]


def write_permutations(config: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a configuration, or a part of it, with its permutations as texts."""
    return {
        name: ",".join(map(str, value))
        if isinstance(space.parameters[name], Permutation)
        else value
        for name, value in config.items()
    }


def read_permutations(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return the values that belong to the space, with permutations as tuples; the inverse of `write_permutations`.

    A text that is not an order is returned unchanged, so that the space rejects it.
    """
    config = {name: as_tuple(values[name]) for name in space.names if name in values}
    for name, value in config.items():
        parameter = space.parameters[name]
        if isinstance(parameter, Permutation) and isinstance(value, str):
            config[name] = parameter.value_from_text(value) or value
    return config


# Parameters of another tool, one at a time ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ForeignParameter:
    """A parameter, and the values that the other tool uses for it.

    Attributes:
        parameter: The parameter.
        originals: Maps the key of each plain value (`value_key`) to the value in the other tool; a value that is
            missing is the same in both.
    """

    parameter: Parameter
    originals: Mapping[Any, Any]

    @classmethod
    def of(cls, values: Iterable[Any], default: Any) -> ForeignParameter:
        """Return the parameter of listed values: ordinal if all are numbers, else categorical.

        Sizes that grow by factors, such as powers of two, get a logarithmic scale. A list becomes a tuple, and any
        other value that no parameter has becomes its text.

        Args:
            values: The values; repeated values are ignored.
            default: Value in the default configuration; it need not be among the values.

        Raises:
            SpaceError: ``values`` is empty.
        """
        originals: dict[Any, Any] = {}
        given = [*values, default]
        plain_values = [_plain_value(value) for value in given]
        for own, value in zip(plain_values, given, strict=True):
            originals.setdefault(value_key(own), value)
        distinct = [key[1] for key in originals]
        return cls(listed_parameter(distinct, plain_values[-1]), originals)

    @classmethod
    def of_order(cls, length: int, default: Sequence[int]) -> ForeignParameter:
        """Return the parameter of the orders of so many numbers from 0, which the other tool has as lists."""
        return cls(Permutation(range(length), default=tuple(default)), {})

    def to_tool(self, value: Any) -> Any:
        """Return a value in the other tool's form."""
        if isinstance(self.parameter, Permutation):
            return list(value)
        return self.originals.get(value_key(value), value)

    def from_tool(self, value: Any) -> Any:
        """Return a value of the other tool in the form that the parameter has; the inverse of `to_tool`."""
        return _plain_value(value)


def listed_parameter(values: Sequence[Any], default: Any) -> Parameter:
    """Return an ordinal if all values are numbers, logarithmic if they grow by factors; else a categorical."""
    if not are_numbers(values):
        return Categorical(values, default)
    numbers = sorted(values)
    grows = numbers[0] > 0 and all(b >= 2 * a for a, b in itertools.pairwise(numbers))
    return Ordinal(numbers, log=grows, default=default)


def _plain_value(value: Any) -> Any:
    value = as_tuple(plain(value))
    try:
        Categorical([value])
    except SpaceError:
        return repr(value)
    return value


# Search spaces that another tuner has enumerated ----------------------------------------------------------------------


@dataclass(frozen=True)
class ListedSpace:
    """A space together with the values that the other tuner uses.

    Attributes:
        space: Its feasible configurations are those that the other tuner lists.
        originals: For each parameter, maps the key of the plain value (`value_key`) to the value in the other tuner.
    """

    space: Space
    originals: Mapping[str, Mapping[tuple[type, Any], Any]]

    def to_row(self, config: Mapping[str, Any]) -> ForeignRow:
        """Return a configuration in the other tuner's values."""
        return tuple(self.originals[name][value_key(config[name])] for name in self.space.names)

    def to_config(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return a row as a configuration of the space; the inverse of `to_row`.

        Raises:
            ConfigError: The number of values is wrong.
        """
        names = self.space.names
        if len(row) != len(names):
            raise ConfigError(
                f"{row!r:.100} has {len(row)} values for {len(names)} parameters: {', '.join(names)}"
            )
        return dict(zip(names, map(as_tuple, row), strict=True))


def read_listed_space(
    domains: Mapping[str, Iterable[Any]], restrictions: Any, rows: Sequence[ForeignRow]
) -> ListedSpace:
    """Return the space of the configurations that another tuner lists.

    The restrictions become constraints if they allow exactly the listed rows, because a model learns more from
    expressions than from a list. Otherwise the list itself is the constraint: a tuner may add its own restrictions
    (Kernel Tuner adds the device's limit on threads) or accept a notation that this package cannot read.

    Args:
        domains: Maps each parameter name to its values.
        restrictions: As in `Space.from_kernel_tuner`; other objects are accepted and ignored.
        rows: All configurations that satisfy the restrictions.

    Raises:
        SpaceError: A value is not supported by any parameter type.
    """
    unconstrained = Space.from_kernel_tuner(domains)
    originals = {
        name: {value_key(as_tuple(value)): value for value in values}
        for name, values in domains.items()
    }
    to_config = ListedSpace(unconstrained, originals).to_config
    codes = unconstrained.encode([to_config(row) for row in rows])
    try:
        space = Space.from_kernel_tuner(domains, restrictions)
        if space.feasible_size == len(codes) and bool(space.feasible.contains(codes).all()):
            return ListedSpace(space, originals)
    except SpaceError:
        pass  # a notation that only the other tuner reads
    varying = {name: unconstrained.parameters[name] for name in unconstrained.active}
    if not varying:
        return ListedSpace(unconstrained, originals)
    columns = [unconstrained.columns[name].start for name in varying]
    table = TableConstraint.of(varying, codes[:, columns])
    return ListedSpace(Space(unconstrained.parameters, [table]), originals)
