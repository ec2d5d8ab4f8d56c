"""Find the GPU and choose the torch device."""

from __future__ import annotations

import warnings
from functools import lru_cache
from pathlib import Path

from baco_like.exceptions import StrategyError

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""Device files of the GPU drivers that torch can use: NVIDIA's on Linux, under WSL, and AMD's."""


@lru_cache(maxsize=1)
def has_gpu() -> bool:
    """Return whether torch can use a GPU; torch is only imported where a driver is installed.

    Importing torch takes 2 seconds and 200 MB, which a run on a machine without a GPU must not pay.
    """
    if not any(Path(file).exists() for file in _DRIVER_FILES):
        return False
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a driver that is too old
        return torch.cuda.is_available()


def resolve_device(device: str) -> str:
    """Return the torch device for "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".

    Raises:
        StrategyError: The name is unknown, or this machine has no such device.
    """
    if device == "auto":
        return "cuda" if has_gpu() else "cpu"
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "cuda") or (index and not index.isdecimal()):
        raise StrategyError(
            f"device = {device!r} is unknown; choose 'auto', 'cpu', 'cuda' or 'cuda:N'"
        )
    if kind == "cuda":
        import torch

        count = torch.cuda.device_count() if has_gpu() else 0
        if int(index or 0) >= count:
            raise StrategyError(
                f"device = {device!r}: torch finds {count} CUDA devices on this machine; "
                "choose device = 'auto' or 'cpu', or check the driver and the installed torch build"
            )
    return device
