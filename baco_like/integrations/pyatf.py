"""This package's optimizer as a search technique of pyATF.

Importing pyATF installs a handler of Ctrl-C, which Python allows in the main thread only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from baco_like._optional import needs_extra
from baco_like.exceptions import SpaceError, SpaceExhausted, TrialError
from baco_like.integrations._shared import ForeignRow, ListedSpace, read_listed_space
from baco_like.optimizer import Optimizer, Search
from baco_like.records import Trial
from baco_like.strategies import Strategy

with needs_extra("pyatf", "pyatf"):
    import pyatf.tuner
    from pyatf.search_space import SearchSpace
    from pyatf.search_techniques.search_technique_1d import SearchTechnique1D

__all__ = ["BacoTechnique"]


class BacoTechnique(SearchTechnique1D):  # type: ignore[misc]  # pyATF has no types
    """Suggests new configurations of a pyATF search space, and learns from costs and from ``CostFunctionError``.

    pyATF passes only index numbers to a technique, so the technique needs the search space too:
    ``Tuner().search_space(space).search_technique(BacoTechnique(space))``. No configuration is evaluated twice. When
    all are evaluated, ``tune`` ends after it has evaluated the best configuration once more.

    Args:
        search_space: Created with ``enable_1d_access=True``. All its configurations are read, once.
        strategy: A registered name, a strategy object, or a `Search` with settings.
        seed: Seed of the suggestions.
        budget: Number of evaluations, if known; strategies adapt their settings to it. It does not end the run.
        warm_start: Results of earlier runs, as for `Optimizer`; each run of the tuner begins with them.

    Attributes:
        optimizer: The optimizer of the latest run: its trials and its model (``predict``, ``recommend``). pyATF does
            not report the cost of the very last evaluation; that trial stays pending.

    Raises:
        SpaceError: ``search_space`` is not a pyATF search space, is empty, lacks 1D access, or has values that no
            parameter type supports.
        ConfigError: No result of a warm start belongs to the space.
        ValueError: The strategy or a setting does not exist.
    """

    def __init__(
        self,
        search_space: SearchSpace,
        strategy: str | Strategy[Any] | Search = "auto",
        *,
        seed: int = 0,
        budget: int | None = None,
        warm_start: Any = None,
    ) -> None:
        self._listed, self._indices = _read_search_space(search_space)
        self._options: dict[str, Any] = {"seed": seed, "strategy": strategy, "budget": budget}
        self._options["warm_start"] = warm_start
        self._start_run()

    def _start_run(self) -> None:
        self.optimizer = Optimizer(self._listed.space, **self._options)
        self._pending: dict[int, Trial] = {}

    @override
    def initialize(self, search_space_size: int) -> None:
        """Start a run.

        Raises:
            SpaceError: The tuner and this technique have different search spaces.
        """
        if search_space_size != len(self._indices):
            raise SpaceError(
                f"the tuner's search space has {search_space_size} configurations and BacoTechnique's has "
                f"{len(self._indices)}; give both the same search space"
            )
        self._start_run()

    @override
    def finalize(self) -> None:
        """Do nothing."""

    @override
    def get_next_indices(self) -> set[int]:
        """Return the index of the next configuration.

        Raises:
            SpaceExhausted: The space is exhausted and ``Tuner.make_step`` was called, which only an error can end.
        """
        try:
            trial = self.optimizer.suggest()
        except SpaceExhausted:
            return {self._end_run()}
        index = self._indices[self._listed.to_row(trial)]
        self._pending[index] = trial
        return {index}

    @override
    def report_costs(self, costs: Mapping[int, float | None]) -> None:
        """Observe costs; None means that the configuration failed."""
        for index, cost in costs.items():
            trial = self._pending.pop(index, None)
            if trial is None:
                raise TrialError(
                    f"pyATF reports the cost of index {index}, which was not suggested"
                )
            self.optimizer.observe(trial, cost, failed="runtime" if cost is None else None)

    @override
    def to_json(self) -> dict[str, Any]:
        """Return the entry for pyATF's log."""
        return {"kind": type(self).__name__, **dict(self.optimizer.options.strategy)}

    def _end_run(self) -> int:
        """End the run and return the best configuration's index.

        A technique cannot end a run, so this triggers pyATF's handling of Ctrl-C, which keeps all data. With nested
        tuners it is unknown which one to end.
        """
        handlers = list(pyatf.tuner.SIGINT_handlers)
        if len(handlers) != 1:
            raise SpaceExhausted(
                f"all {len(self._indices)} configurations are evaluated; end the run by Fraction(1.0)"
            )
        handlers[0].SIGINT_received = True
        best = self.optimizer.best or self.optimizer.trials[0]
        return self._indices[self._listed.to_row(best)]


def _read_search_space(search_space: SearchSpace) -> tuple[ListedSpace, dict[ForeignRow, int]]:
    """Return the space, and pyATF's index of each configuration."""
    if not isinstance(search_space, SearchSpace):
        raise SpaceError(
            f"search_space = {search_space!r:.60}: expected the tuner's SearchSpace(..., enable_1d_access=True)"
        )
    size = search_space.constrained_size
    if size < 1:
        raise SpaceError("search_space: no configuration satisfies its constraints")
    try:
        configs = [search_space.get_configuration(index) for index in range(size)]
    except ValueError as error:
        raise SpaceError(
            f"search_space: create it with SearchSpace(..., enable_1d_access=True): {error}"
        ) from None
    rows = [tuple(config[name] for name in search_space.tp_names) for config in configs]
    indices = {row: index for index, row in enumerate(rows)}
    domains = {tp.name: list(tp.values) for tp in search_space.tps}
    constraints = [tp.constraint for tp in search_space.tps if tp.constraint is not None]
    return read_listed_space(domains, constraints, list(indices)), indices
