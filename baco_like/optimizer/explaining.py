"""The methods of the optimizer that predict and explain; `baco_like.explanations` has the computations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from baco_like._threads import thread_limit
from baco_like._typing import Array
from baco_like.exceptions import TrialError
from baco_like.optimizer.objectives import history_of
from baco_like.optimizer.predictions import predict, recommend, why
from baco_like.optimizer.setup import Config
from baco_like.optimizer.state import OptimizerState
from baco_like.optimizer.task_recommendation import recommend_for_tasks
from baco_like.records import Goal, Trial, read_goal, sign_of

if TYPE_CHECKING:
    from baco_like.explanations.ablation import Ablation
    from baco_like.explanations.dependence import Dependence
    from baco_like.explanations.importance import Importance
    from baco_like.explanations.outlook import Outlook


class Explanations:
    """Predicts and explains a run; the same history and seed give the same answers."""

    _threads: int

    @property
    def state(self) -> OptimizerState:
        """Options, history and strategy state."""
        raise NotImplementedError

    def recommend(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        limits: Sequence[str] = (),
        goal: Goal | None = None,
    ) -> Any:
        """Return the observed trial with the lowest predicted median cost: the better choice under noise.

        Without a model, or with too few observations for one, repeated measurements decide (see
        `baco_like.optimizer.predictions.best_by_repeats`); without repeats, it is `best`.

        With several objectives it is the knee of the front, among the trials within the limits: the trial with the
        smallest weighted distance to the best value of each objective.

        With tasks it is a `baco_like.records.TaskRecommendation`: a configuration for each task, and the rule that
        picks one for a task that was not tuned; None before the first success.

        Args:
            weights: For several objectives: weights by name, 1 for those left out. ``{"time": 1, "size": 0}`` returns
                the fastest trial within the limits.
            limits: For several objectives: conditions that the trial must satisfy, such as ``["energy <= 3"]``.
            goal: With tasks: a goal that replaces the run's.

        Raises:
            ValueError: A weight or a limit is wrong, or there is one objective; or there is a goal without tasks.
            TrialError: No successful trial satisfies the limits, or a limit names a value that was not measured.
        """
        tasks = self.state.problem.space.tasks
        if goal is not None and tasks is None:
            raise ValueError(f"goal = {goal!r:.60}: this run has no tasks")
        with thread_limit(self._threads):
            if tasks is not None:
                own = None if goal is None else read_goal(goal)
                return recommend_for_tasks(self.state, own)
            return recommend(self.state, weights, limits)

    def predict(self, configs: Sequence[Config]) -> tuple[Array, Array, Array]:
        """Return mean and standard deviation (user's unit) and the probability that a configuration runs, each (n,).

        With m objectives, mean and standard deviation have the shape (n, m). The probability is 0 if a known
        constraint excludes the configuration.

        Raises:
            TrialError: The strategy has no model, or too few trials are observed.
            ConfigError: A value is not in its parameter's domain, or ``configs`` is a single configuration.
        """
        with thread_limit(self._threads):
            prediction = predict(self.state, configs)
        options = self.state.options
        signs = [sign_of(o.direction) for o in options.several_objectives]
        mean = prediction.mean * (signs or sign_of(options.direction))
        return mean, prediction.std, prediction.feasible

    def why(self, trial: Trial) -> dict[str, Any]:
        """Return the origin of a trial and the predictions of the model when it was suggested.

        Raises:
            TrialError: The argument is not a trial.
        """
        if not isinstance(trial, Trial):
            raise TrialError(f"why takes a trial, not {trial!r:.80}; trials are in `trials`")
        return why(trial)

    def importance(self, *, quantile: float = 0.5, objective: str | None = None) -> Importance:
        """Return which parameters matter, with 90 % intervals, for the value and for failures.

        The shares of variance are estimated by models of the history, over all feasible configurations. They respect
        known constraints. Permutations are also explained by the position of each element and the order of each pair.

        Args:
            quantile: Differences among configurations worse than this quantile do not count; 1: all count.
            objective: Name of one of several objectives; by default the first.

        Raises:
            TrialError: Fewer than five trials have succeeded.
            ValueError: ``quantile`` is not above 0 and at most 1, or the run has no such objective.
        """
        from baco_like.explanations.importance import compute_importance

        with thread_limit(self._threads):
            history = history_of(self.state.history, objective)
            return compute_importance(history, self.state.options.seed, quantile=quantile)

    def ablation(
        self, start: Mapping[str, Any] | None = None, end: Mapping[str, Any] | None = None
    ) -> Ablation:
        """Return the path from one configuration to another by single changes, and what each change brings.

        Args:
            start: First configuration; by default the default configuration of the space, or the first successful trial
                if a parameter has no default.
            end: Last configuration; by default the best observed one.

        Raises:
            ConfigError: A configuration does not belong to the space.
            TrialError: Fewer than five trials have succeeded.
        """
        from baco_like.explanations.ablation import find_ablation

        with thread_limit(self._threads):
            return find_ablation(self.state.history, self.state.options.seed, start=start, end=end)

    def partial_dependence(
        self, *, pairs: int = 2, objective: str | None = None
    ) -> tuple[Dependence, ...]:
        """Return how the value depends on every parameter, the most important first, and on the strongest pairs.

        Args:
            pairs: Number of pairs of parameters, those with the strongest interaction.
            objective: Name of one of several objectives; by default the first.

        Raises:
            TrialError: Fewer than five trials have succeeded.
            ValueError: The run has no such objective.
        """
        from baco_like.explanations.dependence import compute_dependence

        with thread_limit(self._threads):
            history = history_of(self.state.history, objective)
            return compute_dependence(history, self.state.options.seed, pairs=pairs)

    def outlook(self, evaluations: int = 20) -> Outlook:
        """Return the improvement that is left, and the part of it that the next evaluations are expected to find.

        Args:
            evaluations: Number of the next evaluations.

        Raises:
            TrialError: Fewer than five trials have succeeded.
            ValueError: ``evaluations`` is not positive.
        """
        from baco_like.explanations.outlook import estimate_outlook

        with thread_limit(self._threads):
            return estimate_outlook(
                self.state.history, self.state.options.seed, evaluations=evaluations
            )
