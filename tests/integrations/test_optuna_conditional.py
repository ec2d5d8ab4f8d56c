"""The sampler and objectives that ask for different parameters in different trials, in the real package."""

import pytest

from baco_like import Integer, Ordinal, Permutation, Space
from baco_like.exceptions import SpaceError

optuna = pytest.importorskip("optuna")
from optuna.trial import TrialState  # noqa: E402

from baco_like.integrations import BacoSampler, optuna_distributions, suggest_config  # noqa: E402

optuna.logging.set_verbosity(optuna.logging.ERROR)

FLAT = Space(
    {
        "kind": ["gemm", "direct", "winograd"],
        "threads": Integer(1, 4),
        "tile": Ordinal([8, 16, 32]),
        "unroll": Integer(1, 4),
        "vector": [True, False],
    }
)
NESTED = Space(
    FLAT.parameters,
    when={"tile": "kind == 'gemm'", "unroll": "tile > 8", "vector": "kind == 'direct'"},
)


def objective(trial):
    kind = trial.suggest_categorical("kind", ["gemm", "direct", "winograd"])
    threads = trial.suggest_int("threads", 1, 4)
    if kind == "gemm":
        tile = trial.suggest_categorical("tile", [8, 16, 32])
        unroll = trial.suggest_int("unroll", 1, 4) if tile > 8 else 1
        return 10 / threads + abs(tile - 16) / 8 + abs(unroll - 3)
    if kind == "direct":
        return 12 / threads + 2 * (not trial.suggest_categorical("vector", [True, False]))
    return 9 / threads


def distinct(study):
    return len({tuple(sorted(trial.params.items())) for trial in study.trials})


def observed(study, sampler=None):
    """Return the optimizer of a sampler after it has seen all of a study."""
    return (study.sampler if sampler is None else sampler)._update(study, -1).run


@pytest.mark.parametrize("space", [None, FLAT, NESTED], ids=["learned", "flat", "nested"])
def test_a_conditional_objective_wastes_no_evaluation(space):
    reference = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    reference.optimize(objective, n_trials=30)
    study = optuna.create_study(sampler=BacoSampler(space, seed=0))
    study.optimize(objective, n_trials=30)
    assert distinct(study) >= max(29, distinct(reference))
    assert study.best_value == 2.25  # the best of all 48
    again = BacoSampler(space, seed=3)
    assert len(observed(study, again).trials) == 30  # nothing is forgotten after a reload
    configs = [dict(trial.config) for trial in observed(study, again).trials]
    assert configs == [trial.params for trial in study.trials]
    assert observed(study, again).history.inside.all()
    learned = observed(study, again).space
    assert {name: set(learned.conditions.ancestors[name]) for name in ("tile", "vector")} == {
        "tile": {"kind"},
        "vector": {"kind"},
    }
    assert "tile" in learned.conditions.ancestors["unroll"]


def test_the_bounds_of_a_learned_space_are_the_widest():
    study = optuna.create_study(sampler=BacoSampler(seed=0))
    wide = [False]

    def growing(trial):
        high = 20 if wide[0] else 5
        x = trial.suggest_int("x", 0, high)
        y = trial.suggest_float("y", 0.0, high, step=0.5)
        return abs(x - 15) + y + (trial.suggest_categorical("c", [None, "None", 2.5]) is None)

    study.optimize(growing, n_trials=4)
    wide[0] = True
    study.optimize(growing, n_trials=16)
    space = observed(study).space
    assert (space.parameters["x"].high, space.parameters["y"].values[-1]) == (20, 20.0)
    assert max(trial.params["x"] for trial in study.trials) > 10
    assert all(trial.state is TrialState.COMPLETE for trial in study.trials)


def test_other_bounds_than_those_of_the_space_are_an_error():
    space = Space({"x": Integer(0, 9), "y": [1, 2]})
    for high in (100, 5):
        study = optuna.create_study(sampler=BacoSampler(space, seed=0, strategy="random_search"))
        with pytest.raises(SpaceError, match=f"'x': the objective asks for 0 to {high}, .* 0 to 9"):
            study.optimize(lambda trial: trial.suggest_int("x", 0, high), n_trials=20)  # noqa: B023


def test_another_step_than_that_of_the_space_is_an_error():
    study = optuna.create_study(sampler=BacoSampler(Space({"x": Integer(0, 9)}), seed=0))
    with pytest.raises(SpaceError, match="'x': the objective asks for 0 to 9 in steps of 3, and "):
        study.optimize(lambda trial: trial.suggest_int("x", 0, 9, step=3), n_trials=20)


def test_a_pruned_trial_is_a_lower_bound_and_no_failure():
    def curve(trial):
        x = trial.suggest_int("x", 0, 9)
        for step in range(3):
            trial.report(x + 3 - step, step)
            if x > 4 and step == 1:
                raise optuna.TrialPruned
        return float(x)

    study = optuna.create_study(sampler=BacoSampler(Space({"x": Integer(0, 9)}), seed=1))
    study.optimize(curve, n_trials=10)
    pruned = [trial for trial in observed(study).trials if trial["x"] > 4]
    assert len(pruned) == 5
    assert [trial.bound for trial in pruned] == [trial["x"] + 2 for trial in pruned]
    assert {trial.status.value for trial in pruned} == {"censored"}
    best = optuna.create_study(direction="maximize", sampler=BacoSampler(seed=1))
    best.optimize(lambda trial: -curve(trial), n_trials=6)
    assert all(trial.value is not None for trial in observed(best).trials)


def two_processes(**options):
    storage = optuna.storages.InMemoryStorage()
    first = optuna.create_study(storage=storage, sampler=BacoSampler(NESTED, **options))
    second = optuna.load_study(
        study_name=first.study_name, storage=storage, sampler=BacoSampler(NESTED, **options)
    )
    return first, second


def test_a_suggestion_is_claimed_before_its_parameters_are_asked_for():
    first, second = two_processes(seed=4)
    one, other = first.ask(), second.ask()
    one.suggest_categorical("kind", ["gemm", "direct", "winograd"])  # the rest is unknown as yet
    assert suggest_config(other, NESTED) != suggest_config(one, NESTED)


def test_two_processes_that_choose_at_once_measure_different_configurations():
    first, second = two_processes(seed=4)
    write, others = first._storage.set_trial_system_attr, []

    def write_after_the_other(*args):
        if (
            not others
        ):  # the other process reads, chooses and writes between our choice and our writing
            others.append(second.ask())
            others.append(suggest_config(others[0], NESTED))
        write(*args)

    first._storage.set_trial_system_attr = write_after_the_other
    assert suggest_config(first.ask(), NESTED) != others[1]
    assert len(observed(first).pending) == 2


def test_only_active_parameters_are_asked_for():
    space = Space(
        {"s": ["a", "b"], "p": Permutation(["i", "j"]), "n": Integer(1, 3)},
        when={"p": "s == 'a'", "n": "pos(p, 'i') == 0"},
    )
    study = optuna.create_study(sampler=BacoSampler(space, seed=1))
    heard = []
    study.optimize(lambda trial: len(heard.append(suggest_config(trial, space)) or [1]), n_trials=9)
    assert {*map(str, heard)} == {*map(str, space)}
    assert len(study.trials) == space.feasible_size == 5


def test_enqueued_values_of_inactive_parameters_are_ignored():
    study = optuna.create_study(sampler=BacoSampler(NESTED, seed=1))
    study.enqueue_trial({"kind": "winograd", "threads": 2, "tile": 8})
    study.enqueue_trial({"tile": 32})
    asked = [study.ask(optuna_distributions(NESTED)) for _ in range(2)]
    for trial in asked:
        study.tell(trial, 1.0)
    first, second = (dict(trial.config) for trial in observed(study).trials)
    assert first == {"kind": "winograd", "threads": 2}
    assert (second["kind"], second["tile"]) == ("gemm", 32)


def test_a_space_with_tasks_is_refused():
    with pytest.raises(SpaceError, match="one study for each task"):
        BacoSampler(Space({"tile": [8, 16]}, tasks=[{"n": 512}, {"n": 4096}]))


def bound_by_a_value(trial):
    tile = trial.suggest_categorical("tile", [2, 4, 8, 16, 32])
    rest = trial.suggest_int("rest", 1, tile)
    return abs(tile - 16) + abs(rest - 11) + trial.suggest_int("unroll", 0, 7)


def bound_by_a_branch(trial):
    is_direct = trial.suggest_categorical("kind", ["direct", "gemm"]) == "direct"
    x = trial.suggest_int("x", 1, 4 if is_direct else 64)
    return 9 * is_direct + abs(x - 50) + trial.suggest_int("y", 0, 9)


def step_by_a_branch(trial):
    if trial.suggest_categorical("kind", ["direct", "gemm"]) == "direct":
        return trial.suggest_int("x", 1, 30) + 2
    return abs(trial.suggest_int("x", 16, 96, step=8) - 32)


def bound_by_a_line(trial):
    x = trial.suggest_int("x", 0, 20)
    return abs(x - 15) + abs(trial.suggest_int("y", 3, 43 - 2 * x) - 10)


def bound_by_a_product(trial):
    a, b = trial.suggest_int("a", 1, 4), trial.suggest_int("b", 1, 4)
    return abs(trial.suggest_int("c", 1, a * b) - 5) + (a + b) / 10


def bound_by_two_values(trial):
    a, b = (trial.suggest_categorical(name, [1, 2, 4, 8, 16]) for name in "ab")
    return abs(a - 2) + abs(b - 4) + abs(trial.suggest_int("c", 1, max(1, 64 // (a * b))) - 7)


def bound_by_four_values(trial):
    a, b, c, d = (trial.suggest_int(name, 1, 9) for name in "abcd")
    return abs(trial.suggest_int("x", 1, 1 + abs(a - b) + abs(c - d)) - 5) + a


@pytest.mark.parametrize(
    ("moving", "constraint"),
    [
        (bound_by_a_value, "rest <= tile"),
        (bound_by_a_branch, "(kind != 'direct' or x <= 4)"),
        (step_by_a_branch, "(kind != 'gemm' or x % 8 == 0)"),
        (bound_by_a_line, "y <= -2 * x + 43"),
        (bound_by_a_product, "c <= b * a"),
        (bound_by_two_values, "(b != 8 or a != 4 or c <= 2)"),
        (bound_by_four_values, ""),  # not learned, and still no repetition
    ],
)
def test_bounds_that_depend_on_other_parameters_are_learned(moving, constraint):
    study = optuna.create_study(sampler=BacoSampler(seed=1))
    study.optimize(moving, n_trials=30)
    assert distinct(study) == 30
    assert any(constraint in str(text) for text in observed(study).space.constraints or [""])
    again = BacoSampler(seed=2)
    assert observed(study, again).space == observed(study).space
    shown = [trial.params for trial in study.trials]
    assert [t.config for t in observed(study, again).trials if t.value is not None] == shown


def test_a_wrong_bound_is_forgotten_when_a_trial_contradicts_it():
    bounds = {"a": 4, "b": 9}

    def changing(trial):
        return trial.suggest_int("x", 0, bounds[trial.suggest_categorical("kind", ["a", "b"])])

    study = optuna.create_study(sampler=BacoSampler(seed=1))
    study.optimize(changing, n_trials=6)
    assert observed(study).space.constraints
    bounds["a"] = 9
    study.optimize(changing, n_trials=12)
    assert not observed(study).space.constraints
    assert distinct(study) == 18


@pytest.mark.parametrize("given", [False, True])
def test_a_branch_that_fails_before_it_asks_for_its_parameters_fails_once(given):
    calls = []

    def failing(trial):
        kind = trial.suggest_categorical("kind", ["gemm", "direct", "winograd"])
        calls.append(kind)
        if kind == "direct":
            raise RuntimeError("no such kernel")
        if kind == "winograd":
            raise optuna.TrialPruned
        if calls.count("gemm") == 2:
            raise RuntimeError("a failure of this trial only")
        tile = trial.suggest_categorical("tile", [8, 16, 32])
        return tile + trial.suggest_int("threads", 1, 4)

    space = Space({name: FLAT.parameters[name] for name in ("kind", "tile", "threads")})
    study = optuna.create_study(sampler=BacoSampler(space if given else None, seed=1))
    study.optimize(failing, n_trials=12, catch=RuntimeError)
    assert calls.count("direct") == calls.count("winograd") == 1
    assert distinct(study) == 12


@pytest.mark.parametrize("given", [False, True])
def test_a_branch_that_is_pruned_early_is_one_configuration(given):
    def pruned(trial):
        kind = trial.suggest_categorical("kind", ["gemm", "direct", "winograd"])
        threads = trial.suggest_int("threads", 1, 4)
        if kind == "direct":
            trial.report(9.0, 1)
            raise optuna.TrialPruned
        return threads + (trial.suggest_categorical("tile", [8, 16, 32]) == 8)

    space = Space({name: FLAT.parameters[name] for name in ("kind", "threads", "tile")})
    study = optuna.create_study(sampler=BacoSampler(space if given else None, seed=1))
    study.optimize(pruned, n_trials=26)
    assert distinct(study) == 26  # 24 with a tile, and 4 pruned ones
    trials = observed(study).trials
    assert {trial.bound for trial in trials if trial["kind"] == "direct"} == {9.0}
    assert observed(study).history.inside.all()


def test_choices_that_are_equal_in_python_are_one_choice():
    def objective(trial):
        return trial.suggest_int("x", 1, 50) + trial.suggest_categorical("c", [0, 1, True, 1.0])

    study = optuna.create_study(sampler=BacoSampler(seed=1))
    study.optimize(objective, n_trials=20)
    assert distinct(study) == 20
