"""Spaces to ConfigSpace and back, by the real package."""

import importlib
import itertools
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from baco_like import Categorical, Gaussian, Integer, Optimizer, Ordinal, Permutation, Real, Space
from baco_like.exceptions import MissingExtra, SpaceError

cs = pytest.importorskip("ConfigSpace")
from baco_like.integrations import (  # noqa: E402
    from_configuration,
    to_configspace,
    to_configuration,
)

SPACE = Space(
    {
        "tile": Ordinal([1, 2, 4, 8, 16], log=True, default=4),
        "n": Integer(1, 32, log=True, default=3),
        "eps": Real(1e-6, 1e-1, log=True, default=1e-3),
        "flag": Categorical(["-O2", "-O3"], default="-O2", prior=[1, 3]),
        "p": Permutation(["i", "j", "k"], default=["i", "j", "k"]),
        "size": Ordinal(["small", "medium", "large"], default="small"),
        "one": Integer(5, 5),
    },
    constraints=["tile * n <= 64", "pos(p, 'i') < pos(p, 'k')", "tile <= n or flag == '-O3'"],
)


def listed(space):
    return {tuple(config.values()) for config in space}


def grid(parameters, allowed):
    """Return the combinations of values of finite hyperparameters that a function allows."""
    names = [one.name for one in parameters]
    domains = [values_of(one) for one in parameters]
    rows = itertools.product(*domains)
    return {row for row in rows if allowed(dict(zip(names, row, strict=True)))}


def values_of(one):
    if isinstance(one, cs.Constant):
        return [one.value]
    for name in ("choices", "sequence"):
        if hasattr(one, name):
            return list(getattr(one, name))
    return list(range(one.lower, one.upper + 1))


# From ConfigSpace.


def test_every_parameter_type_is_converted():
    source = cs.ConfigurationSpace(seed=1)
    source.add(
        cs.UniformFloatHyperparameter("f", 1e-3, 1.0, 0.1, log=True),
        cs.UniformIntegerHyperparameter("i", 1, 9, 4),
        cs.OrdinalHyperparameter("o", ["s", "m", "l"], "m"),
        cs.OrdinalHyperparameter("q", [1, 2, 8]),
        cs.CategoricalHyperparameter("c", ["x", "y"], "y", weights=[1, 3]),
        cs.CategoricalHyperparameter("b", [True, False]),
        cs.Constant("k", "fixed"),
        cs.NormalFloatHyperparameter("g", mu=1, sigma=2, lower=0, upper=3),
    )
    space = Space.from_configspace(source)
    assert space.parameters == {
        "b": Categorical([True, False], default=True),
        "c": Categorical(["x", "y"], default="y", prior=[1, 3]),
        "f": Real(1e-3, 1.0, log=True, default=0.1),
        "g": Real(0, 3, default=1, prior=Gaussian(1, 2)),
        "i": Integer(1, 9, default=4),
        "k": Categorical(["fixed"]),
        "o": Ordinal(["s", "m", "l"], default="m"),
        "q": Ordinal([1, 2, 8], default=1),
    }
    assert space.notes == ()
    assert all(space.contains(dict(source.sample_configuration())) for _ in range(20))


def test_choices_with_weight_zero_are_left_out():
    source = cs.ConfigurationSpace()
    source.add(cs.CategoricalHyperparameter("c", ["a", "b", "z"], weights=[1, 3, 0]))
    space = Space.from_configspace(source)
    assert space.parameters["c"] == Categorical(["a", "b"], default="b", prior=[1, 3])
    assert space.notes == ("parameter 'c': choices of weight 0 were left out: ['z']",)


def test_clauses_may_use_names_that_are_not_identifiers():
    source = cs.ConfigurationSpace()
    depth = cs.UniformIntegerHyperparameter("model:depth", 1, 4, 1)
    width = cs.UniformIntegerHyperparameter("model:width", 1, 4, 2)
    source.add(depth, width)
    source.add(cs.ForbiddenGreaterThanRelation(depth, width))
    space = Space.from_configspace(source)
    assert {(c["model:depth"], c["model:width"]) for c in space} == {
        (d, w) for d in range(1, 5) for w in range(d, 5)
    }


def test_unsupported_distributions_are_noted():
    source = cs.ConfigurationSpace()
    source.add(
        cs.BetaFloatHyperparameter("a", alpha=2, beta=3, lower=0, upper=1),
        cs.BetaIntegerHyperparameter("b", alpha=2, beta=3, lower=0, upper=9),
    )
    space = Space.from_configspace(source)
    assert [type(one) for one in space.parameters.values()] == [Real, Integer]
    assert [note[:13] for note in space.notes] == ["parameter 'a'", "parameter 'b'"]


A = cs.UniformIntegerHyperparameter("a", 1, 4, 2)
B = cs.OrdinalHyperparameter("b", [1, 2, 4], 1)
C = cs.CategoricalHyperparameter("c", ["x", "y"], "y")
S = cs.OrdinalHyperparameter("s", ["low", "mid", "high"], "mid")
CLAUSES = [
    cs.ForbiddenEqualsClause(A, 3),
    cs.ForbiddenInClause(C, ["x"]),
    cs.ForbiddenInClause(A, [1, 4]),
    cs.ForbiddenLessThanClause(S, "mid"),
    cs.ForbiddenLessThanEqualsClause(B, 2),
    cs.ForbiddenGreaterThanClause(S, "mid"),
    cs.ForbiddenGreaterThanEqualsClause(A, 4),
    cs.ForbiddenLessThanRelation(A, B),
    cs.ForbiddenLessThanEqualsRelation(B, A),
    cs.ForbiddenGreaterThanRelation(A, B),
    cs.ForbiddenGreaterThanEqualsRelation(B, A),
    cs.ForbiddenEqualsRelation(A, B),
]


def legal_default(clauses):
    """Return values, one for each hyperparameter, that no clause forbids, or None."""
    free = grid([A, B, C, S], lambda v: not any(one.is_forbidden_value(v) for one in clauses))
    return min(free, key=str, default=None)


@given(st.data())
def test_forbidden_configurations_are_infeasible(data):
    parts = st.lists(st.sampled_from(CLAUSES), min_size=2, max_size=2, unique_by=repr)
    joined = st.one_of(
        parts.map(lambda two: cs.ForbiddenAndConjunction(*two)),
        parts.map(lambda two: cs.ForbiddenOrConjunction(*two)),
    )
    one = data.draw(st.one_of(st.sampled_from(CLAUSES), joined))
    default = legal_default([one])
    if default is None:
        return
    source = cs.ConfigurationSpace()
    fresh = [
        cs.UniformIntegerHyperparameter("a", 1, 4, default[0]),
        cs.OrdinalHyperparameter("b", [1, 2, 4], default[1]),
        cs.CategoricalHyperparameter("c", ["x", "y"], default[2]),
        cs.OrdinalHyperparameter("s", ["low", "mid", "high"], default[3]),
    ]
    source.add(*fresh)
    source.add(one)
    space = Space.from_configspace(source)
    allowed = grid([A, B, C, S], lambda values: not one.is_forbidden_value(values))
    assert listed(space) == allowed


def test_clauses_on_descending_numbers_keep_their_meaning():
    falling = cs.OrdinalHyperparameter("d", [8, 4, 1], 8)
    source = cs.ConfigurationSpace()
    source.add(falling, cs.ForbiddenGreaterThanClause(falling, 4))
    assert listed(Space.from_configspace(source)) == {(8,), (4,)}


def test_unsupported_spaces_are_rejected():
    with pytest.raises(SpaceError, match="from_json"):
        Space.from_configspace({"a": 1})
    mixed = cs.ConfigurationSpace()
    mixed.add(cs.OrdinalHyperparameter("o", [1, 8, 2]))
    with pytest.raises(SpaceError, match=r"'o': its numbers .* not sorted"):
        Space.from_configspace(mixed)


# To ConfigSpace.


def test_a_space_survives_the_round_trip():
    target = to_configspace(SPACE, seed=1)
    assert target.get_default_configuration()["p"] == "i,j,k"
    assert type(target["one"]) is cs.Constant
    assert (target["eps"].log, target["flag"].weights) == (True, (1.0, 3.0))
    for _ in range(50):
        config = from_configuration(target.sample_configuration(), SPACE)
        assert SPACE.contains(config)
        assert type(config["tile"]) is int
    for config in SPACE.sample(50, seed=2):
        there = to_configuration(config, SPACE, target)
        back = from_configuration(there, SPACE)
        assert back.pop("eps") == pytest.approx(config.pop("eps"))
        assert back == config


def test_numbers_come_back_with_their_types():
    space = Space({"a": Ordinal([0.5, 2, 4]), "b": Integer(1, 9), "c": Categorical([1, 2.5])})
    for drawn in to_configspace(space, seed=0).sample_configuration(40):
        found = from_configuration(drawn, space)
        (own,) = space.decode(space.encode([found]))
        assert list(map(type, found.values())) == list(map(type, own.values()))


@pytest.mark.parametrize(
    "constraint",
    [
        "a <= b",
        "a < b",
        "a >= b",
        "a > b",
        "a != b",
        "a * b % 3 != 1",
        "c == 'x' or a > 2",
        "a > 1",
        "a <= b and c != 'y'",
        "c != 'x'",
        "a + b <= 6",
    ],
)
def test_both_spaces_allow_the_same_configurations(constraint):
    space = Space({"a": Integer(1, 4), "b": [1, 2, 4], "c": ["x", "y"]}, constraints=[constraint])
    target = to_configspace(space)
    clauses = target.forbidden_clauses
    allowed = grid(
        [target[name] for name in space.names],
        lambda values: not any(one.is_forbidden_value(values) for one in clauses),
    )
    assert allowed == listed(space)
    assert listed(Space.from_configspace(target)) == listed(space)


def test_an_infeasible_default_is_replaced():
    space = Space({"a": Integer(1, 4, default=4), "b": Integer(1, 4, default=1)}, ["a <= b"])
    assert space.contains(dict(to_configspace(space).get_default_configuration()))


def test_comparisons_of_reals_are_converted_and_arithmetic_is_rejected():
    reals = {"x": Real(0, 1), "y": Real(0, 1)}
    (clause,) = to_configspace(Space(reals, ["x <= y"])).forbidden_clauses
    assert clause == cs.ForbiddenGreaterThanRelation(clause.left, clause.right)
    with pytest.raises(SpaceError, match=r"'x \+ y <= 1' cannot be expressed"):
        to_configspace(Space(reals, ["x + y <= 1"]))
    large = {"a": Integer(1, 200), "b": Integer(1, 200)}
    with pytest.raises(SpaceError, match="20000 combinations violate"):
        to_configspace(Space(large, ["(a + b) % 2 == 0"]))


def test_priors_and_long_permutations_are_rejected():
    with pytest.raises(SpaceError, match="'x': ConfigSpace supports priors"):
        to_configspace(Space({"x": Real(0, 1, prior=Gaussian(0.5, 0.1))}))
    with pytest.raises(SpaceError, match="at most 7 elements"):
        to_configspace(Space({"p": Permutation(range(8))}))


def test_an_imported_space_is_optimized():
    source = cs.ConfigurationSpace({"a": (1, 8), "b": (0.0, 1.0)})
    optimizer = Optimizer(Space.from_configspace(source), strategy="random_search")
    assert set(optimizer.suggest()) == {"a", "b"}


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ConfigSpace", None)
    monkeypatch.delitem(sys.modules, "baco_like.integrations.configspace")
    with pytest.raises(MissingExtra, match=r"baco-like\[configspace\]"):
        importlib.import_module("baco_like.integrations.configspace")
    with pytest.raises(MissingExtra, match=r"baco-like\[configspace\]"):
        Space.from_configspace(object())


# ---- Conditions of ConfigSpace, read and written, against the real package ----


def hyperparameters():
    return {
        "c": cs.CategoricalHyperparameter("c", ["x", "y", "z"]),
        "o": cs.OrdinalHyperparameter("o", ["low", "mid", "high"]),
        "n": cs.UniformIntegerHyperparameter("n", 1, 4),
        "d": cs.CategoricalHyperparameter("d", [1, 2]),
        "e": cs.OrdinalHyperparameter("e", [1, 3, 4]),
    }


def listed_values(one):
    if hasattr(one, "choices"):
        return list(one.choices)
    return list(one.sequence) if hasattr(one, "sequence") else list(range(one.lower, one.upper + 1))


def feasible_in_configspace(source):
    """Return all configurations that ConfigSpace accepts, by trying every set of values."""
    names = list(source)
    found = set()
    domains = [[None, *listed_values(source[name])] for name in names]
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
    kind, values = draw(st.sampled_from(kinds)), listed_values(parent)
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
            cs.ForbiddenEqualsClause(each, draw(st.sampled_from(listed_values(each)[1:])))
            for each in (first, second)
        ]
        members.append(cs.ForbiddenAndConjunction(*clauses))
    try:
        source.add(*members)
    except (cs.exceptions.ForbiddenValueError, ValueError):  # the default is forbidden
        assume(False)
    return source


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
