"""The rule that chooses a configuration for a task: its laws, and formats that choose as the table does."""

import json
import math
import shutil
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings
from shipped_tables import (
    CONSTRAINTS,
    SPACE,
    entry,
    imported,
    index_of,
    run_c,
    single,
    stamp,
    table,
)

from baco_like import (
    Aim,
    Cover,
    Optimizer,
    Ordinal,
    RunFileError,
    Space,
    SpaceError,
    SpaceExhausted,
    StrategyError,
    Tasks,
    TrialError,
    cli,
)
from baco_like.records.task_selector import Leaf, Split
from baco_like.shipping import Evidence, ShippedEntry, ShippedTable, make_table, read_table, ship
from baco_like.shipping.json_table import table_schema
from baco_like.shipping.stamp import Stamp, fingerprint

TABLE = table()

# Tables of all kinds --------------------------------------------------------------------------------------------------


def with_tree(rule=None):
    """Entries of four sizes on two devices, and a tree by which 500 has the configuration of 4096."""
    space = Space({"tile": Ordinal([8, 16, 32], default=8)})
    tiles = {(16, "a"): 16, (400, "a"): 8, (4096, "a"): 32, (4096, "b"): 8}
    entries = tuple(
        ShippedEntry({"n": n, "device": device}, {"tile": tile}, Evidence(1.0))
        for (n, device), tile in tiles.items()
    )
    small = Split("device", "b", Leaf((2, 0, 1)), Leaf((0, 1, 2)))
    rule = rule or Split("n", 450, small, Leaf((1, 0, 2)))
    return ShippedTable(entries, {"tile": 8}, space, stamp(), ("tile <= n",), rule, (0, 2, 1, 2))


def with_conditions():
    """A run in which large sizes have one more parameter, and vectors another one."""
    conditional = Space(
        {
            "mode": ["row", "block"],
            "tile": Ordinal([8, 16], default=8),
            "width": Ordinal([2, 4], default=2),
        },
        when={"tile": "n >= 100 and mode == 'block'", "width": "not tile == 8"},
        tasks=[{"n": 10}, {"n": 1000}],
    )
    optimizer = Optimizer(conditional)
    optimizer.observe({"n": 10, "mode": "block"}, 1.0)
    optimizer.observe({"n": 1000, "mode": "block", "tile": 16, "width": 4}, 1.0)
    optimizer.observe({"n": 1000, "mode": "row"}, 2.0)
    return make_table([optimizer.shipped_run()], conditional)


def of_tasks(best=None):
    """A run with three sizes, one of which has a constraint of its own."""
    tasks = Tasks(
        {"small": {"n": 64}, "middle": {"n": 512}, "large": {"n": 4096}},
        {"middle": ["tile != 32"]},
    )
    parameters = {"tile": Ordinal([8, 16, 32, 64], default=8), "unroll": Ordinal([1, 2], default=1)}
    optimizer = Optimizer(Space(parameters, ["tile <= n", "n % tile == 0"], tasks=tasks))
    for n, tile in (best or {64: 32, 512: 16, 4096: 64}).items():
        for other in (8, 16, 32, 64):
            if n != 512 or other != 32:
                value = 1.0 + (other != tile)
                optimizer.observe({"n": n, "tile": other, "unroll": 1}, value)
    return make_table([optimizer.shipped_run()], optimizer.space)


def with_own():
    """A run with two sizes, one of which has the only constraint."""
    tasks = Tasks([{"n": 64}, {"n": 512}], constraints={"n=512": ["tile <= 8"]})
    optimizer = Optimizer(Space({"tile": [8, 16]}, tasks=tasks))
    optimizer.observe({"tile": 16, "n": 64}, 1.0)
    optimizer.observe({"tile": 8, "n": 512}, 1.0)
    return make_table([optimizer.shipped_run()], optimizer.space)


def with_two_sizes():
    tasks = [{"n": n, "m": m} for n, m in ((8, 8), (8, 1000), (400, 64), (1000, 8))]
    entries = tuple(entry(tile, **t) for tile, t in zip((8, 16, 32, 64), tasks, strict=True))
    return ShippedTable(entries, None, SPACE, stamp(), ("tile <= n * m",))


def with_bits(text):
    optimizer = Optimizer({"tile": Ordinal([1, 2, 3], default=2)})
    optimizer.observe({"tile": 3}, 1.0)
    optimizer.observe({"tile": 2}, 2.0)
    return make_table([optimizer.shipped_run({"n": 8})], optimizer.space, constraints=[text])


SIZES = (
    *(-3, 0, 1, 5, 7, 8, 12, 15, 16, 40, 48, 63, 64, 99, 100, 128, 180, 182),
    *(399, 400, 450, 451, 512, 544, 999_996, 2**50),
)
DEVICES = ("a", "b", "c", "cpu", "gpu", "mi250", "?")
TABLES = {
    "constraints": table,
    "tree": with_tree,
    "one order": lambda: with_tree(Leaf((1, 0, 2))),
    "conditions": with_conditions,
    "constraints of a task": of_tasks,
    "a constraint of a task alone": with_own,
    "two sizes": with_two_sizes,
    "one entry": single,
    "bits: and": lambda: with_bits("n & tile == 0"),
    "bits: or": lambda: with_bits("n | tile ^ 3 < 40"),
    "bits: not": lambda: with_bits("~n & 7 == 7"),
    "bits: left": lambda: with_bits("n << tile >= 64 and n < 200"),
    "bits: right": lambda: with_bits("n >> tile - 2 > 1"),
}


def asked_of(rows):
    """Return tasks with the descriptors of a table."""
    names = list(rows.kinds)
    tasks = [{"n": n, "device": d, "m": m} for n in SIZES for d in DEVICES for m in (1, 64, 999)]
    return list({str(t := {name: task[name] for name in names}): t for task in tasks}.values())


def literal(value):
    return f'"{value}"' if isinstance(value, str) else f"{value:.0f}"


@pytest.mark.parametrize("name", TABLES)
def test_every_format_with_code_chooses_as_the_table_does(name, tmp_path):
    rows = TABLES[name]()
    asked = asked_of(rows)
    wanted = [index_of(rows, task) for task in asked]
    assert len(set(wanted)) > 1 or name == "one entry"
    path = ship(rows, "json", tmp_path / "tuned.json")
    again = read_table(path)
    assert (again.entries, again.default, again.stamp) == (rows.entries, rows.default, rows.stamp)
    assert (again.rule, again.groups) == (rows.rule, rows.groups)
    assert [index_of(again, task) for task in asked] == wanted
    module = imported(ship(rows, "python", tmp_path / "tuned.py"))
    assert [module.index(**task) for task in asked] == wanted
    if shutil.which("gcc") is not None:
        ship(rows, "c", tmp_path / "tuned.h")
        calls = (", ".join(map(literal, task.values())) for task in asked)
        text = "".join(f'    printf("%d ", tuned_index({call}));\n' for call in calls)
        assert run_c(tmp_path, text) == wanted
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft7Validator(table_schema()).validate(json.loads(path.read_text()))


# Runs with tasks ------------------------------------------------------------------------------------------------------

UNKNOWN = (1, 3, 8, 15, 16, 17, 63, 64, 65, 100, 127, 128, 181, 200, 512, 1000, 4096, 10**6)
TEXTS = (
    "tile <= n",
    "n % tile == 0",
    "tile * unroll <= n or mode == 'plain'",
    "device != 'b' or tile <= 16",
    "unroll == 1 or n >= 100",
    "tile + unroll <= 64",
    "n & (n - 1) == 0 or tile >> 3 & n ^ 1 != 1",
    "(tile <= n) & (n << unroll | ~n > -9) and n + tile + unroll > 10",
)
OWN = ("tile <= 16", "unroll == 1", "mode == 'plain'")
WHEN = {
    "tile": ("mode == 'tiled'", "n >= 100", "mode == 'tiled' and n >= 16", "device == 'a'"),
    "unroll": ("tile != 8", "n > 64", "mode == 'plain'"),
}
GOALS = ("single", "each", Cover(2), Cover(within=1.2))


@st.composite
def problems(draw):
    """Return a space with tasks, its texts, and an optimizer with some observations."""
    sizes = st.sampled_from((1, 7, 8, 16, 60, 64, 100, 512, 4096))
    pairs = st.tuples(sizes, st.sampled_from("ab"))
    chosen = draw(st.lists(pairs, min_size=1, max_size=5, unique=True))
    names = [f"task {i}" for i in range(len(chosen))]
    descriptors = {name: {"n": n, "device": d} for name, (n, d) in zip(names, chosen, strict=True)}
    few = st.lists(st.sampled_from(OWN), min_size=1, max_size=2, unique=True)
    own = draw(st.dictionaries(st.sampled_from(names), few))
    texts = draw(st.lists(st.sampled_from(TEXTS), max_size=3, unique=True))
    when = {
        name: draw(st.sampled_from(options))
        for name, options in WHEN.items()
        if draw(st.integers(0, 2)) == 0
    }
    default = {"default": 8} if draw(st.booleans()) else {}
    tile = Ordinal([8, 16, 32], **default)
    parameters = {"mode": ["plain", "tiled"], "tile": tile, "unroll": [1, 2]}
    given_seed, goal = draw(st.integers(0, 9)), draw(st.sampled_from(GOALS))
    try:
        space = Space(parameters, texts, when=when, tasks=Tasks(descriptors, own))
        optimizer = Optimizer(space, Aim(goal=goal), strategy="random_search", seed=given_seed)
    except (SpaceError, StrategyError):
        assume(False)
    for _ in range(draw(st.integers(1, 8))):
        try:
            optimizer.observe(optimizer.suggest(), draw(st.floats(0.5, 3.0)))
        except SpaceExhausted:
            break
    assume(optimizer.trials)
    return optimizer, texts, own, when


def violation(config, task, optimizer, texts, own, when):
    """Return why a configuration must not be used for a task, by Python's own evaluation; None if it may be used."""
    values, is_active = {**config, **task}, {"mode": True}
    # `unroll` may depend on `tile`, and inactive parameters decide nothing.
    for name in ("tile", "unroll"):
        is_known = all(active for other, active in is_active.items() if other in when.get(name, ""))
        is_active[name] = is_known and bool(eval(when.get(name, "True"), {}, values))
        if is_active[name] and name not in values:
            return f"{name} is missing"
    tasks = optimizer.space.tasks
    known = [n for n, d in zip(tasks.names, tasks.descriptors, strict=True) if dict(d) == task]
    for text in [*texts, *(text for name in known for text in own.get(name, []))]:
        applies = all(active for name, active in is_active.items() if name in text)
        if applies and not eval(text, {}, values):
            return text
    return None


@given(problems())
def test_no_task_gets_a_configuration_that_violates_a_constraint(tmp_path_factory, problem):
    optimizer, *rules = problem
    folder = tmp_path_factory.mktemp("shipped")
    selector = optimizer.recommend().selector
    table = read_table(optimizer.ship("json", folder / "tuned.json"))
    module = imported(ship(table, "python", folder / "tuned.py"))
    known = [dict(task) for task in optimizer.space.tasks.descriptors]
    for task in [*known, *({"n": n, "device": d} for n in UNKNOWN for d in "abc")]:
        config = selector.select(task)
        assert config is None or violation(config, task, optimizer, *rules) is None
        place = index_of(table, task)
        assert place < 0 or violation(table.configs[place], task, optimizer, *rules) is None
        assert module.index(**task) == place


def test_a_run_with_tasks_has_an_entry_for_each(tmp_path, capsys):
    journal, out = tmp_path / "run.jsonl", tmp_path / "tuned.json"
    space = of_tasks().space
    optimizer = Optimizer(space, strategy="random_search", storage=journal)
    with pytest.raises(RunFileError, match="no successful trial"):
        optimizer.ship("json", out)
    for trial in optimizer.suggest(16):
        optimizer.observe(trial, trial["n"] * (1.0 + abs(trial["tile"] - 20) / 8) / trial["unroll"])
    words = ["ship", str(journal), "--format", "json", "--out", str(out)]
    assert cli.main(words) == 0
    assert "n=4096: value = " in capsys.readouterr().out
    table, choices = read_table(out), optimizer.recommend().choices
    assert [(e.task, e.config) for e in table.entries] == [(c.task, c.config) for c in choices]
    assert "n" not in table.default
    assert table.select({"n": 600})["tile"] != 32  # the nearest task forbids it
    assert cli.main([*words, "--task", "n=3"]) == 2
    assert "the run has tasks of its own" in capsys.readouterr().err


def test_constraints_of_one_task_count_where_it_is_the_nearest():
    rows = of_tasks()
    assert rows.allowed == ((True,) * 4, (False, True, True, True), (True,) * 4)
    assert index_of(rows, {"n": 512}) == index_of(rows, {"n": 544}) == 1


def test_the_constraint_of_a_task_without_a_success_is_shipped_too(tmp_path):
    tasks = Tasks([{"n": 64}, {"n": 512}], constraints={"n=512": ["tile <= 8"]})
    optimizer = Optimizer(Space({"tile": [8, 16]}, tasks=tasks))
    optimizer.observe({"tile": 16, "n": 64}, 1.0)
    table = read_table(optimizer.ship("json", tmp_path / "tuned.json"))
    assert table.select({"n": 64}) == {"tile": 16}
    with pytest.raises(TrialError, match="may be used for n=512"):
        table.select({"n": 512})


def test_a_run_ships_the_configuration_that_its_selector_takes_for_unknown_tasks(tmp_path):
    sizes = (64, 128, 256, 512, 1024, 2048)
    optimizer = Optimizer(Space({"tile": [8, 16]}, tasks=[{"n": n} for n in sizes]))
    for n in sizes:
        optimizer.observe({"tile": 8, "n": n}, 1.1 if n == 256 else 1.0)
        optimizer.observe({"tile": 16, "n": n}, 1.0 if n == 256 else 1.3)
    assert optimizer.recommend().selector.kind == "constant"
    table = read_table(optimizer.ship("json", tmp_path / "tuned.json"))
    assert [table.select({"n": n})["tile"] for n in (128, 250, 256, 257)] == [8, 8, 16, 8]


# What is chosen -------------------------------------------------------------------------------------------------------


def is_allowed(config, n, device):
    """The constraints of the table, in Python."""
    tile, position = config["tile"], config["order"].index("k")
    if n - 8 < 0:  # the root cannot be computed
        return False
    sizes = n**2 / tile > 1 if device == "cpu" else n in range(8, 10**6, 4)
    divides = n % tile == 0 or (device in ("mi250", "gpu") and position < 2)
    return tile <= n and divides and n // tile != 3 and sizes


@settings(max_examples=150)
@given(st.integers(1, 20_000), st.sampled_from(["cpu", "gpu", "mi250", "?"]))
def test_the_nearest_entry_that_satisfies_the_constraints_is_chosen(n, device):
    near = [
        (abs(math.log(e.task["n"] / n)), i, e.config)
        for i, e in enumerate(TABLE.entries)
        if e.task["device"] == device and is_allowed(e.config, n, device)
    ]
    task = {"n": n, "device": device}
    if near:
        assert TABLE.select(task) == min(near)[2]
    elif is_allowed(TABLE.default, n, device):
        assert TABLE.select(task) == TABLE.default
    else:
        with pytest.raises(TrialError, match="no entry and no default"):
            TABLE.select(task)


@pytest.mark.parametrize("n", [0, -1, math.inf, math.nan, "64", None, [64]])
def test_a_size_that_is_none_gets_the_default(n):
    free = table(constraints=())
    assert free.select({"n": n, "device": "cpu"}) == free.default


def test_a_run_without_tasks_has_one_entry_for_all():
    assert single().select({})["tile"] == 32
    with pytest.raises(TrialError, match=r"expected the descriptors \[\]"):
        single().select({"n": 3})


def test_flags_and_numbers_below_1_must_be_equal():
    rows = (entry(16, transposed=0), entry(32, transposed=1))
    flags = ShippedTable(rows, SPACE.default_config, SPACE, stamp())
    assert flags.select({"transposed": 1})["tile"] == 32
    assert flags.select({"transposed": 2}) == flags.default


def test_a_tree_comes_before_the_distance_and_after_the_entry_of_the_task():
    rows = with_tree()

    def tile(n, device="a"):
        return rows.select({"n": n, "device": device})["tile"]

    assert tile(400) == 8  # its own entry, although the leaf prefers another one
    assert tile(399) == tile(450) == 16
    assert tile(451) == tile(1e9) == 32
    assert tile(8) == 8  # the other configurations violate the constraint
    assert tile(451, "b") == tile(451, "c") == 8  # nothing was tuned on the device c
    rows = replace(rows, rule=Leaf((1, 0, 2)))
    assert (tile(16), tile(40)) == (16, 32)


def test_an_unknown_size_never_gets_a_configuration_that_lacks_a_parameter_it_needs(tmp_path):
    rows = with_conditions()
    assert rows.select({"n": 50}) == rows.select({"n": 99}) == {"mode": "block"}
    assert rows.select({"n": 100})["tile"] == 16  # 10 is as near, but lacks a parameter
    document = json.loads(ship(rows, "json", tmp_path / "tuned.json").read_text())
    assert document["conditions"] == {"tile": "n >= 100 and mode == 'block'"}


@pytest.mark.parametrize("make", [with_conditions, of_tasks, with_own])
@pytest.mark.parametrize("kind", ["wisdom", "vllm"])
def test_programs_that_know_no_constraints_get_no_table_with_some(make, kind, tmp_path):
    with pytest.raises(RunFileError, match="without the constraint"):
        ship(make(), kind, tmp_path / "k")
    assert list(tmp_path.iterdir()) == []


def test_inactive_parameters_have_no_macro_and_no_constraint(tmp_path):
    conditional = Space(
        {"mode": ["a", "b"], "tile": Ordinal([8, 16], default=8)},
        when={"tile": "mode == 'b'"},
    )
    optimizer = Optimizer(conditional)
    optimizer.observe({"mode": "a"}, 1.0)
    path = optimizer.ship("c", tmp_path / "tuned.h", task={"n": 4}, constraints=["tile <= n"])
    text = path.read_text()
    assert "TUNED_MODE" in text
    assert "TUNED_TILE" not in text
    assert '{"a", tuned_mode_a, 0}' in text


# Tables that are refused, and stamps ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "constraints", "message"),
    [
        ((), (), "at least one entry"),
        ((entry(8, n=1), entry(8, n=1)), (), "two entries have the task n=1"),
        ((entry(8, n=1), entry(8, m=1)), (), "different descriptors"),
        ((entry(8, n=1), entry(8, n="a")), (), "has texts, booleans and numbers"),
        ((entry(64, n=32),), ("tile <= n",), "n=32 violates 'tile <= n'"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(entries, constraints, message):
    with pytest.raises(RunFileError, match=message):
        ShippedTable(entries, None, SPACE, stamp(), constraints).kinds  # noqa: B018


ORDER = {"order": [0, 1, 2]}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"order": [0]}, "does not order"),
        ({"descriptor": "m", "value": 3, "yes": ORDER, "no": ORDER}, "'m'"),
        ({"descriptor": "n", "value": "a", "yes": ORDER, "no": ORDER}, "by a wrong value"),
        ({"descriptor": "n", "value": 3, "yes": ORDER, "no": {}}, "neither an order nor two"),
        ([], "got `array` - at `..tree`"),
    ],
)
def test_a_damaged_tree_is_refused(tree, message, tmp_path):
    path = ship(with_tree(), "json", tmp_path / "tuned.json")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "tree": tree}))
    with pytest.raises(RunFileError, match=message):
        read_table(path)


def test_constraints_of_the_space_may_read_descriptors_too():
    assert [condition.text for condition in TABLE.conditions] == list(CONSTRAINTS)


def test_the_fingerprint_depends_on_the_space_alone():
    described = SPACE.to_dict()

    def of(text):
        return fingerprint({**described, "constraints": [text]})

    assert fingerprint(described) == fingerprint(dict(reversed(described.items())))
    assert fingerprint(described) != of("tile > 8")
    assert of("tile<=8  and not flag=='a b'") == of("tile <= 8 and not flag == 'a b'")
    assert of("flag == 'a b'") != of("flag == 'ab'")
    assert of("tile in [8, 16]") == of("tile in [ 8,16 ]")
    assert of("tile <= 8") != of("tile <= 9")


def test_facts_that_are_unknown_are_not_compared():
    old = Stamp("a" * 16, "time", device="A4000", compiler=None)
    assert old.differences("a" * 16, None, "gcc 13") == []
    (difference,) = old.differences(device="W7800")
    assert difference == "another device: it was tuned with device 'A4000', now it is 'W7800'"
