"""Plots from Python."""

import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot
from matplotlib.axes import Axes

from baco_like import (
    Infeasible,
    Integer,
    MaxEvals,
    Optimizer,
    Ordinal,
    Permutation,
    Real,
    Space,
    TrialError,
    plot,
    tune,
)

SPACE = Space(
    {
        "tile": Ordinal([8, 16, 32, 64, 128], log=True),
        "unroll": Integer(1, 8),
        "order": Permutation(["i", "j", "k"]),
        "flag": ["a", "b"],
        "x": Real(0.1, 10, log=True),
    },
    constraints=["tile * unroll <= 512"],
    when={"x": "flag == 'b'"},
)


def cost(trial):
    if trial["tile"] * trial["unroll"] > 300:
        raise Infeasible("too many registers", "compile")
    if trial["order"][0] == "k":
        raise Infeasible("crash", "runtime")
    return 1 + abs(math.log2(trial["tile"] / 32)) + 2 / trial["unroll"] + (trial["flag"] == "a")


@pytest.fixture(scope="module")
def result():
    return tune(
        cost,
        SPACE,
        strategy="random_search",
        aim={"time": "minimize"},
        stop=MaxEvals(40),
        progress=False,
    )


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


def values(result):
    return [trial.value for trial in result.trials if trial.value is not None]


def test_history_returns_axes_that_can_be_changed(result, tmp_path):
    axes = plot.history(result)
    assert isinstance(axes, Axes)
    labels = axes.get_legend_handles_labels()[1]
    assert {"evaluation", "best so far", "failed"} <= set(labels)
    axes.set_title("mine")
    axes.figure.savefig(tmp_path / "history.png")
    _, own = pyplot.subplots()
    assert plot.history(result.optimizer, ax=own) is own


def test_parallel_coordinates_have_a_line_for_each_success(result):
    axes = plot.parallel_coordinates(result)
    (lines,) = axes.collections
    assert sorted(lines.get_array().tolist()) == sorted(values(result))
    assert [text.get_text() for text in axes.get_xticklabels()] == list(SPACE.active)
    heights = np.array(
        [path.vertices[:, 1] for path in lines.get_paths() if len(path.vertices) == 5]
    )
    assert np.nanmin(heights) >= 0.0
    assert np.nanmax(heights) <= 1.0
    some = plot.parallel_coordinates(result, ["unroll", "tile"])
    assert [text.get_text() for text in some.get_xticklabels()] == ["unroll", "tile"]


@pytest.mark.parametrize("name", [None, "tile", "flag", "order", "x"])
def test_slice_shows_every_success_that_has_the_parameter(result, name):
    axes = plot.slice(result, name)
    shown = axes.get_xlabel()
    assert shown == (name or shown)
    (dots,) = (line for line in axes.lines if line.get_label() == "evaluation")
    expected = [t.value for t in result.trials if t.value and t.config.get(shown) is not None]
    assert dots.get_ydata()[np.isfinite(dots.get_xdata())].tolist() == expected
    has_model = "partial dependence" in axes.get_legend_handles_labels()[1]
    assert has_model == (name != "order")


@pytest.mark.parametrize("names", [None, ("tile", "unroll"), ("flag", "x"), ("tile", "flag")])
def test_contour_colours_the_pairs_that_are_feasible(result, names):
    axes = plot.contour(result, names)
    assert names is None or (axes.get_xlabel(), axes.get_ylabel()) == names
    assert len(axes.figure.axes) == 2  # with the colour bar
    if names == ("tile", "unroll"):
        (mesh,) = (c for c in axes.collections if c.get_array() is not None)
        table = np.ma.getmaskarray(mesh.get_array()).reshape(-1, 5)
        assert table[-1, -1]  # 128 * 8 is not in the space
        assert not table[0, 0]


def test_failures_are_shares(result):
    axes = plot.failures(result)
    words = [t.failure for t in result.trials if t.failure]
    assert set(axes.get_legend_handles_labels()[1]) == set(words)
    total = sum(bar.get_height() for bars in axes.containers for bar in bars) * 4
    assert total == pytest.approx(len(words))  # ten groups of four evaluations
    by_order = plot.failures(result, "order")
    texts = [text.get_text() for text in by_order.get_xticklabels()]
    tops = {
        text: sum(bars[i].get_height() for bars in by_order.containers)
        for i, text in enumerate(texts)
    }
    assert tops["k i j"] == 1.0


def test_a_maximised_run_has_the_best_value_dark(result):
    run = Optimizer(SPACE, "maximize")
    run.observe(run.suggest(6), [float(i) for i in range(6)])
    assert plot.parallel_coordinates(run).collections[0].cmap.name == "viridis_r"
    assert plot.parallel_coordinates(result).collections[0].cmap.name == "viridis"


def test_imported_trials_outside_the_space_are_left_out():
    run = Optimizer({"a": [1, 2, 4], "b": ["x", "y"]})
    run.observe(run.suggest(2), [1.0, 2.0])
    run.observe({"a": 7, "b": "z"}, 5.0, imported=True)
    assert len(plot.slice(run, "b").lines[0].get_xdata()) == 2
    assert len(plot.parallel_coordinates(run).collections[0].get_array()) == 2


def test_errors(result):
    empty = Optimizer(SPACE)
    with pytest.raises(TypeError, match=r"give an Optimizer or the Result of tune"):
        plot.history("run.jsonl")
    with pytest.raises(TrialError, match="no trial has succeeded"):
        plot.slice(empty)
    with pytest.raises(TrialError, match="no trial is observed"):
        plot.failures(empty)
    with pytest.raises(TrialError, match="there is no parameter 'tyle'"):
        plot.slice(result, "tyle")
    with pytest.raises(TrialError, match="two parameters other than permutations"):
        plot.contour(result, ("order", "tile"))
    with pytest.raises(TrialError, match="the parameter 'tile' is given twice"):
        plot.contour(result, ("tile", "tile"))


@pytest.fixture(scope="module")
def several():
    run = Optimizer(SPACE, {"time": "minimize", "rate": "maximize"}, seed=1)
    for trial in run.suggest(8):
        rate = trial["tile"] / 128 + trial["unroll"]
        run.observe(trial, {"time": 1.0 + trial["unroll"], "rate": rate})
    return run


def test_every_plot_of_values_shows_the_named_objective(several):
    rates = [trial.metrics["rate"] for trial in several.trials]
    for draw in (plot.history, plot.slice):
        axes = draw(several, objective="rate")
        (dots,) = (line for line in axes.lines if line.get_label() == "evaluation")
        assert dots.get_ydata().tolist() == rates
        assert axes.get_ylabel() == "rate"
        times = draw(several, objective="time").lines[0].get_ydata().tolist()
        assert times == [trial.value for trial in several.trials]
    (best,) = (
        x for x in plot.history(several, objective="rate").lines if x.get_label() == "best so far"
    )
    assert best.get_ydata().tolist() == np.maximum.accumulate(rates).tolist()
    (lines,) = plot.parallel_coordinates(several, objective="rate").collections
    assert sorted(lines.get_array().tolist()) == sorted(rates)
    assert lines.cmap.name == "viridis_r"
    axes = plot.contour(several, ("tile", "unroll"), objective="rate")
    assert axes.figure.axes[1].get_ylabel() == "rate"
    with pytest.raises(ValueError, match="objective = 'size': the run has 'time', 'rate'"):
        plot.history(several, objective="size")


def test_the_front_is_drawn_by_two_objectives(several):
    axes = plot.front(several)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time", "rate")
    dots, line, knee = axes.get_lines()
    assert len(dots.get_xdata()) == len([t for t in several.trials if t.value is not None])
    assert list(line.get_xdata()) == [trial.value for trial in several.front]
    assert list(line.get_ydata()) == [trial.metrics["rate"] for trial in several.front]
    assert list(knee.get_xdata()) == [several.best.value]
    swapped = plot.front(several, ("rate", "time"))
    assert (swapped.get_xlabel(), swapped.get_ylabel()) == ("rate", "time")


@pytest.mark.parametrize(
    "names", [("time", "size"), ("time",), ("time", "rate", "time"), ("time", "time"), "ab"]
)
def test_the_front_needs_two_objectives_of_the_run(several, names):
    with pytest.raises(ValueError, match="expected two of 'time', 'rate'"):
        plot.front(several, names)


def test_one_objective_has_no_front(result):
    with pytest.raises(ValueError, match=r"no front; plot\.history"):
        plot.front(result)


def test_matplotlib_is_loaded_when_it_is_needed():
    code = "import sys; from baco_like import plot; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_long_names_stay_different_and_wide_values_are_logarithmic():
    kinds = [f"strategy number {i} of the innermost loop" for i in range(4)]
    space = {"kind": kinds, "tile": Ordinal([2**i for i in range(12)], log=True)}
    run = Optimizer(space, {"seconds of the whole program on one core": "minimize"}, seed=1)
    for power, trial in enumerate(run.suggest(6)):
        run.observe(trial, 10.0**power)
    axes = plot.slice(run, "kind")
    texts = [text.get_text() for text in axes.get_xticklabels()]
    assert texts == [f"…{i} of the innermost loop"[:24] for i in range(4)]
    assert axes.get_yscale() == "log"
    assert axes.get_ylabel() == "seconds of the …gram on one core"
    ticks = plot.slice(run, "tile").get_xticks()
    assert 3 <= len(ticks) <= 12
    assert set(ticks) <= {2**i for i in range(12)}
    axes = plot.parallel_coordinates(run)
    assert type(axes.collections[0].norm).__name__ == "LogNorm"


@pytest.mark.parametrize("log", [True, False])
def test_ordinals_have_ticks_at_their_values_that_do_not_overlap(log):
    values = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    run = Optimizer({"a_long_name_of_a_parameter": Ordinal(values, log=log), "b": [1, 2]})
    run.observe(run.suggest(6), [float(i) for i in range(6)])
    ax = plot.slice(run, "a_long_name_of_a_parameter")
    ticks = ax.get_xticks().tolist()
    assert set(ticks) <= set(values)
    assert ticks == values if log else len(ticks) < len(values)
    ax.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels()]
    assert all(a.x1 < b.x0 for a, b in pairwise(boxes))
    assert ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1


def test_failures_differ_without_colour(result):
    bars = plot.failures(result).containers
    assert len({patch.get_hatch() for container in bars for patch in container}) == len(bars)
