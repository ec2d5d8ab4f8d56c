"""The comparison with other packages: what is counted, the figures, each peer on a tiny space, the script."""

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

from baco_like import Ordinal, Permutation, Space
from baco_like.benchmarking.problems import orders, tables

QUALITY = Path(__file__).parents[2] / "benchmarks" / "quality"


@pytest.fixture(scope="module")
def peers() -> Iterator[Any]:
    sys.path.insert(0, str(QUALITY))
    try:
        for name in ("figures", "measure", "modelled", "problems"):
            importlib.import_module(f"peers.{name}")
        yield importlib.import_module("peers")
    finally:
        sys.path.remove(str(QUALITY))


@pytest.fixture(scope="module")
def tiny(peers: Any) -> Any:
    """A space of 6 x 6 x 2 of which a constraint excludes some and some fail."""
    space = Space(
        {
            "x": Ordinal([1, 2, 4, 8, 16, 32]),
            "y": Ordinal([1, 2, 4, 8, 16, 32]),
            "order": Permutation(["i", "j"]),
        },
        constraints=["x * y <= 256"],
    )
    rows = [tuple(config.values()) for config in space.decode(space.feasible.listed)]
    cost = [
        1.0 + abs(np.log2(x) - 3) + abs(np.log2(y) - 2) + (order[0] == "j") for x, y, order in rows
    ]
    fails = [x == 32 for x, _, _ in rows]
    return peers.problem.Problem(
        "tiny", "synthetic", space, rows, np.where(fails, np.nan, np.array(cost))
    )


def test_only_new_configurations_that_are_allowed_are_counted(peers: Any, tiny: Any) -> None:
    measure = peers.measure.Measure(tiny, 3)
    outside = tiny.row_of([5, 5, 0])
    assert outside == peers.problem.OUTSIDE
    failing, good = tiny.row_of([5, 0, 0]), tiny.row_of([3, 2, 0])
    assert measure(outside) is None
    assert measure(failing) is None
    assert measure(good) == measure(good) == 1.0
    with pytest.raises(peers.measure.Spent):
        measure(tiny.row_of([0, 0, 1]))
    row = measure.row()
    assert row["values"] == [None, 1.0, 7.0]
    assert (row["excluded"], row["repeated"]) == (1, 1)


def test_who_asks_for_the_same_for_ever_is_stopped(peers: Any, tiny: Any) -> None:
    measure = peers.measure.Measure(tiny, 2)
    for _ in range(2 * peers.measure.PATIENCE - 1):
        measure(0)
    with pytest.raises(peers.measure.Spent):
        measure(0)
    assert len(measure.seen) == 1
    assert 1 + measure.repeated == peers.measure.PATIENCE * 2


def test_a_run_without_end_is_stopped_by_its_cpu_even_where_that_is_caught(
    peers: Any, tiny: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught = []

    def endless(measure: Any, seed: int) -> None:
        measure(0)
        while True:
            try:
                while True:
                    pass
            except Exception:
                caught.append(seed)
                if len(caught) == 2:
                    raise

    peer = peers.Peer("endless", "endless", "endless")
    monkeypatch.setattr(peers.Peer, "run", property(lambda _: endless))
    row = peers.run(peer, tiny, 7, 5, 0.05)
    assert row["stopped"]
    assert caught == [7, 7]
    assert row["values"] == [6.0]
    assert peers.figures.known_until({**row, "budget": 5}) == 1


@pytest.mark.parametrize(
    ("label", "package"),
    [
        ("auto", "baco_like"),
        ("Kernel Tuner GA", "kernel_tuner"),
        ("Kernel Tuner PSO", "kernel_tuner"),
        ("pyATF DE", "pyatf"),
        ("Optuna TPE", "optuna"),
        ("scikit-optimize GP", "skopt"),
    ],
)
def test_a_peer_finds_its_way(peers: Any, tiny: Any, label: str, package: str) -> None:
    pytest.importorskip(package)
    found = [peers.run(peers.PEERS[label], tiny, seed, 12, 60.0) for seed in (1, 1, 2)]
    values = [row["values"] for row in found]
    assert values[0] == values[1] != values[2]
    assert all(len(one) == 12 for one in values)
    assert None in values[0] + values[2] or label == "auto"
    if package in ("baco_like", "kernel_tuner", "pyatf", "skopt"):
        assert all(row["excluded"] == 0 for row in found)


def test_pyatf_has_the_whole_space(peers: Any, tiny: Any) -> None:
    pytest.importorskip("pyatf")
    module = importlib.import_module("peers.pyatf")
    assert module.tree(tiny).constrained_size == len(tiny.rows) == 66


def made(values: list[float | None], budget: int, **others: Any) -> dict[str, Any]:
    asked = [10 * (i + 1) for i in range(len(values) // 10)]
    clock = [0.01 * n for n in asked]
    told = {"values": values, "budget": budget, "stopped": False, "cpu": clock, "asked": asked}
    return {**told, **others}


def test_runs_that_are_too_short_do_not_count(peers: Any, tiny: Any) -> None:
    figures = peers.figures
    long, short = made([2.0] * 8, 8), made([1.0] * 4, 4)
    ended, stopped = made([3.0] * 4, 8), made([4.0] * 4, 8, stopped=True)
    runs = figures.Runs(tiny, [long, short, ended, stopped])
    assert len(runs.lasting(4).rows) == 4
    assert runs.lasting(5).rows == [long, ended]
    assert runs.lasting(9).rows == [ended]  # it keeps its best


def test_runs_that_are_too_short_can_have_been_at_the_optimum_from_then_on(
    peers: Any, tiny: Any
) -> None:
    figures, optimum = peers.figures, tiny.baseline.optimum
    long, short = made([3.0] * 8, 8), made([None, 2.5], 2)
    ended, stopped = made([3.0] * 4, 8), made([4.0] * 3, 8, stopped=True)
    runs = figures.Runs(tiny, [long, short, ended, stopped]).at_most()
    assert runs.lasting(10**9).rows == runs.rows
    found = runs.costs([2, 3, 4, 8, 9, 300])
    o = optimum
    assert found.tolist() == [
        [3.0, 3.0, 3.0, 3.0, o, o],
        [2.5, o, o, o, o, o],
        [3.0] * 6,
        [4.0, 4.0, o, o, o, o],
    ]


def test_scores_agree_with_the_definition(peers: Any, tiny: Any) -> None:
    base = tiny.baseline
    first, last = base.evaluations()
    steady = [made([5.0, 2.0] + [2.0] * last, last)] * 2
    runs = peers.figures.Runs(tiny, steady)
    at = np.arange(first, last + 1)
    random = base.at_evaluations(at)
    expected = np.mean(((random - 2.0) / (random - 1.0))[random > 1.0])
    for mean in (False, True):
        found = peers.figures.overall([runs], peers.figures.FULL, mean)
        assert found.value == found.low == found.high == pytest.approx(expected)
    assert runs.evaluations_to(2.0) == 2
    assert runs.evaluations_to(1.5) == np.inf
    assert runs.fractions(1) == pytest.approx(1 / 5)
    assert peers.figures.milliseconds_to([runs], 10) == pytest.approx(10.0)


def test_what_is_expected_of_random_is_the_mean_of_random_runs(peers: Any, tiny: Any) -> None:
    rng = np.random.default_rng(0)
    rows = [
        {"values": [None if np.isnan(v) else float(v) for v in rng.permutation(tiny.costs)[:20]]}
        for _ in range(4000)
    ]
    runs = peers.figures.Runs(tiny, rows)
    each = runs.mean_scores(20)
    assert abs(each.mean() - runs.random_score(20)) < 4 * each.std() / np.sqrt(len(each))
    at = np.arange(1, 6)
    np.testing.assert_allclose(runs.costs(at).mean(axis=0), runs.expected_of_random(at), rtol=0.02)


def test_never_better_than_the_worst_is_worse_than_random(peers: Any, tiny: Any) -> None:
    last = tiny.evaluations
    worst = peers.figures.Runs(tiny, [made([None] * last, last)])
    worse, counted = worst.worse_than_random(peers.figures.FULL)
    assert worse == counted > 1
    best = peers.figures.Runs(tiny, [made([1.0] * last, last)])
    assert best.worse_than_random(peers.figures.FULL) == (0, counted)


@pytest.mark.parametrize("name", ["flags", "tiles", "passes"])
def test_listed_problems_are_reproducible_and_have_rare_optima(name: str) -> None:
    space, costs = getattr(tables, name)()
    assert len(costs) == space.feasible.count
    assert np.array_equal(costs, getattr(tables, name)()[1], equal_nan=True)
    failing = np.isnan(costs).mean()
    assert 0.3 < failing < 0.6 if name == "flags" else failing == 0
    some = costs[~np.isnan(costs)]
    assert 0 < some.min() < 0.3 * np.median(some)


@pytest.mark.parametrize(
    ("name", "rows", "failing"),
    [
        ("gemm", 116_928, (0, 0)),
        ("hotspot", 82_984, (0, 0)),
        ("pnpoly", 4_092, (0.070, 0)),
        ("expdist", 122_304, (0.356, 0.241)),
    ],
)
def test_modelled_kernels_are_what_they_are(
    peers: Any, name: str, rows: int, failing: tuple[float, float]
) -> None:
    make = getattr(peers.modelled, name)
    for device, share in zip((peers.modelled.NARROW, peers.modelled.WIDE), failing, strict=True):
        space, costs = make(device)
        assert len(costs) == space.feasible.count == rows
        assert np.array_equal(costs, make(device)[1], equal_nan=True)
        assert np.isnan(costs).mean() == pytest.approx(share, abs=5e-4)
        some = costs[~np.isnan(costs)]
        assert 0 < some.min() < 0.6 * np.median(some)


def test_a_block_that_does_not_fit_runs_nowhere(peers: Any) -> None:
    device = peers.modelled.NARROW
    rows = [[1024, 32, 0], [1024, 255, 0], [32, 32, 49_152], [32, 32, 49_153]]
    threads, registers, shared = np.array(rows).T
    assert device.blocks(threads, registers, shared).tolist() == [1, 0, 2, 0]


def script(*arguments: str) -> str:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("BACO_LIKE_DATA", None)
    done = forked.run("-W", "error", QUALITY / "compare.py", *arguments, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stderr


def test_the_script_writes_a_table_and_goes_on(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out, table = tmp_path / "rows.jsonl", tmp_path / "compare.md"
    few = ("--spaces", "hidden", "--peers", "auto,random", "--processes", "1", "--out", str(out))
    script(*few, "--seeds", "1", "--budget", "44")
    kept = out.read_text()
    script(*few, "--seeds", "2", "--budget", "44", "--table", str(table))
    assert out.read_text().startswith(kept)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["peer"], row["seed"]) for row in rows] == [
        (peer, seed) for seed in (0, 1) for peer in ("auto", "random")
    ]
    assert all(len(row["values"]) == row["budget"] == 44 for row in rows)
    text = table.read_text()
    assert "| auto | 2 |" in text
    assert "Recorded compiler spaces" in text
    assert len(list(tmp_path.glob("compare_*.png"))) == 3


# ---- The suite: the figure of merit, problems without a table, the script ----


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
