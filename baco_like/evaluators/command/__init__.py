"""Any program as an objective: commands that build, run and check it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from baco_like._lazy import import_on_first_use

if TYPE_CHECKING:
    from baco_like.evaluators.command.compilers import describe_compiler
    from baco_like.evaluators.command.energy import EnergyCounters
    from baco_like.evaluators.command.evaluator import CommandBench, Commands, command_evaluator
    from baco_like.evaluators.command.flags import Flags
    from baco_like.evaluators.command.measure import Measure
    from baco_like.evaluators.command.metrics import CommandMetrics
    from baco_like.evaluators.command.passes import Passes
    from baco_like.evaluators.command.reference import Reference
    from baco_like.evaluators.command.script import (
        ProgramCommands,
        metric_names,
        program_commands,
    )
    from baco_like.evaluators.command.template import Template, variable_names

__all__ = [
    "CommandBench",
    "CommandMetrics",
    "Commands",
    "EnergyCounters",
    "Flags",
    "Measure",
    "Passes",
    "ProgramCommands",
    "Reference",
    "Template",
    "command_evaluator",
    "describe_compiler",
    "metric_names",
    "program_commands",
    "variable_names",
]

_MODULES = (
    "template",
    "compilers",
    "energy",
    "flags",
    "passes",
    "metrics",
    "measure",
    "reference",
    "evaluator",
    "script",
)
__getattr__, __dir__ = import_on_first_use(__name__, __all__, _MODULES)
