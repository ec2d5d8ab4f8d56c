"""Imports on first use: a process imports only the modules that it needs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any


def import_on_first_use(
    package: str, names: Sequence[str], modules: Sequence[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: The ``__name__`` of the package.
        names: Its ``__all__``.
        modules: Modules of the package that define the names, in the order of their imports.
    """

    def get(name: str) -> Any:
        for module in modules if name in names else ():
            found = importlib.import_module(f"{package}.{module}")
            if hasattr(found, name):
                value = getattr(found, name)
                vars(sys.modules[package])[name] = value
                return value
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, lambda: sorted(names)
