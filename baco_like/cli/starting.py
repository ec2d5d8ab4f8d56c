"""Write a run file for a command line, and start it."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baco_like._output import explain_os_error, print_line, replace_file
from baco_like.cli.run_file import read
from baco_like.cli.runs import run_and_report
from baco_like.exceptions import RunFileError


def write_and_start(tables: Mapping[str, Any], default: Path, args: argparse.Namespace) -> int:
    """Write a run file, print its path and, unless ``--write-only`` is given, start it.

    Args:
        tables: The tables before ``[budget]``.
        default: The file, with a number if it exists with another content, unless the user names another.
        args: The arguments of the command line.

    Returns:
        The exit code: 0, or 1 if no evaluation has succeeded.

    Raises:
        RunFileError: The file exists with another content, or has a mistake; then it is removed.
        KeyboardInterrupt: The user interrupted the run; its results are written.
    """
    rest = {"budget": {"evaluations": args.budget}, "optimizer": {"seed": args.seed}}
    data = _to_toml({**tables, **rest, "confirmation": {}}).encode()
    numbers = itertools.count(2)
    path = args.file or default
    with explain_os_error(RunFileError, "write", path, "choose another file by --file"):
        while (is_old := path.exists()) and path.read_bytes() != data:
            if args.file:
                raise RunFileError(
                    f"{path} exists; start it by 'baco-like tune {path}', or choose another --file"
                )
            path = default.with_stem(f"{default.stem}-{next(numbers)}")
        if not is_old:
            replace_file(path, data)
    try:
        run_file = read(path)
    except BaseException:
        if not is_old:
            path.unlink()
        raise
    print_line(f"run file: {path}")
    return 0 if args.write_only else run_and_report(run_file, args.out)[0]


def _to_toml(tables: Mapping[str, Any]) -> str:
    """Return tables, with tables in them, as a TOML file."""
    parts: list[str] = []
    for name, table in tables.items():
        # JSON and TOML have the same texts, numbers, booleans and arrays.
        lines = [
            f"{k} = {json.dumps(v, ensure_ascii=False)}"
            for k, v in table.items()
            if not isinstance(v, dict)
        ]
        inner = {f"{name}.{k}": v for k, v in table.items() if isinstance(v, dict)}
        parts.append("\n".join([f"[{name}]", *lines, ""]))
        parts += [_to_toml(inner)] if inner else []
    return "\n".join(parts)
