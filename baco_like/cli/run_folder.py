"""The folder of a run: a new one that nobody else has, or the one to go on in."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

from baco_like.exceptions import JournalError

JOURNAL = "run.jsonl"
_RUNS = Path("runs")


def new_folder(out: Path | None, stem: str) -> Path:
    """Make the folder of the results: ``out``, or the first of runs/STEM, runs/STEM-2, ... that nobody has.

    Raises:
        JournalError: There is a journal already, or it cannot be made.
    """
    try:
        if out is not None:
            refuse_journal(out)
            out.mkdir(parents=True, exist_ok=True)
            return out
        _RUNS.mkdir(exist_ok=True)
        for candidate in _numbered(stem):
            with contextlib.suppress(FileExistsError):
                candidate.mkdir()  # never one that exists: another process may just have made it
                return candidate
    except OSError as error:
        raise JournalError(
            f"cannot make the folder {error.filename}: {error.strerror}; name another by --out"
        ) from None
    raise AssertionError("the numbers never end")


def refuse_journal(folder: Path) -> None:
    """Check that there is no journal yet.

    Raises:
        JournalError: There is one.
    """
    if (folder / JOURNAL).exists():
        raise JournalError(
            f"{folder / JOURNAL} exists; go on with it by --resume, or choose another folder by --out"
        )


def folder_to_resume(out: Path | None, stem: str) -> Path:
    """Return the folder that is meant: ``out``, or the newest of runs/STEM, runs/STEM-2, ...

    Raises:
        JournalError: It holds no journal.
    """
    used = list(itertools.takewhile(Path.exists, _numbered(stem)))
    folder = out if out is not None else (used[-1] if used else _RUNS / stem)
    if not (folder / JOURNAL).exists():
        raise JournalError(f"{folder / JOURNAL} does not exist; leave --resume out to start a run")
    return folder


def _numbered(stem: str) -> Iterator[Path]:
    return (_RUNS / (stem if i == 1 else f"{stem}-{i}") for i in itertools.count(1))
