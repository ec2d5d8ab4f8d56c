"""A space: typed parameters, known constraints, and the set of configurations that satisfy them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from baco_like._optional import data_frame
from baco_like._output import html_table
from baco_like._random import Purpose, generator
from baco_like._typing import Array, Codes, Features, Ints, Mask
from baco_like.constraints.conditions import Conditions
from baco_like.constraints.expression import Expression
from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import Ordinal
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.parameters.registry import VERSION
from baco_like.spaces import inputs
from baco_like.spaces.activity import Activity
from baco_like.spaces.derived_features import DerivedFeatures, ParameterFeatures
from baco_like.spaces.feasible.build import build
from baco_like.spaces.feasible.conflict import check_reachable
from baco_like.spaces.feasible.feasible_set import FeasibleSet
from baco_like.spaces.fidelity import Fidelity, GivenFidelity, add_fidelity
from baco_like.spaces.formats import description
from baco_like.spaces.formats.baco import read_baco
from baco_like.spaces.formats.configspace import read_configspace
from baco_like.spaces.formats.dataframe import read_dataframe
from baco_like.spaces.formats.t1 import read_t1
from baco_like.spaces.inputs import GivenConstraint, GivenParameter
from baco_like.spaces.tasks import GivenTasks, TaskColumns, Tasks

if TYPE_CHECKING:
    import pandas as pd
    from ConfigSpace import ConfigurationSpace

Config = Mapping[str, Any]
"""A configuration in plain Python values."""

_ROWS_OF_A_FRAME = 1_000_000

_LEAST_DRAWN = 64


class Space:
    """Parameters and the known constraints between them.

    Args:
        parameters: Maps each name to its parameter, or to a plain list of values.
        constraints: Expressions such as ``"bx * by <= 1024"``, callables whose argument names are parameters, or
            `Constraint` objects.
        fidelity: A parameter whose lower values make evaluations cheaper, such as ``{"size": [256, 512, 1024]}``, or
            the name of an ordinal parameter. The last value is the target: only it counts for the best configuration.
        tasks: Sizes, inputs or devices that are tuned together, such as ``[{"n": 512}, {"n": 4096}]``. Their
            descriptors become parameters, which constraints may read.
        when: The condition of each conditional parameter, such as ``{"unroll": "schedule == 'tiled'"}``. Where it is
            false, the parameter is inactive: configurations do not have it, and no constraint that reads it applies.

    Attributes:
        parameters: Parameters by name, in order; the descriptors of tasks are the last.
        constraints: The known constraints, in order.
        names: Names of the parameters, in order.
        columns: The code columns of each parameter.
        width: Number of code columns.
        active: Names of the parameters that are not constant.
        feasible: The configurations that satisfy the constraints, as rows of codes.
        fidelity: The fidelity parameter, or None.
        tasks: The tasks, or None.
        conditions: The conditions of the conditional parameters.
        activity: Which parameters are active in rows of codes.
        notes: One line for every part of a space file that was left out or unknown; empty for other spaces.

    Raises:
        SpaceError: A domain or a constraint is wrong, or no configuration satisfies the constraints.
    """

    def __init__(
        self,
        parameters: Mapping[str, GivenParameter],
        constraints: GivenConstraint | Iterable[GivenConstraint] = (),
        fidelity: GivenFidelity | None = None,
        tasks: GivenTasks | None = None,
        when: Mapping[str, str | Expression] | None = None,
    ) -> None:
        if not isinstance(parameters, Mapping):
            raise SpaceError(
                f"the parameters are {parameters!r:.80}, but a space is made from a mapping of names to parameters: "
                "Space({'tile': [8, 16, 32], ...})"
            )
        given = {name: inputs.make_parameter(name, p) for name, p in parameters.items()}
        self.tasks = None if tasks is None else tasks if isinstance(tasks, Tasks) else Tasks(tasks)
        if self.tasks is not None:
            given = self.tasks.add_to(given, fidelity)
        self.parameters, fidelity_name = add_fidelity(given, fidelity)
        if not self.parameters:
            raise SpaceError("a space needs at least one parameter")
        self.names = tuple(self.parameters)
        inputs.check_names(self.names)
        ends = np.cumsum([p.width for p in self.parameters.values()]).tolist()
        starts = [0, *ends[:-1]]
        self.columns = dict(zip(self.names, map(slice, starts, ends), strict=True))
        self.width: int = ends[-1]
        self.fidelity: Fidelity | None = None
        if fidelity_name is not None:
            levels = tuple(getattr(self.parameters[fidelity_name], "values", ()))
            self.fidelity = Fidelity(fidelity_name, levels, self.columns[fidelity_name].start)
        self.active = tuple(name for name, p in self.parameters.items() if p.cardinality != 1)
        listed = inputs.list_constraints(constraints)
        self._given = len(listed)
        if self.tasks is not None:
            listed += self.tasks.known_constraints(self.parameters)
        self.constraints = tuple(inputs.make_constraint(each, self.parameters) for each in listed)
        self.conditions = Conditions.of(when, self.parameters)
        self.activity = Activity(self.parameters, self.columns, self.conditions)
        self._check_conditions()
        inputs.check_conditions(when or {}, self.conditions, self.parameters)
        rules = inputs.split_constraints(self.constraints, self.conditions)
        rules += self.conditions.rules
        self.feasible: FeasibleSet = build(self.parameters, rules)
        new = [name for name, text in (when or {}).items() if isinstance(text, str)]
        check_reachable(new, self.activity, self.feasible, rules)  # a journal's were checked
        self.notes: tuple[str, ...] = ()

    @override
    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without what is computed on first use, parts of which cannot be pickled."""
        return {
            name: value
            for name, value in self.__dict__.items()
            if not isinstance(getattr(type(self), name, None), cached_property)
        }

    def with_fidelity(self, fidelity: GivenFidelity | None) -> Space:
        """Return the space with a fidelity parameter; the space itself for None.

        Raises:
            SpaceError: The space has one, or it is not one ordinal parameter.
        """
        if fidelity is None:
            return self
        if self.fidelity is not None:
            raise SpaceError(f"the space has the fidelity {self.fidelity.name!r} already")
        return self._with(fidelity=fidelity)

    def _with(self, **changes: Any) -> Space:
        """Return the space that is made with some other arguments."""
        own = {
            "parameters": self._given_parameters,
            "constraints": _texts(self.given_constraints),
            "fidelity": None if self.fidelity is None else self.fidelity.name,
            "tasks": self.tasks,
            "when": self.conditions.expressions,
        }
        return Space(**{**own, **changes})

    def with_conditions(self, when: Mapping[str, str], also: Sequence[str] = ()) -> Space:
        """Return the space with other conditions, which may hold nowhere, and with constraints beside its own.

        Raises:
            SpaceError: A condition is wrong, or no configuration satisfies the constraints.
        """
        texts = [*_texts(self.given_constraints), *also]
        read = {name: Expression(text, self.parameters) for name, text in when.items()}
        return self._with(constraints=texts, when=read)

    def at_level(self, level: int) -> Space:
        """Return the space in which the fidelity has only the value with this index; its code there is 0."""
        assert self.fidelity is not None
        value = self.fidelity.levels[level]
        fixed = {self.fidelity.name: Ordinal([value], default=value)}
        return self._at(level, fixed, self.constraints)

    def _at(
        self, index: int, fixed: Mapping[str, Parameter], constraints: Sequence[GivenConstraint]
    ) -> Space:
        """Return the space in which some parameters have one value only; it is kept."""
        if index not in self._levels:
            parameters = {**self.parameters, **fixed}
            # Read here, as they may name other values, which is an error in a new text.
            read = [
                Expression(c, parameters) if isinstance(c, str) else c for c in _texts(constraints)
            ]
            self._levels[index] = Space(parameters, read, when=self.conditions.expressions)
        return self._levels[index]

    @property
    def _given_parameters(self) -> Mapping[str, Parameter]:
        """The parameters without those that describe the tasks."""
        return self.parameters if self.tasks is None else self.tasks.configuration(self.parameters)

    @cached_property
    def _levels(self) -> dict[int, Space]:
        return {}

    def with_tasks(self, tasks: GivenTasks | None) -> Space:
        """Return the space with tasks; the space itself for None.

        Raises:
            SpaceError: The space has other tasks or a fidelity, or a descriptor has the name of a parameter.
        """
        if tasks is None:
            return self
        if self.tasks is not None:
            if self.tasks == (tasks if isinstance(tasks, Tasks) else Tasks(tasks)):
                return self
            raise SpaceError(f"the space has the tasks {', '.join(self.tasks.names)} already")
        return self._with(tasks=tasks)

    @cached_property
    def task_columns(self) -> TaskColumns:
        """Where the codes hold the task."""
        assert self.tasks is not None
        names = self.tasks.descriptor_names
        columns = np.concatenate([np.arange(self.width)[self.columns[name]] for name in names])
        return TaskColumns(self.tasks, columns, self.tasks.encode(self.parameters))

    def at_task(self, task: int) -> Space:
        """Return the space in which the descriptors have only the values of the task with this index.

        Its rows have the code 0 in the columns of the descriptors.
        """
        assert self.tasks is not None
        name = self.tasks.names[task]
        fixed = Tasks({name: self.tasks.descriptors[task]}).parameters()
        own = self.tasks.constraints.get(name, ())
        return self._at(task, fixed, [*self.given_constraints, *own])

    @cached_property
    def depends_on_task(self) -> bool:
        """Whether a constraint or condition of a parameter reads a descriptor: tasks have different feasible sets."""
        if self.tasks is None:
            return False
        own = set(self.tasks.descriptor_names)
        if any(own & set(e.parameters) for e in self.conditions.expressions.values()):
            return True
        return any(own & set(c.parameters) and set(c.parameters) - own for c in self.constraints)

    @property
    def given_constraints(self) -> tuple[Constraint, ...]:
        """The constraints that were given with the space, without those that follow from its tasks."""
        return self.constraints[: self._given]

    def _check_conditions(self) -> None:
        fixed = [] if self.fidelity is None else [self.fidelity.name]
        fixed += [] if self.tasks is None else self.tasks.descriptor_names
        for name in fixed:
            if name in self.conditions.expressions:
                raise SpaceError(
                    f"when: {name!r} is a fidelity or describes a task, which has no condition"
                )

    # Size and bounds.

    @cached_property
    def size(self) -> int | float:
        """Number of configurations without the constraints: an exact integer, or ``inf``.

        With conditional parameters that no tree can list, inactive values count, too.
        """
        cardinalities = [p.cardinality for p in self.parameters.values()]
        if math.inf in cardinalities:
            return math.inf
        count = build(self.parameters, self.conditions.rules).count if self.conditions else None
        return math.prod(cardinalities) if count is None else count

    @cached_property
    def feasible_size(self) -> int | float | None:
        """Exact number of feasible configurations; ``inf`` with reals; None with rejection."""
        return self.feasible.count if self.size != math.inf else math.inf

    @cached_property
    def acceptance(self) -> float:
        """Share of draws that `sample` keeps: 1.0, or less if constraints read reals or other unlisted domains.

        It is estimated when the space is made; a small share means slow sampling.
        """
        return self.feasible.acceptance

    def affordable(self, draws: int) -> int:
        """Return the number of random rows that are worth their time: fewer than ``draws`` if few draws are kept."""
        return min(draws, max(_LEAST_DRAWN, int(draws * 16.0 * self.acceptance)))

    @cached_property
    def default_config(self) -> dict[str, Any] | None:
        """Every active parameter's default value (a constant's is its value), or None if one has no default.

        It may violate constraints; check it with `contains`.
        """
        defaults = inputs.defaults_of(self.parameters)
        if not self.conditions:
            return defaults if len(defaults) == len(self.parameters) else None
        try:
            return self.decode(self.encode([defaults]))[0]
        except ConfigError:
            return None

    def values(self, name: str) -> list[Any]:
        """Return the values of a scalar parameter that occur in some feasible configuration.

        Raises:
            SpaceError: The parameter is a real, a wide integer or a permutation.
        """
        at = self.columns[name]
        codes = self.feasible.used(at.start) if at.stop - at.start == 1 else None
        if codes is None:
            raise SpaceError(f"the values of {name!r} are not listed; use bounds() or sample()")
        return self.parameters[name].decode(codes[:, None])

    def bounds(self) -> dict[str, tuple[Any, Any]]:
        """Return the least and the greatest value of each number in feasible configurations.

        Categorical parameters, permutations and values of several code columns are left out. For reals, and with
        rejection, they are the bounds before the constraints that rejection tests.
        """
        bounds: dict[str, tuple[Any, Any]] = {}
        for name, parameter in self.parameters.items():
            unordered = parameter.kind in (ParameterKind.UNORDERED, ParameterKind.PERMUTATION)
            if unordered or parameter.width > 1:
                continue
            codes = self.feasible.used(self.columns[name].start)
            ends = parameter.code_range if codes is None else (codes[0], codes[-1])
            low, high = parameter.decode(np.array(ends)[:, None])
            bounds[name] = (min(low, high), max(low, high))
        return bounds

    # Encoding.

    def encode(self, configs: Sequence[Config]) -> Codes:
        """Return codes, ``(n, w)``.

        The value of an inactive parameter is dropped: it may be missing, None, or anything, such as 0 or -1. Where None
        is a value, it may be missing, too.

        Raises:
            ConfigError: A configuration lacks an active parameter, has an unknown one, or an illegal value. Constraints
                are not checked.
        """
        rows = np.empty((len(configs), self.width), dtype=np.float64)
        if not len(configs):
            return rows
        inputs.check_mappings(configs)
        given, illegal = configs, list[str]()
        if self.activity.optional:
            configs = [self.activity.complete(config) for config in configs]
        for config in configs:
            if len(config) != len(self.names):
                raise ConfigError(self._wrong_names(config))
        for name, at in self.columns.items():
            try:
                rows[:, at] = self.parameters[name].encode([config[name] for config in configs])
            except KeyError:
                wrong = next(config for config in configs if name not in config)
                raise ConfigError(self._wrong_names(wrong)) from None
            except ConfigError as error:
                if name not in self.conditions.expressions:
                    raise ConfigError(f"parameter {name!r}: {error}") from None
                values = self.activity.replace_illegal(name, [config[name] for config in configs])
                rows[:, at] = self.parameters[name].encode(values)
                illegal.append(name)
        if self.conditions:
            self.activity.check_given(given, rows, illegal)
        return self.activity.at_rest(rows)

    def decode(self, codes: Codes) -> list[dict[str, Any]]:
        """Return n configurations of plain Python values, ``(n, w)``; the inverse of `encode`."""
        columns = [p.decode(part) for _, p, part in self._split(codes)]
        configs = [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]
        if self.conditions:
            self.activity.drop_inactive(configs, codes)
        return configs

    def _split(self, codes: Codes) -> list[tuple[str, Parameter, Codes]]:
        """Return the name, the parameter and the codes of each parameter."""
        return [(name, self.parameters[name], codes[:, at]) for name, at in self.columns.items()]

    def features(self, codes: Codes) -> Features:
        """Return the features that a model sees, ``(n, w)`` -> ``(n, k)``; `feature_owner` has their parameters."""
        return self._features.features(codes)

    @cached_property
    def _features(self) -> ParameterFeatures:
        return ParameterFeatures(self)

    @cached_property
    def derived_features(self) -> DerivedFeatures:
        """The space with additional features for models: see `baco_like.spaces.derived_features`."""
        return DerivedFeatures(self)

    def log_density(self, codes: Codes) -> Array:
        """Return the sum of the parameters' log ratios of prior to uniform density, ``(n, w)`` -> ``(n,)``."""
        ratios = [p.log_density(part) for _, p, part in self._split(codes)]
        for name, active in self.activity.masks(codes).items() if self.conditions else ():
            ratios[self.names.index(name)] *= active
        return np.asarray(np.sum(ratios, axis=0), dtype=np.float64)

    @cached_property
    def feature_owner(self) -> Ints:
        """For each feature column, the index of its parameter in `active`, ``(k,)``."""
        return self._features.feature_owner

    # Feasibility.

    def contains(self, config: Config) -> bool:
        """Whether a configuration has all parameters, only legal values, and satisfies every constraint."""
        try:
            codes = self.encode([config])
        except ConfigError:
            return False
        return bool(self.feasible.contains(codes)[0])

    def validate(self, config: Config) -> None:
        """Check a configuration.

        Raises:
            ConfigError: It is not feasible; the message lists every reason, violated constraints included.
        """
        wrong = self.explain(config)
        if wrong:
            raise ConfigError("; ".join(wrong))

    def explain(self, config: Config) -> list[str]:
        """Return the reasons why a configuration is infeasible: names, values, violated constraints with numbers.

        Raises:
            ConfigError: It is not a mapping.
        """
        inputs.check_mappings([config])
        given, config = config, self.activity.complete(config)
        if set(config) != set(self.names):
            return [self._wrong_names(config)]
        lines: list[str] = []
        columns: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            try:
                columns[name] = parameter.column(parameter.encode([config[name]]))
            except ConfigError as error:
                if self.activity.is_active(name, config) is False:
                    columns[name] = parameter.column(self.conditions.resting[name])
                else:
                    lines.append(f"parameter {name!r}: {error}")
        if self.conditions and not lines:
            try:
                config = self.decode(self.encode([given]))[0]
            except ConfigError as error:
                return [str(error)]
        for constraint in (self.conditions.guard(c, c) for c in self.constraints):
            if all(name in columns for name in constraint.parameters):
                read = {name: columns[name] for name in constraint.parameters}
                if not np.all(constraint.holds(read)):
                    lines.append(f"{constraint.text} violated: {constraint.explain(config)}")
        return lines

    def sample(self, n: int, seed: int = 0) -> list[dict[str, Any]]:
        """Return n feasible configurations, independent and uniform (with repetition).

        Reals, and integers with ``log``, that no constraint reads are uniform on their scale.
        """
        return self.decode(self.feasible.sample(n, generator(seed, Purpose.SAMPLE)))

    def satisfied(self, codes: Codes) -> Mask:
        """Whether each row of legal codes satisfies every constraint, by evaluating them (slower than `feasible`)."""
        good = np.ones(len(codes), dtype=np.bool_)
        columns = {name: p.column(part) for name, p, part in self._split(codes)}
        known = (self.conditions.guard(constraint, constraint) for constraint in self.constraints)
        for rule in (*known, *self.conditions.rules):
            good &= rule.holds({name: columns[name] for name in rule.parameters})
        return good

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for rows in self.feasible.iterate(4096):
            yield from self.decode(rows)

    def to_dataframe(self) -> pd.DataFrame:
        """Return all feasible configurations, one for each row, in the order of their indices.

        Raises:
            SpaceError: There are more than a million, or they cannot be numbered.
            MissingExtra: pandas is not installed.
        """
        count = self.feasible.count
        if count is None or count > _ROWS_OF_A_FRAME:
            raise SpaceError(
                f"a table holds at most {_ROWS_OF_A_FRAME} configurations and the space has "
                f"{'an unknown number' if count is None else count}; use sample() or feasible.iterate()"
            )
        return data_frame(list(self), list(self.names), self.conditions.expressions)

    # Files and other tools.

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON description; callables and very large tables are only described."""
        named: dict[str, Any] = {} if self.fidelity is None else {"fidelity": self.fidelity.name}
        if self.conditions:
            named["when"] = self.conditions.texts
        tasks = {} if self.tasks is None else {"tasks": self.tasks.to_dict()}
        return {
            "version": VERSION,
            "parameters": {name: p.to_dict() for name, p in self._given_parameters.items()},
            "constraints": [
                inputs.constraint_to_json(constraint) for constraint in self.given_constraints
            ],
            **named,
            **tasks,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """Return the space of a description by `to_dict`.

        Raises:
            SpaceError: The version is unknown, a description is wrong, or a constraint was a callable, which cannot
                be stored.
        """
        return cls._of(description.space_from_dict(data))

    @classmethod
    def from_kernel_tuner(
        cls,
        tune_params: Mapping[str, Iterable[Any]],
        restrictions: GivenConstraint | Iterable[GivenConstraint] | None = None,
    ) -> Space:
        """Return the space of Kernel Tuner's ``tune_params`` and ``restrictions``.

        Raises:
            SpaceError: A domain is wrong, or a restriction is neither a string nor a callable.
        """
        return cls._of(description.read_kernel_tuner(tune_params, restrictions))

    @classmethod
    def from_t1(cls, source: str | Path | Mapping[str, Any]) -> Space:
        """Return the space of a T1 file, given as its path or its parsed contents.

        Raises:
            SpaceError: The contents are not valid.
            OSError: It cannot be read.
        """
        return cls._of(read_t1(source))

    @classmethod
    def from_baco(cls, source: str | Path | Mapping[str, Any]) -> Space:
        """Return the space of a BaCO or HyperMapper scenario, given as its path or its parsed contents.

        Raises:
            SpaceError: The contents are not valid.
            OSError: It cannot be read.
        """
        return cls._of(read_baco(source))

    @classmethod
    def from_configspace(cls, source: ConfigurationSpace) -> Space:
        """Return the space of a ``ConfigSpace.ConfigurationSpace``.

        Raises:
            SpaceError: It has members that are not supported.
            MissingExtra: ConfigSpace is not installed.
        """
        return cls._of(read_configspace(source))

    @classmethod
    def from_dataframe(cls, table: pd.DataFrame | Iterable[Config]) -> Space:
        """Return the space whose feasible configurations are the rows of a table.

        Raises:
            SpaceError: It has no rows, or values that no parameter accepts.
        """
        return cls._of(read_dataframe(table))

    @classmethod
    def _of(cls, described: description.SpaceDescription) -> Space:
        space = cls(
            described.parameters,
            described.constraints,
            described.fidelity,
            described.tasks,
            described.when,
        )
        space.notes = described.notes
        return space

    def difference(self, other: Space) -> list[str]:
        """Return readable lines on how another space differs from this one; empty when it does not."""
        return inputs.describe_differences(self.to_dict(), other.to_dict())

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and not self.difference(other)

    @override
    def __hash__(self) -> int:
        return hash(self.names)

    @override
    def __repr__(self) -> str:
        size = "unknown" if self.feasible_size is None else format_size(self.feasible_size)
        counts = f"{len(self.constraints)} constraints"
        counts += f", {len(self.conditions.texts)} conditional" if self.conditions else ""
        return f"Space({', '.join(self.names)}; {counts}, {size} feasible)"

    def _repr_html_(self) -> str:
        """Return the parameters as a table, for notebooks."""
        when = self.conditions.texts
        head = ["parameter", "values", *(["when"] if when else [])]
        rows = [
            [n, repr(p), *([when.get(n, "")] if when else [])] for n, p in self.parameters.items()
        ]
        return html_table(repr(self), head, rows)

    def _wrong_names(self, config: Config) -> str:
        missing = [name for name in self.names if name not in config]
        unknown = [str(name) for name in config if name not in self.parameters]
        parts = [f"lacks {', '.join(map(repr, missing))}"] if missing else []
        parts += [f"has unknown {', '.join(map(repr, unknown))}"] if unknown else []
        return (
            f"the configuration {' and '.join(parts)}; the parameters are {', '.join(self.names)}"
        )


def _texts(constraints: Iterable[GivenConstraint]) -> list[GivenConstraint]:
    """Return constraints for a space with other parameters; expressions are bound to theirs, so they are texts."""
    return [c.text if isinstance(c, Expression) else c for c in constraints]


def format_size(size: int | float | None) -> str:
    """Return a `Space.feasible_size` as words to put before "configurations"; above 10^15 its order, such as 2e224."""
    if size is None:
        return "an unknown number of"
    if size == math.inf:
        return "endless"
    # Decimal, because the number may be too large for a float.
    return f"{Decimal(size):.0e}".replace("e+", "e") if size > 10**15 else str(size)
