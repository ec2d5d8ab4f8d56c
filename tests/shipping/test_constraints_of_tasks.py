"""No format gives a task, known or not, a configuration that violates a constraint of the task."""

import shutil

import hypothesis.strategies as st
import pytest
from hypothesis import assume, given, settings
from shipped_tables import imported, index_of, run_c

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
)
from baco_like.shipping import read_table, ship

SIZES = (1, 7, 8, 16, 60, 64, 100, 512, 4096)
UNKNOWN = (1, 3, 8, 15, 16, 17, 63, 64, 65, 100, 127, 128, 181, 200, 512, 1000, 4096, 10**6)
DEVICES = ("a", "b")
CONSTRAINTS = (
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
    chosen = draw(
        st.lists(
            st.tuples(st.sampled_from(SIZES), st.sampled_from(DEVICES)),
            min_size=1,
            max_size=5,
            unique=True,
        )
    )
    names = [f"task {i}" for i in range(len(chosen))]
    descriptors = {name: {"n": n, "device": d} for name, (n, d) in zip(names, chosen, strict=True)}
    own = draw(
        st.dictionaries(
            st.sampled_from(names),
            st.lists(st.sampled_from(OWN), min_size=1, max_size=2, unique=True),
        )
    )
    texts = draw(st.lists(st.sampled_from(CONSTRAINTS), max_size=3, unique=True))
    when = {
        name: draw(st.sampled_from(options))
        for name, options in WHEN.items()
        if draw(st.integers(0, 2)) == 0
    }
    default = {"default": 8} if draw(st.booleans()) else {}
    parameters = {
        "mode": ["plain", "tiled"],
        "tile": Ordinal([8, 16, 32], **default),
        "unroll": [1, 2],
    }
    try:
        space = Space(parameters, texts, when=when, tasks=Tasks(descriptors, own))
        optimizer = Optimizer(
            space,
            Aim(goal=draw(st.sampled_from(GOALS))),
            strategy="random_search",
            seed=draw(st.integers(0, 9)),
        )
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
    for name in (
        "tile",
        "unroll",
    ):  # `unroll` may depend on `tile`, and inactive parameters decide nothing
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


def asked(optimizer):
    """Return the known tasks and unknown ones, also on a device without a run."""
    known = [dict(task) for task in optimizer.space.tasks.descriptors]
    return [*known, *({"n": n, "device": d} for n in UNKNOWN for d in (*DEVICES, "c"))]


@settings(max_examples=40)
@given(problems())
def test_no_task_gets_a_configuration_that_violates_a_constraint(tmp_path_factory, problem):
    optimizer, *rules = problem
    folder = tmp_path_factory.mktemp("shipped")
    recommended = optimizer.recommend()
    for task in asked(optimizer):
        config = recommended.selector.select(task)
        assert config is None or violation(config, task, optimizer, *rules) is None
    table = read_table(optimizer.ship("json", folder / "tuned.json"))
    module = imported(ship(table, "python", folder / "tuned.py"))
    for task in asked(optimizer):
        place = index_of(table, task)
        assert place < 0 or violation(table.configs[place], task, optimizer, *rules) is None
        assert module.index(**task) == place


def index_in_c(table, tasks, folder):
    """Return what the header's function returns for each task."""
    ship(table, "c", folder / "tuned.h")
    calls = "".join(f'    printf("%d ", tuned_index({t["n"]}, "{t["device"]}"));\n' for t in tasks)
    return run_c(folder, calls)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
@settings(max_examples=5)
@given(problems())
def test_c_chooses_as_the_table_does(tmp_path_factory, problem):
    optimizer, *_ = problem
    folder = tmp_path_factory.mktemp("shipped")
    table = read_table(optimizer.ship("json", folder / "tuned.json"))
    tasks = asked(optimizer)
    assert index_in_c(table, tasks, folder) == [index_of(table, task) for task in tasks]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs GCC")
@pytest.mark.parametrize(
    "text",
    [
        "n & tile == 0",
        "n | tile ^ 3 < 40",
        "~n & 7 == 7",
        "n << tile >= 64 and n < 200",
        "n >> tile - 2 > 1",
    ],
)
def test_bit_operators_in_c(tmp_path, text):
    optimizer = Optimizer({"tile": Ordinal([1, 2, 3], default=2)})
    optimizer.observe({"tile": 3}, 1.0)
    optimizer.observe({"tile": 2}, 2.0)
    path = optimizer.ship("json", tmp_path / "tuned.json", task={"n": 8}, constraints=[text])
    table = read_table(path)
    tasks = [{"n": n} for n in (0, 5, 8, 64, 128, 255, -3, 2**50)]
    wanted = [index_of(table, task) for task in tasks]
    assert len(set(wanted)) > 1
    ship(table, "c", tmp_path / "tuned.h")
    calls = "".join(f'    printf("%d ", tuned_index({t["n"]}));\n' for t in tasks)
    assert run_c(tmp_path, calls) == wanted


def test_the_constraint_of_a_task_without_a_success_is_shipped_too(tmp_path):
    tasks = Tasks([{"n": 64}, {"n": 512}], constraints={"n=512": ["tile <= 8"]})
    optimizer = Optimizer(Space({"tile": [8, 16]}, tasks=tasks))
    optimizer.observe({"tile": 16, "n": 64}, 1.0)
    table = read_table(optimizer.ship("json", tmp_path / "tuned.json"))
    module = imported(ship(table, "python", tmp_path / "tuned.py"))
    assert table.select({"n": 64}) == module.select(n=64) == {"tile": 16}
    assert module.index(n=512) == -1
    with pytest.raises(TrialError, match="may be used for n=512"):
        table.select({"n": 512})
    with pytest.raises(RunFileError, match="without the constraint"):
        ship(table, "wisdom", tmp_path / "kernel.wisdom")
