"""The figures of a comparison as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from baco_like.benchmarking.comparison.figures import Figures, Standing


def markdown(figures: Figures) -> str:
    """Return the report: scores over all spaces, by space, and who beats whom."""
    parts = ["# Comparison", _overall(figures), "## Score by space", _by_space(figures)]
    parts += ["## Fraction of the optimum at the end", _fractions(figures)]
    parts += ["## Wins", WINS, _wins(figures), EXPLAINED]
    return "\n\n".join(parts) + "\n"


def rows(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first hold numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)])


def ranked(figures: Figures) -> list[str]:
    """Return the labels, the best score over evaluations first."""
    return sorted(figures.labels, key=lambda label: -figures.evaluations[label].score)


def _overall(figures: Figures) -> str:
    won, lost = figures.totals
    body = []
    for label in ranked(figures):
        i = figures.labels.index(label)
        body.append(
            [
                label,
                _interval(figures.evaluations[label]),
                _interval(figures.time[label]) if figures.time else "-",
                f"{figures.fractions[i].mean():.3f}",
                f"{won[i]} / {lost[i]}",
                f"{figures.milliseconds[label]:.2f}",
            ]
        )
    head = ["strategy", "score over evaluations", "score over time", "fraction of optimum"]
    return rows([*head, "wins / losses", "ms per suggestion"], body)


def _interval(standing: Standing) -> str:
    return f"{standing.score:.3f} ({standing.low:.3f} to {standing.high:.3f})"


def _by_space(figures: Figures) -> str:
    head = ["strategy", *(f"{name} ({figures.budgets[name]})" for name in figures.spaces)]
    return rows(
        head,
        (
            [label, *(f"{figures.evaluations[label].by_space[n]:.3f}" for n in figures.spaces)]
            for label in ranked(figures)
        ),
    )


def _fractions(figures: Figures) -> str:
    lines = dict(zip(figures.labels, figures.fractions, strict=True))
    return rows(
        ["strategy", *figures.spaces],
        ([label, *(f"{x:.3f}" for x in lines[label])] for label in ranked(figures)),
    )


def _wins(figures: Figures) -> str:
    order = [figures.labels.index(label) for label in ranked(figures)]
    table = figures.wins
    return rows(
        ["", *(figures.labels[j] for j in order)],
        ([figures.labels[i], *(str(table[i, j]) for j in order)] for i in order),
    )


WINS = (
    "On how many spaces the row is significantly better than the column at the end of the budget."
)

EXPLAINED = """\
Score: 0 is random search (calculated), 1 is the optimum from the first evaluation on; the mean over the budget (in
brackets behind each space's name, in evaluations) and over the spaces; in brackets behind scores 95 % bootstrap
intervals over the runs. Time is simulated: what compiling, running and checking took when the table was recorded; the
strategy's own is not in it. Wins: Student's t-test, 5 %, two-sided."""


def comma_separated(figures: Figures) -> str:
    """Return one row for each strategy and space, and one with the space ``all``; empty where there is no figure."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for i, label in enumerate(figures.labels):
        for j in range(len(figures.spaces)):
            writer.writerow({"strategy": label, **_on_space(figures, i, j)})
        writer.writerow({"strategy": label, "space": "all", **_on_all(figures, i)})
    return text.getvalue()


COLUMNS = (
    *("strategy", "space", "runs", "budget", "score_evaluations", "score_evaluations_low"),
    *("score_evaluations_high", "score_time", "score_time_low", "score_time_high"),
    *("fraction_of_optimum", "wins", "losses", "ms_per_suggestion"),
)


def _on_space(figures: Figures, i: int, j: int) -> dict[str, Any]:
    label, name = figures.labels[i], figures.spaces[j]
    contest = figures.contests[name]
    return {
        "space": name,
        "runs": figures.counts[i, j],
        "budget": figures.budgets[name],
        "score_evaluations": figures.evaluations[label].by_space[name],
        "score_time": figures.time[label].by_space[name] if figures.time else "",
        "fraction_of_optimum": _number(figures.fractions[i, j]),
        "wins": contest[i].sum(),
        "losses": contest[:, i].sum(),
    }


def _on_all(figures: Figures, i: int) -> dict[str, Any]:
    label = figures.labels[i]
    standings = {"evaluations": figures.evaluations, "time": figures.time}
    scores = {}
    for over, standing in ((k, v[label]) for k, v in standings.items() if v):
        scores[f"score_{over}"] = standing.score
        scores[f"score_{over}_low"] = standing.low
        scores[f"score_{over}_high"] = standing.high
    won, lost = figures.totals
    return {
        "runs": figures.counts[i].sum(),
        **scores,
        "fraction_of_optimum": _number(figures.fractions[i].mean()),
        "wins": won[i],
        "losses": lost[i],
        "ms_per_suggestion": figures.milliseconds[label],
    }


def _number(x: float) -> float | str:
    return "" if math.isnan(x) else float(x)
