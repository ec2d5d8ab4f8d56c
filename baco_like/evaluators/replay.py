"""Replay recorded results as a simulated device: strategies can be compared on it in seconds, without the hardware."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from baco_like._checks import whole_number
from baco_like._random import Purpose, generator
from baco_like._tables import Count, Natural, Table, keys_of, shown, suggestion
from baco_like.evaluators.protocol import KIND, RunArguments
from baco_like.evaluators.repeats import MOST, BestValues, Repeats, takes_little
from baco_like.exceptions import EvaluatorError, JournalError, RunFileError
from baco_like.records import Outcome, Trial
from baco_like.records.limits import without_limits
from baco_like.records.trial import SLOW, STOPPED
from baco_like.results.formats import read
from baco_like.results.recording import Recording
from baco_like.spaces.space import Space

__all__ = ["ReplayEvaluator", "load"]


@dataclass(frozen=True, kw_only=True)
class ReplayTable:
    """The table ``[evaluator]`` of the kind ``replay``; the other keys of `Repeats` belong to it, too.

    Attributes:
        file: The recorded results; relative paths start at the run file.
        objective: The measurement to use, if the file has several; None: the file's.
        draw: Draw each value from the recorded repeats.
        draw_seed: Seed of these draws.
        capacity: Simulated devices that run at the same time.
        large: The file may have more than 64 MiB, unpacked.
        repeats: Recorded repeats of every configuration; None: all.
    """

    file: str
    objective: str | None = None
    draw: bool = False
    draw_seed: Natural = 0
    capacity: Count = 1
    large: bool = False
    repeats: Count | None = None


def load(path: str | Path, objective: str | None = None, *, large: bool = False) -> Recording:
    """Read recorded results in any format that `baco_like.results` reads.

    Args:
        path: The file.
        objective: Name of the measurement to use as the value; None uses the one that the file names.
        large: Whether the file may have more than 64 MiB, unpacked.

    Raises:
        EvaluatorError: The file cannot be read, is too large, has an unknown format, or lacks the measurement.
    """
    try:
        return read(path, objective, large=large)
    except (RunFileError, JournalError) as error:
        raise EvaluatorError(str(error)) from None


class ReplayEvaluator:
    """Returns recorded outcomes of trials, in the order in which a real device would finish them.

    A configuration that is not recorded fails with the word ``constraints``: it was not measured because the space of
    the recording excluded it.

    Args:
        recording: The recorded results.
        draw_seed: With a seed, each value is drawn from the recorded repeats, by the seed and the trial's id. None
            returns the recorded value, the same each time.
        capacity: Number of simulated devices that work at the same time.
        repeats: A rule for the number of measurements. The recorded repeats are then used in their order, as far as
            the rule asks for them, and the time of the run is the share of the used ones. None uses all.

    Attributes:
        clock: Simulated seconds until the latest returned trial ended. A trial takes as long as its recorded stages
            (compile, run, check) together; it begins when it is submitted, or when a device is free.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        draw_seed: int | None = None,
        capacity: int = 1,
        repeats: Repeats | None = None,
    ) -> None:
        if draw_seed is not None and repeats is not None:
            raise EvaluatorError("draw_seed draws one repeat; leave it out, or leave out repeats")
        self._rule = repeats
        self._best = BestValues()
        self.capacity = whole_number("capacity", capacity, 1)
        self.clock = 0.0
        self._recording = recording
        self._draw_seed = draw_seed
        self._free_at = [0.0] * capacity
        self._running: list[tuple[float, int, Trial, Outcome]] = []
        self._submitted = 0

    @classmethod
    def from_table(cls, table: Table, run: RunArguments) -> ReplayEvaluator:
        """Create it from the ``[evaluator]`` table of a run file.

        Args:
            table: Keys as in `ReplayTable`; ``file`` is in any format that `baco_like.results` reads.
            run: Its space has the parameters of the recording. Its unit and environment are not used.

        Raises:
            RunFileError: A key is unknown, missing or wrong.
            EvaluatorError: The recording cannot be read, or has other parameters or values than the space.
        """
        rule = keys_of(Repeats)
        read = table.create(ReplayTable, KIND, *rule[1:])
        given = {k.name: table.entries[k.name] for k in rule if table.has(k.name)}
        least = {"repeats": 1 if "max_repeats" in given else MOST}
        recording = load(run.folder / read.file, read.objective, large=read.large)
        _check_parameters(recording, run.space)
        return cls(
            recording,
            draw_seed=read.draw_seed if read.draw else None,
            capacity=read.capacity,
            repeats=Table(table.name, least | given).create(Repeats) if given else None,
        )

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of all recorded metrics."""
        named = (name for outcome in self._recording.outcomes for name in outcome.metrics)
        return tuple(dict.fromkeys(named))

    def recall(self, trials: Sequence[Trial], fidelity: str | None = None) -> None:
        """Learn the best value of the trials that a resumed run has observed."""
        self._best = BestValues(fidelity, trials)

    def submit(self, trial: Trial) -> None:
        """Start a trial on the simulated device that is free first."""
        outcome = self._outcome_of(trial)
        start = max(heapq.heappop(self._free_at), self.clock)
        end = start + sum(outcome.seconds.values())
        heapq.heappush(self._free_at, end)
        heapq.heappush(self._running, (end, self._submitted, trial, outcome))
        self._submitted += 1

    def wait(self) -> Sequence[Outcome]:
        """Return the outcome of the trial that ends next.

        Raises:
            EvaluatorError: No trial was submitted.
        """
        if not self._running:
            raise EvaluatorError("wait() without a submitted trial")
        self.clock, _, trial, outcome = heapq.heappop(self._running)
        self._best.add(trial, outcome.value)
        return [outcome]

    def close(self) -> None:
        """Drop all running trials."""
        self._running.clear()
        self._free_at = [self.clock] * len(self._free_at)

    def _outcome_of(self, trial: Trial) -> Outcome:
        recorded = self._recording.find(trial)
        if recorded is None:
            return Outcome.failure(trial.id, "constraints", "not in the recorded table")
        recorded = without_limits(recorded)  # the run has its own
        extra = {"seconds": dict(recorded.seconds)}
        if recorded.value is not None:
            value = recorded.value
            if self._draw_seed is not None and recorded.repeats:
                rng = generator(self._draw_seed, Purpose.EVALUATE, trial.id)
                value = recorded.repeats[int(rng.integers(len(recorded.repeats)))]
            elif recorded.repeats and self._rule is not None:
                return self._measure(trial, recorded, self._rule)
            return Outcome.success(trial.id, (value,), metrics=recorded.metrics, extra=extra)
        word, message = recorded.failed or "runtime", recorded.message
        if recorded.bound is not None:
            return Outcome.censored(trial.id, recorded.bound, word, message, extra=extra)
        return Outcome.failure(trial.id, word, message, extra=extra)

    def _measure(self, trial: Trial, recorded: Outcome, rule: Repeats) -> Outcome:
        """Return the outcome of the recorded repeats that the rule asks for."""
        rule, best, repeats = rule.for_trial(trial), self._best.find(trial), recorded.repeats
        limit, values, seconds = rule.limit(best), list[float](), dict(recorded.seconds)
        run, total = seconds.pop("run", 0.0), sum(repeats)
        while len(values) < len(repeats):
            count = rule.missing(values, best, is_cheap=takes_little(seconds))
            if not count:
                break
            for value in repeats[len(values) :][:count]:
                values.append(value)
                if rule.is_slow(values, best):
                    break
            # A first run that reaches the limit is stopped there.
            used = sum(values) if limit is None else min(values[0], limit) + sum(values[1:])
            seconds["run"] = run * used / total
        extra: dict[str, Any] = {"seconds": seconds}
        if rule.is_slow(values, best):
            assert limit is not None
            message = f"run: stopped at {rule.slow_ratio:g} times the best, {best:.6g}"
            extra[STOPPED] = SLOW
            return Outcome.censored(trial.id, limit, message=message, extra=extra)
        outcome = Outcome.success(trial.id, tuple(values), metrics=recorded.metrics, extra=extra)
        if len(values) < len(repeats):
            return outcome
        # A full measurement has the recorded value, which may be another statistic than the median.
        return replace(outcome, value=recorded.value, metric_repeats=recorded.metric_repeats)


from_table = ReplayEvaluator.from_table


def _check_parameters(recording: Recording, space: Space) -> None:
    """Refuse a recording of other parameters, and one that no configuration of the space can be in."""
    for name in space.names:
        if name not in recording.names:
            hint = suggestion(name, recording.names)
            raise EvaluatorError(f"the recorded table has no parameter {name!r}; {hint}")
    for name in recording.names:
        if name not in space.names:
            raise EvaluatorError(
                f"the space has no parameter {name!r}, which the recorded table has"
            )
    for name, parameter in space.parameters.items():
        values = recording.domains[name]
        if all(parameter.value_from_text(value) is None for value in values):
            raise EvaluatorError(
                f"parameter {name!r}: none of the recorded values {shown(list(values))} is one of the space's"
            )
