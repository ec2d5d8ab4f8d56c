"""Write a shipped table as a Python module that needs no package, or as one with configurations for Triton."""

from __future__ import annotations

import inspect
import json
from typing import Any

from baco_like.exceptions import RunFileError
from baco_like.parameters.values import is_number
from baco_like.shipping.selection import choose, find_leaf, measure_distance
from baco_like.shipping.stamp import MARKER, stamp_text
from baco_like.shipping.table import Config, ShippedTable

_HEAD = '''\
"""Tuned configurations; written by baco-like, do not edit. Use `select`."""
# {marker}{stamp}

from __future__ import annotations

import json
from math import ceil, floor, log, log2, log10, sqrt  # constraints use them

STAMP = json.loads({text})
KINDS = {kinds}
ENTRIES = {entries}
DEFAULT = {default}
'''

_RULES = '''
# Whether a configuration satisfies the known constraints for a task: one function for each entry and the default.
_CONDITIONS = [
{conditions}
]

# For each entry whether each configuration satisfies the constraints of the entry's task alone.
_ALLOWED = {allowed}

# The decision tree, if there is one: (descriptor, value, if yes, if no), or the rank of each entry, 0 first.
_TREE = {tree}


{selection}

def _may_use(index, task):
    try:
        return bool(_CONDITIONS[index](*task.values()))
    except (ArithmeticError, ValueError, TypeError):  # it cannot be computed
        return False


def index(**task):
    """Return the index of the entry for a task, len(ENTRIES) for the default, or -1 if none may be used."""
    if set(task) != set(KINDS):
        raise TypeError("expected the descriptors " + ", ".join(KINDS) + ", got " + ", ".join(task))
    task = {{name: task[name] for name in KINDS}}
    return choose(task, KINDS, [known for known, _ in ENTRIES], _TREE, _ALLOWED, _may_use)


def select(**task):
    """Return the configuration for a task: the nearest one that may be used, else the default.

    Raises:
        LookupError: None may be used.
    """
    i = index(**task)
    if i < 0:
        raise LookupError(f"no tuned configuration may be used for {{task}}")
    return dict(DEFAULT if i == len(ENTRIES) else ENTRIES[i][1])
'''

_TRITON = '''

import triton  # noqa: E402

KEY = list(KINDS)
CONFIGS = [
{configs}
]


def prune(configs, named_args, **kwargs):
    """Keep the one configuration for the arguments of a call, so that nothing is benchmarked.

    For ``@triton.autotune(CONFIGS, key=KEY, prune_configs_by={{"early_config_prune": prune}})``.
    """
    arguments = {{**named_args, **kwargs}}
    i = index(**{{name: arguments[name] for name in KINDS}})
    if i < 0:
        raise LookupError("no tuned configuration may be used for this call")
    return [configs[i]]


def config(**task):
    """Return the `triton.Config` for a task; see `select`."""
    i = index(**task)
    if i < 0:
        raise LookupError(f"no tuned configuration may be used for {{task}}")
    return CONFIGS[i]
'''

_TRITON_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Arguments of `triton.Config` besides the meta-parameters of a kernel (triton 3.9, runtime/autotuner.py)."""


def module_bytes(table: ShippedTable, name: str = "tuned", **_: Any) -> bytes:
    """Return a Python module with the functions ``select`` and ``index``."""
    return _module(table).encode("ascii", "backslashreplace")


def triton_bytes(table: ShippedTable, name: str = "tuned", **_: Any) -> bytes:
    """Return a Python module with a list of `triton.Config` and a function that prunes it to one for each call.

    The parameters ``num_warps``, ``num_stages``, ``num_ctas`` and ``maxnreg`` become options of the configuration,
    all others meta-parameters of the kernel. Descriptors have the names of arguments of the kernel.

    Raises:
        RunFileError: An option is not a whole number, or a parameter is no identifier.
    """
    lines = ",\n".join(f"    {_triton_config(config)}" for config in table.configs)
    text = _module(table) + _TRITON.format(configs=lines)
    return text.encode("ascii", "backslashreplace")


def _module(table: ShippedTable) -> str:
    stamp = stamp_text(table.stamp)
    entries = [(dict(entry.task), dict(entry.config)) for entry in table.entries]
    default = None if table.default is None else dict(table.default)
    head = _HEAD.format(
        marker=MARKER,
        stamp=stamp,
        text=ascii(json.dumps(table.stamp.to_dict())),
        kinds=ascii({name: kind.value for name, kind in table.kinds.items()}),
        entries="[\n" + "".join(f"    {entry!a},\n" for entry in entries) + "]",
        default=ascii(default),
    )
    conditions = ",\n".join(f"    {_condition(table, config)}" for config in table.configs)
    functions = [inspect.getsource(each) for each in (choose, measure_distance, find_leaf)]
    return head + _RULES.format(
        conditions=conditions,
        allowed=list(table.allowed),
        tree=None if table.rule is None else ascii(table.ranked(table.rule)),
        selection="\n\n".join(functions),
    )


def _condition(table: ShippedTable, config: Config) -> str:
    names = {name: f"d{i}" for i, name in enumerate(table.kinds)}
    texts = [f"({condition.to_python(names)})" for condition in table.conditions_of(config)]
    arguments = ", ".join(names.values())
    return f"lambda {arguments}: {' and '.join(texts) or 'True'}".replace("lambda :", "lambda:")


def _triton_config(config: Config) -> str:
    options = {name: config[name] for name in _TRITON_OPTIONS if name in config}
    for name, value in options.items():
        if not is_number(value) or not isinstance(value, int):
            raise RunFileError(f"{name} = {value!r:.80}: triton.Config needs a whole number")
    for name in config:
        if not name.isidentifier():
            raise RunFileError(f"the parameter {name!r:.80} is no identifier, which Triton needs")
    meta = {name: value for name, value in config.items() if name not in options}
    words = [ascii(meta), *(f"{name}={value}" for name, value in options.items())]
    return f"triton.Config({', '.join(words)})"
