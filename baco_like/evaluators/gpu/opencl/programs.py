"""The worker of the OpenCL evaluator: builds programs, launches kernels and times them by events."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.command.template import to_text
from baco_like.evaluators.kernels.problems import open_problem
from baco_like.evaluators.kernels.timing import (
    CompiledKernel,
    KernelLimits,
    KernelServer,
    hash_parts,
    poison,
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
    problem, arrays, expected = open_problem(**settings["problem"])
    import pyopencl as cl

    device = find_device(settings["platform"], settings["device"])
    size, session = settings["problem"]["size"], None

    def compile(config: Mapping[str, Any]) -> CompiledKernel:
        """Build the kernel of a configuration, in a new session after a failed launch."""
        nonlocal session
        # After a failed launch the context may be unusable.
        if session is None or session.failed:
            session = _OpenCLSession(device, arrays, expected)
        macros = {name: to_text(value) for name, value in config.items()}
        macros |= {name: str(value) for name, value in problem.macros(size).items()}
        options = [*settings["options"], *(f"-D{name}={text}" for name, text in macros.items())]
        program = cl.Program(session.context, problem.SOURCE)
        program.build(options=options, devices=[device])
        kernel = cl.Kernel(program, problem.KERNEL)
        kernel.set_args(*session.buffers, session.output)
        global_size, local_size = problem.launch(config, size)
        binaries = program.get_info(cl.program_info.BINARIES)
        identity = hash_parts(binaries, global_size, local_size)
        return _OpenCLKernel(session, kernel, global_size, local_size, identity)

    return KernelServer(compile, expected, KernelLimits(**settings["limits"]))


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
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise EvaluatorError(
            f"there is no OpenCL platform on this machine ({error}); {_HOW_TO_GET_ONE}"
        ) from None
    if not platforms:
        raise EvaluatorError(f"there is no OpenCL platform on this machine; {_HOW_TO_GET_ONE}")
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
    """A context with its queue and its buffers."""

    def __init__(
        self, device: Any, inputs: tuple[NDArray[Any], ...], expected: NDArray[Any]
    ) -> None:
        import pyopencl as cl

        self.cl, self.inputs, self.failed = cl, inputs, False
        self.host = np.empty_like(expected)  # the output's copy in the memory of the host
        self.context = cl.Context([device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        self.queue = cl.CommandQueue(self.context, properties=profiling)
        flags = cl.mem_flags
        self.buffers = [cl.Buffer(self.context, flags.READ_ONLY, size=a.nbytes) for a in inputs]
        self.output = cl.Buffer(self.context, flags.READ_WRITE, size=expected.nbytes)


@dataclass(frozen=True)
class _OpenCLKernel:
    """A built kernel. Its buffers are filled again, as an earlier kernel may have written to the wrong place."""

    session: _OpenCLSession
    kernel: Any
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]
    identity: str

    def prepare(self) -> None:
        self._require_local_memory()
        session = self.session
        poison(session.host)
        buffers, arrays = (*session.buffers, session.output), (*session.inputs, session.host)
        for buffer, array in zip(buffers, arrays, strict=True):
            session.cl.enqueue_copy(session.queue, buffer, array, is_blocking=True)

    def run(self) -> float:
        cl = self.session.cl
        try:
            event = cl.enqueue_nd_range_kernel(
                self.session.queue, self.kernel, self.global_size, self.local_size
            )
            event.wait()
        except cl.Error:
            self.session.failed = True
            raise
        return float(event.profile.end - event.profile.start) * 1e-9

    def result(self) -> NDArray[Any]:
        session = self.session
        session.cl.enqueue_copy(session.queue, session.host, session.output, is_blocking=True)
        return session.host

    def _require_local_memory(self) -> None:
        """Raise `OutOfResources` if the kernel needs too much local memory.

        Some drivers end the process in this case, and others run the kernel.
        """
        size = self.session.cl.kernel_work_group_info.LOCAL_MEM_SIZE
        device = self.session.queue.device
        needed = self.kernel.get_work_group_info(size, device)
        if needed > device.local_mem_size:
            raise OutOfResources(
                f"{needed} bytes of local memory, the device has {device.local_mem_size}"
            )
