"""Measure how well ``baco-like check`` finds a slow-down, on recorded repeats with real noise.

    OMP_NUM_THREADS=1 python benchmarks/quality/check.py --data DIR --table results/check.md

The data and the candidate lists are those of `confirmation.py`: GPU spaces, in which a measurement is the mean of 7
random ones of the recorded runtimes of a configuration, and a C kernel on a busy machine, whose measurements are read
in the order in which they were made, from a random time on.

For each of 10 candidate lists and 40 reruns, the winner is confirmed with 20 measurements as `tune` does. Then it is
checked twice, with the ratios of this confirmation and with those that ``check --record`` measures at another random
time. Each check is made with the winner unchanged, and with values that are multiplied by 1.05.
"""

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from confirmation import DEFAULT, Case, all_cases, confirm_case, kernel_cases
from scipy import stats

from baco_like import Outcome, Trial
from baco_like.records.confirmation import CandidateResults
from baco_like.running.checking import CheckedPair, check_winner, record_baseline

RERUNS, CONFIRMATION, SLOWDOWNS = 40, 20, (0.0, 0.05)
COLUMNS = (
    *("data", "earlier ratios", "their number", "slow-down, %", "regressed, %", "fine, %"),
    *("cannot tell, %", "rounds"),
)


class RerunEvaluator:
    """Measures candidates by a rerun of recorded noise; the winner may have become slower."""

    capacity = 1

    def __init__(self, case: Case, seed: int, winner: int, factor: float = 1.0) -> None:
        self.case, self.winner, self.factor = case, winner, factor
        self.draw = case.rerun(np.random.default_rng(seed))
        self.waiting: list[Trial] = []
        self.measured = [0] * len(case.trials)

    def submit(self, trial: Trial) -> None:
        self.waiting.append(trial)

    def wait(self) -> Sequence[Outcome]:
        trial = self.waiting.pop()
        k = next(i for i, t in enumerate(self.case.trials) if dict(t.config) == dict(trial.config))
        self.measured[k] += 1
        value = self.draw(k, self.measured[k]) * (self.factor if k == self.winner else 1.0)
        return [Outcome.success(trial.id, (value,))]

    def close(self) -> None:
        self.waiting.clear()


def confirmed(case: Case, seed: int) -> tuple[int, tuple[float, ...], int]:
    """Return the winner of a confirmation, its ratios, and the number of candidates."""
    found = confirm_case(case, CONFIRMATION, seed)
    last = len(case.trials) - 1
    k = next(i for i, trial in enumerate(found.candidates) if trial is found.recommended)
    if k == last:  # the default is kept: check the best other one
        k = int(np.argmin(case.means[:last]))
    values = [CandidateResults(t).trial.repeats for t in found.candidates]
    pairs = zip(values[last], values[k], strict=False)
    return k, tuple(default / winner for default, winner in pairs), last


def check_case(case: Case, number: int) -> Iterator[tuple[str, int, float, str, int]]:
    """Yield the source of the ratios, their number, the slow-down, the result and the rounds of each check."""
    default = case.trials[-1].config
    for rerun in range(RERUNS):
        seed = 10_000 * number + 10 * rerun
        k, ratios, candidates = confirmed(case, seed)
        winner = case.trials[k].config
        recorded = record_baseline(
            RerunEvaluator(case, seed + 1, k), CheckedPair(winner, default), seed=seed
        )
        pairs = zip(recorded.default, recorded.winner, strict=True)
        own = tuple(a / b for a, b in pairs)
        for source, before, count in (("confirmation", ratios, candidates), ("recorded", own, 1)):
            pair = CheckedPair(winner, default, before, count)
            for i, slowdown in enumerate(SLOWDOWNS):
                evaluator = RerunEvaluator(case, seed + 2 + i, k, 1.0 + slowdown)
                result = check_winner(evaluator, pair, seed=seed + i)
                yield source, len(before), slowdown, result.status, len(result.winner)


def table_rows(name: str, cases: Sequence[Case]) -> Iterator[list[str]]:
    checks = [check for number, case in enumerate(cases) for check in check_case(case, number)]
    for source in ("confirmation", "recorded"):
        for slowdown in SLOWDOWNS:
            own = [check for check in checks if (check[0], check[2]) == (source, slowdown)]
            statuses = [check[3] for check in own]
            shares = [share(statuses.count(s), len(own)) for s in ("regressed", "fine", "unknown")]
            count, rounds = (np.mean([check[i] for check in own]) for i in (1, 4))
            yield [name, source, f"{count:.1f}", f"{100 * slowdown:.0f}", *shares, f"{rounds:.1f}"]


def share(count: int, total: int) -> str:
    """Return a share in percent with its exact 95 % interval."""
    interval = stats.binomtest(count, total).proportion_ci(0.95)
    return f"{100 * count / total:.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"


def kernel_only(data: Path | None) -> Iterator[tuple[str, list[Case]]]:
    yield "C kernel", list(kernel_cases(DEFAULT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("BACO_LIKE_DATA"))
    parser.add_argument("--table", type=Path)
    parser.add_argument("--lists", type=int, default=10, metavar="N", help="candidate lists")
    args = parser.parse_args()
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    sources: Callable[..., Iterator[tuple[str, list[Case]]]]
    sources = all_cases if args.data else kernel_only
    for name, cases in sources(args.data):
        for row in table_rows(name, cases[: args.lists]):
            lines.append(f"| {' | '.join(row)} |")
            print(lines[-1], flush=True)
    if args.table:
        args.table.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
