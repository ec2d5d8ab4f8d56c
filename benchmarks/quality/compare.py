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
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import peers
import runs
from peers import problems


def arguments() -> argparse.Namespace:
    parser = runs.arguments(__doc__, "without it only the rows are written")
    parser.set_defaults(budget=220)
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--peers", help=f"separated by commas, of {', '.join(peers.PEERS)}")
    parser.add_argument(
        "--spaces", help="names or groups (gpu, compiler, synthetic, modelled), likewise"
    )
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds of one run")
    parser.add_argument(
        "--exactly", action="store_true", help="no more evaluations than --budget on any space"
    )
    args = parser.parse_args()
    if args.out is None:
        parser.error("--out is needed: the rows are kept there")
    return args


def chosen_spaces(text: str | None, groups: dict[str, str]) -> list[str]:
    names = runs.select(text, [*groups, *groups.values()] if text else groups)
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


def done(out: Path | None) -> list[dict[str, Any]]:
    """Return the rows of the file; if several have the same peer, space and seed, only the longest."""
    longest: dict[Any, dict[str, Any]] = {}
    for row in runs.rows_of(out):
        key = row["space"], row["peer"], row["seed"]
        if key not in longest or row["budget"] > longest[key]["budget"]:
            longest[key] = row
    return list(longest.values())


def evaluations(space: str, args: argparse.Namespace) -> int:
    if args.exactly:
        return args.budget
    return max(args.budget, problems.problem(space, args.data).evaluations)


def main() -> None:
    args = arguments()
    groups = problems.names(args.data)
    spaces = chosen_spaces(args.spaces, groups)
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    names = present(runs.select(args.peers, peers.PEERS)) if seeds else []
    have = {(row["space"], row["peer"], row["seed"]): row["budget"] for row in done(args.out)}
    wanted = {space: evaluations(space, args) for space in spaces} if seeds else {}
    jobs = [
        (space, peer, seed, wanted[space], args.limit, args.data)
        for seed in seeds
        for space in spaces
        for peer in names
        if have.get((space, peer, seed), 0) < wanted[space]
    ]
    for i, row in enumerate(runs.worked(work, jobs, args.processes), 1):
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{i}/{len(jobs)} {row['peer']} on {row['space']}", file=sys.stderr, flush=True)
    if args.table is not None:
        from peers import report  # imported late: only the report needs matplotlib

        report.write(done(args.out), groups, args.data, args.table, runs.provenance())


if __name__ == "__main__":
    main()
