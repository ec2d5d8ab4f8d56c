"""The TOML file of ``baco-like tune``: read and checked as a whole before anything happens.

Its tables are ``[space.NAME]`` (one per parameter), ``[constraints]``, ``[objective]``,
``[evaluator]``, ``[budget]``, ``[optimizer]``, ``[confirmation]`` and ``[warm_start]`` (or ``[[warm_start]]``, one per
source). A key that is not known is an error, never ignored.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from baco_like.evaluators import registry
from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.settings_table import Table, suggestion
from baco_like.exceptions import RunFileError, SpaceError
from baco_like.journal.warm_start_results import MODES, Mode
from baco_like.optimizer.warm_start import WarmStart
from baco_like.parameters.categorical import Categorical
from baco_like.parameters.integer import Integer
from baco_like.parameters.ordinal import Ordinal
from baco_like.parameters.permutation import Permutation
from baco_like.parameters.protocol import Parameter
from baco_like.parameters.real import Real
from baco_like.records.direction import Direction
from baco_like.records.objective import Objective
from baco_like.spaces.space import Space

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TABLES = (
    "space",
    "constraints",
    "objective",
    "evaluator",
    "budget",
    "optimizer",
    "confirmation",
    "warm_start",
)
_LARGEST_FILE = 16 * 2**20


@dataclass(frozen=True)
class RunFile:
    """What a TOML file asks for.

    Attributes:
        path: The file.
        space: What is tuned.
        objective: What is measured.
        evaluator_table: How it is measured; `evaluator` makes the evaluator from it.
        evaluations: At most so many evaluations, or None.
        seconds: At most so many seconds of wall time, or None; at least one of the two limits is
            there.
        strategy: Name of the strategy.
        seed: The run's only seed.
        initial: Size of the first design, or None for the strategy's own.
        settings: The strategy's own settings.
        top: How many of the best configurations are measured again at the end; 0: none.
        rounds: How often at most.
        warm_start: Earlier results that the run begins with.
    """

    path: Path
    space: Space
    objective: Objective
    evaluator_table: Table
    evaluations: int | None = None
    seconds: float | None = None
    strategy: str = "auto"
    seed: int = 0
    initial: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    top: int = 0
    rounds: int = 5
    warm_start: tuple[WarmStart, ...] = ()

    @property
    def folder(self) -> Path:
        """Where the file stands, and where its commands run."""
        return self.path.resolve().parent

    @property
    def context(self) -> dict[str, Any]:
        """What the measured values depend on besides the space, by name: the unit, each key of the evaluator."""
        table = self.evaluator_table
        keys = {f"[{table.name}] {key}": value for key, value in table.entries.items()}
        return {"[objective] unit": self.objective.unit, **keys}

    def context_after(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return `context` for a run that goes on from one with another: what only organises the work may differ."""
        free = [f"[{self.evaluator_table.name}] {key}" for key in registry.ORGANISING]
        kept = {key: before[key] for key in free if key in before}
        return {**{k: v for k, v in self.context.items() if k not in free}, **kept}

    def evaluator(self) -> Evaluator:
        """Return a new evaluator; it has no effect before its first `Evaluator.wait`.

        Raises:
            EvaluatorError: Something that it needs is not on this machine.
        """
        return registry.create(self.evaluator_table, self.space, self.objective.unit, self.folder)


def read(path: str | Path) -> RunFile:
    """Read a file and check everything in it; nothing is written, run or changed.

    Raises:
        RunFileError: The file cannot be read, is no TOML, or has an unknown key or a wrong value.
        SpaceError: The space or its constraints are wrong.
        EvaluatorError: Something that the evaluator needs is not on this machine (a compiler, say).
    """
    place = Path(path)
    top = Table("", _parse(place))
    for key in top.entries:
        if key not in _TABLES:
            raise RunFileError(f"{place}: there is no table [{key}]; {suggestion(key, _TABLES)}")
    if isinstance(top.entries.get("objective"), list):
        raise RunFileError(
            f"{place}: several [[objective]] tables are not supported; write one [objective]"
        )
    space = _space(_needed(top, "space", place), top.table("constraints"))
    evaluations, seconds = _budget(_needed(top, "budget", place))
    run = RunFile(
        path=place,
        space=space,
        objective=_objective(top.table("objective")),
        evaluator_table=_needed(top, "evaluator", place),
        evaluations=evaluations,
        seconds=seconds,
        **_optimizer(top.table("optimizer")),
        **_confirmation(top),
        warm_start=_warm_starts(top.entries.get("warm_start", []), place.resolve().parent),
    )
    _check_direction(run)
    _check_default(space)
    run.evaluator().close()
    return run


def _parse(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise RunFileError(
                f"{path} is larger than {_LARGEST_FILE // 2**20} MiB; is it a TOML file?"
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunFileError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise RunFileError(f"{path}: not a text in UTF-8 (byte {error.start})") from None
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise RunFileError(f"{path}: not a TOML file: {_line(error)}") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _needed(top: Table, key: str, path: Path) -> Table:
    if not top.has(key):
        raise RunFileError(f"{path}: the table [{key}] is missing")
    return top.table(key)


def _objective(table: Table) -> Objective:
    table.only(("name", "unit", "direction", "goal"))
    key = "direction" if table.has("direction") or not table.has("goal") else "goal"
    if table.has("goal"):
        warnings.warn(
            f"{table.at('goal')}: the key is called 'direction' now; 'goal' is read for one more release",
            DeprecationWarning,
            stacklevel=2,
        )
    return Objective(
        name=table.text("name", "value"),
        unit=table.text("unit") if table.has("unit") else "",
        direction=cast(Direction, table.choice(key, ("minimize", "maximize"), "minimize")),
    )


def _budget(table: Table) -> tuple[int | None, float | None]:
    table.only(("evaluations", "seconds"))
    if not table.entries:
        raise RunFileError("[budget] needs 'evaluations', 'seconds' or both")
    evaluations = table.whole("evaluations", low=1) if table.has("evaluations") else None
    return evaluations, table.positive("seconds") if table.has("seconds") else None


def _optimizer(table: Table) -> dict[str, Any]:
    """Return strategy, seed, size of the first design and, as settings, all other keys."""
    common = ("strategy", "seed", "initial")
    return {
        "strategy": table.text("strategy", "auto"),
        "seed": table.whole("seed", 0),
        "initial": table.whole("initial", low=1) if table.has("initial") else None,
        "settings": {key: value for key, value in table.entries.items() if key not in common},
    }


def _confirmation(top: Table) -> dict[str, Any]:
    if not top.has("confirmation"):
        return {}
    table = top.table("confirmation")
    table.only(("top", "rounds"))
    return {"top": table.whole("top", 3, low=1), "rounds": table.whole("rounds", 5, low=1)}


def _check_direction(run: RunFile) -> None:
    """What is clearly slower is known only where less is better."""
    table = run.evaluator_table
    if run.objective.direction == "maximize" and table.has("slow_ratio"):
        raise table.wrong(
            "slow_ratio", table.entries["slow_ratio"], 'direction = "minimize", or not this key'
        )


def _warm_starts(given: Any, folder: Path) -> tuple[WarmStart, ...]:
    """Return the sources of earlier results; a relative path is meant from the file's folder."""
    tables = given if isinstance(given, list) else [given]
    if not all(isinstance(entries, dict) for entries in tables):
        raise RunFileError("warm_start must be a table [warm_start], or several [[warm_start]]")
    return tuple(_warm_start(Table("warm_start", entries), folder) for entries in tables)


def _warm_start(table: Table, folder: Path) -> WarmStart:
    table.only(("file", "mode", "best", "rows", "objective"))
    counts = {
        key: table.whole(key, low=low) for key, low in (("best", 1), ("rows", 3)) if table.has(key)
    }
    return WarmStart(
        folder / table.text("file"),
        cast(Mode, table.choice("mode", MODES, "data")),
        objective=table.text("objective") if table.has("objective") else None,
        **counts,
    )


def _space(table: Table, constraints: Table) -> Space:
    if not table.entries:
        raise RunFileError("[space] has no parameter; write a table [space.NAME] for each")
    constraints.only(("known",))
    parameters = {name: _parameter(table.table(name)) for name in table.entries}
    return Space(parameters, constraints=constraints.texts("known", []))


def _check_default(space: Space) -> None:
    """The default configuration is evaluated first, so it must be feasible."""
    default = space.default_config
    if default is None or space.contains(default):
        return
    raise RunFileError(
        f"[space] the default configuration is not feasible: {'; '.join(space.explain(default))}; "
        "change a default, or leave one out"
    )


def _parameter(table: Table) -> Parameter:
    kind = table.choice("type", _PARAMETERS)
    make, keys = _PARAMETERS[kind]
    table.only(("type", *keys))
    try:
        return make(table)
    except SpaceError as error:
        raise SpaceError(f"[{table.name}] {_line(error)}") from None


def _default(table: Table) -> dict[str, Any]:
    return {"default": table.entries["default"]} if table.has("default") else {}


def _log(table: Table) -> dict[str, Any]:
    return {"log": table.flag("log")} if table.has("log") else {}


def _real(table: Table) -> Parameter:
    return Real(table.number("low"), table.number("high"), **_log(table), **_default(table))


def _integer(table: Table) -> Parameter:
    low, high = table.integer("low"), table.integer("high")
    return Integer(low, high, **_log(table), **_default(table))


def _ordinal(table: Table) -> Parameter:
    return Ordinal(table.array("values"), **_log(table), **_default(table))


def _categorical(table: Table) -> Parameter:
    return Categorical(table.array("values"), **_default(table))


def _permutation(table: Table) -> Parameter:
    entries = _default(table)
    if entries:
        entries["default"] = tuple(table.array("default"))
    metric = {"metric": table.text("metric")} if table.has("metric") else {}
    return Permutation(table.array("elements"), **metric, **entries)


_PARAMETERS: Mapping[str, tuple[Callable[[Table], Parameter], tuple[str, ...]]] = {
    "real": (_real, ("low", "high", "log", "default")),
    "integer": (_integer, ("low", "high", "log", "default")),
    "ordinal": (_ordinal, ("values", "log", "default")),
    "categorical": (_categorical, ("values", "default")),
    "permutation": (_permutation, ("elements", "metric", "default")),
}
