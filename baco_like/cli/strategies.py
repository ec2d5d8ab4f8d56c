"""``baco-like strategies``: list the strategies, and the other parts that have names."""

from __future__ import annotations

import argparse

from baco_like._output import print_line
from baco_like.acquisitions import registry as acquisitions
from baco_like.evaluators import registry as evaluators
from baco_like.exceptions import PluginError
from baco_like.strategies import default_settings, describe_strategy
from baco_like.strategies.registry import REGISTRY
from baco_like.surrogates import registry as surrogates


def run(args: argparse.Namespace) -> None:
    """Print one line for each strategy, and the names that some of their settings can have."""
    width = max(map(len, REGISTRY.names))
    for name in REGISTRY.names:
        print_line(f"{name:<{width}}  {_describe(name)}")
    print_line("")
    for title, registry in (
        ("surrogate", surrogates.REGISTRY),
        ("acquisition", acquisitions.REGISTRY),
        ("[evaluator] kind", evaluators.REGISTRY),
    ):
        origins = {
            name: f" (plug-in of {plugin.origin})" for name, plugin in registry.plugins.items()
        }
        names = ", ".join(name + origins.get(name, "") for name in registry.names)
        print_line(f"{title}: {names}")


def _describe(name: str) -> str:
    """Return a strategy's description with its settings, or why the plug-in cannot be used."""
    try:
        settings = ", ".join(f"{k}={v!r}" for k, v in default_settings(name).items())
        return describe_strategy(name) + (f"  [{settings}]" if settings else "")
    except PluginError as error:
        return str(error)
