"""The work of building a space is bounded by counting, so hostile constraints are refused soon and always alike."""

import numpy as np
import pytest

from baco_like import Real, Space, SpaceError
from baco_like.constraints.expression import Expression
from baco_like.parameters import Integer
from baco_like.spaces.feasible import work

NAMES = "abcdef"
PRODUCT = f"{' * '.join(NAMES)} == {7919 * 7907}"


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
        monkeypatch.setattr(work, name, value)


def refuse(parameters, constraints):
    with pytest.raises(SpaceError) as caught:
        Space(parameters, constraints)
    return str(caught.value)


def test_an_infeasible_product_is_refused_after_bounded_work(monkeypatch, rows):
    limit(monkeypatch, LISTING=2**22, DRAWING=2**23, EXPLAINING=2**22)
    values = {name: list(range(1, 2001)) for name in NAMES}
    message = refuse(values, [PRODUCT])
    assert "random configurations all violate" in message
    assert repr(PRODUCT) in message
    assert "fewer or listed values, or write an equation as one parameter" in message
    assert sum(rows) < 2**24
    assert refuse(values, [PRODUCT]) == message  # a time limit would not end at the same draw


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
        # a condition of thousands of operations, on a table
        (
            {"a": list(range(1, 150)), "b": list(range(1, 150))},
            [" or ".join(f"a**{k} * b**{k + 1} == -1" for k in range(40, 100))],
        ),
        # and on one long domain
        (
            {"a": Integer(1, 2**18)},
            [" or ".join(f"a**{k} == -1" for k in range(40, 100))],
        ),
        # candidates of one level of the tree
        (
            {"a": list(range(3000)), "b": list(range(3000))},
            ["(a * b) % 1000003 == 1000004"],
        ),
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
