"""The short benchmarks: a figure that contradicts a claim is named, and a command that breaks confirms nothing."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import confirm
from confirm import Check

TABLE = "| tool | ms | share |\n|---|---:|---:|\n| ours, auto | 4.5 ms (1/8.0) | -3 |\n| other | 9 | 4 |"


def test_a_row_of_a_table():
    assert confirm.cells(TABLE, "ours, auto") == [4.5, 1.0, 8.0, -3.0]
    assert confirm.cells("| a | b | 2 |", "a | b") == [2.0]
    with pytest.raises(ValueError, match="no row 'ours'"):
        confirm.cells(TABLE, "ours")


def test_limits(tmp_path):
    assert confirm.at_most("other", 0, 9.0)(TABLE, tmp_path) is None
    assert "9 instead of at most 8" in confirm.at_most("other", 0, 8.0)(TABLE, tmp_path)
    rates = "| a | 5.0% | 4.0% |\n## Coverage\n| b | 95.0% |"
    assert confirm.no_rate_above(6.0)(rates, tmp_path) is None
    assert "5" in confirm.no_rate_above(4.5)(rates, tmp_path)
    with pytest.raises(ValueError, match="no rates"):
        confirm.no_rate_above(6.0)("", tmp_path)
    assert confirm.wins_problems("x")("| x | 60 | 10 | 6 | 1 |", tmp_path) is None
    assert confirm.wins_problems("x")("| x | 60 | 10 | 5 | 1 |", tmp_path) is not None


def write(folder, *rows):
    (folder / confirm.ROWS).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("own", "others", "is_confirmed"),
    [
        ([3.0, 1.0], [2.0, None], True),
        ([3.0, 2.0], [2.0, 4.0], False),  # level is not ahead
        ([None, None], [9.0, 2.0], False),
        ([None, 9.0], [None, None], False),  # the only value counts as the worst one
    ],
)
def test_ahead_of_others(tmp_path, own, others, is_confirmed):
    runs = {"auto": own, "random": others}
    write(tmp_path, *({"peer": p, "space": "s", "seed": 0, "values": v} for p, v in runs.items()))
    found = confirm.is_ahead("auto", "random")("", tmp_path)
    assert (found is None) == is_confirmed
    with pytest.raises(ValueError, match="TPE has made no run"):
        confirm.is_ahead("auto", "TPE")("", tmp_path)


def test_workers(tmp_path):
    write(tmp_path, {"busy": 0.97, "wrong": []})
    assert confirm.is_busy(0.96)("", tmp_path) is None
    assert "97.0%" in confirm.is_busy(0.98)("", tmp_path)
    write(tmp_path, {"busy": 0.97, "wrong": ["two results of one trial"]})
    assert "two results" in confirm.is_busy(0.96)("", tmp_path)


def test_a_command_that_breaks_or_says_nothing_confirms_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(confirm, "HERE", tmp_path)
    (tmp_path / "fails.py").write_text("raise SystemExit('no such thing')")
    (tmp_path / "silent.py").write_text("")
    (tmp_path / "writes.py").write_text("import sys; open(sys.argv[1], 'w').write('| a | 3 |')")
    found = confirm.try_check(Check("", "fails.py"), None, tmp_path / "1")
    assert found == "exit code 1: no such thing"
    silent = Check("", "silent.py", confirm.is_ahead("auto", "random"))
    assert "no run" in confirm.try_check(silent, None, tmp_path / "2")
    for limit, expected in ((3.0, None), (2.0, "a: 3 instead of at most 2")):
        check = Check("", "writes.py {folder}/table.md", confirm.at_most("a", 0, limit))
        assert confirm.try_check(check, None, tmp_path / f"limit {limit}") == expected


def test_what_is_missing_is_said():
    assert confirm.missing_part(Check("", "a.py {data}"), None) == "needs --data"
    assert confirm.missing_part(Check("", "a.py", needs=["no_such_tool"]), None) == (
        "needs no_such_tool"
    )
    assert all(confirm.missing_part(check, Path()) != "needs --data" for check in confirm.CHECKS)


def test_every_check_names_a_script_and_every_claims_test_is_found():
    scripts = [confirm.HERE / check.command.split()[0] for check in confirm.CHECKS]
    assert [script for script in scripts if not script.exists()] == []
    assert len(list(confirm.named_tests())) > 100
