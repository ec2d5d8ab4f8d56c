"""Experience: parameters of other programs are matched, few configurations cover their runs, and the list stops."""

import json
import math

import pytest

from baco_like import (
    Categorical,
    ConfigError,
    Integer,
    JournalError,
    Optimizer,
    Ordinal,
    Permutation,
    Real,
    RunFileError,
    Search,
    Space,
    WarmStartWarning,
)
from baco_like.journal import JsonlJournal
from baco_like.journal.events import START
from baco_like.journal.header import Header
from baco_like.optimizer.experience import LEAST_SHARE, match_names
from baco_like.records.objective_values import outcome_from
from baco_like.records.sources import EXPERIENCE, MOST_MISSES
from baco_like.results import Recording
from baco_like.results.recording import recording

SPACE = Space(
    {
        "block_size_x": Ordinal([16, 32, 64, 128, 256], log=True),
        "unroll": Integer(1, 8),
        "layout": Categorical(["rows", "columns", "blocks"]),
    },
    constraints=["block_size_x * unroll <= 1024"],
)


def measured(space, cost, n=40, **options):
    """Return the optimizer of a finished run on another space."""
    opt = Optimizer(space, seed=3, **{"strategy": "random_search", **options})
    for trial in opt.suggest(n):
        value = cost(trial)
        opt.observe(trial, value, failed=None if value is not None else "runtime")
    return opt


def table(space, cost, objective="value", direction=None):
    """Return all configurations of a space as recorded results."""
    rows = [(dict(c), outcome_from(i, cost(c), "value")) for i, c in enumerate(space)]
    return recording(rows, objective=objective, direction=direction)


def advised(space, *items, **options):
    opt = Optimizer(space, strategy=Search(experience=list(items)), **options)
    return [(dict(p.config), p.note) for p in opt.history.open_proposals]


def bowl(x, unroll, layout):
    def cost(c):
        away = abs(math.log2(c["block_size_x"]) - x) + abs(c["unroll"] - unroll)
        return 1.0 + away + (c["layout"] != layout)

    return cost


NARROW, WIDE = bowl(5, 2, "rows"), bowl(8, 4, "blocks")


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("block_size_x", "block_size_x"),
        ("-funroll-loops", "unroll"),
        ("unroll_factor", "-funroll-loops"),
        ("unrollFactor", "unroll"),
        ("tileX", "tile_size_x"),
        ("BLOCK_SIZE_X", "block_size_x"),
        ("-mavx2", "avx2"),
        ("loops", "LOOP"),
    ],
)
def test_similar_names_match(theirs, ours):
    assert match_names([theirs, "other"], [ours, "another"]) == {ours: theirs}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("x", "tile_x"),
        ("block_size_y", "block_size_x"),
        ("tile", "tile_x"),
        ("-mavx512f", "avx2"),
        ("tile", "unroll"),
        ("-f", "f"),
    ],
)
def test_other_names_do_not_match(theirs, ours):
    assert match_names([theirs], [ours]) == {}


def test_a_name_with_two_similar_ones_matches_none_of_them():
    assert match_names(["tile_width", "tile_height"], ["tile"]) == {}
    assert match_names(["tile"], ["tile_width", "tile_height"]) == {}
    assert match_names(["tile_width", "tile"], ["tile"]) == {"tile": "tile"}


def test_the_best_configurations_of_two_programs_are_advised_with_their_names():
    found = advised(SPACE, table(SPACE, NARROW), table(SPACE, WIDE))
    best = [
        {"block_size_x": 32, "unroll": 2, "layout": "rows"},
        dict(block_size_x=256, unroll=4, layout="blocks"),
    ]
    assert sorted(found, key=str) == sorted(
        [(best[0], "best of recording 1"), (best[1], "best of recording 2")], key=str
    )


def test_one_configuration_that_is_best_everywhere_is_enough():
    (only,) = advised(SPACE, table(SPACE, NARROW), table(SPACE, NARROW))
    assert only[1] == "best of recording 1, recording 2"


def test_values_are_mapped_to_equal_labels_and_nearest_numbers_and_into_the_constraints():
    other = Space(
        {
            "blockSizeX": Ordinal([8, 40, 512], log=True),
            "unroll_factor": Integer(1, 16),
            "layout": Categorical(["columns", "rows", "blocks"]),
        }
    )

    def cost(c):  # 512 is nearest to 256, 9 to 8; together they are infeasible here
        return (
            1.0
            + abs(c["blockSizeX"] - 512)
            + abs(c["unroll_factor"] - 9)
            + (c["layout"] != "columns")
        )

    (config, _), *_ = advised(SPACE, table(other, cost))
    assert config["layout"] == "columns"
    assert (config["block_size_x"], config["unroll"]) in [(256, 4), (128, 7), (128, 8)]


def test_the_nearest_number_is_on_the_scale_and_unknown_labels_are_left_out():
    other = Space(
        {
            "block_size_x": Ordinal([16, 23, 256]),
            "unroll": Integer(1, 8),
            "layout": Categorical(["rows", "columns", "tiles"]),
        }
    )

    def cost(c):  # 23 is nearer to 32 than to 16 as a ratio
        return 1.0 + abs(c["block_size_x"] - 23) + c["unroll"] + 9 * (c["layout"] != "tiles")

    found = advised(SPACE, table(other, lambda c: cost(c) - (c["layout"] == "columns")))
    assert found[0][0] == {"block_size_x": 32, "unroll": 1, "layout": "columns"}


def test_unknown_parameters_have_their_defaults_or_are_in_the_middle():
    space = Space(
        {
            "tile": Ordinal([8, 16, 32], default=8),
            "mode": Categorical(["a", "b", "c"], default="c"),
            "depth": Ordinal([1, 2, 3, 4, 5], default=5),
            "size": Integer(1, 9),
            **{f"part{i}": [1, 2] for i in range(4)},
        }
    )
    known = Space(
        {name: p for name, p in space.parameters.items() if name not in ("mode", "depth", "size")}
    )
    (config, _), *_ = advised(space, table(known, lambda c: c["tile"] / c["part0"] / c["part1"]))
    assert [config[n] for n in ("tile", "mode", "depth", "size")] == [8, "c", 5, 5]
    assert (config["part0"], config["part1"]) == (2, 2)


def test_none_is_a_label():
    space = Space({"tile": [None, (8, 8), (4, 16)], "n": [1, 2, 4]})
    source = table(space, lambda c: c["n"] + 10.0 * (c["tile"] is not None))
    (config, _), *_ = advised(space, source)
    assert config == {"tile": None, "n": 1}


def test_a_program_that_knows_more_of_the_parameters_weighs_more():
    part = Space({n: p for n, p in SPACE.parameters.items() if n != "layout"})
    half = table(part, lambda c: NARROW({**c, "layout": "rows"}) ** 1.2)
    whole = table(SPACE, WIDE)
    for items in ([half, whole], [whole, half]):
        assert advised(SPACE, *items)[0][0] == {
            "block_size_x": 256,
            "unroll": 4,
            "layout": "blocks",
        }


def test_numbers_that_are_missing_have_the_nearest_one_of_an_interval():
    space = Space({"share": Real(0.0, 0.9), "size": Integer(1, 10)})
    other = Space({"share": Ordinal([0.0, 0.5, 1.5]), "size": Ordinal([2, 20])})
    (config, _), *_ = advised(space, table(other, lambda c: 9 - c["share"] - c["size"] / 10))
    assert config == {"share": 0.9, "size": 10}


def test_orders_match_by_their_elements():
    space = Space({"order": Permutation(["i", "j", "k"]), "tile": [4, 8]})
    other = Space({"order": Permutation(["k", "j", "i"]), "tile": [4, 8]})
    (config, _), *_ = advised(space, table(other, lambda c: 1 + c["order"].index("j") + c["tile"]))
    assert config["order"][0] == "j"
    assert config["tile"] == 4


def test_a_run_that_knows_too_few_parameters_says_nothing():
    assert LEAST_SHARE == 0.5
    few = Space({"unroll": Integer(1, 8), "other": [1, 2]})
    assert advised(SPACE, table(few, lambda c: c["unroll"])) == []
    shifted = Space({"block_size_x": Ordinal([1, 2, 4, 8, 16], log=True), "unroll": Integer(1, 8)})
    assert advised(SPACE, table(shifted, lambda c: c["unroll"])) == []


def test_failures_are_not_advised():
    def cost(c):
        return None if c["layout"] == "rows" else WIDE(c)

    found = advised(SPACE, table(SPACE, cost), table(SPACE, NARROW))
    assert all(note == "best of recording 2" for c, note in found if c["layout"] == "rows")


@pytest.mark.parametrize("sign", [1, -1])
def test_more_is_better_in_a_run_that_maximises(sign):
    known = table(SPACE, lambda c: sign * (100 - NARROW(c)), direction="maximize")
    best = {"block_size_x": 32, "unroll": 2, "layout": "rows"}
    worst = advised(SPACE, table(SPACE, lambda c: -NARROW(c)))
    assert (advised(SPACE, known, aim="maximize")[0][0] == best) is (sign == 1)
    assert worst[0][0] != best


def test_a_folder_is_read_with_its_subfolders_and_without_other_files(tmp_path):
    (tmp_path / "best.json").write_text("{}")
    search = Search(experience=tmp_path)
    with pytest.warns(WarmStartWarning, match=r"no run in it .* left out are best\.json"):
        assert not Optimizer(SPACE, strategy=search).history.open_proposals
    for name, cost in (("a", NARROW), ("b", WIDE)):
        (tmp_path / name).mkdir()
        measured(SPACE, cost, 60, storage=tmp_path / name / "run.jsonl")
    opt = Optimizer(SPACE, strategy=search, storage=tmp_path / "own.jsonl")
    notes = [p.note.removeprefix("best of ").split(", ") for p in opt.history.open_proposals]
    assert {name for note in notes for name in note} == {"a/run.jsonl", "b/run.jsonl"}


def test_other_objectives_and_directions_are_refused(tmp_path):
    path = tmp_path / "run.jsonl"
    measured(SPACE, NARROW, aim={"size": "minimize"}, storage=path)
    with pytest.raises(RunFileError, match=r"experience \S+: its objective is 'size'"):
        advised(SPACE, path, aim={"time": "minimize"})
    with pytest.raises(RunFileError, match="to minimize, not to maximize"):
        advised(SPACE, path, aim={"size": "maximize"})
    assert advised(SPACE, path, aim={"size": "minimize"})
    with pytest.raises(ConfigError, match="it is a file"):
        Optimizer(SPACE, strategy=Search(experience=path))
    with pytest.warns(WarmStartWarning, match="no such folder yet"):
        Optimizer(SPACE, strategy=Search(experience=tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="tasks"):
        advised(Space({"a": [1, 2]}, tasks=["x", "y"]), path)


def test_each_task_is_a_program_and_only_the_target_fidelity_counts(tmp_path):
    tasks = SPACE.with_tasks(["narrow", "wide"])
    path = tmp_path / "tasks.jsonl"
    measured(tasks, lambda t: (NARROW if t["task"] == "narrow" else WIDE)(t), 120, storage=path)
    notes = [note for _, note in advised(SPACE, path)]
    assert {"best of tasks.jsonl narrow", "best of tasks.jsonl wide"} <= set(notes)
    cheap = Space(SPACE.parameters, fidelity={"n": [1, 4]})
    path = tmp_path / "cheap.jsonl"
    measured(cheap, lambda t: NARROW(t) if t["n"] == 4 else WIDE(t) / 9, 200, storage=path)
    assert advised(SPACE, path)[0][0] == {"block_size_x": 32, "unroll": 2, "layout": "rows"}


def run(opt, n, cost):
    for _ in range(n):
        trial = opt.suggest()
        opt.observe(trial, cost(trial))
    return [(t.origin, t.tag) for t in opt.trials]


def test_the_list_follows_the_first_trial_and_stops_after_two_misses():
    items = [
        table(SPACE, bowl(x, u, name))
        for x, u, name in [(4, 1, "rows"), (6, 4, "rows"), (8, 2, "blocks"), (7, 8, "columns")]
    ]
    opt = Optimizer(SPACE, strategy=Search("random_search", experience=items))
    open_ = len(opt.history.open_proposals)
    assert open_ == 4
    worse = iter(range(1, 100))
    trials = run(opt, 8, lambda t: next(worse))
    assert [origin for origin, _ in trials] == [
        "strategy",
        "proposed",
        "proposed",
        *["strategy"] * 5,
    ]
    assert trials[1][1] == {"source": EXPERIENCE, "note": trials[1][1]["note"]}
    assert len(opt.history.open_proposals) >= open_ - MOST_MISSES - 1

    opt = Optimizer(SPACE, strategy=Search("random_search", experience=items))
    better = iter([9, 8, 8.5, 7, 6.5, 20, 21])  # a single miss does not end the list
    assert [origin for origin, _ in run(opt, 6, lambda t: next(better))][1:5] == ["proposed"] * 4


def test_of_several_trials_at_once_at_most_two_are_of_the_experience():
    items = [
        table(SPACE, bowl(x, u, name))
        for x, u, name in [(4, 1, "rows"), (6, 4, "rows"), (8, 2, "blocks")]
    ]
    opt = Optimizer(SPACE, strategy=Search("random_search", experience=items))
    assert [t.origin for t in opt.suggest(5)].count("proposed") == MOST_MISSES


def test_the_default_comes_first():
    space = Space({"tile": Ordinal([8, 16, 32], default=32), "n": Ordinal([1, 2], default=1)})
    known = table(Space({"tile": [8, 16, 32], "n": [1, 2]}), lambda c: c["tile"] / c["n"])
    opt = Optimizer(space, strategy=Search(experience=[known]))
    first, second = opt.suggest(2)
    assert (first.origin, dict(first)) == ("enqueued", {"tile": 32, "n": 1})
    assert (second.origin, dict(second)) == ("proposed", {"tile": 8, "n": 2})


def test_a_resume_needs_no_files(tmp_path):
    known, path = tmp_path / "known.jsonl", tmp_path / "run.jsonl"
    measured(SPACE, NARROW, 60, storage=known)
    search = Search(experience=[known])
    opt = Optimizer(SPACE, seed=5, strategy=search, storage=path)
    expected = [(p.config, p.note) for p in opt.history.open_proposals]
    opt.observe(opt.suggest(), 9.0)
    header, _ = next(iter(JsonlJournal(path).read(START)))
    assert [row["note"] for row in header["experience"]] == ["best of known.jsonl"] * len(expected)
    known.unlink()
    again = Optimizer(SPACE, seed=5, strategy=search, storage=path)
    assert [(p.config, p.note) for p in again.history.open_proposals] == expected
    assert dict(Optimizer.load(path).suggest()) == expected[0][0]


@pytest.mark.parametrize("row", [{"config": {}}, {"note": "a", "config": 1}, 3])
def test_a_damaged_list_in_a_header_is_an_error(tmp_path, row):
    Optimizer(SPACE, storage=tmp_path / "run.jsonl")
    (event,) = [event for event, _ in JsonlJournal(tmp_path / "run.jsonl").read(START)]
    with pytest.raises(JournalError, match=r"not a header: .*experience"):
        Header.read({**event, "experience": [row]}, "run.jsonl")


def test_without_experience_the_journal_is_the_same(tmp_path):
    events = []
    for name, search in (
        ("a", Search()),
        ("b", Search(experience=[table(Space({"z": [1, 2]}), lambda c: c["z"])])),
    ):
        opt = Optimizer(SPACE, seed=2, strategy=search, storage=tmp_path / name)
        run(opt, 6, NARROW)
        events.append([json.loads(line) for line in (tmp_path / name).read_text().splitlines()])
    assert not any("experience" in opened for opened, *_ in events)
    assert [e.get("trials") for e in events[0]] == [e.get("trials") for e in events[1]]


def test_a_recording_is_recognised_by_its_type():
    assert isinstance(table(SPACE, NARROW), Recording)
