"""Pass pipelines of LLVM: `opt` and `llc` build a program from C or bitcode, whose output must stay that of ``-O0``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.evaluators.llvm.evaluator import LlvmEvaluator, LlvmSettings

__all__ = ["LlvmEvaluator", "LlvmSettings"]

_MODULES = ("evaluator",)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
