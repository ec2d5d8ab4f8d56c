"""The suite: the figure of merit, problems without a table, the script."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest

from baco_like.benchmarking.problems import orders

QUALITY = Path(__file__).parents[2] / "benchmarks" / "quality"


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(QUALITY))
    try:
        names = ("suite", "peers.valued", "peers.problem", "peers.problems")
        yield {name.split(".")[-1]: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(QUALITY))


def test_random_runs_have_an_area_of_one(modules: dict[str, Any]) -> None:
    suite, problem = modules["suite"], modules["problems"].problem("hidden", None)
    rng = np.random.default_rng(0)
    draws = [rng.permutation(problem.costs)[:20] for _ in range(2000)]
    values = [[None if np.isnan(cost) else cost for cost in run] for run in draws]
    scored = suite.Scored(problem, values, 20)
    assert scored.mean == pytest.approx(1.0, abs=0.03)
    assert not scored.is_worse_than(1.0)


def test_a_run_that_begins_at_the_optimum_has_an_area_of_zero(modules: dict[str, Any]) -> None:
    suite, problem = modules["suite"], modules["problems"].problem("hidden", None)
    scored = suite.Scored(problem, [[problem.best, None, 1.0]] * 3, 20)
    assert scored.mean == 0.0
    worst = suite.Scored(problem, [[float(np.nanmax(problem.costs))]] * 3, 20)
    assert worst.is_worse_than(1.0)
    assert worst.is_worse_than(scored)


def tour(modules: dict[str, Any]) -> Any:
    """Return a tour of six cities as a problem without a table."""
    found = orders.tour(6)
    return modules["valued"].valued(
        "tour_6", "orders", found.space, found.function, found.best_value
    )


def test_the_optimum_of_a_tour_is_the_shortest_feasible_one(modules: dict[str, Any]) -> None:
    problem = tour(modules)
    orders = [{"order": order} for order in permutations(range(6))]
    lengths = [problem.evaluate(one) for one in orders if problem.space.contains(one)]
    assert problem.optimum == pytest.approx(min(lengths))
    assert len(lengths) < 720


def test_configurations_without_a_table_are_numbered_once(modules: dict[str, Any]) -> None:
    problem = tour(modules)
    row = (
        tuple(
            problem.space.decode(problem.space.feasible.sample(1, np.random.default_rng(0)))[0][
                "order"
            ]
        ),
    )
    number = problem.number[row]
    assert problem.number[row] == number
    assert problem.cost(number) == problem.evaluate({"order": row[0]})
    backwards = (row[0][::-1],)
    assert problem.number.get(backwards) == modules["problem"].OUTSIDE


def test_the_script_scores_and_continues(tmp_path: Path) -> None:
    rows, table = tmp_path / "rows.jsonl", tmp_path / "suite.md"
    command = [str(QUALITY / "suite.py"), "--budget", "12", "--processes", "1"]
    command += ["--spaces", "hidden,tour_8", "--peers", "random", "--out", str(rows)]
    environment = {**os.environ, "PYTHONPATH": str(QUALITY.parents[1]), "OMP_NUM_THREADS": "1"}
    environment.pop("BACO_LIKE_DATA", None)
    for seeds in ("1", "2"):
        arguments = [*command, "--seeds", seeds, "--table", str(table)]
        forked.run(*arguments, env=environment).check_returncode()
    written = [json.loads(line) for line in rows.read_text().splitlines()]
    assert [(row["space"], row["seed"]) for row in written] == [
        ("hidden", 0),
        ("tour_8", 0),
        ("hidden", 1),
        ("tour_8", 1),
    ]
    assert "| random | 2 | 2 |" in table.read_text()
