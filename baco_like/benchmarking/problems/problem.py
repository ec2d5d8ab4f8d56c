"""A function to optimize, with its space, and the result of an evaluation."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from typing_extensions import override

from baco_like._typing import Rng
from baco_like.exceptions import StrategyError
from baco_like.records import Direction, Outcome, outcome_from, outcome_of_exception
from baco_like.spaces.space import Space

Function = Callable[[Mapping[str, Any]], Any]
"""Returns the value of a configuration; None, NaN or an exception is a failure."""


OUTSIDE = -1
"""The row of a configuration that a recorded table does not have, or that has no table."""


class Evaluated(NamedTuple):
    """The result of one evaluation of a problem.

    Attributes:
        outcome: Value or failure.
        row: Row of the recorded table, or `OUTSIDE`.
        seconds: Time on the simulated clock; 0 without a recording.
    """

    outcome: Outcome
    row: int = OUTSIDE
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class FunctionProblem:
    """A function with the space of its configurations.

    With several processes, a study sends the problem to them. A problem of this package and one that is the attribute
    of a module (``origin``) is loaded there; otherwise the function must be one of a module, so that it can be pickled.

    Attributes:
        name: Label in tables.
        space: The space, without real problems' noise.
        function: Returns the value of a configuration. None, NaN or an exception is a failure.
        direction: Direction of the values.
        optimum: The best value, or a function that returns it, for the regret; None if it is unknown.
        origin: Where other processes load it: the name of a problem of this package, or ``module:attribute``.
    """

    name: str
    space: Space
    function: Function
    direction: Direction = "minimize"
    optimum: float | Callable[[], float] | None = None
    origin: str | None = field(default=None, repr=False)

    def __call__(self, config: Mapping[str, Any]) -> Any:
        """Return the value of a configuration."""
        return self.function(config)

    @cached_property
    def best_value(self) -> float | None:
        """The best value, or None if it is unknown; a function finds it at the first use."""
        return float(self.optimum()) if callable(self.optimum) else self.optimum

    @cached_property
    def digest(self) -> str:
        """Digest of the space: what is known of a function; runs on another space are not comparable."""
        text = json.dumps(self.space.to_dict(), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def evaluate(self, trial_id: int, config: Mapping[str, Any], _rng: Rng | None) -> Evaluated:
        """Return the outcome of a configuration."""
        try:
            outcome = outcome_from(trial_id, self(dict(config)))
        except Exception as error:  # as in `tune`, an exception is a failure of the configuration
            outcome = outcome_of_exception(trial_id, error)
        # Without the warning that a NaN gives: here it is how problems fail.
        if outcome.value is None:
            outcome = Outcome.failure(trial_id, outcome.failed or "runtime", outcome.message)
        return Evaluated(outcome)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is not None:
            return load_problem, (self.origin,)
        optimum = None if callable(self.optimum) else self.optimum
        return FunctionProblem, (self.name, self.space, self.function, self.direction, optimum)


def problem(
    space: Space | Mapping[str, Any],
    *,
    name: str | None = None,
    direction: Direction = "minimize",
    optimum: float | Callable[[], float] | None = None,
) -> Callable[[Function], FunctionProblem]:
    """Return a decorator that makes a problem of a function of a configuration.

    The problem replaces the function in its module and can be called like it.

    Args:
        space: The space, or a mapping of parameters.
        name: Label in tables; by default the name of the function.
        direction: Direction of the values.
        optimum: The best value, or a function that returns it; None if it is unknown.
    """
    made = space if isinstance(space, Space) else Space(space)

    def decorate(function: Function) -> FunctionProblem:
        label = getattr(function, "__name__", "function")
        origin = f"{function.__module__}:{label}"
        return FunctionProblem(name or label, made, function, direction, optimum, origin)

    return decorate


def load_problem(name: str) -> FunctionProblem:
    """Return a problem by the name of one of this package (see `PROBLEMS`), or by ``module:attribute``.

    The attribute is a `FunctionProblem`, such as the decorator `problem` makes, or a function with an attribute
    ``space``. The current folder is searched, too.

    Raises:
        StrategyError: The problem does not exist; the message lists the names tried.
    """
    from baco_like.benchmarking.problems import PROBLEMS, unknown_problem

    if name in PROBLEMS:
        return PROBLEMS[name]()
    module_name, separator, attribute = name.partition(":")
    if not separator or not module_name or not attribute:
        raise StrategyError(unknown_problem(name))
    try:
        module = _import(module_name)
    except ImportError as error:
        raise StrategyError(f"problem {name!r}: cannot import {module_name!r}: {error}") from error
    if not hasattr(module, attribute):
        raise StrategyError(f"problem {name!r}: the module {module_name!r} has no {attribute!r}")
    return problem_of(getattr(module, attribute), attribute, name)


def problem_of(found: Any, name: str, origin: str | None = None) -> FunctionProblem:
    """Return a `FunctionProblem` unchanged, and make one of a function with an attribute ``space``.

    Args:
        found: The problem or the function.
        name: Name of the problem of a function.
        origin: ``module:attribute`` by which other processes load it, or None.

    Raises:
        StrategyError: It is neither.
    """
    if isinstance(found, FunctionProblem):
        return found
    space = getattr(found, "space", None)
    if callable(found) and isinstance(space, Space):
        direction: Direction = getattr(found, "direction", "minimize")
        return FunctionProblem(
            name, space, found, direction, getattr(found, "optimum", None), origin
        )
    raise StrategyError(
        f"problem {origin or name!r}: {name!r} must be a FunctionProblem, or a function with a Space as its attribute "
        f"`space`; got {found!r:.80}"
    )


def _import(name: str) -> Any:
    """Import a module; the current folder is searched after the others."""
    folder = os.getcwd()
    added = folder not in sys.path and "" not in sys.path
    if added:
        sys.path.append(folder)
    try:
        return importlib.import_module(name)
    finally:
        if added:
            sys.path.remove(folder)
