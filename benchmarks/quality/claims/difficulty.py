"""2022: the difficulty of a space."""

import math
from collections.abc import Sequence

import numpy as np
import runs

from baco_like.benchmarking.landscape import flow_graph
from claims.evidence import LOW, MEDIUM, Evidence, spearman
from claims.survey import ALL_SURVEYED, surveyed


def report_difficulty(evidence: Evidence) -> str:
    graphs = {name: flow_graph(one.recorded) for name, one in evidence.spaces.items()}
    shares = (0.01, 0.05, 0.10, 0.15)
    metrics = {
        f"C_p, p = {100 * p:.0f} %": [float(g.centrality_curve([p])[0]) for g in graphs.values()]
        for p in shares
    }
    metrics["median fraction of the minima"] = [g.naive_metric() for g in graphs.values()]
    shown = runs.table(
        ["", *graphs], ([name, *(f"{x:.3f}" for x in row)] for name, row in metrics.items())
    )
    lines, strongest = [], []
    for name in ("dual annealing", "first ILS"):
        for n in (*LOW, *MEDIUM):
            entry = surveyed(name, n)
            if evidence.has(entry):
                rhos = [
                    spearman(row, evidence.fraction_by_space(entry)) for row in metrics.values()
                ]
                lines.append([entry.label, *(f"{rho:+.2f}" for rho in rhos)])
                strongest.append(rhos)
    if not lines:
        return "Dual annealing and first ILS were not run." + evidence.left_out(ALL_SURVEYED)
    n = len(graphs)
    text = f"""\
Spearman's correlation over the {n} spaces between a measure of difficulty and the mean fraction of the optimum. The
paper: the proportion of centrality C_p agrees with the results; the naive fraction of the optimum of local minima
does not."""
    return "\n\n".join(
        [text, shown, runs.table(["", *metrics], lines), _describe_correlations(strongest, n)]
    )


def _describe_correlations(rhos: Sequence[Sequence[float]], n: int) -> str:
    table = np.array(rhos)
    central, naive = table[:, :-1].mean(), table[:, -1].mean()
    critical = critical_rho(n)
    beyond = int((np.abs(table) >= critical).sum())
    order = "agrees" if central > naive else "differs"
    return f"""\
Mean of the C_p columns {central:+.2f}, of the naive metric {naive:+.2f}: the order {order}. But with {n} spaces a
correlation needs {critical:.2f} to be significant at 5 %; {beyond} of {table.size} are. That is too few spaces to say
more, and the fraction of the optimum itself depends on how spread a space's values are."""


def critical_rho(n: int) -> float:
    """Return the least |rho| that chance reaches in at most 5 % of the orders of n, by listing them (n up to 8)."""
    from itertools import permutations

    if n > 8:
        return 1.96 / math.sqrt(n - 1)
    base = np.arange(n)
    found = np.sort([abs(np.corrcoef(base, p)[0, 1]) for p in permutations(range(n))])
    for rho in np.unique(np.round(found, 9)):
        if (found >= rho - 1e-9).mean() <= 0.05:
            return float(rho)
    return 1.0
