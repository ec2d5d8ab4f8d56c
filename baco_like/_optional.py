"""Import an optional package, or say what to install."""

from __future__ import annotations

import importlib
from types import ModuleType

from baco_like.exceptions import MissingExtra


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``.

    Raises:
        MissingExtra: The module is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(module, extra) from error
