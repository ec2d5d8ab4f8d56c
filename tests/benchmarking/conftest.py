"""Fixtures for the tests of studies."""

from pathlib import Path

import pytest

from baco_like import _drawing


@pytest.fixture
def quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw figures, but write empty files: matplotlib needs a third of a second for a file.

    test_study_plots.py writes the figures of a study, and test_studies.py those of the command.
    """
    monkeypatch.setattr(_drawing, "save_figure", lambda figure, path: Path(path).touch())
