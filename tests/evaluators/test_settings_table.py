from __future__ import annotations

import math

import pytest

from baco_like.evaluators.settings_table import Table, memory_size, per_second, shown, suggestion
from baco_like.exceptions import RunFileError


def table(**entries: object) -> Table:
    return Table("evaluator", entries)


def test_unknown_key_names_the_closest() -> None:
    with pytest.raises(
        RunFileError, match=r"\[evaluator\] has no key 'tiemout'; did you mean 'timeout'\?"
    ):
        table(tiemout=3).only(["timeout", "run"])
    with pytest.raises(RunFileError, match="one of timeout, run"):
        table(zzz=3).only(["timeout", "run"])


@pytest.mark.parametrize("value", [True, "5", 0, -1, math.nan, math.inf, 10**400, [1]])
def test_positive_refuses(value: object) -> None:
    with pytest.raises(RunFileError, match=r"\[evaluator\] timeout = "):
        table(timeout=value).positive("timeout")


@pytest.mark.parametrize("value", [True, "5", 1.0, 0, None])
def test_whole_refuses(value: object) -> None:
    with pytest.raises(RunFileError, match="repeats"):
        table(repeats=value).whole("repeats", low=1)


def test_defaults_and_needed_keys() -> None:
    assert table().whole("repeats", 3) == 3
    assert table(repeats=4).whole("repeats", 3) == 4
    assert table().positive("timeout", 2.5) == 2.5
    assert table().flag("log", False) is False
    assert table().texts("known", []) == []
    with pytest.raises(RunFileError, match=r"\[evaluator\] needs the key 'run'"):
        table().text("run")


@pytest.mark.parametrize("value", ["", "  ", 3, ["a"]])
def test_text_refuses(value: object) -> None:
    with pytest.raises(RunFileError):
        table(run=value).text("run")


def test_choice_flag_texts_table_refuse() -> None:
    with pytest.raises(RunFileError, match="did you mean 'minimize'"):
        table(goal="minimise").choice("goal", ("minimize", "maximize"))
    with pytest.raises(RunFileError, match="true or false"):
        table(log="yes").flag("log")
    with pytest.raises(RunFileError, match="an array of texts"):
        table(known=["a", 1]).texts("known")
    with pytest.raises(RunFileError, match="a table"):
        table(inner=3).table("inner")


def test_nested_table_is_named_with_its_parent() -> None:
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
def test_memory_size(text: object, size: int) -> None:
    assert memory_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "2XB", "2 Gi", "1e9", 0, -5, True, "0"])
def test_no_memory_size(text: object) -> None:
    assert memory_size(text) is None
    with pytest.raises(RunFileError, match="2GiB"):
        table(memory=text).bytes("memory")


def test_units_of_time() -> None:
    assert [per_second(unit) for unit in ("s", "ms", "us", "µs", "ns")] == [1, 1e3, 1e6, 1e6, 1e9]
    assert per_second("GFLOP/s") is None
    assert per_second("") is None


def test_shown_is_one_short_line() -> None:
    assert "\n" not in shown("a\nb" * 200)
    assert len(shown("x" * 500)) == 80
    assert suggestion(["x"], ["a", "b"]) == "one of a, b"
