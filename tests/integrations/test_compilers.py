"""What each adapter inside a compiler promises, by one driver for each compiler.

A driver has the space as ours, and `run`: it tunes with a function that measures a configuration, which returns a
number or a failure word, and returns the chosen configuration.
"""

import itertools

import pytest

DEFAULT = {"tile": 32, "stages": 2, "order": (0, 1), "flag": False}


def measured(config):
    if config["tile"] * config["stages"] > 256:
        return "compile"
    late = config["order"] == (1, 0)
    return 1 + abs(config["tile"] - 64) / 64 + config["stages"] / 8 + late - config["flag"] / 4


class Helion:
    package = "helion"
    default = DEFAULT

    def run(self, measure, evaluations=12, **options):
        import torch
        from helion.autotuner import BooleanFragment, IntegerFragment, PowerOfTwoFragment
        from helion.autotuner.config_fragment import PermutationFragment

        from baco_like.integrations.helion import BacoAutotuner, autotune

        tunables = {
            "tile": PowerOfTwoFragment(16, 128, 32),
            "stages": IntegerFragment(1, 4, 2),
            "order": PermutationFragment(2),
            "flag": BooleanFragment(),
        }
        made = []

        class Search(BacoAutotuner):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                made.append(self)

        seed = options.pop("seed", 0)
        options.setdefault("confirm", None)
        given = {"batch": 1, "evaluations": evaluations, **options}
        with pytest.MonkeyPatch.context() as patch:
            from helion.autotuner import search_algorithms

            patch.setitem(search_algorithms, "baco_like", Search)
            config = autotune(
                tunables,
                lambda config: lambda *args: None,
                (torch.zeros(1),),
                autotune_random_seed=seed,
                autotune_log_level=0,
                benchmark_provider_cls=provider(lambda c: measure(self.plain(c))),
                **given,
            )
        self.optimizer = made[0].optimizer
        return self.plain(config)

    @staticmethod
    def plain(config):
        return {**config.config, "order": tuple(config["order"])}


def provider(measure):
    """Return a benchmark provider of Helion that asks a function."""
    from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult

    class Provider(BenchmarkProvider):
        mutated_arg_indices = ()

        def __init__(self, kernel, settings, config_spec, args, log, autotune_metrics):
            self.metrics = autotune_metrics

        def setup(self):
            pass

        def cleanup(self):
            pass

        def benchmark(self, configs, *, desc="", raise_if_no_viable_config=True):
            self.metrics.num_configs_tested += len(configs)
            return [self.result(config, measure(config)) for config in configs]

        def result(self, config, value):
            statuses = {"compile": "error", "correctness": "accuracy_error", "timeout": "timeout"}
            if not isinstance(value, str):
                return BenchmarkResult(config, print, value, "ok", 0.5)
            seconds = None if value == "compile" else 0.5
            return BenchmarkResult(config, print, float("inf"), statuses[value], seconds)

    return Provider


DRIVERS = [Helion]


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.__name__)
def driver(request):
    pytest.importorskip(request.param.package)
    return request.param()


def configs(driver):
    return [dict(trial.config) for trial in driver.optimizer.trials]


def test_the_default_configuration_is_first_and_the_best_is_chosen(driver):
    best = driver.run(measured)
    assert configs(driver)[0] == driver.default
    values = [measured(config) for config in configs(driver)]
    assert measured(best) == min(value for value in values if not isinstance(value, str))
    assert measured(best) < measured(driver.default)


@pytest.mark.parametrize("word", ["compile", "correctness", "timeout"])
def test_failures_are_recorded_by_their_words(driver, word):
    driver.run(lambda config: word if config["flag"] else measured(config), 20)
    failures = {trial.failure for trial in driver.optimizer.trials if trial.config["flag"]}
    assert failures == {word}
    assert [t for t in driver.optimizer.trials if not t.failure and not t.config["flag"]]


def test_each_configuration_is_measured_once_until_none_is_left(driver):
    calls = []
    driver.run(lambda config: calls.append(config) or measured(config), 1000)
    assert len(calls) == len({tuple(config.items()) for config in calls}) == 64


def test_a_seed_repeats_the_run(driver):
    runs = []
    for seed in (1, 1, 2):
        driver.run(measured, strategy="random_search", seed=seed)
        runs.append(configs(driver))
    assert runs[0] == runs[1] != runs[2]


def test_an_interrupted_run_resumes(driver, tmp_path):
    calls = []

    def interrupted(config):
        calls.append(config)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return measured(config)

    journal = tmp_path / "run.jsonl"
    with pytest.raises(KeyboardInterrupt):
        driver.run(interrupted, storage=journal, seed=1)
    driver.run(interrupted, storage=journal, seed=2)  # the journal keeps its seed
    resumed = configs(driver)
    driver.run(measured, seed=1)
    assert resumed == configs(driver)
    assert len(calls) == 13  # the fifth once more


def test_a_lucky_measurement_does_not_beat_the_default(driver):
    from baco_like import Confirm

    count = itertools.count()
    seen = set()

    def noisy(config):
        noise = (next(count) * 7 % 13) / 1000
        first = tuple(config.items()) not in seen
        seen.add(tuple(config.items()))
        return (1.0 if config == driver.default else 0.9 if first else 1.5) + noise

    assert driver.run(noisy, confirm=Confirm(simplify=0)) == driver.default
    assert driver.optimizer.best.config != driver.default
