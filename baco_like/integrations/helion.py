"""This package's optimizer as a search algorithm of Helion, which compiles, checks and times the kernels.

``import baco_like.integrations.helion`` registers the name ``baco_like``: for the environment variable
``HELION_AUTOTUNER=baco_like``, and for ``helion.autotuner.autotune(..., algorithm="baco_like")``. For one kernel write
``@helion.kernel(autotuner_fn=autotuner(evaluations=100))``.
"""

from __future__ import annotations

import inspect
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._optional import needs_extra
from baco_like.constraints.table import TableConstraint
from baco_like.exceptions import ConfigError
from baco_like.integrations._shared import ForeignParameter, check_options
from baco_like.journal import Journal
from baco_like.journal.lock import journal_file, sole_runner
from baco_like.optimizer import Optimizer, Search
from baco_like.parameters import Integer
from baco_like.records import Outcome, Trial
from baco_like.records.objective_values import outcome_from
from baco_like.records.trial import MEASURED_AGAIN
from baco_like.running import Confirm, MaxEvals, MaxTime, Measuring, StoppingRule
from baco_like.running.tuner import INTERRUPTED, search_and_confirm
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("helion", "helion"):
    from helion import Config, exc
    from helion.autotuner import IntegerFragment, ListOf, cache_classes, search_algorithms
    from helion.autotuner import autotune as _autotune_kernel
    from helion.autotuner.base_cache import should_skip_cache
    from helion.autotuner.base_search import BaseAutotuner, BaseSearch
    from helion.autotuner.benchmark_provider import LocalBenchmarkProvider
    from helion.autotuner.config_fragment import PermutationFragment
    from helion.autotuner.local_cache import get_helion_cache_dir, stable_autotune_hash

__all__ = ["BacoAutotuner", "autotune", "autotuner", "read_space"]

_MAX_LISTED = 1000
"""Whole numbers with more values than this become an interval instead of a list."""

_FAILURES = {
    "accuracy_error": "correctness",
    "filtered": "constraints",
    "peer_compilation_fail": "compile",
    "source_rejected": "correctness",
    "timeout": "timeout",
}
"""Maps the statuses of Helion to failure words; ``error`` is a failed build, unless its build time is known."""


def autotune(
    tunables: Mapping[str, Any],
    compile_fn: Callable[[Config], Callable[..., Any]],
    args: Sequence[Any],
    **options: Any,
) -> Config:
    """Tune a kernel that Helion has not made, by `helion.autotuner.autotune`.

    Args:
        tunables: Maps each name to one of Helion's fragments, such as ``PowerOfTwoFragment(16, 256, 64)``.
        compile_fn: Returns the callable of a configuration.
        args: Arguments of the callable.
        **options: Of `BacoAutotuner` or of Helion: ``baseline_fn``, ``device``, and settings ``autotune_...``.

    Returns:
        The best configuration.

    Raises:
        ValueError: An option does not exist.
    """
    return _autotune_kernel(dict(tunables), compile_fn, args, algorithm="baco_like", **options)


def autotuner(**options: Any) -> Callable[..., BaseAutotuner]:
    """Return the value of ``@helion.kernel(autotuner_fn=...)``, with options of `BacoAutotuner`.

    Helion's cache is used as for its own algorithms: a kernel that is in the cache is not tuned again.

    Raises:
        TypeError: An option does not exist.
        ValueError: The strategy or a setting does not exist.
    """
    inspect.signature(BacoAutotuner).bind(None, (), **options)
    check_options(options.get("strategy", "auto"), None)

    def make(bound_kernel: Any, args: Sequence[Any], **kwargs: Any) -> BaseAutotuner:
        def search() -> BacoAutotuner:
            return BacoAutotuner(bound_kernel, args, **{**kwargs, **options})

        cache = cache_classes[bound_kernel.settings.autotune_cache]
        return cache(search(), autotuner_factory=search)

    return make


class BacoAutotuner(BaseSearch):  # type: ignore[misc]  # not installed where types are checked
    """Searches the configurations of a Helion kernel; the default configuration is measured first.

    Then come the seeds of the user and of the compiler. Helion's limits on tensor sizes are constraints. All
    configurations that the filter rejects count as one evaluation; they teach, as failed ones do, which others to
    avoid. Configurations that Helion makes equal are measured once.
    Helion's seed, time budget, baseline, accuracy check and time limits apply. The journal is beside Helion's cache; it
    resumes an interrupted run.

    Args:
        kernel: The bound kernel; Helion passes it.
        args: Its arguments.
        evaluations: Number of configurations that are measured, including failed ones.
        batch: Configurations passed to Helion at once; it builds them in parallel. Fewer learn more from each.
        strategy: A registered name, a strategy object, or a `Search` with settings.
        storage: A journal, as for `Optimizer`; None: beside Helion's cache, if the kernel is one that Helion caches.
        warm_start: Results of earlier runs, as for `Optimizer`.
        confirm: How the best configurations are measured again with the default one, which is returned if it is
            best; None: the best single measurement decides.
        benchmark_provider_cls: What measures, as for Helion's own algorithms.

    Attributes:
        optimizer: The optimizer of the latest run: its trials and its model. None before the first run.

    Raises:
        ValueError: The strategy or a setting does not exist, or a number is not an integer from 1.
    """

    def __init__(
        self,
        kernel: Any,
        args: Sequence[Any],
        *,
        evaluations: int = 100,
        batch: int = 4,
        strategy: str | Strategy[Any] | Search = "auto",
        storage: str | os.PathLike[str] | Journal | None = None,
        warm_start: Any = None,
        confirm: Confirm | None = Confirm(simplify=0),  # noqa: B008
        benchmark_provider_cls: Callable[..., Any] = LocalBenchmarkProvider,
    ) -> None:
        super().__init__(kernel, args, benchmark_provider_cls)
        self.config_gen = self.config_spec.create_config_generation(
            overrides=self.settings.autotune_config_overrides or None,
            advanced_controls_files=self.settings.autotune_search_acf or None,
            process_group_name=kernel.env.process_group_name,
        )
        self._evaluations = whole_number("evaluations", evaluations, 1)
        self._batch = whole_number("batch", batch, 1)
        self._options = check_options(strategy, warm_start, budget=self._evaluations)
        self._storage, self._confirm = storage, confirm
        self.optimizer: Optimizer | None = None

    @classmethod
    @override
    def get_kwargs_from_profile(cls, profile: Any, settings: Any) -> dict[str, Any]:
        """Return the options that follow from Helion's effort: 50 evaluations for ``quick``, 200 for ``full``."""
        random = profile.random_search
        return {} if random is None else {"evaluations": min(random.count // 2, 200)}

    @override
    def _autotune(self) -> Config:
        """Search, and return the best configuration; Helion calls this.

        Raises:
            NoConfigFound: Every configuration failed; or the error of the compiler, if none could be built.
        """
        seeds = [
            self.config_gen.canonicalize_flat(self.config_gen.default_flat())[0],
            *(flat for flat, _ in self._seed_pairs()),
        ]
        fields = read_space(self.config_gen, seeds)
        space = _constrained_space(self, fields)
        storage = self._journal()
        with sole_runner(journal_file(storage), False):
            optimizer = self.optimizer = self._open_optimizer(space, storage)
            if not (optimizer.trials or optimizer.pending):
                for flat in seeds:
                    with suppress(ConfigError):  # equal to another seed
                        optimizer.enqueue(fields.to_config(flat))
            stop: StoppingRule = MaxEvals(self._evaluations)
            limit = self.settings.autotune_budget_seconds
            if limit is not None:
                left = limit - (time.perf_counter() - (self._autotune_budget_start or 0.0))
                stop = stop | MaxTime(max(left, 1e-3))
            evaluator = _HelionEvaluator(self, fields, optimizer)
            measuring = Measuring(confirm=self._confirm)
            result = search_and_confirm(optimizer, evaluator, stop, measuring, None)
        if result.reason == INTERRUPTED:
            raise KeyboardInterrupt
        self.log(f"baco_like: {result.reason}")
        winner = result.recommended
        if winner is None:
            raise self.benchmark_provider.take_no_viable_config_error() or exc.NoConfigFound
        config = self.config_gen.unflatten(fields.to_flat(winner.config))
        change = self.settings.autotune_config_filter  # it may return another configuration
        return config if change is None else change(config) or config

    def _seed_pairs(self) -> Iterator[tuple[list[Any], Config]]:
        yield from self.config_gen.user_seed_flat_config_pairs(self._autotune_seed_configs())
        yield from self.config_gen.seed_flat_config_pairs()

    def _journal(self) -> str | os.PathLike[str] | Journal | None:
        """Return the journal; a run that must ignore Helion's cache begins a new one beside it."""
        if self._storage is not None:
            return self._storage
        key = stable_autotune_hash(self)
        if key is None:
            return None
        path: Path = get_helion_cache_dir() / f"{key}.baco_like.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._skip_cache or should_skip_cache():
            path.unlink(missing_ok=True)
        return path

    def _open_optimizer(
        self, space: Space, storage: str | os.PathLike[str] | Journal | None
    ) -> Optimizer:
        """Return the optimizer; an existing journal keeps its seed, because Helion's default seed is the time."""
        if isinstance(storage, str | os.PathLike) and os.path.isfile(storage):
            return Optimizer.load(storage, space)
        seed = self.settings.autotune_random_seed
        return Optimizer(space, seed=seed, storage=storage, **self._options)


class _HelionEvaluator:
    """Measures trials by Helion, several at once; a configuration that Helion has made before has its result."""

    def __init__(self, search: BacoAutotuner, fields: HelionFields, optimizer: Optimizer) -> None:
        self.capacity = search._batch
        self._search, self._fields = search, fields
        self._trials: list[Trial] = []
        self._known: dict[str, Outcome] = {}
        for trial in optimizer.trials:  # of a journal
            if trial.outcome is not None and "program" in trial.outcome.extra:
                self._known[trial.outcome.extra["program"]] = trial.outcome

    def submit(self, trial: Trial) -> None:
        """Take a trial for the next `wait`."""
        self._trials.append(trial)

    def wait(self) -> list[Outcome]:
        """Measure the trials together."""
        trials, self._trials = self._trials, []
        generator = self._search.config_gen
        configs = [generator.unflatten(self._fields.to_flat(trial.config)) for trial in trials]
        programs = [config.to_json() for config in configs]
        needed = {
            program: config
            for trial, program, config in zip(trials, programs, configs, strict=True)
            if program not in self._known or trial.origin in MEASURED_AGAIN
        }
        if needed:
            results = self._search.benchmark_batch(
                list(needed.values()), raise_if_no_viable_config=False
            )
            for program, result in zip(needed, results, strict=True):
                self._known[program] = _outcome(program, result)
        return [
            replace(self._known[program], trial_id=trial.id)
            for trial, program in zip(trials, programs, strict=True)
        ]

    def close(self) -> None:
        """Drop the trials that are not measured."""
        self._trials = []


def _outcome(program: str, result: Any) -> Outcome:
    """Return the outcome of one of Helion's results; its trial is not known yet."""
    seconds = {} if result.compile_time is None else {"compile": float(result.compile_time)}
    notes = {"program": program, "seconds": seconds}
    if result.status == "filtered":
        notes["program"] = "filtered"  # all are one program, so they count as one evaluation
    if math.isfinite(result.perf):
        return outcome_from(0, float(result.perf), extra=notes)
    word = _FAILURES.get(result.status, "runtime" if seconds else "compile")
    return outcome_from(0, failed=word, message=f"Helion: {result.status}", extra=notes)


# Spaces ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HelionFields:
    """The parameters of a kernel, and where each of them is in a flat configuration of Helion.

    Attributes:
        parameters: The parameters by name.
        places: For each name the index in the flat configuration, and the index in the list there, or None.
        base: A flat configuration, of which the parameters replace values.
    """

    parameters: Mapping[str, ForeignParameter]
    places: Mapping[str, tuple[int, int | None]]
    base: Sequence[Any]

    def to_flat(self, config: Mapping[str, Any]) -> list[Any]:
        """Return a configuration as a flat configuration of Helion."""
        flat = [list(value) if isinstance(value, list) else value for value in self.base]
        for name, (index, place) in self.places.items():
            value = self.parameters[name].to_tool(config[name])
            if place is None:
                flat[index] = value
            else:
                flat[index][place] = value
        return flat

    def to_config(self, flat: Sequence[Any]) -> dict[str, Any]:
        """Return a flat configuration as a configuration; the inverse of `to_flat`."""
        return {
            name: self.parameters[name].from_tool(_at(flat, place))
            for name, place in self.places.items()
        }


def _at(flat: Sequence[Any], place: tuple[int, int | None]) -> Any:
    value = flat[place[0]]
    return value if place[1] is None else value[place[1]]


def read_space(generation: Any, seeds: Sequence[Sequence[Any]] = ()) -> HelionFields:
    """Return the parameters of a kernel.

    Booleans and enumerations become categorical parameters, powers of two and other numbers ordinal ones or integers,
    loop orders permutations, and a list one parameter for each element. Parameters that ``autotune_config_overrides``
    fixes are left out.

    Args:
        generation: Helion's `ConfigGeneration` of the kernel.
        seeds: Flat configurations whose values are added where the fragment does not list them; the first is the
            default configuration. None: Helion's default.
    """
    seeds = seeds or [generation.default_flat()]
    parameters: dict[str, ForeignParameter] = {}
    places: dict[str, tuple[int, int | None]] = {}
    fixed = generation.overridden_flat_indices
    for key, (indices, is_sequence) in generation._key_to_flat_indices.items():
        for number, index in enumerate(indices):
            name = f"{key}_{number}" if is_sequence else key
            fragment = generation.flat_spec[index]
            elements: Sequence[int | None] = (
                [None] if not isinstance(fragment, ListOf) else range(fragment.length)
            )
            for element in () if index in fixed else elements:
                own = name if element is None else f"{name}_{element}"
                places[own] = (index, element)
                inner = fragment if element is None else fragment.inner
                parameters[own] = _parameter(inner, [_at(seed, places[own]) for seed in seeds])
    return HelionFields(parameters, places, seeds[0])


def _parameter(fragment: Any, known: Sequence[Any]) -> ForeignParameter:
    """Return the parameter of a fragment; the first of the known values is the default."""
    if isinstance(fragment, PermutationFragment) and fragment.length > 1:
        return ForeignParameter.of_order(fragment.length, known[0])
    values = fragment.search_values(_MAX_LISTED)
    is_wide = values is None and isinstance(fragment, IntegerFragment)
    if is_wide and all(fragment.low <= value <= fragment.high for value in known):
        return ForeignParameter(Integer(fragment.low, fragment.high, default=known[0]), {})
    # A fragment without a list of values, which a later version may have, keeps the values of the seeds.
    return ForeignParameter.of([*(values or ()), *known], known[0])


def _constrained_space(search: BacoAutotuner, fields: HelionFields) -> Space:
    """Return the space, with the limits on tensor sizes as lists of the allowed sizes."""
    parameters = {name: field.parameter for name, field in fields.parameters.items()}
    names = {place: name for name, place in fields.places.items()}
    generation = search.config_gen
    constraints: list[TableConstraint] = []
    for limit in search.config_spec.tensor_numel_constraints:
        indices = [(generation.block_size_indices[i], None) for i in limit.block_indices]
        if all(index in names for index in indices):
            sizes = Space({names[index]: parameters[names[index]] for index in indices})
            allowed = [config for config in sizes if limit.check_fn(*config.values())]
            columns = [sizes.columns[name].start for name in sizes.active]
            codes = sizes.encode(allowed)[:, columns]
            read = {name: parameters[name] for name in sizes.active}
            if len(allowed) < sizes.size:
                constraints.append(TableConstraint.of(read, codes))
    return Space(parameters, constraints)


search_algorithms["baco_like"] = BacoAutotuner
