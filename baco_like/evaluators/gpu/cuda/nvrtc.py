"""Compile CUDA C++ to machine code by NVRTC; this needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators.command.template import to_text
from baco_like.exceptions import EvaluatorError

_FILE = "kernel.cu"


class CompileError(Exception):
    """NVRTC refuses a kernel; the message is its log."""


@dataclass(frozen=True)
class Binary:
    """A kernel compiled for one architecture.

    Attributes:
        code: The cubin.
        symbol: The kernel's name in the cubin; the name of a template instance is mangled.
    """

    code: bytes
    symbol: str


@dataclass(frozen=True)
class Compiler:
    """Compiles to machine code and not to PTX, so that kernels too large for the architecture fail here.

    Attributes:
        nvrtc: `cupy.cuda.nvrtc`, or an object with the same functions.
        architecture: Such as ``sm_90``; ignored if the options name an architecture.
        options: Additional options of NVRTC.
    """

    nvrtc: Any
    architecture: str
    options: tuple[str, ...] = ()

    def check(self) -> None:
        """Compile an empty kernel.

        Raises:
            EvaluatorError: NVRTC does not know the architecture or an option.
        """
        try:
            self.compile('extern "C" __global__ void nothing() {}', "nothing", {})
        except CompileError as error:
            version = ".".join(map(str, self.nvrtc.getVersion()))
            raise EvaluatorError(
                f"NVRTC {version} with {[*self._all_options()]} compiles nothing: {error}"
            ) from None

    def compile(self, source: str, kernel: str, macros: Mapping[str, Any]) -> Binary:
        """Compile a kernel.

        Args:
            source: CUDA C++.
            kernel: The kernel's name, or an instance of a template, such as ``scale<float, 4>``.
            macros: Values of macros by name.

        Raises:
            CompileError: NVRTC refuses the kernel.
        """
        nvrtc = self.nvrtc
        options = (*self._all_options(), *(f"-D{name}={to_text(v)}" for name, v in macros.items()))
        program = nvrtc.createProgram(source, _FILE, (), ())
        try:
            nvrtc.addNameExpression(program, kernel)
            try:
                nvrtc.compileProgram(program, options)
            except nvrtc.NVRTCError as error:
                log = nvrtc.getProgramLog(program).strip("\0\n ")
                raise CompileError(log or str(error)) from None
            return Binary(nvrtc.getCUBIN(program), nvrtc.getLoweredName(program, kernel))
        finally:
            nvrtc.destroyProgram(program)

    def _all_options(self) -> Sequence[str]:
        has_arch = any(o.startswith(("-arch", "--gpu-architecture")) for o in self.options)
        return self.options if has_arch else (f"-arch={self.architecture}", *self.options)
