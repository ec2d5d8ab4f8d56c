"""10. Write and read numbers of every size: bit for bit through the journal, T4 and CSV.

    python benchmarks/reliability/exact.py [--quick] [--values 20000]

Values: random bit patterns of finite doubles, and chosen ones from 5e-324 to 1.8e308 of both signs. Parameter values:
1e-12, 0.5, 1e20, 2**53 + 1 and neighbours, reals with random bits.
"""

import math
import random
import struct
from pathlib import Path
from typing import Any

from harness import Report, arguments, chosen, scratch

from baco_like import Integer, Optimizer, Ordinal, Real, Space
from baco_like.evaluators.replay import load
from baco_like.integrations import read_samples, write_samples
from baco_like.results import write
from baco_like.results.hypermapper import Layout
from baco_like.results.recording import recorded_trials

CHOSEN = [
    5e-324,
    2.2250738585072014e-308,
    1e-300,
    1e-12,
    0.1,
    1 / 3,
    1.0,
    2.0**53 + 2,
    1e20,
    1e300,
    1.7976931348623157e308,
]

SPACE = Space(
    {
        "r": Real(-1e300, 1e300),
        "small": Real(1e-12, 1e-9),
        "o": Ordinal([1e-12, 0.5, 1e20, 2.0**60]),
        "n": [2**53 - 1, 2**53 + 1, 2**62 + 1],
        "i": Integer(2**53 + 1, 2**53 + 99),
    }
)


def doubles(number: int, rng: random.Random) -> list[float]:
    found = [sign * value for value in CHOSEN for sign in (1.0, -1.0)]
    while len(found) < number:
        (value,) = struct.unpack("<d", rng.randbytes(8))
        if math.isfinite(value):
            found.append(value)
    return found


def bits(value: Any) -> Any:
    """Return a key that is equal only for the same type and bits."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return type(value).__name__, value


def config(i: int, value: float, rng: random.Random) -> dict[str, Any]:
    return {
        "r": value if abs(value) <= 1e300 else float(i),
        "small": rng.uniform(1e-12, 1e-9),
        "o": [1e-12, 0.5, 1e20, 2.0**60][i % 4],
        "n": [2**53 - 1, 2**53 + 1, 2**62 + 1][i % 3],
        "i": 2**53 + 1 + i % 99,
    }


def same(config: Any, other: Any) -> bool:
    return [bits(config[name]) for name in SPACE.names] == [
        bits(other[name]) for name in SPACE.names
    ]


def main() -> None:
    args = arguments(__doc__, values=20_000)
    number, rng, report = (
        chosen(args.values, args.quick, 200, 20_000),
        random.Random(args.seed),
        Report(),
    )
    values = doubles(number, rng)
    told = [config(i, value, rng) for i, value in enumerate(values)]
    with scratch() as folder:
        opt = Optimizer(SPACE, strategy="random_search", storage=folder / "run.jsonl")
        for i in range(0, number, 100):
            opt.observe(told[i : i + 100], values[i : i + 100])
        read = Optimizer.load(folder / "run.jsonl").trials
        for trial, wanted, value in zip(read, told, values, strict=True):
            report.check(same(trial, wanted), f"journal: {dict(trial)} was {wanted}")
            report.check(
                bits(trial.value) == bits(value), f"journal: {trial.value!r} was {value!r}"
            )
        check_files(report, folder, read)
        chosen_by_us = opt.suggest(50)
        report.check(all(math.isfinite(v) for t in chosen_by_us for v in t.values()), "not finite")
    report.figure(f"{number} values and configurations, bit for bit through journal, T4 and CSV")
    report.end()


def check_files(report: Report, folder: Path, trials: list[Any]) -> None:
    write(recorded_trials(trials, objective="time", unit="ms"), folder / "t4.json", "t4")
    recorded = load(folder / "t4.json")
    for trial in trials:
        entry = recorded.find(trial)
        found = entry is not None and bits(entry.value) == bits(trial.value)
        report.check(found, f"T4: {trial.value!r} is {entry}")
    layout = Layout(SPACE.parameters, "time")
    write_samples(folder / "run.csv", trials, layout)
    configs, outcomes = read_samples(folder / "run.csv", layout)
    for trial, found, outcome in zip(trials, configs, outcomes, strict=True):
        report.check(same(trial, found), f"CSV: {dict(trial)} is {found}")
        report.check(bits(outcome.value) == bits(trial.value), f"CSV: {trial.value!r} is {outcome}")


if __name__ == "__main__":
    main()
