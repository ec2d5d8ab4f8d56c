"""Results of any tool, read by one function: T4, Kernel Tuner's caches, KTT, CSV, and our journals."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.storage.files import read_text
from baco_like.storage.journal_recording import from_journal
from baco_like.storage.kernel_tuner_cache import cut_off_cache, from_cache
from baco_like.storage.recording import Recording
from baco_like.storage.t4 import from_t4

__all__ = ["Recording", "read"]


def read(path: str | os.PathLike[str]) -> Recording:
    """Return what a file of results holds; its content says which format it is, plain or compressed by gzip.

    Raises:
        RunFileError: It cannot be read, is none of the formats, or is damaged; the message says what was tried.
        JournalError: It is a journal of ours, and damaged.
    """
    place = Path(path)
    text = read_text(place)
    if text.startswith('{"crc":"'):
        return from_journal(place)
    try:
        found = _read(text)
    except RunFileError as error:
        raise RunFileError(f"{place}: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        told = f"{type(error).__name__}: {error}"
        raise RunFileError(f"{place}: a damaged table of recorded results ({told})") from None
    if found is None:
        raise RunFileError(f"{place}: neither T4 results nor a Kernel Tuner cache")
    return found


def _read(text: str) -> Recording | None:
    document = _json(text)
    if document is None:
        document = cut_off_cache(text)
    if not isinstance(document, dict):
        return None
    if isinstance(document.get("results"), list):
        return from_t4(document)
    if isinstance(document.get("cache"), dict):
        return from_cache(document)
    return None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
