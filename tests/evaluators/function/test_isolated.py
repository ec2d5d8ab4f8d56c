"""Functions in isolated processes: their results and exceptions, workers side by side, and the TOML kind."""

import time
from pathlib import Path

import patient
import pytest

from baco_like import MaxEvals, Optimizer, run
from baco_like._tables import Table
from baco_like.evaluators import Repeats, isolated_function, registry
from baco_like.exceptions import EvaluatorError
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space

HERE = Path(__file__).parent
SPACE = Space({"x": [1, 2, 3, 4]})


def make(name, timeout=30.0, workers=1, **more):
    return isolated_function(
        f"objective_targets:{name}",
        timeout=timeout,
        workers=workers,
        path=[str(HERE)],
        **more,
    )


def evaluate(evaluator, **config):
    evaluator.submit(Trial(5, config))
    (outcome,) = evaluator.wait()
    evaluator.close()
    return outcome


def test_values_failures_and_metrics():
    evaluator = make("plain", workers=2)
    for number, x in enumerate((2, 3)):
        evaluator.submit(Trial(number, {"x": x}))
    outcomes = {}
    while len(outcomes) < 2:
        outcomes |= {one.trial_id: one for one in evaluator.wait()}
    evaluator.close()
    assert outcomes[0].value == 2.0
    assert (outcomes[1].failed, outcomes[1].message) == ("compile", "too large")
    found = evaluate(make("metrics", metric="time"), order=("i", "j"))
    assert (found.value, found.repeats, found.metrics["order"]) == (2.0, (1.0, 2.0, 3.0), 2.0)
    assert found.extra["seconds"]["run"] >= 0


def test_forged_messages_of_a_function_fail_its_evaluation_and_the_run_goes_on():
    space = Space({"x": [1, 2, 3, 4, 5, 6]})
    evaluator = make("forging")
    optimizer = Optimizer(space, strategy="random_search")
    run(optimizer, evaluator, MaxEvals(6))
    evaluator.close()
    trials = {trial["x"]: trial for trial in optimizer.trials}
    assert (trials[1].value, trials[6].value) == (1.0, 6.0)
    for x in (2, 3, 4, 5):
        assert trials[x].failure == "runtime", x
        assert "something else than an answer" in trials[x].message


def test_what_is_no_number_is_told_as_a_problem():
    outcome = evaluate(make("not_a_number"), x=1)
    assert outcome.failed == "runtime"
    assert "nan" in outcome.problem


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "objective_targets:mistaken",
            r"raised builtins.TypeError: a mistake at .*\.py:\d+, for \{",
        ),
        ("objective_targets:absent", "does not start.*absent"),
        ("no_such_module:f", "no_such_module"),
    ],
)
def test_mistakes_end_the_run(function, message):
    evaluator = isolated_function(function, timeout=30.0, path=[str(HERE)])
    with pytest.raises(EvaluatorError, match=message):
        evaluate(evaluator, x=1)
    evaluator.close()


def test_closing_does_not_wait_for_what_runs():
    evaluator = make("slow", timeout=60.0, workers=2)
    started = time.monotonic()
    for pause in (0.0, 0.2):  # while workers start, or run
        for number in range(3):
            evaluator.submit(Trial(number, {"x": 1}))
        time.sleep(pause)
        evaluator.close()
    assert time.monotonic() - started < 30
    with pytest.raises(EvaluatorError, match="without a submitted trial"):
        evaluator.wait()


def test_the_kind_function_of_a_toml_file(tmp_path):
    (tmp_path / "own_objective.py").write_text("def f(trial):\n    return {'ms': trial['x'] * 2}\n")
    table = Table("evaluator", {"kind": "function", "function": "own_objective:f", "metric": "ms"})
    assert evaluate(registry.create(table, SPACE, "ms", tmp_path), x=2).value == 4.0
    for more, count in (({}, 3), ({"max_repeats": 9, "relative_error": 0.1}, 3)):
        again = Table("evaluator", {**table.entries, "repeats": 3, **more})
        outcome = evaluate(registry.create(again, SPACE, "ms", tmp_path), x=2)
        assert outcome.repeats == (4.0,) * count


def test_each_call_has_its_own_limit():
    evaluator = make("half", timeout=1.0, repeats=Repeats(4))
    assert patient.evaluate(evaluator, Trial(1, {"x": 1})).repeats == (1.0,) * 4
    evaluator.close()


def test_wrong_arguments():
    with pytest.raises(EvaluatorError, match="workers must be a whole number from 1, not 0"):
        make("plain", workers=0)
    with pytest.raises(EvaluatorError, match="timeout = 0"):
        make("plain", timeout=0)
    with pytest.raises(EvaluatorError, match="expected 'package"):
        isolated_function("plain", timeout=1.0)


def test_a_function_object_is_refused_with_the_way_out():
    for function in (lambda trial: 1.0, len, None):
        with pytest.raises(EvaluatorError, match=r"expected a name such as .* FunctionEvaluator"):
            isolated_function(function, timeout=1)
