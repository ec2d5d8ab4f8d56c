"""`Optimizer.simplify`: which parameters of the winner return to their defaults."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Optimizer, Permutation, Sequence, Space, TrialError
from baco_like.records import Objective, read_confirmation
from baco_like.records.confirmation import winner_of
from baco_like.running.findings import Findings
from baco_like.running.journal_view import JournalView

SIZE = [Objective("size", "bytes", exact=True)]


def flags(n, **more):
    return Space({f"f{i}": Categorical([False, True], default=False) for i in range(n)}, **more)


def start(space, winner, measure, **settings):
    """Return an optimizer that has observed the default and a winner."""
    optimizer = Optimizer(space, SIZE, strategy="random_search", **settings)
    for config in (optimizer.suggest(), winner):
        observe(optimizer, config, measure)
    return optimizer


def observe(optimizer, trial, measure):
    value = measure(dict(trial))
    if value is None:
        optimizer.observe(trial, failed="compile")
    elif isinstance(value, tuple):
        optimizer.observe(trial, {"size": value[0]}, program=value[1])
    else:
        optimizer.observe(trial, {"size": value})


def simplify(optimizer, measure, evaluations=1000):
    """Return the recommended configuration of the simplification, and the measured configurations."""
    measured = []
    for trial in optimizer.simplify(evaluations):
        measured.append(dict(trial))
        observe(optimizer, trial, measure)
    return optimizer.recommend(), measured


SIX = flags(6, constraints=["f0 or not f1", "f2 or f3 or not f4"])


@given(st.lists(st.sampled_from([5, 6, 7, 8, None]), min_size=64, max_size=64), st.data())
def test_no_parameter_of_the_result_can_return(costs, data):
    """Of any function, interactions and failures included, under a constraint."""
    space = SIX
    costs[0], costs[1] = 9, 8

    def measure(config):
        return costs[sum(2**i for i in range(6) if config[f"f{i}"])]

    feasible = [config for config in space if measure(config) is not None]
    winner = data.draw(st.sampled_from([config for config in feasible if any(config.values())]))
    optimizer = start(space, winner, measure)
    small, measured = simplify(optimizer, measure)
    assert measure(small) == small.value <= measure(winner)
    assert {n for n in small if small[n]} <= {n for n in winner if winner[n]}
    for name in small:
        without = {**small, name: False}
        if small[name] and space.contains(without):
            assert measure(without) is None or measure(without) > small.value
    assert all(space.contains(config) for config in measured)
    assert len({str(config) for config in measured}) == len(measured)


def test_few_flags_of_many_need_few_tests():
    space, matters = flags(60), {"f7": 30, "f31": 20, "f52": 10}

    def measure(config):
        return 1000 - sum(gain for name, gain in matters.items() if config[name])

    optimizer = start(space, dict.fromkeys(space.names, True), measure)
    small, measured = simplify(optimizer, measure)
    assert {name for name in small if small[name]} == set(matters)
    assert len(measured) <= 2 * 3 * np.log2(60)
    found = read_confirmation(optimizer.history)
    assert found.plan.simplification.trial == 1
    assert (len(found.plan.simplification.dropped), list(found.plan.simplification.kept)) == (
        57,
        [*matters],
    )
    assert found.plan.simplification.is_minimal
    assert found.speedup_of(found.recommended).low == pytest.approx(1000 / 940)


def test_parameters_that_did_not_matter_in_the_search_return_together():
    space, matters = flags(60), {f"f{i}" for i in range(0, 60, 12)}

    def measure(config):
        return 1000 - sum(10 for name in matters if config[name])

    rng = np.random.default_rng(1)
    few = start(space, winner := dict.fromkeys(space.names, True), measure)
    many = start(space, winner, measure)
    for _ in range(60):
        observe(many, {name: bool(rng.integers(2)) for name in space.names}, measure)
    counts = [len(simplify(optimizer, measure)[1]) for optimizer in (few, many)]
    assert counts[1] < 0.7 * counts[0]


def test_an_equal_program_is_as_good_at_once():
    """Without an exact objective, an equal program needs no round of measurements."""
    space = flags(8)
    rng = np.random.default_rng(0)
    optimizer = Optimizer(space, strategy="random_search")

    def run(trial):
        program = str([trial["f2"], trial["f5"]])
        value = (100.0 - 30 * trial["f2"] - 20 * trial["f5"]) * rng.lognormal(0, 0.001)
        optimizer.observe(trial, value, program=program)
        return trial

    for config in (optimizer.suggest(), dict.fromkeys(space.names, True)):
        run(config)
    origins = [run(trial).origin for trial in optimizer.simplify(200, 15)]
    small = optimizer.recommend()
    assert [name for name in small if small[name]] == ["f2", "f5"]
    assert origins.count("simplification") < 15
    tested = [t for t in optimizer.trials if t.origin == "simplification"]
    rounds = [dict(t) for t in optimizer.trials if t.origin == "comparison"]
    program = optimizer.trials[1].extra["program"]
    equal = [dict(t) for t in tested if t.extra["program"] == program and dict(t) != dict(small)]
    assert equal
    assert not [config for config in equal if config in rounds]


def test_orders_numbers_and_conditional_parameters_return():
    space = Space(
        {
            "order": Permutation(["i", "j", "k"], default=["i", "j", "k"]),
            "unroll": Integer(1, 8, default=2),
            "tiled": Categorical([False, True], default=False),
            "tile": Integer(1, 64, default=8),
            "depth": Integer(1, 4, default=1),
        },
        when={"tile": "tiled", "depth": "not tiled"},
    )
    winner = {"order": ("k", "j", "i"), "unroll": 7, "tiled": True, "tile": 32}

    def measure(config):
        return 50 - 10 * (config["order"][0] == "k") - (config["unroll"] > 2)

    small, _ = simplify(start(space, winner, measure), measure)
    assert dict(small) == {"order": ("k", "j", "i"), "unroll": 7, "tiled": False, "depth": 1}

    def measure(config):
        return 50 - config.get("tile", 0)

    optimizer = start(space, winner, measure)
    small, _ = simplify(optimizer, measure)
    assert dict(small) == {"order": ("i", "j", "k"), "unroll": 2, "tiled": True, "tile": 32}
    assert set(read_confirmation(optimizer.history).plan.simplification.kept) == {"tiled", "tile"}


@pytest.mark.parametrize("at", [1, 4, 9])
def test_an_interrupted_simplification_continues(tmp_path, at):
    space, matters = flags(20), {"f3", "f11", "f17"}

    def measure(config):
        return 100 - sum(config[name] for name in matters)

    winner = dict.fromkeys(space.names, True)
    whole = start(space, winner, measure)
    simplify(whole, measure)
    path = tmp_path / "run.jsonl"
    part = start(space, winner, measure, storage=path)
    for k, trial in enumerate(part.simplify(1000)):
        if k == at:
            break  # it stays pending
        observe(part, trial, measure)
    assert read_confirmation(part.history) is None
    resumed = Optimizer.load(path)
    small, _ = simplify(resumed, measure)
    assert [dict(t) for t in resumed.trials] == [dict(t) for t in whole.trials]
    assert dict(small) == dict(whole.recommend())
    assert simplify(Optimizer.load(path), measure)[1] == [], "it is not repeated"
    view = JournalView(path)
    assert dict(winner_of(view.history)[0]) == dict(small)
    assert view.history.searched == 2


def test_a_budget_ends_the_tests_and_a_larger_one_continues_them():
    space, matters = flags(32), {"f3", "f11", "f17", "f29"}

    def measure(config):
        return 100 - sum(config[name] for name in matters)

    optimizer = start(space, dict.fromkeys(space.names, True), measure)
    _, measured = simplify(optimizer, measure, 6)
    first = read_confirmation(optimizer.history).plan.simplification
    assert (len(measured), first.measurements, first.is_minimal) == (6, 6, False)
    small, measured = simplify(optimizer, measure, 100)
    found = read_confirmation(optimizer.history).plan.simplification
    assert {name for name in small if small[name]} == matters == set(found.kept)
    assert (found.trial, found.is_minimal) == (1, True)
    assert set(found.dropped) == set(space.names) - matters
    assert found.measurements == 6 + len(measured)


@pytest.mark.parametrize("needed", [{}, {"f0": True}])
def test_a_winner_without_needless_changes_is_recommended(needed):
    """Not another configuration with the same exact value, which a model prefers."""
    optimizer = Optimizer(flags(5), SIZE)
    winner = {**optimizer.space.default_config, **needed}

    def measure(config):
        return 100 + 7 * config["f1"] - 5 * (config["f0"] if needed else 0)

    for config in (winner, *optimizer.space.sample(20, seed=1)):
        observe(optimizer, config, measure)
    found, measured = simplify(optimizer, measure)
    assert (dict(found), measured) == (winner, [])


def test_what_cannot_be_simplified_is_an_error():
    with pytest.raises(ValueError, match="needs one objective, one task and a default"):
        Optimizer({"a": [1, 2]}).simplify()
    with pytest.raises(ValueError, match="needs one objective, one task and a default"):
        Optimizer(flags(2), {"a": "minimize", "b": "minimize"}).simplify()
    with pytest.raises(TrialError, match="no trial has succeeded"):
        Optimizer(flags(2)).simplify()

    def measure(config):
        return 3 - config["f0"] - config["f1"]

    optimizer = start(flags(2), {"f0": True, "f1": True}, measure)
    with pytest.raises(ValueError, match=r"evaluations = 1\.5"):
        optimizer.simplify(1.5)
    trials = optimizer.simplify()
    next(trials)
    with pytest.raises(TrialError, match="observe each trial of simplify"):
        next(trials)


@given(
    st.lists(st.sampled_from("abcd"), max_size=8),
    st.sets(st.sampled_from(["a", "b", "ab", "bc"]), min_size=1),
    st.booleans(),
)
def test_no_element_of_a_sequence_can_be_dropped(value, needed, has_flag):
    """An order of elements is good if it has each needed pair in this order; "z" is the default."""
    needed = {pair for pair in needed if is_part(pair, value)}
    space = Space(
        {
            "passes": Sequence(list("abcdz"), 8, default=["z"]),
            "flag": Categorical([False, True], default=False),
        }
    )

    def measure(config):
        return 50 - 10 * sum(is_part(pair, config["passes"]) for pair in needed)

    winner = {"passes": tuple(value), "flag": has_flag}
    if not needed or winner["passes"] == ("z",):
        return
    optimizer = start(space, winner, measure)
    small, _ = simplify(optimizer, measure)
    best = measure(winner)
    assert measure(small) == best
    assert small["flag"] is False
    passes = small["passes"]
    shorter = [passes[:i] + passes[i + 1 :] for i in range(len(passes))]
    assert [other for other in shorter if measure({"passes": other}) <= best] == []
    found = read_confirmation(optimizer.history).plan.simplification
    assert (found.elements, found.is_minimal) == (len(value) - len(passes), True)
    steps = Findings(optimizer.history, optimizer.objective).steps.get("passes", [])
    starts = [passes[:length] for length in range(len(passes) + 1 if passes else 0)]
    expected = [(start[-1] if start else None, measure({"passes": start})) for start in starts]
    assert steps == expected


def is_part(some, elements):
    """Whether elements occur in this order, perhaps with others between them."""
    rest = iter(elements)
    return all(element in rest for element in some)
