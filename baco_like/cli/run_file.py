"""Read the TOML file of ``baco-like tune``; it is checked as a whole before anything is run or written.

Its tables are ``[space.NAME]`` (one per parameter), ``[constraints]``, ``[objective]`` (or ``[[objective]]``, one for
each of several), ``[evaluator]``, ``[budget]``, ``[optimizer]``, ``[fidelity]``, ``[flags]``, ``[passes]``,
``[confirmation]``, ``[drift]`` and ``[warm_start]`` (or ``[[warm_start]]``, one per source). An
unknown key is an error.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from baco_like._checks import nesting_depth
from baco_like._tables import (
    POSITIVE,
    SHARE,
    TEXT,
    Count,
    Key,
    Natural,
    Positive,
    Shape,
    Table,
    TableOrFirst,
    choice,
    keys_of,
    suggestion,
    whole,
)
from baco_like.evaluators import Evaluator, Flags, Passes, ReplayEvaluator, registry, unwrap
from baco_like.evaluators.command.compilers import describe_compiler
from baco_like.evaluators.command.evaluator import metric_names
from baco_like.evaluators.command.passes import find_opt
from baco_like.evaluators.sources import table_hashes
from baco_like.exceptions import BacoError, RunFileError, SpaceError
from baco_like.journal.header import (
    COMPILER,
    DEVICE_TYPE,
    EXACT,
    FOLDER,
    ORGANISING,
    PEAK,
    UNIT,
    objective_context,
)
from baco_like.optimizer import Search, Sharing, WarmStart
from baco_like.optimizer.arguments import default_points
from baco_like.parameters import Parameter, parameter_from_dict
from baco_like.parameters.registry import PARAMETER_TYPES, REGISTRY, find_type
from baco_like.records import Aim, AnyLimit, Cover, Limits, Noise, Objective, SoftLimit
from baco_like.records.covering import Aggregate
from baco_like.running.confirming import Confirm
from baco_like.running.measuring import Measuring, Recheck
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
from baco_like.strategies import default_settings
from baco_like.strategies.registry import find_maker

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_REQUIRED = ("space", "evaluator", "budget")
_TABLES = (
    *(*_REQUIRED, "flags", "passes", "constraints", "objective"),
    *("optimizer", "confirmation", "drift", "fidelity", "tasks", "warm_start"),
)
_GENERATED = {"flags": ("command",), "passes": ("command", "llvm")}
"""Tables that are parameters, by the kinds of evaluators to which they belong."""

_MAX_DEPTH = 16
"""Most dots of a key and deepest nesting of brackets; a run file needs about 3."""

_KEY_PART = r"""(?:[\w-]+|"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"|'[^'\n]*')"""
# No key begins behind a backslash; without this condition, a line of escaped quotes would take quadratic time.
# A key with thousands of dots takes the parser minutes and gigabytes: its tables are copied for each dot.
_DEEP_KEY = re.compile(rf"(?<![\w\\-]){_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART}){{{_MAX_DEPTH + 1}}}")

_MAX_MIB = 1

_REPEATS = ("repeats", "first_repeats", "max_repeats")

_SIZE = re.compile(r"\s*(size|text|data|bss)\(")
"""Metrics of a command whose values are exact."""


@dataclass(frozen=True)
class Constraints:
    """The table ``[constraints]``.

    Attributes:
        known: [Expressions](../spaces.md#known-constraints) that every configuration satisfies.
        limits: [Limits on metrics](../flags.md#keep-size-energy-and-counters), such as ``"size <= 40000"``.
        soft_limits: [Limits that may be exceeded](../flags.md#soft-limits): the cost of exceeding each by 100 %, such
            as ``{ "size <= 40000" = 8.0 }``.
    """

    known: Sequence[str] = ()
    limits: Sequence[str] = ()
    soft_limits: Mapping[str, Positive] = field(default_factory=dict)


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
        ahead: Proposals that are computed [ahead of time](../many_workers.md), while configurations are measured; 0:
            none.
    """

    strategy: str = "auto"
    seed: Natural = 0
    initial: Count | None = None
    noise: Noise = "none"
    threads: Natural | None = None
    ahead: Natural = 0


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

WARM_START = (
    Key("file", TEXT, "The earlier results; relative paths start at the run file", required=True),
    *keys_of(WarmStart)[1:],
)

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


@dataclass(frozen=True)
class RunFile:
    """The checked contents of a TOML file.

    Attributes:
        path: The file.
        space: The space to tune.
        aim: The measured quantities, limits on outcomes, and the goal of a run with tasks.
        evaluator_table: Settings of the evaluator.
        budget: When the run ends.
        seed: The run's only seed.
        search: Strategy, settings, first configurations and noise.
        sharing: Threads and proposals in store; the command line adds its task, its name and its lease.
        measuring: How often the incumbent is measured again to notice drift, and how the winner is confirmed.
        warm_start: Sources of earlier results.
        peak: The best value that the machine allows, for the report, or None.
    """

    path: Path
    space: Space
    aim: Aim
    evaluator_table: Table
    search: Search
    measuring: Measuring
    budget: Budget
    seed: int = 0
    sharing: Sharing = field(default_factory=Sharing)
    warm_start: tuple[WarmStart, ...] = ()
    peak: float | None = None

    @property
    def is_shared(self) -> bool:
        """Whether other processes may work on the run at the same time."""
        return self.sharing.worker is not None

    @property
    def recheck(self) -> Recheck:
        """How often the incumbent is measured again."""
        assert self.measuring.recheck is not None
        return self.measuring.recheck

    @property
    def folder(self) -> Path:
        """The folder of the file, in which its commands run."""
        return self.path.resolve().parent

    @property
    def inputs(self) -> tuple[Path, ...]:
        """The file, the files that the evaluator's texts and commands name, and those of the warm start."""
        values = self.evaluator_table.entries.values()
        texts = [
            str(part)
            for value in values
            for part in (value if isinstance(value, list) else [value])
        ]
        words = [word for text in texts for word in (text, *text.split())]
        return (
            self.path,
            *(self.folder / word for word in words),
            *(s.data for s in self.warm_start),
        )

    @property
    def seconds_of_evaluations(self) -> float | None:
        """Seconds of all evaluations together if only the time is limited, else None."""
        if self.budget.seconds is None or self.budget.evaluations is not None:
            return None
        return self.budget.seconds * int(self.evaluator_table.entries.get("workers", 1))

    @property
    def context(self) -> dict[str, Any]:
        """What decides the measured values besides the space, by name: unit, evaluator's keys, hashes of sources."""
        table = self.evaluator_table
        objectives = self.aim.objectives
        context: dict[str, Any] = {UNIT: objectives[0].unit, **objective_context(objectives)}
        context[FOLDER] = str(self.folder)
        if self.peak is not None:
            context[PEAK] = self.peak
        if version := describe_compiler(table.entries):
            context[COMPILER] = version
        context |= {f"[{table.name}] {key}": value for key, value in table.entries.items()}
        return {
            **context,
            **registry.slot_context(table),
            **table_hashes(table.entries, self.folder),
        }

    def context_on_resume(self, earlier: Mapping[str, Any]) -> dict[str, Any]:
        """Return `context`, but with the earlier run's values for keys that do not affect a measured value."""
        free = [f"[{self.evaluator_table.name}] {key}" for key in ORGANISING]
        free += [FOLDER, PEAK, COMPILER, EXACT]  # the folder may have been moved
        if not {DEVICE_TYPE} <= earlier.keys() & self.context.keys():
            free.append(DEVICE_TYPE)  # only two known types can differ
        kept = {key: earlier[key] for key in free if key in earlier}
        return {**{k: v for k, v in self.context.items() if k not in free}, **kept}

    def create_evaluator(self) -> Evaluator:
        """Return a new evaluator; it has no effect before its first `Evaluator.wait`.

        Raises:
            EvaluatorError: A required tool is missing on this machine.
        """
        return registry.create(self.evaluator_table, self.space, self.aim.first.unit, self.folder)


def read(path: str | Path, *, large: bool = False, slots: Sequence[str] | None = None) -> RunFile:
    """Read and check a file without writing, running or changing anything.

    Args:
        path: The file.
        large: Whether files of results that it names may have more than 64 MiB, unpacked.
        slots: Device slots instead of those of the file.

    Raises:
        RunFileError: The file cannot be read, is not TOML, or has an unknown key or a wrong value.
        SpaceError: The space or its constraints are wrong.
        EvaluatorError: A tool that the evaluator needs (a compiler, for example) is missing on this machine.
    """
    path = Path(path)
    top = Table("", _parse_toml(path))
    for key in top.entries:
        if key not in _TABLES:
            raise RunFileError(f"{path}: there is no table [{key}]; {suggestion(key, _TABLES)}")
    for key in _REQUIRED:
        if not top.has(key) and not (key == "space" and any(map(top.has, _GENERATED))):
            raise RunFileError(f"{path}: the table [{key}] is missing")
    table = _evaluator_table(top, large, slots)
    tasks, goal = _read_tasks(top)
    aim = _read_aim(top, table, goal)
    if aim.is_exact:
        table = _measured_once(top, table)
    space = _read_space(top, table, tasks)
    run_file = RunFile(
        path=path,
        space=space,
        aim=aim,
        evaluator_table=table,
        measuring=_read_measuring(top, aim.is_exact),
        budget=top.table("budget").create(Budget),
        **_read_optimizer(top.table("optimizer"), space),
        peak=_objective_tables(top)[0].read(OBJECTIVE)["peak"],
        warm_start=_read_warm_starts(
            top.entries.get("warm_start", []), path.resolve().parent, large
        ),
    )
    _check_default(space)
    _check_combinations(run_file)
    with contextlib.closing(run_file.create_evaluator()) as evaluator:
        _check_metrics(run_file, evaluator)
    return run_file


def _parse_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_MIB * 2**20 + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise RunFileError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise RunFileError(f"{path}: not UTF-8 text (byte {error.start})") from None
    if len(content) > _MAX_MIB * 2**20:
        raise RunFileError(f"{path} is larger than {_MAX_MIB} MiB; is it a TOML file?")
    text = text.replace("\r\n", "\n")
    if _DEEP_KEY.search(text):
        raise RunFileError(f"{path}: a key has more than {_MAX_DEPTH} dots")
    if nesting_depth(text) > _MAX_DEPTH:
        raise RunFileError(f"{path}: brackets are nested more than {_MAX_DEPTH} deep")
    try:
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise RunFileError(f"{path}: not a TOML file: {_one_line(error)}") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _objective_tables(top: Table) -> list[Table]:
    """Return the table ``[objective]``, or the tables ``[[objective]]``."""
    given = top.entries.get("objective", {})
    if isinstance(given, dict):
        return [top.table("objective")]
    if not isinstance(given, list) or not given or not all(isinstance(t, dict) for t in given):
        raise RunFileError("objective must be a table [objective], or several [[objective]]")
    return [Table("objective", table) for table in given]


def _measured_once(top: Table, table: Table) -> Table:
    """Return the evaluator's table for exact values, which are not measured again.

    Raises:
        RunFileError: The file asks for more measurements.
    """
    given = [f"[evaluator] {key}" for key in _REPEATS if table.entries.get(key, 1) != 1]
    confirmation = [k for k in top.table("confirmation").entries if k != "simplify"]
    given += [f"[confirmation] {key}" for key in confirmation] + ["[drift]"] * top.has("drift")
    if given:
        raise RunFileError(
            f"{given[0]} measures again, and the objective is exact: each value would be the same; leave it out"
        )
    kinds = registry.kind_keys(table.text("kind"))
    once = {"repeats": 1} if any(key.name == "repeats" for key in kinds) else {}
    return Table(table.name, {**table.entries, **once})


def _read_aim(top: Table, evaluator: Table, goal: Cover | None) -> Aim:
    """Return the objectives, the limits on outcomes and the goal."""
    tables = _objective_tables(top)
    metrics = evaluator.entries.get("metrics")
    texts = metrics if isinstance(metrics, dict) else {}
    for table in tables if len(tables) > 1 else ():
        if not table.has("name"):
            raise RunFileError("[[objective]] needs the key 'name', as there are several")
        if table.has("peak"):
            raise table.error(
                "peak", table.entries["peak"], "one [objective]; omit it with several"
            )
    limits = _read_limits(top.table("constraints"))
    try:
        objectives = [
            replace(o, exact=True) if _SIZE.match(str(texts.get(o.name, ""))) else o
            for o in map(_read_objective, tables)
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


def _read_optimizer(table: Table, space: Space) -> dict[str, Any]:
    """Return the seed, the search (other keys are settings of the strategy), and what belongs to each process.

    The default configuration is evaluated first, so it does not count as an initial design.
    """
    names = [key.name for key in keys_of(OptimizerTable)]
    own = {key: value for key, value in table.entries.items() if key in names}
    given = {key: value for key, value in table.entries.items() if key not in names}
    read = Table(table.name, own).create(OptimizerTable)
    default = space.default_config
    try:
        settings = {**default_settings(read.strategy), **given}
        if read.initial is not None:
            settings["initial"] = read.initial
        first = None if default is None or space.tasks else [default]
        search = Search(read.strategy, settings, first, read.noise)
    except (ValueError, TypeError) as error:
        raise RunFileError(f"[optimizer] {' '.join(str(error).split())}") from error
    sharing = Sharing(ahead=read.ahead, threads=read.threads)
    return {"seed": read.seed, "search": search, "sharing": sharing}


def _read_measuring(top: Table, is_exact: bool) -> Measuring:
    """Return when the incumbent is measured again, and how the winner is confirmed.

    Recorded results do not drift, tasks have no common best, and exact values are only simplified.
    """
    drift = top.table("drift")
    recheck = drift.create(Recheck)
    is_recorded = top.table("evaluator").entries.get("kind") == "replay"
    if not drift.has("every") and (is_recorded or is_exact or top.has("tasks")):
        recheck = replace(recheck, every=0)
    confirm = None
    if top.has("confirmation"):
        confirm = top.table("confirmation").create(Confirm)
        confirm = replace(confirm, top=0) if is_exact else confirm
    return Measuring(recheck=recheck, confirm=confirm)


def _check_combinations(run_file: RunFile) -> None:
    """Reject what needs one objective, one task or running times where the file has others."""
    aim, names = run_file.aim, ("[budget]", "[confirmation]", "[drift]")
    try:
        run_file.measuring.for_run(run_file.budget.stop, aim, run_file.space, names=names)
    except ValueError as error:
        raise RunFileError(str(error)) from None
    table = run_file.evaluator_table
    for key in ("slow_ratio", "first_repeats"):  # both compare running times with the best
        if not table.has(key):
            continue
        if aim.first.direction == "maximize":
            expected = 'direction = "minimize"; otherwise omit this key'
            raise table.error(key, table.entries[key], expected)
        if aim.several:  # a configuration that is slow may be the smallest
            expected = "one [objective]; omit this key with several"
            raise table.error(key, table.entries[key], expected)


def _read_warm_starts(entries: Any, folder: Path, large: bool) -> tuple[WarmStart, ...]:
    """Return the sources of earlier results; relative paths start at the file's folder."""
    tables = entries if isinstance(entries, list) else [entries]
    if not all(isinstance(table, dict) for table in tables):
        raise RunFileError("warm_start must be a table [warm_start], or several [[warm_start]]")
    sources = []
    for table in tables:
        values = Table("warm_start", table).read(WARM_START)
        values["large"] = large or values["large"]
        sources.append(WarmStart(folder / values.pop("file"), **values))
    return tuple(sources)


def _read_generated(evaluator: Table) -> Mapping[str, Parameter]:
    """Return the parameters of the tables ``[flags]`` and ``[passes]``."""
    parameters: dict[str, Parameter] = {}
    makes: Mapping[str, Callable[..., Flags | Passes]] = {"flags": Flags, "passes": Passes}
    for name, make in makes.items():
        if evaluator.has(name) and evaluator.entries.get("kind") in _GENERATED[name]:
            try:
                own = Table(name, evaluator.table(name).entries).create(make).parameters
            except SpaceError as error:
                raise SpaceError(f"[{name}] {str(error).removeprefix(f'{name}: ')}") from None
            parameters |= own
    return parameters


def _evaluator_table(top: Table, large: bool, slots: Sequence[str] | None) -> Table:
    """Return the table of the evaluator with the flags, and with the arguments of the command line."""
    table = top.table("evaluator")
    entries, kind = dict(table.entries), table.entries.get("kind")
    for name, kinds in _GENERATED.items():
        if table.has(name) and kind in kinds:
            raise RunFileError(f"[evaluator] has no key {name!r}; write a table [{name}]")
        if top.has(name) and kind not in kinds:
            raise RunFileError(
                f"[{name}] belongs to [evaluator] kind = {' or '.join(map(repr, kinds))}"
            )
        if top.has(name):
            entries[name] = dict(top.table(name).entries)
    if top.has("passes") and kind == "llvm":
        entries["passes"].setdefault("opt", find_opt())
    if large and kind == "replay":
        entries["large"] = True
    if slots is not None:
        entries["slots"] = list(slots)
    return Table(table.name, entries)


def _read_space(top: Table, evaluator: Table, tasks: Tasks | None) -> Space:
    table, generated = top.table("space"), _read_generated(evaluator)
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


def _read_limits(table: Table) -> tuple[AnyLimit, ...]:
    """Return the limits on outcomes."""
    read = table.create(Constraints)
    key = "limits"
    try:
        texts = Limits(read.limits).texts
        key = "soft_limits"
        return *texts, *(SoftLimit(*item) for item in read.soft_limits.items())
    except (SpaceError, ValueError) as error:
        raise SpaceError(f"{table.label(key)}: {error}") from None


def _check_metrics(run_file: RunFile, evaluator: Evaluator) -> None:
    """Reject a metric with the name of something else, and a limit on a metric that is not measured.

    Where the names are unknown before the first result (a program that prints JSON, for example), `Limits.judge` checks
    the limits at the first success, and tables rename the metric.
    """
    inner = unwrap(evaluator)
    is_recorded = isinstance(inner, ReplayEvaluator)
    names = inner.metric_names if isinstance(inner, ReplayEvaluator) else metric_names(evaluator)
    if names is None:
        return
    objective, *others = run_file.aim.names
    for other in others:
        if other not in names:
            way = "" if is_recorded else "; add it to [evaluator.metrics]"
            hint = suggestion(other, names) if names else "this evaluator measures one value"
            raise RunFileError(f"[[objective]] {other!r} is not measured; {hint}{way}")
    for name in () if is_recorded else names:
        if name == objective or name in run_file.space.parameters:
            owner = "the objective" if name == objective else "a parameter"
            raise RunFileError(
                f"[evaluator] the metric {name!r} has the name of {owner}; rename it"
            )
    known = (objective, *names)
    for name in Limits(run_file.aim.limits).names:
        if name not in known:
            way = "" if is_recorded else "; add it to [evaluator.metrics] if it is another metric"
            raise RunFileError(
                f"[constraints] limits: {name!r} is not measured; {suggestion(name, known)}{way}"
            )


def _check_default(space: Space) -> None:
    """Check that the default configuration is feasible, because it is evaluated first."""
    default = space.default_config
    violated = [] if default is None or default_points(space) else space.explain(default)
    if violated:
        raise RunFileError(
            f"[space] the default configuration is not feasible: {'; '.join(violated)}; change or remove a default"
        )


def _read_parameter(table: Table) -> Parameter:
    """Return a parameter of a built-in or registered type; its keys are the arguments of the constructor."""
    own = list(PARAMETER_TYPES)
    types = own if table.entries.get("type") in own else REGISTRY.names
    type_key = Key("type", choice(types), required=True)
    table.read((type_key, *parameter_keys(table.value(type_key))))
    try:
        return parameter_from_dict({k: v for k, v in table.entries.items() if k != WHEN.name})
    except (ValueError, TypeError) as error:  # a registered type may raise any of them
        raise SpaceError(f"[{table.name}] {_one_line(error)}") from None
