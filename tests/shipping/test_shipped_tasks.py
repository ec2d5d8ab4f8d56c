"""Runs with several tasks, and spaces with conditional parameters, in shipped files."""

import importlib.util
import shutil
import subprocess

import pytest

from baco_like import MaxEvals, Optimizer, Ordinal, RunFileError, Space, TrialError, cli, tune
from baco_like.shipping import make_table, read_table, ship

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


def imported(path):
    spec = importlib.util.spec_from_file_location("tuned", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
    assert '{"a", 0}' in text
    module = imported(optimizer.ship("python", tmp_path / "tuned.py", task={"n": 4}))
    assert module.select(n=5) == {"mode": "a"}
