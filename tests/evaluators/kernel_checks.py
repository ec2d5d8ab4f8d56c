"""Helpers for the tests of several languages of kernels."""

from pathlib import Path

import patient
import pytest

from baco_like.evaluators import load_problem, registry
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Trial
from baco_like.spaces.space import Space

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"


def load(name, **constants):
    """Load a problem file of examples/kernels."""
    return load_problem(KERNELS / f"{name}.py", constants)


def evaluate(evaluator, config, is_expected=None):
    return patient.evaluate(evaluator, Trial(1, config), is_expected)


def evaluate_once(evaluator, config, is_expected=None):
    """Evaluate as if no other kernel had run in the worker: a wrong one is not confirmed in a new process."""
    evaluator.bench.used = 0
    return evaluate(evaluator, config, is_expected)


def check_refusal(table, parameters, message, unit="ms"):
    """Check that an evaluator is refused with a message of one line; relative paths begin in examples/kernels."""
    with pytest.raises((RunFileError, EvaluatorError), match=message) as caught:
        registry.create(table, Space(parameters), unit, KERNELS)
    assert "\n" not in str(caught.value)
