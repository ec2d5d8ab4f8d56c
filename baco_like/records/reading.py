"""Read the return value of a user's objective as an outcome.

Non-finite and other invalid values are recorded as failures; the message keeps the original value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from baco_like.exceptions import Infeasible, TrialError
from baco_like.records.direction import Direction
from baco_like.records.trial import Outcome


def outcome_from(
    trial_id: int,
    value: object = None,
    objective: str = "value",
    failed: str | bool | None = None,
    message: object = "",
    bound: float | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Outcome:
    """Return the outcome of a trial.

    A value may be

    * a finite number (int, float, NumPy scalar, array without dimensions, anything with ``__float__``);
    * a list, tuple or one-dimensional array of finite numbers: repeats, of which the median counts;
    * a mapping from names to such values that includes the objective; the others become `Outcome.metrics` (medians), or
      texts in ``extra["metrics"]`` if they are not finite numbers;
    * an exception: a failure with its type and message; `Infeasible` has its own failure word.

    ``None``, NaN, infinities, integers beyond the range of floats, booleans, texts and all other values are failures
    with the word ``runtime``. `Outcome.problem` has the reason, and the optimizer shows it in a warning after the
    outcome is recorded. A text becomes the message of the failure.

    Args:
        trial_id: Id of the trial.
        value: The return value of the objective.
        objective: The key of the objective in a mapping.
        failed: The failure word, or True for ``runtime``; None and False mean that ``value`` counts.
        message: Output of the failing tool: a text, bytes, or an exception; None is an empty message.
        bound: Lower bound of the value: the outcome is censored, with the word ``timeout`` unless ``failed`` is given.
        extra: Further JSON values to keep.

    Raises:
        TrialError: The mapping lacks the objective, both a value and a failure are given, the bound is not a finite
            number, or ``extra["metrics"]`` is not a mapping although texts have to be kept there.
    """
    notes, text = dict(extra or {}), _text(message)
    word = _failure_word(failed)
    if word is not None or bound is not None:
        if value is not None:
            raise TrialError(
                f"trial {trial_id}: give a value or a failure, not both: {_shown(value)}"
            )
        return _failure(trial_id, word, text, bound, notes)
    if isinstance(value, BaseException):
        return outcome_of_exception(trial_id, value, extra=notes)
    reading = _read(value, objective, trial_id)
    if reading.problem:
        text = text or reading.message or reading.problem
        failure = Outcome.failure(trial_id, "runtime", text, extra=notes)
        return replace(failure, problem=reading.problem)
    if reading.unread:
        had = notes.get("metrics", {})
        if not isinstance(had, Mapping):
            raise TrialError(
                f"trial {trial_id}: extra['metrics'] = {_shown(had)}: expected a mapping, as texts among the metrics "
                "are kept there too; use another key"
            )
        notes["metrics"] = {**had, **reading.unread}
    found = Outcome.success(trial_id, reading.repeats, metrics=reading.metrics, extra=notes)
    return replace(found, message=text)


def outcome_of_exception(
    trial_id: int,
    error: BaseException,
    word: str = "runtime",
    *,
    extra: Mapping[str, Any] | None = None,
) -> Outcome:
    """Return the failure for an exception; `Infeasible` has its own failure word."""
    if isinstance(error, Infeasible):
        return Outcome.failure(trial_id, error.failed, str(error), extra=extra)
    text = " ".join(str(error).split())
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Outcome.failure(trial_id, word, message[:2000], extra=extra)


def without_bound(outcome: Outcome, direction: Direction) -> Outcome:
    """Return a failure instead of a censored outcome when maximising, where a lower bound has no use."""
    return outcome if direction == "minimize" else unbounded(outcome)


def unbounded(outcome: Outcome) -> Outcome:
    """Return a failure instead of a censored outcome, and all other outcomes unchanged."""
    if outcome.bound is None:
        return outcome
    return Outcome.failure(
        outcome.trial_id, outcome.failed or "timeout", outcome.message, extra=outcome.extra
    )


@dataclass(frozen=True)
class _Reading:
    repeats: tuple[float, ...] = ()
    problem: str = ""
    message: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


def _text(message: object) -> str:
    if message is None:
        return ""
    if isinstance(message, bytes):
        return message.decode(errors="replace")
    return message if isinstance(message, str) else str(message)


def _failure_word(failed: str | bool | None) -> str | None:
    if failed is None or failed is False:
        return None
    if failed is True:
        return "runtime"
    if not isinstance(failed, str) or not failed.strip():
        raise TrialError(f"failed = {_shown(failed)}: give a word such as 'runtime', or True")
    return failed


def _failure(
    trial_id: int, word: str | None, message: str, bound: float | None, notes: Mapping[str, Any]
) -> Outcome:
    if bound is None:
        return Outcome.failure(trial_id, word or "runtime", message, extra=notes)
    number = finite_number(bound)
    if number is None:
        raise TrialError(f"trial {trial_id}: the bound {_shown(bound)} is not a finite number")
    return Outcome.censored(trial_id, number, word or "timeout", message, extra=notes)


def _read(value: object, objective: str, trial_id: int) -> _Reading:
    if not isinstance(value, Mapping):
        return _read_repeats(value)
    if objective not in value:
        names = ", ".join(map(str, value)) or "none"
        raise TrialError(
            f"trial {trial_id}: the objective {objective!r} is not among the metrics: {names}"
        )
    reading = _read_repeats(value[objective])
    metrics, unread = {}, {}
    for name, entry in value.items():
        if name == objective:
            continue
        numbers = _read_repeats(entry).repeats
        if numbers:
            metrics[str(name)] = float(np.median(numbers))
        else:
            unread[str(name)] = _shown(entry)
    return replace(reading, metrics=metrics, unread=unread)


def _read_repeats(value: object) -> _Reading:
    if isinstance(value, np.ndarray) and value.ndim <= 1:
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        number = finite_number(value)
        if number is not None:
            return _Reading((number,))
        return _Reading(problem=_problem(value), message=_own_message(value))
    if not value:
        return _Reading(problem="the list of repeats is empty")
    numbers = [finite_number(repeat) for repeat in value]
    if None in numbers:
        place = numbers.index(None)
        return _Reading(problem=f"repeat {place + 1} of {len(value)}: {_problem(value[place])}")
    return _Reading(tuple(number for number in numbers if number is not None))


def finite_number(value: object) -> float | None:
    """Return a finite number as a float, or None for all other values; booleans are rejected."""
    if isinstance(value, (bool, np.bool_, str, bytes)) or not hasattr(value, "__float__"):
        return None
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return None
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def number_in(text: str) -> float | None:
    """Return the finite number in a text, or None."""
    try:
        return finite_number(float(text))
    except ValueError:
        return None


def _own_message(value: object) -> str:
    """Return the failure message that a user's text is, such as ``"no room"``; empty for numbers in quotes."""
    return value.strip()[:2000] if isinstance(value, str) and number_in(value) is None else ""


def _problem(value: object) -> str:
    if isinstance(value, str):
        if number_in(value) is not None:
            return f"the value {_shown(value)} is a text; convert it with float({_shown(value)})"
        if not value.strip():
            return "the value is an empty text"
        return f"the value {_shown(value)} is a text, not a number"
    return f"the value {_shown(value)} is not a finite number"


def _shown(value: object) -> str:
    """Return any value as one short line."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a user's own __repr__, or an integer of more digits than Python writes
        text = f"of type {type(value).__name__}"
    return text if len(text) <= 100 else text[:97] + "..."
