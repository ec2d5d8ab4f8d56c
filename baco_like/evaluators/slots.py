"""Device slots: the places where measurements run, one at a time in each.

A slot has a name, a device type, and the environment variables by which a process sees its device only. The values of
devices of different types cannot be compared, so all slots of a run have one type.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from baco_like._tables import Table
from baco_like.exceptions import EvaluatorError, RunFileError

_LIST_TIMEOUT = 60.0
"""Seconds for ``nvidia-smi -L``, which waits for a driver that is starting."""

_GPU = re.compile(r"GPU (\d+): (.*) \(UUID: (GPU-[\w-]+)\)")
_MIG = re.compile(r"MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[\w/-]+)\)")

_FORMS = '"cuda:0", "GPU-UUID", "MIG-UUID", "hip:0", or a table of name, type and environment'


@dataclass(frozen=True)
class Slot:
    """A place for one measurement at a time.

    Attributes:
        name: Its name, such as ``cuda:0``.
        type: The device type, such as ``NVIDIA H100 80GB HBM3``.
        environment: Environment variables of the processes that measure there.
    """

    name: str
    type: str
    environment: Mapping[str, str] = field(default_factory=dict)


def resolve_slots(items: Sequence[Any]) -> tuple[Slot, ...]:
    """Return the slots of a run.

    Args:
        items: Each is a `Slot`, a text, or a mapping of ``name``, ``type`` and ``environment``. ``cuda:0`` is the first
            GPU that this process may use (as ``CUDA_VISIBLE_DEVICES`` says, if it is set, otherwise in the order of
            ``nvidia-smi``), ``GPU-...`` and ``MIG-...`` are UUIDs, ``hip:0`` is a GPU of AMD. The type of an Nvidia GPU
            comes from ``nvidia-smi -L``; without that program it is ``cuda``.

    Raises:
        EvaluatorError: An item is not a slot, a device does not exist or appears twice, or the types differ.
    """
    if isinstance(items, (str, Mapping)) or not items:
        raise EvaluatorError(f'slots = {items!r:.80}: expected a list such as ["cuda:0", "cuda:1"]')
    slots = tuple(map(_resolve, items))
    for key in ("name", "environment"):
        values = [getattr(slot, key) for slot in slots]
        for slot, value in zip(slots, values, strict=True):
            if values.count(value) > 1:
                raise EvaluatorError(
                    f"slots: {slot.name!r} appears twice, or another slot has the same {key}; a slot is a place for "
                    "one measurement at a time, so name each device once"
                )
    first = slots[0]
    for slot in slots:
        if slot.type != first.type:
            raise EvaluatorError(
                f"slots: {first.name} is of type {first.type!r}, but {slot.name} of type {slot.type!r}; values of "
                "different devices cannot be compared. Tune each type in a separate run; the second run can learn "
                'from the journal of the first one as a related task: [warm_start] with mode = "prior", or '
                'WarmStart(path, mode="prior")'
            )
    return slots


def _resolve(item: Any) -> Slot:
    if isinstance(item, Slot):
        return item
    if isinstance(item, Mapping):
        try:
            return Table("slots", item).create(Slot)
        except RunFileError as error:
            raise EvaluatorError(str(error)) from None
    kind, _, device = str(item).partition(":")
    if isinstance(item, str) and re.fullmatch(r"(GPU|MIG)-[\w/-]+", item):
        kind, device = "cuda", item
    if kind == "cuda" and re.fullmatch(r"\d+|(GPU|MIG)-[\w/-]+", device):
        return _cuda_slot(str(item), device)
    if kind == "hip" and device.isdigit():
        return Slot(str(item), "hip", {"HIP_VISIBLE_DEVICES": device})
    raise EvaluatorError(f"slots: {item!r:.80} is not a slot; expected {_FORMS}")


def _cuda_slot(name: str, device: str) -> Slot:
    visible = [text for text in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if text]
    if device.isdigit() and visible:
        if int(device) >= len(visible):
            raise EvaluatorError(
                f"slots: {name} does not exist, because CUDA_VISIBLE_DEVICES={','.join(visible)} allows "
                f"{len(visible)} devices"
            )
        device = visible[int(device)].strip()
    # Without the order, CUDA numbers the fastest GPU first, and nvidia-smi by the bus.
    environment = {"CUDA_VISIBLE_DEVICES": device, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return Slot(name, _nvidia_type(name, device), environment)


def _nvidia_type(name: str, device: str) -> str:
    """Return the type of a GPU or a part of one, by its number or UUID."""
    devices = _list_nvidia_devices()
    if devices is None:
        return "cuda"
    types = {kind for key, kind in devices.items() if key == device}
    if not types and not device.isdigit():  # UUIDs may be shortened
        types = {kind for key, kind in devices.items() if key.startswith(device)}
    if len(types) != 1:
        known = ", ".join(devices) or "none"
        raise EvaluatorError(f"slots: {name} does not exist; nvidia-smi -L lists: {known}")
    (found,) = types
    if found == _DIVIDED:
        raise EvaluatorError(
            f"slots: {name} is divided into MIG instances; name each instance by its UUID (MIG-...), as nvidia-smi -L "
            "lists them"
        )
    return found


_DIVIDED = "divided"


@functools.lru_cache(maxsize=1)
def _list_nvidia_devices() -> Mapping[str, str] | None:
    """Return the type of each GPU and MIG instance by number and UUID; None without nvidia-smi."""
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_LIST_TIMEOUT, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    devices: dict[str, str] = {}
    keys: tuple[str, ...] = ()
    name = ""
    for line in listed.splitlines():
        if (gpu := _GPU.search(line)) is not None:
            keys, name = (gpu[1], gpu[3]), gpu[2]
            devices |= dict.fromkeys(keys, name)
        elif (part := _MIG.search(line)) is not None:
            devices |= {**dict.fromkeys(keys, _DIVIDED), part[2]: f"{name} MIG {part[1]}"}
    return devices
