"""What searches are made of, against plain loops."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from baco_like import Categorical, Permutation, Space
from baco_like.acquisitions.optimizers.best_rows import best_by_owner, best_free_rows, best_rows
from baco_like.acquisitions.optimizers.searches import combine_changes
from baco_like.spaces.neighbourhoods import hamming
from baco_like.spaces.rows import drop_duplicates

SPACE = Space(
    {
        "a": list(range(6)),
        "b": list(range(6)),
        "c": Categorical(list("xyz")),
        "p": Permutation(list("ijkl")),
    },
    constraints=["a + b <= 7"],
)
NUMBERS = st.lists(st.sampled_from([0.0, 1.0, 2.5, np.nan, -np.inf]), min_size=1, max_size=60)


@settings(max_examples=40)
@given(scores=NUMBERS, n=st.integers(0, 70), free=st.integers(0, 2**60 - 1))
def test_best_rows_equal_those_of_sorting_all(scores, n, free):
    scores = np.array(scores)
    rows = np.arange(float(len(scores)))[:, None]
    low = np.where(np.isnan(scores), -np.inf, scores)
    rng = np.random.default_rng(0)
    found, _ = best_rows(rows, scores, n, rng)
    assert np.array_equal(low[found[:, 0].astype(int)], np.sort(low)[::-1][:n])
    gone = np.array([(free >> i) & 1 for i in range(len(rows))], bool)
    found, _ = best_free_rows(rows, scores, n, rng, lambda r: gone[r[:, 0].astype(int)])
    assert np.array_equal(low[found[:, 0].astype(int)], np.sort(low[~gone])[::-1][:n])
    assert len(np.unique(found)) == len(found)


def test_distinct_keeps_the_first_row_and_equates_negative_zero():
    rows = np.array([[1.0, 0.0], [2, 0], [1, -0.0], [2, 1], [2, 0]])
    assert drop_duplicates(rows).tolist() == [[1, 0], [2, 0], [2, 1]]
    assert drop_duplicates(rows[:0]).shape == (0, 2)


def test_the_best_row_of_each_owner_breaks_ties_at_random():
    owner = np.array([0, 0, 2, 2, 2, 5])
    scores = np.array([np.nan, 1.0, 3, 3, 2, np.nan])
    found = {tuple(best_by_owner(owner, scores, np.random.default_rng(s))) for s in range(30)}
    assert found == {(1, 2, 5), (1, 3, 5)}


def test_combined_changes_are_the_best_of_each_parameter_in_order():
    rng = np.random.default_rng(0)
    rows = drop_duplicates(SPACE.feasible.sample(30, rng))
    near, owner = hamming(SPACE, rows, rng)
    scores = rng.random(len(near))
    joint, whose = combine_changes(SPACE, rows, near, owner, scores)
    expected = []
    for i, row in enumerate(rows):
        mine = sorted(np.flatnonzero(owner == i), key=lambda j: -scores[j])
        changed, current = set(), row.copy()
        for j in mine:
            name = next(
                name for name, at in SPACE.columns.items() if (near[j][at] != row[at]).any()
            )
            if name in changed:
                continue
            changed.add(name)
            current[SPACE.columns[name]] = near[j][SPACE.columns[name]]
            if len(changed) > 1 and SPACE.feasible.contains(current[None])[0]:
                expected.append((i, *current))
    assert [(i, *row) for i, row in zip(whose, joint, strict=True)] == expected
