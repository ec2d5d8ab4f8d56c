"""Use our strategy in Kernel Tuner, on a cache file of Kernel Tuner, so without a GPU.

Run it with: python examples/kernel_tuner_cache.py [EVALUATIONS]
"""

import json
import sys
import tempfile
from pathlib import Path

from baco_like import Space
from baco_like.integrations import tune_kernel  # the only line to change

tune_params = {
    "block_size_x": [16, 32, 64, 128, 256],
    "block_size_y": [1, 2, 4, 8],
    "tile_size": [1, 2, 4, 8],
    "use_shared": [0, 1],
}
restrictions = ["block_size_x * block_size_y <= 1024", "use_shared == 1 or tile_size <= 4"]


def measured(config):
    """Return made-up results of a configuration, as Kernel Tuner writes them."""
    threads = config["block_size_x"] * config["block_size_y"]
    if threads * config["tile_size"] > 4096:
        return {**config, "__error__": "CompilationFailedConfig"}
    time = abs(threads - 256) / 64 + 8 / config["tile_size"] - config["use_shared"]
    return {**config, "time": time + 2, "times": [time + 2] * 7}


def main(evaluations):
    rows = [measured(config) for config in Space.from_kernel_tuner(tune_params, restrictions)]
    cache = {
        "device_name": "simulated",
        "kernel_name": "kernel",
        "problem_size": [4096],
        "tune_params_keys": list(tune_params),
        "tune_params": tune_params,
        "objective": "time",
        "cache": {",".join(str(row[name]) for name in tune_params): row for row in rows},
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "cache.json")
        path.write_text(json.dumps(cache))
        results, env = tune_kernel(
            "kernel",
            "",
            4096,
            [],
            tune_params,
            restrictions=restrictions,
            strategy_options={"max_fevals": evaluations},
            cache=str(path),
            simulation_mode=True,
            quiet=True,
        )
    best = {name: env["best_config"][name] for name in (*tune_params, "time")}
    failed = sum("__error__" in result for result in results)
    print(f"best {best} after {len(results)} evaluations; {failed} failed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
