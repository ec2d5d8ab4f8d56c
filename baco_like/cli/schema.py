"""``baco-like schema``: print the JSON Schema of a run file, or its reference, by the definitions of its tables."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from baco_like._output import print_line
from baco_like._plugins import Registry
from baco_like._tables import ANY, Key, describe, key_shape, keys_of, table_shape
from baco_like.cli import arguments
from baco_like.evaluators import Flags, Passes, registry
from baco_like.exceptions import PluginError
from baco_like.parameters.registry import BUILT_IN_TYPES
from baco_like.running import run_file, run_tables
from baco_like.running.confirming import Confirm
from baco_like.running.measuring import Recheck
from baco_like.service import messages
from baco_like.shipping.json_table import table_schema
from baco_like.strategies.registry import REGISTRY, STRATEGIES

_DEFINITIONS: Mapping[str, Callable[..., Any]] = {
    "flags": Flags,
    "passes": Passes,
    "constraints": run_tables.Constraints,
    "budget": run_tables.Budget,
    "confirmation": Confirm,
    "drift": Recheck,
    "tasks": run_tables.TasksTable,
}
"""The tables that have the same keys in every run file."""


def schema(args: arguments.Schema) -> None:
    """Print the JSON Schema of a run file, a shipped table or messages, or the reference of run files in Markdown."""
    if args.reference:
        print_line(reference().rstrip("\n"))
        return
    make = table_schema if args.table else messages.schema if args.messages else json_schema
    print_line(json.dumps(make(), indent=2))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 7) of a run file, with all registered parameter types and strategies."""
    tables = {name: table_shape(keys_of(make)) for name, make in _DEFINITIONS.items()}
    parameter = _by_choice(
        Key("type", ANY, "Type of the parameter", required=True),
        {name: run_tables.parameter_keys(name) for name in BUILT_IN_TYPES},
    )
    evaluator = _by_choice(
        Key("kind", ANY, "What runs the configurations", required=True),
        _keys_of_all(registry.REGISTRY, registry.kind_keys),
        keys_of(registry.Common),
    )
    strategy, *other = keys_of(run_tables.OptimizerTable)
    settings = _keys_of_all(REGISTRY, run_tables.strategy_keys)
    warm_start, objective = table_shape(run_file.WARM_START), table_shape(run_tables.OBJECTIVE)
    limits = [{"required": [name]} for name in ("evaluations", "seconds")]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Run file of baco-like tune",
        "type": "object",
        "properties": {
            "space": {"type": "object", "additionalProperties": parameter},
            **tables,
            "objective": {"anyOf": [objective, {"type": "array", "items": objective}]},
            "evaluator": evaluator,
            "budget": {**tables["budget"], "anyOf": limits},
            "optimizer": _by_choice(strategy, settings, other),
            "fidelity": run_tables.FIDELITY,
            "warm_start": {"anyOf": [warm_start, {"type": "array", "items": warm_start}]},
        },
        "additionalProperties": False,
        "required": ["evaluator", "budget"],
        "anyOf": [{"required": [table]} for table in ("space", "flags", "passes")],
    }


def _keys_of_all(
    parts: Registry[Any], read_keys: Callable[[str], Sequence[Key]]
) -> dict[str, Sequence[Key]]:
    """Return the keys of our own parts and of the plug-ins that can be imported, by name."""
    every: dict[str, Sequence[Key]] = {}
    for name in parts.names:
        with suppress(PluginError):
            every[name] = read_keys(name)
    return every


def _by_choice(
    selector: Key, keys_by_word: Mapping[str, Sequence[Key]], common: Iterable[Key] = ()
) -> dict[str, Any]:
    """Return the schema of a table in which the value of one key decides which other keys there are.

    Editors complete keys from ``properties``, which therefore lists those of all words.
    """
    shape = {**key_shape(selector), "enum": list(keys_by_word)}
    shape.pop("type", None), shape.pop("pattern", None)
    every: dict[str, Any] = {selector.name: shape}
    for key in (*common, *(key for own in keys_by_word.values() for key in own)):
        every.setdefault(key.name, {"description": key.meaning} if key.meaning else {})
    branches = []
    for word, own in keys_by_word.items():
        schema = table_shape((*common, *own))
        names = [selector.name, *schema["properties"]]
        then = {
            "properties": schema["properties"],
            "required": schema.get("required", []),
            "propertyNames": {"enum": names},
        }
        is_word: dict[str, Any] = {"properties": {selector.name: {"const": word}}}
        if selector.default != word:
            is_word["required"] = [selector.name]
        branches.append({"if": is_word, "then": then})
    required = {"required": [selector.name]} if selector.required else {}
    return {"type": "object", "properties": every, **required, "allOf": branches}


def reference() -> str:
    """Return the reference of the run file in Markdown: the text of ``run_file.md`` with the tables of keys."""
    strategies = ["| strategy | settings with their defaults |", "|---|---|"]
    for name in STRATEGIES:
        settings = ", ".join(
            f"`{key.name}`" + ("" if key.default is None else f" = `{_toml(key.default)}`")
            for key in run_tables.strategy_keys(name)
        )
        strategies.append(f"| `{name}` | {settings} |")
    rows: dict[str, Sequence[Key]] = {
        **{name: keys_of(make) for name, make in _DEFINITIONS.items()},
        **{f"space.{name}": run_tables.parameter_keys(name) for name in BUILT_IN_TYPES},
        "objective": run_tables.OBJECTIVE,
        "evaluator": keys_of(registry.Common),
        "optimizer": keys_of(run_tables.OptimizerTable),
        "warm_start": run_file.WARM_START,
    }
    kinds = {kind: registry.kind_keys(kind) for kind in registry.KINDS}
    rows["evaluator.shared"] = list((shared := _shared_keys(kinds.values())).values())
    tables = {name: _markdown(keys) for name, keys in rows.items()}
    tables |= {f"evaluator.{kind}": _describe_kind(own, shared) for kind, own in kinds.items()}
    tables["strategies"] = "\n".join(strategies)
    page = Path(__file__).with_name("run_file.md").read_text(encoding="utf-8")
    page = re.sub(r"^<([a-z_.]+)>$", lambda found: tables.pop(found[1]), page, flags=re.MULTILINE)
    assert not tables, f"run_file.md has no place for {', '.join(tables)}"
    return page


def _identity(key: Key) -> str:
    return repr((key.name, key.shape, key.meaning))


def _shared_keys(kinds: Iterable[Sequence[Key]]) -> dict[str, Key]:
    """Return the keys that several kinds have with the same values and meaning, with the most frequent default."""
    found: dict[str, list[Key]] = {}
    for key in itertools.chain.from_iterable(kinds):
        found.setdefault(_identity(key), []).append(key)
    return {name: max(same, key=same.count) for name, same in found.items() if len(same) > 1}


def _describe_kind(own: Sequence[Key], shared: Mapping[str, Key]) -> str:
    """Return a kind's own keys, and the names of the others, with defaults that differ."""
    others = [
        f"`{key.name}`" if key == shared[_identity(key)] else f"`{key.name}` ({_default(key)})"
        for key in own
        if _identity(key) in shared
    ]
    table = _markdown(key for key in own if _identity(key) not in shared)
    return f"{table}\n\nAlso: {', '.join(others)}."


def _default(key: Key) -> str:
    default = "none" if key.default is None else f"`{_toml(key.default)}`"
    return "required" if key.required else key.absent or default


def _markdown(rows: Iterable[Key]) -> str:
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key in rows:
        cells = (f"`{key.name}`", describe(key.shape), _default(key), key.meaning)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _toml(value: Any) -> str:
    return json.dumps(value).replace("{}", "{ }")
