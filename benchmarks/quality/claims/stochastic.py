"""2022: values that differ from one measurement to the next."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import runs

from claims.evidence import LOW, Entry, Evidence, verdict
from claims.survey import ALL_SURVEYED, SMAC, surveyed

STOCHASTIC = ("GA", "dual annealing", "first ILS", "random")
STOCHASTIC_BUDGETS = (*LOW, 400)


def drawn(name: str, n: int) -> Entry:
    if name == "SMAC":
        return Entry(name, "smac", {}, n, draw=True, slow=True)
    if name == "racing":
        return Entry(name, "racing", {}, n, draw=True)
    return surveyed(name, n, draw=True)


NOISY = ("racing", "SMAC", *STOCHASTIC)
ALL_NOISY = [drawn(name, n) for n in STOCHASTIC_BUDGETS for name in NOISY if name != "racing" or n >= 200]  # fmt: skip


def report_stochastic(evidence: Evidence) -> str:
    there = [e for e in ALL_NOISY if evidence.has(e)]
    found = {(e.name, e.evaluations): evidence.fraction_by_space(e).mean() for e in there}
    exact = {
        (e.name, e.evaluations): evidence.fraction_by_space(e).mean()
        for e in [*ALL_SURVEYED, *SMAC]
        if evidence.has(e) and e.evaluations in STOCHASTIC_BUDGETS
    }
    lines = [
        [
            name,
            *(_format_pair(found.get((name, n)), exact.get((name, n))) for n in STOCHASTIC_BUDGETS),
        ]
        for name in NOISY
    ]
    text = """\
A value is one of the recorded repeats, drawn anew at each evaluation; the figure is the true fraction of the optimum
of the configuration with the best mean of its draws, averaged over runs. After the slash: the figure with fixed
values. Every space has the same weight. The laptop's convolution has 10 repeats, the others 32."""
    head = ["after", *(f"{n}" for n in STOCHASTIC_BUDGETS)]
    said = _describe_orders(found, exact)
    return "\n\n".join([text, runs.table(head, lines), said + evidence.left_out(ALL_NOISY)])


def _format_pair(mine: float | None, exact: float | None) -> str:
    left, right = ("-" if x is None else f"{x:.3f}" for x in (mine, exact))
    return f"{left} / {right}"


def _describe_orders(found: Mapping[Any, float], exact: Mapping[Any, float]) -> str:
    said = []
    for n in STOCHASTIC_BUDGETS:
        order = sorted(
            (name for name in NOISY if (name, n) in found), key=lambda name: -found[name, n]
        )
        if order:
            said.append(f"- {n} evaluations, best first: {', '.join(order)}.")
    losses = [exact[key] - found[key] for key in found if key in exact]
    if len(losses) > 1:
        mean, error = np.mean(losses), np.std(losses, ddof=1) / math.sqrt(len(losses))
        low, high = mean - 2 * error, mean + 2 * error
        said.append(
            f"- Chance costs {100 * mean:.1f} points of the fraction ({100 * low:.1f} to {100 * high:.1f}, two "
            f"standard errors, {len(losses)} cells); the paper: higher budgets are needed. That {verdict(low, high)}."
        )
    said.append(
        "- The paper: GA and dual annealing are best at low budgets, first ILS does well from 100 on, SMAC is lowest "
        "throughout, irace wins on GEMM only (from 800 on; none is here). Compare with the orders above; the "
        "differences are small beside those between spaces."
    )
    return "\n".join(said)
