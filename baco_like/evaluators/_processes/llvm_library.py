"""Calls of libLLVM in a `Worker`: passes and code generation without a start of ``opt`` or ``llc`` for each program.

A start of one of them takes 30 ms of CPU time, because all of LLVM is loaded and linked. A pass that crashes ends the
process of the worker, and its next request starts another one.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_void_p
from functools import cache
from typing import Any

TARGET = f"{__name__}:serve"
"""The target of a `Worker`. Its settings are the path of libLLVM; a request is a mapping:

source: Path of bitcode or of a text module.
passes: Text of a pipeline; without it the module stays unchanged.
text: Path of the text of the module to write, if any.
object: Path of the object to write, if any, as ``llc -O2 -relocation-model=pic`` does.
"""

_ARCHITECTURES = ("X86", "AArch64", "ARM", "RISCV", "PowerPC", "SystemZ")
_PARTS = ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser")
_LEVEL_2, _PIC, _DEFAULT, _OBJECT = 2, 2, 0, 1
"""Enumerators of ``llvm-c/TargetMachine.h``."""


@cache
def find_library(opt: str) -> str | None:
    """Return the path of the libLLVM that ``opt`` loads; None if it is part of the program."""
    program, ldd = shutil.which(opt), shutil.which("ldd")
    if program is None or ldd is None:
        return None
    done = subprocess.run([ldd, program], capture_output=True, text=True, check=False)
    found = re.search(r"libLLVM\S* => (\S+)", done.stdout)
    return found[1] if found else None


def serve(library: str) -> Callable[[Mapping[str, str], Any], None]:
    """Load libLLVM and return the handler of requests."""
    llvm = _Library(library)

    def handle(request: Mapping[str, str], report: Any) -> None:
        report.stage("compile")
        context = llvm.call("LLVMContextCreate")
        try:
            llvm.handle(context, request)
        finally:
            llvm.call("LLVMContextDispose", context)

    return handle


class _Library:
    """Functions of libLLVM, by its interface for C.

    Args:
        path: The path of the library.
    """

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        for name in [f"LLVMInitialize{a}{part}" for a in _ARCHITECTURES for part in _PARTS]:
            if hasattr(self._library, name):
                self.call(name)

    def call(self, name: str, *arguments: Any, returns: Any = c_void_p) -> Any:
        """Call a function; its result is a pointer by default."""
        function = getattr(self._library, name)
        function.restype = returns
        found = function(*arguments)
        return c_void_p(found) if returns is c_void_p else found

    def handle(self, context: Any, request: Mapping[str, str]) -> None:
        """Answer a request in a fresh context.

        Raises:
            RuntimeError: A file cannot be read or written, or a pass is unknown.
        """
        self.call("LLVMContextSetDiscardValueNames", context, int("passes" in request))
        buffer, module = c_void_p(), c_void_p()
        path = request["source"].encode()
        self._try("LLVMCreateMemoryBufferWithContentsOfFile", path, byref(buffer))
        self._try("LLVMParseIRInContext", context, buffer, byref(module))
        if "passes" in request:
            self._run_passes(module, request["passes"].encode())
        if "text" in request:
            self._try("LLVMPrintModuleToFile", module, request["text"].encode())
        if "object" in request:
            if not self.call("LLVMGetTarget", module, returns=c_char_p):
                here = self.call("LLVMGetDefaultTargetTriple")
                self.call("LLVMSetTarget", module, here)
            with self._machine(module, _PIC) as machine:
                path = request["object"].encode()
                self._try("LLVMTargetMachineEmitToFile", machine, module, path, _OBJECT)

    def _run_passes(self, module: Any, text: bytes) -> None:
        options = self.call("LLVMCreatePassBuilderOptions")
        try:
            with self._machine(module, _DEFAULT) as machine:
                error = self.call("LLVMRunPasses", module, text, machine, options)
        finally:
            self.call("LLVMDisposePassBuilderOptions", options)
        if error:
            message = self.call("LLVMGetErrorMessage", error, returns=c_char_p)
            raise RuntimeError(message.decode(errors="replace"))

    @contextmanager
    def _machine(self, module: Any, relocation: int) -> Iterator[Any]:
        """Make the machine that a module names; without a name there is none, as in ``opt``."""
        triple = self.call("LLVMGetTarget", module, returns=c_char_p)
        if not triple:
            yield None
            return
        target = c_void_p()
        self._try("LLVMGetTargetFromTriple", triple, byref(target))
        given = (_LEVEL_2, relocation, _DEFAULT)
        machine = self.call("LLVMCreateTargetMachine", target, triple, b"", b"", *given)
        try:
            yield machine
        finally:
            self.call("LLVMDisposeTargetMachine", machine)

    def _try(self, name: str, *arguments: Any) -> None:
        """Call a function whose last argument is for a message of an error.

        Raises:
            RuntimeError: It fails.
        """
        message = c_void_p()
        if self.call(name, *arguments, byref(message), returns=c_int):
            raise RuntimeError(ctypes.string_at(message).decode(errors="replace"))
