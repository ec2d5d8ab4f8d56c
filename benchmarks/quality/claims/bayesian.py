"""2021: Bayesian optimization against other algorithms and packages."""

from collections.abc import Sequence

import numpy as np
import runs

from baco_like._typing import Array
from baco_like.benchmarking.score import (
    CHECKPOINTS,
    mean_absolute_error,
    mean_deviation_factor,
)
from baco_like.benchmarking.studies.results_table import curves_of
from claims.evidence import Entry, Evidence, verdict
from claims.statistics import bootstrap_interval
from claims.survey import surveyed

BAYESIAN = {
    name: Entry(name, "kernel_tuner_bo", {"acquisition": acquisition}, 220)
    for name, acquisition in {
        "EI": "ei",
        "multi": "multi",
        "advanced multi": "advanced_multi",
    }.items()
}
RIVALS = [surveyed(name, 220) for name in ("GA", "first MLS", "simulated annealing", "random")]
PACKAGES = [
    Entry("bayesian-optimization", "bayesian-optimization", {}, 220, slow=True),
    Entry("scikit-optimize", "scikit-optimize", {}, 220, slow=True),
]


def report_bayesian(evidence: Evidence) -> str:
    entries = [*BAYESIAN.values(), *RIVALS, *PACKAGES]
    there = [one for one in entries if evidence.has(one)]
    if len(there) < 2:
        return "Too little of it was run." + evidence.left_out(entries)
    errors = [[errors_of(evidence, one, name) for name in evidence.spaces] for one in there]
    means, spreads = mean_deviation_factor([[e.mean() for e in row] for row in errors])
    counts = [min(len(evidence.of(one, name)) for name in evidence.spaces) for one in there]
    lines = [
        [there[i].name, f"{means[i]:.3f}", f"{spreads[i]:.3f}", str(counts[i])]
        for i in np.argsort(means)
    ]
    text = """\
Mean deviation factor (1 is the average of those here; lower is better) of the mean absolute error at 40, 60, ... 220
evaluations, of which the first 20 are the sample. scikit-optimize and bayesian-optimization know no constraints: an
infeasible proposal is an evaluation that fails, reported to them as the worst cost so far."""
    said = _describe_comparisons(there, errors, evidence.resamples) + evidence.left_out(entries)
    return "\n\n".join([text, runs.table(["", "MDF", "std over spaces", "runs"], lines), said])


def errors_of(evidence: Evidence, entry: Entry, name: str) -> Array:
    """Return the mean absolute error of each run, ``(runs,)``; before the first success the worst cost counts."""
    one = evidence.spaces[name].baseline
    curves = curves_of(evidence.of(entry, name), evidence.spaces[name])
    short = max(CHECKPOINTS) - curves.shape[1]
    curves = np.pad(curves, ((0, 0), (0, max(0, short))), mode="edge")
    return mean_absolute_error(np.where(np.isnan(curves), one.costs[-1], curves), one.optimum)


def improvement(
    there: Sequence[Entry], errors: Sequence[Sequence[Array]], mine: str, other: str, resamples: int
) -> tuple[float, float, float]:
    """Return by how many per cent one entry's mean deviation factor is below another one's, with the interval."""
    names, spaces = [one.name for one in there], len(errors[0])
    flat = [table for row in errors for table in row]

    def statistic(samples: Sequence[Array]) -> float:
        means = np.array([x.mean() for x in samples]).reshape(len(names), spaces)
        factors, _ = mean_deviation_factor(means)
        return float(100 * (1 - factors[names.index(mine)] / factors[names.index(other)]))

    low, high = bootstrap_interval(statistic, flat, np.random.default_rng(0), resamples=resamples)
    return statistic(flat), low, high


def _describe_comparisons(
    there: Sequence[Entry], errors: Sequence[Sequence[Array]], resamples: int
) -> str:
    names = [one.name for one in there]
    published = {"GA": "49.7 %", "simulated annealing": "75 %"}
    said = []
    for mine in (one for one in BAYESIAN if one in names):
        for other in (one.name for one in (*RIVALS, *PACKAGES) if one.name in names):
            value, low, high = improvement(there, errors, mine, other, resamples)
            published_claim = (
                published.get(other, "better") if mine == "advanced multi" else "better"
            )
            said.append(
                f"- {mine} against {other}: {value:+.0f} % ({low:+.0f} to {high:+.0f}); "
                f"the paper: {published_claim}. That {verdict(low, high)}."
            )
    return "\n".join(said)
