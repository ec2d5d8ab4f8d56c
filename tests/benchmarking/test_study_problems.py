"""Problems of studies: functions, the standard problems, and recorded files."""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_table import t4

from baco_like import Optimizer, Space, StrategyError
from baco_like.benchmarking import problems, study
from baco_like.benchmarking.problems.problem import OUTSIDE
from baco_like.benchmarking.problems.recorded import RecordedProblem, find_recorded
from baco_like.benchmarking.studies import find_problems
from baco_like.exceptions import EvaluatorError


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
def one(folder: Path) -> RecordedProblem:
    (found,), notes = find_recorded(folder / "one.json", "minimize")
    assert not notes
    return found


def test_recorded_files_are_found_in_folders_and_others_are_noted(
    folder: Path, one: RecordedProblem
) -> None:
    found, notes = find_problems([folder, "branin"])
    assert [each.name for each in found] == ["deep/two", "one", "branin"]
    assert found[1].digest == one.digest
    (note,) = notes
    assert "notes.json" in note


def test_a_recorded_problem_excludes_rows_that_violate_known_constraints(
    one: RecordedProblem,
) -> None:
    words = [entry.failed for entry in one.entries]
    assert one.space.feasible_size == len(words) - words.count("constraints") == 76
    assert one.baseline.failures == words.count("runtime") == 8
    assert len(one.baseline.costs) == 68


def test_outcomes_costs_and_seconds_by_row(one: RecordedProblem) -> None:
    rng = np.random.default_rng(0)
    fresh = 0
    for row, (values, entry) in enumerate(one.recorded.entries.items()):
        config = dict(zip(one.recorded.names, values, strict=True))
        outcome, at, seconds = one.evaluate(row, config, None)
        assert (at, outcome.value, outcome.trial_id) == (row, entry.value, row)
        assert seconds == one.seconds[row] == pytest.approx(sum(entry.seconds.values()))
        assert np.isnan(one.costs[row]) if entry.value is None else one.costs[row] == entry.value
        drawn = one.evaluate(row, config, rng).outcome.value
        assert drawn is None if entry.value is None else drawn in entry.repeats
        fresh += drawn not in (None, entry.value)
    assert fresh
    outcome, at, seconds = one.evaluate(0, {"x": 999, "y": 1}, rng)
    assert (outcome.failed, at, seconds) == ("constraints", OUTSIDE, 0)
    assert np.isnan(one.costs[OUTSIDE])


def test_other_processes_read_a_recorded_problem_once(one: RecordedProblem) -> None:
    copies = [pickle.loads(pickle.dumps(one)) for _ in range(2)]
    assert copies[0] is copies[1]
    np.testing.assert_array_equal(copies[0].costs, one.costs)


def test_maximising_negates_the_costs(folder: Path, one: RecordedProblem) -> None:
    (up,), _ = find_problems([folder / "one.json"], "maximize")
    np.testing.assert_array_equal(up.costs, -one.costs)
    assert (one.direction, up.direction) == ("minimize", "maximize")
    assert (one.best_value, up.best_value) == (np.nanmin(one.costs), np.nanmax(one.costs))


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
    found, notes = find_recorded(tmp_path, "minimize")
    assert [each.name for each in found] == ["one"]
    assert "pair.json: random search finds the optimum at once" in notes[0]
    assert "rates.json: its values are to maximize, not to minimize" in notes[1]
    found, notes = find_recorded(tmp_path)  # each file has its own direction
    assert {p.name: p.direction for p in found} == {"one": "minimize", "rates": "maximize"}
    (rates_again,) = (p for p in found if p.name == "rates")
    assert rates_again.best_value == rates_again.baseline.costs[0] * -1 == 40.0
    result = study(["random_search"], [rates_again], 2)
    assert result.figures.evaluations["random_search"].score > -1
    assert result.figures.row("random_search", "rates")["regret"] >= 0


def test_a_recorded_space_may_have_conditional_parameters(tmp_path: Path) -> None:
    space = Space(
        {"s": ["u", "v"], "n": [1, 2, 3], "m": [4, 5]}, when={"n": "s == 'v'", "m": "n > 1"}
    )
    optimizer = Optimizer(space, {"time": "minimize"}, strategy="exhaustive")
    for trial in optimizer.suggest(space.feasible_size):
        optimizer.observe(trial, 1.0 + trial.id)
    optimizer.export("t4", tmp_path / "table.json")
    (found,), _ = find_recorded(tmp_path, "minimize")
    assert found.space.feasible_size == space.feasible_size
    rows = [found.row(trial.config) for trial in optimizer.trials]
    assert rows == list(range(len(found.entries)))
    assert found.row({"s": "u", "n": 1}) == OUTSIDE


def test_a_description_beside_a_table_is_its_space(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(t4(5)))
    space = Space({"x": list(range(5)), "y": [1, 2]}, constraints=["x + y > 1"])
    (tmp_path / "t.space.json").write_text(json.dumps(space.to_dict()))
    (found,), notes = find_recorded(tmp_path, "minimize")
    assert not notes
    assert found.space == space


@pytest.mark.parametrize(
    "content", ["{}", "no JSON", json.dumps({"results": t4(5)["results"][:1]})]
)
def test_a_folder_without_a_usable_table_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(EvaluatorError, match=r"no recorded space in .*a\.json"):
        find_recorded(tmp_path, "minimize")
    with pytest.raises(EvaluatorError, match="no recorded space"):
        find_recorded(tmp_path / "nothing", "minimize")


def test_a_table_in_two_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(t4(5)))
    with gzip.open(tmp_path / "a.json.gz", "wt") as file:
        json.dump(t4(5), file)
    with pytest.raises(EvaluatorError, match="'a' twice"):
        find_recorded(tmp_path, "minimize")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("brannin", "did you mean 'branin'"),
        ("no_such_module:f", "cannot import 'no_such_module'"),
        ("math:tau_of_nothing", "the module 'math' has no 'tau_of_nothing'"),
        ("math:pi", "must be a FunctionProblem, or a function with a Space"),
        (len, "a function with a Space as its attribute"),
    ],
)
def test_a_wrong_problem_is_explained(name: Any, message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        find_problems([name])


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_no_draw_of_a_standard_problem_is_better_than_its_optimum(name: str) -> None:
    problem = problems.load_problem(name)
    configs = problem.space.sample(100, seed=1)
    values = np.array([problem(config) for config in configs], dtype=float)
    assert np.isfinite(values).any()
    copy = pickle.loads(pickle.dumps(problem))
    assert copy(configs[0]) == pytest.approx(values[0], nan_ok=True)
    if not name.startswith(("flags", "mixed_0", "mixed_1")) or name.startswith("mixed_14"):
        assert problem.best_value is not None
        assert problem.best_value <= np.nanmin(values) + 1e-9


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("branin", {"x": np.pi, "y": 2.275}),
        ("hartmann_3", {"x0": 0.114614, "x1": 0.555649, "x2": 0.852547}),
        # Ranks of the coordinates 0.2017, 0.1500, 0.4769, 0.2753, 0.3117, 0.6573.
        ("hartmann_order", {"order": (1, 0, 4, 2, 3, 5)}),
    ],
)
def test_published_optima(name: str, config: dict[str, Any]) -> None:
    problem = problems.load_problem(name)
    assert problem(config) == pytest.approx(problem.best_value, abs=1e-4)


def test_two_fifths_of_mixed_14_fail() -> None:
    problem = problems.load_problem("mixed_14_0")
    values = [problem(config) for config in problem.space.sample(1000, seed=3)]
    assert len(problem.space.names) == 14
    assert 0.35 < np.isnan(values).mean() < 0.45
