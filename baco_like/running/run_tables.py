"""The tables of a run file that describe a run without its evaluator: space, objectives, tasks, budget, search.

``baco-like tune`` reads them from TOML, and the service from the message ``open``, so the same words mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from baco_like._tables import (
    POSITIVE,
    SHARE,
    TEXT,
    TEXTS,
    Count,
    Key,
    Natural,
    Positive,
    Shape,
    Table,
    TableOrFirst,
    choice,
    keys_of,
    whole,
)
from baco_like.exceptions import BacoError, RunFileError, SpaceError
from baco_like.optimizer import Optimizer, Search, Sharing
from baco_like.optimizer.arguments import default_points
from baco_like.parameters import Parameter
from baco_like.parameters.registry import PARAMETER_TYPES, REGISTRY, find_type, parameter_from_dict
from baco_like.records import Aim, Cover, Objective
from baco_like.records.covering import Aggregate
from baco_like.records.history import Noise
from baco_like.records.limits import limits_of
from baco_like.running.stopping import (
    AnyOf,
    IdenticalFailures,
    LowOutlook,
    MaxEvals,
    MaxFailures,
    MaxTime,
    NoImprovement,
    StoppingRule,
    Target,
)
from baco_like.spaces import Space, Tasks
from baco_like.strategies.registry import find_maker


@dataclass(frozen=True)
class Constraints:
    """The table ``[constraints]``.

    Attributes:
        known: [Expressions](../spaces.md#known-constraints) that every configuration satisfies.
        limits: [Limits on metrics](../flags.md#keep-size-energy-and-counters), such as ``"size <= 40000"``.
    """

    known: Sequence[str] = ()
    limits: Sequence[str] = ()


OBJECTIVE = (
    *keys_of(Objective),
    Key(
        "peak",
        POSITIVE,
        "Best value that the machine allows, for [the report](../report.md)",
        convert=float,
    ),
)


@dataclass(frozen=True)
class _NoImprovement:
    """The table ``no_improvement`` of ``[budget]``.

    Attributes:
        evaluations: Number of evaluations.
        percent: Smallest improvement that counts.
    """

    evaluations: Count
    percent: Annotated[float, Shape(type="number", minimum=0, exclusiveMaximum=100)] = 0.0


@dataclass(frozen=True)
class _Outlook:
    """The table ``outlook`` of ``[budget]``.

    Attributes:
        evaluations: Number of evaluations.
        percent: Expected improvement below which the run ends.
    """

    evaluations: Count
    percent: Annotated[float, Shape(SHARE, exclusiveMaximum=100)] = 1.0


@dataclass(frozen=True)
class Budget:
    """When a run ends: the table ``[budget]``.

    Attributes:
        evaluations: Largest number of evaluations; None: no limit; then ``seconds`` is required.
        builds: Largest number of builds, [equal programs](../flags.md#equal-programs) included; as many as
            ``evaluations``: equal programs count as evaluations; None: 10 for each evaluation.
        seconds: Limit of the wall time; without ``evaluations``, [short evaluations](../seconds.md) are preferred;
            None: no limit.
        target: End when the best value is this one or better.
        no_improvement: End after so many evaluations without a new best value;
            ``{ evaluations = 40, percent = 1 }``: without one that is 1 % better.
        outlook: End when the next so many evaluations are expected to improve the best value by less than 1 %;
            ``{ evaluations = 50, percent = 0.5 }``: by less than 0.5 %; see
            [the outlook](../explain.md#stop-when-little-is-left).
        max_failures: End after so many failures; configurations beyond a limit do not count.
        identical_failures: End with exit code 1 if so many evaluations in a row fail with the same message before the
            first success; 0: never.
    """

    evaluations: Count | None = None
    builds: Count | None = None
    seconds: Positive | None = None
    target: float | None = None
    no_improvement: TableOrFirst[_NoImprovement] | None = None
    outlook: TableOrFirst[_Outlook] | None = None
    max_failures: Count | None = None
    identical_failures: Natural = 10

    def __post_init__(self) -> None:
        if self.evaluations is None and self.seconds is None:
            raise ValueError("needs 'evaluations', 'seconds' or both")

    @property
    def stop(self) -> AnyOf:
        """The rule that ends the search."""
        rules: list[StoppingRule] = []
        if evaluations := self.evaluations or self.builds:
            rules.append(MaxEvals(evaluations, self.builds))
        if self.seconds is not None:
            rules.append(MaxTime(self.seconds))
        if self.identical_failures:
            rules.append(IdenticalFailures(self.identical_failures))
        if self.target is not None:
            rules.append(Target(self.target))
        if self.max_failures is not None:
            rules.append(MaxFailures(self.max_failures))
        if (least := self.no_improvement) is not None:
            rules.append(NoImprovement(least.evaluations, least.percent / 100))
        if (expected := self.outlook) is not None:
            rules.append(LowOutlook(expected.evaluations, expected.percent / 100))
        return AnyOf(tuple(rules))


_EXPERIENCE = Shape(title="a folder, or an array of files", anyOf=[TEXT, TEXTS])


@dataclass(frozen=True)
class OptimizerTable:
    """The table ``[optimizer]``, without the settings of the strategy.

    Attributes:
        strategy: A [strategy](../strategies.md).
        seed: The seed of the run.
        initial: Size of the initial design; None: the strategy's own.
        noise: ``"repeat"``: a configuration may be suggested again, as ``racing`` needs it.
        threads: Threads [of a suggestion](../default_strategy.md#threads); 0: no limit; None: ``BACO_LIKE_THREADS``,
            or 1.
        ahead: Proposals that are computed [ahead of time](../parallel.md#keep-proposals-in-store), while
            configurations are measured; 0: none.
        patience: With ``ahead``: seconds to wait for a proposal, then a draw without a model is evaluated; None: wait
            for the model.
        experience: Results of runs of [other programs](../warm_start.md#start-from-runs-of-other-programs); relative
            paths start at the run file.
        proposers: Commands that [propose configurations](../proposals.md#a-command-that-proposes) while the run goes
            on; they run in the folder of this file.
    """

    strategy: str = "auto"
    seed: Natural = 0
    initial: Count | None = None
    noise: Noise = "none"
    threads: Natural | None = None
    ahead: Natural = 0
    patience: Annotated[float | None, Shape(type="number", minimum=0)] = None
    experience: Annotated[str | Sequence[str] | None, _EXPERIENCE] = None
    proposers: Sequence[str] = ()


@dataclass(frozen=True)
class TasksTable:
    """The table ``[tasks]``.

    Attributes:
        list: The descriptors of the tasks.
        goal: ``each``: the best configuration of each task; ``single``: one for all.
        within: Instead of ``goal``: the fewest configurations whose combined slowdown is at most this.
        aggregate: How the slowdowns of the tasks are combined.
        constraints: Further known constraints by name of a task, such as ``"n=512" = ["tile <= 32"]``.
    """

    list: Annotated[
        Sequence[Any],
        Shape(
            title="an array of tables, such as `[{ n = 512 }, { n = 4096 }]`, or of names",
            type="array",
            minItems=1,
            items={"anyOf": [{"type": "object"}, {"type": "string"}]},
        ),
    ]
    goal: Annotated[
        str | int,
        Shape(
            title="`each`, `single` or a number of configurations",
            anyOf=[choice(("each", "single")), whole(1)],
        ),
    ] = "each"
    within: Annotated[float | None, Shape(type="number", minimum=1)] = None
    aggregate: Aggregate = "geometric_mean"
    constraints: Mapping[str, Sequence[str]] = field(default_factory=dict)


FIDELITY = Shape(
    type="object",
    description="one parameter that makes evaluations cheaper, with its values; the last one is the target",
    additionalProperties={"type": "array", "minItems": 2},
    maxProperties=1,
)
"""The JSON Schema of the table ``[fidelity]``; its only key is a name that the user chooses."""


WHEN = Key(
    "when",
    TEXT,
    "An [expression](../spaces.md#conditional-parameters); the parameter is active only where it is true",
    absent="always active",
)


def parameter_keys(type_name: str) -> tuple[Key, ...]:
    """Return the keys of a parameter besides ``type``: the arguments of the type's constructor, and its condition."""
    return (*keys_of(find_type(type_name)), WHEN)


def strategy_keys(name: str) -> tuple[Key, ...]:
    """Return the settings of a strategy, which are keys of ``[optimizer]``."""
    common = {key.name for key in keys_of(OptimizerTable)}
    return tuple(key for key in keys_of(find_maker(name)) if key.name not in common)


def _objective_tables(top: Table) -> list[Table]:
    """Return the table ``[objective]``, or the tables ``[[objective]]``."""
    given = top.entries.get("objective", {})
    if isinstance(given, dict):
        return [top.table("objective")]
    if not isinstance(given, list) or not given or not all(isinstance(t, dict) for t in given):
        raise RunFileError("objective must be a table [objective], or several [[objective]]")
    return [Table("objective", table) for table in given]


def _read_aim(top: Table, goal: Cover | None, exact: Callable[[str], bool]) -> Aim:
    """Return the objectives, the limits on outcomes and the goal.

    Args:
        top: The whole file.
        goal: The goal of several tasks.
        exact: Whether an objective of this name is exact, also if its table does not say so.
    """
    tables = _objective_tables(top)
    for table in tables if len(tables) > 1 else ():
        if not table.has("name"):
            raise RunFileError("[[objective]] needs the key 'name', as there are several")
        if table.has("peak"):
            raise table.error(
                "peak", table.entries["peak"], "one [objective]; omit it with several"
            )
    limits = tuple(top.table("constraints").create(Constraints).limits)
    try:
        limits_of(limits)
    except SpaceError as error:
        raise SpaceError(f"[constraints] limits: {error}") from None
    try:
        objectives = [
            replace(o, exact=True) if exact(o.name) else o for o in map(_read_objective, tables)
        ]
        return Aim(objectives, limits, goal)
    except BacoError:
        raise
    except ValueError as error:
        raise RunFileError(f"[objective] {error}") from None


def _read_objective(table: Table) -> Objective:
    values = table.read(OBJECTIVE)
    del values["peak"]
    return Objective(**values)


@dataclass(frozen=True, kw_only=True)
class RunTables:
    """A run without its evaluator, as the tables describe it.

    Attributes:
        space: The space to tune.
        aim: The measured quantities, limits on outcomes, and the goal of a run with tasks.
        search: Strategy, settings, first configurations and noise.
        seed: The run's only seed.
        sharing: Threads and proposals in store.
        proposers: Commands that propose configurations; they run in the folder of the file.
        budget: When the run ends, or None.
        peak: The best value that the machine allows, for the report, or None.
    """

    space: Space
    aim: Aim
    search: Search
    seed: int = 0
    sharing: Sharing = field(default_factory=Sharing)
    proposers: tuple[str, ...] = ()
    budget: Budget | None = None
    peak: float | None = None

    def make_optimizer(
        self, storage: Path | None, seed: int | None = None, workers: int = 1, **more: Any
    ) -> Optimizer:
        """Return the optimizer of a new run, or of the journal at ``storage``.

        Args:
            storage: The journal, or None.
            seed: Another seed.
            workers: Number of parallel evaluations; each has the time of a budget that is in time alone.
            more: Further arguments of `Optimizer`.
        """
        seed = self.seed if seed is None else seed
        if self.budget is not None:
            evaluations, seconds = self.budget.evaluations, self.budget.seconds
            is_timed = evaluations is None
            seconds = workers * seconds if is_timed and seconds is not None else None
            more |= {"budget": evaluations, "seconds": seconds}
        search, sharing = self.search, self.sharing
        return Optimizer(
            self.space, self.aim, seed, strategy=search, storage=storage, sharing=sharing, **more
        )


def read_run(
    top: Table,
    folder: Path = Path(),
    generated: Mapping[str, Parameter] = MappingProxyType({}),
    exact: Callable[[str], bool] = lambda name: False,
    space: Space | None = None,
) -> dict[str, Any]:
    """Return the attributes of `RunTables`.

    Args:
        top: All tables.
        folder: Where relative paths start.
        generated: The parameters of other tables.
        exact: Whether the objective with a name is known to have exact values.
        space: The space, if the tables do not describe it.

    Raises:
        RunFileError: A key is unknown, or has a wrong value.
        SpaceError: The space or a limit is wrong.
    """
    tasks, goal = _read_tasks(top)
    aim = _read_aim(top, goal, exact)
    space = _read_space(top, tasks, generated) if space is None else space
    violated = []
    if space.default_config is not None and not default_points(space):  # it is evaluated first
        violated = space.explain(space.default_config)
    if violated:
        raise RunFileError(
            f"[space] the default configuration is not feasible: {'; '.join(violated)}; change or remove a default"
        )
    return {
        "space": space,
        "aim": aim,
        "budget": top.table("budget").create(Budget) if top.has("budget") else None,
        "peak": _objective_tables(top)[0].read(OBJECTIVE)["peak"],
        **_read_optimizer(top.table("optimizer"), folder),
    }


def _read_optimizer(table: Table, folder: Path) -> dict[str, Any]:
    """Return the seed, the search (other keys are settings of the strategy), and what belongs to each process."""
    names = [key.name for key in keys_of(OptimizerTable)]
    known = {key: value for key, value in table.entries.items() if key in names}
    given = {key: value for key, value in table.entries.items() if key not in names}
    read = Table(table.name, known).create(OptimizerTable)
    experience = _paths(read.experience, folder)
    try:
        search = Search(read.strategy, given, read.initial, read.noise, experience)
        sharing = Sharing(ahead=read.ahead, patience=read.patience, threads=read.threads)
    except (ValueError, TypeError) as error:
        raise RunFileError(f"[optimizer] {' '.join(str(error).split())}") from error
    proposers = tuple(read.proposers)
    return {"seed": read.seed, "search": search, "sharing": sharing, "proposers": proposers}


def _paths(given: str | Sequence[str] | None, folder: Path) -> Path | list[Path] | None:
    if given is None:
        return None
    return folder / given if isinstance(given, str) else [folder / path for path in given]


def _read_space(top: Table, tasks: Tasks | None, generated: Mapping[str, Parameter]) -> Space:
    """Return the space of ``[space.NAME]``, ``[constraints]`` and ``[fidelity]``.

    Args:
        top: The whole file.
        tasks: The tasks.
        generated: Further parameters, of the tables ``[flags]`` and ``[passes]``.
    """
    table = top.table("space")
    if not table.entries and not generated:
        raise RunFileError("[space] has no parameter; write one table [space.NAME] per parameter")
    parameters = {name: _read_parameter(table.table(name)) for name in table.entries}
    when = {name: entry["when"] for name, entry in table.entries.items() if "when" in entry}
    if twice := next((name for name in parameters if name in generated), None):
        owner = "passes" if twice == "passes" else "flags"
        raise RunFileError(
            f"[space.{twice}]: [{owner}] has this parameter too; rename or remove one"
        )
    known = top.table("constraints").create(Constraints).known
    fidelity = _read_fidelity(top.table("fidelity"))
    return Space({**parameters, **generated}, known, fidelity, tasks, when=when)


def _read_tasks(top: Table) -> tuple[Tasks | None, Cover | None]:
    """Return the tasks and the goal; None without the table."""
    if not top.has("tasks"):
        return None, None
    table = top.table("tasks")
    read = table.create(TasksTable)
    try:
        tasks = Tasks(read.list, read.constraints)
    except SpaceError as error:
        raise SpaceError(f"[tasks] {error}") from None
    if read.within is not None and table.has("goal"):
        raise table.error("within", read.within, "no key 'goal' beside it")
    goal = 1 if read.goal == "single" else read.goal
    count = goal if isinstance(goal, int) and read.within is None else None
    return tasks, Cover(count, read.within, read.aggregate)


def _read_fidelity(table: Table) -> Mapping[str, Any] | None:
    """Return the name of the fidelity and its values; None without the table."""
    for name, values in table.entries.items():
        if not isinstance(values, list):
            raise table.error(name, values, "an array of values in increasing order")
    return table.entries or None


def _read_parameter(table: Table) -> Parameter:
    """Return a parameter of a built-in or registered type; its keys are the arguments of the constructor."""
    own = list(PARAMETER_TYPES)
    types = own if table.entries.get("type") in own else REGISTRY.names
    type_key = Key("type", choice(types), required=True)
    table.read((type_key, *parameter_keys(table.value(type_key))))
    try:
        return parameter_from_dict({k: v for k, v in table.entries.items() if k != WHEN.name})
    except (ValueError, TypeError) as error:  # a registered type may raise any of them
        raise SpaceError(f"[{table.name}] {one_line(error)}") from None


def one_line(error: Exception) -> str:
    """Return the message of an error in one line of at most 300 characters."""
    return " ".join(str(error).split())[:300] or type(error).__name__
