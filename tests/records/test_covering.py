"""Goals and sets of configurations that cover tasks, and the selector among them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from baco_like import ConfigError, Cover, Space, Tasks
from baco_like.records.covering import best_cover, combine, cover_for, least_cover, read_goal
from baco_like.records.task_selector import Leaf, Nearest, Split, fit_selector

AGGREGATES = ("geometric_mean", "mean", "worst")

TABLES = arrays(
    np.float64, st.tuples(st.integers(1, 7), st.integers(1, 4)), elements=st.floats(0, 3)
)


@given(TABLES, st.sampled_from(AGGREGATES))
def test_an_aggregate_lies_between_the_least_and_the_largest_and_grows(logs, aggregate):
    combined = combine(logs, aggregate)
    assert (combined >= logs.min(axis=1) - 1e-9).all()
    assert (combined <= logs.max(axis=1) + 1e-9).all()
    assert (combine(logs + 0.5, aggregate) - combined == pytest.approx(0.5)) if logs.size else True
    larger = logs.copy()
    larger[:, 0] += 1.0
    assert (combine(larger, aggregate) >= combined - 1e-12).all()


def test_aggregates_of_slowdowns():
    logs = np.log([1.0, 4.0])
    assert np.exp(combine(logs, "geometric_mean")) == pytest.approx(2.0)
    assert np.exp(combine(logs, "mean")) == pytest.approx(2.5)
    assert np.exp(combine(logs, "worst")) == pytest.approx(4.0)


@given(TABLES, st.integers(1, 2), st.sampled_from(AGGREGATES))
def test_one_and_two_configurations_are_the_best_ones(logs, count, aggregate):
    def reached(rows):
        return float(combine(logs[list(rows)].min(axis=0), aggregate))

    best = min(map(reached, itertools.combinations_with_replacement(range(len(logs)), count)))
    assert reached(best_cover(logs, count, aggregate)) == pytest.approx(best, abs=1e-9)


@given(TABLES, st.sampled_from(AGGREGATES))
def test_more_configurations_are_never_worse(logs, aggregate):
    values = [
        float(combine(logs[best_cover(logs, k, aggregate)].min(axis=0), aggregate))
        for k in (1, 2, 3, 4)
    ]
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(values[:2]))
    assert min(values[2:]) <= values[0] + 1e-9


def test_the_least_cover_is_within_the_tolerance():
    logs = np.log(np.array([[1.0, 1.5, 3.0], [2.0, 1.0, 1.05], [1.3, 1.2, 1.25]]))
    assert least_cover(logs, 1.4, "worst") == [2]
    assert sorted(least_cover(logs, 1.1, "worst")) == [0, 1]
    assert sorted(least_cover(logs, 1.0, "worst")) == [0, 1]


def test_a_configuration_that_cannot_run_does_not_cover():
    logs = np.array([[0.0, np.inf], [0.5, 0.5]])
    assert best_cover(logs, 1, "geometric_mean") == [1]
    assert sorted(cover_for(Cover(), logs)) == [0, 1]


def test_goals_by_name():
    assert read_goal(None) == read_goal("each") == Cover()
    assert read_goal("single") == Cover(1)
    assert read_goal(Cover(within=1.1, aggregate="worst").to_json()) == Cover(None, 1.1, "worst")
    for wrong in ("all", {"number": 2}):
        with pytest.raises(ValueError, match="expected 'single', 'each'"):
            read_goal(wrong)
    for settings in (
        {"within": 0.9},
        {"count": 2, "within": 1.1},
        {"count": 0},
        {"aggregate": "sum"},
    ):
        with pytest.raises(ValueError, match=r"within|count|aggregate"):
            Cover(**settings)


# The selector ---------------------------------------------------------------------------------------------------

SIZES = (64, 128, 256, 512, 1024, 2048)
CONFIGS = [{"tile": 64, "unroll": 1}, {"tile": 128, "unroll": 2}]
LOGS = np.array([[0.0, 0.0, 0.0, 0.1, 0.3, 0.4], [np.inf, 0.3, 0.2, 0.0, 0.0, 0.0]])


def space(tasks, constraints=("tile <= n",)):
    return Space({"tile": [32, 64, 128], "unroll": [1, 2]}, list(constraints), tasks=tasks)


def test_the_selector_splits_between_sizes():
    selector = fit_selector(space([{"n": n} for n in SIZES]), CONFIGS, LOGS)
    assert selector.rule == Split("n", 362, Leaf((0, 1)), Leaf((1, 0)))
    assert selector.kind == "tree"
    assert selector.select({"n": 300}) == CONFIGS[0]
    assert selector.select({"n": 5000}) == CONFIGS[1]
    assert selector.select("n=1024") == CONFIGS[1]
    assert 1.0 <= selector.regret < 1.1


def test_an_unknown_size_never_gets_a_configuration_that_violates_a_constraint():
    selector = fit_selector(space([{"n": n} for n in SIZES]), CONFIGS[::-1], LOGS[::-1])
    assert selector.select({"n": 100}) == CONFIGS[0]  # a tile of 128 is too large
    assert selector.select({"n": 63}) is None
    tasks = Tasks({f"n={n}": {"n": n} for n in SIZES}, constraints={"n=2048": "unroll == 1"})
    selector = fit_selector(space(tasks), CONFIGS, LOGS)
    assert selector.select({"n": 2048}) == CONFIGS[0]
    assert selector.select({"n": 4000}) == CONFIGS[0]  # nearest to 2048


@given(st.integers(1, 5000))
def test_no_size_gets_a_tile_above_it(n):
    selector = fit_selector(space([{"n": n} for n in SIZES]), CONFIGS, LOGS)
    chosen = selector.select({"n": n})
    assert (chosen is None) == (n < 64)
    assert chosen is None or chosen["tile"] <= n


def test_names_are_compared_for_equality():
    logs = np.array([[0.0, 0.4, 0.0], [0.4, 0.0, 0.4]])
    selector = fit_selector(space(["A", "B", "C"], ()), CONFIGS, logs)
    assert [selector.select(name) for name in "ABC"] == [CONFIGS[0], CONFIGS[1], CONFIGS[0]]
    assert selector.select({"task": "D"}) == CONFIGS[0]
    tasks = [{"device": device, "n": n} for device in ("A", "B") for n in (64, 512, 4096)]
    selector = fit_selector(
        space(tasks, ()), CONFIGS, np.repeat([[0.0, 0.4], [0.4, 0.0]], 3, axis=1)
    )
    assert selector.rule == Split("device", "B", Leaf((1, 0)), Leaf((0, 1)))


def test_unknown_tasks_get_one_configuration_where_a_rule_by_sizes_loses_more():
    """One size in the middle contradicts: a tree that asks for it picks wrongly for the sizes beside it."""
    logs = np.array([[0.0, 0.0, 0.1, 0.0, 0.0, 0.0], [0.3, 0.3, 0.0, 0.3, 0.3, 0.3]])
    selector = fit_selector(space([{"n": n} for n in SIZES], ()), CONFIGS, logs)
    assert selector.kind == "constant"
    assert selector.rule == Leaf((0, 1))
    assert selector.select({"n": 256}) == CONFIGS[1]  # a tuned size keeps its best one
    assert selector.select({"n": 257}) == CONFIGS[0]
    assert selector.regret == pytest.approx(np.exp(0.1 / 6))


def test_two_tasks_take_the_nearest_and_know_no_regret():
    selector = fit_selector(
        space([{"n": 64}, {"n": 4096}], ()), CONFIGS, np.array([[0, 1.0], [1.0, 0]])
    )
    assert isinstance(selector.rule, Nearest)
    assert selector.regret is None
    assert selector.select({"n": 500}) == CONFIGS[0]
    assert selector.select({"n": 600}) == CONFIGS[1]


def test_a_wrong_descriptor_is_an_error():
    selector = fit_selector(space([{"n": n} for n in SIZES]), CONFIGS, LOGS)
    with pytest.raises(ConfigError, match="needs values of n"):
        selector.select({"m": 3})
    with pytest.raises(ConfigError, match="another type"):
        selector.select({"n": "large"})


def test_the_selector_knows_conditional_parameters():
    tasks = [{"n": n} for n in SIZES]
    plain, tiled = {"kind": "plain"}, {"kind": "tiled", "tile": 128}
    conditional = Space(
        {"kind": ["plain", "tiled"], "tile": [32, 128]},
        constraints=["tile <= n"],
        when={"tile": "kind == 'tiled'"},
        tasks=tasks,
    )
    selector = fit_selector(conditional, [plain, tiled], LOGS)
    assert selector.select({"n": 63}) == plain  # its tile is inactive, so the constraint rests
    assert selector.select({"n": 5000}) == tiled
    assert not selector.allows(tiled, {"n": 100})
    by_size = Space(
        {"kind": ["plain", "tiled"], "tile": [32, 128]},
        when={"tile": "kind == 'tiled' and n >= 300"},
        tasks=tasks,
    )
    selector = fit_selector(by_size, [plain, {"kind": "tiled"}], LOGS)
    assert selector.allows({"kind": "tiled"}, {"n": 290})
    assert not selector.allows({"kind": "tiled"}, {"n": 310})  # it lacks a tile
