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
    late = config["order"] in ((1, 0), 1)
    return 1 + abs(config["tile"] - 64) / 64 + config["stages"] / 8 + late - config["flag"] / 4


class Helion:
    package = "helion"
    default = DEFAULT
    launches = 0  # of the winner after the run

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


class Triton:
    package = "triton"
    default = DEFAULT | {"order": 0}
    launches = 1

    def run(self, measure, evaluations=12, storage=None, **options):
        import torch
        from triton.runtime.jit import KernelInterface

        from baco_like import Infeasible
        from baco_like.integrations.triton import autotune

        class Kernel(KernelInterface):
            """Stands for a function of ``triton.jit``: a launch fails, or is followed by a benchmark."""

            arg_names = ("x", *DEFAULT)

            @staticmethod
            def fn(x):
                pass

            def run(self, *args, grid, warmup, **config):
                self.value = measure(config)
                if isinstance(self.value, str):
                    raise Infeasible("it failed", self.value)

        space = {"tile": [32, 16, 64, 128], "stages": [2, 1, 3, 4], "order": [0, 1]}
        options.setdefault("confirm", None)
        kernel = Kernel()
        tuned = autotune(
            {**space, "flag": [False, True]},
            evaluations=evaluations,
            slow=None,
            file=None if storage is None else storage.with_suffix(".json"),
            do_bench=lambda launch, quantiles: [kernel.value, 0, 0],
            **options,
        )(kernel)
        tuned[1,](torch.zeros(1))
        (result,) = tuned.results.values()
        self.optimizer = result.optimizer
        return tuned.best_config


TVM_NAMES = ("tile8x2_0_1", "choice_1_2_3_4_0", "choice_0_1_0", "choice_5_6_0")
TVM_DEFAULT = dict(zip(TVM_NAMES, (2, 2, 0, 5), strict=True))
"""Initial decisions of `tvm_schedule`."""


class Tvm:
    package = "tvm"
    default = TVM_DEFAULT
    launches = 0

    def run(self, measure, evaluations=12, storage=None, seed=1, confirm=None, **options):
        if confirm is not None:
            pytest.skip("TVM's database takes the best single measurement")
        import sys
        import types

        from tvm.s_tir import meta_schedule as ms

        from baco_like.integrations.tvm import BacoSearchStrategy

        folder = None if storage is None else storage.with_suffix("")
        strategy = BacoSearchStrategy(**options, batch=1, folder=folder)
        with pytest.MonkeyPatch.context() as patch:
            # TVM imports it for each context, which takes a minute.
            intrinsics = "tvm.s_tir.tensor_intrin"
            patch.setitem(sys.modules, intrinsics, types.ModuleType(intrinsics))
            context = ms.TuneContext(
                tvm_module(),
                target={"kind": "llvm", "num-cores": 1},
                space_generator=ms.space_generator.ScheduleFn(
                    tvm_schedule, sch_rules=[], postprocs=[], mutator_probs={}
                ),
                search_strategy=strategy,
                num_threads=1,
                rand_state=seed + 1,
            )
        context.pre_tuning(evaluations, 4)
        self.optimizer = strategy.optimizers["main"]
        while (candidates := context.generate_measure_candidates()) is not None:
            results = [self.result(measure) for _ in candidates]
            context.notify_runner_results(candidates, results)
        return self.plain(dict(self.optimizer.best.config))

    def result(self, measure):
        from tvm.s_tir.meta_schedule.runner import RunnerResult

        (trial,) = self.optimizer.pending
        value = measure(self.plain(trial.config))
        if not isinstance(value, str):
            return RunnerResult([value / 1000, value / 1000], None)
        messages = {
            "compile": "LocalBuilder: An exception occurred",
            "correctness": "LocalRunner: An exception occurred",
            "timeout": "LocalRunner: Timeout, killed after 30 seconds",
        }
        return RunnerResult(None, messages[value])

    @staticmethod
    def plain(config):
        tile, stages, order, flag = config.values()
        return {"tile": 16 * tile, "stages": stages, "order": order, "flag": flag == 6}


def tvm_module():
    import tvm
    from tvm import te

    given = te.placeholder((8,), name="given")
    doubled = te.compute((8,), lambda i: given[i] * 2.0, name="doubled")
    function = te.create_prim_func([given, doubled])
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def tvm_schedule(schedule):
    block = schedule.get_sblock("doubled")
    (loop,) = schedule.get_loops(block)
    tiles = schedule.sample_perfect_tile(loop, 2, 16, decision=[4, 2])
    schedule.split(loop, tiles)
    for name, values, decision in (("a", [1, 2, 3, 4], 1), ("b", [0, 1], 0), ("c", [5, 6], 0)):
        chances = [1 / len(values)] * len(values)
        schedule.annotate(block, name, schedule.sample_categorical(values, chances, decision))


DRIVERS = [Helion, Triton, Tvm]


@pytest.fixture(params=DRIVERS, ids=lambda driver: driver.__name__)
def driver(request):
    pytest.importorskip(request.param.package)
    return request.param()


def configs(driver):
    return [dict(trial.config) for trial in driver.optimizer.trials]


def test_the_default_configuration_is_first_and_the_best_is_chosen(driver):
    calls = []
    best = driver.run(lambda config: calls.append(config) or measured(config))
    assert configs(driver)[0] == driver.default
    values = [measured(config) for config in calls]
    assert measured(best) == min(value for value in values if not isinstance(value, str))
    assert measured(best) < values[0]


@pytest.mark.parametrize("word", ["compile", "correctness", "timeout"])
def test_failures_are_recorded_by_their_words(driver, word):
    calls = []

    def fails(config):
        calls.append(config)
        return word if config["flag"] else 1.0 + config["stages"]

    driver.run(fails, 20)
    failures = [trial.failure for trial in driver.optimizer.trials]
    known = "runtime" if (word, driver.package) == ("correctness", "tvm") else word
    assert failures == [known if config["flag"] else None for config in calls[: len(failures)]]
    assert {None, known} == set(failures)


def test_each_configuration_is_measured_once_until_none_is_left(driver):
    calls = []
    driver.run(lambda config: calls.append(config) or measured(config), 1000)
    assert len({tuple(config.items()) for config in calls}) == 64
    assert len(calls) == 64 + driver.launches


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
    driver.run(interrupted, storage=journal, seed=1)
    resumed = configs(driver)
    driver.run(measured, seed=1)
    assert resumed == configs(driver)
    assert len(calls) == 13 + driver.launches  # the fifth is measured again


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
