"""The recommendation of a run with tasks, and the rule that picks one of few configurations for an untuned task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np

from baco_like._typing import Array
from baco_like.exceptions import ConfigError, TrialError
from baco_like.parameters.values import is_number, plain
from baco_like.records.covering import Cover
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import Descriptor, Tasks

_LARGEST = math.log(100.0)
"""Largest logarithm of a slowdown that the tree sees; it replaces that of a configuration that cannot run."""

_LEAST_TASKS = 3
"""Smallest number of tasks for which a tree is tried and the regret is estimated."""


@dataclass(frozen=True)
class Leaf:
    """The end of a decision tree.

    Attributes:
        order: Indices of the configurations, best first.
    """

    order: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """A question about one descriptor.

    Attributes:
        descriptor: Its name.
        value: A number, with which the descriptor is compared by ``<=``; or a string or boolean, compared by ``==``.
        yes: What follows if the comparison is true.
        no: What follows otherwise.
    """

    descriptor: str
    value: Any
    yes: Rule
    no: Rule

    @property
    def is_equality(self) -> bool:
        """Whether the comparison is ``==``."""
        return not is_number(self.value)


@dataclass(frozen=True)
class Nearest:
    """Takes the order of the tuned task with the nearest descriptor: see `Tasks.features` for the distance.

    Attributes:
        tasks: The tuned tasks.
        orders: For each task the indices of the configurations, best first.
    """

    tasks: Tasks = field(hash=False)
    orders: tuple[tuple[int, ...], ...]


Rule: TypeAlias = Leaf | Split | Nearest


@dataclass(frozen=True)
class TaskSelector:
    """Picks one of a few configurations for a task, which need not be one of those that were tuned.

    It never picks a configuration that violates a constraint of the task. For a task that was not tuned, these are the
    constraints of the space, computed with its descriptor, and the constraints of the nearest tuned task.

    Attributes:
        space: The space with the tuned tasks.
        configs: The configurations, without descriptors.
        rule: For tasks that were not tuned: a leaf, a decision tree of `Split` and `Leaf`, or `Nearest`.
        orders: For each tuned task the indices of the configurations, best first.
        regret: Geometric mean of the slowdowns, each of a tuned task whose configuration is picked by a rule that was
            made without this task, relative to the best of ``configs`` there. None with fewer than three tasks.
    """

    space: Space = field(repr=False)
    configs: tuple[Mapping[str, Any], ...]
    rule: Rule
    orders: tuple[tuple[int, ...], ...]
    regret: float | None = None

    @property
    def tasks(self) -> Tasks:
        """The tuned tasks."""
        assert self.space.tasks is not None
        return self.space.tasks

    @property
    def kind(self) -> Literal["constant", "tree", "nearest"]:
        """Kind of the rule."""
        if isinstance(self.rule, Leaf):
            return "constant"
        return "tree" if isinstance(self.rule, Split) else "nearest"

    def select(self, task: Descriptor | str) -> dict[str, Any] | None:
        """Return the configuration for a task, given by its descriptor or by the name of a tuned one.

        Returns:
            None if each of the configurations violates a constraint of the task.

        Raises:
            ConfigError: The descriptor lacks a value, or has another type of value than the tuned tasks.
        """
        chosen = self.select_index(task)
        return None if chosen is None else dict(self.configs[chosen])

    def select_index(self, task: Descriptor | str) -> int | None:
        """Return the index of the configuration of `select`."""
        descriptor = self._descriptor(task)
        tuned = zip(self.tasks.descriptors, self.orders, strict=True)
        own = next((order for known, order in tuned if dict(known) == descriptor), None)
        for i in own or order_of(self.rule, descriptor):
            if self.allows(self.configs[i], descriptor):
                return i
        return None

    def allows(self, config: Mapping[str, Any], task: Descriptor | str) -> bool:
        """Whether a configuration satisfies the constraints of a task.

        Raises:
            ConfigError: As for `select`.
        """
        descriptor = self._descriptor(task)
        tasks, known = self.tasks, [dict(d) for d in self.tasks.descriptors]
        if descriptor in known:
            return self.space.contains({**config, **descriptor})
        nearest = nearest_tasks(tasks, descriptor)[0]
        if not self.space.contains({**config, **tasks.descriptors[nearest]}):
            return False
        activity = self.space.activity
        complete = activity.complete(config)
        columns = {
            name: parameter.column(parameter.encode([complete[name]]))
            for name, parameter in self.space.parameters.items()
            if name in complete
        }
        columns |= {name: np.array([value]) for name, value in descriptor.items()}
        active = activity.conditions.activity(columns)
        if any(mask.all() and config.get(name) is None for name, mask in active.items()):
            return False  # a condition reads the descriptor, and the task needs a value
        guarded = (activity.conditions.guard(c, c) for c in self.space.given_constraints)
        return all(bool(c.holds(columns).all()) for c in guarded)

    def _descriptor(self, task: Descriptor | str) -> dict[str, Any]:
        tasks = self.tasks
        if isinstance(task, str):
            return dict(tasks.descriptors[tasks.index(task)])
        descriptor = {name: plain(value) for name, value in task.items()}
        if set(descriptor) != set(tasks.descriptor_names):
            raise ConfigError(
                f"the task {descriptor!r:.80} needs values of {', '.join(tasks.descriptor_names)}"
            )
        for name, value in descriptor.items():
            example = tasks.descriptors[0][name]
            if _type_of(value) is not _type_of(example):
                raise ConfigError(
                    f"the descriptor {name!r} = {value!r:.60} has another type than {example!r:.60} of the tuned tasks"
                )
        return descriptor


def order_of(rule: Rule, descriptor: Descriptor) -> tuple[int, ...]:
    """Return the order of the configurations for a task, best first."""
    while isinstance(rule, Split):
        value = descriptor[rule.descriptor]
        is_yes = value == rule.value if rule.is_equality else value <= rule.value
        rule = rule.yes if is_yes else rule.no
    if isinstance(rule, Leaf):
        return rule.order
    return rule.orders[nearest_tasks(rule.tasks, descriptor)[0]]


def nearest_tasks(tasks: Tasks, descriptor: Descriptor) -> list[int]:
    """Return the indices of the tasks, nearest first."""
    known, _ = tasks.features()
    own, _ = tasks.features([descriptor])
    squared = ((known - own) ** 2).sum(axis=1)
    return [int(i) for i in np.argsort(squared, kind="stable")]


def fit_selector(space: Space, configs: Sequence[Mapping[str, Any]], logs: Array) -> TaskSelector:
    """Return the selector for some configurations.

    A tuned task gets its best configuration. For other tasks, a decision tree, the nearest task, and the same
    configuration for all are compared by their regret on left-out tasks; of equal ones the
    shortest rule wins. The tree predicts
    the logarithms of the slowdowns of all configurations at once (a regression tree with several outputs, of
    scikit-learn), so a split pays by the slowdowns that it avoids.

    Args:
        space: The space with the tasks.
        configs: k configurations without descriptors.
        logs: Logarithms of their slowdowns on each task, infinite where one cannot run, ``(k, t)``.
    """
    assert space.tasks is not None
    tasks, kept = space.tasks, tuple(map(dict, configs))
    costs = np.minimum(np.nan_to_num(logs, nan=_LARGEST, posinf=_LARGEST), _LARGEST).T
    orders = tuple(map(_order, costs))
    everything = list(range(len(tasks)))
    if len(kept) == 1:
        regret = 1.0 if len(tasks) >= _LEAST_TASKS else None
        return TaskSelector(space, kept, Leaf((0,)), orders, regret)
    if len(tasks) < _LEAST_TASKS:
        return TaskSelector(space, kept, _fit_nearest(tasks, everything, costs), orders)
    makers = {"constant": _fit_constant, "tree": _fit_tree, "nearest": _fit_nearest}
    regrets = {}
    for name, make in makers.items():
        losses = []
        for left_out in everything:
            rest = [i for i in everything if i != left_out]
            rule = make(tasks, rest, costs[rest])
            chosen = order_of(rule, tasks.descriptors[left_out])[0]
            losses.append(costs[left_out, chosen] - costs[left_out].min())
        regrets[name] = math.exp(float(np.mean(losses)))
    best = min(regrets, key=lambda name: regrets[name])
    rule = _simplify(makers[best](tasks, everything, costs))
    return TaskSelector(space, kept, rule, orders, regrets[best])


def _fit_constant(tasks: Tasks, rows: Sequence[int], costs: Array) -> Rule:
    """Return the rule that takes the configuration with the lowest mean for every task."""
    return Leaf(_order(costs.mean(axis=0)))


def _fit_nearest(tasks: Tasks, rows: Sequence[int], costs: Array) -> Rule:
    """Return the rule of the nearest task; ``costs`` are those of the tasks in ``rows``."""
    known = Tasks({tasks.names[i]: tasks.descriptors[i] for i in rows})
    return Nearest(known, tuple(_order(row) for row in costs))


def _order(costs: Array) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(costs, kind="stable"))


def _fit_tree(tasks: Tasks, rows: Sequence[int], costs: Array) -> Rule:
    """Return a decision tree; ``costs`` are those of the tasks in ``rows``, (t, k)."""
    from sklearn import config_context
    from sklearn.tree import DecisionTreeRegressor

    columns: list[tuple[str, Any]] = []
    features: list[Array] = []
    for name in tasks.descriptor_names:
        values = [tasks.descriptors[i][name] for i in rows]
        if all(map(is_number, values)):
            columns.append((name, None))
            features.append(np.array(values, dtype=float))
            continue
        for value in dict.fromkeys(values):
            columns.append((name, value))
            features.append(np.array([v == value for v in values], dtype=float))
    # Ranks instead of numbers: scikit-learn rounds to single precision.
    grids = [np.unique(feature) for feature in features]
    ranks = np.column_stack([np.searchsorted(g, f) for g, f in zip(grids, features, strict=True)])
    with config_context(assume_finite=True):
        tree = DecisionTreeRegressor(random_state=0).fit(ranks, costs).tree_

    def build(node: int) -> Rule:
        """Return the rule of a node of scikit-learn's tree and all below it."""
        left = int(tree.children_left[node])
        if left < 0:
            return Leaf(_order(np.asarray(tree.value[node]).reshape(-1)))
        column = int(tree.feature[node])
        name, value = columns[column]
        low, high = build(left), build(int(tree.children_right[node]))
        if value is not None:  # a column of an indicator: above 0.5 means equal
            return Split(name, value, high, low)
        grid, at = grids[column], int(tree.threshold[node])
        return Split(name, _between(float(grid[at]), float(grid[at + 1])), low, high)

    return _simplify(build(0))


def _between(low: float, high: float) -> int | float:
    """Return a threshold between two values: their geometric mean if both are positive; whole if both are."""
    middle = math.sqrt(low) * math.sqrt(high) if low > 0 else 0.5 * (low + high)
    if low.is_integer() and high.is_integer():
        return max(int(low), min(math.floor(middle), int(high) - 1))
    return middle if low <= middle < high else low


def _simplify(rule: Rule) -> Rule:
    """Return the rule without questions whose answers lead to the same first configuration."""
    if not isinstance(rule, Split):
        return rule
    yes, no = _simplify(rule.yes), _simplify(rule.no)
    if yes == no:
        return yes
    if not rule.is_equality:
        # n <= 90: A, else n <= 362: A, else B
        if _asks_about(no, rule.descriptor) and no.yes == yes and no.value >= rule.value:
            return no
        if _asks_about(yes, rule.descriptor) and yes.no == no and yes.value <= rule.value:
            return yes
    return replace(rule, yes=yes, no=no)


def _asks_about(rule: Rule, descriptor: str) -> TypeGuard[Split]:
    """Whether a rule compares this descriptor with a number."""
    return isinstance(rule, Split) and rule.descriptor == descriptor and not rule.is_equality


def _type_of(value: Any) -> type:
    return float if is_number(value) else type(value)


@dataclass(frozen=True)
class TaskChoice:
    """The configuration that is recommended for a task.

    Attributes:
        name: Name of the task.
        task: Its descriptor.
        config: The configuration, without the descriptor.
        value: Its value on this task, in the user's unit; the median of a prediction if it was not measured there.
        is_measured: Whether it was measured on this task.
        slowdown: The cost of the configuration over the best cost known for this task; at least 1 if measured.
    """

    name: str
    task: Descriptor
    config: Mapping[str, Any]
    value: float
    is_measured: bool
    slowdown: float


@dataclass(frozen=True)
class TaskRecommendation:
    """The recommendation of a run with tasks.

    Attributes:
        goal: The goal of the run.
        choices: One for each task, in the order of the tasks. A task has none if none of the recommended configurations
            was measured or can be predicted there, because of its constraints, for example.
        configs: The different configurations of `choices`, without descriptors.
        slowdown: The slowdowns of `choices`, combined as the goal says; infinite if a task with a success has none.
        selector: Picks one of `configs` for any task.
    """

    goal: Cover
    choices: tuple[TaskChoice, ...]
    configs: tuple[Mapping[str, Any], ...]
    slowdown: float
    selector: TaskSelector = field(repr=False)

    def __getitem__(self, task: Descriptor | str) -> TaskChoice:
        """Return the choice for a task, given by its name or its descriptor.

        Raises:
            TrialError: No choice exists for this task.
        """
        for choice in self.choices:
            if task == choice.name or (
                isinstance(task, Mapping) and dict(task) == dict(choice.task)
            ):
                return choice
        known = ", ".join(choice.name for choice in self.choices)
        raise TrialError(
            f"no configuration is recommended for the task {task!r:.80}, only for {known}"
        )
