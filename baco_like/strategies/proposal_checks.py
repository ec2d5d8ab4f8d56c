"""Checks of the proposals of a strategy, before they become trials."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from baco_like._plugins import name_of
from baco_like._typing import Array, Codes
from baco_like.exceptions import PluginError
from baco_like.records import Proposal
from baco_like.spaces import Space
from baco_like.strategies.protocol import Strategy


def check_proposals(strategy: Strategy[Any], space: Space, proposals: Any, n: int) -> Codes:
    """Return the rows of codes of at most n proposals, ``(k, w)``.

    Args:
        strategy: The strategy that has made them.
        space: The space.
        proposals: What its ``ask`` has returned.
        n: Number of proposals that it was asked for.

    Raises:
        PluginError: There are too many of them, or one is not a feasible row of codes with a tag in JSON.
    """
    bug = f"bug in strategy {name_of(strategy)}"
    if not isinstance(proposals, Sequence):
        raise PluginError(f"{bug}: ask returned {proposals!r:.80}, not a sequence of proposals")
    if len(proposals) > n:
        raise PluginError(f"{bug}: {len(proposals)} proposals, asked for {n}")
    for i, proposal in enumerate(proposals, 1):
        if reason := _find_fault(space, proposal):
            raise PluginError(f"{bug}: proposal {i} {reason}")
    codes = np.array([proposal.code for proposal in proposals]).reshape(-1, space.width)
    feasible = space.feasible.contains(codes)
    if not feasible.all():
        i = int(np.argmin(feasible))
        raise PluginError(
            f"{bug}: it proposed an infeasible configuration, proposal {i + 1}: {_explain_row(space, codes[i])}"
        )
    return codes


def _find_fault(space: Space, proposal: Any) -> str:
    """Return what is wrong with the form of a proposal, or an empty text."""
    if isinstance(proposal, Mapping):
        return (
            f"is the configuration {dict(proposal)!r:.80}; return "
            "Proposal(problem.space.encode([configuration])[0]), which also checks names and values"
        )
    if not isinstance(proposal, Proposal):
        return f"is {proposal!r:.80}; return baco_like.records.Proposal(code, tag)"
    try:
        code = np.asarray(proposal.code, dtype=np.float64)
    except (TypeError, ValueError):
        return f"has the code {proposal.code!r:.80}; it must be a row of {space.width} numbers"
    if code.shape != (space.width,):
        return f"has a code with the shape {code.shape}; this space needs ({space.width},)"
    if proposal.tag is not None:
        try:
            json.dumps(proposal.tag, allow_nan=False)
        except (TypeError, ValueError) as error:
            return f"has a tag that JSON cannot hold: {error}; the tag is {proposal.tag!r:.80}"
    return ""


def _explain_row(space: Space, code: Array) -> str:
    """Return why a row of codes is not a feasible configuration."""
    for name, parameter in space.parameters.items():
        own = code[space.columns[name]]
        try:
            is_legal = bool(np.isfinite(own).all()) and np.array_equal(
                parameter.encode(parameter.decode(own[None]))[0], own
            )
        except (ValueError, IndexError, OverflowError, TypeError):
            is_legal = False
        if not is_legal:
            return f"{own.tolist()!r:.80} is no code of parameter {name!r}, {parameter!r:.120}"
    (config,) = space.decode(code[None])
    return f"{config!r:.120}: {'; '.join(space.explain(config)) or 'its codes are not those of encode'}"
