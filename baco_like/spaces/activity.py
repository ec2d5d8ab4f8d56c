"""Conditional parameters of a space in rows of codes, in configurations and in the features that models see."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from baco_like._typing import Array, Codes, Features, Ints, Mask
from baco_like.constraints.conditions import Conditions
from baco_like.constraints.protocol import describe_values
from baco_like.exceptions import ConfigError
from baco_like.parameters.protocol import Parameter, ParameterKind

_INACTIVE = 0.5
"""Squared distance of an inactive parameter's features from those of every value; two values are at most 1 apart."""

_APART = 2.0
"""Factor of the distance of two choices that conditions read: configurations of two branches have less in common than
two values of another choice have. Measured in benchmarks/quality/results/conditional.md."""


@dataclass(frozen=True, eq=False)
class Activity:
    """Which conditional parameters of a space are active.

    Attributes:
        parameters: All parameters of the space.
        columns: Their code columns.
        conditions: The conditions.
    """

    parameters: Mapping[str, Parameter]
    columns: Mapping[str, slice]
    conditions: Conditions

    def __bool__(self) -> bool:
        return bool(self.conditions)

    @cached_property
    def deciding(self) -> tuple[str, ...]:
        """Names of the parameters that conditions read."""
        read = (name for e in self.conditions.expressions.values() for name in e.parameters)
        return tuple(dict.fromkeys(read))

    def masks(self, codes: Codes) -> dict[str, Mask]:
        """Return in which rows each conditional parameter is active, ``(n, w)`` -> ``(n,)``.

        Codes outside the domains are read as the nearest ones.
        """
        values: dict[str, Any] = {}
        for name in self.deciding:
            parameter = self.parameters[name]
            part = np.clip(codes[:, self.columns[name]], *parameter.code_range)
            values[name] = parameter.column(part)
        return self.conditions.activity(values)

    def where(self, name: str, codes: Codes) -> Mask:
        """Return in which rows a parameter, conditional or not, is active, ``(n, w)`` -> ``(n,)``."""
        if name not in self.conditions.expressions:
            return np.ones(len(codes), dtype=np.bool_)
        return self.masks(codes)[name]

    def is_active(self, name: str, config: Mapping[str, Any]) -> bool | None:
        """Whether a parameter is active in a configuration, of which parts may be missing; None if it does not tell."""
        if name not in self.conditions.expressions:
            return True
        columns = {}
        for other in self.conditions.ancestors[name]:
            parameter, codes = self.parameters[other], self.conditions.resting.get(other)
            if other in config and parameter.contains(config[other]):
                codes = parameter.encode([config[other]])
            if codes is None:
                return None
            columns[other] = parameter.column(codes)
        return bool(self.conditions.active(name, columns)[0])

    def at_rest(self, codes: Codes) -> Codes:
        """Return the rows with every inactive parameter at its resting value, ``(n, w)`` -> ``(n, w)``.

        Without conditional parameters these are the given rows themselves.
        """
        if not self or not len(codes):
            return codes
        rows = codes.copy()
        for name, active in self.masks(codes).items():
            rows[~active, self.columns[name]] = self.conditions.resting[name]
        return rows

    @cached_property
    def optional(self) -> dict[str, Any]:
        """Values of the parameters that a configuration may lack: None if that is a value, or a resting value."""
        without = {name: None for name, p in self.parameters.items() if p.contains(None)}
        resting = self.conditions.resting.items()
        return without | {name: self.parameters[name].decode(code)[0] for name, code in resting}

    def complete(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a configuration with the `optional` values of the parameters that are missing or None."""
        lacking = {n: value for n, value in self.optional.items() if config.get(n) is None}
        return {**config, **lacking} if lacking else config

    def replace_illegal(self, name: str, values: Sequence[Any]) -> list[Any]:
        """Return the values of a conditional parameter, illegal ones replaced by the resting value."""
        rest, is_legal = self.optional[name], self.parameters[name].contains
        return [value if is_legal(value) else rest for value in values]

    def check_given(
        self, configs: Sequence[Mapping[str, Any]], rows: Codes, illegal: Collection[str] = ()
    ) -> None:
        """Check that configurations have legal values of all their active parameters.

        Args:
            configs: As users gave them.
            rows: Their codes, completed.
            illegal: Names of the conditional parameters of which some value is illegal.

        Raises:
            ConfigError: An active parameter is missing, and the message names its condition, or its value is illegal.
        """
        for name, active in self.masks(rows).items():
            for i in np.flatnonzero(active).tolist():
                if name in illegal and configs[i].get(name) is not None:
                    try:
                        self.parameters[name].encode([configs[i][name]])
                    except ConfigError as error:
                        raise ConfigError(f"parameter {name!r}: {error}") from None
                if configs[i].get(name) is None:
                    condition = self.conditions.expressions[name]
                    shown = describe_values(condition.parameters, configs[i])
                    raise ConfigError(
                        f"the configuration lacks {name!r}, which is active when {condition.text}, and {shown}"
                    )

    def drop_inactive(self, configs: list[dict[str, Any]], codes: Codes) -> None:
        """Remove the inactive parameters from decoded configurations."""
        for name, active in self.masks(codes).items():
            for i in np.flatnonzero(~active).tolist():
                del configs[i][name]

    def sources(self, read: Sequence[Sequence[str]], features: Sequence[Features]) -> ActiveSources:
        """Return the features that compare active values only.

        Args:
            read: Names of the parameters that each source of features reads.
            features: The features of many values of each source, ``(n, k)``.
        """
        conditional = [[n for n in names if n in self.conditions.expressions] for names in read]
        widths = [part.shape[1] for part in features]
        ends = np.cumsum(widths).tolist()
        columns = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
        compared = {
            source: ActivityFeatures.around(features[source])
            for source, names in enumerate(conditional)
            if names and widths[source]
        }
        factors = [_APART if self._is_deciding_choice(names) else 1.0 for names in read]
        return ActiveSources(tuple(map(tuple, conditional)), tuple(columns), compared, factors)

    def _is_deciding_choice(self, names: Sequence[str]) -> bool:
        """Return whether a source of features is one unordered parameter that a condition reads."""
        kinds = [self.parameters[name].kind for name in names if name in self.deciding]
        return len(names) == 1 and kinds == [ParameterKind.UNORDERED]


@dataclass(frozen=True, eq=False)
class ActiveSources:
    """Features from several sources, some of which read conditional parameters.

    Attributes:
        read: Names of the conditional parameters that each source reads.
        columns: Columns of each source among the features of values.
        compared: The features of those that read any, by index.
        factors: Factor of the features of each source.
    """

    read: tuple[tuple[str, ...], ...]
    columns: tuple[slice, ...]
    compared: Mapping[int, ActivityFeatures]
    factors: Sequence[float]

    @cached_property
    def feature_owner(self) -> Ints:
        """For each column that a model sees, the index of its source."""
        widths = [at.stop - at.start for at in self.columns]
        widths = [width + (source in self.compared) for source, width in enumerate(widths)]
        return np.repeat(np.arange(len(widths)), widths)

    def __call__(self, features: Features, masks: Mapping[str, Mask]) -> Features:
        """Return the features that a model sees.

        Args:
            features: Those of the values, ``(n, k)``.
            masks: Where each conditional parameter is active, ``(n,)``.
        """
        parts = [features[:, at] for at in self.columns]
        for source, compare in self.compared.items():
            active = np.logical_and.reduce([masks[name] for name in self.read[source]])
            parts[source] = compare(parts[source], active)
        parts = [factor * part for factor, part in zip(self.factors, parts, strict=True)]
        return np.concatenate([features[:, :0], *parts], axis=1)


@dataclass(frozen=True, eq=False)
class ActivityFeatures:
    """Features of a parameter, or of a quantity of it, that may be inactive.

    A number in [0, 1] becomes a point of a quarter circle, and its inactive state the centre. This is the kernel of
    Swersky et al. 2014, "Raiders of the lost architecture: kernels for Bayesian optimization in conditional parameter
    spaces" (arXiv 1409.4011), section 2, after Hutter and Osborne 2013 (arXiv 1310.5738): the distance is 0 if both
    are inactive, a constant if one is, and otherwise increases with the difference of the values::

        g(x) = (0, 0) if inactive, else w (sin(pi rho x), cos(pi rho x))

    with rho = 1/2 and w = sqrt(1/2), so that the ends are at distance 1, turned by an eighth of a circle: the cosine
    is then at least 1/2 for every value and 0 without one, an explicit mark of the missing value for trees.

    Several columns, as of a categorical or an order, are moved so that their mean is 0, and a further column puts all
    values at the same distance from the inactive state, which is 0.

    Attributes:
        centre: Mean of the features, ``(k,)``; None for a single column.
        height: The further column where the parameter is active.
    """

    centre: Array | None = None
    height: float = 0.0

    @classmethod
    def around(cls, features: Features) -> ActivityFeatures:
        """Return the features whose columns have the mean of these, ``(n, k)``."""
        if features.shape[1] < 2:
            return cls()
        centre = features.mean(axis=0)
        radius = float(((features - centre) ** 2).sum(axis=1).mean())
        return cls(centre, np.sqrt(max(_INACTIVE - radius, 0.01)))

    def __call__(self, features: Features, active: Mask) -> Features:
        """Return the features of rows, ``(n, k)``, with one more column; rows of zeros where it is inactive."""
        if self.centre is None:
            angle = (features[:, 0] - 0.5) * (np.pi / 2.0)
            columns = np.sqrt(_INACTIVE) * np.column_stack([np.sin(angle), np.cos(angle)])
        else:
            columns = np.column_stack([features - self.centre, np.full(len(features), self.height)])
        return np.where(active[:, None], columns, 0.0)
