"""The server's part in an optimizer of a remote run: it chooses configurations, and its clock measures leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from baco_like.exceptions import SpaceExhausted
from baco_like.journal.remote import Connection, RefusedRequest
from baco_like.optimizer.arguments import Sharing


class Server:
    """Asks a server for trials and leases.

    Args:
        connection: The connection to the run.

    Attributes:
        ended: The reason of the stopping rule of the server, when it has ended the run.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.ended: str | None = None

    def join(self, sharing: Sharing) -> Sharing:
        """Tell the server what belongs to this worker, and return it with the lease of the run and a name.

        Others have the pending trials of the run too, so each worker needs a name.
        """
        if sharing.worker is not None:
            self._connection.client = sharing.worker
        store = None
        if sharing.ahead:
            patience = {} if sharing.patience is None else {"patience": sharing.patience}
            store = {"ahead": sharing.ahead, **patience}
        opened = self._connection.call("open", lease=sharing.lease, optimizer=store)
        lease = opened["lease"] if sharing.lease is None else sharing.lease
        worker = self._connection.client
        return replace(sharing, worker=worker, lease=lease, ahead=0, patience=None)

    def suggest(self, n: int, sharing: Sharing) -> list[int]:
        """Return the numbers of the next n trials, which the server has recorded; none as long as others may be lost.

        Raises:
            SpaceExhausted: No trial is left, or the stopping rule of the server has ended the run.
        """
        try:
            answer = self._connection.call("suggest", n=n, task=sharing.task)
        except RefusedRequest as error:
            if error.word == "wait":
                return []
            if error.word != "ended":
                raise
            self.ended = str(error)
            raise SpaceExhausted(self.ended) from error
        return [trial["id"] for trial in answer["trials"]]

    def renew(self, ids: Sequence[int]) -> list[int]:
        """Extend the leases of trials, and return those that are still pending."""
        pending: list[int] = self._connection.call("heartbeat", trials=ids)["pending"]
        return pending
