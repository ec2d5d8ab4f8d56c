"""Run an optimizer (`tune`, `run`), the rules that end a run, and a later check of its winner."""

from baco_like.running.confirming import Confirm, confirm_winner
from baco_like.running.measuring import Measuring, Recheck, Workers
from baco_like.running.progress import Progress
from baco_like.running.proposers import Proposer
from baco_like.running.regression_check import (
    CheckedPair,
    CheckResult,
    check_winner,
    record_baseline,
)
from baco_like.running.stopping import (
    IdenticalFailures,
    LowOutlook,
    MaxEvals,
    MaxFailures,
    MaxTime,
    NoImprovement,
    StoppingRule,
    Target,
)
from baco_like.running.tuner import Result, run, tune

__all__ = [
    "CheckResult",
    "CheckedPair",
    "Confirm",
    "IdenticalFailures",
    "LowOutlook",
    "MaxEvals",
    "MaxFailures",
    "MaxTime",
    "Measuring",
    "NoImprovement",
    "Progress",
    "Proposer",
    "Recheck",
    "Result",
    "StoppingRule",
    "Target",
    "Workers",
    "check_winner",
    "confirm_winner",
    "record_baseline",
    "run",
    "tune",
]
