"""How scenarios of BaCO, HyperMapper 2 and HyperMapper 3 are read."""

import copy
import json
import os
from pathlib import Path

import pytest

from baco_like.exceptions import RunFileError, SpaceError
from baco_like.integrations import read_scenario

BESIDE = Path(__file__).parents[3] / "shared" / "data"
DATA = Path(os.environ.get("BACO_LIKE_DATA", BESIDE)) / "scenarios"

SMALL = {
    "optimization_objectives": ["runtime"],
    "input_parameters": {"x": {"parameter_type": "integer", "values": [0, 9]}},
}


def scenario(**fields):
    return read_scenario({**copy.deepcopy(SMALL), **fields})


def test_the_documented_defaults():
    found = scenario()
    assert (found.design, found.sampling, found.batch, found.evaluations) == (10, "uniform", 1, 60)
    assert found.strategy == "auto"
    assert found.output == Path("application_output_samples.csv")
    assert found.layout.timestamp == "Timestamp"
    assert not found.layout.feasibility.required
    assert (found.seconds, found.resume) == (None, None)
    assert found.notes == ()


def test_a_baco_scenario():
    found = scenario(
        application_name="mm",
        baco_mode={"mode": "client-server"},
        design_of_experiment={"doe_type": "embedding random sampling", "number_of_samples": 7},
        optimization_iterations=5,
        models={"model": "gaussian_process"},
        feasible_output={
            "enable_feasible_predictor": True,
            "name": "Ok",
            "true_value": 1,
            "false_value": 0,
        },
        time_budget=1.5,
        resume_optimization=True,
        resume_optimization_file="old.csv",
        run_directory="runs",
        acquisition_function="EI",
        epsilon_greedy_threshold=0,
    )
    assert (found.design, found.sampling, found.evaluations) == (7, "biased_walk", 12)
    assert found.strategy == "bayesian"
    said = found.layout.feasibility
    assert (said.name, said.yes, said.no, said.required) == ("Ok", "1", "0", True)
    assert found.seconds == 90
    assert found.output == Path("runs/mm_output_samples.csv")
    assert found.resume == Path("runs/old.csv")
    assert found.notes == ()


def test_a_hypermapper_2_scenario():
    found = scenario(
        hypermapper_mode={"mode": "client-server"},
        design_of_experiment={"doe_type": "standard latin hypercube", "number_of_samples": 4},
        optimization_iterations=3,
        evaluations_per_optimization_iteration=2,
        models={"model": "random_forest", "number_of_trees": 50},
        output_data_file="out/samples.csv",
        output_pareto_file="pareto.csv",
        resume_optimization=True,
        resume_optimization_data="out/old.csv",
        timestamp="When",
        print_best=True,
        log_file="out/run.log",
    )
    assert (found.design, found.sampling) == (4, "latin_hypercube")
    assert (found.batch, found.evaluations) == (2, 10)
    assert found.strategy == "random_forest"
    assert (found.output, found.resume) == (Path("out/samples.csv"), Path("out/old.csv"))
    assert found.layout.timestamp == "When"
    assert found.notes == (
        "without effect here: models.number_of_trees",
        "without effect here: output_pareto_file, print_best, log_file",
    )


def test_a_hypermapper_3_scenario():
    found = scenario(
        hypermapper_mode={"mode": "grpc", "server_addresses": ["localhost"]},
        batch_size=3,
        optimization_iterations=2,
        use_cot=True,
        input_parameters={
            "x": {"parameter_type": "integer", "values": [0, 9], "parameter_default": [3, 5]}
        },
    )
    assert (found.batch, found.evaluations) == (3, 16)
    assert found.space.default_config == {"x": 3}
    assert "the client is asked over stdin and stdout all the same" in " ".join(found.notes)
    assert "without effect here: use_cot" in found.notes


def test_resuming_reads_the_scenario_s_own_output_by_default():
    found = scenario(application_name="mm", resume_optimization=True)
    assert found.resume == found.output == Path("mm_output_samples.csv")


@pytest.mark.parametrize(
    ("fields", "noted"),
    [
        ({"optimization_method": "ytopt_ccs"}, "ytopt_ccs"),
        ({"models": {"model": "neural"}}, "neural"),
        ({"design_of_experiment": {"doe_type": "grid_search"}}, "grid_search"),
        (
            {"design_of_experiment": {"allow_repetitions": True}},
            "no configuration is evaluated twice",
        ),
        ({"acquisition_function": "UCB"}, "without effect here: acquisition_function"),
        ({"feasible_output": {"feasibility_threshold": 0.2}}, "feasible_output.feasibility_thr"),
        ({"baco_mode": {"mode": "default"}}, "'default'"),
        ({"foo": 1, "bar": 2}, "without effect here: foo, bar"),
        (
            {
                "input_parameters": {
                    "x": {
                        "parameter_type": "integer",
                        "values": [0, 9],
                        "parameter_default": 1,
                        "constraints": ["x > 3"],
                    }
                }
            },
            "the default configuration violates a constraint",
        ),
    ],
)
def test_ignored_settings_are_noted(fields, noted):
    assert noted in " ".join(scenario(**fields).notes)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"optimization_objectives": ["a", 2]}, "one or several objectives"),
        ({"optimization_objectives": None}, "one or several objectives"),
        ({"optimization_iterations": "ten"}, "optimization_iterations"),
        ({"optimization_iterations": 2.5}, "optimization_iterations"),
        ({"design_of_experiment": {"number_of_samples": -1}}, "number_of_samples"),
        ({"design_of_experiment": [3]}, "design_of_experiment must be an object"),
        (
            {"optimization_iterations": 0, "design_of_experiment": {"number_of_samples": 0}},
            "above 0",
        ),
        ({"time_budget": 0}, "time_budget"),
        ({"feasible_output": {"true_value": "x", "false_value": "x"}}, "another word"),
        ({"resume_optimization": "yes"}, "resume_optimization must be true or false"),
        ({"application_name": 3}, "application_name must be a text"),
    ],
)
def test_a_wrong_value_is_named_in_the_error(fields, named):
    with pytest.raises(RunFileError, match=named):
        scenario(**fields)


@pytest.mark.parametrize(
    "text",
    ["../x", "/tmp/x", "a/../../x", "link/x", "a/../link/x", "..", "a\0b", "\ud800", "a/" * 2**20],
)
def test_files_outside_the_run_directory_are_rejected(tmp_path, text):
    folder, other = tmp_path / "run", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (folder / "link").symlink_to(other)
    with pytest.raises(RunFileError, match="output_data_file must be a path within run_directory"):
        scenario(run_directory=str(folder), output_data_file=text)
    if text == "link/x":
        source = {**copy.deepcopy(SMALL), "run_directory": str(folder), "output_data_file": text}
        assert read_scenario(source, [other]).output == folder / text
        with pytest.raises(RunFileError, match="output_data_file"):
            read_scenario(source, [other / "x"])


def test_files_inside_the_run_directory_may_have_any_spelling(tmp_path):
    (tmp_path / "here").symlink_to(tmp_path)
    found = scenario(
        run_directory=str(tmp_path / "here"),
        output_data_file="a/../b.csv",
    )
    assert found.output == tmp_path / "here" / "a" / ".." / "b.csv"
    with pytest.raises(RunFileError, match="run_directory must be a path"):
        scenario(run_directory="a\0b")


def test_hostile_json_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(json, "loads", None)
    path = tmp_path / "x.json"
    for text in ["[" * 50_000, '{"a":' * 50_000, '["]", "\\"]", ' * 40]:
        path.write_text(text)
        with pytest.raises(SpaceError, match="brackets are nested more than 32 deep"):
            read_scenario(path)
    with path.open("wb") as file:
        file.truncate(2**40)  # a sparse file of one tebibyte
    with pytest.raises(SpaceError, match="more than 8 MiB"):
        read_scenario(path)


def test_brackets_in_texts_are_not_nested(tmp_path):
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**SMALL, "comment": '\\"[{' * 100, "more": "#'[" * 100}))
    assert read_scenario(path).space.parameters


@pytest.mark.parametrize("text", ["\ud800", "a\nb", "a,b"])
def test_names_that_no_line_can_contain_are_rejected(text):
    with pytest.raises(SpaceError, match="cannot be written to a line"):
        scenario(optimization_objectives=[text])
    one = {"parameter_type": "categorical", "values": ["x", text]}
    with pytest.raises(SpaceError, match="cannot be written"):
        scenario(input_parameters={"x": one})


def test_missing_and_invalid_files_are_rejected(tmp_path):
    with pytest.raises(RunFileError, match="No such file"):
        read_scenario(tmp_path / "none.json")
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(SpaceError, match="not contain a JSON object"):
        read_scenario(tmp_path / "x.json")


@pytest.mark.skipif(not DATA.is_dir(), reason="no public data: set BACO_LIKE_DATA")
@pytest.mark.parametrize(
    ("name", "objective", "design", "evaluations", "yes"),
    [
        ("base_hartmann6_discrete", "Value", 10, 110, "True"),
        ("branin4_scenario_feas", "Value", 10, 25, "True"),
        ("harris", "runtime", 10, 160, "True"),
        ("perm", "compute_time", 11, 61, "True"),
        ("rs_cot_1024_scenario", "runtime", 20, 35, "1"),
    ],
)
def test_the_public_scenarios(name, objective, design, evaluations, yes):
    found = read_scenario(DATA / f"{name}.json")
    assert found.layout.objective == objective
    assert (found.design, found.evaluations) == (design, evaluations)
    assert found.layout.feasibility.yes == yes
    assert list(found.space.parameters) == list(
        json.loads((DATA / f"{name}.json").read_text())["input_parameters"]
    )
