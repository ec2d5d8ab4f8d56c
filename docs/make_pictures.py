"""Draw the pictures of the README and of the first page of the site.

Run `make demo` first, and for the curves of other tools `benchmarks/compilers/run.py` on the judged half; then

    python docs/make_pictures.py runs/matmul ~/.cache/baco_like_compilers/rows.jsonl

The rows are those of `--half judged --spaces gcc-Os --objectives size`. It needs the extras `plot` and `report`.
"""

import csv
import json
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import vl_convert
from matplotlib.figure import Figure

from baco_like import Optimizer, plot
from baco_like.reporting import build_report

PICTURES = Path(__file__).parent / "pictures"
EVALUATIONS = 60
SEEDS = 10
PROGRAMS = Path(__file__).parents[1] / "benchmarks/compilers/programs/list.csv"


def draw_demo(journal: Path) -> Figure:
    """Draw all values of the demo, and the best value so far."""
    figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    plot.history(Optimizer.load(journal), ax=ax)
    return figure


def draw_compilers(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw the ratio of the size at -Os to the best size so far: the geometric mean over programs, for each method."""
    curves: dict[str, dict[str, list[np.ndarray]]] = defaultdict(lambda: defaultdict(list))
    with open(PROGRAMS, newline="") as file:
        judged = {row["name"] for row in csv.DictReader(file) if row["half"] == "judged"}
    for row in rows:
        if row["program"] not in judged:
            continue
        values = [np.inf if value is None else value for value in row["values"][:EVALUATIONS]]
        gain = np.log(values[0] / np.minimum.accumulate(values))
        curves[row["method"]][row["program"]].append(gain)
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    styles = ["-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1))]
    means = {
        method: np.exp(np.mean([np.mean(runs, 0) for runs in programs.values()], 0))
        for method, programs in curves.items()
        if min(map(len, programs.values())) >= SEEDS
    }
    for style, (method, mean) in zip(
        styles, sorted(means.items(), key=lambda item: -item[1][-1]), strict=False
    ):
        ax.plot(np.arange(1, len(mean) + 1), mean, linestyle=style, label=method)
    ax.set(
        xlabel="builds", ylabel="size at -Os / best size", title="all flags of gcc 12, 15 programs"
    )
    figure.legend(loc="outside right upper")
    return figure


def draw_report(journal: Path) -> bytes:
    """Return the chart of importances in the report of a run, as PNG."""
    page = build_report(journal)
    found = re.search(r'<script type="application/json" id="specifications">(.*?)</script>', page)
    charts = json.loads(found[1])
    chart = next(c for c in charts.values() if "share of the variance" in json.dumps(c))
    chart = chart | {"width": 520, "background": "white"}
    return vl_convert.vegalite_to_png(chart, scale=1.5)


if __name__ == "__main__":
    demo, rows = map(Path, sys.argv[1:])
    PICTURES.mkdir(exist_ok=True)
    draw_demo(demo / "run.jsonl").savefig(PICTURES / "demo.png", dpi=130)
    draw_compilers([json.loads(line) for line in rows.read_text().splitlines()]).savefig(
        PICTURES / "compilers.png", dpi=130
    )
    (PICTURES / "report.png").write_bytes(draw_report(demo / "run.jsonl"))
