"""Without the package of a tool, its integration names the extra to install."""

import importlib
import sys

import pytest

from baco_like.exceptions import MissingExtra


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("ax", "ax.core.data", "ax"),
        ("gest", "gest_api", "gest"),
        ("kernel_tuner", "kernel_tuner.searchspace", "kernel-tuner"),
        ("optuna", "optuna", "optuna"),
        ("pyatf", "pyatf.search_space", "pyatf"),
        ("ray", "ray.tune.search", "ray"),
    ],
)
def test_the_extra_is_named(name, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    owned = tuple(f"baco_like.integrations.{part}" for part in (name, f"_{name}_"))
    for loaded in [loaded for loaded in sys.modules if loaded.startswith(owned)]:
        monkeypatch.delitem(sys.modules, loaded)
    with pytest.raises(MissingExtra, match=rf"baco-like\[{extra}\]"):
        importlib.import_module(f"baco_like.integrations.{name}")
