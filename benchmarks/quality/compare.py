"""Compare our default with other packages: recorded GPU and compiler spaces, spaces made in code, modelled kernels.

    OMP_NUM_THREADS=1 python benchmarks/quality/compare.py --data DIR --out rows.jsonl [--table results/compare.md]

DIR (or the environment variable BACO_LIKE_DATA) holds two folders: `recorded`, with T4 results and Kernel Tuner
caches such as those of the public repository AutoTuningAssociation/benchmark_hub, and `spaces`, with a T1 file for
each of them. Without DIR, only the spaces that need no such files are used.

`--out` (JSONL, one row for each run) keeps every finished run. A later call continues it and may request more peers,
seeds or evaluations. A run makes `--budget` evaluations, or the methodology's budget of the space if that is larger.
`--table` writes tables and plots from all rows of the file; without it only the rows are written. `--seeds 0` skips the
runs. Peers whose package is not installed are left out.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import peers
import runs
from peers import problems


def arguments(doc: str | None, budget: int, limit: float, names: str) -> argparse.ArgumentParser:
    """Return the parser of a script that runs peers on spaces and keeps the rows."""
    parser = runs.arguments(doc, budget=budget, peers=peers.PEERS)
    parser.add_argument("--spaces", help=f"{names}, separated by commas")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=limit, help="CPU seconds of one run")
    return parser


def chosen_spaces(text: str | None, groups: dict[str, str]) -> list[str]:
    names = runs.select(text, [*groups, *groups.values()]) if text else groups
    return [one for one, group in groups.items() if one in names or group in names]


def present(names: list[str]) -> list[str]:
    """Return the peers whose package is installed; print the others."""
    found = []
    for name in names:
        try:
            _ = peers.PEERS[name].run
        except ImportError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            found.append(name)
    return found


def work(
    space: str, peer: str, seed: int, evaluations: int, limit: float, data: Path | None
) -> dict[str, Any]:
    one = problems.problem(space, data)
    found = peers.run(peers.PEERS[peer], one, seed, evaluations, limit)
    told = {"space": space, "peer": peer, "seed": seed, "budget": evaluations}
    return {**told, "version": peers.PEERS[peer].version, "commit": runs.commit(), **found}


def measure(args: argparse.Namespace, wanted: Mapping[str, int]) -> None:
    """Append the missing rows of the peers on the spaces, with so many evaluations, to the file."""
    if args.out is None:
        raise SystemExit("--out is needed: the rows are kept there")
    names = present(args.peers) if args.seeds else []
    have = {(row["space"], row["peer"], row["seed"]): row["budget"] for row in done(args.out)}
    jobs = [
        (space, peer, seed, evaluations, args.limit, args.data)
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for space, evaluations in wanted.items()
        for peer in names
        if have.get((space, peer, seed), 0) < evaluations
    ]
    for i, row in enumerate(runs.worked(run_or_note, jobs, args.processes), 1):
        if row:
            with args.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(f"\r{i}/{len(jobs)}", end="", file=sys.stderr, flush=True)


def run_or_note(space: str, peer: str, *rest: Any) -> runs.Row:
    """Return the row of a run; nothing for a package that cannot describe the space."""
    try:
        return work(space, peer, *rest)
    except ValueError as error:
        print(f"{peer} is left out on {space}: {error}", file=sys.stderr)
        return {}


def done(out: Path | None) -> list[dict[str, Any]]:
    """Return the rows of the file; if several have the same peer, space and seed, only the longest."""
    longest: dict[Any, dict[str, Any]] = {}
    for row in runs.rows_of(out):
        key = row["space"], row["peer"], row["seed"]
        if key not in longest or row["budget"] > longest[key]["budget"]:
            longest[key] = row
    return list(longest.values())


def main() -> None:
    parser = arguments(__doc__, 220, 120.0, "names or groups (gpu, compiler, synthetic, modelled)")
    parser.add_argument(
        "--exactly", action="store_true", help="no more evaluations than --budget on any space"
    )
    args = parser.parse_args()
    groups = problems.names(args.data)
    spaces = chosen_spaces(args.spaces, groups) if args.seeds else []
    more = 0 if args.exactly else 1
    own = {s: problems.problem(s, args.data).evaluations * more for s in spaces}
    measure(args, {space: max(args.budget, own[space]) for space in spaces})
    if args.table is not None:
        from peers import report  # imported late: only the report needs matplotlib

        report.write(done(args.out), groups, args.data, args.table, runs.provenance())


if __name__ == "__main__":
    main()
