"""Puts the folder of this file and examples/kernels on the path, for helper modules and for ready problem files."""

import sys
import tempfile
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"

if str(KERNELS) not in sys.path:
    sys.path.append(str(KERNELS))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Let temporary folders be made where a test can look, and require that none is left."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    assert list(place.iterdir()) == []
