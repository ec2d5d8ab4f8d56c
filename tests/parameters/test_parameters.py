"""The five parameters: domains, the border of plain values, codes, sampling, features."""

import copy
import json
import math
import pickle
import warnings
from collections import Counter
from dataclasses import replace
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from baco_like import Gaussian, Optimizer, Ordinal, Real, Space
from baco_like.exceptions import ConfigError, SpaceError
from baco_like.parameters import Categorical, Integer, ParameterKind, Permutation, SteppedReal
from baco_like.parameters.priors import PiecewiseLinear
from baco_like.parameters.protocol import nearest_number
from baco_like.parameters.registry import parameter_from_dict
from baco_like.results import read, write
from baco_like.results.formats import FORMATS
from baco_like.results.hypermapper_csv import read_value, write_value
from baco_like.spaces import neighbourhoods, to_t1

BIG = 2**53 + 1


class Level(IntEnum):
    LOW = 1
    HIGH = 2


EXAMPLES = [
    Real(-2.5, 4),
    Real(1e-6, 1e-1, log=True, default=1e-3, prior=Gaussian(1e-3, 1.0)),
    Real(0, 1, prior=PiecewiseLinear((0, 1, 3))),
    Integer(-3, 9),
    Integer(1, 32, log=True, default=4),
    Integer(BIG, BIG + 6),
    Integer(BIG, BIG + 6, log=True),
    Integer(-(2**70), -(2**70) + 3),
    Integer(1, 2**53, log=True),
    Integer(0, 3, prior=[0, 1, 2, 1]),
    Integer(1, 64, log=True, prior=Gaussian(8, 0.7)),
    Integer(5, 5),
    Ordinal([16, 4, 8], log=True, default=8, prior=[1, 2, 3]),
    Ordinal([1, 2.5, 10]),
    Ordinal(["small", "medium", "large"]),
    Ordinal([7]),
    Categorical(["-O2", "-O3", "-Ofast"], default="-O3", prior=[1, 0, 1]),
    Categorical([True, False]),
    Categorical(["only"]),
    Permutation(["i", "j", "k"]),
    Permutation(range(5), metric="kendall", default=(4, 3, 2, 1, 0)),
    Permutation(["a", "b", "c", "d"], metric="hamming"),
    Permutation(list("abcdefghijklm"), metric="naive"),
    Permutation([3]),
]

EXTREMES = [
    Real(2, 2),
    Real(-8e307, 8e307),
    Real(0, 5e-324),
    Real(1e-300, 1e300, log=True),
    Ordinal([2**80, 2**80 + 1, 3]),
    Categorical([1, 1.0, True, "1"]),
]


def shown(parameter):
    return repr(parameter)[:50]


@pytest.mark.parametrize("parameter", EXAMPLES + EXTREMES, ids=shown)
class TestEvery:
    """Beside `baco_like.testing.parameters`, which the examples pass, but not the extremes of doubles."""

    def test_codes_and_values_correspond(self, parameter):
        codes = parameter.sample(40, np.random.default_rng(1))
        assert parameter.legal(codes).all()
        values = parameter.decode(codes)
        assert np.array_equal(parameter.encode(values), codes)
        for value in values:
            assert type(value) in (int, float, str, bool, tuple)
            back = json.loads(json.dumps(value))
            back = tuple(back) if isinstance(value, tuple) else back
            assert (type(back), back) == (type(value), value)
        if not isinstance(parameter, Permutation):
            assert parameter.column(codes).tolist() == values
        assert parameter.encode([]).shape == (0, parameter.width)
        assert parameter.decode(codes[:0]) == []
        assert len(parameter.features(codes[:0])) == 0
        assert copy.deepcopy(parameter) == parameter
        assert (parameter.log_density(codes) > -np.inf).all(), "a drawn value has a density"

    def test_features_reproduce_the_distance(self, parameter):
        codes = parameter.sample(30, np.random.default_rng(4))
        columns = parameter.features(codes)
        assert np.isfinite(columns).all()
        if parameter.cardinality == 1:
            assert columns.shape == (30, 0)
            return
        found = np.sqrt(((columns[:, None] - columns[None]) ** 2).sum(axis=2))
        with np.errstate(over="ignore"):
            wanted = parameter.distance(codes, codes)
            assert np.array_equal(wanted, wanted.T)
            if isinstance(parameter, Permutation):
                found, largest = found**2, parameter.max_distance
            else:
                largest = float(np.max(parameter.distance(*ends(parameter))))
        hashed = isinstance(parameter, Permutation) and columns.shape[1] == 512
        if math.isfinite(largest):
            assert found == pytest.approx(wanted / largest, abs=0.2 if hashed else 1e-9)


def ends(parameter):
    """Codes of the two values farthest apart."""
    if isinstance(parameter, Real):
        return np.array([[parameter.low]]), np.array([[parameter.high]])
    return np.array([[0.0]]), np.array([[parameter.cardinality - 1.0]])


class TestRefused:
    @pytest.mark.parametrize(
        ("make", "word"),
        [
            (lambda: Real(1, 0), "empty"),
            (lambda: Real(0, 1, log=True), "positive"),
            (lambda: Real(0, math.inf), "finite"),
            (lambda: Real(-1.7e308, 1.7e308), "far apart"),
            (lambda: Real("0", 1), "number"),
            (lambda: Real(0, 10**400), "too large"),
            (lambda: Real(0, 1, default=2), "default 2"),
            (lambda: Real(0, 1, prior=[1, 2]), "density"),
            (lambda: Real(1, 2, log=True, prior=Gaussian(-1, 1)), "positive"),
            (lambda: Integer(0.5, 3), "whole"),
            (lambda: Integer(3, 1), "empty"),
            (lambda: Integer(0, 2**53), "2\\*\\*53"),
            (lambda: Integer(0, 8, log=True), "positive"),
            (lambda: Integer(0, 8, default=9), "default 9"),
            (lambda: Integer(0, 8, prior=[1]), "9 values"),
            (lambda: Integer(0, 1, prior=[0, 0]), "positive"),
            (lambda: Integer(10**400, 10**400 + 1), "largest double"),
            (lambda: Integer(BIG, BIG + 1, prior=Gaussian(BIG, 1)), "narrow"),
            (lambda: Ordinal([]), "empty"),
            (lambda: Ordinal([1, 1.0]), "1 and 1.0 are the same"),
            (lambda: Ordinal([1, True]), "Categorical"),
            (lambda: Ordinal([1, "a"]), "no common order"),
            (lambda: Ordinal(["a", "a"]), "twice"),
            (lambda: Ordinal("abc"), "list"),
            (lambda: Ordinal([1, None]), "NoneType"),
            (lambda: Ordinal([1, math.nan]), "finite"),
            (lambda: Ordinal([0, 1], log=True), "positive"),
            (lambda: Ordinal([1, 2], default=3), "default 3"),
            (lambda: Ordinal([1, 2], prior=[1, -1]), "negative"),
            (lambda: Ordinal([1, 10**400]), "largest double"),
            (lambda: Ordinal([-1.7e308, 1.7e308]), "far apart"),
            (lambda: Categorical(["a", "a"]), "'a' occurs twice"),
            (lambda: Categorical([("a",), ["a"]]), "twice"),
            (lambda: Categorical([("a", {1: 2})]), "dict"),
            (lambda: Categorical(["\ud800"]), "UTF-8"),
            (lambda: Categorical(["a"], default="b"), "default 'b'"),
            (lambda: Permutation(["i", "i"]), "twice"),
            (lambda: Permutation(["i", "j"], metric="cayley"), "cayley"),
            (lambda: Permutation(["i", "j"], default=("i",)), "default"),
            (lambda: Permutation(range(65)), "at most 64"),
            (lambda: Gaussian(0, 0), "positive"),
            (lambda: PiecewiseLinear((1,)), "two"),
        ],
    )
    def test_at_construction(self, make, word):
        with pytest.raises(SpaceError, match=word) as caught:
            make()
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("parameter", "value"),
        [
            (Real(0, 1), 1.5),
            (Real(0, 1), True),
            (Real(0, 1), math.nan),
            (Integer(0, 4), 2.5),
            (Integer(0, 4), 5),
            (Integer(BIG, BIG + 2), float(2**53)),
            (Ordinal([1, 2]), 3),
            (Ordinal([1, 2]), [1]),
            (Categorical([True, False]), 1),
            (Categorical(["a"]), b"a"),
            (Categorical(["a"]), {"a": 1}),
            (Categorical([1, 1.0]), True),
            (Permutation(["i", "j"]), ("i",)),
            (Permutation(["i", "j"]), ("i", "i")),
            (Permutation(["i", "j"]), ("i", "x")),
            (Permutation(["i", "j"]), "ij"),
        ],
    )
    def test_value(self, parameter, value):
        assert not parameter.contains(value)
        with pytest.raises(ConfigError):
            parameter.encode([value])


class TestBorder:
    @pytest.mark.parametrize(
        ("parameter", "given", "found"),
        [
            (Ordinal([1, 2]), 2.0, 2),
            (Ordinal([1.0, 2.5]), 1, 1.0),
            (Ordinal([1, 2]), np.float32(2), 2),
            (Ordinal([1, 2]), Level.HIGH, 2),
            (Integer(0, 9), 4.0, 4),
            (Integer(0, 9), np.uint8(4), 4),
            (Real(0, 9), 4, 4.0),
            (Real(0, 9), np.float32(0.5), 0.5),
            (Categorical(["a", "b"]), np.str_("b"), "b"),
            (Categorical([True, False]), np.bool_(False), False),
            (Categorical([1, 1.0, True]), 1.0, 1.0),
            (Categorical([2, "2"]), 2.0, 2),
            (Permutation([1, 2]), np.array([2, 1]), (2, 1)),
            (Permutation([1, 2]), [2.0, 1], (2, 1)),
        ],
    )
    def test_accepted_as_the_domains_own(self, parameter, given, found):
        (value,) = parameter.decode(parameter.encode([given]))
        assert value == found
        assert type(value) is type(found)
        assert parameter.contains(given)

    def test_numpy_domains_become_plain(self):
        assert Ordinal(np.array([4, 2])).values == (2, 4)
        assert type(Ordinal(np.array([4, 2])).values[0]) is int
        assert type(Integer(np.int64(1), np.int64(3)).low) is int
        assert type(Real(np.float32(1), 3).low) is float
        assert type(Categorical(np.array(["a", "b"])).values[0]) is str

    def test_numbers_are_sorted_with_their_prior_and_words_are_not(self):
        assert Ordinal([16, 4, 8], prior=[1, 2, 3]).prior == (2.0, 3.0, 1.0)
        assert Ordinal(["s", "m", "l"]).values == ("s", "m", "l")
        assert Categorical([3, 1, 2]).values == (3, 1, 2)

    def test_huge_integers_are_exact(self):
        parameter = Integer(BIG, BIG + 2)
        assert parameter.decode(np.array([[0.0], [1.0], [2.0]])) == [BIG, BIG + 1, BIG + 2]
        wide = Integer(10**300, 10**300 + 7)
        assert wide.decode(wide.encode([10**300 + 5])) == [10**300 + 5]
        assert wide.column(np.array([[5.0]]))[0] == 10**300 + 5

    def test_cardinality(self):
        assert Permutation(range(20)).cardinality == math.factorial(20)
        assert Real(0, 1).cardinality == math.inf
        assert Real(1, 1).cardinality == 1
        assert Integer(1, 2**53).cardinality == 2**53

    @pytest.mark.parametrize("bad", [-1.0, 3.0, 0.5, math.nan, math.inf])
    @pytest.mark.parametrize(
        "parameter", [Ordinal([1, 2, 3]), Integer(4, 6), Categorical(["a", "b", "c"])]
    )
    def test_illegal_codes(self, parameter, bad):
        assert parameter.legal(np.array([[bad], [1.0]])).tolist() == [False, True]

    def test_illegal_permutation_codes(self):
        rows = np.array([[0, 1, 2], [0, 0, 2], [1, 2, 3], [0.5, 1, 2], [2, 1, 0]], dtype=float)
        assert Permutation(["a", "b", "c"]).legal(rows).tolist() == [
            True,
            False,
            False,
            False,
            True,
        ]

    def test_a_permutation_is_read_outermost_first(self):
        parameter = Permutation(["i", "j", "k"])
        assert parameter.encode([("k", "i", "j")]).tolist() == [[1.0, 2.0, 0.0]]


class TestSampling:
    N = 20_000

    def chi_squared(self, counts, expected):
        statistic = float((((counts - expected) ** 2) / expected).sum())
        degrees = len(counts) - 1
        # Above the mean by five standard deviations of the chi-squared distribution.
        assert statistic < degrees + 5 * math.sqrt(2 * degrees)

    def counts(self, parameter):
        codes = parameter.sample(self.N, np.random.default_rng(11))[:, 0].astype(int)
        return np.bincount(codes, minlength=int(parameter.cardinality))

    @pytest.mark.parametrize(
        "parameter",
        [Integer(-2, 5), Ordinal([1, 100, 10_000], log=True), Categorical(["a", "b", "c"])],
    )
    def test_uniform_over_values(self, parameter):
        counts = self.counts(parameter)
        self.chi_squared(counts, np.full(len(counts), self.N / len(counts)))

    def test_log_integers_follow_their_intervals(self):
        values = np.arange(1, 17)
        share = np.log((values + 0.5) / (values - 0.5)) / math.log(16.5 / 0.5)
        self.chi_squared(self.counts(Integer(1, 16, log=True)), share * self.N)

    def test_a_log_real_is_uniform_in_its_logarithm(self):
        logs = np.log10(Real(1e-6, 1e-2, log=True).sample(self.N, np.random.default_rng(3))[:, 0])
        counts, _ = np.histogram(logs, bins=8, range=(-6, -2))
        self.chi_squared(counts, np.full(8, self.N / 8))

    @pytest.mark.parametrize(
        "parameter", [Ordinal([4, 2, 1], prior=[3, 2, 1]), Integer(0, 2, prior=[1, 2, 3])]
    )
    def test_weights(self, parameter):
        self.chi_squared(self.counts(parameter), np.array([1, 2, 3]) / 6 * self.N)
        density = parameter.log_density(np.array([[0.0], [1.0], [2.0]]))
        assert np.exp(density) / 3 == pytest.approx([1 / 6, 2 / 6, 3 / 6])

    def test_zero_weight_is_never_drawn(self):
        parameter = Categorical(["a", "b", "c"], prior=[1, 0, 1])
        assert self.counts(parameter)[1] == 0
        with np.errstate(divide="raise"):
            assert parameter.log_density(np.array([[1.0]]))[0] == -math.inf

    @pytest.mark.parametrize(
        ("low", "high", "mean", "std"),
        [(0, 1, 0.3, 0.2), (0, 1, -4, 0.5), (0, 1, 30, 1), (2, 3, 2.5, 100)],
    )
    def test_truncated_gaussian(self, low, high, mean, std):
        from scipy import stats

        parameter = Real(low, high, prior=Gaussian(mean, std))
        reference = stats.truncnorm((low - mean) / std, (high - mean) / std, mean, std)
        drawn = parameter.sample(4000, np.random.default_rng(5))[:, 0]
        assert stats.kstest(drawn, reference.cdf).pvalue > 1e-4
        x = np.linspace(low, high, 7)
        relative = reference.logpdf(x) + math.log(high - low)
        assert parameter.log_density(x[:, None]) == pytest.approx(relative, rel=1e-6, abs=1e-6)

    def test_gaussian_on_a_log_scale(self):
        parameter = Real(1, 1e4, log=True, prior=Gaussian(100, 0.5))
        logs = np.log(parameter.sample(5000, np.random.default_rng(1))[:, 0])
        assert logs.mean() == pytest.approx(math.log(100), abs=0.05)
        assert logs.std() == pytest.approx(0.5, abs=0.05)

    @pytest.mark.parametrize("weights", [(0, 1), (1, 0, 1), (2, 1, 5, 0, 0, 1), (1, 1)])
    def test_piecewise_linear(self, weights):
        from scipy import stats

        parameter = Real(-1, 3, prior=PiecewiseLinear(weights))
        fine = np.linspace(-1, 3, 20_001)
        with np.errstate(divide="ignore"):
            density = np.exp(parameter.log_density(fine[:, None])) / 4
        mass = np.concatenate(
            [[0], np.cumsum((density[1:] + density[:-1]) / 2 * (fine[1] - fine[0]))]
        )
        assert mass[-1] == pytest.approx(1, abs=1e-6)
        drawn = parameter.sample(4000, np.random.default_rng(9))[:, 0]
        assert stats.kstest(drawn, lambda x: np.interp(x, fine, mass)).pvalue > 1e-4

    def test_gaussian_on_integers(self):
        parameter = Integer(0, 100, prior=Gaussian(70, 5))
        drawn = np.array(parameter.decode(parameter.sample(5000, np.random.default_rng(2))))
        assert drawn.mean() == pytest.approx(70, abs=0.5)
        assert drawn.std() == pytest.approx(5, abs=0.4)

    def test_permutations_are_uniform(self):
        parameter = Permutation(["a", "b", "c"])
        counts = Counter(parameter.decode(parameter.sample(12_000, np.random.default_rng(0))))
        assert len(counts) == 6
        self.chi_squared(np.array(list(counts.values())), np.full(6, 2000))


class TestDictionaries:
    @pytest.mark.parametrize(
        ("data", "word"),
        [
            ({"type": "float", "low": 0, "high": 1}, "'float' is unknown"),
            ({"low": 0, "high": 1}, "None is unknown"),
            ({"type": ["real"]}, "unknown"),
            ({"type": "real", "low": 0}, "'high' is missing"),
            ({"type": "real", "low": 0, "high": 1, "stride": 2}, "'stride' is unknown"),
            ({"type": "real", "low": 0, "high": 1, "log": "yes"}, "true or false"),
            ({"type": "real", "low": 0, "high": 1, "prior": {"beta": [1, 2]}}, "beta"),
            ({"type": "real", "low": 0, "high": 1, "version": 2}, "version 2"),
            ({"type": "permutation", "elements": "ij"}, "list"),
            ([], "object"),
        ],
    )
    def test_refused(self, data, word):
        with pytest.raises(SpaceError, match=word):
            parameter_from_dict(data)


@pytest.mark.parametrize("std", [1e15, 1e17, 1e300])
def test_a_prior_that_is_flat_on_the_range_is_none(std):
    parameter = Real(0, 1, prior=Gaussian(0.5, std))
    drawn = parameter.sample(1000, np.random.default_rng(0))
    assert len(np.unique(drawn)) == 1000
    np.testing.assert_array_equal(parameter.log_density(drawn), 0.0)


@pytest.mark.parametrize("kind", [set, frozenset])
def test_values_of_a_set_have_one_order(kind):
    texts = [f"-f{i}" for i in range(9)]
    for made in (Categorical(kind(texts)).values, Permutation(kind(texts)).elements):
        assert made == tuple(texts)
    assert Space({"f": kind(texts)}).parameters["f"] == Categorical(texts)
    assert Categorical(kind([True, "a", 2])).values == (True, 2, "a")
    assert Permutation(kind(range(12))).elements == tuple(range(12))


@pytest.mark.parametrize(("value", "way"), [(None, "such as 'none'"), ((1, 2), "write it as text")])
@pytest.mark.parametrize("make", [Ordinal, Permutation])
def test_other_values_are_refused_with_a_way_out(make, value, way):
    with pytest.raises(SpaceError, match=way):
        make([value, "a"])


# ---- Reals with a step have the values of Optuna's `FloatDistribution`, in every format ----


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


@pytest.mark.parametrize(
    ("parameter", "number", "nearest"),
    [
        (Integer(-5, 5), 1e300, 5),
        (Integer(-5, 5), -1e300, -5),
        (Integer(-5, 5), math.inf, 5),
        (Integer(1, 10), math.inf, 10),
        (Integer(1, 10), 3.7, 4),
        (Real(0.5, 2.0), 10**400, 2.0),
        (Ordinal([-1, 0, 1]), 1e17, 1),
        (Ordinal([1, 2, 4, 8]), 3, 4),
        (Ordinal([1, 2, 4, 8]), -math.inf, 1),
        (Ordinal(["a", "b"]), 3, None),
    ],
)
def test_the_nearest_number_may_be_at_an_end(parameter, number, nearest):
    assert nearest_number(parameter, number) == nearest


def test_configspace():
    pytest.importorskip("ConfigSpace")
    from baco_like.integrations.configspace import to_configspace

    space = Space({"x": STEP, "tile": [1, 2]})
    again = Space.from_configspace(to_configspace(space))
    assert again.parameters["x"] == Ordinal(STEP.values, default=again.parameters["x"].default)
    with pytest.raises(SpaceError, match="SteppedReal"):
        to_configspace(Space({"x": Real(0, 1, step=1e-7)}))
