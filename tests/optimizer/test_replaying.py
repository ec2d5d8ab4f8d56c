"""Opening a journal does no work that the strategy does not need."""

from __future__ import annotations

import pytest

from baco_like import Optimizer, Space
from baco_like._random import Purpose, generator
from baco_like.journal import MemoryJournal

SPACE = Space({"x": list(range(20)), "y": list(range(20))})


@pytest.mark.parametrize(
    ("strategy", "draws"),
    [("random_search", False), ("auto", False), ("baco", False), ("simulated_annealing", True)],
)
def test_a_generator_for_each_observation_is_made_only_for_strategies_that_draw(
    monkeypatch, strategy, draws
):
    journal = MemoryJournal()
    optimizer = Optimizer(SPACE, strategy=strategy, storage=journal)
    for x in range(5):
        optimizer.observe({"x": x, "y": 3}, float(x))
    made: list[int] = []

    def count(seed, purpose, index=0, stream=None):
        made.extend([index] if purpose is Purpose.TELL else [])
        return generator(seed, purpose, index, stream)

    monkeypatch.setattr("baco_like.optimizer.state.generator", count)
    resumed = Optimizer(SPACE, strategy=strategy, storage=MemoryJournal(list(journal.events)))
    assert made == (list(range(5)) if draws else [])
    assert resumed.suggest() == optimizer.suggest()
