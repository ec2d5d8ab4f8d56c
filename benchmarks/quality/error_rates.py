"""Simulate the error rates of the tests of a study, and the coverage of its intervals.

    OMP_NUM_THREADS=1 python benchmarks/quality/error_rates.py [--repeats 600] [--table results/error_rates.md]

All strategies are equal, so that each study with a significant pair is an error. The final costs of their runs are
normal, lognormal, or those of random search on a table of 400 configurations with few values, which has many ties. It
takes four minutes of CPU; `--repeats 150` takes one.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from baco_like._typing import Array, Rng
from baco_like.benchmarking.studies.report import markdown_table
from baco_like.benchmarking.studies.statistics import (
    compare_pairs,
    interval,
    mean_interval,
    mean_ranks,
)

Draw = Callable[[Rng, tuple[int, ...]], Array]

VALUES = np.floor(np.random.default_rng(0).lognormal(3, 0.4, 400))
"""The values of a table with ties."""


def search(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Return the best of 20 random values of the table, for each run."""
    return VALUES[rng.integers(len(VALUES), size=(*shape, 20))].min(axis=-1)


COSTS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "lognormal": lambda rng, shape: rng.lognormal(size=shape),
    "random search": search,
}


def pair_errors(repeats: int) -> Iterator[list[str]]:
    """Yield the share of problems on which any pair differs significantly, by strategies and runs."""
    for k in (2, 6):
        for runs in (2, 3, 5, 7, 10, 20):
            yield [f"{k}", f"{runs}"] + [
                f"{np.mean([compare_pairs(list(draw(rng, (k, runs)))).wins.any() for _ in range(repeats)]):.1%}"
                for draw in COSTS.values()
                for rng in [np.random.default_rng(runs)]
            ]


def rank_errors(repeats: int) -> Iterator[list[str]]:
    """Yield the share of studies in which any mean ranks, and Friedman's test, are significant."""
    for k in (2, 3, 6):
        for problems in (1, 2, 4, 6, 10):
            row = [f"{k}", f"{problems}"]
            for name in ("normal", "random search"):
                rng, errors = np.random.default_rng(problems), np.zeros(2)
                for _ in range(repeats // 2):
                    means = COSTS[name](rng, (problems, k, 2)).mean(axis=-1)
                    found = mean_ranks([str(i) for i in range(k)], means)
                    assert found is not None
                    ranks = list(found.ranks.values())
                    errors += (
                        ranks[-1] - ranks[0] > found.critical_difference,
                        found.p_value <= 0.05,
                    )
                row += [f"{share:.1%}" for share in errors / (repeats // 2)]
            yield row


def coverage(repeats: int) -> Iterator[list[str]]:
    """Yield the share of intervals of the mean and of the median that have the true value."""
    for name, draw in COSTS.items():
        many = draw(np.random.default_rng(1), (400_000,))
        for runs in (10, 20, 50):
            rng, hits = np.random.default_rng(runs), np.zeros(2)
            for _ in range(repeats):
                values = draw(rng, (runs,))
                medians = np.median(values[rng.integers(runs, size=(500, runs))], axis=1)
                ends = mean_interval(values, rng), interval(medians, runs)
                true = many.mean(), np.median(many)
                hits += [low <= t <= high for (low, high), t in zip(ends, true, strict=True)]
            yield [name, f"{runs}", *(f"{share:.1%}" for share in hits / repeats)]


def main() -> None:
    """Print the tables, and write them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=600, help="simulated problems of a row")
    parser.add_argument("--table", type=Path, help="also write the tables here")
    args = parser.parse_args()
    distributions = list(COSTS)
    text = "\n\n".join(
        [
            "# Error rates of the tests, and coverage of the intervals",
            f"`python benchmarks/quality/error_rates.py --repeats {args.repeats} --table FILE`",
            "All strategies are equal. Nominal: at most 5 % errors, 95 % coverage.",
            "## One problem: any pair significant (Mann-Whitney, Holm)",
            markdown_table(["strategies", "runs", *distributions], pair_errors(args.repeats)),
            "## Many problems, two runs each: any mean ranks significant (Nemenyi), and Friedman's test",
            f"{args.repeats // 2} studies in a row, so that 5 % has a standard error of "
            f"{np.sqrt(0.05 * 0.95 / (args.repeats // 2)):.1%}.",
            markdown_table(
                ["strategies", "problems"]
                + [
                    f"{test}, {name}"
                    for name in ("normal", "ties")
                    for test in ("Nemenyi", "Friedman")
                ],
                rank_errors(args.repeats),
            ),
            "## Coverage of the intervals",
            markdown_table(["costs", "runs", "mean", "median"], coverage(args.repeats)),
        ]
    )
    print(text)
    if args.table is not None:
        args.table.write_text(text + "\n")


if __name__ == "__main__":
    main()
