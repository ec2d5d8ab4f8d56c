"""Whose turn it is: the rules of Willemsen et al. 2021, section III-G, on hand-made observations."""

import pytest

from baco_like.acquisitions.selectors import AdvancedMulti, Multi, Turns


def test_turns_rotate_and_count_pending_proposals():
    turns = Turns.of()
    assert [turns.next(i) for i in range(4)] == ["ei", "poi", "lcb", "ei"]
    turns = turns.add_cost("ei", 1.0, 0.9)
    assert [turns.next(i) for i in range(3)] == ["poi", "lcb", "ei"]


def test_the_discounted_observation_score_equals_the_sum_in_the_paper():
    turns = Turns.of(["ei"])
    costs = [3.0, 1.0, 2.0]
    for cost in costs:
        turns = turns.add_cost("ei", cost, 0.9)
    t = len(costs)
    score = sum(o * 0.9 ** (t - i) for i, o in enumerate(costs, 1))
    assert turns.records[0].score == pytest.approx(score)
    assert turns.records[0].mean == pytest.approx(score / (1 + 0.9 + 0.81))


def play(selector, costs, same, rounds):
    turns = Turns.of()
    for _ in range(rounds):
        name = turns.next(0)
        turns = selector.update(turns, name, costs[name], same(name))
    return turns


def test_multi_skips_the_worse_of_two_that_agree_too_often():
    costs = {"ei": 1.0, "poi": 2.0, "lcb": 3.0}

    def same(name):
        return ["ei", "poi"] if name in ("ei", "poi") else [name]

    assert play(Multi(), costs, same, 5).names == ("ei", "poi", "lcb")
    assert play(Multi(), costs, same, 9).names == ("ei", "lcb")


def test_multi_keeps_those_that_never_agree():
    assert play(Multi(), {"ei": 1.0, "poi": 2.0, "lcb": 3.0}, lambda n: [n], 60).names == (
        "ei",
        "poi",
        "lcb",
    )


def test_advanced_multi_skips_the_clearly_worse_after_five_rounds():
    costs = {"ei": 1.0, "poi": 1.0, "lcb": 1.3}
    assert play(AdvancedMulti(), costs, lambda n: [n], 14).names == ("ei", "poi", "lcb")
    assert play(AdvancedMulti(), costs, lambda n: [n], 15).names == ("ei", "poi")


def test_advanced_multi_promotes_the_clearly_better():
    costs = {"ei": 1.0, "poi": 0.7, "lcb": 1.0}
    assert play(AdvancedMulti(), costs, lambda n: [n], 15).names == ("poi",)


def test_advanced_multi_leaves_equals_alone_also_below_zero():
    costs = {"ei": -1.0, "poi": -1.05, "lcb": -0.95}
    assert play(AdvancedMulti(), costs, lambda n: [n], 60).names == ("ei", "poi", "lcb")


def test_observations_of_a_dropped_function_change_no_state():
    turns = Turns.of(["ei"])
    assert turns.add_cost("lcb", 5.0, 0.9) == turns
