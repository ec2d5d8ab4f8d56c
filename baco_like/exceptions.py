"""All errors and warnings of the package.

A message is one line: the problem, the offending value, and a remedy. Errors that users can cause derive from
`BacoError` and, where Python has a suitable built-in class, also from that.
"""

from __future__ import annotations


class BacoError(Exception):
    """Base class of the package's errors."""


class SpaceError(BacoError, ValueError):
    """A space cannot be built: a domain or constraint is invalid, or no configuration is feasible."""


class ExpressionError(SpaceError):
    """A constraint's text has a syntax error or an unknown name.

    Attributes:
        text: The complete expression.
        position: Column of the error, counted from 1.
        message: The problem, without the text and the position.
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        shown = text if len(text) <= 80 else text[:77] + "..."
        super().__init__(f"constraint {shown!r}, column {position}: {message}")
        self.text = text
        self.position = position
        self.message = message


class ConfigError(BacoError, ValueError):
    """A configuration does not belong to the space."""


class StrategyError(BacoError, ValueError):
    """A strategy does not support the request."""


class TrialError(BacoError, ValueError):
    """A trial is unknown, not pending or reported twice, or its outcome is invalid; the run is unchanged."""


class SpaceExhausted(BacoError):
    """Every feasible configuration is observed or pending."""


class JournalError(BacoError):
    """A journal cannot be read or belongs to another run.

    Attributes:
        record: Number of the damaged event (0 is the header), or None.
    """

    def __init__(self, message: str, record: int | None = None) -> None:
        super().__init__(message)
        self.record = record


class JournalConflict(BacoError):
    """Another writer has appended events since this journal was read."""


class RunFileError(BacoError, ValueError):
    """An input file (TOML, BaCO scenario, results) cannot be read or has an unknown key or a wrong value."""


class EvaluatorError(BacoError, RuntimeError):
    """An evaluator cannot work at all, for example without a compiler. A failed evaluation is an outcome instead."""


class PluginError(BacoError, RuntimeError):
    """A plug-in cannot be imported, or a strategy, surrogate or acquisition function breaks its contract."""


class MissingExtra(BacoError, ImportError):
    """An optional package is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed; run: pip install 'baco-like[{extra}]'")
        self.module = module
        self.extra = extra


class Infeasible(BacoError):
    """Raise it in an objective to report that the configuration cannot run: it violates a hidden constraint.

    Args:
        message: The reason.
        failed: The failure word: compile, runtime, correctness, timeout, constraints or free text.
    """

    def __init__(self, message: str = "", failed: str = "runtime") -> None:
        super().__init__(message)
        self.failed = failed


class BacoWarning(UserWarning):
    """Base class of the package's warnings."""


class SpaceWarning(BacoWarning):
    """A space has a probable mistake: an infeasible default, or a constraint that compares with an unknown value."""


class WarmStartWarning(BacoWarning):
    """Some results of a warm start cannot be used."""


class FailureWarning(BacoWarning):
    """An invalid value was recorded as a failure, or all of the first evaluations failed."""
