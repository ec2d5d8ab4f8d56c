"""The search space of another tuner that has listed it, as a space of ours, and configurations there and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like._typing import Codes
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters.values import plain
from baco_like.spaces.space import Space

Row = tuple[Any, ...]
"""A configuration of the other tuner: its values in the order of the parameters."""


@dataclass(frozen=True)
class Translation:
    """A space and how the other tuner writes its configurations.

    Attributes:
        space: Its feasible configurations are those that the other tuner lists.
        originals: By parameter, from the type and plain value of each of its values to the value as it was given.
    """

    space: Space
    originals: Mapping[str, Mapping[tuple[type, Any], Any]]

    def row(self, config: Mapping[str, Any]) -> Row:
        """Return a configuration of the space in the values that were given."""
        return tuple(
            self.originals[name][type(config[name]), config[name]] for name in self.space.names
        )

    def config(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return a row as a configuration of the space; the inverse of the method `row`.

        Raises:
            ConfigError: It has another number of values.
        """
        if len(row) != len(self.space.names):
            raise ConfigError(
                f"{row!r:.100} has {len(row)} values for {len(self.space.names)} parameters: "
                f"{', '.join(self.space.names)}"
            )
        return dict(zip(self.space.names, map(plain, row), strict=True))


def translation(
    domains: Mapping[str, Iterable[Any]], restrictions: Any, rows: Sequence[Row]
) -> Translation:
    """Return the space of the configurations that another tuner lists.

    The restrictions are its constraints where they say the same, because expressions tell a model more than a list
    does; else the list is. They do not say the same where the tuner has added its own (Kernel Tuner the device's limit
    on threads), or where they are written in a way that only it reads.

    Args:
        domains: From each name to its values.
        restrictions: As `Space.from_kernel_tuner` takes them, or anything else.
        rows: All configurations that satisfy them.

    Raises:
        SpaceError: There are values that no parameter can have.
    """
    bare = Space.from_kernel_tuner(domains)
    originals = {
        name: {(type(plain(value)), plain(value)): value for value in values}
        for name, values in domains.items()
    }
    free = Translation(bare, originals)
    codes = bare.encode([free.config(row) for row in rows])
    space = _declared(domains, restrictions, codes) or _listed(bare, codes)
    return Translation(space, originals)


def _declared(domains: Mapping[str, Any], restrictions: Any, codes: Codes) -> Space | None:
    """Return the space of the restrictions if it holds just these rows."""
    try:
        space = Space.from_kernel_tuner(domains, restrictions)
    except SpaceError:
        return None
    same = space.feasible_size == len(codes) and bool(space.feasible.contains(codes).all())
    return space if same else None


def _listed(bare: Space, codes: Codes) -> Space:
    """Return the space with the rows as its one constraint."""
    varying = {name: bare.parameters[name] for name in bare.active}
    if not varying:
        return bare
    columns = [bare.columns[name].start for name in varying]
    return Space(bare.parameters, [TableConstraint.of(varying, codes[:, columns])])
