"""A decorator that replaces ``triton.autotune``: it searches a space instead of measuring a list of configurations.

The first call of the kernel with new sizes tunes it; the result is kept in a file, from which later processes take it.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from typing_extensions import override

from baco_like._checks import whole_number
from baco_like._optional import needs_extra
from baco_like._output import replace_file, warn_caller
from baco_like.exceptions import BacoWarning, Infeasible, RunFileError
from baco_like.integrations._shared import ForeignParameter
from baco_like.optimizer import Search
from baco_like.parameters import Parameter
from baco_like.parameters.values import is_number
from baco_like.records import Trial
from baco_like.running import Confirm, MaxEvals, MaxTime, Measuring, Result, tune
from baco_like.running.tuner import INTERRUPTED
from baco_like.spaces import Space
from baco_like.strategies import Strategy

with needs_extra("triton", "triton"):
    import torch
    import triton
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import KernelInterface

__all__ = ["Autotuner", "autotune"]

_REPEATS = 3
"""Number of launches that are timed in Triton's interpreter, which cannot benchmark."""

_QUANTILES = (0.5, 0.2, 0.8)
"""What Triton asks of ``do_bench``; the median is the value."""


@dataclass(frozen=True)
class Settings:
    """How a kernel is tuned.

    Attributes:
        space: The parameters, or a `Space`. Lists have their first value as default. Names are arguments of the kernel
            or options of the launch: ``num_warps``, ``num_stages``, ``num_ctas``, ``maxnreg``.
        key: Arguments for whose values the kernel is tuned anew, such as sizes; the types of tensors always count.
        constraints: Expressions of parameters and of numbers in ``key``, such as ``"BM * BK * num_stages <= 49152"``.
        evaluations: Number of configurations that are measured for a key, including failed ones.
        seconds: Limit on the time for a key, including the confirmation.
        file: JSON file with the results; one file may serve several kernels. The journals of the runs, by which an
            interrupted one resumes, are beside it. None: the results are lost when the process ends.
        missing: For a key without a result: ``tune``, or ``nearest``, which takes the result of the nearest sizes
            with a warning, and the default configuration without any.
        outputs: Arguments that the kernel writes and does not read. They are cleared before each configuration, and
            their values are compared, so that a configuration that leaves them unwritten is found.
        restore_value: Arguments that the kernel reads and changes. They are restored before each launch, and compared.
        reference: Called with the arguments of the kernel; returns the expected tensor, or one for each name in
            ``outputs`` and then ``restore_value``. None: the first configuration that runs is right.
        tolerance: Largest difference, relative to the largest number of the expected tensor.
        do_bench: Called as ``do_bench(launch, quantiles=...)``; returns milliseconds, the median first. None: Triton's.
        slow: A configuration is measured by one launch if that takes this many times the best median; None: never.
        confirm: How the best configurations are measured again with the default one, which is taken if it is best.
        strategy: A registered name, a strategy object, or a `Search` with settings.
        seed: Seed of the suggestions.

    Raises:
        ValueError: A value is wrong.
    """

    space: Space | Mapping[str, Any]
    key: Sequence[str] = ()
    constraints: Sequence[str] = ()
    evaluations: int = 50
    seconds: float | None = None
    file: str | Path | None = None
    missing: Literal["tune", "nearest"] = "tune"
    outputs: Sequence[str] = ()
    restore_value: Sequence[str] = ()
    reference: Callable[..., Any] | None = None
    tolerance: float = 0.01
    do_bench: Callable[..., Any] | None = None
    slow: float | None = 5.0
    confirm: Confirm | None = field(default_factory=lambda: Confirm(simplify=0))
    strategy: str | Strategy[Any] | Search = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("evaluations", self.evaluations, 1)
        Search.of(self.strategy)
        if self.missing not in ("tune", "nearest"):
            raise ValueError(f"missing = {self.missing!r}: expected 'tune' or 'nearest'")
        if isinstance(self.space, Space) and self.constraints:
            raise ValueError("constraints: give them to the Space")


def autotune(
    space: Space | Mapping[str, Any], key: Sequence[str] = (), **settings: Any
) -> Callable[[Any], Autotuner]:
    """Return a decorator for a function of ``triton.jit``; see `Settings` for the arguments.

    Raises:
        ValueError: A name is not an argument of the kernel, or a value is wrong.
    """
    chosen = Settings(space, key, **settings)
    return lambda fn: Autotuner(fn, chosen)


class Autotuner(KernelInterface):  # type: ignore[misc]  # not installed where types are checked
    """A kernel that is tuned when it is called with a new key.

    Args:
        fn: The kernel: a function of ``triton.jit``, or one with further decorators of Triton.
        settings: How it is tuned.

    Attributes:
        results: The runs of this process by key.
        best_config: The configuration of the latest call, or None.
    """

    def __init__(self, fn: Any, settings: Settings) -> None:
        self.fn, self.settings = fn, settings
        self.arg_names = list(fn.arg_names)
        self.results: dict[tuple[Any, ...], Result] = {}
        self.best_config: dict[str, Any] | None = None
        self._configs: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._base = fn
        while not inspect.isfunction(self._base):
            self._base = self._base.fn
        self.__name__ = self._base.__name__
        for option in ("key", "outputs", "restore_value"):
            for name in getattr(settings, option):
                if name not in self.arg_names:
                    raise ValueError(
                        f"{option}: {name!r} is not an argument of the kernel {self.__name__}, which has "
                        f"{', '.join(self.arg_names)}"
                    )

    @override
    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launch the kernel with the configuration of the arguments' key, after tuning if it is new.

        Raises:
            ValueError: A tuned parameter is passed.
            RuntimeError: Every configuration failed.
        """
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs}
        key = self._key(named)

        def launch(config: Mapping[str, Any], *, warmup: bool = False) -> Any:
            return self.fn.run(*args, grid=grid, warmup=warmup, **kwargs, **config)

        config = self._configs.get(key)
        if config is None:
            task = _Task(self, named, key)
            if twice := [name for name in task.names if name in named]:
                raise ValueError(
                    f"{', '.join(twice)}: the kernel {self.__name__} tunes it; do not pass it"
                )
            config = task.find()
            if config is None and (warmup or self.settings.missing == "nearest"):
                return launch(task.default(), warmup=warmup)
            if config is None:
                config = task.tune(launch)
            self._configs[key] = config
        self.best_config = config
        return launch(config, warmup=warmup)

    def _key(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        types = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
        return *(named.get(name) for name in self.settings.key), *types


class _Task:
    """A kernel with one key: its space, and its entry in the file."""

    def __init__(self, kernel: Autotuner, named: Mapping[str, Any], key: tuple[Any, ...]) -> None:
        self._kernel, self._named, self._key = kernel, named, key
        self._settings = settings = kernel.settings
        given = settings.space
        sizes: dict[str, Parameter] = {}
        if isinstance(given, Space):
            self._space, self.names = given, list(given.names)
        else:
            sizes = {
                name: ForeignParameter.of([named[name]], named[name]).parameter
                for name in settings.key
                if is_number(named.get(name)) and _is_read(name, settings.constraints)
            }
            self.names = list(given)
            self._space = Space(
                {**{n: _parameter(values) for n, values in given.items()}, **sizes},
                list(settings.constraints),
            )
        source = inspect.getsource(kernel._base)
        text = json.dumps(
            [
                source,
                _device(kernel.fn),
                {n: repr(self._space.parameters[n]) for n in self.names},
                list(map(str, settings.constraints)),
            ]
        )
        self._stamp = hashlib.sha256(text.encode()).hexdigest()[:16]

    def default(self) -> dict[str, Any]:
        """Return the default configuration, or without a feasible one the first that is drawn."""
        config = self._space.default_config or self._space.sample(1)[0]
        return {name: config[name] for name in self.names}

    # The file ---------------------------------------------------------------------------------------------------------

    def find(self) -> dict[str, Any] | None:
        """Return the configuration of the key in the file, or of the nearest key, or None."""
        file, own = self._settings.file, _json_key(self._key)
        if file is None:
            return None
        entries = [
            e
            for e in _read(Path(file))
            if e["kernel"] == self._kernel.__name__ and e["stamp"] == self._stamp
        ]
        for entry in entries:
            if entry["key"] == own:
                return self._feasible(entry)
        if self._settings.missing == "tune":
            return None
        near = [(d, entry) for entry in entries if (d := _distance(own, entry["key"])) < math.inf]
        for _, entry in sorted(near, key=lambda pair: pair[0]):
            if (config := self._feasible(entry)) is not None:
                warn_caller(
                    f"kernel {self._kernel.__name__}: {file} has no result for {self._describe(own)}. It uses the "
                    f"result for {self._describe(entry['key'])} instead. To tune these sizes, set missing='tune'",
                    BacoWarning,
                )
                return config
        return None

    def _describe(self, key: Sequence[Any]) -> str:
        return ", ".join(
            f"{n} = {v}"
            for n, v in itertools.zip_longest((*self._settings.key,), key, fillvalue="type")
        )

    def _feasible(self, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the configuration of an entry if the constraints allow it for these sizes."""
        sizes = {n: self._named[n] for n in self._space.names if n not in self.names}
        config = {n: entry["config"].get(n) for n in self.names}
        return config if self._space.contains({**config, **sizes}) else None

    def _write(self, config: Mapping[str, Any], result: Result) -> None:
        if self._settings.file is None or result.recommended is None:
            return
        path = Path(self._settings.file)
        first = result.trials[0] if result.trials else None
        entry = {
            "kernel": self._kernel.__name__,
            "key": _json_key(self._key),
            "config": dict(config),
            "ms": result.recommended.value,
            "default_ms": None if first is None else first.value,
            "evaluations": result.history.searched,
            "device": _device(self._kernel.fn),
            "triton": triton.__version__,
            "stamp": self._stamp,
        }
        same = ("kernel", "key", "stamp")
        kept = [e for e in _read(path) if any(e[name] != entry[name] for name in same)]
        replace_file(path, (json.dumps([*kept, entry], indent=1) + "\n").encode())

    # Tuning -----------------------------------------------------------------------------------------------------------

    def tune(self, launch: Callable[[Mapping[str, Any]], Any]) -> dict[str, Any]:
        """Return the best configuration, which is written to the file.

        Raises:
            RuntimeError: Every configuration failed.
        """
        settings, name = self._settings, self._kernel.__name__
        stop = MaxEvals(settings.evaluations)
        rule = stop if settings.seconds is None else stop | MaxTime(settings.seconds)
        journal = None
        if settings.file is not None:
            part = hashlib.sha256(f"{_json_key(self._key)} {self._stamp}".encode()).hexdigest()[:12]
            journal = Path(settings.file).with_suffix(f".{name}.{part}.jsonl")
        with _restored(self._named, (*settings.outputs, *settings.restore_value)) as saved:
            measure = _Measure(self._kernel, self._named, launch, saved, self.names)
            result = tune(
                *(measure, self._space, rule),
                strategy=settings.strategy,
                seed=settings.seed,
                storage=journal,
                measuring=Measuring(confirm=settings.confirm),
                progress=False,
            )
        if result.reason == INTERRUPTED:
            raise KeyboardInterrupt
        self._kernel.results[self._key] = result
        winner = result.recommended
        if winner is None:
            failed = result.trials[0].message if result.trials else result.reason
            raise RuntimeError(f"kernel {name}: no configuration has run; the first: {failed}")
        config = {name: winner.config[name] for name in self.names}
        self._write(config, result)
        return config


class _Measure:
    """Launches, checks and times a configuration."""

    def __init__(
        self,
        kernel: Autotuner,
        named: Mapping[str, Any],
        launch: Callable[[Mapping[str, Any]], Any],
        saved: Mapping[str, Any],
        names: Sequence[str],
    ) -> None:
        self._settings, self._named, self._launch = kernel.settings, named, launch
        self._saved, self._names = saved, names
        self._interprets = isinstance(kernel.fn, InterpretedFunction)
        self._best = math.inf
        self._expected: list[Any] | None = None
        if self._settings.reference is not None:
            arguments = {n: named[n] for n in kernel.arg_names if n in named}
            expected = self._settings.reference(**arguments)
            self._expected = list(expected) if isinstance(expected, list | tuple) else [expected]

    def __call__(self, trial: Trial) -> float:
        config = {name: trial[name] for name in self._names}

        def launch() -> None:
            for name in self._settings.restore_value:
                self._named[name].copy_(self._saved[name])
            self._launch(config)

        try:
            self._clear()
            launch()  # it compiles the kernel
            self._check()
            slow = self._settings.slow
            if slow is not None and (once := _milliseconds(launch)) > slow * self._best:
                return once
            value = self._bench(launch)
        except (CompilationError, OutOfResources, PTXASError) as error:
            raise Infeasible(str(error), "compile") from error
        except Infeasible:
            raise
        except Exception as error:
            raise Infeasible(f"{type(error).__name__}: {error}", "runtime") from error
        self._best = min(self._best, value)
        return value

    def _bench(self, launch: Callable[[], None]) -> float:
        bench = self._settings.do_bench
        if bench is None and self._interprets:
            return statistics.median(_milliseconds(launch) for _ in range(_REPEATS))
        times = (bench or triton.runtime.driver.active.get_benchmarker())(
            launch, quantiles=_QUANTILES
        )
        return float(times if is_number(times) else times[0])

    def _clear(self) -> None:
        """Fill the outputs with a value that no right configuration leaves there."""
        for name in self._settings.outputs:
            tensor = self._named[name]
            tensor.fill_(math.nan if tensor.is_floating_point() else -1)

    def _check(self) -> None:
        names = (*self._settings.outputs, *self._settings.restore_value)
        if self._expected is None:
            self._expected = [self._named[name].clone() for name in names]
            return
        for name, expected in zip(names, self._expected, strict=False):
            found = self._named[name].to(torch.float64)
            wanted = expected.to(torch.float64)
            scale = wanted.nan_to_num().abs().max().item() if wanted.numel() else 0.0
            tolerance = self._settings.tolerance
            if not torch.allclose(found, wanted, rtol=0, atol=tolerance * scale, equal_nan=True):
                raise Infeasible(f"{name} differs from the expected values", "correctness")


@contextmanager
def _restored(named: Mapping[str, Any], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield copies of arguments, and restore them at the end."""
    saved = {name: named[name].clone() for name in names}
    try:
        yield saved
    finally:
        for name, value in saved.items():
            named[name].copy_(value)


def _parameter(values: Any) -> Parameter:
    if isinstance(values, Parameter):
        return values
    listed = list(values)
    return ForeignParameter.of(listed, listed[0]).parameter


def _is_read(name: str, constraints: Sequence[str]) -> bool:
    return any(re.search(rf"\b{re.escape(name)}\b", str(text)) for text in constraints)


def _milliseconds(launch: Callable[[], None]) -> float:
    _synchronize()
    start = time.perf_counter()
    launch()
    _synchronize()
    return 1e3 * (time.perf_counter() - start)


def _synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _device(fn: Any) -> str:
    if isinstance(fn, InterpretedFunction):
        return "interpreter"
    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else "no CUDA device"


def _json_key(key: Sequence[Any]) -> list[Any]:
    """Return a key as the file has it."""
    return [value if isinstance(value, int | float | str | None) else str(value) for value in key]


def _distance(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Return the logarithm of the ratios of two keys' sizes; infinite if anything else differs."""
    if len(a) != len(b):
        return math.inf
    total = 0.0
    for x, y in zip(a, b, strict=True):
        if x == y:
            continue
        if not (is_number(x) and is_number(y) and x > 0 and y > 0):
            return math.inf
        total += abs(math.log(x / y))
    return total


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the entries of a file.

    Raises:
        RunFileError: It has another content.
    """
    if not path.exists():
        return []
    try:
        entries = json.loads(path.read_text())
        if all({"kernel", "key", "config", "stamp"} <= entry.keys() for entry in entries):
            return list(entries)
    except (ValueError, AttributeError, TypeError):
        pass
    raise RunFileError(
        f"{path} does not hold results of tuned kernels; delete it or give another file"
    )
