"""Conditional parameters: random spaces against enumeration in plain Python, and every part that must know them."""

from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from baco_like import (
    BacoWarning,
    Categorical,
    Integer,
    Optimizer,
    Ordinal,
    Permutation,
    Real,
    Space,
    SpaceError,
)
from baco_like.constraints.expression import Expression
from baco_like.exceptions import ConfigError, ExpressionError
from baco_like.journal import MemoryJournal
from baco_like.results import read, write
from baco_like.spaces.neighbourhoods import (
    adjacent,
    hamming,
    jointly_adjacent,
    nearest,
    strictly_adjacent,
)

RNG = np.random.default_rng

# Conditions on up to two parameters, as text and as a function of a configuration; names that it lacks are inactive.
CONDITIONS = [
    ("{0} == {x}", lambda c, a, b, x: a in c and c[a] == x),
    ("{0} != {x}", lambda c, a, b, x: a in c and c[a] != x),
    ("{0} in [1, {x}]", lambda c, a, b, x: a in c and c[a] in (1, x)),
    ("not {0} > {x}", lambda c, a, b, x: a in c and not c[a] > x),
    ("{0} == {x} or {1} == 2", lambda c, a, b, x: c.get(a) == x or c.get(b) == 2),
    ("{0} != {x} and {1} != 2", lambda c, a, b, x: {a, b} <= set(c) and c[a] != x and c[b] != 2),
    ("{0} < {1}", lambda c, a, b, x: {a, b} <= set(c) and c[a] < c[b]),
]
CONSTRAINTS = [
    ("{0} + {1} <= 5", lambda a, b: a + b <= 5),
    ("{0} * {1} != 4", lambda a, b: a * b != 4),
    ("{0} <= {1} and {0} < 4", lambda a, b: a <= b and a < 4),
]
VALUES = {"a": [1, 2, 3], "b": [1, 2, 3, 4], "c": [1, 2], "d": [2, 3], "e": [1, 3, 4], "one": [2]}


@dataclass(frozen=True)
class Case:
    """A space with its configurations by brute force."""

    space: Space
    configs: list[dict]
    given: tuple


@st.composite
def cases(draw) -> Case:
    names = draw(st.permutations(sorted(VALUES)))[: draw(st.integers(2, 5))]
    parameters = {n: draw(st.sampled_from([Ordinal, Categorical]))(VALUES[n]) for n in names}
    when, rules = {}, {}
    for i, name in enumerate(names[1:], 1):
        if draw(st.integers(0, 3)):
            text, holds = draw(st.sampled_from(CONDITIONS))
            above = draw(st.lists(st.sampled_from(names[:i]), min_size=2, max_size=2))
            x = draw(st.integers(1, 4))
            when[name] = text.format(*above, x=x)
            rules[name] = (holds, *above, x)
    chosen = draw(st.lists(st.sampled_from(CONSTRAINTS), max_size=2))
    read = [draw(st.permutations(names))[:2] for _ in chosen]
    texts = [text.format(*pair) for (text, _), pair in zip(chosen, read, strict=True)]
    if draw(st.booleans()):
        parameters["p"] = Permutation(["i", "j", "k"])
        when["p"] = f"{names[0]} > 1"
        rules["p"] = (CONDITIONS[3][1] and (lambda c, a, b, x: c[a] > 1), names[0], names[0], 0)
    found = {}
    domains = [
        [*itertools.permutations(p.elements)] if name == "p" else p.values
        for name, p in parameters.items()
    ]
    for values in itertools.product(*domains):
        config = {}
        for name, value in zip(parameters, values, strict=True):
            if name not in rules or rules[name][0](config, *rules[name][1:]):
                config[name] = value
        fits = all(
            not set(pair) <= set(config) or holds(*(config[n] for n in pair))
            for (_, holds), pair in zip(chosen, read, strict=True)
        )
        if fits:
            found[tuple(config.items())] = config
    assume(found)
    order = draw(st.permutations(list(parameters)))  # conditions may read parameters that follow
    with np.errstate(all="ignore"):
        given = {n: parameters[n] for n in order}, texts, when
        return Case(_space(*given), [*found.values()], given)


def _space(parameters, texts, when):
    """Return the space; conditions that are never true are refused in texts, so they are read here."""
    return Space(
        parameters, texts, when={n: Expression(text, parameters) for n, text in when.items()}
    )


def _key(config):
    return frozenset(config.items())


@given(cases())
def test_the_space_is_what_enumeration_finds(case):
    space = case.space
    rows = space.feasible.listed
    configs = space.decode(rows)
    assert space.feasible_size == len(case.configs)
    assert {*map(_key, configs)} == {*map(_key, case.configs)}
    assert np.array_equal(space.encode(configs), rows)
    assert np.array_equal(space.feasible.ranks(rows), np.arange(len(rows)))
    assert space.satisfied(rows).all()
    assert space.feasible.contains(rows).all()
    assert Space.from_dict(json.loads(json.dumps(space.to_dict()))) == space
    again = pickle.loads(pickle.dumps(space))
    assert np.array_equal(again.feasible.listed, rows)
    anything = np.stack([RNG(0).integers(0, 3, 40) for _ in range(space.width)], axis=1) * 1.0
    legal = space.activity.at_rest(
        np.concatenate([p.sample(40, RNG(1)) for p in space.parameters.values()], axis=1)
    )
    assert np.array_equal(space.satisfied(legal), space.feasible.contains(legal))
    assert space.feasible.contains(nearest(space, anything, RNG(2))).all()


@given(cases())
def test_a_condition_that_never_holds_is_refused(case):
    parameters, texts, when = case.given
    active = {name for config in case.configs for name in config}
    try:
        Space(parameters, texts, when=when)
    except SpaceError as error:
        (name,) = (n for n in when if f"of {n!r} holds in no configuration" in str(error))
        assert name not in active
    else:
        assert texts or active == set(parameters)


@settings(max_examples=15)
@given(cases())
def test_draws_are_uniform(case):
    size = len(case.configs)
    assume(size <= 60)
    draws = case.space.feasible.index(case.space.feasible.sample(200 * size, RNG(5)))
    counts = np.array([Counter(draws)[i] for i in range(size)])
    # Each count is binomial with mean 200; the largest of 60 deviates by more than 6 sigma in one of 10^7 cases.
    assert (np.abs(counts - 200) < 6 * np.sqrt(200)).all()


@given(cases())
def test_neighbours_change_one_parameter_and_those_that_it_switches(case):
    space, rows = case.space, case.space.feasible.listed
    configs = space.decode(rows)
    found, owner = hamming(space, rows, RNG(0))
    assert space.feasible.contains(found).all()
    pairs = {(o, _key(c)) for o, c in zip(owner.tolist(), space.decode(found), strict=True)}
    assert len(pairs) == len(found)
    for i, new in pairs:
        old, new = configs[i], dict(new)
        both = [name for name in old if name in new]
        assert new != old
        assert sum(old[name] != new[name] for name in both) == 1
    # A change that switches nothing is never missed.
    for i, j in itertools.product(range(min(30, len(rows))), repeat=2):
        old, new = configs[i], configs[j]
        if set(old) == set(new) and sum(old[n] != new[n] for n in old) == 1:
            swaps = [n for n in old if n == "p" and old[n] != new[n]]
            distance = sum(a != b for a, b in zip(old["p"], new["p"], strict=True)) if swaps else 0
            assert distance > 2 or (i, _key(new)) in pairs
    for neighbours in (adjacent, strictly_adjacent, jointly_adjacent):
        near, whose = neighbours(space, rows[:20], RNG(0))
        assert space.feasible.contains(near).all()
        assert (near != rows[:20][whose]).any(axis=1).all()


@settings(max_examples=12)
@given(cases(), st.sampled_from(["auto", "genetic_algorithm", "random_forest"]))
def test_a_resumed_run_continues_without_duplicates(case, strategy):
    space = case.space
    steps = min(len(case.configs), 9)

    def cost(config):
        return float(sum(v for v in config.values() if isinstance(v, int)) + len(config))

    journal = MemoryJournal()
    optimizer = Optimizer(space, seed=3, strategy=strategy, storage=journal, budget=12)
    for _ in range(steps - 1):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial.config))
    events = json.loads(json.dumps(journal.events))
    resumed = Optimizer(space, seed=3, strategy=strategy, storage=MemoryJournal(events), budget=12)
    assert resumed.suggest() == optimizer.suggest()
    configs = [_key(trial.config) for trial in [*optimizer.trials, *optimizer.pending]]
    assert len(set(configs)) == steps
    assert set(configs) <= {*map(_key, case.configs)}


def tiled_space() -> Space:
    return Space(
        {
            "schedule": Categorical(["plain", "tiled", "fused"], default="plain"),
            "unroll": Ordinal([1, 2, 4, 8], default=2),
            "x": Real(0.0, 1.0, default=0.5),
            "wide": Integer(0, 2**40),
            "order": Permutation(["i", "j", "k"]),
        },
        constraints=["unroll * x < 7.5"],
        when={
            "unroll": "schedule == 'tiled'",
            "x": "schedule == 'fused' or unroll > 2",
            "wide": "x > 0.5",
            "order": "schedule != 'plain'",
        },
    )


def test_reals_and_wide_integers_may_be_conditional():
    space = tiled_space()
    configs = space.sample(300, seed=1)
    assert space.feasible_size == float("inf")
    kinds = Counter(tuple(config) for config in configs)
    assert ("schedule",) in kinds
    for config in configs:
        assert ("x" in config) == (config["schedule"] == "fused" or config.get("unroll", 0) > 2)
        assert ("wide" in config) == (config.get("x", 0.0) > 0.5)
        assert config.get("unroll", 0) * config.get("x", 0.0) < 7.5
        assert space.contains(config)
    assert space.default_config == {"schedule": "plain"}
    near, _ = adjacent(space, space.encode(configs[:20]), RNG(0))
    assert space.feasible.contains(near).all()


def test_an_inactive_parameter_may_have_any_value():
    space = tiled_space()
    order = ("i", "j", "k")
    given = [
        {"schedule": "plain", "unroll": 0, "x": -1, "wide": "none", "order": 7},
        {"schedule": "tiled", "unroll": 2, "x": 99, "wide": -1, "order": order},
    ]
    kept = [{"schedule": "plain"}, {"schedule": "tiled", "unroll": 2, "order": order}]
    assert space.decode(space.encode(given)) == kept
    assert all(map(space.contains, given))
    assert [space.explain(config) for config in given] == [[], []]
    wrong = {"schedule": "tiled", "unroll": 3, "order": order}
    with pytest.raises(ConfigError, match=r"'unroll'.*3 is not one of"):
        space.encode([*given, wrong])
    (reason,) = space.explain(wrong)
    assert "3 is not one of" in reason


def test_a_missing_active_parameter_is_named_with_its_condition():
    space = tiled_space()
    config = {"schedule": "tiled", "order": ("i", "j", "k")}
    message = "lacks 'unroll', which is active when schedule == 'tiled', and schedule = 'tiled'"
    with pytest.raises(ConfigError, match=message):
        space.encode([config])
    assert not space.contains(config)
    (reason,) = space.explain(config)
    assert message in reason


@pytest.mark.parametrize(
    ("when", "error", "message"),
    [
        ({"a": "b > 1", "b": "c > 1", "c": "a > 1"}, SpaceError, "a -> b -> c -> a"),
        ({"a": "a > 1"}, SpaceError, "a -> a"),
        ({"z": "a > 1"}, SpaceError, "'z' is not a parameter"),
        ({"a": "z > 1"}, ExpressionError, "condition of 'a'"),
        ({"a": "1 < 2"}, SpaceError, "reads no parameter"),
        ({"a": 3}, SpaceError, "must be an expression"),
        (
            {"a": "b"},
            SpaceError,
            r"'b' alone is true for all of its values \[1, 2\]; compare it, as",
        ),
        ({"a": "b == 1 or not c"}, SpaceError, "'c' alone is true"),
        ({"a": "b > 2"}, SpaceError, "'b > 2' of 'a' holds in no configuration"),
        (["a"], SpaceError, "expected the condition of each"),
    ],
)
def test_wrong_conditions_are_named(when, error, message):
    with pytest.raises(error, match=message):
        Space({"a": [1, 2], "b": [1, 2], "c": [1, 2]}, when=when)


def test_the_features_compare_active_values_only():
    space = Space(
        {"s": ["u", "v"], "n": Ordinal([1, 2, 3, 4]), "c": Categorical(["p", "q", "r"])},
        when={"n": "s == 'v'", "c": "s == 'v'"},
    )
    for featured in (space, space.derived_features):
        rows = space.encode(
            [{"s": "u"}, *({"s": "v", "n": n, "c": c} for n in (1, 2, 4) for c in ("p", "r"))]
        )
        features = featured.features(rows)
        for name in ("n", "c"):
            at = np.isin(featured.feature_owner, [featured.active.index(name)])
            part = features[:, at]
            assert (part[0] == 0).all()
            # Every value is as far from the inactive state; in the derived features, as in random configurations.
            far = np.linalg.norm(part[1:], axis=1)
            assert np.allclose(far, np.sqrt(0.5), atol=1e-9 if featured is space else 0.05)
            # The explicit mark of a missing value: one column is above 0 exactly for active values.
            assert ((part[1:] > 0.05).all(axis=0) & (part[0] == 0)).any()


def test_files_of_results_lack_inactive_parameters(tmp_path):
    space = Space(
        {
            "s": ["u", "v"], "n": [1, 2, 3], "t": ["", "x"], "o": Permutation(["i", "j"]),
            "x": Real(0.0, 1.0), "wide": [1, 2**70],
        },
        when={"n": "s == 'v'", "t": "n > 1", "o": "s == 'u'", "x": "s == 'u'", "wide": "s == 'v'"},
    )  # fmt: skip
    optimizer = Optimizer(space, strategy="random_search", storage=tmp_path / "run.jsonl")
    for trial in optimizer.suggest(30):
        optimizer.observe(trial, float(len(trial.config)))
    configs = [dict(trial.config) for trial in optimizer.trials]
    recorded = read(tmp_path / "run.jsonl")
    assert recorded.configs == configs
    for kind in ("t4", "csv", "ktt", "kernel_tuner"):
        write(recorded, tmp_path / kind, kind)
        assert read(tmp_path / kind).configs == configs
    assert repr(read(tmp_path / "csv").configs) == repr(configs)  # whole numbers stay whole
    assert read(tmp_path / "t4").space() == space
    pytest.importorskip("pandas")
    table = optimizer.to_dataframe()
    assert [*table.columns[1:5]] == ["s", "n", "t", "o"]
    assert table["n"].isna().tolist() == ["n" not in config for config in configs]
    assert str(table["n"].dtype) == "Int64"
    table.to_csv(tmp_path / "frame", index=False)
    files = [tmp_path / name for name in ("frame", "csv", "t4", "run.jsonl")]
    for source in (table, *files, optimizer):
        warm = Optimizer(space, warm_start=source)
        assert [dict(trial.config) for trial in warm.trials] == configs
    assert all(map(read(tmp_path / "frame").contains, configs))


def test_the_csv_of_baco_has_empty_cells_and_time_stamps(tmp_path):
    space = Space(
        {"s": ["u", "v"], "n": Integer(1, 3), "c": ["p", "q"], "o": Permutation(["i", "j"])},
        when={"n": "s == 'v'", "c": "n > 1", "o": "s == 'u'"},
    )
    optimizer = Optimizer(space, strategy="exhaustive")
    for trial in optimizer.suggest(space.feasible_size):
        optimizer.observe(trial, float(len(trial.config)))
    optimizer.observe({"s": "w"}, 1.0, imported=True)
    with pytest.warns(BacoWarning, match="1 of 8 results are not in baco.csv"):
        optimizer.export("baco", tmp_path / "baco.csv")
    assert ",v,,," not in (tmp_path / "baco.csv").read_text()
    found = read(tmp_path / "baco.csv")
    assert found.configs == [dict(trial.config) for trial in optimizer.trials[:-1]]
    stamps = [int(outcome.extra["timestamp"]) for outcome in found.outcomes]
    assert stamps == sorted(stamps)
    assert 0 <= stamps[0] < 60_000
    write(found, tmp_path / "again.csv", "baco")
    assert read(tmp_path / "again.csv").configs == found.configs


def test_the_default_strategy_enters_every_branch_before_its_model():
    large = [2**i for i in range(12)]
    space = Space(
        {"kind": ["rare", "common", "other"], "x": large, "y": large, "deep": [True, False]},
        when={"x": "kind == 'common'", "y": "kind == 'common'", "deep": "kind != 'common'"},
    )
    optimizer = Optimizer(space, seed=2)
    # 2, 144 and 2 configurations: uniform draws would enter one branch.
    first = optimizer.suggest(3)
    assert {trial["kind"] for trial in first} == {"rare", "common", "other"}
    for trial in first:
        optimizer.observe(trial, float(len(trial.config)))
    assert {trial.tag["design"] for trial in first} == {"branches"}
    assert optimizer.suggest().tag.get("phase") != "design"


def test_a_run_file_and_a_command_know_conditions(tmp_path, capfd):
    from baco_like.cli import main

    (tmp_path / "run.toml").write_text(
        "[space]\nkind = {type = 'categorical', values = ['plain', 'tiled']}\n"
        "tile = {type = 'ordinal', values = [8, 16], when = \"kind == 'tiled'\"}\n"
        "[evaluator]\nkind = 'command'\nrun = 'echo {kind} --tile={tile} 7'\n"
        "measure = 'regex'\npattern = '\\d+$'\n[budget]\nevaluations = 3\n"
    )
    assert main(["tune", str(tmp_path / "run.toml"), "--out", str(tmp_path / "out")]) == 0
    recorded = read(tmp_path / "out" / "run.jsonl")
    found = {tuple(config.values()) for config in recorded.configs}
    assert found == {("plain",), ("tiled", 8), ("tiled", 16)}
    best = json.loads((tmp_path / "out" / "best.json").read_text())
    if best["config"] == {"kind": "plain"}:
        assert best["commands"]["run"] == "echo plain 7"
    text = (tmp_path / "run.toml").read_text().replace("== 'tiled'", "=> 'tiled'")
    (tmp_path / "wrong.toml").write_text(text)
    assert main(["tune", str(tmp_path / "wrong.toml")]) == 2
    assert "in the condition of 'tile'" in capfd.readouterr().err


@given(cases())
def test_a_table_of_all_configurations_gives_the_space_again(case):
    message = ""
    try:
        found = Space.from_dataframe(case.configs)
    except SpaceError as error:  # such as a condition with "or", which is not learned
        message = str(error)
    if message:
        assert "the other columns do not tell where it has one" in message
        return
    assert set(found.names) == {name for config in case.configs for name in config}
    assert {*map(_key, found)} == {*map(_key, case.configs)}
    assert found.feasible_size == len(case.configs)
    again = Space.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again == found
    assert {*map(_key, again)} == {*map(_key, case.configs)}
