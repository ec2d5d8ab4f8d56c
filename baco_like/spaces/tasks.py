"""The tasks of a space: inputs, sizes or devices for which the same parameters are tuned together.

A task has a descriptor: names with values, such as ``{"n": 512}`` or ``{"device": "A4000"}``. Each name of the
descriptors is one more parameter of the space, and a table of the tasks excludes all other combinations of their
values. So constraints may read descriptors (``"tile <= n"``), and configurations, journals and tables hold them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Features, Ints
from baco_like.constraints.language.writer import write_name
from baco_like.constraints.protocol import Constraint
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import SpaceError
from baco_like.parameters import Categorical, Ordinal
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.values import in_order, is_number, plain
from baco_like.spaces.inputs import make_named

Descriptor: TypeAlias = Mapping[str, Any]
"""The values that describe a task, by name: numbers, strings or booleans."""

GivenTask: TypeAlias = Descriptor | str
"""A descriptor, or a name, which is then the value of the only descriptor ``task``."""

GivenTasks: TypeAlias = "Tasks | Sequence[GivenTask] | Mapping[str, Descriptor]"
"""Tasks, or a list, mapping or sequence of names that defines them."""

_NAME = "task"
"""The descriptor of tasks that are given by name alone."""


@dataclass(frozen=True, init=False)
class Tasks:
    """The tasks that are tuned together.

    Args:
        tasks: Descriptors with the same names, or a mapping from names of tasks to descriptors. Tasks without anything
            to describe them are given by name: ``["A4000", "W7800"]``.
        constraints: For some names of tasks, further known constraints of these tasks: expressions over the parameters.

    Attributes:
        names: Names of the tasks, such as ``n=512``.
        descriptors: The descriptor of each task.
        constraints: The further constraints by name of the task.

    Raises:
        SpaceError: Two tasks are the same, descriptors differ in their names, a value is neither a number, a string nor
            a boolean, or a constraint belongs to an unknown task.
    """

    names: tuple[str, ...]
    descriptors: tuple[Descriptor, ...]
    constraints: Mapping[str, tuple[str, ...]]

    def __init__(
        self,
        tasks: Sequence[GivenTask] | Mapping[str, Descriptor],
        constraints: Mapping[str, str | Iterable[str]] | None = None,
    ) -> None:
        if isinstance(tasks, Tasks):
            tasks = dict(zip(tasks.names, tasks.descriptors, strict=True))
        descriptors = _read_descriptors(tasks)
        own = tasks if isinstance(tasks, Mapping) else map(describe_task, descriptors)
        names = tuple(map(str, own))
        _check_distinct(names, descriptors)
        texts = _read_constraints(constraints or {}, names)
        vars(self).update(names=names, descriptors=descriptors, constraints=MappingProxyType(texts))

    def __len__(self) -> int:
        return len(self.names)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Tasks.from_dict, (self.to_dict(),)  # a mapping proxy cannot be pickled

    @property
    def descriptor_names(self) -> tuple[str, ...]:
        """The names of the descriptors, in order."""
        return tuple(self.descriptors[0])

    def index(self, task: GivenTask) -> int:
        """Return the index of a task, given by its name or its descriptor.

        Raises:
            SpaceError: The task does not exist.
        """
        if isinstance(task, str) and task in self.names:
            return self.names.index(task)
        if isinstance(task, Mapping):
            for i, descriptor in enumerate(self.descriptors):
                if dict(descriptor) == dict(task):
                    return i
        raise SpaceError(f"task = {task!r:.80}: the tasks are {', '.join(self.names)}")

    def find(self, config: Mapping[str, Any]) -> Descriptor | None:
        """Return the descriptor in a configuration; None if it lacks one of its names."""
        if not all(key in config for key in self.descriptor_names):
            return None
        return MappingProxyType({key: config[key] for key in self.descriptor_names})

    def configuration(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return a configuration without the descriptor of its task."""
        return {name: value for name, value in config.items() if name not in self.descriptor_names}

    def add_to(self, parameters: Mapping[str, Parameter], fidelity: Any) -> dict[str, Parameter]:
        """Return the parameters of a space with those of the descriptors.

        Raises:
            SpaceError: A descriptor has the name of a parameter, or there is a fidelity.
        """
        if fidelity is not None:
            raise SpaceError("a space has tasks or a fidelity, not both; leave one of them out")
        for name in self.descriptor_names:
            if name in parameters:
                raise SpaceError(
                    f"the descriptor {name!r} of the tasks is also a parameter; rename one of them"
                )
        return {**parameters, **self.parameters()}

    def parameters(self) -> dict[str, Parameter]:
        """Return one parameter for each name of the descriptors; the default is the value of the first task.

        Numbers become an `Ordinal`, with logarithms if all are positive; others a `Categorical`.
        """
        made: dict[str, Parameter] = {}
        for key in self.descriptor_names:
            column = [descriptor[key] for descriptor in self.descriptors]
            values = list(dict.fromkeys(column))
            numeric = all(map(is_number, values))
            options = {"log": min(values) > 0} if numeric else {}
            kind: Callable[..., Parameter] = Ordinal if numeric else Categorical
            made[key] = make_named(key, kind, values, default=column[0], **options)
        return made

    def known_constraints(self, parameters: Mapping[str, Parameter]) -> list[Constraint | str]:
        """Return the table of the tasks, and the constraints of each task as expressions about all tasks.

        Args:
            parameters: The parameters of the space, with those of the descriptors.
        """
        own = {key: parameters[key] for key in self.descriptor_names}
        made: list[Constraint | str] = []
        if math.prod(p.cardinality for p in own.values()) > len(self):
            made.append(TableConstraint.of(own, self.encode(own)))
        for name in self.constraints:
            made += self.guarded_constraints(name)
        return made

    def guarded_constraints(self, name: str) -> list[str]:
        """Return the further constraints of a task as expressions about all tasks."""
        descriptor = self.descriptors[self.names.index(name)]
        is_task = " and ".join(
            f"{write_name(key)} == {value!r}" for key, value in descriptor.items()
        )
        return [f"not ({is_task}) or ({text})" for text in self.constraints.get(name, ())]

    def encode(self, parameters: Mapping[str, Parameter]) -> Codes:
        """Return the codes of the descriptors, ``(t, d)``."""
        columns = [
            parameters[key].encode([descriptor[key] for descriptor in self.descriptors])
            for key in self.descriptor_names
        ]
        return np.concatenate(columns, axis=1)

    def features(self, descriptors: Sequence[Descriptor] | None = None) -> tuple[Features, Ints]:
        """Return numbers that describe tasks, and the index in `descriptor_names` that each column belongs to.

        Positive numbers become logarithms. Each number is scaled so that the tasks lie in [0, 1]. Other values become
        one column for each value of the tasks, divided by the root of 2, so that two different values are at distance
        1.

        Args:
            descriptors: By default those of the tasks, ``t``; values that no task has are allowed.

        Returns:
            ``(t, k)`` and ``(k,)``.
        """
        parts: list[Array] = []
        owners: list[int] = []
        for i, key in enumerate(self.descriptor_names):
            known = [descriptor[key] for descriptor in self.descriptors]
            column = known if descriptors is None else [d[key] for d in descriptors]
            if all(map(is_number, known)):
                part = _scale(known, column)[:, None]
            else:
                values = list(dict.fromkeys(known))
                part = np.array([[v == w for w in values] for v in column]) / math.sqrt(2.0)
            parts.append(part)
            owners += [i] * part.shape[1]
        return np.concatenate(parts, axis=1), np.array(owners)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; `from_dict` is the inverse."""
        described = {n: dict(d) for n, d in zip(self.names, self.descriptors, strict=True)}
        texts = {name: list(own) for name, own in self.constraints.items()}
        return {"descriptors": described, **({"constraints": texts} if texts else {})}

    @classmethod
    def from_dict(cls, data: Any) -> Tasks:
        """Return the tasks that `to_dict` described.

        Raises:
            SpaceError: The description is wrong.
        """
        if not isinstance(data, Mapping) or "descriptors" not in data:
            raise SpaceError(f"tasks need an object 'descriptors', got {data!r:.80}")
        return cls(data["descriptors"], data.get("constraints"))


@dataclass(frozen=True, eq=False)
class TaskColumns:
    """Where the codes of a space hold the task.

    Attributes:
        tasks: The tasks.
        columns: The code columns of the descriptors, ``(d,)``.
        codes: The codes of each task, ``(t, d)``.
    """

    tasks: Tasks
    columns: Ints
    codes: Codes

    def index_of(self, codes: Codes) -> Ints:
        """Return the index of the task of each row, ``(n, w)`` -> ``(n,)``; -1 for a row outside the space."""
        known = {row.tobytes(): i for i, row in enumerate(self.codes)}
        own = np.ascontiguousarray(codes[:, self.columns])
        return np.array([known.get(row.tobytes(), -1) for row in own], dtype=np.int64)

    def with_task(self, codes: Codes, task: int) -> Codes:
        """Return a copy of rows, ``(n, w)``, with the codes of a task."""
        rows = np.array(codes, dtype=float)
        rows[:, self.columns] = self.codes[task]
        return rows

    def without_task(self, codes: Codes) -> Codes:
        """Return a copy of rows, ``(n, w)``, that is the same for all tasks: rows of `Space.at_task`."""
        rows = np.array(codes, dtype=float)
        rows[:, self.columns] = 0.0
        return rows


def describe_task(descriptor: Descriptor) -> str:
    """Return the name of a task without one: ``n=512, device=A4000``; the value alone of tasks given by name."""
    if tuple(descriptor) == (_NAME,):
        return str(descriptor[_NAME])
    return ", ".join(f"{key}={value}" for key, value in descriptor.items())


def _read_descriptors(
    tasks: Sequence[GivenTask] | Mapping[str, Descriptor],
) -> tuple[Descriptor, ...]:
    if isinstance(tasks, str) or not isinstance(tasks, Mapping | Sequence) or not tasks:
        raise SpaceError(
            f"tasks = {tasks!r:.80}: expected a list of descriptors such as [{{'n': 512}}, {{'n': 4096}}]"
        )
    given = tasks.values() if isinstance(tasks, Mapping) else in_order(tasks)
    read = [{_NAME: task} if isinstance(task, str) else task for task in given]
    for descriptor in read:
        if not isinstance(descriptor, Mapping) or not descriptor:
            raise SpaceError(
                f"task {descriptor!r:.80}: expected a name, or a mapping of names to values such as {{'n': 512}}"
            )
        if set(descriptor) != set(read[0]):
            raise SpaceError(
                f"the tasks {dict(read[0])!r:.80} and {dict(descriptor)!r:.80} have different descriptors; "
                "give every task a value of each"
            )
    keys = list(read[0])
    rows = [{key: plain(descriptor[key]) for key in keys} for descriptor in read]
    for key in keys:
        _check_values(key, [row[key] for row in rows])
    return tuple(map(MappingProxyType, rows))


def _check_values(key: Any, values: Sequence[Any]) -> None:
    """Check the values of one name of the descriptors."""
    if not isinstance(key, str) or not key:
        raise SpaceError(f"the name of a descriptor must be a non-empty string, got {key!r:.60}")
    kinds = {bool if isinstance(v, bool) else float if is_number(v) else type(v) for v in values}
    if len(kinds) > 1 or not kinds <= {bool, float, str}:
        raise SpaceError(
            f"the descriptor {key!r} has the values {list(values)!r:.80}: expected numbers, or strings, or booleans"
        )


def _check_distinct(names: Sequence[str], descriptors: Sequence[Descriptor]) -> None:
    for i, (name, descriptor) in enumerate(zip(names, descriptors, strict=True)):
        for j in range(i):
            if names[j] == name or dict(descriptors[j]) == dict(descriptor):
                raise SpaceError(
                    f"the tasks {names[j]!r} and {name!r} have the same name or the same descriptor; add a name to the "
                    "descriptors that tells them apart"
                )


def _read_constraints(
    constraints: Mapping[str, str | Iterable[str]], names: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    texts: dict[str, tuple[str, ...]] = {}
    for name, own in constraints.items():
        listed = (own,) if isinstance(own, str) else tuple(own)
        if name not in names:
            raise SpaceError(
                f"constraints of the task {name!r:.60}: the tasks are {', '.join(names)}"
            )
        if not all(isinstance(text, str) for text in listed):
            raise SpaceError(f"the constraints of the task {name!r} are not texts: {listed!r:.80}")
        texts[name] = listed
    return texts


def _scale(known: Sequence[float], column: Sequence[float]) -> Array:
    """Return numbers, or their logarithms, scaled so that the known ones lie in [0, 1]."""
    low, high = min(known), max(known)
    if low > 0 and all(value > 0 for value in column):
        low, high, values = math.log(low), math.log(high), np.log(np.asarray(column, dtype=float))
    else:
        values = np.asarray(column, dtype=float)
    return np.asarray((values - low) / ((high - low) or 1.0))
