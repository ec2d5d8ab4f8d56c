"""Commands that propose configurations while a run goes on, such as a heuristic or a program that asks a model."""

from __future__ import annotations

import json
import shlex
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

from baco_like._output import warn_caller
from baco_like.evaluators._processes.process import Finished, Stop, run_command
from baco_like.exceptions import BacoError, BacoWarning
from baco_like.optimizer import Optimizer
from baco_like.records import History, Status, Trial
from baco_like.records.objective_values import number_within
from baco_like.records.sources import read_sources
from baco_like.records.trial import different_configs

_WANTED = 8
"""Number of proposals that are asked for; the command is asked again when fewer than half of them are left."""

_SHOWN = 10
"""Largest number of best trials, and of failed ones, that the command reads."""

_PAUSE = 5
"""Number of trials from one call of the command to the next one, at least."""

_MOST_ERRORS = 3
"""Number of errors after which the command is not asked again."""


class Proposer:
    """Asks a command for configurations in the background, while trials are measured. A callback of `tune`.

    The command reads a JSON object from its standard input: ``space`` (as `Space.to_dict` describes it),
    ``objectives``, the ``best`` and the latest ``failed`` trials, the proposals that were ``refused``, with the reason
    and the nearest possible configuration, and the number ``wanted``. It writes a JSON object in each line:
    ``{"config": {...}, "note": "..."}``. The name of the source is the command. Its errors are warnings; after three
    it is not asked again.

    Args:
        command: Program and arguments, as one text or a list; no shell interprets them.
        folder: Working directory; None for that of this process.
        seconds: Time limit of one call.

    Raises:
        ValueError: The command is empty, or the limit is not a number above 0.
    """

    def __init__(
        self, command: str | Sequence[str], folder: Path | None = None, seconds: float = 60.0
    ) -> None:
        self._command = shlex.split(command) if isinstance(command, str) else list(command)
        if not self._command:
            raise ValueError(
                f"command = {command!r}: expected a program, such as 'python3 ideas.py'"
            )
        self.source = shlex.join(self._command)
        self._folder, self._seconds = folder, number_within("seconds", seconds, "(0, inf)")
        self._thread: threading.Thread | None = None
        self._stop = Stop()
        self._ended: Finished | Exception | None = None
        self._refused: list[dict[str, Any]] = []
        self._errors, self._due = 0, 0

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return Proposer, (self._command, self._folder, self._seconds)

    def __call__(self, optimizer: Optimizer, trial: Trial) -> None:
        """Propose what the command has written, and ask it again if proposals are missing."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._propose(optimizer)
        if self._thread is None and self._errors < _MOST_ERRORS and self._is_due(optimizer.history):
            self._due = len(optimizer.history) + _PAUSE
            request = json.dumps(self._describe(optimizer))
            # A daemon: the end of Python does not wait for it, and ends the command.
            self._thread = threading.Thread(target=self._run, args=(request,), daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the command if it runs."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _is_due(self, history: History) -> bool:
        own = sum(proposal.source == self.source for proposal in history.open_proposals)
        if len(history) < self._due or own >= _WANTED // 2:
            return False
        record = read_sources(history).get(self.source)
        return record is None or not record.is_stopped

    def _describe(self, optimizer: Optimizer) -> dict[str, Any]:
        """Return what the command reads."""
        history, aim = optimizer.history, optimizer.options.aim
        failed = [trial for trial in history.trials if trial.status is Status.FAILED]
        best = optimizer.front if aim.several else different_configs(history.ranked(), _SHOWN)
        return {
            "space": optimizer.space.to_dict(),
            "objectives": [{"name": o.name, "direction": o.direction} for o in aim.objectives],
            "best": [
                {"config": dict(t.config), "value": t.value, "metrics": dict(t.metrics)}
                for t in best[:_SHOWN]
            ],
            "failed": [
                {"config": dict(t.config), "failed": t.failure, "message": t.message[:1000]}
                for t in failed[-_SHOWN:]
            ],
            "refused": self._refused,
            "wanted": _WANTED,
        }

    def _run(self, request: str) -> None:
        try:
            with tempfile.TemporaryFile() as file:
                file.write(request.encode())
                file.seek(0)
                self._ended = run_command(
                    self._command,
                    timeout=self._seconds,
                    folder=self._folder,
                    stop=self._stop,
                    stdin=file,
                )
        except Exception as error:  # the program is missing, or the run has ended
            self._ended = error

    def _propose(self, optimizer: Optimizer) -> None:
        ended, self._refused = self._ended, []
        if not isinstance(ended, Finished):
            return self._warn(str(ended))
        if not ended.ok:
            self._warn(ended.describe())
        for line in filter(None, map(str.strip, ended.out.splitlines())):
            try:
                read = json.loads(line)
                answer = optimizer.propose(
                    read["config"], source=self.source, note=read.get("note", "")
                )
            except (BacoError, ValueError, TypeError, LookupError, AttributeError):
                return self._warn(f'{line!r:.200} is not a line such as {{"config": {{...}}}}')
            if not answer.accepted:
                near = None if answer.nearest is None else dict(answer.nearest)
                refused = {"config": dict(answer.config), "reason": answer.reason, "nearest": near}
                self._refused.append(refused)
        return None

    def _warn(self, text: str) -> None:
        self._errors += 1
        end = "; it is not asked again" if self._errors == _MOST_ERRORS else ""
        warn_caller(f"proposer {self.source!r:.100}: {text}{end}", BacoWarning)
