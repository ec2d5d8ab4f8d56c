import numpy as np
import pytest
from nightly import cover
from population_runs import Run

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.records.trial import Trial
from baco_like.strategies import create_strategy
from baco_like.testing.strategies import CHECKS

NAMES = ("genetic_algorithm", "nsga2", "differential_evolution", "particle_swarm", "firefly")
SMALL = {
    "genetic_algorithm": {"population": 6},
    "nsga2": {"population": 6},
    "differential_evolution": {"population_per_parameter": 3},
    "particle_swarm": {"particles": 6},
    "firefly": {"population": 6},
}
SPACE = Space({"a": Integer(0, 19), "b": Integer(0, 19)}, constraints=["(a + b) % 2 == 0"])
MIXED = Space(
    {
        "x": Real(1e-3, 1.0, log=True),
        "n": Integer(1, 40),
        "t": Ordinal([1, 2, 4, 8, 16], log=True),
        "c": Categorical(["p", "q", "r"]),
        "o": Permutation(["i", "j", "k", "l"]),
    },
    constraints=["n % t == 0", "pos(o, 'i') < pos(o, 'k')"],
)
TINY = Space({"a": [1, 2, 3, 4], "f": [True, False], "one": [7]}, constraints=["f or a > 1"])


def bowl(code):
    return float(((code - 7.0) ** 2).sum())


def run_of(name, space=SPACE, cost=bowl, seed=0, **settings):
    return Run(create_strategy(name, {**SMALL[name], **settings}), space, cost, seed)


@pytest.mark.parametrize(("space", "name", "check"), cover([MIXED, TINY], NAMES, CHECKS, share=2))
def test_penalties_conform_as_well(space, name, check):
    check(create_strategy(name, {**SMALL[name], "constraints": "penalty"}), space)


@pytest.mark.parametrize("name", NAMES)
def test_a_generation_is_asked_in_order_and_known_ones_are_not_asked_again(name):
    rows, tags = run_of(name).go(60)
    assert len({tuple(row) for row in rows}) == 60
    places = [(tag["generation"], tag["place"]) for tag in tags]
    assert places == sorted(places)
    assert {tag["attempt"] for tag in tags} == {0}
    assert {tag["penalised"] for tag in tags} == {0}


@pytest.mark.parametrize("name", NAMES)
def test_a_lost_trial_delays_nothing(name):
    run = run_of(name)
    run.ask()
    _, tags = run.go(40)
    assert max(tag["generation"] for tag in tags) > 2
    assert all(tag is not None for tag in tags)


@pytest.mark.parametrize("name", NAMES)
def test_an_abandoned_trial_is_proposed_again(name):
    run = run_of(name)
    run.go(9)
    ((trial, code),) = run.ask()
    run.history = run.history.abandon(trial.id)
    ((again, same),) = run.ask()
    assert again.tag == trial.tag
    np.testing.assert_array_equal(same, code)


@pytest.mark.parametrize("name", NAMES)
def test_many_pending_trials_are_all_proposed_by_the_algorithm(name):
    run = run_of(name)
    asked = [*run.ask(12), *run.ask(12), *run.ask(1)]
    assert [trial.origin for trial, _ in asked] == ["strategy"] * 25
    for trial, code in reversed(asked):
        run.tell(trial, code)
    assert run.state.generation > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_generation_takes_the_outcome_that_comes_first_at_each_place(name):
    run = run_of(name)
    first = run.ask(len(run.state.candidates))
    second = run.ask(len(first))
    for trial, code in second:
        run.tell(trial, code)
    assert run.state.generation == 1
    for trial, code in first:  # of an old generation by now: they are outsiders
        run.tell(trial, code)
    assert run.state.generation == 1 or name == "firefly"


@pytest.mark.parametrize("name", NAMES)
def test_reported_configurations_become_founders(name):
    run = run_of(name)
    size = len(run.state.candidates)
    rows = SPACE.feasible.sample(60, np.random.default_rng(5))
    told = np.unique(rows, axis=0)[:size]
    for row in told:
        run.report(row, bowl(row))
    assert run.state.generation >= 1
    assert run.history.next_id == size


@pytest.mark.parametrize("name", NAMES)
def test_an_outsider_joins_the_next_generation(name):
    run = run_of(name)
    size = len(run.state.candidates)
    run.go(size)
    run.report(np.array([6.0, 8.0]), -1.0)
    assert len(run.state.outsiders) == 1
    run.report(np.array([6.0, 8.0]), -1.0)  # known by now
    run.report(np.array([0.0, 0.0]), 1e9)  # worse than all
    assert len(run.state.outsiders) == 2
    step = run.state.generation
    while run.state.generation == step:
        run.go(1)
    population = run.state.population
    costs = population.best_costs if name == "particle_swarm" else population.costs
    assert costs.min() == -1.0
    assert costs.max() < 1e9
    assert len(costs) == size


@pytest.mark.parametrize("name", NAMES)
def test_tags_of_other_strategies_are_ignored(name):
    run = run_of(name)
    step = run.state.generation
    tags = ({"generation": step, "place": 99, "attempt": 1}, {"generation": step}, "text", [1],
            {"generation": step, "place": 0, "attempt": 1}, {"generation": step, "place": "0"})  # fmt: skip
    rows = np.unique(SPACE.feasible.sample(60, np.random.default_rng(5)), axis=0)
    for tag, row in zip(tags, rows, strict=False):
        (config,) = SPACE.decode(row[None, :])
        strange = Trial(run.history.next_id, config, tag, "strategy")
        run.history = run.history.add_pending([strange], row[None, :])
        run.tell(strange, row)
    run.go(5)
    assert len(run.history) == len(tags) + 5


@pytest.mark.parametrize("name", NAMES)
def test_infeasible_candidates_get_the_penalty_and_are_counted(name):
    run = run_of(name, constraints="penalty", seed=2)
    before = len(run.state.penalised)
    first = run.state.candidates.codes
    bad = {tuple(row) for row in first if not SPACE.feasible.contains(row[None, :])[0]}
    assert before == len(bad) > 0
    rows, tags = run.go(40)
    assert SPACE.feasible.contains(rows).all()
    counts = [tag["penalised"] for tag in tags if tag]
    assert counts == sorted(counts)
    assert counts[0] == before < counts[-1]
