"""Results of a warm start as the journal keeps them, so that resuming does not need the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from baco_like.exceptions import TrialError
from baco_like.journal.events import Event, config_from_json, observed_event, read_outcome
from baco_like.journal.fields import check_warm_start
from baco_like.records.trial import WARM, Outcome, Trial

Mode = Literal["data", "configs", "prior"]

MODES: tuple[Mode, ...] = ("data", "configs", "prior")


@dataclass(frozen=True)
class WarmStartResults:
    """Results that a run uses from one warm start.

    Attributes:
        mode: ``data``: results of the same task; ``configs``: configurations to be tried first; ``prior``: results of a
            related task.
        source: Name of the source: a file name or a type.
        trials: The used configurations with outcomes, in the values of the space; numbered from 0.
        found: Number of results in the source.
        left_out: Number of results that cannot be used, by reason.
        notes: One line per assumption.
        objective: Name of the objective that the values are of, if a related task lacks the run's first one; else None.
    """

    mode: Mode
    source: str
    trials: tuple[Trial, ...]
    found: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    objective: str | None = None

    def event(self) -> Event:
        """Return JSON values for the header; `read` is the inverse."""
        return {
            "mode": self.mode,
            "source": self.source,
            "found": self.found,
            "left_out": dict(self.left_out),
            "notes": list(self.notes),
            **({} if self.objective is None else {"objective": self.objective}),
            "rows": observed_event(self.trials)["outcomes"],
        }

    @classmethod
    def read(cls, part: Mapping[str, Any], where: str = "") -> WarmStartResults:
        """Return the results in the JSON values that `event` has returned.

        Args:
            part: The JSON values.
            where: What stands before the name of a wrong field in messages.

        Raises:
            TrialError: A field is missing or has a wrong value.
        """
        if part.get("mode") not in MODES:
            raise TrialError(f"{where}mode is {part.get('mode')!r:.40}; expected one of {MODES}")
        check_warm_start(part, where)
        rows = [(config_from_json(row["config"]), read_outcome(row)) for row in part["rows"]]
        left_out, notes, found = dict(part["left_out"]), tuple(part["notes"]), part["found"]
        trials, objective = numbered(rows), part.get("objective")
        return cls(part["mode"], part["source"], trials, found, left_out, notes, objective)


def numbered(rows: Sequence[tuple[Mapping[str, Any], Outcome]]) -> tuple[Trial, ...]:
    """Return configurations with their outcomes as trials of origin ``warm``, with the numbers from 0."""
    return tuple(
        Trial(i, config, None, WARM, replace(outcome, trial_id=i))
        for i, (config, outcome) in enumerate(rows)
    )
