"""Errors and warnings of the package: their causes and their texts.

Run it with: python examples/errors.py [EVALUATIONS]
"""

import sys
import warnings

from baco_like import (
    BacoError,
    BacoWarning,
    ConfigError,
    EvaluatorError,
    ExpressionError,
    FailureWarning,
    Infeasible,
    JournalError,
    MaxEvals,
    MissingExtra,
    Optimizer,
    Ordinal,
    PluginError,
    RunFileError,
    Space,
    SpaceError,
    SpaceExhausted,
    SpaceWarning,
    StrategyError,
    TrialError,
    WarmStartWarning,
    tune,
)
from baco_like.evaluators import isolated_function
from baco_like.results import read

SPACE = {"tile": [8, 16, 32], "unroll": [1, 2]}
TWO = {"time": "minimize", "size": "minimize"}


class Careless:
    """A strategy that proposes something else than a configuration."""

    def init(self, problem, rng):
        return None

    def ask(self, problem, history, state, n, rng):
        return [3]

    def tell(self, problem, state, observation, rng):
        return state


def milliseconds(trial):
    if trial["tile"] == 32:
        raise Infeasible("out of registers", failed="compile")  # an outcome, no error of the run
    return 64 / trial["tile"] + trial["unroll"]


def main(evaluations):
    optimizer = Optimizer(SPACE)
    trial = optimizer.suggest()
    optimizer.observe(trial, 1.0)
    mistakes = {
        SpaceError: lambda: Space({"tile": []}),
        ExpressionError: lambda: Space(SPACE, ["tyle <= 16"]),
        ConfigError: lambda: optimizer.observe({"tile": 9, "unroll": 1}, 1.0),
        TrialError: lambda: optimizer.observe(trial, 2.0),
        StrategyError: lambda: Optimizer(SPACE, TWO, strategy="racing"),
        JournalError: lambda: Optimizer.load("no_such_run.jsonl"),
        RunFileError: lambda: read("no_such_results.csv"),
        EvaluatorError: lambda: isolated_function(milliseconds, timeout=1.0),
        PluginError: lambda: Optimizer(SPACE, strategy=Careless()).suggest(),
        SpaceExhausted: lambda: [optimizer.suggest() for _ in range(9)],
    }
    assert all(issubclass(kind, BacoError) for kind in mistakes)
    for kind, mistake in mistakes.items():
        try:
            mistake()
        except kind as error:
            print(f"{kind.__name__}: {error}\n")
    try:
        optimizer.to_dataframe()
    except MissingExtra as error:
        print(f"MissingExtra: {error}\n")

    causes = {
        SpaceWarning: lambda: Optimizer(Space({"tile": Ordinal([8, 16], default=8)}, ["tile > 8"])),
        FailureWarning: lambda: Optimizer(SPACE).observe({"tile": 8, "unroll": 1}, float("nan")),
        WarmStartWarning: lambda: Optimizer(
            SPACE, warm_start=[({"tile": 8, "unroll": 1}, 2.0), ({"tile": 7, "unroll": 1}, 1.0)]
        ),
    }
    for kind, cause in causes.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", BacoWarning)  # "ignore" silences them, "error" raises
            cause()
        print(f"{kind.__name__}: {next(w.message for w in caught if w.category is kind)}\n")

    result = tune(milliseconds, SPACE, stop=MaxEvals(evaluations), progress=False)
    print("best", result.best_config, "of", len(result.trials), "trials")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
