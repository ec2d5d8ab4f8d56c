"""This package's optimizer as a gest-api generator, which libEnsemble, Xopt and optimas run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like.exceptions import MissingExtra, SpaceExhausted
from baco_like.integrations._shared.permutation_text import read_permutations, write_permutations
from baco_like.integrations.gest.variables import check_variables, space_from_vocs
from baco_like.optimizer import Optimizer
from baco_like.parameters.values import plain
from baco_like.records.reading import finite_number, outcome_from
from baco_like.records.trial import Outcome
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

try:
    from gest_api import Generator
    from gest_api.vocs import VOCS, ContextualVariable, MaximizeObjective, MinimizeObjective
except ImportError:
    raise MissingExtra("gest_api", "gest") from None

__all__ = ["BacoGenerator"]


class BacoGenerator(Generator):  # type: ignore[misc]  # gest-api has no types
    """Suggests new, feasible points of a space, and learns from failures.

    A point failed if its objective is not a finite number, or an output violates a constraint of the VOCS. An
    observable ``failed`` may hold the failure word (an empty text means success). Suggested points have an ``_id`` and
    may be ingested in any order; other points may be ingested without one.

    Args:
        vocs: Variables, one objective to minimise or maximise, constraints and observables.
        space: The same variables with what a VOCS cannot express: integers, order, permutations (texts such as
            ``"i,j,k"``), constraints between variables. None converts the variables; numbers become ordinals.
        seed: Seed of the suggestions.
        strategy: A registered name, or a strategy object.
        settings: Settings of the named strategy.
        budget: Number of evaluations, if known; strategies adapt their settings to it.
        batch: Number of points that `suggest` returns by default.

    Attributes:
        optimizer: Its trials and its model (``predict``, ``recommend``).

    Raises:
        ValueError: The VOCS does not have exactly one such objective, or has a contextual variable; the space has
            other variables or values; the strategy or a setting does not exist.
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
        self._vocs, self._batch = vocs, whole_number("batch", batch, 1)
        ((self._objective, direction),) = vocs.objectives.items()
        self._space = space_from_vocs(vocs) if space is None else space
        check_variables(vocs, self._space)
        self.optimizer = Optimizer(
            self._space,
            "maximize" if isinstance(direction, MaximizeObjective) else "minimize",
            seed,
            objective=self._objective,
            budget=budget,
            strategy=strategy,
            settings=settings,
        )
        self._answered: set[int] = set()  # suggestions that a point without their _id has answered

    @override
    def _validate_vocs(self, vocs: VOCS) -> None:
        objectives = list(vocs.objectives.values())
        if len(objectives) != 1 or not isinstance(
            objectives[0], (MinimizeObjective, MaximizeObjective)
        ):
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
        """Return points with the constants and an ``_id``, in plain Python values.

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
        return [
            {**write_permutations(trial.config, self._space), **constants, "_id": trial.id}
            for trial in trials
        ]

    @override
    def ingest(self, results: Sequence[Mapping[str, Any]]) -> None:
        """Observe evaluated points: all of them or, on an error, none.

        Raises:
            ValueError: An ``_id`` was not suggested or appears twice; an output or a variable is missing.
        """
        suggested = [r for r in results if self._is_suggested(r)]
        others = [r for r in results if not self._is_suggested(r)]
        # All results are checked before the first is observed.
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
        """Return whether a point answers a suggestion that no point without ``_id`` has answered before."""
        return "_id" in result and int(result["_id"]) not in self._answered

    @override
    def finalize(self) -> None:
        """Do nothing: every ingested point is observed already."""

    def _read_config(self, result: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: plain(value) for name, value in result.items()}
        config = read_permutations(values, self._space)
        self._check_present(result, [n for n in self._space.names if n not in config])
        return config

    def _check_present(self, result: Mapping[str, Any], missing: Sequence[str]) -> None:
        if missing:
            raise ValueError(f"the result lacks {', '.join(missing)}: {dict(result)!r:.200}")

    def _read_outcome(self, result: Mapping[str, Any], trial_id: int) -> Outcome:
        outputs = [self._objective, *self._vocs.constraints]
        self._check_present(result, [name for name in outputs if name not in result])
        failure, message = self._failure(result)
        if failure is not None:
            return outcome_from(trial_id, failed=failure, message=message)
        metrics = {
            name: result[name]
            for name in (*outputs, *self._vocs.observables)
            if finite_number(result.get(name)) is not None
        }
        return outcome_from(trial_id, metrics, self._objective)

    def _failure(self, result: Mapping[str, Any]) -> tuple[str | None, str]:
        """Return the failure word, or None for a success, and the message."""
        if "failed" in self._vocs.observables:
            failure = plain(result.get("failed"))
            if isinstance(failure, str) and failure:
                return failure, ""
        for name, constraint in self._vocs.constraints.items():
            if not constraint.check(result[name]):
                return "constraints", f"{name} = {result[name]} violates {constraint!r}"
        if finite_number(result[self._objective]) is None:
            return "runtime", f"{self._objective} = {result[self._objective]}"
        return None, ""
