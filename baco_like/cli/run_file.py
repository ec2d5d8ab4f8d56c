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
from baco_like.evaluators.command import describe_compiler, metric_names
from baco_like.evaluators.command.passes import find_opt
from baco_like.evaluators.settings_table import Key, Table, choice, suggestion
from baco_like.evaluators.sources import table_hashes
from baco_like.exceptions import RunFileError, SpaceError
from baco_like.journal.header import COMPILER, DEVICE_TYPE, EXACT, FOLDER, ORGANISING, PEAK, UNIT
from baco_like.optimizer import WarmStart
from baco_like.optimizer.objectives import objective_context
from baco_like.optimizer.setup import default_points
from baco_like.parameters import Parameter, parameter_from_dict
from baco_like.parameters.registry import PARAMETER_TYPES, REGISTRY
from baco_like.records import AnyLimit, Cover, Limits, Noise, Objective, SoftLimit
from baco_like.running.confirming import ConfirmationSettings
from baco_like.running.control import RECHECK, ControlSettings
from baco_like.running.stopping import (
    AnyOf,
    LowOutlook,
    MaxFailures,
    NoImprovement,
    StoppingRule,
    Target,
    check_rule,
    check_rule_for_tasks,
)
from baco_like.spaces import Space, Tasks

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
        objective: The measured quantity; of several the first.
        evaluator_table: Settings of the evaluator.
        evaluations: Largest number of evaluations, or None.
        builds: Largest number of builds, or None for `MaxEvals`'s default.
        seconds: Limit of wall time in seconds, or None; this or ``evaluations`` is set.
        identical_failures: Number of equal failures in a row, before the first success, that end the run; 0: never.
        rules: Further rules that end the run.
        strategy: Name of the strategy.
        seed: The run's only seed.
        initial: Size of the initial design, or None for the strategy's default.
        settings: Settings of the strategy.
        noise: Whether observed configurations may be suggested again.
        threads: Largest number of threads during a suggestion, or None for `Optimizer`'s default.
        ahead: Number of proposals in store.
        confirmation: How the winner is confirmed, or None.
        control: How often the incumbent is measured again to notice drift.
        warm_start: Sources of earlier results.
        limits: Conditions on the metrics of outcomes, and soft limits.
        peak: The best value that the machine allows, for the report, or None.
        objectives: All objectives if there are several, else empty.
        goal: The goal of a run with tasks, or None.
    """

    path: Path
    space: Space
    objective: Objective
    evaluator_table: Table
    evaluations: int | None = None
    builds: int | None = None
    seconds: float | None = None
    identical_failures: int = 10
    rules: tuple[StoppingRule, ...] = ()
    strategy: str = "auto"
    seed: int = 0
    initial: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    noise: Noise = "none"
    threads: int | None = None
    ahead: int = 0
    confirmation: ConfirmationSettings | None = None
    control: ControlSettings = field(default_factory=ControlSettings)
    warm_start: tuple[WarmStart, ...] = ()
    limits: tuple[AnyLimit, ...] = ()
    peak: float | None = None
    objectives: tuple[Objective, ...] = ()
    goal: Cover | None = None

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
        objectives = self.objectives or (self.objective,)
        context: dict[str, Any] = {UNIT: self.objective.unit, **objective_context(objectives)}
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
        return registry.create(self.evaluator_table, self.space, self.objective.unit, self.folder)


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
    first, objectives = _read_objectives(top, table)
    is_exact = all(objective.exact for objective in objectives or (first,))
    if is_exact:
        table = _measured_once(top, table)
    tasks, goal = _read_tasks(top)
    run_file = RunFile(
        path=path,
        space=_read_space(top, table, tasks),
        objective=first,
        evaluator_table=table,
        **_read_budget(top.table("budget")),
        **_read_optimizer(top.table("optimizer")),
        confirmation=_read_confirmation(top, is_exact),
        limits=_read_limits(top.table("constraints")),
        peak=_objective_tables(top)[0].values(keys.OBJECTIVE)["peak"],
        objectives=objectives,
        goal=goal,
        control=_read_control(top, is_exact),
        warm_start=_read_warm_starts(
            top.entries.get("warm_start", []), path.resolve().parent, large
        ),
    )
    _check_combinations(run_file)
    _check_default(run_file.space)
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


def _read_objectives(top: Table, evaluator: Table) -> tuple[Objective, tuple[Objective, ...]]:
    """Return the first objective, and all objectives if there are several."""
    tables = _objective_tables(top)
    metrics = evaluator.entries.get("metrics")
    texts = metrics if isinstance(metrics, dict) else {}
    objectives = tuple(
        replace(o, exact=True) if _SIZE.match(str(texts.get(o.name, ""))) else o
        for o in map(_read_objective, tables)
    )
    if len(objectives) == 1:
        return objectives[0], ()
    for table, objective in zip(tables, objectives, strict=True):
        if not table.has("name"):
            raise RunFileError("[[objective]] needs the key 'name', as there are several")
        if sum(other.name == objective.name for other in objectives) > 1:
            raise RunFileError(
                f"[[objective]] name = {objective.name!r}: two objectives have this name"
            )
        if table.has("peak"):
            raise table.error(
                "peak", table.entries["peak"], "one [objective]; omit it with several"
            )
    return objectives[0], objectives


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


def _read_optimizer(table: Table) -> dict[str, Any]:
    """Return the keys of every strategy and, as settings, all other keys."""
    values = table.values(keys.OPTIMIZER)
    settings = {key: value for key, value in table.entries.items() if key not in values}
    return {**values, "settings": settings}


def _read_confirmation(top: Table, is_exact: bool) -> ConfirmationSettings | None:
    """Return how the winner is confirmed; exact values are not measured again, so it is only simplified."""
    if not top.has("confirmation"):
        return None
    settings = ConfirmationSettings(**top.table("confirmation").read(keys.CONFIRMATION))
    return replace(settings, top=0) if is_exact else settings


def _read_control(top: Table, is_exact: bool) -> ControlSettings:
    """Return when the incumbent is measured again; recorded results do not drift, and tasks have no common best."""
    every, threshold = top.table("drift").read(keys.DRIFT).values()
    is_recorded = top.table("evaluator").entries.get("kind") == "replay"
    default = 0 if is_recorded or is_exact or top.has("tasks") else RECHECK
    return ControlSettings(default if every is None else every, threshold)


def _check_combinations(run_file: RunFile) -> None:
    """Reject what needs one objective, one task or running times where the file has others."""
    has_tasks = len(run_file.space.tasks or ()) > 1
    rule = AnyOf(run_file.rules)
    try:
        check_rule(rule, run_file.objectives)
        if has_tasks:
            check_rule_for_tasks(rule)
    except ValueError as error:
        raise RunFileError(f"[budget] {error}") from None
    if has_tasks and (run_file.confirmation is not None or run_file.control.every):
        raise RunFileError(
            "[confirmation] and [drift] measure the best configuration of one task again; leave them out with [tasks]"
        )
    if run_file.objectives and run_file.confirmation is not None:
        raise RunFileError(
            "[confirmation] compares values of one objective; leave it out with several [[objective]] tables"
        )
    table = run_file.evaluator_table
    for key in ("slow_ratio", "first_repeats"):  # both compare running times with the best
        if not table.has(key):
            continue
        if run_file.objective.direction == "maximize":
            expected = 'direction = "minimize"; otherwise omit this key'
            raise table.error(key, table.entries[key], expected)
        if run_file.objectives:  # a configuration that is slow may be the smallest
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
    objective = run_file.objective.name
    for other in run_file.objectives[1:]:
        if other.name not in names:
            way = "" if is_recorded else "; add it to [evaluator.metrics]"
            hint = suggestion(other.name, names) if names else "this evaluator measures one value"
            raise RunFileError(f"[[objective]] {other.name!r} is not measured; {hint}{way}")
    for name in () if is_recorded else names:
        if name == objective or name in run_file.space.parameters:
            owner = "the objective" if name == objective else "a parameter"
            raise RunFileError(
                f"[evaluator] the metric {name!r} has the name of {owner}; rename it"
            )
    known = (objective, *names)
    for name in Limits(run_file.limits).names:
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
