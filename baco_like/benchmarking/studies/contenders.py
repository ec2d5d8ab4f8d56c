"""Read contenders, describe them, and run them on problems, in any process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any, Protocol

from baco_like.benchmarking.problems.problem import digest_of_code, load_attribute
from baco_like.benchmarking.problems.run_files import RunFileProblem
from baco_like.benchmarking.studies.optuna_samplers import PREFIX, OptunaSampler, create_sampler
from baco_like.benchmarking.studies.runs import Contender, Evaluation, Problem, RunJob, StrategyRun
from baco_like.exceptions import SpaceExhausted, StrategyError
from baco_like.optimizer import Optimizer, Search
from baco_like.optimizer.arguments import default_points
from baco_like.strategies import Strategy, create_strategy
from baco_like.strategies.registry import REGISTRY

PATIENCE = 50
"""Most questions to a foreign tool for each evaluation of the budget: some repeat a question without end."""


class AskTell(Protocol):
    """A foreign tool in a study, see `Contender`."""

    def ask(self) -> Mapping[str, Any]:
        """Return the next configuration."""

    def tell(self, config: Mapping[str, Any], value: float | None) -> None:
        """Receive the value of the configuration that was asked for last; None if it failed, or is infeasible."""


Maker = Callable[[Problem, int, int], AskTell]
"""Returns a foreign tool for a problem, a seed and a number of evaluations."""

GivenStrategy = str | Contender | Strategy[Any] | type | Maker
"""A strategy by name, an object or a class, or a function that makes a foreign tool."""


def read_contender(given: GivenStrategy, label: str | None = None) -> Contender:
    """Return a contender, or the one of a text such as ``genetic_algorithm:population=20``.

    Args:
        given: The contender.
        label: Its name in tables; None takes its own, or one made of its class and settings.

    Raises:
        StrategyError: It is neither a strategy nor a function, a name or a setting is wrong, or a module cannot be
            imported.
        MissingExtra: Optuna is not installed.
    """
    if isinstance(given, Contender):
        contender = given
    elif isinstance(given, str):
        contender = _parse_contender(given)
    else:
        contender = Contender(_label_of(given), given)
    try:
        resolve(contender)
    except (TypeError, ValueError) as error:
        raise StrategyError(str(error)) from error
    return contender if label is None else Contender(label, contender.strategy, contender.settings)


def _parse_contender(text: str) -> Contender:
    label, separator, rest = text.partition("=")
    if not separator or ":" in label:
        label, rest = text, text
    name, *assignments = rest.split(":")
    if assignments and "=" not in assignments[0] and name not in REGISTRY:
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
    return Contender(label, name, settings)


def _label_of(part: Any) -> str:
    """Return the name of a class or function, or an object's class with the settings that are not the defaults."""
    if not is_dataclass(part) or isinstance(part, type):
        return str(getattr(part, "__name__", type(part).__name__))
    texts = []
    for each in fields(part):
        value = getattr(part, each.name)
        default = each.default if each.default_factory is MISSING else each.default_factory()
        if repr(value) != repr(default):
            is_plain = value is None or isinstance(value, str | int | float)
            texts.append(f"{each.name}={value if is_plain else _label_of(value)}")
    return type(part).__name__ + (f"({', '.join(texts)})" if texts else "")


def resolve(contender: Contender) -> Strategy[Any] | Maker:
    """Return the strategy of a contender, or the function that makes a foreign tool.

    Raises:
        ValueError: A name or a setting is wrong.
        StrategyError: It is neither, or a module cannot be imported.
        MissingExtra: Optuna is not installed.
    """
    part, settings = contender.strategy, contender.settings
    if isinstance(part, str) and part.startswith(PREFIX):
        create_sampler(part, settings, 0)
        return partial(OptunaSampler, part, settings)
    if isinstance(part, str):
        if ":" not in part or part in REGISTRY:
            return create_strategy(part, settings)
        part = load_attribute("strategy", part)
    is_strategy = isinstance(part, Strategy)  # a class of strategies has the methods, too
    if is_strategy and isinstance(part, type):
        try:
            part, settings = part(**settings), {}
        except TypeError as error:
            raise StrategyError(f"strategy {contender.label!r}: {error}") from error
    if isinstance(part, Strategy) and not settings:
        return part
    if is_strategy or not callable(part):
        raise StrategyError(
            f"strategy {contender.label!r} is {part!r:.80}"
            + (f" with the settings {dict(settings)}; set them on the object" if settings else "")
            + "; give a name, a class or an object with init, ask and tell, or a function of a problem, a seed and a "
            "number of evaluations that returns an object with ask and tell"
        )
    return partial(part, **settings) if settings else part


def describe_part(part: Any, depth: int = 6) -> Any:
    """Return everything that is known of a strategy as JSON values: its class, fields, and a digest of its code.

    The code of this package is left out, since a study keeps its version.
    """
    if part is None or isinstance(part, str | int | float):
        return part
    if not depth:
        return type(part).__qualname__
    if isinstance(part, Mapping):
        return {str(key): describe_part(value, depth - 1) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [describe_part(value, depth - 1) for value in part]
    if isinstance(part, partial):
        return describe_part([part.func, part.args, part.keywords], depth - 1)
    is_named = hasattr(part, "__qualname__")
    own = {} if is_named else getattr(part, "__dict__", {"repr": repr(part)})
    name = part.__qualname__ if is_named else type(part).__qualname__
    is_own = str(getattr(part, "__module__", "")).startswith("baco_like.")
    code = None if is_own else digest_of_code(part)
    return {"class": name, **({"code": code} if code else {}), **describe_part(own, depth - 1)}


def do_run(job: RunJob) -> StrategyRun:
    """Run a contender until its budget is spent or the space is exhausted."""
    with closing(Evaluation(job)) as evaluation:
        part = resolve(job.contender)
        if isinstance(part, Strategy):
            _run_strategy(job, part, evaluation)
        else:
            _run_foreign(job, part(job.problem, job.seed, job.budget.evaluations), evaluation)
        return evaluation.finish()


def _run_strategy(job: RunJob, strategy: Strategy[Any], evaluation: Evaluation) -> None:
    problem = job.problem
    optimizer = Optimizer(
        problem.space,
        problem.file.aim if isinstance(problem, RunFileProblem) else problem.direction,
        job.seed,
        budget=job.budget.evaluations,
        strategy=Search(strategy, noise="repeat" if job.draw else "none"),
    )
    while not evaluation.is_spent:
        try:
            trial = optimizer.suggest()
        except SpaceExhausted:
            break
        optimizer.complete([evaluation(trial.id, trial.config, trial.tag)])


def _run_foreign(job: RunJob, tool: AskTell, evaluation: Evaluation) -> None:
    """Ask a foreign tool; an infeasible or repeated configuration is answered, but takes no evaluation.

    The default configuration is evaluated first, as by the strategies of this package.
    """
    space = job.problem.space
    known: dict[tuple[Any, ...], float | None] = {}

    def value_of(config: Mapping[str, Any]) -> float | None:
        (own,) = space.decode(space.encode([config]))
        key = tuple(own.items())
        if key not in known:
            known[key] = evaluation(len(known), own).value
        return known[key]

    for default in default_points(space):
        value_of(default)
    for _ in range(PATIENCE * job.budget.evaluations):
        if evaluation.is_spent:
            return
        config = tool.ask()
        tool.tell(config, value_of(config) if space.contains(config) else None)
