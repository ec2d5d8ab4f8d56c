"""6. Return invalid values from the objective: each is recorded as a failure, in any order, and best is never NaN.

    python benchmarks/reliability/values.py [--quick]

Each invalid value comes first, last and between good values. It is passed to `observe`, and returned or raised in
`tune`, with and without warnings as errors. Then the journal is read again.
"""

import math
import warnings
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from harness import Report, arguments, scratch

from baco_like import FailureWarning, Infeasible, MaxEvals, Measuring, Optimizer, Space, tune

SPACE = Space({"a": list(range(40))})

POISONS: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "None": None,
    "a text": "1.5",
    "bytes": b"1.5",
    "10**400": 10**400,
    "-10**400": -(10**400),
    "True": True,
    "complex": 1j,
    "numpy nan": np.float64("nan"),
    "numpy float32 inf": np.float32("inf"),
    "NaT": np.datetime64("NaT", "s"),
    "an object": object(),
    "repeats with nan": [1.0, math.nan],
    "no repeats": [],
    "an array with inf": np.array([1.0, np.inf]),
    "a matrix": np.ones((2, 2)),
    "metrics with nan": {"value": math.nan, "energy": 2.0},
    "ValueError": ValueError("boom"),
    "Infeasible": Infeasible("no", "compile"),
    "MemoryError": MemoryError(),
}

GOOD: dict[str, Any] = {
    "int": 3,
    "float": 2.5,
    "numpy float64": np.float64(2.25),
    "numpy float32": np.float32(2.5),
    "numpy int64": np.int64(4),
    "numpy array of no dimension": np.array(2.75),
    "Decimal": Decimal("2.5"),
    "Fraction": Fraction(5, 2),
    "2**53+1": 2**53 + 1,
    "repeats": [2.0, 3.0, 4.0],
    "metrics": {"value": 2.5, "energy": math.nan},
}


def observe(opt: Optimizer, value: Any, strict: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error" if strict else "ignore")
        try:
            opt.observe(opt.suggest(), value)
        except FailureWarning:
            assert strict


def right(opt: Optimizer, wanted: list[bool]) -> bool:
    """Return whether exactly the good values count, and the best is the lowest of them."""
    values = [t.value for t in opt.trials]
    finite = [v for v in values if v is not None]
    best = min(finite) if finite else None
    return (
        [v is not None for v in values] == wanted
        and all(math.isfinite(v) for v in finite)
        and opt.best_value == best
        and all(t.failure for t in opt.trials if t.value is None)
    )


def told(report: Report, path: Path, name: str, poison: Any, place: int, strict: bool) -> None:
    path.unlink(missing_ok=True)
    opt = Optimizer(SPACE, strategy="random_search", storage=path)
    series: list[Any] = [5.0, 4.0]
    series.insert(place, poison)
    for value in series:
        observe(opt, value, strict)
    wanted = [i != place for i in range(3)]
    report.check(right(opt, wanted), f"{name} in place {place}: {opt.trials}")
    report.check(right(Optimizer.load(path), wanted), f"{name}, read again")
    opt.suggest()


def returned(report: Report, name: str, poison: Any, place: int) -> None:
    calls = []

    def fn(trial: Any) -> Any:
        calls.append(trial.id)
        if len(calls) - 1 != place:
            return 5.0
        if isinstance(poison, BaseException):
            raise poison
        return poison

    kinds = (ValueError, MemoryError)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tune(
            fn,
            SPACE,
            stop=MaxEvals(3),
            strategy="random_search",
            measuring=Measuring(failures=kinds),
            progress=False,
        )
    wanted = [i != place for i in range(3)]
    report.check(right(found.optimizer, wanted), f"tune with {name} in place {place}")


def main() -> None:
    args, report = arguments(__doc__), Report()
    places = (0,) if args.quick else range(3)
    with scratch() as folder:
        path = folder / "run.jsonl"
        for (name, poison), place in product(POISONS.items(), places):
            told(report, path, name, poison, place, strict=False)
            told(report, path, name, poison, place, strict=True)
            returned(report, name, poison, place)
        for name, value in GOOD.items():
            path.unlink(missing_ok=True)
            opt = Optimizer(SPACE, strategy="random_search", storage=path)
            observe(opt, value, strict=True)
            report.check(right(opt, [True]) and right(Optimizer.load(path), [True]), name)
    report.figure(
        f"{len(POISONS)} poisons in {len(places)} places, by observe (warnings as errors or not) and in tune"
    )
    report.figure(f"{len(GOOD)} kinds of good values")
    report.end()


if __name__ == "__main__":
    main()
