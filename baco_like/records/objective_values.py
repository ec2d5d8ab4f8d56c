"""Read the return value of a user's objective as an outcome.

Non-finite and other invalid values are recorded as failures; the message keeps the original value.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, NamedTuple

import numpy as np

from baco_like.exceptions import Infeasible, TrialError
from baco_like.records.objective import Direction, stated_error
from baco_like.records.trial import PROGRAM, JsonObject, Outcome, Status, median, standard_error


def outcome_from(
    trial_id: int,
    value: object = None,
    objective: str = "value",
    failed: str | bool | None = None,
    message: object = "",
    bound: float | None = None,
    extra: JsonObject | None = None,
) -> Outcome:
    """Return the outcome of a trial.

    A value may be

    * a finite number (int, float, NumPy scalar, array without dimensions, anything with ``__float__``);
    * a `Measurement`: a finite number with its standard error;
    * a list, tuple or one-dimensional array of finite numbers: repeats, of which the median counts (a list of mappings
      is an error);
    * a mapping from names to such values that includes the objective; the others become `Outcome.metrics` (medians), or
      texts in ``extra["metrics"]`` if they are not finite numbers. The text ``program`` identifies the build, see
      `add_program`;
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
        TrialError: The value is a list of mappings, the mapping lacks the objective, ``program`` is not a text, both a
            value and a failure are given, the bound is not a finite number, or ``extra["metrics"]`` is not a mapping
            although texts have to be kept there.
    """
    notes, text = dict(extra or {}), _text(message)
    word = _failure_word(failed)
    if word is not None or bound is not None:
        if value is not None:
            raise TrialError(
                f"trial {trial_id}: give a value or failure, not both: {_shown(value)}"
            )
        return _failed_outcome(trial_id, word, text, bound, notes)
    if isinstance(value, BaseException):
        return outcome_of_exception(trial_id, value, extra=notes)
    value, others = _split_metrics(trial_id, value, objective)
    notes = add_program(notes, others.pop(PROGRAM, None))
    repeats, problem = _read_repeats(value)
    if problem:
        text = text or _own_message(value) or problem
        return replace(Outcome.failure(trial_id, "runtime", text, extra=notes), problem=problem)
    metrics = read_metrics(others)
    if metrics.texts:
        notes["metrics"] = {**_kept_texts(trial_id, notes), **metrics.texts}
    outcome = Outcome.success(
        trial_id, repeats, metrics=metrics.numbers, extra=notes, metric_repeats=metrics.repeats
    )
    sem = _error(value, repeats) or outcome.sem
    return replace(outcome, message=text, sem=sem, metric_sems=metrics.sems)


def add_program(extra: JsonObject | None, program: object) -> dict[str, Any]:
    """Return ``extra`` with the text that identifies the build, such as the hash of its files; None adds nothing.

    Several repeats of one build give a list of equal texts.

    Raises:
        TrialError: It is not a text, the repeats differ, or ``extra`` has a program too.
    """
    names = program if isinstance(program, list) else [program]
    known = dict(extra or {})
    if all(name is None for name in names):
        return known
    is_text = isinstance(names[0], str) and names[0].strip()
    if not is_text or any(name != names[0] for name in names):
        raise TrialError(
            f"program = {_shown(program)}: expected one text that identifies the build, such as the hash of its files"
        )
    if PROGRAM in known:
        raise TrialError("program and extra['program'] are both given; leave one of them out")
    return {**known, PROGRAM: names[0]}


def _failed_outcome(
    trial_id: int, word: str | None, message: str, bound: float | None, extra: JsonObject
) -> Outcome:
    """Return a failure with this word, or a censored outcome if there is a bound."""
    if bound is None:
        return Outcome.failure(trial_id, word or "runtime", message, extra=extra)
    number = finite_number(bound)
    if number is None:
        raise TrialError(f"trial {trial_id}: the bound {_shown(bound)} is not a finite number")
    return Outcome.censored(trial_id, number, word or "timeout", message, extra=extra)


def _split_metrics(
    trial_id: int, value: object, objective: str
) -> tuple[object, dict[str, object]]:
    """Return the value of the objective, and the other metrics of a mapping by name."""
    if isinstance(value, (list, tuple)) and any(isinstance(entry, Mapping) for entry in value):
        raise TrialError(
            f"trial {trial_id}: the value is a list of mappings; give the repeats of each metric in one mapping: "
            f"{{{objective!r}: [1.2, 1.3], ...}}"
        )
    if not isinstance(value, Mapping):
        return value, {}
    if objective not in value:
        names = ", ".join(map(str, value)) or "none"
        raise TrialError(
            f"trial {trial_id}: the objective {objective!r} is not among the metrics: {names}; name one of them as "
            "the objective"
        )
    others = {str(name): entry for name, entry in value.items() if name != objective}
    return value[objective], others


def _kept_texts(trial_id: int, extra: JsonObject) -> Mapping[str, object]:
    """Return the metrics that the user's extra values already have as texts."""
    texts = extra.get("metrics", {})
    if not isinstance(texts, Mapping):
        raise TrialError(
            f"trial {trial_id}: extra['metrics'] = {_shown(texts)}: expected a mapping, as texts among the metrics "
            "are kept there too; use another key"
        )
    return texts


def read_build(values: object) -> dict[str, float]:
    """Return build metrics: finite numbers by name; none for None.

    Raises:
        TrialError: They are not a mapping, or one is not a finite number.
    """
    if not isinstance(values, (Mapping, NoneType)):
        raise TrialError(f"build = {_shown(values)}: expected a mapping of names to numbers")
    read = {str(name): finite_number(value) for name, value in (values or {}).items()}
    for name, number in read.items():
        if number is None:
            raise TrialError(
                f"build[{name!r:.60}] is not a finite number; leave out what the build does not give"
            )
    return {name: number for name, number in read.items() if number is not None}


class ReadMetrics(NamedTuple):
    """Metrics as an outcome keeps them, by name.

    Attributes:
        numbers: The numbers; of repeats the median.
        repeats: All values of those that were measured several times.
        texts: All others, such as NaN, as one short line each.
        sems: The standard errors of those that state one.
    """

    numbers: dict[str, float]
    repeats: dict[str, tuple[float, ...]]
    texts: dict[str, str]
    sems: dict[str, float]


def read_metrics(values: Mapping[str, object]) -> ReadMetrics:
    """Return metrics by name: numbers, lists of repeats, or other values."""
    read = {name: _read_repeats(value)[0] for name, value in values.items()}
    errors = {name: _error(values[name], repeats) for name, repeats in read.items() if repeats}
    return ReadMetrics(
        {name: median(repeats) for name, repeats in read.items() if repeats},
        {name: repeats for name, repeats in read.items() if len(repeats) > 1},
        {name: _shown(values[name]) for name, repeats in read.items() if not repeats},
        {name: error for name, error in errors.items() if error is not None},
    )


def _error(value: object, repeats: tuple[float, ...]) -> float | None:
    """Return the stated standard error, or the standard error of the means if it is larger; None if none is stated."""
    stated = stated_error(value)
    return None if stated is None else max(stated, standard_error(repeats) or 0.0)


def require_objectives(outcome: Outcome, names: Sequence[str]) -> Outcome:
    """Return the outcome, or a failure if the value of a further objective is not a finite number.

    Args:
        outcome: Any outcome; only a successful one needs the objectives.
        names: Names of the objectives that are among its metrics.

    Raises:
        TrialError: A successful outcome lacks an objective.
    """
    if outcome.value is None:
        return outcome
    texts = outcome.extra.get("metrics", {})
    for name in names:
        if name in outcome.metrics:
            continue
        if not isinstance(texts, Mapping) or name not in texts:
            hint = hint_at_name(name, outcome.metrics)
            measured = ", ".join(map(repr, outcome.metrics)) or "none"
            raise TrialError(
                f"trial {outcome.trial_id}: the objective {name!r} was not measured{hint}; measured besides the first "
                f"objective: {measured}; report all objectives together in one mapping, or a failure"
            )
        problem = f"{name}: the value {texts[name]} is not a finite number"
        return as_failure(outcome, "runtime", outcome.message or problem, problem)
    return outcome


def as_failure(outcome: Outcome, failed: str, message: str, problem: str = "") -> Outcome:
    """Return a success as a failure with this word; its repeats and metrics stay."""
    return replace(
        outcome,
        status=Status.FAILED,
        value=None,
        sem=None,
        failed=failed,
        message=message,
        problem=problem,
    )


def hint_at_name(name: str, known: Iterable[str]) -> str:
    """Return the hint ``" (did you mean 'time'?)"`` for an unknown name, or nothing if no known one is similar."""
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def outcome_of_exception(
    trial_id: int, error: BaseException, word: str = "runtime", *, extra: JsonObject | None = None
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
    word = outcome.failed or "timeout"
    failure = Outcome.failure(outcome.trial_id, word, outcome.message, extra=outcome.extra)
    return replace(failure, build=outcome.build)


def _text(message: object) -> str:
    if isinstance(message, bytes):
        return message.decode(errors="replace")
    return "" if message is None else str(message)


def _failure_word(failed: str | bool | None) -> str | None:
    if failed is None or failed is False:
        return None
    if failed is True:
        return "runtime"
    if not isinstance(failed, str) or not failed.strip():
        raise TrialError(f"failed = {_shown(failed)}: give a word such as 'runtime', or True")
    return failed


def _read_repeats(value: object) -> tuple[tuple[float, ...], str]:
    """Return the finite numbers in a value, or no number and the problem."""
    if isinstance(value, np.ndarray) and value.ndim <= 1:
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        number = finite_number(value)
        return ((), _problem(value)) if number is None else ((number,), "")
    repeats = []
    for i, repeat in enumerate(value, 1):
        number = finite_number(repeat)
        if number is None:
            return (), f"repeat {i} of {len(value)}: {_problem(repeat)}"
        repeats.append(number)
    return tuple(repeats), "" if repeats else "the list of repeats is empty"


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


def number_within(name: str, value: object, interval: str) -> float:
    """Return an argument as a finite number in an interval, such as ``"(0, 1]"`` or ``"[0, inf)"``.

    Args:
        name: The argument, for the message.
        value: Its value.
        interval: The interval.

    Raises:
        ValueError: It is not such a number.
    """
    low, high = map(float, interval[1:-1].split(","))
    number = finite_number(value)
    if number is not None:
        above = number >= low if interval[0] == "[" else number > low
        below = number <= high if interval[-1] == "]" else number < high
        if above and below:
            return number
    raise ValueError(f"{name} = {value!r:.60}: expected {_describe_interval(interval)}")


def _describe_interval(interval: str) -> str:
    """Return words for an interval, such as "a number above 0 and at most 1"."""
    low, high = (end.strip() for end in interval[1:-1].split(","))
    ends = []
    if low != "-inf":
        ends.append(("of at least " if interval[0] == "[" else "above ") + low)
    if high != "inf":
        ends.append(("at most " if interval[-1] == "]" else "below ") + high)
    return "a number " + " and ".join(ends) if ends else "a finite number"


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
