"""Limit the threads of numerical libraries within a ``with`` block.

The matrices of a suggestion are small. With many threads, BLAS spends most of its time waiting: on a busy machine a
suggestion takes several times the CPU time, and it disturbs the evaluations that run beside it
(`benchmarks/speed/results/threads.md`).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from threading import Lock, get_ident
from typing import TYPE_CHECKING, Any

from baco_like._checks import whole_number
from baco_like.exceptions import ConfigError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

VARIABLE = "BACO_LIKE_THREADS"
"""Environment variable with the number of threads where none is given."""

_LOADERS = ("scipy.linalg", "sklearn", "torch")
"""Modules that load numerical libraries when they are imported, besides NumPy."""


def resolve_threads(threads: int | None) -> int:
    """Return the number of threads: the argument, else the environment variable, else 1; 0 means no limit.

    Raises:
        ValueError: The argument is not a whole number from 0.
        ConfigError: The environment variable is not a whole number from 0.
    """
    if threads is not None:
        return whole_number("threads", threads, 0)
    text = os.environ.get(VARIABLE, "").strip() or "1"
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(
            f"the environment variable {VARIABLE} is {text!r}; set a whole number, 1 by default, 0 for no limit"
        )
    return int(text)


@contextmanager
def thread_limit(threads: int, wait: bool = False) -> Iterator[None]:
    """Let the numerical libraries use at most this number of threads within the ``with`` block; 0 sets no limit.

    It takes less than 0.1 ms. Most libraries have one number of threads for the whole process, so the limit holds for
    other threads too. If another thread, or an outer block, has set its limit already, this block changes nothing.

    Args:
        threads: Largest number of threads, or 0.
        wait: Wait until no other thread has set a limit. For long blocks: the limit of another one would end too early.
    """
    if not threads or not _LOCK.acquire(blocking=wait):
        yield
        return
    global _block
    lock = _LOCK
    try:
        with ExitStack() as limits:
            _block = _Block(threads, limits, get_ident())
            _block.limit_loaded()
            try:
                yield
            finally:
                _block = None
    finally:
        lock.release()


def load_libraries(*modules: str) -> None:
    """Import modules, and limit the numerical libraries that come with them as the `thread_limit` block around it does.

    The block itself limits what is loaded when it begins. Without this call, the first fit of a process would use all
    threads of a library that it imports, and its last digits would differ from those of later fits.
    """
    for module in modules:
        if module not in sys.modules:
            importlib.import_module(module)
    block = _block
    if block is not None and block.owner == get_ident() and block.loaded != _loaded_modules():
        block.limit_loaded()


class _Block:
    """The `thread_limit` block that has set its limit.

    Attributes:
        threads: Largest number of threads.
        limits: Restores the numbers at the end of the block.
        owner: The thread that runs the block.
        loaded: Which modules of `_LOADERS` were imported when the libraries were limited.
    """

    def __init__(self, threads: int, limits: ExitStack, owner: int) -> None:
        self.threads, self.limits, self.owner = threads, limits, owner
        self.loaded: tuple[bool, ...] = ()

    def limit_loaded(self) -> None:
        """Limit all libraries that are loaded by now."""
        threads = self.threads
        torch: Any = sys.modules.get("torch")
        # Not yet there while another thread imports PyTorch.
        number = torch.get_num_threads() if hasattr(torch, "get_num_threads") else 0
        if number > threads:  # restored last, because it also sets OpenMP's number
            self.limits.callback(torch.set_num_threads, number)
            torch.set_num_threads(threads)
        self.loaded = _loaded_modules()
        found = _find_libraries(self.loaded)
        files = [lib.filepath for lib in found.lib_controllers if lib.num_threads > threads]
        if files:
            self.limits.enter_context(found.select(filepath=files).limit(limits=threads))


_LOCK = Lock()
_block: _Block | None = None


def _forget_blocks() -> None:
    # Another thread may have held the lock at the fork; that thread does not exist in the child.
    global _LOCK, _block
    _LOCK, _block = Lock(), None


def _loaded_modules() -> tuple[bool, ...]:
    return tuple(name in sys.modules for name in _LOADERS)


os.register_at_fork(after_in_child=_forget_blocks)


@lru_cache(maxsize=1)
def _find_libraries(loaded: tuple[bool, ...]) -> ThreadpoolController:
    """Return the loaded numerical libraries.

    Args:
        loaded: Which modules of `_LOADERS` are imported. Finding the libraries takes milliseconds, so they are kept
            until another of these modules is imported.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
