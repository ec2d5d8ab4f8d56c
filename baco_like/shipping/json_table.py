"""Write a shipped table as JSON, and read it again; the format has a JSON schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from baco_like.exceptions import RunFileError, SpaceError
from baco_like.parameters.values import as_tuple
from baco_like.records.selector import Leaf, Rule, Split
from baco_like.results.files import read_text
from baco_like.shipping.stamp import Stamp, parse_json
from baco_like.shipping.table import Evidence, ShippedEntry, ShippedTable, own_constraints
from baco_like.spaces import Space

VERSION = 1
"""Version of the format."""

_RULE = (
    "The entry with the nearest sizes among those whose other descriptors are equal and whose configuration satisfies "
    "the constraints and those of the nearest entry; the distance is the product of the ratios of the larger to the "
    "smaller size. Otherwise the default. A configuration that lacks a parameter of 'conditions' may be used only "
    "where that condition is false. With a 'tree', the entry of exactly the task comes first, then the entries whose "
    "group comes first in the leaf's 'order', and the distance decides within a group; a split compares a number by <= "
    "and other values by ==."
)

_SCALAR = {"type": ["string", "number", "boolean"]}
_CONFIG = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}],
    },
}
_NUMBER_OR_NULL = {"type": ["number", "null"]}


def table_schema() -> dict[str, Any]:
    """Return the JSON schema (draft 7) of the format."""
    task = {"type": "object", "additionalProperties": _SCALAR}
    evidence = {
        "type": "object",
        "required": ["value", "measurements"],
        "properties": {
            "value": {"type": "number"},
            "measurements": {"type": "integer", "minimum": 0},
            "default_value": _NUMBER_OR_NULL,
            "speedup": _NUMBER_OR_NULL,
            "low": _NUMBER_OR_NULL,
            "high": _NUMBER_OR_NULL,
            "confidence": _NUMBER_OR_NULL,
            "candidates": {"type": "integer", "minimum": 1},
            "ratios": {"type": "array", "items": {"type": "number", "exclusiveMinimum": 0}},
            "evaluations": {"type": "integer", "minimum": 0},
        },
    }
    stamp = {
        "type": "object",
        "required": ["space", "objective", "direction", "date"],
        "properties": {
            "space": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
            "objective": {"type": "string"},
            "unit": {"type": "string"},
            "direction": {"enum": ["minimize", "maximize"]},
            "device": {"type": ["string", "null"]},
            "compiler": {"type": ["string", "null"]},
            "host": {"type": "object"},
            "versions": {"type": "object"},
            "date": {"type": "string"},
            "evidence": {"type": "array", "items": {"type": "object"}},
        },
    }
    entry = {
        "type": "object",
        "required": ["task", "config", "evidence"],
        "additionalProperties": False,
        "properties": {
            "task": task,
            "config": _CONFIG,
            "evidence": evidence,
            "constraints": {"type": "array", "items": {"type": "string"}},
            "group": {"type": "integer", "minimum": 0},
        },
    }
    node = {"$ref": "#/definitions/node"}
    split = {
        "type": "object",
        "required": ["descriptor", "value", "yes", "no"],
        "additionalProperties": False,
        "properties": {
            "descriptor": {"type": "string"},
            "value": _SCALAR,
            "yes": node,
            "no": node,
        },
    }
    leaf = {
        "type": "object",
        "required": ["order"],
        "additionalProperties": False,
        "properties": {"order": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A table of tuned configurations, written by baco-like",
        "type": "object",
        "required": ["format", "stamp", "rule", "constraints", "entries", "default", "space"],
        "additionalProperties": False,
        "properties": {
            "format": {"const": VERSION},
            "stamp": stamp,
            "rule": {"type": "string"},
            "constraints": {"type": "array", "items": {"type": "string"}},
            "entries": {"type": "array", "minItems": 1, "items": entry},
            "default": {"anyOf": [_CONFIG, {"type": "null"}]},
            "space": {"type": "object"},
            "conditions": {"type": "object", "additionalProperties": {"type": "string"}},
            "tree": node,
        },
        "definitions": {"node": {"anyOf": [leaf, split]}},
    }


def table_bytes(table: ShippedTable, name: str = "tuned", **_: Any) -> bytes:
    """Return the table as JSON in ASCII."""
    document: dict[str, Any] = {
        "format": VERSION,
        "stamp": table.stamp.to_dict(),
        "rule": _RULE,
        "constraints": [condition.text for condition in table.conditions],
        "entries": [
            {
                "task": dict(entry.task),
                "config": dict(entry.config),
                "evidence": entry.evidence.to_dict(),
                "constraints": list(own_constraints(table.space, entry.task)),
            }
            for entry in table.entries
        ],
        "conditions": {name: each.text for name, each in table.presence.items()},
        "default": None if table.default is None else dict(table.default),
        "space": table.space.to_dict(),
    }
    if table.rule is not None:
        document["tree"] = _tree_to_json(table.rule)
        for row, group in zip(document["entries"], table.groups, strict=True):
            row["group"] = group
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode("ascii")


def read_table(path: Path | str) -> ShippedTable:
    """Return the table in a JSON file.

    Raises:
        RunFileError: The file cannot be read, has another format, or contradicts its own space.
    """
    path = Path(path)
    document = parse_json(read_text(path), str(path))
    if not isinstance(document, dict) or document.get("format") != VERSION:
        raise RunFileError(
            f"{path} is no table of baco-like with the format {VERSION}; write one by: baco-like ship --format json"
        )
    try:
        return _table_of(document)
    except RunFileError as error:
        raise RunFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise RunFileError(f"{path}: a damaged table ({type(error).__name__}: {error})") from None


def _table_of(document: dict[str, Any]) -> ShippedTable:
    described = document["space"]
    try:
        space = Space.from_dict(described)
    except SpaceError:  # constraints in Python are not in the file
        space = Space.from_dict({**described, "constraints": []})
    entries = tuple(
        ShippedEntry(
            dict(row["task"]), _config(row["config"], space), Evidence.from_dict(row["evidence"])
        )
        for row in document["entries"]
    )
    default = document["default"]
    known = [constraint.text for constraint in space.given_constraints]
    extra = tuple(text for text in document["constraints"] if text not in known)
    return ShippedTable(
        entries,
        None if default is None else _config(default, space),
        space,
        Stamp.from_dict(document["stamp"]),
        extra,
        _tree_from_json(document["tree"]) if "tree" in document else None,
        tuple(row["group"] for row in document["entries"]) if "tree" in document else (),
    )


def _tree_to_json(rule: Rule) -> dict[str, Any]:
    if isinstance(rule, Split):
        yes, no = _tree_to_json(rule.yes), _tree_to_json(rule.no)
        return {"descriptor": rule.descriptor, "value": rule.value, "yes": yes, "no": no}
    assert isinstance(rule, Leaf)
    return {"order": list(rule.order)}


def _tree_from_json(data: Any) -> Leaf | Split:
    if "order" in data:
        return Leaf(tuple(data["order"]))
    yes, no = _tree_from_json(data["yes"]), _tree_from_json(data["no"])
    return Split(data["descriptor"], data["value"], yes, no)


def _config(values: Any, space: Space) -> dict[str, Any]:
    """Return a configuration with the values of its parameters; JSON has lists for permutations."""
    if not isinstance(values, dict):
        raise RunFileError(f"the configuration {values!r:.80} is no object")
    config = {name: as_tuple(value) for name, value in values.items()}
    wrong = [name for name, value in config.items() if not space.parameters[name].contains(value)]
    if wrong:
        raise RunFileError(f"{wrong[0]} = {config[wrong[0]]!r:.80} is not a value of its parameter")
    # Other programs write 2.0 for 2.
    parameters = space.parameters
    return {k: parameters[k].decode(parameters[k].encode([v]))[0] for k, v in config.items()}
