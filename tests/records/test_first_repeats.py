"""A note if the first repeats of the trials differ from the others beyond chance."""

import numpy as np
import pytest
from scipy.special import bdtrc

from baco_like import Optimizer, Outcome, Search, Space
from baco_like.records import Objective
from baco_like.records.drift import _FALSE_NOTES, describe_first_repeats
from baco_like.records.trial import SAME_PROGRAM
from baco_like.running.findings import Findings
from baco_like.running.telling import format_summary

SPACE = Space({"x": list(range(64))})


def observe(trials, **extra):
    optimizer = Optimizer(SPACE, strategy=Search("random_search", noise="repeat"), seed=1)
    for values in trials:
        trial = optimizer.suggest()
        optimizer.complete([Outcome.success(trial.id, tuple(values), extra=extra)])
    return optimizer.history


def describe(trials, **extra):
    return describe_first_repeats(observe(trials, **extra))


def test_a_cache_that_the_first_repeat_fills_is_found():
    (line,) = describe([(105.0, 2.6, 2.4, 2.6, 2.7)] * 5)
    assert line.startswith(
        "The first repeat is the largest of 5 in 5 of 5 trials (by chance: in 1)"
    )
    assert "40.4 times" in line
    summary = Findings(observe([(105.0, 2.6, 2.4, 2.6, 2.7)] * 5), Objective("time", "ms"))
    assert line in format_summary(summary)


def test_a_processor_that_becomes_slower_is_found():
    (line,) = describe([(1.0, 1.2, 1.3)] * 8)
    assert "the smallest of 3 in 8 of 8 trials" in line


@pytest.mark.parametrize(
    "trials",
    [
        [],
        [(1.0,)] * 20,  # no repeats
        [(9.0, 1.0, 1.0)] * 3,  # three of three are chance once in 27 runs
        [(1.0, 1.0, 1.0)] * 20,
        [(1.0, 0.999, 0.999)] * 20,  # too little to matter
        [(0.0, 0.0)] * 20,
        [(1.7e308, 1e-300, 1.7e308)] * 20,
    ],
)
def test_no_note(trials):
    assert describe(trials) == []


def test_results_of_equal_programs_are_one_measurement():
    assert describe([(9.0, 1.0, 1.0)] * 20, **{SAME_PROGRAM: 1}) == []


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_the_error_rate_is_at_most_one_in_a_thousand(repeats):
    """The least number of trials whose first repeat is always the largest: by chance repeats ** -n, for each side."""
    least = next(n for n in range(1, 20) if 2.0 * repeats**-n <= 0.001)
    trial = [2.0, *(1.0 + i / 100 for i in range(repeats - 1))]
    assert not describe([trial] * (least - 1))
    assert describe([trial] * least)


def test_noise_gives_no_note():
    """3,000 runs of 12 trials with heavy tails, where one count decides: the binomial count of first extremes."""
    draws = np.random.default_rng(1).standard_t(2, size=(3000, 12, 3))
    notes = 0
    for side in (draws, -draws):
        counts = (side.argmax(axis=2) == 0).sum(axis=1)
        notes += sum(bdtrc(int(k) - 1, 12, 1 / 3) <= _FALSE_NOTES / 2 for k in counts)
    assert notes <= 10  # 3 are expected at most
