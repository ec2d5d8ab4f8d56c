"""The choices of the default strategy, and its search with many parameters."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from baco_like import Categorical, Integer, Optimizer, Ordinal, Permutation, Real, Search, Space
from baco_like.acquisitions.optimizers import LocalSearch
from baco_like.exceptions import TrialError
from baco_like.records import History
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.design import branch_of, enter
from baco_like.strategies import Bayesian
from baco_like.strategies.auto import Auto, choose
from baco_like.strategies.bayesian.fitting import with_quantities
from baco_like.strategies.bayesian.repeats import EXPECTED, chance_of_effect, prefer_new_programs
from baco_like.strategies.initial_phase import Phased, size_by_orders
from baco_like.strategies.protocol import Problem

KERNEL = Space(
    {"bx": [8, 16, 32, 48, 64, 128], "by": [1, 2, 4, 8], "tile": [1, 2, 3, 4, 6, 8]},
    constraints=["bx * by <= 256"],
)


def test_the_first_tags_name_the_choice_and_its_reason():
    opt = Optimizer(KERNEL, seed=1)
    trial = opt.suggest()
    assert trial.tag["auto"].startswith(f"bayesian: {KERNEL.feasible_size} configurations")
    opt.observe(trial, 1.0)
    assert "auto" not in opt.suggest().tag


FLAGS = Space({f"flag{i}": ["off", "on"] for i in range(6)})


@pytest.mark.parametrize(
    ("space", "size", "designs"),
    [
        (KERNEL, "after 3 of the design, up to 8 if the middle loses", ["middle"] * 2),
        (
            FLAGS,
            "after 8 of the design, as the space has no distinct middle",
            ["latin_hypercube"] * 8,
        ),
    ],
)
def test_the_reason_has_the_number_of_first_trials(space, size, designs):
    opt = Optimizer(space, seed=1)
    trials = opt.suggest(len(designs))
    assert [trial.tag["design"] for trial in trials] == designs
    assert opt.why(trials[0])["auto"].endswith(f" by the model {size}")


def test_hardly_any_configurations_are_run_through():
    opt = Optimizer(Space({"a": [1, 2, 3]}), seed=1)
    trials = opt.suggest(3)
    assert [t["a"] for t in trials] == [1, 2, 3]
    assert trials[0].tag["auto"] == "exhaustive: there are 3 configurations"
    opt.observe(trials, [1.0, 2.0, 3.0])
    with pytest.raises(TrialError, match="no model"):
        opt.predict([{"a": 1}])


def test_hardly_any_noisy_configurations_are_measured_in_turn():
    opt = Optimizer(Space({"a": [1, 2, 3]}), seed=1, strategy=Search(noise="repeat"))
    asked = []
    for i in range(9):
        trial = opt.suggest()
        asked.append(trial["a"])
        opt.observe(trial, failed="runtime") if i == 1 else opt.observe(trial, 1.0)
    assert asked == [1, 2, 3, 1, 3, 1, 3, 1, 3]


@pytest.mark.parametrize("values", [[2**53 + 1, 2**53 + 2], [10**17 + i for i in range(5)]])
def test_numbers_with_equal_logarithms_have_their_own_features(values):
    opt = Optimizer(Space({"a": values, "b": [1, 2, 3, 4]}), seed=1)
    for _ in range(8):
        trial = opt.suggest()
        opt.observe(trial, float(trial["b"]))
    assert len(opt.trials) == 8


def widths(succeeding: int, points: int = 24) -> list[int]:
    """Return the widths of the first points, one success being the trial of that number."""
    space = Space({"p": Permutation(range(4)), "width": [1, 8, 16]})
    opt = Optimizer(space, seed=1, strategy=Search(settings={"initial": points}))
    found = []
    for number in range(points):
        trial = opt.suggest()
        assert trial.tag["phase"] == "design"
        found.append(trial["width"])
        if number == succeeding:
            opt.observe(trial, 1.0)
        else:
            opt.observe(trial, failed="compile")
    return found


def test_first_points_of_orders_have_no_middle_until_one_succeeds():
    assert set(widths(succeeding=-1)) == {1, 8, 16}
    early = widths(succeeding=11)
    assert set(early[:12]) == {1, 8, 16}
    assert set(early[12:]) == {8}


@pytest.mark.parametrize(("loops", "points"), [(0, 3), (3, 3), (5, 6), (6, 9), (20, 10)])
def test_many_orders_are_given_more_first_points(loops, points):
    orders = {"order": Permutation(range(loops))} if loops else {}
    space = Space({"tile": [1, 2, 4, 8, 16], **orders})
    assert size_by_orders(space) == points
    opt = Optimizer(space, seed=1, strategy=Search(settings={"design": "uniform"}))
    for cost in range(1, points + 1):
        trial = opt.suggest()
        assert trial.tag["phase"] == "design"
        opt.observe(trial, cost)
    assert opt.suggest().tag.get("phase") != "design"


@pytest.mark.parametrize(("loops", "draws"), [(6, LocalSearch().candidates), (7, 700)])
def test_the_search_begins_with_fewer_draws_beside_a_long_order(loops, draws):
    space = Space({"order": Permutation(range(loops)), "tile": Integer(1, 1000)})
    strategy, _ = choose(Problem(space), Auto())
    assert strategy.then.then.then.search.candidates == draws


@pytest.mark.parametrize("seed", range(3))
def test_a_rate_maximised_gives_the_run_of_the_time_minimised(seed):
    """Powers of two, whose logarithms are exact mirror images, so that rounding decides nothing."""

    def exponent(config):
        return abs(config["tile"] - 3) + abs(config["bx"] - 48) // 16 + config["by"]

    def run(direction):
        opt = Optimizer(KERNEL, direction, seed=seed)
        for _ in range(20):
            trial = opt.suggest()
            if trial["by"] == 8:
                opt.observe(trial, failed="runtime")
            else:
                k = exponent(trial.config)
                opt.observe(trial, 2.0**k if direction == "minimize" else 2.0**-k)
        return [trial.config for trial in opt.history.trials]

    assert run("maximize") == run("minimize")


def test_a_parameter_of_which_nothing_is_known_gets_the_most_probable_lengthscale():
    opt = Optimizer(KERNEL, seed=1, strategy=Search(settings={"initial": 3}))
    for _ in range(3):
        opt.observe(opt.suggest(), 1.0)
    # One in which the first points do not differ has the mode of a log-normal density of median 4 and spread 1.
    lengthscales = opt.suggest().tag["hyperparameters"]["lengthscales"]
    assert min(lengthscales) == pytest.approx(4.0 * np.exp(-1.0), rel=1e-3)


def failures(strategy, seed):
    opt = Optimizer(KERNEL, seed=seed, strategy=strategy)
    for _ in range(24):
        trial = opt.suggest()
        if trial["tile"] * trial["by"] > 8 or (trial["bx"] == 48 and trial["tile"] > 2):
            opt.observe(trial, failed="runtime")
        else:
            opt.observe(
                trial, 100.0 / (trial["tile"] * trial["by"])
            )  # the best ones are next to failing ones
    return sum(t.failure is not None for t in opt.trials)


def test_imputed_failures_keep_the_surrogate_away_from_them():
    def strategy(failed_as):
        return Phased(Bayesian(view=with_quantities, failed_as=failed_as), 4)

    told = [failures(strategy(0.75), seed) for seed in range(3)]
    untold = [failures(strategy(None), seed) for seed in range(3)]
    assert np.mean(told) < np.mean(untold)


@pytest.mark.parametrize("wrong", [-0.1, 1.5])
def test_the_imputed_cost_of_a_failure_must_be_a_quantile(wrong):
    with pytest.raises(ValueError, match=r"failed_as = .* at most 1"):
        Bayesian(failed_as=wrong)


def test_quantities_of_the_constraints_help():
    """The cost is a matter of threads and of powers of two; a model that sees them gets on faster."""
    blocks = Space(
        {
            "bx": [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 256],
            "by": [1, 2, 3, 4, 5, 6, 8, 16],
            "bz": [1, 2, 3, 4, 6, 8],
        },
        constraints=["bx * by * bz <= 1024"],
    )

    def cost(config):
        threads = config["bx"] * config["by"] * config["bz"]
        halvings = (config["bx"] & -config["bx"]).bit_length() - 1
        odd = 5 - min(5, halvings)
        return 1 + 3 * abs(np.log2(threads) - 8) + odd + abs(np.log2(config["by"]) - 1)

    def mean_best(strategy, seed):
        # Both begin at the same place, so only what the models see differs.
        same = {"initial": 3, "design": "uniform"}
        opt = Optimizer(blocks, seed=seed, strategy=Search(strategy, same))
        values = []
        for _ in range(24):
            trial = opt.suggest()
            values.append(cost(trial))
            opt.observe(trial, values[-1])
        return np.minimum.accumulate(values).mean()

    seeing = [mean_best("auto", seed) for seed in range(5)]
    blind = [mean_best("bayesian", seed) for seed in range(5)]
    assert np.mean(seeing) < 0.9 * np.mean(blind)


@pytest.mark.parametrize(
    ("strategy", "settings", "message"),
    [
        ("auto", {"initial": "a"}, "strategy 'auto': initial = 'a'; it takes int | None"),
        ("auto", {"initial": True}, "initial = True; it takes int | None"),
        ("auto", {"initial": -1}, "initial = -1: expected a number of at least 0"),
        ("bayesian", {"initial": -1}, "initial = -1: expected a number of at least 0"),
        ("genetic_algorithm", {"population": "x"}, "population = 'x'; it takes int"),
        ("simulated_annealing", {"temperature": "hot"}, "temperature = 'hot'; it takes"),
    ],
)
def test_a_setting_of_another_kind_is_refused_before_anything_is_written(
    tmp_path, strategy, settings, message
):
    with pytest.raises(ValueError, match=re.escape(message)):
        Optimizer(KERNEL, strategy=Search(strategy, settings), storage=tmp_path / "j")
    assert not (tmp_path / "j").exists()


COUNT = 100
_rng = np.random.default_rng(5)
ACTIVE = dict(zip(_rng.permutation(COUNT)[:24].tolist(), _rng.standard_normal(24), strict=True))
BEST = 100.0 + sum(effect for effect in ACTIVE.values() if effect < 0.0)


def flags(count=COUNT, **options):
    return Space(
        {f"f{i}": Categorical([False, True], default=False) for i in range(count)}, **options
    )


def cost(config):
    return 100.0 + sum(effect for place, effect in ACTIVE.items() if config[f"f{place}"])


def program(config):
    return "program" + " ".join(str(place) for place in ACTIVE if config[f"f{place}"])


def run(space, trials, seed=0):
    optimizer = Optimizer(space, seed=seed)
    for _ in range(trials):
        trial = optimizer.suggest()
        optimizer.observe(trial, cost(trial.config), program=program(trial.config))
    return optimizer


def test_the_design_changes_every_parameter_once():
    trials = run(flags(), 9).trials
    assert not any(trials[0].config.values())
    changes = [{name for name, on in trial.config.items() if on} for trial in trials[1:]]
    assert set().union(*changes) == set(flags().parameters)
    assert sum(map(len, changes)) == COUNT


@pytest.mark.parametrize("seed", range(3))
def test_most_of_the_gain_is_found_within_half_as_many_trials_as_flags(seed):
    draws = np.random.default_rng(seed).random((50, COUNT)) < 0.5
    drawn = min(cost({f"f{i}": on for i, on in enumerate(row)}) for row in draws)
    assert run(flags(), 50, seed).best_value - BEST < 0.4 * (drawn - BEST)


def history_of_programs(space, runs):
    """Return the history of trials in which the flags f3 and f4 decide about the program."""
    history = History.start(space)
    for number, on in enumerate(runs):
        config = {f"f{i}": i in on for i in range(6)}
        extra = {"program": f"{config['f3']} {config['f4']}"}
        outcome = Outcome.success(number, (1.0,), extra=extra)
        trial = Trial(number, config, None, "user")
        history, _ = history.complete([outcome], {number: (trial, space.encode([config])[0])})
    return history


RUNS = [(), (0,), (1,), (2,), (0, 1, 2, 3), (0, 1, 2), (4,), (0, 4)]


def test_equal_programs_show_which_flags_are_inert():
    chance = chance_of_effect(history_of_programs(flags(6), RUNS))
    assert min(chance[[3, 4]]) > 2 * max(chance[[0, 1, 2]])
    assert chance[5] == EXPECTED  # never changed


def test_configurations_of_known_programs_are_avoided():
    space = flags(6)
    history = history_of_programs(space, RUNS)
    rows = space.encode([{f"f{i}": i in on for i in range(6)} for on in ((0,), (1, 2), (3, 4))])
    score = prefer_new_programs(lambda codes: np.zeros(len(codes)), history)
    assert (np.diff(score(rows)) > 0.5).all()
    unnamed = prefer_new_programs(np.sum, History.start(space))
    assert unnamed is np.sum


def test_without_a_default_the_trials_spread_first():
    space = Space({f"f{i}": [False, True] for i in range(COUNT)})
    optimizer = run(space, 40)
    draws = np.random.default_rng(0).random((40, COUNT)) < 0.5
    drawn = min(cost({f"f{i}": on for i, on in enumerate(row)}) for row in draws)
    assert optimizer.best_value - BEST < 0.6 * (drawn - BEST)


# ---- Steps into the branches of conditional parameters beside that of the best configuration ----


SPACE = Space(
    {
        "kind": Categorical(["plain", "tiled", "fused"]),
        "size": Ordinal([1, 2, 4, 8]),
        "tile": Integer(0, 40),
        "fuse": Integer(0, 40),
        "depth": Integer(1, 3),
        "inner": Categorical(["x", "y"]),
        "order": Permutation(["i", "j", "k"]),
    },
    constraints=["tile + size <= 44"],
    when={
        "tile": "kind == 'tiled'",
        "fuse": "kind == 'fused'",
        "inner": "depth >= 2",
        "order": "inner == 'y'",
    },
)


SMALL = Space(
    {name: SPACE.parameters[name] for name in ("kind", "size", "tile", "fuse")},
    when={"tile": "kind == 'tiled'", "fuse": "kind == 'fused'"},
)


def misleading(config):
    """The branch that looks worst at the middle of its parameter has the best configuration, in a narrow peak."""
    other = 0.1 * abs(config["size"] - 4) + 0.05 * (config.get("depth", 1) - 1)
    if config["kind"] == "plain":
        return 2.0 + other
    if config["kind"] == "tiled":
        return 1.5 + 0.02 * abs(config["tile"] - 18) + other
    return 5.0 - 4.5 * math.exp(-(((config["fuse"] - 31) / 12) ** 2)) + other


def run_branches(count, cost=misleading, seed=1, strategy="auto", space=SPACE, storage=None):
    optimizer = Optimizer(space, seed=seed, strategy=strategy, storage=storage)
    while len(optimizer.trials) < count:
        trial = optimizer.suggest()
        value = cost(trial.config)
        optimizer.observe(trial, value, failed="runtime" if value is None else None)
    return optimizer


def entered(optimizer):
    return [trial.tag.get("branch") for trial in optimizer.trials]


@pytest.mark.parametrize("seed", range(2))
def test_a_branch_that_looks_bad_is_not_given_up(seed):
    optimizer = run_branches(32, seed=seed, space=SMALL)
    assert optimizer.best["kind"] == "fused"
    steps = entered(optimizer)
    assert not any(a and b for a, b in itertools.pairwise(steps))


def test_every_branch_beside_the_best_one_gets_its_share():
    optimizer = run_branches(24)
    rows = optimizer.history.codes
    best = rows[int(np.argmin(optimizer.history.costs))]
    counts = [branch.contains(rows).sum() for branch in branch_of(SPACE, best).neighbours()]
    assert min(counts) >= math.log(24) - 1.5  # the best branch may have changed lately


def test_a_branch_that_fails_gets_no_more_than_the_others():
    optimizer = run_branches(
        20, lambda config: None if config["kind"] == "fused" else misleading(config), seed=2
    )
    failed = [trial for trial in optimizer.trials if trial.failure]
    assert 2 <= len(failed) <= 8


def test_batches_have_at_most_one_step_into_a_branch():
    optimizer = Optimizer(SPACE, seed=1)
    for _ in range(6):
        trials = optimizer.suggest(4)
        assert sum("branch" in trial.tag for trial in trials) <= 1
        optimizer.observe(trials, [misleading(trial.config) for trial in trials])


@pytest.mark.parametrize("seed", range(20))
def test_neighbouring_branches_differ_in_one_step(seed):
    rng = np.random.default_rng(seed)
    (row,) = SPACE.feasible.sample(1, rng)
    own = branch_of(SPACE, row)
    assert own.contains(row[None]).all()
    assert own.text == ""
    for branch in own.neighbours():
        assert not branch.contains(row[None]).any()
        rows = enter(branch, row, rng)
        assert branch.contains(rows).all()
        assert SPACE.feasible.contains(rows).all()
    (config,) = SPACE.decode(row[None])
    texts = {branch.text for branch in own.neighbours()}
    assert {f"kind = {kind!r}" for kind in ("plain", "tiled", "fused")} - texts == {
        f"kind = {config['kind']!r}"
    }
    assert ("inner is inactive" in texts) == ("inner" in config)


def reals():
    return Space(
        {"kind": Categorical(["a", "b"]), "x": Real(0.0, 1.0), "y": Real(0.0, 1.0)},
        when={"y": "kind == 'b'"},
    )


@pytest.mark.parametrize(
    ("space", "scan_limit"),
    [(SPACE, 20_000), (SPACE, 0), (reals(), 0)],
    ids=["scan", "search", "mixed"],
)
def test_the_model_proposes_within_a_region(space, scan_limit):
    optimizer = Optimizer(space, seed=3, strategy="random_search")
    for _ in range(12):
        optimizer.observe(optimizer.suggest(), len(optimizer.trials) % 5 + 0.5)
    kind = space.columns["kind"].start
    problem = Problem(space)
    wanted = replace(problem, region=lambda codes: codes[:, kind] == 1)
    strategy = Bayesian(scan_limit=scan_limit)
    rng = np.random.default_rng(1)
    state = strategy.init(problem, rng)
    proposals = strategy.ask(wanted, optimizer.history, state, 2, rng)
    assert len(proposals) == 2
    assert all(proposal.code[kind] == 1 for proposal in proposals)


def test_imported_trials_outside_the_space_are_left_out():
    optimizer = Optimizer(SPACE, seed=2)
    optimizer.observe({"kind": "gone"}, 0.5, imported=True)
    for _ in range(40):  # the search converges, and then visits the branches by their best values
        trial = optimizer.suggest()
        optimizer.observe(trial, 1.0 + (trial.config["kind"] != "plain"))
    assert any("branch" in trial.tag for trial in optimizer.trials[20:])


def test_spaces_without_conditions_have_no_such_steps():
    space = Space({"kind": Categorical(["a", "b"]), "x": Integer(0, 30)})
    optimizer = run_branches(15, lambda config: config["x"] + (config["kind"] == "a"), space=space)
    assert entered(optimizer) == [None] * 15
    strategy, _ = choose(Problem(space), Auto())
    assert "Branch" not in repr(strategy)
