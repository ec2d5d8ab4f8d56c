"""Tune a problem that a compiler states: SMT-LIB and MLIR in, the chosen values out. No compiler is needed.

    python examples/smt_problem.py [EVALUATIONS]

The texts stand for the output of `mlir-translate --export-smtlib` and for your schedule; the functions, for a build and
a measurement.
"""

import sys

from baco_like import MaxEvals, tune
from baco_like.integrations import smt

EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 30

# A matrix product of 1024 x 1280 x 1280 on a GPU with 64 KB of shared memory.
CONSTRAINTS = """
(set-logic QF_NIA)
(declare-const tile_m Int)
(declare-const tile_n Int)
(declare-const tile_k Int)
(declare-const waves_m Int)
(declare-const waves_n Int)
(declare-const threads Int)
(assert (and (<= 16 tile_m 512) (<= 16 tile_n 512) (<= 16 tile_k 512)))
(assert (and (<= 1 waves_m 32) (<= 1 waves_n 32)))
(assert (= 0 (mod 1024 tile_m) (mod 1280 tile_n) (mod 1280 tile_k)))
(assert (= 0 (mod tile_m (* 16 waves_m)) (mod tile_n (* 16 waves_n))))
(assert (let ((elements (+ (* 2 tile_m tile_k) (* 2 tile_n tile_k)))) (<= elements 65536)))
(assert (= threads (* 32 waves_m waves_n)))
(assert (<= threads 1024))
(check-sat)
"""

SCHEDULE = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op) {
    %rows = transform.tune.knob<"rows"> = 32 from options = [8, 16, 32, 64, 128] -> !transform.param<i64>
    %columns = transform.tune.knob<"columns"> = 32 from options = [8, 16, 32, 64, 128] -> !transform.param<i64>
    transform.smt.constrain_params(%rows, %columns) : (!transform.param<i64>, !transform.param<i64>) -> () {
    ^bb0(%r: !smt.int, %c: !smt.int):
      %area = smt.int.mul %r, %c
      %most = smt.int.constant 2048
      %fits = smt.int.cmp le %area, %most
      smt.assert %fits
    }
    transform.tune.alternatives<"inner"> selected_region = 0 {
      transform.yield
    }, {
      %unroll = transform.tune.knob<"unroll"> = 2 from options = [1, 2, 4, 8] -> !transform.param<i64>
      transform.yield
    }
    transform.yield
  }
}
"""


def microseconds(config):
    waste = 4096 / (config["tile_m"] * config["tile_n"]) + 64 / config["tile_k"]
    return 100 * (1 + waste) + abs(config["threads"] - 256) / 8


def schedule_microseconds(config):
    loop = 8 / config["unroll"] if config["inner"] == 1 else 12
    return 4096 / (config["rows"] * config["columns"]) + abs(config["rows"] - 64) / 8 + loop


problem = smt.read_smtlib(CONSTRAINTS)
print(problem.space.feasible_size, "configurations satisfy the constraints")
result = tune(microseconds, problem.space, MaxEvals(EVALUATIONS), progress=False)
print("best:", result.best.value, "microseconds with this model:")
print(problem.write_model(result.best.config))

problem = smt.read_mlir(SCHEDULE)
print(
    problem.space.feasible_size, "schedules; the selected options are the default, measured first"
)
result = tune(schedule_microseconds, problem.space, MaxEvals(EVALUATIONS), progress=False)
print("best:", result.best.value, "microseconds with this schedule:")
print(problem.write_schedule(result.best.config))
