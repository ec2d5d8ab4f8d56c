import math

import pytest

from baco_like.evaluators.settings_table import (
    ARRAY,
    FLAG,
    POSITIVE,
    SHARE,
    SIZE,
    TEXT,
    TEXTS,
    Key,
    Table,
    choice,
    describe,
    fits,
    keys_of,
    memory_size,
    per_second,
    shapes_of,
    shown,
    suggestion,
    whole,
)
from baco_like.exceptions import RunFileError


def table(**entries):
    return Table("evaluator", entries)


def read(shape, value, default=None):
    return table(key=value).value(Key("key", shape, "", default))


def test_unknown_key_names_the_closest():
    with pytest.raises(
        RunFileError, match=r"\[evaluator\] has no key 'tiemout'; did you mean 'timeout'\?"
    ):
        table(tiemout=3).only(["timeout", "run"])
    with pytest.raises(RunFileError, match="one of timeout, run"):
        table(zzz=3).only(["timeout", "run"])


@pytest.mark.parametrize("value", [True, "5", 0, -1, math.nan, math.inf, 10**400, [1]])
def test_positive_refuses(value):
    with pytest.raises(RunFileError, match=r"\[evaluator\] key = .*a number above 0"):
        read(POSITIVE, value)


@pytest.mark.parametrize("value", [True, "5", 1.0, 0])
def test_whole_refuses(value):
    with pytest.raises(RunFileError, match=r"key = .*a whole number, 1 or more"):
        read(whole(1), value)


def test_defaults_and_needed_keys():
    keys = (Key("repeats", whole(0), "", default=3), Key("timeout", POSITIVE, "", default=2.5))
    assert table().read(keys) == {"repeats": 3, "timeout": 2.5}
    values = table(repeats=4, timeout=1).read(keys)
    assert values == {"repeats": 4, "timeout": 1.0}
    assert isinstance(values["timeout"], float)
    with pytest.raises(RunFileError, match=r"\[evaluator\] has no key 'run'"):
        table(run=4).read(keys)
    with pytest.raises(RunFileError, match=r"\[evaluator\] needs the key 'run'"):
        table().text("run")


@pytest.mark.parametrize("value", ["", "  ", 3, ["a"]])
def test_text_refuses(value):
    with pytest.raises(RunFileError, match="a text"):
        read(TEXT, value)


def test_other_shapes_refuse():
    with pytest.raises(RunFileError, match="did you mean 'minimize'"):
        read(choice(("minimize", "maximize")), "minimise")
    with pytest.raises(RunFileError, match="true or false"):
        read(FLAG, "yes")
    with pytest.raises(RunFileError, match="an array of texts"):
        read(TEXTS, ["a", 1])
    with pytest.raises(RunFileError, match="above 0 and below 1"):
        read(SHARE, 1.0)
    with pytest.raises(RunFileError, match="a whole number, 1 or more or a number above 0"):
        read({"anyOf": [whole(1), SHARE]}, 2.5)
    with pytest.raises(RunFileError, match="a table"):
        table(inner=3).table("inner")
    assert not fits([], {**ARRAY, "minItems": 1})


def test_keys_of_a_function_have_its_defaults_and_its_docstring():
    def make(low, high=2.5, names=None):
        """Make it.

        Args:
            low: The least
                value of ``x``.
            high: The greatest value.

        Returns:
            low: Nothing.
        """

    shapes = shapes_of(make)
    low, high = keys_of(make, {name: shapes[name] for name in ("low", "high")})
    assert (low.meaning, low.required) == ("The least value of `x`", True)
    assert (high.meaning, high.default, high.required) == ("The greatest value", 2.5, False)
    assert (describe(low.shape), describe(high.shape)) == ("a whole number", "a finite number")
    assert shapes["names"] == {}


def test_nested_table_is_named_with_its_parent():
    assert Table("space", {"tile": {"type": "real"}}).table("tile").name == "space.tile"
    assert Table("", {"space": {}}).table("space").name == "space"


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
def test_memory_size(text, size):
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "2XB", "2 Gi", "1e9", 0, -5, True, "0"])
def test_no_memory_size(text):
    assert memory_size(text) is None
    with pytest.raises(RunFileError, match="2GiB"):
        table(memory=text).bytes(Key("memory", SIZE, ""))


def test_units_of_time():
    assert [per_second(unit) for unit in ("s", "ms", "us", "µs", "ns")] == [1, 1e3, 1e6, 1e6, 1e9]
    assert per_second("GFLOP/s") is None
    assert per_second("") is None


def test_shown_is_one_short_line():
    assert "\n" not in shown("a\nb" * 200)
    assert len(shown("x" * 500)) == 80
    assert suggestion(["x"], ["a", "b"]) == "one of a, b"
