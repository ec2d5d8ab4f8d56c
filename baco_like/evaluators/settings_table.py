"""Read one table of a run file by a list of its keys, and describe the keys for readers and editors.

A `Key` holds the JSON Schema of its values. The reader, the reference page and the JSON Schema of a run file all use
this one description, so they agree.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baco_like._checks import is_whole
from baco_like.exceptions import RunFileError
from baco_like.records.reading import finite_number

if TYPE_CHECKING:  # else every start of a worker imports the spaces
    from baco_like.spaces.space import Space

_BYTES = {"": 1, "b": 1}
_BYTES |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
_BYTES |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}

_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}

Shape = Mapping[str, Any]
"""JSON Schema of a value. The reader knows these keywords: ``type``, ``enum``, ``pattern``, ``minimum``, ``maximum``,
``exclusiveMinimum``, ``exclusiveMaximum``, ``items``, ``minItems``, ``additionalProperties``, ``anyOf`` and ``title``,
which messages and the reference show instead of a generated text."""

ANY: Shape = {}
TEXT: Shape = {"type": "string", "pattern": r"\S"}
FLAG: Shape = {"type": "boolean"}
INTEGER: Shape = {"type": "integer"}
NUMBER: Shape = {"type": "number"}
POSITIVE: Shape = {"type": "number", "exclusiveMinimum": 0}
SHARE: Shape = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
ARRAY: Shape = {"type": "array"}
TEXTS: Shape = {"type": "array", "items": {"type": "string"}}
TABLE: Shape = {"type": "object"}
_SIZE_PATTERN = r"^\s*\d{1,15}(\.\d{1,9})?\s*(([kKmMgGtT][iI]?)?[bB])?\s*$"
SIZE: Shape = {
    "title": 'a size such as "512MiB" or "2GiB"',
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE_PATTERN}],
}


def whole(low: int, high: int | None = None) -> Shape:
    """Return the shape of a whole number that is at least ``low``, and at most ``high``."""
    return {"type": "integer", "minimum": low, **({} if high is None else {"maximum": high})}


def choice(options: Iterable[str]) -> Shape:
    """Return the shape of one of several words."""
    return {"enum": list(options)}


@dataclass(frozen=True)
class Key:
    """A key of a TOML table.

    Attributes:
        name: The key.
        shape: Its values.
        meaning: One plain sentence or less, in Markdown, for the reference and for editors.
        default: The value if it is absent.
        required: Whether it must be there.
        absent: In the reference, what an absent key means, if `default` does not say it.
    """

    name: str
    shape: Shape
    meaning: str
    default: Any = None
    required: bool = False
    absent: str = ""


KIND = Key("kind", TEXT, "what runs the configurations")
"""The key that every table of an evaluator has."""


@dataclass(frozen=True)
class Table:
    """A table of a run file.

    Attributes:
        name: As written in the file, without brackets: ``evaluator``, ``space.tile``.
        entries: Its keys and values.
    """

    name: str
    entries: Mapping[str, Any]

    def has(self, key: str) -> bool:
        """Whether the file gives this key."""
        return key in self.entries

    def only(self, keys: Iterable[str]) -> None:
        """Raise `RunFileError` if the table has a key that is not in ``keys``."""
        known = list(keys)
        for key in self.entries:
            if key not in known:
                raise RunFileError(f"[{self.name}] has no key {key!r}; {suggestion(key, known)}")

    def read(self, keys: Iterable[Key]) -> dict[str, Any]:
        """Return the value or the default of each key; the table may have no other keys.

        Raises:
            RunFileError: A key is unknown, missing or has a wrong value.
        """
        keys = list(keys)
        self.only(key.name for key in keys)
        return self.values(keys)

    def values(self, keys: Iterable[Key]) -> dict[str, Any]:
        """Return the value or the default of each key; other keys are ignored.

        Raises:
            RunFileError: A key is missing or has a wrong value.
        """
        return {key.name: self.value(key) for key in keys}

    def value(self, key: Key) -> Any:
        """Return the value of a key, or its default; a number is a float unless it must be whole.

        Raises:
            RunFileError: It is missing or wrong.
        """
        value = self.entries.get(key.name)
        if value is None:
            if key.required:
                raise RunFileError(f"[{self.name}] needs the key {key.name!r}")
            return key.default
        if fits(value, key.shape):
            return float(value) if key.shape.get("type") == "number" else value
        if set(key.shape) == {"enum"}:
            hint = suggestion(value, key.shape["enum"])
            raise RunFileError(f"{self.label(key.name)} = {shown(value)}; {hint}")
        raise self.error(key.name, value, describe(key.shape))

    def text(self, key: str) -> str:
        """Return a text that is not empty; the key is required."""
        return str(self.value(Key(key, TEXT, "", required=True)))

    def bytes(self, key: Key) -> int | None:
        """Return a number of bytes, written as `memory_size` describes, or None if the key is absent."""
        value = self.value(key)
        size = None if value is None else memory_size(value)
        if size is None and value is not None:
            raise self.error(key.name, value, describe(SIZE))
        return size

    def table(self, key: str) -> Table:
        """Return a table within this one; an empty table if the key is absent."""
        value = self.entries.get(key, {})
        if not isinstance(value, dict):
            raise self.error(key, value, "a table")
        return Table(f"{self.name}.{key}" if self.name else key, value)

    def error(self, key: str, value: Any, expected: str) -> RunFileError:
        """Return the error for a wrong value, for the caller to raise."""
        return RunFileError(f"{self.label(key)} = {shown(value)}: expected {expected}")

    def label(self, key: str) -> str:
        """Return the key with its table, for messages: ``[evaluator] size``."""
        return f"[{self.name}] {key}" if self.name else key


@dataclass(frozen=True)
class RunArguments:
    """The arguments that a run passes to its evaluator, in addition to the ``[evaluator]`` table.

    Attributes:
        space: The space.
        unit: The objective's unit.
        folder: Folder of the run file.
        environment: Environment variables of the processes that measure, of a device slot; None without slots.
    """

    space: Space
    unit: str
    folder: Path
    environment: Mapping[str, str] | None = None


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_whole,
    "number": lambda value: isinstance(value, int | float) and finite_number(value) is not None,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}
"""JSON Schema's types; unlike there, ``8.0`` is not an integer and infinity is not a number."""


def fits(value: Any, shape: Shape) -> bool:
    """Whether a value has a shape."""
    if "anyOf" in shape:
        return any(fits(value, one) for one in shape["anyOf"])
    if "enum" in shape:
        return isinstance(value, str) and value in shape["enum"]
    kind = shape.get("type")
    if kind is not None and not _TYPES[kind](value):
        return False
    if kind in ("integer", "number"):
        return (
            shape.get("minimum", value) <= value <= shape.get("maximum", value)
            and ("exclusiveMinimum" not in shape or value > shape["exclusiveMinimum"])
            and ("exclusiveMaximum" not in shape or value < shape["exclusiveMaximum"])
        )
    if kind == "string":
        return re.search(shape.get("pattern", ""), value) is not None
    if kind == "array":
        items = shape.get("items", ANY)
        return len(value) >= shape.get("minItems", 0) and all(fits(item, items) for item in value)
    inner = shape.get("additionalProperties") or ANY  # unknown keys are for `Table.only`
    return kind != "object" or all(fits(item, inner) for item in value.values())


def describe(shape: Shape) -> str:
    """Return in words which values have a shape: ``a whole number, 1 or more``."""
    if "title" in shape:
        return str(shape["title"])
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(map(describe, shape["anyOf"])))
    if "enum" in shape:
        return " or ".join(f'"{word}"' for word in shape["enum"])
    words = {
        "array": "an array"
        + (" of texts" if shape.get("items", ANY).get("type") == "string" else ""),
        "boolean": "true or false",
        "integer": "a whole number",
        "number": "a number" if len(shape) > 1 else "a finite number",
        "object": "a table",
        "string": "a text",
        None: "any value",
    }[shape.get("type")]
    if "minimum" in shape:
        words += f", {shape['minimum']} " + (
            f"to {most}" if (most := shape.get("maximum")) else "or more"
        )
    if "exclusiveMinimum" in shape:
        words += f" above {shape['exclusiveMinimum']}"
    if "exclusiveMaximum" in shape:
        joint = " and" if "exclusiveMinimum" in shape else ","
        words += f"{joint} below {shape['exclusiveMaximum']}"
    return words


def table_shape(keys: Iterable[Key]) -> dict[str, Any]:
    """Return the JSON Schema of a table with these keys and no others."""
    keys = list(keys)
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    schema["properties"] = {key.name: key_shape(key) for key in keys}
    if required := [key.name for key in keys if key.required]:
        schema["required"] = required
    return schema


def key_shape(key: Key) -> dict[str, Any]:
    """Return the JSON Schema of a key's values with its meaning and its default, for editors."""
    schema = dict(key.shape)
    if key.meaning:
        schema["description"] = key.meaning
    if key.default is not None:
        schema["default"] = key.default
    return schema


_BY_ANNOTATION: Mapping[str, Shape] = {
    "Any": ANY,
    "bool": FLAG,
    "float": NUMBER,
    "int": INTEGER,
    "str": TEXT,
    "Iterable": ARRAY,
    "Sequence": ARRAY,
}


def keys_of(make: Callable[..., Any], shapes: Mapping[str, Shape]) -> tuple[Key, ...]:
    """Return the keys whose names are arguments of a function or class.

    Defaults are its defaults, and meanings are what its docstring says in ``Args:`` or ``Attributes:``.

    Args:
        make: The function or class.
        shapes: The shapes by name; these keys are returned, in this order.
    """
    arguments, meanings = inspect.signature(make).parameters, _meanings(make)
    return tuple(
        Key(
            name,
            shape,
            meanings.get(name, ""),
            default=None
            if (default := arguments[name].default) is inspect.Parameter.empty
            else default,
            required=default is inspect.Parameter.empty,
        )
        for name, shape in shapes.items()
    )


def shapes_of(make: Callable[..., Any]) -> dict[str, Shape]:
    """Return the shapes of all arguments as far as their annotations say them: ``int | None`` is an integer."""
    shapes = {}
    for name, argument in inspect.signature(make).parameters.items():
        text = str(getattr(argument.annotation, "__name__", argument.annotation))
        words = [word.partition("[")[0].strip() for word in text.split("|")]
        known = [_BY_ANNOTATION.get(word, ANY) for word in words if word != "None"]
        shapes[name] = known[0] if len(known) == 1 else ANY if ANY in known else {"anyOf": known}
    return shapes


def _meanings(make: Callable[..., Any]) -> dict[str, str]:
    """Return the texts in ``Args:`` or ``Attributes:`` of a docstring, with those of base classes, as Markdown."""
    meanings: dict[str, str] = {}
    for part in reversed(make.__mro__ if isinstance(make, type) else (make,)):
        text = inspect.cleandoc(part.__doc__ or "")
        for block in re.findall(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)+)", text, re.MULTILINE):
            for name, meaning in re.findall(r"^ {4}(\w+): (.*(?:\n {5,}.*)*)", block, re.MULTILINE):
                plain = re.sub(r"`+([^`]+)`+", r"`\1`", " ".join(meaning.split()))
                meanings[name] = plain.rstrip(".")
    return meanings


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return a hint for an unknown word: the closest known word, otherwise all of them."""
    names = list(known)
    lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(str(word)[:100].lower(), lower, n=1)
    return f"did you mean {lower[close[0]]!r}?" if close else f"one of {', '.join(names)}"


def shown(value: Any) -> str:
    """Return a value in one line of at most 80 characters, for messages."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


def memory_size(value: Any) -> int | None:
    """Return a size in bytes, or None if ``value`` is not a size.

    A size is a positive integer (bytes), or a text of a number and a unit: B, kB, MB, GB, TB (powers of 1000), KiB,
    MiB, GiB, TiB (powers of 1024), in upper or lower case.
    """
    if is_whole(value):
        return int(value) if value > 0 else None
    match = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([A-Za-z]{0,3})\s*", str(value))
    if match is None or match[2].lower() not in _BYTES:
        return None
    return int(float(match[1]) * _BYTES[match[2].lower()]) or None


def per_second(unit: str) -> float | None:
    """Return how many of a unit of time make a second, or None for any other unit."""
    return _PER_SECOND.get(unit)


def time_scale(table: Table, unit: str) -> float:
    """Return how many of the objective's unit make a second.

    Raises:
        RunFileError: The unit is not one of time; the message names the table's ``kind``.
    """
    scale = per_second(unit)
    if scale is None:
        raise RunFileError(
            f"[{table.name}] kind {table.text('kind')!r} measures time, not {unit!r}; "
            'write unit = "ms" (s, ms, us or ns) into [objective]'
        )
    return scale
