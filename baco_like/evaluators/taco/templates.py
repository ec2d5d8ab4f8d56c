"""Sparse kernels as templates of schedules: SpMM, SDDMM and MTTKRP with BaCO's spaces (2023), SpMV and TTV with ours.

The expressions are those of the paper's Section 5.2. SpMM and SDDMM have the parameters and known constraints of its
artifact, 4.7e4 and 7.8e4 configurations (Table 3). In its MTTKRP neither the permutation nor the unroll factor reaches
the schedule; here they do, and the order in which the levels of the tensor have to be is a known constraint. Its SpMV
splits the coordinates of a compressed level, which gives wrong sums; ours splits its positions. Its TTV has hidden
constraints only, and so has ours.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.kernels.domains import Domain, choice, count, order_of
from baco_like.evaluators.taco.tensors import Sparse
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.spaces.space import Space

Expected = Callable[[Sparse, Sequence[NDArray[np.float64]]], NDArray[np.float64]]


@dataclass(frozen=True)
class Template:
    """A kernel and its schedules.

    Attributes:
        expression: In taco's notation; ``A`` is the result, which is dense, ``B`` the sparse operand.
        formats: A letter for each mode of each tensor, ``d`` dense or ``s`` compressed.
        loops: What the permutation orders, outermost first in the reference configuration.
        schedule: Taco's commands, with the parameters in braces.
        factors: Largest value of each split or unroll factor; all values are powers of two, from 2.
        constraints: Known ones, in the order of the loops and between the factors.
        shape: Returns a made sparse operand's dimensions from its rows.
        columns: Size of the index that is only in dense operands and the result, or None where there is none.
        expected: Computes the result from the operands.
        pairs: Which of the loops are two in the schedule, one right within the other.
    """

    expression: str
    formats: Mapping[str, str]
    loops: tuple[str, ...]
    schedule: str
    factors: Mapping[str, int]
    constraints: tuple[str, ...]
    shape: Callable[[int], tuple[int, ...]]
    columns: str | None
    expected: Expected
    pairs: Mapping[str, str] = field(default_factory=dict)

    @property
    def domains(self) -> Mapping[str, Domain]:
        """What its parameters can be; the defaults are the reference configuration, on one thread."""
        return {
            "order": order_of(*self.loops),
            **{name: count(16 if place == 0 else 8) for place, name in enumerate(self.factors)},
            "omp_chunk": count(),
            "omp_threads": count(high=1024),
            "omp_schedule": choice("static", "dynamic"),
        }

    def space(self, threads: int = 32) -> Space:
        """Return the space of schedules; its default is the one of the artifact's files.

        Args:
            threads: The largest number of threads; all powers of two up to it.
        """
        factors = {name: _powers(2, high) for name, high in self.factors.items()}
        numbers = {**factors, "omp_chunk": _powers(1, 256), "omp_threads": _powers(1, threads)}
        defaults = {
            name: values[-1 - place] if name in factors else values[-1]
            for place, (name, values) in enumerate(numbers.items())
        }
        return Space(
            {
                "order": Permutation(list(self.loops), default=self.loops),
                **{
                    name: Ordinal(values, log=True, default=defaults[name])
                    for name, values in numbers.items()
                },
                "omp_schedule": Categorical(["static", "dynamic"], default="static"),
            },
            constraints=self.constraints,
        )

    def reference(self, threads: int = 32) -> dict[str, Any]:
        """Return the configuration that the paper compares with, called expert there."""
        defaults = {name: domain.default for name, domain in self.domains.items()}
        return {**defaults, "omp_threads": threads}

    def commands(self, config: Mapping[str, Any]) -> str:
        """Return the schedule of a configuration."""
        order = ",".join(self.pairs.get(loop, loop) for loop in config["order"])
        return self.schedule.format(**{**config, "order": order})

    def operands(self, tensor: Sparse, columns: int, rng: np.random.Generator) -> list[Any]:
        """Return the dense operands that fit a sparse one, in the order of the expression."""
        names, sizes = _indices(self.expression), {}
        for index, size in zip(names["B"], tensor.shape, strict=True):
            sizes[index] = size
        if self.columns is not None:
            sizes[self.columns] = columns
        shapes = [
            [sizes[i] for i in indices] for name, indices in names.items() if name not in "AB"
        ]
        return [rng.uniform(-1.0, 1.0, shape) for shape in shapes]


def _indices(expression: str) -> dict[str, list[str]]:
    """Return the indices of each tensor, in the order of the expression."""
    factors = expression.replace("=", "*").split("*")
    return {
        name: rest.rstrip(")").split(",") for name, _, rest in (f.partition("(") for f in factors)
    }


def _powers(low: int, high: int) -> list[int]:
    return [2**p for p in range(low.bit_length() - 1, high.bit_length())]


def _spmm(tensor: Sparse, dense: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    product: NDArray[np.float64] = _matrix(tensor) @ dense[0]
    return product


def _sddmm(tensor: Sparse, dense: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    rows, columns = tensor.places.T
    products = np.einsum("pk,pk->p", dense[0][rows], dense[1].T[columns])
    return _summed(tensor.values * products, rows, columns, tensor.shape)


def _mttkrp(tensor: Sparse, dense: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    rows, *others = tensor.places.T
    products = np.prod([one[place] for one, place in zip(dense, others, strict=True)], axis=0)
    entries = np.arange(rows.size)
    shape = (tensor.shape[0], rows.size)
    summed: NDArray[np.float64] = _matrix_of(tensor.values, rows, entries, shape) @ products
    return summed


def _ttv(tensor: Sparse, dense: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    rows, columns, last = tensor.places.T
    return _summed(tensor.values * dense[0][last], rows, columns, tensor.shape[:2])


def _matrix(tensor: Sparse) -> Any:
    rows, columns = tensor.places.T
    return _matrix_of(tensor.values, rows, columns, tensor.shape)


def _matrix_of(values: Any, rows: Any, columns: Any, shape: tuple[int, ...]) -> Any:
    from scipy.sparse import csr_array

    height, width = shape
    return csr_array((values, (rows, columns)), shape=(height, width))


def _summed(values: Any, rows: Any, columns: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    summed: NDArray[np.float64] = _matrix_of(values, rows, columns, shape).toarray()
    return summed


def _before(*loops: str) -> tuple[str, ...]:
    """Return constraints: each loop is somewhere outside the next."""
    pairs = itertools.pairwise(loops)
    return tuple(f"pos(order, {a!r}) < pos(order, {b!r})" for a, b in pairs)


_ROW_SPLIT = "split(i,i0,i1,{chunk}),"
_STORED_SPLIT = "pos(j,jpos,B),split(jpos,jpos0,jpos1,{unroll}),"
_THREADS = "reorder({order}),parallelize(i0,CPUThread,NoRaces)"

TEMPLATES: Mapping[str, Template] = {
    "spmm": Template(
        expression="A(i,k)=B(i,j)*C(j,k)",
        formats={"A": "dd", "B": "ds", "C": "dd"},
        loops=("i0", "i1", "jpos0", "k", "jpos1"),
        schedule=f"{_ROW_SPLIT}{_STORED_SPLIT}{_THREADS},parallelize(k,CPUVector,IgnoreRaces)",
        factors={"chunk": 512, "unroll": 512},
        constraints=(
            "unroll < chunk",
            *_before("i0", "jpos0"),
            *_before("i1", "jpos0"),
            *_before("i0", "k"),
            *_before("i1", "k"),
            "pos(order, 'k') < pos(order, 'jpos0') or pos(order, 'k') < pos(order, 'jpos1')",
        ),
        shape=lambda rows: (rows, rows),
        columns="k",
        expected=_spmm,
    ),
    "sddmm": Template(
        expression="A(i,j)=B(i,j)*C(i,k)*D(k,j)",
        formats={"A": "dd", "B": "ds", "C": "dd", "D": "dd"},
        loops=("i0", "i1", "jpos0", "k", "jpos1"),
        schedule=f"{_ROW_SPLIT}{_STORED_SPLIT}{_THREADS},parallelize(jpos1,CPUVector,ParallelReduction)",
        factors={"chunk": 512, "unroll": 512},
        constraints=(
            "unroll < chunk",
            *(c for row in ("i0", "i1") for s in ("jpos0", "jpos1") for c in _before(row, s)),
        ),
        shape=lambda rows: (rows, rows),
        columns="k",
        expected=_sddmm,
    ),
    "mttkrp": Template(
        expression="A(i,j)=B(i,k,l,m)*C(k,j)*D(l,j)*E(m,j)",
        formats={"A": "dd", "B": "dsss", "C": "dd", "D": "dd", "E": "dd"},
        loops=("i1", "k", "l", "m", "j"),
        schedule=f"{_ROW_SPLIT}pos(m,mpos,B),split(mpos,mpos0,mpos1,{{unroll}}),"
        "reorder(i0,{order}),parallelize(i0,CPUThread,NoRaces)",
        factors={"chunk": 1024, "unroll": 1024},
        constraints=("unroll < chunk", *_before("i1", "k", "l", "m")),
        shape=lambda rows: (rows, 64, 48, 32),
        columns="j",
        expected=_mttkrp,
        pairs={"m": "mpos0,mpos1"},
    ),
    "spmv": Template(
        expression="A(i)=B(i,j)*C(j)",
        formats={"A": "d", "B": "ds", "C": "d"},
        loops=("i0", "i1", "jpos0", "jpos1"),
        schedule=f"{_ROW_SPLIT}{_STORED_SPLIT}{_THREADS}",
        factors={"chunk": 1024, "unroll": 1024},
        constraints=tuple(
            c for row in ("i0", "i1") for s in ("jpos0", "jpos1") for c in _before(row, s)
        ),
        shape=lambda rows: (rows, rows),
        columns=None,
        expected=_spmm,
    ),
    "ttv": Template(
        expression="A(i,j)=B(i,j,k)*C(k)",
        formats={"A": "dd", "B": "dss", "C": "d"},
        loops=("fpos0", "fpos1", "kpos0", "kpos1"),
        schedule="fuse(i,j,f),pos(f,fpos,B),split(fpos,fpos0,fpos1,{chunk}),pos(k,kpos,B),"
        "split(kpos,kpos0,kpos1,{unroll}),reorder({order}),parallelize(fpos0,CPUThread,NoRaces)",
        factors={"chunk": 1024, "unroll": 1024},
        constraints=(),
        shape=lambda rows: (rows, 256, 128),
        columns=None,
        expected=_ttv,
    ),
}
"""By name."""
