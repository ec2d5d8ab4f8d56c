"""The strategy, in the real package, simulating from small recorded tables."""

import importlib
import json
import shutil
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

from baco_like import Aim, MaxEvals, Optimizer, Space, run
from baco_like.evaluators import ReplayEvaluator
from baco_like.evaluators.replay import load
from baco_like.exceptions import BacoWarning, ConfigError, StrategyError
from baco_like.service.http import HttpServer
from baco_like.service.methods import Service
from baco_like.service.runs import Runs

kernel_tuner = pytest.importorskip("kernel_tuner")
from constraint import FunctionConstraint  # noqa: E402
from kernel_tuner.strategies.wrapper import OptAlgWrapper  # noqa: E402

from baco_like.integrations import BacoStrategy  # noqa: E402
from baco_like.integrations import kernel_tuner as ours  # noqa: E402
from baco_like.integrations._shared import read_listed_space  # noqa: E402
from baco_like.records.front import is_non_dominated  # noqa: E402

TUNE_PARAMS = {
    "block_size_x": [16, 32, 64, 128],
    "block_size_y": [1, 2, 4, 8],
    "unroll": [0, 1, 2],
    "layout": ["row", "column"],
    "fixed": [7],
}
RESTRICTIONS = ["block_size_x * block_size_y <= 256", "unroll == 0 or block_size_y > 1"]
SPACE = Space.from_kernel_tuner(TUNE_PARAMS, RESTRICTIONS)


def row(config):
    """Return a row of a cache: what is too large does not compile, and some configurations crash."""
    x, y, unroll = config["block_size_x"], config["block_size_y"], config["unroll"]
    times = {"compile_time": 1000.0, "verification_time": 0.0, "benchmark_time": 500.0}
    if x * y == 256 and unroll == 2:
        return {**config, "__error__": "CompilationFailedConfig", **times}
    if config["layout"] == "column" and unroll == 1:
        return {**config, "__error__": "RuntimeFailedConfig", **times}
    time = abs(x - 64) / 8 + abs(y - 4) + 3 * (unroll != 2) + (config["layout"] == "row") + 1.5
    return {**config, "time": time, "times": [time, time + 0.1], **times}


@pytest.fixture
def cache(tmp_path):
    return written(tmp_path / "cache.json", TUNE_PARAMS, {tuple(c.values()): row(c) for c in SPACE})


def written(path, tune_params, rows):
    document = {
        "device_name": "simulated",
        "kernel_name": "kernel",
        "problem_size": [1024],
        "tune_params_keys": list(tune_params),
        "tune_params": tune_params,
        "objective": "time",
        "cache": {",".join(map(str, values)): entry for values, entry in rows.items()},
    }
    path.write_text(json.dumps(document)[:-1] + "\n}")  # closed as Kernel Tuner does it
    return str(path)


def simulated(cache, strategy, tune=kernel_tuner.tune_kernel, **options):
    """Return the results and the environment of a simulated run."""
    known = {"quiet": True, "simulation_mode": True, "cache": cache, "restrictions": RESTRICTIONS}
    return tune("kernel", "", 1024, [], TUNE_PARAMS, strategy=strategy, **{**known, **options})


def configs(results, names=tuple(TUNE_PARAMS)):
    return [tuple(result[name] for name in names) for result in results]


def own_loop(cache, evaluations, strategy, seed):
    opt = Optimizer(SPACE, seed=seed, budget=evaluations, strategy=strategy)
    run(opt, ReplayEvaluator(load(cache)), MaxEvals(evaluations))
    return opt


def test_failures_keep_their_kind_and_no_configuration_runs_twice(cache):
    strategy = BacoStrategy("random_search")
    results, _ = simulated(cache, strategy, strategy_options={"max_fevals": 10**6})
    assert len(results) == len(set(configs(results))) == SPACE.feasible_size
    trials = strategy.optimizer.trials
    words = {tuple(trial.config.values()): trial.failure for trial in trials}
    kinds = {"CompilationFailedConfig": "compile", "RuntimeFailedConfig": "runtime", None: None}
    told = {values: row(dict(zip(TUNE_PARAMS, values, strict=True))) for values in words}
    assert words == {values: kinds[one.get("__error__")] for values, one in told.items()}
    assert {"compile", "runtime"} < set(words.values())
    assert trials[0].extra["seconds"] == {"compile": 1.0, "run": 0.5}


@pytest.mark.parametrize("batch", [1, 4])
def test_the_budget_is_met_exactly(cache, batch):
    strategy = BacoStrategy("random_search", batch=batch)
    results, _ = simulated(cache, strategy, strategy_options={"max_fevals": 10})
    assert len(results) == len(strategy.optimizer.trials) == 10
    assert not strategy.optimizer.pending


def test_the_time_limit_ends_the_run_within_a_batch(cache):
    strategy = BacoStrategy("random_search", batch=8)
    results, _ = simulated(cache, strategy, strategy_options={"time_limit": 14})
    assert 1 < len(results) == len(strategy.optimizer.trials) <= 14 / 1.5 + 1
    assert not strategy.optimizer.pending


def test_maximising_a_metric(cache):
    strategy = BacoStrategy("exhaustive")
    results, env = simulated(
        cache,
        strategy,
        metrics={"speed": lambda p: 1 / p["time"]},
        objective="speed",
        objective_higher_is_better=True,
    )
    ran = [result["speed"] for result in results if "__error__" not in result]
    assert strategy.optimizer.objective.direction == "maximize"
    assert strategy.optimizer.best_value == env["best_config"]["speed"] == max(ran)


def test_x0_is_evaluated_first(cache):
    first = (128, 2, 1, "row", 7)
    options = {"max_fevals": 3, "x0": list(first)}
    results, _ = simulated(cache, BacoStrategy(), strategy_options=options)
    assert configs(results)[0] == first
    with pytest.raises(ConfigError, match="violated"):
        simulated(cache, BacoStrategy(), strategy_options={"x0": [128, 8, 0, "row", 7]})


def test_the_seed_decides_the_run(cache):
    def asked(own, **options):
        strategy = BacoStrategy("random_search", seed=own)
        return configs(simulated(cache, strategy, strategy_options={"max_fevals": 5}, **options)[0])

    assert asked(4) == asked(None, seed=4) == asked(4, seed=5)
    assert asked(4) != asked(None) == asked(0)


def test_wrong_arguments_are_rejected_before_the_run(cache):
    both = {"time": False, "size": False}
    with pytest.raises(StrategyError, match="optimises one objective, not 'time', 'size'"):
        simulated(cache, BacoStrategy("bayesian"), objectives=both)
    with pytest.raises(ValueError, match="bayesain"):
        BacoStrategy("bayesain")
    with pytest.raises(ValueError, match="batch must be"):
        BacoStrategy(batch=0)


def test_several_objectives_and_metrics_of_kernel_tuner(cache):
    """As in a script with user-defined metrics: one is measured time, the other is computed from the parameters."""
    strategy = BacoStrategy(seed=3)
    metrics = {"speed": lambda p: 100.0 * p["unroll"] + p["block_size_x"] / p["time"]}
    options = {"metrics": metrics, "strategy_options": {"max_fevals": 30}}
    results, _ = simulated(cache, strategy, objectives={"time": False, "speed": True}, **options)
    optimizer = strategy.optimizer
    assert optimizer.options.aim == Aim({"time": "minimize", "speed": "maximize"})
    assert len(results) == len(optimizer.trials) == 30
    for trial, result in zip(optimizer.trials, results, strict=True):
        if trial.failure is None:
            assert (trial.value, trial.metrics["speed"]) == (result["time"], result["speed"])
    measured = np.array([[r["time"], -r["speed"]] for r in results if "__error__" not in r])
    front = {tuple(row) for row in measured[is_non_dominated(measured)].tolist()}
    assert {(t.value, -t.metrics["speed"]) for t in optimizer.front} == front
    assert {t.failure for t in optimizer.trials} <= {None, "compile", "runtime"}


def test_results_before_an_interrupt_are_observed(cache, monkeypatch):
    cost = importlib.import_module("kernel_tuner.strategies.common").CostFunc
    evaluate, calls = cost.eval_all, []

    def interrupted(self, xs, **options):
        calls.append(xs)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return evaluate(self, xs, **options)

    monkeypatch.setattr(cost, "eval_all", interrupted)
    strategy = BacoStrategy("random_search")
    with pytest.raises(KeyboardInterrupt):
        simulated(cache, strategy)
    assert len(strategy.optimizer.trials) == 5
    assert not strategy.optimizer.pending


def test_the_wrapper_and_a_cache_without_kernel(cache):
    strategy = BacoStrategy("random_search")
    results, _ = kernel_tuner.tune_cache(cache, strategy=OptAlgWrapper(strategy), quiet=True)
    ran = {tuple(config.values()) for config in SPACE if "time" in row(config)}
    assert set(configs(results)) == ran  # it leaves out what has failed
    assert len(strategy.optimizer.space.constraints) == 1  # the remaining list


def listed():
    return [tuple(config.values()) for config in SPACE]


@pytest.mark.parametrize(
    ("restrictions", "declared"),
    [
        (RESTRICTIONS, True),
        ([lambda p: p["block_size_x"] * p["block_size_y"] <= 256, RESTRICTIONS[1]], True),
        ([FunctionConstraint(lambda *values: True)], False),
        ([(lambda unroll: unroll < 9, ["unroll"])], False),
        (RESTRICTIONS[:1], False),  # the device's limit has been added
        (None, False),
    ],
)
def test_the_space_equals_the_list_of_kernel_tuner(restrictions, declared):
    found = read_listed_space(TUNE_PARAMS, restrictions, listed())
    assert {tuple(config.values()) for config in found.space} == set(listed())
    assert len(found.space.constraints) == (2 if declared else 1)


def test_values_return_in_their_original_types():
    given = {"a": np.array([1, 2], dtype=np.int32), "b": [True, "x"], "c": [np.float32(0.5)]}
    rows = [(a, b, given["c"][0]) for a in given["a"] for b in given["b"]]
    words = read_listed_space(given, None, rows[:3])
    back = [words.to_row(config) for config in words.space]
    assert sorted(map(str, back)) == sorted(map(str, rows[:3]))
    assert {type(value) for one in back for value in one} == {np.int32, bool, str, np.float32}
    alone = read_listed_space({"a": [3]}, None, [(3,)])
    assert [alone.to_row(config) for config in alone.space] == [(3,)]


# Kernel Tuner's functions with our strategies.


def test_a_script_of_kernel_tuner_with_the_import_replaced(cache):
    with pytest.warns(BacoWarning, match="popsize of 'genetic_algorithm'"):
        results, env = simulated(
            cache,
            "genetic_algorithm",
            ours.tune_kernel,
            strategy_options={"max_fevals": 12, "popsize": 4},
        )
    assert configs(results) == configs_of(own_loop(cache, 12, "genetic_algorithm", seed=0))
    assert env["device_name"] == "simulated"


def configs_of(opt):
    return [tuple(trial.config.values()) for trial in opt.trials]


def test_the_default_strategy_depends_on_the_budget(cache):
    results, _ = simulated(cache, None, ours.tune_kernel, strategy_options={"max_fevals": 6})
    assert configs(results) == configs_of(own_loop(cache, 6, "auto", seed=0))
    results, _ = simulated(cache, None, ours.tune_kernel)
    assert len(results) == SPACE.feasible_size


def test_generations_set_the_budget_or_a_warning_is_issued(cache):
    options = {"popsize": 3, "maxiter": 2}
    results, _ = simulated(cache, "pso", ours.tune_kernel, strategy_options=options)
    assert len(results) == 6
    with pytest.warns(BacoWarning, match="'random_sample' without max_fevals or time_limit"):
        results, _ = simulated(cache, "random_sample", ours.tune_kernel)
    assert len(results) == SPACE.feasible_size


@pytest.mark.parametrize("x0", [[64], [64, 1, 1, 1, 1, 1, 1]])
def test_x0_of_wrong_length_is_rejected(cache, x0):
    with pytest.raises(ConfigError, match=f"has {len(x0)} values for"):
        simulated(cache, "auto", ours.tune_kernel, strategy_options={"x0": x0, "max_fevals": 3})


def test_settings_and_strategy_objects_are_accepted(cache):
    options = {"max_fevals": 6, "initial": 2, "batch": 2}
    results, _ = simulated(cache, "bayesian", ours.tune_kernel, strategy_options=options)
    assert len(results) == 6
    with pytest.raises(ValueError, match="popsize"):
        simulated(cache, "bayesian", ours.tune_kernel, strategy_options={"popsize": 3})
    with pytest.raises(ValueError, match="no equal here"):
        simulated(cache, "minimize", ours.tune_kernel)
    mine = BacoStrategy("random_search", seed=1)
    results, _ = simulated(cache, mine, ours.tune_kernel, strategy_options={"max_fevals": 4})
    assert len(mine.optimizer.trials) == len(results) == 4


@pytest.mark.parametrize("strategy", ["brute_force", "random_sample", "bayes_opt", "pso"])
def test_unknown_options_are_refused(cache, strategy):
    options = {"max_fevals": 3, "popsiez": 4}
    with pytest.raises(ValueError, match=r"popsiez: .* has no such option; it has .*max_fevals"):
        simulated(cache, strategy, ours.tune_kernel, strategy_options=options)


def test_options_of_nsga2_are_those_of_kernel_tuner():
    with pytest.warns(BacoWarning, match="popsize of 'nsga2'"):
        chosen, _ = ours._choose_strategy("nsga2", {"max_fevals": 8, "popsize": 4})
    assert isinstance(chosen, BacoStrategy)


def test_every_mapped_strategy_exists_on_both_sides(cache):
    names = importlib.import_module("kernel_tuner.interface").strategy_map
    for name in ours.STRATEGY_NAMES:
        assert name in names
        ours._choose_strategy(
            name, {"max_fevals": 1}
        )  # would raise for a strategy that we do not have


def test_other_names_come_from_kernel_tuner():
    from baco_like.integrations.kernel_tuner import run_kernel

    assert run_kernel is kernel_tuner.run_kernel
    with pytest.raises(AttributeError, match="no attribute 'tune_kernels'"):
        _ = ours.tune_kernels


def test_tune_cache_with_the_import_replaced(cache):
    results, _ = ours.tune_cache(Path(cache), quiet=True, strategy_options={"max_fevals": 5})
    assert len(results) == 5


def test_a_cache_of_another_space_is_rejected(cache, tmp_path):
    other = written(tmp_path / "other.json", {"width": [1]}, {(1,): {"width": 1, "time": 1.0}})
    with pytest.raises(ConfigError, match=r"warm start other\.json"):
        simulated(cache, BacoStrategy(warm_start=other), strategy_options={"max_fevals": 4})


def test_a_t1_file_names_the_strategy(cache, tmp_path):
    (tmp_path / "kernel.cl").write_text("")
    method = tmp_path / "method.py"
    method.write_text("from baco_like.integrations import BacoStrategy\n")
    kinds = {"layout": "string"}
    attributes = {"custom_search_method_path": str(method), "strategy": "random_search", "seed": 2}
    document = {
        "ConfigurationSpace": {
            "TuningParameters": [
                {"Name": name, "Type": kinds.get(name, "int"), "Values": str(values)}
                for name, values in TUNE_PARAMS.items()
            ],
            "Conditions": [{"Expression": text, "Parameters": []} for text in RESTRICTIONS],
        },
        "KernelSpecification": {
            "Language": "OpenCL",
            "KernelName": "kernel",
            "KernelFile": str(tmp_path / "kernel.cl"),
            "ProblemSize": [1024],
            "GlobalSize": {"X": "1"},
            "LocalSize": {"X": "1"},
            "Device": {"Name": "simulated"},
            "Arguments": [],
        },
        "Search": {
            "Name": "BacoStrategy",
            "Attributes": [{"Name": name, "Value": value} for name, value in attributes.items()],
        },
        "Budget": [{"Type": "ConfigurationCount", "BudgetValue": 7}],
    }
    file = tmp_path / "T1.json"
    file.write_text(json.dumps(document))
    results, _ = kernel_tuner.tune_kernel_T1(
        file, Path(cache), simulation_mode=True, output_T4=False, strategy_options={}
    )
    asked = [{name: result[name] for name in TUNE_PARAMS} for result in results]
    assert asked == [trial.config for trial in own_loop(cache, 7, "random_search", seed=2).trials]


KERNEL = """
#if TILE == 4
#error uses too much shared data
#endif
extern "C" float work(float *a, int n) {
    for (int i = 0; i < n; i += block_size_x) a[i] += TILE;
    return (float) (TILE * block_size_x);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_compiled_kernels_and_a_continued_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the sources go

    def tuned(evaluations):
        strategy = BacoStrategy("random_search", seed=5)
        results, _ = kernel_tuner.tune_kernel(
            "work",
            KERNEL,
            8,
            [np.zeros(8, np.float32), np.int32(8)],
            {"TILE": [1, 2, 4], "block_size_x": [1, 2]},
            lang="C",
            compiler="g++",
            strategy=strategy,
            strategy_options={"max_fevals": evaluations},
            cache=str(tmp_path / "cache.json"),
            iterations=1,
            quiet=True,
        )
        assert len(results) == evaluations
        return strategy.optimizer.trials

    first, second = tuned(3), tuned(6)
    assert [trial.config for trial in second[:3]] == [trial.config for trial in first]
    assert [trial.value for trial in second[:3]] == [trial.value for trial in first]
    failed = {trial["TILE"] for trial in second if trial.failure == "compile"}
    assert failed == {4}
    assert {trial.value for trial in second} == {1.0, 2.0, 4.0, None}


class TwoWorkers(importlib.import_module("kernel_tuner.runners.simulation").SimulationRunner):
    """Stands for the parallel runner, which needs Ray and GPUs."""

    def __init__(self, *args, num_workers=None):
        super().__init__(*args[:3], *args[4:])
        self.num_workers = num_workers
        self.batches = []

    def available_parallelism(self):
        return 2 if self.num_workers is None else self.num_workers

    def run(self, parameter_space, tuning_options):
        self.batches.append(len(parameter_space))
        return super().run(parameter_space, tuning_options)


@pytest.fixture
def parallel(monkeypatch):
    made = []

    def runner(*args, **options):
        made.append(TwoWorkers(*args, **options))
        return made[-1]

    module = types.ModuleType("kernel_tuner.runners.parallel")
    module.ParallelRunner = runner
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return made


def test_the_parallel_runner_gives_all_its_workers(cache, parallel):
    options = {"strategy_options": {"max_fevals": 7}, "parallel": True, "simulation_mode": False}
    strategies = importlib.import_module("kernel_tuner.interface")._STRATEGY_PARALLEL
    before = list(strategies)
    simulated(cache, "random_search", ours.tune_kernel, **options)
    simulated(cache, BacoStrategy("random_search", batch=3), ours.tune_kernel, **options)
    simulated(cache, BacoStrategy("random_search"), **options)  # Kernel Tuner's own function
    assert [runner.num_workers for runner in parallel] == [None, None, 1]
    assert [one.batches for one in parallel] == [[2, 2, 2, 1], [3, 3, 1], [1] * 7]
    assert strategies == before


def test_two_machines_tune_together_on_a_server(cache):
    server = HttpServer(Service(Runs()), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}/run"
    try:
        strategies = [BacoStrategy("random_search", storage=url) for _ in range(2)]
        for strategy in strategies:
            simulated(
                cache, strategy, strategy_options={"max_fevals": 4, "x0": [128, 2, 1, "row", 7]}
            )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    one, two = (strategy.optimizer for strategy in strategies)
    assert (len(one.trials), len(two.trials)) == (4, 8)
    assert {trial.worker for trial in two.trials} == {one.worker, two.worker}
