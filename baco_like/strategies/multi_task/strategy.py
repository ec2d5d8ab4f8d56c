"""The strategy of runs with tasks: shared configurations first, then the expected gain for the goal of the run.

If one task is tuned and the results of the others were known before, no other task has to be predicted. Then an
ensemble of models (`Bayesian` with related tasks) suffers less from misleading results than the model of all tasks, and
is several times faster (benchmarks/quality/log/tasks.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from baco_like._typing import Array, Codes, Mask, Rng
from baco_like.acquisitions.functions import draw_minimum, log_ei
from baco_like.acquisitions.protocol import IsExcluded, Score
from baco_like.exceptions import StrategyError, TrialError
from baco_like.records import History, Proposal, Status
from baco_like.spaces.tasks import TaskColumns
from baco_like.strategies.auto import FAILED_AS, Auto, model_of_auto
from baco_like.strategies.baselines import RandomSearch
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.fitting import last_hyperparameters, weight_by_user_prior
from baco_like.strategies.fidelity import history_of_part
from baco_like.strategies.initial_phase import AdaptiveDesign, Phased
from baco_like.strategies.multi_task.candidates import (
    DESIGN,
    MOST_SEARCHED,
    FittedTasks,
    SetCandidates,
    TaskScales,
    TaskTable,
    allowed_tasks,
    average_ranks,
    check_common,
    goal_of,
    is_shared,
    lagging_tasks,
    problem_at_task,
    score_of,
    searched_tasks,
    size_of_set,
    task_costs,
    weight_by_running,
)
from baco_like.strategies.multi_task.scores import GoalScore
from baco_like.strategies.observed_costs import failure_cost
from baco_like.strategies.per_second import COST_EXPONENT
from baco_like.strategies.protocol import (
    FEWEST_RELATED,
    MOST_RELATED,
    HistoryStrategy,
    Prediction,
    Problem,
    Proposals,
    RelatedTask,
    Strategy,
)
from baco_like.surrogates.gp.fit import chosen_rows
from baco_like.surrogates.gp.multi_task import MultiTaskGP, families_of
from baco_like.surrogates.gp.task_kernels import TaskData

LEAD = 3
"""Number of evaluations by which a task may be ahead of another, so that a task whose first results look hopeless is
searched too. Without it, one of three devices got 11 of 90 evaluations and stayed 44 % above its optimum."""

MOST_COREGIONALISED = 12
"""Largest number of tasks whose covariance is free; with more, it depends on the descriptors."""


class MultiTaskState(NamedTuple):
    """The state.

    Attributes:
        design: State of the strategy that designs the shared configurations.
        seed: Seed of the feasibility model.
    """

    design: Any
    seed: int


@final
@dataclass(frozen=True)
class MultiTask(HistoryStrategy):
    """Tunes several tasks with one Gaussian process over configurations and tasks.

    Every task begins with the same configurations, those of the default strategy's design. Then each proposal is the
    configuration with the largest expected gain for the goal, on the task that tells most about it. With the goal of
    several configurations, a task with fewer evaluations than the mean is searched alone.

    A process that is bound to one task, while the results of the others come from warm starts, uses the ensemble of
    `Bayesian` with related tasks instead.

    Attributes:
        then: The strategy whose settings are used: the default strategy.
        surrogate: The model of all tasks.

    Raises:
        StrategyError: ``then`` is another strategy, or its surrogate is not "gp".
    """

    uses_tasks: ClassVar[bool] = True

    then: Strategy[Any]
    surrogate: MultiTaskGP = field(default_factory=MultiTaskGP)

    def __post_init__(self) -> None:
        if not isinstance(self.then, Auto) or self.then.surrogate != "gp":
            raise StrategyError(
                f"strategy {type(self.then).__name__} cannot tune several tasks together; take strategy='auto' with "
                "its surrogate 'gp', or one run for each task"
            )

    def init(self, problem: Problem, rng: Rng) -> MultiTaskState:
        """Return the state of the design, and a seed.

        Raises:
            StrategyError: No configuration can reach the goal of one configuration for all tasks, or there are related
                tasks besides.
        """
        if problem.related:
            raise StrategyError(
                "WarmStart(..., mode='prior') goes with one task; in a run with tasks, make the related task one of "
                "them and give its results by WarmStart(..., mode='data', task=...)"
            )
        if goal_of(problem).count == 1:
            check_common(problem.space)
        first = problem_at_task(problem, 0)
        return MultiTaskState(self.design.init(first, rng), int(rng.integers(2**31)))

    def ask(
        self, problem: Problem, history: History, state: MultiTaskState, n: int, rng: Rng
    ) -> Proposals:
        """Return n proposals, each as if the ones before it were pending."""
        if is_single_target(problem, history):
            chosen = propose_for_target(self.auto, problem, history, state.seed, n, rng)
            if chosen:
                return chosen
        proposals: list[Proposal] = []
        while len(proposals) < n:
            proposal = _Turn(self, problem, history, state, rng).propose()
            if proposal is None:
                break
            proposals.append(proposal)
            history = history.assume_pending(proposal.code[None])
        return proposals

    def predict(
        self, problem: Problem, history: History, state: MultiTaskState, codes: Codes, rng: Rng
    ) -> Prediction:
        """Return the predictions for configurations on their tasks, ``(n, w)``.

        Raises:
            TrialError: A task has no success.
        """
        turn = _Turn(self, problem, history, state, rng)
        if not turn.table.known.any(axis=0).all():
            raise TrialError("predict needs a successful trial of every task; observe more first")
        fitted = turn.fit()
        rows, tasks = turn.columns.without_task(codes), turn.columns.index_of(codes)
        centre, spread = fitted.model.predict(rows, tasks)
        mean, deviation, median = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows))
        for t, transform in enumerate(fitted.scales.transforms):
            own = tasks == t
            mean[own], variance = transform.moments(centre[own], spread[own])
            deviation[own], median[own] = np.sqrt(variance), transform.backward(centre[own])
        return Prediction(mean, deviation, fitted.feasibility.probability(codes), median)

    @property
    def auto(self) -> Auto:
        """The default strategy, whose settings are used."""
        assert isinstance(self.then, Auto)
        return self.then

    @property
    def design(self) -> Strategy[Any]:
        """The strategy whose proposals with the phase ``design`` are the shared configurations."""
        if self.auto.initial is not None:
            return Phased(RandomSearch(), self.auto.initial, self.auto.design)
        return AdaptiveDesign(RandomSearch())


@dataclass(frozen=True, eq=False)
class _Turn:
    """The choice of one proposal.

    Attributes:
        strategy: The strategy.
        problem: The problem.
        history: The history, with the proposals before this one as pending trials.
        state: The state of the strategy.
        rng: Random generator.
    """

    strategy: MultiTask
    problem: Problem
    history: History
    state: MultiTaskState
    rng: Rng

    @property
    def columns(self) -> TaskColumns:
        """Where the codes hold the task."""
        return self.problem.space.task_columns

    @cached_property
    def table(self) -> TaskTable:
        """The results."""
        return TaskTable.of(self.problem.space, self.history)

    @cached_property
    def bayesian(self) -> Bayesian:
        """The Bayesian optimization of the default strategy, with the limits of the problem."""
        auto = self.strategy.auto
        return model_of_auto(auto.surrogate, auto.device).for_problem(self.problem)

    def propose(self) -> Proposal | None:
        """Return the proposal; None if no configuration is left."""
        first = self._next_shared() or self._first_success()
        if first is not None:
            return first
        # The tasks without a success have no free configuration.
        if not self.table.known.any(axis=0).all():
            return None
        fitted = self.fit()
        goal, size = goal_of(self.problem), size_of_set(goal_of(self.problem), fitted)
        if size >= len(self.columns.tasks):
            return self._propose_each(fitted, allowed_tasks(self.problem))
        lagging = lagging_tasks(self.problem, self.table) if size > 1 else []
        proposal = self._propose_each(fitted, lagging) if lagging else None
        if proposal is not None:  # otherwise no configuration is left there
            return proposal
        score = score_of(goal, size, fitted, self.problem.space, self.rng)
        return self._propose_set(fitted, score, size)

    def fit(self) -> FittedTasks:
        """Return the models; every task needs a success."""
        space, columns, history = self.problem.space, self.columns, self.history
        scales = TaskScales.of(self.table)
        features, owner = columns.tasks.features()
        # Own lengthscales of each task cost a single configuration, for which the tasks are predicted together.
        has_own = goal_of(self.problem).count != 1
        families = families_of(features, owner, MOST_COREGIONALISED, has_own)
        view, start = space.at_task(0).derived_features, last_hyperparameters(history)
        data = self._data(scales)
        model = self.strategy.surrogate.fit(view, data, families, self.rng, start)
        waiting = history.pending_codes
        if len(waiting):
            rows, tasks = columns.without_task(waiting), columns.index_of(waiting)
            model = model.condition(rows, tasks, model.predict(rows, tasks)[0])
        feasibility = self.bayesian.fit_feasibility(space, history, self.state.seed)
        minimum = draw_minimum(self.rng, self.bayesian.largest_minimum)
        return FittedTasks(self.table, scales, model, feasibility, minimum)

    def _data(self, scales: TaskScales) -> TaskData:
        """Return the observations; failures count as high costs of their task, censored ones as their bounds."""
        history, columns, failed_as = self.history, self.columns, self.bayesian.failed_as
        ok, failed = history.where(Status.OK), history.where(Status.FAILED)
        censored = history.where(Status.CENSORED)
        codes, tasks = history.codes, columns.index_of(history.codes)
        costs = np.where(censored, history.bounds, history.costs)
        for t in range(len(scales.transforms)):
            known = self.table.costs[self.table.known[:, t], t]
            own = tasks == t
            if len(known) and failed_as is not None:
                costs[own & failed] = failure_cost(known, failed_as)
            costs[own & censored] = np.minimum(costs[own & censored], known.max(initial=-np.inf))
        rows = np.flatnonzero((ok | failed | censored) & np.isfinite(costs))
        y = scales.forward(costs[rows], tasks[rows])
        variances = np.nan_to_num(history.variances[rows])
        variance = scales.forward_variance(costs[rows], variances, tasks[rows])
        return TaskData(columns.without_task(codes[rows]), tasks[rows], y, variance)

    def _history_of(self, task: int) -> History:
        """Return the trials of one task."""
        columns = self.columns
        return history_of_part(
            self.problem.space.at_task(task),
            self.history,
            lambda rows: np.equal(columns.index_of(rows), task),
            columns.without_task,
        )

    def _next_shared(self) -> Proposal | None:
        """Return the next evaluation of the shared configurations; None when all are done.

        Those that ran (or are pending) on the first task are evaluated on the others; with more than `MOST_SEARCHED`
        tasks only the first one is evaluated on all.
        """
        problem, history, columns, table = self.problem, self.history, self.columns, self.table
        tasks = allowed_tasks(problem)
        designed = [t for t in (*history.trials, *history.pending.values()) if is_shared(t)]
        codes = problem.space.encode([t.config for t in designed])
        places = dict.fromkeys(int(i) for i in table.find(columns.without_task(codes)) if i >= 0)
        for number, place in enumerate(places):
            if table.failed[place].any():
                continue
            wanted = [t for t in tasks if table.missing[place, t]]
            if number and len(columns.tasks) > MOST_SEARCHED:
                tried = int((table.known[place] | table.pending[place]).sum())
                wanted = wanted[: max(0, MOST_SEARCHED - tried)]
            if wanted:
                row = columns.with_task(table.rows[place][None], wanted[0])[0]
                return Proposal(row, {"phase": DESIGN, "note": "every task begins with it"})
        first, own, state = problem_at_task(problem, 0), self._history_of(0), self.state.design
        found = self.strategy.design.ask(first, own, state, 1, self.rng)
        if not found or found[0].tag.get("phase") != DESIGN:
            return None
        for task in tasks:
            row = columns.with_task(found[0].code[None], task)
            if problem.space.feasible.contains(row)[0] and not problem.is_excluded(history, row)[0]:
                return Proposal(row[0], found[0].tag)
        return None

    def _first_success(self) -> Proposal | None:
        """Return a proposal for a task without a success; None if every task has one, or has no configuration left.

        Configurations that are good on other tasks come first.
        """
        columns, table = self.columns, self.table
        for task in allowed_tasks(self.problem):
            if table.known[:, task].any():
                continue
            with np.errstate(all="ignore"):
                order = np.argsort(average_ranks(table.costs), kind="stable")
            for place in order:
                if table.missing[place, task] and table.known[place].any():
                    row = columns.with_task(table.rows[place][None], task)[0]
                    return Proposal(row, {"phase": "explore"})
            at_task, own = problem_at_task(self.problem, task), self._history_of(task)
            found = self.bayesian.explore(at_task, own, self.state.seed, 1, self.rng)
            if found:
                row = columns.with_task(found[0].code[None], task)[0]
                return Proposal(row, found[0].tag)
        return None

    def _maximise(
        self, score: Score, task: int, start: Codes, is_excluded: IsExcluded
    ) -> tuple[Codes, Array]:
        """Return the best row of `Space.at_task` by a score with the user's prior, and this score."""
        space = self.problem.space.at_task(task)
        search = self.bayesian.search_of(space)
        return search.maximise(score, space, 1, self.rng, start, is_excluded)

    def _weighted(
        self, score: Score, fitted: FittedTasks, task: int, tasks: Iterable[int]
    ) -> Score:
        """Return the score with the weights of the user's prior and of running on some tasks."""
        space = self.problem.space.at_task(task)
        score = weight_by_user_prior(score, space, len(self.history), self.bayesian.belief)
        return weight_by_running(score, fitted, self.columns.with_task, tasks)

    def _costs(self) -> Array:
        """Return the relative cost of an evaluation of each task, ``(t,)``."""
        tasks = self.columns.index_of(self.history.codes)
        return task_costs(self.history, tasks, len(self.columns.tasks))

    def _propose_each(self, fitted: FittedTasks, tasks: Sequence[int]) -> Proposal | None:
        """Return the proposal with the largest expected gain of the best value of its task, one of some tasks."""
        table, with_task = fitted.table, self.columns.with_task
        done = table.known.sum(axis=0) + table.pending.sum(axis=0)
        least = min(done[t] for t in tasks) + LEAD
        tasks = [t for t in tasks if done[t] <= least]
        tasks = sorted(tasks, key=lambda t: int(done[t]))[:MOST_SEARCHED]
        costs, best_values = self._costs(), fitted.best
        best: tuple[float, Proposal] | None = None
        for task in tasks:
            unit, incumbent = float(fitted.scales.units[task]), float(best_values[task])

            def score(rows: Codes, task: int = task, incumbent: float = incumbent) -> Array:
                return log_ei(*fitted.model.predict(rows, task), incumbent)

            known = table.known[:, task]
            order = np.argsort(table.costs[known, task], kind="stable")[:5]

            def excluded(rows: Codes, task: int = task) -> Mask:
                return self.problem.is_excluded(self.history, with_task(rows, task))

            weighted = self._weighted(score, fitted, task, [task])
            rows, scores = self._maximise(weighted, task, table.rows[known][order], excluded)
            if not len(rows):
                continue
            gain = float(scores[0]) + np.log(unit) - COST_EXPONENT * np.log(costs[task])
            if best is None or gain > best[0]:
                best = gain, self._proposal(rows, task, fitted)
        return None if best is None else best[1]

    def _propose_set(self, fitted: FittedTasks, goal: GoalScore, size: int) -> Proposal | None:
        """Return the configuration with the largest expected gain of a set, on the task that tells most about it."""
        problem, table, count = self.problem, fitted.table, len(self.columns.tasks)
        room = None if problem.budget is None else problem.budget - len(self.history)
        candidates = SetCandidates(problem, table, goal, size, room)
        best: tuple[float, Codes] | None = None
        with np.errstate(invalid="ignore"):
            totals = np.where(table.known, fitted.logs, np.nan)
        order = np.argsort(average_ranks(totals), kind="stable")[:5]
        for task in searched_tasks(problem.space, size, self.rng):
            runs_on = range(min(count, MOST_SEARCHED))
            weighted = self._weighted(candidates.score, fitted, task, runs_on)
            start = table.rows[order][table.feasible[order, task]]
            rows, scores = self._maximise(weighted, task, start, candidates.is_excluded)
            if len(rows) and (best is None or float(scores[0]) > best[0]):
                best = float(scores[0]), rows
        if best is None:
            return None
        tasks = allowed_tasks(problem)
        free = np.array([t for t in tasks if candidates.missing(best[1])[0, t]])
        value = goal.informative(best[1], free) / self._costs()[free] ** COST_EXPONENT
        return self._proposal(best[1], int(free[np.argmax(value)]), fitted)

    def _proposal(self, row: Codes, task: int, fitted: FittedTasks) -> Proposal:
        """Return the proposal of one row on a task, with the predictions and the hyperparameters."""
        transform, code = fitted.scales.transforms[task], self.columns.with_task(row, task)
        mean, variance = transform.moments(*fitted.model.predict(row, task))
        tag = {
            "phase": "model",
            "mean": float(mean[0]),
            "std": float(np.sqrt(variance[0])),
            "p_feasible": float(fitted.feasibility.probability(code)[0]),
            "hyperparameters": dict(fitted.model.hyperparameters),
        }
        return Proposal(code[0], tag)


def is_single_target(problem: Problem, history: History) -> bool:
    """Whether this process tunes one task, and all results of the others are those of warm starts."""
    if problem.task is None or not goal_of(problem).is_each:
        return False
    made = np.concatenate([history.codes[history.warm :], history.pending_codes])
    return bool((problem.space.task_columns.index_of(made) == problem.task).all())


def propose_for_target(
    then: Auto, problem: Problem, history: History, seed: int, n: int, rng: Rng
) -> Proposals:
    """Return n proposals for the only task of a process; none if no other task has results for a model.

    Args:
        then: The strategy whose settings are used.
        problem: The problem, with the task.
        history: The history, as `is_single_target` wants it.
        seed: Seed of the models of the other tasks.
        n: Number of proposals.
        rng: Random generator.
    """
    target = problem.task
    assert target is not None
    at_task, columns = problem_at_task(problem, target), problem.space.task_columns

    def make() -> tuple[Problem, Any] | None:
        fitted = np.random.default_rng(seed)
        related = _related_tasks(problem, history, target, fitted)
        informed = replace(at_task, related=related)
        return (informed, then.init(informed, fitted)) if related else None

    made = history.first(history.warm).derive(("single target", then), (target, seed), make)
    if made is None:
        return ()
    informed, state = made
    own = history_of_part(
        at_task.space,
        history,
        lambda rows: np.equal(columns.index_of(rows), target),
        columns.without_task,
    )
    proposals = then.ask(informed, own, state, n, rng)
    return [Proposal(columns.with_task(p.code[None], target)[0], p.tag) for p in proposals]


def _related_tasks(
    problem: Problem, history: History, target: int, rng: Rng
) -> tuple[RelatedTask, ...]:
    """Return the results of the other tasks, of each at most `MOST_RELATED`."""
    columns = problem.space.task_columns
    codes, costs = history.codes[: history.warm], history.costs[: history.warm]
    tasks, related = columns.index_of(codes), []
    for index, name in enumerate(columns.tasks.names):
        rows = np.flatnonzero((tasks == index) & history.inside[: history.warm])
        ok = np.isfinite(costs[rows])
        if index == target or len(np.unique(costs[rows][ok])) < FEWEST_RELATED:
            continue
        imputed = failure_cost(costs[rows][ok], FAILED_AS)
        rows = rows[chosen_rows(np.where(ok, costs[rows], imputed), MOST_RELATED, rng)]
        related.append(RelatedTask(name, columns.without_task(codes[rows]), costs[rows]))
    return tuple(related)
