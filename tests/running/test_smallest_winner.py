"""`tune` and `baco-like simplify` return parameters of the winner to their defaults after the confirmation."""

import json
import re
import shutil

import numpy as np
import pytest

from baco_like import (
    Categorical,
    Confirm,
    MaxEvals,
    Measuring,
    Optimizer,
    Ordinal,
    Search,
    Sequence,
    Space,
    tune,
)
from baco_like.cli import main
from baco_like.evaluators import Built, FunctionEvaluator, StagedEvaluator
from baco_like.evaluators.repeats import Repeats
from baco_like.journal import repair
from baco_like.records import Objective, Trial, read_confirmation
from baco_like.running import confirm_winner
from baco_like.running import run as search
from baco_like.running.findings import Findings, convergence, write_best
from baco_like.running.journal_view import JournalView, describe_run
from baco_like.running.sentences import format_summary

SPACE = Space({f"f{i}": Categorical([False, True], default=False) for i in range(12)})
GAINS = {"f2": 0.3, "f7": 0.2}
PLAIN = {"strategy": "random_search", "progress": False, "seed": 1, "stop": MaxEvals(60)}


class Function:
    """A noisy function whose values depend on trials only; it is interrupted at one of its calls."""

    def __init__(self, spread=0.003, at=0):
        self.spread, self.at, self.calls = spread, at, 0

    def __call__(self, trial):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        noise = np.random.default_rng(trial.id).lognormal(0.0, self.spread)
        return float(100 * np.exp(-sum(g for n, g in GAINS.items() if trial[n])) * noise)


def names(trial):
    return {name for name in trial if trial[name]}


def run(fn=None, confirm=Confirm(3), space=SPACE, **more):  # noqa: B008
    """Tune with a confirmation and a simplification."""
    measuring = Measuring(confirm=confirm)
    return tune(fn or Function(), space, measuring=measuring, **{**PLAIN, **more})


def test_tune_drops_the_flags_that_do_not_matter(tmp_path):
    path = tmp_path / "run.jsonl"
    result = run(storage=path)
    found = result.confirmation
    assert names(result.recommended) == set(GAINS)
    assert found.speedup_of(result.recommended).low < np.exp(0.5) < found.speedup.high
    winner = result.optimizer.history.find(found.plan.simplification.trial)
    assert names(winner) > set(GAINS)
    assert set(found.plan.simplification.dropped) == names(winner) - set(GAINS)
    assert found.plan.simplification.measurements <= 15
    history = result.optimizer.history
    assert history.searched == 60
    assert dict(result.optimizer.recommend()) == dict(result.recommended)
    assert len(set(convergence(history)[60:])) == 1
    assert repr(read_confirmation(Optimizer.load(path).history)) == repr(found)
    n = len(found.plan.simplification.dropped)
    line = f"{n} of the {n + 2} changed parameters returned to their defaults"
    assert line in describe_run(JournalView(path), 3)
    assert "Those that differ: f2, f7." in describe_run(JournalView(path), 3)
    assert len(run(storage=path).trials) == len(result.trials), "a finished one is not repeated"
    repair(path, tmp_path / "repaired.jsonl")
    repaired = Optimizer.load(tmp_path / "repaired.jsonl").history
    assert repr(read_confirmation(repaired)) == repr(found)


@pytest.mark.parametrize(
    ("threshold", "steps"),
    [(Ordinal([1, 2], default=1), [(None, 9.0), ("all", 5.0)]), (Ordinal([1, 2]), None)],
)
def test_steps_of_a_sequence_that_decides_whether_a_parameter_is_active(threshold, steps):
    space = Space(
        {"passes": Sequence(["all", "a"], 2, default=["all"]), "threshold": threshold},
        when={"threshold": "'all' not in passes"},
    )
    optimizer = Optimizer(space, [Objective("size", exact=True)], strategy="random_search")
    optimizer.observe({"passes": ["all"]}, 5.0)
    optimizer.observe({"passes": [], "threshold": 1}, 9.0)
    found = Findings(optimizer.history, Objective("size", exact=True))
    assert found.steps.get("passes") == steps


def test_it_is_off_without_a_confirmation_and_on_request():
    assert len(run(confirm=None).trials) == 60
    result = run(confirm=Confirm(3, simplify=0))
    assert result.confirmation.plan.simplification is None
    with pytest.raises(ValueError, match=r"confirm: simplify = 0\.5 needs a default configuration"):
        run(confirm=Confirm(0, simplify=0.5), space={"a": [1, 2]})
    space = {"a": list(range(1, 61))}
    result = run(lambda trial: float(trial["a"]), Confirm(1), space)
    assert result.confirmation.plan.simplification is None, "there is no default"


def test_a_parameter_with_a_real_loss_is_kept_in_noise():
    """The recommended configuration is the winner where the simpler one is worse."""
    kept = []
    for seed in range(6):
        result = run(Function(0.01), seed=seed)
        kept.append(set(GAINS) <= names(result.recommended))
    assert all(kept)


@pytest.mark.parametrize("at", [78, 84, 92])
def test_a_run_killed_during_the_simplification_continues(tmp_path, at):
    whole, path = run(), tmp_path / "run.jsonl"
    part = run(Function(at=at), storage=path)
    assert part.reason == "interrupted"
    assert len(part.trials) == at - 1 < len(whole.trials)
    assert part.trials[-1].origin in ("simplification", "comparison")
    assert part.recommended.id == whole.confirmation.plan.simplification.trial, "still the winner"
    resumed = run(storage=path)
    assert repr(resumed.trials) == repr(whole.trials)
    assert repr(resumed.confirmation) == repr(whole.confirmation)


def test_an_exact_objective_is_measured_once(tmp_path):
    calls = []

    def size(trial):
        calls.append(dict(trial))
        return {"size": 100 - 10 * trial["f2"] - 5 * trial["f7"]}

    exact = [Objective("size", "bytes", exact=True)]
    result = run(size, Confirm(0, simplify=0.5), aim=exact)
    assert names(result.recommended) == set(GAINS)
    assert len(calls) == len({str(call) for call in calls}), "no configuration twice"
    assert result.recommended.value == 85
    summary = Findings(result.optimizer.history, exact[0])
    text = format_summary(summary)
    assert "Improvement over the default: 1.176." in text
    assert "Confirmed in" not in text
    write_best(summary, tmp_path / "best.json", seed=0)
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["simplification"]["kept"] == ["f2", "f7"]
    assert {name for name, value in best["config"].items() if value} == set(GAINS)


def test_confirm_winner_measures_no_rounds_of_an_exact_objective():
    exact, calls = [Objective("size", "bytes", exact=True)], []

    def size(trial):
        calls.append(str(dict(trial)))
        return {"size": 100 - 10 * trial["f2"] - 5 * trial["f7"]}

    optimizer = Optimizer(SPACE, exact, 1, strategy="random_search")
    evaluator = FunctionEvaluator(size, objective="size")
    search(optimizer, evaluator, MaxEvals(60))
    found = confirm_winner(optimizer, evaluator, Confirm(3))
    assert names(found.recommended) == set(GAINS)
    assert len(calls) == len(set(calls))


class Bench:
    """Flags whose program depends on two of them; counts builds and runs."""

    def __init__(self):
        self.builds = self.runs = 0

    def build(self, trial, seconds):
        self.builds += 1
        bench, fn = self, Function(0.0)

        class Program(Built):
            identity = str([trial[name] for name in GAINS])

            def measure(self, count, limit, near):
                bench.runs += 1
                return (fn(Trial(0, dict(trial))),)

        return Program()

    def close(self):
        pass


def test_an_equal_program_is_built_and_not_run():
    bench = Bench()
    evaluator = StagedEvaluator(bench, Repeats())
    optimizer = Optimizer(SPACE, strategy="random_search", seed=1)
    search(optimizer, evaluator, MaxEvals(30, builds=30))
    assert bench.runs <= 4
    confirmation = confirm_winner(optimizer, evaluator, Confirm(evaluations=20))
    assert names(confirmation.recommended) == set(GAINS)
    tests = [t for t in optimizer.trials if t.origin == "simplification"]
    own = sum(t.origin in ("confirmation", "comparison") for t in optimizer.trials)
    assert len(tests) > 2
    assert bench.runs <= 4 + own, "tests of known programs are not run"
    assert confirmation.rounds >= 3
    assert confirmation.candidates[0].repeats, "the values of the winner"


FLAGS = """
[flags]
compiler = "gcc"
level = "-O2"
on_off = ["-falign-loops", "-fivopts", "-ftree-slp-vectorize", "-ftree-ch", "-fgcse", "-fcaller-saves", "-ftree-vrp",
          "-fsplit-loops", "-fcode-hoisting", "-fira-share-spill-slots"]

[objective]
name = "size"
exact = true

[evaluator]
kind = "command"
build = "gcc {flags} -c job.c -o {workdir}/job.o"
run = "true"
measure = "size"
program = "{workdir}/job.o"
metrics = { size = "text({workdir}/job.o)" }

[optimizer]
strategy = "random_search"

[budget]
evaluations = 16
"""
SOURCE = """
int sort(int *a, int n) {
    int moves = 0;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && a[j - 1] > a[j]; j--, moves++) {
            int old = a[j]; a[j] = a[j - 1]; a[j - 1] = old;
        }
    for (int i = 0; i < n; i++) moves += a[i] / 7 + a[(i * 3) % n] * (n - 3);
    return moves;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
def test_the_flags_of_gcc(tmp_path, capsys, monkeypatch):
    """`tune` without [confirmation] has the winner with all its flags; `simplify` leaves those that matter."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.c").write_text(SOURCE)
    (tmp_path / "job.toml").write_text(FLAGS)
    assert main(["tune", "job.toml"]) == 0
    before = json.loads((tmp_path / "runs/job/best.json").read_text())
    assert main(["simplify", "runs/job"]) == 2
    assert "baco-like simplify runs/job --run-file FILE.toml" in capsys.readouterr().err
    assert main(["simplify", "runs/job", "--run-file", "job.toml", "--budget", "100"]) == 0
    shown = capsys.readouterr().out
    best = json.loads((tmp_path / "runs/job/best.json").read_text())
    found = best["simplification"]
    assert found["is_minimal"]
    assert found["dropped"]
    assert best["value"] <= before["value"] < best["default_value"]
    flags, all_flags = (
        set(re.findall(r"-f[\w-]+", str(each["commands"]))) for each in (best, before)
    )
    assert flags < all_flags
    assert len(flags) == len(found["kept"])
    assert f"{len(found['dropped'])} of the " in shown
    assert main(["rebuild", "runs/job"]) == 0
    assert set(re.findall(r"-f[\w-]+", capsys.readouterr().out)) == flags
    ship = ["ship", "runs/job/run.jsonl", "--format", "json", "--out", "table.json"]
    assert main(ship) == 0
    entry = json.loads((tmp_path / "table.json").read_text())["entries"][0]
    assert entry["config"] == best["config"]
    count = len(JournalView(tmp_path / "runs/job").history)
    assert main(["simplify", "job.toml"]) == 0
    assert len(JournalView(tmp_path / "runs/job").history) == count, "nothing is left to do"


def test_the_report_names_what_was_dropped(tmp_path):
    pytest.importorskip("vl_convert")
    from baco_like.reporting.facts import RunFacts
    from baco_like.reporting.summary import winner_section

    path = tmp_path / "run.jsonl"
    exact = [Objective("size", "bytes", exact=True)]
    fn = Function(0.0)

    def measure(trial):
        return {"size": fn(trial)}

    run(measure, Confirm(0, simplify=0.5), aim=exact, storage=path)
    section = winner_section(RunFacts(path))
    texts = [part for part in section.parts if isinstance(part, str)]
    assert "changed parameters returned to their defaults" in texts[0]
    assert "luck" not in section.answer
    assert section.parts[-1].caption.startswith("2 of 12 parameters differ")


def test_what_each_pass_adds_is_told(tmp_path):
    """The winner has a pass that does nothing, and two that are only good together."""
    pytest.importorskip("vl_convert")
    from baco_like.reporting.facts import RunFacts
    from baco_like.reporting.summary import winner_section

    space = Space({"passes": Sequence(["a", "b", "c"], 4, default=[])})

    def measure(trial):
        passes = trial["passes"]
        return {"size": 50 - 5 * ("c" in passes) - 20 * ("".join(passes).startswith("ab"))}

    path = tmp_path / "run.jsonl"
    search = Search("random_search", initial=[{"passes": p} for p in ([], list("abcb"))])
    exact = [Objective("size", "bytes", exact=True)]
    given = {"strategy": search, "stop": MaxEvals(2), "aim": exact, "storage": path}
    result = run(measure, Confirm(0, simplify=15), space, **given)
    assert result.recommended["passes"] == ("a", "b", "c")
    timed = Findings(result.optimizer.history, Objective("size", "bytes"))
    assert timed.steps == {}, "values of different minutes"
    found = Findings(result.optimizer.history, exact[0])
    write_best(found, tmp_path / "best.json", seed=1)
    written = json.loads((tmp_path / "best.json").read_text())["steps"]["passes"]
    assert written == [[None, 50], ["a", 50], ["b", 30], ["c", 25]]
    text = describe_run(JournalView(path), 3, 100)
    assert "Step by step, passes: none 50, a 50, b 30, c 25." in text
    tests = found.confirmation.plan.simplification.measurements
    assert f"passes went from 4 to 3 elements ({tests} measurements).\n" in text
    table = winner_section(RunFacts(path)).parts[-1]
    assert [row[2] for row in table.rows] == [None, 0, -20, -5]
