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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from baco_like._checks import nesting_depth
from baco_like._tables import (
    TEXT,
    Key,
    Table,
    keys_of,
    suggestion,
)
from baco_like.evaluators import Evaluator, Flags, Passes, ReplayEvaluator, registry
from baco_like.evaluators.command.compiler_options import describe_compiler
from baco_like.evaluators.command.evaluator import metric_names
from baco_like.evaluators.command.passes import find_opt
from baco_like.evaluators.protocol import unwrap
from baco_like.evaluators.sources import table_hashes
from baco_like.exceptions import RunFileError, SpaceError
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
from baco_like.optimizer import WarmStart
from baco_like.parameters import Parameter
from baco_like.records.limits import Limits
from baco_like.running.confirming import Confirm
from baco_like.running.measuring import Measuring, Recheck
from baco_like.running.run_tables import Budget, RunTables, one_line, read_run

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


WARM_START = (
    Key("file", TEXT, "The earlier results; relative paths start at the run file", required=True),
    *keys_of(WarmStart)[1:],
)


@dataclass(frozen=True, kw_only=True)
class RunFile(RunTables):
    """The checked contents of a TOML file; the attributes of `RunTables` too.

    Attributes:
        path: The file.
        evaluator_table: Settings of the evaluator.
        budget: When the run ends.
        measuring: How often the incumbent is measured again to notice drift, and how the winner is confirmed.
        warm_start: Sources of earlier results.
    """

    path: Path
    evaluator_table: Table
    budget: Budget
    measuring: Measuring
    warm_start: tuple[WarmStart, ...] = ()

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
    top, folder = Table("", parse_toml(path)), path.resolve().parent
    for key in top.entries:
        if key not in _TABLES:
            raise RunFileError(f"{path}: there is no table [{key}]; {suggestion(key, _TABLES)}")
    for key in _REQUIRED:
        if not top.has(key) and not (key == "space" and any(map(top.has, _GENERATED))):
            raise RunFileError(f"{path}: the table [{key}] is missing")
    table = _evaluator_table(top, large, slots)
    metrics = table.entries.get("metrics")
    texts = metrics if isinstance(metrics, dict) else {}
    found = read_run(
        top,
        folder,
        _read_generated(table),
        lambda name: bool(_SIZE.match(str(texts.get(name, "")))),
    )
    is_exact = found["aim"].is_exact
    run_file = RunFile(
        path=path,
        evaluator_table=_measured_once(top, table) if is_exact else table,
        measuring=_read_measuring(top, is_exact),
        warm_start=_read_warm_starts(top.entries.get("warm_start", []), folder, large),
        **found,
    )
    _check_combinations(run_file)
    with contextlib.closing(run_file.create_evaluator()) as evaluator:
        _check_metrics(run_file, evaluator)
    return run_file


def parse_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file of limited size and depth.

    Raises:
        RunFileError: It cannot be read, or is not TOML.
    """
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
        raise RunFileError(f"{path}: not a TOML file: {one_line(error)}") from None


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
