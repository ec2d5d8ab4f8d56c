"""The sampler, in the real package; also for objectives that ask for different parameters in different trials."""

import multiprocessing
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.exceptions import BacoWarning, SpaceError, StrategyError

optuna = pytest.importorskip("optuna")
from optuna.storages import JournalStorage  # noqa: E402
from optuna.storages.journal import JournalFileBackend  # noqa: E402
from optuna.trial import TrialState  # noqa: E402

from baco_like.integrations import (  # noqa: E402
    BacoSampler,
    from_optuna,
    optuna_distributions,
    suggest_config,
    to_optuna,
)

optuna.logging.set_verbosity(optuna.logging.ERROR)

SPACE = Space(
    {
        "tile": Ordinal([1, 2, 4, 8, 16], log=True, default=4),
        "n": Integer(1, 32, log=True, default=3),
        "eps": Real(1e-6, 1e-1, log=True, default=1e-3),
        "flag": Categorical(["-O2", "-O3", True, 7], default="-O2"),
        "p": Permutation(["i", "j", "k"], default=["i", "j", "k"]),
        "one": Integer(5, 5),
    },
    constraints=["tile * n <= 64", "pos(p, 'i') < pos(p, 'k')"],
)

SMALL = Space({"a": [1, 2, 4], "b": Integer(0, 3)}, constraints=["a + b <= 5"])


def study_of(space, direction="minimize", storage=None, **options):
    options = {"seed": 1, "strategy": "random_search", **options}
    return optuna.create_study(
        direction=direction, storage=storage, sampler=BacoSampler(space, **options)
    )


def key(config):
    return tuple(sorted(config.items(), key=str))


def test_distributions_of_all_five_kinds():
    found = optuna_distributions(SPACE)
    assert found["tile"].choices == (1, 2, 4, 8, 16)
    assert (found["n"].low, found["n"].high, found["n"].log) == (1, 32, True)
    assert (found["eps"].low, found["eps"].high, found["eps"].log) == (1e-6, 1e-1, True)
    assert found["flag"].choices == ("-O2", "-O3", True, 7)
    assert set(found["p"].choices) == {"i,j,k", "i,k,j", "j,i,k", "j,k,i", "k,i,j", "k,j,i"}
    assert found["one"].single()


@given(st.integers(0, 10**6))
def test_configurations_survive_the_round_trip(seed):
    (config,) = SPACE.sample(1, seed=seed)
    params = to_optuna(config, SPACE)
    assert from_optuna(params, SPACE) == config
    for name, distribution in optuna_distributions(SPACE).items():
        assert distribution._contains(distribution.to_internal_repr(params[name]))


@pytest.mark.parametrize(
    ("elements", "named"),
    [(range(8), "at most 7 elements"), ([1, "1"], "differ"), (["a,b", "c"], "comma")],
)
def test_a_permutation_that_optuna_cannot_hold(elements, named):
    with pytest.raises(SpaceError, match=named):
        BacoSampler(Space({"p": Permutation(elements)}))


def test_a_mapping_is_rejected_as_a_space():
    with pytest.raises(SpaceError, match="expected a Space"):
        BacoSampler({"a": [1, 2]})


def test_an_objective_receives_new_feasible_configurations_of_the_space():
    heard = []

    def objective(trial):
        config = suggest_config(trial, SPACE)
        heard.append(config)
        return config["tile"] + config["eps"]

    study = study_of(SPACE)
    study.optimize(objective, n_trials=12)
    assert heard[0] == SPACE.default_config
    assert all(SPACE.contains(config) for config in heard)
    assert len({key(config) for config in heard}) == 12
    assert study.best_value == min(config["tile"] + config["eps"] for config in heard)


def test_the_model_finds_the_optimum_in_both_directions():
    space = Space({"x": Integer(0, 99), "y": Ordinal([1, 2, 4, 8, 16, 32], log=True)})

    def bowl(trial):
        config = suggest_config(trial, space)
        return (config["x"] - 61) ** 2 / 100 + abs(config["y"] - 8)

    down = study_of(space, strategy="auto")
    down.optimize(bowl, n_trials=30)
    assert down.best_value < 0.1  # one of 14 of 600 configurations
    up = study_of(space, "maximize", strategy="auto")
    up.optimize(lambda trial: -bowl(trial), n_trials=30)
    assert [-trial.value for trial in up.trials] == [trial.value for trial in down.trials]


def observed_trials(study):
    """Return our optimizer's trials after the sampler has seen all of a study."""
    run = study.sampler._update(study, -1)
    return run.optimizer.trials


def test_failures_are_observed_with_their_word():
    def objective(trial):
        config = suggest_config(trial, SMALL)
        if config["a"] == 4:
            trial.set_user_attr("failed", "compile")
            trial.set_user_attr("message", "too large")
            raise ValueError
        if config["b"] == 2:
            raise optuna.TrialPruned
        return float(config["b"])

    study = study_of(SMALL)
    study.optimize(objective, n_trials=20, catch=ValueError)
    words = {(t.failure, t.message) for t in observed_trials(study) if t["a"] == 4}
    assert words == {("compile", "too large")}
    assert {t.failure for t in observed_trials(study) if t["a"] < 4 and t["b"] == 2} == {"pruned"}
    assert {t.value for t in observed_trials(study) if not t.failure} == {0.0, 1.0, 3.0}


@pytest.mark.parametrize("failing", [False, True])
def test_an_exhausted_study_ends_without_an_error(failing):
    def objective(trial):
        config = suggest_config(trial, SMALL)
        if failing:
            raise optuna.TrialPruned
        return float(config["b"] - config["a"])

    study = study_of(SMALL)
    study.optimize(objective, n_trials=50)
    study.sampler = BacoSampler(SMALL, seed=2)
    study.optimize(objective, n_trials=50)
    assert len(study.trials) == 11
    assert all(trial.state is not TrialState.FAIL for trial in study.trials)
    assert failing or from_optuna(study.trials[10].params, SMALL) == {"a": 4, "b": 0}


def test_threads_exhaust_the_space_together():
    study = study_of(SMALL)
    study.optimize(lambda trial: float(suggest_config(trial, SMALL)["b"]), n_trials=50, n_jobs=4)
    assert 10 <= len(study.trials) <= 13
    assert {key(from_optuna(trial.params, SMALL)) for trial in study.trials} == {
        key(config) for config in SMALL
    }
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


def test_a_configuration_that_two_processes_run_is_observed_twice():
    study = study_of(SMALL)
    first = study.ask(optuna_distributions(SMALL))
    study.enqueue_trial(first.params)
    second = study.ask(optuna_distributions(SMALL))
    assert second.params == first.params
    study.tell(second, 1.0)
    study.ask(optuna_distributions(SMALL))
    study.tell(first, 2.0)
    study.ask(optuna_distributions(SMALL))
    assert [trial.value for trial in observed_trials(study)] == [1.0, 2.0]
    assert len({key(trial.config) for trial in observed_trials(study)}) == 1


def test_studies_with_the_same_name_are_kept_apart():
    sampler = BacoSampler(SMALL, seed=1, strategy="random_search")
    found = []
    for direction in ("minimize", "maximize"):
        study = optuna.create_study(sampler=sampler, study_name="one", direction=direction)
        study.optimize(lambda trial: float(suggest_config(trial, SMALL)["b"]), n_trials=10)
        found.append(
            (len(observed_trials(study)), study.best_value, observed_trials(study)[0].value)
        )
        assert sampler._update(study, -1).optimizer.objective.direction == direction
    assert [one[:2] for one in found] == [(10, 0.0), (10, 3.0)]


def test_a_partly_enqueued_trial_is_completed():
    study = study_of(SMALL)
    for value in (4, 4, 4, 1):
        study.enqueue_trial({"a": value})
    study.enqueue_trial({"b": 3})
    study.optimize(lambda trial: float(suggest_config(trial, SMALL)["b"]), n_trials=5)
    configs = [from_optuna(trial.params, SMALL) for trial in study.trials]
    assert [config["a"] for config in configs[:4]] == [4, 4, 4, 1]
    assert configs[4]["b"] == 3
    assert all(SMALL.contains(config) for config in configs)
    assert {config["b"] for config in configs[:2]} == {0, 1}  # the third finds both taken
    assert len(observed_trials(study)) == 5


def test_an_enqueued_trial_without_feasible_completion_causes_a_warning():
    given = {"a": 4, "b": 3}
    space = Space({**SMALL.parameters, "c": [1, 2]}, constraints=["a + b <= 5"])
    study = study_of(space)
    study.enqueue_trial(given)
    with pytest.warns(BacoWarning, match="trial 0 was enqueued with"):
        asked = study.ask(optuna_distributions(space))
    assert suggest_config(asked, space) == {**given, "c": asked.params["c"]}
    study.tell(asked, 1.0)
    assert [dict(trial.config) for trial in observed_trials(study)] == [asked.params]
    assert not study.sampler._update(study, -1).optimizer.pending


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_a_wrapping_sampler_that_fixes_a_parameter_is_rejected():
    around = optuna.samplers.PartialFixedSampler({"a": 1}, BacoSampler(SMALL, seed=1))
    study = optuna.create_study(sampler=around)
    with pytest.raises(ValueError, match="fixes a; give these one value in the space"):
        study.ask(optuna_distributions(SMALL))


def test_running_trials_of_another_process_are_pending():
    storage = optuna.storages.InMemoryStorage()
    one = study_of(SMALL, storage=storage)
    two = optuna.load_study(
        study_name=one.study_name,
        storage=storage,
        sampler=BacoSampler(SMALL, seed=1, strategy="random_search"),
    )
    configs = []
    for study in (one, two, two, one, one, two, one, two, two, one):
        trial = study.ask(optuna_distributions(SMALL))
        configs.append(key(trial.params))
        if len(configs) % 3 == 0:
            study.tell(trial, 1.0)
    assert len(set(configs)) == 10  # all there are


def test_a_new_sampler_continues_a_study():
    study = study_of(SMALL)
    study.optimize(lambda trial: float(suggest_config(trial, SMALL)["b"]), n_trials=6)
    study.sampler = pickle.loads(pickle.dumps(study.sampler))
    study.optimize(lambda trial: float(suggest_config(trial, SMALL)["b"]), n_trials=50)
    assert len(study.trials) == 10
    assert len({key(trial.params) for trial in study.trials}) == 10


def test_enqueued_and_added_trials_are_observed():
    study = study_of(SPACE)
    wanted = {**SPACE.default_config, "tile": 1, "p": ("j", "i", "k")}
    study.enqueue_trial(to_optuna(wanted, SPACE))
    known = {**SPACE.default_config, "tile": 2}
    outside = {**SPACE.default_config, "tile": 16, "n": 32}
    for config in (known, outside):
        study.add_trial(
            optuna.create_trial(
                params=to_optuna(config, SPACE),
                distributions=optuna_distributions(SPACE),
                value=7.0,
            )
        )
    heard = []

    def objective(trial):
        heard.append(suggest_config(trial, SPACE))
        return 1.0

    study.optimize(objective, n_trials=4)
    assert heard[0] == wanted
    assert heard[1] == SPACE.default_config
    trials = observed_trials(study)
    assert sorted(trial.value for trial in trials) == [1.0] * 4 + [7.0] * 2
    assert len({key(trial.config) for trial in trials}) == 6
    assert [trial.origin for trial in trials if trial.value == 7.0] == ["imported"] * 2


def test_an_enqueued_trial_is_pending_before_it_suggests_its_parameters():
    study = study_of(SMALL)
    wanted = {"a": 4, "b": 0}
    study.enqueue_trial(wanted)
    study.enqueue_trial({"a": 4, "b": 1})
    enqueued = study.ask()
    assert suggest_config(study.ask(), SMALL) == {"a": 4, "b": 1}
    others = [study.ask(optuna_distributions(SMALL)).params for _ in range(8)]
    assert wanted not in others
    assert suggest_config(enqueued, SMALL) == wanted


def test_an_objective_that_changes_a_value_is_observed_with_that_value():
    study = study_of(SMALL)

    def objective(trial):
        b = trial.suggest_int("b", 0, 0)
        return float(trial.suggest_categorical("a", [1, 2, 4]) + b)

    study.optimize(objective, n_trials=3)
    trials = observed_trials(study)
    assert {trial["b"] for trial in trials} == {0}
    assert [trial.value for trial in trials] == [float(trial["a"]) for trial in trials]
    assert not study.sampler._update(study, -1).optimizer.pending


def test_parameters_outside_the_space_and_trials_that_lack_parameters():
    study = study_of(SMALL)
    study.add_trial(
        optuna.create_trial(
            params={"c": 1},
            distributions={"c": optuna.distributions.IntDistribution(0, 9)},
            value=3.0,
        )
    )
    study.optimize(
        lambda trial: suggest_config(trial, SMALL)["b"] + trial.suggest_float("c", 0, 0.5),
        n_trials=4,
    )
    assert [len(trial.params) for trial in study.trials] == [1, 3, 3, 3, 3]
    assert len(observed_trials(study)) == 4


def test_values_that_are_not_finite_are_failures():
    study = study_of(SMALL)
    study.optimize(lambda trial: suggest_config(trial, SMALL)["b"] * float("inf"), n_trials=4)
    assert {trial.failure for trial in observed_trials(study)} == {"runtime"}


def test_threads_share_a_sampler():
    study = study_of(SMALL)
    study.optimize(lambda trial: float(suggest_config(trial, SMALL)["b"]), n_trials=8, n_jobs=4)
    assert len({key(trial.params) for trial in study.trials}) == 8


def test_an_older_study_is_the_beginning_of_a_new_one():
    old = study_of(SMALL, "maximize")
    old.optimize(lambda trial: float(suggest_config(trial, SMALL)["a"]), n_trials=5)
    results = [(from_optuna(trial.params, SMALL), trial.value) for trial in old.trials]
    new = study_of(SMALL, "maximize", warm_start=results)
    new.optimize(lambda trial: float(suggest_config(trial, SMALL)["a"]), n_trials=20)
    known = {key(config) for config, _ in results}
    measured = {key(from_optuna(trial.params, SMALL)) for trial in new.trials}
    assert measured.isdisjoint(known)
    assert len(measured | known) == SMALL.feasible_size  # the study has ended before 20 trials
    with pytest.raises(ValueError, match="warm_start needs a space"):
        BacoSampler(warm_start=results)


def run_shared_study(path, start):
    storage = JournalStorage(JournalFileBackend(path))
    sampler = BacoSampler(SMALL, seed=3, strategy="random_search")
    study = optuna.load_study(study_name="shared", storage=storage, sampler=sampler)
    start.wait(60)
    study.optimize(lambda trial: float(suggest_config(trial, SMALL)["a"]), n_trials=4)


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_two_fast_processes_on_a_study_measure_different_configurations(tmp_path):
    path = str(tmp_path / "study.log")
    storage = JournalStorage(JournalFileBackend(path))
    study = optuna.create_study(study_name="shared", storage=storage)
    fork = multiprocessing.get_context("fork")
    start = fork.Barrier(2)
    # The same seed: the processes draw the same configurations where they know the same trials.
    workers = [fork.Process(target=run_shared_study, args=(path, start)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    measured = [key(trial.params) for trial in study.trials]
    assert len(measured) == len(set(measured)) == 8


def test_a_study_with_several_directions():
    sampler = BacoSampler(SMALL, seed=1)
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=sampler)

    def objective(trial):
        config = suggest_config(trial, SMALL)
        if config == {"a": 4, "b": 0}:
            raise optuna.TrialPruned
        return config["a"] + 1.0, config["a"] - 0.1 * config["b"]

    study.optimize(objective, n_trials=9)
    assert len({key(trial.params) for trial in study.trials}) == 9
    study.ask(optuna_distributions(SMALL))  # observes the last trial
    optimizer = sampler._studies[study].optimizer
    assert [o.direction for o in optimizer.history.objectives] == ["minimize", "maximize"]
    ours = sorted(tuple(sorted(trial.config.items())) for trial in optimizer.front)
    assert ours == sorted(tuple(sorted(trial.params.items())) for trial in study.best_trials)
    assert sum(trial.failure == "pruned" for trial in optimizer.trials) <= 1


def test_a_strategy_for_one_objective_and_wrong_arguments_are_rejected():
    sampler = BacoSampler(SMALL, strategy="genetic_algorithm")
    study = optuna.create_study(directions=["minimize"] * 2, sampler=sampler)
    with pytest.raises(StrategyError, match="optimises one objective"):
        study.ask(optuna_distributions(SMALL))
    with pytest.raises(ValueError, match="bayesain"):
        BacoSampler(SMALL, strategy="bayesain")


def test_ask_repeats_a_configuration_while_all_are_pending():
    study = study_of(SMALL)
    asked = [study.ask(optuna_distributions(SMALL)) for _ in range(SMALL.feasible_size + 3)]
    configs = [tuple(trial.params.items()) for trial in asked]
    assert len(set(configs[: SMALL.feasible_size])) == SMALL.feasible_size
    assert set(configs) == set(configs[: SMALL.feasible_size])
    for trial in asked:
        study.tell(trial, 1.0)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


@pytest.mark.parametrize("bounds", [(0, 2**60), (-(2**53), 2**53), (1, 2**53 + 1)])
def test_integers_of_any_width_are_sampled(bounds):
    study = optuna.create_study(sampler=BacoSampler(seed=1))
    study.optimize(
        lambda trial: trial.suggest_int("n", *bounds) * 0.0 + trial.suggest_int("m", 0, 9),
        n_trials=8,
    )
    assert len({trial.params["n"] for trial in study.trials}) > 4
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


# ---- The sampler and objectives that ask for different parameters in different trials, in the real package ----


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


def test_none_may_be_a_choice_of_a_conditional_parameter():
    def padded(trial):
        if trial.suggest_categorical("kind", ["direct", "gemm"]) == "direct":
            return 9.0
        pad = trial.suggest_categorical("pad", [None, 8, 16])
        return 5.0 if pad is None else float(pad + trial.suggest_int("fill", 1, 9))

    study = optuna.create_study(sampler=BacoSampler(seed=0))
    study.optimize(padded, n_trials=18)
    assert distinct(study) == 18  # of 20
    assert (study.best_value, observed(study).best_value) == (5.0, 5.0)
    assert set(observed(study).space.conditions.expressions) == {"pad", "fill"}


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
