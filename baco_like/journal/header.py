"""The header of a journal, its first event: space, options, results of warm starts, library versions and machine."""

from __future__ import annotations

import functools
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from baco_like._tables import Count, Natural, Positive, check_values
from baco_like.exceptions import JournalError
from baco_like.journal.events import (
    SCHEMA,
    Event,
    config_from_json,
    describe_error,
    normalise,
    outcome_row,
    read_outcome,
)
from baco_like.journal.fields import check_event
from baco_like.records.aim import Aim
from baco_like.records.history import Noise
from baco_like.records.objective import Objective
from baco_like.records.trial import WARM, Outcome, Trial
from baco_like.spaces.inputs import describe_differences
from baco_like.spaces.space import Space

Mode = Literal["data", "configs", "prior"]


@dataclass(frozen=True)
class WarmStartResults:
    """Results that a run uses from one warm start.

    Attributes:
        mode: ``data``: results of the same task; ``configs``: configurations to be tried first; ``prior``: results of a
            related task.
        source: Name of the source: a file name or a type.
        trials: The used configurations with outcomes, in the values of the space; numbered from 0.
        found: Number of results in the source.
        left_out: Number of results that cannot be used, by reason.
        notes: One line per assumption.
        objective: Name of the objective that the values are of, if a related task lacks the run's first one; else None.
    """

    mode: Mode
    source: str
    trials: tuple[Trial, ...]
    found: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    objective: str | None = None

    def event(self) -> Event:
        """Return JSON values for the header; `read` is the inverse."""
        return {
            "mode": self.mode,
            "source": self.source,
            "found": self.found,
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            **({} if self.objective is None else {"objective": self.objective}),
            "rows": [
                outcome_row(trial, trial.outcome)
                for trial in self.trials
                if trial.outcome is not None
            ],
        }

    @classmethod
    def read(cls, part: Mapping[str, Any]) -> WarmStartResults:
        """Return the results in the checked JSON values that `event` has returned."""
        rows = [(config_from_json(row["config"]), read_outcome(row)) for row in part["rows"]]
        left_out, notes, found = dict(part["left_out"]), tuple(part["notes"]), part["found"]
        trials, objective = numbered(rows), part.get("objective")
        return cls(part["mode"], part["source"], trials, found, left_out, notes, objective)


def numbered(rows: Sequence[tuple[Mapping[str, Any], Outcome]]) -> tuple[Trial, ...]:
    """Return configurations with their outcomes as trials of origin ``warm``, with the numbers from 0."""
    return tuple(
        Trial(i, config, None, WARM, replace(outcome, trial_id=i))
        for i, (config, outcome) in enumerate(rows)
    )


class Advice(NamedTuple):
    """A configuration that earlier runs of other programs advise.

    Attributes:
        config: The configuration.
        note: The runs that know it.
    """

    config: Mapping[str, Any]
    note: str


_LIBRARIES = ("baco-like", "numpy", "scipy", "torch", "gpytorch", "scikit-learn")
COMPILER = "compiler"
"""Key of the context of a run: the first line of the compiler's version."""

UNIT = "[objective] unit"
"""Key of the context of a run: the unit of its values."""

UNITS = "[[objective]] units"
"""Key of the context of a run with several objectives: their units, in order."""

EXACT = "[objective] exact"
"""Key of the context of a run: the names of the objectives that are exact; absent without any."""

FOLDER = "folder"
"""Key of the context of a run: the folder of its run file, in which ``baco-like rebuild`` runs the commands."""

PEAK = "[objective] peak"
"""Key of the context of a run: the best value that the machine allows."""

CONTENT = "content of "
"""First words of the key of a file's hash in the context of a run; the path follows."""


def hashes_in(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the hashes of sources in the context of a run, by path from the folder of its run file."""
    return {k.removeprefix(CONTENT): str(v) for k, v in context.items() if k.startswith(CONTENT)}


ORGANISING = ("ahead", "candidates", "build_metrics", "workers", "slots", "cache", "large")
"""Keys of an evaluator that do not change measured values: builds, parallel evaluations, cache, size of a file."""

DEVICE_TYPE = "[evaluator] slots: device type"
"""Key of the context of a run with slots."""

_STOPPING = (
    *("timeout", "build_timeout", "memory", "repeats", "first_repeats", "max_repeats"),
    *("relative_error", "slow_ratio"),
)
"""Keys of an evaluator that decide when a measurement ends and how often it is repeated, not which value it has."""

_MACHINE = "machine"

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


@dataclass(frozen=True)
class Options:
    """Options of a run, fixed when its journal is created; only the budget may differ on a resume.

    Attributes:
        aim: Objectives, limits, and the goal of a run with several tasks.
        seed: The run's only seed.
        budget: Total number of evaluations, or None.
        noise: Whether observed configurations may be suggested again.
        strategy: Name and settings of a registered strategy, or the description of an object.
        context: What else the values depend on (unit, evaluator), as JSON values by name; compared on resume.
        seconds: Seconds of all evaluations together if the budget is in time, or None.
    """

    aim: Aim
    seed: Natural
    noise: Noise
    strategy: Mapping[str, Any]
    budget: Count | None = None
    context: Mapping[str, Any] = field(default_factory=dict)
    seconds: Positive | None = None

    def __post_init__(self) -> None:
        check_values(self)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Options:
        """Return the options from JSON values; the units of objectives, and which are exact, come from the context.

        Raises:
            KeyError: A value is missing.
            ValueError: A value is wrong.
        """
        own, context = dict(values), values.get("context", {})
        first = own.pop("objective"), own.pop("direction")
        several = list(own.pop("objectives", {}).items())
        if several and (len(several) == 1 or several[0] != first):
            raise ValueError(
                f"objectives = {several!r:.80}: expected several, the first is {first}"
            )
        pairs, units = several or [first], context.get(UNITS)
        if not isinstance(units, (list, tuple)) or len(units) != len(pairs):
            units = [context.get(UNIT, ""), *[""] * (len(pairs) - 1)]
        exact = context.get(EXACT)
        exact = exact if isinstance(exact, (list, tuple)) else ()
        objectives = [
            Objective(name, str(unit), direction, name in exact)
            for (name, direction), unit in zip(pairs, units, strict=True)
        ]
        limits, goal = own.pop("limits", ()), own.pop("goal", {}) or None
        return cls(Aim(objectives, limits, goal), **own)

    def list_values(self) -> dict[str, Any]:
        """Return the options as JSON values, those that are not set too."""
        own, first = asdict(self), self.aim.first
        return {
            "direction": first.direction,
            "seed": own["seed"],
            "objective": first.name,
            **{name: own[name] for name in ("budget", "noise", "strategy", "context")},
            "limits": own["aim"]["limits"],
            "objectives": {o.name: o.direction for o in self.aim.several},
            "seconds": own["seconds"],
            "goal": {} if self.aim.goal is None else self.aim.goal.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the options as JSON values; without those that are not set."""
        left_out = ("limits", "objectives", "seconds", "goal")
        return {k: v for k, v in self.list_values().items() if v or k not in left_out}


def objective_context(objectives: Sequence[Objective]) -> dict[str, Any]:
    """Return the units of objectives and which ones are exact, as in the context of a run."""
    context: dict[str, Any] = {}
    if any(each.unit for each in objectives):
        context[UNIT] = objectives[0].unit
        if len(objectives) > 1:
            context[UNITS] = [each.unit for each in objectives]
    if exact := [each.name for each in objectives if each.exact]:
        context[EXACT] = exact
    return context


@dataclass(frozen=True)
class Header:
    """The header of a journal.

    Attributes:
        space: The space as `Space.to_dict` returns it.
        options: Options of the run.
        queue: First configurations.
        earlier: Results of warm starts.
        host: The machine, see `describe_host`.
        advice: Configurations that the source ``experience`` proposes.
    """

    space: Mapping[str, Any]
    options: Options
    queue: tuple[Mapping[str, Any], ...] = ()
    earlier: tuple[WarmStartResults, ...] = ()
    host: Mapping[str, Any] = field(default_factory=lambda: describe_host())
    advice: tuple[Advice, ...] = ()

    def event(self, plugins: Mapping[str, str] | None = None) -> Event:
        """Return the ``opened`` event, which also has library versions, machine and time.

        Args:
            plugins: Versions of the packages of plug-ins, by package.
        """
        return {
            "event": "opened",
            "schema": SCHEMA,
            "space": self.space,
            "options": self.options.to_json(),
            "queue": [dict(config) for config in self.queue],
            **({"warm_start": [part.event() for part in self.earlier]} if self.earlier else {}),
            **({"experience": [dict(a._asdict()) for a in self.advice]} if self.advice else {}),
            "versions": {**find_versions(), **(plugins or {})},
            "host": dict(self.host),
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

    @classmethod
    def read(cls, event: Event, path: str) -> Header:
        """Return the header in an ``opened`` event.

        Raises:
            JournalError: It is another event, malformed, or of another schema.
        """
        if event.get("event") != "opened":
            raise JournalError(f"{path}: event 0 is not a header of a baco_like journal", 0)
        schema = event.get("schema")
        if type(schema) is not int or schema != SCHEMA:
            raise JournalError(
                f"{path} was written with schema {schema!r:.40}, this version of baco-like reads {SCHEMA}; read it "
                "with the version that wrote it",
                0,
            )
        try:
            check_event(event)
            options, space = Options.read(event["options"]), event["space"]
            earlier = tuple(map(WarmStartResults.read, event.get("warm_start", ())))
            queue = tuple(map(config_from_json, event["queue"]))
            advice = tuple(
                Advice(config_from_json(row["config"]), row["note"])
                for row in event.get("experience", ())
            )
            return cls(dict(space), options, queue, earlier, dict(event.get("host") or {}), advice)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise JournalError(
                f"{path}: event 0 (line 1) is not a header: {describe_error(error)}", 0
            ) from error

    def check(
        self, space: Space, options: Options, points: Sequence[Any] | None, path: str
    ) -> None:
        """Refuse to resume with another space, other options or other first points; a different budget is accepted.

        Raises:
            JournalError: There are differences; the message lists them.
        """
        differences = describe_differences(self.space, space.to_dict())
        # Compare JSON values: a tuple in the settings or the context is a list in the journal.
        old, new = (
            normalise({"event": "opened", **options.list_values(), "budget": None, "seconds": None})
            for options in (self.options, options)
        )
        # Whether values are exact changes none of them.
        contexts = [
            {k: v for k, v in values.pop("context").items() if k != EXACT} for values in (old, new)
        ]
        changed, remedy = describe_changes(*contexts), ""
        if differences or changed:
            is_other = describe_other_origin(*contexts)
            source = (
                f"[warm_start] file = {os.path.abspath(path)!r}"
                + (", mode = 'prior'" if is_other else "")
                + " in its run file, or warm_start= in Python"
            )
            remedy = (
                "; a new run with these settings can begin with the old results"
                + (", whose values it does not compare with its own" if is_other else "")
                + f": {source if os.path.exists(path) else 'warm_start=Optimizer.load(...) in Python'}"
            )
        differences += [*describe_changes(old, new), *changed]
        queue = list(map(dict, self.queue))
        if points is not None and queue != list(map(dict, points)):
            differences.append(f"the first points were {queue}, now {list(points)}")
        if differences:
            raise JournalError(
                f"{path} belongs to another run: {'; '.join(differences)}; use the same, or another file{remedy}"
            )


def with_machine(context: Mapping[str, Any], host: Mapping[str, Any]) -> dict[str, Any]:
    """Return a context with the processor of a machine, if it is known."""
    cpu = " ".join(str(host[key]) for key in ("machine", "cpu") if key in host)
    return {**context, **({_MACHINE: cpu} if cpu else {})}


def describe_other_origin(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what differs in two contexts, so that values of one are not comparable with values of the other.

    Nothing is known of a run without a context (but for its machine). Its unit decides nothing: values are converted.
    """
    tables = [f"[evaluator] {key}" for key in (*ORGANISING, *_STOPPING)]
    contexts = [
        {k: v for k, v in c.items() if k not in (UNIT, FOLDER, PEAK, *tables)} for c in (old, new)
    ]
    optional = {_MACHINE, COMPILER, DEVICE_TYPE}
    if any(c.keys() <= optional for c in contexts):
        optional |= contexts[0].keys() | contexts[1].keys()
    unknown = (optional & contexts[0].keys()) ^ (optional & contexts[1].keys())
    return describe_changes(
        *(
            {k: v for k, v in normalise({"event": "opened", **c}).items() if k not in unknown}
            for c in contexts
        )
    )


def describe_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return a line for each entry of two contexts that differs."""
    changed = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    return [
        f"{name.removeprefix(CONTENT)} was edited"
        if name.startswith(CONTENT) and name in old and name in new
        else f"{name} was {old.get(name)!r:.300}, now {new.get(name)!r:.300}"
        for name in changed
    ]


def describe(value: Any) -> Any:
    """Return a JSON description of a settings object by its class and fields; it is the same in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: describe(getattr(value, f.name)) for f in fields(value) if f.repr}
        return {"class": type(value).__name__, **parts}
    if isinstance(value, Mapping):
        return {str(k): describe(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return getattr(value, "__qualname__", type(value).__qualname__)


@functools.cache  # 10 ms: the metadata of each package is parsed
def find_versions() -> Mapping[str, str]:
    """Return the versions of Python, this package and the libraries that suggestions depend on."""
    from importlib import metadata  # slow: it imports `email`

    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def describe_host() -> dict[str, Any]:
    """Return name, architecture, system, CPUs and, where they can be read, the CPU model and its clock governor."""
    host: dict[str, Any] = {"name": platform.node(), "machine": platform.machine()}
    host |= {"cpus": os.cpu_count(), "system": platform.platform()}
    with suppress(OSError, UnicodeDecodeError):
        model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        host |= {"cpu": model[1]} if model else {}
    with suppress(OSError, UnicodeDecodeError):
        host["governor"] = _GOVERNOR.read_text().strip()
    return host
