"""Arguments of `Optimizer` as values, and how they are resolved: first points, journal, task, strategy of a journal."""

from __future__ import annotations

import gc
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from baco_like._checks import whole_number
from baco_like._output import warn_caller
from baco_like._plugins import Registry
from baco_like._tables import TEXT, Natural, Positive, Shape, check_values
from baco_like._typing import Codes, Rng
from baco_like.acquisitions import registry as acquisitions
from baco_like.exceptions import ConfigError, JournalError, SpaceError, SpaceWarning
from baco_like.journal import Event, Journal, JsonlJournal, Mark, MemoryJournal, RemoteJournal
from baco_like.journal.events import START
from baco_like.journal.header import Header, describe
from baco_like.journal.remote import is_url
from baco_like.optimizer.experience import GivenExperience
from baco_like.records import Aim, Cover, History
from baco_like.records.history import Noise
from baco_like.records.leases import Lease, Moment
from baco_like.spaces.inputs import defaults_of
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import GivenTask
from baco_like.strategies import Strategy, create_strategy, default_settings
from baco_like.strategies.protocol import HistoryStrategy, Problem, Proposals
from baco_like.strategies.registry import REGISTRY
from baco_like.surrogates import registry as surrogates

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
        experience: Results of earlier runs of other programs, with other parameters: a folder, or a list of files. The
            configurations that were best for most of them are tried early, as long as they help. The journal keeps
            these, so resuming does not need the files.

    Raises:
        ValueError: The strategy or a setting is unknown, or settings are given with a strategy object.
    """

    strategy: str | Strategy[Any] = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)
    initial: int | Sequence[Config] | None = None
    noise: Noise = "none"
    experience: GivenExperience | None = None

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

    worker: Annotated[str | None, Shape(TEXT, title="a name such as 'node3'")] = None
    lease: Positive | None = None
    task: GivenTask | None = None
    ahead: Natural = 0
    patience: Annotated[float | None, Shape(type="number", minimum=0)] = None
    threads: Natural | None = None

    def __post_init__(self) -> None:
        check_values(self)
        if self.ahead and self.task is not None:
            raise ValueError(
                f"ahead = {self.ahead} with task = {self.task!r:.60}: proposals in store are of all tasks; leave one "
                "of them out"
            )
        if self.patience is not None and not self.ahead:
            raise ValueError(
                f"patience = {self.patience!r} needs proposals in store; add ahead=8, for example"
            )

    @property
    def stream(self) -> int | None:
        """Number of the random stream that belongs to the name of the worker."""
        return None if self.worker is None else zlib.crc32(self.worker.encode())

    def start_lease(self, now: Moment) -> Lease | None:
        """Return a lease that begins now."""
        return None if self.lease is None else Lease(self.lease, now)


def resolve_journal(storage: str | os.PathLike[str] | Journal | None) -> Journal:
    """Return the journal for the argument ``storage``.

    Raises:
        ValueError: It is neither a path, a journal nor None.
    """
    if storage is None:
        return MemoryJournal()
    if is_url(storage):
        return RemoteJournal(storage)
    if isinstance(storage, (str, os.PathLike)):
        return JsonlJournal(Path(storage))
    if not isinstance(storage, Journal):
        raise ValueError(
            f"storage = {storage!r:.60}: give a path, the URL of a run, a journal, or None"
        )
    return storage


def resolve_goal(aim: Aim, space: Space) -> Aim:
    """Return the aim with a goal if there are several tasks, by default the best configuration of each.

    Raises:
        ValueError: There is a goal, but there are no tasks.
    """
    if aim.goal is not None and space.tasks is None:
        raise ValueError(
            f"goal = {aim.goal}: it needs a Space with tasks=, such as [{{'n': 512}}, {{'n': 4096}}]"
        )
    return replace(aim, goal=(aim.goal or Cover()) if len(space.tasks or ()) > 1 else None)


def resolve_task(task: GivenTask | None, space: Space) -> int | None:
    """Return the index of a task, given by its name or descriptor.

    Raises:
        SpaceError: The task does not exist.
    """
    if task is None:
        return None
    if space.tasks is None:
        raise SpaceError(f"task = {task!r:.60}: this run has no tasks")
    return space.tasks.index(task)


def encode_feasible(space: Space, config: Config) -> tuple[dict[str, Any], Codes]:
    """Return a feasible configuration in the values of the space, and its codes, (1, w).

    Raises:
        ConfigError: The configuration is not feasible; the message says why.
    """
    for encoded in encode_together(space, [config]):
        return encoded
    space.validate(config)  # raises, with all reasons in the message
    raise ConfigError(f"{dict(config)!r:.200} is not in the space")


def encode_together(space: Space, configs: Sequence[Config]) -> list[tuple[dict[str, Any], Codes]]:
    """Return what `encode_feasible` does for each configuration, in one pass; an empty list if one is not feasible."""
    with suppress(ConfigError):
        codes = space.encode(configs)
        if space.feasible.contains(codes).all():
            return [(config, codes[[i]]) for i, config in enumerate(space.decode(codes))]
    return []


def first_configs(space: Space, initial: int | Sequence[Config] | None) -> list[Config]:
    """Return the first configurations for the argument ``initial``: the user's, or the default configuration.

    Raises:
        ConfigError: A configuration of the user is not feasible.
    """
    if isinstance(initial, Sequence):
        return [
            encode_feasible(space, own)[0] for point in initial for own in for_tasks(space, point)
        ]
    points = default_points(space)
    if not points and space.default_config and (violated := space.explain(space.default_config)):
        warn_caller(
            f"the default configuration is not evaluated first, it is infeasible: {'; '.join(violated)}; "
            "change a default, or give first points with strategy=Search(initial=[...])",
            SpaceWarning,
        )
    return points


def default_points(space: Space) -> list[Config]:
    """Return the default configuration in a list if it is feasible, else []; constants alone do not count.

    With tasks it is the default configuration on each task where it is feasible.
    """
    config, tasks = space.default_config, space.tasks
    own = space.parameters if tasks is None else tasks.configuration(space.parameters)
    has_default = any(own[name].cardinality != 1 for name in defaults_of(own))
    if not has_default or config is None:
        return []
    if tasks is None:
        return [config] if space.contains(config) else []
    return [c for c in for_tasks(space, tasks.configuration(config)) if space.contains(c)]


def for_tasks(space: Space, config: Config) -> list[Config]:
    """Return the configuration, or one for each task that allows it if it names no task.

    If no task allows it, all are returned, so that an error can say why.
    """
    if space.tasks is None or any(name in config for name in space.tasks.descriptor_names):
        return [config]
    every: list[Config] = [{**config, **descriptor} for descriptor in space.tasks.descriptors]
    return [own for own in every if space.contains(own)] or every


def journal_name(journal: Journal) -> str:
    """Return the path of a journal, or its address, or a word."""
    return str(getattr(journal, "path", getattr(journal, "url", "journal")))


def read_header(journal: Journal) -> Header:
    """Return the header of a journal.

    Raises:
        JournalError: The journal is missing, empty or damaged.
    """
    name = journal_name(journal)
    # `Path.exists` raises an error for a name that is too long.
    if isinstance(journal, JsonlJournal) and not os.path.exists(journal.path):
        raise JournalError(f"{name} does not exist; start a run with Optimizer(storage=...)")
    header, _, _ = split_header(journal, name)
    if header is None:
        raise JournalError(f"{name} holds no event; start a run with Optimizer(storage=...)")
    return header


def read_space(header: Header, name: str) -> Space:
    """Return the space that the header of a journal describes.

    Raises:
        SpaceError: It describes none, or one of its constraints is a Python callable.
    """
    try:
        return Space.from_dict(header.space)
    except SpaceError as error:
        raise SpaceError(f"{name}: event 0 (line 1): space: {error}") from error


def split_header(
    journal: Journal, name: str
) -> tuple[Header | None, Mark, Iterator[tuple[Event, Mark]]]:
    """Return the header of a journal (None for an empty one), the position behind it, and the events after it.

    Raises:
        JournalError: Event 0 is not a header.
    """
    events = iter(journal.read(START))
    event, mark = next(events, (None, START))
    return None if event is None else Header.read(event, name), mark, events


def plugin_versions(description: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of the packages whose plug-ins a description of a strategy names, by package."""
    settings = description.get("settings") or {}
    named: list[tuple[Registry[Any], Any]] = [
        (REGISTRY, description.get("name")),
        (surrogates.REGISTRY, settings.get("surrogate")),
        (acquisitions.REGISTRY, settings.get("acquisition")),
    ]
    versions: dict[str, str] = {}
    for registry, name in named:
        if isinstance(name, str) and name not in registry.own and name in registry.plugins:
            versions |= registry.plugins[name].versions
    return versions


def restore_strategy(
    description: Mapping[str, Any], given: Strategy[Any] | None, journal: str
) -> Strategy[Any]:
    """Return the strategy of a journal: the one it names, or the given object; without that, one that proposes nothing.

    Args:
        description: The strategy's description in the journal's header.
        given: A strategy object, or None.
        journal: Name of the journal, for messages.

    Raises:
        JournalError: The name is unknown, or the given object differs.
    """
    recorded = description.get("object")
    if "name" in description:
        try:
            named = create_strategy(description["name"], description["settings"])
        except (ValueError, TypeError, KeyError) as error:
            raise JournalError(
                f"{journal}: event 0 names an unknown strategy: {error}", 0
            ) from error
        if given is None:
            return named
        recorded = describe(named)
    if given is None:
        return MissingStrategy(journal)
    if describe(given) != recorded:
        raise JournalError(
            f"{journal} belongs to another run: the strategy was {recorded!s:.200}, now {describe(given)!s:.200}"
        )
    return given


@dataclass(frozen=True)
class MissingStrategy(HistoryStrategy):
    """Stands for the strategy object of a journal that is only read; it proposes nothing."""

    journal: str
    several_objectives: ClassVar[bool] = True
    uses_tasks: ClassVar[bool] = True
    uses_related_tasks: ClassVar[bool] = True
    uses_fidelity: ClassVar[bool] = True

    def init(self, problem: Problem, rng: Rng) -> None:
        """Return None: there is no state."""

    def ask(self, problem: Problem, history: History, state: None, n: int, rng: Rng) -> Proposals:
        """Refuse to propose.

        Raises:
            JournalError: Always.
        """
        raise JournalError(
            f"{self.journal} was made with a strategy object; to continue, give it again: load(path, strategy=...)"
        )


@contextmanager
def collector_paused() -> Iterator[None]:
    """Switch Python's cycle collector off within a ``with`` block.

    Everything that is made while a journal is read stays alive; scanning it again and again takes half of the time at
    100,000 trials (`benchmarks/reliability/large.py`).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
