"""2022: the survey of algorithms with fixed values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import runs

from baco_like._typing import Array
from baco_like.benchmarking.studies.results_table import final_costs
from claims.evidence import LOW, MEDIUM, Entry, Evidence, spearman, verdict
from claims.statistics import bootstrap_interval, significant_wins

FIRST_AND_BEST = {
    "MLS": "multi_start_local_search",
    "ILS": "iterated_local_search",
    "tabu": "tabu_search",
}
SURVEY: Mapping[str, tuple[str, dict[str, Any], int, int]] = {
    "basin hopping": ("basin_hopping", {}, 403 - 204, 131 - 393),
    "dual annealing": ("dual_annealing", {}, 680 - 65, 227 - 233),
    "DE": ("differential_evolution", {"constraints": "penalty"}, 426 - 192, 150 - 347),
    "PSO": ("particle_swarm", {"constraints": "penalty"}, 290 - 327, 136 - 368),
    "first ILS": ("iterated_local_search", {"improvement": "first"}, 352 - 233, 361 - 77),
    "best ILS": ("iterated_local_search", {"improvement": "best"}, 125 - 472, 257 - 126),
    "first tabu": ("tabu_search", {"improvement": "first"}, 148 - 430, 255 - 183),
    "best tabu": ("tabu_search", {"improvement": "best"}, 35 - 677, 220 - 185),
    "first MLS": ("multi_start_local_search", {"improvement": "first"}, 317 - 205, 341 - 64),
    "best MLS": ("multi_start_local_search", {"improvement": "best"}, 143 - 466, 226 - 174),
    "simulated annealing": ("simulated_annealing", {}, 412 - 150, 360 - 59),
    "GLS": ("genetic_local_search", {}, 320 - 216, 329 - 59),
    "GA": ("genetic_algorithm", {"constraints": "penalty"}, 376 - 162, 201 - 207),
    "random": ("random_search", {}, 222 - 463, 7 - 629),
}
"""Strategy, settings, and wins less losses of Table IV at low and at medium budgets."""


def surveyed(name: str, evaluations: int, draw: bool = False) -> Entry:
    strategy, settings, _, _ = SURVEY[name]
    return Entry(name, strategy, settings, evaluations, draw)


SMAC = [Entry("SMAC", "smac", {}, n, slow=True) for n in (*LOW, 400)]
ALL_SURVEYED = [surveyed(name, n) for n in (*LOW, *MEDIUM) for name in SURVEY]


def contests(evidence: Evidence, budgets: Sequence[int]) -> tuple[list[str], Array]:
    """Return the algorithms, and the number of times that row i is significantly better than column j."""
    used = [n for n in budgets if any(evidence.has(surveyed(name, n)) for name in SURVEY)]
    names = [name for name in SURVEY if used and all(evidence.has(surveyed(name, n)) for n in used)]
    table = np.zeros((len(names), len(names)), dtype=int)
    for n in used:
        curves = [evidence.curves(surveyed(name, n)) for name in names]
        for space, one in evidence.spaces.items():
            table += significant_wins(
                [final_costs(each[space], one.baseline.costs[-1], n) for each in curves]
            )
    return names, table


def report_survey(evidence: Evidence) -> str:
    ranges = {"low": LOW, "medium": MEDIUM}
    parts = [
        """\
Every strategy with the survey's settings for each budget (Table III); a win is a significantly better mean at the end
of a budget on a space (t-test, 5 %). Low: up to 200 evaluations, medium: more. SMAC is in the part on chance."""
    ]
    for number, (title, budgets) in enumerate(ranges.items()):
        names, table = contests(evidence, budgets)
        if len(names) < 2:
            parts.append(f"{title.capitalize()} budgets were not run.")
            continue
        net = table.sum(axis=1) - table.sum(axis=0)
        lines = [
            [
                names[i],
                str(table[i].sum()),
                str(table[:, i].sum()),
                f"{net[i]:+d}",
                f"{SURVEY[names[i]][2 + number]:+d}",
            ]
            for i in np.argsort(-net, kind="stable")
        ]
        head = [f"{title} budgets", "wins", "losses", "net", "net in the paper"]
        parts += [runs.table(head, lines), _describe_survey(evidence, title, names, table, net)]
    return "\n\n".join(parts) + evidence.left_out(ALL_SURVEYED)


def _describe_survey(
    evidence: Evidence, title: str, names: list[str], table: Array, net: Array
) -> str:
    budgets, said = LOW if title == "low" else MEDIUM, []
    for one in FIRST_AND_BEST:
        first, best = f"first {one}", f"best {one}"
        if first in names and best in names:
            i, j = names.index(first), names.index(best)
            ahead, low, high = _mean_gain(evidence, first, best, budgets)
            said.append(
                f"- first {one} beats best {one} {table[i, j]} times and is beaten {table[j, i]} times; its fraction "
                f"of the optimum is {100 * ahead:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f}) ahead; the "
                f"paper: first is better. That {verdict(low, high)}."
            )
    champion, expected = (
        ("dual annealing", "first") if title == "low" else ("first ILS", "near first")
    )
    if champion in names:
        place = 1 + int((net > net[names.index(champion)]).sum())
        word = "agrees" if place <= (1 if title == "low" else 3) else "differs"
        said.append(
            f"- {champion} is number {place} of {len(names)} at {title} budgets; the paper: {expected}. That {word}."
        )
    published = [SURVEY[name][2 if title == "low" else 3] for name in names]
    said.append(
        f"- Rank correlation of the net wins with the paper's: {spearman(net, published):.2f}, {len(names)} strategies."
    )
    return "\n".join(said)


def _mean_gain(
    evidence: Evidence, first: str, best: str, budgets: Sequence[int]
) -> tuple[float, float, float]:
    """Return the gain in the mean fraction of the optimum over budgets and spaces, and its interval."""
    entries = [[surveyed(name, n) for n in budgets] for name in (first, best)]
    used = [pair for pair in zip(*entries, strict=True) if all(map(evidence.has, pair))]
    samples = [
        runs for side in zip(*used, strict=True) for e in side for runs in evidence.fractions(e)
    ]
    half = len(samples) // 2

    def difference(some: Sequence[Array]) -> float:
        means = [runs.mean() for runs in some]
        return float(np.mean(means[:half]) - np.mean(means[half:]))

    rng = np.random.default_rng(0)
    low, high = bootstrap_interval(difference, samples, rng, resamples=evidence.resamples)
    return difference(samples), low, high
