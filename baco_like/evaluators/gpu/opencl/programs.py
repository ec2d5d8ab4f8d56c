"""What runs in the worker of the OpenCL evaluator: programs are built, launched and timed by events."""

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

from baco_like.evaluators.command.template import text_of
from baco_like.evaluators.kernels.problems import opened
from baco_like.evaluators.kernels.serving import Kernel, Plan, Server, poison
from baco_like.exceptions import EvaluatorError


class OutOfResources(Exception):
    """A kernel needs more of the device than there is."""


def serve(settings: Mapping[str, Any]) -> Server:
    """Return the handler of requests, each a complete configuration.

    Raises:
        EvaluatorError: There is no such platform or device.
    """
    _start_cold()
    problem, arrays, expected = opened(
        settings["problem"], settings["size"], settings["input_seed"]
    )
    device = chosen(settings["platform"], settings["device"])
    programs = _Programs(problem, settings["size"], settings["options"], device, arrays, expected)
    return Server(programs.compile, expected, Plan(**settings["plan"]))


def _start_cold() -> None:
    """Have drivers compile everything, and keep what they must in a folder that is new and goes with the process."""
    for variable in ("POCL_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME"):
        folder = Path(tempfile.gettempdir()) / variable.lower()
        folder.mkdir(exist_ok=True)
        os.environ[variable] = str(folder)
    os.environ["PYOPENCL_NO_CACHE"] = "1"
    os.environ["POCL_KERNEL_CACHE"] = "0"  # else the folder grows with every kernel
    warnings.simplefilter("ignore")  # pyopencl warns of every word that a compiler says


def chosen(platform: str, device: int) -> Any:
    """Return a device: of the first platform in whose name or version ``platform`` occurs, whatever the case.

    Raises:
        EvaluatorError: There is no such platform, or it has fewer devices.
    """
    import pyopencl as cl

    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise EvaluatorError(f"there is no OpenCL platform on this machine ({error})") from None
    names = [f"{one.name}, {one.version}" for one in platforms]
    pairs = zip(platforms, names, strict=True)
    found = [one for one, name in pairs if platform.lower() in name.lower()]
    if not found:
        raise EvaluatorError(f"no OpenCL platform is named {platform!r}; there is {names}")
    devices = found[0].get_devices()
    if device >= len(devices):
        raise EvaluatorError(f"platform {found[0].name!r} has no device {device} of {len(devices)}")
    return devices[device]


@dataclass
class _Programs:
    """Makes kernels; the buffers are filled anew for each, because another may have written where it should not."""

    problem: ModuleType
    size: int
    options: list[str]
    device: Any
    inputs: tuple[NDArray[Any], ...]
    expected: NDArray[Any]
    session: _Session | None = field(default=None, init=False)

    def compile(self, config: Mapping[str, Any]) -> Kernel:
        import pyopencl as cl

        if self.session is None or self.session.failed:
            self.session = _Session.on(self.device, self.inputs, self.expected)
        session = self.session
        words = {name: text_of(value) for name, value in config.items()}
        words |= {name: str(value) for name, value in self.problem.macros(self.size).items()}
        options = [*self.options, *(f"-D{name}={text}" for name, text in words.items())]
        program = cl.Program(session.context, self.problem.SOURCE)
        program.build(options=options, devices=[self.device])
        kernel = cl.Kernel(program, self.problem.KERNEL)
        kernel.set_args(*session.buffers, session.output)
        return _Launched(session, kernel, self.inputs, *self.problem.launch(config, self.size))


@dataclass
class _Session:
    """A context with its queue and its buffers; one in which a launch has failed may be of no more use."""

    context: Any
    queue: Any
    buffers: tuple[Any, ...]
    output: Any
    host: NDArray[Any]
    failed: bool = False

    @classmethod
    def on(cls, device: Any, inputs: tuple[NDArray[Any], ...], expected: NDArray[Any]) -> _Session:
        import pyopencl as cl

        context = cl.Context([device])
        profiling = cl.command_queue_properties.PROFILING_ENABLE
        queue = cl.CommandQueue(context, properties=profiling)
        flags = cl.mem_flags
        buffers = tuple(cl.Buffer(context, flags.READ_ONLY, size=a.nbytes) for a in inputs)
        output = cl.Buffer(context, flags.READ_WRITE, size=expected.nbytes)
        return cls(context, queue, buffers, output, np.empty_like(expected))

    def refill(self, inputs: tuple[NDArray[Any], ...]) -> None:
        import pyopencl as cl

        poison(self.host)
        for buffer, array in zip((*self.buffers, self.output), (*inputs, self.host), strict=True):
            cl.enqueue_copy(self.queue, buffer, array, is_blocking=True)


@dataclass(frozen=True)
class _Launched:
    session: _Session
    kernel: Any
    inputs: tuple[NDArray[Any], ...]
    whole: tuple[int, ...]
    group: tuple[int, ...]

    def prepare(self) -> None:
        self._require_local_memory()
        self.session.refill(self.inputs)

    def run(self) -> float:
        import pyopencl as cl

        try:
            event = cl.enqueue_nd_range_kernel(
                self.session.queue, self.kernel, self.whole, self.group
            )
            event.wait()
        except cl.Error:
            self.session.failed = True
            raise
        return float(event.profile.end - event.profile.start) * 1e-9

    def result(self) -> NDArray[Any]:
        import pyopencl as cl

        cl.enqueue_copy(
            self.session.queue, self.session.host, self.session.output, is_blocking=True
        )
        return self.session.host

    def _require_local_memory(self) -> None:
        """Some drivers end the process where a kernel needs too much, and some let it run."""
        import pyopencl as cl

        device = self.session.queue.device
        wanted = self.kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)
        if wanted > device.local_mem_size:
            raise OutOfResources(
                f"{wanted} bytes of local memory, the device has {device.local_mem_size}"
            )
