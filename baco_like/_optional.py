"""Import optional packages."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from baco_like.exceptions import MissingExtra


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: Name of the module.
        extra: The extra of this package that installs it.

    Raises:
        MissingExtra: The module is not installed; the message names the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(module, extra) from error


def require_installed(module: str, extra: str) -> None:
    """Raise `MissingExtra` if a module is not installed, without importing it."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(module, extra)
