"""``baco-like ship`` and ``Optimizer.ship`` on real runs."""

import json
import shutil
import subprocess

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings
from shipped_tables import imported, stamp

from baco_like import (
    Categorical,
    Confirm,
    MaxEvals,
    Measuring,
    Optimizer,
    Ordinal,
    RunFileError,
    Space,
    cli,
    tune,
)
from baco_like.shipping import Evidence, ShippedEntry, ShippedTable, read_table, ship
from baco_like.shipping.c_header import c_names, c_string

SPACE = Space({"tile": Ordinal([8, 16, 32, 64], default=8)}, constraints=["tile > 4"])


def tuned(path, best):
    def milliseconds(trial):
        return 1.0 + abs(trial["tile"] - best) / 8

    return tune(
        milliseconds,
        SPACE,
        stop=MaxEvals(4),
        storage=path,
        progress=False,
        measuring=Measuring(confirm=Confirm(3, 15)),
    )


def run(*words):
    return cli.main(["ship", *map(str, words)])


def test_journals_of_several_sizes_become_one_table(tmp_path, capsys):
    for n, best in ((64, 16), (4096, 64)):
        tuned(tmp_path / f"{n}.jsonl", best)
    out = tmp_path / "tuned.json"
    words = ["--task", "n=64", "--task", "n=4096", "--constraint", "tile <= n", "--format", "json"]
    assert run(tmp_path / "64.jsonl", tmp_path / "4096.jsonl", *words, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "n=64: value = 1, 2 times better than the default (2 to 2)" in printed
    table = read_table(out)
    assert [table.select({"n": n})["tile"] for n in (64, 100, 10_000, 16, 8)] == [16, 16, 64, 16, 8]
    evidence = table.entries[0].evidence
    assert (evidence.candidates, set(evidence.ratios)) == (1, {2.0})
    assert table.stamp.device
    # a table can be written in any other format
    assert run(out, "--format", "python", "--out", tmp_path / "tuned.py") == 0
    module = imported(tmp_path / "tuned.py")
    assert module.select(n=10_000)["tile"] == 64
    assert module.select(n=8)["tile"] == 8


def test_an_optimizer_ships_its_winner(tmp_path):
    optimizer = Optimizer(SPACE, seed=1)
    with pytest.raises(RunFileError, match="no successful trial"):
        optimizer.ship("json", tmp_path / "tuned.json")
    optimizer.observe({"tile": 32}, 2.0)
    optimizer.observe({"tile": 8}, 3.0)
    path = optimizer.ship("json", tmp_path / "tuned.json", task={"n": 5}, unit="ms", device="D")
    table = read_table(path)
    assert (table.select({"n": 7}), table.stamp.device, table.stamp.unit) == (
        {"tile": 32},
        "D",
        "ms",
    )
    assert table.entries[0].evidence.speedup == 1.5
    assert table.entries[0].evidence.low is None


def test_a_default_that_fails_is_no_fallback(tmp_path, capsys):
    optimizer = Optimizer(SPACE, storage=tmp_path / "run.jsonl")
    optimizer.observe({"tile": 8}, failed="runtime")
    optimizer.observe({"tile": 32}, 2.0)
    out = tmp_path / "tuned.json"
    assert run(tmp_path, "--format", "json", "--out", out) == 0
    assert "no default configuration that runs" in capsys.readouterr().out
    assert read_table(out).default is None


def test_the_same_journal_gives_the_same_bytes(tmp_path):
    tuned(tmp_path / "run.jsonl", 32)
    for name in ("a", "b"):
        assert run(tmp_path / "run.jsonl", "--format", "json", "--out", tmp_path / name) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert read_table(tmp_path / "a").stamp.date.startswith("20")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run.jsonl", "--format", "cobol"], "invalid choice"),
        (["run.jsonl", "--format", "json", "--task", "n"], "needs the form NAME=VALUE"),
        (["run.jsonl", "--format", "json", "--task", "n=1,n=2"], "each name once"),
        (
            ["run.jsonl", "--format", "json", "--task", "n=1", "--task", "n=2"],
            "1 journals and 2 times",
        ),
        (["run.jsonl", "other.jsonl", "--format", "json"], "the runs differ in the space"),
        (["run.jsonl", "run.jsonl", "--format", "json"], "two entries have the task"),
        (["none.jsonl", "--format", "json"], "does not exist"),
        (["run.jsonl", "--format", "json", "--constraint", "tile <="], "constraint 'tile <='"),
        (["run.jsonl", "--format", "json", "--constraint", "tile > 64"], "violates 'tile > 64'"),
        (["run.jsonl", "--format", "c", "--name", "a b"], "expected a letter"),
        (["run.jsonl", "--format", "vllm"], "needs a whole number M"),
        (["front.jsonl", "--format", "json"], "several objectives"),
        (["t.json", "--format", "c"], "no table of baco-like"),
        (["t.json", "--format", "c", "--device", "x"], "belong to journals"),
    ],
)
def test_mistakes_end_before_anything_is_written(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Optimizer(SPACE, storage="run.jsonl").observe({"tile": 32}, 2.0)
    Optimizer({"tile": [1, 2]}, storage="other.jsonl").observe({"tile": 2}, 2.0)
    both = {"a": "minimize", "b": "minimize"}
    Optimizer(SPACE, both, storage="front.jsonl").observe({"tile": 32}, {"a": 1, "b": 2})
    (tmp_path / "t.json").write_text(json.dumps({"format": 9}))
    try:
        code = run(*words, "--out", "out.txt")
    except SystemExit as end:
        code = end.code
    assert (code, message in capsys.readouterr().err) == (2, True)
    assert not (tmp_path / "out.txt").exists()


def test_a_task_without_a_recommendation_is_named(tmp_path, capsys):
    optimizer = Optimizer(
        Space({"tile": Ordinal([8, 16], default=8)}, tasks=[{"n": 1}, {"n": 2}]),
        storage=tmp_path / "two.jsonl",
    )
    optimizer.observe({"tile": 8, "n": 1}, 2.0)
    optimizer.observe({"tile": 8, "n": 2}, failed="compile")
    optimizer.observe({"tile": 16, "n": 2}, failed="compile")
    assert run(tmp_path / "two.jsonl", "--format", "json", "--out", tmp_path / "tuned.json") == 0
    assert "note: no configuration is recommended for n=2; there" in capsys.readouterr().out


def test_one_measurement_of_the_default_is_no_gain(tmp_path, capsys):
    optimizer = Optimizer(
        Space({"tile": Ordinal([8, 16], default=8)}, tasks=[{"n": 1}, {"n": 2}]),
        storage=tmp_path / "two.jsonl",
    )
    optimizer.observe({"tile": 8, "n": 1}, 2.0)
    optimizer.observe({"tile": 8, "n": 2}, 2.0)
    optimizer.observe({"tile": 16, "n": 2}, 1.992)
    out = tmp_path / "tuned.json"
    assert run(tmp_path / "two.jsonl", "--format", "json", "--out", out) == 0
    assert capsys.readouterr().out.splitlines() == [
        "n=1: value = 2, the default configuration; 1 measurement",
        "n=2: value = 1.992, 1.004 times better than the default; 1 measurement",
        f"wrote 2 entries to {out}",
    ]


# ---- Names and values from a journal of somebody else stay names and values in every file that is written from it ----


HOSTILE = [
    '"; system("x"); //',
    "*/ int x; /*",
    "a\\",
    "\\\n",
    "??/",
    "%s\t\r\n",
    "é\u202e",
    "@log(",
]
NAMES = [
    "tile size",
    "tile_size",
    "TILE_SIZE",
    "int",
    "1st",
    "_x",
    "*/",
    "é",
    '"',
    "default_x",
    "__import__",
]


def hostile_table(value, other="b"):
    space = Space({name: Categorical([value, other]) for name in NAMES})
    config = dict.fromkeys(NAMES, value)
    entries = tuple(
        ShippedEntry({'*/"; n': n, "t\n??/": value}, config, Evidence(1.0)) for n in (64, 4096)
    )
    facts = {"device": f"*/ {value}", "compiler": f'gcc "{value}'}
    constraints = [f"value('tile size') == {value!r} or value('t\\n??/') != {value!r}"]
    return ShippedTable(entries, None, space, stamp(**facts), tuple(constraints))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
def test_c_reads_the_same_texts(tmp_path):
    main = [
        "#include <stdio.h>",
        *(f'#include "t{i}.h"' for i in range(len(HOSTILE))),
        "int main(void) {",
    ]
    for i, value in enumerate(HOSTILE):
        ship(hostile_table(value), "c", tmp_path / f"t{i}.h", f"t{i}")
        text = c_string(value)
        main.append(f"    const t{i}_config *c{i} = t{i}_select(5000, {text});")
        main.append(
            f'    if (!c{i} || t{i}_index(64, {text}) != 0 || t{i}_select(1, "?")) return 1;'
        )
        main.append(
            f"    fputs(c{i}->p_int, stdout); fputs(T{i}_1_TILE_SIZE_3, stdout); putchar(0);"
        )
    (tmp_path / "main.c").write_text("\n".join([*main, "    return 0;", "}"]))
    strict = ["-std=c99", "-trigraphs", "-Wall", "-Wextra", "-Werror"]
    command = ["gcc", *strict, "main.c", "-o", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = subprocess.run([tmp_path / "main"], capture_output=True, check=True).stdout
    assert out.decode().split("\0")[:-1] == [2 * value for value in HOSTILE]


@settings(max_examples=20)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8))
@example('\u2028\'"""\\N{DASH}')
def test_python_and_json_hold_any_text(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("any")
    rows = hostile_table(text, text + "b")
    path = ship(rows, "python", folder / "tuned.py")
    module = imported(path)
    task = dict(rows.entries[1].task)
    assert module.select(**task) == dict(rows.entries[1].config)
    assert json.loads(json.dumps(rows.stamp.to_dict())) == module.STAMP
    document = json.loads(ship(rows, "json", folder / "tuned.json").read_text())
    assert document["entries"][1]["config"] == rows.entries[1].config


def test_a_text_that_c_cannot_hold_is_refused():
    for text in ("a\0b", "\ud800"):
        with pytest.raises(RunFileError, match=r"text .* (null character|not valid Unicode)"):
            c_string(text)


@given(st.lists(st.text(max_size=5), unique=True, max_size=20))
@example(["a", "A", "a_2", "A_2", "", "_", "default_a"])
def test_identifiers_are_different_even_in_capitals(names):
    made = c_names(names, ["space"])
    assert len({word.upper() for word in made} | {"SPACE"}) == len(names) + 1
    assert all(word.isidentifier() and word.isascii() and word[0] != "_" for word in made)


def test_the_command_prints_no_control_characters(tmp_path, capsys):
    journal = tmp_path / "run.jsonl"
    value = "\x1b[31m\n*/"
    optimizer = Optimizer(
        Space({"a\x1b": Categorical([value, "b"])}),
        {"v\x1b\n": "minimize"},
        storage=journal,
        context={"[objective] unit": "ms\x1b", "compiler": "gcc\x1b 1.2.3\n*/"},
    )
    optimizer.observe({"a\x1b": value}, 1.0)
    assert cli.main(["ship", str(journal), "--format", "c", "--out", str(tmp_path / "t.h")]) == 0
    out = capsys.readouterr().out
    assert all(char.isprintable() or char == "\n" for char in out), ascii(out)
    text = (tmp_path / "t.h").read_text()
    assert "\x1b" not in text
    assert r'"compiler":"gcc\u001b 1.2.3\n*\u002f"' in text
