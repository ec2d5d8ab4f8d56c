"""Read contenders, and run them on problems, in any process."""

from __future__ import annotations

import json
from typing import Any

from baco_like.benchmarking.studies.optuna_samplers import PREFIX, create_sampler, run_sampler
from baco_like.benchmarking.studies.runs import Contender, Evaluation, RunJob, StrategyRun
from baco_like.exceptions import SpaceExhausted, StrategyError
from baco_like.optimizer import Optimizer, Search
from baco_like.strategies import create_strategy


def read_contender(given: str | Contender) -> Contender:
    """Return a contender, or the one of a text such as ``genetic_algorithm:population=20``.

    Raises:
        ValueError: A name or a setting is wrong.
        MissingExtra: Optuna is not installed.
    """
    contender = given if isinstance(given, Contender) else _parse_contender(given)
    if contender.strategy.startswith(PREFIX):
        create_sampler(contender.strategy, contender.settings, 0)
    else:
        create_strategy(contender.strategy, contender.settings)
    return contender


def _parse_contender(text: str) -> Contender:
    name, *assignments = text.split(":")
    if f"{name}:" == PREFIX and assignments:
        name += f":{assignments.pop(0)}"
    settings: dict[str, Any] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator:
            raise StrategyError(f"{assignment!r} in {text!r} needs the form name=value")
        try:
            settings[key] = json.loads(value)
        except ValueError:
            settings[key] = value  # a plain text
    return Contender(text, name, settings)


def do_run(job: RunJob) -> StrategyRun:
    """Run a contender until its budget is spent or the space is exhausted."""
    evaluation = Evaluation(job)
    if job.contender.strategy.startswith(PREFIX):
        run_sampler(job, evaluation)
    else:
        _run_strategy(job, evaluation)
    return evaluation.finish()


def _run_strategy(job: RunJob, evaluation: Evaluation) -> None:
    optimizer = Optimizer(
        job.problem.space,
        job.problem.direction,
        job.seed,
        budget=job.budget.evaluations,
        strategy=Search(
            job.contender.strategy, job.contender.settings, noise="repeat" if job.draw else "none"
        ),
    )
    while not evaluation.is_spent:
        try:
            trial = optimizer.suggest()
        except SpaceExhausted:
            break
        optimizer.complete([evaluation(trial.id, trial.config, trial.tag)])
