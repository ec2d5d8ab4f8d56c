"""`serve` with several objectives: HyperMapper's example of Chakong and Haimes, resuming, and files of samples."""

import copy
import json
from pathlib import Path

import pytest
from test_hypermapper_server import talk

from baco_like import Aim, Categorical, Integer, Optimizer, Space
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.integrations import (
    hypermapper,
    observe_samples,
    read_samples,
    read_scenario,
    write_samples,
)
from baco_like.results.formats import read

SCENARIO = {
    "application_name": "chakong_haimes",
    "optimization_objectives": ["f1_value", "f2_value"],
    "hypermapper_mode": {"mode": "client-server"},
    "design_of_experiment": {"doe_type": "random sampling", "number_of_samples": 6},
    "optimization_iterations": 4,
    "models": {"model": "random_forest"},
    "feasible_output": {
        "enable_feasible_predictor": True,
        "name": "Valid",
        "true_value": "True",
        "false_value": "False",
    },
    "input_parameters": {
        "x1": {"parameter_type": "real", "values": [-20, 20], "parameter_default": 0},
        "x2": {"parameter_type": "real", "values": [-20, 20], "parameter_default": 7},
    },
}


def fields(**other):
    return {**copy.deepcopy(SCENARIO), **other}


def chakong_haimes(x1, x2):
    f1 = 2 + (x1 - 2) ** 2 + (x2 - 1) ** 2
    f2 = 9 * x1 - (x2 - 1) ** 2
    return f1, f2, x1 * x1 + x2 * x2 <= 225 and x1 - 3 * x2 + 10 <= 0


class Client:
    """Answers as HyperMapper's example client does; it dies after some rows."""

    names = "x1,x2,f1_value,f2_value,Valid"

    def __init__(self, rows=1000):
        self.left, self.asked, self.ended, self._lines = rows, [], False, []

    def write(self, text):
        lines = text.splitlines()
        self.ended = lines[-1] == "End of HyperMapper"
        if self.ended:
            return
        self._lines.append(self.names)
        for line in lines[2:]:
            x1, x2 = map(float, line.split(","))
            self.asked.append((x1, x2))
            self._lines.append(",".join(map(str, (x1, x2, *chakong_haimes(x1, x2)))))

    def flush(self):
        pass

    def readline(self, size=-1):
        if not self._lines or self.left < 0:
            return ""
        self.left -= self._lines[0] != self.names
        return self._lines.pop(0) + "\n" if self.left >= 0 else ""


def values(row):
    return tuple(map(float, row.split(",")[:4]))


@pytest.mark.parametrize("model", ["random_forest", "gaussian_process"])
def test_the_example_of_chakong_and_haimes(tmp_path, model):
    client, journal = Client(), tmp_path / "run.jsonl"
    source = fields(models={"model": model})
    reports, rows = talk(client, source, tmp_path, strategy=None, journal=journal)
    assert client.ended
    assert len(client.asked) == len(rows) - 1 == 10
    assert client.asked[0] == (0.0, 7.0)
    assert rows[0] == "x1,x2,f1_value,f2_value,Valid,Timestamp"
    for row, asked in zip(rows[1:], client.asked, strict=True):
        f1, f2, valid = chakong_haimes(*asked)
        assert values(row) == (*asked, f1, f2)
        assert row.split(",")[4] == str(valid)
    optimizer = Optimizer.load(journal)
    assert optimizer.options.aim == Aim({"f1_value": "minimize", "f2_value": "minimize"})
    assert optimizer.options.strategy["name"] == "auto"
    used = "forest" if model == "random_forest" else "gp"
    assert optimizer.options.strategy["settings"]["surrogate"] == used
    assert {t.tag["phase"] for t in optimizer.trials[6:]} == {"model"}
    assert "front of " in reports[-1]
    assert "; knee f1_value " in reports[-1]


def test_a_run_resumes_from_its_samples_with_all_objectives(tmp_path):
    first = Client(rows=8)
    with pytest.raises(EvaluatorError, match="after 8 of 10 evaluations"):
        talk(first, fields(), tmp_path, strategy="random_search")
    before = (tmp_path / "chakong_haimes_output_samples.csv").read_text().splitlines()
    second = Client()
    _, rows = talk(second, fields(resume_optimization=True), tmp_path)
    assert rows[:9] == before
    assert len(second.asked) == 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (",f2_value", "", "no column 'f2_value'"),
        ("f2_value", "f3_value", "no column 'f2_value'"),
        ("f2_value,", "f2_value,f2_value,", "two columns 'f2_value'"),
    ],
)
def test_a_reply_without_an_objective_ends_the_run(tmp_path, old, new, message):
    client = Client()
    client.names = Client.names.replace(old, new)
    with pytest.raises(EvaluatorError, match=message):
        talk(client, fields(), tmp_path)


def test_an_objective_that_is_not_a_number_is_one_failure(tmp_path):
    scenario = read_scenario(fields(run_directory=str(tmp_path)))
    path = tmp_path / "samples.csv"
    path.write_text(
        "x1,x2,f1_value,f2_value,Valid,Timestamp\n1.0,2.0,3.5,nan,True,7\n1.0,3.0,-1,-2,False,8\n"
        "1.0,4.0,3.5,4.5,True,9\n"
    )
    configs, outcomes = read_samples(path, scenario.layout)
    assert [outcome.value for outcome in outcomes] == [None, None, 3.5]
    assert outcomes[0].message == "f2_value = 'nan' is not a finite number"
    assert dict(outcomes[2].metrics) == {"f2_value": 4.5}
    objectives = dict.fromkeys(scenario.layout.objectives, "minimize")
    optimizer = Optimizer(scenario.space, objectives, strategy="random_search")
    assert observe_samples(optimizer, configs, outcomes) == 0
    assert [trial.value for trial in optimizer.front] == [3.5]
    write_samples(tmp_path / "copy.csv", optimizer.trials, scenario.layout)
    copied = (tmp_path / "copy.csv").read_text()
    assert copied == path.read_text().replace("nan,True", "nan,False")


@pytest.mark.parametrize("names", [[], ["a", 1], "a", [None]])
def test_names_of_objectives_are_checked(names):
    with pytest.raises(RunFileError, match="names of one or several objectives"):
        read_scenario(fields(optimization_objectives=names))


def test_a_best_point_is_noted_as_impossible():
    scenario = read_scenario(fields(print_best=True))
    assert not scenario.print_best
    assert "print_best: several objectives have no best point" in scenario.notes


def test_the_export_has_a_column_for_each_objective(tmp_path):
    space = Space({"tile": Integer(1, 9), "flag": Categorical(["a", "b"])})
    objectives = {"time": "minimize", "size": "minimize"}
    optimizer = Optimizer(space, objectives, strategy="random_search", seed=2)
    for i, trial in enumerate(optimizer.suggest(4)):
        metrics = {"time": 1.5 + i, "size": 100.0 - i, "other": 7}
        optimizer.observe(trial, metrics if i else None, failed=None if i else "compile")
    path = tmp_path / "samples.csv"
    optimizer.export("baco", path)
    assert path.read_text().splitlines()[0] == "tile,flag,time,size,Valid,Timestamp"
    recorded = read(path, "time")
    assert recorded.names == ("tile", "flag")
    assert [o.value for o in recorded.outcomes] == [None, 2.5, 3.5, 4.5]
    assert [dict(o.metrics) for o in recorded.outcomes[1:]] == [{"size": s} for s in (99, 98, 97)]
    again = Optimizer(space, objectives, warm_start=Path(path), strategy="nsga2")
    assert [trial.metrics["size"] for trial in again.front] == [99, 98, 97]


# A Python function ----------------------------------------------------------------------------------------------


def function(config):
    f1, f2, valid = chakong_haimes(config["x1"], config["x2"])
    return {"f1_value": f1, "f2_value": f2, "Valid": valid}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_script_with_a_function_changes_one_import(folder):
    """The script `chakong_haimes.py` of HyperMapper and BaCO, which reads a scenario relative to its folder."""
    scenario = fields(hypermapper_mode={"mode": "default"})
    (folder / "scenario.json").write_text(json.dumps(scenario))
    optimizer = hypermapper.optimize("scenario.json", function)
    rows = (folder / "chakong_haimes_output_samples.csv").read_text().splitlines()
    assert rows[0] == "x1,x2,f1_value,f2_value,Valid,Timestamp"
    assert len(rows) - 1 == len(optimizer.trials) == 10
    for text, trial in zip(rows[1:], optimizer.trials, strict=True):
        f1, f2, valid = chakong_haimes(trial["x1"], trial["x2"])
        assert values(text) == (trial["x1"], trial["x2"], f1, f2)
        assert (trial.failure is None) == valid
    assert len(optimizer.front) >= 1


def test_a_function_and_a_program_get_the_same_requests(folder):
    client = Client()
    talk(client, fields(), folder, strategy="nsga2", seed=3)
    (folder / "chakong_haimes_output_samples.csv").unlink()
    optimizer = hypermapper.optimize(fields(), function, strategy="nsga2", seed=3)
    assert [(trial["x1"], trial["x2"]) for trial in optimizer.trials] == client.asked


@pytest.mark.parametrize("make", [tuple, list, lambda values: dict(zip("yv", values, strict=True))])
def test_a_function_may_return_values_in_order(folder, make):
    column = {**SCENARIO["feasible_output"], "name": "v"}
    scenario = fields(optimization_objectives=["y"], feasible_output=column)
    optimizer = hypermapper.optimize(scenario, lambda x: make([x["x1"] ** 2, x["x1"] < 5]))
    assert optimizer.best_value == min(t["x1"] ** 2 for t in optimizer.trials if t["x1"] < 5)
    assert all((t.failure is None) == (t["x1"] < 5) for t in optimizer.trials)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"f1_value": 1.0, "Valid": True}, "lacks f2_value, after 0 of 10 evaluations"),
        ({"f1_value": 1.0, "f2_value": 2.0}, "lacks Valid"),
        ((1.0, 2.0), "expected values of f1_value, f2_value, Valid"),
        (1.0, "expected values of f1_value"),
    ],
)
def test_a_function_without_an_objective_ends_the_run(folder, result, message):
    with pytest.raises(EvaluatorError, match=message):
        hypermapper.optimize(fields(), lambda config: result)


def test_an_interrupted_function_resumes_from_the_journal(folder):
    def interrupted(config):
        if next(calls) == 5:
            raise KeyboardInterrupt
        return function(config)

    calls = iter(range(100))
    with pytest.raises(KeyboardInterrupt):
        hypermapper.optimize(fields(), interrupted, journal="run.jsonl")
    resumed = hypermapper.optimize(fields(), function, journal="run.jsonl")
    whole = hypermapper.optimize(fields(output_data_file="whole.csv"), function)
    assert [dict(t) for t in resumed.trials] == [dict(t) for t in whole.trials]
