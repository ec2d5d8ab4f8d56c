"""Write a shipped table in the formats of vLLM, PyTorch Inductor and Kernel Launcher.

These programs choose by rules of their own, which know no constraints. So a table whose constraints read descriptors
is refused where the program would choose an entry for another size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.parameters.values import is_number
from baco_like.shipping.table import (
    Config,
    ShippedEntry,
    ShippedTable,
    describe_task,
    own_constraints,
)

_STAMP_KEY = "baco_like_stamp"
"""Key of the stamp in the JSON of another program."""

_MOE_PARAMETERS = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M")
"""Constants of the fused-MoE kernel of vLLM without a default."""


def moe_bytes(table: ShippedTable, name: str = "tuned", **_: Any) -> bytes:
    """Return a fused-MoE table of vLLM: a configuration for each batch size ``M``.

    vLLM takes the entry with the nearest M, and the default heuristic if no file has the name of its shape and device.
    It drops the value of ``triton_version``, which therefore has the stamp. (``get_moe_configs`` in
    vllm/model_executor/layers/fused_moe/fused_moe.py, read in 2026.)

    Raises:
        RunFileError: A task has no whole number M, tasks differ in another descriptor, a parameter of the kernel is
            missing, or constraints read descriptors.
    """
    _refuse_conditions(table, "vLLM")
    shapes = [{k: v for k, v in entry.task.items() if k != "M"} for entry in table.entries]
    if any(shape != shapes[0] for shape in shapes):
        raise RunFileError(
            "a fused-MoE table is about one shape; ship one file for each E, N and device"
        )
    document: dict[str, Any] = {
        "triton_version": {
            "triton": table.stamp.versions.get("triton", ""),
            "stamp": table.stamp.to_dict(),
        }
    }
    for entry in sorted(table.entries, key=lambda e: _whole(e.task, "M")):
        missing = [word for word in _MOE_PARAMETERS if word not in entry.config]
        if missing:
            raise RunFileError(
                f"the configurations lack {', '.join(missing)}, which vLLM's kernel needs"
            )
        document[str(_whole(entry.task, "M"))] = _scalars(entry.config, "vLLM")
    return _json_lines(document)


def moe_file_name(table: ShippedTable) -> str:
    """Return the name under which vLLM looks for a fused-MoE table.

    It is ``E=8,N=7168,device_name=NVIDIA_H100.json``, with ``,dtype=...`` and ``,block_shape=[128,128]`` if tasks have
    these descriptors. (``get_config_file_name`` in the same file of vLLM.)

    Raises:
        RunFileError: E, N or the device is unknown.
    """
    entry = table.entries[0]
    device = str(entry.task.get("device_name", table.stamp.device or "")).replace(" ", "_")
    if not re.fullmatch(r"[\w.()-]+", device, re.ASCII):
        raise RunFileError(
            f"device = {device!r:.80}: vLLM's file name needs it; give its name by --device"
        )
    if "H200" in device.split("_"):
        device = "NVIDIA_H200"  # vLLM has one name for the family
    name = f"E={_whole(entry.task, 'E')},N={_whole(entry.task, 'N')},device_name={device}"
    for word, pattern in (("dtype", r"\w+"), ("block_shape", r"\[\d+,\d+\]")):
        value = str(entry.task.get(word, "")).replace(" ", "")
        if value and not re.fullmatch(pattern, value, re.ASCII):
            raise RunFileError(f"{word} = {value!r:.80} has no place in vLLM's file name")
        name += f",{word}={value}" if value else ""
    return f"{name}.json"


def inductor_bytes(table: ShippedTable, name: str = "tuned", **_: Any) -> bytes:
    """Return a lookup table of PyTorch Inductor: a list with one configuration for the key of each task.

    A task has the descriptor ``key``, as Inductor logs it, or the descriptors ``op`` (mm, addmm or bmm), ``dtype``
    (such as float16), ``M``, ``N`` and ``K`` (and ``B`` for bmm), for row-major operands. The parameter
    ``template_id`` names the template; without it, the Triton template of the operation is used. Other shapes are not
    found, and Inductor chooses as without a table. The value of the key ``baco_like_stamp`` has the stamp.

    Load it by ``torch._inductor.config.lookup_table.table = json.load(file)``. (Keys: `LookupTableChoices` in
    torch/_inductor/lookup_table/choices.py of PyTorch 2.13.)

    Raises:
        RunFileError: A task has no key, or a value has no JSON form.
    """
    document: dict[str, Any] = {
        _STAMP_KEY: [{"template_id": "none", "stamp": table.stamp.to_dict()}]
    }
    for entry in table.entries:
        key, template = _inductor_key(entry.task)
        device = entry.task.get("device")
        full = key if device is None else f"{device}+{key}"
        config = _scalars(entry.config, "Inductor")
        document[full] = [{"template_id": config.pop("template_id", template), **config}]
    return _json_lines(document)


def _inductor_key(task: Mapping[str, Any]) -> tuple[str, str]:
    """Return the key of a task and its default template."""
    if isinstance(task.get("key"), str):
        op = task["key"].rpartition("+")[2]
        return task["key"], "triton::bmm" if op == "bmm" else "triton::mm"
    op, dtype = task.get("op", "mm"), task.get("dtype")
    if op not in ("mm", "addmm", "bmm") or not isinstance(dtype, str) or not dtype.isidentifier():
        raise RunFileError(
            f"the task {describe_task(task)} needs the descriptors op (mm, addmm or bmm), dtype, M, N and K, or key: "
            "the key that PyTorch logs with TORCH_LOGS='+inductor'"
        )
    m, n, k = (_whole(task, name) for name in "MNK")
    batch = [_whole(task, "B")] if op == "bmm" else []
    operands = [(m, k), (k, n)]
    parts = [([*batch, *shape], _row_major([*batch, *shape])) for shape in operands]
    if op == "addmm":  # the bias is a row that is repeated
        parts.insert(0, ([m, n], [0, 1]))
    inputs = ", ".join(f"(torch.{dtype}, {shape}, {strides})" for shape, strides in parts)
    scalars = "+alpha=1&beta=1" if op == "addmm" else ""
    return f"({inputs}){scalars}+{op}", "triton::bmm" if op == "bmm" else "triton::mm"


def _row_major(shape: Sequence[int]) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides


def wisdom_bytes(table: ShippedTable, name: str = "tuned", **_: Any) -> bytes:
    """Return a wisdom file of Kernel Launcher: a header, then one record per line.

    The name is the tuning key of the kernel. A task has the descriptor ``x``, or ``x`` and ``y``, or ``x``, ``y`` and
    ``z``: the problem size. Kernel Launcher takes the record of the same device with the nearest product of the sizes,
    else one of another device, and the default configuration without a file. The stamp is in the header and, in
    part, in the environment of each record; both readers ignore further keys. (Version 1.0 of the format:
    src/wisdom.cpp and python/kernel_launcher/wisdom.py of KernelTuner/kernel_launcher.)

    Raises:
        RunFileError: A task has no problem size, the value is not the time, a value is a permutation, the device is
            unknown, or constraints read descriptors.
    """
    _refuse_conditions(table, "Kernel Launcher")
    stamp = table.stamp
    if stamp.direction != "minimize":
        raise RunFileError("Kernel Launcher prefers small values, and this run maximises")
    parameters = [name for name in table.space.parameters if name not in table.kinds]
    header: dict[str, Any] = {
        "version": "1.0",
        "objective": "time",
        "tunable_parameters": parameters,
        "key": name,
        _STAMP_KEY: stamp.to_dict(),
    }
    lines: list[dict[str, Any]] = [header]
    for entry in table.entries:
        device = entry.task.get("device_name", stamp.device)
        if not isinstance(device, str) or not device:
            raise RunFileError("a wisdom file needs the name of the device; give it by --device")
        config = _scalars(entry.config, "Kernel Launcher")
        environment = {"date": stamp.date, "device_name": device, "space": stamp.space}
        lines.append(
            {
                "config": [_active(config, word) for word in parameters],
                "problem_size": _problem_size(entry),
                "time": float(entry.evidence.value),
                "environment": {**environment, "compiler": stamp.compiler or ""},
            }
        )
    text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
    return text.encode("ascii")


def _active(config: Config, name: str) -> Any:
    if name not in config:
        raise RunFileError(f"{name} is inactive in an entry, and Kernel Launcher needs its value")
    return config[name]


def _problem_size(entry: ShippedEntry) -> list[int]:
    known = [axis for axis in "xyz" if axis in entry.task]
    others = [n for n in entry.task if n not in (*"xyz", "device_name")]
    if not known or known != list("xyz")[: len(known)] or others:
        raise RunFileError(
            f"the task {describe_task(entry.task)} needs the descriptors x, or x and y, or x, y and z, and no others: "
            "the problem size of Kernel Launcher"
        )
    return [_whole(entry.task, axis) for axis in known]


def _refuse_conditions(table: ShippedTable, program: str) -> None:
    own = [text for e in table.entries for text in own_constraints(table.space, e.task)]
    read = [*table.conditions, *table.presence.values()]
    texts = [*(expression.text for expression in read), *own]
    if texts:
        raise RunFileError(
            f"{program} would choose an entry for another size without the constraint {texts[0]!r}; "
            "ship a format with code of its own (c, python, triton), or a JSON table"
        )


def _whole(task: Mapping[str, Any], name: str) -> int:
    value = task.get(name)
    if value is None or not is_number(value) or int(value) != value or value < 1:
        raise RunFileError(
            f"the task {describe_task(task)} needs a whole number {name}; name it by --task {name}=..."
        )
    return int(value)


def _scalars(config: Config, program: str) -> dict[str, Any]:
    for name, value in config.items():
        if isinstance(value, (tuple, list)):
            raise RunFileError(f"{name} = {value} is a tuple, which {program} does not know")
    return dict(config)


def _json_lines(document: Mapping[str, Any]) -> bytes:
    """Return an object with one line per key, in ASCII."""
    rows = [f"    {json.dumps(k)}: {json.dumps(v, allow_nan=False)}" for k, v in document.items()]
    return ("{\n" + ",\n".join(rows) + "\n}\n").encode("ascii")
