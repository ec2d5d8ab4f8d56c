"""``baco-like passes``: write a run file that searches a pipeline of LLVM's passes for a program, and start it."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from baco_like.cli.starting import write_and_start
from baco_like.evaluators.command.passes import find_opt


def run(args: argparse.Namespace) -> int:
    """Write the run file and start it.

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
    passes: dict[str, Any] = {"passes": args.passes, "opt": args.opt or find_opt()}
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
        passes["start"] = ["default<O3>"] if args.passes == "all" else [f"default<{args.passes}>"]
    else:
        objective["exact"] = True
    tables = {"passes": passes, "objective": objective, "evaluator": evaluator}
    return write_and_start(tables, path, args)
