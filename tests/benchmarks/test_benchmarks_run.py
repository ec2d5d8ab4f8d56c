from __future__ import annotations

import gzip
import json
import os
import runpy
import shutil
import sys
from collections import Counter
from pathlib import Path

import forked
import numpy as np
import pytest

from baco_like import Space
from baco_like.evaluators.replay import load

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
RECORDED = BENCHMARKS / "recorded"
LOOP_NEST = ROOT / "examples" / "kernels" / "c_loop_nest.py"
DATA = Path(os.environ.get("BACO_LIKE_DATA", ROOT.parent / "shared" / "data"))
SCRIPTS = sorted(
    path for path in BENCHMARKS.rglob("*.py") if "__main__" in path.read_text(encoding="utf-8")
)


def script(path: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = forked.run("-W", "error", path, *arguments, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_script_explains_itself(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    monkeypatch.setattr(os, "environ", os.environ.copy())
    try:
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(path), run_name="__main__")
    finally:  # scripts import their neighbours, and those of other folders have the same names
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith(str(BENCHMARKS)):
                del sys.modules[name]
    assert not end.value.code
    assert "usage:" in capsys.readouterr().out


def test_build_metrics_are_compared_and_a_second_call_continues(tmp_path: Path) -> None:
    given = ["--out", str(tmp_path / "rows.jsonl"), "--folder", str(tmp_path), "--seeds", "1"]
    given += ["--budget", "12", "--problems", "made:tiles"]
    shown = script(BENCHMARKS / "quality" / "build_metrics.py", *given)
    assert "| `made:tiles` | 1 |" in shown
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 3
    assert script(BENCHMARKS / "quality" / "build_metrics.py", *given) == shown


def test_explanations_are_compared_with_exact_values() -> None:
    shown = script(
        BENCHMARKS / "quality" / "explanations.py",
        *("--spaces", "hidden", "--seeds", "1", "--budget", "30", "--processes", "1"),
    )
    assert "| hidden | 1 |" in shown
    assert "| stop below |" in shown


@pytest.mark.skipif(not (DATA / "scenarios").is_dir(), reason="needs the public data")
def test_rs_cot(tmp_path: Path) -> None:
    shown = script(
        BENCHMARKS / "quality" / "rs_cot.py",
        *("--data", str(DATA), "--seeds", "1", "--budget", "11", "--processes", "1"),
    )
    assert "| ours, 10 first points |" in shown


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_recording(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(
        '[space.ti]\ntype = "ordinal"\nvalues = [1, 2, 3]\n'
        '[objective]\nname = "time"\nunit = "ms"\n'
        f'[evaluator]\nkind = "c"\nproblem = "{LOOP_NEST}"\nsize = 8\nrepeats = 3\n'
        '[budget]\nevaluations = 3\n[optimizer]\nstrategy = "random_search"\n'
    )
    journal = ("--journal", str(tmp_path / "tiny.jsonl"), "--out", str(tmp_path))
    for new in (3, 0):  # the second time there is nothing left to measure
        shown = script(RECORDED / "record.py", str(tmp_path / "tiny.toml"), *journal)
        assert f"3 trials, {new} new ones" in shown
    recorded = load(tmp_path / "tiny.json.gz")
    assert [recorded.entries[(i,)].failed for i in (1, 2, 3)] == [None, None, "constraints"]
    assert len(recorded.entries[(1,)].repeats) == 3


@pytest.mark.parametrize(
    ("name", "failures"),
    [
        ("loop_nest", {None: 4860}),
        (
            "hidden",
            {None: 1697, "compile": 480, "runtime": 336, "correctness": 237, "timeout": 130},
        ),
        ("halide", {None: 5040, "compile": 1920, "runtime": 1680}),
        ("blur", {None: 1918, "compile": 1032, "runtime": 722}),
    ],
)
def test_recorded_tables_cover_their_spaces(name: str, failures: dict[str | None, int]) -> None:
    recorded = load(RECORDED / f"{name}.json.gz")
    space = Space.from_dict(json.loads((RECORDED / f"{name}.space.json").read_text()))
    assert Counter(entry.failed for entry in recorded.entries.values()) == failures
    assert len(recorded.entries) == space.feasible_size
    configs = [dict(zip(recorded.names, values, strict=True)) for values in recorded.entries]
    assert space.feasible.contains(space.encode(configs)).all()
    assert recorded.unit == "ms"


def test_the_kernel_was_measured_a_thousand_times() -> None:
    """The committed measurements: eight configurations, 1,000 times each, with their load."""
    lines = gzip.decompress((RECORDED / "kernel_1000.csv.gz").read_bytes()).decode().splitlines()
    assert len(lines) == 1001
    assert lines[0].startswith("load,")
    assert all(len(line.split(",")) == 9 for line in lines[1:])
    assert all(float(cell) > 0 for line in lines[1:] for cell in line.split(",")[1:])


def test_a_simulated_cluster_loses_nothing(tmp_path: Path) -> None:
    rows, table = tmp_path / "rows.jsonl", tmp_path / "table.md"
    chosen = ("--workers", "20", "--seconds", "12", "--strategy", "random_search")
    path = BENCHMARKS / "scale" / "cluster.py"
    script(path, *chosen, "--patience", "0", "--out", str(rows), "--table", str(table))
    row = json.loads(rows.read_text())
    assert row["wrong"] == []
    assert row["killed"] == 2
    assert (
        row["fallback"] > 0.3
    )  # the first wave: without patience, nobody waits for the first fill
    assert "| 20 | 12 ordinals, 10 s |" in table.read_text()


def test_the_clock_of_a_simulated_cluster_skips_to_the_next_result_after_the_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # the script sets them; restored after the test
    simulation = runpy.run_path(str(BENCHMARKS / "scale" / "cluster.py"))
    cluster = simulation["Cluster"](
        optimizer=None,
        evaluate=None,
        death=np.array([np.inf, np.inf]),
        horizon=12.0,
        ahead=1,
        patience=1.0,
        meter=None,
        now=12.0,
    )
    cluster._free, cluster._empty_since = [0], 11.5  # a worker without a trial, since then
    cluster._arrived = [(50.0, 1, 0, 1.0)]
    cluster._wait()
    assert cluster.now == 50.0
