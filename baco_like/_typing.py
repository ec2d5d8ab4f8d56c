"""The array types of the package and the letters that name their sizes.

In every docstring: ``n`` rows (configurations), ``w`` code columns, ``d`` parameters, ``k`` feature columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
"""Any array of real numbers."""

Codes = npt.NDArray[np.float64]
"""Configurations as rows, ``(n, w)``: the number itself for a real, the index of the value for the other scalar
parameters, the position of every element for a permutation."""

Features = npt.NDArray[np.float64]
"""Inputs of a model, ``(n, k)``: columns whose Euclidean distance is the distance of the parameter."""

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Column = npt.NDArray[Any]
"""Values of one parameter, ``(n,)``; for a permutation of m elements its positions, ``(n, m)``."""

Rng = np.random.Generator
