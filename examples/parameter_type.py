"""Define a custom parameter type: a set of compiler flags, each of them on or off.

A `Subset` of k elements has 2^k values. One parameter is shorter than k booleans, a constraint can limit the number of
elements, and the distance of two subsets is the number of elements in which they differ.

Run it with: python examples/parameter_type.py [EVALUATIONS]
"""

import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, final

import numpy as np

from baco_like import Integer, Optimizer, Space
from baco_like.parameters import ListedParameter, ParameterKind, register_parameter
from baco_like.testing import parameters as conformance


@final
@dataclass(frozen=True)
class Subset(ListedParameter):
    """The subsets of some elements; a value is a text such as ``"unroll+vectorize"``, the empty subset ``"none"``."""

    kind = ParameterKind.UNORDERED

    elements: tuple[str, ...]
    default: str | None = None

    def __post_init__(self):
        object.__setattr__(self, "elements", tuple(self.elements))  # JSON gives a list

    @cached_property
    def values(self) -> tuple[str, ...]:
        sizes = range(len(self.elements) + 1)
        subsets = [subset for size in sizes for subset in combinations(self.elements, size)]
        return tuple("+".join(subset) or "none" for subset in subsets)

    @cached_property
    def _members(self):
        """Whether each subset has each element, (2^k, k)."""
        return np.array([[e in v.split("+") for e in self.elements] for v in self.values], float)

    def distance(self, a, b):
        """Return the number of elements in which the subsets differ."""
        left, right = self._members[a[:, 0].astype(int)], self._members[b[:, 0].astype(int)]
        return np.abs(left[:, None, :] - right[None, :, :]).sum(axis=2)

    def features(self, codes):
        """Return one column for each element; two subsets are at most 1 apart."""
        return self._members[codes[:, 0].astype(int)] / np.sqrt(len(self.elements))

    def to_dict(self) -> dict[str, Any]:
        return {"type": "subset", "elements": list(self.elements), "default": self.default}


register_parameter("subset", Subset)

FLAGS = Subset(("fuse", "prefetch", "unroll", "vectorize"), default="none")

SPACE = Space(
    {"flags": FLAGS, "tile": [8, 16, 32, 64], "threads": Integer(1, 8)},
    constraints=["flags != 'none'", "tile * threads <= 256"],
)


def run_time(flags, tile, threads):
    """Return the run time of a made-up kernel, in ms."""
    saved = {"fuse": 1.0, "prefetch": -0.5, "unroll": 0.7, "vectorize": 2.0}
    return 9.0 - sum(saved[flag] for flag in flags.split("+")) + 32 / tile + 4 / threads


def main(evaluations):
    for check in conformance.CHECKS:
        check(FLAGS)
        print(f"passed: {check.__name__}")
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "run.jsonl"
        for budget in (evaluations // 2, evaluations):  # the second run resumes the first one
            optimizer = Optimizer(SPACE, seed=0, storage=journal)
            while len(optimizer.trials) < budget:
                trial = optimizer.suggest()
                optimizer.observe(trial, run_time(**trial))
        loaded = Optimizer.load(journal)  # the space comes from the journal
        assert loaded.space == SPACE
        print(
            f"best of {len(loaded.trials)}: {dict(loaded.best.config)}, {loaded.best.value:.2f} ms"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
