"""What every adapter does, by one driver for each tool: the files of the tools have what only they do.

A driver has the space, a function that measures (None is a failure), and `run`, which evaluates suggestions until none
is left at the latest. Drivers of tools that are asked for suggestions have `ask` (the tool's trial and a configuration,
or None), `tell`, and `add` for results that were not suggested.
"""

import importlib
import math
import sys
import warnings

import pytest

from baco_like import Integer, Optimizer, Ordinal, Permutation, Space, SpaceExhausted, integrations
from baco_like.exceptions import MissingExtra

SPACE = Space(
    {"tile": Ordinal([1, 2, 4]), "n": Integer(1, 3), "order": Permutation(["i", "j"])},
    constraints=["tile * n <= 8", "tile > 1 or pos(order, 'i') == 0"],
)


class Driver:
    space = SPACE

    def measured(self, config):
        late = config["order"] == ("j", "i")
        return None if config["n"] == 3 else abs(config["tile"] - 2) + config["n"] / 8 + 2 * late

    def run(self, evaluations):
        for _ in range(evaluations):
            if (asked := self.ask()) is None:
                return
            trial, config = asked
            self.tell(trial, self.measured(config))


class Optuna(Driver):
    package = "optuna"

    def __init__(self, tmp_path, budget=None, **options):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(sampler=integrations.BacoSampler(SPACE, **options))
        self.distributions = integrations.optuna_distributions(SPACE)

    @property
    def optimizer(self):
        return self.study.sampler._update(self.study, -1).optimizer

    def ask(self):
        try:
            trial = self.study.ask(self.distributions)
        except SpaceExhausted:
            return None
        return trial, integrations.from_optuna(trial.params, SPACE)

    def tell(self, trial, value):
        from optuna.trial import TrialState

        self.study.tell(trial, value, TrialState.FAIL if value is None else TrialState.COMPLETE)

    def add(self, config, value):
        from optuna.trial import create_trial

        known = {"params": integrations.to_optuna(config, SPACE), "value": value}
        self.study.add_trial(create_trial(distributions=self.distributions, **known))


class Ray(Driver):
    package = "ray"

    def __init__(self, tmp_path, **options):
        self.search, self.number = integrations.BacoSearch(SPACE, "time", "min", **options), 0

    @property
    def optimizer(self):
        return self.search.optimizer

    def ask(self):
        self.number += 1
        config = self.search.suggest(f"t{self.number}")
        return None if isinstance(config, str) else (f"t{self.number}", config)

    def tell(self, trial, value):
        self.search.on_trial_complete(trial, {"time": math.nan if value is None else value})

    def add(self, config, value):
        self.search.add_evaluated_point(config, value)


class Gest(Driver):
    package = "gest_api"

    def __init__(self, tmp_path, **options):
        from gest_api.vocs import VOCS

        variables = integrations.vocs_variables(SPACE)
        vocs = VOCS(variables=variables, objectives={"f": "MINIMIZE"})
        self.generator = integrations.BacoGenerator(vocs, SPACE, **options)
        self.optimizer = self.generator.optimizer

    def ask(self):
        try:
            (point,) = self.generator.suggest(1)
        except ValueError:
            return None
        config = {name: point[name] for name in SPACE.names}
        return point, {**config, "order": tuple(point["order"].split(","))}

    def tell(self, trial, value):
        self.generator.ingest([{**trial, "f": math.nan if value is None else value}])

    def add(self, config, value):
        self.generator.ingest([{**config, "order": ",".join(config["order"]), "f": value}])


class Ax(Driver):
    package = "ax.api.client"

    def __init__(self, tmp_path, **options):
        import test_ax_node

        test_ax_node.import_packages()
        self.space = test_ax_node.SPACE
        self.node = integrations.BacoNode(self.space, **options)
        self.client = test_ax_node.client(self.node, "-value")

    def measured(self, config):
        return None if config["x"] == 1 else config["y"] + config["tile"] / 8

    @property
    def optimizer(self):
        experiment = self.client._experiment
        self.node.update_generator_state(experiment, experiment.lookup_data())
        return self.node.optimizer

    def ask(self):
        from ax.exceptions.core import SearchSpaceExhausted

        try:
            ((index, values),) = self.client.get_next_trials(max_trials=1).items()
        except SearchSpaceExhausted:
            return None
        order = tuple(values["order"].split(","))
        return index, {n: values[n] for n in self.space.names} | {"order": order}

    def tell(self, trial, value):
        if value is None:
            self.client.mark_trial_abandoned(trial)
        else:
            self.client.complete_trial(trial, {"value": value})

    def add(self, config, value):
        values = {**config, "order": ",".join(config["order"]), "one": 7}
        self.client.complete_trial(self.client.attach_trial(values), {"value": value})


class Pyatf(Driver):
    package = "pyatf"

    def __init__(self, tmp_path, **options):
        import test_pyatf_technique as pyatf

        self.tool, self.space, self.measured = pyatf, pyatf.OURS, pyatf.value
        self.searched = pyatf.search_space()
        self.technique = integrations.BacoTechnique(self.searched, **options)

    @property
    def optimizer(self):
        return self.technique.optimizer

    def run(self, evaluations):  # the cost of the last one is not reported
        self.tool.tuned(self.technique, self.searched, self.tool.Evaluations(evaluations + 1))


class KernelTuner(Driver):
    package = "kernel_tuner"

    def __init__(self, tmp_path, budget=None, **options):
        import test_kernel_tuner as tool

        self.tool, self.space = tool, tool.SPACE
        rows = {tuple(config.values()): tool.row(config) for config in self.space}
        self.cache = tool.written(tmp_path / "cache.json", tool.TUNE_PARAMS, rows)
        self.strategy = integrations.BacoStrategy(**options)

    def measured(self, config):
        return self.tool.row(config).get("time")

    @property
    def optimizer(self):
        return self.strategy.optimizer

    def run(self, evaluations):
        limit = {"max_fevals": evaluations}
        self.tool.simulated(self.cache, self.strategy, strategy_options=limit)


DRIVERS = [Optuna, Ray, Gest, Ax, Pyatf, KernelTuner]


@pytest.fixture
def make(request, tmp_path):
    pytest.importorskip(request.param.package)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the tools
        yield lambda **options: request.param(tmp_path, **options)


def drivers(chosen):
    return pytest.mark.parametrize("make", chosen, ids=lambda d: d.__name__, indirect=True)


every = drivers(DRIVERS)
asked = drivers([driver for driver in DRIVERS if hasattr(driver, "ask")])


@every
def test_a_tool_runs_like_a_plain_ask_tell_loop(make):
    driver = make(seed=3, strategy="genetic_algorithm", budget=9)
    driver.run(9)
    budget = None if isinstance(driver, Optuna) else 9
    plain = Optimizer(driver.space, seed=3, strategy="genetic_algorithm", budget=budget)
    for _ in range(9):
        trial = plain.suggest()
        value = driver.measured(trial)
        plain.observe(trial, value, failed="runtime" if value is None else None)
    found, expected = (
        [(dict(trial.config), trial.value, trial.failure is None) for trial in run.trials]
        for run in (driver.optimizer, plain)
    )
    assert found == expected
    assert not all(succeeded for _, _, succeeded in found)


@every
def test_a_run_evaluates_each_configuration_once_and_ends(make):
    driver = make(strategy="random_search")
    driver.run(1000)
    configs = [tuple(trial.config.values()) for trial in driver.optimizer.trials]
    assert len(configs) == driver.space.feasible_size
    assert set(configs) == {tuple(config.values()) for config in driver.space}


@every
def test_results_of_earlier_runs_are_not_evaluated_again(make):
    made = make()
    results = [(config, made.measured(config)) for config in list(made.space)[:4]]
    driver = make(strategy="random_search", warm_start=results)
    driver.run(1000)
    trials = driver.optimizer.trials
    assert [(dict(t.config), t.value) for t in trials[:4]] == results
    configs = {tuple(trial.config.values()) for trial in trials}
    assert len(configs) == len(trials) == driver.space.feasible_size


@every
def test_a_wrong_strategy_is_rejected_at_once(make):
    with pytest.raises(ValueError, match="bayesain"):
        make(strategy="bayesain")


@asked
def test_running_trials_are_pending_and_differ(make):
    driver = make(strategy="random_search")
    configs = [driver.ask()[1] for _ in range(driver.space.feasible_size)]
    assert all(driver.space.contains(config) for config in configs)
    assert len({tuple(config.values()) for config in configs}) == len(configs)
    # A study of Optuna repeats a configuration while trials run.
    assert (driver.ask() is None) != isinstance(driver, Optuna)


@asked
def test_a_suggestion_that_another_result_has_answered_is_a_second_measurement(make):
    driver = make(strategy="random_search")
    trial, config = driver.ask()
    driver.add(config, 1.0)
    driver.ask()
    driver.tell(trial, 2.0)
    found = driver.optimizer
    assert sorted(t.value for t in found.trials) == [1.0, 2.0]
    assert {tuple(t.config.values()) for t in found.trials} == {tuple(config.values())}
    assert len(found.pending) == 1


def test_every_adapter_of_the_package_has_a_driver():
    assert len([n for n in integrations.__all__ if n.startswith("Baco")]) == len(DRIVERS)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("ax", "ax.core.data", "ax"),
        ("gest", "gest_api", "gest"),
        ("helion", "helion", "helion"),
        ("kernel_tuner", "kernel_tuner.searchspace", "kernel-tuner"),
        ("optuna", "optuna", "optuna"),
        ("pyatf", "pyatf.search_space", "pyatf"),
        ("ray", "ray.tune.search", "ray"),
        ("triton", "triton", "triton"),
        ("tvm", "tvm_ffi", "tvm"),
    ],
)
def test_the_extra_is_named(name, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    owned = tuple(f"baco_like.integrations.{part}" for part in (name, f"_{name}_"))
    for loaded in [loaded for loaded in sys.modules if loaded.startswith(owned)]:
        monkeypatch.delitem(sys.modules, loaded)
    with pytest.raises(MissingExtra, match=rf"baco-like\[{extra}\]"):
        importlib.import_module(f"baco_like.integrations.{name}")
