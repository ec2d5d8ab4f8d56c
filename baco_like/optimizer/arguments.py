"""Arguments of `Optimizer` as values: the search, which the journal fixes, and what belongs to one process."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from baco_like._checks import whole_number
from baco_like._threads import resolve_threads
from baco_like.journal.header import describe
from baco_like.records.history import Noise
from baco_like.records.leases import Lease, Moment
from baco_like.records.reading import finite_number
from baco_like.spaces.tasks import GivenTask
from baco_like.strategies import Strategy, create_strategy, default_settings

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Search:
    """How configurations are chosen; the journal keeps it, so it is the same on a resume.

    Attributes:
        strategy: A registered name, or a strategy object with its own settings.
        settings: Settings of the named strategy, as ``baco-like strategies`` lists them.
        initial: Size of the initial design, or the first configurations. These replace the design, unless ``settings``
            sets its size. Without it, the configuration of all defaults is evaluated first.
        noise: ``none``: an observed configuration is never suggested again; ``repeat``: it may be.

    Raises:
        ValueError: The strategy or a setting is unknown, or settings are given with a strategy object.
    """

    strategy: str | Strategy[Any] = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    initial: int | Sequence[Config] | None = None
    noise: Noise = "none"

    def __post_init__(self) -> None:
        if self.noise not in get_args(Noise):
            raise ValueError(f"noise must be one of {get_args(Noise)}, not {self.noise!r}")
        self.create()

    @classmethod
    def of(cls, given: Search | str | Strategy[Any]) -> Search:
        """Return a search, or the one with this strategy."""
        return given if isinstance(given, Search) else cls(given)

    def create(self) -> tuple[Strategy[Any], dict[str, Any]]:
        """Return the strategy and its description for the journal.

        First points are enqueued for any strategy; their number becomes the size of the initial design if the strategy
        has one.
        """
        has_points = isinstance(self.initial, Sequence)
        size = None
        if self.initial is not None and not has_points:
            size = whole_number("initial", self.initial, 1)
        strategy = self.strategy
        if not isinstance(strategy, str):
            methods = [getattr(strategy, name, None) for name in ("init", "ask", "tell")]
            if not all(map(callable, methods)):
                raise ValueError(
                    f"strategy = {strategy!r}: give a name such as 'auto', or an object with init, ask and tell"
                )
            if isinstance(strategy, type):
                raise ValueError(
                    f"strategy = {strategy!r}: it is a class; give an object, {strategy.__name__}(...)"
                )
            if self.settings or size is not None:
                raise ValueError(
                    "the settings and the size initial of a Search go with a strategy's name; set them on the object"
                )
            return strategy, {"object": describe(strategy)}
        defaults = default_settings(strategy)
        chosen = dict(self.settings)
        if size is not None:
            chosen["initial"] = size
        elif isinstance(self.initial, Sequence) and "initial" in defaults:
            chosen.setdefault("initial", len(self.initial))
        description = {"name": strategy, "settings": {**defaults, **chosen}}
        return create_strategy(strategy, chosen), description


@dataclass(frozen=True)
class Sharing:
    """What belongs to one process, and may differ on a resume: its part of a shared run, and its computations.

    Attributes:
        worker: Name of this optimizer among several that share one journal; each needs another name. Each has its own
            random stream, computes its proposals without the lock of the journal, and notes its name with its trials.
        lease: Seconds after which a pending trial is suggested again with the same number, because its worker has
            probably died, even while other processes work on the journal. Longer than any evaluation, unless
            `Optimizer.heartbeat` extends it. The first reported outcome counts; a later one is kept as a further
            measurement, with the origin ``late``. Leases follow the time since the boot of the machine; between
            machines, the wall clock. None: trials stay pending until they are observed or abandoned, or until a process
            calls `Optimizer.suggest` while no other process has pending trials: it gets them first.
        task: Name or descriptor of the only task whose trials are suggested: the device of this worker, for example.
        ahead: Number of proposals that a background thread keeps in store, so that `Optimizer.suggest` need not wait
            for the model, and a free worker gets one at once. They are computed while trials are evaluated, so their
            model knows fewer results; the number depends on the timing. 0: each call computes its own.
        patience: With ``ahead``: seconds that `Optimizer.suggest` waits when the store is empty. After that it returns
            draws without a model; their tag has the phase ``fallback``. None: it waits for the model.
        threads: Largest number of threads that NumPy, SciPy, scikit-learn and PyTorch may use while they compute a
            suggestion or a prediction; 0 sets no limit. It does not limit evaluations. Default: the environment
            variable ``BACO_LIKE_THREADS``, or 1.

    Raises:
        ValueError: A value is negative or has a wrong type, there is a patience without a store, or a store with a
            single task.
    """

    worker: str | None = None
    lease: float | None = None
    task: GivenTask | None = None
    ahead: int = 0
    patience: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.worker is not None and (not isinstance(self.worker, str) or not self.worker):
            raise ValueError(f"worker must be a name such as 'node3', or None, not {self.worker!r}")
        if self.lease is not None:
            lease = finite_number(self.lease)
            if lease is None or lease <= 0:
                raise ValueError(
                    f"lease must be a number of seconds above 0, or None, not {self.lease!r}"
                )
            object.__setattr__(self, "lease", lease)
        object.__setattr__(self, "ahead", whole_number("ahead", self.ahead, 0))
        if self.ahead and self.task is not None:
            raise ValueError(
                f"ahead = {self.ahead} with task = {self.task!r:.60}: proposals in store are of all tasks; leave one "
                "of them out"
            )
        if self.patience is not None:
            patience = finite_number(self.patience)
            if patience is None or patience < 0:
                raise ValueError(
                    f"patience must be a number of seconds from 0, or None, not {self.patience!r}"
                )
            if not self.ahead:
                raise ValueError(
                    f"patience = {self.patience!r} needs proposals in store; add ahead=8, for example"
                )
            object.__setattr__(self, "patience", patience)
        if self.threads is not None:
            resolve_threads(self.threads)

    @property
    def stream(self) -> int | None:
        """Number of the random stream that belongs to the name of the worker."""
        return None if self.worker is None else zlib.crc32(self.worker.encode())

    def start_lease(self, now: Moment) -> Lease | None:
        """Return a lease that begins now."""
        return None if self.lease is None else Lease(self.lease, now)
