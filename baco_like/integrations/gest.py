"""gest-api: this package's optimizer as a generator for libEnsemble, Xopt and optimas, and VOCS variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._optional import needs_extra
from baco_like.constraints.language.writer import write_name
from baco_like.exceptions import ConfigError, SpaceError, SpaceExhausted
from baco_like.integrations._shared import order_texts, read_permutations, write_permutations
from baco_like.optimizer import Optimizer, Search
from baco_like.parameters import (
    Categorical,
    Integer,
    Ordinal,
    Parameter,
    Permutation,
    Real,
    SteppedReal,
)
from baco_like.parameters.values import is_number, plain
from baco_like.records import Aim, Outcome
from baco_like.records.objective import Direction
from baco_like.records.objective_values import finite_number, outcome_from
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("gest_api", "gest"):
    from gest_api import Generator
    from gest_api.vocs import (
        VOCS,
        BaseVariable,
        BoundsConstraint,
        ContextualVariable,
        ContinuousVariable,
        DiscreteVariable,
        GreaterThanConstraint,
        LessThanConstraint,
        MaximizeObjective,
        MinimizeObjective,
    )

__all__ = ["BacoGenerator", "vocs_variables"]

_MAX_LISTED = 1000
"""Integers with more values than this are declared as an interval instead of a set."""


class BacoGenerator(Generator):  # type: ignore[misc]  # gest-api has no types
    """Suggests new, feasible points of a space, and learns from failures.

    A point failed if an objective is not a finite number, or an output violates a constraint of the VOCS; these are
    limits of the optimizer. An observable ``failed`` may hold the failure word (an empty text means success). Suggested
    points have an ``_id`` and may be ingested in any order; other points may be ingested without one.

    Args:
        vocs: Variables, one or several objectives to minimise or maximise, constraints and observables.
        space: The same variables with what a VOCS cannot express: integers, order, permutations (texts such as
            ``"i,j,k"``), constraints between variables. None converts the variables; numbers become ordinals.
        seed: Seed of the suggestions.
        strategy: A registered name, a strategy object, or a `Search` with settings.
        budget: Number of evaluations, if known; strategies adapt their settings to it.
        batch: Number of points that `suggest` returns by default.
        warm_start: Results of earlier runs, as for `Optimizer`.

    Attributes:
        optimizer: Its trials and its model (``predict``, ``recommend``).

    Raises:
        ConfigError: No result of a warm start belongs to the space.
        ValueError: The VOCS has no objective, or another kind of objective, or has a contextual variable; the space has
            other variables or values; the strategy or a setting does not exist.
    """

    returns_id = True

    def __init__(
        self,
        vocs: VOCS,
        space: Space | None = None,
        *,
        seed: int = 0,
        strategy: str | Strategy[Any] | Search = "auto",
        budget: int | None = None,
        batch: int = 1,
        warm_start: Any = None,
    ) -> None:
        super().__init__(vocs)
        self._vocs, self._batch = vocs, whole_number("batch", batch, 1)
        directions: dict[str, Direction] = {
            name: "maximize" if isinstance(goal, MaximizeObjective) else "minimize"
            for name, goal in vocs.objectives.items()
        }
        self._objectives = tuple(directions)
        self._objective = self._objectives[0]
        self._space = space_from_vocs(vocs) if space is None else space
        check_variables(vocs, self._space)
        self.optimizer = Optimizer(
            self._space,
            Aim(directions, [_limit(name, each) for name, each in vocs.constraints.items()]),
            seed,
            budget=budget,
            strategy=strategy,
            warm_start=warm_start,
        )
        self._answered: set[int] = set()  # suggestions that a point without their _id has answered

    @override
    def _validate_vocs(self, vocs: VOCS) -> None:
        goals = list(vocs.objectives.values())
        kinds = (MinimizeObjective, MaximizeObjective)
        if not goals or not all(isinstance(goal, kinds) for goal in goals):
            raise ValueError(
                f"objectives {dict(vocs.objectives)!r:.100}: BacoGenerator needs one or more, each to minimise or to "
                "maximise"
            )
        for name, variable in vocs.variables.items():
            if isinstance(variable, ContextualVariable):
                raise ValueError(
                    f"variable {name!r} is contextual; BacoGenerator chooses all variables"
                )

    @override
    def suggest(self, num_points: int | None = None) -> list[dict[str, Any]]:
        """Return points with the constants and an ``_id``, in plain Python values.

        Points have all variables of the VOCS. An inactive parameter has any value there; `ingest` drops it.

        Raises:
            ValueError: Fewer points are left; then no point counts as suggested.
        """
        number = self._batch if num_points is None else whole_number("num_points", num_points, 0)
        try:
            trials = self.optimizer.suggest(number) if number else []
        except SpaceExhausted as error:
            raise ValueError(f"num_points = {number}: {error}") from error
        if len(trials) < number:
            for trial in trials:
                self.optimizer.abandon(trial, f"{number} points were requested")
            raise ValueError(f"num_points = {number}: only {len(trials)} configurations are left")
        constants = {name: constant.value for name, constant in self._vocs.constants.items()}
        configs = [self._space.activity.complete(trial.config) for trial in trials]
        return [
            {**write_permutations(config, self._space), **constants, "_id": trial.id}
            for trial, config in zip(trials, configs, strict=True)
        ]

    @override
    def ingest(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Observe evaluated points: all of them or, on an error, none.

        Raises:
            ValueError: An ``_id`` was not suggested, or with other values, or appears twice; an output or a variable is
                missing.
        """
        suggested = [r for r in results if self._is_suggested(r)]
        others = [r for r in results if not self._is_suggested(r)]
        # All results are checked before the first is observed.
        for result in suggested:
            self._check_values(result)
        answers = [self._read_outcome(r, int(r["_id"])) for r in suggested]
        outcomes = [self._read_outcome(r, i) for i, r in enumerate(others)]
        configs = [self._read_config(r) for r in others]
        self.optimizer.complete(answers)
        for config, outcome in zip(configs, outcomes, strict=True):
            metrics = {self._objective: outcome.value, **outcome.metrics}
            pending = set(self.optimizer.history.pending)
            self.optimizer.observe(
                config,
                None if outcome.failed else metrics,
                failed=outcome.failed,
                message=outcome.message,
                imported=True,
            )
            self._answered |= pending - set(self.optimizer.history.pending)

    def _is_suggested(self, result: Mapping[str, Any]) -> bool:
        """Return whether a point answers a suggestion that no point without ``_id`` has answered before.

        In a table, a point without ``_id`` has NaN there.
        """
        number = finite_number(result.get("_id"))
        return number is not None and int(number) not in self._answered

    def _check_values(self, result: Mapping[str, Any]) -> None:
        """Check that a point has the values of the suggestion with its ``_id``; it may come from another generator."""
        suggested = self.optimizer.history.get_pending(int(result["_id"])).config
        values = {name: plain(value) for name, value in result.items() if name in suggested}
        given = {**suggested, **read_permutations(values, self._space)}
        with suppress(ConfigError):
            # Arrays may have rounded a real to single precision.
            first, second = self._space.encode([suggested, given])
            if np.allclose(first, second, rtol=1e-6):
                return
        raise ValueError(
            f"_id = {result['_id']}: the point is {values!r:.200}, and the suggestion was {dict(suggested)!r:.200}; "
            "leave the _id of another generator out"
        )

    @override
    def finalize(self) -> None:
        """Do nothing: every ingested point is observed already."""

    def _read_config(self, result: Mapping[str, Any]) -> dict[str, Any]:
        _check_present(result, self._space.names)  # inactive parameters have any value
        values = {name: plain(value) for name, value in result.items()}
        return read_permutations(values, self._space)

    def _read_outcome(self, result: Mapping[str, Any], trial_id: int) -> Outcome:
        constraints = self._vocs.constraints
        _check_present(result, [*self._objectives, *constraints])
        word = plain(result.get("failed")) if "failed" in self._vocs.observables else None
        if isinstance(word, str) and word:
            return outcome_from(trial_id, failed=word)
        names = (*self._objectives, *constraints, *self._vocs.observables)
        metrics = {name: finite_number(result.get(name)) for name in names}
        # A constraint may have a boolean value. Any other value that is not a number violates it.
        limited = {name: plain(result[name]) for name in constraints}
        limited = {n: float(v) if isinstance(v, bool) else v for n, v in limited.items()}
        for name in self._objectives:
            if metrics[name] is None:
                message = f"{name} = {result[name]}"
                return outcome_from(trial_id, failed="runtime", message=message)
        known = {name: number for name, number in metrics.items() if number is not None}
        return outcome_from(trial_id, {**limited, **known}, self._objective)


def _limit(name: str, constraint: Any) -> str:
    """Return a constraint of a VOCS as a limit.

    Raises:
        ValueError: It is of another kind.
    """
    metric = write_name(name)
    if isinstance(constraint, BoundsConstraint):
        low, high = constraint.range
        return f"{low!r} <= {metric} <= {high!r}"
    if isinstance(constraint, GreaterThanConstraint):
        return f"{metric} > {constraint.value!r}"
    if isinstance(constraint, LessThanConstraint):
        return f"{metric} < {constraint.value!r}"
    raise ValueError(f"constraint {name!r}: {constraint!r:.80} is neither bounds nor an inequality")


def _check_present(result: Mapping[str, Any], names: Iterable[str]) -> None:
    missing = [name for name in names if name not in result]
    if missing:
        raise ValueError(f"the result lacks {', '.join(missing)}: {dict(result)!r:.200}")


# Variables ------------------------------------------------------------------------------------------------------------


def vocs_variables(space: Space) -> dict[str, list[float] | set[Any]]:
    """Return a space's parameters as the variables of a VOCS: intervals, and sets of values.

    Raises:
        SpaceError: A permutation has more than seven elements, or two orders of it have the same text.
    """
    return {name: _variable(name, p) for name, p in space.parameters.items()}


def space_from_vocs(vocs: VOCS) -> Space:
    """Return the space of the variables; a set of texts is sorted, since sets have no order."""
    parameters: dict[str, Parameter] = {}
    for name, variable in vocs.variables.items():
        default = variable.default_value
        if isinstance(variable, ContinuousVariable):
            low, high = variable.domain
            parameters[name] = Real(low, high, default=default)
            continue
        values = [plain(value) for value in variable.values]
        if all(map(is_number, values)):
            parameters[name] = Ordinal(values, default=default)
        else:
            parameters[name] = Categorical(set(values))
    return Space(parameters)


def check_variables(vocs: VOCS, space: Space) -> None:
    """Check that the VOCS allows every configuration of the space.

    Raises:
        ValueError: The VOCS lacks a variable or a value.
    """
    if set(vocs.variables) != set(space.names):
        raise ValueError(
            f"the variables of the VOCS are {', '.join(vocs.variables)}, but the space has {', '.join(space.names)}; "
            "vocs_variables(space) returns matching variables"
        )
    for name, parameter in space.parameters.items():
        if not _contains(vocs.variables[name], _variable(name, parameter)):
            raise ValueError(
                f"variable {name!r} of the VOCS does not have all values of {parameter!r:.100}; "
                "vocs_variables(space) returns matching variables"
            )


def _variable(name: str, parameter: Parameter) -> list[float] | set[Any]:
    if isinstance(parameter, Permutation):
        return set(order_texts(name, parameter, "gest-api"))
    if isinstance(parameter, Integer) and parameter.cardinality <= _MAX_LISTED:
        return set(range(parameter.low, parameter.high + 1))
    if isinstance(parameter, Real | Integer):
        low, high = parameter.low, parameter.high
        return {low} if low == high else [low, high]
    if isinstance(parameter, Ordinal | Categorical | SteppedReal) and parameter.values is not None:
        return set(parameter.values)
    raise SpaceError(
        f"parameter {name!r}: a VOCS has no {type(parameter).__name__}; use Optimizer directly"
    )


def _contains(declared: BaseVariable, needed: list[float] | set[Any]) -> bool:
    """Return whether a variable of the VOCS has all of an interval, or all values of a set."""
    if isinstance(declared, DiscreteVariable):
        return isinstance(needed, set) and needed <= set(declared.values)
    low, high = declared.domain
    return all(map(is_number, needed)) and low <= min(needed) and max(needed) <= high
