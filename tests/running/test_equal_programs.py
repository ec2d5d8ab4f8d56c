"""Trials whose program an earlier trial had: no evaluations, but builds, with one count everywhere."""

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from baco_like import MaxEvals, Optimizer, Workers, cli, tune
from baco_like.reporting.facts import RunFacts
from baco_like.reporting.summary import search_section

SPACE = {"a": list(range(40)), "inert": list(range(3))}


def value(trial):
    """Return the same program for four values of ``a`` and all of ``inert``."""
    return {"value": trial["a"] // 4, "program": f"program {trial['a'] // 4}"}


def search(evaluations, function=value, **more):
    stop = MaxEvals(evaluations, more.pop("builds", None))
    return tune(function, SPACE, stop=stop, strategy="random_search", progress=False, **more)


def test_a_run_has_as_many_different_programs_as_evaluations():
    result = search(8)
    history = result.optimizer.history
    assert result.reason == "8 evaluations"
    assert len(set(history.programs.tolist())) == history.searched == 8
    assert history.builds == len(result.trials) > 8
    assert value(result.trials[-1]) not in map(value, result.trials[:-1])


def test_as_many_builds_as_evaluations_count_each_trial():
    result = search(8, builds=8)
    new = result.optimizer.history.searched
    assert (len(result.trials), new < 8) == (8, True)
    assert result.reason == f"8 builds, of which {new} are evaluations"


def test_a_run_ends_where_no_parameter_changes_the_program():
    result = search(2, lambda trial: {"value": 1.0, "program": "always"})
    assert (len(result.trials), result.reason) == (20, "20 builds, of which 1 are evaluations")


@pytest.mark.parametrize("first", [{"evaluations": 3}, {"evaluations": 8, "builds": 6}])
def test_a_resumed_run_ends_at_the_same_trial(tmp_path, first):
    whole = search(8)
    part = search(**first, storage=tmp_path / "run.jsonl")
    resumed = search(8, storage=tmp_path / "run.jsonl")
    assert len(part.trials) < len(resumed.trials)
    assert [dict(t) for t in resumed.trials] == [dict(t) for t in whole.trials]
    assert resumed.reason == whole.reason


def test_pending_trials_count_until_their_program_is_known():
    with ThreadPoolExecutor(4) as executor:
        result = search(8, workers=Workers(executor=executor, max_pending=4))
    assert (result.optimizer.history.searched, result.reason) == (8, "8 evaluations")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_flags_that_do_not_change_a_c_program(tmp_path, capsys):
    """A program without loops is the same for all of these flags; every text has the same count."""
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    (tmp_path / "one.toml").write_text(
        """
        [flags]
        compiler = "gcc"
        level = "-O2"
        on_off = ["-funroll-loops", "-fivopts", "-fpeel-loops"]
        [objective]
        name = "size"
        exact = true
        [evaluator]
        kind = "command"
        build = "gcc {flags} -c one.c -o {workdir}/one.o"
        run = "true"
        measure = "size"
        program = "{workdir}/one.o"
        [evaluator.metrics]
        size = "text({workdir}/one.o)"
        [budget]
        evaluations = 3
        builds = 5
        [optimizer]
        strategy = "random_search"
        """
    )
    out = tmp_path / "out"
    assert cli.main(["tune", str(tmp_path / "one.toml"), "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    journal = out / "run.jsonl"
    history = Optimizer.load(journal).history
    assert (history.searched, history.builds) == (1, 5)
    assert sum("same_program" in trial.extra for trial in history.trials) == 4
    counted = "1 evaluations, 5 builds"
    assert re.search(r"^1/3 .*, 5 builds", printed, re.MULTILINE)
    assert counted in printed
    best = json.loads((out / "best.json").read_text())
    assert (best["evaluations"], best["builds"]) == (1, 5)
    assert cli.main(["show", str(journal)]) == 0
    assert "1 of 3 evaluations, 5 builds" in capsys.readouterr().out
    pytest.importorskip("vl_convert")
    section = search_section(RunFacts(journal))
    assert section.answer.startswith(f"{counted}; failures: none")
    assert section.parts[-1].rows[-1][0] == 1  # all trials belong to the first evaluation
