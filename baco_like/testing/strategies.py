"""What every strategy must do, as functions of a strategy and a space; `CHECKS` lists them.

Third parties can run the same checks on a strategy of their own::

    for check in CHECKS:
        check(MyStrategy(), space)
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from baco_like.exceptions import SpaceExhausted
from baco_like.journal.memory import MemoryJournal
from baco_like.optimizer import Optimizer
from baco_like.records.history import row_keys
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Strategy

Check = Callable[[Strategy[Any], Space], None]


def cost(space: Space, trial: Trial) -> float:
    """Return a smooth cost of a configuration: the squared distance of its features from a fixed point."""
    features = space.features(space.encode([trial.config]))[0]
    return float(1 + ((features - 0.3) ** 2).sum())


BUDGET = 25
"""Evaluations that strategies count on: few, so that populations are small and a check sees several generations."""


def _started(strategy: Strategy[Any], space: Space, seed: int, **options: Any) -> Optimizer:
    return Optimizer(space, strategy=strategy, seed=seed, budget=BUDGET, **options)


def _fails(trial: Trial) -> bool:
    return trial.id % 5 == 3


def _tell(optimizer: Optimizer, trial: Trial) -> None:
    if _fails(trial):
        optimizer.observe(trial, failed="runtime", message="on purpose")
    else:
        optimizer.observe(trial, cost(optimizer.space, trial))


def _room(space: Space, wanted: int) -> int:
    """Return how many distinct configurations can be asked for."""
    count = space.feasible.count
    return wanted if count is None else min(wanted, count)


def _key(optimizer: Optimizer, trial: Trial) -> bytes:
    return row_keys(optimizer.space.encode([trial.config]))[0]


def legal_and_new(strategy: Strategy[Any], space: Space) -> None:
    """Every suggestion is feasible and none comes twice, failures or not."""
    optimizer = _started(strategy, space, 1)
    seen: set[bytes] = set()
    for _ in range(_room(space, 16)):
        trial = optimizer.suggest()
        assert space.contains(trial.config), trial
        assert _key(optimizer, trial) not in seen, trial
        seen.add(_key(optimizer, trial))
        _tell(optimizer, trial)


def batches_in_any_order(strategy: Strategy[Any], space: Space) -> None:
    """Batches are whole and distinct, outcomes may come in any order, and some may never come."""
    optimizer, rng = _started(strategy, space, 2), np.random.default_rng(0)
    flying: list[Trial] = []
    seen: set[bytes] = set()
    while len(seen) + 4 <= _room(space, 16):
        new = optimizer.suggest(4)
        assert len(new) == 4
        seen.update(_key(optimizer, trial) for trial in new)
        flying += new
        for _ in range(3):
            _tell(optimizer, flying.pop(int(rng.integers(len(flying)))))
    assert len(seen) == len(optimizer.trials) + len(optimizer.pending)


def same_seed_same_run(strategy: Strategy[Any], space: Space) -> None:
    """The same seed and observations give the same suggestions."""
    assert _configs(strategy, space, 3) == _configs(strategy, space, 3)


def another_seed_another_run(strategy: Strategy[Any], space: Space) -> None:
    """Another seed gives other suggestions: chance comes from the seed. Not for strategies without chance."""
    assert _configs(strategy, space, 3) != _configs(strategy, space, 4)


def _configs(strategy: Strategy[Any], space: Space, seed: int) -> list[dict[str, Any]]:
    optimizer = _started(strategy, space, seed)
    found = []
    for _ in range(_room(space, 12)):
        trial = optimizer.suggest()
        found.append(dict(trial.config))
        _tell(optimizer, trial)
    return found


def _distinct(optimizer: Optimizer) -> bool:
    keys = {_key(optimizer, trial) for trial in optimizer.trials}
    return len(keys) == len(optimizer.trials)


def resume_is_continue(strategy: Strategy[Any], space: Space) -> None:
    """A run rebuilt from its journal goes on exactly as the undisturbed one, with a trial in flight."""
    journal = MemoryJournal()
    optimizer = _started(strategy, space, 4, storage=journal)
    steps = _room(space, 13) - 3
    for _ in range(steps - 1):
        _tell(optimizer, optimizer.suggest())
    flying = optimizer.suggest()
    written = json.loads(json.dumps(journal.events))  # as from a file: tuples come back as lists
    again = _started(strategy, space, 4, storage=MemoryJournal(written))
    assert [dict(t.config) for t in again.pending] == [dict(flying.config)]
    for one in (optimizer, again):
        _tell(one, one.pending[0])
    for _ in range(2):
        left, right = optimizer.suggest(), again.suggest()
        assert dict(left.config) == dict(right.config)
        assert left.tag == right.tag
        _tell(optimizer, left)
        _tell(again, right)


def foreign_observations(strategy: Strategy[Any], space: Space) -> None:
    """Told and enqueued configurations are accepted with a tag that is not the strategy's own."""
    optimizer = _started(strategy, space, 5)
    told = space.sample(2, seed=7)
    optimizer.observe(told[0], 2.0)
    if told[1] != told[0]:
        optimizer.enqueue(told[1])
    for _ in range(_room(space, 12) - 2):
        _tell(optimizer, optimizer.suggest())
    assert _distinct(optimizer)
    assert {"told", "strategy"} <= {trial.origin for trial in optimizer.trials}


def only_failures(strategy: Strategy[Any], space: Space) -> None:
    """A run in which nothing succeeds goes on suggesting new configurations."""
    optimizer = _started(strategy, space, 6)
    for _ in range(_room(space, 14)):
        optimizer.observe(optimizer.suggest(), failed="compile")
    assert optimizer.best is None
    assert _distinct(optimizer)


def constant_values(strategy: Strategy[Any], space: Space) -> None:
    """Equal values everywhere are no reason to stop or to repeat."""
    optimizer = _started(strategy, space, 7)
    for _ in range(_room(space, 12)):
        optimizer.observe(optimizer.suggest(), 1.0)
    assert _distinct(optimizer)


def repeats_under_noise(strategy: Strategy[Any], space: Space) -> None:
    """With ``noise="repeat"`` an observed configuration may come again, but none that failed or is in flight."""
    optimizer = _started(strategy, space, 9, noise="repeat")
    rng, failed = np.random.default_rng(1), set[bytes]()
    count = space.feasible.count
    for _ in range(6):
        trials = optimizer.suggest(2)
        keys = [_key(optimizer, trial) for trial in trials]
        assert len(set(keys)) == len(keys)
        for trial, key in zip(trials, keys, strict=True):
            assert space.contains(trial.config), trial
            assert key not in failed, trial
            if _fails(trial) and (count is None or len(failed) + 3 <= count):
                failed.add(key)
                optimizer.observe(trial, failed="runtime")
            else:
                optimizer.observe(trial, cost(space, trial) * float(rng.lognormal(0.0, 0.1)))
    assert len(optimizer.trials) == 6 * min(2, count or 2)


def ends_when_exhausted(strategy: Strategy[Any], space: Space) -> None:
    """A small space is evaluated exactly once each, and then `SpaceExhausted` is raised."""
    count = space.feasible.count
    if count is None or count > 60:
        return
    optimizer = _started(strategy, space, 8)
    for _ in range(count):
        _tell(optimizer, optimizer.suggest())
    try:
        optimizer.suggest()
    except SpaceExhausted:
        return
    raise AssertionError("SpaceExhausted was not raised")


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
