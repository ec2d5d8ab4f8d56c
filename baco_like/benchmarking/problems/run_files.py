"""Run files as problems: a configuration is built, run and checked as ``baco-like tune`` does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from baco_like._typing import Rng
from baco_like.benchmarking.problems.problem import Evaluated, digest_of_space
from baco_like.evaluators import Evaluator
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.journal.header import FOLDER, ORGANISING, PEAK
from baco_like.records import Status, Trial
from baco_like.records.objective import Direction
from baco_like.records.objective_values import without_bound
from baco_like.running.run_file import RunFile, read
from baco_like.running.tuner import show_history
from baco_like.spaces.space import Space

_FREE = (FOLDER, PEAK, *(f"[evaluator] {key}" for key in ORGANISING))
"""Keys of the context that do not affect a measured value."""


@dataclass(frozen=True, eq=False)
class RunFileProblem:
    """The space, the objective, the limits and the evaluator of a run file; other processes read the file again.

    ``[optimizer]``, ``[confirmation]``, ``[drift]`` and ``[warm_start]`` are not used: the contender decides.

    Attributes:
        file: The contents of the file.
    """

    file: RunFile
    best_value: ClassVar[None] = None
    baseline: ClassVar[None] = None

    @property
    def name(self) -> str:
        """The name of the file, without its suffix."""
        return self.file.path.stem

    @property
    def space(self) -> Space:
        """The space; its default configuration is measured first by every contender."""
        return self.file.space

    @property
    def direction(self) -> Direction:
        """The direction of the objective."""
        return self.file.aim.first.direction

    @property
    def digest(self) -> str:
        """Digest of the space."""
        return digest_of_space(self.space)

    @property
    def context(self) -> dict[str, Any]:
        """Everything else that decides a measured value: commands, hashes of sources, version of the compiler."""
        limits = {"limits": [str(limit) for limit in self.file.aim.limits]}
        return {k: v for k, v in self.file.context.items() if k not in _FREE} | limits

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _read_once, (self.file.path,)

    def begin(self, trials: Sequence[Trial]) -> None:
        """Start a run with a new evaluator, which learns the trials that the run has observed before."""
        self.end()
        show_history(self._evaluator, self.file.aim, trials)

    @cached_property
    def _evaluator(self) -> Evaluator:
        return self.file.create_evaluator()

    def evaluate(self, trial_id: int, config: Mapping[str, Any], _rng: Rng | None) -> Evaluated:
        """Return the outcome of a configuration, within a run that has begun."""
        self._evaluator.submit(Trial(trial_id, config))
        while not (outcomes := self._evaluator.wait()):
            pass
        (outcome,) = outcomes
        if outcome.status is Status.ABANDONED:
            raise EvaluatorError(f"{self.file.path}: {outcome.message}")
        return Evaluated(self.file.aim.judge(without_bound(outcome, self.direction)))

    def end(self) -> None:
        """End the run: stop its processes, and remove its temporary files."""
        if (evaluator := vars(self).pop("_evaluator", None)) is not None:
            evaluator.close()


def read_run_file(path: Path, *, large: bool = False) -> RunFileProblem:
    """Return the problem of a run file.

    Raises:
        RunFileError: The file is wrong, or has tasks, a fidelity or several objectives.
        EvaluatorError: A tool that the evaluator needs is missing.
    """
    file = read(path, large=large)
    excluded = {
        "[tasks]": file.space.tasks,
        "[fidelity]": file.space.fidelity,
        "several [[objective]]": file.aim.several,
    }
    if found := next((table for table, value in excluded.items() if value), None):
        raise RunFileError(
            f"{path}: a study compares one value of each configuration; it cannot have {found}"
        )
    return RunFileProblem(file)


@cache
def _read_once(path: Path) -> RunFileProblem:
    """Return the problem of a file that another process has read before."""
    return read_run_file(path, large=True)
