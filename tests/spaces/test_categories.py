"""None and tuples as values of a categorical parameter, in every format and adapter that carries spaces or results."""

import itertools
import json

import hypothesis.strategies as st
import pytest
from headers import compile_headers
from hypothesis import given

from baco_like import Categorical, ConfigError, Optimizer, Ordinal, RunFileError, Space, SpaceError
from baco_like.integrations.configspace import from_configuration, to_configspace, to_configuration
from baco_like.results import formats
from baco_like.results.recording import recorded_trials
from baco_like.shipping import read_table
from baco_like.shipping.formats import FORMATS
from baco_like.spaces.formats.t1 import to_t1

LAYOUTS = [None, (1, 2), (1, (2.5, "x")), "a", True, 3]
SPACE = Space(
    {"layout": LAYOUTS, "size": Ordinal([1, 2, 4], default=2)},
    constraints=["layout != (1, 2) or size > 1", "not (layout is None and size == 4)"],
)
ALL = [
    {"layout": layout, "size": size}
    for layout, size in itertools.product(LAYOUTS, [1, 2, 4])
    if (layout, size) not in (((1, 2), 1), (None, 4))
]


def cost(config):
    return 10.0 * LAYOUTS.index(config["layout"]) + config["size"]


def test_the_space_counts_draws_and_explains_them():
    codes = SPACE.encode(ALL)
    assert SPACE.decode(codes) == ALL
    assert SPACE.feasible_size == len(ALL) == 16
    assert SPACE.feasible.contains(codes).all()
    assert all(map(SPACE.contains, SPACE.sample(50)))
    assert not SPACE.contains({"layout": [1, 2], "size": 1})
    assert "layout = None" in SPACE.explain({"layout": None, "size": 4})[0]
    with pytest.raises(ConfigError, match=r"\(2, 1\) is not one of"):
        SPACE.encode([{"layout": (2, 1), "size": 1}])


def test_none_is_the_default_unless_another_is_given_and_may_be_left_out():
    assert SPACE.default_config == {"layout": None, "size": 2}
    other = Space({"layout": Categorical(LAYOUTS, default=[1, 2]), "size": [1]})
    assert other.default_config == {"layout": (1, 2), "size": 1}
    assert SPACE.decode(SPACE.encode([{"size": 1}])) == [{"layout": None, "size": 1}]
    assert Space({"layout": [(1,), (2,)]}).default_config is None


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, "", "1", "None"]),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(st.lists(values, min_size=1, max_size=8, unique_by=repr))
def test_descriptions_keep_every_value_and_its_type(listed):
    space = Space({"x": Categorical(listed), "y": Ordinal([1, 2], default=1)})
    for again in (
        Space.from_dict(json.loads(json.dumps(space.to_dict()))),
        Space.from_t1(json.loads(json.dumps(to_t1(space)))),
    ):
        assert repr(again.parameters["x"].values) == repr(tuple(listed))
        assert repr(again.default_config) == repr(space.default_config)
        assert repr(again.decode(space.encode(space.sample(5)))) == repr(space.sample(5))


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    file = tmp_path_factory.mktemp("run") / "run.jsonl"
    optimizer = Optimizer(SPACE, strategy="random_search", seed=1, storage=file)
    for _ in ALL:
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial))
    return file


def test_a_run_is_resumed_from_its_journal(journal):
    optimizer = Optimizer.load(journal, SPACE)
    assert {t.value: dict(t.config) for t in optimizer.trials} == {
        cost(config): config for config in ALL
    }
    assert optimizer.best_config == {"layout": None, "size": 1}


@pytest.mark.parametrize(
    ("kind", "is_described"),
    [("csv", True), ("t4", True), ("kernel_tuner", True), ("ktt", True), ("csv", False)],
)
def test_results_are_read_back(journal, tmp_path, kind, is_described):
    recorded = formats.read(journal)
    if not is_described:
        recorded = recorded_trials(Optimizer.load(journal, SPACE).trials, objective="value")
    formats.write(recorded, tmp_path / "results", kind)
    again = formats.read(tmp_path / "results")
    assert len(again.entries) == len(ALL)
    assert all(again.find(config).value == cost(config) for config in ALL)


def test_formats_without_them_say_so(journal, tmp_path):
    with pytest.raises(SpaceError, match="'layout': the value"):
        formats.write(formats.read(journal), tmp_path / "results", "baco")
    with pytest.raises(SpaceError, match="None, which means that a conditional parameter"):
        Space({"on": [True, False], "x": [None, "a"]}, when={"x": "on"})
    with pytest.raises(SpaceError, match="None among its values"):
        Space.from_dataframe([{"x": None, "y": 1}, {"x": "a", "y": 1}, {"x": "a", "y": 2}])


def test_data_frames(journal):
    pytest.importorskip("pandas")
    optimizer = Optimizer.load(journal, SPACE)
    frame = optimizer.to_dataframe()
    found = [None if cell != cell else cell for cell in frame["layout"].tolist()]
    assert found == [trial["layout"] for trial in optimizer.trials]
    rows = [config for config in ALL if config["layout"] is not None]
    table = Space.from_dataframe(rows)
    assert table.feasible_size == len(rows)
    assert all(map(table.contains, rows))
    mixed = [{"a": (True, 2)}, {"a": (1, 2)}]
    assert Space.from_dataframe(mixed).parameters["a"] == Categorical([(True, 2), (1, 2)])
    orders = Space.from_dataframe([{"o": (1, 2)}, {"o": [2, 1]}])
    assert type(orders.parameters["o"]).__name__ == "Permutation"


def test_configspace():
    pytest.importorskip("ConfigSpace")
    space = Space({"layout": LAYOUTS[:4], "size": [1, 2]}, ["layout is not None or size > 1"])
    target = to_configspace(space, seed=1)
    drawn = [from_configuration(each, space) for each in target.sample_configuration(40)]
    assert {repr(config["layout"]) for config in drawn} == set(map(repr, LAYOUTS[:4]))
    assert all(map(space.contains, drawn))
    again = Space.from_configspace(target)
    assert again.feasible_size == space.feasible_size == 7
    assert from_configuration(to_configuration(drawn[0], space, target), space) == drawn[0]


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution")
@pytest.mark.parametrize(
    ("storage", "is_declared"), [(None, True), (None, False), ("sqlite:///:memory:", True)]
)
def test_optuna(storage, is_declared):
    optuna = pytest.importorskip("optuna")
    from baco_like.integrations.optuna import BacoSampler

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    choices = (None, (1, 2), (3, 4), "a")
    space = Space({"layout": choices, "size": [1, 2]})
    sampler = BacoSampler(space if is_declared else None, seed=1)
    study = optuna.create_study(storage=storage, sampler=sampler)

    def objective(trial):
        layout = trial.suggest_categorical("layout", choices)
        size = trial.suggest_categorical("size", (1, 2))
        return size + (0 if layout is None else 1 if isinstance(layout, str) else sum(layout))

    study.optimize(objective, 8)
    assert study.best_params == {"layout": None, "size": 1}
    assert len({repr(trial.params) for trial in study.trials}) > 6


@pytest.mark.parametrize("kind", FORMATS)
def test_shipped_tables(kind, tmp_path):
    optimizer = Optimizer(SPACE, strategy="random_search", seed=1)
    for layout, value in ((None, 1.0), ((1, (2.5, "x")), 0.5)):
        optimizer.enqueue({"layout": layout, "size": 2})
        optimizer.observe(optimizer.suggest(), value)
    path = tmp_path / "table"
    if kind in ("vllm", "inductor", "wisdom"):
        reason = "a tuple, which" if kind == "wisdom" else "the task"
        with pytest.raises(RunFileError, match=reason):
            optimizer.ship(kind, path)
        return
    optimizer.ship(kind, path)
    assert "2.5" in path.read_text()
    if kind == "c":
        compile_headers([path])
    if kind == "json":
        assert read_table(path).select({}) == {"layout": (1, (2.5, "x")), "size": 2}
