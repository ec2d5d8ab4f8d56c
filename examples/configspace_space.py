"""Tune a space of ConfigSpace, as used by SMAC3.

Run it with: python examples/configspace_space.py [EVALUATIONS]
"""

import sys

import ConfigSpace as cs

from baco_like import MaxEvals, Space, tune


def described():
    """Return a space as a user of SMAC3 writes it."""
    tile = cs.OrdinalHyperparameter("tile", [4, 8, 16, 32, 64])
    inner = cs.OrdinalHyperparameter("inner", [1, 2, 4, 8, 16])
    level = cs.CategoricalHyperparameter("level", ["-O1", "-O2", "-O3"], default_value="-O2")
    source = cs.ConfigurationSpace()
    source.add(tile, inner, level)
    source.add(
        cs.ForbiddenLessThanRelation(tile, inner),
        cs.ForbiddenAndConjunction(
            cs.ForbiddenEqualsClause(level, "-O1"), cs.ForbiddenEqualsClause(tile, 64)
        ),
    )
    return source


def measure(config):
    """Return made-up milliseconds; compile and run here."""
    return abs(config["tile"] - 32) / 8 + 8 / config["inner"] + (config["level"] != "-O3")


def main(evaluations):
    space = Space.from_configspace(described())
    result = tune(measure, space, stop=MaxEvals(evaluations), seed=1, progress=False)
    print(f"best {result.best_value:.2f} ms with {result.best_config}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 25)
