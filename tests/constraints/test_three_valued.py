"""Conditions that read inactive parameters, against a small interpreter of three-valued logic."""

import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import Space
from baco_like.constraints.expression import Expression
from baco_like.shipping.conditions import bind_absence

DOMAINS = {"c": [1, 2], "d": [1, 2, 3], "p": [1, 2], "r": [1, 2], "q": [1, 2]}
WHEN = {"p": "c == 1", "r": "p == 2"}
PARAMETERS = Space(DOMAINS).parameters


def compare(names, holds):
    """Return a comparison as a function of a configuration: None for unknown."""
    return lambda config: holds(*(config[n] for n in names)) if {*names} <= {*config} else None


def every(parts):
    return lambda config: (
        False
        if any(part(config) is False for part in parts)
        else None
        if any(part(config) is None for part in parts)
        else True
    )


def negate(part):
    return lambda config: None if part(config) is None else not part(config)


def some(parts):
    return negate(every([negate(part) for part in parts]))


def choose(test, body, otherwise):
    """Strong Kleene: with an unknown test both results must agree."""

    def holds(config):
        results = {body(config), otherwise(config)}
        if test(config) is not None:
            return (body if test(config) else otherwise)(config)
        return results.pop() if len(results) == 1 else None

    return holds


NAMES = st.sampled_from("cdpr")
LEAVES = st.one_of(
    st.builds(
        lambda n, x: (f"{n} == {x}", compare([n], lambda v: v == x)), NAMES, st.integers(1, 2)
    ),
    st.builds(lambda n: (f"{n} in [1, 3]", compare([n], lambda v: v in (1, 3))), NAMES),
    st.builds(lambda a, b: (f"{a} < {b}", compare([a, b], lambda v, w: v < w)), NAMES, NAMES),
    st.builds(
        lambda a, b: (
            f"1 < {a} <= {b}",
            every([compare([a], lambda v: v > 1), compare([a, b], lambda v, w: v <= w)]),
        ),
        NAMES,
        NAMES,
    ),
    st.just(("1", lambda config: True)),
)


def _joined(a, b, signed):
    sign, join = signed
    return f"(not ({a[0]})) {sign} (not ({b[0]}))", join([negate(a[1]), negate(b[1])])


CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a: (f"not ({a[0]})", negate(a[1])), inner),
        st.builds(lambda a, b: (f"({a[0]}) and ({b[0]})", every([a[1], b[1]])), inner, inner),
        st.builds(lambda a, b: (f"({a[0]}) or ({b[0]})", some([a[1], b[1]])), inner, inner),
        st.builds(_joined, inner, inner, st.sampled_from([("&", every), ("|", some)])),
        st.builds(
            lambda a, t, b: (f"({a[0]}) if ({t[0]}) else ({b[0]})", choose(t[1], a[1], b[1])),
            inner,
            inner,
            inner,
        ),
    ),
    max_leaves=6,
).filter(lambda condition: Expression(condition[0], PARAMETERS).parameters)


def expected(holds):
    found = set()
    for values in itertools.product(*DOMAINS.values()):
        config = dict(zip(DOMAINS, values, strict=True))
        if config["c"] != 1:
            del config["p"]
        if config.get("p") != 2:
            del config["r"]
        if holds(config) is not True:
            del config["q"]
        found.add(frozenset(config.items()))
    return found


def space_of(text):
    """Return the space; a condition that is never true is an error in a text, so it is read here."""
    return Space(DOMAINS, when={**WHEN, "q": Expression(text, PARAMETERS)})


@given(CONDITIONS)
def test_a_condition_holds_where_it_is_true_and_not_where_it_is_unknown(condition):
    text, holds = condition
    found = expected(holds)
    space = space_of(text)
    assert space.feasible_size == len(found)
    assert {frozenset(config.items()) for config in space} == found
    assert {frozenset(c.items()) for c in pickle.loads(pickle.dumps(space))} == found
    for config in map(dict, found):
        absent = DOMAINS.keys() - config
        lacks = bind_absence("q", Expression(text, PARAMETERS), config, PARAMETERS, absent)
        assert lacks.holds({}) == ("q" not in config)


@settings(max_examples=15)
@given(CONDITIONS)
def test_configspace_has_the_same_configurations(condition):
    pytest.importorskip("ConfigSpace")
    from baco_like.integrations import to_configspace

    found = expected(condition[1])
    if any("q" in dict(config) for config in found):
        again = Space.from_configspace(to_configspace(space_of(condition[0])))
        assert {frozenset(config.items()) for config in again} == found


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("c != 1 or p != 1", 5),
        ("not (c == 1 and p == 1)", 5),
        ("not not (c == 2 or p == 1)", 5),
        ("1 if c == 2 else p == 1", 5),
        ("not p == 1", 4),
        ("c / (c - 2) > 0 or p == 1", 4),  # undefined where c == 2
        ("not (c == 2 and p / (c - 2) > 0)", 5),  # p is inactive where c == 2
    ],
)
def test_conditions_of_the_same_meaning_hold_at_the_same_places(text, size):
    domains = {name: DOMAINS[name] for name in "cpq"}
    assert Space(domains, when={"p": "c == 1", "q": text}).feasible_size == size
