"""Random spaces with every kind of parameter and random objectives: a run resumes at any point bit for bit."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import (
    Categorical,
    Integer,
    Optimizer,
    Ordinal,
    Permutation,
    Real,
    Space,
    SpaceExhausted,
)
from baco_like.journal import MemoryJournal

PARAMETERS = {
    "r": [Real(1e-3, 5.0, log=True), Real(-1.0, 1.0)],
    "n": [Integer(1, 9), Integer(1, 300, log=True)],
    "t": [Ordinal([1, 2, 4, 8, 16], log=True), Ordinal([3])],
    "c": [Categorical(["x", "y", "z"]), Categorical(["x", "y"])],
    "o": [Permutation(["i", "j", "k"]), Permutation(list("ijkl"), metric="kendall")],
}
CONSTRAINTS = {("n", "t"): "n * t <= 500", ("r", "n"): "r * n < 200", ("o",): "pos(o, 'i') < 2"}
STRATEGIES = ["ehvi", "parego", "nsga2", "random_search", "auto"]
LIMITS = [(), ("f1 <= 3",), ("g < 0.7", "f0 > -100"), ("f0 + f1 < 5 or g > 0.2",)]


@st.composite
def spaces(draw):
    names = draw(st.lists(st.sampled_from(list(PARAMETERS)), min_size=1, unique=True))
    parameters = {name: draw(st.sampled_from(PARAMETERS[name])) for name in names}
    known = [text for read, text in CONSTRAINTS.items() if set(read) <= set(names)]
    constraints = [text for text in known if draw(st.booleans())]
    when = {"r": "c != 'y'"} if {"r", "c"} <= set(names) and draw(st.booleans()) else {}
    return Space(parameters, constraints, when=when)


def outcome(trial, space, objectives, seed):
    """Return the arguments of `observe`: values of any size, repeats, NaN, failures and time limits."""
    rng = random.Random(f"{seed}-{trial.id}")
    if rng.random() < 0.2:
        return {"failed": rng.choice(["compile", "timeout"])}
    if rng.random() < 0.1 and objectives["f0"] == "minimize":
        return {"failed": "timeout", "bound": 1.0}
    features = space.features(space.encode([trial.config]))[0]
    values = {"g": rng.random() if rng.random() < 0.95 else float("nan")}
    for j, name in enumerate(objectives):
        weights = random.Random(f"{seed}-{name}")
        value = 10.0 ** weights.randint(-6, 6) * sum(weights.uniform(-1, 1) * x for x in features)
        values[name] = value if rng.random() < 0.5 else [value, value * 1.1]
        if j and rng.random() < 0.05:
            values[name] = float("inf")
    return {"value": values}


@pytest.mark.filterwarnings("ignore::baco_like.FailureWarning")
@settings(max_examples=25)
@given(
    space=spaces(),
    directions=st.lists(st.sampled_from(["minimize", "maximize"]), min_size=2, max_size=4),
    strategy=st.sampled_from(STRATEGIES),
    limits=st.sampled_from(LIMITS),
    batch=st.sampled_from([1, 3]),
    cut=st.integers(0, 9),
    seed=st.integers(0, 1000),
)
def test_a_run_resumes_at_any_point(space, directions, strategy, limits, batch, cut, seed):
    objectives = {f"f{j}": direction for j, direction in enumerate(directions)}
    arguments = {"objectives": objectives, "strategy": strategy, "limits": limits, "seed": seed}
    journal = MemoryJournal()
    runs = [Optimizer(space, storage=journal, budget=20, **arguments)]
    for step in range(12):
        if step == cut:
            events = json.loads(json.dumps(journal.events))
            runs.append(Optimizer(space, storage=MemoryJournal(events), budget=20, **arguments))
        try:
            batches = [run.suggest(batch) for run in runs]
        except SpaceExhausted:
            break
        for run, trials in zip(runs, batches, strict=True):
            assert trials == batches[0]
            assert [trial.tag for trial in trials] == [trial.tag for trial in batches[0]]
            for trial in trials:
                assert space.contains(trial.config)
                run.observe(trial, **outcome(trial, space, objectives, seed))
    first = runs[0]
    assert len({str(dict(trial)) for trial in first.trials}) == len(first.trials)
    assert all(run.front == first.front and run.best == first.best for run in runs)
    assert first.best is None or first.best in first.front
