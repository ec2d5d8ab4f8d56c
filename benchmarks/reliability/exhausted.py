"""9. Request more than the space has, from results without information: every strategy ends cleanly.

    python benchmarks/reliability/exhausted.py [--quick]

For every registered strategy, N configurations with a budget of 3 N must end after exactly N distinct evaluations.
This must also hold with a constant objective, with one success only, and with failures only.
"""

import warnings
from collections.abc import Callable
from typing import Any

from harness import Report, arguments

from baco_like import (
    Categorical,
    MaxEvals,
    Optimizer,
    Ordinal,
    Permutation,
    Space,
    SpaceExhausted,
    tune,
)
from baco_like.strategies import STRATEGIES

SPACE = Space(
    {
        "a": Ordinal([1, 2, 4, 8], log=True),
        "c": Categorical(["x", "y"]),
        "p": Permutation(["i", "j", "k"]),
    },
    constraints=["a < 8 or c == 'x'", "pos(p, 'i') < 2"],
)

OBJECTIVES: dict[str, Callable[[Any], float | None]] = {
    "smooth": lambda t: t["a"] + (t["c"] == "x") / 3 + t["p"].index("k"),
    "constant": lambda t: 1.0,
    "one success": lambda t: 2.0 if t.id == 5 else None,
    "only failures": lambda t: None,
}


def exhausted(strategy: str, objective: Callable[[Any], float | None]) -> tuple[int, int, str]:
    """Return the number of evaluations, the number of distinct ones, and the reason why the run ended."""
    size = SPACE.feasible_size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = tune(objective, SPACE, stop=MaxEvals(3 * size), strategy=strategy, progress=False)
        try:
            found.optimizer.suggest()
        except SpaceExhausted:
            distinct = {repr(dict(t)) for t in found.trials}
            return len(found.trials), len(distinct), found.reason
    return len(found.trials), -1, "one more suggestion from an exhausted space"


def main() -> None:
    args, report = arguments(__doc__), Report()
    size = SPACE.feasible_size
    names = ["random_search", "genetic_algorithm"] if args.quick else list(STRATEGIES)
    for strategy in names:
        for name, objective in OBJECTIVES.items():
            try:
                found = exhausted(strategy, objective)
            except Exception as error:
                report.check(False, f"{strategy}, {name}: {error!r}")
                continue
            wanted = (size, size, "the space is exhausted")
            report.check(found == wanted, f"{strategy}, {name}: {found}")
    one = Optimizer(Space({"a": [3]}))
    one.observe(one.suggest(), 1.0)
    report.figure(f"{len(names)} strategies ({', '.join(names)})")
    report.figure(
        f"{size} configurations, budget {3 * size}: {size} distinct evaluations and a clean end"
    )
    report.figure(f"objectives: {', '.join(OBJECTIVES)}")
    report.end()


if __name__ == "__main__":
    main()
