"""Figures of studies: what is in the axes, and where the legend is."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot

from baco_like import Integer, Space
from baco_like.benchmarking import studies
from baco_like.benchmarking.problems import FunctionProblem
from baco_like.benchmarking.studies import StudyResult
from baco_like.benchmarking.studies.runs import StrategyRun

LABELS = [
    *("auto", "random_search", "genetic_algorithm:population=40:crossover=uniform"),
    *("optuna:TPESampler", "simulated_annealing", "particle_swarm", "firefly", "SMAC3"),
    *("a forest with expected improvement and local search", "exhaustive", "NGOpt", "last one"),
]
DRAWS = {
    "convergence": studies.plot_convergence,
    "time": lambda result, **k: studies.plot_convergence(result, "p0", over="time", **k),
    "time_to_target": studies.plot_time_to_target,
    "targets": studies.plot_targets,
    "data": studies.plot_data_profile,
    "performance": studies.plot_performance_profile,
}


def made(
    costs: dict[str, list[Any]], problems: int = 1, optimum: float | None = 1.0
) -> StudyResult:
    """Return a study whose runs have these costs; each evaluation takes two seconds."""
    spaces = [Space({f"x{i}": Integer(0, 9) for i in range(3)})] * problems
    each = [
        FunctionProblem(f"p{i}", space, lambda c: 1.0, "minimize", optimum)
        for i, space in enumerate(spaces)
    ]
    runs = [
        StrategyRun(p.name, label, seed, np.array(line), 0.1, log=[{"seconds": 2.0} for _ in line])
        for p in each
        for label, lines in costs.items()
        for seed, line in enumerate(lines)
    ]
    budgets = {p.name: max(len(run.costs) for run in runs) for p in each}
    return StudyResult(each, budgets, runs, {})


@cache
def many(contenders: int, problems: int = 1) -> StudyResult:
    rng = np.random.default_rng(0)
    costs = {
        label: [1 + rng.exponential(size=20) / (i + 1) for _ in range(2)]
        for i, label in enumerate(LABELS[:contenders])
    }
    return made(costs, problems)


TWO = made({"a": [[np.nan, 3.0, 1.0], [5.0, 3.0, 3.0]], "b": [[5.0, 5.0, 5.0], [5.0, 5.0, 4.0]]})
"""First values 3, 5, 5, 5: the median is 5; the optimum is 1. With a tolerance of 0.5 the target is 3."""


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def points(ax: Any, label: str) -> list[tuple[float, float]]:
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return list(zip(line.get_xdata().tolist(), line.get_ydata().tolist(), strict=True))


def test_convergence_is_the_mean_regret_of_the_runs() -> None:
    ax = studies.plot_convergence(TWO, "p0")
    assert points(ax, "a")[1:] == [(2, 2.0), (3, 1.0)]
    assert np.isnan(points(ax, "a")[0][1])  # a run has had no success
    assert [y for _, y in points(ax, "b")] == [4.0, 4.0, 3.5]
    assert ax.get_ylabel() == "regret"
    whole = studies.plot_convergence(TWO)
    assert points(whole, "b")[-1] == (100, 3.5 / 4)  # a share of 5 - 1
    unknown = studies.plot_convergence(made({"a": [[2.0, 1.5]]}, optimum=None), "p0")
    assert (unknown.get_ylabel(), points(unknown, "a")) == ("best value", [(1, 2.0), (2, 1.5)])


def test_convergence_over_time_has_the_best_value_at_that_time() -> None:
    ax = studies.plot_convergence(TWO, "p0", over="time")
    at = dict(points(ax, "b"))
    assert (min(at), max(at)) == (2.0, 6.0)
    assert {round(y, 6) for x, y in at.items() if x < 5.99} == {4.0}
    assert at[max(at)] == 3.5
    assert ax.get_xscale() == "log"


def test_an_optimum_that_every_run_has_found_is_shown_at_0() -> None:
    ax = studies.plot_convergence(made({"a": [[11.0, 2.0, 1.0], [11.0, 2.0, 1.0]]}), "p0")
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylim()[0] < 0 < ax.get_ylim()[1]
    assert points(ax, "a")[-1] == (3, 0.0)


def test_time_to_target_counts_the_runs_that_have_reached_it() -> None:
    ax = studies.plot_time_to_target(TWO, tolerance=0.5)
    assert points(ax, "a")[0] == (2, 1.0)
    assert {y for _, y in points(ax, "b")} == {0.0}
    over_time = studies.plot_time_to_target(TWO, "p0", 0.5, over="time")
    assert points(over_time, "a")[0][0] == pytest.approx(4.0, rel=0.01)
    assert ax.get_xscale() == over_time.get_xscale() == "log"
    exact = studies.plot_time_to_target(TWO, tolerance=0)
    assert points(exact, "a")[0] == (3, 0.5)


def test_profiles_normalise_by_parameters_and_by_the_best_strategy() -> None:
    assert points(studies.plot_data_profile(TWO, 0.5), "a")[0] == (0.5, 1.0)  # 2 / (3 + 1)
    assert points(studies.plot_targets(TWO), "a")[0][0] == pytest.approx(1 / 3)
    result = made({"a": [[5.0, 1.0], [5.0, 5.0]], "b": [[5.0, 1.0], [5.0, 1.0]]}, problems=2)
    ax = studies.plot_performance_profile(result, 0.0)
    # Expected evaluations: (2 + 2) / 1 and (2 + 2) / 2.
    assert points(ax, "a") == [(1, 0.0), (2, 1.0), (2.1, 1.0)]
    assert points(ax, "b")[0] == (1, 1.0)
    none = studies.plot_performance_profile(made({"a": [[2.0]], "b": [[2.0]]}), 0.0)
    assert {y for _, y in points(none, "a")} == {0.0}


@pytest.mark.parametrize("name", DRAWS)
def test_a_legend_is_inside_the_figure_and_above_the_axes(name: str) -> None:
    ax = DRAWS[name](many(12))
    figure = ax.figure
    figure.canvas.draw()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0 < box.x1 <= whole.x1
    assert box.y1 <= whole.y1
    assert box.y0 >= ax.get_window_extent().y1
    assert len(legend.get_texts()) == 12
    assert len({text.get_text() for text in legend.get_texts()}) == 12
    height = ax.get_window_extent().height / figure.dpi
    assert height > 1.4  # the legend takes no room from the lines
    _, own = pyplot.subplots()
    assert DRAWS[name](many(3), ax=own) is own
    own.figure.canvas.draw()
    assert own.get_legend().get_window_extent().y0 >= own.get_window_extent().y1


def test_names_of_usual_length_are_not_cut() -> None:
    names = [f"iterated_local_search, n = {n}" for n in range(10, 16)]
    ax = studies.plot_convergence(made({name: [[3.0, 2.0], [4.0, 1.0]] for name in names}))
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == names


@pytest.mark.parametrize("name", DRAWS)
def test_lines_differ_without_colour(name: str) -> None:
    lines = DRAWS[name](many(12)).lines
    assert len({line.get_marker() for line in lines}) >= 11
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines}) == 12
    assert len({line.get_markevery() for line in lines}) == 12


def test_panels_have_the_problems_as_titles_and_one_legend() -> None:
    figure = studies.plot_panels(many(2, problems=5), studies.plot_time_to_target, tolerance=0.1)
    assert [ax.get_title() for ax in figure.axes] == ["p0", "p1", "p2", "p3", "p4"]
    assert [ax.get_xlabel() != "" for ax in figure.axes] == [False, False, True, True, True]
    assert [ax.get_ylabel() != "" for ax in figure.axes] == [True, False, False, True, False]
    assert len(figure.legends) == 1
    assert all(ax.get_legend() is None for ax in figure.axes)


def test_names_of_a_critical_difference_do_not_overlap_the_ranks() -> None:
    for contenders in (2, 6, 12):
        ax = studies.plot_critical_difference(many(contenders, problems=4))
        ax.figure.canvas.draw()
        lines = [line for line in ax.lines if len(line.get_xdata()) == 3]
        assert len(lines) == contenders
        for line in lines:
            rank, _, end = line.get_xdata()
            y = line.get_ydata()[2] - 0.08
            (text,) = [t for t in ax.texts if t.get_position() == pytest.approx((end, y))]
            box = text.get_window_extent().transformed(ax.transData.inverted())
            assert box.x1 < rank if end < rank else box.x0 > rank
    with pytest.raises(ValueError, match="two strategies"):
        studies.plot_critical_difference(many(1))


def test_wrong_names_and_missing_times_are_refused() -> None:
    with pytest.raises(ValueError, match="'p9': the study has 'p0'"):
        studies.plot_convergence(TWO, "p9")
    quiet = made({"a": [[1.0, 2.0]]})
    for entry in quiet.runs[0].log:
        entry.clear()
    with pytest.raises(ValueError, match="no times"):
        studies.plot_convergence(quiet, "p0", over="time")
    with pytest.raises(ValueError, match="no score"):
        studies.plot_scores(TWO)


def test_figures_are_files_in_pdf_and_png(tmp_path: Path, quick_figures: None) -> None:
    written = studies.save_figures(TWO, tmp_path)
    assert {path.suffix for path in written} == {".pdf", ".png"}
    assert set(written) == set(tmp_path.iterdir())


def test_files_have_embedded_fonts_and_are_the_same_again(tmp_path: Path) -> None:
    written = studies.save_figures(TWO, tmp_path, ("pdf",))
    names = {path.stem for path in written}
    assert names == set(studies.FIGURES) - {"scores", "scores_over_time"}
    before = {path: path.read_bytes() for path in written}
    assert all(
        b"/FontType 3" not in data and b"/Subtype /Type3" not in data for data in before.values()
    )
    assert (
        b"/FontFile2" in before[tmp_path / "curves.pdf"]
        or b"/CIDFontType2" in before[tmp_path / "curves.pdf"]
    )
    assert not pyplot.get_fignums()
    for name in ("curves", "ranks"):
        studies.save_figure(studies.FIGURES[name](TWO), tmp_path / "again.pdf")
        assert (tmp_path / "again.pdf").read_bytes() == before[tmp_path / f"{name}.pdf"]
