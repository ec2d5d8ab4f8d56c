"""Write ``best.json``: the best configuration of a run, how sure it is, and the front of several objectives."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from baco_like._output import replace_file
from baco_like.records import (
    Confirmation,
    Objective,
    Speedup,
    TaskRecommendation,
    Trial,
    Utilisation,
)
from baco_like.records.trial import read_values
from baco_like.running.by_task import recommendation_entries
from baco_like.running.summary import Summary


def write_best(
    summary: Summary,
    path: Path,
    *,
    seed: int,
    make_commands: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda config: None,
    recommended: TaskRecommendation | None = None,
) -> None:
    """Write ``best.json``: configuration, value, the default's value, speed-up, repeats, failures by kind.

    With several objectives the configuration is the knee, and the file has the front too. With several tasks it is the
    recommended configuration if there is one for all tasks, and there is no best value, as values of different tasks do
    not compare.

    Args:
        summary: The summary.
        path: The file.
        seed: The seed of the run.
        make_commands: Returns the commands of a configuration, or None if the evaluator runs none.
        recommended: With several tasks, the recommended configurations; they become the entry ``tasks``.
    """
    best, default, confirmation = summary.best, summary.default, summary.confirmation
    config = None if best is None else dict(best.config)
    if summary.by_task is not None:
        best = default = config = None
        if recommended is not None and len(recommended.configs) == 1:
            config = dict(recommended.configs[0])
    content = {
        "objective": summary.objective.name,
        "unit": summary.objective.unit,
        "goal": summary.objective.direction,  # the key of files before the word became "direction"
        "config": config,
        "commands": None if best is None else make_commands(best.config),
        "value": None if best is None else best.value,
        "repeats": [] if best is None else list(best.repeats),
        "sem": None if best is None else best.sem,
        "trial": None if best is None else best.id,
        "default_config": None if default is None else dict(default.config),
        "default_value": None if default is None else default.value,
        "default_repeats": [] if default is None else list(default.repeats),
        "speedup": summary.speedup,
        "evaluations": summary.evaluations,
        "builds": summary.builds,
        "failures": dict(summary.failures),
        "failure_messages": dict(summary.messages),
        "censored": dict(summary.censored),
        "prior_weights": dict(summary.prior_weights),
        "seed": seed,
        "drift": list(summary.drift),
        "notes": summary.notes,
        **_utilisation_entries(summary.utilisation),
        **recommendation_entries(recommended, make_commands),
        **_front_entries(summary.front, summary.objectives),
        "is_default": summary.is_default_best,
        **_confirmation_entries(confirmation, summary.confirmed_speedup),
        "confirmation": [
            {
                "trial": trial.id,
                "config": dict(trial.config),
                "observed": trial.extra.get("observed"),
                "value": trial.value,
                "repeats": list(trial.repeats),
                "failed": trial.failure,
                **_speedup_entries(confirmation.speedup_of(trial) if confirmation else None),
            }
            for trial in (confirmation.candidates if confirmation else ())
        ],
    }
    replace_file(path, (json.dumps(content, indent=2) + "\n").encode())


def _utilisation_entries(utilisation: Utilisation | None) -> dict[str, Any]:
    if utilisation is None:
        return {}
    return {"workers": utilisation.workers, "idle": utilisation.idle}


def _confirmation_entries(
    confirmation: Confirmation | None, speedup: Speedup | None
) -> dict[str, Any]:
    """Return the entries of ``best.json`` on how sure the result is; intervals without an end have null there."""
    if confirmation is None:
        return {}
    winner, entries = confirmation.winner, _speedup_entries(speedup)
    simplification = confirmation.plan.simplification
    return {
        **({"simplification": asdict(simplification)} if simplification else {}),
        "speedup_low": entries["speedup_low"],
        "speedup_high": entries["speedup_high"],
        "confidence": confirmation.plan.confidence,
        "decided": confirmation.is_decided,
        "rounds": confirmation.rounds,
        "winner": None if winner is None else dict(winner.config),
        "tied": [dict(trial.config) for trial in confirmation.tied],
    }


def _speedup_entries(speedup: Speedup | None) -> dict[str, float | None]:
    """Return a speed-up and the ends of its interval; all null if there is none, the ends if they are not known."""
    is_known = speedup is not None and math.isfinite(speedup.high)
    return {
        "speedup": None if speedup is None else speedup.value,
        "speedup_low": speedup.low if speedup is not None and is_known else None,
        "speedup_high": speedup.high if speedup is not None and is_known else None,
    }


def _front_entries(front: Sequence[Trial], objectives: Sequence[Objective]) -> dict[str, Any]:
    """Return the entries of ``best.json`` on several objectives; empty with one."""
    if not objectives:
        return {}
    names = [objective.name for objective in objectives]
    return {
        "objectives": [
            {"name": o.name, "unit": o.unit, "direction": o.direction} for o in objectives
        ],
        "front": [
            {
                "trial": trial.id,
                "config": dict(trial.config),
                "values": dict(zip(names, read_values(trial, objectives), strict=True)),
            }
            for trial in front
        ],
    }
