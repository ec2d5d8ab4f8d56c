"""Write a shipped table in one of seven formats."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from baco_like._output import replace_file
from baco_like.exceptions import RunFileError
from baco_like.shipping.c_header import header_bytes
from baco_like.shipping.json_table import table_bytes
from baco_like.shipping.kernel_tables import inductor_bytes, moe_bytes, moe_file_name, wisdom_bytes
from baco_like.shipping.python_module import module_bytes, triton_bytes
from baco_like.shipping.table import ShippedTable

FORMATS: Mapping[str, Callable[..., bytes]] = {
    "c": header_bytes,
    "json": table_bytes,
    "python": module_bytes,
    "triton": triton_bytes,
    "vllm": moe_bytes,
    "inductor": inductor_bytes,
    "wisdom": wisdom_bytes,
}
"""Writers of the formats, by name."""


def ship(
    table: ShippedTable,
    kind: str,
    path: str | os.PathLike[str],
    name: str | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
) -> Path:
    """Write a table, completely or not at all, and return the path of the file.

    Args:
        table: The table.
        kind: One of `FORMATS`.
        path: The file. With ``vllm`` and ``wisdom`` it may be a folder; the program's rules then name the file.
        name: Beginning of the names in a C header, or the tuning key of a wisdom file. None: the name of the file.
        inputs: Files that must not be replaced, such as the journals that the table comes from.

    Raises:
        RunFileError: The format is unknown or cannot hold the table; the message says why.
        OSError: The file cannot be written, or is an input or a journal.
    """
    if kind not in FORMATS:
        raise RunFileError(f"format = {kind!r:.40}: expected one of {', '.join(FORMATS)}")
    path = Path(path)
    if kind == "vllm":
        path = path / moe_file_name(table) if path.is_dir() else path
    elif kind == "wisdom" and path.is_dir():
        if name is None:
            raise RunFileError(f"{path} is a folder; name the tuning key of the kernel by --name")
        # The name that Kernel Launcher makes of a tuning key.
        path = path / (re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".wisdom")
    if name is None:
        name = path.stem if kind == "wisdom" else _identifier(path.stem)
    replace_file(path, FORMATS[kind](table, name), inputs)
    return path


def _identifier(stem: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    return word if word[:1].isalpha() else f"tuned_{word.lstrip('_')}"
