"""Tables of a run file: a class, or a function, is the one definition of each.

Its arguments are the keys of the table, their annotations the allowed values, their defaults the defaults, and its
docstring has the meanings. The reader, the reference page and the JSON Schema of a run file use this definition, and
users of Python construct the same class.

An annotation is a plain type, one of the types below, or ``Annotated`` with the JSON Schema of the values and, where
the table has another type than the argument, a function that converts. A docstring says after ``None:``, at the end of
a meaning, what an absent key means.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, InitVar, dataclass, fields, is_dataclass, replace
from functools import cache
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from typing_extensions import override

from baco_like._checks import is_whole, plain
from baco_like._docstrings import meanings_of
from baco_like.exceptions import BacoError, RunFileError

T = TypeVar("T")

_BYTES = {"": 1, "b": 1}
_BYTES |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)}
_BYTES |= {f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)}

_PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "µs": 1e6, "ns": 1e9}


class Shape(dict[str, Any]):
    """JSON Schema of a value, with a hash, so that it can be a part of an annotation.

    The reader knows these keywords: ``type``, ``enum``, ``pattern``, ``minimum``, ``maximum``, ``exclusiveMinimum``,
    ``exclusiveMaximum``, ``items``, ``minItems``, ``additionalProperties``, ``anyOf`` and ``title``, which messages and
    the reference show instead of a generated text.
    """

    @override
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


ANY = Shape()
TEXT = Shape(type="string", pattern=r"\S")
POSITIVE = Shape(type="number", exclusiveMinimum=0)
SHARE = Shape(type="number", exclusiveMinimum=0, exclusiveMaximum=1)
TEXTS = Shape(type="array", items={"type": "string"})
TABLE = Shape(type="object")
_SIZE_PATTERN = r"^\s*\d{1,15}(\.\d{1,9})?\s*(([kKmMgGtT][iI]?)?[bB])?\s*$"
SIZE = Shape(
    title='a size such as "512MiB" or "2GiB"',
    anyOf=[{"type": "integer", "minimum": 1}, {"type": "string", "pattern": _SIZE_PATTERN}],
)


def whole(low: int, high: int | None = None) -> Shape:
    """Return the shape of a whole number that is at least ``low``, and at most ``high``."""
    shape = Shape(type="integer", minimum=low)
    return shape if high is None else Shape(shape, maximum=high)


def choice(options: Iterable[str]) -> Shape:
    """Return the shape of one of several words."""
    return Shape(enum=list(options))


def memory_size(value: int | str) -> int:
    """Return a size in bytes.

    A size is a positive integer (bytes), or a text of a number and a unit: B, kB, MB, GB, TB (powers of 1000), KiB,
    MiB, GiB, TiB (powers of 1024), in upper or lower case.

    Raises:
        ValueError: It is 0; the message says what is expected.
    """
    number, unit = re.fullmatch(r"([\d.]+)\s*(\w*)", str(value).strip()).groups()  # type: ignore[union-attr]
    size = int(float(number) * _BYTES[unit.lower()]) if unit else int(value)
    if size < 1:
        raise ValueError(SIZE["title"])
    return size


Given = Annotated[T, "given"]
"""An argument that comes from the run, not from the table."""

Group = Annotated[T, "group"]
"""A class whose keys are keys of the same table; a default is required."""

TableOrFirst = Annotated[T, "table or first"]
"""A table within the table, or the value of its first key alone."""

AnyText = Annotated[str, Shape(type="string")]
"""A text that may be empty; ``str`` is one that is not."""

Count = Annotated[int, whole(1)]
Natural = Annotated[int, whole(0)]
Positive = Annotated[float, POSITIVE]
Share = Annotated[float, SHARE]
Bytes = Annotated[int, SIZE, memory_size]


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
        convert: Returns the argument for a value of the shape; or raises `ValueError` with what is expected.
        inner: Makes the argument of an inner table, or of its first key alone; None for other values.
    """

    name: str
    shape: Shape
    meaning: str = ""
    default: Any = None
    required: bool = False
    absent: str = ""
    convert: Callable[[Any], Any] | None = None
    inner: Callable[..., Any] | None = None


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

    def create(self, make: Callable[..., T], *others: Key, **given: Any) -> T:
        """Return what a class or function makes of this table.

        Args:
            make: The definition of the table.
            others: Further keys that the table may have.
            given: The arguments that are not keys.

        Raises:
            RunFileError: A key is unknown, missing or has a wrong value, or ``make`` refuses the values together.
        """
        values = self.read((*others, *keys_of(make)))
        arguments = {}
        for name, (hint, _) in _arguments(make).items():
            if _is(hint, "group"):
                group = get_args(hint)[0]
                own = {key.name: values[key.name] for key in keys_of(group)}
                arguments[name] = self._call(group, own)
            else:
                arguments[name] = values[name]
        return self._call(make, arguments | given)

    def _call(self, make: Callable[..., T], arguments: Mapping[str, Any]) -> T:
        try:
            return make(**arguments)
        except BacoError:
            raise
        except ValueError as error:
            raise RunFileError(f"[{self.name}] {error}") from None

    def read(self, keys: Iterable[Key]) -> dict[str, Any]:
        """Return the value or the default of each key; the table may have no other keys.

        Raises:
            RunFileError: A key is unknown, missing or has a wrong value.
        """
        keys = list(keys)
        known = [key.name for key in keys]
        for key in self.entries:
            if key not in known:
                raise RunFileError(f"[{self.name}] has no key {key!r}; {suggestion(key, known)}")
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
            if key.inner is not None:
                is_table = isinstance(value, dict)
                return self.table(key.name).create(key.inner) if is_table else key.inner(value)
            try:
                return value if key.convert is None else key.convert(value)
            except ValueError as error:
                raise self.error(key.name, value, str(error)) from None
        if set(key.shape) == {"enum"}:
            hint = suggestion(value, key.shape["enum"])
            raise RunFileError(f"{self.label(key.name)} = {shown(value)}; {hint}")
        raise self.error(key.name, value, describe(key.shape))

    def text(self, key: str) -> str:
        """Return a text that is not empty; the key is required."""
        return str(self.value(Key(key, TEXT, required=True)))

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


def check_values(instance: Any) -> None:
    """Check the values of a dataclass by the annotations of its fields; numbers of NumPy become those of Python.

    Raises:
        ValueError: One is wrong; the message has its name, its value and what is allowed.
    """
    make: Callable[..., Any] = type(instance)
    for key in filter(lambda key: key.shape, keys_of(make)):
        value = plain(getattr(instance, key.name))
        # 5.0 and False are equal to defaults, but no whole numbers.
        if key.required or type(value) is not type(key.default) or value != key.default:
            if not fits(value, key.shape):
                raise ValueError(f"{key.name} = {shown(value)}: expected {describe(key.shape)}")
            value = value if key.convert is None else key.convert(value)
        object.__setattr__(instance, key.name, value)


def _is_number(value: Any) -> bool:
    with suppress(OverflowError):
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        )
    return False


_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "array": lambda value: isinstance(value, list | tuple),
    "boolean": lambda value: isinstance(value, bool),
    "integer": is_whole,
    "number": _is_number,
    "object": lambda value: isinstance(value, Mapping),
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
    if key.meaning or key.absent:
        absent = [f"by default: {key.absent}"] if key.absent else []
        schema["description"] = "; ".join(filter(None, [key.meaning, *absent]))
    if key.default is not None:
        schema["default"] = key.default
    return schema


@cache
def keys_of(make: Callable[..., Any]) -> tuple[Key, ...]:
    """Return the keys of the table that a class or function defines, in the order of its arguments."""
    keys: list[Key] = []
    for name, (hint, default) in _arguments(make).items():
        if _is(hint, "group"):
            own = keys_of(get_args(hint)[0])
            given = ((key, getattr(default, key.name)) for key in own)
            keys += (replace(key, default=value, required=False) for key, value in given)
            continue
        shape, metadata = _shape_of(hint), getattr(hint, "__metadata__", ())
        convert: Callable[[Any], Any] | None = next(filter(callable, metadata), None)
        if convert is None and (shape.get("type") == "number" or get_origin(hint) is tuple):
            convert = float if shape["type"] == "number" else tuple
        text = re.fullmatch(
            r"(.*?)(?:[;.] None: (.*))?", meanings_of(make).get(name, ""), re.DOTALL
        )
        assert text is not None
        is_required = default is inspect.Parameter.empty
        inner = get_args(hint)[0] if _is(hint, "table or first") else None
        default = None if is_required else default
        keys.append(Key(name, shape, text[1], default, is_required, text[2] or "", convert, inner))
    return tuple(keys)


def _is(hint: Any, marker: str) -> bool:
    return marker in getattr(hint, "__metadata__", ())


@cache
def _arguments(make: Callable[..., Any]) -> Mapping[str, tuple[Any, Any]]:
    """Return the type without None and the default of each argument, except for those that are not keys."""
    hints, arguments = _hints(make), {}
    factories = {f.name: f.default_factory for f in fields(make)} if is_dataclass(make) else {}
    for name, argument in inspect.signature(make).parameters.items():
        hint = hints.get(name, Any)
        hint = hint.type if isinstance(hint, InitVar) else hint
        if get_origin(hint) in (Union, UnionType):
            some = [part for part in get_args(hint) if part is not NoneType]
            hint = some[0] if len(some) == 1 else hint
        factory = factories.get(name, MISSING)
        if not _is(hint, "given"):
            arguments[name] = hint, argument.default if factory is MISSING else factory()
    return arguments


def _hints(make: Callable[..., Any]) -> dict[str, Any]:
    """Return the types of the arguments; those that only type checkers can import are left out."""
    parts = [*reversed(getattr(make, "__mro__", ()))]
    sources = [(inspect.get_annotations(p), vars(sys.modules[p.__module__])) for p in parts]
    call = getattr(make, "__init__", make) if isinstance(make, type) else make
    sources.append((getattr(call, "__annotations__", {}), getattr(call, "__globals__", {})))
    hints: dict[str, Any] = {}
    for own, names in sources:
        for name, hint in own.items():
            with suppress(Exception):  # whatever an annotation of a plug-in raises
                if isinstance(hint, str):  # Python 3.10 evaluates no InitVar
                    hint = re.sub(r"^InitVar\[(.*)\]$", r"\1", hint)
                alone = SimpleNamespace(__annotations__={name: hint})
                hints[name] = get_type_hints(alone, names, include_extras=True)[name]
    return hints


_PLAIN = {
    bool: Shape(type="boolean"),
    int: Shape(type="integer"),
    float: Shape(type="number"),
    str: TEXT,
}


def _shape_of(hint: Any) -> Shape:
    """Return the shape of the values of a type; of one that a table cannot contain it is any value."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if _is(hint, "table or first"):
        first, *_ = keys = keys_of(parts[0])
        return Shape(anyOf=[first.shape, table_shape(keys)])
    if kind is Annotated:
        return next((part for part in parts if isinstance(part, Shape)), ANY)
    if kind in (Union, UnionType):
        shapes = [_shape_of(part) for part in parts if part is not NoneType]
        return Shape(anyOf=shapes) if all(shapes) else ANY
    if kind is Literal:
        return choice(parts)
    if kind in (Iterable, Sequence, list, tuple):
        return TEXTS if parts[:1] == (str,) else Shape(type="array")
    if kind is Mapping:
        inner = _shape_of(parts[1]) if parts else ANY
        return Shape(TABLE, additionalProperties=inner) if inner else TABLE
    return _PLAIN.get(kind, ANY)


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
