"""What targets of generated kernels have in common: here their settings, and a bench of kernels in a worker process."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from baco_like.evaluators._processes.worker import Reply, Worker
from baco_like.evaluators.bench import StageFailure
from baco_like.evaluators.kernels.serving import Plan
from baco_like.evaluators.repeats import Repeats
from baco_like.evaluators.settings_table import Table, per_second
from baco_like.exceptions import RunFileError
from baco_like.records.trial import Trial

_START = 60.0
"""Seconds until a worker enters its first stage."""

_RESTART = 1.0
"""Seconds below which a run is not stopped for being slow: the worker would have to start again."""

_MESSAGE_LENGTH = 4000
"""Characters kept of what a compiler said, from the beginning."""

FIVE_TIMES = Repeats(5, 5)

KEYS = ("timeout", "build_timeout", "tolerance", "input_seed")
"""Keys of every target's table, read by `measuring`."""

Complete = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def measuring(table: Table) -> dict[str, Any]:
    """Return the fields of a target's settings that `KEYS` give; what a table leaves out keeps the settings' default.

    Raises:
        RunFileError: A value is wrong.
    """
    limits = ("timeout", "build_timeout", "tolerance")
    given: dict[str, Any] = {key: table.positive(key) for key in limits if table.has(key)}
    if table.has("input_seed"):
        given["input_seed"] = table.whole("input_seed")
    return given


class KernelBench:
    """Compiles and measures kernels in a worker, which is started again where a kernel has ended it.

    A kernel that is not compiled is the failure ``compile``, one that is wrong ``correctness``, a crash or an error
    of the launch ``runtime`` with its signal or message; over its time ``timeout``, censored at the limit where it is
    the kernel that was running. A kernel may write where it should not, and the next one has to suffer for it: a
    crash or a wrong result in a worker that has run others before counts only if it happens again in a new one.

    Args:
        worker: Serves a `baco_like.evaluators.kernels.serving.Server`.
        plan: Its limits.
        scale: What a second is in the objective's unit.
        complete: Returns a configuration with what the space has left out, or raises `EvaluatorError`.
    """

    def __init__(self, worker: Worker, plan: Plan, scale: float, complete: Complete) -> None:
        self._shared = _Shared(worker, plan, scale)
        self._complete = complete

    def build(self, trial: Trial, seconds: dict[str, float]) -> _Compiled:
        """Compile a configuration.

        Raises:
            StageFailure: It is not compiled.
            EvaluatorError: A value is not understood, or the worker does not start.
        """
        compiled = _Compiled(self._shared, dict(self._complete(trial)), seconds)
        compiled.compile()
        return compiled

    def close(self) -> None:
        """End the worker; the next build starts another."""
        self._shared.worker.close()


class _Shared:
    """The worker, and what is known of its present process."""

    def __init__(self, worker: Worker, plan: Plan, scale: float) -> None:
        self.worker, self.plan, self.scale = worker, plan, scale
        self.used = 0  # the process that has run kernels, numbered by `Worker.starts`
        self._keys = itertools.count()
        self._dropped: list[int] = []
        self._lock = threading.Lock()

    def new_key(self) -> int:
        with self._lock:
            return next(self._keys)

    def drop(self, key: int) -> None:
        with self._lock:
            self._dropped.append(key)

    def dropped(self) -> list[int]:
        """Return the keys that are not needed any more, once."""
        with self._lock:
            dropped, self._dropped = self._dropped, []
        return dropped


@dataclass
class _Compiled:
    """A kernel in the worker."""

    shared: _Shared
    config: dict[str, Any]
    seconds: dict[str, float]
    key: int = -1

    def compile(self) -> None:
        """Compile it in the worker's present process, or in a new one if that crashes."""
        reply = self._confirmed(self._compilation)
        if not reply.ok:
            raise self._failure(reply, None)

    def measure(self, count: int, limit: float | None) -> tuple[float, ...]:
        """Measure it; the first call launches it once before, and checks what that has written."""
        enough = math.inf if limit is None else limit / self.shared.scale
        timeout = min(self.shared.plan.timeout, max(enough, _RESTART))
        reply = self._confirmed(lambda: self._measurement(count, enough, timeout))
        if not reply.ok or _is_wrong(reply):
            raise self._failure(reply, self._bound(reply, timeout))
        return self._repeats(reply)

    def discard(self) -> None:
        """Have the worker forget it with the next compilation."""
        self.shared.drop(self.key)

    def _confirmed(self, request: Callable[[], Reply]) -> Reply:
        """Return the reply, that of a new process where an earlier kernel may be to blame."""
        shared = self.shared
        suspects = shared.used == shared.worker.starts
        reply = request()
        crashed = reply.ended is not None and not reply.timed_out
        if suspects and (crashed or _is_wrong(reply)):
            shared.worker.close()
            reply = request()
        return reply

    def _compilation(self) -> Reply:
        self.key = self.shared.new_key()
        return self._reply(key=self.key, config=self.config, drop=self.shared.dropped())

    def _measurement(self, count: int, enough: float, timeout: float) -> Reply:
        shared = self.shared
        for _ in range(2):
            reply = self._reply(key=self.key, count=count, enough=min(enough, 1e9), timeout=timeout)
            if not reply.ok or reply.value is not None:
                break
            again = self._compilation()  # that process is gone, and the kernel with it
            if not again.ok:
                return again
        shared.used = shared.worker.starts
        return reply

    def _reply(self, **content: Any) -> Reply:
        reply = self.shared.worker.request(content, timeout=_START)
        for stage, seconds in reply.seconds.items():
            self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        return reply

    def _repeats(self, reply: Reply) -> tuple[float, ...]:
        return tuple(seconds * self.shared.scale for seconds in reply.notes)

    def _failure(self, reply: Reply, bound: float | None) -> StageFailure:
        repeats = self._repeats(reply)
        if reply.ok:
            return StageFailure("correctness", f"check: {reply.value['problem']}", repeats=repeats)
        word = "compile" if reply.stage == "compile" else "runtime"
        word = "timeout" if reply.timed_out else word
        message = reply.describe().strip()[:_MESSAGE_LENGTH]
        return StageFailure(word, message, bound=bound, repeats=repeats)

    def _bound(self, reply: Reply, timeout: float) -> float | None:
        """Return the limit at which the kernel itself was stopped, where no time of it is known, else None."""
        plan = self.shared.plan
        in_launch = reply.stage == "launch" and plan.launch_timeout == plan.timeout
        if not reply.timed_out or reply.notes or not (in_launch or reply.stage == "run"):
            return None
        return (plan.timeout if in_launch else timeout) * self.shared.scale


def _is_wrong(reply: Reply) -> bool:
    return reply.ok and reply.value is not None and reply.value["problem"] is not None


def time_scale(table: Table, unit: str, kind: str) -> float:
    """Return what a second is in the objective's unit, or raise `RunFileError` where it is no unit of time."""
    scale = per_second(unit)
    if scale is None:
        raise RunFileError(
            f"[{table.name}] kind {kind!r} measures time, not {unit!r}; "
            'write unit = "ms" (s, ms, us or ns) into [objective]'
        )
    return scale
