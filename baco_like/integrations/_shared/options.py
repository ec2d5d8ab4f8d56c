"""Check an optimizer's options before its space is known."""

from __future__ import annotations

from typing import Any

from baco_like.optimizer import Optimizer
from baco_like.spaces.space import Space


def check_options(**options: Any) -> None:
    """Check keyword arguments of `Optimizer`, so that an adapter rejects a mistake when it is created.

    Raises:
        ValueError: The strategy or a setting does not exist.
    """
    Optimizer(Space({"any": [0, 1]}), **options)
