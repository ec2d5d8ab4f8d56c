"""A recorded table for tests of recorded problems and studies."""

from __future__ import annotations

from typing import Any


def t4(n: int = 40, factor: float = 1.0) -> dict[str, Any]:
    """Return a table of 2 n configurations: one in ten fails, one in twenty was excluded, values are distinct."""
    rows = []
    for number in range(1, 2 * n + 1):
        failing, excluded = number % 10 == 3, number % 20 == 5
        value = factor * (10 + (37 * number) % (2 * n))
        rows.append(
            {
                "configuration": {"x": (number - 1) // 2, "y": (number - 1) % 2 + 1},
                "times": {"compilation": 500.0, "runtimes": [value - 1, value, value + 1]},
                "invalidity": "runtime" if failing else "constraints" if excluded else "correct",
                "measurements": [{"name": "time", "value": value, "unit": "ms"}],
                "objectives": ["time"],
            }
        )
    return {"schema_version": "1.0.0", "metadata": {}, "results": rows}
