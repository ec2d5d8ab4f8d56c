"""Write a shipped table as JSON, and read it again; the format has a JSON schema."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from baco_like.exceptions import RunFileError, SpaceError
from baco_like.records.task_selector import Leaf, Split
from baco_like.results.files import read_text
from baco_like.shipping.stamp import Stamp, convert, parse_json
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

Scalar: TypeAlias = str | int | float | bool
Values: TypeAlias = dict[str, Scalar | tuple[Any, ...] | None]


class _Entry(Struct, forbid_unknown_fields=True, kw_only=True):
    task: dict[str, Scalar]
    config: Values
    evidence: Evidence
    constraints: tuple[str, ...] = ()
    group: Annotated[int, Meta(ge=0)] = 0


class _Node(Struct, forbid_unknown_fields=True, kw_only=True):
    """A leaf, which has an order, or a split, which has the other fields."""

    order: tuple[Annotated[int, Meta(ge=0)], ...] | None = None
    descriptor: str = ""
    value: Scalar = ""
    yes: _Node | None = None
    no: _Node | None = None

    def to_rule(self) -> Leaf | Split:
        if self.order is not None:
            return Leaf(self.order)
        if self.yes is None or self.no is None:
            raise RunFileError("a node of the tree has neither an order nor two branches")
        return Split(self.descriptor, self.value, self.yes.to_rule(), self.no.to_rule())


class _Table(Struct, forbid_unknown_fields=True, kw_only=True):
    format: Literal[1]
    stamp: Stamp
    rule: str
    constraints: tuple[str, ...]
    entries: Annotated[tuple[_Entry, ...], Meta(min_length=1)]
    default: Values | None
    space: dict[str, Any]
    conditions: dict[str, str] = {}
    tree: _Node | None = None


def table_schema() -> dict[str, Any]:
    """Return the JSON schema of the format."""
    title = "A table of tuned configurations, written by baco-like"
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        **msgspec.json.schema(_Table),
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
        document["tree"] = asdict(table.rule)
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
        return _table_of(convert(document, _Table))
    except RunFileError as error:
        raise RunFileError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunFileError(f"{path}: a damaged table ({type(error).__name__}: {error})") from None


def _table_of(read: _Table) -> ShippedTable:
    try:
        space = Space.from_dict(read.space)
    except SpaceError:  # constraints in Python are not in the file
        space = Space.from_dict({**read.space, "constraints": []})
    entries = (ShippedEntry(e.task, _config(e.config, space), e.evidence) for e in read.entries)
    known = [constraint.text for constraint in space.given_constraints]
    return ShippedTable(
        tuple(entries),
        None if read.default is None else _config(read.default, space),
        space,
        read.stamp,
        tuple(text for text in read.constraints if text not in known),
        None if read.tree is None else read.tree.to_rule(),
        () if read.tree is None else tuple(entry.group for entry in read.entries),
    )


def _config(values: Values, space: Space) -> dict[str, Any]:
    """Return a configuration with the values of its parameters; other programs write 2.0 for 2."""
    parameters = space.parameters
    for name, value in values.items():
        if not parameters[name].contains(value):
            raise RunFileError(f"{name} = {value!r:.80} is not a value of its parameter")
    return {k: parameters[k].decode(parameters[k].encode([v]))[0] for k, v in values.items()}
