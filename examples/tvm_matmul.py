"""Tune a matrix product on the CPU by TVM's MetaSchedule with our search.

    pip install 'baco-like[tvm]'
    python examples/tvm_matmul.py [TRIALS]

TVM needs about a minute before the first trial.
"""

import sys
import tempfile

import tvm
from tvm import te
from tvm.s_tir import meta_schedule as ms

from baco_like.integrations import tvm as baco

N = 128


def product():
    left, right = te.placeholder((N, N), name="left"), te.placeholder((N, N), name="right")
    k = te.reduce_axis((0, N), name="k")
    out = te.compute((N, N), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="out")
    function = te.create_prim_func([left, right, out])
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


if __name__ == "__main__":  # TVM builds and measures in separate processes
    strategy = baco.BacoSearchStrategy(batch=4)
    with tempfile.TemporaryDirectory() as folder:
        database = ms.tune_tir(
            product(),
            {"kind": "llvm", "num-cores": 1},
            folder,
            max_trials_global=int(sys.argv[1]) if len(sys.argv) > 1 else 32,
            strategy=strategy,
            cost_model="random",  # it is not used; the default needs XGBoost
            # Each process of TVM imports it first, which alone can take the 30 seconds that are TVM's limit of a build.
            builder=ms.builder.LocalBuilder(timeout_sec=300.0),
            runner=ms.runner.LocalRunner(timeout_sec=300.0),
            num_tuning_cores=1,
            seed=1,
        )
        records = database.get_all_tuning_records()
    (optimizer,) = strategy.optimizers.values()
    print(len(records), "schedules; best:", dict(optimizer.best.config), optimizer.best.value, "ms")
