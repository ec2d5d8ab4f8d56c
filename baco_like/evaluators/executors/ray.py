"""Ray with the interface of `concurrent.futures`; needs the extra ``ray``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from typing_extensions import override

from baco_like._optional import require


class RayExecutor(Executor):
    """Runs calls as Ray tasks, one per CPU of the cluster at a time.

    Ray does not repeat a task whose worker is lost (``max_retries=0``), because `ExecutorEvaluator` decides that.

    Args:
        options: Options of Ray's tasks, such as ``num_gpus=1``.

    Raises:
        MissingExtra: Ray is not installed.
    """

    def __init__(self, **options: Any) -> None:
        self._ray = require("ray", "ray")
        if not self._ray.is_initialized():
            self._ray.init()
        self._options = {"max_retries": 0, **options}

    @property
    def num_workers(self) -> int:
        """Number of tasks that fit on the cluster's CPUs at a time."""
        cpus = self._ray.cluster_resources().get("CPU", 1.0)
        return max(1, int(cpus / (self._options.get("num_cpus") or 1)))

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task."""
        task = self._ray.remote(_call).options(**self._options)
        future: Future[Any] = task.remote(fn, args, kwargs).future()
        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: end Ray by ``ray.shutdown()``."""


def _call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return fn(*args, **kwargs)
