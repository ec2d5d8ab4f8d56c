"""``baco-like serve``: suggestions for programs in any language, over standard input and output or over HTTP."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from baco_like import service
from baco_like._output import explain_os_error, open_regular_file, print_line
from baco_like._tables import suggestion
from baco_like.cli import arguments
from baco_like.exceptions import BacoWarning, RunFileError
from baco_like.integrations.hypermapper import server as hypermapper
from baco_like.running.run_file import parse_toml
from baco_like.service.http import HttpServer, check_access
from baco_like.service.mcp import Agent
from baco_like.service.messages import Limits
from baco_like.service.methods import Service
from baco_like.service.runs import DEFAULT, Runs
from baco_like.service.stdio import serve_stdio
from baco_like.spaces.formats.description import json_object

_OF_TUNE = ("evaluator", "confirmation", "drift")
"""Tables of a run file that the service does not need: the client measures."""


def serve(args: arguments.Serve) -> None:
    """Answer requests until the client ends; without ``--json`` and ``--http`` in HyperMapper's protocol."""
    if args.include:
        print_line(str(Path(service.__file__).parent))
        return
    if args.json or args.http is not None:
        _serve_messages(args)
        return
    if args.file is None:
        raise RunFileError("serve: name a scenario, or add --json or --http")
    if args.file.suffix == ".toml":
        raise RunFileError(
            f"serve: {args.file} is not a scenario; for a run file add --json or --http"
        )
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


def mcp(args: arguments.Mcp) -> None:
    """Speak the Model Context Protocol until the client ends."""
    folder = args.folder.resolve()
    # The only client ends with this process, so the trials that an earlier one had pending are suggested again.
    runs = Runs(folder, limits=Limits(), suggests_again=True, reads_only=not args.write)
    with closing(runs):
        serve_stdio(Agent(runs, folder, args.write))


def _serve_messages(args: arguments.Serve) -> None:
    of_scenarios = ("strategy", "prior", "allow_dir", "large", "ahead")
    if given := [name for name in of_scenarios if getattr(args, name)]:
        raise RunFileError(
            f"--{given[0].replace('_', '-')} belongs to a scenario; write it into the run file, or into `open`"
        )
    folder, token = args.folder, None
    if args.http is not None:  # before the folder is made
        named = args.token_file
        token = os.environ.get("BACO_LIKE_TOKEN") if named is None else read_token(named)
        check_access(args.http[0], args.host, token)
    if folder is not None and args.journal is not None:
        raise RunFileError(
            "--journal: with --folder, each run has its journal there; give one of them"
        )
    if args.http is not None and folder is None and args.journal is None:
        folder = Path("runs")
    runs = Runs(folder, args.journal, _read_limits(args.limit), suggests_again=args.http is None)
    with closing(runs):
        if args.file is not None:
            runs.open(DEFAULT, _read_tables(args.file, args.seed))
        if args.http is None:
            serve_stdio(Service(runs))
        else:
            host, port = args.http
            kept = args.journal if folder is None else folder
            _serve_http(Service(runs), host, port, args.host, token, kept)


def _serve_http(
    service: Service,
    host: str,
    port: int,
    hosts: Sequence[str],
    token: str | None,
    kept: Path | None,
) -> None:
    """Answer requests over HTTP until the process is interrupted; ``kept`` is where the journals are."""
    try:
        server = HttpServer(service, host, port, token, hosts)
    except (OSError, OverflowError) as error:
        raise RunFileError(f"--http {host}:{port}: {error}") from None
    with server:
        shown = f"[{host}]" if ":" in host else host
        print_line(f"listening on http://{shown}:{server.server_address[1]}/ (journals: {kept})")
        server.serve_forever()


def read_token(path: Path) -> str:
    """Return the token in a file, and warn if other users may read it.

    Raises:
        RunFileError: It cannot be read.
    """
    try:
        with open_regular_file(path) as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                warnings.warn(
                    f"--token-file {path}: other users of this machine may read it; run chmod 600",
                    BacoWarning,
                    stacklevel=2,
                )
            return file.read(4096).decode().strip()
    except (OSError, ValueError) as error:
        raise RunFileError(f"--token-file {path}: {error}") from None


def _read_limits(given: Sequence[tuple[str, float]]) -> Limits:
    """Return the limits of the options ``--limit NAME=NUMBER``."""
    known = {name: getattr(Limits(), name) for name in Limits.__struct_fields__}
    values: dict[str, Any] = {}
    for name, number in given:
        if name not in known:
            raise RunFileError(f"--limit {name}: {suggestion(name, known)}")
        values[name] = int(number) if isinstance(known[name], int) else number
        if values[name] <= 0:
            raise RunFileError(f"--limit {name}={number:g}: expected a number above 0")
    return Limits(**values)


def _read_tables(path: Path, seed: int | None) -> Mapping[str, Any]:
    """Return the tables of a run file, or of a JSON file with tables or a space."""
    with explain_os_error(RunFileError, "read", path):
        tables = parse_toml(path) if path.suffix == ".toml" else json_object(path, "file")
    if "parameters" in tables and "version" in tables:
        tables = {"space": tables}
    if "confirmation" in tables:
        warnings.warn(
            f"{path}: [confirmation] has no effect here: the client measures, so it measures the winner again, too",
            BacoWarning,
            stacklevel=2,
        )
    tables = {name: table for name, table in tables.items() if name not in _OF_TUNE}
    if seed is not None and isinstance(tables.get("optimizer", {}), dict):
        tables["optimizer"] = {**tables.get("optimizer", {}), "seed": seed}
    return tables
