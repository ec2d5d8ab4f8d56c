"""Random spaces with every kind of parameter and random runs of every kind: each resumes at any point bit for bit."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import (
    Aim,
    Categorical,
    Cover,
    Integer,
    Optimizer,
    Ordinal,
    Permutation,
    Real,
    Search,
    Sharing,
    Space,
    SpaceExhausted,
    WarmStart,
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
MODELS = ["auto", "bayesian", "smac", "kernel_tuner_bo"]
SINGLE = [*MODELS, "genetic_algorithm", "racing", "iterated_local_search", "pattern_search"]
SEVERAL = ["ehvi", "parego", "nsga2", "random_search", "auto"]
SHORT = {"auto", "bayesian", "smac", "kernel_tuner_bo", "ehvi", "parego"}
LIMITS = [(), ("f1 <= 3",), ("g < 0.7", "f0 > -100"), ("f0 + f1 < 5 or g > 0.2",)]
SIZES = [{"size": 64}, {"size": 512}]
# Of each kind of run: its arguments, and the strategies that know it.
KINDS = {
    "several objectives": ({}, SEVERAL),
    "tasks": ({"tasks": SIZES}, ["auto"]),
    "a task": ({"tasks": SIZES, "sharing": Sharing(task="size=64")}, ["auto"]),
    "levels": ({"fidelity": {"share": [0.1, 1.0]}}, ["auto", "successive_halving"]),
    "seconds": ({"seconds": 100.0}, ["auto", "bayesian", "smac"]),
    "noise": ({}, SINGLE),
    "related results": ({}, ["auto", "bayesian", "smac"]),
    "one objective": ({}, SINGLE),
}


@st.composite
def spaces(draw):
    names = draw(st.lists(st.sampled_from(list(PARAMETERS)), min_size=1, unique=True))
    parameters = {name: draw(st.sampled_from(PARAMETERS[name])) for name in names}
    known = [text for read, text in CONSTRAINTS.items() if set(read) <= set(names)]
    constraints = [text for text in known if draw(st.booleans())]
    when = {"r": "c != 'y'"} if {"r", "c"} <= set(names) and draw(st.booleans()) else {}
    return Space(parameters, constraints, when=when)


@st.composite
def arguments(draw, kind, space):
    """Return the space and the arguments of an optimizer for a kind of run."""
    given_, strategies = KINDS[kind]
    directions = st.sampled_from(["minimize", "maximize"])
    options = {**given_, "strategy": draw(st.sampled_from(strategies)), "budget": 20}
    own = {"initial": 3} if options["strategy"] in SHORT else {}
    noise = "repeat" if kind == "noise" else "none"
    options["strategy"] = Search(options["strategy"], own, noise=noise)
    space, goal = space.with_tasks(options.pop("tasks", None)), None
    space = space.with_fidelity(options.pop("fidelity", None))
    if kind == "several objectives":
        several = draw(st.lists(directions, min_size=2, max_size=4))
        objectives = {f"f{j}": direction for j, direction in enumerate(several)}
        limits = draw(st.sampled_from(LIMITS))
    else:
        objectives = {"f0": draw(directions)}
        limits = draw(st.sampled_from([(), ("g < 0.7",)]))
    if kind == "tasks":
        goal = draw(st.sampled_from(["each", "single", Cover(1), Cover(within=1.2)]))
    if kind == "related results":
        rows = [(config, i % 5 + 1.5) for i, config in enumerate(space.sample(12, seed=1))]
        options["warm_start"] = WarmStart(rows, "prior", objective="f0")
    return space, {**options, "aim": Aim(objectives, limits, goal)}


def outcome(run, trial, seed):
    """Return the arguments of `observe`: values of any size, repeats, NaN, failures and time limits."""
    rng = random.Random(f"{seed}-{trial.id}")
    objectives = {each.name: each.direction for each in run.options.aim.objectives}
    seconds = {"seconds": {"compile": 1.0 + rng.random(), "run": rng.random()}}
    if rng.random() < 0.2:
        return {"failed": rng.choice(["compile", "timeout"]), **seconds}
    if rng.random() < 0.1 and objectives["f0"] == "minimize":
        return {"failed": "timeout", "bound": 1.0}
    features = run.space.features(run.space.encode([trial.config]))[0]
    values = {"g": rng.random() if rng.random() < 0.95 else float("nan")}
    for j, name in enumerate(objectives):
        weights = random.Random(f"{seed}-{name}")
        value = 10.0 ** weights.randint(-6, 6) * sum(weights.uniform(-1, 1) * x for x in features)
        values[name] = value if rng.random() < 0.5 else [value, value * 1.1]
        if j and rng.random() < 0.05:
            values[name] = float("inf")
    return {"value": values, **seconds}


@pytest.mark.filterwarnings("ignore::baco_like.FailureWarning")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=3)
@given(data=st.data(), space=spaces(), batch=st.sampled_from([1, 3]))
def test_a_run_resumes_at_any_point(kind, data, space, batch):
    (space, options), seed = data.draw(arguments(kind, space)), data.draw(st.integers(0, 1000))
    steps = {1: 9, 3: 5}[batch]
    cut = data.draw(st.integers(0, steps - 2))
    journal = MemoryJournal()
    runs = [Optimizer(space, storage=journal, seed=seed, **options)]
    for step in range(steps):
        if step == cut:
            events = MemoryJournal(json.loads(json.dumps(journal.events)))
            options.pop("warm_start", None)  # the journal has its results
            runs.append(Optimizer(space, storage=events, seed=seed, **options))
        try:
            batches = [run.suggest(batch) for run in runs]
        except SpaceExhausted:
            break
        for run, trials in zip(runs, batches, strict=True):
            assert trials == batches[0]
            assert [trial.tag for trial in trials] == [trial.tag for trial in batches[0]]
            for trial in trials:
                assert run.space.contains(trial.config)
                run.observe(trial, **outcome(run, trial, seed))
    first = runs[0]
    if options["strategy"].noise != "repeat":
        assert len({f"{dict(t)} {t.task}" for t in first.trials}) == len(first.trials)
    assert all(run.front == first.front and run.best == first.best for run in runs)
    assert not first.objectives or first.best is None or first.best in first.front
