"""The parameter types (real, integer, ordinal, categorical, permutation, sequence), and how to add another one."""

from baco_like.parameters.bases import ListedParameter
from baco_like.parameters.listed import Categorical, Ordinal
from baco_like.parameters.numeric import Integer, Real, SteppedReal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.priors import Gaussian, PiecewiseLinear
from baco_like.parameters.protocol import (
    ContinuousParameter,
    Parameter,
    ParameterKind,
    PermutationParameter,
    SequenceParameter,
    is_continuous,
    is_permutation,
    is_sequence,
)
from baco_like.parameters.registry import parameter_from_dict, parameter_to_dict, register_parameter
from baco_like.parameters.sequence import Sequence, Subset
from baco_like.parameters.values import ColumnKind, Extent

__all__ = [
    "Categorical",
    "ColumnKind",
    "ContinuousParameter",
    "Extent",
    "Gaussian",
    "Integer",
    "ListedParameter",
    "Ordinal",
    "Parameter",
    "ParameterKind",
    "Permutation",
    "PermutationParameter",
    "PiecewiseLinear",
    "Real",
    "Sequence",
    "SequenceParameter",
    "SteppedReal",
    "Subset",
    "is_continuous",
    "is_permutation",
    "is_sequence",
    "parameter_from_dict",
    "parameter_to_dict",
    "register_parameter",
]
