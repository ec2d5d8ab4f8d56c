"""The runs of a server: each an `Optimizer` with its journal, its rule of the end and its answered requests."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from baco_like._output import explain_os_error, replace_file
from baco_like._tables import Table
from baco_like.exceptions import JournalConflict, JournalError, RunFileError
from baco_like.journal import Event, JsonlJournal, Mark, MemoryJournal
from baco_like.journal.events import START
from baco_like.journal.header import COMPILER, DEVICE_TYPE, EXACT, FOLDER, PEAK, UNIT, UNITS, Header
from baco_like.journal.lock import sole_runner
from baco_like.optimizer import Optimizer, Sharing
from baco_like.optimizer.model_process import ModelProcess
from baco_like.running.journal_view import JOURNAL
from baco_like.running.run_tables import Budget, RunTables, read_run
from baco_like.running.stopping import AnyOf, check_rule
from baco_like.service.messages import UNNAMED, Limits, ServiceError
from baco_like.spaces import Space

DEFAULT = "run"
"""Name of a run that has none."""

_NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

_LISTED = 1000
"""Number of runs that are listed."""

_KEPT = 1000
"""Number of answers of each client that are kept."""

_KEPT_BYTES = 2**26
"""Largest size of the answers of a run that are kept."""

_KEPT_ENTRY = 1000
"""Bytes of an answer without its text: it may be the only one of its client."""

_LARGEST_READ = 2**16
"""Largest kept answer of a method that only reads; larger ones are made again."""

_MOST_EVENT_BYTES = 2**24
"""Bytes of a journal after which a list of its events ends."""

_MOST_VALUES = 10**7
"""Largest number of values in the configurations of all pending trials of a run."""

_NAMED = 5
"""Number of pending trials that a message names."""

_IDLE = 60.0
"""Seconds without a request after which a run is closed where another one needs its place."""

_STEP = 256
"""Number of events between two positions that are kept, to read a journal from its middle."""

_FILE_ADVICE = re.compile("or another file(?:; a new run with these settings .*)?$")
"""The end of the error of `Header.check`, which is for run files."""

_TABLES = ("space", "constraints", "objective", "tasks", "fidelity", "budget", "optimizer")
_OPTIONS = ("context", "lease")


@dataclass(frozen=True, kw_only=True)
class Description(RunTables):
    """A run as the tables of a run file describe it.

    Attributes:
        context: Conditions of the measurements.
        warm_start: The journal of a run whose results count as own ones, or None.
    """

    context: Mapping[str, Any]
    warm_start: Path | None = None

    @classmethod
    def read(cls, tables: Mapping[str, Any]) -> Description:
        """Return the run that tables describe; ``space`` may also be what `Space.to_dict` writes.

        Raises:
            RunFileError: A key is unknown, or has a wrong value.
            SpaceError: The space is wrong.
            ValueError: A value is wrong.
        """
        top = Table("", {key: value for key, value in tables.items() if value is not None})
        if unknown := [key for key in top.entries if key not in (*_TABLES, *_OPTIONS)]:
            raise RunFileError(
                f"{unknown[0]!r} does not describe a run of the service; it has {', '.join(_TABLES)}, context and "
                "lease; the client measures, and opens no file on the server"
            )
        given, space, table = top.table("space"), None, top.table("optimizer")
        if "version" in given.entries and not isinstance(given.entries["version"], dict):
            beside = [key for key in ("constraints", "tasks", "fidelity") if top.table(key).entries]
            if any(key != "constraints" or "known" in top.table(key).entries for key in beside):
                raise RunFileError(
                    f"{beside[0]!r} is a part of a space with a version; write it there"
                )
            space = Space.from_dict(given.entries)
        # A client must not start commands, nor read files.
        for key in filter(table.has, ("threads", "experience", "proposers")):
            raise table.error(key, table.entries[key], "no such key in the service")
        context = top.table("context").entries
        check_context(context)
        found = cls(context=context, **read_run(top, space=space))
        if found.budget is not None:
            has_tasks = len(found.space.tasks or ()) > 1
            check_rule(found.budget.stop, found.aim.several, has_tasks)
        peak = {} if found.peak is None else {PEAK: found.peak}
        sharing = replace(found.sharing, lease=top.entries.get("lease"))
        return replace(found, sharing=sharing, context={**peak, **context})

    def create(self, storage: Path | None) -> Optimizer:
        """Return the optimizer of a new run, or of the journal at ``storage``."""
        context, warm_start = self.context, self.warm_start
        return self.make_optimizer(storage, context=context, warm_start=warm_start)


def check_context(context: Mapping[str, Any]) -> None:
    """Refuse keys that `baco-like tune` writes: they name commands, which ``baco-like rebuild`` offers to run.

    Raises:
        RunFileError: There is one.
    """
    for key in context:
        is_free = key in (UNIT, UNITS, EXACT, PEAK, DEVICE_TYPE) or not key.startswith("[")
        if not is_free or key in (FOLDER, COMPILER):
            raise RunFileError(
                f"context: {key!r:.80} is a key of baco-like tune; choose another name"
            )


@dataclass
class Answer:
    """A request and its answer; its lock is held while the answer is made.

    Attributes:
        digest: Identifies the method and the parameters.
        text: The result as JSON, or None until there is one.
        events: Events that an interrupted request has written, each with the number behind it.
    """

    digest: str
    text: bytes | None = None
    events: list[tuple[Event, int]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Answers:
    """The answers of a run by client and id of the request: the last ones of each client, within a number of bytes."""

    def __init__(self) -> None:
        self._by_client: dict[str, OrderedDict[str | int, Answer]] = {}
        self._order: OrderedDict[tuple[str, str | int], int] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def find(self, client: str, request: str | int, digest: str) -> Answer:
        """Return the answer to a request; a new one without a text if there is none.

        Raises:
            ServiceError: The client has used the id for another request.
        """
        with self._lock:
            own = self._by_client.setdefault(client, OrderedDict())
            answer = own.get(request)
            if answer is None:
                answer = own[request] = Answer(digest)
                self._add((client, request), _KEPT_ENTRY)
                # Programs without a name share one. A request that is being answered stays.
                if len(own) > _KEPT and client != UNNAMED:
                    self._drop(client, next(k for k, old in own.items() if not old.lock.locked()))
            if answer.digest != digest:
                raise ServiceError(
                    "id_reused",
                    f"id = {request!r}: the client {client!r} has used it for another request; use each id once: a "
                    "random prefix and a number",
                )
            return answer

    def keep(self, client: str, request: str | int, answer: Answer, text: bytes) -> None:
        """Keep the text of an answer; the oldest answers give way."""
        with self._lock:
            answer.text, answer.events = text, []
            if self.holds(client, request, answer):
                self._add((client, request), len(text))

    def forget(self, client: str, request: str | int, answer: Answer) -> None:
        """Drop a request without an answer, so that its id may be tried again."""
        with self._lock:
            if self.holds(client, request, answer):
                self._drop(client, request)

    def holds(self, client: str, request: str | int, answer: Answer) -> bool:
        """Whether this is still the answer to a request."""
        own = self._by_client.get(client)
        return own is not None and own.get(request) is answer

    def _add(self, key: tuple[str, str | int], size: int) -> None:
        self._order[key] = self._order.get(key, 0) + size
        self._bytes += size
        while self._bytes > _KEPT_BYTES and len(self._order) > 1:
            self._drop(*next(iter(self._order)))

    def _drop(self, client: str, key: str | int) -> None:
        self._bytes -= self._order.pop((client, key), 0)
        own = self._by_client.get(client)
        if own is not None:
            own.pop(key, None)
            if not own:
                del self._by_client[client]


class Run:
    """An open run.

    Attributes:
        name: Its name.
        optimizer: Its optimizer.
        tables: The tables that describe it; empty for a journal that another program has begun.
        budget: When it ends, or None.
        sharing: Leases, and proposals in store.
        answers: The answered requests.
        users: Number of requests that it answers now.
        used: When the latest request came, on the monotonic clock.
        held: Keeps other processes out of it until it is closed.
    """

    def __init__(
        self,
        name: str,
        optimizer: Optimizer,
        tables: Mapping[str, Any],
        budget: Budget | None,
        sharing: Sharing,
        most_pending: int,
    ) -> None:
        self.name, self.optimizer, self.tables = name, optimizer, tables
        self.budget, self.sharing = budget, sharing
        self.answers, self.held = Answers(), ExitStack()
        self.users, self.used = 0, time.monotonic()
        self._most_pending = most_pending
        self._counting = threading.Condition()
        self._reserved = 0
        self._marks: list[Mark] = [START]
        self._marking = threading.Lock()
        self._find_requests()

    @property
    def path(self) -> Path | None:
        """The journal, or None in memory."""
        return getattr(self.optimizer.journal, "path", None)

    @property
    def rule(self) -> AnyOf:
        """When the run ends."""
        return AnyOf(()) if self.budget is None else self.budget.stop

    @contextmanager
    def reserving(self, wanted: int) -> Iterator[int]:
        """Reserve the right to suggest at most ``wanted`` trials within a ``with`` block, and yield their number.

        The budget may have room for fewer. Other clients suggest meanwhile, except where there is not room for all.

        Raises:
            ServiceError: The run has ended, or has too many pending trials.
        """
        with self.optimizer.grouped():
            with self._counting:
                while (room := self._room(wanted)) < wanted and self._reserved:
                    self._counting.wait()  # what the others suggest is counted twice until they are done
                if room < 1:
                    raise self._full()
                again = len(self.optimizer.suggested_first)
                self.check_pending(room - again)
                self._reserved += room
            try:
                yield room
            finally:
                with self._counting:
                    self._reserved -= room
                    self._counting.notify_all()

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Let one client after the other count pending trials and add one; they wait for the disk together."""
        with self.optimizer.grouped(), self._counting:
            yield

    def _room(self, wanted: int) -> int:
        """Return how many trials may be suggested now, at most ``wanted``.

        Raises:
            ServiceError: The run has ended.
        """
        optimizer, rule = self.optimizer, self.rule
        if reason := optimizer.should_stop(rule):
            raise self._ended(reason)
        left = rule.room(optimizer.history)
        if left is None:
            return wanted
        return min(wanted, left + len(optimizer.suggested_first) - self._reserved)

    def _full(self) -> ServiceError:
        """Return the error for a budget without room although not all of its evaluations are observed."""
        pending = self.optimizer.pending
        few = ", ".join(f"{trial.id} of {trial.worker!r}" for trial in pending[:_NAMED])
        text = f"the other evaluations of the budget are pending: trial {few}{', ...' * (len(pending) > _NAMED)}"
        if any(trial.lease is not None for trial in pending):
            return ServiceError(
                "wait", f"{text}; observe your own, and ask again: a lease may end without a result"
            )
        return self._ended(f"{text} (if their programs have ended: observe or abandon them)")

    def _ended(self, reason: str) -> ServiceError:
        return ServiceError(
            "ended",
            f"the run has ended: {reason}; `best` has the result, and `open` with a larger budget continues",
        )

    def check_pending(self, added: int) -> None:
        """Refuse more pending trials than the server allows.

        Raises:
            ServiceError: They are too many.
        """
        pending = len(self.optimizer.history.pending) + self._reserved
        if added > 0 and pending + added > self._most_pending:
            raise ServiceError(
                "limit",
                f"{pending} trials are pending, and the server allows {self._most_pending}; observe or abandon some",
            )

    def _find_requests(self) -> None:
        """Note the requests of the journal, whose answers are made again if they are sent again."""
        for event, mark in self.optimizer.journal.read(START):
            self._keep_mark(mark)
            if "request" in event and event["event"] != "opened":
                with suppress(ServiceError):  # another program has written the same id
                    answer = self.answers.find(*event["request"][:3])
                    answer.events.append((event, mark.number))

    def _keep_mark(self, mark: Mark) -> None:
        if mark.number % _STEP == 0:
            with self._marking:
                if mark.number // _STEP == len(self._marks):
                    self._marks.append(mark)

    def read_events(self, after: int, most: int) -> list[tuple[Event, int]]:
        """Return at most ``most`` events after a number of them, each with the number behind it."""
        nearest = self._marks[min(after // _STEP, len(self._marks) - 1)]
        found, begin = [], nearest.place
        for event, mark in self.optimizer.journal.read(nearest):
            self._keep_mark(mark)
            if mark.number > after:
                found.append((event, mark.number))
                if len(found) >= most or mark.place - begin > _MOST_EVENT_BYTES:
                    break
            else:
                begin = mark.place
        return found

    def answer(
        self,
        client: str,
        request: str | int,
        digest: str,
        changes: bool,
        make: Callable[[list[tuple[Event, int]]], bytes],
    ) -> bytes:
        """Return the answer to a request, which is made once.

        Args:
            client: Name of the client.
            request: Id of the request.
            digest: Identifies the method and the parameters.
            changes: Whether the method changes the run.
            make: Makes the answer. Its argument are the events that the same request has written before it was
                interrupted; ``make`` adds those that it writes.

        Raises:
            ServiceError: The client has used the id for another request.
        """
        while True:
            answer = self.answers.find(client, request, digest)
            with answer.lock:
                if not self.answers.holds(client, request, answer):
                    continue  # its first attempt has failed while this one was waiting
                if answer.text is None:
                    try:
                        text = make(answer.events)
                    except BaseException:
                        # The disk may have refused events, which are undone.
                        known = self.optimizer.state.mark.number
                        answer.events = [each for each in answer.events if each[1] <= known]
                        if not answer.events:
                            self.answers.forget(client, request, answer)
                        raise
                    if not changes and len(text) > _LARGEST_READ:
                        self.answers.forget(client, request, answer)
                        return text
                    self.answers.keep(client, request, answer, text)
                return answer.text or b""


class Runs:
    """The runs of a server.

    Args:
        folder: Where the journals are, as ``NAME.jsonl``; None keeps runs in memory.
        journal: The journal of the run ``run``, instead of one in the folder.
        limits: The limits.
        suggests_again: Whether `suggest` returns the trials that a run had pending when it was opened. True where the
            only client ends with the server.
        reads_only: Whether runs are only read. Other processes may work on them at the same time.
    """

    def __init__(
        self,
        folder: Path | None = None,
        journal: Path | None = None,
        limits: Limits = Limits(),  # noqa: B008
        suggests_again: bool = False,
        reads_only: bool = False,
    ) -> None:
        self.limits, self._reads_only = limits, reads_only
        self._folder, self._journal, self._suggests_again = folder, journal, suggests_again
        self._runs: dict[str, Run] = {}
        self._opening, self._building = threading.RLock(), threading.Lock()
        self._using = threading.Lock()
        self._known: dict[str, None] = {}
        self._model = ModelProcess()
        if folder is not None and not reads_only:
            with explain_os_error(JournalError, "make", folder):
                folder.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Give the journals free."""
        with self._opening:
            for name in list(self._runs):
                self._runs.pop(name).held.close()
            self._model.close()

    @property
    def folders(self) -> set[Path]:
        """The folders of the journals, which messages to clients leave out."""
        own = [self._folder] if self._folder is not None else []
        own += [self._journal.parent] if self._journal is not None else []
        return {*own, *(folder.absolute() for folder in own)} - {Path(".")}

    def find(self, name: str | None) -> Run:
        """Return an open run, or one whose journal is there; None: the only one that is open.

        Raises:
            ServiceError: No such run exists.
        """
        if name is None:
            names = list(self._known)
            if len(names) > 1:
                raise ServiceError(
                    "no_run", f"{len(names)} runs are open; name one: {', '.join(names[:10])}"
                )
            name = names[0] if names else DEFAULT
        run = self._runs.get(name) or self.open(name, {})[0]
        if self._reads_only:
            run.optimizer.refresh()
        return run

    @contextmanager
    def using(self, name: str | None) -> Iterator[Run]:
        """Yield what `find` returns; it stays open within the ``with`` block."""
        while True:
            run = self.find(name)
            with self._using:
                if self._runs.get(run.name) is run:  # not closed in the meantime
                    run.users += 1
                    break
        try:
            yield run
        finally:
            with self._using:
                run.users, run.used = run.users - 1, time.monotonic()

    def _close_idle(self) -> None:
        """Close the run that was not used for the longest time; its next request opens it again."""
        oldest = time.monotonic() - _IDLE
        with self._using:
            idle = [r for r in self._runs.values() if not r.users and r.path is not None]
            run = min(idle, key=lambda r: r.used, default=None)
            if run is not None and run.used <= oldest:
                self._runs.pop(run.name).held.close()

    def list_names(self) -> list[str]:
        """Return the names of the runs in the folder, at most 1,000: journals, and folders of ``baco-like tune``."""
        if self._folder is None:
            return sorted(self._runs)
        found = {path.stem for path in self._folder.glob("*.jsonl")}
        found |= {path.parent.name for path in self._folder.glob(f"*/{JOURNAL}")}
        return sorted(filter(_NAME.fullmatch, found))[:_LISTED]

    def open(self, name: str, tables: Mapping[str, Any]) -> tuple[Run, bool]:
        """Return the run of this name, and whether it existed before.

        Args:
            name: The name.
            tables: What describes it; without a space: continue the run, with other leases or proposals ahead if they
                are given. ``warm_start`` names a run, perhaps with another space, whose results a new run takes over.

        Raises:
            ServiceError: It does not exist and is not described; or a limit is reached.
            JournalError: It is described otherwise, or another process has its journal.
            BacoError: The description is wrong.
        """
        try:
            return self._open(name, tables)
        except JournalError as error:
            advice = f'"run": "NEW", "warm_start": "{name}"'
            text = _FILE_ADVICE.sub(
                f"or another run; where the server has --folder, `open` with {advice} begins with the old results",
                str(error),
            )
            if text == str(error):
                raise
            raise JournalError(text) from error

    def _open(self, name: str, tables: Mapping[str, Any]) -> tuple[Run, bool]:
        source = tables.get("warm_start")
        tables = {key: value for key, value in tables.items() if key != "warm_start"}
        description, read = tables if "space" in tables else {}, None
        if description and description != getattr(self._runs.get(name), "tables", None):
            # A hard space may take a minute. Others open their runs meanwhile, but only one space is built at a time.
            with self._building:
                read = self._read(description)
        with self._opening:
            known, path = self._runs.get(name), self._path(name)
            if known is not None:
                if read is not None and description != known.tables:
                    self._change(known, description, read)
                self._share(known, tables)
                return known, True
            exists = path is not None and path.exists() and path.stat().st_size > 0
            if not description and not exists:
                others = ", ".join(self.list_names()[:10])
                raise ServiceError(
                    "no_run",
                    f"the run {name!r} does not exist{others and f' (there are {others})'}; open it with a space: "
                    f'{{"method": "open", "params": {{"run": "{name}", "space": {{...}}}}}}',
                )
            if source is not None and not exists:
                if read is None or path is None:
                    raise ServiceError("params", "warm_start: needs a space, and runs in a folder")
                read = replace(read, warm_start=self._path(source))
            run = self._hold(name, path, description or _stored(path), read)
            self._share(run, tables)
            return run, exists

    def adopt(self, name: str, header: Event) -> None:
        """Open a new run that another program describes by the header of a journal.

        Raises:
            JournalConflict: There is a run of this name.
            ServiceError: A limit is reached, or the strategy is an object of the other program.
            BacoError: The header is wrong.
        """
        with self._opening:
            path = self._path(name)
            if name in self._runs or (path is not None and os.path.lexists(path)):
                raise JournalConflict(f"the run {name!r} exists; read its events")
            self._check_size(header.get("space"), None)
            options = Header.read(header, name).options
            check_context(options.context)
            if "name" not in options.strategy:
                raise ServiceError(
                    "params",
                    f"strategy = {options.strategy!r:.80}: a server knows strategies by name",
                )
            self._check_size(None, options.strategy.get("settings"))
            journal = MemoryJournal([header])
            Optimizer.load(journal)  # all checks, before anything is written
            tables: dict[str, Any] = {
                "budget": {}
            }  # the programs that use the run decide when it ends
            if path is not None:
                _store(path, tables)
                JsonlJournal(path).append(header, START)
            self._hold(name, path or journal, tables)

    def _hold(
        self,
        name: str,
        source: Path | MemoryJournal | None,
        tables: Mapping[str, Any],
        read: Description | None = None,
    ) -> Run:
        """Open a run, and keep other processes out of it.

        Raises:
            ServiceError: As many runs are open as the server allows.
        """
        if len(self._runs) >= self.limits.most_runs:
            self._close_idle()
        if len(self._runs) >= self.limits.most_runs:
            raise ServiceError(
                "limit",
                f"{len(self._runs)} runs are in use, as many as the server allows; try later",
            )
        with ExitStack() as stack:
            if not self._reads_only and not isinstance(source, MemoryJournal):
                stack.enter_context(sole_runner(source))
            run = self._runs[name] = self._create(name, tables, source, read)
            run.held = stack.pop_all()
        self._known[name] = None
        return run

    def _create(
        self,
        name: str,
        tables: Mapping[str, Any],
        source: Path | MemoryJournal | None,
        read: Description | None,
    ) -> Run:
        budget, sharing = None, Sharing()
        if "space" in tables:
            description = read or self._read(tables)
            budget, sharing = description.budget, description.sharing
        if "space" in tables and not self._reads_only:
            assert not isinstance(source, MemoryJournal)
            is_new = source is not None and not source.exists()
            if is_new:
                description.create(None)  # all checks, before anything is written
                _store(source, tables)
            optimizer = description.create(source)
            if not is_new:  # only now, because the journal may belong to another run
                _store(source, tables)
        else:  # another program has begun it
            assert source is not None
            optimizer = Optimizer.load(source)
            evaluations = optimizer.options.budget
            if evaluations is not None and "space" not in tables and "budget" not in tables:
                budget = Budget(evaluations)
        fitting = _MOST_VALUES // _size_of(optimizer.space.to_dict())
        most_pending = max(1, min(self.limits.most_pending, fitting))
        run = Run(name, optimizer, tables, budget, sharing, most_pending)
        if not self._reads_only:
            optimizer.share(sharing, self._model)
            self._share(run, {} if "space" in tables else tables)
            optimizer.take_part()
            if not self._suggests_again:
                optimizer.keep(optimizer.suggested_first)
        return run

    def _share(self, run: Run, tables: Mapping[str, Any]) -> None:
        """Give an open run another lease, or another number of proposals ahead; what is not given stays.

        Raises:
            RunFileError: A key is unknown, or has a wrong value.
        """
        if "space" in tables:
            return
        top = Table("", {k: v for k, v in tables.items() if k != "budget"})
        own, store = dict(top.entries), top.table("optimizer")
        given = {**store.entries, **own}
        given.pop("optimizer", None)
        if unknown := [key for key in given if key not in ("lease", "ahead", "patience")]:
            raise RunFileError(
                f"{unknown[0]!r}: without a space, open takes lease, and ahead and patience in the table optimizer"
            )
        try:
            sharing = replace(run.sharing, **given)
        except (ValueError, TypeError) as error:
            raise RunFileError(str(error)) from error
        if sharing != run.sharing:
            table = {**run.tables.get("optimizer", {}), **store.entries}
            run.tables = {**run.tables, **own, **({"optimizer": table} if table else {})}
            _store(run.path, run.tables)
            run.sharing = sharing
            run.optimizer.share(sharing, self._model)

    def _read(self, tables: Mapping[str, Any]) -> Description:
        self._check_size({k: v for k, v in tables.items() if k in _TABLES}, tables.get("optimizer"))
        return Description.read(tables)

    def _check_size(self, entries: Any, settings: Any) -> None:
        """Refuse a space with too many values, and a setting such as a population of so many configurations.

        Raises:
            ServiceError: It is too large.
        """
        size, given = _size_of(entries), settings if isinstance(settings, dict) else {}
        for name, value in given.items():
            if name != "seed" and isinstance(value, int) and value > self.limits.most_choices:
                raise ServiceError(
                    "limit", f"{name} = {value}: the server allows {self.limits.most_choices}"
                )
        if size > self.limits.most_choices:
            raise ServiceError(
                "limit",
                f"the space has {size} parameters, values and constraints; the server allows "
                f"{self.limits.most_choices}",
            )

    def _change(self, run: Run, tables: Mapping[str, Any], description: Description) -> None:
        """Give an open run another budget, lease or number of proposals ahead; anything else must be the same.

        Raises:
            JournalError: It differs.
        """
        other = description.create(None)
        points = Header.read(other.opened, run.name).queue
        header = Header.read(run.optimizer.opened, run.name)
        header.check(other.space, other.options, points, run.name)
        _store(run.path, tables)
        run.tables, run.budget = tables, description.budget
        if description.sharing != run.sharing:
            run.sharing = description.sharing
            run.optimizer.share(run.sharing, self._model)

    def _path(self, name: str) -> Path | None:
        if self._journal is not None and name == DEFAULT:
            return self._journal
        if self._folder is None:
            return None
        path, nested = self._folder / f"{name}.jsonl", self._folder / name / JOURNAL
        if nested.is_file() and not path.exists():  # a folder of `baco-like tune`
            path = nested
        if not path.resolve().is_relative_to(self._folder.resolve()):
            raise JournalError(f"the run {name!r} is a link that leaves the folder of the runs")
        return path


def _stored(path: Path | None) -> Mapping[str, Any]:
    """Return the tables beside a journal; empty if there are none.

    Raises:
        JournalError: They cannot be read.
    """
    if path is None or not (beside := _beside(path)).exists():
        return {}
    try:
        tables = json.loads(beside.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        tables = None
    if not isinstance(tables, dict):
        raise JournalError(f"{beside} cannot be read; open the run with its space again")
    return tables


def _beside(journal: Path) -> Path:
    """Return the file with the tables of a run, which the journal does not have: budget, lease, proposals ahead."""
    return Path(re.sub(r"\.jsonl$", "", str(journal)) + ".open.json")


def _store(path: Path | None, tables: Mapping[str, Any]) -> None:
    if path is not None:
        text = json.dumps(tables)
        with explain_os_error(JournalError, "write", _beside(path)):
            replace_file(_beside(path), text.encode())


def _size_of(value: Any) -> int:
    """Return the number of entries in tables; a permutation of n elements counts n."""
    if isinstance(value, dict):
        own = value.get("n"), value.get("elements"), value.get("length")
        counted = sum(v for v in own if isinstance(v, int) and not isinstance(v, bool) and v > 0)
        return len(value) + counted + sum(map(_size_of, value.values()))
    return len(value) + sum(map(_size_of, value)) if isinstance(value, list) else 0
