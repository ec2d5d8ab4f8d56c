"""Tables of a study: mean, median and regret at the end with intervals, and mean ranks with a critical difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from baco_like._optional import require
from baco_like._typing import Array
from baco_like.benchmarking.comparison.report import markdown_table
from baco_like.records import sign_of

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95
"""Confidence of the intervals, and 1 minus the level of the tests."""

_RESAMPLES = 2000

EXPLANATION = """\
Brackets contain 95 % percentile bootstrap intervals over the runs. Regret is the difference of the best value to the
optimum. A run without a success has the worst value that any run observed on the problem. Ranks: 1 is the best; the
mean over all pairs of problem and seed."""


@dataclass(frozen=True, eq=False)
class MeanRanks:
    """Mean ranks of strategies over all pairs of problem and seed (Demsar, JMLR 7, 2006, section 3.2.2).

    Attributes:
        ranks: Mean rank of each strategy, the best first.
        critical_difference: Two mean ranks that differ by more differ significantly (Nemenyi's test, 5 %).
        p_value: Of Friedman's test that all strategies are equally good; NaN for fewer than three.
        blocks: Number of pairs of problem and seed.
    """

    ranks: dict[str, float]
    critical_difference: float
    p_value: float
    blocks: int


def final_values(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each run: ``problem``, ``strategy``, ``seed``, ``best``, ``regret`` and ``failures``.

    A run without a success has the worst value that any run observed on the problem.

    Args:
        frame: The result of `study`.
    """
    keys = ["problem", "strategy", "seed"]
    groups = frame.sort_values("evaluation", kind="stable").groupby(keys, sort=False)
    final: pd.DataFrame = groups.agg(best=("best", "last"), regret=("regret", "last"))
    final["failures"] = groups["value"].apply(lambda values: values.isna().mean())
    final["strategy_seconds"] = groups["strategy_seconds"].mean()
    final = final.reset_index()
    for name, values in frame.groupby("problem")["value"]:
        sign = sign_of(frame.attrs["directions"][name])
        worst = sign * (sign * values).max()
        lost = (final["problem"] == name) & final["best"].isna()
        final.loc[lost, "best"] = worst
        optimum = frame.attrs["optima"].get(name)
        if optimum is not None:
            final.loc[lost, "regret"] = sign * (worst - optimum)
    return final


def summarise_study(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Return one row for each problem and strategy: mean, median and mean regret at the end, with intervals.

    Args:
        frame: The result of `study`.
        seed: Seed of the bootstrap.

    Returns:
        The columns ``mean``, ``median`` and ``regret``, each also with ``_low`` and ``_high`` (95 % bootstrap
        intervals over the runs), ``runs``, ``failures`` (mean share) and ``ms_per_suggestion``.
    """
    pandas = require("pandas", "dataframe")
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for (name, label), runs in final_values(frame).groupby(["problem", "strategy"], sort=False):
        best = runs["best"].to_numpy(dtype=np.float64)
        draws = rng.integers(len(best), size=(_RESAMPLES, len(best)))
        row: dict[str, Any] = {"problem": name, "strategy": label, "runs": len(best)}
        row |= _with_interval("mean", best.mean(), best[draws].mean(axis=1))
        row |= _with_interval("median", np.median(best), np.median(best[draws], axis=1))
        regret = runs["regret"].to_numpy(dtype=np.float64)
        row |= _with_interval("regret", regret.mean(), regret[draws].mean(axis=1))
        row["failures"] = runs["failures"].mean()
        row["ms_per_suggestion"] = 1e3 * runs["strategy_seconds"].mean()
        rows.append(row)
    table: pd.DataFrame = pandas.DataFrame(rows)
    return table


def _with_interval(name: str, value: float, samples: Array) -> dict[str, float]:
    low, high = np.quantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {name: float(value), f"{name}_low": float(low), f"{name}_high": float(high)}


def can_rank(frame: pd.DataFrame) -> bool:
    """Whether the strategies of a study have `mean_ranks`: there are two or more, and a run has a success."""
    return frame["strategy"].nunique() > 1 and bool(frame["best"].notna().any())


def mean_ranks(frame: pd.DataFrame) -> MeanRanks:
    """Return the mean ranks of the strategies by their best values at the end; equal values share their rank.

    The blocks of Friedman's and Nemenyi's tests are the pairs of problem and seed, so the answer is about these
    problems, not about all problems of their kind.

    Args:
        frame: The result of `study`.

    Raises:
        ValueError: There are fewer than two strategies, or no problem with a success and a seed that all of them have
            run.
    """
    from scipy.stats import friedmanchisquare, rankdata, studentized_range

    final = final_values(frame)
    signs = final["problem"].map(lambda name: sign_of(frame.attrs["directions"][name]))
    final["cost"] = final["best"] * signs
    labels = list(dict.fromkeys(final["strategy"]))
    final = final.dropna(subset="cost")  # a problem without a success tells nothing
    table = final.pivot_table(index=["problem", "seed"], columns="strategy", values="cost")
    costs = table.reindex(columns=labels).dropna().to_numpy(dtype=np.float64)
    blocks, k = costs.shape
    if k < 2 or not blocks:
        raise ValueError(
            "ranks need two strategies, and a problem with a success and a seed that all have run, "
            f"got {k} and {blocks}"
        )
    means = rankdata(costs, axis=1).mean(axis=0)
    quantile = float(studentized_range.ppf(LEVEL, k, np.inf)) / math.sqrt(2.0)
    p_value = float(friedmanchisquare(*costs.T).pvalue) if k > 2 else math.nan
    order = np.argsort(means, kind="stable")
    return MeanRanks(
        {labels[i]: float(means[i]) for i in order},
        quantile * math.sqrt(k * (k + 1) / (6.0 * blocks)),
        p_value,
        blocks,
    )


def study_to_markdown(frame: pd.DataFrame) -> str:
    """Return the tables of a study in Markdown: mean ranks, then mean, median and regret for each problem.

    Args:
        frame: The result of `study`.
    """
    summary = summarise_study(frame)
    parts = ["# Study"]
    if can_rank(frame):
        ranks = mean_ranks(frame)
        lines = [[label, f"{rank:.2f}"] for label, rank in ranks.ranks.items()]
        test = "" if math.isnan(ranks.p_value) else f" (Friedman's test: p = {ranks.p_value:.2g})"
        parts += [
            markdown_table(["strategy", "mean rank"], lines),
            f"Mean ranks that differ by more than {ranks.critical_difference:.2f} differ significantly by Nemenyi's "
            f"test (5 %, {ranks.blocks} pairs of problem and seed){test}.",
        ]
    for name, rows in summary.groupby("problem", sort=False):
        rows = rows.sort_values("mean", ascending=frame.attrs["directions"][name] == "minimize")
        lines = [
            [
                str(row["strategy"]),
                *(_format(row, figure) for figure in ("mean", "median", "regret")),
                f"{row['failures']:.0%}",
                f"{row['ms_per_suggestion']:.1f}",
            ]
            for _, row in rows.iterrows()
        ]
        head = ["strategy", "mean", "median", "regret", "failures", "ms per suggestion"]
        count = f"{int(rows['runs'].min())} runs"
        parts += [f"## {name}, {count}", markdown_table(head, lines)]
    return "\n\n".join([*parts, EXPLANATION]) + "\n"


def _format(row: pd.Series[Any], figure: str) -> str:
    if math.isnan(row[figure]):
        return "-"
    return f"{row[figure]:.4g} ({row[f'{figure}_low']:.4g} to {row[f'{figure}_high']:.4g})"
