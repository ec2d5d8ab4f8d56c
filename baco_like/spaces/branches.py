"""The branches of a space with conditional parameters: sets of configurations that agree in what conditions read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from baco_like._typing import Codes, Mask, Rng
from baco_like.parameters.protocol import ParameterKind
from baco_like.spaces.neighbourhoods import hamming
from baco_like.spaces.space import Space

MOST_VALUES = 16
"""Most values of an unordered parameter of which each makes a branch."""


def deciding_choices(space: Space) -> tuple[str, ...]:
    """Return the names of the unordered parameters that conditions read, without those of very many values."""
    return tuple(
        name
        for name in space.activity.deciding
        if space.parameters[name].kind is ParameterKind.UNORDERED
        and space.parameters[name].width == 1
        and space.parameters[name].cardinality <= MOST_VALUES
    )


@dataclass(frozen=True, eq=False)
class Branch:
    """Configurations that have the same choices, and the same conditional parameters where numbers decide.

    Attributes:
        space: The space.
        choices: The codes of unordered parameters that conditions read. A configuration without one of them belongs to
            the branch, except if it is the other choice.
        activity: For each conditional parameter that a number decides on, whether it is active.
        other_choice: The choice in which the branch differs from the one beside it, or None.
        other_activity: The parameter of which only one of the two is active, or None.
    """

    space: Space
    choices: Mapping[str, float]
    activity: Mapping[str, bool]
    other_choice: str | None = None
    other_activity: str | None = None

    def contains(self, codes: Codes) -> Mask:
        """Return which rows belong to the branch, ``(n, w)`` -> ``(n,)``."""
        inside = np.ones(len(codes), dtype=np.bool_)
        masks = self.space.activity.masks(codes)
        for name, code in self.choices.items():
            has_value = codes[:, self.space.columns[name].start] == code
            active = masks.get(name)
            if active is not None:
                is_other = name == self.other_choice
                has_value = has_value & active if is_other else has_value | ~active
            inside &= has_value
        for name, is_active in self.activity.items():
            # A change of one number often switches several parameters: only the one in question counts.
            if self.other_activity in (None, name):
                inside &= masks[name] == is_active
        return inside

    @cached_property
    def text(self) -> str:
        """The step that leads into the branch, for tags; empty if there is none."""
        if self.other_activity is not None:
            is_active = self.activity[self.other_activity]
            return f"{self.other_activity} is {'active' if is_active else 'inactive'}"
        if self.other_choice is None:
            return ""
        code = np.array([[self.choices[self.other_choice]]])
        (value,) = self.space.parameters[self.other_choice].decode(code)
        return f"{self.other_choice} = {value!r}"

    def neighbours(self) -> list[Branch]:
        """Return the branches that differ in one choice, or in one conditional parameter that a number decides on."""
        found = []
        for name, code in self.choices.items():
            values = range(int(self.space.parameters[name].cardinality))
            found += [
                replace(self, choices={**self.choices, name: float(value)}, other_choice=name)
                for value in values
                if value != code
            ]
        for name, active in self.activity.items():
            flipped = {**self.activity, name: not active}
            found.append(replace(self, activity=flipped, other_activity=name))
        return found


def enter(branch: Branch, row: Codes, rng: Rng) -> Codes:
    """Return the feasible rows of a branch that differ least from a row beside it, ``(w,)`` -> ``(n, w)``.

    They change the one parameter that leads into the branch. A parameter that becomes active has its default or the
    middle of its scale, as far as that is feasible. The rows are in random order, and there may be none.
    """
    rows, _ = hamming(branch.space, row[None], rng, limit=MOST_VALUES)
    return rng.permutation(rows[branch.contains(rows)])


def branch_of(space: Space, row: Codes) -> Branch:
    """Return the branch of a row, ``(w,)``."""
    names = deciding_choices(space)
    masks = {name: bool(mask[0]) for name, mask in space.activity.masks(row[None]).items()}
    choices = {
        name: float(row[space.columns[name].start]) for name in names if masks.get(name, True)
    }
    activity = {
        name: masks[name]
        for name, condition in space.conditions.expressions.items()
        if not set(condition.parameters) <= set(names)
    }
    return Branch(space, choices, activity)
