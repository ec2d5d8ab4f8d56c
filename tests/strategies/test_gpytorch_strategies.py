"""Model-based strategies with ``surrogate="gpytorch"``: by name in Python and TOML, resumed, with related tasks."""

import functools

import numpy as np
import pytest

from baco_like import Optimizer, Ordinal, Search, Space, WarmStart
from baco_like.cli import main
from baco_like.exceptions import StrategyError
from baco_like.strategies.auto import Auto
from baco_like.strategies.bayesian.bayesian import Bayesian
from baco_like.strategies.registry import create_strategy
from baco_like.surrogates.gp.gaussian_process import load_gpytorch

GPyTorchGP = load_gpytorch()

SPACE = Space(
    {
        "x": Ordinal([2**i for i in range(8)], log=True),
        "y": Ordinal(list(range(12))),
        "flag": ["a", "b", "c"],
    },
    constraints=["x * y <= 900"],
)
NAMES = ["auto", "bayesian", "baco", "kernel_tuner_bo", "smac"]
OFTEN = ("auto", "baco")
RUN = [n if n in OFTEN else pytest.param(n, marks=pytest.mark.nightly) for n in NAMES]


def cost(config):
    bowl = (np.log2(config["x"]) - 5) ** 2 + 0.5 * (config["y"] - 7) ** 2
    return float(1.0 + bowl + 2.0 * (config["flag"] != "b"))


def run(optimizer, n):
    for _ in range(n):
        trial = optimizer.suggest()
        if trial.id % 7 == 3:
            optimizer.observe(trial, failed="runtime")
        else:
            optimizer.observe(trial, cost(trial))
    return [dict(trial.config) for trial in optimizer.trials]


def optimizer_of(name, seed=0, **options):
    settings = {"surrogate": "gpytorch", "device": "cpu", "initial": 6}
    return Optimizer(SPACE, strategy=Search(name, settings), seed=seed, **options)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return a function: an optimizer after 18 evaluations, their configurations, and the journal."""
    folder = tmp_path_factory.mktemp("runs")

    @functools.cache
    def evaluate(name):
        journal = folder / f"{name}.jsonl"
        optimizer = optimizer_of(name, storage=journal)
        return optimizer, run(optimizer, 18), journal

    return evaluate


@pytest.mark.parametrize("name", RUN)
def test_suggestions_are_better_than_random(name, undisturbed):
    optimizer, configs, _ = undisturbed(name)
    assert len({tuple(config.values()) for config in configs}) == 18
    costs = sorted(cost(config) for config in SPACE.sample(2000, seed=0))
    assert optimizer.best_value <= costs[40]  # the best 2 %; 18 random draws reach the best 5 %


@pytest.mark.parametrize("name", RUN)
def test_a_resumed_run_gives_the_same_suggestions(name, undisturbed, tmp_path):
    _, configs, journal = undisturbed(name)
    path = tmp_path / "run.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[: 1 + 2 * 10]))  # the header, and two events for each trial
    assert run(Optimizer.load(path), 4) == configs[:14]


def test_both_surrogates_suggest_alike_at_first():
    """One observation after the design, the two fits reach the same optimum."""
    trials = []
    for surrogate in ("gp", "gpytorch"):
        settings = {"surrogate": surrogate, "initial": 12}
        optimizer = Optimizer(SPACE, strategy=Search("bayesian", settings), seed=1)
        run(optimizer, 12)
        trials.append(optimizer.suggest())
    assert trials[0].tag["mean"] == pytest.approx(trials[1].tag["mean"], rel=0.1)


def test_strategy_objects_take_the_name_of_a_surrogate():
    assert Bayesian(surrogate="gpytorch") == Bayesian(surrogate=GPyTorchGP())
    assert Bayesian(surrogate="gp") == Bayesian()
    with pytest.raises(ValueError, match="surrogate 'gpy' is unknown; did you mean 'gp'"):
        Bayesian(surrogate="gpy")


def test_related_tasks_inform_gpytorch_models():
    rows = [(config, 3.0 * cost(config)) for config in SPACE.sample(40, seed=5)]
    optimizer = optimizer_of("auto", warm_start=WarmStart(rows, mode="prior"))
    run(optimizer, 10)
    tags = [trial.tag for trial in optimizer.trials if "weights" in (trial.tag or {})]
    assert tags
    assert optimizer.best_value <= 4.0


TOML = """
[space.x]
type = "ordinal"
values = [1, 2, 4, 8]
[space.y]
type = "integer"
low = 1
high = 9
[evaluator]
kind = "command"
run = "echo {x}.{y}"
measure = "regex"
pattern = "(.*)"
[budget]
evaluations = 5
[optimizer]
strategy = "auto"
surrogate = "gpytorch"
device = "DEVICE"
"""


def test_a_toml_file_names_the_surrogate(tmp_path, capsys):
    file = tmp_path / "run.toml"
    file.write_text(TOML.replace("DEVICE", "auto"))
    assert main(["tune", str(file), "--out", str(tmp_path / "out")]) == 0
    journal = (tmp_path / "out" / "run.jsonl").read_text()
    assert '"surrogate": "gpytorch"' in journal or '"surrogate":"gpytorch"' in journal
    assert '"parameters"' in journal  # GPyTorch's hyperparameters, in the tag of a trial


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr("baco_like.surrogates.gp.devices.has_gpu", lambda: False)


def test_a_missing_gpu_is_an_error_before_anything_runs(no_gpu, tmp_path, capsys):
    for name in NAMES:
        with pytest.raises(StrategyError, match="torch finds 0 CUDA devices on this machine"):
            create_strategy(name, {"surrogate": "gpytorch", "device": "cuda"})
    with pytest.raises(StrategyError, match="torch finds 0 CUDA devices"):
        Auto(surrogate="gpytorch", device="cuda")
    file = tmp_path / "run.toml"
    file.write_text(TOML.replace("DEVICE", "cuda"))
    assert main(["tune", str(file), "--out", str(tmp_path / "out")]) != 0
    assert "torch finds 0 CUDA devices on this machine" in capsys.readouterr().err
    assert not (tmp_path / "out" / "run.jsonl").exists()


@pytest.mark.parametrize("name", NAMES)
def test_wrong_settings_are_refused(name):
    with pytest.raises(ValueError, match="surrogate 'gpy' is unknown; did you mean 'gp'"):
        create_strategy(name, {"surrogate": "gpy"})
    with pytest.raises(ValueError, match="device = 'cuda' needs surrogate = 'gpytorch'"):
        create_strategy(name, {"device": "cuda"})


def test_kernel_tuners_strategy_needs_a_gaussian_process():
    with pytest.raises(
        ValueError, match="needs a Gaussian process; choose surrogate gp or gpytorch"
    ):
        create_strategy("kernel_tuner_bo", {"surrogate": "forest"})
