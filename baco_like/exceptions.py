"""The closed list of errors and warnings.

Every message is one line that names the thing, its value and the way out. Errors that users can cause derive from
`BacoError`; where Python has a fitting built-in class they derive from that too, so both can be caught.
"""

from __future__ import annotations


class BacoError(Exception):
    """Base of everything that the package raises on purpose."""


class SpaceError(BacoError, ValueError):
    """A space cannot be built: a bad domain, a bad constraint, or nothing satisfies them."""


class ExpressionError(SpaceError):
    """A constraint's text is not in the language of constraints.

    Attributes:
        text: The whole expression.
        position: Column of the offending part, counted from 1.
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        shown = text if len(text) <= 80 else text[:77] + "..."
        super().__init__(f"constraint {shown!r}, column {position}: {message}")
        self.text = text
        self.position = position


class ConfigError(BacoError, ValueError):
    """A configuration does not belong to the space."""


class StrategyError(BacoError, ValueError):
    """A strategy cannot do what is asked of it."""


class TrialError(BacoError, ValueError):
    """A trial is unknown, not pending, or told twice; nothing was changed."""


class SpaceExhausted(BacoError):
    """Every feasible configuration is observed or pending."""


class JournalError(BacoError):
    """A journal cannot be read or does not fit this run.

    Attributes:
        record: Number of the offending record, the header being 0, or None.
    """

    def __init__(self, message: str, record: int | None = None) -> None:
        super().__init__(message)
        self.record = record


class JournalConflict(BacoError):
    """Somebody else has appended since this journal was read; read on and try again."""


class RunFileError(BacoError, ValueError):
    """A file that says what to run (TOML, or a scenario of BaCO) has an unknown key or a wrong value."""


class EvaluatorError(BacoError, RuntimeError):
    """An evaluator cannot work at all (no compiler, say); a failed evaluation is an outcome instead."""


class MissingExtra(BacoError, ImportError):
    """An optional package is needed that is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f"{module} is not installed; install it with: pip install 'baco-like[{extra}]'"
        )
        self.module = module
        self.extra = extra


class Infeasible(BacoError):
    """Raised by a user's objective to say that this configuration cannot run.

    Args:
        message: Why.
        failed: The failure word: compile, runtime, correctness, timeout, constraints or free text.
    """

    def __init__(self, message: str = "", failed: str = "runtime") -> None:
        super().__init__(message)
        self.failed = failed


class BacoWarning(UserWarning):
    """Base of the package's warnings."""


class SpaceWarning(BacoWarning):
    """A space says what can hardly be meant: a default that cannot be run, a test for a value that does not exist."""


class WarmStartWarning(BacoWarning):
    """Some of the results of a warm start cannot be used."""


class FailureWarning(BacoWarning):
    """A value was recorded as a failure, or the first evaluations all failed."""
