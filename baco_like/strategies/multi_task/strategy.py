"""The strategy of runs with tasks: shared configurations first, then the expected gain for the goal of the run.

If one task is tuned and the results of the others were known before, no other task has to be predicted. Then an
ensemble of models (`Bayesian` with related tasks) suffers less from misleading results than the model of all tasks, and
is several times faster (benchmarks/quality/log/tasks.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.functions import draw_minimum, log_ei
from baco_like.exceptions import StrategyError, TrialError
from baco_like.records import History, Proposal, Status
from baco_like.spaces.space import Space
from baco_like.strategies.auto import FAILED_AS, Auto, model_of_auto
from baco_like.strategies.baselines import RandomSearch
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.bayesian.fitting import last_hyperparameters, weight_by_user_prior
from baco_like.strategies.designs import AdaptiveDesign, Phased
from baco_like.strategies.fidelity import history_of_part
from baco_like.strategies.multi_task.candidates import (
    COST_EXPONENT,
    DESIGN,
    MOST_SEARCHED,
    FittedTasks,
    SetCandidates,
    TaskScales,
    TaskTable,
    allowed_tasks,
    check_common,
    goal_of,
    is_excluded_on,
    is_shared,
    lagging_tasks,
    mean_ranks,
    problem_at_task,
    score_of,
    searched_tasks,
    size_of_set,
    task_costs,
    weight_by_running,
)
from baco_like.strategies.multi_task.scores import GoalScore
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
from baco_like.surrogates.gp.task_evidence import TaskData

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
        return MultiTaskState(self._design(problem).init(first, rng), int(rng.integers(2**31)))

    def ask(
        self, problem: Problem, history: History, state: MultiTaskState, n: int, rng: Rng
    ) -> Proposals:
        """Return n proposals, each as if the ones before it were pending."""
        if is_single_target(problem, history):
            assert isinstance(self.then, Auto)
            chosen = propose_for_target(self.then, problem, history, state.seed, n, rng)
            if chosen:
                return chosen
        proposals: list[Proposal] = []
        while len(proposals) < n:
            proposal = self._next(problem, history, state, rng)
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
        columns = problem.space.task_columns
        if not TaskTable.of(problem.space, history).known.any(axis=0).all():
            raise TrialError("predict needs a successful trial of every task; observe more first")
        fitted = self.fit(problem, history, state, rng)
        rows, tasks = columns.without_task(codes), columns.index_of(codes)
        centre, spread = fitted.model.predict(rows, tasks)
        mean, deviation, median = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows))
        for t, transform in enumerate(fitted.scales.transforms):
            own = tasks == t
            mean[own], variance = transform.moments(centre[own], spread[own])
            deviation[own], median[own] = np.sqrt(variance), transform.backward(centre[own])
        return Prediction(mean, deviation, fitted.feasibility.probability(codes), median)

    def fit(
        self, problem: Problem, history: History, state: MultiTaskState, rng: Rng
    ) -> FittedTasks:
        """Return the models; every task needs a success."""
        space, columns = problem.space, problem.space.task_columns
        table = TaskTable.of(space, history)
        scales = TaskScales.of(table)
        data = self._data(space, history, table, scales)
        features, owner = columns.tasks.features()
        # Own lengthscales of each task cost a single configuration, for which the tasks are predicted together.
        has_own = goal_of(problem).count != 1
        families = families_of(features, owner, MOST_COREGIONALISED, has_own)
        view = space.at_task(0).derived_features
        model = self.surrogate.fit(view, data, families, rng, last_hyperparameters(history))
        waiting = history.pending_codes
        if len(waiting):
            rows, tasks = columns.without_task(waiting), columns.index_of(waiting)
            model = model.condition(rows, tasks, model.predict(rows, tasks)[0])
        bayesian = self._bayesian(problem)
        feasibility = bayesian.fit_feasibility(space, history, state.seed)
        minimum = draw_minimum(rng, bayesian.largest_minimum)
        return FittedTasks(table, scales, model, feasibility, minimum)

    def _data(
        self, space: Space, history: History, table: TaskTable, scales: TaskScales
    ) -> TaskData:
        """Return the observations; failures count as high costs of their task, censored ones as their bounds."""
        failed_as = self._bayesian(None).failed_as
        ok, failed = history.where(Status.OK), history.where(Status.FAILED)
        censored = history.where(Status.CENSORED)
        codes, tasks = history.codes, space.task_columns.index_of(history.codes)
        costs = np.where(censored, history.bounds, history.costs)
        for t in range(len(scales.transforms)):
            known = table.costs[table.known[:, t], t]
            own = tasks == t
            if len(known) and failed_as is not None:
                costs[own & failed] = np.quantile(known, failed_as, method="higher")
            costs[own & censored] = np.minimum(costs[own & censored], known.max(initial=-np.inf))
        rows = np.flatnonzero((ok | failed | censored) & np.isfinite(costs))
        y = scales.forward(costs[rows], tasks[rows])
        variances = np.nan_to_num(history.variances[rows])
        variance = scales.forward_variance(costs[rows], variances, tasks[rows])
        return TaskData(space.task_columns.without_task(codes[rows]), tasks[rows], y, variance)

    # The next proposal --------------------------------------------------------------------------------------------

    def _next(
        self, problem: Problem, history: History, state: MultiTaskState, rng: Rng
    ) -> Proposal | None:
        """Return the next proposal; None if no configuration is left."""
        space = problem.space
        table = TaskTable.of(space, history)
        shared = self._next_shared(problem, history, table, state, rng)
        if shared is not None:
            return shared
        first = self._first_success(problem, history, table, state, rng)
        if first is not None:
            return first
        # The tasks without a success have no free configuration.
        if not table.known.any(axis=0).all():
            return None
        fitted = self.fit(problem, history, state, rng)
        goal, count = goal_of(problem), len(space.task_columns.tasks)
        size = size_of_set(goal, fitted)
        if size >= count:
            return self._propose_each(problem, history, fitted, allowed_tasks(problem), rng)
        lagging = lagging_tasks(problem, table) if size > 1 else []
        if lagging:
            proposal = self._propose_each(problem, history, fitted, lagging, rng)
            if proposal is not None:  # otherwise no configuration is left there
                return proposal
        score = score_of(goal, size, fitted, space, rng)
        return self._propose_set(problem, history, fitted, score, size, rng)

    def _next_shared(
        self,
        problem: Problem,
        history: History,
        table: TaskTable,
        state: MultiTaskState,
        rng: Rng,
    ) -> Proposal | None:
        """Return the next evaluation of the shared configurations; None when all are done.

        Those that ran (or are pending) on the first task are evaluated on the others; with more than `MOST_SEARCHED`
        tasks only the first one is evaluated on all.
        """
        columns, tasks = problem.space.task_columns, allowed_tasks(problem)
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
        first = history_of_part(
            problem.space.at_task(0),
            history,
            lambda rows: np.equal(columns.index_of(rows), 0),
            columns.without_task,
        )
        found = self._design(problem).ask(problem_at_task(problem, 0), first, state.design, 1, rng)
        if not found or found[0].tag.get("phase") != DESIGN:
            return None
        for task in tasks:
            row = columns.with_task(found[0].code[None], task)
            if problem.space.feasible.contains(row)[0] and not problem.is_excluded(history, row)[0]:
                return Proposal(row[0], found[0].tag)
        return None

    def _first_success(
        self,
        problem: Problem,
        history: History,
        table: TaskTable,
        state: MultiTaskState,
        rng: Rng,
    ) -> Proposal | None:
        """Return a proposal for a task without a success; None if every task has one, or has no configuration left.

        Configurations that are good on other tasks come first.
        """
        columns = problem.space.task_columns
        for task in allowed_tasks(problem):
            if table.known[:, task].any():
                continue
            with np.errstate(all="ignore"):
                order = np.argsort(mean_ranks(table.costs), kind="stable")
            for place in order:
                if table.missing[place, task] and table.known[place].any():
                    row = columns.with_task(table.rows[place][None], task)[0]
                    return Proposal(row, {"phase": "explore"})
            own = history_of_part(
                problem.space.at_task(task),
                history,
                lambda rows, task=task: np.equal(columns.index_of(rows), task),  # type: ignore[misc]
                columns.without_task,
            )
            at_task = problem_at_task(problem, task)
            found = self._bayesian(None).explore(at_task, own, state.seed, 1, rng)
            if found:
                row = columns.with_task(found[0].code[None], task)[0]
                return Proposal(row, found[0].tag)
        return None

    def _propose_each(
        self,
        problem: Problem,
        history: History,
        fitted: FittedTasks,
        tasks: Sequence[int],
        rng: Rng,
    ) -> Proposal | None:
        """Return the proposal with the largest expected gain of the best value of its task, one of some tasks."""
        columns, bayesian = problem.space.task_columns, self._bayesian(problem)
        done = fitted.table.known.sum(axis=0) + fitted.table.pending.sum(axis=0)
        least = min(done[t] for t in tasks) + LEAD
        tasks = [t for t in tasks if done[t] <= least]
        tasks = sorted(tasks, key=lambda t: int(done[t]))[:MOST_SEARCHED]
        costs = task_costs(history, columns.index_of(history.codes), len(columns.tasks))
        best: tuple[float, Proposal] | None = None
        for task in tasks:
            space, unit = problem.space.at_task(task), float(fitted.scales.units[task])
            incumbent = float(fitted.best[task])

            def score(rows: Codes, task: int = task, incumbent: float = incumbent) -> Array:
                return log_ei(*fitted.model.predict(rows, task), incumbent)

            weighted = weight_by_user_prior(score, space, len(history), bayesian.belief)
            weighted = weight_by_running(weighted, fitted, columns.with_task, [task])
            known = fitted.table.known[:, task]
            order = np.argsort(fitted.table.costs[known, task], kind="stable")[:5]
            start = fitted.table.rows[known][order]
            excluded = partial(is_excluded_on, problem, history, columns.with_task, [task])
            rows, scores = bayesian.search_of(space).maximise(
                weighted, space, 1, rng, start, excluded
            )
            if not len(rows):
                continue
            gain = float(scores[0]) + np.log(unit) - COST_EXPONENT * np.log(costs[task])
            if best is None or gain > best[0]:
                best = gain, self._proposal(rows, task, fitted, columns.with_task)
        return None if best is None else best[1]

    def _propose_set(
        self,
        problem: Problem,
        history: History,
        fitted: FittedTasks,
        goal: GoalScore,
        size: int,
        rng: Rng,
    ) -> Proposal | None:
        """Return the configuration with the largest expected gain of a set, on the task that tells most about it."""
        columns, bayesian, table = problem.space.task_columns, self._bayesian(problem), fitted.table
        tasks, count = allowed_tasks(problem), len(columns.tasks)
        room = None if problem.budget is None else problem.budget - len(history)
        candidates = SetCandidates(problem, table, goal, size, room)
        best: tuple[float, Codes] | None = None
        with np.errstate(invalid="ignore"):
            totals = np.where(table.known, fitted.logs, np.nan)
        order = np.argsort(mean_ranks(totals), kind="stable")[:5]
        for task in searched_tasks(problem.space, size, rng):
            space = problem.space.at_task(task)
            weighted = weight_by_user_prior(candidates.score, space, len(history), bayesian.belief)
            weighted = weight_by_running(
                weighted, fitted, columns.with_task, range(min(count, MOST_SEARCHED))
            )
            start = table.rows[order][table.feasible[order, task]]
            rows, scores = bayesian.search_of(space).maximise(
                weighted, space, 1, rng, start, candidates.is_excluded
            )
            if len(rows) and (best is None or float(scores[0]) > best[0]):
                best = float(scores[0]), rows
        if best is None:
            return None
        free = np.array([t for t in tasks if candidates.missing(best[1])[0, t]])
        costs = task_costs(history, columns.index_of(history.codes), count)
        value = goal.informative(best[1], free) / costs[free] ** COST_EXPONENT
        return self._proposal(best[1], int(free[np.argmax(value)]), fitted, columns.with_task)

    def _proposal(self, row: Codes, task: int, fitted: FittedTasks, with_task: Any) -> Proposal:
        """Return the proposal of one row on a task, with the predictions and the hyperparameters."""
        transform, code = fitted.scales.transforms[task], with_task(row, task)
        mean, variance = transform.moments(*fitted.model.predict(row, task))
        tag = {
            "phase": "model",
            "mean": float(mean[0]),
            "std": float(np.sqrt(variance[0])),
            "p_feasible": float(fitted.feasibility.probability(code)[0]),
            "hyperparameters": dict(fitted.model.hyperparameters),
        }
        return Proposal(code[0], tag)

    # Parts of the default strategy --------------------------------------------------------------------------------

    def _bayesian(self, problem: Problem | None) -> Bayesian:
        assert isinstance(self.then, Auto)
        bayesian = model_of_auto(self.then.surrogate, self.then.device)
        return bayesian if problem is None else bayesian.for_problem(problem)

    def _design(self, problem: Problem) -> Strategy[Any]:
        """Return the strategy whose proposals with the phase ``design`` are the shared configurations."""
        auto = self.then
        assert isinstance(auto, Auto)
        if auto.initial is not None:
            return Phased(RandomSearch(), auto.initial, auto.design)
        return AdaptiveDesign(RandomSearch())


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
        imputed = np.quantile(costs[rows][ok], FAILED_AS, method="higher")
        rows = rows[chosen_rows(np.where(ok, costs[rows], imputed), MOST_RELATED, rng)]
        related.append(RelatedTask(name, columns.without_task(codes[rows]), costs[rows]))
    return tuple(related)
