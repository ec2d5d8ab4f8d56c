from __future__ import annotations

import csv
import gzip
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baco_like import Optimizer, Space
from baco_like.benchmarking.comparison.figures import (
    charge_penalised,
    clock,
    compute_figures,
    curves_of,
    cutoff_of,
    final_costs,
)
from baco_like.benchmarking.comparison.plan import (
    ComparisonPlan,
    budget_on,
    compare,
    run_missing,
    run_parallel,
)
from baco_like.benchmarking.comparison.report import COLUMNS, to_csv, to_markdown
from baco_like.benchmarking.comparison.runs import (
    Contender,
    RunBudget,
    RunJob,
    StrategyRun,
    run_strategy,
)
from baco_like.benchmarking.comparison.spaces import OUTSIDE, RecordedSpace, find_spaces
from baco_like.benchmarking.comparison.store import ComparisonSpecification, RunStore
from baco_like.benchmarking.score import CUTOFF
from baco_like.cli import main
from baco_like.cli.arguments import parse_contenders
from baco_like.exceptions import EvaluatorError, JournalError
from baco_like.running.progress import Display
from baco_like.strategies import create_strategy

RANDOM = Contender("random", "random_search")
LISTED = Contender("listed", "exhaustive")
SEEDS = range(3)


def t4(n: int = 40, factor: float = 1.0) -> dict[str, Any]:
    """Return a table of 2 n configurations: one in ten fails, one in twenty was excluded, values are distinct."""
    rows = []
    for x in range(n):
        for y in (1, 2):
            number = 2 * x + y
            word = (
                "runtime" if number % 10 == 3 else "constraints" if number % 20 == 5 else "correct"
            )
            value = factor * (10 + (37 * number) % (2 * n))
            rows.append(
                {
                    "configuration": {"x": x, "y": y},
                    "times": {"compilation": 500.0, "runtimes": [value - 1, value, value + 1]},
                    "invalidity": word,
                    "measurements": [{"name": "time", "value": value, "unit": "ms"}],
                    "objectives": ["time"],
                }
            )
    return {"schema_version": "1.0.0", "metadata": {}, "results": rows}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("spaces")
    (root / "deep").mkdir()
    (root / "one.json").write_text(json.dumps(t4()))
    with gzip.open(root / "deep" / "two.json.gz", "wt") as file:
        json.dump(t4(30, 3.0), file)
    (root / "notes.json").write_text("{}")
    (root / "one.txt").write_text("no table")
    return root


@pytest.fixture(scope="module")
def recorded(folder: Path) -> list[RecordedSpace]:
    return find_spaces(folder, "minimize")[0]


def plan_of(recorded: list[RecordedSpace], **changes: Any) -> ComparisonPlan:
    given: dict[str, Any] = {"contenders": [RANDOM, LISTED], "seeds": SEEDS, **changes}
    return ComparisonPlan(recorded, given.pop("contenders"), given.pop("seeds"), **given)


# Spaces.


def test_spaces_are_found_in_folders_and_other_files_are_noted(folder: Path) -> None:
    found, notes = find_spaces(folder, "minimize")
    assert [one.name for one in found] == ["deep/two", "one"]
    assert len(notes) == 1
    assert "notes.json" in notes[0]


def test_a_single_file_is_a_folder_of_one(folder: Path, recorded: list[RecordedSpace]) -> None:
    (one,), notes = find_spaces(folder / "one.json", "minimize")
    assert one.source == recorded[1].source
    assert not notes


def test_a_space_excludes_rows_that_violate_known_constraints(
    recorded: list[RecordedSpace],
) -> None:
    one = recorded[1]
    words = [entry.failed for entry in one.entries]
    assert one.space.feasible_size == len(words) - words.count("constraints") == 76
    assert one.baseline.failures == words.count("runtime") == 8
    assert len(one.baseline.costs) == 68


def test_costs_and_seconds_by_row(recorded: list[RecordedSpace]) -> None:
    one = recorded[1]
    for row, (values, entry) in enumerate(one.recorded.entries.items()):
        config = dict(zip(one.recorded.names, values, strict=True))
        assert one.row(config) == row
        assert np.isnan(one.costs[row]) if entry.value is None else one.costs[row] == entry.value
        assert one.seconds[row] == pytest.approx(sum(entry.seconds.values()))
    assert one.row({"x": 999, "y": 1}) == OUTSIDE
    assert np.isnan(one.costs[OUTSIDE])
    assert one.seconds[OUTSIDE] == 0


def test_maximising_negates_the_costs_and_changes_the_digest(folder: Path) -> None:
    (up,), _ = find_spaces(folder / "one.json", "maximize")
    (down,), _ = find_spaces(folder / "one.json", "minimize")
    np.testing.assert_array_equal(up.costs, -down.costs)
    assert up.source.digest != down.source.digest


def test_tables_with_another_direction_or_too_few_values_are_left_out(
    folder: Path, tmp_path: Path
) -> None:
    rates = Optimizer(Space({"x": list(range(40))}), "maximize", seed=1, strategy="exhaustive")
    pair = Optimizer(Space({"x": [1, 2]}), seed=1, strategy="exhaustive")
    for opt, name in ((rates, "rates"), (pair, "pair")):
        for trial in opt.suggest(opt.space.feasible_size):
            opt.observe(trial, 1.0 + trial["x"])
        opt.export("t4", tmp_path / f"{name}.json")
    (tmp_path / "one.json").write_bytes((folder / "one.json").read_bytes())
    found, notes = find_spaces(tmp_path, "minimize")
    assert [one.name for one in found] == ["one"]
    assert "pair.json: random search finds the optimum at once" in notes[0]
    assert "rates.json: its values are to maximize, not to minimize" in notes[1]
    assert [one.name for one in find_spaces(tmp_path / "rates.json", "maximize")[0]] == ["rates"]


def test_a_recorded_space_may_have_conditional_parameters(tmp_path):
    space = Space(
        {"s": ["u", "v"], "n": [1, 2, 3], "m": [4, 5]}, when={"n": "s == 'v'", "m": "n > 1"}
    )
    optimizer = Optimizer(space, {"time": "minimize"}, strategy="exhaustive")
    for trial in optimizer.suggest(space.feasible_size):
        optimizer.observe(trial, 1.0 + trial.id)
    optimizer.export("t4", tmp_path / "table.json")
    (one,), _ = find_spaces(tmp_path, "minimize")
    assert one.space.feasible_size == space.feasible_size
    assert [one.row(trial.config) for trial in optimizer.trials] == list(range(len(one.entries)))
    assert one.row({"s": "u", "n": 1}) == OUTSIDE


def test_a_budget_too_small_to_score_is_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [
        "--strategies",
        "random_search",
        "--spaces",
        str(folder / "one.json"),
        "--repeats",
        "2",
    ]
    assert main(["compare", *given, "--budget", "1", "--out", str(tmp_path), "--jobs", "1"]) in (
        0,
        2,
    )
    assert "Traceback" not in capsys.readouterr().err


def test_a_description_beside_a_table_is_its_space(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(t4(5)))
    space = Space({"x": list(range(5)), "y": [1, 2]}, constraints=["x + y > 1"])
    (tmp_path / "t.space.json").write_text(json.dumps(space.to_dict()))
    (one,), notes = find_spaces(tmp_path, "minimize")
    assert not notes
    assert one.space == space


@pytest.mark.parametrize(
    "content", ["{}", "no JSON", json.dumps({"results": t4(5)["results"][:1]})]
)
def test_a_folder_without_a_usable_table_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(EvaluatorError, match=r"no recorded space in .*a\.json"):
        find_spaces(tmp_path, "minimize")
    with pytest.raises(EvaluatorError, match="no recorded space"):
        find_spaces(tmp_path / "nothing", "minimize")


def test_a_table_in_two_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(t4(5)))
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        json.dump(t4(5), file)
    with pytest.raises(EvaluatorError, match="'a' twice"):
        find_spaces(tmp_path, "minimize")


# Runs.


def test_a_run_evaluates_the_suggestions_of_its_strategy(recorded: list[RecordedSpace]) -> None:
    one = recorded[1]
    found = run_strategy(one, RunJob(one.source, LISTED, 0, RunBudget(30)))
    order = [one.row(config) for config in one.space.decode(one.space.feasible.listed)]
    assert found.rows.tolist() == order[:30]
    assert found.drawn is None
    assert found.cpu > 0


def test_a_run_ends_with_the_space(recorded: list[RecordedSpace]) -> None:
    one = recorded[1]
    found = run_strategy(one, RunJob(one.source, RANDOM, 0, RunBudget(1000)))
    assert len(found.rows) == len(set(found.rows.tolist())) == 76


def test_a_run_continues_until_its_time_is_spent(recorded: list[RecordedSpace]) -> None:
    one = recorded[1]
    short, long = (
        run_strategy(one, RunJob(one.source, RANDOM, 1, RunBudget(5, seconds)))
        for seconds in (0.0, 6.0)
    )
    assert len(short.rows) == 5
    assert long.rows[:5].tolist() == short.rows.tolist()
    times = np.cumsum(one.seconds[long.rows])
    assert times[-1] >= 6.0 > times[-2]
    assert (
        len(run_strategy(one, RunJob(one.source, RANDOM, 1, RunBudget(5, 1e9))).rows) == 15
    )  # but not for ever


def test_the_same_seed_is_the_same_run(recorded: list[RecordedSpace]) -> None:
    one = recorded[0]
    a, b, c = (
        run_strategy(one, RunJob(one.source, RANDOM, s, RunBudget(20), draw=True))
        for s in (1, 1, 2)
    )
    assert a.rows.tolist() == b.rows.tolist() != c.rows.tolist()
    np.testing.assert_array_equal(a.drawn, b.drawn)


def test_drawn_values_are_recorded_repeats(recorded: list[RecordedSpace]) -> None:
    one = recorded[1]
    found = run_strategy(one, RunJob(one.source, RANDOM, 3, RunBudget(40), draw=True))
    assert found.drawn is not None
    for row, cost in zip(found.rows.tolist(), found.drawn.tolist(), strict=True):
        entry = one.entries[row]
        assert np.isnan(cost) if entry.value is None else cost in entry.repeats
    fresh = [c for r, c in zip(found.rows, found.drawn, strict=True) if c != one.costs[r]]
    assert np.isfinite(fresh).any()


def test_configurations_outside_the_table_are_failures(tmp_path: Path) -> None:
    from baco_like import Space

    (tmp_path / "t.json").write_text(json.dumps(t4(3)))
    (tmp_path / "t.space.json").write_text(
        json.dumps(Space({"x": list(range(9)), "y": [1, 2]}).to_dict())
    )
    (one,), _ = find_spaces(tmp_path, "minimize")
    found = run_strategy(one, RunJob(one.source, RANDOM, 0, RunBudget(18)))
    assert (found.rows == OUTSIDE).sum() == 12
    first = int(np.argmax(np.isfinite(one.costs[found.rows])))
    (curve,) = curves_of([found], one)
    assert np.isnan(curve[:first]).all()
    assert np.isfinite(curve[first:]).all()


def test_with_noise_the_cost_is_the_recorded_cost_of_the_incumbent(
    recorded: list[RecordedSpace],
) -> None:
    one = recorded[1]
    ok = [row for row, entry in enumerate(one.entries) if entry.value is not None][:3]
    failing = next(row for row, entry in enumerate(one.entries) if entry.value is None)
    rows = [failing, ok[0], ok[1], ok[1], ok[2], ok[0]]
    drawn = [np.nan, 5.0, 4.0, 8.0, 7.0, 9.0]  # means: 5; 5, 4; 5, 6; 5, 6, 7; 7, 6, 7
    long = StrategyRun("one", "a", 0, np.array(rows), 0.0, np.array(drawn))
    short = replace(long, seed=1, rows=long.rows[:3], drawn=np.array(drawn[:3]))
    a, b = one.costs[ok[0]], one.costs[ok[1]]
    np.testing.assert_array_equal(
        curves_of([long, short], one), [[np.nan, a, b, a, a, b], [np.nan, a, b, b, b, b]]
    )


def test_penalised_candidates_can_be_charged() -> None:
    plain = StrategyRun("one", "a", 0, np.array([5, 6, 7]), 0.0)
    assert charge_penalised(plain) is plain
    found = charge_penalised(replace(plain, penalised=np.array([2, 2, 3])))
    assert found.rows.tolist() == [OUTSIDE, OUTSIDE, 5, 6, OUTSIDE, 7]
    assert found.penalised is None


# The store.


def specification(**changes: Any) -> ComparisonSpecification:
    parts = {
        "common": {"draw": False},
        "spaces": {"s": {"digest": "00", "evaluations": 5}},
        "contenders": {"a": {"strategy": "random_search", "settings": {}}},
    }
    return ComparisonSpecification(**{**parts, **changes})


def finished(seed: int, full: bool = False) -> StrategyRun:
    one = StrategyRun("s", "a", seed, np.array([3, OUTSIDE]), 0.25)
    if not full:
        return one
    return replace(one, drawn=np.array([1.5, np.nan]), penalised=np.array([0, 4]))


@pytest.mark.parametrize("full", [False, True])
def test_stored_runs_are_read_back(tmp_path: Path, full: bool) -> None:
    path = tmp_path / "runs.jsonl"
    store = RunStore.open(path, specification())
    for seed in range(3):
        store.add(finished(seed, full))
    again = RunStore.open(path, specification())
    assert list(again.runs) == [("s", "a", seed) for seed in range(3)]
    for key, one in again.runs.items():
        assert (one.key, one.cpu) == (key, 0.25)
        np.testing.assert_array_equal(one.rows, [3, OUTSIDE])
        np.testing.assert_array_equal(one.drawn, [1.5, np.nan] if full else None)
        np.testing.assert_array_equal(one.penalised, [0, 4] if full else None)
    again.add(finished(3, full))
    assert len(path.read_text().splitlines()) == 5


def test_torn_records_are_run_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    store = RunStore.open(path, specification())
    store.add(finished(0))
    whole = path.read_bytes()
    store.add(finished(1))
    for cut in (len(whole) + 1, len(path.read_bytes()) - 3):
        path.write_bytes(path.read_bytes()[:cut])
        again = RunStore.open(path, specification())
        assert list(again.runs) == [("s", "a", 0)]
        again.add(finished(1))
        assert path.read_bytes().startswith(whole)
        assert len(RunStore.open(path, specification()).runs) == 2


def test_a_store_can_be_extended(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    RunStore.open(path, specification()).add(finished(0))
    more = {"b": {"strategy": "exhaustive", "settings": {}}}
    assert RunStore.open(path, specification(contenders=more)).runs
    with pytest.raises(JournalError, match="strategy b: settings: x = None, now it is 1"):
        RunStore.open(
            path, specification(contenders={"b": {"strategy": "exhaustive", "settings": {"x": 1}}})
        )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"common": {"draw": True}}, "draw = False, now it is True"),
        (
            {"spaces": {"s": {"digest": "01", "evaluations": 5}}},
            "space s: digest = '00', now it is '01'",
        ),
        (
            {"spaces": {"s": {"digest": "00", "evaluations": 6}}},
            "space s: evaluations = 5, now it is 6",
        ),
        (
            {"contenders": {"a": {"strategy": "auto", "settings": {}}}},
            "strategy a: strategy = 'random_search'",
        ),
    ],
)
def test_a_changed_specification_is_rejected(tmp_path: Path, change: Any, told: str) -> None:
    path = tmp_path / "runs.jsonl"
    RunStore.open(path, specification()).add(finished(0))
    before = path.read_bytes()
    with pytest.raises(JournalError, match=told):
        RunStore.open(path, specification(**change))
    assert path.read_bytes() == before


def test_another_journal_is_rejected(tmp_path: Path) -> None:
    from baco_like import Optimizer, Space

    path = tmp_path / "run.jsonl"
    Optimizer(Space({"a": [1, 2]}), strategy="random_search", storage=path).suggest()
    before = path.read_bytes()
    with pytest.raises(JournalError, match="no finished runs"):
        RunStore.open(path, specification())
    assert path.read_bytes() == before


# All runs.


class Recorder:
    """A stream that is not a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """There is nothing to flush."""

    def isatty(self) -> bool:
        return False


def test_only_missing_runs_are_run(
    tmp_path: Path, recorded: list[RecordedSpace], monkeypatch: Any
) -> None:
    path = tmp_path / "runs.jsonl"
    plan = plan_of(recorded, evaluations=6)
    done_before = run_missing(plan.jobs, RunStore.open(path, plan.specification), 1, Recorder())
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:6]) + lines[6][:20])  # five runs and a torn one
    worked = []
    real = run_strategy

    def counted(one: RecordedSpace, job: RunJob) -> StrategyRun:
        worked.append(job.key)
        return real(one, job)

    monkeypatch.setattr("baco_like.benchmarking.comparison.runs.run_strategy", counted)
    stream = Recorder()
    again = run_missing(plan.jobs, RunStore.open(path, plan.specification), 1, stream)
    assert worked == [job.key for job in plan.jobs[5:]]
    assert [r.key for r in again] == [r.key for r in done_before] == [job.key for job in plan.jobs]
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(again, done_before, strict=True))
    assert "12/12  " in stream.text
    fewer = plan_of(recorded, evaluations=6, contenders=[LISTED], seeds=range(1, 3))
    stream = Recorder()
    assert len(run_missing(fewer.jobs, RunStore.open(path, fewer.specification), 1, stream)) == 4
    assert stream.text == ""


def test_a_comparison_from_python_keeps_its_runs_and_continues(
    tmp_path: Path, recorded: list[RecordedSpace]
) -> None:
    path = tmp_path / "runs.jsonl"
    fewer = compare(plan_of(recorded, evaluations=6, seeds=range(2)), path)
    assert fewer.counts.tolist() == [[2, 2], [2, 2]]
    first = path.read_bytes()
    plan = plan_of(recorded, evaluations=6)
    figures = compare(plan, path)
    assert path.read_bytes().startswith(first)
    assert figures.counts.tolist() == [[3, 3], [3, 3]]
    runs = list(RunStore.open(path, plan.specification).runs.values())
    budgets = {space.name: 6 for space in recorded}
    again = compute_figures(runs, recorded, budgets, np.random.default_rng(0))
    assert to_markdown(again) == to_markdown(figures)


def test_parallel_processes_give_the_same_runs(
    tmp_path: Path, recorded: list[RecordedSpace]
) -> None:
    plan = plan_of(recorded[:1], evaluations=5)
    found = [
        run_missing(
            plan.jobs, RunStore.open(tmp_path / f"{n}.jsonl", plan.specification), n, Recorder()
        )
        for n in (1, 2)
    ]
    for a, b in zip(*found, strict=True):
        assert a.key == b.key
        assert a.rows.tolist() == b.rows.tolist()


def test_an_error_in_a_process_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(run_parallel(divmod_by, [1, 0, 2], 2))


def divmod_by(n: int) -> tuple[int, int]:
    return divmod(1, n)


def test_the_budget_is_the_methodologys(recorded: list[RecordedSpace]) -> None:
    one = recorded[1]
    found = budget_on(one, None)
    assert found.evaluations == one.baseline.evaluations()[1]
    assert found.seconds == one.baseline.time_range()[1]
    assert budget_on(one, 7) == RunBudget(7)


# Figures.


def runs_of(recorded: list[RecordedSpace], label: str, best_first: bool) -> list[StrategyRun]:
    """Return runs that see the table's costs in ascending or in descending order."""
    found = []
    for one in recorded:
        order = np.argsort(one.costs[:-1])[: len(one.baseline.costs)]
        order = order if best_first else order[::-1]
        count = budget_on(one, None).evaluations
        for seed in SEEDS:
            rows = np.concatenate([order[:1], np.roll(order[1:], -seed)])[:count]
            found.append(StrategyRun(one.name, label, seed, rows, 0.01))
    return found


@pytest.fixture(scope="module")
def outcome(recorded: list[RecordedSpace]) -> Any:
    runs = runs_of(recorded, "worst", False) + runs_of(recorded, "best", True)
    budgets = {one.name: budget_on(one, None).evaluations for one in recorded}
    return compute_figures(runs, recorded, budgets, np.random.default_rng(0))


def test_finding_the_optimum_at_once_scores_1_and_the_worst_below_0(
    outcome: Any, recorded: list[RecordedSpace]
) -> None:
    for standings in (outcome.evaluations, outcome.time):
        assert standings["best"].score > 0.9
        assert standings["worst"].score < 0 < standings["best"].low <= standings["best"].score
        for one in standings.values():
            assert one.low <= one.high
            assert (one.band[0] <= one.band[1]).all()
            assert one.score == pytest.approx(np.mean(list(one.by_space.values())))
    assert outcome.wins.tolist() == [[0, 0], [2, 0]]
    assert [t.tolist() for t in outcome.win_counts] == [[0, 2], [2, 0]]
    assert outcome.counts.tolist() == [[3, 3], [3, 3]]
    assert outcome.fractions[1].min() > outcome.fractions[0].max()


def test_the_fraction_uses_the_final_cost(outcome: Any, recorded: list[RecordedSpace]) -> None:
    one = recorded[0]
    runs = [r for r in runs_of(recorded, "worst", False) if r.space == one.name]
    wanted = np.mean([one.baseline.optimum / np.nanmin(one.costs[r.rows]) for r in runs])
    assert outcome.fractions[0, 0] == pytest.approx(wanted)


def test_a_run_without_a_success_counts_as_the_worst(recorded: list[RecordedSpace]) -> None:
    one = recorded[1]
    failing = next(row for row, entry in enumerate(one.entries) if entry.value is None)
    curves = curves_of([StrategyRun("one", "a", 0, np.array([failing] * 3), 0.0)], one)
    assert final_costs(curves, one, 3).tolist() == [one.baseline.costs[-1]]


def test_the_clock_sums_the_recorded_times(recorded: list[RecordedSpace]) -> None:
    one = recorded[1]
    runs = [
        StrategyRun("one", "a", s, np.array(rows), 0.0)
        for s, rows in enumerate([[0, 4, OUTSIDE], [7]])
    ]
    times = clock(runs, one)
    assert times[0] == pytest.approx([one.seconds[0], *[one.seconds[0] + one.seconds[4]] * 2])
    assert times[1, 0] == one.seconds[7]
    assert np.isnan(times[1, 1:]).all()


def test_a_budget_corresponds_to_a_cutoff(recorded: list[RecordedSpace]) -> None:
    baseline = recorded[1].baseline
    assert cutoff_of(baseline, baseline.evaluations()[1]) == CUTOFF
    shares = [cutoff_of(baseline, n) for n in (1, 3, 6, 1000)]
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] == 1.0
    for n in (3, 6):
        assert abs(baseline.evaluations(cutoff_of(baseline, n))[1] - n) <= 2


def test_too_few_runs_are_an_error(recorded: list[RecordedSpace]) -> None:
    runs = [r for r in runs_of(recorded, "best", True) if r.seed == 0]
    with pytest.raises(ValueError, match="best has 1 runs on"):
        compute_figures(runs, recorded, {"one": 5, "deep/two": 5}, np.random.default_rng(0))


def test_the_table_has_every_figure(outcome: Any) -> None:
    text = to_markdown(outcome)
    assert text.index("| best |") < text.index("| worst |")
    assert f"{outcome.evaluations['best'].score:.3f} (" in text
    lines = list(csv.DictReader(to_csv(outcome).splitlines()))
    assert list(lines[0]) == list(COLUMNS)
    assert [(line["strategy"], line["space"]) for line in lines] == [
        (label, space) for label in ("worst", "best") for space in ("deep/two", "one", "all")
    ]
    assert float(lines[5]["score_evaluations"]) == pytest.approx(outcome.evaluations["best"].score)
    assert float(lines[5]["score_time_low"]) == pytest.approx(outcome.time["best"].low)
    assert lines[5]["wins"] == "2"
    assert lines[0]["losses"] == "1"


# The command.


def test_settings_follow_a_strategys_name() -> None:
    found = parse_contenders("random_search, kernel_tuner_bo:acquisition=ei:initial=5")
    assert [one.label for one in found] == [
        "random_search",
        "kernel_tuner_bo:acquisition=ei:initial=5",
    ]
    assert found[1].settings == {"acquisition": "ei", "initial": 5}
    assert create_strategy(found[1].strategy, found[1].settings) is not None


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("randm_search", "did you mean 'random_search'"),
        ("random_search:x=1", "no setting 'x'"),
        ("kernel_tuner_bo:initial", "needs the form name=value"),
        ("kernel_tuner_bo:acquisition=best", "is unknown"),
        ("random_search,random_search", "twice"),
        (",", "at least one"),
        ("random_search --repeats 1", "a whole number from 2"),
    ],
)
def test_a_wrong_strategy_ends_before_anything_is_written(
    given: str, told: str, folder: Path, tmp_path: Path, capsys: Any
) -> None:
    out = tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        main(
            [
                "compare",
                "--strategies",
                *given.split(" "),
                "--spaces",
                str(folder),
                "--out",
                str(out),
            ]
        )
    assert ended.value.code == 2
    assert told in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_without_spaces_ends_with_one_line(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    words = ["compare", "--strategies", "random_search", "--out", str(out)]
    assert main([*words, "--spaces", str(tmp_path / "nothing")]) == 2
    assert "no recorded space" in capsys.readouterr().err
    assert not out.exists()


def test_the_command_writes_all_files_and_continues(
    folder: Path, tmp_path: Path, capsys: Any
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    words = ["compare", "--strategies", "random_search,exhaustive", "--spaces", str(folder)]
    words += ["--jobs", "1", "--out", str(out), "--budget", "6", "--repeats"]
    assert main([*words, "2"]) == 0
    assert {path.name for path in out.iterdir()} == {
        *("runs.jsonl", "table.md", "scores.csv"),
        *("evaluations.png", "time.png", "wins.png"),
    }
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.glob("*.png"))
    assert (out / "table.md").read_text() in capsys.readouterr().out
    kept = (out / "runs.jsonl").read_bytes()
    assert main([*words, "3"]) == 0
    assert (out / "runs.jsonl").read_bytes().startswith(kept)
    assert len((out / "runs.jsonl").read_text().splitlines()) == 1 + 3 * 2 * 2
    assert main([*words[:-2], "7", "--repeats", "2"]) == 2
    assert "evaluations = 6, now it is 7" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_comparison_continues(
    folder: Path, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out"
    words = ["--strategies", "random_search", "--spaces", str(folder), "--budget", "30"]
    words += ["--out", str(out), "--repeats"]
    command = [sys.executable, "-m", "baco_like", "compare", *words]
    with subprocess.Popen(
        [*command, "3000"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        runs = out / "runs.jsonl"
        ends = time.monotonic() + 200
        while not (runs.exists() and runs.read_bytes().count(b"\n") > 8):
            assert time.monotonic() < ends
            time.sleep(0.02)
        process.send_signal(number)
        said, _ = process.communicate(
            timeout=200
        )  # at their end, not before, the children close the pipe
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "interrupted" in said
    kept = runs.read_bytes()
    assert main(["compare", *words, "2", "--jobs", "1"]) == 0
    assert runs.read_bytes().startswith(kept[: kept.rindex(b"\n") + 1])


# Progress.


def test_lines_show_the_count_and_the_time_left(monkeypatch: Any) -> None:
    now = [100.0]
    monkeypatch.setattr("baco_like.running.progress.time.monotonic", lambda: now[0])
    stream = Recorder()
    lines = Display(stream, 10, done=4, interval=10.0)
    for done, step in ((5, 30.0), (6, 1.0), (7, 20.0)):
        now[0] += step
        lines.show(done, "a on b")
    assert stream.text.splitlines() == [
        " 5/10  a on b, 150 s left",
        " 7/10  a on b, 51 s left",
    ]


def test_a_closed_stream_does_not_end_the_comparison(capfd: Any) -> None:
    class Gone(Recorder):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            raise OSError

    display = Display(Gone(), 2, "run")
    display.show(1, "a")
    display.show(2, "b")
    display.close()


def test_a_terminal_gets_a_bar() -> None:
    pytest.importorskip("tqdm")

    class Terminal(Recorder):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    display = Display(stream, 5, "run", done=3)
    display.show(4, "a on b")
    display.close()
    assert "4/5" in stream.text
