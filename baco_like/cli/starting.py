"""The commands that write a run file and start it: ``flags`` and ``passes``."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from baco_like._output import explain_os_error, print_line, replace_file
from baco_like.cli import arguments
from baco_like.cli.runs import run_and_report
from baco_like.evaluators.command.compiler_options import is_compiler_name
from baco_like.evaluators.command.passes import find_opt
from baco_like.exceptions import RunFileError
from baco_like.running.run_file import read

_LEVEL = re.compile(r"(?<!\S)(-O(?:[0-3gsz]|fast)?)(?:\s+|$)")
_OUTPUT = re.compile(r"(?<!\S)-o\s*(\S*\{workdir\}/(\S+))")


def flags(args: arguments.Flags) -> int:
    """Write a run file that tunes the flags of a build command, and start it.

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
    else:
        objective = {"name": "time", "unit": "ms"}
        measure = {"measure": "regex", "pattern": args.pattern} if args.pattern else None
        evaluator |= {"run": args.run, **(measure or {"measure": "wall"}), "repeats": 3}
    if args.check:
        evaluator["check"] = args.check
    table = {
        "compiler": args.compiler or first,
        "level": levels[-1] if levels else "-O2",
        "on_off": "all",
        "params": "all",
    }
    tables = {"flags": table, "objective": objective, "evaluator": evaluator}
    if args.size:
        tables["evaluator.metrics"] = {"size": f"text({built[1]})"}
    return _write_and_start(tables, Path(f"{Path(built[2]).stem}-flags.toml"), args)


def passes(args: arguments.Passes) -> int:
    """Write a run file that searches a pipeline of LLVM's passes for a program, and start it.

    Returns:
        The exit code: 0, or 1 if no evaluation has succeeded.

    Raises:
        RunFileError: The file exists with another content.
        EvaluatorError: A tool or a source does not exist.
        KeyboardInterrupt: The user interrupted the run; its results are written.
    """
    path = Path(f"{args.sources[0].stem}-passes.toml")
    folder = (args.file or path).absolute().parent
    sources = [os.path.relpath(source, folder) for source in args.sources]
    table: dict[str, Any] = {"passes": args.passes, "opt": args.opt or find_opt()}
    evaluator: dict[str, Any] = {
        "kind": "llvm",
        "source": sources if len(sources) > 1 else sources[0],
        "measure": args.measure,
    }
    evaluator |= {key: getattr(args, key) for key in ("arguments", "cflags") if getattr(args, key)}
    if args.no_check:
        evaluator["check"] = False
    objective: dict[str, Any] = {"name": args.measure}
    if args.measure in ("size", "time"):
        objective["unit"] = "ms" if args.measure == "time" else "bytes"
    if args.measure == "time":
        evaluator["repeats"] = 5
        table["start"] = ["default<O3>"] if args.passes == "all" else [f"default<{args.passes}>"]
    else:
        objective["exact"] = True
    tables = {"passes": table, "objective": objective, "evaluator": evaluator}
    return _write_and_start(tables, path, args)


def _write_and_start(
    tables: Mapping[str, Any], default: Path, args: arguments.Flags | arguments.Passes
) -> int:
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
    """Return tables as a TOML file."""
    parts: list[str] = []
    for name, table in tables.items():
        # JSON and TOML have the same texts, numbers, booleans and arrays.
        lines = [f"{k} = {json.dumps(v, ensure_ascii=False)}" for k, v in table.items()]
        parts.append("\n".join([f"[{name}]", *lines, ""]))
    return "\n".join(parts)
