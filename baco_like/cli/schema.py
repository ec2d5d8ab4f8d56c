"""``baco-like schema``: print the JSON Schema of a run file, or its reference, from the keys that the reader uses."""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from baco_like._output import print_line
from baco_like._plugins import Registry
from baco_like.cli import run_file_keys as keys
from baco_like.cli.run_file_reference import PAGE, kind_text
from baco_like.evaluators import registry
from baco_like.evaluators.command.flags import FLAGS_KEYS
from baco_like.evaluators.command.passes import PASSES_KEYS
from baco_like.evaluators.settings_table import Key, describe, key_shape, table_shape
from baco_like.exceptions import PluginError
from baco_like.parameters.registry import BUILT_IN_TYPES
from baco_like.shipping import table_schema
from baco_like.strategies.registry import REGISTRY, STRATEGIES


def schema(args: argparse.Namespace) -> None:
    """Print the JSON Schema of a run file or a shipped table, or the reference of run files in Markdown."""
    shape = table_schema() if args.table else json_schema()
    text = reference() if args.reference else json.dumps(shape, indent=2)
    print_line(text.rstrip("\n"))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 7) of a run file, with all registered parameter types and strategies."""
    parameter = _by_choice(
        Key("type", {}, "type of the parameter", required=True),
        {name: keys.parameter_keys(name) for name in BUILT_IN_TYPES},
    )
    evaluator = _by_choice(
        Key("kind", {}, "what runs the configurations", required=True),
        _keys_of_all(registry.REGISTRY, registry.kind_keys),
        registry.COMMON_KEYS,
    )
    strategy, *other = keys.OPTIMIZER
    settings = _keys_of_all(REGISTRY, keys.strategy_keys)
    warm_start, objective = table_shape(keys.WARM_START), table_shape(keys.OBJECTIVE)
    limits = [{"required": [name]} for name in ("evaluations", "seconds")]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Run file of baco-like tune",
        "type": "object",
        "properties": {
            "space": {"type": "object", "additionalProperties": parameter},
            "flags": table_shape(FLAGS_KEYS),
            "passes": table_shape(PASSES_KEYS),
            "constraints": table_shape(keys.CONSTRAINTS),
            "objective": {"anyOf": [objective, {"type": "array", "items": objective}]},
            "evaluator": evaluator,
            "budget": {**table_shape(keys.BUDGET), "anyOf": limits},
            "optimizer": _by_choice(strategy, settings, other),
            "confirmation": table_shape(keys.CONFIRMATION),
            "drift": table_shape(keys.DRIFT),
            "fidelity": keys.FIDELITY,
            "tasks": table_shape(keys.TASKS),
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
    """Return the reference of the run file in Markdown."""
    shared = _shared_keys()
    kinds = [_describe_kind(name, own, shared) for name, own in registry.KEYS.items()]
    types = [f"### `{name}`\n\n{_markdown(keys.parameter_keys(name))}" for name in BUILT_IN_TYPES]
    strategies = ["| strategy | settings with their defaults |", "|---|---|"]
    for name in STRATEGIES:
        settings = ", ".join(
            f"`{key.name}`" + ("" if key.default is None else f" = `{_toml(key.default)}`")
            for key in keys.strategy_keys(name)
        )
        strategies.append(f"| `{name}` | {settings} |")
    objective = [key for key in keys.OBJECTIVE if key.name != "goal"]
    tables = {
        "PARAMETERS": "\n\n".join(types),
        "FLAGS": _markdown(FLAGS_KEYS),
        "PASSES": _markdown(PASSES_KEYS),
        "CONSTRAINTS": _markdown(keys.CONSTRAINTS),
        "OBJECTIVE": _markdown(objective),
        "COMMON": _markdown(registry.COMMON_KEYS),
        "SHARED": _markdown(shared.values()),
        "KINDS": "\n\n".join(kinds),
        "BUDGET": _markdown(keys.BUDGET),
        "OPTIMIZER": _markdown(keys.OPTIMIZER),
        "STRATEGIES": "\n".join(strategies),
        "CONFIRMATION": _markdown(keys.CONFIRMATION),
        "DRIFT": _markdown(keys.DRIFT),
        "TASKS": _markdown(keys.TASKS),
        "WARM_START": _markdown(keys.WARM_START),
    }
    page = PAGE
    for name, table in tables.items():
        page = page.replace(f"<{name}>", table)
    return page


def _identity(key: Key) -> str:
    return repr((key.name, key.shape, key.meaning))


def _shared_keys() -> dict[str, Key]:
    """Return the keys that several kinds have with the same values and meaning, with the most frequent default."""
    found: dict[str, list[Key]] = {}
    for key in itertools.chain.from_iterable(registry.KEYS.values()):
        found.setdefault(_identity(key), []).append(key)
    return {name: max(same, key=same.count) for name, same in found.items() if len(same) > 1}


def _describe_kind(name: str, own: Iterable[Key], shared: Mapping[str, Key]) -> str:
    """Return the section of a kind: its own keys, and the names of the others, with defaults that differ."""
    others = [
        f"`{key.name}`" if key == shared[_identity(key)] else f"`{key.name}` ({_default(key)})"
        for key in own
        if _identity(key) in shared
    ]
    table = _markdown(key for key in own if _identity(key) not in shared)
    return f"### `{name}`\n\n{kind_text(name)}\n\n{table}\n\nAlso: {', '.join(others)}."


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
