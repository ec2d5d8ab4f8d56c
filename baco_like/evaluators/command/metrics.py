"""Metrics besides the objective: sizes of files, energy, and numbers in the output of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from baco_like.evaluators._processes.process import Finished
from baco_like.evaluators.command.energy import EnergyCounters
from baco_like.evaluators.command.measure import match_number, parse_pattern
from baco_like.evaluators.command.template import Template, Text
from baco_like.evaluators.settings_table import Table
from baco_like.exceptions import RunFileError

_CALL = re.compile(r"\s*(size|rapl)\((.*)\)\s*", re.DOTALL)


@dataclass(frozen=True)
class CommandMetrics:
    """Numbers to keep of each run besides its value.

    Attributes:
        sizes: Path of the file whose size in bytes is a metric, by the name of the metric.
        patterns: Patterns for the output; the number is the first group, or the whole match.
        energy: Name of the metric that is the energy of a run in joules, or None.
        counters: The energy counters, if there is such a metric.
        folder: Folder in which relative paths begin.
    """

    sizes: Mapping[str, Template] = field(default_factory=dict)
    patterns: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    energy: str | None = None
    counters: EnergyCounters | None = None
    folder: Path = Path(".")

    @classmethod
    def from_table(cls, table: Table, placeholders: Iterable[str], folder: Path) -> CommandMetrics:
        """Read a table of metrics: ``size(PATH)``, ``rapl()``, or a regular expression for the output.

        Args:
            table: The metrics by name.
            placeholders: The allowed placeholders of paths.
            folder: Folder in which relative paths begin.

        Raises:
            RunFileError: A metric cannot be read.
            EvaluatorError: This machine has no energy counters that can be read.
        """
        sizes, patterns, energy = {}, {}, []
        known = list(placeholders)
        for name in table.entries:
            text = table.text(name)
            call = _CALL.fullmatch(text)
            if call is None:
                patterns[name] = parse_pattern(table, name)
            elif call[1] == "size":
                path = Template.parse(call[2] or " ", known, table.label(name))
                if len(path.words) != 1:
                    raise table.error(
                        name, text, "size(PATH) with one path; quote one that has spaces"
                    )
                sizes[name] = path
            elif call[2].strip():
                raise table.error(name, text, "rapl()")
            else:
                energy.append(name)
        if len(energy) > 1:
            raise RunFileError(f"[{table.name}]: {' and '.join(energy)} are both rapl(); keep one")
        counters = EnergyCounters.find() if energy else None
        return cls(sizes, patterns, energy[0] if energy else None, counters, folder)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all metrics."""
        return (*self.sizes, *self.patterns, *([] if self.energy is None else [self.energy]))

    def start(self) -> tuple[int, ...]:
        """Return what `take` compares with: the energy counters before a run."""
        return () if self.counters is None else self.counters.read()

    def take(
        self, finished: Finished, texts: Mapping[str, Text], before: tuple[int, ...]
    ) -> dict[str, float] | str:
        """Return the metrics of a run, or one line that says which one is missing.

        Args:
            finished: The run.
            texts: The text of each placeholder.
            before: The result of `start` before the run.
        """
        values: dict[str, float] = {}
        if self.counters is not None and self.energy is not None:
            values[self.energy] = self.counters.joules(before, self.counters.read())
        for name, template in self.sizes.items():
            path = self.folder / template.fill(texts)[0]
            try:
                values[name] = float(path.stat().st_size)
            except OSError as error:
                return f"metric {name}: the size of {path.name} cannot be read: {error.strerror}"
        for name, pattern in self.patterns.items():
            found = match_number(pattern, finished.out)
            if isinstance(found, str):
                return f"metric {name}: {found}"
            values[name] = found[0]
        return values
