"""Basin hopping, dual annealing, pattern search and multidirectional search, against SciPy and plain loops."""

import numpy as np
import pytest
import scipy.optimize._dual_annealing as scipys
from scipy.optimize import OptimizeResult, basinhopping, dual_annealing, minimize

from baco_like import Ordinal, Search, Space
from baco_like._random import Purpose, generator
from baco_like.optimizer import Optimizer
from baco_like.strategies import BasinHopping, DualAnnealing, PatternSearch, Torczon
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


# ---- Pattern search and multidirectional search against plain loops and by hand ----


SIDES = {
    "a": 16,
    "b": 32,
    "c": 8,
}  # powers of two: halves of steps are exact in the unit box as well
SIDES_SPACE = Space({name: Ordinal(list(range(count))) for name, count in SIDES.items()})
SIDE_COUNTS = np.array(list(SIDES.values()), dtype=float)


def bowl(values):
    a, b, c = values
    return 5.0 + (a - 13) ** 2 + 0.5 * (b - 7 - a) ** 2 + (c - 4) ** 2


def evaluated(strategy, n, start=None, seed=2):
    optimizer = Optimizer(SIDES_SPACE, strategy=strategy, seed=seed)
    if start is not None:
        optimizer.enqueue(dict(zip(SIDES, start, strict=True)))
    for _ in range(n):
        trial = optimizer.suggest()
        optimizer.observe(trial, bowl(trial.values()))
    return [tuple(trial.config.values()) for trial in optimizer.trials]


def starts(strategy, seed=2):
    """Return where a run with this seed begins, and the later random starts, as the strategy draws them."""
    state = strategy.init(Problem(SIDES_SPACE), generator(seed, Purpose.INIT))
    rng, box = np.random.Generator(np.random.PCG64(0)), RepairedBox(SIDES_SPACE)
    rng.bit_generator.state = state.rng_state
    while True:
        yield box.starts(16, rng)


class Known:
    """Returns values by index and keeps the order of first visits."""

    def __init__(self):
        self.seen = {}

    def __call__(self, index):
        whole = tuple(int(i) for i in np.clip(np.floor(index + 0.5), 0, SIDE_COUNTS - 1))
        self.seen.setdefault(whole, bowl(whole))
        return self.seen[whole]

    def fresh(self, rows):
        return next(row for row in rows if tuple(row.astype(int)) not in self.seen)


def hooke_and_jeeves(n, seed=2, share=0.25):
    """Hooke and Jeeves' search on indices, written plainly."""
    known, rows = Known(), starts(PatternSearch(), seed)

    def explored(base, value, steps):
        for axis in range(3):
            for sign in (1, -1):
                other = base.copy()
                other[axis] = np.clip(
                    other[axis] + sign * steps[axis], -0.5, SIDE_COUNTS[axis] - 0.5
                )
                if known(other) < value:
                    base, value = np.clip(np.floor(other + 0.5), 0, SIDE_COUNTS - 1), known(other)
                    break
        return base, value

    while len(known.seen) < n:
        base, size = known.fresh(next(rows)), share
        value = known(base)
        while len(known.seen) < n:
            steps = np.maximum(np.round(size * SIDE_COUNTS), 1)
            found, better = explored(base, value, steps)
            if better >= value:
                if (steps == np.maximum(np.round(size / 2 * SIDE_COUNTS), 1)).all():
                    break
                size /= 2
                continue
            while better < value:
                previous, base, value = base, found, better
                leap = np.clip(2 * base - previous, -0.5, SIDE_COUNTS - 0.5)
                found, better = explored(leap, known(leap), steps)
    return list(known.seen)[:n]


def multidirectional(n, seed=2, side=0.25):
    """Torczon's search on indices, written plainly."""
    known, rows = Known(), starts(Torczon(), seed)
    while len(known.seen) < n:
        start = known.fresh(next(rows))
        steps = np.where(start + 0.5 <= SIDE_COUNTS / 2, 1, -1) * np.maximum(
            np.round(side * SIDE_COUNTS), 1
        )
        simplex = [(known(v), i, v) for i, v in enumerate([start, *(start + np.diag(steps))])]
        while len(known.seen) < n:
            simplex = [(c, i, v) for i, (c, _, v) in enumerate(sorted(simplex, key=lambda s: s[0]))]
            (least, _, best), others = simplex[0], [v for _, _, v in simplex[1:]]
            if (np.ptp([v for _, _, v in simplex], axis=0) < 1).all():
                break

            def moved(factor, best=best, others=others):
                vertices = [best + factor * (v - best) for v in others]
                return [(known(v), i, v) for i, v in enumerate(vertices)]

            chosen = moved(-1)
            if min(chosen)[0] < least:
                larger = moved(-2)
                chosen = larger if min(larger)[0] < min(chosen)[0] else chosen
            else:
                chosen = moved(0.5)
            simplex = [(least, -1, best), *chosen]
    return list(known.seen)[:n]


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_pattern_search_is_the_plain_loop_with_its_restarts(seed):
    assert evaluated(PatternSearch(), 130, seed=seed) == hooke_and_jeeves(130, seed)


@pytest.mark.parametrize("seed", [2, 3, 4])
def test_torczons_search_is_the_plain_loop_with_its_restarts(seed):
    assert evaluated(Torczon(), 130, seed=seed) == multidirectional(130, seed)


def test_a_pattern_search_by_hand():
    """Along one axis of 16 from 4 with step 4, towards 11: up, leap to 12, and with 2 and 1 back to 11."""
    space = Space({"a": Ordinal(list(range(16)))})
    optimizer = Optimizer(space, strategy=Search(PatternSearch(), initial=[{"a": 4}]), seed=0)
    values = []
    for _ in range(8):
        trial = optimizer.suggest()
        values.append(trial["a"])
        optimizer.observe(trial, 1.0 + abs(trial["a"] - 11))
    # 4; 8 is better; leap to 12 and explore 15 (the border) and 8; 12 is better; leap to 15: 12 is not better
    # than the base; around 12: 15, 8; step 2: 14, 10, step 1: 13, 11
    assert values == [4, 8, 12, 15, 14, 10, 13, 11]


def test_the_least_value_of_a_bowl_is_found():
    assert (13, 20, 4) in evaluated(PatternSearch(), 100, start=(2, 28, 7))
    assert (13, 20, 4) in evaluated(Torczon(), 350, start=(2, 28, 7))
