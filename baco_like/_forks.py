"""Processes that this one starts: locks that a forked child can use, and an end with this process.

A fork copies the locks of all threads, but only one thread. A lock that another thread held at that moment is never
released in the child, which would wait for it forever. The data that our locks protect is replaced in one assignment.
It is valid at any moment, so that a new lock is enough.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import weakref
from typing import Any

_owners: weakref.WeakKeyDictionary[object, str] = weakref.WeakKeyDictionary()
"""Objects and modules with a reentrant lock, each with the name of its attribute."""


def renew_lock_in_child(owner: object, name: str) -> None:
    """Give an object a new lock in every child that is forked from now on.

    Args:
        owner: The object or module; it is not kept alive.
        name: Name of the attribute, a `threading.RLock`.
    """
    _owners[owner] = name


_properties: dict[str, tuple[int, list[Any]]] = {}
"""Cached properties of each module, with its number of names when they were looked up."""


def _find_properties() -> None:
    # Before Python 3.12, each cached property has a lock, which all objects of the class share. They are looked up in
    # the parent, and once: in a child, which copies each page that it reads, it took 5 ms.
    if sys.version_info < (3, 12):
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == __package__:
                values = list(vars(module).values())
                if _properties.get(name, (-1,))[0] != len(values):
                    _properties[name] = len(values), _cached_properties(values)


def _cached_properties(values: list[object]) -> list[Any]:
    classes = [value for value in values if isinstance(value, type)]
    attributes = [attribute for cls in classes for attribute in list(vars(cls).values())]
    return [each for each in attributes if isinstance(each, functools.cached_property)]


def _renew_locks() -> None:
    for owner, name in list(_owners.items()):
        setattr(owner, name, threading.RLock())
    for _, properties in _properties.values():
        for each in properties:
            each.lock = threading.RLock()


os.register_at_fork(before=_find_properties, after_in_child=_renew_locks)


def end_with_parent() -> None:
    """Leave Ctrl-C to the process that has started this one, and end with it even if it is killed."""
    from multiprocessing import parent_process

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (parent := parent_process()) is not None:
        threading.Thread(target=exit_after, args=(parent.sentinel,), daemon=True).start()


def exit_after(sentinel: int) -> None:
    """End this process at once when the process of a sentinel has ended."""
    from multiprocessing.connection import wait

    wait([sentinel])
    os._exit(1)
