"""Commands: every failure word, injection attempts, limits, and the removal of all processes and files."""

import json
import mmap
import os
import shutil
import sys
import time

import patient
import pytest

from baco_like._tables import Table
from baco_like.evaluators._processes.temporary import FolderSnapshot
from baco_like.evaluators.command import evaluator as command
from baco_like.evaluators.command import measure as energy
from baco_like.evaluators.command.evaluator import CommandBench
from baco_like.evaluators.protocol import RunArguments
from baco_like.exceptions import BacoWarning, EvaluatorError, RunFileError
from baco_like.parameters import Categorical, Permutation
from baco_like.records.trial import Status, Trial
from baco_like.spaces.space import Space

pytestmark = pytest.mark.usefixtures("temporary")

PYTHON = f"{sys.executable} -I -c"
HOSTILE = "$(touch owned); `touch owned` && touch owned | 'x' \"y\" {tile} \\ -rf *"
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture
def space():
    return Space(
        {
            "tile": [8, 16, 32],
            "text": Categorical([HOSTILE, "plain", ""]),
            "order": Permutation(["i", "j", "k"]),
            "flag": [True, False],
        }
    )


CONFIG = {"tile": 16, "text": HOSTILE, "order": ("j", "i", "k"), "flag": True}


def make(space, folder, unit="ms", **entries):
    entries = {"kind": "command", "measure": "wall", **entries}
    return command.from_table(Table("evaluator", entries), RunArguments(space, unit, folder))


def evaluate(space, folder, unit="ms", is_expected=None, **entries):
    evaluator = make(space, folder, unit, **entries)
    trial = Trial(5, {name: CONFIG[name] for name in space.parameters})
    outcome = patient.evaluate(evaluator, trial, is_expected)
    evaluator.close()
    evaluator.close()
    assert outcome.trial_id == 5
    return outcome


def test_regex_repeats_and_timings(space, tmp_path):
    counter = tmp_path / "count"
    counter.write_text("")
    code = f"p='{counter}'; open(p, 'a').write('x'); print('time:', len(open(p).read()))"
    outcome = evaluate(
        space,
        tmp_path,
        run=f'{PYTHON} "{code}"',
        check=f"{PYTHON} \"open('{counter}', 'a').write('xx')\"",
        measure="regex",
        pattern="time: (.*)",
        repeats=3,
    )
    # one run, then the check, then the other runs
    assert outcome.repeats == (1.0, 4.0, 5.0)
    assert outcome.value == 4.0
    assert set(outcome.extra["seconds"]) == {"run", "check"}


def test_values_reach_the_program_as_they_are(space, tmp_path):
    code = (
        "import json, os, sys; e = os.environ; c = dict(args=sys.argv[1:], text=e['BACO_TEXT'], "
        "order=e['BACO_ORDER'], tile=e['BACO_TILE'], cwd=os.getcwd(), work=e['BACO_WORKDIR'], "
        "time=1); open('seen', 'w').write(json.dumps(c)); print(json.dumps(c))"
    )
    evaluate(
        space,
        tmp_path,
        run=f'{PYTHON} "{code}" {{text}} -D{{order}} {{flag}} {{workdir}}/x',
        measure="json",
        key="time",
    )
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["args"] == [HOSTILE, "-Dj,i,k", "1", f"{seen['work']}/x"]
    assert (seen["text"], seen["order"], seen["tile"]) == (HOSTILE, "j,i,k", "16")
    assert seen["cwd"] == str(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["seen", "temporary"]


def test_wall_time_in_the_objectives_unit(space, tmp_path):
    outcome = evaluate(space, tmp_path, run="sleep 0.1", repeats=2)
    assert outcome.status is Status.OK
    assert all(100 <= value < 10_000 for value in outcome.repeats)
    assert len(outcome.repeats) == 2


@pytest.mark.parametrize(
    ("entries", "word", "message"),
    [
        ({"build": "false", "run": "true"}, "compile", "build: exit code 1"),
        (
            {"build": "sleep 9", "build_timeout": 0.1, "run": "true"},
            "timeout",
            "build: stopped after",
        ),
        ({"run": "false"}, "runtime", "run: exit code 1"),
        ({"run": f"{PYTHON} 'import os; os.abort()'"}, "runtime", "run: ended by SIGABRT"),
        ({"run": f"{PYTHON} 'import os; os.kill(os.getpid(), 11)'"}, "runtime", "SIGSEGV"),
        ({"run": "true", "check": "false"}, "correctness", "check: exit code 1"),
        ({"run": "true", "check": "sleep 9", "timeout": 0.2}, "timeout", "check: stopped"),
        ({"run": "echo nothing", "measure": "regex", "pattern": "t=(.*)"}, "runtime", "nothing"),
        ({"run": "echo t=inf", "measure": "regex", "pattern": "t=(.*)"}, "runtime", "t=inf"),
        (
            {"run": "sleep 9", "measure": "json", "key": "t", "timeout": 0.1},
            "timeout",
            "run: stopped",
        ),
        ({"build": "true", "run": "{workdir}/absent"}, "runtime", "cannot be started"),
        ({"build": "{workdir}/absent", "run": "true"}, "compile", "cannot be started"),
        ({"run": "true", "check": "{workdir}/absent"}, "correctness", "cannot be started"),
    ],
)
def test_failure_words(space, tmp_path, entries, word, message):
    outcome = evaluate(space, tmp_path, is_expected=patient.says(message), **entries)
    assert (outcome.status, outcome.failed) == (Status.FAILED, word)
    assert message in outcome.message.splitlines()[0]
    assert "seconds" in outcome.extra


def test_a_run_over_its_limit_is_censored_where_its_wall_time_counts(space, tmp_path):
    is_expected = patient.says("run: stopped")
    outcome = evaluate(space, tmp_path, is_expected=is_expected, run="sleep 9", timeout=0.25)
    assert (outcome.status, outcome.failed) == (Status.CENSORED, "timeout")
    assert outcome.bound == 250.0


def test_a_later_repeat_over_the_limit_is_a_failure(space, tmp_path):
    def is_later(outcome):
        if outcome.status is Status.CENSORED:  # the first one has taken so long
            (tmp_path / "once").unlink(missing_ok=True)
        return outcome.status is not Status.CENSORED

    code = "import os, time; os.path.exists('once') and time.sleep(9); open('once', 'w')"
    entries = {"run": f'{PYTHON} "{code}"', "timeout": 1.0, "repeats": 2}
    outcome = evaluate(space, tmp_path, is_expected=is_later, **entries)
    assert (outcome.status, outcome.failed, outcome.bound) == (Status.FAILED, "timeout", None)


@pytest.mark.skipif(sys.platform != "linux", reason="address space limits")
def test_memory_limit_is_a_runtime_failure(space, tmp_path):
    run = f"{PYTHON} 'x = bytearray(10**9)'"
    outcome = evaluate(space, tmp_path, run=run, memory="300MiB")
    assert outcome.failed == "runtime"
    assert "MemoryError" in outcome.message


def test_a_long_message_is_bounded(space, tmp_path):
    code = "import sys; sys.stderr.write('warning: noise\\n' * 100_000); sys.exit('the end')"
    outcome = evaluate(space, tmp_path, build=f'{PYTHON} "{code}"', run="true")
    assert len(outcome.message) < 5000
    assert outcome.message.endswith("the end")


def test_a_read_only_workdir_is_removed(space, tmp_path):
    build = "mkdir -p {workdir}/a/b"
    outcome = evaluate(space, tmp_path, build=build, run="chmod -R a-w {workdir}/a")
    assert outcome.status is Status.OK  # the fixture looks at the folder


def test_a_program_that_the_build_makes_need_not_be_there(space, tmp_path):
    make(space, tmp_path, build="touch made", run="./made")


def test_reserved_and_clashing_names(tmp_path):
    with pytest.raises(RunFileError, match="rename the parameter"):
        make(Space({"workdir": [1, 2]}), tmp_path, run="true")
    with pytest.raises(RunFileError, match="BACO_N"):
        make(Space({"n": [1, 2], "N": [1, 2]}), tmp_path, run="true")


def test_a_missing_folder_is_told(space, tmp_path):
    with pytest.raises(EvaluatorError, match="does not exist"):
        make(space, tmp_path / "absent", run="true")


def test_a_parameter_that_no_command_names_is_told(space, tmp_path):
    with pytest.warns(
        BacoWarning, match=r"parameter 'text': write \{text\} .* as \$BACO_TEXT only"
    ):
        make(space, tmp_path, run="sh -c 'echo $BACO_ORDER' {tile} {flag}")
    make(space, tmp_path, run="sh script.sh")  # which may read all of them from its environment


@needs_cc
@pytest.mark.filterwarnings("ignore:no command names the parameter")  # two of four are enough here
def test_a_real_build(space, tmp_path):
    (tmp_path / "k.c").write_text(
        "#include <stdio.h>\n"
        'int main(int c, char **v) { printf("%s time: %d\\n", v[1], TILE * 2); return c != 2; }\n'
    )
    entries = {
        "run": "{workdir}/k {order}",
        "measure": "regex",
        "pattern": "j,i,k time: (.*)",
        "repeats": 2,
    }
    build = "cc -DTILE={tile} k.c -o {workdir}/k"
    outcome = evaluate(space, tmp_path, build=build, **entries)
    assert outcome.repeats == (32.0, 32.0)
    assert set(outcome.extra["seconds"]) == {"compile", "run"}
    broken = evaluate(space, tmp_path, build=build.replace("{tile}", "{{"), **entries)
    assert broken.failed == "compile"
    assert "error" in broken.message.splitlines()[0]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["k.c", "temporary"]


@pytest.mark.parametrize("name", ["process", "like_mark"])
def test_no_parameter_shares_its_variable_with_ours(tmp_path, name):
    evaluator = make(
        Space({name: [8, 16]}),
        tmp_path,
        run=f"{PYTHON} 'import os; print(os.environ[\"BACO_{name.upper()}\"])'",
        measure="regex",
        pattern=".*",
    )
    evaluator.submit(Trial(0, {name: 16}))
    assert evaluator.wait()[0].value == 16.0


def test_a_nul_in_a_value_is_told_before_anything_runs(tmp_path):
    for parameter in (Categorical(["a", "b\0"]), Permutation(["i", "j\0"])):
        with pytest.raises(EvaluatorError, match=r"parameter 'x'.*NUL"):
            make(Space({"x": parameter}), tmp_path, run="true")


def test_repeats_before_a_failing_one_are_kept(space, tmp_path):
    code = "import os; p='n'; n=os.path.exists(p); open(p, 'w'); print(1 / 0 if n else 4)"
    outcome = evaluate(
        space, tmp_path, run=f'{PYTHON} "{code}"', measure="regex", pattern=".+", repeats=3
    )
    assert (outcome.failed, outcome.extra["repeats"]) == ("runtime", [4.0])


def counting(values):
    """Return a command that prints the next of the values, and keeps count in a file."""
    code = (
        f"import os; n = len(open('n').read()) if os.path.exists('n') else 0; "
        f"open('n', 'a').write('x'); print({values}[n])"
    )
    return f'{PYTHON} "{code}"'


def test_a_warm_up_is_not_counted_and_its_result_is_checked(space, tmp_path):
    outcome = evaluate(
        space,
        tmp_path,
        run=counting("[9, 8, 1, 2]"),
        check=f"{PYTHON} \"assert open('n').read() == 'x'\"",
        measure="regex",
        pattern=".+",
        warmup=2,
        repeats=2,
    )
    assert outcome.repeats == (1.0, 2.0), outcome


def test_clearly_slower_than_the_best(tmp_path):
    space = Space({"time": [0.05, 30]})
    evaluator = make(space, tmp_path, run="sleep {time}", repeats=3, slow_ratio=4)
    for number, seconds in enumerate((0.05, 30)):
        evaluator.submit(Trial(number, {"time": seconds}))
    (fast,), (slow,) = evaluator.wait(), evaluator.wait()
    assert slow.status is Status.CENSORED
    assert slow.bound == pytest.approx(4 * fast.value)
    assert slow.extra["seconds"]["run"] < 10
    evaluator.close()


def test_builds_ahead_have_folders_of_their_own(tmp_path, temporary):
    space = Space({"n": [1, 2, 3, 4]})
    evaluator = make(
        space,
        tmp_path,
        build="touch {workdir}/{n}",
        run="ls {workdir}",
        measure="regex",
        pattern=".+",
        ahead=2,
    )
    assert evaluator.capacity == 3
    for n in (1, 2, 3, 4):
        evaluator.submit(Trial(n, {"n": n}))
    found = [one for _ in range(3) for one in evaluator.wait()]
    assert all(one.value == one.trial_id for one in found)
    evaluator.close()  # with one that is built or being built; the fixture looks at the folder


def test_closing_ends_a_build(tmp_path):
    evaluator = make(Space({"n": [1, 2]}), tmp_path, build="sleep 60", run="true", ahead=1)
    started = time.monotonic()
    for pause in (0.0, 0.0, 0.1):  # before it has begun, or while it runs
        evaluator.submit(Trial(0, {"n": 1}))
        time.sleep(pause)
        evaluator.close()
    assert time.monotonic() - started < 30


@pytest.mark.skipif(sys.platform != "linux", reason="pinning is of Linux")
def test_runs_are_pinned_and_builds_are_not(space, tmp_path):
    cpu = min(os.sched_getaffinity(0))
    code = "import os; print(len(os.sched_getaffinity(0)))"
    outcome = evaluate(
        space,
        tmp_path,
        build=f'{PYTHON} "import os; assert len(os.sched_getaffinity(0)) == {len(os.sched_getaffinity(0))}"',
        run=f'{PYTHON} "{code}"',
        measure="regex",
        pattern=".+",
        cpus=[cpu],
    )
    assert outcome.value == 1.0, outcome.message


def test_all_numbers_of_a_json_object_are_metrics(space, tmp_path):
    printed = {"time": [3, 1, 2], "size": 7, "cache": {"misses": [4, 6], "name": "L1"}, "ok": True}
    (tmp_path / "printed.json").write_text(json.dumps(printed))
    outcome = evaluate(space, tmp_path, run="cat printed.json", measure="json", key="time")
    assert outcome.repeats == (3.0, 1.0, 2.0)
    assert outcome.metrics == {"size": 7.0, "cache_misses": 5.0}
    assert outcome.metric_repeats == {"cache_misses": (4.0, 6.0)}


def test_the_metrics_of_all_runs_are_kept(space, tmp_path):
    counter = tmp_path / "count"
    counter.write_text("")
    code = f"f=open('{counter}', 'a+'); f.write('x'); print('t', f.tell(), 'e', f.tell() * 2)"
    run = f'{PYTHON} "{code}"'
    pattern = r"t (\S+) e (?P<energy>\S+)"
    metrics = {"size": f"size({tmp_path}/job.toml)"}
    (tmp_path / "job.toml").write_text("abc")
    outcome = evaluate(
        space, tmp_path, run=run, measure="regex", pattern=pattern, repeats=3, metrics=metrics
    )
    assert outcome.repeats == (1.0, 2.0, 3.0)
    assert outcome.metrics == {"energy": 4.0, "size": 3.0}
    assert outcome.metric_repeats == {"energy": (2.0, 4.0, 6.0)}  # the size is constant


@pytest.mark.parametrize(
    ("printed", "measured"),
    [
        ("t 1 error nan", {"measure": "regex", "pattern": r"t (\S+) error (?P<error>\S+)"}),
        ("t 1 error -inf", {"measure": "regex", "pattern": r"t (\S+) error (?P<error>\S+)"}),
        ('{"t": 1, "error": NaN}', {"measure": "json", "key": "t"}),
        ('{"t": 1, "error": null}', {"measure": "json", "key": "t"}),
        ('{"t": 1, "error": [0.1, Infinity]}', {"measure": "json", "key": "t"}),
    ],
)
def test_a_metric_that_is_no_number_is_kept_as_a_text(space, tmp_path, printed, measured):
    (tmp_path / "printed").write_text(printed)
    outcome = evaluate(space, tmp_path, run="cat printed", **measured)
    assert (outcome.value, outcome.metrics) == (1.0, {})
    assert outcome.extra["metrics"] == {"error": "-inf" if "-inf" in printed else "nan"}


@pytest.mark.parametrize(
    ("pattern", "value", "metrics"),
    [
        (r"(?P<size>\d+) B in (\S+)", 2.5, {"size": 30.0}),
        (r"(?P<size>\d+) B in (?P<value>\S+)", 2.5, {"size": 30.0}),
        (r"(?P<size>\d+) B in (?P<seconds>\S+)", 30.0, {"seconds": 2.5}),
        (r"(?P<size>\d+|-) B in (\S+)\n\Z", 2.5, {"size": 30.0}),
        (r"in (\S+)", 2.5, {}),
    ],
)
def test_named_groups_are_metrics(space, tmp_path, pattern, value, metrics):
    run = "printf '20 B in 1.5\\n30 B in 2.5\\n'"
    outcome = evaluate(space, tmp_path, run=run, measure="regex", pattern=pattern)
    assert (outcome.value, outcome.metrics) == (value, metrics)


def test_sizes_and_patterns_are_metrics_and_a_metric_may_be_the_objective(tmp_path):
    space = Space({"tile": [8, 16, 32]})
    entries = {
        "build": f'{PYTHON} \'open("{{workdir}}/k", "w").write("x" * {{tile}})\'',
        "run": "printf 'misses 5\\nt=2\\n'",
        "metrics": {"size": "size({workdir}/k)", "misses": r"misses (\d+)"},
    }
    outcome = evaluate(space, tmp_path, **entries, measure="regex", pattern="t=(.*)", warmup=1)
    assert (outcome.value, outcome.metrics) == (2.0, {"size": 16.0, "misses": 5.0})
    outcome = evaluate(space, tmp_path, **entries, measure="size", repeats=2)
    assert (outcome.repeats, outcome.metrics) == ((16.0, 16.0), {"misses": 5.0})
    entries["metrics"] = {"size": "size({workdir}/absent)"}
    outcome = evaluate(space, tmp_path, **entries, measure="wall")
    assert outcome.failed == "runtime"
    assert "metric size: the size of absent cannot be read: No such file" in outcome.message
    for section in ("text", "data", "bss"):
        entries["metrics"] = {"code": f"{section}({{workdir}}/k)"}
        outcome = evaluate(space, tmp_path, **entries, measure="wall")
        assert "metric code: the size of k cannot be read: it is not an ELF file" in outcome.message


def write_counters(folder, counts):
    for name, count in counts.items():
        zone = folder / name
        zone.mkdir(parents=True, exist_ok=True)
        (zone / "energy_uj").write_text(f"{count}\n")
        (zone / "max_energy_range_uj").write_text("1000000\n")


def test_the_energy_of_a_run_is_a_metric(space, tmp_path, monkeypatch):
    folder = tmp_path / "powercap"
    monkeypatch.setattr(energy.EnergyCounters.find.__func__, "__defaults__", (folder,))
    metrics = {"run": "true", "metrics": {"energy": "rapl()"}}
    with pytest.raises(EvaluatorError, match=r"has no RAPL counter .*leave this metric out"):
        evaluate(space, tmp_path, **metrics)
    write_counters(folder, {"intel-rapl:0": 900_000, "intel-rapl:0:1": 5, "intel-rapl:1": 100})
    zone = folder / "intel-rapl:0" / "energy_uj"
    run = f'{PYTHON} \'open("{zone}", "w").write("400000")\''
    outcome = evaluate(space, tmp_path, **{**metrics, "run": run})
    assert outcome.metrics == {"energy": 0.5}  # the counter has begun again at 0
    if os.geteuid() != 0:
        zone.chmod(0)
        with pytest.raises(EvaluatorError, match="readable by root only; allow it"):
            energy.EnergyCounters.find(folder)
    zone.unlink()
    with pytest.raises(EvaluatorError, match="No such file"):
        energy.EnergyCounters.find(folder)


def test_a_value_beyond_a_limit_stops_no_other_configuration(tmp_path):
    space = Space({"tile": [8, 16, 32]})
    evaluator = make(
        space,
        tmp_path,
        run="echo {tile}",
        measure="regex",
        pattern="(.*)",
        slow_ratio=1.5,
        repeats=2,
    )
    evaluator.is_accepted = lambda outcome: (outcome.value or 0) > 8
    statuses = []
    for i, tile in enumerate((8, 32, 16, 32)):
        evaluator.submit(Trial(i, {"tile": tile}))
        statuses += [outcome.status for outcome in evaluator.wait()]
    evaluator.close()
    assert statuses == [Status.OK, Status.OK, Status.OK, Status.CENSORED]


def test_equal_built_files_are_measured_once(tmp_path):
    """The second value builds the same file; the third parameter is on the run command line."""
    space = Space({"flag": ["-O1", "-O2"], "threads": [1, 2]})
    build = f"{PYTHON} \"open('{{workdir}}/app', 'w').write('{{flag}}'[:2])\""
    entries = {"measure": "regex", "pattern": "[0-9]+", "program": "{workdir}/app"}
    evaluator = make(
        space,
        tmp_path,
        build=build,
        run="sh -c 'echo x >> n; echo {threads} # {workdir}/app'",
        **entries,
    )
    outcomes = []
    for number, (flag, threads) in enumerate((("-O1", 1), ("-O2", 1), ("-O2", 2))):
        evaluator.submit(Trial(number, {"flag": flag, "threads": threads}))
        outcomes += evaluator.wait()
    evaluator.close()
    assert [o.extra.get("same_program") for o in outcomes] == [None, 0, None], outcomes
    assert (tmp_path / "n").read_text() == "x\n" * 2


# Each line: what a program does to the files that the build left: "app" (4 bytes), "folder/file", "link" to "app".
CHANGES = {
    "leaves a file": "(w / 'cache').write_text('x')",
    "leaves a folder": "(w / 'a' / 'b').mkdir(parents=True, exist_ok=True)",
    "leaves a file in a folder": "(w / 'folder' / 'new').write_text('x')",
    "writes in place and sets the time back": (
        "f = open(w / 'app', 'r+'); f.write('evil'); f.close(); os.utime(w / 'app', ns=(1, 1))"
    ),
    "writes through a link": "(w / 'link').write_text('evil')",
    "writes through a hard link": "os.link(w / 'app', w / 'l'); (w / 'l').write_text('evil')",
    "maps a file": "f = open(w / 'app', 'r+b'); m = mmap.mmap(f.fileno(), 4); m[:] = b'evil'; m.close(); f.close()",
    "renames over a file": "(w / 'n').write_text('evil'); os.replace(w / 'n', w / 'app')",
    "removes a file": "(w / 'app').unlink()",
    "removes all": "shutil.rmtree(w)",
    "turns a folder into a file": "shutil.rmtree(w / 'folder'); (w / 'folder').write_text('x')",
    "turns a file into a folder": "(w / 'app').unlink(); (w / 'app').mkdir()",
    "takes permissions away": "(w / 'folder').chmod(0); w.chmod(0o500)",
    "makes a file executable": "(w / 'app').chmod(0o777)",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_each_run_gets_the_folder_as_the_build_left_it(change, temporary, monkeypatch):
    folder = temporary / "work"
    (folder / "folder").mkdir(parents=True)
    (folder / "app").write_text("good")
    (folder / "folder" / "file").write_text("text")
    (folder / "link").symlink_to("app")

    def contents():
        return {
            str(path.relative_to(folder)): (
                path.lstat().st_mode,
                os.readlink(path) if path.is_symlink() else path.is_file() and path.read_text(),
            )
            for path in sorted(folder.rglob("*"))
        }

    snapshot = FolderSnapshot(folder)
    before = contents()
    for _ in range(2):
        exec(change, {"w": folder, "os": os, "mmap": mmap, "shutil": shutil})
        snapshot.restore()
        assert contents() == before
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copy2", pytest.fail)  # without a change nothing is copied
        snapshot.restore()
    snapshot.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("entries", "values"),
    [
        ({}, (1.0, 1.0, 1.0)),
        ({"restore": "never"}, (1.0, 2.0, 3.0)),
        ({"warmup": 2}, (1.0, 1.0, 1.0)),
        ({"restore": "never", "before": "rm -f {workdir}/cache"}, (1.0, 1.0, 1.0)),
        ({"before": "cp {workdir}/one {workdir}/cache"}, (2.0, 2.0, 2.0)),
    ],
)
def test_a_cache_of_an_earlier_run_is_gone(space, tmp_path, entries, values):
    code = "import sys; f = open(sys.argv[1], 'a+'); f.write('x'); f.seek(0); print(len(f.read()))"
    outcome = evaluate(
        space,
        tmp_path,
        build=f"{PYTHON} \"import sys; open(sys.argv[1], 'w').write('x')\" {{workdir}}/one",
        run=f'{PYTHON} "{code}" {{workdir}}/cache',
        check="test -s {workdir}/cache",  # it sees what the first run wrote
        measure="regex",
        pattern="(.*)",
        repeats=3,
        **entries,
    )
    assert (outcome.failed, outcome.repeats) == (None, values)
    assert ("before" in outcome.extra["seconds"]) == ("before" in entries)


def test_a_failed_command_before_a_run_is_a_failure_of_the_run(space, tmp_path):
    outcome = evaluate(space, tmp_path, before="false", run="true")
    assert (outcome.failed, outcome.message) == ("runtime", "before: exit code 1")


def test_the_built_file_is_known_by_the_build_command(tmp_path):
    space = Space({"flag": [1, 2], "threads": [1, 2]})
    build = "cc -O{flag} a.c -o {workdir}/app"
    cases = [
        ({"build": build, "run": "{workdir}/app {threads}"}, "{workdir}/app"),
        ({"build": build, "run": "{workdir}/app {threads}", "program": ""}, None),
        ({"build": build, "run": "echo {threads}", "program": "{workdir}/b"}, "{workdir}/b"),
        # The program may read the parameter from its environment.
        ({"build": build, "run": "sh -c '{workdir}/app $BACO_THREADS'"}, None),
        ({"build": "cc -O{flag} a.c -o app", "run": "./app {threads}"}, None),
        ({"run": "true {flag} {threads}"}, None),
    ]
    for entries, expected in cases:
        bench = make(space, tmp_path, **entries).bench
        assert isinstance(bench, CommandBench)
        program = bench.program
        words = None if program is None else program.fill({"workdir": "{workdir}"})
        assert words == (None if expected is None else [expected])
