"""Our optimizer as a gest-api generator, which libEnsemble, Xopt and optimas run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from baco_like.exceptions import MissingExtra, SpaceError, SpaceExhausted
from baco_like.integrations.permutation_text import order_texts, with_texts, without_texts
from baco_like.journal.header import whole
from baco_like.optimizer import Optimizer
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.parameters.values import is_number, plain
from baco_like.records.reading import finite_number, outcome_from
from baco_like.records.trial import Outcome
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

try:
    from gest_api import Generator
    from gest_api.vocs import (
        VOCS,
        BaseVariable,
        ContextualVariable,
        ContinuousVariable,
        DiscreteVariable,
        MaximizeObjective,
        MinimizeObjective,
    )
except ImportError:
    raise MissingExtra("gest_api", "gest") from None

__all__ = ["BacoGenerator", "variables"]

_MOST_LISTED = 1000
"""Whole numbers that are declared one by one; more are an interval."""


class BacoGenerator(Generator):  # type: ignore[misc]  # gest-api has no types
    """Suggests points of a space, each of them new and feasible, and learns from failures.

    A point cannot run if its objective is no finite number, or an output violates a constraint of the VOCS. An
    observable ``failed`` may bring the failure word (an empty text where there is none). Points have an ``_id``, and
    may be ingested in any order; those that were not suggested have none.

    Args:
        vocs: Variables, one objective to minimise or maximise, and what else is reported.
        space: The same variables with what a VOCS cannot say: whole numbers, order, permutations (texts such as
            ``"i,j,k"``), constraints between them. None: it is made of the variables, numbers in order.
        seed: Of the suggestions.
        strategy: A registered name, or a strategy object.
        settings: The named strategy's own settings.
        budget: Evaluations in all, if known: strategies choose their settings by it.
        batch: How many points `suggest` returns if it is not told.

    Attributes:
        optimizer: Its trials, and the model (``predict``, ``recommend``).

    Raises:
        ValueError: The VOCS has not one such objective, or a contextual variable; the space has other variables or
            values; there is no such strategy or setting.
    """

    returns_id = True

    def __init__(
        self,
        vocs: VOCS,
        space: Space | None = None,
        *,
        seed: int = 0,
        strategy: str | Strategy[Any] = "auto",
        settings: Mapping[str, Any] | None = None,
        budget: int | None = None,
        batch: int = 1,
    ) -> None:
        super().__init__(vocs)
        self._vocs, self._batch = vocs, whole("batch", batch, 1)
        ((self._objective, goal),) = vocs.objectives.items()
        self._space = _space_of(vocs) if space is None else space
        _check_variables(vocs, self._space)
        self.optimizer = Optimizer(
            self._space,
            "maximize" if isinstance(goal, MaximizeObjective) else "minimize",
            seed,
            objective=self._objective,
            budget=budget,
            strategy=strategy,
            settings=settings,
        )
        self._met: set[int] = set()  # suggestions that a point without their _id has answered

    @override
    def _validate_vocs(self, vocs: VOCS) -> None:
        goals = list(vocs.objectives.values())
        if len(goals) != 1 or not isinstance(goals[0], (MinimizeObjective, MaximizeObjective)):
            raise ValueError(
                f"objectives {dict(vocs.objectives)!r:.100}: BacoGenerator needs one, to minimise or to maximise"
            )
        for name, variable in vocs.variables.items():
            if isinstance(variable, ContextualVariable):
                raise ValueError(
                    f"variable {name!r} is contextual; BacoGenerator chooses all variables"
                )

    @override
    def suggest(self, num_points: int | None = None) -> list[dict[str, Any]]:
        """Return points with the constants and an ``_id``; plain Python values.

        Raises:
            ValueError: Fewer than that are left; none of them counts as suggested then.
        """
        wanted = self._batch if num_points is None else whole("num_points", num_points, 0)
        trials = []
        try:
            trials = self.optimizer.suggest(wanted) if wanted else []
        except SpaceExhausted as error:
            raise ValueError(f"num_points = {wanted}: {error}") from error
        if len(trials) < wanted:
            for trial in trials:
                self.optimizer.abandon(trial, f"{wanted} points were asked for")
            raise ValueError(f"num_points = {wanted}: only {len(trials)} configurations are left")
        constants = {name: constant.value for name, constant in self._vocs.constants.items()}
        return [
            {**with_texts(trial.config, self._space), **constants, "_id": trial.id}
            for trial in trials
        ]

    @override
    def ingest(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Observe evaluated points; either all of them or, with an error, none.

        Raises:
            ValueError: An ``_id`` was not suggested, or stands there twice; an output or a variable is missing.
        """
        asked = [self._outcome(one, int(one["_id"])) for one in results if self._is_asked(one)]
        told = [one for one in results if not self._is_asked(one)]
        outcomes = [self._outcome(one, i) for i, one in enumerate(told)]
        configs = [self._config(one) for one in told]
        self.optimizer.complete(asked)
        for config, outcome in zip(configs, outcomes, strict=True):
            metrics = {self._objective: outcome.value, **outcome.metrics}
            before = set(self.optimizer.history.pending)
            self.optimizer.observe(
                config,
                None if outcome.failed else metrics,
                failed=outcome.failed,
                message=outcome.message,
                imported=True,
            )
            self._met |= before - set(self.optimizer.history.pending)

    def _is_asked(self, result: Mapping[str, Any]) -> bool:
        """Whether a point answers a suggestion; where one without ``_id`` did so before, it is a second measurement."""
        return "_id" in result and int(result["_id"]) not in self._met

    @override
    def finalize(self) -> None:
        """Do nothing: what was ingested is known."""

    def _config(self, result: Mapping[str, Any]) -> dict[str, Any]:
        config = without_texts({name: plain(value) for name, value in result.items()}, self._space)
        if len(config) < len(self._space.names):
            missing = [name for name in self._space.names if name not in config]
            raise ValueError(f"the result lacks {', '.join(missing)}: {dict(result)!r:.200}")
        return config

    def _outcome(self, result: Mapping[str, Any], trial_id: int) -> Outcome:
        needed = [self._objective, *self._vocs.constraints]
        for name in needed:
            if name not in result:
                raise ValueError(f"the result lacks {name!r}: {dict(result)!r:.200}")
        metrics = {
            name: result[name]
            for name in (*needed, *self._vocs.observables)
            if finite_number(result.get(name)) is not None
        }
        word, message = self._failure(result)
        if word is None:
            return outcome_from(trial_id, metrics, self._objective)
        return outcome_from(trial_id, failed=word, message=message)

    def _failure(self, result: Mapping[str, Any]) -> tuple[str | None, str]:
        """Return the failure word, or None, and what happened."""
        said = plain(result.get("failed")) if "failed" in self._vocs.observables else None
        if isinstance(said, str) and said:
            return said, ""
        for name, constraint in self._vocs.constraints.items():
            if not constraint.check(result[name]):
                return "constraints", f"{name} = {result[name]} violates {constraint!r}"
        if finite_number(result[self._objective]) is None:
            return "runtime", f"{self._objective} = {result[self._objective]}"
        return None, ""


def variables(space: Space) -> dict[str, list[float] | set[Any]]:
    """Return a space's parameters as the variables of a VOCS: intervals, and sets of values.

    Raises:
        SpaceError: A permutation has more than seven elements, or two orders of it would be one text.
    """
    return {name: _variable(name, one) for name, one in space.parameters.items()}


def _variable(name: str, one: Parameter) -> list[float] | set[Any]:
    if isinstance(one, Permutation):
        return set(order_texts(name, one, "gest-api"))
    if isinstance(one, Integer) and one.cardinality <= _MOST_LISTED:
        return set(range(one.low, one.high + 1))
    if isinstance(one, Real | Integer):
        return {one.low} if one.low == one.high else [one.low, one.high]
    if isinstance(one, Ordinal | Categorical):
        return set(one.values)
    raise SpaceError(f"parameter {name!r}: a {type(one).__name__} is no variable of a VOCS")


def _space_of(vocs: VOCS) -> Space:
    """Return the space that the variables say; a set of texts is sorted, since sets have no order."""
    found: dict[str, Parameter] = {}
    for name, variable in vocs.variables.items():
        if isinstance(variable, ContinuousVariable):
            low, high = variable.domain
            found[name] = Real(low, high, default=variable.default_value)
            continue
        values = [plain(value) for value in variable.values]
        if all(map(is_number, values)):
            found[name] = Ordinal(values, default=variable.default_value)
        else:
            found[name] = Categorical(set(values))
    return Space(found)


def _check_variables(vocs: VOCS, space: Space) -> None:
    """Refuse a space that may suggest what the VOCS does not allow."""
    if set(vocs.variables) != set(space.names):
        raise ValueError(
            f"the variables of the VOCS are {', '.join(vocs.variables)}, the space has {', '.join(space.names)}"
        )
    for name, one in space.parameters.items():
        if not _has(vocs.variables[name], _variable(name, one)):
            raise ValueError(
                f"variable {name!r} of the VOCS does not have all values of {one!r:.100}; "
                "variables(space) returns such that do"
            )


def _has(declared: BaseVariable, ours: list[float] | set[Any]) -> bool:
    """Whether a variable of the VOCS has all of an interval, or of a set."""
    if isinstance(declared, DiscreteVariable):
        return isinstance(ours, set) and ours <= set(declared.values)
    low, high = declared.domain
    return all(map(is_number, ours)) and low <= min(ours) and max(ours) <= high
