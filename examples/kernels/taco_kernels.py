"""Sparse kernels scheduled by TACO, for the evaluator `kind = "c"`: SpMM, SDDMM, MTTKRP, SpMV and TTV.

Needs the program taco (github.com/tensor-compiler/taco) and a C compiler with OpenMP. Taco writes the kernel of a
schedule in C. Set the constants below in this file, or in the table [evaluator.constants] of a TOML file.

The expressions are those of BaCO's paper (2023, Section 5.2). SpMM and SDDMM have the parameters and known constraints
of its artifact, 4.7e4 and 7.8e4 configurations (Table 3). In the artifact's MTTKRP neither the permutation nor the
unroll factor reaches the schedule. Here they do, and the required order of the tensor's levels is a known constraint.
The artifact's SpMV splits the coordinates of a compressed level, which gives wrong sums; here the positions are split.
TTV has only hidden constraints, in the artifact and here.
"""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import taco_tensors as tensors

from baco_like import Categorical, EvaluatorError, Infeasible, Ordinal, Permutation, Space
from baco_like.evaluators import kernels, run_command

KERNEL = "spmm"  # or sddmm, mttkrp, spmv, ttv
TENSOR = ""  # file (.mtx, .tns) of the sparse operand, relative to this file; empty to draw one with `size` rows
COLUMNS = 64  # size of the index that only dense operands have
TACO = "taco"  # name or path of the program
TACO_TIMEOUT = 60.0  # seconds
FLAGS = ["-O3", "-march=native", "-ffast-math", "-fopenmp"]  # of the C compiler


@dataclass(frozen=True)
class Template:
    """A kernel and its schedules.

    Attributes:
        expression: In taco's notation; A is the result, which is dense, and B the sparse operand.
        formats: A letter for each mode of each tensor, ``d`` dense or ``s`` compressed.
        loops: The elements of the permutation, in the order of the reference configuration.
        schedule: Taco's commands, with the parameters in braces.
        factors: Largest value of each split or unroll factor; all values are powers of two, from 2.
        constraints: Known constraints.
        shape: Returns the dimensions of a drawn sparse operand from its number of rows.
        columns: The index that only dense operands and the result have, or None.
        expected: Computes the result from the operands.
        pairs: Elements of the permutation that are two adjacent loops in the schedule.
    """

    expression: str
    formats: Mapping[str, str]
    loops: tuple[str, ...]
    schedule: str
    factors: Mapping[str, int]
    constraints: tuple[str, ...]
    shape: Callable
    columns: str | None
    expected: Callable
    pairs: Mapping[str, str] = field(default_factory=dict)

    def domains(self):
        """Return the allowed values of each parameter; the defaults are the reference configuration, on one thread."""
        return {
            "order": kernels.order_of(*self.loops),
            **{name: kernels.count(16 if i == 0 else 8) for i, name in enumerate(self.factors)},
            "omp_chunk": kernels.count(),
            "omp_threads": kernels.count(high=1024),
            "omp_schedule": kernels.choice("static", "dynamic"),
        }

    def space(self, threads=32):
        """Return the space of schedules; its default is the one of the artifact's files.

        Args:
            threads: The largest number of threads; the values are all powers of two up to it.
        """
        factors = {name: powers(2, high) for name, high in self.factors.items()}
        numbers = {**factors, "omp_chunk": powers(1, 256), "omp_threads": powers(1, threads)}
        defaults = {
            name: values[-1 - i] if name in factors else values[-1]
            for i, (name, values) in enumerate(numbers.items())
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

    def reference(self, threads=32):
        """Return the configuration that the paper compares with (there: expert)."""
        return {
            **kernels.complete_config(self.expression, self.domains(), {}),
            "omp_threads": threads,
        }

    def commands(self, config):
        """Return the schedule of a configuration."""
        order = ",".join(self.pairs.get(loop, loop) for loop in config["order"])
        return self.schedule.format(**{**config, "order": order})

    def operands(self, tensor, columns, rng):
        """Return dense operands that fit a sparse one, in the order of the expression."""
        names, sizes = indices(self.expression), {}
        for index, size in zip(names["B"], tensor.shape, strict=True):
            sizes[index] = size
        if self.columns is not None:
            sizes[self.columns] = columns
        shapes = [[sizes[i] for i in names[name]] for name in names if name not in "AB"]
        return [rng.uniform(-1.0, 1.0, shape) for shape in shapes]


def template():
    """Return the template of `KERNEL`."""
    if KERNEL not in TEMPLATES:
        raise EvaluatorError(f"KERNEL = {KERNEL!r}: expected one of {', '.join(TEMPLATES)}")
    return TEMPLATES[KERNEL]


def domains():
    """Return the allowed values of each parameter."""
    return template().domains()


def space(size, threads=32):
    """Return the space of schedules; any size has the same space."""
    return template().space(threads)


def requirements(parameters):
    """Check that taco and the tensor's file exist; return the compiler flags that are needed."""
    if shutil.which(TACO) is None:
        raise EvaluatorError(
            f"TACO: the program {TACO!r} is not on PATH; install it or name another"
        )
    if TENSOR and not tensor_path().is_file():
        raise EvaluatorError(f"TENSOR = {TENSOR!r}: there is no file {str(tensor_path())!r}")
    return ["-fopenmp"]


def tensor_path():
    return Path(__file__).parent / TENSOR


def inputs(size, rng):
    """Return for each tensor its dimensions, the positions and coordinates of each compressed mode, and its values.

    The result A has only its dimensions here: its values are the output of the kernel.
    """
    kernel = template()
    sparse = read_tensor() if TENSOR else tensors.draw(kernel.shape(size), rng)
    dense = kernel.operands(sparse, COLUMNS, rng)
    levels, values = tensors.store(sparse, kernel.formats["B"])
    arrays = [np.array(sparse.shape, np.int32)]
    arrays += [array for level in levels if level is not None for array in level]
    arrays.append(values)
    for operand in dense:
        arrays += [np.array(operand.shape, np.int32), operand]
    return [np.array(expected(None, *arrays).shape, np.int32), *arrays]


def read_tensor():
    """Read the sparse operand from its file."""
    sparse, order = tensors.read(tensor_path()), len(template().formats["B"])
    if len(sparse.shape) != order:
        raise EvaluatorError(
            f"tensor {TENSOR!r} has {len(sparse.shape)} dimensions, the kernel needs {order}"
        )
    return sparse


def expected(_, *arrays):
    """Return the result, computed by SciPy from the arrays of `inputs`."""
    kernel, rest = template(), list(arrays)
    shape = rest.pop(0)
    levels = [(rest.pop(0), rest.pop(0)) if f == "s" else None for f in kernel.formats["B"]]
    sparse = tensors.restore(shape, levels, rest.pop(0))
    return kernel.expected(sparse, rest[1::2])


def flags(config):
    """Return the compiler's flags."""
    return FLAGS


def environment(config):
    """Return the variables that OpenMP's schedule(runtime) reads, which taco writes."""
    return {
        "OMP_NUM_THREADS": str(config["omp_threads"]),
        "OMP_SCHEDULE": f"{config['omp_schedule']},{config['omp_chunk']}",
        "OMP_DYNAMIC": "false",
    }


def source(config, size):
    """Return the C source: the function `compute` that taco writes, and the function `kernel` that calls it."""
    kernel = template()
    formats = [f"-f={name}:{letters}" for name, letters in kernel.formats.items()]
    with tempfile.TemporaryDirectory() as folder:
        command = [TACO, kernel.expression, *formats, f"-s={kernel.commands(config)}"]
        command += ["-print-nocolor", "-write-source=kernel.c"]
        finished = run_command(command, timeout=TACO_TIMEOUT, folder=Path(folder))
        if not finished.ok:
            word = "timeout" if finished.timed_out else "compile"
            raise Infeasible(f"taco: {finished.describe()}", word)
        return (Path(folder) / "kernel.c").read_text(encoding="utf-8") + caller(kernel.formats)


CALLER = r"""
#include <stdlib.h>
static taco_tensor_t *tensors[@COUNT@];

/* Make a tensor at the first call; set its arrays at each call, as each launch may have other ones. */
static taco_tensor_t *make(taco_tensor_t *tensor, int order, const int32_t *dimensions, const char *formats,
                           const void **levels, const void *values)
{
    if (!tensor) {
        tensor = calloc(1, sizeof *tensor);
        tensor->mode_ordering = calloc(order, sizeof(int32_t));
        tensor->mode_types = calloc(order, sizeof(taco_mode_t));
        tensor->indices = calloc(order, sizeof(uint8_t **));
        for (int m = 0; m < order; m++) tensor->indices[m] = calloc(2, sizeof(uint8_t *));
    }
    tensor->order = order;
    tensor->csize = sizeof(double);
    tensor->dimensions = (int32_t *)dimensions;
    tensor->vals_size = 1;
    for (int m = 0; m < order; m++) {
        tensor->mode_ordering[m] = m;
        tensor->mode_types[m] = formats[m] == 's' ? taco_mode_sparse : taco_mode_dense;
        tensor->indices[m][0] = (uint8_t *)(formats[m] == 's' ? *levels++ : dimensions + m);
        tensor->indices[m][1] = (uint8_t *)(formats[m] == 's' ? *levels++ : NULL);
        tensor->vals_size *= formats[m] == 's' ? 1 : dimensions[m]; /* kernels need it for the dense result only */
    }
    tensor->vals = (uint8_t *)values;
    return tensor;
}

void kernel(@PARAMETERS@)
{
@MAKE@
    if (compute(@ARGUMENTS@)) exit(73);
}
"""


def caller(formats):
    """Return the C function that turns the arrays of `inputs` into TACO's tensors and calls the kernel."""
    parameters, lines = [], []
    for number, (name, letters) in enumerate(formats.items()):
        levels = [f"{name}_{m}_{part}" for m, f in enumerate(letters) if f == "s" for part in "pc"]
        values = f"{name}_values"
        parameters += [f"{name}_dimensions", *levels, *([values] if name != "A" else [])]
        listed = ", ".join(levels) or "NULL"
        lines.append(
            f'    tensors[{number}] = make(tensors[{number}], {len(letters)}, {name}_dimensions, "{letters}", '
            f"(const void *[]){{{listed}}}, {values});"
        )
    text = CALLER.replace("@COUNT@", str(len(formats))).replace("@MAKE@", "\n".join(lines))
    declared = [*(f"const void *{name}" for name in parameters), "void *A_values"]
    text = text.replace("@PARAMETERS@", ", ".join(declared))
    return text.replace("@ARGUMENTS@", ", ".join(f"tensors[{i}]" for i in range(len(formats))))


def indices(expression):
    """Return the indices of each tensor, in the order of the expression."""
    factors = expression.replace("=", "*").split("*")
    return {
        name: rest.rstrip(")").split(",") for name, _, rest in (f.partition("(") for f in factors)
    }


def powers(low, high):
    return [2**p for p in range(low.bit_length() - 1, high.bit_length())]


def spmm(tensor, dense):
    return matrix_of(tensor.values, *tensor.places.T, tensor.shape) @ dense[0]


def sddmm(tensor, dense):
    rows, columns = tensor.places.T
    products = np.einsum("pk,pk->p", dense[0][rows], dense[1].T[columns])
    return matrix_of(tensor.values * products, rows, columns, tensor.shape).toarray()


def mttkrp(tensor, dense):
    rows, *others = tensor.places.T
    factors = [operand[place] for operand, place in zip(dense, others, strict=True)]
    entries = np.arange(rows.size)
    shape = (tensor.shape[0], rows.size)
    return matrix_of(tensor.values, rows, entries, shape) @ np.prod(factors, axis=0)


def ttv(tensor, dense):
    rows, columns, last = tensor.places.T
    return matrix_of(tensor.values * dense[0][last], rows, columns, tensor.shape[:2]).toarray()


def matrix_of(values, rows, columns, shape):
    from scipy.sparse import csr_array

    return csr_array((values, (rows, columns)), shape=tuple(shape))


def outside(*loops):
    """Return constraints: each loop is outside the next."""
    pairs = itertools.pairwise(loops)
    return tuple(f"pos(order, {a!r}) < pos(order, {b!r})" for a, b in pairs)


ROW_SPLIT = "split(i,i0,i1,{chunk}),"
STORED_SPLIT = "pos(j,jpos,B),split(jpos,jpos0,jpos1,{unroll}),"
THREADS = "reorder({order}),parallelize(i0,CPUThread,NoRaces)"

TEMPLATES = {
    "spmm": Template(
        expression="A(i,k)=B(i,j)*C(j,k)",
        formats={"A": "dd", "B": "ds", "C": "dd"},
        loops=("i0", "i1", "jpos0", "k", "jpos1"),
        schedule=f"{ROW_SPLIT}{STORED_SPLIT}{THREADS},parallelize(k,CPUVector,IgnoreRaces)",
        factors={"chunk": 512, "unroll": 512},
        constraints=(
            "unroll < chunk",
            *outside("i0", "jpos0"),
            *outside("i1", "jpos0"),
            *outside("i0", "k"),
            *outside("i1", "k"),
            "pos(order, 'k') < pos(order, 'jpos0') or pos(order, 'k') < pos(order, 'jpos1')",
        ),
        shape=lambda rows: (rows, rows),
        columns="k",
        expected=spmm,
    ),
    "sddmm": Template(
        expression="A(i,j)=B(i,j)*C(i,k)*D(k,j)",
        formats={"A": "dd", "B": "ds", "C": "dd", "D": "dd"},
        loops=("i0", "i1", "jpos0", "k", "jpos1"),
        schedule=f"{ROW_SPLIT}{STORED_SPLIT}{THREADS},parallelize(jpos1,CPUVector,ParallelReduction)",
        factors={"chunk": 512, "unroll": 512},
        constraints=(
            "unroll < chunk",
            *(c for row in ("i0", "i1") for s in ("jpos0", "jpos1") for c in outside(row, s)),
        ),
        shape=lambda rows: (rows, rows),
        columns="k",
        expected=sddmm,
    ),
    "mttkrp": Template(
        expression="A(i,j)=B(i,k,l,m)*C(k,j)*D(l,j)*E(m,j)",
        formats={"A": "dd", "B": "dsss", "C": "dd", "D": "dd", "E": "dd"},
        loops=("i1", "k", "l", "m", "j"),
        schedule=f"{ROW_SPLIT}pos(m,mpos,B),split(mpos,mpos0,mpos1,{{unroll}}),"
        "reorder(i0,{order}),parallelize(i0,CPUThread,NoRaces)",
        factors={"chunk": 1024, "unroll": 1024},
        constraints=("unroll < chunk", *outside("i1", "k", "l", "m")),
        shape=lambda rows: (rows, 64, 48, 32),
        columns="j",
        expected=mttkrp,
        pairs={"m": "mpos0,mpos1"},
    ),
    "spmv": Template(
        expression="A(i)=B(i,j)*C(j)",
        formats={"A": "d", "B": "ds", "C": "d"},
        loops=("i0", "i1", "jpos0", "jpos1"),
        schedule=f"{ROW_SPLIT}{STORED_SPLIT}{THREADS}",
        factors={"chunk": 1024, "unroll": 1024},
        constraints=tuple(
            c for row in ("i0", "i1") for s in ("jpos0", "jpos1") for c in outside(row, s)
        ),
        shape=lambda rows: (rows, rows),
        columns=None,
        expected=spmm,
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
        expected=ttv,
    ),
}
