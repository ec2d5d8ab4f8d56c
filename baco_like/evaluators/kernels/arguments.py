"""The arguments of a kernel: their values before and after a launch, and the memory in which the kernel finds them.

A launch must not profit from an earlier one. Before each launch, outside the timed part, outputs get their start value,
and inputs that the kernel changes get their value back. Memory before and after each array has a known pattern, so that
a write outside an array is found.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.comparison import Comparison, Expected, type_name
from baco_like.exceptions import EvaluatorError

GUARD = 4096
"""Bytes of known pattern before and after each array, at least."""

DEVICE_GUARDS = 1 << 20, 1 << 20
"""The bytes on a device, where no gap follows them."""

_CHECKED = 2 * GUARD
"""Of them, the bytes that are compared after later launches: to read all would empty the caches."""

GAP = 16 << 20
"""Bytes without access before and after the memory of an array; they take addresses only."""

CLEAREST = 0xFF
"""Byte that fills outputs with NaN or -1, the clearest in a message."""

_FILLS = (0xFA, 0x7A, CLEAREST)
"""Bytes that fill outputs without a start value, by turns: a large number of each sign, and NaN or -1.

An element that is not written is right after at most one of them. The first launch and the first timed one have the
large numbers, which show a maximum or minimum that starts from them. Booleans get the highest bit, which those two
have not in common."""

_SHIFT = 320
"""Bytes by which the start of each array is shifted within its page.

The offset decides how fast vector loads are, so it has to be the same in every process. Arrays whose addresses differ
by whole pages compete for the same cache sets; therefore each array of a kernel has another offset."""

LARGEST_ALIGNMENT = 64
"""Bytes to which arrays of the host are aligned in timed launches; the shifts are multiples of it."""

_MOST_COPIES = 64
"""Largest number of copies of all arrays."""

TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
"""Types of elements and of scalars; a target may support fewer."""


TIMED, FIRST, LATER = range(3)
"""The values of the timed launches, those of the first launch, and those of launches that show whether a kernel keeps
results."""


@dataclass(frozen=True)
class Input:
    """An argument that the kernel reads: the next value of ``inputs``.

    Attributes:
        constant: Whether the kernel must not write to it.
        alignment: Bytes to which every caller aligns the array, in C: a power of two up to 64; None: its elements only.
    """

    constant: bool = False
    alignment: int | None = None


@dataclass(frozen=True)
class Output:
    """An argument that the kernel writes: the next array of ``expected``.

    Attributes:
        start: Its value before each launch: an array, a number for all elements, or a function that gets the inputs and
            returns the array. None: by turns NaN (-1 for integers), a large positive and a large negative number.
        alignment: As for `Input`.
    """

    start: Any = None
    alignment: int | None = None


@dataclass(frozen=True)
class InOut:
    """An argument that the kernel reads and writes: the next value of ``inputs``, then the next of ``expected``.

    Attributes:
        alignment: As for `Input`.
    """

    alignment: int | None = None


@dataclass(frozen=True)
class Scalar:
    """A number that is passed by value: the next value of ``inputs``.

    Attributes:
        type: Its type, such as ``int32``.
    """

    type: str


@dataclass(frozen=True)
class Argument:
    """An argument with its values.

    Attributes:
        name: For messages, such as ``input 0``.
        like: An array of its shape and type.
        start: Its value before a launch; None for an output without one.
        expected: Its correct value after a launch; None if it is not compared.
        role: ``input``, ``constant``, ``output`` or ``scalar``.
        seed: Seed of the inputs.
        alignment: Bytes to which callers align it.
    """

    name: str
    like: NDArray[Any]
    start: NDArray[Any] | None
    expected: Expected | None
    role: str
    seed: int = 0
    alignment: int = 1


def draw_arguments(
    problem: ModuleType, size: int, seed: int, tolerances: Mapping[str, float | None]
) -> list[Argument]:
    """Return the arguments of a problem with the values of one seed.

    Args:
        problem: The problem file.
        size: The problem's size.
        seed: Seed of the inputs.
        tolerances: Arguments of `Expected`.

    Raises:
        EvaluatorError: The file declares other arguments than its functions return, or a type is not supported.
    """
    values = [_as_value(value) for value in problem.inputs(size, np.random.default_rng(seed))]
    # Copies, as a function may sort or scale its arguments in place.
    result = problem.expected(*(value.copy() for value in values))
    results = [np.asarray(each) for each in (result if isinstance(result, tuple) else (result,))]
    magnitude = None
    if hasattr(problem, "magnitude"):
        magnitude = float(problem.magnitude(*(value.copy() for value in values)))
    if hasattr(problem, "arguments"):
        declared = list(problem.arguments(size))
    else:
        declared = [Scalar(v.dtype.name) if isinstance(v, np.generic) else Input() for v in values]
        declared += [Output() for _ in results]
    for function, given, kinds in (
        ("inputs", values, (Input, InOut, Scalar)),
        ("expected", results, (Output, InOut)),
    ):
        wanted = sum(isinstance(each, kinds) for each in declared)
        if wanted != len(given):
            raise EvaluatorError(
                f"{function} returns {len(given)} values, but arguments declares {wanted} of them"
            )
    arguments, given_values, given_results = [], iter(values), iter(results)
    for number, each in enumerate(declared):
        name = f"argument {number}"
        start = None if isinstance(each, Output) else next(given_values)
        expected = None
        if isinstance(each, (Output, InOut)):
            array = np.ascontiguousarray(next(given_results))
            expected = Expected(
                array, **tolerances, magnitude=magnitude, name=f"the result of {name}"
            )
            if isinstance(each, Output) and each.start is not None:
                made = each.start(*values) if callable(each.start) else each.start
                start = np.array(np.broadcast_to(np.asarray(made, array.dtype), array.shape))
            if start is not None and (start.shape, start.dtype) != (array.shape, array.dtype):
                raise EvaluatorError(
                    f"{name} starts as {start.dtype}{list(start.shape)}, but expected returns "
                    f"{array.dtype}{list(array.shape)}"
                )
        if isinstance(each, Scalar):
            if each.type not in TYPES or each.type == "bfloat16":
                raise EvaluatorError(
                    f"{name} has the type {each.type!r}: expected one of {', '.join(TYPES)}"
                )
            start = np.asarray(start, dtype=each.type)
            if start.ndim:
                raise EvaluatorError(f"{name} is a scalar, but inputs returns an array for it")
            role = "scalar"
        else:
            role = "output" if expected else "constant" if each.constant else "input"
        like = start if expected is None else expected.array
        assert like is not None
        if type_name(like.dtype) not in TYPES or not like.dtype.isnative:
            raise EvaluatorError(
                f"{name} has elements of type {like.dtype}: expected one of {', '.join(TYPES)}"
            )
        start = None if start is None else np.ascontiguousarray(start).reshape(like.shape)
        least = like.itemsize // (2 if like.dtype.kind == "c" else 1)
        alignment = getattr(each, "alignment", None) or least
        if alignment not in (1, 2, 4, 8, 16, 32, LARGEST_ALIGNMENT) or alignment < least:
            raise EvaluatorError(
                f"{name} has the alignment {alignment!r}: expected a power of two from {least} to {LARGEST_ALIGNMENT}"
            )
        arguments.append(Argument(name, like, start, expected, role, seed, alignment))
    return arguments


def _as_value(value: Any) -> Any:
    """Return an input as an array, or as a NumPy scalar if it is one."""
    return value if isinstance(value, np.generic) else np.asarray(value)


@functools.lru_cache(64)
def _pattern(size: int) -> NDArray[np.uint8]:
    return np.resize(np.random.default_rng(0xBAC0).integers(0, 256, GUARD, np.uint8), size)


class Block(Protocol):
    """Memory of an array with guards. Offsets begin at the array; they are negative in the guard before it.

    Attributes:
        guards: Bytes before and after the array, `GUARD` or more.
    """

    guards: tuple[int, int]

    def write(self, offset: int, content: NDArray[np.uint8]) -> None:
        """Write bytes."""

    def fill(self, size: int, byte: int) -> None:
        """Fill the first bytes of the array with one byte."""

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return bytes; they may change with the memory."""


class Arguments:
    """The arguments of a kernel in the memory of a target.

    Args:
        draws: The arguments for three seeds: `TIMED`, `FIRST` and `LATER`.
        allocate: Returns memory for an array of so many bytes, the argument with this number.
        restore: ``auto``, ``always`` or ``never``, see `KernelSettings`.
        rotated: Bytes that are written between two launches with the same copy of the arrays, at least; 0: one copy.
        moves: Whether the memory can `HostBlock.move`: in the first launch each array then ends before a gap.

    Attributes:
        copies: The memory of each argument, None for scalars, in each copy of all arrays.
        are_fixed: Whether all draws have the same inputs.
        constant: Numbers of the inputs that the source of the kernel declares constant.

    Raises:
        EvaluatorError: The draws differ in the types of arguments, the target refuses an argument, or the arrays are so
            small that many copies would be needed.
    """

    def __init__(
        self,
        draws: Sequence[Sequence[Argument]],
        allocate: Callable[[int, int], Any],
        restore: str,
        rotated: int = 0,
        *,
        moves: bool = False,
    ) -> None:
        first = draws[TIMED]
        types = [[(a.role, a.like.dtype) for a in draw] for draw in draws]
        if any(each != types[TIMED] for each in types):
            raise EvaluatorError("inputs returns arrays of other types for another seed")
        self._draws, self._restore, self._moves, self.draw = draws, restore, moves, TIMED
        self._fills = itertools.cycle(_FILLS)
        starts = [[as_bytes(a.start) for a in draw if a.start is not None] for draw in draws]
        self.are_fixed = all(map(same_bytes, starts[TIMED], starts[FIRST]))
        self._capacities = [max(a.like.nbytes for a in each) for each in zip(*draws, strict=True)]
        size = sum(n for n, a in zip(self._capacities, first, strict=True) if a.role != "scalar")
        copies = 1 + -(-rotated // max(size, 1))
        if copies > _MOST_COPIES:
            raise EvaluatorError(
                f"flush = 'rotate' needs {copies} copies of the arrays, which have {size} bytes, to exceed the caches; "
                f"the limit is {_MOST_COPIES}: write flush = true"
            )
        self.copies: list[list[Any]] = [
            [
                None if argument.role == "scalar" else allocate(self._capacities[number], number)
                for number, argument in enumerate(first)
            ]
            for _ in range(copies)
        ]
        self._turn = len(self.copies) - 1  # the copy in use
        self.constant: Sequence[int] = ()
        self._kept: Sequence[int] = ()  # inputs whose timed values have separate pages
        self.restored = set[int]()  # inputs that get their value before each launch, by number
        # The outputs with a digest, by the draw, the number and the digest.
        self._compared: dict[tuple[int, int, int | None], Comparison] = {}

    def __getitem__(self, number: int) -> Argument:
        return self._draws[self.draw][number]

    @property
    def blocks(self) -> list[Any]:
        """The memory of each argument in the copy that is in use; None for scalars."""
        return self.copies[self._turn]

    @property
    def written(self) -> list[int]:
        """Numbers of the arguments that get their start value before each launch."""
        outputs = [n for n, a in enumerate(self._draws[self.draw]) if a.role == "output"]
        return sorted({*outputs, *self.restored})

    def place(self, draw: int = TIMED, *, is_new: bool = False) -> None:
        """Write the values of all inputs, and the guards. `restore` writes the outputs, before each launch.

        Args:
            draw: Which values; only the timed ones are written to all copies.
            is_new: Whether another kernel follows, of which is not known which inputs it changes.
        """
        self.draw = draw
        if is_new:
            self._fills = itertools.cycle(_FILLS)
            roles = enumerate(a.role for a in self._draws[draw])
            self.restored = {
                n for n, role in roles if role == "input" and self._restore == "always"
            }
        self._turn = len(self.copies) - 1  # so the next timed launch uses the first copy
        for blocks in self.copies if draw == TIMED else [self.blocks]:
            for number, block in enumerate(blocks if self._moves else ()):
                if block:
                    place = (self[number].like.nbytes, self[number].alignment)
                    block.move(*(place if draw == FIRST else ()))
            recalled = [n for n in self._kept if draw == TIMED and blocks[n].recall()]
            written = [n for n, block in enumerate(blocks) if block and n not in recalled]
            for number in written:
                size, block = self[number].like.nbytes, blocks[number]
                before, after = block.guards
                block.write(-before, _pattern(before))
                block.write(size, _pattern(self._capacities[number] - size + after))
            self._write_starts([n for n in written if self[n].role != "output"], blocks)

    def keep(self) -> None:
        """Keep the timed inputs in separate pages: a forked child then gets them without a copy by `place`."""
        if len(self.copies) == 1:
            self.place()
            roles = [argument.role for argument in self._draws[TIMED]]
            self._kept = [n for n, role in enumerate(roles) if role in ("input", "constant")]
            for number in self._kept:
                self.blocks[number].keep()

    def restore(self, fill: int | None = None) -> None:
        """Take the next copy with timed values; the outputs and the changed inputs have their start values.

        All copies are written before the first one is used again: then the others' data are in the caches.

        Args:
            fill: Byte for outputs without a start value; None: the next of several.
        """
        fill = next(self._fills) if fill is None else fill
        if self.draw != TIMED:
            self._write_starts(self.written, self.blocks, fill)
            return
        self._turn = (self._turn + 1) % len(self.copies)
        if self._turn == 0:
            for blocks in self.copies:
                self._write_starts(self.written, blocks, fill)

    def _write_starts(self, numbers: Sequence[int], blocks: Sequence[Any], fill: int = 0) -> None:
        for number in numbers:
            start, like, block = self[number].start, self[number].like, blocks[number]
            if start is None:
                block.fill(like.nbytes, fill >> 7 if like.dtype == bool else fill)
            elif start.nbytes:
                block.write(0, as_bytes(start))

    def check(
        self, *, is_first: bool, has_inputs: bool = True, digests: Mapping[int, int] = {}
    ) -> Comparison:
        """Return how far the outputs are from the correct ones, and what else the kernel has done wrong.

        Args:
            is_first: Whether only the first launch has run. Inputs that it has changed are restored from now on.
            has_inputs: Whether the inputs are compared, too. A change of one that is not restored can be found later.
            digests: Hashes of outputs, by number; equal ones are compared once.
        """
        errors, problems = [0.0], []
        several = sum(a.expected is not None for a in self._draws[self.draw]) > 1
        for number, block in enumerate(self.blocks):
            if block is None:
                continue
            argument = self[number]
            problems += self._find_writes_outside(number, block, is_first)
            if argument.expected is not None:
                key = self.draw, number, digests.get(number)
                found = self._compared.get(key)
                if found is None:
                    content = block.read(0, argument.like.nbytes)
                    found = argument.expected.compare(
                        content.view(argument.like.dtype).reshape(argument.like.shape)
                    )
                    if key[2] is not None:
                        self._compared[key] = found
                errors.append(found.error)
                if found.problem is not None:
                    problems.append(
                        f"{argument.name}: {found.problem}" if several else found.problem
                    )
            elif has_inputs and (problem := self._find_change(number, block, is_first)):
                problems.append(problem)
        return Comparison(max(errors), problems[0] if problems else None)

    def _find_writes_outside(self, number: int, block: Block, is_first: bool) -> list[str]:
        size, (before, after) = self[number].like.nbytes, block.guards
        checked = max(block.guards) if is_first else _CHECKED
        pattern = _pattern(before)[-checked:]
        if not same_bytes(found := block.read(-pattern.size, pattern.size), pattern):
            distance = pattern.size - int(np.flatnonzero(found != pattern)[-1])
            return [f"a write {distance} bytes before the start of {self[number].name}"]
        pattern = _pattern(self._capacities[number] - size + after)[:checked]
        if not same_bytes(found := block.read(size, pattern.size), pattern):
            distance = int(np.flatnonzero(found != pattern)[0])
            return [f"a write {distance} bytes after the end of {self[number].name}"]
        return []

    def _find_change(self, number: int, block: Block, is_first: bool) -> str | None:
        argument, is_const = self[number], number in self.constant
        is_constant = argument.role == "constant" or (is_const and self._restore != "never")
        is_watched = is_constant or (self._restore == "auto" and number not in self.restored)
        if not is_watched or argument.start is None:
            return None
        if same_bytes(block.read(0, argument.like.nbytes), as_bytes(argument.start)):
            return None
        if is_constant:
            return f"a write to {argument.name}, which is declared constant"
        if is_first:
            self.restored.add(number)
            return None
        return f"a write to {argument.name} in a later launch, but none in the first"


class HostBlock:
    """Memory of this process, between two gaps that cannot be accessed.

    Args:
        size: Bytes of the array.
        number: Number of the argument.

    Attributes:
        address: Address of the array.
        guards: All bytes between the gaps.
    """

    def __init__(self, size: int, number: int) -> None:
        page, shift = mmap.PAGESIZE, number * _SHIFT % mmap.PAGESIZE
        start = -(-(GAP + GUARD) // page) * page + shift  # of the array
        total = -(-(start + size + GUARD) // page) * page + GAP
        memory = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(memory, np.uint8)
        for first in (0, total - GAP):
            _LIBC.mprotect(ctypes.c_void_p(whole.ctypes.data + first), ctypes.c_size_t(GAP), 0)
        self._bytes, self._usual, self._size = whole, start, size
        self._kept: NDArray[np.uint8] | None = None
        self.move()

    def move(self, size: int = 0, alignment: int = 0) -> None:
        """Let the first ``size`` bytes end before the gap, aligned to ``alignment`` bytes and no more; 0: put it back.

        If the size is a multiple of twice the alignment, one unit of the alignment is between the end and the gap.
        """
        end, self._start = self._bytes.size - GAP, self._usual
        if alignment:
            units = (end - size) // alignment
            self._start = (units - (units % 2 == 0)) * alignment
        self.address = self._bytes.ctypes.data + self._start
        self.guards = self._start - GAP, end - self._start - self._size
        self.array = self._bytes[self._start :][: self._size]

    def keep(self) -> None:
        """Keep the present bytes, with the guards, in other pages."""
        whole = self.read(-self.guards[0], self.array.size + sum(self.guards))
        pages = mmap.mmap(-1, whole.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._kept = np.frombuffer(pages, np.uint8)
        self._kept[:] = whole

    def recall(self) -> bool:
        """Let the kept pages take the place of the present ones, once; return False where this is not possible."""
        kept, self._kept = self._kept, None
        if kept is None or sys.platform != "linux":
            return False
        size, first = ctypes.c_size_t(kept.size), ctypes.c_void_p(self.address - self.guards[0])
        moved = _LIBC.mremap(ctypes.c_void_p(kept.ctypes.data), size, size, _TO_ADDRESS, first)
        return bool(moved == first.value)

    def write(self, offset: int, content: NDArray[np.uint8]) -> None:
        """Write bytes; offsets begin at the array."""
        self._bytes[self._start + offset :][: content.size] = content

    def fill(self, size: int, byte: int) -> None:
        """Fill the first bytes of the array with one byte."""
        self.array[:size] = byte

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        """Return bytes."""
        return self._bytes[self._start + offset :][:size]


_LIBC = ctypes.CDLL(None)
_LIBC.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)

_TO_ADDRESS = 3
"""MREMAP_MAYMOVE and MREMAP_FIXED of Linux, which `mmap` does not name."""

if sys.platform == "linux":
    _LIBC.mremap.restype = ctypes.c_void_p


def as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of a contiguous array."""
    return array.reshape(-1).view(np.uint8)


def same_bytes(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> bool:
    """Whether two contiguous arrays of bytes are equal; much faster than a comparison by NumPy."""
    return a.size == b.size and _LIBC.memcmp(a.ctypes.data, b.ctypes.data, a.size) == 0
