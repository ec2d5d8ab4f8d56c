"""Basin hopping and dual annealing take the steps of scipy; the local minimisers."""

import numpy as np
import pytest
import scipy.optimize._dual_annealing as scipys
from scipy.optimize import OptimizeResult, basinhopping, dual_annealing, minimize

from baco_like import Ordinal, Space
from baco_like.optimizer import Optimizer
from baco_like.strategies import BasinHopping, DualAnnealing
from baco_like.strategies.direct.global_minimisers import METHODS, LocalMinimiser, visit_from
from baco_like.strategies.geometry import RepairedBox
from baco_like.strategies.protocol import Problem

SPACE = Space(
    {name: Ordinal(list(range(30))) for name in "abc"}, constraints=["a + b <= 45", "a * c <= 500"]
)
PLANE = Space({name: Ordinal(list(range(16))) for name in "ab"})


def cost(config):
    """A bowl with ripples."""
    centred = [(value - 13 - 2 * i) / 10 for i, value in enumerate(config.values())]
    return 3.0 + sum(z * z - 0.3 * np.cos(9 * z) for z in centred)


def ours(strategy, space, n, seed=4):
    """Return the configurations that the strategy evaluates, in order."""
    optimizer = Optimizer(space, strategy=strategy, seed=seed)
    for _ in range(n):
        trial = optimizer.suggest()
        assert trial.origin == "strategy"
        optimizer.observe(trial, cost(trial))
    return [tuple(trial.config.values()) for trial in optimizer.trials]


class _Enough(Exception):
    pass


class Direct:
    """The same objective, evaluated at once; it remembers the distinct configurations in order."""

    def __init__(self, strategy, space, n, seed=4):
        from baco_like._random import Purpose, generator

        state = strategy.init(Problem(space), generator(seed, Purpose.INIT))
        self.rng = np.random.Generator(np.random.PCG64(0))
        self.rng.bit_generator.state = state.rng_state
        self.space, self.box, self.n = space, RepairedBox(space), n
        (row, *_) = self.box.starts(16, self.rng)
        self.start, self.unit = self.box.point(row), 1.0
        self.seen = {}
        self.unit = abs(self(self.start))

    def __call__(self, point):
        _, row = self.box.row(np.clip(point, 0, 1))
        (config,) = self.space.decode(row[None, :])
        if len(self.seen) == self.n and tuple(config.values()) not in self.seen:
            raise _Enough
        self.seen[tuple(config.values())] = True
        return cost(config) / self.unit

    def minimiser(self, method):
        minimise = LocalMinimiser(method, self.box.counts)

        def run(function, start, args=(), **_):
            found = minimise(function, start)
            return OptimizeResult(x=found.point, fun=found.cost, success=found.success, nfev=1)

        return run


@pytest.mark.parametrize("method", ["powell", "cobyla", "slsqp", "lbfgsb", "nelder_mead", "cg"])
def test_basin_hopping_is_scipys(method):
    strategy = BasinHopping(method, temperature=0.2)
    direct = Direct(strategy, SPACE, 60)

    def step(point):
        return np.clip(point + direct.rng.uniform(-0.5, 0.5, point.shape), 0.0, 1.0)

    with pytest.raises(_Enough):
        basinhopping(
            direct,
            direct.start,
            T=0.2,
            niter=10**6,
            minimizer_kwargs={"method": direct.minimiser(method)},
            take_step=step,
            rng=direct.rng,
        )
    assert ours(strategy, SPACE, 60) == list(direct.seen)


def test_the_step_is_adapted_as_scipys():
    box = RepairedBox(PLANE)
    strategy = BasinHopping("nelder_mead", temperature=0.05, step=0.3)
    start, rng, points = np.array([0.2, 0.7]), np.random.default_rng(3), []

    def rippled(point):
        points.append(tuple(point))
        return float(((point - 0.6) ** 2).sum() - 0.3 * np.cos(25 * point).sum())

    at = strategy.begin(box, start, rippled(start), None)
    for _ in range(121):
        at = strategy.stage(box, at, rippled, rng)
    own, points[:] = points[1:], []
    assert at.step not in (0.3, 0.3 * 0.9, 0.3 / 0.9)  # adapted twice

    class Step:
        stepsize = 0.3

        def __call__(self, point):
            shift = rng.uniform(-self.stepsize, self.stepsize, point.shape)
            return np.clip(point + shift, 0.0, 1.0)

    def minimise(function, start, args=(), **_):
        found = LocalMinimiser("nelder_mead", box.counts)(function, start)
        return OptimizeResult(x=found.point, fun=found.cost, success=found.success, nfev=1)

    rng, step = np.random.default_rng(3), Step()
    basinhopping(
        rippled,
        start,
        T=0.05,
        niter=120,
        minimizer_kwargs={"method": minimise},
        take_step=step,
        rng=rng,
    )
    assert at.step == step.stepsize
    assert own == points


@pytest.mark.parametrize(
    ("method", "restart"),
    [("powell", 2e-5), ("cobyla", 2e-5), ("slsqp", 0.4), ("nelder_mead", 0.4), ("lbfgsb", 0.9)],
)
def test_dual_annealing_is_scipys_with_its_restarts(method, restart):
    strategy = DualAnnealing(method, restart=restart)
    direct = Direct(strategy, SPACE, 110)
    with pytest.raises(_Enough):
        dual_annealing(
            direct,
            [(0.0, 1.0)] * 3,
            maxiter=10**6,
            x0=direct.start,
            restart_temp_ratio=restart,
            minimizer_kwargs={"method": direct.minimiser(method)},
            rng=direct.rng,
        )
    assert ours(strategy, SPACE, 110) == list(direct.seen)


def test_the_chains_own_local_search_is_scipys(monkeypatch):
    """It comes after 1,000 iterations without improvement; here after 2."""
    begin = scipys.StrategyChain.__init__

    def impatient(self, *arguments):
        begin(self, *arguments)
        self.not_improved_max_idx = 2

    searches = []
    run = scipys.LocalSearchWrapper.local_search
    monkeypatch.setattr(scipys.StrategyChain, "__init__", impatient)
    monkeypatch.setattr(
        scipys.LocalSearchWrapper,
        "local_search",
        lambda self, x, e: searches.append(e) or run(self, x, e),
    )
    monkeypatch.setattr("baco_like.strategies.direct.global_minimisers.FIRST_PATIENCE", 2)
    strategy = DualAnnealing("powell")
    direct = Direct(strategy, SPACE, 140)
    with pytest.raises(_Enough):
        dual_annealing(
            direct,
            [(0.0, 1.0)] * 3,
            maxiter=10**6,
            x0=direct.start,
            minimizer_kwargs={"method": direct.minimiser("powell")},
            rng=direct.rng,
        )
    assert len(set(searches)) > 3
    assert ours(strategy, SPACE, 140) == list(direct.seen)


@pytest.mark.parametrize("visiting", [1.1, 1.7, 2.62, 2.9])
@pytest.mark.parametrize("temperature", [0.01, 30.0, 5230.0])
def test_visits_are_scipys(visiting, temperature):
    point = np.array([0.1, 0.5, 0.98])
    reference = scipys.VisitingDistribution(
        np.zeros(3), np.ones(3), visiting, np.random.default_rng(7)
    )
    rng = np.random.default_rng(7)
    for visit in [0, 1, 2, 3, 4, 5] * 5:
        expected = reference.visiting(point, visit, temperature)
        own = visit_from(point, visit, visiting, temperature, rng)
        assert np.allclose(own, expected, atol=1e-6)


COUNTS = np.array([10.0, 25.0, np.inf])
START = np.array([0.15, 0.82, 0.5])


def rough(point):
    """A function with the steps of a grid of values."""
    grid = np.floor(np.clip(point, 0, 1) * [10, 25, 500]) / [10, 25, 500]
    return float(1 + ((grid - [0.6, 0.3, 0.44]) ** 2 * [3, 1, 2]).sum())


def recorded(points):
    def function(point):
        points.append(tuple(np.clip(point, 0.0, 1.0)))
        return rough(point)

    return function


@pytest.mark.parametrize("method", METHODS)
def test_the_points_and_the_minimum_are_those_of_scipy(method):
    minimiser = LocalMinimiser(method, np.minimum(COUNTS, 1024))
    ours, scipys = [], []
    found = minimiser(recorded(ours), START)
    expected = minimize(
        recorded(scipys), START, method=METHODS[method], **minimiser.arguments(START)
    )
    assert ours == scipys[: minimiser.calls]
    assert found.cost < rough(START)
    if len(scipys) <= minimiser.calls:
        assert found.cost == expected.fun
        assert (found.point == np.clip(expected.x, 0, 1)).all()
        assert found.success == expected.success
    else:
        assert not found.success
        assert found.cost == min(rough(np.array(p)) for p in ours) == rough(found.point)


@pytest.mark.parametrize("method", METHODS)
def test_a_flat_function_ends_without_a_warning(method):
    found = LocalMinimiser(method, np.full(2, 5.0))(lambda point: 1.0, np.array([0.0, 1.0]))
    assert found.cost == 1.0
    assert ((found.point >= 0) & (found.point <= 1)).all()
