"""Our spaces in ConfigSpace's terms, such as SMAC3 and ytopt take; `Space.from_configspace` is the way back.

ConfigSpace forbids values, combinations of values, and comparisons of two parameters. It has no arithmetic, so other
constraints are written as the combinations that violate them, or refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from baco_like.constraints.protocol import Constraint
from baco_like.exceptions import MissingExtra, SpaceError
from baco_like.integrations.permutation_text import order_texts, with_texts, without_texts
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.parameters.values import plain
from baco_like.spaces import inputs as given
from baco_like.spaces.space import Space

try:
    import ConfigSpace as cs
    from ConfigSpace.hyperparameters import Hyperparameter
except ImportError:
    raise MissingExtra("ConfigSpace", "configspace") from None

__all__ = ["MOST_CLAUSES", "from_configuration", "to_configspace", "to_configuration"]

MOST_CLAUSES = 5000
"""Combinations that stand for one constraint at most: ConfigSpace tests every one of them for every draw."""

_MOST_TESTED = 1_000_000

_COMPARISON = re.compile(r"\s*([^\W\d]\w*)\s*(<=|<|>=|>|!=)\s*([^\W\d]\w*)\s*")

_VIOLATED: Mapping[str, Any] = {
    "<=": cs.ForbiddenGreaterThanRelation,
    "<": cs.ForbiddenGreaterThanEqualsRelation,
    ">=": cs.ForbiddenLessThanRelation,
    ">": cs.ForbiddenLessThanEqualsRelation,
    "!=": cs.ForbiddenEqualsRelation,
}


def to_configspace(space: Space, seed: int | None = None) -> cs.ConfigurationSpace:
    """Return a space as ConfigSpace's.

    A permutation becomes a categorical of texts such as ``"i,j,k"``. The default configuration is the space's if it is
    feasible, else some feasible one, because ConfigSpace refuses a forbidden one.

    Args:
        space: With constraints that can be written as comparisons of two parameters, or as at most `MOST_CLAUSES`
            forbidden combinations each.
        seed: Of what ConfigSpace draws.

    Raises:
        SpaceError: A constraint or a prior cannot be said in ConfigSpace, or a permutation is too long; the message
            names it.
    """
    default = space.default_config
    if default is None or not space.contains(default):
        (default,) = space.sample(1)
    texts = with_texts(default, space)
    made = {n: _hyperparameter(n, p, texts[n]) for n, p in space.parameters.items()}
    parts = [part for one in space.constraints for part in given.conjuncts(one)]
    clauses = [clause for part in parts for clause in _clauses(part, space, made)]
    found = cs.ConfigurationSpace(seed=seed)
    found.add(*made.values())
    found.add(*clauses)
    return found


def from_configuration(values: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """Return a ``Configuration`` of ConfigSpace as one of the space, in plain Python values."""
    return without_texts({name: plain(value) for name, value in values.items()}, space)


def to_configuration(
    config: Mapping[str, Any], space: Space, target: cs.ConfigurationSpace
) -> cs.Configuration:
    """Return a configuration as ConfigSpace's; the inverse of `from_configuration`.

    Raises:
        ConfigSpace.exceptions.IllegalValueError: A value is none of the target's.
        ConfigSpace.exceptions.ForbiddenValueError: The target forbids it.
    """
    return cs.Configuration(target, values=with_texts(config, space))


def _hyperparameter(name: str, one: Parameter, default: Any) -> Hyperparameter[Any, Any]:
    if getattr(one, "prior", None) is not None and not isinstance(one, Categorical):
        raise SpaceError(
            f"parameter {name!r}: its prior cannot be said in ConfigSpace; leave it out"
        )
    if isinstance(one, Permutation):
        return cs.CategoricalHyperparameter(name, order_texts(name, one, "ConfigSpace"), default)
    if one.cardinality == 1:
        return cs.Constant(name, default)
    if isinstance(one, Real):
        return cs.UniformFloatHyperparameter(name, one.low, one.high, default, log=one.log)
    if isinstance(one, Integer):
        return cs.UniformIntegerHyperparameter(name, one.low, one.high, default, log=one.log)
    if isinstance(one, Ordinal):
        return cs.OrdinalHyperparameter(name, one.values, default)
    if isinstance(one, Categorical):
        return cs.CategoricalHyperparameter(name, one.values, default, weights=one.prior)
    raise SpaceError(f"parameter {name!r}: a {type(one).__name__} cannot be said in ConfigSpace")


def _clauses(
    part: Constraint, space: Space, made: Mapping[str, Hyperparameter[Any, Any]]
) -> Iterator[Any]:
    """Yield what forbids the violations of a constraint, or of a part of one that ``and`` joins."""
    compared = _COMPARISON.fullmatch(part.text)
    if compared and all(_number(space.parameters.get(compared[i])) for i in (1, 3)):
        yield _VIOLATED[compared[2]](made[compared[1]], made[compared[3]])
        return
    read = {name: space.parameters[name] for name in part.parameters}
    count = math.prod(one.cardinality for one in read.values())
    if count > _MOST_TESTED:
        raise SpaceError(
            f"constraint {part.text!r:.100} cannot be said in ConfigSpace: it has no arithmetic, and there are "
            f"{count} combinations to list"
        )
    rows = _violating(part, read)
    if len(rows) > MOST_CLAUSES:
        raise SpaceError(
            f"constraint {part.text!r:.100} cannot be said in ConfigSpace: it has no arithmetic, and "
            f"{len(rows)} combinations violate it (at most {MOST_CLAUSES} can be listed)"
        )
    for row in rows:
        equal = [cs.ForbiddenEqualsClause(made[n], v) for n, v in with_texts(row, space).items()]
        yield cs.ForbiddenAndConjunction(*equal) if len(equal) > 1 else equal[0]


def _number(parameter: Parameter | None) -> bool:
    """Whether ConfigSpace can compare it: a number that varies."""
    if isinstance(parameter, Ordinal) and isinstance(parameter.values[0], str):
        return False
    return isinstance(parameter, Real | Integer | Ordinal) and parameter.cardinality != 1


def _violating(part: Constraint, read: Mapping[str, Parameter]) -> list[dict[str, Any]]:
    """Return the combinations of the parameters it reads that violate a constraint."""
    free = Space(read)
    (codes,) = free.feasible.iterate(_MOST_TESTED)
    columns = {name: one.column(codes[:, free.columns[name]]) for name, one in read.items()}
    return free.decode(codes[~np.asarray(part.holds(columns))])
