"""What a run with tasks recommends: a configuration for each task, and the rule that picks one for other tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from baco_like.exceptions import TrialError
from baco_like.records.covering import Cover
from baco_like.records.selector import TaskSelector
from baco_like.spaces.tasks import Descriptor


@dataclass(frozen=True)
class TaskChoice:
    """The configuration that is recommended for a task.

    Attributes:
        name: Name of the task.
        task: Its descriptor.
        config: The configuration, without the descriptor.
        value: Its value on this task, in the user's unit; the median of a prediction if it was not measured there.
        is_measured: Whether it was measured on this task.
        slowdown: The cost of the configuration over the best cost known for this task; at least 1 if measured.
    """

    name: str
    task: Descriptor
    config: Mapping[str, Any]
    value: float
    is_measured: bool
    slowdown: float


@dataclass(frozen=True)
class TaskRecommendation:
    """The recommendation of a run with tasks.

    Attributes:
        goal: The goal of the run.
        choices: One for each task, in the order of the tasks. A task has none if none of the recommended configurations
            was measured or can be predicted there, because of its constraints, for example.
        configs: The different configurations of `choices`, without descriptors.
        slowdown: The slowdowns of `choices`, combined as the goal says; infinite if a task with a success has none.
        selector: Picks one of `configs` for any task.
    """

    goal: Cover
    choices: tuple[TaskChoice, ...]
    configs: tuple[Mapping[str, Any], ...]
    slowdown: float
    selector: TaskSelector = field(repr=False)

    def __getitem__(self, task: Descriptor | str) -> TaskChoice:
        """Return the choice for a task, given by its name or its descriptor.

        Raises:
            TrialError: No choice exists for this task.
        """
        for choice in self.choices:
            if task == choice.name or (
                isinstance(task, Mapping) and dict(task) == dict(choice.task)
            ):
                return choice
        known = ", ".join(choice.name for choice in self.choices)
        raise TrialError(
            f"no configuration is recommended for the task {task!r:.80}, only for {known}"
        )
