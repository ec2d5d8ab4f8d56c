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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from baco_like._checks import nesting_depth
from baco_like.cli import run_file_keys as keys
from baco_like.evaluators import Evaluator, Flags, Passes, ReplayEvaluator, registry, unwrap
from baco_like.evaluators.command.compilers import describe_compiler
from baco_like.evaluators.command.evaluator import metric_names
from baco_like.evaluators.command.passes import find_opt
from baco_like.evaluators.settings_table import Key, Table, choice, suggestion
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
from baco_like.parameters.registry import PARAMETER_TYPES, REGISTRY
from baco_like.records import Aim, AnyLimit, Cover, Limits, Objective, SoftLimit
from baco_like.running.confirming import Confirm
from baco_like.running.measuring import RECHECK, Measuring, Recheck
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
class RunFile:
    """The checked contents of a TOML file.

    Attributes:
        path: The file.
        space: The space to tune.
        aim: The measured quantities, limits on outcomes, and the goal of a run with tasks.
        evaluator_table: Settings of the evaluator.
        evaluations: Largest number of evaluations, or None.
        builds: Largest number of builds, or None for `MaxEvals`'s default.
        seconds: Limit of wall time in seconds, or None; this or ``evaluations`` is set.
        identical_failures: Number of equal failures in a row, before the first success, that end the run; 0: never.
        rules: Further rules that end the run.
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
    evaluations: int | None = None
    builds: int | None = None
    seconds: float | None = None
    identical_failures: int = 10
    rules: tuple[StoppingRule, ...] = ()
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
    def stop(self) -> AnyOf:
        """The rule that ends the search."""
        rules = list(self.rules)
        if self.identical_failures:
            rules.insert(0, IdenticalFailures(self.identical_failures))
        if self.seconds is not None:
            rules.insert(0, MaxTime(self.seconds))
        if evaluations := self.evaluations or self.builds:
            rules.insert(0, MaxEvals(evaluations, self.builds))
        return AnyOf(tuple(rules))

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
        if self.seconds is None or self.evaluations is not None:
            return None
        entries = self.evaluator_table.entries
        return self.seconds * int(entries.get("workers", 1))

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
        **_read_budget(top.table("budget")),
        **_read_optimizer(top.table("optimizer"), space),
        peak=_objective_tables(top)[0].values(keys.OBJECTIVE)["peak"],
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
    values = table.read(keys.OBJECTIVE)
    del values["peak"]
    return Objective(**values)


def _read_budget(table: Table) -> dict[str, Any]:
    """Return the limits, and the rules that may end the run before."""
    values = table.read(keys.BUDGET)
    if values["evaluations"] is None and values["seconds"] is None:
        raise RunFileError("[budget] needs 'evaluations', 'seconds' or both")
    limits = {
        key: values.pop(key) for key in ("evaluations", "builds", "seconds", "identical_failures")
    }
    rules: list[StoppingRule] = []
    if values["target"] is not None:
        rules.append(Target(values["target"]))
    if values["max_failures"] is not None:
        rules.append(MaxFailures(values["max_failures"]))
    if table.has("no_improvement"):
        rules.append(NoImprovement(*_read_rule(table, "no_improvement", keys.NO_IMPROVEMENT)))
    if table.has("outlook"):
        evaluations, share = _read_rule(table, "outlook", keys.OUTLOOK)
        if not share:
            raise table.table("outlook").error("percent", 0, "a number above 0 and below 100")
        rules.append(LowOutlook(evaluations, share))
    return {**limits, "rules": tuple(rules)}


def _read_rule(table: Table, key: str, rule_keys: Sequence[Key]) -> tuple[int, float]:
    """Return the evaluations and the share of ``key = 40`` or ``key = { evaluations = 40, percent = 1 }``."""
    value = table.entries[key]
    inner = table.table(key) if isinstance(value, dict) else Table(key, {"evaluations": value})
    evaluations, percent = inner.read(rule_keys).values()
    return evaluations, percent / 100.0


def _read_optimizer(table: Table, space: Space) -> dict[str, Any]:
    """Return the seed, the search (other keys are settings of the strategy), and what belongs to each process.

    The default configuration is evaluated first, so it does not count as an initial design.
    """
    values = table.values(keys.OPTIMIZER)
    given = {key: value for key, value in table.entries.items() if key not in values}
    strategy, initial = values["strategy"], values["initial"]
    default = space.default_config
    try:
        settings = {**default_settings(strategy), **given}
        if initial is not None:
            settings["initial"] = initial
        first = None if default is None or space.tasks else [default]
        search = Search(strategy, settings, first, values["noise"])
    except (ValueError, TypeError) as error:
        raise RunFileError(f"[optimizer] {' '.join(str(error).split())}") from error
    sharing = Sharing(ahead=values["ahead"], threads=values["threads"])
    return {"seed": values["seed"], "search": search, "sharing": sharing}


def _read_measuring(top: Table, is_exact: bool) -> Measuring:
    """Return when the incumbent is measured again, and how the winner is confirmed.

    Recorded results do not drift, tasks have no common best, and exact values are only simplified.
    """
    every, threshold = top.table("drift").read(keys.DRIFT).values()
    if every is None:
        is_recorded = top.table("evaluator").entries.get("kind") == "replay"
        every = 0 if is_recorded or is_exact or top.has("tasks") else RECHECK
    confirm = None
    if top.has("confirmation"):
        confirm = Confirm(**top.table("confirmation").read(keys.CONFIRMATION))
        confirm = replace(confirm, top=0) if is_exact else confirm
    return Measuring(recheck=Recheck(every, threshold), confirm=confirm)


def _check_combinations(run_file: RunFile) -> None:
    """Reject what needs one objective, one task or running times where the file has others."""
    aim, names = run_file.aim, ("[budget]", "[confirmation]", "[drift]")
    try:
        run_file.measuring.for_run(run_file.stop, aim, run_file.space, names=names)
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
        values = Table("warm_start", table).read(keys.WARM_START)
        values["large"] = large or values["large"]
        sources.append(WarmStart(folder / values.pop("file"), **values))
    return tuple(sources)


def _read_generated(evaluator: Table) -> Mapping[str, Parameter]:
    """Return the parameters of the tables ``[flags]`` and ``[passes]``."""
    parameters: dict[str, Parameter] = {}
    for name, make in (("flags", Flags), ("passes", Passes)):
        if evaluator.has(name) and evaluator.entries.get("kind") in _GENERATED[name]:
            try:
                own = make.from_table(Table(name, evaluator.table(name).entries)).parameters
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
    known = top.table("constraints").read(keys.CONSTRAINTS)["known"]
    fidelity = _read_fidelity(top.table("fidelity"))
    return Space({**parameters, **generated}, known, fidelity, tasks, when=when)


def _read_tasks(top: Table) -> tuple[Tasks | None, Cover | None]:
    """Return the tasks and the goal; None without the table."""
    if not top.has("tasks"):
        return None, None
    table = top.table("tasks")
    values = table.read(keys.TASKS)
    try:
        tasks = Tasks(values["list"], values["constraints"])
    except SpaceError as error:
        raise SpaceError(f"[tasks] {error}") from None
    goal, within = values["goal"], values["within"]
    if within is not None and table.has("goal"):
        raise table.error("within", within, "no key 'goal' beside it")
    count = {"single": 1, "each": None}.get(goal, goal)
    return tasks, Cover(None if within is not None else count, within, values["aggregate"])


def _read_fidelity(table: Table) -> Mapping[str, Any] | None:
    """Return the name of the fidelity and its values; None without the table."""
    for name, values in table.entries.items():
        if not isinstance(values, list):
            raise table.error(name, values, "an array of values in increasing order")
    return table.entries or None


def _read_limits(table: Table) -> tuple[AnyLimit, ...]:
    """Return the limits on outcomes."""
    values = table.read(keys.CONSTRAINTS)
    key = "limits"
    try:
        texts = Limits(values["limits"]).texts
        key = "soft_limits"
        return *texts, *(SoftLimit(*item) for item in values["soft_limits"].items())
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
    type_key = Key("type", choice(types), "", required=True)
    table.read((type_key, *keys.parameter_keys(table.value(type_key))))
    try:
        return parameter_from_dict({k: v for k, v in table.entries.items() if k != keys.WHEN.name})
    except (ValueError, TypeError) as error:  # a registered type may raise any of them
        raise SpaceError(f"[{table.name}] {_one_line(error)}") from None
