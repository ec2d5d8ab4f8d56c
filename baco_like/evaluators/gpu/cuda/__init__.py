"""CUDA kernels by CuPy: compiled by NVRTC, launched, checked and timed by events in a worker process.

Needs the extra ``cupy`` and an Nvidia GPU. A problem file (`baco_like.evaluators.kernels.problems`) has four more
names:

- ``SOURCE``: the CUDA C++ source. Each parameter of the space is a macro of its name;
- ``KERNEL``: the name of the kernel, or an instance of a template with placeholders, such as ``"scale<{tile}>"``. Its
  arguments are the inputs and then the outputs, or as the problem's ``arguments`` say;
- ``macros(size)``: a mapping of additional macros;
- ``launch(config, size)``: the grid and the block, two tuples.

Optional names:

- ``CONSTANTS``: inputs that are ``__constant__`` arrays and not arguments, as a mapping from the array's name to the
  number of the argument;
- ``scratch(size)``: arrays like the other arrays that the kernel writes to; the last arguments;
- ``launches(config, size)``: the additional arguments (``int`` and ``float`` numbers) of each launch, if one run takes
  several launches;
- ``shared_memory(config, size)``: bytes of dynamic shared memory.

Ready files: ``examples/kernels/cuda_*.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.evaluators.gpu.cuda.evaluator import CudaSettings, Metering, cupy_evaluator

__all__ = ["CudaSettings", "Metering", "cupy_evaluator"]

_MODULES = ("evaluator",)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
