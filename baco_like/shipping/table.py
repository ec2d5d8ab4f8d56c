"""The table that is shipped: a configuration for each task, and the rule that chooses one for any task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from functools import cached_property
from typing import Annotated, Any

from msgspec import Meta

from baco_like.constraints import Expression
from baco_like.exceptions import RunFileError, TrialError
from baco_like.parameters.values import is_number
from baco_like.records.task_selector import Leaf, Rule, Split
from baco_like.shipping.conditions import (
    Condition,
    bind,
    bind_absence,
    read_conditions,
    with_descriptors,
)
from baco_like.shipping.selection import choose
from baco_like.shipping.stamp import Stamp
from baco_like.spaces import Space

Config = Mapping[str, Any]
Task = Mapping[str, Any]


class DescriptorKind(str, Enum):
    """How the values of a descriptor are compared."""

    SIZE = "size"
    """Positive numbers, by their ratio: the distance of 512 and 1024 is that of 1024 and 2048."""
    EXACT = "exact"
    """Numbers of which some are 0 or negative, and booleans; only equal values match."""
    TEXT = "text"
    """Texts; only equal values match."""


@dataclass(frozen=True)
class Evidence:
    """How sure it is that a configuration is good for its task.

    Attributes:
        value: Its measured value.
        measurements: Number of measurements that the value comes from; 0 if it is a prediction.
        default_value: Measured value of the default configuration, or None.
        speedup: How many times better than the default it is, or None.
        low: Lower end of the interval of the speed-up, or None without a confirmation.
        high: Upper end of the interval, or None.
        confidence: Joint probability of the intervals, or None.
        candidates: Number of configurations from which the same measurements chose it; 1 if they were made later.
        ratios: The speed-up in each round in which both were measured, in order.
        evaluations: Number of evaluations of the search.
    """

    value: float
    measurements: Annotated[int, Meta(ge=0)] = 1
    default_value: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    candidates: Annotated[int, Meta(ge=1)] = 1
    ratios: tuple[Annotated[float, Meta(gt=0.0)], ...] = ()
    evaluations: Annotated[int, Meta(ge=0)] = 0

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values, without those that are unknown."""
        values = {**asdict(self), "ratios": list(self.ratios)}
        return {name: value for name, value in values.items() if value not in (None, [])}

    def summary(self) -> dict[str, Any]:
        """Return the values for a stamp: all but the single ratios."""
        return {name: value for name, value in self.to_dict().items() if name != "ratios"}


@dataclass(frozen=True)
class ShippedEntry:
    """The configuration for one task.

    Attributes:
        task: The descriptor; empty for a run without tasks.
        config: The configuration, without the descriptor.
        evidence: How sure it is.
    """

    task: Task
    config: Config
    evidence: Evidence


@dataclass(frozen=True)
class ShippedTable:
    """The entries of a shipped file.

    `select` chooses as every format does that has code of its own: the entry with the nearest sizes among those whose
    other descriptors are equal. The distance of two sizes is the ratio of the larger to the smaller one, and the
    ratios of several sizes are multiplied. With a decision tree, the entry of exactly this task comes first, then those
    with the configuration that the tree prefers, and the distance decides among equals. Entries that violate a
    constraint for the task are left out, also those that violate a constraint of the nearest task alone, and those
    that lack a parameter that the task needs. If none is left, the default configuration is chosen.

    Attributes:
        entries: The entries, with different tasks and the same names of descriptors.
        default: The default configuration, or None.
        space: The space of the runs.
        stamp: Where the entries come from.
        extra_constraints: Known constraints about the tasks, besides those of the space.
        rule: A decision tree over the descriptors, whose leaves order the `groups`; one leaf, for all tasks; or None.
        groups: With a rule, the number of the configuration of each entry; several entries may have the same.

    Raises:
        RunFileError: There is no entry, two have the same task, descriptors differ in their names or types, an entry
            violates a constraint for its own task, or the rule does not fit the entries.
    """

    entries: tuple[ShippedEntry, ...]
    default: Config | None
    space: Space
    stamp: Stamp
    extra_constraints: tuple[str, ...] = field(default=())
    rule: Leaf | Split | None = None
    groups: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.entries:
            raise RunFileError("a shipped table needs at least one entry")
        tasks = [dict(entry.task) for entry in self.entries]
        if any(set(task) != set(tasks[0]) for task in tasks):
            raise RunFileError(
                f"the tasks have different descriptors: {', '.join(map(describe_task, tasks))}; give each task a value "
                "for every descriptor"
            )
        for i, task in enumerate(tasks):
            if task in tasks[:i]:
                raise RunFileError(
                    f"two entries have the task {describe_task(task)}; name the task of each journal by --task"
                )
        for entry in self.entries:
            for condition in self.conditions_of(entry.config):
                if not condition.holds(entry.task):
                    raise RunFileError(
                        f"the configuration for {describe_task(entry.task)} violates {condition.text!r}"
                    )
        if self.rule is not None:
            self._check_rule(self.rule)

    def _check_rule(self, rule: Rule) -> None:
        """Check that a rule asks about descriptors and orders the groups."""
        if isinstance(rule, Split):
            kind = self.kinds.get(rule.descriptor)
            if kind is None or (kind is DescriptorKind.TEXT) != isinstance(rule.value, str):
                raise RunFileError(f"the rule asks about {rule.descriptor!r:.60} by a wrong value")
            self._check_rule(rule.yes)
            self._check_rule(rule.no)
        elif (
            not isinstance(rule, Leaf)
            or len(self.groups) != len(self.entries)
            or not set(self.groups) <= set(rule.order)
        ):
            raise RunFileError("the rule does not order the configurations of the entries")

    @cached_property
    def kinds(self) -> dict[str, DescriptorKind]:
        """The kind of each descriptor."""
        names = self.entries[0].task
        return {name: _kind_of(name, [e.task[name] for e in self.entries]) for name in names}

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        """The constraints that read descriptors, and those of a task without an entry, which has no `allowed` row."""
        extra = dict.fromkeys(
            [*_untuned_constraints(self.space, self.entries), *self.extra_constraints]
        )
        return read_conditions(self.space, self._known_values, extra)

    @cached_property
    def _known_values(self) -> dict[str, list[Any]]:
        tasks: list[Task] = [entry.task for entry in self.entries]
        if self.space.tasks is not None:
            tasks += self.space.tasks.descriptors  # a task without a success has no entry
        return {name: [task[name] for task in tasks] for name in self.kinds}

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """The configurations of the entries, and the default configuration if there is one."""
        default = () if self.default is None else (self.default,)
        return (*(entry.config for entry in self.entries), *default)

    def conditions_of(self, config: Config, extra: Sequence[str] = ()) -> list[Condition]:
        """Return the constraints that read descriptors, with the values of a configuration.

        Constraints that read an inactive parameter, which the configuration lacks, do not apply.

        Args:
            config: The configuration.
            extra: Further constraints.
        """
        parameters = with_descriptors(self.space, self._known_values)
        inactive = self.space.parameters.keys() - config.keys() - self.kinds.keys()
        expressions = [*self.conditions, *(Expression(text, parameters) for text in extra)]
        known = [
            bind(each, config, parameters)
            for each in expressions
            if not inactive & set(each.parameters)
        ]
        return known + [
            bind_absence(name, self.presence[name], config, parameters, inactive)
            for name in self.presence
            if name in inactive
        ]

    @cached_property
    def presence(self) -> dict[str, Expression]:
        """The conditions of the space that read descriptors, by the parameter that is active where they hold."""
        return {
            name: expression
            for name, expression in self.space.conditions.expressions.items()
            if set(expression.parameters) & set(self.kinds)
        }

    @cached_property
    def allowed(self) -> tuple[tuple[bool, ...], ...]:
        """For each entry whether each of `configs` satisfies the constraints of the entry's own task.

        A task of a space may have constraints of its own. They apply to it, and to other tasks that are nearest to it.
        """
        rows = []
        for entry in self.entries:
            texts = own_constraints(self.space, entry.task)
            holds = (
                not texts or all(c.holds(entry.task) for c in self.conditions_of(config, texts))
                for config in self.configs
            )
            rows.append(tuple(holds))
        return tuple(rows)

    def find(self, task: Task) -> ShippedEntry:
        """Return the entry of exactly this task.

        Raises:
            RunFileError: There is none.
        """
        for entry in self.entries:
            if dict(entry.task) == dict(task):
                return entry
        known = "; ".join(describe_task(entry.task) for entry in self.entries)
        raise RunFileError(f"no entry has the task {describe_task(task)}; the tasks are: {known}")

    def select(self, task: Task) -> Config:
        """Return the configuration for any task.

        Raises:
            TrialError: The names of the descriptors are wrong, or neither an entry nor the default configuration may
                be used for the task.
        """
        if set(task) != set(self.kinds):
            raise TrialError(
                f"task = {dict(task)!r:.80}: expected the descriptors {list(self.kinds)}"
            )
        tree = None if self.rule is None else self.ranked(self.rule)
        known = [entry.task for entry in self.entries]
        i = choose(task, self.kinds, known, tree, self.allowed, self._may_use)
        if i < 0:
            raise TrialError(
                f"no entry and no default configuration may be used for {describe_task(task)}"
            )
        return self.configs[i]

    def _may_use(self, index: int, task: Task) -> bool:
        return all(each.holds(task) for each in self.conditions_of(self.configs[index]))

    def ranked(self, rule: Rule) -> Any:
        """Return a rule as `baco_like.shipping.selection` takes it: the rank of each entry in the order of a leaf."""
        if isinstance(rule, Split):
            return rule.descriptor, rule.value, self.ranked(rule.yes), self.ranked(rule.no)
        assert isinstance(rule, Leaf)
        return [rule.order.index(group) for group in self.groups]


def own_constraints(space: Space, task: Task) -> tuple[str, ...]:
    """Return the constraints that a space has for one of its tasks only."""
    tasks = space.tasks
    if tasks is None:
        return ()
    named = zip(tasks.names, tasks.descriptors, strict=True)
    name = next((name for name, known in named if dict(known) == dict(task)), None)
    return () if name is None else tuple(tasks.constraints.get(name, ()))


def _untuned_constraints(space: Space, entries: Sequence[ShippedEntry]) -> list[str]:
    """Return the constraints of the tasks of a space that have no entry, as expressions about all tasks."""
    if space.tasks is None:
        return []
    named = zip(space.tasks.names, space.tasks.descriptors, strict=True)
    tuned = [dict(entry.task) for entry in entries]
    untuned = [name for name, task in named if dict(task) not in tuned]
    return [text for name in untuned for text in space.tasks.guarded_constraints(name)]


def describe_task(task: Task) -> str:
    """Return a task as a text, such as ``n=512, device=A4000``."""
    return ", ".join(f"{name}={value}" for name, value in task.items()) or "the only task"


def _kind_of(name: str, values: Sequence[Any]) -> DescriptorKind:
    if all(isinstance(value, str) for value in values):
        return DescriptorKind.TEXT
    if all(isinstance(value, bool) for value in values):
        return DescriptorKind.EXACT
    if all(map(is_number, values)):
        return DescriptorKind.SIZE if min(values) > 0 else DescriptorKind.EXACT
    raise RunFileError(f"the descriptor {name!r} has texts, booleans and numbers: {values!r:.80}")
