"""The papers' benchmark on two tiny recorded spaces, and its small statistics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from scipy import stats

QUALITY = Path(__file__).parents[2] / "benchmarks" / "quality"


@pytest.fixture(scope="module")
def claims() -> Any:
    """Import the benchmark's modules as its scripts do."""
    sys.path.insert(0, str(QUALITY))
    try:
        import claims
        import claims.difficulty
        import claims.statistics
        import claims.survey
        import other_packages
    finally:
        sys.path.remove(str(QUALITY))
    assert other_packages.PACKAGES
    return claims


def table(shift: int) -> dict[str, Any]:
    rows = []
    for x in range(6):
        for y in range(6):
            for z in range(2):
                value = 10.0 + (x - 3) ** 2 + (y - shift) ** 2 + 0.1 * x * y + z
                excluded = x + y > 8
                rows.append(
                    {
                        "configuration": {"x": x, "y": y, "z": z, "c": 1},
                        "times": {"compilation": 100.0, "runtimes": [value, value + 0.1]},
                        "invalidity": "constraints" if excluded else "correct",
                        "measurements": [{"name": "time", "value": value, "unit": "ms"}],
                        "objectives": ["time"],
                    }
                )
    return {"schema_version": "1.0.0", "metadata": {}, "results": rows}


def script(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return forked.run("-W", "error", QUALITY / "papers.py", *arguments, env=environment)


def test_every_part_reports_and_continues(tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    for shift in (1, 4):
        (tmp_path / "recorded" / f"{shift}.json").write_text(json.dumps(table(shift)))
    out = tmp_path / "rows.jsonl"
    words = ("--data", str(tmp_path), "--out", str(out), "--quick", "--seeds", "2")
    words += ("--budget", "25", "--processes", "1")
    parts = "constraints,survey,stochastic,difficulty"
    done = script(*words, "--parts", parts)
    assert done.returncode == 0, done.stderr[-2000:]
    for told in (
        "| GA |",
        "+0.801",
        "the paper: first is better",
        "Rank correlation",
        "dual annealing is number",
        "Chance costs",
        "C_p, p = 5 %",
        "too few spaces",
        "Left out (more than 25 evaluations)",
    ):
        assert told in done.stdout, told
    kept = out.read_bytes()
    out.write_bytes(kept[:-30])  # as a crash leaves it
    again = script(*words, "--parts", "difficulty")
    assert again.returncode == 0, again.stderr[-2000:]
    title = "## Difficulty of a space (2022, section VII)"
    assert again.stdout.split(title)[1] == done.stdout.split(title)[1]
    out.write_bytes(kept)
    (tmp_path / "recorded" / "1.json").write_text(json.dumps(table(2)))
    refused = script(*words, "--parts", "difficulty")
    assert refused.returncode == 1
    assert "problem 1 = " in refused.stderr


def test_pyatf_runs_on_its_own_tree(tmp_path: Path) -> None:
    pytest.importorskip("pyatf")
    (tmp_path / "recorded").mkdir()
    (tmp_path / "recorded" / "a.json").write_text(json.dumps(table(4)))
    words = ("--data", str(tmp_path), "--out", str(tmp_path / "rows.jsonl"), "--quick")
    done = script(*words, "--parts", "pyatf", "--seeds", "2", "--processes", "1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "| pyATF round robin |" in done.stdout
    assert "0.342 against -2.361" in done.stdout
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    theirs = [row for row in rows if row.get("label", "").startswith("pyATF")]
    assert len(theirs) == 12
    for row in theirs:
        assert len(set(row["rows"])) == len(row["rows"]) > 0
        assert min(row["rows"]) >= 0  # its tree has no configuration that constraints exclude


@pytest.mark.parametrize("name", ["scikit-optimize", "bayesian-optimization"])
def test_bayesian_packages_propose_what_constraints_exclude(
    claims: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"scikit-optimize": "skopt", "bayesian-optimization": "bayes_opt"}[name])
    import other_packages

    from baco_like.benchmarking.problems.problem import OUTSIDE
    from baco_like.benchmarking.problems.recorded import find_recorded
    from baco_like.benchmarking.studies import Contender, RunBudget
    from baco_like.benchmarking.studies.runs import RunJob

    asked = []
    propose = other_packages._config

    def counted(*arguments: Any) -> Any:
        asked.append(propose(*arguments))
        return asked[-1]

    monkeypatch.setattr(other_packages, "FIRST", 12)
    monkeypatch.setattr(other_packages, "_config", counted)
    (tmp_path / "a.json").write_text(json.dumps(table(4)))
    (one,), _ = find_recorded(tmp_path, "minimize")
    run = other_packages.do(RunJob(one, Contender(name, name), 1, RunBudget(14)))
    assert len(asked) == 14
    assert len(run.rows) == len({tuple(config.values()) for config in asked})
    failed = np.isnan(one.costs[run.rows])
    assert failed.any()
    assert not failed.all()
    assert (run.rows != OUTSIDE).all()  # the table has the excluded ones, as failures


def test_rank_correlation_and_what_chance_reaches(claims: Any) -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    a, b = rng.integers(5, size=12), rng.normal(size=12)
    spearman = claims.survey.spearman
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert np.isnan(spearman([1, 1, 1], [1, 2, 3]))
    critical = claims.difficulty.critical_rho
    assert critical(6) == pytest.approx(0.886, abs=5e-4)  # the tables' value for 5 %, two-sided
    assert critical(7) == pytest.approx(0.786, abs=5e-4)
    assert critical(4) == pytest.approx(1.0)  # of four nothing less is rare enough


def test_penalised_candidates_can_be_charged(claims: Any) -> None:
    from baco_like.benchmarking.studies.runs import StrategyRun

    charge = sys.modules["claims.evidence"].charge_penalised
    costs, rows = np.array([2.0, 1.0, 3.0]), np.array([5, 6, 7])
    plain = StrategyRun("one", "a", 0, costs, 0.0, rows)
    assert charge(plain) is plain
    log = [{"tag": {"penalised": count}} for count in (2, 2, 3)]
    found = charge(StrategyRun("one", "a", 0, costs, 0.0, rows, log))
    assert found.rows.tolist() == [-1, -1, 5, 6, -1, 7]
    assert np.isnan(found.costs).tolist() == [True, True, False, False, True, False]
    assert not found.log


@pytest.mark.parametrize("seed", range(9))
def test_wins_agree_with_scipy(claims, seed):
    rng = np.random.default_rng(seed)
    samples = [rng.normal(rng.uniform(0, 1), 1, rng.integers(2, 20)) for _ in range(4)]
    table = claims.statistics.significant_wins(samples)
    for i, a in enumerate(samples):
        for j, b in enumerate(samples):
            expected = i != j and stats.ttest_ind(a, b).pvalue < 0.05 and a.mean() < b.mean()
            assert table[i, j] == expected


def test_wins_without_spread(claims):
    table = claims.statistics.significant_wins([[1.0, 1.0], [2.0, 2.0], [1.0, 1.0]])
    assert table.tolist() == [[False, True, False], [False, False, False], [False, True, False]]
    with pytest.raises(ValueError, match=r"samples\[1\]"):
        claims.statistics.significant_wins([[1.0, 1.0], [1.0, np.inf]])


def test_bootstrap_intervals_have_the_nominal_coverage(claims):
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(120):
        sample = rng.normal(3.0, 1.0, 40)
        low, high = claims.statistics.bootstrap_interval(
            lambda s: s[0].mean(), [sample], rng, resamples=120
        )
        hits += low < 3.0 < high
    assert 100 <= hits < 120
    with pytest.raises(ValueError, match="level"):
        claims.statistics.bootstrap_interval(lambda s: 0.0, [np.ones(2)], rng, level=1.0)


def test_published_values_are_beside_ours(claims: Any) -> None:
    sys.path.insert(0, str(QUALITY))
    try:
        import published
    finally:
        sys.path.remove(str(QUALITY))
    assert published.beside(220, 219.6, ".0f") == ["220", "220", "-0"]
    assert published.with_interval(0.5, (0.7, 0.6, 0.8), ".1f", 9) == ["0.5", "0.7", "+0.2"]
    assert published.with_interval(0.5, (0.7, 0.6, 0.8), ".1f", 10)[1] == "0.7 (0.6 to 0.8)"
    costs = np.random.default_rng(0).permutation(30).astype(float)
    rows = tuple((i,) for i in range(30))
    space = published.Surveyed("line", {"x": tuple(range(31))}, dict(zip(rows, costs, strict=True)))
    graph = published.flow_graph(space.recording())
    assert (len(graph.costs), np.count_nonzero(~graph.ran)) == (31, 1)  # the last one fails
    early = published.early_pagerank(graph)
    assert early.sum() == pytest.approx(1.0)
    assert 0 < np.abs(early - graph.centrality).max() < 1e-4


def test_a_foreign_tool_receives_a_configuration_of_any_space(claims: Any) -> None:
    pytest.importorskip("optuna")
    from baco_like.benchmarking.problems import load_problem

    sys.path.insert(0, str(QUALITY))
    try:
        from peers.ask_tell import AskTell
    finally:
        sys.path.remove(str(QUALITY))
    for name in ("hartmann_order", "conditional_nested", "branin_order"):
        problem = load_problem(name)
        tool = AskTell(problem, 0, 10)
        params = {
            key: each.choices[-1] if hasattr(each, "choices") else each.low
            for key, each in tool.distributions.items()
        }
        config = tool.config(params)
        assert problem.space.contains(config) == tool.is_feasible(params) is True
    assert (tool.cost(None), tool.cost(3.0), tool.cost(2.0), tool.cost(None)) == (
        1.0,
        3.0,
        2.0,
        3.0,
    )
