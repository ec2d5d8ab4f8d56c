"""Runs with several tasks, and spaces with conditional parameters, in shipped files."""

import json
import shutil
import subprocess
from dataclasses import replace

import pytest
from shipped_tables import imported, index_of, run_c, stamp

from baco_like import MaxEvals, Optimizer, Ordinal, RunFileError, Space, TrialError, cli, tune
from baco_like.shipping import (
    Evidence,
    ShippedEntry,
    ShippedTable,
    make_table,
    read_table,
    ship,
    table_schema,
)

TASKS = {"small": {"n": 64}, "middle": {"n": 512}, "large": {"n": 4096}}
SIZES = [1, 7, 8, 16, 40, 64, 100, 180, 182, 200, 512, 1000, 1500, 4096, 10**6]


def space():
    from baco_like.spaces.tasks import Tasks

    own = {"middle": ["tile != 32"]}
    return Space(
        {"tile": Ordinal([8, 16, 32, 64], default=8), "unroll": Ordinal([1, 2], default=1)},
        constraints=["tile <= n", "n % tile == 0"],
        tasks=Tasks(TASKS, own),
    )


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    path = tmp_path_factory.mktemp("tasks") / "run.jsonl"

    def milliseconds(trial):
        return trial["n"] * (1 + abs(trial["tile"] - min(64, trial["n"] / 4)) / 8) / trial["unroll"]

    tune(
        milliseconds,
        space(),
        stop=MaxEvals(22),
        strategy="random_search",
        storage=path,
        progress=False,
    )
    return path


def test_a_run_with_tasks_has_an_entry_for_each_and_no_size_gets_a_forbidden_configuration(
    journal, tmp_path
):
    optimizer = Optimizer.load(journal)
    recommended = optimizer.recommend()
    path = optimizer.ship("json", tmp_path / "tuned.json")
    table = read_table(path)
    assert [dict(entry.task) for entry in table.entries] == list(TASKS.values())
    assert [entry.config for entry in table.entries] == [
        dict(c.config) for c in recommended.choices
    ]
    assert "n" not in table.default
    module = imported(ship(table, "python", tmp_path / "tuned.py"))
    for n in SIZES:
        try:
            config = table.select({"n": n})
        except TrialError:
            assert module.index(n=n) == -1
            every = [*(e.config for e in table.entries), table.default]
            assert not any(recommended.selector.allows(c, {"n": n}) for c in every)
        else:
            assert recommended.selector.allows(config, {"n": n})
            assert module.select(n=n) == config
    assert table.select({"n": 600 // 8 * 8})["tile"] != 32  # the nearest task forbids it


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
def test_constraints_of_one_task_are_in_the_header_too(tmp_path):
    optimizer = Optimizer(space())
    best = {64: 32, 512: 16, 4096: 64}
    for n in best:
        for tile in (8, 16, 32, 64):
            if n != 512 or tile != 32:
                value = 1.0 + (tile != best[n])
                optimizer.observe({"n": n, "tile": tile, "unroll": 1}, value)
    table = make_table([optimizer.shipped_run()], optimizer.space)
    assert table.allowed == ((True,) * 4, (False, True, True, True), (True,) * 4)
    ship(table, "c", tmp_path / "tuned.h")
    calls = "".join(f'    printf("%d ", tuned_index({n}));\n' for n in SIZES)
    source = (
        f'#include "tuned.h"\n#include <stdio.h>\nint main(void) {{\n{calls}    return 0;\n}}\n'
    )
    (tmp_path / "main.c").write_text(source)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-cpp"]
    command = ["gcc", *strict, "main.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    out = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True).stdout
    module = imported(ship(table, "python", tmp_path / "tuned.py"))
    assert [int(word) for word in out.split()] == [module.index(n=n) for n in SIZES]
    assert module.index(n=512) == module.index(n=544) == 1
    with pytest.raises(RunFileError, match="without the constraint"):
        ship(table, "wisdom", tmp_path / "k.wisdom")


def test_the_command_reads_the_tasks_of_a_journal(journal, tmp_path, capsys):
    out = tmp_path / "tuned.json"
    assert cli.main(["ship", str(journal), "--format", "json", "--out", str(out)]) == 0
    assert "n=4096: value = " in capsys.readouterr().out
    assert len(read_table(out).entries) == 3
    words = ["ship", str(journal), "--format", "json", "--out", str(out), "--task", "n=3"]
    assert cli.main(words) == 2
    assert "the run has tasks of its own" in capsys.readouterr().err


def test_a_run_with_tasks_and_no_success_has_nothing_to_ship(tmp_path):
    with pytest.raises(RunFileError, match="no successful trial"):
        Optimizer(space()).ship("json", tmp_path / "tuned.json")


def test_inactive_parameters_have_no_macro_and_no_constraint(tmp_path):
    conditional = Space(
        {"mode": ["a", "b"], "tile": Ordinal([8, 16], default=8)},
        when={"tile": "mode == 'b'"},
    )
    optimizer = Optimizer(conditional)
    optimizer.observe({"mode": "a"}, 1.0)
    path = optimizer.ship("c", tmp_path / "tuned.h", task={"n": 4}, constraints=["tile <= n"])
    text = path.read_text()
    assert "TUNED_MODE" in text
    assert "TUNED_TILE" not in text
    assert '{"a", tuned_mode_a, 0}' in text
    module = imported(optimizer.ship("python", tmp_path / "tuned.py", task={"n": 4}))
    assert module.select(n=5) == {"mode": "a"}


def table_with_tree():
    """Entries of four sizes on two devices, and a tree by which 500 has the configuration of 4096."""
    from baco_like.records.selector import Leaf, Split

    space = Space({"tile": Ordinal([8, 16, 32], default=8)})
    tiles = {(16, "a"): 16, (400, "a"): 8, (4096, "a"): 32, (4096, "b"): 8}
    entries = tuple(
        ShippedEntry({"n": n, "device": device}, {"tile": tile}, Evidence(1.0))
        for (n, device), tile in tiles.items()
    )
    small = Split("device", "b", Leaf((2, 0, 1)), Leaf((0, 1, 2)))
    rule = Split("n", 450, small, Leaf((1, 0, 2)))
    return ShippedTable(entries, {"tile": 8}, space, stamp(), ("tile <= n",), rule, (0, 2, 1, 2))


def asked_of_tree():
    return [
        (n, device) for n in (1, 8, 15, 16, 100, 399, 400, 450, 451, 4096, 1e9) for device in "abc"
    ]


def test_a_tree_comes_before_the_distance_and_after_the_entry_of_the_task(tmp_path):
    rows = table_with_tree()
    tiles = {
        t: rows.select({"n": t[0], "device": t[1]})["tile"] for t in asked_of_tree() if t[0] >= 8
    }
    assert tiles[400, "a"] == 8  # its own entry, although the leaf prefers another one
    assert tiles[399, "a"] == tiles[450, "a"] == 16
    assert tiles[451, "a"] == tiles[1e9, "a"] == 32
    assert tiles[8, "a"] == 8  # the other configurations violate the constraint
    assert tiles[451, "b"] == tiles[451, "c"] == 8  # nothing was tuned on the device c
    path = ship(rows, "json", tmp_path / "tuned.json")
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(path.read_text()), table_schema())
    again = read_table(path)
    assert (again.rule, again.groups) == (rows.rule, rows.groups)
    module = imported(ship(rows, "python", tmp_path / "tuned.py"))
    for n, device in asked_of_tree():
        assert module.index(n=n, device=device) == index_of(rows, {"n": n, "device": device})


def table_with_leaf():
    """The same entries, and one order of the configurations for all other tasks."""
    from baco_like.records.selector import Leaf

    return replace(table_with_tree(), rule=Leaf((1, 0, 2)))


def test_one_order_for_all_other_tasks_comes_after_the_entry_of_the_task(tmp_path):
    rows = table_with_leaf()
    assert rows.select({"n": 16, "device": "a"}) == {"tile": 16}
    assert rows.select({"n": 40, "device": "a"}) == {"tile": 32}
    assert read_table(ship(rows, "json", tmp_path / "tuned.json")).rule == rows.rule
    module = imported(ship(rows, "python", tmp_path / "tuned.py"))
    for n, device in asked_of_tree():
        assert module.index(n=n, device=device) == index_of(rows, {"n": n, "device": device})


def test_a_run_ships_the_configuration_that_its_selector_takes_for_unknown_tasks(tmp_path):
    sizes = (64, 128, 256, 512, 1024, 2048)
    optimizer = Optimizer(Space({"tile": [8, 16]}, tasks=[{"n": n} for n in sizes]))
    for n in sizes:
        optimizer.observe({"tile": 8, "n": n}, 1.1 if n == 256 else 1.0)
        optimizer.observe({"tile": 16, "n": n}, 1.0 if n == 256 else 1.3)
    assert optimizer.recommend().selector.kind == "constant"
    table = read_table(optimizer.ship("json", tmp_path / "tuned.json"))
    assert [table.select({"n": n})["tile"] for n in (128, 250, 256, 257)] == [8, 8, 16, 8]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
@pytest.mark.parametrize("make", [table_with_tree, table_with_leaf])
def test_the_tree_in_a_c_header_chooses_as_the_table_does(make, tmp_path):
    rows = make()
    ship(rows, "c", tmp_path / "tuned.h")
    asked = asked_of_tree()
    calls = "".join(f'    printf("%d ", tuned_index({n:.0f}, "{d}"));\n' for n, d in asked)
    assert run_c(tmp_path, calls) == [index_of(rows, {"n": n, "device": d}) for n, d in asked]


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"order": [0]}, "does not order"),
        (
            {
                "descriptor": "m",
                "value": 3,
                "yes": {"order": [0, 1, 2]},
                "no": {"order": [0, 1, 2]},
            },
            "'m'",
        ),
        (
            {"descriptor": "n", "value": "a", "yes": {"order": [0, 1, 2]}, "no": {}},
            "damaged|wrong value",
        ),
        ([], "damaged"),
    ],
)
def test_a_damaged_tree_is_refused(tree, message, tmp_path):
    path = ship(table_with_tree(), "json", tmp_path / "tuned.json")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "tree": tree}))
    with pytest.raises(RunFileError, match=message):
        read_table(path)


def conditional_run():
    """A run in which large sizes have one more parameter, and vectors another one."""
    conditional = Space(
        {
            "mode": ["row", "block"],
            "tile": Ordinal([8, 16], default=8),
            "width": Ordinal([2, 4], default=2),
        },
        when={"tile": "n >= 100 and mode == 'block'", "width": "not tile == 8"},
        tasks=[{"n": 10}, {"n": 1000}],
    )
    optimizer = Optimizer(conditional)
    optimizer.observe({"n": 10, "mode": "block"}, 1.0)
    optimizer.observe({"n": 1000, "mode": "block", "tile": 16, "width": 4}, 1.0)
    optimizer.observe({"n": 1000, "mode": "row"}, 2.0)
    return optimizer


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
def test_an_unknown_size_never_gets_a_configuration_that_lacks_a_parameter_it_needs(tmp_path):
    optimizer = conditional_run()
    path = optimizer.ship("json", tmp_path / "tuned.json")
    document = json.loads(path.read_text())
    assert document["conditions"] == {"tile": "n >= 100 and mode == 'block'"}
    rows = read_table(path)
    assert rows.select({"n": 50}) == {"mode": "block"}
    assert rows.select({"n": 99}) == {"mode": "block"}  # 10 is nearer
    assert rows.select({"n": 100})["tile"] == 16  # 10 is as near, but lacks a parameter
    sizes = [1, 50, 99, 100, 101, 5000]
    module = imported(ship(rows, "python", tmp_path / "tuned.py"))
    ship(rows, "c", tmp_path / "tuned.h")
    calls = "".join(f'    printf("%d ", tuned_index({n}));\n' for n in sizes)
    expected = [index_of(rows, {"n": n}) for n in sizes]
    assert [module.index(n=n) for n in sizes] == run_c(tmp_path, calls) == expected
    for kind in ("wisdom", "vllm"):
        with pytest.raises(RunFileError, match="without the constraint"):
            ship(rows, kind, tmp_path / "k")
