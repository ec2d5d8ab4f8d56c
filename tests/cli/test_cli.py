"""The command line on real commands: what it writes, how it ends, what it says of bad input."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import forked
import pytest
from new_processes import started

from baco_like import cli
from baco_like.cli import comparing
from baco_like.cli.arguments import build_parser
from baco_like.journal.events import START
from baco_like.journal.json_lines import JsonlJournal

FILE = """
[space.tile]
type = "ordinal"
values = [8, 16, 32, 64]
log = true
default = 8
[space.order]
type = "permutation"
elements = ["i", "j", "k"]
default = ["i", "j", "k"]

[constraints]
known = ["pos(order, 'k') > pos(order, 'i')"]

[objective]
name = "time"
unit = "ms"
direction = "minimize"

[evaluator]
kind = "command"
run = "{python} -c 'import os; t = int(os.environ[\\"BACO_TILE\\"]); print(\\"time:\\", t if t < 64 else 1 / 0)'"
measure = "regex"
pattern = "time: (.*)"
timeout = 20
repeats = 2

[budget]
evaluations = 6

[optimizer]
initial = 3
"""


@pytest.fixture
def toml(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(FILE.replace("{python}", sys.executable))
    return path


@pytest.fixture
def baco(capsys, monkeypatch):
    """Run the command line in this process, with a new process's signal handlers and warnings."""

    def run(*args, cwd=None):
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("default")
            if cwd is not None:
                patch.chdir(cwd)
            try:
                code = cli.main([*map(str, args)])
            except SystemExit as end:  # wrong arguments
                code = end.code
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)
        return subprocess.CompletedProcess(args, code, *capsys.readouterr())

    return run


def test_tune_confirms_the_winner_against_the_default(baco, toml, tmp_path):
    text = toml.read_text().replace("repeats = 2", "repeats = 1").replace("t < 64", "1")
    text = text.replace('"time:\\", t', '"time:\\", 99 - t')
    toml.write_text(text + "\n[confirmation]\ntop = 1\nevaluations = 8\n")
    done = baco("tune", toml, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "measured again: default 91" in done.stdout
    assert "Speed-up over the default: " in done.stdout
    best = json.loads((tmp_path / "out" / "best.json").read_text())
    assert best["evaluations"] == 6
    assert best["speedup"] == pytest.approx(91 / best["value"])
    assert best["speedup_low"] == pytest.approx(best["speedup"]), "the program is deterministic"
    assert best["decided"] is True
    assert best["winner"] == best["config"]
    again = baco("tune", toml, "--out", tmp_path / "out", "--resume", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads((tmp_path / "out" / "best.json").read_text())["speedup"] == best["speedup"]


def test_tune_writes_all_files(toml, tmp_path):
    words = ("-m", "baco_like", "tune", toml, "--out", tmp_path / "out")
    done = forked.run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "speed-up" in done.stdout
    assert "6/6" in done.stdout
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "best.json",
        "convergence.png",
        "run.jsonl",
    ]
    best = json.loads((tmp_path / "out" / "best.json").read_text())
    assert best["value"] == 8
    assert best["default_value"] == 8
    assert best["speedup"] == best["default_value"] / best["value"]
    assert best["repeats"] == [best["value"]] * 2
    assert best["evaluations"] == 6
    assert (tmp_path / "out" / "convergence.png").read_bytes().startswith(b"\x89PNG")


def configs(folder):
    events = [event for event, _ in JsonlJournal(folder / "run.jsonl").read(START)]
    return [t["config"] for e in events if e["event"] == "suggested" for t in e["trials"]]


def test_a_seed_reproduces_the_run_and_resume_continues_it(baco, toml, tmp_path):
    assert baco("tune", toml, "--out", tmp_path / "one", "--seed", 7).returncode == 0
    other = started("tune", toml, "--out", tmp_path / "two", "--seed", 7)
    other.communicate(timeout=200)
    assert other.returncode == 0
    assert configs(tmp_path / "one") == configs(tmp_path / "two")
    assert (
        baco("tune", toml, "--out", tmp_path / "three", "--seed", 7, "--budget", 4).returncode == 0
    )
    again = baco("tune", toml, "--out", tmp_path / "three", "--resume")
    assert again.returncode == 0, again.stderr
    assert configs(tmp_path / "three") == configs(tmp_path / "one")


def test_an_existing_journal_needs_resume_or_another_folder(baco, toml, tmp_path):
    assert (
        baco(
            "tune",
            toml,
            cwd=tmp_path,
        ).returncode
        == 0
    )
    assert baco("tune", toml, "--budget", 2, cwd=tmp_path).returncode == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["job", "job-2"]
    refused = baco("tune", toml, "--out", tmp_path / "runs" / "job")
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    assert baco("tune", toml, "--budget", 3, "--resume", cwd=tmp_path).returncode == 0
    assert len(configs(tmp_path / "runs" / "job-2")) == 3


@pytest.fixture
def held(toml, tmp_path):
    """The run file with a program that stops in the third evaluation, until the file ``go`` exists."""
    (tmp_path / "hold.py").write_text(
        "import os, time\n"
        "with open('runs', 'a') as file: file.write('x')\n"
        "while os.path.getsize('runs') > 4 and not os.path.exists('go'): time.sleep(0.01)\n"
    )
    path = tmp_path / "held.toml"
    path.write_text(toml.read_text().replace("import os;", "import os, hold;"))
    return path


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_run_with_its_results(baco, held, tmp_path, sent):
    (tmp_path / "t").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "t")}
    child = started("tune", held, "--out", tmp_path / "out", "--budget", 12, env=environment)
    journal = tmp_path / "out" / "run.jsonl"
    wait_for(lambda: journal.exists() and journal.read_text().count('"observed"') >= 2)
    os.kill(child.pid, sent)
    out, err = child.communicate(timeout=200)
    assert child.returncode == 130, err
    assert "Traceback" not in err
    assert list((tmp_path / "t").iterdir()) == []
    assert "--resume" in out
    assert (tmp_path / "out" / "best.json").exists()
    if sent is not signal.SIGINT:
        return  # how it ended makes no difference to a resumed run
    (tmp_path / "go").touch()
    done = baco("tune", held, "--out", tmp_path / "out", "--resume", "--budget", 5)
    assert done.returncode == 0, done.stderr
    assert len(configs(tmp_path / "out")) == 5


# Of each step before the first evaluation one; `test_golden_run_files.py` has the messages.
BAD = {
    "bad syntax": ("[budget]", "[budget", "job.toml"),
    "unknown key": ("repeats = 2", "repeat = 2", "repeat"),
    "nothing satisfies it": ("pos(order, 'k') > pos(order, 'i')", "tile > 100", "tile > 100"),
    "missing program": (sys.executable, "no-such-compiler", "no-such-compiler"),
    "unknown setting": ("initial = 3", "inital = 3", "inital"),
    "bad expression": ("pos(order, 'k') > pos(order, 'i')", "__import__('os')", "__import__"),
}


@pytest.mark.parametrize(("old", "new", "named"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line_and_nothing_is_written(baco, toml, tmp_path, old, new, named):
    text = toml.read_text()
    assert old in text
    toml.write_text(text.replace(old, new))
    before = sorted(tmp_path.iterdir())
    done = baco("tune", toml, "--out", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("baco-like: error: ")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert named in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_file_and_wrong_arguments(baco, tmp_path):
    assert "none.toml" in one_line_error(
        forked.run("-m", "baco_like", "tune", "none.toml", cwd=tmp_path)
    )
    for wrong in (
        ["tune"],
        ["tune", "x", "--budget", "0"],
        ["tune", "x", "--seed", "-1"],
        ["nothing"],
    ):
        assert baco(*wrong).returncode == 2


def test_strategies_lists_names_and_settings(baco):
    done = baco("strategies")
    assert done.returncode == 0
    assert "bayesian" in done.stdout
    assert "initial=10" in done.stdout


def test_the_command_is_installed():
    script = Path(sys.executable).parent / "baco-like"
    if not script.exists():
        pytest.skip("the package is not installed in this environment")
    assert subprocess.run([script, "--help"], capture_output=True, check=False).returncode == 0


def one_line_error(done):
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr.startswith("baco-like: error: ")
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    return done.stderr


def test_folders_that_cannot_be_created_are_reported(baco, toml, tmp_path):
    (tmp_path / "afile").write_text("mine")
    assert "afile" in one_line_error(baco("tune", toml, "--out", tmp_path / "afile"))
    assert "afile" in one_line_error(baco("tune", toml, "--out", tmp_path / "afile" / "x"))
    assert "/proc/" in one_line_error(baco("tune", toml, "--out", "/proc/x/y"))
    (tmp_path / "runs").write_text("mine")
    assert "runs" in one_line_error(baco("tune", toml, cwd=tmp_path))
    assert (tmp_path / "runs").read_text() == (tmp_path / "afile").read_text() == "mine"
    assert "--resume" in one_line_error(baco("tune", toml, "--resume", cwd=tmp_path))


def test_simultaneous_runs_choose_different_folders(toml, tmp_path):
    children = [started("tune", toml, "--budget", 2, cwd=tmp_path) for _ in range(2)]
    ends = [(*child.communicate(timeout=200), child.returncode) for child in children]
    assert [code for _, _, code in ends] == [0, 0], ends
    folders = sorted(p.name for p in (tmp_path / "runs").iterdir())
    assert folders == ["job", "job-2"]
    for name in folders:
        best = json.loads((tmp_path / "runs" / name / "best.json").read_text())
        assert best["evaluations"] == 2


def test_a_second_run_in_a_folder_is_rejected(baco, held, tmp_path):
    first = started("tune", held, "--out", tmp_path / "out", "--budget", 12)
    journal = tmp_path / "out" / "run.jsonl"
    wait_for(lambda: journal.exists() and journal.read_text().count('"observed"') >= 1)
    refused = one_line_error(baco("tune", held, "--out", tmp_path / "out", "--resume"))
    assert "in use by another run" in refused
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=200)
    assert first.returncode == 130


def test_resume_rejects_changed_measurement_settings(baco, toml, tmp_path):
    assert baco("tune", toml, "--out", tmp_path / "out", "--budget", 1).returncode == 0
    text, journal = toml.read_text(), (tmp_path / "out" / "run.jsonl").read_bytes()
    for old, new in (('unit = "ms"', 'unit = "s"'), ("repeats = 2", ""), ("print(", "print(7, ")):
        assert old in text
        toml.write_text(text.replace(old, new))
        error = one_line_error(baco("tune", toml, "--out", tmp_path / "out", "--resume"))
        assert "was" in error
        assert "now" in error
    assert (tmp_path / "out" / "run.jsonl").read_bytes() == journal


def test_results_of_a_changed_source_are_refused(baco, toml, tmp_path):
    """An edited source must not get the old times, neither by a resume nor from a cache."""
    source, helper = tmp_path / "bench.py", tmp_path / "helper.py"
    source.write_text("import helper\nprint(helper.time)\n")
    helper.write_text("time = 7\n")
    text = re.sub(
        r"run = .*", f'run = "{sys.executable} bench.py"\ncache = "cache"', toml.read_text()
    )
    toml.write_text(re.sub(r"pattern = .*", "pattern = '.+'", text))
    out = ("--out", tmp_path / "out", "--budget", 1)
    assert baco("tune", toml, *out).returncode == 0
    assert baco("tune", toml, *out, "--resume").returncode == 0
    for path in (helper, source):
        old = path.read_text()
        path.write_text(old + "#\n")
        refused = one_line_error(baco("tune", toml, "--out", tmp_path / "other"))
        assert f"the cache {tmp_path / 'cache'} has results of another context" in refused
        assert f"{path.name} was edited" in refused
        assert "name another file, or remove it" in refused
        cached = toml.read_text()
        toml.write_text(cached.replace('cache = "cache"', ""))
        refused = one_line_error(baco("tune", toml, *out, "--resume"))
        assert f"{path.name} was edited" in refused
        assert "another file" in refused
        toml.write_text(cached)
        path.write_text(old)
    assert baco("tune", toml, *out, "--resume").returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("time:", "tyme:", "no match of"),
        ("measure =", 'metrics = {n = "size({workdir}/absent)"}\nmeasure =', "size of absent"),
        (
            "run =",
            'build = "cat kernel.c -o out.c"\nrun =',
            "build names 'kernel.c', which does not",
        ),
    ],
)
def test_a_wrong_set_up_is_found_by_the_default_before_the_budget(
    baco, toml, tmp_path, old, new, message
):
    right = toml.read_text()
    wrong = re.sub(
        f"(?m)^(pattern = .*)?{old}", lambda found: (found[1] or "") + new, right, count=1
    )
    assert wrong != right
    toml.write_text(wrong)
    error = one_line_error(baco("tune", toml, "--out", tmp_path / "out"))
    assert message in error
    assert "default configuration" in error
    assert not (tmp_path / "out").exists(), "the same command works after the correction"
    toml.write_text(right)
    done = baco("tune", toml, "--out", tmp_path / "out", "--budget", 2)
    assert done.returncode == 0, done.stderr
    again = baco("tune", toml, "--out", tmp_path / "out", "--resume", "--budget", 3)
    assert "; 2 results read" in again.stdout


def test_resume_accepts_another_number_of_workers(baco, toml, tmp_path):
    text = toml.read_text()
    assert "repeats = 2" in text
    toml.write_text(text.replace("repeats = 2", "repeats = 2\nahead = 1"))
    assert baco("tune", toml, "--out", tmp_path / "out", "--budget", 1).returncode == 0
    for number, own in enumerate(("", "\nahead = 2", f'\ncache = "{tmp_path / "cache"}"'), 2):
        toml.write_text(text.replace("repeats = 2", f"repeats = 2{own}"))
        done = baco("tune", toml, "--out", tmp_path / "out", "--resume", "--budget", number)
        assert done.returncode == 0, done.stderr
        found = json.loads((tmp_path / "out" / "best.json").read_text())
        assert found["evaluations"] == number


def wait_for(condition):
    for _ in range(20_000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")


def test_a_closed_output_pipe_does_not_end_the_run(toml, tmp_path):
    with started("tune", toml, "--out", tmp_path / "out") as child:
        assert "feasible configurations" in child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == ""
    assert child.returncode == 0
    assert json.loads((tmp_path / "out" / "best.json").read_text())["evaluations"] == 6
    with started("strategies") as listing:
        listing.stdout.close()
        assert listing.stderr.read() == ""
    assert listing.returncode == 0


def test_nohup_is_respected(toml, tmp_path):
    slow = tmp_path / "slow.toml"
    slow.write_text(toml.read_text().replace("import os;", "import os, time; time.sleep(0.1);"))
    ignore = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        child = started("tune", slow, "--out", tmp_path / "out", "--budget", 4)
    finally:
        signal.signal(signal.SIGHUP, ignore)
    wait_for(lambda: (tmp_path / "out" / "run.jsonl").exists())
    child.send_signal(signal.SIGHUP)
    child.communicate(timeout=200)
    assert child.returncode == 0


def test_a_bug_shows_its_traceback(monkeypatch):
    def broken(args):
        raise ValueError("a bug")

    monkeypatch.setattr(comparing, "strategies", broken)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(["strategies"])


def test_a_run_that_ends_with_an_error_writes_its_results(toml, tmp_path):
    (tmp_path / "once").write_text("#!/bin/sh\nrm -f once\necho time: 5\n")
    (tmp_path / "once").chmod(0o755)
    text = toml.read_text().splitlines()
    toml.write_text("\n".join('run = "./once"' if x.startswith("run") else x for x in text))
    monkey = (
        "from baco_like.evaluators._processes import process\n"
        "from baco_like.exceptions import EvaluatorError\n"
        "import baco_like.evaluators.command.evaluator as c, sys\nfrom baco_like.cli import main\n"
        "real, calls = c.CommandBench.build, []\n"
        "def build(*arguments):\n"
        "    calls.append(1)\n"
        "    if len(calls) > 1: raise EvaluatorError('the board is gone')\n"
        "    return real(*arguments)\n"
        "c.CommandBench.build = build\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    (tmp_path / "monkey.py").write_text(monkey)
    done = forked.run(tmp_path / "monkey.py", "tune", toml, "--out", tmp_path / "out")
    assert one_line_error(done) == "baco-like: error: the board is gone\n"
    assert json.loads((tmp_path / "out" / "best.json").read_text())["evaluations"] == 1
    assert "1 evaluations" in done.stdout


def test_maximising_a_wall_time_survives_a_timeout(baco, toml, tmp_path):
    text = toml.read_text().replace('direction = "minimize"', 'direction = "maximize"')
    text = text.replace('measure = "regex"\npattern = "time: (.*)"\n', 'measure = "wall"\n')
    text = text.replace("timeout = 20", "timeout = 0.5").replace("repeats = 2", "")
    toml.write_text(text.replace("import os;", "import os, time; time.sleep(9);"))
    done = baco("tune", toml, "--out", tmp_path / "out", "--budget", 2)
    assert done.returncode == 1, done.stderr
    best = json.loads((tmp_path / "out" / "best.json").read_text())
    assert best["failures"] == {"timeout": 2}


def test_a_run_with_failures_only_prints_their_messages(baco, toml, tmp_path):
    toml.write_text(toml.read_text().replace("import os;", "import os; os.no_such_thing;"))
    done = baco("tune", toml, "--out", tmp_path / "out", "--budget", 3)
    assert done.returncode == 1
    assert done.stderr.startswith("baco-like: no evaluation succeeded: 3 evaluations, most often ")
    best = json.loads((tmp_path / "out" / "best.json").read_text())
    assert "no_such_thing" in best["failure_messages"]["runtime"]
    progress, summary = done.stdout.split("No evaluation has succeeded")
    assert progress.count("no_such_thing") == 1
    assert "no_such_thing" in summary


def test_ten_identical_failures_end_the_run_with_exit_code_1(baco, toml, tmp_path):
    text = toml.read_text().replace("import os;", "import os; os.no_such_thing;")
    toml.write_text(text.replace("[8, 16, 32, 64]", str(list(range(8, 40)))))
    done = baco("tune", toml, "--out", tmp_path / "out", "--budget", 30)
    assert done.returncode == 1
    assert "10 evaluations in a row failed alike, with runtime: run: exit code 1: " in done.stderr
    assert "no_such_thing" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert json.loads((tmp_path / "out" / "best.json").read_text())["evaluations"] == 10
    toml.write_text(toml.read_text().replace("[budget]", "[budget]\nidentical_failures = 3"))
    done = baco("tune", toml, "--out", tmp_path / "three", "--budget", 30)
    assert done.returncode == 1
    assert json.loads((tmp_path / "three" / "best.json").read_text())["evaluations"] == 3


def test_warnings_are_one_line_without_a_path(baco, toml, tmp_path):
    toml.write_text(toml.read_text().replace("print(", "print('{tile}',"))
    done = baco("tune", toml, "--out", tmp_path / "out", "--budget", 1)
    (line,) = [line for line in done.stderr.splitlines() if "order" in line]
    assert line.startswith("baco-like: warning: no command names the parameter 'order'")
    assert ".py" not in done.stderr
    assert "Warning" not in done.stderr


def test_a_changed_time_limit_is_refused_with_the_way_out(baco, toml, tmp_path):
    assert baco("tune", toml, "--out", tmp_path / "out", "--budget", 3).returncode == 0
    toml.write_text(toml.read_text().replace("timeout = 20", "timeout = 30"))
    error = one_line_error(baco("tune", toml, "--out", tmp_path / "out", "--resume"))
    assert "[evaluator] timeout was 20, now 30" in error
    way_out = re.search(r"\[warm_start\] file = '(.*?)'", error)
    assert way_out
    toml.write_text(f'{toml.read_text()}\n[warm_start]\nfile = "{way_out[1]}"\nmode = "prior"\n')
    done = baco("tune", toml, "--out", tmp_path / "new", "--budget", 1)
    assert done.returncode == 0, done.stderr


def test_slow_runs_are_told_from_hanging_ones(baco, toml, tmp_path):
    (tmp_path / "program").write_text("#!/bin/sh\nexec sleep $1\n")
    (tmp_path / "program").chmod(0o755)
    text = (
        "[space.seconds]\ntype = 'categorical'\nvalues = ['0.1', '98', '99']\ndefault = '0.1'\n"
        "[objective]\nunit = 's'\n"
        "[evaluator]\nkind = 'command'\nrun = './program {seconds}'\nmeasure = 'wall'\n"
        "timeout = 1\n[budget]\nevaluations = 3\n"
    )
    for limit in (1, 5, 30):  # a busy machine may need more for the fast one
        toml.write_text(text.replace("timeout = 1", f"timeout = {limit}"))
        done = baco("tune", toml, "--out", tmp_path / str(limit))
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    best = json.loads((tmp_path / str(limit) / "best.json").read_text())
    assert best["failures"] == {}
    assert best["censored"] == {"at the time limit": 2}
    toml.write_text(text.replace("timeout = 1", "timeout = 60\nslow_ratio = 3"))
    done = baco("tune", toml, "--out", tmp_path / "slow")
    best = json.loads((tmp_path / "slow" / "best.json").read_text())
    assert best["censored"] == {"slow": 2}
    assert "failures: none; censored: slow 2" in done.stdout


WRITING = {
    "tune": "job.toml",
    "flags": "'cc {flags} a.c -o {workdir}/a' --size",
    "passes": "a.c",
    "report": "run.jsonl",
    "ship": "run.jsonl --format c",
    "compare": "--strategies auto branin",
    "repair": "old.jsonl",
    "export": "run.jsonl --format csv",
}


def test_no_other_command_has_an_output():
    (commands,) = (a.choices for a in build_parser()._actions if isinstance(a.choices, dict))
    options = {name: set(each._option_string_actions) for name, each in commands.items()}
    assert {name for name, own in options.items() if own & {"-o", "--out", "--output"}} == set(
        WRITING
    )


def test_every_argument_has_a_meaning():
    (commands,) = (a.choices for a in build_parser()._actions if isinstance(a.choices, dict))
    assert [(n, a.dest) for n, each in commands.items() for a in each._actions if not a.help] == []


def test_commands_work_without_docstrings():
    done = subprocess.run([sys.executable, "-OO", "-m", "baco_like", "show", "--help"], check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("option", ["-o", "--out"])
@pytest.mark.parametrize("words", [f"{name} {words}" for name, words in WRITING.items()])
def test_every_command_that_writes_has_the_same_option(words, option):
    parsed = build_parser().parse_args([*shlex.split(words), option, "x"])
    assert Path("x") in vars(parsed).values()


@pytest.mark.parametrize("words", ["repair old.jsonl", "export run.jsonl --format csv"])
def test_an_output_is_the_last_argument_or_an_option(words, capsys):
    command, source, *others = words.split()
    parsed = build_parser().parse_args([command, source, "x", *others])
    assert Path("x") in vars(parsed).values()
    for wrong in ([command, source, *others], [command, source, "x", *others, "-o", "y"]):
        with pytest.raises(SystemExit):
            build_parser().parse_args(wrong)
        assert "-o/--out" in capsys.readouterr().err
