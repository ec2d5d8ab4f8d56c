"""Views of a run with a fidelity or tasks: problem and history of one level, and proposals back in the whole space."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from baco_like._typing import Codes, Mask
from baco_like.records import History, Observation, Outcome, Proposal, Trial, row_keys
from baco_like.spaces import Space
from baco_like.spaces.fidelity import Fidelity
from baco_like.strategies.protocol import Problem


def fidelity_of(problem: Problem) -> Fidelity:
    """Return the fidelity of a problem that has one."""
    fidelity = problem.space.fidelity
    assert fidelity is not None
    return fidelity


def problem_at(problem: Problem, level: int) -> Problem:
    """Return the problem in which the fidelity has only the value with this index."""
    return replace(problem, space=problem.space.at_level(level))


def set_level(fidelity: Fidelity, codes: Codes, level: int) -> Codes:
    """Return a copy of rows of codes, (n, w), with the code of a level."""
    rows = np.array(codes, dtype=float)
    rows[:, fidelity.column] = level
    return rows


def history_at(problem: Problem, history: History, level: int) -> History:
    """Return the observed and pending trials at one level as a history of `problem_at`; they are numbered anew."""
    fidelity = fidelity_of(problem)
    return history_of_part(
        problem.space.at_level(level),
        history,
        lambda codes: codes[:, fidelity.column] == level,
        lambda codes: set_level(fidelity, codes, 0),
    )


def history_of_part(
    space: Space,
    history: History,
    is_part: Callable[[Codes], Mask],
    convert: Callable[[Codes], Codes],
) -> History:
    """Return the observed and pending trials of a part of a space; they are numbered anew.

    Args:
        space: The part as a space.
        history: The history of the whole space.
        is_part: Whether rows of the whole space belong to the part, ``(n, w)`` -> ``(n,)``.
        convert: Returns the rows of the part as rows of ``space``.
    """
    trials = history.trials
    kept = np.flatnonzero(is_part(history.codes))
    view = rebuild(
        space,
        history,
        [(trials[i], trials[i].outcome) for i in kept],
        convert(history.codes[kept]),
    )
    codes = history.pending_codes
    at = np.flatnonzero(is_part(codes))
    pending = [trial for i, trial in enumerate(history.pending.values()) if i in set(at)]
    view = replace(view, warm=int((kept < history.warm).sum()))
    numbered = [replace(t, id=view.next_id + i) for i, t in enumerate(pending)]
    return view.add_pending(numbered, convert(codes[at])) if pending else view


def rebuild(
    space: Space, history: History, kept: Iterable[tuple[Trial, Outcome | None]], codes: Codes
) -> History:
    """Return a history of some trials with other outcomes and codes, numbered anew.

    Args:
        space: Its space.
        history: Gives the direction.
        kept: The trials with their new outcomes.
        codes: Their rows of codes in the space, (n, w).
    """
    rows: dict[int, tuple[Trial, Codes | None]] = {}
    outcomes = []
    for i, ((trial, outcome), code) in enumerate(zip(kept, codes, strict=True)):
        assert outcome is not None
        rows[i] = (Trial(i, trial.config, trial.tag, trial.origin), code)
        outcomes.append(replace(outcome, trial_id=i))
    return History.start(space, history.direction).complete(outcomes, rows)[0]


def observation_at(fidelity: Fidelity, observation: Observation) -> Observation:
    """Return an observation with its code in the space of `problem_at`."""
    assert observation.code is not None
    return replace(observation, code=set_level(fidelity, observation.code[None, :], 0)[0])


def lift(fidelity: Fidelity, proposal: Proposal, level: int) -> Proposal:
    """Return a proposal of `problem_at` as one of the whole space at a level."""
    return replace(proposal, code=set_level(fidelity, proposal.code[None, :], level)[0])


def base_keys(fidelity: Fidelity, codes: Codes) -> list[bytes]:
    """Return a key of each row, (n, w), that is the same at all levels."""
    return row_keys(set_level(fidelity, codes, 0))
