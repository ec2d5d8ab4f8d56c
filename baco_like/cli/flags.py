"""``baco-like flags``: write a run file that tunes the flags of a build command, and start it."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

from baco_like.cli.starting import write_and_start
from baco_like.evaluators.command.compilers import is_compiler_name
from baco_like.exceptions import RunFileError

_LEVEL = re.compile(r"(?<!\S)(-O(?:[0-3gsz]|fast)?)(?:\s+|$)")
_OUTPUT = re.compile(r"(?<!\S)-o\s*(\S*\{workdir\}/(\S+))")


def run(args: argparse.Namespace) -> int:
    """Write the run file and start it.

    Returns:
        The exit code: 0, or 1 if no evaluation has succeeded.

    Raises:
        RunFileError: The command cannot be tuned, or the file exists with another content.
        KeyboardInterrupt: The user interrupted the run; its results are written.
    """
    built = _OUTPUT.search(args.build)
    if built is None or "{flags}" not in args.build:
        raise RunFileError(
            "the build command needs {flags} and -o {workdir}/NAME, as in "
            "'gcc -O2 {flags} app.c -o {workdir}/app'"
        )
    if not args.size and "{workdir}" not in (args.run or ""):
        raise RunFileError(
            f"name the command to measure by --run '{built[1]}', or minimise the size by --size"
        )
    first = shlex.split(args.build)[0]
    if args.compiler is None and not is_compiler_name(first):
        raise RunFileError(
            f"{first!r} is not a known compiler; name the one it starts by --compiler"
        )
    levels = _LEVEL.findall(args.build)
    evaluator: dict[str, Any] = {"kind": "command", "build": _LEVEL.sub("", args.build).strip()}
    if args.size:
        evaluator |= {"run": args.run or "true", "measure": "size"}
        objective: dict[str, Any] = {"name": "size", "unit": "bytes"}
        evaluator["metrics"] = {"size": f"text({built[1]})"}
    else:
        objective = {"name": "time", "unit": "ms"}
        measure = {"measure": "regex", "pattern": args.pattern} if args.pattern else None
        evaluator |= {"run": args.run, **(measure or {"measure": "wall"}), "repeats": 3}
    if args.check:
        evaluator["check"] = args.check
    flags = {
        "compiler": args.compiler or first,
        "level": levels[-1] if levels else "-O2",
        "on_off": "all",
        "params": "all",
    }
    tables = {"flags": flags, "objective": objective, "evaluator": evaluator}
    return write_and_start(tables, Path(f"{Path(built[2]).stem}-flags.toml"), args)
