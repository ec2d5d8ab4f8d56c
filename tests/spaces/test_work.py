"""The work of building a space is bounded by counting, so hostile constraints are refused soon and always alike."""

import numpy as np
import pytest

from baco_like import Real, Space, SpaceError
from baco_like.constraints.expression import Expression
from baco_like.parameters import Integer
from baco_like.spaces.feasible import tree_builder, work_limit
from baco_like.spaces.feasible.conflict import quote

NAMES = "abcdef"
PRODUCT = f"{' * '.join(NAMES)} == {7919 * 7907}"
EVEN = "(a * b % c + d * e % f) * 2 == 7919"


@pytest.fixture
def rows(monkeypatch):
    """Return a list of the numbers of rows on which constraints are evaluated."""
    counted = []
    holds = Expression.holds

    def count(self, columns):
        counted.append(len(next(iter(columns.values()))) * self.cost)
        return holds(self, columns)

    monkeypatch.setattr(Expression, "holds", count)
    return counted


def limit(monkeypatch, **limits):
    for name, value in limits.items():
        monkeypatch.setattr(work_limit, name, value)


def refuse(parameters, constraints):
    with pytest.raises(SpaceError) as caught:
        Space(parameters, constraints)
    return str(caught.value)


def test_an_infeasible_equation_is_refused_after_bounded_work(monkeypatch, rows):
    limit(monkeypatch, LISTING=2**22, DRAWING=2**23, EXPLAINING=2**22)
    values = {name: list(range(1, 2001)) for name in NAMES}
    message = refuse(values, [EVEN])
    assert "random configurations all violate" in message
    assert repr(EVEN) in message
    assert "fewer or listed values, or write an equation as one parameter" in message
    assert sum(rows) < 2**24
    assert refuse(values, [EVEN]) == message  # a time limit would not end at the same draw


def test_a_product_beyond_64_bits_costs_more_than_one_within():
    def cost(text, high):
        return Expression(text, {name: Integer(1, high) for name in NAMES}).cost

    assert cost(PRODUCT, 200) == 13
    assert cost(PRODUCT, 2000) == 64 * 13
    assert cost("a ** 200 * b ** 200 == 7", 2000) == 8 * 64 * 9
    assert cost("a ** 2 * b ** 2 == 7", 10**6) == 64 * 9


@pytest.mark.parametrize(
    ("parameters", "constraints"),
    [
        # a condition of thousands of operations, on a table, and on one long domain
        (
            {n: list(range(1, 150)) for n in "ab"},
            [" or ".join(f"a**{k} * b**{k + 1} == -1" for k in range(40, 100))],
        ),
        ({"a": Integer(1, 2**18)}, [" or ".join(f"a**{k} == -1" for k in range(40, 100))]),
        # candidates of one level of the tree
        ({n: list(range(3000)) for n in "ab"}, ["(a * b) % 1000003 == 1000004"]),
        # a rejection within a rejection
        (
            {name: Real(0.0, 1.0) for name in "xyzw"},
            ["abs(x * y * w - 0.1) < 1e-4", "abs(x * y * z - 0.3) < 1e-4", "x + y < 0"],
        ),
    ],
)
def test_other_hostile_constraints_are_refused_after_bounded_work(
    monkeypatch, rows, parameters, constraints
):
    limit(monkeypatch, LISTING=2**20, DRAWING=2**20, EXPLAINING=2**20)
    message = refuse(parameters, constraints)
    assert any(text[:190] in message for text in constraints)
    assert sum(rows) < 4 * 2**20


def test_a_feasible_space_that_takes_too_much_work_to_list_is_drawn_at_random(monkeypatch):
    parameters = {name: list(range(1, 120)) for name in "abc"}
    constraints = ["(a * b * c) % 7 < 3"]
    whole = Space(parameters, constraints)
    limit(monkeypatch, LISTING=2**12)
    drawn = Space(parameters, constraints)
    assert whole.feasible.count > 0
    assert drawn.feasible.count is None
    rows = drawn.encode(drawn.sample(50, seed=1))
    assert np.all(whole.feasible.contains(rows))


def test_groups_share_the_work_of_one_build(monkeypatch, rows):
    names = [f"{name}{i}" for i in range(20) for name in "ab"]
    parameters = {name: list(range(1, 150)) for name in names}
    constraints = [f"(a{i} * b{i}) % 7 == 3" for i in range(20)]
    limit(monkeypatch, LISTING=2**17)
    space = Space(parameters, constraints)
    assert space.feasible.count is None
    assert sum(rows) < 2**19
    assert space.contains(space.sample(1, seed=1)[0])


def test_rejections_are_nested_a_few_times_only(monkeypatch):
    limit(monkeypatch, LISTING=0)
    constraints = [f"(a * b * c) % 1009 != {i}" for i in range(100)]
    space = Space({name: list(range(1, 2001)) for name in "abc"}, constraints)
    depth, factors = 0, space.feasible.factors
    while hasattr(factors[0], "superset"):
        depth, factors = depth + 1, factors[0].superset.factors
    assert depth == 7  # 1, 1, 1, 4, 16, 64 and the rest
    assert space.contains(space.sample(1, seed=1)[0])


def test_a_conflict_of_many_constraints_on_draws_names_the_needed_ones():
    constraints = [f"(x * y * {i + 1}) % 1 < 2" for i in range(50)]
    unit = {"x": Real(0.0, 1.0), "y": Real(0.0, 1.0)}
    message = refuse(unit, [*constraints, "x + y > 3"])
    assert "'x + y > 3'" in message
    assert " and " not in message
    text = quote([Expression(f"a != {i}", {"a": Integer(1, 9)}) for i in range(2000)])
    assert text.endswith("'a != 19' and 1980 others")


def test_the_memory_of_trees_is_bounded(monkeypatch):
    names = [f"a{i}" for i in range(30)]
    weights = [7919 ** (i % 7) % 10007 + i * i for i in range(30)]
    total = " + ".join(f"{weight} * {name}" for weight, name in zip(weights, names, strict=True))
    edges = []
    extend = tree_builder._extend

    def count(*args):
        found = extend(*args)
        edges.append(len(found[0]))
        return found

    monkeypatch.setattr(tree_builder, "_extend", count)
    limit(monkeypatch, MEMORY=2**20)
    space = Space({name: [0, 1] for name in names}, [f"({total}) % 100003 < 50000"])
    assert space.feasible.count is None
    assert 0 < sum(edges) < 2**20 / 32
