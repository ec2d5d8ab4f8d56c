"""Find or create the folder of a run."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

from baco_like.exceptions import JournalError

JOURNAL = "run.jsonl"
_RUNS = Path("runs")


def create_folder(out: Path | None, stem: str) -> Path:
    """Create the folder of the results: ``out``, or the first free one of runs/STEM, runs/STEM-2, ...

    Raises:
        JournalError: The folder has a journal already, or cannot be created.
    """
    try:
        if out is not None:
            check_no_journal(out)
            out.mkdir(parents=True, exist_ok=True)
            return out
        _RUNS.mkdir(exist_ok=True)
        for candidate in _default_folders(stem):
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()  # fails if another process has just created the same folder
                return candidate
    except OSError as error:
        raise JournalError(
            f"cannot make the folder {error.filename}: {error.strerror}; choose another by --out"
        ) from None
    raise AssertionError("the numbers are infinite")


def check_no_journal(folder: Path) -> None:
    """Check that a folder has no journal yet.

    Raises:
        JournalError: It has one.
    """
    if (folder / JOURNAL).exists():
        raise JournalError(
            f"{folder / JOURNAL} exists; continue it by --resume, or choose another folder by --out"
        )


def folder_to_resume(out: Path | None, stem: str) -> Path:
    """Return ``out``, or the newest of the folders runs/STEM, runs/STEM-2, ...

    Raises:
        JournalError: The folder has no journal.
    """
    existing = list(itertools.takewhile(Path.exists, _default_folders(stem)))
    folder = out if out is not None else (existing[-1] if existing else _RUNS / stem)
    if not (folder / JOURNAL).exists():
        raise JournalError(f"{folder / JOURNAL} does not exist; leave --resume out to start a run")
    return folder


def _default_folders(stem: str) -> Iterator[Path]:
    return (_RUNS / (stem if i == 1 else f"{stem}-{i}") for i in itertools.count(1))
