"""Write the comparison as Markdown: tables by peer and by space, and the treatment of each peer."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import runs as quality

from . import PEERS, figures, plots
from .figures import FULL, Runs, Table
from .problem import Problem
from .problems import problem

OURS = "auto"
GP = "Optuna GP"
BUDGETS = {60: "60", 220: "220", FULL: "full"}
FRACTIONS = (20, 40, 60, 100, 220)
OBSERVED = (50, 100, 200)


def write(
    rows: Sequence[dict[str, Any]],
    groups: Mapping[str, str],
    data: Path | None,
    path: Path,
    provenance: str,
) -> None:
    """Write the Markdown file and the plots beside it."""
    present = [name for name in groups if any(row["space"] == name for row in rows)]
    problems = {name: problem(name, data) for name in present}
    table = figures.grouped(rows, problems)
    of_group = {
        group: [name for name in present if groups[name] == group]
        for group in dict.fromkeys(groups[name] for name in present)
    }
    parts = ["# Other packages and ours", provenance, _describe_runs(rows, problems)]
    for group, names in of_group.items():
        parts += [f"## {TITLES[group]}", *_group(table, names)]
    parts += ["## Treatment of each peer", _describe_treatments(table), EXPLAINED]
    quality.publish("\n\n".join(parts), path)
    shown = _rank_peers(table, of_group.get("gpu", present))
    names = of_group.get("gpu", present)
    plots.scores(table, names, shown, path.with_name(f"{path.stem}_scores.png"))
    plots.curves(table, present, shown, path.with_name(f"{path.stem}_curves.png"))
    plots.costs(table, names, shown, path.with_name(f"{path.stem}_cpu.png"))


TITLES = {
    "gpu": "Recorded GPU spaces",
    "compiler": "Recorded compiler spaces",
    "synthetic": "Spaces made in code",
    "modelled": "Kernels by a model of two GPUs",
}


def _group(table: Table, names: Sequence[str]) -> list[str]:
    ranked = _rank_peers(table, names)
    parts = [_scores(table, names, ranked), _compare_intervals(table, names, ranked)]
    parts += [
        "Fraction of the optimum, mean over runs and spaces:",
        _fractions(table, names, ranked),
    ]
    parts += [
        "Score of the median curve by space, over the methodology's budget (in brackets) or, where no run is so long, "
        "60 evaluations (*):",
        _by_space(table, names, ranked),
    ]
    parts += ["Mean curves compared with random search:", _against_random(table, names)]
    parts += [
        f"How many times fewer evaluations {OURS} needs for the mean final best of each peer:",
        _factors(table, names, ranked),
    ]
    parts += ["CPU, ms:", _costs(table, names, ranked), _against_gp(table, names)]
    absent = {peer for peer, name in table if name in names} - set(ranked)
    if absent:
        parts.append(
            f"Not here, because not run on all of these spaces: {', '.join(sorted(absent))}."
        )
    return [part for part in parts if part]


def of(table: Table, peer: str, names: Iterable[str]) -> list[Runs]:
    """Return a peer's runs on some problems; an empty list if one of the problems has none."""
    found = [table.get((peer, name)) for name in names]
    return [] if any(one is None for one in found) else [one for one in found if one is not None]


def _rank_peers(table: Table, names: Sequence[str]) -> list[str]:
    """Return the peers that ran on all of these problems, the best score first, at 60 or else 40 evaluations."""
    scored = {}
    for peer in dict.fromkeys(peer for peer, _ in table):
        found = figures.overall(of(table, peer, names), 60, False)
        if found is None:
            found = figures.overall(of(table, peer, names), 40, False)
        if found is not None:
            scored[peer] = found.value
    return sorted(scored, key=lambda peer: -scored[peer])


def _scores(table: Table, names: Sequence[str], ranked: Sequence[str]) -> str:
    head = ["peer", "runs a space, by budget"]
    head += [f"median curve @{label}" for label in BUDGETS.values()]
    head += [f"mean curve @{label}" for label in BUDGETS.values()]
    lines = []
    for peer in ranked:
        each = of(table, peer, names)
        found = [figures.overall(each, n, mean) for mean, n in product((False, True), BUDGETS)]
        counts = ["-" if one is None else str(one.runs) for one in found[: len(BUDGETS)]]
        shown = counts[0] if len(set(counts)) == 1 else " / ".join(counts)
        most = _upper_bounds(each) if None in found else {}
        cells = [
            f"<= {most[n]:.2f}" if one is None and not mean else _format_interval(one)
            for (mean, n), one in zip(product((False, True), BUDGETS), found, strict=True)
        ]
        lines.append([peer, shown, *cells])
    return quality.table(head, lines)


def _upper_bounds(each: Sequence[Runs]) -> dict[int, float]:
    """Return upper bounds of the score of the median curve, by budget, for runs that are too short."""
    best = [runs.at_most() for runs in each]
    return {n: float(np.mean([runs.scores(n, False)[0] for runs in best])) for n in BUDGETS}


def _format_interval(one: figures.Interval | None) -> str:
    if one is None:
        return "-"
    between = "one run" if one.runs == 1 else f"{one.low:.2f} to {one.high:.2f}"
    return f"{one.value:.2f} ({between})"


def _compare_intervals(table: Table, names: Sequence[str], ranked: Sequence[str]) -> str:
    sentences = []
    for n, shown in BUDGETS.items():
        found = {peer: figures.overall(of(table, peer, names), n, False) for peer in ranked}
        ours = found.get(OURS)
        others = {k: v for k, v in found.items() if v is not None and k not in OWN}
        if ours is None or ours.runs == 1 or not others:
            continue
        best = max(others, key=lambda peer: others[peer].value)
        ahead = "above" if ours.low > others[best].value else "not above"
        sentences.append(
            f"@{shown} the interval of {OURS} ({ours.low:.2f} to {ours.high:.2f}) is {ahead} the best peer's score "
            f"({best}, {others[best].value:.2f}, {others[best].runs} runs a space or more)"
        )
        short = [peer for peer in ranked if found[peer] is None and peer not in OWN]
        if short:
            sentences[-1] += f" and {_against_shorter(table, names, short, n, ours.low)}"
    return "; ".join(sentences) + "." if sentences else ""


def _against_shorter(
    table: Table, names: Sequence[str], short: Sequence[str], n: int, ours: float
) -> str:
    most = {peer: _upper_bounds(of(table, peer, names))[n] for peer in short}
    peer = max(most, key=lambda one: most[one])
    ahead = "above" if ours > most[peer] else "not above"
    return f"{ahead} the upper bound of the peers with shorter runs ({peer}, {most[peer]:.2f})"


OWN = ("auto", "bayesian", "baco", "random")


def _fractions(table: Table, names: Sequence[str], ranked: Sequence[str]) -> str:
    lines = []
    for peer in ranked:
        each = of(table, peer, names)
        cells = []
        for n in FRACTIONS:
            long = [runs.lasting(n) for runs in each]
            known = all(runs.rows for runs in long)
            cells.append(f"{np.mean([runs.fractions(n) for runs in long]):.3f}" if known else "-")
        lines.append([peer, *cells])
    return quality.table(["peer", *(f"{n} evaluations" for n in FRACTIONS)], lines)


def _by_space(table: Table, names: Sequence[str], ranked: Sequence[str]) -> str:
    lines = []
    for peer in ranked:
        cells = []
        for name in names:
            until, star = _choose_budget(table[peer, name])
            found = figures.overall([table[peer, name]], until, False)
            cells.append("-" if found is None else f"{found.value:.2f}{star}")
        lines.append([peer, *cells])
    budgets = [table[ranked[0], name].problem.evaluations for name in names]
    head = [f"{name} ({n})" for name, n in zip(names, budgets, strict=True)]
    return quality.table(["peer", *head], lines)


def _choose_budget(runs: Runs) -> tuple[int, str]:
    """Return the budget to score by: the methodology's, or 60 with a star if no run is that long."""
    return (FULL, "") if runs.scored(FULL).rows else (60, "*")


def _against_random(table: Table, names: Sequence[str]) -> str:
    lines = []
    for name in names:
        if (OURS, name) not in table:
            continue
        runs = table[OURS, name]
        until, star = _choose_budget(runs)
        cells = []
        for peer in (OURS, "random"):
            own = table.get((peer, name))
            found = None if own is None else figures.overall([own], until, True)
            cells.append(_format_interval(found))
        long = runs.scored(until)
        worse, of_all = long.worse_than_random(until)
        expected = f"{long.random_score(until):.2f}"
        lines.append([f"{name}{star}", cells[0], expected, cells[1], f"{worse} of {of_all}"])
    head = ["space", f"score, {OURS}", "score expected of random, exact", "score, random's runs"]
    return quality.table(
        [*head, "evaluations at which its mean is worse than expected of random"], lines
    )


def _factors(table: Table, names: Sequence[str], ranked: Sequence[str]) -> str:
    lines = []
    for peer in ranked:
        if peer == OURS or not of(table, OURS, names):
            continue
        found = [_factor(table[OURS, name], table[peer, name]) for name in names]
        reached = [one for one in found if not math.isnan(one)]
        mean = f"{np.mean(reached):.2f}" if reached else "-"
        cells = ["-" if math.isnan(one) else f"{one:.2f}" for one in found]
        lines.append([peer, *cells, f"{mean} ({len(reached)} of {len(found)})"])
    return quality.table(["peer", *names, "mean (spaces reached)"], lines)


def _factor(ours: Runs, theirs: Runs) -> float:
    """Return the peer's evaluations over ours to the same mean, as in BaCO's Table 9; NaN if ours does not reach it."""
    longest = max(figures.known_until(row) for row in theirs.rows)
    theirs = theirs.lasting(int(min(longest, theirs.curves.shape[1])))
    needed = ours.evaluations_to(float(theirs.costs([theirs.curves.shape[1]]).mean()))
    return math.nan if math.isinf(needed) else theirs.made() / needed


def _costs(table: Table, names: Sequence[str], ranked: Sequence[str]) -> str:
    lines = []
    for peer in ranked:
        each = of(table, peer, names)
        cells = [_format_number(figures.milliseconds(each, n)) for n in OBSERVED]
        lines.append([peer, *cells, _format_number(figures.milliseconds_to(each, 60))])
    head = [f"a suggestion at {n} observations" for n in OBSERVED]
    return quality.table(["peer", *head, "an evaluation, the first 60"], lines)


def _against_gp(table: Table, names: Sequence[str]) -> str:
    """Compare the CPU times of our suggestions and of Optuna's Gaussian process, on the spaces where both are known."""
    sentences = []
    for n in OBSERVED:
        both = [
            name
            for name in names
            if all(
                (peer, name) in table
                and not math.isnan(figures.milliseconds([table[peer, name]], n))
                for peer in (OURS, GP)
            )
        ]
        if both:
            ours, theirs = (figures.milliseconds(of(table, p, both), n) for p in (OURS, GP))
            sentences.append(f"{n} observations {ours:.3g} and {theirs:.3g} ({len(both)} spaces)")
    return (
        f"A suggestion of {OURS} and of {GP} on the same spaces, ms: {'; '.join(sentences)}."
        if sentences
        else ""
    )


def _format_number(x: float) -> str:
    return "-" if math.isnan(x) else f"{x:.3g}"


def _describe_runs(rows: Sequence[Mapping[str, Any]], problems: Mapping[str, Problem]) -> str:
    commits = ", ".join(sorted({row["commit"] for row in rows}))
    versions = ", ".join(sorted({row["version"] for row in rows}))
    seeds = Counter(row["peer"] for row in rows)
    sizes = "; ".join(
        f"{name}: {len(one.rows):,} configurations, {np.isnan(one.costs).mean():.0%} fail"
        for name, one in problems.items()
    )
    return (
        f"The runs are of commit {commits}; {versions}. {len(rows):,} runs of {len(seeds)} peers, seeds from 0. "
        f"Spaces: {sizes}."
    )


def _describe_treatments(table: Table) -> str:
    """Return the docstring of each peer's module."""
    modules = dict.fromkeys(PEERS[peer].module for peer, _ in table if peer in PEERS)
    sentences = []
    for module in modules:
        labels = [
            label
            for label, one in PEERS.items()
            if one.module == module and _has_runs(table, label)
        ]
        try:
            text = " ".join((import_module(f".{module}", __package__).__doc__ or "").split())
        except ImportError:
            text = "(not installed where this table was written)"
        sentences.append(f"- {', '.join(labels)}: {text}")
    return "\n".join(sentences)


def _has_runs(table: Table, label: str) -> bool:
    return any(peer == label for peer, _ in table)


EXPLAINED = """\
- Score: 0 is random search (calculated, by the methodology), 1 the optimum from the first evaluation on. It is the mean
  from the methodology's first evaluation to @60, @220 or its budget, whichever comes first, and over the spaces.
- Median curve: the cost of the median rank of the runs. Mean curve: the mean cost of the runs, where the worst cost
  of the space counts before a run's first success. The mean curve of random search itself is below 0 on spaces whose
  costs spread over decades. Its exact expectation, with failures counted in the same way, is in the next column.
- In brackets: 95 % bootstrap intervals over runs.
- Evaluation: a configuration that succeeds or fails. Excluded and repeated configurations are answered but not counted.
- The peers receive no default configuration. A run that ends early keeps its best.
- `-`: not enough evaluations. `<=`: the score if every run were at the optimum from its end on.
- CPU is the time of the whole process. A suggestion is one question; excluded and repeated ones are included."""
