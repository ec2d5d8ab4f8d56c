"""Beginning with earlier results: three meanings, any source, and nothing else needed to resume."""

import json
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import (
    Aim,
    Categorical,
    ConfigError,
    Infeasible,
    Integer,
    JournalError,
    MaxEvals,
    MaxFailures,
    NoImprovement,
    Optimizer,
    Permutation,
    Search,
    Space,
    Target,
    WarmStart,
    tune,
)
from baco_like.exceptions import RunFileError, StrategyError, WarmStartWarning
from baco_like.journal.events import START
from baco_like.journal.json_lines import JsonlJournal, write_journal

SPACE = Space(
    {"a": [1, 2, 4, 8, 16, 32], "b": Integer(1, 9), "c": ["x", "y", "z"]},
    constraints=["a * b <= 128"],
)


def cost(config):
    """Return a smooth function, best at a = 8, b = 5, c = x."""
    step = {"x": 0.0, "y": 0.6, "z": 0.3}[config["c"]]
    return 1.0 + (math.log2(config["a"]) - 3) ** 2 + 0.2 * (config["b"] - 5) ** 2 + step


def pairs(n, seed=0, space=SPACE, of=cost):
    return [(config, of(config)) for config in space.sample(n, seed=seed)]


def continued(optimizer, n, of=cost):
    for _ in range(n):
        trial = optimizer.suggest()
        optimizer.observe(trial, of(trial))
    return optimizer


def shown(optimizer):
    return [(t.id, dict(t.config), t.origin, t.tag, t.value) for t in optimizer.trials]


# Results of the same task -----------------------------------------------------------------------------------------


def test_data_are_known_but_are_no_evaluations_of_the_run():
    known = pairs(12)
    optimizer = Optimizer(SPACE, warm_start=known)
    assert len(optimizer.trials) == 12
    assert optimizer.history.evaluations == 0
    assert {trial.origin for trial in optimizer.trials} == {"warm"}
    assert optimizer.best_value == min(value for _, value in known)
    trial = optimizer.suggest()
    assert optimizer.why(trial)["phase"] == "model"  # the known results replace the initial design
    assert dict(trial.config) not in [config for config, _ in known]


def test_stopping_rules_count_the_run_alone():
    known = [*pairs(12), *((config, None) for config in SPACE.sample(3, seed=9))]
    result = tune(cost, SPACE, stop=MaxEvals(4), warm_start=known, progress=False)
    assert result.optimizer.history.evaluations == 4
    history = Optimizer(SPACE, warm_start=known).history
    assert MaxEvals(4).room(history) == 4
    assert MaxFailures(1).reason(history, 0.0) is None
    assert NoImprovement(2).reason(history, 0.0) is None
    assert Target(100.0).reason(history, 0.0) is not None  # what is known already need not be found


def test_failures_and_repeats_are_kept():
    best = {"a": 8, "b": 5, "c": "x"}
    known = [(best, [1.0, 1.2, 1.1]), ({"a": 8, "b": 6, "c": "x"}, None)]
    optimizer = Optimizer(SPACE, warm_start=known)
    first, second = optimizer.trials
    assert first.value == 1.1
    assert first.repeats == (1.0, 1.2, 1.1)
    assert second.failure == "runtime"
    again = [dict(continued(optimizer, 1).trials[-1].config) for _ in range(6)]
    assert best not in again
    assert second.config not in again


# Best configurations first ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_configs_are_tried_best_first(direction):
    known = pairs(30)
    optimizer = Optimizer(SPACE, direction, warm_start=WarmStart(known, "configs", best=4))
    tried = [dict(optimizer.suggest().config) for _ in range(4)]
    distinct = {tuple(config.values()): (value, config) for config, value in known}
    ranked = sorted(distinct.values(), key=lambda row: row[0], reverse=direction == "maximize")
    best = ranked[:4]
    assert tried == [config for _, config in best]
    assert optimizer.history.evaluations == 0
    assert [trial.origin for trial in optimizer.pending] == ["enqueued"] * 4


def test_own_first_points_come_before_those_of_the_source():
    own = {"a": 1, "b": 1, "c": "z"}
    optimizer = Optimizer(
        SPACE, strategy=Search(initial=[own]), warm_start=WarmStart(pairs(9), "configs", best=1)
    )
    assert dict(optimizer.suggest().config) == own
    assert optimizer.suggest().origin == "enqueued"


# Sources -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["data", "configs", "prior"])
def test_a_journal_an_optimizer_and_a_list_say_the_same(tmp_path, mode):
    source = continued(
        Optimizer(SPACE, seed=5, strategy="random_search", storage=tmp_path / "s.jsonl"), 8
    )
    table = source.to_dataframe()
    told = [(dict(t.config), t.value) for t in source.trials]
    runs = [
        continued(Optimizer(SPACE, warm_start=WarmStart(data, mode)), 3)
        for data in (tmp_path / "s.jsonl", source, table, told)
    ]
    assert len({str([dict(t.config) for t in run.trials]) for run in runs}) == 1


NONE = Space({"a": [1, 2, 4], "tile": [None, (8, 8), (4, 16)]})
"""None means no tiling, which is best."""


def none_run(tmp_path, kind):
    """Return the results of all configurations of `NONE` in one of the sources."""
    run = Optimizer(NONE, {"time": "minimize"}, storage=tmp_path / "s.jsonl")
    for config in NONE:
        run.observe(config, config["a"] + 10.0 * (config["tile"] is not None))
    if kind in ("t4", "kernel_tuner", "ktt", "csv"):
        run.export(kind, tmp_path / kind)
        return tmp_path / kind
    return {
        "optimizer": run,
        "journal": tmp_path / "s.jsonl",
        "table": run.to_dataframe(),
        "list": [(dict(t.config), t.value) for t in run.trials],
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["optimizer", "journal", "table", "list", "t4", "kernel_tuner", "ktt", "csv"],
)
def test_none_is_a_value(tmp_path, kind):
    aim, source = {"time": "minimize"}, none_run(tmp_path, kind)
    for mode, count in (("data", 9), ("prior", 9), ("configs", 5)):
        (part,) = Optimizer(NONE, aim, warm_start=WarmStart(source, mode)).warm_start
        assert (len(part.trials), dict(part.left_out)) == (count, {})
        assert sum(trial["tile"] is None for trial in part.trials) == 3
    if kind in ("optimizer", "journal", "t4"):  # the source says that None is the default
        with pytest.warns(WarmStartWarning, match="6 of 9 .*'tile', which the space lacks"):
            assert len(Optimizer({"a": [1, 2, 4]}, aim, warm_start=source).trials) == 3


def test_none_is_a_default_and_may_be_another_value_than_the_default(tmp_path):
    rows = [({"a": a}, float(a)) for a in (1, 2, 4)]
    assert {t["tile"] for t in Optimizer(NONE, warm_start=rows).trials} == {None}
    tile = Categorical([None, (8, 8)], default=(8, 8))
    old = Optimizer(Space({"a": [1, 2, 4], "tile": tile}), storage=tmp_path / "s.jsonl")
    old.observe({"a": 1, "tile": None}, 1.0)
    old.observe({"a": 1, "tile": (8, 8)}, 2.0)
    for source in (old, tmp_path / "s.jsonl"):
        with pytest.warns(WarmStartWarning, match="1 of 2 .* was not at its default"):
            assert Optimizer({"a": [1, 2, 4]}, warm_start=source).best_value == 2.0


def test_texts_of_tables_and_lists_of_json_are_values():
    space = Space({"a": [1, 2, 4], "p": Permutation(["i", "j"]), "f": [True, False]})
    rows = [
        ({"a": "2", "p": ["j", "i"], "f": "True"}, 3.0),
        ({"a": 4.0, "p": ("i", "j"), "f": False}, 2),
    ]
    found = [dict(t.config) for t in Optimizer(space, warm_start=rows).trials]
    assert found == [{"a": 2, "p": ("j", "i"), "f": True}, {"a": 4, "p": ("i", "j"), "f": False}]
    assert [type(value) for value in found[1].values()] == [int, tuple, bool]


@pytest.mark.parametrize("text", ["j,2,i", "j, 2, i", "('j', 2, 'i')", "[j,'2',i]"])
def test_orders_as_texts(text):
    space = Space({"p": Permutation(["i", "j", 2])})
    rows = [({"p": text}, 3.0)]
    assert Optimizer(space, warm_start=rows).best_config == {"p": ("j", 2, "i")}
    with pytest.raises(ConfigError, match="another value of 'p'"):
        Optimizer(space, warm_start=[({"p": "j,2"}, 3.0)])


# What does not fit --------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_counted_and_told():
    rows = [
        *pairs(6),
        ({"a": 3, "b": 1, "c": "x"}, 1.0),
        ({"a": 32, "b": 9, "c": "x"}, 1.0),
        ({"a": 1, "c": "x"}, 1.0),
    ]
    with pytest.warns(WarmStartWarning, match="3 of 9 results are left out"):
        optimizer = Optimizer(SPACE, warm_start=rows)
    (part,) = optimizer.warm_start
    assert (part.found, len(part.trials)) == (9, 6)
    assert dict(part.left_out) == {
        "they have another value of 'a' than the space": 1,
        "a known constraint excludes them": 1,
        "they lack 'b'": 1,
    }


@pytest.mark.parametrize(("value", "count"), [(1.0, 7), (Infeasible("", "constraints"), 6)])
def test_known_constraints_do_not_concern_a_related_task_except_where_it_has_them_too(value, count):
    rows = [*pairs(6), ({"a": 32, "b": 9, "c": "x"}, value)]
    (part,) = Optimizer(SPACE, warm_start=WarmStart(rows, "prior")).warm_start
    assert part.found == len(part.trials) == count


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        ([], ConfigError, "no results"),
        ([({"u": 1}, 2.0)], ConfigError, "none of its parameters"),
        ([({"a": 3, "b": 1, "c": "x"}, 2.0)], ConfigError, "none of its 1 results fits"),
        ([({"a": 1, "b": 1}, 2.0)], ConfigError, "lacks the parameter 'c', which has no default"),
        ("missing.json", RunFileError, "missing.json"),
        (3, ValueError, "give a path"),
        ([1, 2], ValueError, "is not \\(configuration, value\\)"),
        (WarmStart(pairs(2), "prior"), ConfigError, "needs 3 different values"),
        (WarmStart([(pairs(1)[0][0], None)], "configs"), ConfigError, "is a success"),
        ("random_forest", StrategyError, "RandomForest"),
        ("genetic_algorithm", StrategyError, "has no Gaussian process"),
    ],
)
def test_refusals_change_nothing(tmp_path, start, error, message):
    given = {"warm_start": start}
    if error is StrategyError:
        given = {"strategy": start, "warm_start": WarmStart(pairs(9), "prior")}
    with pytest.raises(error, match=message):
        Optimizer(SPACE, storage=tmp_path / "run.jsonl", **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wrong", [{"mode": "priors"}, {"best": 0}, {"rows": 2}, {"best": 1.5}, {"mode": None}]
)
def test_wrong_settings(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        WarmStart([], **wrong)


def test_another_goal_is_refused(tmp_path):
    continued(
        Optimizer(SPACE, "maximize", strategy="random_search", storage=tmp_path / "s.jsonl"), 4
    )
    with pytest.raises(ConfigError, match="to maximize, this run is to minimize"):
        Optimizer(SPACE, warm_start=tmp_path / "s.jsonl")


# Sources whose parameters differ -------------------------------------------------------------------------------------

WIDER = Space({**SPACE.parameters, "d": Integer(1, 4, default=2)}, constraints=["a * b <= 128"])


def test_a_parameter_that_the_source_lacks_had_its_default():
    (part,) = Optimizer(WIDER, warm_start=pairs(5)).warm_start
    assert {trial["d"] for trial in part.trials} == {2}
    assert part.notes == ("d is not in list: it is assumed to have its default",)


def test_a_related_task_says_nothing_of_a_parameter_that_it_lacks():
    (part,) = Optimizer(WIDER, warm_start=WarmStart(pairs(40), "prior")).warm_start
    assert {trial["d"] for trial in part.trials} == {1, 2, 3, 4}


def test_a_parameter_that_the_space_lacks_must_have_had_one_value():
    rows = pairs(6, space=WIDER, of=lambda config: cost(config) + config["d"])
    with pytest.raises(ConfigError, match="differ in 'd', which the space lacks"):
        Optimizer(SPACE, warm_start=rows)
    assert len(Optimizer(SPACE, warm_start=WarmStart(rows, "prior")).warm_start[0].trials) == 6
    same = [({**config, "d": 2}, value) for config, value in rows]
    assert len(Optimizer(SPACE, warm_start=same).trials) == 6


@pytest.mark.parametrize("from_file", [True, False])
def test_values_of_cheap_proxies_are_not_compared_with_those_of_the_target(tmp_path, from_file):
    path = tmp_path / "cheap.jsonl"
    cheap = SPACE.with_fidelity({"n": [1, 4]})
    source = Optimizer(cheap, strategy="random_search", storage=path)
    for config in SPACE.sample(20, seed=3):
        source.observe({**config, "n": 1}, 0.01 * config["a"])
        source.observe({**config, "n": 4}, cost(config))
    given = path if from_file else source
    ideas = Optimizer(cheap, warm_start=WarmStart(given, "configs", best=1)).suggest()
    assert ideas == source.best
    prior = Optimizer(SPACE, warm_start=WarmStart(given, "prior")).warm_start[0]
    assert {trial.value for trial in prior.trials} == {
        trial.value for trial in source.history.target_trials
    }
    assert Optimizer(cheap, warm_start=WarmStart(given, "prior")).warm_start[0].found == 40


@pytest.mark.parametrize("from_file", [True, False])
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_values_of_different_tasks_are_not_compared(tmp_path, from_file, direction, sign):
    path = tmp_path / "tasks.jsonl"
    tasks = SPACE.with_tasks([{"n": 1}, {"n": 64}])
    source = Optimizer(tasks, direction, strategy="random_search", storage=path)
    for config in SPACE.sample(20, seed=3):
        for n in (1, 64):
            value = n * cost({**config, "a": config["a"] * (1 if n == 1 else 2)})
            value = value if (direction == "minimize") == (sign > 0) else 1 / value
            source.observe({**config, "n": n}, sign * value)
    given = path if from_file else source
    best = [dict(choice.config) for choice in source.recommend().choices]
    ideas = Optimizer(SPACE, direction, warm_start=WarmStart(given, "configs", best=2))
    assert sorted(map(dict, ideas.suggest(2)), key=best.index) == best
    (prior,) = Optimizer(SPACE, direction, warm_start=WarmStart(given, "prior")).warm_start
    values = [trial.value for trial in prior.trials]
    assert values.count(sign) >= 2
    assert (min(values) if direction == "minimize" else max(values)) == sign


def test_a_lost_parameter_that_was_not_active_is_as_at_its_default(tmp_path):
    old = Space({"a": Integer(0, 9), "b": Integer(0, 9, default=4)}, when={"b": "a > 1"})
    source = Optimizer(old, storage=tmp_path / "s.jsonl")
    for config in ({"a": 0}, {"a": 1}, {"a": 2, "b": 4}, {"a": 3, "b": 5}):
        source.observe(config, 1.0)
    for data in (source, tmp_path / "s.jsonl"):
        with pytest.warns(WarmStartWarning, match="'b', which the space lacks, was not at its def"):
            (part,) = Optimizer({"a": Integer(0, 9)}, warm_start=data).warm_start
        assert [trial["a"] for trial in part.trials] == [0, 1, 2]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"fidelity": "size"}, "fidelity = 'size' is not a parameter"),
        ({"fidelity": "b"}, "expected an ordinal parameter"),
        ({"fidelity": [1]}, "expected one parameter"),
        ({"tasks": 5}, "tasks need an object 'descriptors'"),
    ],
)
def test_a_file_that_describes_a_wrong_space_is_refused(tmp_path, damage, reason):
    source, path = Optimizer(SPACE), tmp_path / "run.json"
    source.observe({"a": 1, "b": 2, "c": "x"}, 1.0)
    source.export("kernel_tuner", path)
    document = json.loads(path.read_text())
    document["baco_like"]["space"].update(damage)
    path.write_text(json.dumps(document))
    with pytest.raises(RunFileError, match=f"run.json: its space: .*{reason}"):
        Optimizer(SPACE, warm_start=path)


def test_results_of_several_tasks_are_not_those_of_a_run_without_tasks(tmp_path):
    old = Space({"a": Integer(0, 9, default=3)}, tasks=[{"n": 1}, {"n": 2}])
    source = Optimizer(old, storage=tmp_path / "s.jsonl")
    for n in (1, 2):
        source.observe({"a": 3, "n": n}, 1.0)
    for data in (source, tmp_path / "s.jsonl"):
        with pytest.raises(ConfigError, match="differ in 'n', which the space lacks"):
            Optimizer({"a": Integer(0, 9)}, warm_start=data)


def test_errors_name_the_lost_parameters_and_a_way_out():
    source = Optimizer({"a": Integer(0, 9, default=3)})
    source.observe({"a": 4}, 1.0)
    with pytest.raises(ConfigError, match=r"none of its parameters \(a\) is one of the space"):
        Optimizer({"b": Integer(0, 9)}, warm_start=source)
    wider = Optimizer({"a": Integer(0, 9, default=3), "b": Integer(0, 9)})
    wider.observe({"a": 4, "b": 1}, 1.0)
    with pytest.raises(ConfigError, match=r"'a', which .*: 1\); add the parameter, or use mode="):
        Optimizer({"b": Integer(0, 9)}, warm_start=wider)


# The journal --------------------------------------------------------------------------------------------------------

MODES = st.sampled_from(["data", "configs", "prior"])


@settings(max_examples=4)
@given(
    starts=st.lists(
        st.tuples(MODES, st.integers(0, 3), st.integers(4, 14)), min_size=1, max_size=2
    ),
    before=st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_a_resumed_run_goes_on_without_its_sources(tmp_path_factory, starts, before, seed):
    folder = tmp_path_factory.mktemp("warm")
    given_ = [WarmStart(pairs(n, seed=s), mode) for mode, s, n in starts]

    def begun(name):
        return Optimizer(SPACE, seed=seed, warm_start=given_, storage=folder / name)

    whole = continued(begun("whole.jsonl"), before + 3)
    continued(begun("cut.jsonl"), before)
    resumed = continued(Optimizer.load(folder / "cut.jsonl"), 3)
    assert shown(resumed) == shown(whole)
    assert resumed.history.evaluations == before + 3
    assert resumed.warm_start == Optimizer.load(folder / "whole.jsonl").warm_start


def test_the_same_script_resumes_though_its_source_is_gone(tmp_path):
    continued(Optimizer(SPACE, seed=5, strategy="random_search", storage=tmp_path / "s.jsonl"), 8)

    def script():
        return Optimizer(SPACE, storage=tmp_path / "run.jsonl", warm_start=tmp_path / "s.jsonl")

    continued(script(), 2)
    (tmp_path / "s.jsonl").unlink()
    assert len(continued(script(), 2).trials) == 12
    continued(Optimizer(SPACE, storage=tmp_path / "cold.jsonl"), 1)
    for name in ("run.jsonl", "cold.jsonl"):
        with pytest.raises(JournalError, match=r"its warm starts were .*leave warm_start= out"):
            Optimizer(SPACE, storage=tmp_path / name, warm_start=WarmStart(pairs(9), "prior"))
    assert len(Optimizer(SPACE, storage=tmp_path / "run.jsonl").trials) == 12


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from(["a", "b", "c", "d"]),
                st.one_of(
                    st.integers(-5, 40),
                    st.floats(),
                    st.text(max_size=3),
                    st.none(),
                    st.just([1]),
                    st.booleans(),
                ),
            ),
            st.one_of(
                st.floats(),
                st.none(),
                st.booleans(),
                st.text(max_size=3),
                st.just([]),
                st.integers(-(10**400), 10**400),
            ),
        ),
        max_size=6,
    ),
    MODES,
)
def test_a_bad_source_is_refused_or_harmless(rows, mode):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            optimizer = Optimizer(SPACE, warm_start=WarmStart([*pairs(3), *rows], mode))
        except ConfigError:  # there is something in it that no task of this space can have
            return
    (part,) = optimizer.warm_start
    assert len(part.trials) + sum(part.left_out.values()) <= part.found == len(rows) + 3
    for trial in part.trials:
        assert trial.value is None or math.isfinite(trial.value)
        assert mode == "prior" or SPACE.contains(trial.config)
    continued(optimizer, 1)


@given(st.data())
def test_a_forged_warm_start_is_refused(tmp_path_factory, data):
    """Whatever somebody writes there is read as a warm start or refused as a journal."""
    path = tmp_path_factory.mktemp("forged") / "run.jsonl"
    mode = data.draw(MODES)
    Optimizer(SPACE, warm_start=WarmStart(pairs(4), mode), storage=path)
    events = [event for event, _ in JsonlJournal(path).read(START)]
    header = json.loads(json.dumps(events[0]))
    (part,) = header["warm_start"]
    junk = st.one_of(
        st.none(), st.integers(), st.text(max_size=2), st.just({}), st.just([0]), st.just([{}])
    )
    where = data.draw(st.sampled_from(["warm_start", *part, "row", "config", "value"]))
    if where == "warm_start":
        header[where] = data.draw(junk)
    elif where in part:
        part[where] = data.draw(junk)
    elif where == "row":
        part["rows"][0] = data.draw(junk)
    else:
        part["rows"][0][where] = data.draw(junk)
    forged = path.with_name("forged.jsonl")
    write_journal(forged, [header, *events[1:]])
    try:
        continued(Optimizer.load(forged), 1)
    except JournalError:
        return


def test_values_far_apart_do_no_harm():
    rows = [(config, 1e300 * value) for config, value in pairs(9)]
    optimizer = continued(Optimizer(SPACE, warm_start=WarmStart(rows, "prior")), 5)
    assert np.isfinite(optimizer.predict([{"a": 8, "b": 5, "c": "x"}])[0]).all()


# The documentation ---------------------------------------------------------------------------------------------------


def test_a_bound_of_another_tool_means_nothing_to_a_run_that_maximises(tmp_path):
    first = Optimizer(SPACE, seed=1)
    for value in (8.0, 3.0, 5.0):
        first.observe(first.suggest(), value)
    first.observe(first.suggest(), failed="timeout", bound=50.0)
    path = tmp_path / "results.csv"
    first.export("csv", path)  # which does not say that the run was to minimise
    second = Optimizer(SPACE, "maximize", seed=1, warm_start=path)
    assert [t.bound for t in second.trials] == [None] * 4
    assert second.trials[-1].failure == "timeout"


# Which measurement counts -----------------------------------------------------------------------------------------


def measured_run(**storage):
    """A run whose time and energy rank configurations the other way round."""
    opt = Optimizer({"a": [1, 2, 4, 8]}, {"time": "minimize"}, strategy="exhaustive", **storage)
    for trial in opt.suggest(4):
        opt.observe(trial, {"time": float(trial["a"]), "energy": 10.0 - trial["a"]})
    return opt


@pytest.mark.parametrize("kind", ["optimizer", "journal", "t4", "kernel_tuner", "ktt"])
@pytest.mark.parametrize("given", [None, "energy"])
def test_another_measurement_of_the_source_is_found_by_its_name(tmp_path, kind, given):
    source = measured_run(storage=tmp_path / "old.jsonl")
    if kind == "journal":
        source = tmp_path / "old.jsonl"
    elif kind != "optimizer":
        source.export(kind, tmp_path / "old.json")
        source = tmp_path / "old.json"
    warm = WarmStart(source, objective=given)
    opt = Optimizer({"a": [1, 2, 4, 8]}, {"energy": "minimize"}, warm_start=warm)
    assert opt.best_value == 2.0
    assert opt.best_config == {"a": 8}
    assert {t.outcome.metrics["time"] for t in opt.trials} == {1.0, 2.0, 4.0, 8.0}


@pytest.mark.parametrize("kind", ["optimizer", "journal", "t4", "kernel_tuner", "ktt", "csv"])
@pytest.mark.parametrize(
    ("limit", "values"),
    [(None, [7, 6, 5]), ("mem <= 4", [7, 6, None]), ("mem <= 1", [None] * 3)],
)
def test_the_limits_of_the_run_count_and_not_those_of_the_source(tmp_path, kind, limit, values):
    source = Optimizer({"a": [3, 4, 5]}, Aim({"time": "minimize"}, ["mem <= 3"]))
    if kind == "journal":
        journal = tmp_path / "s.jsonl"
        source = Optimizer(source.space, source.options.aim, storage=journal)
    for a in (3, 4, 5):
        source.observe({"a": a}, {"time": [10 - a, 9 - a, 10 - a], "mem": a, "energy": a})
    if kind not in ("optimizer", "journal"):
        source.export(kind, tmp_path / "s.jsonl")
    data = source if kind == "optimizer" else tmp_path / "s.jsonl"
    limits = [] if limit is None else [limit]
    again = Optimizer(source.space, Aim({"time": "minimize"}, limits), warm_start=data)
    assert [t.value for t in again.trials] == values
    other = Optimizer(source.space, Aim({"energy": "maximize"}, limits), warm_start=data)
    assert [t.outcome.repeats for t in other.trials] == [(3.0,), (4.0,), (5.0,)]
    assert [t.outcome.metrics["time"] for t in other.trials] == [7.0, 6.0, 5.0]
    assert [t.value is None for t in other.trials] == [value is None for value in values]


@pytest.mark.parametrize("mode", ["data", "configs", "prior"])
def test_another_objective_is_refused_unless_it_is_named(mode):
    space = {"a": [1, 2, 4, 8]}
    with pytest.raises(
        ConfigError, match=r"is 'time', .* no measurement 'power'.*objective='time'"
    ):
        Optimizer(space, {"power": "minimize"}, warm_start=WarmStart(measured_run(), mode))
    with pytest.raises(ConfigError, match="no measurement 'power'"):
        Optimizer(space, warm_start=WarmStart(measured_run(), mode, objective="power"))
    named = WarmStart(measured_run(), mode, objective="time")
    assert Optimizer(space, {"power": "minimize"}, warm_start=named).warm_start[0].found == 4
    assert Optimizer(space, warm_start=WarmStart(measured_run(), mode)).warm_start[0].found == 4


def test_what_ran_without_the_measurement_is_no_result_of_it():
    old = measured_run()
    old.observe({"a": 1}, 0.5, imported=True)
    assert len(Optimizer(old.space, {"energy": "minimize"}, warm_start=old).trials) == 4


def test_a_rate_of_kernel_tuner_s_is_to_be_maximised(tmp_path):
    rows = {
        str(n): {"a": n, "GFLOP/s": 100.0 / n, "time": float(n), "times": [float(n)]}
        for n in (1, 2)
    }
    cache = {
        "tune_params_keys": ["a"],
        "tune_params": {"a": [1, 2]},
        "objective": "GFLOP/s",
        "cache": rows,
    }
    (tmp_path / "c.json").write_text(json.dumps(cache))
    with pytest.raises(ConfigError, match="to maximize, this run is to minimize"):
        Optimizer({"a": [1, 2]}, warm_start=tmp_path / "c.json")
    fast = Optimizer({"a": [1, 2]}, {"time": "minimize"}, warm_start=tmp_path / "c.json")
    assert fast.best_config == {"a": 1}


def test_a_column_of_a_table_of_results_is_found_by_its_name(tmp_path):
    (tmp_path / "t.csv").write_text("a,energy,time\n1,9,1\n2,8,2\n4,7,4\n")
    opt = Optimizer({"a": [1, 2, 4]}, {"energy": "minimize"}, warm_start=tmp_path / "t.csv")
    assert opt.best_config == {"a": 4}


def test_values_that_are_texts():
    space = Space({"a": [1, 2, 3, 4]})
    rows = [({"a": 1}, "1.5"), ({"a": 2}, " 0 "), ({"a": 3}, None), ({"a": 4}, "n/a")]
    with pytest.warns(WarmStartWarning, match=r"1 of 4 values are texts .* such as 'n/a'"):
        opt = Optimizer(space, warm_start=rows)
    assert [t.value for t in opt.trials] == [1.5, 0.0, None, None]


def test_several_paths_are_written_as_several_warm_starts():
    with pytest.raises(ValueError, match=r"write \[WarmStart\(path\)"):
        Optimizer({"a": [1, 2]}, warm_start=["a.json", "b.json"])


def test_a_table_of_a_run_whose_parameters_have_names_of_its_columns():
    space = Space({"value": Integer(0, 9), "failed": ["no", "yes"], "y": [1, 2]})
    source = Optimizer(space, strategy="random_search")
    for number, trial in enumerate(source.suggest(4)):
        if number == 1:
            source.observe(trial, failed="compile")
        else:
            source.observe(trial, 1000.0 + trial["y"])
    again = Optimizer(space, warm_start=source.to_dataframe())
    told = [(dict(trial.config), trial.value, trial.failure) for trial in again.trials]
    assert told == [(dict(t.config), t.value, t.failure) for t in source.trials]
