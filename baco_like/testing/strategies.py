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
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from baco_like import parameters
from baco_like.exceptions import SpaceExhausted, StrategyError
from baco_like.journal import MemoryJournal
from baco_like.optimizer import Optimizer, Search
from baco_like.parameters import Categorical, Integer, Ordinal, Permutation, Real
from baco_like.records import Aim
from baco_like.records.objective import Direction
from baco_like.records.rows import row_keys
from baco_like.records.trial import Observation, Trial
from baco_like.spaces.space import Space
from baco_like.strategies.protocol import Problem, Strategy, draws_in_tell, optimises_several
from baco_like.testing import assert_raises

Check = Callable[[Strategy[Any], Space], None]


def cost(space: Space, trial: Trial) -> float:
    """Return a smooth cost of a configuration: the squared distance of its features from a fixed point."""
    features = space.features(space.encode([trial.config]))[0]
    return float(1 + ((features - 0.3) ** 2).sum())


BUDGET = 25
"""Budget of the runs: small, so that populations are small and a check covers several generations."""


def _outcome(space: Space, trial: Trial) -> dict[str, Any]:
    """Return the arguments of `Optimizer.observe` for a trial; one in five fails."""
    if trial.id % 5 == 3:
        return {"failed": "runtime", "message": "on purpose"}
    return {"value": cost(space, trial)}


def _available(space: Space, limit: int) -> int:
    """Return the number of distinct configurations that can be suggested, at most ``limit``."""
    count = space.feasible.count
    return limit if count is None else min(limit, count)


def _keys(space: Space, trials: Sequence[Trial]) -> list[bytes]:
    return row_keys(space.encode([trial.config for trial in trials]))


def _as_from_file(journal: MemoryJournal) -> list[Any]:
    """Return the events of a journal as they come back from a file, where tuples become lists."""
    events: list[Any] = json.loads(json.dumps(journal.events))
    return events


def _evaluate(optimizer: Optimizer, steps: int, **outcome: Any) -> None:
    """Evaluate suggestions, and check that they are feasible and new.

    Args:
        optimizer: Suggests and observes them.
        steps: Number of suggestions.
        outcome: Arguments of `Optimizer.observe`; by default those of `_outcome`.
    """
    space = optimizer.space
    for _ in range(steps):
        trial = optimizer.suggest()
        assert space.contains(trial.config), f"suggestions are feasible: {trial}"
        optimizer.observe(trial, **(outcome or _outcome(space, trial)))
    keys = _keys(space, optimizer.trials)
    assert len(set(keys)) == len(keys), "no configuration is suggested twice"


def _run(strategy: Strategy[Any], space: Space, seed: int, steps: int, **outcome: Any) -> Optimizer:
    """Return an optimizer after some evaluations, at most as many as there are configurations."""
    optimizer = Optimizer(space, strategy=strategy, seed=seed, budget=BUDGET)
    _evaluate(optimizer, _available(space, steps), **outcome)
    return optimizer


def batches_in_any_order(strategy: Strategy[Any], space: Space) -> None:
    """Batches are complete and distinct; outcomes may arrive in any order, and some never arrive."""
    optimizer = Optimizer(space, strategy=strategy, seed=2, budget=BUDGET)
    rng = np.random.default_rng(0)
    pending: list[Trial] = []
    keys: list[bytes] = []
    while len(keys) + 4 <= _available(space, 16):
        new = optimizer.suggest(4)
        assert len(new) == 4, "a batch is complete"
        keys += _keys(space, new)
        pending += new
        for _ in range(3):
            trial = pending.pop(int(rng.integers(len(pending))))
            optimizer.observe(trial, **_outcome(space, trial))
    assert len(set(keys)) == len(keys), "the configurations of batches are distinct"


def same_seed_same_run(strategy: Strategy[Any], space: Space) -> None:
    """The same seed and observations give the same suggestions, each feasible and new.

    Another run repeats the first half. A run that is restored from the journal of the first half, with a pending trial,
    repeats the second half.
    """
    journal = MemoryJournal()
    settings: dict[str, Any] = {"strategy": strategy, "seed": 3, "budget": BUDGET}
    first = Optimizer(space, storage=journal, **settings)
    steps = _available(space, 16)
    half = steps // 2 + 1
    _evaluate(first, half - 1)
    first.suggest()
    events = _as_from_file(journal)
    first.observe(first.pending[0], **_outcome(space, first.pending[0]))
    _evaluate(first, steps - half)
    again = Optimizer(space, **settings)
    _evaluate(again, half)
    resumed = Optimizer(space, storage=MemoryJournal(events), **settings)
    trial, *others = resumed.pending
    assert not others, "a resumed run has the same pending trials"
    resumed.observe(trial, **_outcome(space, trial))
    _evaluate(resumed, steps - half)
    assert first.trials[:half] == again.trials, "the same seed gives the same suggestions"
    assert first.trials == resumed.trials, "a resumed run suggests the same"
    for run in (again, resumed):
        tags = [(one.tag, other.tag) for one, other in zip(first.trials, run.trials, strict=False)]
        assert all(one == other for one, other in tags), "the same suggestions have the same tags"
    problem, rng = Problem(space, BUDGET), np.random.default_rng(0)
    state = strategy.init(problem, rng)
    before = rng.bit_generator.state
    for trial in first.trials:
        if isinstance(trial, Observation):
            state = strategy.tell(problem, state, trial, rng)
    drew = rng.bit_generator.state != before
    assert draws_in_tell(strategy) or not drew, "`tell` draws nothing with draws_in_tell = False"


def resume_is_continue(
    strategy: Strategy[Any],
    space: Space,
    outcome: Callable[[Space, Trial], dict[str, Any]] = _outcome,
    **settings: Any,
) -> None:
    """Suggestions are feasible and new, and a run restored with a pending trial continues exactly as the whole run.

    Args:
        strategy: The strategy.
        space: The space.
        outcome: Returns the arguments of `Optimizer.observe` for a trial.
        settings: Further arguments of `Optimizer`.
    """
    settings = {"strategy": strategy, "seed": 4, "budget": BUDGET, **settings}
    journal = MemoryJournal()
    optimizer = Optimizer(space, storage=journal, **settings)
    for _ in range(_available(space, 17) - 5):
        trial = optimizer.suggest()
        assert space.contains(trial.config), f"suggestions are feasible: {trial}"
        optimizer.observe(trial, **outcome(space, trial))
    optimizer.suggest()
    resumed = Optimizer(space, storage=MemoryJournal(_as_from_file(journal)), **settings)
    assert resumed.pending == optimizer.pending, "a resumed run has the same pending trial"
    for size in (1, 2):  # the pending trial, then a batch
        for run in (optimizer, resumed):
            for trial in run.pending:
                run.observe(trial, **outcome(space, trial))
        first, second = optimizer.suggest(size), resumed.suggest(size)
        assert first == second, "a resumed run suggests the same"
        tags = [[trial.tag for trial in batch] for batch in (first, second)]
        assert tags[0] == tags[1], "suggestions of a resumed run have the same tags"
    keys = _keys(space, [*optimizer.trials, *optimizer.pending])
    assert len(set(keys)) == len(keys), "no configuration is suggested twice"
    assert optimizer.front == resumed.front, "a resumed run has the same front"


def foreign_observations(strategy: Strategy[Any], space: Space) -> None:
    """Reported and enqueued configurations are accepted; their tags are not the strategy's."""
    optimizer = Optimizer(space, strategy=strategy, seed=5, budget=BUDGET)
    reported = space.sample(2, seed=7)
    optimizer.observe(reported[0], 2.0)
    if reported[1] != reported[0]:
        optimizer.enqueue(reported[1])
    _evaluate(optimizer, _available(space, 12) - 2)
    origins = {trial.origin for trial in optimizer.trials}
    assert {"told", "strategy"} <= origins, "reported configurations and suggestions are kept"


def only_failures(strategy: Strategy[Any], space: Space) -> None:
    """A run without a success continues to suggest new configurations."""
    optimizer = _run(strategy, space, 6, 14, failed="compile")
    assert optimizer.best is None, "a run without a success has no best trial"


def constant_values(strategy: Strategy[Any], space: Space) -> None:
    """If all values are equal, the run neither stops nor repeats a configuration."""
    _run(strategy, space, 7, 12, value=1.0)


def repeats_under_noise(strategy: Strategy[Any], space: Space) -> None:
    """With ``noise="repeat"`` an observed configuration may be suggested again, but not if it failed or is pending."""
    search = Search(strategy, noise="repeat")
    optimizer = Optimizer(space, strategy=search, seed=9, budget=BUDGET)
    rng, failed = np.random.default_rng(1), set[bytes]()
    count = space.feasible.count
    for _ in range(6):
        trials = optimizer.suggest(2)
        keys = _keys(space, trials)
        assert len(set(keys)) == len(keys), "the configurations of a batch are distinct"
        for trial, key in zip(trials, keys, strict=True):
            assert space.contains(trial.config), f"suggestions are feasible: {trial}"
            assert key not in failed, f"failed configurations are not suggested again: {trial}"
            outcome = _outcome(space, trial)
            if "failed" in outcome and (count is None or len(failed) + 3 <= count):
                failed.add(key)
            else:
                outcome = {"value": cost(space, trial) * float(rng.lognormal(0.0, 0.1))}
            optimizer.observe(trial, **outcome)
    assert len(optimizer.trials) == 6 * min(2, count or 2), "batches are complete"


def several_objectives(strategy: Strategy[Any], space: Space) -> None:
    """With two and four objectives, suggestions are feasible and new, and a resumed run suggests the same.

    Some trials fail, reach a time limit, or exceed a limit on a metric. Strategies that optimise one objective refuse
    such a run.
    """
    two: dict[str, Direction] = {"time": "minimize", "rate": "maximize"}
    if not optimises_several(strategy):
        with assert_raises(StrategyError, msg="several objectives without `several_objectives`"):
            Optimizer(space, two, strategy=strategy)
        return
    resume_with_objectives(strategy, space, two, ())
    resume_with_objectives(
        strategy, space, {**two, "size": "minimize", "energy": "minimize"}, ("size <= 4",)
    )


def resume_with_objectives(
    strategy: Strategy[Any],
    space: Space,
    objectives: Mapping[str, Direction],
    limits: tuple[str, ...],
) -> None:
    """A run with several objectives continues as in `resume_is_continue`; some trials fail."""

    def outcome(space: Space, trial: Trial) -> dict[str, Any]:
        if trial.id % 7 == 5:
            return {"failed": "timeout", "bound": 2.0}
        if "failed" in (known := _outcome(space, trial)):
            return known
        time = known["value"]
        total = float(space.features(space.encode([trial.config]))[0].sum())
        values = {"time": time, "rate": [total, total + 1.0], "size": trial.id % 6}
        return {"value": {**values, "energy": -time}}

    resume_is_continue(strategy, space, outcome, aim=Aim(objectives, limits))


def ends_when_exhausted(strategy: Strategy[Any], space: Space) -> None:
    """A small space is evaluated exactly once each, and then `SpaceExhausted` is raised."""
    count = space.feasible.count
    if count is None or count > 60:
        return
    optimizer = _run(strategy, space, 8, count)
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
        "sequence": Space(
            {
                "passes": parameters.Sequence(["a", "b", "c", "d"], 5, min_length=1),
                "flags": parameters.Subset(["x", "y", "z"], 2),
                "u": [1, 2, 4],
            },
        ),
        "large": Space(
            {f"v{i}": Ordinal([2**j for j in range(11)], log=True) for i in range(8)},
            constraints=["v0 * v1 <= 1024", "v2 % v3 == 0"],
        ),
        "conditional": Space(
            {
                "s": Categorical(["plain", "tiled", "fused"]),
                "t": powers,
                "u": Ordinal([1, 2, 4], default=2),
                "o": Permutation(["i", "j", "k"]),
                "v": [True, False],
            },
            constraints=["t * u <= 32"],
            when={"t": "s != 'plain'", "u": "t > 2", "o": "s == 'tiled' and v"},
        ),
        "conditional reals": Space(
            {
                "s": ["a", "b"],
                "x": Real(0.0, 1.0),
                "n": Integer(1, 9),
                "y": Real(0.1, 1.0, log=True),
            },
            constraints=["x + y <= 1.5"],
            when={"x": "s == 'a'", "n": "s == 'b'", "y": "x > 0.3 or n > 4"},
        ),
    }


CHECKS: tuple[Check, ...] = (
    batches_in_any_order,
    same_seed_same_run,
    foreign_observations,
    only_failures,
    constant_values,
    repeats_under_noise,
    several_objectives,
    ends_when_exhausted,
)
"""All checks that every strategy must pass; `same_seed_same_run` checks what `resume_is_continue` checks."""
