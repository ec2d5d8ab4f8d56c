"""Plots of the runs of these tests are not drawn."""

import pytest

from baco_like.cli import runs


@pytest.fixture(autouse=True)
def no_drawing(monkeypatch):
    """Write empty plots: Matplotlib takes most of the time of a short run; runs in other processes draw theirs."""
    for name in ("plot_convergence", "plot_front"):
        monkeypatch.setattr(runs, name, lambda history, objectives, path: path.touch())
