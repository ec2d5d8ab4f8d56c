"""The worker of the OpenCL evaluator: builds programs, launches kernels and times them by events."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from baco_like.evaluators.kernels.arguments import DEVICE_GUARDS, Argument, Arguments
from baco_like.evaluators.kernels.problems import inspect_source, load_device_problem, macro_texts
from baco_like.evaluators.kernels.timing import (
    ROTATE,
    CompiledKernel,
    KernelLimits,
    KernelServer,
    hash_parts,
)
from baco_like.exceptions import EvaluatorError


class OutOfResources(Exception):
    """A kernel needs more of the device than there is."""


def serve(settings: Mapping[str, Any]) -> KernelServer:
    """Return the handler of requests.

    Raises:
        EvaluatorError: The platform or the device does not exist.
    """
    _disable_compiler_caches()
    path = Path(settings["problem"]["path"])
    problem, draws = load_device_problem(settings["problem"])
    import pyopencl as cl

    device = find_device(settings["platform"], settings["device"])
    _require_types(device, draws[0])
    size, session = settings["problem"]["size"], None

    def compile(config: Mapping[str, Any]) -> CompiledKernel:
        """Build the kernel of a configuration, in a new session after a failed launch."""
        nonlocal session
        # After a failed launch the context may be unusable.
        if session is None or session.failed:
            session = _OpenCLSession(device, draws, settings["restore"], settings["flush"])
        macros = (f"-D{name}={text}" for name, text in macro_texts(problem, size, config).items())
        options = [*settings["options"], *macros, "-I", str(path.parent)]
        program = cl.Program(session.context, problem.SOURCE)
        program.build(options=options, devices=[device])
        kernel = cl.Kernel(program, problem.KERNEL)
        binaries: Any = program.get_info(cl.program_info.BINARIES)
        made = _OpenCLKernel(session, kernel, problem.launch(config, size), binaries)
        made.constant, made.notes = inspect_source(path, problem.SOURCE, problem.KERNEL, config)
        return made

    return KernelServer(compile, KernelLimits(**settings["limits"]))


def _require_types(device: Any, arguments: Sequence[Argument]) -> None:
    """Check that the device can have the scalars.

    Raises:
        EvaluatorError: A scalar has a type that kernels do not take by value, or that the device lacks.
    """
    lacking = {"bool", "complex64", "complex128"}
    for name, extension in (("float16", "cl_khr_fp16"), ("float64", "cl_khr_fp64")):
        lacking |= set() if extension in device.extensions else {name}
    for argument in arguments:
        if argument.role == "scalar" and argument.like.dtype.name in lacking:
            raise EvaluatorError(
                f"{argument.name}: an OpenCL kernel on {device.name!r} takes no {argument.like.dtype} by value; "
                "pass an array of one element"
            )


def _disable_compiler_caches() -> None:
    """Make drivers compile every kernel, as the times of builds would otherwise depend on earlier runs.

    A cache that cannot be switched off is moved to a new folder, which is removed with the process.
    """
    for variable in ("POCL_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME"):
        folder = Path(tempfile.gettempdir()) / variable.lower()
        folder.mkdir(exist_ok=True)
        os.environ[variable] = str(folder)
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    os.environ["POCL_KERNEL_CACHE"] = "0"  # otherwise the folder grows with every kernel
    warnings.simplefilter("ignore")  # pyopencl turns every message of a compiler into a warning


_HOW_TO_GET_ONE = (
    "install the OpenCL driver of the GPU, or PoCL, which runs kernels on the CPU: "
    "'apt install pocl-opencl-icd', or 'pip install pocl-binary-distribution'"
)


def find_device(platform: str, device: int) -> Any:
    """Return a device of the first platform whose name or version contains ``platform``, in any case.

    Raises:
        EvaluatorError: The platform does not exist, or it has fewer devices.
    """
    import pyopencl as cl

    try:
        platforms, why = cl.get_platforms(), ""
    except cl.Error as error:
        platforms, why = [], f" ({error})"
    if not platforms:
        raise EvaluatorError(f"there is no OpenCL platform on this machine{why}; {_HOW_TO_GET_ONE}")
    names = [f"{each.name}, {each.version}" for each in platforms]
    matches = [platform.lower() in name.lower() for name in names]
    if not any(matches):
        raise EvaluatorError(f"no OpenCL platform is named {platform!r}; there is {names}")
    first = platforms[matches.index(True)]
    devices = first.get_devices()
    if device >= len(devices):
        raise EvaluatorError(f"platform {first.name!r} has no device {device} of {len(devices)}")
    return devices[device]


class _OpenCLSession:
    """A context with its queue and the arguments."""

    def __init__(
        self, device: Any, draws: Sequence[Sequence[Argument]], restore: str, flush: bool | str
    ) -> None:
        import pyopencl as cl

        self.cl, self.failed = cl, False
        self.context = cl.Context([device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self.queue = cl.CommandQueue(self.context, properties=profiling)
        large = 2 * max(device.global_mem_cache_size, 1)
        rotated = large if flush == ROTATE else 0
        self.arguments = Arguments(
            draws, lambda size, number: _OpenCLBlock(self, size), restore, rotated
        )
        self._cache_bytes = large if flush is True else 0
        if self._cache_bytes:
            self._cache = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, self._cache_bytes)

    def empty_cache(self) -> None:
        """Fill a buffer twice as large as the device's cache, if caches are to be emptied."""
        if self._cache_bytes:
            zero = np.zeros(1, np.uint8)
            self.cl.enqueue_fill_buffer(self.queue, self._cache, zero, 0, self._cache_bytes)


class _OpenCLBlock:
    """Memory of an array on the device; the kernel gets a part of a buffer, which has the guards, too."""

    guards = DEVICE_GUARDS

    def __init__(self, session: _OpenCLSession, size: int) -> None:
        cl = session.cl
        self._session, flags = session, cl.mem_flags.READ_WRITE
        self._buffer = cl.Buffer(session.context, flags, size + sum(self.guards))
        self.array = self._buffer.get_sub_region(self.guards[0], max(size, 1), flags)

    def write(self, offset: int, content: NDArray[np.uint8]) -> None:
        self._session.cl.enqueue_copy(
            self._session.queue,
            self._buffer,
            content,
            dst_offset=self.guards[0] + offset,
            is_blocking=True,
        )

    def fill(self, size: int, byte: int) -> None:
        if size:
            self._session.cl.enqueue_fill_buffer(
                self._session.queue, self._buffer, np.uint8(byte), self.guards[0], size
            ).wait()

    def read(self, offset: int, size: int) -> NDArray[np.uint8]:
        content = np.empty(size, np.uint8)
        if size:
            self._session.cl.enqueue_copy(
                self._session.queue,
                content,
                self._buffer,
                src_offset=self.guards[0] + offset,
                is_blocking=True,
            )
        return content


class _OpenCLKernel(CompiledKernel):
    """A built kernel."""

    def __init__(
        self,
        session: _OpenCLSession,
        kernel: Any,
        sizes: tuple[tuple[int, ...], tuple[int, ...]],
        binaries: Sequence[bytes],
    ) -> None:
        self._session, self._kernel = session, kernel
        self._sizes, self._bytes = sizes, sum(map(len, binaries))
        self.identity, self.arguments = hash_parts(binaries, *sizes), session.arguments
        self.is_on_host = bool(session.queue.device.type & session.cl.device_type.CPU)
        self.step = session.queue.device.profiling_timer_resolution * 1e-9

    @override
    def time(self, launches: int, limit: float) -> float:
        session, cl = self._session, self._session.cl
        self._require_local_memory()
        for number, block in enumerate(self.arguments.blocks):
            value = self.arguments[number].like[()] if block is None else block.array
            self._kernel.set_arg(number, value)
        session.empty_cache()
        try:
            event = cl.enqueue_nd_range_kernel(session.queue, self._kernel, *self._sizes)
            event.wait()
        except cl.Error:
            session.failed = True
            raise
        return float(event.profile.end - event.profile.start) * 1e-9

    @override
    def build_metrics(self) -> dict[str, float]:
        """Return the bytes of the binary, and the memory of a work item and a work group as the driver says."""
        device, info = self._session.queue.device, self._session.cl.kernel_work_group_info
        named = {"private": info.PRIVATE_MEM_SIZE, "local": info.LOCAL_MEM_SIZE}
        sizes = {name: self._kernel.get_work_group_info(i, device) for name, i in named.items()}
        return {
            "size.bytes": float(self._bytes),
            **{f"gpu.{n}": float(v) for n, v in sizes.items()},
        }

    def _require_local_memory(self) -> None:
        """Raise `OutOfResources` if the kernel needs too much local memory.

        Some drivers end the process in this case, and others run the kernel.
        """
        device, info = self._session.queue.device, self._session.cl.kernel_work_group_info
        needed = self._kernel.get_work_group_info(info.LOCAL_MEM_SIZE, device)
        if needed > device.local_mem_size:
            raise OutOfResources(
                f"{needed} bytes of local memory, the device has {device.local_mem_size}"
            )
