"""Our optimizer as a search technique of pyATF.

Importing pyATF installs a handler of Ctrl-C, which Python allows in the main thread only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from baco_like.exceptions import MissingExtra, SpaceError, SpaceExhausted, TrialError
from baco_like.integrations.listed_space import Row, Translation, translation
from baco_like.optimizer import Optimizer
from baco_like.records.trial import Trial
from baco_like.strategies.protocol import Strategy

try:
    import pyatf.tuner
    from pyatf.search_space import SearchSpace
    from pyatf.search_techniques.search_technique_1d import SearchTechnique1D
except ImportError:
    raise MissingExtra("pyatf", "pyatf") from None

__all__ = ["BacoTechnique"]


class BacoTechnique(SearchTechnique1D):  # type: ignore[misc]  # pyATF has no types
    """Suggests new configurations of a pyATF search space, and learns from costs and from ``CostFunctionError``.

    pyATF shows its techniques no more than numbers, so the search space is handed over here too:
    ``Tuner().search_space(space).search_technique(BacoTechnique(space))``. Nothing is evaluated twice; when every
    configuration was, ``tune`` ends after it has evaluated the best one once more.

    Args:
        search_space: Made with ``enable_1d_access=True``. All its configurations are read, once.
        strategy: A registered name, or a strategy object.
        settings: The named strategy's own settings.
        seed: Of the suggestions.
        budget: Evaluations in all, if known: strategies choose their settings by it. It does not end the run.

    Attributes:
        optimizer: Of the latest run: its trials, and the model (``predict``, ``recommend``). pyATF does not report the
            cost of the very last evaluation; that trial stays pending.

    Raises:
        SpaceError: The search space is none of pyATF's, is empty, lacks 1D access, or has values that no parameter
            can have.
        ValueError: There is no such strategy or setting.
    """

    def __init__(
        self,
        search_space: SearchSpace,
        strategy: str | Strategy[Any] = "auto",
        *,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        budget: int | None = None,
    ) -> None:
        self._words, self._indices = _read(search_space)
        self._strategy, self._settings, self._seed = strategy, settings, seed
        self._budget = budget
        self.optimizer = self._begun()
        self._asked: dict[int, Trial] = {}

    def _begun(self) -> Optimizer:
        return Optimizer(
            self._words.space,
            seed=self._seed,
            budget=self._budget,
            strategy=self._strategy,
            settings=self._settings,
        )

    @override
    def initialize(self, search_space_size: int) -> None:
        """Begin a run.

        Raises:
            SpaceError: The tuner has another search space than this technique.
        """
        if search_space_size != len(self._indices):
            raise SpaceError(
                f"the tuner's search space has {search_space_size} configurations and that of BacoTechnique "
                f"{len(self._indices)}; give both the same one"
            )
        self.optimizer, self._asked = self._begun(), {}

    @override
    def finalize(self) -> None:
        """Do nothing."""

    @override
    def get_next_indices(self) -> set[int]:
        """Return the number of the next configuration.

        Raises:
            SpaceExhausted: None is left, and ``Tuner.make_step`` was called, which nothing but an error can end.
        """
        try:
            trial = self.optimizer.suggest()
        except SpaceExhausted:
            return {self._last()}
        index = self._indices[self._words.row(trial)]
        self._asked[index] = trial
        return {index}

    @override
    def report_costs(self, costs: Mapping[int, float | None]) -> None:
        """Observe costs; None is that of a configuration that cannot run."""
        for index, cost in costs.items():
            trial = self._asked.pop(index, None)
            if trial is None:
                raise TrialError(
                    f"pyATF reports the cost of index {index}, which was not asked for"
                )
            self.optimizer.observe(trial, cost, failed="runtime" if cost is None else None)

    @override
    def to_json(self) -> dict[str, Any]:
        """Return what pyATF writes to its log."""
        return {"kind": type(self).__name__, **dict(self.optimizer.options.strategy)}

    def _last(self) -> int:
        """Let the tuner end as it does after Ctrl-C, with all its data, and return the best configuration's number.

        A technique has no other way to end a run. Of several tuners that run within one another none is ended.
        """
        running = list(pyatf.tuner.SIGINT_handlers)
        if len(running) != 1:
            raise SpaceExhausted(
                f"all {len(self._indices)} configurations are evaluated; end the run by Fraction(1.0)"
            )
        running[0].SIGINT_received = True
        best = self.optimizer.best or self.optimizer.trials[0]
        return self._indices[self._words.row(best)]


def _read(search_space: SearchSpace) -> tuple[Translation, dict[Row, int]]:
    """Return the space, and the number that pyATF gives to each configuration."""
    if not isinstance(search_space, SearchSpace):
        raise SpaceError(
            f"search_space = {search_space!r:.60}: give the tuner's SearchSpace(..., enable_1d_access=True)"
        )
    size = search_space.constrained_size
    if size < 1:
        raise SpaceError("no configuration satisfies the constraints of the search space")
    try:
        configs = [search_space.get_configuration(index) for index in range(size)]
    except ValueError as error:
        raise SpaceError(
            f"the search space must be made with SearchSpace(..., enable_1d_access=True): {error}"
        ) from None
    indices = {
        tuple(config[name] for name in search_space.tp_names): index
        for index, config in enumerate(configs)
    }
    domains = {tp.name: list(tp.values) for tp in search_space.tps}
    constraints = [tp.constraint for tp in search_space.tps if tp.constraint is not None]
    return translation(domains, constraints, list(indices)), indices
