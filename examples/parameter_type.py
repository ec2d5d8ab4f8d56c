"""Define a custom parameter type: the span of cores on which a program runs.

A `Span` is a first and a last core, such as ``"2-5"``. One parameter has no wrong values, where two integers need a
constraint, and the distance of two spans is the number of steps that move one end by one core.

Run it with: python examples/parameter_type.py [EVALUATIONS]
"""

import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, final

import numpy as np

from baco_like import Optimizer, Space
from baco_like.parameters import ListedParameter, ParameterKind, register_parameter
from baco_like.testing import parameters as conformance


@final
@dataclass(frozen=True)
class Span(ListedParameter):
    """The spans of some cores; a value is a text such as ``"2-5"``."""

    kind = ParameterKind.UNORDERED

    cores: int
    default: str | None = None

    @cached_property
    def values(self) -> tuple[str, ...]:
        return tuple(f"{first}-{last}" for first, last in self._ends.astype(int))

    @cached_property
    def _ends(self):
        """The first and the last core of each span, (n, 2)."""
        return np.array(list(combinations_with_replacement(range(self.cores), 2)), float)

    def features(self, codes):
        """Return one column for each end; two spans are at most 1 apart."""
        return self._ends[codes[:, 0].astype(int)] / (np.sqrt(2.0) * max(1, self.cores - 1))

    def distance(self, a, b):
        """Return the distance of the ends in the plane."""
        left, right = self._ends[a[:, 0].astype(int)], self._ends[b[:, 0].astype(int)]
        return np.hypot(*(left[:, None, :] - right[None, :, :]).transpose(2, 0, 1))

    def to_dict(self) -> dict[str, Any]:
        return {"type": "span", "cores": self.cores, "default": self.default}


register_parameter("span", Span)

CORES = Span(8, default="0-7")

SPACE = Space(
    {"cores": CORES, "tile": [8, 16, 32, 64], "flags": ["-O2", "-O3"]},
    constraints=["cores != '0-0'"],
)


def run_time(cores, tile, flags):
    """Return the run time of a made-up program, in ms: core 0 serves interrupts, and memory feeds five cores."""
    first, last = map(int, cores.split("-"))
    used = last - first + 1
    return (
        40 / min(used, 5) + 0.5 * used + 3.0 * (first == 0) + abs(tile - 32) / 16 + (flags == "-O2")
    )


def main(evaluations):
    for check in conformance.CHECKS:
        check(CORES)
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
