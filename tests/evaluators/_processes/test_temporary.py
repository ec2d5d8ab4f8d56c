"""Temporary folders: gone afterwards, also those of processes that were killed."""

import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from baco_like.evaluators._processes import temporary
from baco_like.evaluators._processes.temporary import LazyFolder

MAKE = (
    "import sys, time; from baco_like.evaluators._processes.temporary import LazyFolder\n"
    "place = LazyFolder(); (place.path / 'big').write_text('x'); print(place.path, flush=True)\n"
    "time.sleep(60)"
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    temporary._remove_orphans.cache_clear()
    yield tmp_path
    temporary._remove_orphans.cache_clear()


def test_what_a_killed_process_left_is_removed_by_the_next(place):
    with subprocess.Popen([sys.executable, "-c", MAKE], stdout=-1, text=True) as child:
        left = Path(child.stdout.readline().strip())
        assert left.parent == place
        with closing(LazyFolder()) as another:
            assert another.path.is_dir()
            assert (left / "big").exists()  # its owner lives
        child.kill()
    temporary._remove_orphans.cache_clear()
    with closing(LazyFolder()) as mine:
        assert mine.path.is_dir()
        assert list(place.iterdir()) == [mine.path]
    assert list(place.iterdir()) == []


def test_what_is_not_ours_stays(place):
    target = place / "target"
    target.mkdir()
    dead = 2**22 + 1  # above the largest process number of Linux
    system = temporary._system_name()
    (place / f"baco-{system}-{dead}-link").symlink_to(target)
    for name in ("baco-x", f"baco-00000000-{dead}-a", f"baco-{system}-x-a", f"x{system}-{dead}-a"):
        (place / name).mkdir()
    (place / f"baco-{system}-{dead}-file").write_text("a file")
    before = sorted(place.iterdir())
    LazyFolder().close()
    with closing(LazyFolder()) as mine:
        assert mine.path.is_dir()
    assert sorted(place.iterdir()) == before


def test_a_lazy_folder_is_made_when_needed_and_removed(place):
    made = LazyFolder()
    assert list(place.iterdir()) == []
    assert made.path.is_dir()
    made.close()
    made.close()
    assert list(place.iterdir()) == []
