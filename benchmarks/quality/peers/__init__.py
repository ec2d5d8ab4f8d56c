"""The peers of the comparison: other packages and our own strategies, behind one interface."""

import contextlib
import io
import signal
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module, metadata
from typing import Any

from .measure import Measure, Spent
from .problem import Problem


@dataclass(frozen=True)
class Peer:
    """A package or strategy that takes part.

    Attributes:
        label: Name in tables.
        module: Name of the module in this package that runs it.
        package: Name of its distribution, for the version.
        settings: Arguments of the module's ``run``.
    """

    label: str
    module: str
    package: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def run(self) -> Callable[..., None]:
        """The function that runs it.

        Raises:
            ImportError: Its package is not installed.
        """
        return import_module(f".{self.module}", __name__).run

    @property
    def version(self) -> str:
        return f"{self.package} {metadata.version(self.package)}"


def _several(module: str, package: str, setting: str, labels: Mapping[str, str]) -> list[Peer]:
    return [Peer(label, module, package, {setting: value}) for label, value in labels.items()]


_PEERS = [
    *_several(
        "ours",
        "baco-like",
        "strategy",
        {
            "auto": "auto",
            "bayesian": "bayesian",
            "baco": "baco",
            "random_forest": "random_forest",
            "random": "random_search",
        },
    ),
    Peer("auto with the full model", "ours", "baco-like", {"strategy": "auto", "is_full": True}),
    Peer("auto in batches of 32", "ours", "baco-like", {"strategy": "auto", "batch": 32}),
    *_several(
        "kernel_tuner",
        "kernel_tuner",
        "strategy",
        {
            "Kernel Tuner GA": "genetic_algorithm",
            "Kernel Tuner DE": "diff_evo",
            "Kernel Tuner PSO": "pso",
            "Kernel Tuner greedy ILS": "greedy_ils",
            "Kernel Tuner SA": "simulated_annealing",
            "Kernel Tuner dual annealing": "dual_annealing",
            "Kernel Tuner hybrid VNDX": "hybrid_vndx",
            "Kernel Tuner tabu grey wolf": "adaptive_tabu_greywolf",
            "Kernel Tuner bayes_opt": "bayes_opt",
        },
    ),
    *_several(
        "pyatf",
        "pyatf",
        "technique",
        {"pyATF DE": "DifferentialEvolution", "pyATF AUC bandit": "AUCBandit"},
    ),
    *_several(
        "optuna", "optuna", "sampler", {"Optuna TPE": "TPESampler", "Optuna GP": "GPSampler"}
    ),
    Peer("scikit-optimize GP", "skopt", "scikit-optimize"),
    Peer("SMAC3", "smac", "smac"),
    Peer("BoTorch", "botorch", "botorch"),
    Peer("BaCO (its program)", "baco_program", "baco-like"),
]
PEERS: Mapping[str, Peer] = {one.label: one for one in _PEERS}


def run(
    peer: Peer, problem: Problem, seed: int, evaluations: int, seconds: float
) -> dict[str, Any]:
    """Do one run and return its row; a run that exceeds the limit of CPU seconds keeps its evaluations so far."""
    start = peer.run  # the import does not count as time of a suggestion
    measure = Measure(problem, min(evaluations, len(problem.rows)))
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        with contextlib.suppress(Spent), _limit_cpu(seconds, measure):
            start(measure, seed, **peer.settings)
    return measure.row()


@contextlib.contextmanager
def _limit_cpu(seconds: float, measure: Measure) -> Iterator[None]:
    """Raise `Spent` after a number of CPU seconds, in any code: some peers search for a neighbour without end."""

    def stop(_: int, __: Any) -> None:
        measure.stopped = True
        raise Spent

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(
        signal.ITIMER_PROF, seconds, 1.0
    )  # once more, in case a package has caught the first one
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
