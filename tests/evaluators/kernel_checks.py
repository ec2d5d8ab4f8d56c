"""What the tests of several targets do alike."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from baco_like.evaluators import registry
from baco_like.evaluators.protocol import Evaluator
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import EvaluatorError, RunFileError
from baco_like.records.trial import Outcome, Trial
from baco_like.spaces.space import Space


def evaluate(evaluator: Evaluator, config: Mapping[str, Any]) -> Outcome:
    evaluator.submit(Trial(1, config))
    (outcome,) = evaluator.wait()
    return outcome


def check_refusal(
    table: Table, parameters: Mapping[str, Any], message: str, unit: str = "ms"
) -> None:
    """Check that an evaluator is refused in one line; paths begin beside this file."""
    with pytest.raises((RunFileError, EvaluatorError), match=message) as caught:
        registry.create(table, Space(parameters), unit, Path(__file__).parent)
    assert "\n" not in str(caught.value)
