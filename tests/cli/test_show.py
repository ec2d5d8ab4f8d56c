"""Look into a run without Python: `show`, `watch` and `rebuild`, also while the run goes on."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from baco_like import Confirm, MaxEvals, Measuring, Optimizer, Ordinal, Search, Space, cli, tune
from baco_like.cli import arguments, journals
from baco_like.journal.events import START
from baco_like.journal.json_lines import JsonlJournal
from baco_like.journal.lock import sole_runner
from baco_like.records import read_confirmation
from baco_like.running.journal_view import JournalView, describe_progress

FILE = """
[space.tile]
type = "ordinal"
values = [8, 16, 32, 64]
default = 8
[space.order]
type = "permutation"
elements = ["i", "j"]
default = ["j", "i"]
[objective]
name = "time"
unit = "ms"
[evaluator]
kind = "command"
build = "./build {tile} {workdir}/program"
run = "{workdir}/program '{order}' \\"it's\\""
measure = "regex"
pattern = "time: (.*)"
[budget]
evaluations = 8
[optimizer]
strategy = "exhaustive"
"""

BUILD = """#!/bin/sh
[ $1 = 64 ] && { echo 'k.c:3: error: tile too large' >&2; exit 1; }
printf '#!/bin/sh\\necho "time: %s"; echo "$1 $2 $BACO_TILE" >&2\\n' $1 > "$2"
chmod +x "$2"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.toml").write_text(FILE)
    (folder / "build").write_text(BUILD)
    (folder / "build").chmod(0o755)
    assert cli.main(["tune", str(folder / "job.toml"), "--out", str(folder / "out")]) == 0
    return folder


@pytest.fixture
def journal(folder):
    return folder / "out" / "run.jsonl"


def shown(capsys, *args):
    capsys.readouterr()
    code = cli.main([*map(str, args)])
    return code, capsys.readouterr().out


def test_show_prints_status_best_trials_and_failures(journal, capsys):
    code, text = shown(capsys, "show", journal, "--top", 2)
    assert code == 0
    assert "no process is running it" in text
    assert "8 of 8 evaluations; failures: compile 2" in text
    assert "The default configuration is the best one found: time = 8 ms." in text
    assert "outlook: " in text
    table = text.split("\n\n")[1].splitlines()
    assert table[0].split() == ["trial", "time", "(ms)", "repeats", "tile", "order"]
    assert [line.split()[1:4] for line in table[1:]] == [["8", "1", "8"]] * 2
    assert "compile 2 (trial " in text
    assert "    build: exit code 1: k.c:3: error: tile too large" in text


def test_show_prints_one_trial_with_its_log(journal, capsys):
    failed = next(t.id for t in JournalView(journal).history.trials if t.failure)
    _, text = shown(capsys, "show", journal, "--trial", failed)
    lines = [line.split() for line in text.splitlines()]
    for expected in ("status failed", "failure compile", "tile 64", "why it was suggested"):
        assert expected.split() in lines
    assert "build: exit code 1: k.c:3: error: tile too large" in text
    code = cli.main(["show", str(journal), "--trial", "99"])
    assert code == 2
    assert "has no trial 99" in capsys.readouterr().err


def test_show_says_what_the_model_predicted(tmp_path, capsys):
    opt = Optimizer(
        Space({"a": list(range(9))}),
        strategy=Search("bayesian", {"initial": 3}),
        storage=tmp_path / "run.jsonl",
    )
    for _ in range(4):
        trial = opt.suggest()
        opt.observe(trial, (trial["a"] - 4.0) ** 2 + 1)
    _, text = shown(capsys, "show", tmp_path / "run.jsonl", "--trial", 3)
    for name in opt.why(opt.trials[3]):
        assert name in text


def test_a_view_needs_neither_the_lock_nor_the_constraints(tmp_path):
    space = Space({"a": [1, 2, 3]}, constraints=[lambda a: a > 1])
    opt = Optimizer(space, strategy="random_search", storage=tmp_path / "run.jsonl")
    with sole_runner(tmp_path / "run.jsonl"):
        view = JournalView(tmp_path / "run.jsonl")
        assert view.find_runner() == [os.getpid()]
        opt.observe(opt.suggest(), 2.0)
        import fcntl

        with (tmp_path / "run.jsonl").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # as a writer holds it
            view.refresh()
        assert view.history.best().value == 2.0
    assert view.find_runner() == []
    with (tmp_path / "run.jsonl").open("ab") as file:
        file.write(b'{"crc":"0123')  # another process is writing an event
    view.refresh()
    assert view.history.evaluations == 1


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def watched(monkeypatch, journal, sleep):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    journals.watch(arguments.build_parser().parse_args(["watch", str(journal)]), sleep)
    return terminal.text.split(journals._CLEAR)[1:]


def test_watch_follows_a_run_until_it_ends(tmp_path, monkeypatch):
    journal = tmp_path / "run.jsonl"
    opt = Optimizer(Space({"a": [1, 2, 3]}), strategy="random_search", storage=journal)
    with sole_runner(journal):
        monkeypatch.setattr(
            JournalView, "find_runner", lambda view: [1] if view.history.evaluations < 2 else []
        )
        pages = watched(monkeypatch, journal, lambda _: opt.observe(opt.suggest(), 2.0))
    assert ["0 evaluations" in pages[0], "1 evaluations" in pages[1]] == [True, True]
    assert pages[-1].strip().endswith("the run has ended")
    assert len(pages) == 3


def test_ctrl_c_ends_the_watch(journal, monkeypatch):
    def sleep(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(JournalView, "find_runner", lambda view: [1])
    (page,) = watched(monkeypatch, journal, sleep)
    assert "Ctrl-C ends the watch" in page
    assert "best so far " in page


def test_watch_of_an_ended_run_prints_once(journal, monkeypatch):
    (page,) = watched(monkeypatch, journal, lambda _: pytest.fail("it waits for an ended run"))
    assert page.strip().endswith("the run has ended")


def test_show_has_one_row_per_configuration_with_its_confirmed_values(tmp_path, capsys):
    journal = tmp_path / "run.jsonl"
    space = Space({"x": Ordinal(list(range(1, 41)), default=40)})
    rng = np.random.default_rng(0)
    tune(
        lambda trial: float((10 + trial["x"]) * rng.lognormal(0.0, 0.01)),
        space,
        stop=MaxEvals(30),
        strategy="random_search",
        storage=journal,
        measuring=Measuring(confirm=Confirm(2, 18)),
        progress=False,
    )
    code, text = shown(capsys, "show", journal, "--top", 5)
    found = read_confirmation(JournalView(journal).history)
    best, default = found.recommended, found.default
    assert code == 0
    assert f"30 of 30 evaluations, {found.measurements} measurements to" in text
    assert (
        f"Trial {best.id} is the best: value = {best.value:.4g} (the default: {default.value:.4g})"
        in text
    )
    assert "Improvement over the default: " in text
    assert "Repeats of one configuration spread by" in text
    rows = [line.split() for line in text.split("\n\n")[1].splitlines()]
    assert rows[0] == ["trial", "value", "repeats", "measured", "x"]
    assert len({row[-1] for row in rows[1:]}) == len(rows) - 1 == 5
    assert [row[3] for row in rows[1:4]] == ["again"] * 3
    assert rows[1][:3] == [str(best.id), f"{best.value:.4g}", str(len(best.repeats))]


def test_watch_prints_once_where_there_is_no_terminal(journal, capsys):
    code, text = shown(capsys, "watch", journal)
    assert code == 0
    assert text.count("8 of 8 evaluations") == 1
    assert "\x1b" not in text


def test_the_line_of_progress_falls(tmp_path):
    opt = Optimizer(Space({"a": list(range(9))}), strategy="random_search", storage=tmp_path / "j")
    view = JournalView(tmp_path / "j")
    assert describe_progress(view, 80) == ""
    for value in (9.0, 5.0, 7.0, 1.0):
        opt.observe(opt.suggest(), value)
    view.refresh()
    assert describe_progress(view, 80) == "best so far █▅▅▁"


def test_rebuild_prints_a_script_that_works(journal, folder, tmp_path, capsys):
    code, script = shown(capsys, "rebuild", journal, "--workdir", tmp_path / "a folder")
    assert code == 0
    done = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True)
    assert done.stdout == "time: 8\n"
    assert done.stderr.split()[1:] == ["it's", "8"]
    assert (tmp_path / "a folder" / "program").exists()


def test_rebuild_runs_the_commands_of_any_trial(journal, tmp_path, capfd):
    trials = {t["tile"]: t.id for t in JournalView(journal).history.trials}
    args = ["rebuild", str(journal), "--run", "--workdir", str(tmp_path / "w"), "--trial"]
    assert cli.main([*args, str(trials[32])]) == 0
    assert "time: 32" in capfd.readouterr().out
    assert cli.main([*args, str(trials[64])]) == 1
    out, err = capfd.readouterr()
    assert "the build command ended with exit code 1" in out
    assert "tile too large" in err


def test_rebuild_sets_only_the_variables_that_the_commands_read(tmp_path, capsys):
    values = "".join(f'[space.x{i}]\ntype = "ordinal"\nvalues = [1, 2]\n' for i in range(12))
    for number, run, script in (
        (1, "./run", "echo time: $BACO_X3"),  # all are in the environment alone
        (2, "./run " + " ".join(f"{{x{i}}}" for i in range(12)), "echo time: $BACO_X3"),
        (3, "./run " + " ".join(f"{{x{i}}}" for i in range(12)), "echo time: $4"),
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "run").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "run").chmod(0o755)
        table = f'kind = "command"\nrun = "{run}"\nmeasure = "regex"\npattern = "time: (.*)"\n'
        text = (
            f'{values}[objective]\nname = "time"\n[evaluator]\n{table}[budget]\nevaluations = 2\n'
        )
        (folder / "job.toml").write_text(text)
        assert cli.main(["tune", str(folder / "job.toml"), "--out", str(folder / "out")]) == 0
        journal = folder / "out" / "run.jsonl"
        _, script = shown(capsys, "rebuild", journal, "--workdir", folder / "work")
        read = {w.split("=")[0] for w in script.split() if w.startswith("BACO_X")}
        assert read == [{f"BACO_X{i}" for i in range(12)}, {"BACO_X3"}, set()][number - 1]
        assert all(len(line) < 100 for line in script.splitlines() if "/" not in line)
        done = subprocess.run(["sh"], input=script, capture_output=True, text=True, check=True)
        best = JournalView(journal).history.best()
        assert float(done.stdout.split()[1]) == best.value


def test_show_of_many_parameters_prints_what_differs_from_the_default(tmp_path, capsys):
    names = [f"parameter_{i}" for i in range(29)]
    space = Space({name: Ordinal([1, 2, 3], default=2) for name in names})
    opt = Optimizer(space, strategy="random_search", storage=tmp_path / "run.jsonl")
    for value in (5.0, 2.0, 3.0):
        opt.observe(opt.suggest(), value)
    opt.observe(dict.fromkeys(names, 2) | {names[7]: 3}, 1.0)
    _, text = shown(capsys, "show", tmp_path / "run.jsonl")
    table = text.split("\n\n")[1].splitlines()
    assert all(len(line) <= 100 for line in table)
    assert table[0].endswith("values that differ from the default")
    assert table[1].split()[3:] == ["parameter_7=3"]
    listed = " ".join(table).replace(",", "").split()
    differing = sum(value != 2 for trial in opt.trials for value in trial.config.values())
    assert sum(word.startswith("parameter_") for word in listed) == differing


def test_show_counts_the_configurations_that_the_constraints_allow(tmp_path, capsys):
    values = list(range(1, 11))
    space = {"a": values, "b": values}
    for name, constraints in (("text", ["a == b"]), ("code", [lambda a, b: a == b])):
        opt = Optimizer(Space(space, constraints), storage=tmp_path / name, seed=3)
        for _ in range(6):
            trial = opt.suggest()
            opt.observe(trial, 1.0 + trial["a"])
        _, text = shown(capsys, "show", tmp_path / name)
        expected = "; 4 of 10 feasible configurations" if name == "text" else "observations"
        assert expected in text.splitlines()[-1]
        assert "of 100 feasible" not in text


def test_failures_that_differ_in_numbers_are_one_cause(tmp_path, capsys):
    opt = Optimizer(Space({"a": [1, 2, 3]}), storage=tmp_path / "run.jsonl")
    for size in (41000, 52000.5):
        opt.observe(opt.suggest(), failed="limit", message=f"size = {size}")
    opt.observe(opt.suggest(), failed="compile", message="no rule")
    _, text = shown(capsys, "show", tmp_path / "run.jsonl")
    assert "limit 2 (trial 0, 1)\n    size = 41000\ncompile 1 (trial 2)" in text


def test_the_folder_of_a_run_stands_for_its_journal(folder, tmp_path, capsys):
    out = folder / "out"
    texts = [shown(capsys, "show", path) for path in (out, out / "run.jsonl")]
    assert texts[0] == texts[1]
    assert cli.main(["report", str(out), "-o", str(tmp_path / "report.html")]) == 0
    assert (tmp_path / "report.html").exists()


def test_another_folder_names_its_journals(folder, tmp_path, capsys):
    assert cli.main(["show", str(folder)]) == 2
    assert f"is a folder; name the journal in it: {folder / 'out' / 'run.jsonl'}" in (
        capsys.readouterr().err
    )
    assert cli.main(["show", str(tmp_path)]) == 2
    assert "is a folder without a journal" in capsys.readouterr().err


def test_best_json_has_the_commands(folder):
    best = json.loads((folder / "out" / "best.json").read_text())
    commands = best["commands"]
    assert commands["build"] == "./build 8 WORKDIR/program"
    order = ",".join(best["config"]["order"])
    assert commands["run"] == f"""WORKDIR/program {order} 'it'"'"'s'"""
    assert commands["folder"] == str(folder)
    assert commands["environment"]["BACO_TILE"] == "8"


def test_a_resume_from_a_moved_folder_is_accepted(folder, tmp_path):
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("job.toml", "build"):
        (moved / name).write_bytes((folder / name).read_bytes())
        (moved / name).chmod(0o755)
    out = tmp_path / "out"
    assert cli.main(["tune", str(folder / "job.toml"), "--out", str(out), "--budget", "1"]) == 0
    args = ["tune", str(moved / "job.toml"), "--out", str(out), "--resume", "--budget", "2"]
    assert cli.main(args) == 0
    assert len(JournalView(out / "run.jsonl").history) == 2


def test_what_cannot_be_rebuilt_is_explained(tmp_path, capsys):
    journal = tmp_path / "run.jsonl"
    opt = Optimizer(Space({"a": [1, 2]}), strategy="random_search", storage=journal)
    for command in ("show", "watch", "rebuild"):
        assert cli.main([command, str(tmp_path / "none.jsonl")]) == 2
        assert "none.jsonl does not exist" in capsys.readouterr().err
    assert cli.main(["rebuild", str(journal)]) == 2
    assert "no successful trial" in capsys.readouterr().err
    opt.observe(opt.suggest(), 1.0)
    assert cli.main(["rebuild", str(journal)]) == 2
    assert "only journals of 'baco-like tune'" in capsys.readouterr().err
    (tmp_path / "text").write_text("not a journal\n")
    assert cli.main(["show", str(tmp_path / "text")]) == 2
    assert "not a baco_like journal" in capsys.readouterr().err


def test_peek_and_read_agree(journal):
    store = JsonlJournal(journal)
    assert list(store.peek(START)) == list(store.read(START))


@pytest.mark.parametrize(
    "command", [["show"], ["rebuild"], ["compare", "--strategies", "random_search"]]
)
def test_a_name_that_is_too_long_is_one_line(capsys, command):
    assert cli.main([*command, "a" * 300]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
