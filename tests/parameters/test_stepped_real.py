"""Reals with a step have the values of Optuna's `FloatDistribution`, in every format."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Gaussian, Optimizer, Ordinal, Real, Space
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import ParameterKind, SteppedReal
from baco_like.parameters.registry import parameter_from_dict
from baco_like.results import read, write
from baco_like.results.formats import FORMATS
from baco_like.results.hypermapper import read_value, write_value
from baco_like.spaces import neighbourhoods, to_t1

STEP = Real(0.0, 1.0, step=0.05)


@given(
    st.decimals(-100, 100, places=2).map(float),
    st.decimals(0, 50, places=3).map(float),
    st.decimals("0.01", 3, places=2).map(float),
)
def test_values_are_those_of_optuna(low, length, step):
    distributions = pytest.importorskip("optuna.distributions")
    high = low + length
    with warnings.catch_warnings():  # Optuna warns that it lowers the upper bound
        warnings.simplefilter("ignore")
        known = distributions.FloatDistribution(low, high, step=step)
    own = Real(low, high, step=step)
    assert own.high == known.high
    assert all(map(known._contains, own.values))
    steps = np.arange(own.cardinality)
    assert own.values == tuple(np.clip(steps * step + low, low, known.high).tolist())
    assert own.encode(own.values).ravel().tolist() == steps.tolist()
    assert not own.contains(own.high + step)


def test_a_step_makes_an_ordered_parameter():
    assert isinstance(STEP, SteppedReal)
    assert STEP.kind is ParameterKind.ORDERED
    assert STEP.cardinality == 21
    assert STEP.values[3] == 3 * 0.05
    assert STEP.decode(STEP.encode([0.15, 1])) == [3 * 0.05, 1.0]
    assert Real(0, 1, step=0.3).high == 0.9
    for wrong in (0.151, 1.05, True, "0.15"):
        assert not STEP.contains(wrong)
    with pytest.raises(ConfigError, match=r"0\.07 is not one of 0\.0, 0\.05"):
        STEP.encode([0.07])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"step": 0.1, "log": True}, "remove log or step"),
        ({"step": -0.1}, "step must be positive"),
        ({"step": 1e-17}, "more than 2..53 values"),
        ({"step": 0.1, "default": 0.55}, "default 0.55 is not one of"),
        ({"step": 0.1, "prior": [1, 2]}, "Gaussian or PiecewiseLinear"),
    ],
)
def test_wrong_steps_are_refused(given, message):
    with pytest.raises(SpaceError, match=message):
        Real(0.0, 1.0, **given)


def test_ten_million_values_are_not_listed():
    parameter = Real(0.0, 1.0, step=1e-7, default=0.5)
    assert parameter.cardinality == 10**7 + 1
    assert parameter.values is None
    space = Space({"x": parameter, "tile": [1, 2]}, constraints=["x * tile <= 1"])
    rng = np.random.default_rng(0)
    rows = space.feasible.sample(20, rng)
    near, _ = neighbourhoods.adjacent(space, rows, rng)
    assert space.feasible.contains(near).all()
    assert Space({"x": parameter}).feasible.count == 10**7 + 1


def test_copies_and_descriptions():
    for parameter in (STEP, Real(-1, 2, step=0.1, default=0.5, prior=Gaussian(0, 1)), Real(0, 1)):
        assert pickle.loads(pickle.dumps(parameter)) == parameter
        assert parameter_from_dict(parameter.to_dict()) == parameter
    assert replace(STEP, default=0.15).default == 3 * 0.05
    assert "step" not in Real(0, 1).to_dict()


def test_the_prior_is_centred_in_its_interval():
    parameter = Real(0.0, 1.0, step=0.1, prior=Gaussian(0.3, 0.02))
    drawn = parameter.decode(parameter.sample(200, np.random.default_rng(0)))
    assert sum(value == 3 * 0.1 for value in drawn) > 150
    densities = parameter.log_density(np.arange(11.0)[:, None])
    assert densities.argmax() == 3


def test_formats_read_it_back(tmp_path):
    space = Space({"x": STEP, "tile": [1, 2, 4]}, constraints=["x * tile <= 1"])
    assert Space.from_dict(space.to_dict()) == space
    assert Space.from_t1(to_t1(space)) == space
    journal = tmp_path / "run.jsonl"
    optimizer = Optimizer(space, seed=0, storage=journal)
    for _ in range(8):
        trial = optimizer.suggest()
        optimizer.observe(trial, trial["x"] + trial["tile"])
    configs = [dict(trial.config) for trial in optimizer.trials]
    assert Optimizer.load(journal).space == space
    assert read(journal).domains["x"] == STEP.values
    for kind in FORMATS:
        write(read(journal), tmp_path / kind, kind)
        assert read(tmp_path / kind).configs == configs
    again = Space.from_dataframe(optimizer.to_dataframe()[["x", "tile"]])
    assert all(again.contains(config) for config in configs)


def test_single_precision_is_read():
    for value in STEP.values:
        assert read_value(STEP, write_value(STEP, value)) == value
        assert read_value(STEP, str(np.float32(value))) == value
    with pytest.raises(ConfigError):
        read_value(STEP, "0.07")


def test_optuna():
    pytest.importorskip("optuna")
    from baco_like.integrations._optuna_spaces import distribution_of, parameter_of

    assert parameter_of(distribution_of("x", STEP)) == STEP


def test_configspace():
    pytest.importorskip("ConfigSpace")
    from baco_like.integrations.configspace import to_configspace

    space = Space({"x": STEP, "tile": [1, 2]})
    again = Space.from_configspace(to_configspace(space))
    assert again.parameters["x"] == Ordinal(STEP.values, default=again.parameters["x"].default)
    with pytest.raises(SpaceError, match="SteppedReal"):
        to_configspace(Space({"x": Real(0, 1, step=1e-7)}))
