"""What a run came to: default against best."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from baco_like.records.history import History
from baco_like.records.objective import Objective
from baco_like.records.trial import Trial
from baco_like.running.progress import failures_by_kind, first_line


@dataclass(frozen=True)
class Summary:
    """The figures of a run.

    Attributes:
        objective: What was measured.
        default: The trial of the default configuration, or None where it was not evaluated.
        best: The best trial, or None before the first success.
        evaluations: Observed trials.
        failures: Failed or stopped trials by their word.
        messages: The commonest message (its first line) of each word.
        candidates: The best few with what came of measuring them again, where that was asked for.
    """

    objective: Objective
    default: Trial | None
    best: Trial | None
    evaluations: int
    failures: Mapping[str, int]
    messages: Mapping[str, str] = field(default_factory=dict)
    candidates: tuple[Trial, ...] = ()

    def confirmed(self, winner: Trial | None, candidates: Sequence[Trial]) -> Summary:
        """Return the figures with the winner of the new measurements as the best."""
        best = self.best if winner is None else winner
        return replace(self, best=best, candidates=tuple(candidates))

    @property
    def speedup(self) -> float | None:
        """Default over best when minimising, best over default when maximising; None where it has no meaning."""
        default = None if self.default is None else self.default.value
        best = None if self.best is None else self.best.value
        if default is None or best is None:
            return None
        slow, fast = (default, best) if self.objective.direction == "minimize" else (best, default)
        return slow / fast if slow > 0 and fast > 0 else None


def summarise(history: History, objective: Objective) -> Summary:
    """Return the figures of a history."""
    default = history.space.default_config
    first = [t for t in history.trials if default is not None and dict(t.config) == default]
    return Summary(
        objective,
        first[0] if first else None,
        history.best(),
        history.evaluations,
        failures_by_kind(history),
        _messages(history),
    )


def _messages(history: History) -> dict[str, str]:
    said: dict[str, Counter[str]] = {}
    for trial in history.trials:
        if trial.failure:
            said.setdefault(trial.failure, Counter())[first_line(trial)] += 1
    return {word: counts.most_common(1)[0][0] for word, counts in said.items()}


def table(summary: Summary) -> str:
    """Return default against best as text: parameters, value, speed-up, repeats and their spread."""
    default, best = summary.default, summary.best
    if best is None:
        said = [f"  {word}: {message}" for word, message in summary.messages.items()]
        total = f"{summary.evaluations} evaluations, none succeeded: {_counts(summary.failures)}"
        return "\n".join([total, *said])
    rows = [("", "default", "best")]
    rows += [(name, _shown(default, name), _text(best[name])) for name in best]
    label = summary.objective.name + (
        f" ({summary.objective.unit})" if summary.objective.unit else ""
    )
    rows.append((label, _value(default), _value(best)))
    rows.append(("repeats", _repeats(default), _repeats(best)))
    rows.append(("spread", _spread(default), _spread(best)))
    if summary.speedup is not None:
        rows.append(("speed-up", "1.00", f"{summary.speedup:.2f}"))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}".rstrip() for a, b, c in rows]
    rule = "-" * (sum(widths) + 4)
    n = len(best)
    lines = [lines[0], rule, *lines[1 : n + 1], rule, *lines[n + 1 :]]
    lines.append(f"\n{summary.evaluations} evaluations; failures: {_counts(summary.failures)}")
    return "\n".join(lines)


def _counts(failures: Mapping[str, int]) -> str:
    return ", ".join(f"{word} {n}" for word, n in failures.items()) or "none"


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _shown(trial: Trial | None, name: str) -> str:
    return "-" if trial is None else _text(trial[name])


def _value(trial: Trial | None) -> str:
    if trial is None:
        return "-"
    return f"{trial.value:.4g}" if trial.value is not None else str(trial.failure)


def _repeats(trial: Trial | None) -> str:
    return "-" if trial is None else str(len(trial.repeats))


def _spread(trial: Trial | None) -> str:
    """Return the range of the repeats, as lowest - highest."""
    if trial is None or not trial.repeats:
        return "-"
    return f"{min(trial.repeats):.4g} - {max(trial.repeats):.4g}"


def _candidate(trial: Trial) -> dict[str, Any]:
    return {
        "trial": trial.id,
        "config": dict(trial.config),
        "observed": trial.extra.get("observed"),
        "value": trial.value,
        "repeats": list(trial.repeats),
        "failed": trial.failure,
    }


def write_best(summary: Summary, path: Path, *, seed: int) -> None:
    """Write ``best.json``: configuration, value, the default's value, speed-up, repeats, failures by kind."""
    best, default = summary.best, summary.default
    content = {
        "objective": summary.objective.name,
        "unit": summary.objective.unit,
        "goal": summary.objective.direction,
        "config": None if best is None else dict(best.config),
        "value": None if best is None else best.value,
        "repeats": [] if best is None else list(best.repeats),
        "sem": None if best is None else best.sem,
        "trial": None if best is None else best.id,
        "default_config": None if default is None else dict(default.config),
        "default_value": None if default is None else default.value,
        "default_repeats": [] if default is None else list(default.repeats),
        "speedup": summary.speedup,
        "evaluations": summary.evaluations,
        "failures": dict(summary.failures),
        "failure_messages": dict(summary.messages),
        "seed": seed,
        "confirmation": [_candidate(trial) for trial in summary.candidates],
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
