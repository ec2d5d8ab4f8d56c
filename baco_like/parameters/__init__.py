"""The built-in parameter types, and how to add another one."""

from baco_like.parameters.bases import ListedParameter
from baco_like.parameters.listed import Categorical, Ordinal
from baco_like.parameters.numeric import Integer, Real, SteppedReal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.priors import Gaussian, PiecewiseLinear
from baco_like.parameters.protocol import Parameter, ParameterKind
from baco_like.parameters.registry import register_parameter
from baco_like.parameters.sequence import Sequence, Subset
from baco_like.parameters.values import ColumnKind, Extent

__all__ = [
    "Categorical",
    "ColumnKind",
    "Extent",
    "Gaussian",
    "Integer",
    "ListedParameter",
    "Ordinal",
    "Parameter",
    "ParameterKind",
    "Permutation",
    "PiecewiseLinear",
    "Real",
    "Sequence",
    "SteppedReal",
    "Subset",
    "register_parameter",
]
