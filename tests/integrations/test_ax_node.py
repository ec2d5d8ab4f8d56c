"""The node, in the real package."""

from __future__ import annotations

import math
import re
import runpy
from pathlib import Path

import pytest

from baco_like import Aim, Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.strategies import RandomSearch

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.filterwarnings("ignore")  # Ax's own, of the packages that it uses


@pytest.fixture(scope="module", autouse=True)
def packages():
    import_packages()


def import_packages():
    """Import Ax for the first test: it takes three seconds, which each worker would spend to collect the tests."""
    global Client, ChoiceParameterConfig, RangeParameterConfig, SearchSpaceExhausted
    global GenerationStrategy, BacoNode, from_search_space, PARAMETERS, HIERARCHICAL
    pytest.importorskip("ax.generation_strategy")
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
    from ax.exceptions.core import SearchSpaceExhausted
    from ax.generation_strategy.generation_strategy import GenerationStrategy

    from baco_like.integrations import BacoNode
    from baco_like.integrations.ax import from_search_space

    PARAMETERS = [
        RangeParameterConfig(name="x", bounds=(1, 4), parameter_type="int"),
        RangeParameterConfig(name="y", bounds=(1, 4), parameter_type="int"),
        ChoiceParameterConfig(name="tile", values=[1, 2, 4], parameter_type="int", is_ordered=True),
        ChoiceParameterConfig(name="order", values=["i,j", "j,i"], parameter_type="str"),
        ChoiceParameterConfig(name="one", values=[7], parameter_type="int"),
    ]
    HIERARCHICAL = [
        ChoiceParameterConfig(
            name="schedule",
            values=["plain", "tiled", "both"],
            parameter_type="str",
            is_ordered=False,
            dependent_parameters={"tiled": ["tile"], "both": ["x"]},
        ),
        ChoiceParameterConfig(
            name="tile",
            values=[1, 2, 4],
            parameter_type="int",
            is_ordered=True,
            dependent_parameters={4: ["y"]},
        ),
        *PARAMETERS[:2],
    ]


SPACE = Space(
    {
        "x": Integer(1, 4),
        "y": Integer(1, 4),
        "tile": Ordinal([1, 2, 4], log=True),
        "order": Permutation(["i", "j"]),
    },
    constraints=["x * y <= 8", "tile <= x"],
)


def client(node, objective="-time", parameters=None, constraints=(), **options):
    made = Client()
    parameters = PARAMETERS if parameters is None else parameters
    made.configure_experiment(
        name="kernels", parameters=parameters, parameter_constraints=list(constraints)
    )
    made.configure_optimization(objective=objective, **options)
    made.set_generation_strategy(GenerationStrategy(nodes=[node]))
    return made


def measured(values):
    order = values["order"] if isinstance(values["order"], str) else ",".join(values["order"])
    return abs(values["x"] - 3) + abs(values["tile"] - 2) + 2.0 * (order == "j,i")


def test_trials_of_others_are_pending_or_observed():
    space = Space({"x": [1, 2, 3]})
    node = BacoNode(space)
    ranges = [RangeParameterConfig(name="x", bounds=(1, 3), parameter_type="int")]
    ax = client(node, "time", ranges)
    done = ax.attach_trial({"x": 1})
    ax.complete_trial(done, {"time": (2.5, 0.1)})
    ax.attach_trial({"x": 2})
    assert list(ax.get_next_trials(max_trials=1).values()) == [{"x": 3}]
    assert node.optimizer.objective.direction == "maximize"
    assert [(t["x"], t.value) for t in node.optimizer.trials] == [(1, 2.5)]
    with pytest.raises(SearchSpaceExhausted):
        node.get_next_candidate([])


def test_failures_are_observed_as_infeasible():
    ax = client(BacoNode(), constraints=["x + y <= 6"], outcome_constraints=["power <= 5"])
    node = ax._generation_strategy._curr
    ended = {
        (1, 1): lambda i: ax.mark_trial_abandoned(i),
        (1, 2): lambda i: ax.mark_trial_failed(i, "compile: no such register"),
        (1, 3): lambda i: ax.mark_trial_failed(i),
        (1, 4): lambda i: ax.complete_trial(i, {"time": 1.0, "power": 9.0}),
        (2, 1): lambda i: ax.complete_trial(i, {"time": math.nan, "power": 1.0}),
        (2, 2): lambda i: ax.complete_trial(i, {"time": 1.5, "power": 1.0}),
        (2, 3): lambda i: ax.complete_trial(i, {"time": 1.5, "power": math.nan}),
    }
    for (x, y), end in ended.items():
        end(ax.attach_trial({"x": x, "y": y, "tile": 1, "order": "i,j", "one": 7}))
    ax.get_next_trials(max_trials=1)
    found = {(t["x"], t["y"]): t for t in node.optimizer.trials}
    assert {key: trial.failure for key, trial in found.items()} == {
        (1, 1): "runtime",
        (1, 2): "compile",
        (1, 4): "limit",
        (2, 1): "runtime",
        (2, 2): None,
        (2, 3): "runtime",
    }
    assert found[1, 4].repeats == (1.0,)  # the model knows the value
    assert node.optimizer.options.aim.limits == ("1.0 * power <= 5.0",)
    assert found[1, 2].message == "compile: no such register"
    assert found[2, 2].outcome.metrics == {"power": 1.0}
    assert node.optimizer.space.feasible_size == 13 * 3 * 2


def test_a_failed_configuration_may_be_suggested_again():
    node = BacoNode(Space({"x": [1, 2]}))
    ranges = [RangeParameterConfig(name="x", bounds=(1, 2), parameter_type="int")]
    ax = client(node, parameters=ranges)
    (index,) = ax.get_next_trials(max_trials=1)
    ax.mark_trial_failed(index, "the node was lost")
    (index,) = ax.get_next_trials(max_trials=1)
    ax._experiment.trials[index].mark_stale(unsafe=True)
    assert len(node.optimizer.pending) == 1
    again = ax.get_next_trials(max_trials=2).values()
    assert {"x": 1} in again
    assert {"x": 2} in again
    assert node.optimizer.trials == []


def test_ax_search_spaces_are_converted():
    ranges = [
        RangeParameterConfig(name="r", bounds=(0.5, 8.0), parameter_type="float", scaling="log"),
        RangeParameterConfig(name="n", bounds=(1, 64), parameter_type="int", scaling="log"),
        ChoiceParameterConfig(name="b", values=[True, False], parameter_type="bool"),
    ]
    ax = client(BacoNode(), parameters=[*ranges, *PARAMETERS[2:]])
    found = from_search_space(ax._experiment.search_space)
    assert found.parameters == {
        "r": Real(0.5, 8.0, log=True),
        "n": Integer(1, 64, log=True),
        "b": Categorical([False, True]),
        "tile": Ordinal([1, 2, 4], log=True),
        "order": Categorical(["i,j", "j,i"]),
        "one": Ordinal([7]),
    }
    linear = from_search_space(
        client(BacoNode(), constraints=["x + 0.5*y <= 3"])._experiment.search_space
    )
    assert linear.feasible_size == (4 + 2) * 3 * 2  # y <= 4 for x = 1, y <= 2 for x = 2


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Space({"x": [1, 2, 9], "y": [1]}), "'x' of the experiment does not have the value 9"),
        (Space({"x": [1]}), "the space lacks the experiment's parameter 'y'"),
        (Space({"x": [1], "y": [1], "z": [1]}), "the experiment lacks the space's parameters z"),
    ],
)
def test_a_space_that_differs_from_the_experiment_is_rejected(space, message):
    ax = client(BacoNode(space, strategy="random_search"), parameters=PARAMETERS[:2])
    with pytest.raises(SpaceError, match=message):
        ax.get_next_trials(max_trials=3)


def test_several_objectives():
    node = BacoNode(SPACE, strategy="nsga2")
    ax = client(node, "-time, speed", outcome_constraints=["speed >= -100"])
    measurements = [(1.0, 5.0), (2.0, 9.0), (2.0, 5.0), (3.0, 9.5)]
    for time, speed in measurements:
        ((index, _),) = ax.get_next_trials(max_trials=1).items()
        ax.complete_trial(index, {"time": time, "speed": speed})
    ax.get_next_trials(max_trials=1)
    optimizer = node.optimizer
    assert optimizer.options.aim == Aim({"time": "minimize", "speed": "maximize"})
    assert [(t.value, t.metrics["speed"]) for t in optimizer.trials] == measurements
    assert [trial.value for trial in optimizer.front] == [1.0, 2.0, 3.0]


def test_a_loaded_client_continues_as_the_stored_one_would(tmp_path):
    file = str(tmp_path / "ax.json")
    results = [({"x": 3, "y": 1, "tile": 2, "order": ["i", "j"]}, 0.5)]
    ax = client(BacoNode(SPACE, strategy="random_search", warm_start=results))
    for _ in range(3):
        ((index, values),) = ax.get_next_trials(max_trials=1).items()
        ax.complete_trial(index, {"time": measured(values)})
    ax.save_to_json_file(file)
    loaded = Client.load_from_json_file(file)
    expected = list(ax.get_next_trials(max_trials=1).values())
    assert list(loaded.get_next_trials(max_trials=1).values()) == expected
    node = loaded._generation_strategy._curr
    assert [trial.value for trial in node.optimizer.trials][:1] == [0.5]
    assert len(node.optimizer.trials) == 4


def test_a_node_that_cannot_be_stored_says_why(tmp_path):
    for node in (
        BacoNode(strategy=RandomSearch()),
        BacoNode(Space({"x": [1, 2]}, constraints=[lambda x: x > 1])),
    ):
        with pytest.raises(ValueError, match="cannot be stored with the experiment"):
            client(node).save_to_json_file(str(tmp_path / "ax.json"))


def test_results_of_another_space_are_rejected():
    wrong = BacoNode(SPACE, warm_start=[({"x": 9, "y": 1, "tile": 2, "order": ("i", "j")}, 0.5)])
    with pytest.raises(ConfigError, match="warm start list"):
        client(wrong).get_next_trials(max_trials=1)


def test_sums_of_metrics_are_rejected():
    for objective in ("-time - power", "-time - power, speed"):
        with pytest.raises(ValueError, match="and no sums"):
            client(BacoNode(), objective).get_next_trials(max_trials=1)
    with pytest.raises(ValueError, match="bayesain"):
        BacoNode(strategy="bayesain")
    with pytest.raises(ValueError, match="after Ax has requested"):
        _ = BacoNode().optimizer


def test_the_documentation_page_and_the_example_run(capsys):
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs/ax.md").read_text(), re.S):
        exec(code, {})
    assert "best" in capsys.readouterr().out
    runpy.run_path(str(ROOT / "examples/ax_client.py"))["main"](8)
    assert "best" in capsys.readouterr().out


def test_standard_errors_reach_the_model():
    node = BacoNode(SPACE, seed=2)
    ax = client(node)
    for sem in (0.25, None):
        ((index, values),) = ax.get_next_trials(max_trials=1).items()
        time = measured(values) if sem is None else (measured(values), sem)
        ax.complete_trial(index, {"time": time})
    ax.get_next_trials(max_trials=1)
    trials = node.optimizer.trials
    assert [trial.sem for trial in trials] == [0.25, None]
    assert [len(trial.repeats) for trial in trials] == [1, 1]


def test_dependent_parameters_are_conditional():
    node = BacoNode(strategy="exhaustive")
    ax = client(node, parameters=HIERARCHICAL)
    asked = []
    for _ in range(11):  # plain, two tiles, the third with four y, four x
        ((index, values),) = ax.get_next_trials(max_trials=1).items()
        asked.append(tuple(values.items()))
        ax.complete_trial(index, {"time": float(index)})
    assert len(set(asked)) == 11
    assert node.optimizer.space.conditions.texts == {
        "tile": "schedule in ['tiled']",
        "x": "schedule in ['both']",
        "y": "tile in [4]",
    }
    with pytest.raises(SearchSpaceExhausted):
        ax.get_next_trials(max_trials=1)
    assert [tuple(trial.config.items()) for trial in node.optimizer.trials] == asked


def test_an_experiment_without_dependents_takes_a_space_with_conditions():
    parameters = [
        ChoiceParameterConfig(name="on", values=[True, False], parameter_type="bool"),
        *PARAMETERS[:1],
    ]
    space = Space({"on": [True, False], "x": Integer(1, 4)}, when={"x": "on == True"})
    node = BacoNode(space, strategy="random_search")
    ax = client(node, parameters=parameters)
    ax.complete_trial(ax.attach_trial({"on": False, "x": 4}), {"time": 3.0})
    asked = [ax.get_next_trials(max_trials=1) for _ in range(4)]
    with pytest.raises(SearchSpaceExhausted):
        ax.get_next_trials(max_trials=1)
    assert all(set(values) == {"on", "x"} for trials in asked for values in trials.values())
    for trials in asked:
        for index in trials:
            ax.complete_trial(index, {"time": 1.0})
    node.update_generator_state(ax._experiment, ax._experiment.lookup_data())
    found = sorted(dict(trial.config).get("x", 0) for trial in node.optimizer.trials)
    assert found == [0, 1, 2, 3, 4]
    assert not node.optimizer.pending


def test_a_space_without_the_conditions_of_the_experiment_is_rejected():
    space = Space(
        {"schedule": ["plain", "tiled"], "tile": [1, 2], "x": Integer(1, 4), "y": Integer(1, 4)},
        when={"tile": "schedule == 'tiled'", "y": "tile == 2"},
    )
    ax = client(BacoNode(space), parameters=HIERARCHICAL)
    with pytest.raises(SpaceError, match=r"leaves '[xy]' out of"):
        ax.get_next_trials(max_trials=1)
    assert not ax._experiment.trials


@pytest.mark.parametrize(
    "space",
    [Space({"x": Integer(1, 5), "y": [1]}), Space({"x": [1, 2.5], "y": [1]})],
)
def test_values_that_differ_from_the_experiment_are_found_before_the_first_trial(space):
    node = BacoNode(space, strategy="random_search")
    ax = client(node, parameters=PARAMETERS[:2])
    with pytest.raises(SpaceError, match="'x' of the experiment does not have the value"):
        node.update_generator_state(ax._experiment, ax._experiment.lookup_data())
