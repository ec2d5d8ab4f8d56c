"""Build a space from the search space that another tuner has enumerated, and translate its configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters.values import plain
from baco_like.spaces.space import Space

ForeignRow = tuple[Any, ...]
"""A configuration of the other tuner: its values in the order of the parameters."""


@dataclass(frozen=True)
class ListedSpace:
    """A space together with the values that the other tuner uses.

    Attributes:
        space: Its feasible configurations are those that the other tuner lists.
        originals: For each parameter, maps the type and the plain value to the value in the other tuner.
    """

    space: Space
    originals: Mapping[str, Mapping[tuple[type, Any], Any]]

    def to_row(self, config: Mapping[str, Any]) -> ForeignRow:
        """Return a configuration in the other tuner's values."""
        return tuple(
            self.originals[name][type(config[name]), config[name]] for name in self.space.names
        )

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
        return dict(zip(names, map(plain, row), strict=True))


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
        name: {(type(plain(value)), plain(value)): value for value in values}
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
