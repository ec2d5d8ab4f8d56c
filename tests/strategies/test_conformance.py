"""Every registered strategy passes every check on every kind of space.

In the normal run each strategy meets each kind of space and, except "exhaustive", each check; the nightly run has all
combinations.
"""

import pytest
from nightly import cover

from baco_like.strategies import STRATEGIES, create_strategy, default_settings
from baco_like.testing.strategies import (
    CHECKS,
    another_seed_another_run,
    ends_when_exhausted,
    example_spaces,
)

SPACES = example_spaces()


def _with_short_design(name):
    shorter = (default_settings(name).get("initial") or 0) > 6
    return create_strategy(name, {"initial": 6} if shorter else {})


def _applies(name, kind, check):
    if check is ends_when_exhausted:
        return False
    return name != "exhaustive" or SPACES[kind].feasible.count is not None  # reals are not listed


@pytest.mark.parametrize(
    ("name", "kind", "check"), cover(STRATEGIES, SPACES, CHECKS, valid=_applies, share=7)
)
def test_conformance(name, kind, check):
    check(_with_short_design(name), SPACES[kind])


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_small_space_is_exhausted(name):
    ends_when_exhausted(_with_short_design(name), SPACES["small"])


@pytest.mark.parametrize("name", [n for n in STRATEGIES if n != "exhaustive"])
def test_chance_comes_from_the_seed(name):
    another_seed_another_run(_with_short_design(name), SPACES["all kinds"])
