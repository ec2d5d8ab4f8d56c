"""Expected seconds of an evaluation, and the acquisition per second for budgets in time.

Source: E. H. Lee, V. Perrone, C. Archambeau and M. Seeger, "Cost-aware Bayesian Optimization" (CArBO),
arXiv:2003.10870 (2020), its cost-cooled acquisition EI-cool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, final

import numpy as np
from typing_extensions import override

from baco_like._typing import Array, Codes, Rng
from baco_like.acquisitions.protocol import AcquisitionFunction, Score
from baco_like.acquisitions.registry import bind_acquisition
from baco_like.records import History, Trial
from baco_like.records.objective_values import finite_number
from baco_like.records.trial import REPEATS
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.protocol import Problem, Proposals
from baco_like.strategies.wrappers import StrategyWrapper
from baco_like.surrogates.gp.gaussian_process import GaussianProcess
from baco_like.surrogates.protocol import Data, Featured, Model, Surrogate
from baco_like.surrogates.transform import Scale, fit_transform

_BUILD = "compile"
"""Name of the build among the stages of an outcome; all others repeat with each measurement or follow it."""

_LEAST_ROWS = 4
"""Number of known times that a model needs."""

_LEAST_SPREAD = 0.1
"""Standard deviation of the logarithms of the seconds below which all evaluations count as equally long."""

_LEAST_SECONDS = 1e-6

COST_EXPONENT = 0.5
"""Exponent of the cost of an evaluation: of its seconds at the start of the run, of its level, of a task.

CArBO starts at 1 for seconds. On three recorded spaces with builds of different length, the results of 0.25, 0.5 and 1
did not differ clearly; 1 was worst where good configurations take long to build
(benchmarks/quality/results/seconds.md). Huang et al. (2006) divide by the cost of a level itself: on a recorded space
with a good proxy at a tenth of the cost, that took twice the time, nearly all of it for proxies."""

_TAG = "seconds_models"
"""Key in the tag of a proposal: hyperparameters of the models, from which the next fit starts."""


class StageSeconds(NamedTuple):
    """Recorded times of n trials.

    Attributes:
        build: Seconds of each build, NaN where unknown, ``(n,)``.
        run: Seconds of all other stages for one measurement, NaN where unknown, ``(n,)``.
        repeats: Typical number of measurements of a trial.
    """

    build: Array
    run: Array
    repeats: float


def total_seconds(trials: Iterable[Trial]) -> float:
    """Return the recorded seconds of all stages of the trials."""
    return sum(sum(_times(trial).values()) for trial in trials)


def _times(trial: Trial) -> dict[str, float]:
    """Return the seconds of each stage; a user may have reported something else than numbers."""
    numbers = {stage: finite_number(value) for stage, value in trial.seconds.items()}
    return {
        stage: number for stage, number in numbers.items() if number is not None and number >= 0
    }


def affordable_builds(
    trials: Sequence[Trial], seconds: Sequence[float], most: int, parallel: int = 1
) -> int:
    """Return how many builds take at most as long as a measurement, 1 to ``most``, by medians.

    Args:
        trials: Measured trials.
        seconds: Seconds of builds without a measurement.
        most: The number where too little is known.
        parallel: Builds at a time.
    """
    times = stage_seconds(trials)
    builds = np.array([*times.build[~np.isnan(times.build)], *seconds])
    runs = times.run[~np.isnan(times.run)] * times.repeats
    if not len(builds) or not len(runs):
        return most
    build = max(float(np.median(builds)), _LEAST_SECONDS) / parallel
    return int(np.clip(np.median(runs) / build, 1, most))


def stage_seconds(trials: Sequence[Trial]) -> StageSeconds:
    """Return the times by stage.

    Promising configurations are measured more often (`first_repeats`). Their time would deter from them if it were the
    time of all measurements, so the time of one is modelled.
    """
    build, run = np.full(len(trials), np.nan), np.full(len(trials), np.nan)
    counts = []
    for i, trial in enumerate(trials):
        seconds = _times(trial)
        others = [number for stage, number in seconds.items() if stage != _BUILD]
        count = len(trial.repeats) or len(trial.extra.get(REPEATS, ())) or 1
        if _BUILD in seconds:
            build[i] = max(seconds[_BUILD], _LEAST_SECONDS)
        if sum(others) > 0.0:
            run[i] = max(sum(others) / count, _LEAST_SECONDS)
            counts.append(count)
    return StageSeconds(build, run, float(np.median(counts)) if counts else 1.0)


@dataclass(frozen=True)
class SecondsModel:
    """Expected seconds of evaluations: one log-normal model for builds, one for runs.

    Attributes:
        parts: The model of each part on the scale of its logarithms, that scale, and how often the part occurs.
        exponent: Weight of the logarithm of the seconds, from 0.5 (all of the time is left) to 0.
    """

    parts: tuple[tuple[Model, Scale, float], ...]
    exponent: float

    def expect(self, codes: Codes) -> Array:
        """Return the sum of the medians of the parts in seconds, ``(n, w)`` -> ``(n,)``.

        The mean of a log-normal variable grows with its variance. Where the model knows little, it would deter.
        """
        return np.asarray(sum(n * s.backward(m.predict(codes)[0]) for m, s, n in self.parts))

    def note(self, row: Codes) -> dict[str, Any]:
        """Return the entries of a proposal's tag: its expected seconds, and the hyperparameters for the next fit."""
        models = [dict(model.hyperparameters) for model, _, _ in self.parts]
        return {"expected_seconds": float(self.expect(row)[0]), _TAG: models}


@dataclass(frozen=True, eq=False)
class PerSecond:
    """The log score of another acquisition function per expected second, with a falling exponent.

    EI-cool of Lee et al. (2020, Eq. 2) is EI(x) / c(x)^a with a = (t - t_k) / (t - t_init), where t is the budget, t_k
    the time used so far and t_init the time of the initial design. Here it is on the log scale, with two differences:
    the exponent starts at 0.5, and an evaluation shorter than the best configuration's counts as equally long.
    Otherwise short but bad evaluations displace good ones that take longer to build.

    Attributes:
        function: The other acquisition function; its score is a logarithm.
        seconds: Expects the seconds c(x), and has the exponent a.
        least: Expected seconds up to which an evaluation is short enough: those of the best configuration.
    """

    function: AcquisitionFunction
    seconds: SecondsModel
    least: float = 0.0

    def bind(self, model: Model, incumbent: float, rng: Rng) -> Score:
        """Return the score of configurations under a fitted model."""
        score = bind_acquisition(self.function, model, incumbent, rng)
        seconds = self.seconds

        def score_per_second(codes: Codes) -> Array:
            expected = np.maximum(seconds.expect(codes), self.least)
            return np.asarray(score(codes) - seconds.exponent * np.log(expected))

        return score_per_second


@final
@dataclass(frozen=True)
class SecondsAware(StrategyWrapper):
    """Bayesian optimization that prefers short evaluations if the budget is in time (`Problem.seconds`).

    Without such a budget its proposals are those of the wrapped strategy, bit for bit.

    Attributes:
        then: The strategy whose acquisition function is divided by the expected seconds.
        surrogate: Models the logarithms of the seconds of builds and of runs.
    """

    then: Bayesian
    surrogate: Surrogate = field(default_factory=lambda: GaussianProcess(mean="constant"))

    @override
    def ask(self, problem: Problem, history: History, state: Any, n: int, rng: Rng) -> Proposals:
        """Return n proposals; the tags of those that a model has made hold their expected seconds."""
        view = self.then.view(problem.space)
        model = fit_seconds(problem, history, self.surrogate, view, rng)
        if model is None:
            return self.then.ask(problem, history, state, n, rng)
        best = history.best()
        code = None if best is None else best.code
        least = 0.0 if code is None else float(model.expect(code[None, :])[0])
        then = replace(self.then, acquisition=PerSecond(self.then.acquisition, model, least))
        proposals = then.ask(problem, history, state, n, rng)
        return [replace(p, tag={**p.tag, **model.note(p.code[None, :])}) for p in proposals]


def fit_seconds(
    problem: Problem, history: History, surrogate: Surrogate, space: Featured, rng: Rng
) -> SecondsModel | None:
    """Return the model of the seconds of all observed trials.

    Args:
        problem: Has the budget in seconds.
        history: The observations.
        surrogate: Models logarithms of seconds.
        space: Gives the features.
        rng: Random generator.

    Returns:
        None without a budget in seconds, with too few known times, or if all evaluations take about as long.
    """
    if problem.seconds is None:
        return None
    inside, trials = np.flatnonzero(history.inside), history.trials
    known = stage_seconds([trials[i] for i in inside])
    starts = _last_starts(history)
    parts: list[tuple[Model, Scale, float]] = []
    total = np.zeros(len(inside))
    for part, count in ((known.build, 1.0), (known.run, known.repeats)):
        rows = np.flatnonzero(~np.isnan(part))
        if len(rows) < _LEAST_ROWS:
            continue
        scale = fit_transform(part[rows])
        total += count * np.where(np.isnan(part), np.nanmedian(part), part)
        zeros = np.zeros(len(rows))
        data = Data(history.codes[inside[rows]], scale.forward(part[rows]), zeros, zeros > 0.0)
        start = starts[len(parts)] if len(parts) < len(starts) else None
        parts.append((surrogate.fit(space, data, rng, start), scale, count))
    if not parts or np.std(np.log(total)) < _LEAST_SPREAD:
        return None
    return SecondsModel(tuple(parts), _exponent(problem.seconds, trials[history.warm :]))


def _exponent(budget: float, trials: Sequence[Trial]) -> float:
    """Return (t - t_k) / (t - t_init), from 0 to 1, times `COST_EXPONENT`."""
    is_model = [trial.read_tag("phase") == "model" for trial in trials]
    first = is_model.index(True) if True in is_model else len(trials)
    initial, used = total_seconds(trials[:first]), total_seconds(trials)
    left = np.clip((budget - used) / max(budget - initial, _LEAST_SECONDS), 0.0, 1.0)
    return COST_EXPONENT * float(left)


def _last_starts(history: History) -> Sequence[Mapping[str, Any]]:
    """Return the hyperparameters in the last observation's tag."""
    starts = None if history.last is None else history.last.read_tag(_TAG)
    return starts if isinstance(starts, list) else ()
