"""This package's optimizer as a search strategy of TVM's MetaSchedule, which builds and measures the schedules.

``ms.tune_tir(mod, target, work_dir, max_trials_global, strategy=BacoSearchStrategy())``. The decisions of TVM's design
spaces are the parameters. TVM's cost model is not used; its database keeps the records, as always.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._optional import needs_extra
from baco_like.exceptions import SpaceExhausted
from baco_like.integrations._shared import ForeignParameter, check_options, observe_answer
from baco_like.optimizer import Optimizer, Search
from baco_like.parameters import Parameter
from baco_like.records import Trial
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("tvm", "tvm"):
    from tvm.ir.utils import derived_object
    from tvm.s_tir import Schedule
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.meta_schedule.arg_info import ArgInfo
    from tvm.s_tir.meta_schedule.search_strategy import PySearchStrategy
    from tvm.s_tir.schedule import Trace
    from tvm_ffi import structural_hash

__all__ = ["BacoSearchStrategy", "TraceSpace"]

SKETCH = "sketch"
"""Name of the parameter that chooses among several design spaces."""

_REPLAYS = 16
"""Number of replays of a trace that show which locations a computation can have."""

_MOST_SKIPPED = 20
"""Number of configurations for each candidate that a postprocessor may reject, before a round ends with fewer."""


@derived_object
class BacoSearchStrategy(PySearchStrategy):  # type: ignore[misc]  # not installed where types are checked
    """Suggests schedules of TVM's design spaces; the first is the schedule that TVM has drawn for the first of them.

    A tile is one parameter for each factor but the outermost, with the constraint that their product divides the
    extent; a categorical decision is an ordinal or a categorical parameter, and several design spaces are conditional
    on the parameter ``sketch``. Schedules that a postprocessor rejects are failures and are not measured. Schedules
    that give equal programs are measured once. A tuning run has one optimizer for each task.

    Args:
        strategy: A registered name, a strategy object, or a `Search` with settings.
        batch: Candidates of a round; TVM builds them together. Fewer learn more from each.
        folder: Folder for one journal of each task, by which an interrupted run resumes; None keeps none.
        warm_start: Results of earlier runs, as for `Optimizer`.

    Attributes:
        optimizers: The optimizer of each task by name: its trials and its model.

    Raises:
        ValueError: The strategy or a setting does not exist, or ``batch`` is not an integer from 1.
    """

    def __init__(
        self,
        strategy: str | Strategy[Any] | Search = "auto",
        *,
        batch: int = 8,
        folder: str | os.PathLike[str] | None = None,
        warm_start: Any = None,
        optimizers: dict[str, Optimizer] | None = None,
    ) -> None:
        super().__init__()
        self.optimizers = {} if optimizers is None else optimizers  # of all clones
        self._batch = whole_number("batch", batch, 1)
        self._options = check_options(strategy, warm_start)
        self._given: dict[str, Any] = {"strategy": strategy, "batch": batch, "folder": folder}
        self._given |= {"warm_start": warm_start, "optimizers": self.optimizers}
        self._task, self._seed = "", 0
        self._mod: Any = None
        self._postprocs: tuple[Any, ...] = ()
        self._space: TraceSpace | None = None
        self._trials: list[Trial] = []
        self._waiting: list[Trial] = []
        self._programs: list[str] = []
        self._measured: dict[str, Trial] = {}
        self._left = 0

    @override
    def _initialize_with_tune_context(self, context: Any) -> None:
        # The context itself would be a cycle that TVM never frees.
        self._task, self._seed = str(context.task_name), max(0, int(context.rand_state))
        self._mod = context.mod
        self._postprocs = tuple(context.space_generator.postprocs or ())

    @override
    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Any],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Begin a run; TVM calls this."""
        self._batch = min(self._batch, num_trials_per_iter)
        self._space = TraceSpace.of(self._mod, [schedule.trace for schedule in design_spaces])
        journal = None
        if self._given["folder"] is not None:
            journal = Path(self._given["folder"]) / f"{self._task}.jsonl"
            journal.parent.mkdir(parents=True, exist_ok=True)
        optimizer = self.optimizers[self._task] = Optimizer(
            self._space.space,
            seed=self._seed,
            storage=journal,
            **{**self._options, "budget": max_trials},
        )
        optimizer.take_part()
        self._waiting = optimizer.own_pending
        programs = ((trial.extra.get("program"), trial) for trial in optimizer.trials)
        self._measured = {program: trial for program, trial in programs if program is not None}
        self._left = max_trials - len(self._measured)

    @override
    def post_tuning(self) -> None:
        """Do nothing: every result is observed already."""

    @override
    def generate_measure_candidates(self) -> list[Any] | None:
        """Return the next candidates, or None when the trials or the schedules are exhausted."""
        candidates: list[Any] = []
        made: dict[str, Trial] = {}
        self._trials = []
        number = min(self._batch, self._left)
        for _ in range(_MOST_SKIPPED * number):
            missing = number - len(candidates)
            if not missing:
                break
            try:
                trials = self._next_trials(missing)
            except SpaceExhausted:
                break
            for trial in trials:
                schedule = self._schedule(trial)
                if schedule is None:
                    self._optimizer.observe(
                        trial, failed="constraints", message="a postprocessor rejects the schedule"
                    )
                    continue
                program = str(structural_hash(schedule.mod))
                if program in self._measured:
                    self._repeat(trial, program)
                    continue
                if program in made:  # of this round: its result will come
                    self._optimizer.abandon(trial, "an equal schedule is being measured")
                    continue
                made[program] = trial
                self._trials.append(trial)
                args = ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
                candidates.append(ms.MeasureCandidate(schedule, args))
        self._programs = list(made)
        self._left -= len(candidates)
        return candidates or None

    def _next_trials(self, number: int) -> list[Trial]:
        """Return trials, first those that an interrupted run has left.

        Raises:
            SpaceExhausted: None is left.
        """
        if self._waiting:
            begun, self._waiting = self._waiting[:number], self._waiting[number:]
            return self._optimizer.reclaim(begun)
        return self._optimizer.suggest(number)

    @override
    def notify_runner_results(self, measure_candidates: Any, results: Sequence[Any]) -> None:
        """Observe the results of the latest candidates."""
        for trial, program, result in zip(self._trials, self._programs, results, strict=True):
            value = [1e3 * float(seconds) for seconds in result.run_secs or ()] or None
            failed = _failure_word(str(result.error_msg)) if value is None else None
            message = "" if failed is None else str(result.error_msg)
            observe_answer(
                *(self._optimizer, trial, value),
                failed=failed,
                message=message,
                program=program,
            )
            self._measured[program] = self._optimizer.trials[-1]
        self._trials = []

    @override
    def clone(self) -> Any:
        """Return a strategy with the same settings; TVM uses one for each task."""
        return BacoSearchStrategy(**self._given)

    @property
    def _optimizer(self) -> Optimizer:
        return self.optimizers[self._task]

    def _repeat(self, trial: Trial, program: str) -> None:
        """Observe the result of an equal program."""
        known = self._measured[program]
        failed = known.failure
        value = None if failed else list(known.repeats)
        message = known.message if failed else ""
        self._optimizer.observe(trial, value, failed=failed, message=message, program=program)

    def _schedule(self, config: Mapping[str, Any]) -> Any:
        """Return the schedule of a configuration after the postprocessors, or None if it cannot be made."""
        assert self._space is not None
        schedule = Schedule(self._mod)
        try:
            self._space.to_trace(config).apply_to_schedule(schedule, remove_postproc=True)
        except Exception:  # TVM has several types; each means that the decisions do not fit
            return None
        schedule.enter_postproc()
        accepted = all(each.apply(schedule) for each in self._postprocs)
        return schedule if accepted else None


def _failure_word(message: str) -> str:
    """Return the failure word of a message of TVM's builder or runner."""
    if "Timeout" in message:
        return "timeout"
    return "runtime" if message.startswith(("LocalRunner", "RPCRunner")) else "compile"


# Spaces ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Decision:
    """One sampling instruction of a trace.

    Attributes:
        index: Its place among the instructions.
        initial: The decision that TVM has drawn.
        names: The parameters: the factors of a tile from the second, or one parameter; none if there is no choice.
        extent: The extent of a tile; None for another decision.
        codes: Maps the value of the parameter to TVM's decision, which is an index into the candidates.
    """

    index: int = 0
    initial: Any = None
    names: tuple[str, ...] = ()
    extent: int | None = None
    codes: Mapping[Any, Any] = field(default_factory=dict)

    def to_tvm(self, config: Mapping[str, Any]) -> Any:
        if not self.names:
            return self.initial
        if self.extent is None:
            return self.codes[config[self.names[0]]]
        factors = [config[name] for name in self.names]
        return [self.extent // math.prod(factors), *factors]


@dataclass(frozen=True)
class TraceSpace:
    """The space of the decisions in the traces of TVM's design spaces.

    Attributes:
        space: The space; its default configuration has the decisions that the first trace came with.
        traces: The traces.
    """

    space: Space
    traces: Sequence[Any]
    _decisions: Sequence[Sequence[_Decision]]

    @classmethod
    def of(cls, mod: Any, traces: Sequence[Any]) -> TraceSpace:
        """Return the space of traces of a module; equal decisions of several traces are the same parameters."""
        parameters: dict[str, Parameter] = {}
        constraints: dict[str, None] = {}
        used: dict[str, list[int]] = {}
        decisions = []
        for sketch, trace in enumerate(traces):
            counts: dict[str, int] = {}
            own = []
            for index, inst in enumerate(trace.insts):
                if inst not in trace.decisions:
                    continue
                label, found, rules, decision = _read(mod, trace, inst)
                number = counts[label] = counts.get(label, -1) + 1
                names = {part: f"{label}_{number}{part}" for part in found}
                for part, name in names.items():
                    parameters.setdefault(name, found[part])
                    used.setdefault(name, []).append(sketch)
                constraints |= dict.fromkeys(rule.format(*names.values()) for rule in rules)
                own.append(replace(decision, index=index, names=tuple(names.values())))
            decisions.append(own)
        when: dict[str, str] = {}
        if len(traces) > 1:
            parameters[SKETCH] = ForeignParameter.of(map(str, range(len(traces))), "0").parameter
            when = {
                name: f"{SKETCH} in {[str(s) for s in sketches]!r}"
                for name, sketches in used.items()
                if len(sketches) < len(traces)
            }
        if not parameters:
            parameters[SKETCH] = ForeignParameter.of(["0"], "0").parameter
        return cls(Space(parameters, list(constraints), when=when), list(traces), decisions)

    def to_trace(self, config: Mapping[str, Any]) -> Any:
        """Return the trace with the decisions of a configuration."""
        sketch = int(config.get(SKETCH, "0"))
        trace = self.traces[sketch]
        decisions = {trace.insts[d.index]: d.to_tvm(config) for d in self._decisions[sketch]}
        return Trace(list(trace.insts), decisions)


def _read(
    mod: Any, trace: Any, inst: Any
) -> tuple[str, dict[str, Parameter], list[str], _Decision]:
    """Return a label, the parameters by suffix, rules with a place for each name, and the decision without names."""
    kind, initial = inst.kind.name, trace.decisions[inst]
    if kind == "SamplePerfectTile":
        factors = [int(factor) for factor in initial]
        extent, largest = math.prod(factors), int(inst.attrs[1])
        divisors = [n for n in range(1, extent + 1) if extent % n == 0]
        found: dict[str, Parameter] = {}
        for place, default in enumerate(factors[1:], 1):
            is_innermost = place == len(factors) - 1
            values = [n for n in divisors if not is_innermost or n <= max(largest, default)]
            found[f"_{place}"] = ForeignParameter.of(values, default).parameter
        if extent == 1:
            found = {}
        product = " * ".join(["{}"] * len(found))
        rules = [f"{extent} % ({product}) == 0"] if len(found) > 1 else []
        decision = _Decision(initial=factors, extent=extent)
        return f"tile{extent}x{len(factors)}", found, rules, decision
    if kind == "SampleCategorical":
        codes = {int(value): code for code, value in reversed(list(enumerate(inst.attrs[0])))}
        default = int(inst.attrs[0][int(initial)])
        label = "choice"
    else:  # a location, or what a later version may have
        seen = {*_replayed(mod, trace, inst), initial}
        with suppress(TypeError):
            seen = {int(code) for code in seen}
        codes, default, label = {code: code for code in seen}, int(initial), "place"
    parameter = ForeignParameter.of(codes, default).parameter
    label += "_".join(map(str, ["", *sorted(codes)])).replace("-", "m")
    found = {"": parameter} if len(codes) > 1 else {}
    return label, found, [], _Decision(initial=initial, codes=codes)


def _replayed(mod: Any, trace: Any, inst: Any) -> Iterator[Any]:
    """Yield the decisions of an instruction in replays of its trace with new decisions."""
    place = list(trace.insts).index(inst)
    for seed in range(1, _REPLAYS + 1):
        schedule = Schedule(mod, seed=seed)
        with suppress(Exception):  # a replay may fail
            Trace(list(trace.insts), {}).apply_to_schedule(schedule, remove_postproc=True)
            replay = schedule.trace
            yield replay.decisions[next(itertools.islice(replay.insts, place, None))]
