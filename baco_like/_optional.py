"""Import optional packages, and write plots with one of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from baco_like.exceptions import MissingExtra


def require(module: str, extra: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: Name of the module.
        extra: The extra of this package that installs it.

    Raises:
        MissingExtra: The module is not installed; the message names the extra.
    """
    with needs_extra(module, extra):
        return importlib.import_module(module)


@contextmanager
def needs_extra(module: str, extra: str) -> Iterator[None]:
    """Raise `MissingExtra` if an import within the ``with`` block fails; arguments as for `require`."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(module, extra) from error


def require_installed(module: str, extra: str) -> None:
    """Raise `MissingExtra` if a module is not installed, without importing it."""
    if importlib.util.find_spec(module) is None:
        raise MissingExtra(module, extra)


@contextmanager
def open_plot(path: Path, width: float, height: float) -> Iterator[Any]:
    """Yield empty axes of matplotlib, and write the plot at the end of the ``with`` block.

    Args:
        path: The file; its suffix decides the format.
        width: Width of the plot in inches.
        height: Height of the plot in inches.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    yield figure.subplots()
    figure.savefig(path, dpi=150)
