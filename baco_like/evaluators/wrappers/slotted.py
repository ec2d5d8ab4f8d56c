"""An evaluator with several device slots: one measurement per slot at a time, builds anywhere."""

from __future__ import annotations

import contextlib
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from baco_like.evaluators.protocol import Evaluator, recall_history
from baco_like.evaluators.slots import resolve_slots
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Outcome, Trial
from baco_like.records.workers import WORKER, steady_time, worker_record

_WAIT_SLICE = 0.5
"""Seconds of one wait. Python handles a Ctrl-C that arrives just before a wait only after it."""


class SlotsEvaluator:
    """Distributes trials over slots. Each slot has its own evaluator, in which one thread measures.

    An evaluator that builds ahead (`StagedEvaluator` with ``ahead``) builds in further threads, without the slot.
    Evaluators that build and measure in one process, such as those of kernels, build in the process of the slot.

    Args:
        make: Makes the evaluator of a slot from the environment variables of its measuring processes.
        slots: The slots, see `resolve_slots`; all of one device type.

    Attributes:
        slots: The slots.
        parts: The evaluator of each slot.
        inner: The first of these, for whoever asks about commands, sources or metrics.

    Raises:
        EvaluatorError: An item is not a slot, a device does not exist or appears twice, or the types differ.
    """

    def __init__(
        self, make: Callable[[Mapping[str, str]], Evaluator], slots: Sequence[Any]
    ) -> None:
        self.slots = resolve_slots(slots)
        self.parts = [make(slot.environment) for slot in self.slots]
        self.inner = self.parts[0]
        self._session = secrets.token_hex(4)
        self._pending: dict[int, tuple[Trial, int]] = {}  # with the number of the slot
        self._error: BaseException | None = None
        self._start_anew()

    def _start_anew(self) -> None:
        self._threads: dict[int, threading.Thread] = {}
        self._ending = threading.Event()
        # One token per submitted trial; None ends the thread.
        self._tokens: list[queue.SimpleQueue[bool | None]] = [
            queue.SimpleQueue() for _ in self.slots
        ]
        self._finished: queue.SimpleQueue[tuple[int, Sequence[Outcome] | BaseException]] = (
            queue.SimpleQueue()
        )

    @property
    def capacity(self) -> int:
        """Largest number of pending trials: those of all slots."""
        return sum(part.capacity for part in self.parts)

    @property
    def device_type(self) -> str:
        """The device type of the slots."""
        return self.slots[0].type

    def submit(self, trial: Trial) -> None:
        """Give a trial to the slot with the fewest; its build may start now."""
        self._raise_error()
        loads = [0] * len(self.slots)
        for _, number in self._pending.values():
            loads[number] += 1
        number = loads.index(min(loads))
        self._pending[trial.id] = (trial, number)
        try:
            self.parts[number].submit(trial)
        except BaseException:
            del self._pending[trial.id]
            raise
        if number not in self._threads:
            arguments = (number, self._tokens[number], self._finished, self._ending)
            thread = threading.Thread(target=self._measure_all, args=arguments, daemon=True)
            self._threads[number] = thread
            thread.start()
        self._tokens[number].put(True)

    def wait(self) -> Sequence[Outcome]:
        """Block until a slot has an outcome; return all outcomes that exist.

        Raises:
            EvaluatorError: No trial was submitted, or the evaluator of a slot is broken.
        """
        self._raise_error()
        if not self._pending:
            raise EvaluatorError("wait() without a submitted trial")
        outcomes: list[Outcome] = []
        while not outcomes:
            outcomes = self._receive(_WAIT_SLICE)
            if not outcomes:
                self._raise_error()
        return outcomes

    def collect(self, timeout: float | None) -> Sequence[Outcome]:
        """Let running measurements end within the time, start no others, and return the outcomes."""
        self._end_threads(timeout)
        return self._receive(0.0)

    def recall(self, trials: Sequence[Trial], fidelity: str | None = None) -> None:
        """Show the observed trials of a resumed run to the evaluator of each slot."""
        for part in self.parts:
            recall_history(part, trials, fidelity)

    def close(self) -> None:
        """Stop and drop everything."""
        self._ending.set()
        for part in self.parts:
            part.close()
        self._end_threads(None)
        self._pending.clear()
        self._error = None
        self._start_anew()

    def _receive(self, timeout: float) -> list[Outcome]:
        outcomes: list[Outcome] = []
        with contextlib.suppress(queue.Empty):
            wait = timeout
            while True:
                number, result = (
                    self._finished.get(timeout=wait) if wait else self._finished.get_nowait()
                )
                wait = 0.0
                if isinstance(result, BaseException):
                    self._error = self._error or result
                else:
                    outcomes += [self._take(number, outcome) for outcome in result]
        return sorted(outcomes, key=lambda outcome: outcome.trial_id)

    def _take(self, number: int, outcome: Outcome) -> Outcome:
        """Remove a trial from the pending ones, and show its outcome to the other slots."""
        trial, _ = self._pending.pop(outcome.trial_id)
        for other, part in enumerate(self.parts):
            note = getattr(part, "note", None)
            if other != number and note is not None:
                note(trial.with_outcome(outcome))
        return outcome

    def _measure_all(
        self,
        number: int,
        tokens: queue.SimpleQueue[bool | None],
        finished: queue.SimpleQueue[tuple[int, Sequence[Outcome] | BaseException]],
        ending: threading.Event,
    ) -> None:
        """Measure the trials of a slot one after another, in a thread."""
        while tokens.get() is not None and not ending.is_set():
            started = time.perf_counter()
            try:
                outcomes = self.parts[number].wait()
            except BaseException as error:
                finished.put((number, error))
                continue
            seconds = (time.perf_counter() - started) / max(1, len(outcomes))
            for _ in outcomes[1:]:
                tokens.get()
            if not outcomes:
                tokens.put(True)
            finished.put((number, [self._name_slot(number, o, seconds) for o in outcomes]))

    def _name_slot(self, number: int, outcome: Outcome, seconds: float) -> Outcome:
        """Return an outcome with the name of its slot and the time in which the slot was busy: all but the build."""
        stages = outcome.extra.get("seconds")
        if isinstance(stages, Mapping) and stages:
            seconds = sum(value for stage, value in stages.items() if stage != "compile")
        name = self.slots[number].name
        record = worker_record(name, self._session, steady_time() - seconds, seconds)
        return replace(outcome, extra={**outcome.extra, WORKER: record})

    def _end_threads(self, timeout: float | None) -> None:
        self._ending.set()
        deadline = None if timeout is None else time.monotonic() + timeout
        for number, thread in self._threads.items():
            self._tokens[number].put(None)
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error
