"""Every registered strategy times every kind of space times every check."""

import pytest

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.strategies import STRATEGIES, create_strategy, default_settings
from baco_like.testing.strategies import CHECKS, another_seed_another_run

SPACES = {
    "ordinals": Space(
        {"a": Ordinal([1, 2, 4, 8, 16], log=True), "b": Ordinal([1, 2, 4, 8, 16], log=True)},
        constraints=["a * b <= 64"],
    ),
    "all kinds": Space(
        {
            "x": Real(1e-3, 1.0, log=True),
            "n": Integer(1, 40),
            "t": Ordinal([1, 2, 4, 8, 16], log=True),
            "c": Categorical(["p", "q", "r"]),
            "o": Permutation(["i", "j", "k", "l"]),
        },
        constraints=["n % t == 0", "pos(o, 'i') < pos(o, 'k')"],
    ),
    "small": Space({"a": [1, 2, 3, 4], "f": [True, False], "one": [7]}, constraints=["f or a > 1"]),
    "permutation": Space({"p": Permutation(["a", "b", "c", "d", "e"], metric="kendall")}),
    "large": Space({f"v{i}": Ordinal([2**j for j in range(11)], log=True) for i in range(8)},
                   constraints=["v0 * v1 <= 1024", "v2 % v3 == 0"]),
}  # fmt: skip


def _short(name):
    shorter = (default_settings(name).get("initial") or 0) > 6
    return create_strategy(name, {"initial": 6} if shorter else {})


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("name", STRATEGIES)
def test_conformance(name, space, check):
    if name == "exhaustive" and space.feasible.count is None:
        pytest.skip("reals cannot be listed")
    check(_short(name), space)


@pytest.mark.parametrize("name", [n for n in STRATEGIES if n != "exhaustive"])
def test_chance_comes_from_the_seed(name):
    another_seed_another_run(_short(name), SPACES["all kinds"])
