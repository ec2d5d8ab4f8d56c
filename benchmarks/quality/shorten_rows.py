"""Shorten the rows of `compare.py` to the figures that its tables and plots need.

python benchmarks/quality/shorten_rows.py rows.jsonl results/compare_rows.jsonl.gz

The tables read the best value so far, so an evaluation without an improvement becomes null. They read the processor
times at six steps (`peers/figures.py`), so the other times become 0.
"""

import argparse
import gzip
import json
import math
from pathlib import Path
from typing import Any

STEPS = {3, 5, 8, 10, 18, 20}
"""Indices of the processor times that `figures.milliseconds` and `figures.milliseconds_to` read."""

KEPT = ("space", "peer", "seed", "budget", "version", "commit", "stopped")


def shorten(row: dict[str, Any]) -> dict[str, Any]:
    best = math.inf
    values = []
    for value in row["values"]:
        improves = value is not None and value < best
        best = value if improves else best
        values.append(value if improves else None)
    times = {
        key: [time if step in STEPS else 0 for step, time in enumerate(row[key])]
        for key in ("cpu", "asked")
    }
    return {**{key: row[key] for key in KEPT}, "values": values, **times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", type=Path, help="JSONL file of `compare.py`")
    parser.add_argument("target", type=Path, help="the file to write, compressed by gzip")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.rows.read_text().splitlines()]
    text = "".join(json.dumps(shorten(row)) + "\n" for row in rows)
    args.target.write_bytes(
        gzip.compress(text.encode(), mtime=0)
    )  # mtime=0: equal rows, equal bytes


if __name__ == "__main__":
    main()
