"""Where kernels that are programs are built: a temporary folder with inputs and a compiled harness, made once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from baco_like.evaluators._processes import process
from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators._processes.stop import Stop
from baco_like.evaluators._processes.workplace import Workplace
from baco_like.exceptions import EvaluatorError


class Workshop:
    """Runs compilers and other tools in its folder, where ``harness.o`` waits to be linked.

    Args:
        compiler: Path of the C compiler.
        timeout: Seconds for a tool.
        harness: C source of the harness.
        write: Writes inputs and reference to a folder; returns the absolute tolerance of results.
    """

    def __init__(
        self, compiler: str, timeout: float, harness: str, write: Callable[[Path], float]
    ) -> None:
        self._compiler, self._timeout = compiler, timeout
        self._harness, self._write = harness, write
        self._workplace, self._stop = Workplace(), Stop()
        self._lock = threading.Lock()
        self._tolerance: float | None = None

    @property
    def folder(self) -> Path:
        """The folder; it exists."""
        return self._workplace.folder

    @property
    def stop(self) -> Stop:
        """Ends what runs in it."""
        return self._stop

    def prepared(self) -> float:
        """Make inputs, reference and harness where they are not there yet; return the absolute tolerance.

        Raises:
            EvaluatorError: The inputs cannot be made, or the harness does not compile.
        """
        with self._lock:
            if self._tolerance is None:
                tolerance = self._write(self.folder)
                (self.folder / "harness.c").write_text(self._harness, encoding="ascii")
                command = [self._compiler, "-O2", "-c", "harness.c", "-o", "harness.o"]
                finished = self.run(command)
                if not finished.ok:
                    raise EvaluatorError(
                        f"the compiler {self._compiler!r} fails on the harness: {finished.describe()}"
                    )
                self._tolerance = tolerance
            return self._tolerance

    def run(self, command: Sequence[str]) -> Finished:
        """Run a tool in the folder."""
        return process.run(
            command,
            timeout=self._timeout,
            folder=self.folder,
            environment={"TMPDIR": str(self.folder)},  # for what a killed tool leaves
            stop=self._stop,
        )

    def close(self) -> None:
        """End tools that are running, and remove the folder; the next use makes all of it again."""
        self._stop.set()
        self._stop = Stop()
        self._workplace.close()
        self._tolerance = None
