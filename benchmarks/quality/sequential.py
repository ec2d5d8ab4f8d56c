"""Simulate `baco-like check` on a machine whose speed drifts: wrong verdicts, rounds, and other boundaries.

    OMP_NUM_THREADS=1 python benchmarks/quality/sequential.py --runs 1000

Both values of a round have normal noise, a random walk over all measurements (a quarter of the noise for each step),
and in one of 20 cases a disturbance with an exponential distribution of mean 50 %. With a correlation, the ratios also
have an autoregressive load of the size of the noise, which the pairs do not cancel.

The second table has the expected numbers of looks and rounds of boundaries for a normal statistic with known variance:
equal shares of the error (Bonferroni), and Pocock's and O'Brien and Fleming's boundaries, which use the dependence of
the looks and are found here by simulation.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from scipy import stats

from baco_like.records.regression import RegressionRule, compare_ratios

RULE = RegressionRule()
LOSSES = (1.0, 1.01, 1.05, 1.1, 1.56)


def drifting_ratios(
    rng: np.random.Generator, n: int, noise: float, loss: float, correlation: float
) -> np.ndarray:
    """Return the speed-up in each of n rounds."""
    logs = np.cumsum(rng.normal(0.0, noise / 4.0, 2 * n)) + rng.normal(0.0, noise, 2 * n)
    logs += (rng.random(2 * n) < 0.05) * rng.exponential(0.5, 2 * n)
    first, second = logs.reshape(n, 2).T
    load = np.zeros(n)
    if correlation:
        load = rng.normal(0.0, noise, n)
        for i in range(1, n):
            load[i] = correlation * load[i - 1] + np.sqrt(1.0 - correlation**2) * load[i]
    return 2.0 / loss * np.exp((first - second) * rng.choice([-1.0, 1.0], n) + load)


def check(
    rng: np.random.Generator, recorded: int, noise: float, loss: float, correlation: float
) -> tuple[bool | None, int]:
    """Return the verdict of a check, and its number of rounds."""
    before = drifting_ratios(rng, recorded, noise, 1.0, correlation)
    now = drifting_ratios(rng, RULE.rounds, noise, loss, correlation)
    looks = RULE.looks(recorded)
    for n in looks:
        found = compare_ratios(before.tolist(), now[:n].tolist(), RULE.alpha / len(looks))
        verdict = found.verdict(1.0 + RULE.tolerance, 1.0 + RULE.slowdown)
        if verdict is not None:
            return verdict, n
    return None, RULE.rounds


def table_rows(runs: int, seed: int) -> Iterator[list[str]]:
    for correlation in (0.0, 0.5, 0.9):
        for recorded in (10, 20, 40):
            for noise in (0.01, 0.02, 0.05, 0.1, 0.2):
                rng = np.random.default_rng(seed)
                row = [f"{correlation:g}", f"{recorded}", f"{100 * noise:g}"]
                for loss in LOSSES:
                    found = [check(rng, recorded, noise, loss, correlation) for _ in range(runs)]
                    verdicts = [verdict for verdict, _ in found]
                    rounds = np.median([n for _, n in found])
                    shares = (100 * verdicts.count(v) / runs for v in (True, False))
                    row.append(" / ".join([*(f"{share:.1f}" for share in shares), f"{rounds:.0f}"]))
                yield row


def boundary_rows(seed: int, runs: int = 400_000) -> Iterator[list[str]]:
    """Yield the name, the critical value at the first and last look, and the mean rounds with a shift of 4 and 8.

    The shift is the mean of the statistic after all rounds.
    """
    looks = np.array(RULE.looks(40))
    share = looks / looks[-1]
    rng = np.random.default_rng(seed)
    steps = np.sqrt(np.diff(share, prepend=0.0))
    walk = np.cumsum(rng.standard_normal((runs, len(looks))) * steps, axis=1)
    score = walk / np.sqrt(share)  # (runs, looks)
    pocock = np.quantile(score.max(axis=1), 1.0 - RULE.alpha)
    fleming = np.quantile(walk.max(axis=1), 1.0 - RULE.alpha)
    bounds = {
        "equal shares": np.full(len(looks), stats.norm.isf(RULE.alpha / len(looks))),
        "Pocock": np.full(len(looks), pocock),
        "O'Brien and Fleming": fleming / np.sqrt(share),
    }
    for name, bound in bounds.items():
        rounds = []
        for shift in (4.0, 8.0):
            crossed = score + shift * np.sqrt(share) > bound
            last = np.where(crossed.any(axis=1), crossed.argmax(axis=1), len(looks) - 1)
            rounds.append(f"{looks[last].mean():.1f}")
        yield [name, f"{bound[0]:.2f}", f"{bound[-1]:.2f}", *rounds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, metavar="N", help="checks of each case")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print("| boundary | first look | last look | rounds, shift 4 | rounds, shift 8 |")
    print("|---|---|---|---|---|")
    for row in boundary_rows(args.seed):
        print(f"| {' | '.join(row)} |", flush=True)
    heads = [f"loss {loss:g}" for loss in LOSSES]
    print(f"\n| correlation | earlier ratios | noise, % | {' | '.join(heads)} |")
    print("|" + "---|" * (3 + len(LOSSES)))
    for row in table_rows(args.runs, args.seed):
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
