"""Parts by name: our own, and those that other installed packages offer as entry points.

The entry points are read when a name is asked for, never by ``import baco_like``, and a plug-in is imported when it is
asked for by its name.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from baco_like._typing import Array
from baco_like.exceptions import BacoWarning, PluginError

if TYPE_CHECKING:
    from importlib import metadata

T = TypeVar("T")


@dataclass(frozen=True)
class Plugin:
    """An entry point of another distribution.

    Attributes:
        noun: Noun of its kind for messages: "strategy".
        entries: The entry points with its name; more than one if two distributions offer the name.
    """

    noun: str
    entries: tuple[metadata.EntryPoint, ...]

    @property
    def origin(self) -> str:
        """The distributions with their versions, as text."""
        found = [e.dist for e in self.entries]
        return " and ".join(
            "an unknown distribution" if d is None else f"{d.name} {d.version}" for d in found
        )

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the distributions by name."""
        return {e.dist.name: e.dist.version for e in self.entries if e.dist is not None}

    def load(self) -> Callable[..., Any]:
        """Import the plug-in and return its class or function.

        Raises:
            PluginError: Two distributions offer the name, it cannot be imported, or it cannot be called.
        """
        entry, *others = self.entries
        what = f"{self.noun} {entry.name!r}, the plug-in {entry.value!r} ({entry.group}) of {self.origin},"
        if others:
            raise PluginError(f"{what} is offered twice; uninstall one of them")
        try:
            make = entry.load()
        except Exception as error:  # whatever a foreign module raises while it is imported
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise PluginError(
                f"{what} cannot be imported: {reason}; repair or uninstall it"
            ) from error
        if not callable(make):
            raise PluginError(f"{what} is {make!r:.60}, not a class or a function")
        return make  # type: ignore[no-any-return]

    def create(self, methods: Iterable[str], **arguments: Any) -> Any:
        """Return what the plug-in makes of some arguments.

        Raises:
            PluginError: The plug-in cannot be imported, or the part that it makes lacks one of these methods.
        """
        part = self.load()(**arguments)
        missing = [each for each in methods if not callable(getattr(part, each, None))]
        if missing or isinstance(part, type):
            lacks = f"has no method {missing[0]}" if missing else "is a class"
            raise PluginError(
                f"{self.noun} {self.entries[0].name!r} of {self.origin} returned {part!r:.60}, which {lacks}; see the "
                "page on plug-ins"
            )
        return part


class Registry(Generic[T]):
    """Our own parts of one kind by name, together with the plug-ins of an entry-point group.

    Our own names win; a plug-in with one of them is reported by a warning and is not used.

    Args:
        group: The group of entry points.
        noun: Noun of the parts for messages.
        own: Our own parts by name.
        default: The name that users need not write. It is found without reading the entry points.
    """

    def __init__(self, group: str, noun: str, own: Mapping[str, T], default: str = "") -> None:
        self.own = own
        self._group = group
        self._noun = noun
        self._default = default

    @cached_property
    def plugins(self) -> Mapping[str, Plugin]:
        """The plug-ins by name, in alphabetical order; the first call reads the entry points."""
        from importlib import metadata  # slow: it imports `email`

        by_name: dict[str, list[metadata.EntryPoint]] = {}
        for entry in metadata.entry_points(group=self._group):
            by_name.setdefault(entry.name, []).append(entry)
        plugins = {name: Plugin(self._noun, tuple(by_name[name])) for name in sorted(by_name)}
        for name in sorted(plugins.keys() & self.own.keys()):
            entry = plugins[name].entries[0]
            warnings.warn_explicit(  # the caller may be anywhere, also a property of the standard library
                f"{self._noun} {name!r} is the one of baco-like; the plug-in of that name in "
                f"{plugins[name].origin} is not used, its author should rename it",
                BacoWarning,
                filename=entry.module,
                lineno=1,
            )
        return {name: plugin for name, plugin in plugins.items() if name not in self.own}

    @property
    def names(self) -> list[str]:
        """Our own names, then those of plug-ins."""
        return [*self.own, *self.plugins]

    def __contains__(self, name: object) -> bool:
        """Whether there is a part with this name; an own default is found without reading the entry points."""
        return (name == self._default and name in self.own) or name in {*self.plugins, *self.own}

    def find(self, name: str) -> T | Plugin:
        """Return our own part, or the plug-in that is not imported yet.

        Raises:
            ValueError: The name is unknown; the message has a similar name, or all names.
        """
        if name in self:
            return self.own[name] if name in self.own else self.plugins[name]
        near = difflib.get_close_matches(name, self.names, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(self.names)}"
        setting = self._noun.partition(" ")[0]  # "acquisition" for an acquisition function
        raise ValueError(f"{setting} {name!r} is unknown; {hint}")


def check_floats(owner: str, what: str, values: Any, count: int) -> Array:
    """Return numbers of a foreign part as an array of floats, one for each configuration; they may be NaN or infinite.

    Args:
        owner: Kind and name of the part.
        what: Noun in the plural for the numbers.
        values: The numbers.
        count: Number of configurations.

    Raises:
        PluginError: They cannot be converted to floats, or have another shape.
    """
    try:
        numbers: Array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise PluginError(
            f"{owner}: the {what} are {values!r:.60}, not an array of floats"
        ) from None
    if numbers.shape != (count,):
        raise PluginError(
            f"{owner}: the {what} have the shape {numbers.shape}, for {count} configurations it must be ({count},)"
        )
    return numbers


def is_foreign(part: Any) -> bool:
    """Whether an object is of a class that is not from this package, so that its results must be checked."""
    return not type(part).__module__.startswith("baco_like.")


def name_of(part: Any) -> str:
    """Return the name of an object's class for messages, with its module if it is not from this package."""
    kind = type(part)
    return f"{kind.__module__}.{kind.__qualname__}" if is_foreign(part) else kind.__qualname__
