"""``baco-like serve``: suggestions for programs in any language, over standard input and output or over HTTP."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from baco_like._checks import nesting_depth
from baco_like._output import open_regular_file
from baco_like.cli.run_file import parse_toml
from baco_like.exceptions import RunFileError
from baco_like.integrations.hypermapper import server as hypermapper
from baco_like.service.messages import Limits
from baco_like.service.methods import Service
from baco_like.service.runs import DEFAULT, Runs
from baco_like.service.stdio import serve_stdio

_OF_TUNE = ("evaluator", "confirmation", "drift")
"""Tables of a run file that the service does not need: the client measures."""

_DEPTH = 32


def serve(args: argparse.Namespace) -> None:
    """Answer requests until the client ends; without ``--json`` and ``--http`` in HyperMapper's protocol."""
    if args.json:
        _serve_messages(args)
        return
    if args.file is None:
        raise RunFileError("serve: name a scenario, or add --json or --http")
    options = hypermapper.ServeOptions(
        seed=args.seed or 0,
        strategy=args.strategy,
        journal=args.journal,
        allow_dirs=args.allow_dir,
        large=args.large,
        ahead=args.ahead,
        priors=args.prior,
    )
    hypermapper.serve_stdio(args.file, options)


def _serve_messages(args: argparse.Namespace) -> None:
    of_scenarios = ("strategy", "prior", "allow_dir", "large", "ahead")
    if given := [name for name in of_scenarios if getattr(args, name)]:
        raise RunFileError(
            f"--{given[0].replace('_', '-')} belongs to a scenario; write it into the run file, or into `open`"
        )
    runs = Runs(args.folder, args.journal, Limits(), suggests_again=True)
    with closing(runs):
        if args.file is not None:
            runs.open(DEFAULT, _read_tables(args.file, args.seed))
        serve_stdio(Service(runs))


def _read_tables(path: Path, seed: int | None) -> Mapping[str, Any]:
    """Return the tables of a run file, or of a JSON file with tables or a space."""
    tables = parse_toml(path) if path.suffix == ".toml" else _read_json(path)
    if "parameters" in tables and "version" in tables:
        tables = {"space": tables}
    tables = {name: table for name, table in tables.items() if name not in _OF_TUNE}
    if seed is not None and isinstance(tables.get("optimizer", {}), dict):
        tables["optimizer"] = {**tables.get("optimizer", {}), "seed": seed}
    return tables


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with open_regular_file(path) as file:
            text = file.read(2**26).decode()
        if nesting_depth(text) > _DEPTH:
            raise ValueError(f"nested more than {_DEPTH} deep")
        tables = json.loads(text)
    except OSError as error:
        raise RunFileError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise RunFileError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(tables, dict):
        raise RunFileError(f"{path}: expected an object with the tables of a run, or a space")
    return tables
