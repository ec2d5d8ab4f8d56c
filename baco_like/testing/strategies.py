"""Conformance suite for strategies.

`CHECKS` lists functions of a strategy and a space; a check that fails raises `AssertionError`. Run them on your own
strategy, and on the spaces in `example_spaces` or your own::

    @pytest.mark.parametrize("check", CHECKS)
    @pytest.mark.parametrize("space", example_spaces().values())
    def test_my_strategy(space, check):
        check(MyStrategy(), space)

Each check drives an `Optimizer` with the strategy for about 15 evaluations of a smooth cost; one trial in five fails.
A strategy that draws random numbers must also pass `another_seed_another_run`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from baco_like.exceptions import SpaceExhausted
from baco_like.journal.memory import MemoryJournal
from baco_like.optimizer import Optimizer
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation, Real
from baco_like.records.history import row_keys
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy
from baco_like.testing import assert_raises

Check = Callable[[Strategy[Any], Space], None]


def cost(space: Space, trial: Trial) -> float:
    """Return a smooth cost of a configuration: the squared distance of its features from a fixed point."""
    features = space.features(space.encode([trial.config]))[0]
    return float(1 + ((features - 0.3) ** 2).sum())


BUDGET = 25
"""Budget of the runs: small, so that populations are small and a check covers several generations."""


def _start(strategy: Strategy[Any], space: Space, seed: int, **options: Any) -> Optimizer:
    return Optimizer(space, strategy=strategy, seed=seed, budget=BUDGET, **options)


def _fails(trial: Trial) -> bool:
    return trial.id % 5 == 3


def _observe(optimizer: Optimizer, trial: Trial) -> None:
    if _fails(trial):
        optimizer.observe(trial, failed="runtime", message="on purpose")
    else:
        optimizer.observe(trial, cost(optimizer.space, trial))


def _available(space: Space, limit: int) -> int:
    """Return the number of distinct configurations that can be suggested, at most ``limit``."""
    count = space.feasible.count
    return limit if count is None else min(limit, count)


def _keys(optimizer: Optimizer, trials: Sequence[Trial]) -> list[bytes]:
    return row_keys(optimizer.space.encode([trial.config for trial in trials]))


def _check_distinct(optimizer: Optimizer) -> None:
    keys = _keys(optimizer, optimizer.trials)
    assert len(set(keys)) == len(keys), "no configuration is suggested twice"


def legal_and_new(strategy: Strategy[Any], space: Space) -> None:
    """Every suggestion is feasible and new, after successes and failures."""
    optimizer = _start(strategy, space, 1)
    for _ in range(_available(space, 16)):
        trial = optimizer.suggest()
        assert space.contains(trial.config), f"suggestions are feasible: {trial}"
        _observe(optimizer, trial)
    _check_distinct(optimizer)


def batches_in_any_order(strategy: Strategy[Any], space: Space) -> None:
    """Batches are complete and distinct; outcomes may arrive in any order, and some never arrive."""
    optimizer, rng = _start(strategy, space, 2), np.random.default_rng(0)
    pending: list[Trial] = []
    keys: list[bytes] = []
    while len(keys) + 4 <= _available(space, 16):
        new = optimizer.suggest(4)
        assert len(new) == 4, "a batch is complete"
        keys += _keys(optimizer, new)
        pending += new
        for _ in range(3):
            _observe(optimizer, pending.pop(int(rng.integers(len(pending)))))
    assert len(set(keys)) == len(keys), "the configurations of batches are distinct"


def same_seed_same_run(strategy: Strategy[Any], space: Space) -> None:
    """The same seed and observations give the same suggestions."""
    first, second = (_run_configs(strategy, space, 3) for _ in range(2))
    assert first == second, "the same seed gives the same suggestions"


def another_seed_another_run(strategy: Strategy[Any], space: Space) -> None:
    """Another seed gives other suggestions. Not for strategies that draw no random numbers."""
    first, second = (_run_configs(strategy, space, seed) for seed in (3, 4))
    assert first != second, "another seed gives other suggestions"


def _run_configs(strategy: Strategy[Any], space: Space, seed: int) -> list[dict[str, Any]]:
    optimizer = _start(strategy, space, seed)
    for _ in range(_available(space, 12)):
        _observe(optimizer, optimizer.suggest())
    return [dict(trial) for trial in optimizer.trials]


def resume_is_continue(strategy: Strategy[Any], space: Space) -> None:
    """A run restored from its journal, with a pending trial, continues exactly as the uninterrupted run."""
    journal = MemoryJournal()
    optimizer = _start(strategy, space, 4, storage=journal)
    for _ in range(_available(space, 13) - 4):
        _observe(optimizer, optimizer.suggest())
    optimizer.suggest()
    written = json.loads(json.dumps(journal.events))  # as from a file: tuples come back as lists
    resumed = _start(strategy, space, 4, storage=MemoryJournal(written))
    left, right = optimizer.pending, resumed.pending
    assert list(map(dict, left)) == list(map(dict, right)), (
        "a resumed run has the same pending trial"
    )
    for _ in range(2):
        _observe(optimizer, optimizer.pending[0])
        _observe(resumed, resumed.pending[0])
        first, second = optimizer.suggest(), resumed.suggest()
        assert dict(first) == dict(second), "a resumed run suggests the same"
        assert first.tag == second.tag, "suggestions of a resumed run have the same tags"


def foreign_observations(strategy: Strategy[Any], space: Space) -> None:
    """Reported and enqueued configurations are accepted; their tags are not the strategy's."""
    optimizer = _start(strategy, space, 5)
    reported = space.sample(2, seed=7)
    optimizer.observe(reported[0], 2.0)
    if reported[1] != reported[0]:
        optimizer.enqueue(reported[1])
    for _ in range(_available(space, 12) - 2):
        _observe(optimizer, optimizer.suggest())
    _check_distinct(optimizer)
    origins = {trial.origin for trial in optimizer.trials}
    assert {"told", "strategy"} <= origins, "reported configurations and suggestions are kept"


def only_failures(strategy: Strategy[Any], space: Space) -> None:
    """A run without a success continues to suggest new configurations."""
    optimizer = _start(strategy, space, 6)
    for _ in range(_available(space, 14)):
        optimizer.observe(optimizer.suggest(), failed="compile")
    assert optimizer.best is None, "a run without a success has no best trial"
    _check_distinct(optimizer)


def constant_values(strategy: Strategy[Any], space: Space) -> None:
    """If all values are equal, the run neither stops nor repeats a configuration."""
    optimizer = _start(strategy, space, 7)
    for _ in range(_available(space, 12)):
        optimizer.observe(optimizer.suggest(), 1.0)
    _check_distinct(optimizer)


def repeats_under_noise(strategy: Strategy[Any], space: Space) -> None:
    """With ``noise="repeat"`` an observed configuration may be suggested again, but not if it failed or is pending."""
    optimizer = _start(strategy, space, 9, noise="repeat")
    rng, failed = np.random.default_rng(1), set[bytes]()
    count = space.feasible.count
    for _ in range(6):
        trials = optimizer.suggest(2)
        keys = _keys(optimizer, trials)
        assert len(set(keys)) == len(keys), "the configurations of a batch are distinct"
        for trial, key in zip(trials, keys, strict=True):
            assert space.contains(trial.config), f"suggestions are feasible: {trial}"
            assert key not in failed, f"failed configurations are not suggested again: {trial}"
            if _fails(trial) and (count is None or len(failed) + 3 <= count):
                failed.add(key)
                optimizer.observe(trial, failed="runtime")
            else:
                optimizer.observe(trial, cost(space, trial) * float(rng.lognormal(0.0, 0.1)))
    assert len(optimizer.trials) == 6 * min(2, count or 2), "batches are complete"


def ends_when_exhausted(strategy: Strategy[Any], space: Space) -> None:
    """A small space is evaluated exactly once each, and then `SpaceExhausted` is raised."""
    count = space.feasible.count
    if count is None or count > 60:
        return
    optimizer = _start(strategy, space, 8)
    for _ in range(count):
        _observe(optimizer, optimizer.suggest())
    with assert_raises(SpaceExhausted, msg="a suggestion in an exhausted space"):
        optimizer.suggest()


def example_spaces() -> dict[str, Space]:
    """Return small spaces that together have every kind of parameter, by name."""
    powers = Ordinal([1, 2, 4, 8, 16], log=True)
    return {
        "ordinals": Space({"a": powers, "b": powers}, constraints=["a * b <= 64"]),
        "all kinds": Space(
            {
                "x": Real(1e-3, 1.0, log=True),
                "n": Integer(1, 40),
                "t": powers,
                "c": Categorical(["p", "q", "r"]),
                "o": Permutation(["i", "j", "k", "l"]),
            },
            constraints=["n % t == 0", "pos(o, 'i') < pos(o, 'k')"],
        ),
        "small": Space(
            {"a": [1, 2, 3, 4], "f": [True, False], "one": [7]}, constraints=["f or a > 1"]
        ),
        "permutation": Space({"p": Permutation(["a", "b", "c", "d", "e"], metric="kendall")}),
        "large": Space(
            {f"v{i}": Ordinal([2**j for j in range(11)], log=True) for i in range(8)},
            constraints=["v0 * v1 <= 1024", "v2 % v3 == 0"],
        ),
    }


CHECKS: tuple[Check, ...] = (
    legal_and_new,
    batches_in_any_order,
    same_seed_same_run,
    resume_is_continue,
    foreign_observations,
    only_failures,
    constant_values,
    repeats_under_noise,
    ends_when_exhausted,
)
"""All checks that every strategy must pass."""
