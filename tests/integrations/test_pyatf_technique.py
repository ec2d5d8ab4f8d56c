"""The search technique, in the real package."""

import json

import pytest

from baco_like import Space
from baco_like.exceptions import SpaceError, SpaceExhausted

pyatf = pytest.importorskip("pyatf")
from pyatf.abort_conditions import Evaluations  # noqa: E402
from pyatf.search_space import SearchSpace  # noqa: E402
from pyatf.tuning_data import CostFunctionError  # noqa: E402

from baco_like.integrations import BacoTechnique  # noqa: E402

TPS = (
    pyatf.TP("tile", pyatf.Interval(1, 16), lambda tile: 16 % tile == 0),
    pyatf.TP("unroll", pyatf.Interval(1, 8), lambda unroll, tile: tile % unroll == 0),
    pyatf.TP("layout", pyatf.Set("row", "column")),
    pyatf.TP("scale", pyatf.Interval(0.5, 1.0, 0.5)),
)
DOMAINS = {tp.name: list(tp.values) for tp in TPS}
CONSTRAINTS = [tp.constraint for tp in TPS if tp.constraint]
OURS = Space.from_kernel_tuner(DOMAINS, CONSTRAINTS)


def search_space(**options):
    return SearchSpace(*TPS, **{"enable_1d_access": True, "verbosity": 0, **options})


def value(config):
    if config["tile"] == 16 and config["layout"] == "row":
        return None
    return abs(config["tile"] - 8) + config["unroll"] * config["scale"] + len(config["layout"]) / 8


def cost(config):
    found = value(config)
    if found is None:
        raise CostFunctionError("too large")
    return found


def tuned(technique, space, abort=None, function=cost):
    """Return the best configuration, its cost, and the configurations that were evaluated."""
    tuner = pyatf.Tuner().verbosity(0).search_space(space).search_technique(technique)
    best, least, data = tuner.tune(function, abort)
    return best, least, [entry.configuration for entry in data.history]


def test_a_run_ends_when_the_space_is_exhausted():
    space = search_space()
    technique = BacoTechnique(space, "random_search")
    best, _, asked = tuned(technique, space, Evaluations(10**6))
    assert len(asked) == space.constrained_size + 1
    assert asked[-1] == best
    assert {t.failure for t in technique.optimizer.trials} == {None, "runtime"}
    assert len(technique.optimizer.trials) == space.constrained_size
    _, _, again = tuned(technique, space, Evaluations(5))  # it begins anew
    assert again == asked[:5]


def test_single_steps_end_with_an_error():
    small = SearchSpace(pyatf.TP("a", pyatf.Set(1, 2)), enable_1d_access=True, verbosity=0)
    technique = BacoTechnique(small)
    tuner = pyatf.Tuner().verbosity(0).search_space(small).search_technique(technique)
    tuner.make_step(cost_of_a)
    tuner.make_step(cost_of_a)
    with pytest.raises(SpaceExhausted, match=r"Fraction\(1.0\)"):
        tuner.make_step(cost_of_a)


def cost_of_a(config):
    return config["a"]


def test_pyatf_constraints_become_constraints():
    read = BacoTechnique(search_space()).optimizer.space
    assert len(read.constraints) == len(CONSTRAINTS)
    assert {tuple(c.values()) for c in read} == {tuple(c.values()) for c in OURS}


def test_constraints_that_only_pyatf_reads_become_a_list():
    tps = (
        pyatf.TP("b", pyatf.Set(1, 2)),
        pyatf.TP("a", pyatf.Interval(1, 6), lambda a: a % 2 == 0),
    )
    space = SearchSpace(*tps, enable_1d_access=True, verbosity=0)
    tps[1]._constraint = lambda *_: True  # only reads unknown functions
    read = BacoTechnique(space).optimizer.space
    assert sorted(c["a"] for c in read) == [2, 2, 4, 4, 6, 6]
    assert len(read.constraints) == 1


def test_the_log_entry(tmp_path):
    space, log = search_space(), tmp_path / "log.json"
    technique = BacoTechnique(space, "random_search", seed=1)
    tuner = pyatf.Tuner().verbosity(0).log_file(str(log))
    tuner.search_space(space).search_technique(technique).tune(cost, Evaluations(2))
    written = json.loads(log.read_text())["search_technique"]
    assert written == {"kind": "BacoTechnique", "name": "random_search", "settings": {}}


def test_wrong_arguments_are_rejected():
    with pytest.raises(SpaceError, match="enable_1d_access=True"):
        BacoTechnique(search_space(enable_1d_access=False))
    other = SearchSpace(TPS[2], enable_1d_access=True, verbosity=0)
    with pytest.raises(SpaceError, match="same search space"):
        tuned(BacoTechnique(other), search_space(), Evaluations(1))
    none = SearchSpace(pyatf.TP("a", pyatf.Set(1, 2), lambda a: a > 2), enable_1d_access=True)
    with pytest.raises(SpaceError, match="no configuration"):
        BacoTechnique(none)
    with pytest.raises(SpaceError, match="enable_1d_access=True"):
        BacoTechnique({"a": [1, 2]})


def test_other_errors_of_a_cost_function_are_raised():
    def broken(config):
        raise ZeroDivisionError

    space = search_space()
    with pytest.raises(ZeroDivisionError):
        tuned(BacoTechnique(space), space, Evaluations(3), broken)
