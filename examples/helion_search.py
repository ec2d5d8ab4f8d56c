"""Tune a function on the CPU by Helion's ``autotune`` with our search: no GPU, and no kernel in Helion.

    pip install 'baco-like[helion]'
    python examples/helion_search.py [EVALUATIONS]

For a kernel in Helion write ``@helion.kernel(autotuner_fn=baco.autotuner(evaluations=100))``; Helion then measures it
on the GPU. Here a benchmark provider of our own measures instead.
"""

import sys
import time

import torch
from helion.autotuner import BooleanFragment, PowerOfTwoFragment
from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult

from baco_like.integrations import helion as baco

ROWS = torch.rand(2048, 256)


def softmax(block, transposed):
    def run(rows):
        given = rows.T.contiguous() if transposed else rows
        parts = given.split(block, dim=1 if transposed else 0)
        dim = 0 if transposed else 1
        whole = torch.cat([part.softmax(dim) for part in parts], dim=1 if transposed else 0)
        return whole.T if transposed else whole

    return run


class Clock(BenchmarkProvider):
    """Measures on the CPU, and checks the result."""

    mutated_arg_indices = ()

    def __init__(self, kernel, settings, config_spec, args, log, autotune_metrics):
        self.kernel, self.args, self.metrics = kernel, args, autotune_metrics
        self.expected = args[0].softmax(1)

    def setup(self):
        pass

    def cleanup(self):
        pass

    def benchmark(self, configs, *, desc="", raise_if_no_viable_config=True):
        self.metrics.num_configs_tested += len(configs)
        return [self.measure(config) for config in configs]

    def measure(self, config):
        run = self.kernel.compile_config(config)
        if not torch.allclose(run(*self.args), self.expected, atol=1e-5):
            return BenchmarkResult(config, run, float("inf"), "accuracy_error", 0.0)
        times = []
        for _ in range(3):
            start = time.perf_counter()
            run(*self.args)
            times.append(1000 * (time.perf_counter() - start))
        return BenchmarkResult(config, run, min(times), "ok", 0.0)


best = baco.autotune(
    {"block": PowerOfTwoFragment(1, 2048, 16), "transposed": BooleanFragment()},
    lambda config: softmax(config["block"], config["transposed"]),
    (ROWS,),
    evaluations=int(sys.argv[1]) if len(sys.argv) > 1 else 12,
    benchmark_provider_cls=Clock,
    autotune_random_seed=1,
    autotune_log_level=0,
)
print("best:", dict(best.config))
