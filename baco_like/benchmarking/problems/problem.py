"""A function to optimize, with its space, and the result of an evaluation."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import json
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

from typing_extensions import override

from baco_like._typing import Rng
from baco_like.benchmarking.score import Baseline
from baco_like.evaluators.function.call import DEFAULT_FAILURES, FunctionCall
from baco_like.exceptions import StrategyError
from baco_like.records import Outcome, Trial
from baco_like.records.objective import Direction
from baco_like.spaces.space import Space

Function = Callable[[Mapping[str, Any]], Any]
"""Returns the value of a configuration; None, NaN and `Infeasible` are failures, as in `tune`."""


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
        function: Returns the value of a configuration. None, NaN and the exception `Infeasible` are failures; any other
            exception is an error of the program and ends the study, as it ends `tune`.
        direction: Direction of the values.
        optimum: The best value, or a function that returns it, for the regret; None if it is unknown.
        origin: Where other processes load it: the name of a problem of this package, or ``module:attribute``.
        distribution: The costs and failures of all configurations, or a function that returns them, for the score; None
            if they are unknown.
    """

    name: str
    space: Space
    function: Function
    direction: Direction = "minimize"
    optimum: float | Callable[[], float] | None = None
    origin: str | None = field(default=None, repr=False)
    distribution: Baseline | Callable[[], Baseline] | None = field(default=None, repr=False)

    def __call__(self, config: Mapping[str, Any]) -> Any:
        """Return the value of a configuration."""
        return self.function(config)

    @cached_property
    def best_value(self) -> float | None:
        """The best value, or None if it is unknown; a function finds it at the first use."""
        return float(self.optimum()) if callable(self.optimum) else self.optimum

    @cached_property
    def baseline(self) -> Baseline | None:
        """Random search on the space, for the score, or None."""
        return self.distribution() if callable(self.distribution) else self.distribution

    @cached_property
    def digest(self) -> str:
        """Digest of the space; runs on another space are not comparable."""
        return digest_of_space(self.space)

    def evaluate(self, trial_id: int, config: Mapping[str, Any], _rng: Rng | None) -> Evaluated:
        """Return the outcome of a configuration."""
        call = FunctionCall(lambda trial: self(dict(trial)), "value", DEFAULT_FAILURES, 1, 0)
        outcome = call(Trial(trial_id, config))
        # Without the warning that a NaN gives: here it is how problems fail.
        if outcome.value is None:
            word, extra = outcome.failed or "runtime", outcome.extra
            outcome = Outcome.failure(trial_id, word, outcome.message, extra=extra)
        return Evaluated(outcome)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is not None:
            return load_problem, (self.origin,)
        return FunctionProblem, (self.name, self.space, self.function, self.direction)


def problem(
    space: Space | Mapping[str, Any],
    *,
    name: str | None = None,
    direction: Direction = "minimize",
    optimum: float | Callable[[], float] | None = None,
    distribution: Baseline | Callable[[], Baseline] | None = None,
) -> Callable[[Function], FunctionProblem]:
    """Return a decorator that makes a problem of a function of a configuration.

    The problem replaces the function in its module and can be called like it.

    Args:
        space: The space, or a mapping of parameters.
        name: Label in tables; by default the name of the function.
        direction: Direction of the values.
        optimum: The best value, or a function that returns it; None if it is unknown.
        distribution: The costs of all configurations, or a function that returns them; None if they are unknown.
    """
    made = space if isinstance(space, Space) else Space(space)

    def decorate(function: Function) -> FunctionProblem:
        label = getattr(function, "__name__", "function")
        origin = f"{function.__module__}:{label}"
        return FunctionProblem(
            name or label, made, function, direction, optimum, origin, distribution
        )

    return decorate


def climb(
    cost: Callable[[Any], float], x: Any, places: Sequence[Any], change: Callable[[Any, Any], None]
) -> float:
    """Return the cost after changes until none lowers it; ``change(x, place)`` changes x, and a second time back."""
    best, again = cost(x), True
    while again:
        again = False
        for place in places:
            change(x, place)
            found = cost(x)
            if found < best - 1e-12:
                best, again = found, True
            else:
                change(x, place)
    return best


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
    if not all(name.partition(":")):
        raise StrategyError(unknown_problem(name))
    return problem_of(load_attribute("problem", name), name.partition(":")[2], name)


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


def load_attribute(noun: str, name: str) -> Any:
    """Return the attribute of a module by ``module:attribute``; the current folder is searched after the others.

    Raises:
        StrategyError: There is no such module or attribute; the message begins with the noun.
    """
    module_name, _, attribute = name.partition(":")
    folder = os.getcwd()
    added = folder not in sys.path and "" not in sys.path
    if added:
        sys.path.append(folder)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise StrategyError(f"{noun} {name!r}: cannot import {module_name!r}: {error}") from error
    finally:
        if added:
            sys.path.remove(folder)
    if not hasattr(module, attribute):
        raise StrategyError(f"{noun} {name!r}: the module {module_name!r} has no {attribute!r}")
    return getattr(module, attribute)


def digest_of_space(space: Space) -> str:
    """Return a digest of a space."""
    text = json.dumps(space.to_dict(), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digest_of_code(part: Any) -> str | None:
    """Return a digest of the source of a function or class, or of an object's class; None if there is no source.

    Comments, layout and decorators do not count. Neither do the functions that it calls, nor the values that it reads.
    """
    while isinstance(part, partial):
        part = part.func
    part = inspect.unwrap(part)
    try:
        source = inspect.getsource(
            part if inspect.isroutine(part) or inspect.isclass(part) else type(part)
        )
    except (OSError, TypeError):
        return None
    with suppress(SyntaxError):  # the text of a lambda within an expression counts unchanged
        tree = ast.parse(textwrap.dedent(source))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                node.decorator_list = []
        source = ast.unparse(tree)
    return hashlib.sha256(source.encode()).hexdigest()[:16]
