"""OpenCL kernels: built, launched, checked and timed by events in a worker process.

Needs the extra ``opencl`` and a driver; PoCL runs kernels on the CPU. A problem file
(`baco_like.evaluators.kernels.problems`) has four more names:

- ``SOURCE``: the OpenCL C source. Each parameter of the space is a macro of its name;
- ``KERNEL``: the name of the kernel; its arguments are the inputs and then the outputs, or as the problem's
  ``arguments`` say;
- ``macros(size)``: a mapping of additional macros;
- ``launch(config, size)``: the global and the local work size, two tuples.

Ready files: ``examples/kernels/opencl_*.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.evaluators.gpu.opencl.evaluator import OpenCLSettings, opencl_evaluator

__all__ = ["OpenCLSettings", "opencl_evaluator"]

_MODULES = ("evaluator",)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
