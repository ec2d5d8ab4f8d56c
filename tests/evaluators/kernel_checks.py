"""Helpers for the tests of several languages of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import patient
import pytest

from baco_like.evaluators import Evaluator, load_problem, registry
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space

KERNELS = Path(__file__).parents[2] / "examples" / "kernels"


def load(name: str, **constants: Any) -> ModuleType:
    """Load a problem file of examples/kernels."""
    return load_problem(KERNELS / f"{name}.py", constants)


def evaluate(
    evaluator: Evaluator,
    config: Mapping[str, Any],
    is_expected: Callable[[Outcome], bool] | None = None,
) -> Outcome:
    return patient.evaluate(evaluator, Trial(1, config), is_expected)


def check_refusal(
    table: Table, parameters: Mapping[str, Any], message: str, unit: str = "ms"
) -> None:
    """Check that an evaluator is refused with a message of one line; relative paths begin in examples/kernels."""
    with pytest.raises((RunFileError, EvaluatorError), match=message) as caught:
        registry.create(table, Space(parameters), unit, KERNELS)
    assert "\n" not in str(caught.value)
