"""Names and values from a journal of somebody else stay names and values in every file that is written from it."""

import json
import shutil
import subprocess

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings
from shipped_tables import imported, stamp

from baco_like import Categorical, Optimizer, RunFileError, Space, cli
from baco_like.shipping import Evidence, ShippedEntry, ShippedTable, read_stamp, ship
from baco_like.shipping.c_header import c_names, c_string

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
    strict = ["-std=c99", "-trigraphs", "-Wall", "-Wextra", "-Werror", "-Wno-cpp"]
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
    assert read_stamp(path) == rows.stamp
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
    assert read_stamp(tmp_path / "t.h").compiler == "gcc\x1b 1.2.3\n*/"
