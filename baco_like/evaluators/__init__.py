"""Evaluators run configurations: they build, launch, check and time them.

Public names are imported from here; ``baco_like.evaluators.kernels`` has the names that problem files need. Where to
look for the implementation:

- `protocol`: the methods of an evaluator; `staged`: an evaluator that builds and then measures;
- `repeats`: how many times a configuration is measured;
- `command`: any program, by build, run and check commands;
- `function`: a Python function, called here or in isolated processes; `executors`: on other machines;
- `kernels`: kernels in C, OpenCL, CUDA and Halide; `llvm`: pass pipelines of LLVM;
- `wrappers`: features for any evaluator (cache, check, repeats, device slots); `result_cache`: the file of a cache;
- `slots`: device slots, in each of which one measurement runs at a time;
- `replay`: recorded results as a simulated device;
- `registry`: the kinds that a run file can name;
- `_processes` (internal): child processes with limits.

An evaluator never imports the optimizer. The names are loaded on first use: a worker process, which starts again after
each crash of a kernel, would otherwise import all evaluators (0.4 s more on a busy machine).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.evaluators._processes.process import *
    from baco_like.evaluators._processes.worker import *
    from baco_like.evaluators.command.evaluator import Commands, command_evaluator
    from baco_like.evaluators.command.flags import *
    from baco_like.evaluators.command.measure import *
    from baco_like.evaluators.command.passes import *
    from baco_like.evaluators.command.reference import *
    from baco_like.evaluators.command.template import *
    from baco_like.evaluators.executors.base import *
    from baco_like.evaluators.executors.evaluator import *
    from baco_like.evaluators.executors.executors import *
    from baco_like.evaluators.function.call import *
    from baco_like.evaluators.function.evaluator import *
    from baco_like.evaluators.kernels.bench import *
    from baco_like.evaluators.kernels.c import CKernelEvaluator, CKernelSettings
    from baco_like.evaluators.kernels.cuda import CudaSettings, cuda_evaluator
    from baco_like.evaluators.kernels.halide import HalideSettings, halide_evaluator
    from baco_like.evaluators.kernels.opencl import OpenCLSettings, opencl_evaluator
    from baco_like.evaluators.kernels.problems import load_problem
    from baco_like.evaluators.llvm import LlvmEvaluator, LlvmSettings
    from baco_like.evaluators.protocol import *
    from baco_like.evaluators.repeats import *
    from baco_like.evaluators.replay import *
    from baco_like.evaluators.result_cache import *
    from baco_like.evaluators.slots import *
    from baco_like.evaluators.sources import content_hashes
    from baco_like.evaluators.staged import *
    from baco_like.evaluators.wrappers import *

_HOMES = (
    *("protocol", "repeats", "slots", "executors.base", "executors.executors"),
    *("executors.evaluator", "function.call", "function.evaluator", "staged", "wrappers"),
    *("result_cache", "replay", "command.template", "command.measure", "command.reference"),
    *("command.flags", "command.passes", "command.evaluator", "kernels.problems"),
    *("kernels.bench", "kernels.c", "kernels.halide", "llvm", "sources", "kernels.opencl"),
    *("kernels.cuda", "registry", "_processes.process", "_processes.worker"),
)
"""The modules with the public names, in the order of their imports."""

__all__ = [
    "Bench",
    "Built",
    "CKernelEvaluator",
    "CKernelSettings",
    "CachedEvaluator",
    "CheckedEvaluator",
    "Collector",
    "Commands",
    "CudaSettings",
    "EnergyCounters",
    "Evaluator",
    "ExecutorEvaluator",
    "Flags",
    "FunctionEvaluator",
    "HalideSettings",
    "LlvmEvaluator",
    "LlvmSettings",
    "OpenCLSettings",
    "Passes",
    "ProcessLanes",
    "RayExecutor",
    "RepeatedEvaluator",
    "Repeats",
    "ReplayEvaluator",
    "ResultCache",
    "SlotsEvaluator",
    "StageFailure",
    "StagedEvaluator",
    "Worker",
    "command_evaluator",
    "content_hashes",
    "cuda_evaluator",
    "halide_evaluator",
    "isolated_function",
    "load_problem",
    "opencl_evaluator",
    "run_command",
]


__getattr__, __dir__ = import_on_first_use(__name__, __all__, _HOMES)
