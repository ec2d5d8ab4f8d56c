"""Tell what makes measurements on this machine unsteady: load, a powersave governor, turbo. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SWITCH = "BACO_LIKE_MACHINE_CHECK"
"""Environment variable; 0 switches the check off."""

_BUSY = 0.5
"""Load of the last minute per CPU above which a machine is busy: half of the CPUs do other work."""

_CPUS = "sys/devices/system/cpu"


def describe_machine(root: Path = Path("/")) -> list[str]:
    """Return one sentence for each reason why measurements may be unsteady; none where nothing can be read.

    Args:
        root: The folder that has ``proc`` and ``sys``.
    """
    if os.environ.get(_SWITCH) == "0":
        return []
    return [*_load(root), *_governor(root), *_turbo(root)]


def _load(root: Path) -> Iterator[str]:
    cpus = os.cpu_count() or 1
    with suppress(ValueError):
        load = float(_read(root / "proc/loadavg").split(" ")[0])
        if load > _BUSY * cpus:
            yield (
                f"the machine is busy: load {load:.1f} on {cpus} CPUs; end other programs, or allow more repeats"
            )


def _governor(root: Path) -> Iterator[str]:
    files = sorted((root / _CPUS).glob("cpu[0-9]*/cpufreq/scaling_governor"))
    if any(_read(file) == "powersave" for file in files):
        yield (
            "the CPU governor is 'powersave', so the clock changes with the load; "
            "set it by: sudo cpupower frequency-set -g performance"
        )


def _turbo(root: Path) -> Iterator[str]:
    intel, others = root / _CPUS / "intel_pstate/no_turbo", root / _CPUS / "cpufreq/boost"
    for file, is_on, off in ((intel, "0", "1"), (others, "1", "0")):
        if _read(file) == is_on:
            yield (
                "turbo is on, so the clock falls when the CPU gets warm; "
                f"switch it off by: echo {off} | sudo tee {file}"
            )
            return


def _read(file: Path) -> str:
    """Return the text of a file, or an empty one if it cannot be read."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
