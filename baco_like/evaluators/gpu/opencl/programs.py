"""The worker of the OpenCL evaluator: builds programs, launches kernels and times them by events."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from baco_like.evaluators.command.template import to_text
from baco_like.evaluators.kernels.problems import open_problem
from baco_like.evaluators.kernels.timing import CompiledKernel, KernelLimits, KernelServer, poison
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
    device = find_device(settings["platform"], settings["device"])
    size = settings["problem"]["size"]
    programs = _Programs(problem, size, settings["options"], device, arrays, expected)
    return KernelServer(programs.compile, expected, KernelLimits(**settings["limits"]))


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


def find_device(platform: str, device: int) -> Any:
    """Return a device of the first platform whose name or version contains ``platform``, in any case.

    Raises:
        EvaluatorError: The platform does not exist, or it has fewer devices.
    """
    import pyopencl as cl

    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise EvaluatorError(f"there is no OpenCL platform on this machine ({error})") from None
    names = [f"{each.name}, {each.version}" for each in platforms]
    matching = [
        each
        for each, name in zip(platforms, names, strict=True)
        if platform.lower() in name.lower()
    ]
    if not matching:
        raise EvaluatorError(f"no OpenCL platform is named {platform!r}; there is {names}")
    devices = matching[0].get_devices()
    if device >= len(devices):
        raise EvaluatorError(
            f"platform {matching[0].name!r} has no device {device} of {len(devices)}"
        )
    return devices[device]


@dataclass
class _Programs:
    """Compiles kernels.

    The buffers are filled again for each kernel, because an earlier one may have written to the wrong place.
    """

    problem: ModuleType
    size: int
    options: list[str]
    device: Any
    inputs: tuple[NDArray[Any], ...]
    expected: NDArray[Any]
    session: _Session | None = field(default=None, init=False)

    def compile(self, config: Mapping[str, Any]) -> CompiledKernel:
        import pyopencl as cl

        # After a failed launch the context may be unusable.
        if self.session is None or self.session.failed:
            self.session = _Session.open(self.device, self.inputs, self.expected)
        session = self.session
        macros = {name: to_text(value) for name, value in config.items()}
        macros |= {name: str(value) for name, value in self.problem.macros(self.size).items()}
        options = [*self.options, *(f"-D{name}={text}" for name, text in macros.items())]
        program = cl.Program(session.context, self.problem.SOURCE)
        program.build(options=options, devices=[self.device])
        kernel = cl.Kernel(program, self.problem.KERNEL)
        kernel.set_args(*session.buffers, session.output)
        return _OpenCLKernel(session, kernel, self.inputs, *self.problem.launch(config, self.size))


@dataclass
class _Session:
    """A context with its queue and its buffers."""

    context: Any
    queue: Any
    buffers: tuple[Any, ...]
    output: Any
    host: NDArray[Any]  # the output's copy in the memory of the host
    failed: bool = False

    @classmethod
    def open(
        cls, device: Any, inputs: tuple[NDArray[Any], ...], expected: NDArray[Any]
    ) -> _Session:
        import pyopencl as cl

        context = cl.Context([device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        queue = cl.CommandQueue(context, properties=profiling)
        flags = cl.mem_flags
        buffers = tuple(cl.Buffer(context, flags.READ_ONLY, size=a.nbytes) for a in inputs)
        output = cl.Buffer(context, flags.READ_WRITE, size=expected.nbytes)
        return cls(context, queue, buffers, output, np.empty_like(expected))


@dataclass(frozen=True)
class _OpenCLKernel:
    session: _Session
    kernel: Any
    inputs: tuple[NDArray[Any], ...]
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]

    def prepare(self) -> None:
        import pyopencl as cl

        self._require_local_memory()
        session = self.session
        poison(session.host)
        buffers, arrays = (*session.buffers, session.output), (*self.inputs, session.host)
        for buffer, array in zip(buffers, arrays, strict=True):
            cl.enqueue_copy(session.queue, buffer, array, is_blocking=True)

    def run(self) -> float:
        import pyopencl as cl

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
        import pyopencl as cl

        session = self.session
        cl.enqueue_copy(session.queue, session.host, session.output, is_blocking=True)
        return session.host

    def _require_local_memory(self) -> None:
        """Raise `OutOfResources` if the kernel needs too much local memory.

        Some drivers end the process in this case, and others run the kernel.
        """
        import pyopencl as cl

        device = self.session.queue.device
        needed = self.kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)
        if needed > device.local_mem_size:
            raise OutOfResources(
                f"{needed} bytes of local memory, the device has {device.local_mem_size}"
            )
