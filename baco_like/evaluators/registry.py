"""The kinds of evaluators that a TOML file can name; a new kind joins by one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from baco_like.evaluators import halide, taco
from baco_like.evaluators.c_loop_nest import LoopNestEvaluator
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.function import isolated
from baco_like.evaluators.gpu import cuda, opencl
from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.replay import ReplayEvaluator
from baco_like.evaluators.result_cache import ResultCache, digest
from baco_like.evaluators.settings_table import Table, shown, suggestion
from baco_like.evaluators.wrappers.cached import CachedEvaluator
from baco_like.exceptions import RunFileError
from baco_like.spaces.space import Space

CACHE_KEYS = ("cache", "cache_files")
"""Keys that every kind has: a file of results, and files that these depend on (sources, inputs)."""

ORGANISING = ("ahead", "workers", "cache")
"""Keys on which no measured value is meant to depend: they say how much goes on at once, and what is kept."""

Factory = Callable[[Table, Space, str, Path], Evaluator]
"""Makes an evaluator from its table, the space, the objective's unit, and the folder of the file.

It checks everything and has no effect: what has to be made (folders, programs) is made at the first
`Evaluator.wait`.
"""

KINDS: Mapping[str, Factory] = {
    "command": command.from_table,
    "c_loop_nest": LoopNestEvaluator.from_table,
    "cupy": cuda.from_table,
    "function": isolated.from_table,
    "halide": halide.from_table,
    "opencl": opencl.from_table,
    "replay": ReplayEvaluator.from_table,
    "taco": taco.from_table,
}


def create(table: Table, space: Space, unit: str, folder: Path) -> Evaluator:
    """Return the evaluator that a table describes.

    Args:
        table: The ``[evaluator]`` table; its key ``kind`` says which.
        space: What will be evaluated.
        unit: The objective's unit.
        folder: Where the TOML file stands.

    Raises:
        RunFileError: The kind is unknown, or a key of its table is unknown, missing or wrong.
        EvaluatorError: Something that it needs is not on this machine.
    """
    kind = table.text("kind")
    if kind not in KINDS:
        raise RunFileError(
            f"[{table.name}] kind = {shown(kind)} is unknown; {suggestion(kind, KINDS)}"
        )
    own = Table(table.name, {k: v for k, v in table.entries.items() if k not in CACHE_KEYS})
    evaluator = KINDS[kind](own, space, unit, folder)
    cache = _cache(table, own, unit, folder)
    return evaluator if cache is None else CachedEvaluator(evaluator, cache)


def _cache(table: Table, own: Table, unit: str, folder: Path) -> ResultCache | None:
    """Return the cache that a table names, whose values depend on all its other keys and on the files it lists."""
    if not table.has("cache"):
        if table.has("cache_files"):
            raise table.wrong("cache_files", table.entries["cache_files"], "cache = FILE besides")
        return None
    files = {name: digest(folder / name) for name in table.texts("cache_files", [])}
    context = {**own.entries, "[objective] unit": unit, **files}
    return ResultCache(folder / table.text("cache"), context)
