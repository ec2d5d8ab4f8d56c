"""Write the figures of a study as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from baco_like.benchmarking.studies.results_table import COLUMNS, StudyFigures
from baco_like.benchmarking.studies.statistics import LEVEL

EXPLANATION = """\
Brackets contain 95 % bootstrap intervals over the runs; fewer than ten runs have none. Regret is the difference of the
best value to the optimum. A run without a success has the worst value of the problem. Ranks: 1 is the best; the mean
over the problems of the ranks by mean. A12 is the probability that a run is better than one of the best mean, and p the
Mann-Whitney test of this difference, corrected by Holm's method for all pairs of the problem. Bold: the best mean, and
those that are not significantly worse (5 %). Wins: the number of problems on which a strategy is significantly
better."""

SCORES = """\
Score: 0 is random search (calculated), 1 is the optimum from the first evaluation on; the mean
over the budget and over the problems. Time is simulated: the time of compiling, running and checking when the table was
recorded, without the strategy's own time."""


TITLES = {
    "mean_rank": ("mean rank", ".2f"),
    **{name: (name, ".4g") for name in ("mean", "median", "regret")},
    "score_evaluations": ("score over evaluations", ".3f"),
    "score_time": ("score over time", ".3f"),
    "fraction_of_optimum": ("fraction of optimum", ".3f"),
    "effect": ("A12", ".2f"),
    "p_value": ("p", ".2g"),
    "failures": ("failures", ".0%"),
    "wins": ("wins", "d"),
    "losses": ("losses", "d"),
    "ms_per_suggestion": ("ms per suggestion", ".2f"),
}
"""Title and format of each column of figures that the report shows."""


def to_markdown(figures: StudyFigures) -> str:
    """Return the report: figures over all problems, then for each problem, then wins; the best contender is first."""
    overall = sorted(map(figures.row, figures.labels), key=_place)
    order = [figures.labels.index(row["strategy"]) for row in overall]
    parts = ["# Comparison", _table(overall)]
    ranks = figures.ranks
    if ranks is not None:
        parts.append(
            f"Mean ranks that differ by more than {ranks.critical_difference:.2f} differ significantly by Nemenyi's "
            f"test (5 %, {ranks.blocks} problems; Friedman's test: p = {ranks.p_value:.2g})."
        )
    for name in figures.problems:
        rows = [figures.row(figures.labels[i], name) for i in order]
        parts.append(f"## {name}, {rows[0]['runs']} runs, {figures.budgets[name]} evaluations")
        parts.append(_table(rows))
    if figures.contests and len(order) > 1:
        head = ["", *(figures.labels[i] for i in order)]
        lines = [[figures.labels[i], *(str(figures.wins[i, j]) for j in order)] for i in order]
        parts += ["## Wins of the row over the column", markdown_table(head, lines)]
    parts += [EXPLANATION, *([SCORES] if figures.evaluations else [])]
    if figures.unscored:
        reasons = [f"{name} ({reason})" for name, reason in figures.unscored.items()]
        parts.append(f"Problems without a score: {'; '.join(reasons)}.")
    return "\n\n".join(parts) + "\n"


def _place(row: Mapping[str, Any]) -> float:
    """Return the key of the order in the report: the score if there is one, else the mean rank."""
    score = row.get("score_evaluations")
    return float(row.get("mean_rank", 0.0) if score is None else -score)


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of figures; those that no row has are left out."""
    names = [name for name in TITLES if any(_exists(row.get(name)) for row in rows)]
    lines = [[row["strategy"], *(_format(row, name) for name in names)] for row in rows]
    return markdown_table(["strategy", *(TITLES[name][0] for name in names)], lines)


def _is_among_best(row: Mapping[str, Any]) -> bool:
    """Return whether a strategy has the best mean on a problem, or is not significantly worse."""
    return float(row.get("p_value", 0.0)) > 1 - LEVEL


def _format(row: Mapping[str, Any], name: str, bold: str = "**{}**") -> str:
    """Return a figure with its interval; the mean is bold for the best, and for those not significantly worse."""
    value, low, high = (row.get(f"{name}{end}") for end in ("", "_low", "_high"))
    form = TITLES[name][1]
    if not _exists(value):
        return "-"
    text = f"{value:{form}}" + (f" ({low:{form}} to {high:{form}})" if _exists(low) else "")
    return bold.format(text) if name == "mean" and _is_among_best(row) else text


def _exists(value: Any) -> bool:
    return value is not None and not math.isnan(value)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns except the first are aligned as numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _escape(name: str) -> str:
    """Return a name as text of LaTeX."""
    return re.sub(r"([_&%#$])", r"\\\1", name)


def to_latex(figures: StudyFigures) -> str:
    """Return a LaTeX table of the mean values with their intervals: a row for each strategy, a column for each problem.

    The best mean of a problem, and those that are not significantly worse, are bold. It needs the package booktabs.
    """
    rows = [["", *map(_escape, figures.problems)]]
    for label in figures.labels:
        own = [figures.row(label, name) for name in figures.problems]
        rows.append([_escape(label), *(_format(row, "mean", r"\textbf{{{}}}") for row in own)])
    head, *lines = (" & ".join(row) + r" \\" for row in rows)
    columns = "l" + "r" * len(figures.problems)
    parts = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", head, r"\midrule", *lines]
    return "\n".join([*parts, r"\bottomrule", r"\end{tabular}", ""])


def to_csv(figures: StudyFigures) -> str:
    """Return the table of figures: one row for each strategy and problem, and one with the problem ``all``."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    texts = ("strategy", "problem")
    for row in figures.rows:
        writer.writerow({k: value for k, value in row.items() if k in texts or _exists(value)})
    return text.getvalue()
