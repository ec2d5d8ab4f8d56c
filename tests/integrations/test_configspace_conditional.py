"""Conditions of ConfigSpace, read and written, against the real package."""

import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from baco_like import Categorical, Integer, Ordinal, Permutation, Real, Space
from baco_like.exceptions import SpaceError

cs = pytest.importorskip("ConfigSpace")

from baco_like.integrations import (  # noqa: E402
    from_configuration,
    to_configspace,
    to_configuration,
)


def hyperparameters():
    return {
        "c": cs.CategoricalHyperparameter("c", ["x", "y", "z"]),
        "o": cs.OrdinalHyperparameter("o", ["low", "mid", "high"]),
        "n": cs.UniformIntegerHyperparameter("n", 1, 4),
        "d": cs.CategoricalHyperparameter("d", [1, 2]),
        "e": cs.OrdinalHyperparameter("e", [1, 3, 4]),
    }


def values_of(one):
    if hasattr(one, "choices"):
        return list(one.choices)
    return list(one.sequence) if hasattr(one, "sequence") else list(range(one.lower, one.upper + 1))


def feasible_in_configspace(source):
    """Return all configurations that ConfigSpace accepts, by trying every set of values."""
    names = list(source)
    found = set()
    domains = [[None, *values_of(source[name])] for name in names]
    for values in itertools.product(*domains):
        given = {n: v for n, v in zip(names, values, strict=True) if v is not None}
        try:
            cs.Configuration(source, values=given).check_valid_configuration()
        except (cs.exceptions.ForbiddenValueError, ValueError):
            continue
        found.add(frozenset(given.items()))
    return found


def feasible_here(space):
    return {frozenset(config.items()) for config in space}


@st.composite
def conditions(draw, child, parents):
    parent = draw(st.sampled_from(parents))
    kinds = ["EqualsCondition", "NotEqualsCondition", "InCondition"]
    is_ordered = not isinstance(parent, cs.CategoricalHyperparameter)
    kinds += ["LessThanCondition", "GreaterThanCondition"] if is_ordered else []
    kind, values = draw(st.sampled_from(kinds)), values_of(parent)
    if kind == "InCondition":
        chosen = draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True))
        return cs.InCondition(child, parent, chosen)
    inner = values[1:-1] or values if kind[0] in "LG" else values
    return getattr(cs, kind)(child, parent, draw(st.sampled_from(inner)))


@st.composite
def sources(draw):
    every = hyperparameters()
    names = draw(st.permutations(list(every)))[:4]
    source = cs.ConfigurationSpace()
    members = [every[name] for name in names]
    for i, name in enumerate(names[1:], 1):
        parents = [every[other] for other in names[:i]]
        count = draw(st.integers(0, 2))
        parts = [draw(conditions(every[name], parents)) for _ in range(count)]
        if len({part.parent.name for part in parts}) < count:
            parts = parts[:1]
        if len(parts) == 2:
            join = draw(st.sampled_from([cs.AndConjunction, cs.OrConjunction]))
            members.append(join(*parts))
        elif parts:
            members.append(parts[0])
    if draw(st.booleans()):
        first, second = (every[name] for name in names[:2])
        clauses = [
            cs.ForbiddenEqualsClause(each, draw(st.sampled_from(values_of(each)[1:])))
            for each in (first, second)
        ]
        members.append(cs.ForbiddenAndConjunction(*clauses))
    try:
        source.add(*members)
    except (cs.exceptions.ForbiddenValueError, ValueError):  # the default is forbidden
        assume(False)
    return source


@settings(max_examples=40)
@given(sources())
def test_both_packages_accept_the_same_configurations(source):
    space = Space.from_configspace(source)
    expected = feasible_in_configspace(source)
    assert feasible_here(space) == expected
    assert space.feasible_size == len(expected)
    back = to_configspace(space, seed=1)
    assert feasible_in_configspace(back) == expected
    again = Space.from_configspace(back)
    assert feasible_here(again) == expected
    for drawn in back.sample_configuration(5):
        assert space.contains(from_configuration(dict(drawn), space))


def test_the_conditions_of_numbers_of_many_values():
    space = Space(
        {
            "x": Real(0.0, 1.0, default=0.2),
            "wide": Integer(0, 10**7),
            "p": Permutation(["i", "j"]),
            "a": Ordinal([1, 2]),
            "b": Categorical(["u", "v"]),
            "z": [1, 2],
        },
        when={
            "a": "x >= 0.5",
            "b": "100 < wide <= 200000",
            "wide": "x < 0.75",
            "z": "pos(p, 'j') == 0 and a == 2",
        },
    )
    target = to_configspace(space, seed=0)
    again = Space.from_configspace(target)
    for config in [
        *space.sample(200, seed=3),
        {"x": 0.5, "wide": 200000, "p": ("i", "j"), "a": 1, "b": "u"},
    ]:
        there = to_configuration(config, space, target)
        found = from_configuration(dict(there), space)
        assert {**found, "x": round(found["x"], 9)} == {**config, "x": round(config["x"], 9)}
    for drawn in target.sample_configuration(100):
        assert space.contains(from_configuration(dict(drawn), space))
    assert set(again.conditions.expressions) == set(space.conditions.expressions)


def test_a_condition_over_two_numbers_lists_alternatives():
    def space(n):
        return Space({"x": Integer(1, n), "y": Integer(1, n), "z": [1, 2]}, when={"z": "x > y"})

    target = to_configspace(
        space(20)
    )  # with one alternative for each pair it did not end in minutes
    assert len(target.conditions[0].components) == 19
    assert feasible_here(Space.from_configspace(target)) == feasible_here(space(20))
    with pytest.raises(SpaceError, match=r"'x > y' of 'z' is true for 1225 .* in 49 alternatives"):
        to_configspace(space(50))


def test_a_condition_may_repeat_a_comparison():
    texts = {
        "o": "c != 'z'",
        "n": "c == 'z' or o > 1 or c == 'z'",
        "d": "o > 1 or c == 'x' or c == 'z'",
    }
    space = Space({"c": ["x", "y", "z"], "o": [1, 2], "n": [1, 2], "d": [1, 2]}, when=texts)
    assert feasible_in_configspace(to_configspace(space)) == feasible_here(space)


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ({"a": "x > y"}, "cannot be expressed in ConfigSpace"),
        ({"a": "not x > 0.5"}, "cannot be expressed in ConfigSpace"),
        ({"a": "b > 7"}, "true for 0 combinations"),
    ],
)
def test_other_conditions_are_refused(when, message):
    space = Space({"x": Real(0.0, 1.0), "y": Real(0.0, 1.0), "a": [1, 2], "b": [1, 2]})
    space = space.with_conditions(when)
    with pytest.raises(SpaceError, match=message):
        to_configspace(space)
