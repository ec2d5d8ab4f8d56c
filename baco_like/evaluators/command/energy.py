"""Read the energy counters of the processor: RAPL through Linux's powercap files, in microjoules.

Each package of the processor is one zone with the file ``energy_uj``, which counts up to ``max_energy_range_uj`` and
begins again at 0 (https://www.kernel.org/doc/html/latest/power/powercap/powercap.html). A counter covers the whole
package: everything else that runs on the machine, builds ahead included, counts too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from baco_like.exceptions import EvaluatorError

POWERCAP = Path("/sys/class/powercap")


@dataclass(frozen=True)
class EnergyCounters:
    """The energy counters of all packages.

    Attributes:
        zones: The file of each counter, and the number of microjoules after which it begins again.
    """

    zones: tuple[tuple[Path, int], ...]

    @classmethod
    def find(cls, folder: Path = POWERCAP) -> EnergyCounters:
        """Return the counters of this machine.

        Args:
            folder: Folder of the powercap files.

        Raises:
            EvaluatorError: The machine has no counters, or this user may not read them; the message says what to do.
        """
        # "intel-rapl:0" is a package (AMD's too), "intel-rapl:0:1" a part of it, "intel-rapl-mmio:0" the same again.
        zones = sorted(folder.glob("intel-rapl:*"))
        packages = [zone for zone in zones if zone.name.count(":") == 1]
        if not packages:
            raise EvaluatorError(
                f"energy cannot be measured: {folder} has no RAPL counter (virtual machines and containers usually "
                "hide them); measure on the machine itself, or leave this metric out"
            )
        found = []
        for zone in packages:
            try:
                limit = int((zone / "max_energy_range_uj").read_text())
                int((zone / "energy_uj").read_text())
            except PermissionError:
                raise EvaluatorError(
                    f"energy cannot be measured: {zone / 'energy_uj'} is readable by root only; allow it until the "
                    f"next restart with: sudo chmod a+r {folder}/intel-rapl:*/energy_uj"
                ) from None
            except (OSError, ValueError) as error:
                raise EvaluatorError(f"energy cannot be measured: {zone}: {error}") from None
            found.append((zone / "energy_uj", limit))
        return cls(tuple(found))

    def read(self) -> tuple[int, ...]:
        """Return the present count of each package in microjoules."""
        return tuple(int(path.read_text()) for path, _ in self.zones)

    def joules(self, before: Sequence[int], after: Sequence[int]) -> float:
        """Return the energy of all packages between two calls of `read`, less than one round of a counter apart."""
        limits = (limit for _, limit in self.zones)
        used = (
            end - start + (limit if end < start else 0)
            for start, end, limit in zip(before, after, limits, strict=True)
        )
        return sum(used) / 1e6
