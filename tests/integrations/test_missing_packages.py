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
    for part in (name, f"_{name}_conversion"):
        monkeypatch.delitem(sys.modules, f"baco_like.integrations.{part}", raising=False)
    with pytest.raises(MissingExtra, match=rf"baco-like\[{extra}\]"):
        importlib.import_module(f"baco_like.integrations.{name}")
