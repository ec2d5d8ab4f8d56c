"""Every registered strategy passes every check on every kind of space."""

import pytest

from baco_like.strategies import STRATEGIES, create_strategy, default_settings
from baco_like.testing.strategies import (
    CHECKS,
    another_seed_another_run,
    example_spaces,
    resume_is_continue,
    several_objectives,
)

SPACES = example_spaces()

CONDITIONAL_REALS = SPACES.pop("conditional reals")


def _with_short_design(name):
    shorter = (default_settings(name).get("initial") or 0) > 6
    return create_strategy(name, {"initial": 6} if shorter else {})


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("name", STRATEGIES)
def test_conformance(name, space, check):
    if name == "exhaustive" and space.feasible.count is None:
        pytest.skip("reals cannot be listed")
    check(_with_short_design(name), space)


@pytest.mark.parametrize("name", [n for n in STRATEGIES if n != "exhaustive"])
def test_a_run_on_conditional_reals_is_feasible_and_resumes(name):
    resume_is_continue(_with_short_design(name), CONDITIONAL_REALS)
    several_objectives(_with_short_design(name), CONDITIONAL_REALS)


@pytest.mark.parametrize("name", [n for n in STRATEGIES if n != "exhaustive"])
def test_chance_comes_from_the_seed(name):
    another_seed_another_run(_with_short_design(name), SPACES["all kinds"])
