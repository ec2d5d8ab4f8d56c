"""The Optimizer: suggests configurations and learns from their outcomes.

It changes; spaces, histories, models and strategies do not. Journals and evaluators change too.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, overload

from typing_extensions import override

from baco_like._checks import explain_keywords, whole_number
from baco_like._output import warn_caller
from baco_like._threads import resolve_threads, thread_limit
from baco_like.exceptions import (
    BacoError,
    BacoWarning,
    ConfigError,
    FailureWarning,
    JournalConflict,
    SpaceExhausted,
    TrialError,
)
from baco_like.journal import Journal, MemoryJournal, RemoteJournal
from baco_like.journal.events import (
    Event,
    abandoned_event,
    built_event,
    confirming_event,
    describe_error,
    enqueued_event,
    proposed_event,
    renewed_event,
    suggested_event,
)
from baco_like.journal.header import Header, Options, WarmStartResults, objective_context
from baco_like.journal.lock import keep_trials, lost_trials, taking_lost
from baco_like.optimizer.ahead import ProposalStore, Proposes
from baco_like.optimizer.arguments import (
    Config,
    Search,
    Sharing,
    encode_feasible,
    first_configs,
    journal_name,
    read_header,
    read_space,
    resolve_goal,
    resolve_journal,
    resolve_task,
    restore_strategy,
)
from baco_like.optimizer.observing import (
    add_details,
    build_completion,
    build_late_results,
    build_observation,
)
from baco_like.optimizer.proposing import ProposalAnswer, answer_proposals
from baco_like.optimizer.server import Server
from baco_like.optimizer.simplifying import Simplifier
from baco_like.optimizer.state import Draft, JournaledState, OptimizerState
from baco_like.optimizer.suggesting import (
    build_choice,
    build_single_suggestion,
    build_suggestion,
    find_candidates,
    is_of_task,
)
from baco_like.optimizer.view import RunView
from baco_like.optimizer.warm_start import warm_starts
from baco_like.records import Aim, Outcome, StopRule, Trial
from baco_like.records.aim import GivenObjectives
from baco_like.records.confirmation import measurement_budget
from baco_like.records.leases import Lease, heartbeat, read_clocks
from baco_like.records.objective import ObservedValue
from baco_like.records.objective_values import number_within, read_build
from baco_like.records.plan import ConfirmationPlan
from baco_like.records.sources import EXPERIENCE
from baco_like.records.trial import Candidate
from baco_like.spaces.space import Space
from baco_like.spaces.tasks import GivenTask
from baco_like.strategies.protocol import Strategy

_LOOK = 1.0
"""Seconds between two questions whether a worker of a server has lost the last trials of the budget."""


class _NothingToWrite(Exception):
    """No trial of a call is pending, or no proposal is accepted, so there is no event."""


Callback = Callable[["Optimizer", Trial], None]


class Optimizer(RunView):
    """Suggests configurations and learns from their outcomes.

    Call `suggest`, measure the trial, pass the result to `observe`, and repeat. Each call is checked, then written to
    the journal, and only then takes effect. Several threads may use one optimizer, and several processes one journal.

    Args:
        space: The space to search: a `Space`, or a mapping from which one is built.
        aim: What to optimise: ``minimize``, ``maximize``, directions by name such as ``{"time": "minimize"}``, an
            `Objective` or a list of them, or an `Aim`, which also has limits and the goal of several tasks.
        seed: The run's only seed; the same seed and observations give the same suggestions.
        strategy: A registered name, a strategy object, or a `Search` with settings and first configurations.
        budget: Total number of evaluations, if known. Strategies choose their settings by it; it does not end the run.
        seconds: Budget in seconds, of all evaluations together; "auto" then prefers short evaluations.
        storage: None, the path of a journal (an existing one is resumed), the address of a run on a server, such as
            ``http://host:8765/run``, or a `Journal`.
        warm_start: Results of earlier runs: a `WarmStart`, a list of them, or the data of one, such as the path of a
            file. They are read once and kept in the journal, so resuming does not need the source.
        sharing: What belongs to this process: leases, its name among several, threads, proposals ahead of time.
        context: Conditions of the measurements as JSON values by name, such as ``{"gpu": "A100"}``; a journal with
            another context is refused.
        callbacks: Called with the optimizer and each trial after it is observed.

    Raises:
        ValueError: An argument has a wrong value, or a limit cannot be read.
        ConfigError: An initial configuration, or every result of a warm start, does not belong to the space; or
            ``BACO_LIKE_THREADS`` is not a number.
        RunFileError: The file of a warm start cannot be read.
        StrategyError: The strategy cannot use results of a related task.
        JournalError: The journal is damaged, or was written with another space or other options.
    """

    _announcer: tuple[int, int] | None = None
    """The process and thread that calls the callbacks; another one than the present was lost in a fork."""

    _run: JournaledState
    _reported_skew = 0.0

    @explain_keywords(space=Space, aim=Aim, strategy=Search, sharing=Sharing)
    def __init__(
        self,
        space: Space | Mapping[str, Any],
        aim: Aim | GivenObjectives = "minimize",
        seed: int = 0,
        *,
        strategy: str | Strategy[Any] | Search = "auto",
        budget: int | None = None,
        seconds: float | None = None,
        storage: str | os.PathLike[str] | Journal | None = None,
        warm_start: Any = None,
        sharing: Sharing = Sharing(),  # noqa: B008
        context: Mapping[str, Any] | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        space = space if isinstance(space, Space) else Space(space)
        aim, search = resolve_goal(Aim.of(aim), space), Search.of(strategy)
        resolved, description = search.create()
        context = {**(context or {}), **objective_context(aim.objectives)}
        options = Options(aim, seed, search.noise, description, budget, context, seconds)
        points = first_configs(space, search.initial)
        journal, warm = resolve_journal(storage), warm_starts(warm_start)
        run = space, options, resolved, journal, points, warm, search.experience
        self._open(sharing, callbacks, *run)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | Journal,
        space: Space | None = None,
        *,
        strategy: Strategy[Any] | None = None,
        sharing: Sharing = Sharing(),  # noqa: B008
    ) -> Optimizer:
        """Return the optimizer that a journal describes; it appends to the same journal.

        Args:
            path: The path of the journal, the address of a run on a server, or the journal.
            space: Needed only if the journal's space has Python callables as constraints.
            strategy: Needed only to continue a run that was made with a strategy object.
            sharing: As for `Optimizer`.

        Raises:
            JournalError: The file is missing or damaged, or the space or the strategy is not the journal's.
            SpaceError: The journal's space cannot be built, or has Python callables as constraints.
        """
        journal = resolve_journal(path)
        header, name = read_header(journal), journal_name(journal)
        space = read_space(header, name) if space is None else space
        options, optimizer = header.options, cls.__new__(cls)
        restored = restore_strategy(options.strategy, strategy, name)
        optimizer._open(sharing, (), space, options, restored, journal, None)
        return optimizer

    @classmethod
    def connect(
        cls,
        url: str,
        token: str | None = None,
        space: Space | None = None,
        *,
        sharing: Sharing = Sharing(),  # noqa: B008
    ) -> Optimizer:
        """Return the optimizer of a run on a server (``baco-like serve --http``), as one of its workers.

        The server chooses the configurations, so no model is fitted here, and keeps the journal. A call that cannot
        reach it tries again for five minutes; a result that was recorded already is not counted twice.

        Args:
            url: The server and the name of the run: ``http://HOST:PORT/RUN``.
            token: The token of the server; None: the environment variable ``BACO_LIKE_TOKEN``.
            space: Needed only if the journal's space has Python callables as constraints.
            sharing: As for `Optimizer`, with these differences. The name of the worker has a default. A lease, and
                the proposals ahead of time, belong to the run: the latest worker that gives them decides. The clock of
                the server measures the leases.

        Raises:
            JournalError: The server cannot be reached, refuses the token, or has no such run.
        """
        return cls.load(RemoteJournal(url, token), space, sharing=sharing)

    def share(self, sharing: Sharing, process: Proposes | None = None) -> None:
        """Replace what belongs to this process; proposals in store are dropped.

        Args:
            sharing: As for `Optimizer`.
            process: Computes the proposals in store of a run with a journal file; None: a thread of this process.
        """
        with self._run.lock:
            self._sharing, self._store = sharing, self._make_store(sharing, process)
        if process is not None and self._store is not None:
            self._store.refill()  # the process begins to start

    def _open(
        self, sharing: Sharing, callbacks: Iterable[Callback], space: Space, *run: Any
    ) -> None:
        resolve_task(sharing.task, space)  # raises an error for an unknown one
        self._callbacks, self._threads = tuple(callbacks), resolve_threads(sharing.threads)
        with thread_limit(self._threads):
            self._run = JournaledState(space, *run)
        self._server = None
        if isinstance(self.journal, RemoteJournal):
            self._server = Server(self.journal.connection)
            sharing = self._server.join(sharing)
        self._sharing = sharing
        self._store = self._make_store(sharing)

    def _make_store(
        self, sharing: Sharing, process: Proposes | None = None
    ) -> ProposalStore | None:
        has_store = self._server is None and (sharing.ahead or sharing.worker is not None)
        return ProposalStore(self._run, sharing, self._threads, process) if has_store else None

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Return how `copy.deepcopy` and `pickle` make an optimizer of the same run; callbacks are kept.

        Raises:
            TypeError: The journal is a file, which two optimizers would write; `load` opens it again.
        """
        journal = self.journal
        if not isinstance(journal, MemoryJournal):
            name = journal_name(journal)
            raise TypeError(
                f"an optimizer with the journal {name} is not copied or pickled; "
                f"open the journal again: Optimizer.load({name!r})"
            )
        strategy = self.state.strategy
        sharing = replace(self._sharing, ahead=0, patience=None, threads=self._threads)
        events = list(journal.events)
        return _restore, (type(self), sharing, self._callbacks, self.space, strategy, events)

    # Read ------------------------------------------------------------------------------------------------------

    @property
    def warm_start(self) -> tuple[WarmStartResults, ...]:
        """The results that the run took from each warm start, and the number of those it left out."""
        return self._run.warm_start

    def should_stop(self, rule: StopRule) -> str | None:
        """Return why the run should end, or None."""
        reason = None if self._server is None else self._server.ended
        return reason or rule.reason(self.history, time.monotonic() - self._run.opened)

    # Suggest ---------------------------------------------------------------------------------------------------

    @overload
    def suggest(self, *, task: GivenTask | None = None) -> Trial: ...
    @overload
    def suggest(self, n: int, *, task: GivenTask | None = None) -> list[Trial]: ...
    def suggest(
        self, n: int | None = None, *, task: GivenTask | None = None
    ) -> Trial | list[Trial]:
        """Return the next trial, or with ``n`` a list of exactly n trials, fewer only if no more are left.

        First come pending trials without a lease that a process has left behind, if no other process works on the
        journal: after a crash they have the same numbers again. Then come trials with an expired lease, enqueued
        configurations, those that sources propose (see `propose`), and those of the strategy: from the store if the
        optimizer has ``ahead``.

        Args:
            n: Number of trials; None returns one trial instead of a list.
            task: Name or descriptor of the task of all trials, instead of the optimizer's. They do not come from the
                store.

        Raises:
            SpaceError: The task does not exist.
            SpaceExhausted: Every feasible configuration is observed or pending. In a space whose configurations cannot
                be counted: every configuration that repeated random draws find.
            JournalError: The suggestion could not be recorded; the run is unchanged.
        """
        count = 1 if n is None else whole_number("n", n, 1)
        self._report_skew()
        sharing = self._sharing
        if task is not None:
            sharing = replace(sharing, task=task, ahead=0, patience=None)
        index = resolve_task(sharing.task, self.space)

        def is_wanted(number: int) -> bool:
            return self._is_of_task(self.history.find(number), index)

        lock = self._run.lock_file
        with self._run.taking_part(), taking_lost(lock, is_wanted, count) as lost:
            trials = self.reclaim(self._find_trials(lost)) if lost else []
            if missing := count - len(trials):
                with suppress(SpaceExhausted) if trials else nullcontext():
                    trials += self._find_trials(self._suggest_new(missing, sharing))
        return trials[0] if n is None else trials

    def _suggest_new(self, n: int, sharing: Sharing) -> list[int]:
        if self._server is not None:
            while not (ids := self._server.suggest(n, sharing)):
                self.refresh()
                if any(trial.worker == self.worker for trial in self.pending):
                    raise SpaceExhausted(
                        "the budget has room for no more trials; observe those that are pending first"
                    )
                time.sleep(_LOOK)
            self.refresh()
            return ids
        if self._store is None or sharing.task is not None:
            draft = self._commit(lambda s: build_suggestion(s, n, read_clocks(), sharing))
            return draft.ids
        with self.grouped():
            return self._store.suggest(n, self._commit)

    def enqueue(self, config: Config) -> None:
        """Suggest this configuration next, after those that were enqueued before.

        Raises:
            ConfigError: The configuration does not belong to the space, or is already observed or pending.
        """
        plain_config, code = encode_feasible(self.space, config)

        def draft(state: OptimizerState) -> Draft:
            if state.is_excluded(code):
                raise ConfigError(
                    f"{plain_config} is already observed or pending; it cannot be enqueued"
                )
            return Draft(enqueued_event([plain_config]))

        self._commit(draft)

    @overload
    def propose(self, config: Config, *, source: str, note: str = "") -> ProposalAnswer: ...
    @overload
    def propose(
        self, config: Sequence[Config], *, source: str, note: str = ""
    ) -> list[ProposalAnswer]: ...
    def propose(
        self, config: Config | Sequence[Config], *, source: str, note: str = ""
    ) -> ProposalAnswer | list[ProposalAnswer]:
        """Propose configurations that compete with those of the strategy, and return an answer to each.

        `suggest` returns an accepted one when its source is due: sources that bring new best results get up to half of
        the trials, others few, and one whose first trials all fail gets none. The trial has the origin ``proposed``,
        and its tag has the source and the note. Use `enqueue` for a configuration that must be tried.

        Args:
            config: A configuration or a list of them.
            source: Name of the person, script or program that has chosen them.
            note: The reason, for `why` and the report.

        Raises:
            ValueError: The source has no name or the name of earlier runs, or the note is not a text.
            ConfigError: A configuration is not a mapping.
            JournalError: The proposals could not be recorded; the run is unchanged.
        """
        if not isinstance(source, str) or not source.strip():
            raise ValueError(f"source = {source!r:.60}: expected a name, such as 'expert'")
        if source == EXPERIENCE:
            raise ValueError(
                f"source = {source!r}: this is the name of earlier runs (Search(experience=...)); choose another one"
            )
        if not isinstance(note, str):
            raise ValueError(f"note = {note!r:.60}: expected a text")
        configs = [config] if isinstance(config, Mapping) else list(config)
        answers: list[ProposalAnswer] = []

        def draft(state: OptimizerState) -> Draft:
            answers[:], accepted = answer_proposals(state, configs, source)
            if not accepted:
                raise _NothingToWrite
            return Draft(proposed_event(source, note, accepted))

        with suppress(_NothingToWrite):
            self._commit(draft)
        return answers[0] if isinstance(config, Mapping) else answers

    def claim(self, config: Config) -> Trial:
        """Return a pending trial of a configuration that was chosen elsewhere, before enqueued configurations.

        If the configuration is pending already, its trial is returned.

        Raises:
            ConfigError: The configuration does not belong to the space, or is already observed (with
                ``noise="repeat"``: has failed).
            JournalError: The trial could not be recorded; the run is unchanged.
        """
        plain_config, code = encode_feasible(self.space, config)

        def draft(state: OptimizerState) -> Draft:
            if state.is_excluded(code):
                raise ConfigError(f"{plain_config} is already observed; it cannot be claimed")
            return build_single_suggestion(state, plain_config, code, read_clocks(), self._sharing)

        try:
            with self._run.taking_part():
                (row,) = self._commit(draft).event["trials"]
            trial = self.history.find(row["id"])
        except ConfigError:
            trial = self.history.find_pending(code[0])
            if trial is None:
                raise
        assert trial is not None
        return trial

    def measure_again(self, config: Config, origin: str = "control") -> Trial:
        """Return a pending trial of a configuration, whether or not it is observed.

        Args:
            config: A configuration of the space.
            origin: The purpose, which the trial keeps: ``control`` (see `tune`), ``confirmation``, ``simplification``
                or ``comparison`` (see `simplify`).

        Raises:
            ConfigError: The configuration does not belong to the space.
        """
        plain_config, code = encode_feasible(self.space, config)

        given = plain_config, code, read_clocks(), self._sharing, origin
        with self._run.taking_part():
            draft = self._commit(lambda state: build_single_suggestion(state, *given))
        return self.history.get_pending(draft.event["trials"][0]["id"])

    def start_confirmation(self, plan: ConfirmationPlan) -> None:
        """Record the start of a confirmation; the trials of `measure_again` with this origin belong to it.

        Raises:
            ConfigError: A candidate does not belong to the space.
        """
        self._commit(lambda state: Draft(confirming_event(plan)))

    def simplify(
        self,
        evaluations: float = 0.25,
        confirm_evaluations: float = 0.1,
        *,
        tolerance: float = 0.01,
        fits: Callable[[int], bool] = lambda count: True,
    ) -> Iterator[Trial]:
        """Yield trials to measure, to find which parameters of the winner can return to their defaults.

        Observe each trial before the next one; `recommend` returns the result after the last. The winner is the
        recommended trial of a confirmation, else `recommend`, or `best` if the objective is exact. A parameter returns
        if the program stays the same (``program=`` of `observe`), an exact value does not become
        worse, or the mean of some rounds with the winner is within the tolerance. Then the result is measured in
        rounds with the winner and the default, unless its program or its value is known, and is recommended if it is
        within the tolerance of the winner. A later call continues an interrupted one, and one that has spent its budget
        if the budget is larger.

        Args:
            evaluations: Largest number of measurements in the tests, or a share of the run's builds, but then at least
                15 (or as many as the run has builds).
            confirm_evaluations: The same for the rounds at the end, as a share of the evaluations.
            tolerance: Relative difference that does not matter. A confirmation of the run has its own.
            fits: Called with a number of measurements; False if there is no time for them.

        Raises:
            ValueError: The run has several objectives or tasks, or no feasible default configuration; or an argument is
                out of range.
            TrialError: No trial has succeeded; or, at the next trial, one is not observed.
        """
        plan = ConfirmationPlan((), (), tolerance=number_within("tolerance", tolerance, "[0, inf)"))
        budget = measurement_budget(evaluations, self.history.builds)
        last = measurement_budget(confirm_evaluations, self.history.searched)
        recording = self.measure_again, self.start_confirmation
        return Simplifier(self, *recording, budget, last, plan, fits).simplify()

    # Builds ----------------------------------------------------------------------------------------------------

    def candidates(self, n: int = 8) -> list[Trial]:
        """Return configurations to build before one of them is measured; they are not pending.

        Report the metrics of each build by `report_build`; then `choose` returns the trial to measure. None was built
        before. Half of them come from the strategy, the others are random steps from the best ones and uniform draws.
        Until the metrics have predicted the values of some trials better than the parameters alone, there is one
        candidate: the next suggestion. So it is for an enqueued configuration, and with several objectives, several
        tasks or a fidelity.

        Args:
            n: Number of configurations; there may be fewer.

        Raises:
            ValueError: This optimizer is a worker of a server, which chooses the configurations.
        """
        count = whole_number("n", n, 1)
        if self._server is not None:
            raise ValueError("a server chooses the configurations of its workers; use suggest")
        with self._run.lock, thread_limit(self._threads):
            self._run.replay_new_events()
            return find_candidates(self.state, count, self._sharing.stream)

    def report_build(
        self,
        candidate: Trial,
        build: Mapping[str, float],
        *,
        program: str | None = None,
        seconds: float | None = None,
    ) -> None:
        """Record the metrics of a candidate that was built; if the build fails, `observe` it as failed instead.

        Args:
            candidate: One of `candidates`.
            build: Finite numbers by name, such as ``{"size.text": 1840, "code.vector": 12}``.
            program: Text that identifies the program, as for `observe`. Of equal programs one is measured.
            seconds: Seconds of the build.

        Raises:
            TrialError: A metric is not a finite number.
            ConfigError: The configuration does not belong to the space.
            JournalError: It could not be recorded; the run is unchanged.
        """
        _, code = encode_feasible(self.space, candidate.config)
        known = Candidate(candidate, code[0], read_build(build), program, seconds)
        self._commit(lambda state: Draft(built_event([known]), code))

    def choose(self) -> Trial:
        """Return the pending trial of the built configuration that is most promising by its build metrics.

        All built configurations compete that were not measured, also those of earlier calls. One choice in eight is the
        strategy's own suggestion, and one in eight a configuration with a metric that was 0 in all measured ones. While
        the metrics do not predict the values, and without a built configuration, it is the next suggestion. Trials that
        a process has left behind come first, as in `suggest`.

        Raises:
            SpaceExhausted: As for `suggest`.
            JournalError: The suggestion could not be recorded; the run is unchanged.
        """
        if self._server is not None or self.suggested_first:
            return self.suggest()
        with self._run.taking_part():
            draft = self._commit(lambda s: build_choice(s, read_clocks(), self._sharing))
        return self.history.get_pending(draft.ids[0])

    # Workers ---------------------------------------------------------------------------------------------------

    @property
    def worker(self) -> str | None:
        """Name of this optimizer among several that share a run, or None."""
        return self._sharing.worker

    @property
    def in_store(self) -> int | None:
        """Number of proposals in store, or None without ``ahead``."""
        return len(self._store) if self._store is not None and self._store.size else None

    def size_of_next(self, n: int) -> int:
        """Return the number of trials to suggest now for n free workers, so that none waits for proposals of others.

        Proposals in store come first. If the store is empty: n if ``patience`` limits the wait of `suggest`, else 1.
        """
        if self._store is None or not self._store.size:
            return n
        return min(n, len(self._store)) or (1 if self._store.patience is None else n)

    @property
    def own_pending(self) -> list[Trial]:
        """Pending trials of its task that a run evaluates first: those with its `worker` name, all if it has none.

        Those that no process evaluates are among them, if this process is alone.
        """
        worker, lost = self.worker, lost_trials(self._run.lock_file)
        task = resolve_task(self._sharing.task, self.space)
        own = [t for t in self.pending if worker in (None, t.worker) or t.id in lost]
        return [trial for trial in own if self._is_of_task(trial, task)]

    def _is_of_task(self, trial: Trial | None, task: int | None) -> bool:
        return trial is not None and (task is None or is_of_task(self.history, trial.config, task))

    @property
    def lease(self) -> float | None:
        """Seconds after which a trial without a result or a sign of life is suggested again, or None."""
        return self._sharing.lease

    def renew(self, trials: Trial | Iterable[Trial]) -> list[Trial]:
        """Extend the leases of pending trials: from now on they last the full time of ``lease`` again.

        Call it while an evaluation takes long, or use `heartbeat`.

        Returns:
            The trials that are still pending, with their new leases. Another worker has finished the others, or they
            were abandoned; their results may be reported all the same.

        Raises:
            ValueError: The optimizer has no ``lease``.
            JournalError: The leases could not be recorded; they are unchanged.
        """
        ids = [t.id for t in ([trials] if isinstance(trials, Trial) else trials)]
        seconds = self._require_lease()
        if self._server is not None:
            ids = self._server.renew(ids)
            self.refresh()
            return self._find_trials(ids)

        def draft(state: OptimizerState) -> Draft:
            pending = [i for i in ids if state.history.is_pending(i)]
            if not pending:
                raise _NothingToWrite
            return Draft(renewed_event(pending, Lease(seconds, read_clocks())))

        with suppress(_NothingToWrite):
            return self._find_trials(self._commit(draft, announce=False).event["ids"])
        return []

    def take_part(self) -> None:
        """Look for pending trials that no process evaluates; `own_pending` has them after it. For a `sole_runner`.

        Raises:
            JournalError: The journal cannot be read.
        """
        with self._run.taking_part():
            pass

    def reclaim(self, trials: Iterable[Trial]) -> list[Trial]:
        """Begin pending trials of a worker that has ended again, with a new lease if the optimizer has leases.

        Returns:
            The trials that no other worker has finished or begun meanwhile.

        Raises:
            JournalError: It could not be recorded; the run is unchanged.
        """
        wanted = {trial.id: (trial.worker, trial.started) for trial in trials}

        def draft(state: OptimizerState) -> Draft:
            known = state.history.pending
            begun = {i: (known[i].worker, known[i].started) for i in wanted if i in known}
            again = [i for i in begun if begun[i] == wanted[i]]
            if not again:
                raise _NothingToWrite
            lease = self._sharing.start_lease(read_clocks())
            return Draft(suggested_event([], 0, again, lease, self.worker))

        with suppress(_NothingToWrite), self._run.taking_part():
            return self._find_trials(self._commit(draft, announce=False).ids)
        return []

    @property
    def suggested_first(self) -> list[int]:
        """Numbers of the pending trials that `suggest` returns before new ones.

        These are the trials with an expired lease, and those that no process evaluates, if this process is alone.
        """
        expired = [] if self.lease is None else self.history.find_expired(read_clocks())
        return list(dict.fromkeys([*lost_trials(self._run.lock_file), *expired]))

    def keep(self, trials: Iterable[int]) -> None:
        """Note that somebody evaluates pending trials of an earlier process, so `suggest` does not return them again.

        Args:
            trials: Their numbers.
        """
        keep_trials(self._run.lock_file, trials, self.history.is_pending)

    def _find_trials(self, ids: Iterable[int]) -> list[Trial]:
        found = (self.history.find(i) for i in ids)
        return [trial for trial in found if trial is not None]

    def heartbeat(
        self, trials: Trial | Callable[[], Iterable[Trial]]
    ) -> AbstractContextManager[None]:
        """Extend the lease of a trial from another thread, three times per lease, while the block runs.

        So a lease may be shorter than an evaluation. When this process dies, the leases end.

        Args:
            trials: The trial, or a function that returns the trials that are being evaluated.

        Raises:
            ValueError: The optimizer has no ``lease``.
        """

        def renew() -> None:
            # A full disk may have space again at the next sign of life.
            with suppress(BacoError, OSError):
                self.renew(trials() if callable(trials) else trials)

        return heartbeat(renew, self._require_lease())

    def complete_late(self, results: Sequence[Trial]) -> None:
        """Record results of trials that need not be pending any more, so that no measurement is lost.

        The result of a pending trial completes it, as in `complete`. Any other result becomes a further measurement of
        its configuration: a trial with a new number and the origin ``late``; ``extra["late"]`` is the number of the
        trial that it belongs to.

        Args:
            results: Trials with outcomes, as `Trial.with_outcome` makes them.

        Raises:
            TrialError: A trial has no outcome, or a metric is missing that a limit reads; the run is unchanged.
            ConfigError: A configuration does not belong to the space.
            JournalError: The results could not be recorded; the run is unchanged.
        """
        self._commit(lambda state: build_late_results(state, results))

    def _require_lease(self) -> float:
        lease = self.lease
        if lease is None:
            raise ValueError(
                "this optimizer has no leases; write Optimizer(..., sharing=Sharing(lease=seconds))"
            )
        return lease

    def _report_skew(self) -> None:
        """Warn if a lease shows that wall clocks disagree; again only if it is more than twice as much."""
        if self.lease is None or self._server is not None:  # the server's clock measures the leases
            return
        leases = {id(t.lease): t.lease for t in self.pending if t.lease is not None}
        if not leases:
            return
        now = read_clocks()
        skew, text = max(lease.describe_skew(now) for lease in leases.values())
        if skew > 2 * self._reported_skew:
            self._reported_skew = skew
            warn_caller(f"{text}; synchronise the clocks (NTP)", BacoWarning)

    # Observe ---------------------------------------------------------------------------------------------------

    def observe(
        self,
        trial: Trial | Config | Sequence[Trial | Config],
        value: ObservedValue | Sequence[ObservedValue | None] | None = None,
        *,
        failed: str | bool | None = None,
        message: str = "",
        bound: float | None = None,
        extra: Mapping[str, Any] | None = None,
        imported: bool = False,
        seconds: float | Mapping[str, float] | None = None,
        program: str | None = None,
        build: Mapping[str, float] | None = None,
    ) -> Trial | list[Trial]:
        """Record the outcome of a trial, and return the completed trial, or a list of them for a list.

        The argument is not changed: the suggested trial has no outcome afterwards, the returned one has.

        Args:
            trial: A suggested trial, another configuration, or a list of these with a list of values.
            value: A number; a `Measurement` with its standard error; a list of repeats (the median counts, all are
                kept); or a mapping of metrics that includes the objective. None, NaN and infinities are recorded as
                failures, with a warning.
            failed: The failure word (True: ``runtime``). The configuration is never suggested again.
            message: Output or error message of the failing tool.
            bound: With ``failed="timeout"``: the value is at least this.
            extra: Further JSON values to keep.
            imported: The configuration may lie outside the space; then it is kept but not modelled.
            seconds: Seconds of the evaluation, or of each stage: ``{"compile": 40, "run": 1}``.
            program: Text that identifies the built program and all else that its measurement depends on, such as the
                hash of its file and the arguments; kept as ``extra["program"]``. Equal texts are equal programs. A
                mapping of metrics may have it as ``{"time": 1.2, "program": "5be1..."}``.
            build: Numbers that the build alone gives, by name, such as ``{"size.text": 1840, "code.vector": 12}``.

        Raises:
            TrialError: The trial comes from another run or is not pending (a late result, after the lease or
                `abandon`, is accepted); the lists differ in length; a mapping lacks the objective or a metric that a
                limit reads; the value of one trial is a list of mappings; both a value and a failure are given; the
                failure word is empty; seconds are negative or not numbers; the program is not a text; a build metric or
                the bound is not a finite number, or there is a bound and the run maximises; or ``extra`` is not a
                mapping.
            ConfigError: A configuration does not belong to the space.
            JournalError: The outcome could not be recorded, or ``extra`` is not JSON; the run is unchanged.
        """
        extra = add_details(extra, trial, seconds, program, build)
        details = {"failed": failed, "message": message, "bound": bound, "extra": extra}
        details["build"] = build
        draft = self._commit(
            lambda state: build_observation(state, trial, value, details, imported)
        )
        completed = self._find_trials(outcome.trial_id for outcome in draft.outcomes)
        return completed[0] if isinstance(trial, Mapping) else completed

    def complete(self, outcomes: Sequence[Outcome]) -> None:
        """Record the outcomes of suggested trials, as evaluators return them.

        Raises:
            TrialError: A trial is not pending, or appears twice, or a metric is missing that a limit reads; the run is
                unchanged.
            JournalError: The outcomes could not be recorded; the run is unchanged.
        """
        self._commit(lambda state: build_completion(state, outcomes))

    def abandon(self, trial: Trial, reason: str = "") -> None:
        """Give up a trial: it is no longer pending, and its configuration may be suggested again.

        Raises:
            TrialError: The trial is not pending.
        """
        if not isinstance(trial, Trial):
            raise TrialError(f"abandon takes a trial that was suggested, not {trial!r:.80}")
        self._commit(lambda state: Draft(abandoned_event(trial.id, reason)))

    def refresh(self) -> None:
        """Apply the events that other writers have added to the journal; all recording methods call this first."""
        with self._run.lock:
            with thread_limit(self._threads):
                self._run.replay_new_events()
            self._announce()

    @contextmanager
    def grouped(self) -> Iterator[None]:
        """Let the calls of this thread within a ``with`` block share one wait for the disk, at the end of the block.

        Results that are observed in the block, and trials that are suggested in it, are on the disk only after the
        block, so start the trials after it. With callbacks each call waits for itself, because a callback may rely on
        the result.

        Raises:
            JournalError: At the end of the block, if the disk has taken none of its events; all of them are undone.
        """
        with nullcontext() if self._callbacks else self._run.grouped():
            yield

    @contextmanager
    def answering(
        self, client: str, request: str | int, digest: str, count: int = 0
    ) -> Iterator[list[tuple[Event, int]]]:
        """Note the request of a client in the events that this thread records within a ``with`` block; yield these.

        Each event comes with the number of events behind it. A block within another one adds to the same list.

        The trials that are suggested in it get the client as their worker; proposals do not depend on it.

        Args:
            client: Name of the client.
            request: Id of the request, which the client never uses again.
            digest: Text that differs if the request does.
            count: Number of trials that the request suggests, which may take several events.
        """
        with self._run.answering((client, request, digest, *([count] if count else []))) as events:
            yield events

    def append(self, event: Event, after: int | None) -> int:
        """Record an event that another process has made from the state after some events; return the next number.

        The event is checked and takes effect like one of this optimizer.

        Args:
            event: The event.
            after: The number of events that the other process knew; None if the event only has to fit.

        Raises:
            JournalConflict: There are more events by now; the other process reads them and tries again.
            TrialError: A field is missing or wrong, or the event does not fit the history.
            JournalError: The event could not be recorded; the run is unchanged.
        """
        number = 0

        def draft(state: OptimizerState) -> Draft:
            nonlocal number
            if after is not None and state.mark.number != after:
                raise JournalConflict(
                    f"the run has {state.mark.number} events, not {after}; read the others and try again"
                )
            number = state.mark.number + 1
            return Draft(event)

        try:
            self._commit(draft)
        except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise TrialError(f"the event is malformed: {describe_error(error)}") from None
        return number

    def _commit(self, make: Callable[[OptimizerState], Draft], *, announce: bool = True) -> Draft:
        with self._run.lock, thread_limit(self._threads):
            draft = self._run.commit(make)
        self._run.confirm()  # without the lock: threads share the wait for the disk
        if announce:
            with self._run.lock:
                self._announce()  # callbacks are the user's code and use all threads
        for outcome in draft.outcomes:
            # Warn only after recording: a filter may turn the warning into an error.
            if outcome.problem:
                text = f"{outcome.problem}; recorded as a failure"
                warn_caller(text, FailureWarning)
        return draft

    def _announce(self) -> None:
        """Call the callbacks for the new observations, in order.

        A callback may itself observe trials; the outermost call announces these after the current ones.
        """
        present = (os.getpid(), threading.get_ident())
        if self._announcer == present:
            return
        self._announcer = present
        try:
            while self._run.unannounced:
                trial = self._run.unannounced.popleft()
                with ExitStack() as callbacks:  # calls the others even if one raises
                    for callback in reversed(self._callbacks):
                        callbacks.callback(callback, self, trial)
        finally:
            self._announcer = None


def _restore(
    kind: type[Optimizer],
    sharing: Sharing,
    callbacks: tuple[Callback, ...],
    space: Space,
    strategy: Strategy[Any],
    events: list[Event],
) -> Optimizer:
    """Return the optimizer that `Optimizer.__reduce__` describes."""
    optimizer = kind.__new__(kind)
    options = Header.read(dict(events[0]), "the copied run").options
    optimizer._open(sharing, callbacks, space, options, strategy, MemoryJournal(events), None)
    return optimizer
