"""CUDA C++ to binaries by NVRTC; no GPU is needed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators.command.template import text_of
from baco_like.exceptions import EvaluatorError

_FILE = "kernel.cu"


class CompileError(Exception):
    """A kernel is not compiled."""


@dataclass(frozen=True)
class Binary:
    """A kernel for one architecture.

    Attributes:
        code: The cubin.
        symbol: The kernel's name in it; that of a template is mangled.
    """

    code: bytes
    symbol: str


@dataclass(frozen=True)
class Compiler:
    """Compiles down to machine code, so that what does not fit the architecture is told too.

    Attributes:
        nvrtc: `cupy.cuda.nvrtc`, or what has its functions.
        architecture: Such as ``sm_90``; not used where the options name one.
        options: Further options of NVRTC.
    """

    nvrtc: Any
    architecture: str
    options: tuple[str, ...] = ()

    def check(self) -> None:
        """Compile a kernel that does nothing.

        Raises:
            EvaluatorError: The architecture, or an option, is unknown to this NVRTC.
        """
        try:
            self.compile('extern "C" __global__ void nothing() {}', "nothing", {})
        except CompileError as error:
            version = ".".join(map(str, self.nvrtc.getVersion()))
            raise EvaluatorError(
                f"NVRTC {version} with {[*self._options()]} compiles nothing: {error}"
            ) from None

    def compile(self, source: str, kernel: str, macros: Mapping[str, Any]) -> Binary:
        """Compile a kernel.

        Args:
            source: CUDA C++.
            kernel: The kernel's name, or an instance of a template, such as ``scale<float, 4>``.
            macros: What is defined: texts by name.

        Raises:
            CompileError: With the compiler's log.
        """
        nvrtc = self.nvrtc
        options = (*self._options(), *(f"-D{name}={text_of(v)}" for name, v in macros.items()))
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

    def _options(self) -> Sequence[str]:
        chosen = any(o.startswith(("-arch", "--gpu-architecture")) for o in self.options)
        return self.options if chosen else (f"-arch={self.architecture}", *self.options)
