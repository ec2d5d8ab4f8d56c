"""Combinations of test parameters: a part of them in every run, the others in the nightly run."""

from itertools import product

import pytest


def cover(*values, valid=lambda *_: True, share=3):
    """Return the combinations of values for `pytest.mark.parametrize`; one of ``share`` is for the normal run.

    Any two values of two lists meet in the normal run if a third list has at least ``share`` values. With two lists,
    each value meets one of ``share`` values of the other.
    """
    cases = []
    for choice in product(*map(enumerate, values)):
        places, chosen = zip(*choice, strict=True)
        if valid(*chosen):
            marks = [] if sum(places) % share == 0 else [pytest.mark.nightly]
            name = "-".join(getattr(value, "__name__", str(value)) for value in chosen)
            cases.append(pytest.param(*chosen, marks=marks, id=name))
    return cases
