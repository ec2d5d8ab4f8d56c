"""Tables of a run file: a class is the definition for the reader, for editors and for the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like._tables import (
    POSITIVE,
    SHARE,
    SIZE,
    TEXT,
    TEXTS,
    AnyText,
    Bytes,
    Count,
    Given,
    Group,
    Key,
    Natural,
    Positive,
    Shape,
    Share,
    Table,
    TableOrFirst,
    check_values,
    choice,
    describe,
    fits,
    keys_of,
    memory_size,
    per_second,
    shown,
    suggestion,
    table_shape,
    whole,
)
from baco_like.exceptions import RunFileError
from baco_like.optimizer import Sharing, WarmStart

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]

SHAPES = {
    "a text": TEXT,
    "a number above 0": POSITIVE,
    "a number above 0 and below 1": SHARE,
    "an array of texts": TEXTS,
    'a size such as "512MiB" or "2GiB"': SIZE,
    "a whole number, 1 or more": whole(1),
    "a whole number, 0 to 3": whole(0, 3),
    '"a" or "b"': choice("ab"),
    "a finite number": Shape(type="number"),
    "true or false": Shape(type="boolean"),
    "an array": Shape(type="array", minItems=2),
    "a table": Shape(type="object", additionalProperties=whole(0)),
    "a whole number, 1 or more or a number above 0 and below 1": Shape(anyOf=[whole(1), SHARE]),
    "any value": Shape(),
}
LEAVES = st.one_of(
    st.booleans(), st.integers(-2, 5), st.floats(allow_nan=False, allow_infinity=False), st.text("ab1GiB ", max_size=4)
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=1), inner),
    max_leaves=4,
)


@given(st.sampled_from(sorted(SHAPES)), VALUES)
def test_the_reader_accepts_what_the_schema_allows(words: str, value: Any) -> None:
    """Except that 8.0 is not a whole number here."""
    jsonschema = pytest.importorskip("jsonschema")
    shape = SHAPES[words]
    assert describe(shape) == words
    is_valid = jsonschema.Draft7Validator(shape).is_valid(value)
    if not is_valid:
        assert not fits(value, shape)
        if "enum" not in shape:
            with pytest.raises(RunFileError) as caught:
                Table("evaluator", {"key": value}).value(Key("key", shape))
            assert str(caught.value) == f"[evaluator] key = {shown(value)}: expected {words}"
    elif "integer" not in str(shape):
        assert fits(value, shape)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**400, 8.0, True], ids=lambda value: str(value)[:9]
)
def test_numbers_of_toml_that_are_none(value: object) -> None:
    assert value == 10**400 or not fits(value, whole(1))
    assert (isinstance(value, float) and value == 8.0) or not fits(value, POSITIVE)


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        least: The least number.
        share: The share; None: all.
    """

    least: Count
    share: Share | None = None


@dataclass(frozen=True, kw_only=True)
class Base:
    """Keys of several tables.

    Attributes:
        device: Number of the device.
    """

    device: Natural = 0


@dataclass(frozen=True)
class Settings(Base):
    """Settings.

    Attributes:
        file: A file
            with ``data``.
        rule: Not shown.
        end: The end; None: never.
        mode: How.
    """

    file: str
    rule: Group[Rule] = Rule(5)
    end: TableOrFirst[Rule] | None = None
    mode: Literal["fast", "slow"] = "fast"
    flags: tuple[str, ...] = ()
    named: Mapping[str, Positive] = field(default_factory=dict)
    memory: Bytes | None = None
    text: AnyText = ""
    odd: Unknown = None
    scale: Given[float] = 1.0

    def __post_init__(self) -> None:
        if self.mode == "slow" and self.device:
            raise ValueError("mode = 'slow' is for device 0")


def test_a_class_defines_its_table() -> None:
    keys = {key.name: key for key in keys_of(Settings)}
    names = ["file", "least", "share", "end", "mode", "flags", "named", "memory", "text", "odd", "device"]  # fmt: skip
    assert list(keys) == names
    assert keys["file"] == Key("file", TEXT, "A file with `data`", required=True)
    assert (keys["least"].default, keys["least"].required) == (5, False)
    assert (keys["share"].meaning, keys["share"].absent) == ("The share", "all")
    end = Shape(anyOf=[whole(1), table_shape(keys_of(Rule))])
    assert (keys["end"].shape, keys["end"].absent) == (end, "never")
    assert keys["mode"].shape == choice(("fast", "slow"))
    assert (keys["flags"].shape, keys["flags"].default) == (TEXTS, ())
    assert keys["named"].shape == Shape(type="object", additionalProperties=POSITIVE)
    assert keys["text"].shape == Shape(type="string")
    assert keys["odd"].shape == {}
    assert (keys["device"].shape, keys["device"].meaning) == (whole(0), "Number of the device")


def test_a_table_is_read_as_the_class() -> None:
    def read(**entries: Any) -> Settings:
        return Table("t", {"file": "x", **entries}).create(Settings, Key("kind", TEXT), scale=2.0)

    assert read(kind="a") == Settings("x", scale=2.0)
    given = read(least=2, end=3, mode="slow", flags=["-a"], named={"a": 1}, memory="1KiB")
    rules = {"rule": Rule(2), "end": Rule(3)}
    made = Settings("x", **rules, mode="slow", flags=("-a",), named={"a": 1}, memory=1024, scale=2.0)  # fmt: skip
    assert given == made
    assert read(end={"least": 4, "share": 0.5}).end == Rule(4, 0.5)
    for entries, message in (
        ({"fiel": 1}, "[t] has no key 'fiel'; did you mean 'file'?"),
        ({"file": None}, "[t] needs the key 'file'"),
        ({"end": {"lest": 1}}, "[t.end] has no key 'lest'; did you mean 'least'?"),
        ({"mode": "fsat"}, "[t] mode = 'fsat'; did you mean 'fast'?"),
        ({"memory": "0 B"}, '[t] memory = \'0 B\': expected a size such as "512MiB" or "2GiB"'),
        ({"mode": "slow", "device": 1}, "[t] mode = 'slow' is for device 0"),
        ({"scale": 2.0}, "[t] has no key 'scale'; did you mean 'share'"),
    ):
        with pytest.raises(RunFileError) as caught:
            read(**entries)
        assert str(caught.value).startswith(message)
    assert Table("", {"a": {}}).table("a").name == "a"
    with pytest.raises(RunFileError, match="inner = 3: expected a table"):
        Table("t", {"inner": 3}).table("inner")


def test_a_function_defines_its_table() -> None:
    def make(low: int, high: float | None = 2.5, names: Sequence[Any] = ()) -> None:
        """Make it.

        Args:
            low: The least
                value of ``x``.
            high: The greatest value.

        Returns:
            low: Nothing.
        """

    low, high, names = keys_of(make)
    assert low == Key("low", Shape(type="integer"), "The least value of `x`", required=True)
    assert (high.meaning, high.default, high.required) == ("The greatest value", 2.5, False)
    assert (describe(high.shape), describe(names.shape)) == ("a finite number", "an array")


def test_values_in_python_are_checked_alike() -> None:
    check_values(Rule(1))
    with pytest.raises(ValueError, match="least = 0: expected a whole number, 1 or more"):
        check_values(Rule(0))


@pytest.mark.parametrize("value", [5.0, True, np.array([5, 5])], ids=str)
def test_a_value_that_is_only_equal_to_the_default_is_checked(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^best = .*: expected a whole number, 1 or more"):
        WarmStart("old.csv", best=value)


def test_the_error_of_a_wrong_name_shows_one() -> None:
    with pytest.raises(ValueError, match="worker = '': expected a name such as 'node3'"):
        Sharing(worker="")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GiB", 2**31),
        ("512 MiB", 2**29),
        ("1.5 GB", 1_500_000_000),
        ("1kB", 1000),
        ("64", 64),
        (4096, 4096),
        ("10b", 10),
        ("3 tib", 3 * 2**40),
    ],
)
def test_memory_size(text: Any, size: int) -> None:
    assert memory_size(text) == size
    assert fits(text, SIZE)


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "2XB", "2 Gi", "1e9", 0, -5, True, "0"])
def test_no_memory_size(text: object) -> None:
    with pytest.raises(RunFileError, match="2GiB"):
        Table("evaluator", {"memory": text}).value(Key("memory", SIZE, convert=memory_size))


def test_words_of_messages() -> None:
    assert [per_second(unit) for unit in ("s", "ms", "us", "µs", "ns")] == [1, 1e3, 1e6, 1e6, 1e9]
    assert (per_second("GFLOP/s"), per_second("")) == (None, None)
    assert "\n" not in shown("a\nb" * 200)
    assert len(shown("x" * 500)) == 80
    assert suggestion(["x"], ["a", "b"]) == "one of a, b"
