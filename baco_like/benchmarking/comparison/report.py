"""Write the figures of a comparison as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from baco_like.benchmarking.comparison.figures import ComparisonFigures, Standing

WINS = "Number of spaces on which the row is significantly better than the column at the end of the budget."

EXPLANATION = """\
Score: 0 is random search (calculated), 1 is the optimum from the first evaluation on; the mean over the budget (in
brackets after each space's name, in evaluations) and over the spaces. Brackets after scores contain 95 % bootstrap
intervals over the runs. Time is simulated: the time of compiling, running and checking when the table was recorded,
without the strategy's own time. Wins: Student's t-test, 5 %, two-sided."""

COLUMNS = (
    *("strategy", "space", "runs", "budget", "score_evaluations", "score_evaluations_low"),
    *("score_evaluations_high", "score_time", "score_time_low", "score_time_high"),
    *("fraction_of_optimum", "wins", "losses", "ms_per_suggestion"),
)
"""Columns of the CSV file."""


def to_markdown(figures: ComparisonFigures) -> str:
    """Return the report: scores over all spaces, scores by space, fractions of the optimum, and wins."""
    order = sorted(figures.labels, key=lambda label: -figures.evaluations[label].score)
    labels = {label: figures.labels.index(label) for label in order}
    wins, losses = figures.win_counts
    overall = [
        [
            label,
            _format_interval(figures.evaluations[label]),
            _format_interval(figures.time[label]) if figures.time else "-",
            f"{figures.fractions[i].mean():.3f}",
            f"{wins[i]} / {losses[i]}",
            f"{figures.milliseconds[label]:.2f}",
        ]
        for label, i in labels.items()
    ]
    scores = [
        [label, *(f"{figures.evaluations[label].by_space[n]:.3f}" for n in figures.spaces)]
        for label in labels
    ]
    fractions = [
        [label, *(f"{x:.3f}" for x in figures.fractions[i])] for label, i in labels.items()
    ]
    contests = [
        [label, *(str(figures.wins[i, j]) for j in labels.values())] for label, i in labels.items()
    ]
    head = ["strategy", "score over evaluations", "score over time", "fraction of optimum"]
    budgets = [f"{name} ({figures.budgets[name]})" for name in figures.spaces]
    parts = [
        "# Comparison",
        markdown_table([*head, "wins / losses", "ms per suggestion"], overall),
        "## Score by space",
        markdown_table(["strategy", *budgets], scores),
        "## Fraction of the optimum at the end",
        markdown_table(["strategy", *figures.spaces], fractions),
        "## Wins",
        WINS,
        markdown_table(["", *labels], contests),
        EXPLANATION,
    ]
    return "\n\n".join(parts) + "\n"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns except the first are aligned as numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _format_interval(standing: Standing) -> str:
    return f"{standing.score:.3f} ({standing.low:.3f} to {standing.high:.3f})"


def to_csv(figures: ComparisonFigures) -> str:
    """Return one row for each strategy and space, and one with the space ``all``; unknown figures are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(_csv_rows(figures))
    return text.getvalue()


def _csv_rows(figures: ComparisonFigures) -> Iterator[dict[str, Any]]:
    wins, losses = figures.win_counts
    kinds = {"evaluations": figures.evaluations, "time": figures.time}
    for i, label in enumerate(figures.labels):
        standings = {over: by_label[label] for over, by_label in kinds.items() if by_label}
        for j, name in enumerate(figures.spaces):
            contest = figures.contests[name]
            yield {
                "strategy": label,
                "space": name,
                "runs": figures.counts[i, j],
                "budget": figures.budgets[name],
                **{f"score_{over}": s.by_space[name] for over, s in standings.items()},
                "fraction_of_optimum": _number_or_empty(figures.fractions[i, j]),
                "wins": contest[i].sum(),
                "losses": contest[:, i].sum(),
            }
        yield {
            "strategy": label,
            "space": "all",
            "runs": figures.counts[i].sum(),
            **{f"score_{over}": s.score for over, s in standings.items()},
            **{f"score_{over}_low": s.low for over, s in standings.items()},
            **{f"score_{over}_high": s.high for over, s in standings.items()},
            "fraction_of_optimum": _number_or_empty(figures.fractions[i].mean()),
            "wins": wins[i],
            "losses": losses[i],
            "ms_per_suggestion": figures.milliseconds[label],
        }


def _number_or_empty(x: float) -> float | str:
    return "" if math.isnan(x) else float(x)
