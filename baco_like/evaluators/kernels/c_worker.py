"""The worker of kernels in C: it has the inputs, and measures each kernel in a separate child process.

A child is a copy of the worker, so that the inputs need not be made again. It is forked while its kernel is compiled.
The variables and the memory limit of a configuration are set there. A child that dies or hangs, or whose kernel leaves
threads, variables or modes of the processor behind, does not change the worker.
"""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import resource
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from baco_like.evaluators._processes.worker_main import Report, describe_error, limit_memory
from baco_like.evaluators.kernels.arguments import (
    CLEAREST,
    FIRST,
    GAP,
    LARGEST_ALIGNMENT,
    Arguments,
    HostBlock,
    same_bytes,
)
from baco_like.evaluators.kernels.problems import draw_three, load_problem
from baco_like.evaluators.kernels.timing import (
    ROTATE,
    CacheFlush,
    CompiledKernel,
    KernelLimits,
    Measurement,
    largest_cache,
)
from baco_like.exceptions import EvaluatorError

_HARNESS = Path(__file__).with_name("harness.c")

_LIBC = ctypes.CDLL(None)

_COPIES = 64 << 20
"""Bytes of the copies of the arrays that the launches of one sample write."""

_GENERAL_PROTECTION = 0x80
"""Code (SI_KERNEL of Linux) of the fault of x86 at an address that is not aligned as the instruction needs."""

_MISALIGNED = 1
"""Code (BUS_ADRALN of POSIX) of SIGBUS at such an address on other processors."""

_ACCESSES = ("a read or write", "a read", "a write")

_C_TYPES = {
    "bool": "_Bool",
    "float16": "_Float16",
    "float32": "float",
    "float64": "double",
    "complex64": "float _Complex",
    "complex128": "double _Complex",
}
"""C types of scalars by their NumPy type, besides those of ``stdint.h``."""


class _Child(NamedTuple):
    """A copy of the worker that waits for the next kernel.

    Attributes:
        size: The size that its arguments have.
        process: Number of the process.
        pipe: Descriptor through which it gets its request.
    """

    size: int
    process: int
    pipe: int


def serve(settings: Mapping[str, Any]) -> Callable[[Mapping[str, Any], Report], Any]:
    """Return the handler of requests: ``size`` alone prepares the inputs of a size, otherwise it measures a kernel."""
    problem = load_problem(settings["problem"]["path"], settings["problem"]["constants"])
    limits = KernelLimits(**settings["limits"])
    opened: dict[int, tuple[Arguments, Harness]] = {}
    flush = CacheFlush() if settings["flush"] is True else None
    rotated = 2 * largest_cache() if settings["flush"] == ROTATE else 0

    def open_size(size: int) -> tuple[Arguments, Harness]:
        if size not in opened:
            harness = Harness(settings["compiler"])
            draws = draw_three(problem, settings["problem"], size, harness.start)
            arguments = Arguments(draws, HostBlock, settings["restore"], rotated, moves=True)
            harness.load(limits.build_timeout)
            opened[size] = arguments, harness
            arguments.keep()
            arguments.place(FIRST, is_new=True)
            gc.freeze()  # else a child copies the pages of all objects when it collects garbage
            if hasattr(_LIBC, "malloc_trim"):
                _LIBC.malloc_trim(0)  # each fork copies the table of all pages
        return opened[size]

    def fork(size: int, report: Report) -> _Child:
        """Return a new child."""
        arguments, harness = open_size(size)

        def measure(request: Mapping[str, Any]) -> None:
            try:
                _limit_memory(settings["memory"])
                os.environ.update(request["environment"])
                os.chdir(Path(request["program"]).parent)  # a folder that is removed
                report.stage("compile", limits.build_timeout)
                kernel = CKernel(request["program"], harness, arguments, flush)
                kernel.constant, kernel.notes = request["source"]
                answer = Measurement(kernel, limits, is_placed=True)(request, report)
                report.send({"answer": answer})
            except Exception as error:
                report.send({"error": describe_error(error)})

        reader, writer = os.pipe()
        child = os.fork()
        if child:
            os.close(reader)
            return _Child(size, child, writer)
        try:
            os.close(writer)
            os.setpgid(0, 0)
            arguments.restore(CLEAREST)  # makes the pages of the outputs
            with os.fdopen(reader, "rb") as pipe:
                content = pipe.read()
            if content:  # otherwise there is no further kernel
                report.number, request = json.loads(content)
                measure(request)
        finally:
            os._exit(0)

    waiting: _Child | None = None

    def handle(request: Mapping[str, Any], report: Report) -> Any:
        nonlocal waiting
        if "program" not in request:
            open_size(request["size"])
            return {}
        if waiting is not None and waiting.size != request["size"]:
            os.close(waiting.pipe)
            os.waitpid(waiting.process, 0)
            waiting = None
        _, child, writer = waiting or fork(request["size"], report)
        waiting = None
        with suppress(BrokenPipeError), os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps([report.number, request]).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what the kernel has left behind
        arguments, harness = open_size(request["size"])
        fault = _describe_fault(status, arguments, harness)
        waiting = fork(request["size"], report)  # while the next kernel is compiled
        return {"ended": status, **fault}  # ignored if the child has answered

    return handle


class Harness:
    """The library that launches kernels; it is compiled while the other inputs are made.

    Args:
        compiler: The compiler and its flags.

    Attributes:
        library: The library, once it is loaded.
        step: Seconds between two values of its clock.
        noted: What `note_fault` has noted, and the addresses of the arguments, in memory that child processes share.
    """

    library: ctypes.CDLL
    step: float
    noted: NDArray[np.int64]
    _build: subprocess.Popen[str]

    def __init__(self, compiler: list[str]) -> None:
        self._compiler, self._folder = compiler, Path(tempfile.mkdtemp())

    def start(self, arguments: Sequence[Any]) -> None:
        """Start to compile the library for these arguments."""
        self.noted = np.frombuffer(mmap.mmap(-1, 8 * (4 + len(arguments))), np.int64)
        types, values = [], []
        for number, argument in enumerate(arguments):
            if argument.role == "scalar":
                name = argument.like.dtype.name
                types.append(_C_TYPES.get(name, f"{name}_t"))
                values.append(f"*({types[-1]} *)(a)[{number}]")
            else:
                types.append("void *")
                values.append(f"(a)[{number}]")
        cast = f"void (*)({', '.join(types) or 'void'})"
        text = f"#define LAUNCH(kernel, a) (({cast})(kernel))({', '.join(values)})\n"
        text += _HARNESS.read_text(encoding="ascii")
        (self._folder / "harness.c").write_text(text, encoding="ascii")
        command = [*self._compiler, "-O3", "-shared", "-fPIC", "harness.c", "-o", "harness.so"]
        self._build = subprocess.Popen(command, cwd=self._folder, stderr=subprocess.PIPE, text=True)

    def load(self, timeout: float) -> None:
        """Load the library, at the latest after so many seconds.

        Raises:
            EvaluatorError: The compiler fails, for instance because it lacks the type of a scalar.
        """
        message = self._build.communicate(timeout=timeout)[1]
        if code := self._build.returncode:
            lines = [line for line in message.splitlines() if "error" in line]
            problem = lines[0] if lines else f"exit code {code}"
            raise EvaluatorError(
                f"the compiler {self._compiler[0]!r} fails on the harness: {problem[:300]}"
            )
        self.library = ctypes.CDLL(str(self._folder / "harness.so"))
        pointer, whole = ctypes.c_void_p, ctypes.c_int64
        launch, digest = self.library.launch, self.library.digest
        launch.restype = self.library.clock_step.restype = whole
        digest.restype, digest.argtypes = ctypes.c_uint64, (pointer, whole, ctypes.c_uint64)
        settings = (whole, ctypes.c_double, ctypes.c_uint64, ctypes.c_int)
        launch.argtypes = (*[pointer] * 2, *settings, *[pointer] * 3)
        self.step = self.library.clock_step() * 1e-9
        ctypes.c_void_p.in_dll(self.library, "noted").value = self.noted.ctypes.data


def _describe_fault(status: int, arguments: Arguments, harness: Harness) -> dict[str, str]:
    """Return what has ended a child: ``problem``, a fault beside an array, or ``hint``, what may have caused it."""
    number, code, address, access, *addresses = harness.noted.tolist()
    harness.noted[:] = 0
    if status not in (-signal.SIGSEGV, -signal.SIGBUS):
        return {}
    is_here = number == -status and code > 0
    listed = [arguments[n] for n in range(len(addresses))]
    for argument, start in zip(listed, addresses, strict=True) if is_here else ():
        before, after = start - address, address - start - argument.like.nbytes
        if argument.role != "scalar" and 0 <= max(before, after) < GAP // 2:
            side = (
                f"{before} bytes before the start" if before > 0 else f"{after} bytes after the end"
            )
            return {"problem": f"{_ACCESSES[access]} {side} of {argument.name}"}
    is_protection = status == -signal.SIGSEGV and code == _GENERAL_PROTECTION and not address
    if is_here and (is_protection or (status == -signal.SIGBUS and code == _MISALIGNED)):
        return {
            "problem": "an instruction that needs an aligned address: in the first launch arrays are aligned to their "
            "elements only; if every caller aligns one, declare it, such as Input(alignment=32)"
        }
    types = [a.like.dtype.name + (" *" if a.role != "scalar" else "") for a in listed]
    return {
        "hint": f"; if kernel has other arguments than ({', '.join(types)}), return them from arguments(size) in the "
        "problem file"
    }


def _limit_memory(memory: int | None) -> None:
    """Let this process take so many bytes besides those that it has."""
    if memory is None:
        return
    own = 0
    with suppress(OSError):
        own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit_memory(own + memory)


class CKernel(CompiledKernel):
    """A loaded kernel.

    Args:
        program: Path of the shared object.
        harness: Launches it.
        arguments: The arguments, in the memory of this process.
        flush: Empties the caches before each launch; None to leave them.
    """

    def __init__(
        self, program: str, harness: Harness, arguments: Arguments, flush: CacheFlush | None
    ) -> None:
        kernel = ctypes.CDLL(program).kernel
        self._kernel = ctypes.cast(kernel, ctypes.c_void_p)
        self._library, self.arguments, self._flush = harness.library, arguments, flush
        self.step = harness.step
        self._noted = harness.noted
        self._copies: dict[int, NDArray[np.uint8]] = {}  # of the last sample
        # No kernel can make the digest of a right result.
        self._seed = secrets.randbits(64)
        self._digests: dict[int, int] = {}  # of the outputs, at the end of the last launch

    def _outputs(self) -> list[tuple[int, HostBlock]]:
        return [
            (n, b)
            for n, b in enumerate(self.arguments.blocks)
            if b and self.arguments[n].role == "output"
        ]

    @property
    @override
    def most_launches(self) -> int:
        if self._flush is not None or len(self.arguments.copies) > 1:
            return 1
        size = sum(self._stride(number) for number in self.arguments.written)
        return 1 + _COPIES // max(size, 1)

    def _stride(self, number: int) -> int:
        return -(-self.arguments[number].like.nbytes // LARGEST_ALIGNMENT) * LARGEST_ALIGNMENT

    @override
    def time(self, launches: int, limit: float) -> float:
        """Launch the kernel; the last launch uses the arguments themselves, and each other one copies."""
        arguments, count = self.arguments, len(self.arguments.blocks)
        own = [
            arguments[n].like.ctypes.data if b is None else b.address
            for n, b in enumerate(arguments.blocks)
        ]
        addresses = np.array([own] * launches, np.uintp).reshape(launches, count)
        self._noted[4:] = addresses[0].view(np.int64)
        self._copies = {}
        for number in arguments.written if launches > 1 else ():
            content = arguments.blocks[number].read(0, arguments[number].like.nbytes)
            stride = self._stride(number)
            raw = np.empty((launches - 1) * stride + LARGEST_ALIGNMENT, np.uint8)
            copy = raw[-raw.ctypes.data % LARGEST_ALIGNMENT :][: (launches - 1) * stride].reshape(
                -1, stride
            )
            copy[:, : content.size] = content
            addresses[:-1, number] = copy.ctypes.data + stride * np.arange(
                launches - 1, dtype=np.uintp
            )
            self._copies[number] = copy
        rows = addresses.ctypes.data + addresses.strides[0] * np.arange(launches, dtype=np.uintp)
        outputs = self._outputs()
        at = np.array([b.address for _, b in outputs], np.uintp)
        sizes = np.array([arguments[n].like.nbytes for n, _ in outputs], np.int64)
        digests = np.empty(len(outputs), np.uint64)
        if self._flush is not None:
            self._flush()
        pointers, limit = [a.ctypes.data for a in (at, sizes, digests)], max(limit, 1e-3)
        nanoseconds = self._library.launch(
            self._kernel, rows.ctypes.data, launches, limit, self._seed, len(outputs), *pointers
        )
        self._digests = {n: int(each) for (n, _), each in zip(outputs, digests, strict=True)}
        return float(nanoseconds) * 1e-9

    @override
    def digests(self) -> Mapping[int, int]:
        return self._digests

    @override
    def problem(self) -> str | None:
        """Return the problem of a kernel that handles its faults, writes after its return, or is wrong in a copy."""
        if ctypes.c_int.in_dll(self._library, "handles_faults").value:
            return (
                "the kernel handles SIGSEGV or SIGBUS, which hides its writes outside of its arrays"
            )
        for number, block in self._outputs():
            argument = self.arguments[number]
            like, content = argument.like, block.array[: argument.like.nbytes]
            digest = self._library.digest(block.address, content.size, self._seed)
            if digest != self._digests[number]:
                return f"{argument.name} was still written after the kernel had returned"
            for copy in self._copies.get(number, ()):
                if argument.expected is None or same_bytes(copy[: content.size], content):
                    continue
                output = copy[: content.size].view(like.dtype).reshape(like.shape)
                if (problem := argument.expected.compare(output).problem) is not None:
                    return f"{problem}, in one of several launches of a sample"
        return None
