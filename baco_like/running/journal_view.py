"""Read a journal while another process may be writing it, and describe the run as text.

Nothing here takes a lock or writes. Only predictions and recommendations need the strategy of the run.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from baco_like._output import align_cells, escape_control_characters, format_table, wrap_items
from baco_like._threads import resolve_threads
from baco_like.exceptions import JournalError, SpaceError, TrialError
from baco_like.explanations import HistoryModels, Outlook
from baco_like.journal import Event, JsonlJournal, RemoteJournal
from baco_like.journal.events import START
from baco_like.journal.header import Header
from baco_like.journal.lock import find_holders, lock_file
from baco_like.optimizer import Optimizer
from baco_like.optimizer.arguments import collector_paused
from baco_like.optimizer.state import OptimizerState, apply_events, initial_state
from baco_like.optimizer.view import ReadRun, RunView
from baco_like.records import History, Trial
from baco_like.records.trial import different_configs, rank
from baco_like.running.findings import Findings, convergence, group_failures
from baco_like.running.sentences import (
    COMPLETE,
    format_front,
    format_result,
    shown_value,
    task_table,
    tell_counts,
    tell_edits,
    tell_findings,
)
from baco_like.spaces import Space
from baco_like.strategies import RandomSearch

JOURNAL = "run.jsonl"
"""Name of the journal in the folder of a run."""

_BLOCKS = "▁▂▃▄▅▆▇█"


def journal_of(path: Path) -> Path:
    """Return the journal in the folder of a run, or the path itself."""
    journal = path / JOURNAL
    # Unlike Path.is_file, false for impossible names.
    return journal if os.path.isfile(journal) else path


class JournalView(RunView):
    """A run of another process, read from its journal so far.

    Args:
        path: The journal, or the folder of a run; or a run on a server.
        with_constraints: Whether the space of `history` has the known constraints; those in Python are not in the
            file, and then it has none.

    Attributes:
        header: The header.
        created: When the run began, as text.

    Raises:
        JournalError: The file is missing, empty or damaged.
    """

    def __init__(self, path: Path | RemoteJournal, *, with_constraints: bool = False) -> None:
        if isinstance(path, RemoteJournal):
            journal: JsonlJournal | RemoteJournal = path
            self.path: Path | str = path.url
        else:
            self.path = path = journal_of(path)
            if not os.path.isfile(path):
                raise JournalError(f"{path} {_explain_missing(path)}")
            journal = JsonlJournal(path)
        self._peek = journal.peek
        self._threads = resolve_threads(None)
        first = next(self._peek(START), None)
        if first is None:
            raise JournalError(f"{self.path} holds no event yet; try again when the run has begun")
        self._opened, mark = first
        self.header = Header.read(self.opened, str(self.path))
        self.created = str(self.opened.get("created", ""))
        space = _space_of(self.header, with_constraints)
        state = replace(initial_state(self.header, space, RandomSearch()), mark=mark)
        self._run = ReadRun(journal, state)
        self.refresh()

    @property
    @override
    def opened(self) -> Event:
        return self._opened

    @property
    @override
    def modelled(self) -> OptimizerState:
        return Optimizer.load(self.journal).state

    @property
    def build_command(self) -> str:
        """The command that runs the script of a search of passes beside the journal, which builds the winner; or ""."""
        context = self.options.context
        source = context.get("[evaluator] source")
        first = source[0] if isinstance(source, (list, tuple)) and source else source
        if isinstance(self.path, str) or context.get("[evaluator] kind") != "llvm":
            return ""
        path = self.path.parent / f"{Path(str(first)).stem}.sh"
        return f"sh {shlex.quote(str(path))}" if os.path.isfile(path) else ""

    def refresh(self) -> None:
        """Read the events that were added since the last call.

        Raises:
            JournalError: The file is damaged, or is now the journal of another run.
        """
        events = self._peek(self.state.mark)
        with collector_paused():
            self._run.state, _ = apply_events(self.state, events, str(self.path))

    def find_runner(self) -> list[int]:
        """Return the processes that run `tune` on the journal, without taking their lock; none on a server."""
        if isinstance(self.path, str):
            return []
        with suppress(OSError):
            fd = os.open(lock_file(self.path), os.O_RDONLY | os.O_CLOEXEC)
            try:
                return find_holders(fd)
            finally:
                os.close(fd)
        return []

    def find_end(self) -> str | None:
        """Return why no process runs `tune` on it, or why the server has ended it; None while the run continues."""
        if isinstance(self.journal, RemoteJournal):
            reason: str | None = self.journal.connection.call("status")["stop"]
            return reason
        return None if self.find_runner() else "no process is running it"

    def find(self, number: int) -> Trial:
        """Return a trial by its number.

        Raises:
            TrialError: The run has no such trial.
        """
        trial = self.history.find(number)
        if trial is None:
            raise TrialError(
                f"{self.path} has no trial {number}; it has the numbers 0 to {self.history.next_id - 1}, without "
                "abandoned ones"
            )
        return trial

    @property
    def has_constraints(self) -> bool:
        """Whether the space of `history` has the constraints of the run, or the run has none."""
        return bool(self.history.space.constraints) or not self.header.space.get("constraints")

    @override
    def outlook(self, evaluations: int = 20, models: HistoryModels | None = None) -> Outlook:
        """Return the outlook; without the constraints of the run, the number of configurations is unknown."""
        outlook = super().outlook(evaluations, models)
        return outlook if self.has_constraints else replace(outlook, feasible=None, untried=None)


def _explain_missing(path: Path) -> str:
    """Return why a path is not a journal, with the journals in it if it is a folder."""
    if not os.path.isdir(path):
        return "does not exist; name the journal of a run, such as runs/job/run.jsonl"
    found = sorted((*path.glob("*.jsonl"), *path.glob("*/*.jsonl")), key=os.path.getmtime)
    if not found:
        return (
            "is a folder without a journal; name the journal of a run, such as runs/job/run.jsonl"
        )
    return f"is a folder; name the journal in it: {' or '.join(map(str, found[:-4:-1]))}"


def _space_of(header: Header, with_constraints: bool) -> Space:
    if with_constraints:
        with suppress(SpaceError):  # a constraint in Python
            return Space.from_dict(header.space)
    # The suggested configurations satisfy the constraints.
    return Space.from_dict({**header.space, "constraints": []})


# Text -----------------------------------------------------------------------------------------------------------------


def describe_run(view: JournalView, top: int, width: int = 100) -> str:
    """Return the status of a run, its best trials, and its failures with the first line of each log.

    Args:
        view: The journal.
        top: Number of best trials.
        width: Number of characters of a line of the table.
    """
    found, options = Findings(view.history, view.objective), view.options
    runner = ", ".join(map(str, view.find_runner()))
    status = view.find_end() or (f"running (process {runner})" if runner else "running")
    name = options.strategy.get("name") or "a strategy object"
    lines = [
        f"{view.path}: {status}",
        f"started {view.created or 'at an unknown time'}; strategy {name}, seed {options.seed}",
        tell_counts(found, options.budget),
        *tell_findings(found),
        *tell_edits(options.context),
        *([f"To build the winner: {view.build_command}"] if view.build_command else []),
    ]
    text = "\n".join(map(escape_control_characters, lines))
    return "\n\n".join(
        filter(None, [text, _best_table(found, top, width), _failures(view.history)])
    )


def describe_outlook(view: JournalView) -> str:
    """Return one line on the improvement that is left; empty with too few results, several objectives or tasks."""
    with suppress(TrialError):
        return f"outlook: {view.outlook()}"
    return ""


def _best_table(found: Findings, top: int, width: int) -> str:
    """Return the best configurations: first those measured again by the confirmation, then others.

    Each parameter has a column; if that is too wide, a row has the values that differ from the default. With several
    objectives, the front is shown; with several tasks, the best configuration of each.
    """
    history, objective = found.history, found.objective
    if history.objectives:
        texts = [format_front(found, most) for most in (COMPLETE, 0)] if found.front else [""]
        return texts[0] if max(map(len, texts[0].splitlines()), default=0) <= width else texts[-1]
    if found.tasks:
        return format_table(*task_table(history, objective))
    candidates = () if found.confirmation is None else found.confirmation.candidates
    confirmed = rank(candidates, history.direction)
    again = [dict(trial.config) for trial in candidates]
    others = [trial for trial in history.ranked() if dict(trial.config) not in again]
    best = different_configs([*confirmed, *others], top)
    if not best:
        return ""
    rows = [["trial", objective.label, "repeats", *(["measured"] if confirmed else [])]]
    for trial in best:
        number = str(trial.id) if trial.id >= 0 else "default"
        rows.append([number, format_result(trial), str(len(trial.repeats))])
        if confirmed:
            rows[-1].append("again" if dict(trial.config) in again else "in search")
    names = list(dict.fromkeys(name for trial in best for name in trial))
    values = [[shown_value(trial.config.get(name, "-")) for name in names] for trial in best]
    table = align_cells([[*row, *more] for row, more in zip(rows, [names, *values], strict=True)])
    if max(map(len, table)) <= width:
        return "\n".join(table)
    return "\n".join(_with_changes(align_cells(rows), best, history.space.default_config, width))


def _with_changes(
    lines: Sequence[str], best: Sequence[Trial], default: Mapping[str, Any] | None, width: int
) -> Iterator[str]:
    """Yield the lines of a table with the values of each trial that differ from the default; all without one."""
    indent = max(map(len, lines)) + 2
    title = "values that differ from the default" if default else "values"
    yield f"{lines[0]:<{indent}}{title}"
    for line, trial in zip(lines[1:], best, strict=True):
        changes = [
            escape_control_characters(f"{name}={shown_value(value)}")
            for name, value in trial.config.items()
            if default is None or default.get(name) != value
        ]
        wrapped = wrap_items(changes, max(width - indent, 40), ", ") or ["none"]
        yield f"{line:<{indent}}{wrapped[0]}"
        yield from (" " * indent + more for more in wrapped[1:])


def _failures(history: History) -> str:
    """Return how often each failure came: word, number, first line of the log, trials."""
    lines = []
    for word, message, trials in group_failures(history.trials):
        numbers = ", ".join(str(t.id) for t in trials[:5]) + (", ..." if len(trials) > 5 else "")
        lines += [f"{word} {len(trials)} (trial {numbers})", f"    {message}"]
    lines = [escape_control_characters(line) for line in lines]
    return "\n".join(["failures:", *lines]) if lines else ""


def _list_numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


def describe_trial(view: JournalView, trial: Trial) -> str:
    """Return everything that is known about one trial: result, configuration, why it was suggested, log."""
    objective = view.objective
    unit = f" {objective.unit}" if objective.unit else ""
    facts: list[tuple[str, Any]] = [("status", trial.status.value)]
    if trial.value is not None or trial.bound is not None:
        facts.append((objective.name, format_result(trial) + unit))
    if trial.failure:
        facts.append(("failure", trial.failure))
    if trial.repeats:
        facts.append(("repeats", _list_numbers(trial.repeats)))
    for name, value in sorted(trial.metrics.items()):
        facts.append((name, value))
        if repeats := trial.metric_repeats.get(name):
            facts.append((f"repeats, {name}", _list_numbers(repeats)))
    facts += [(f"build, {name}", value) for name, value in sorted(trial.build.items())]
    if trial.outcome is not None:
        facts += [(f"seconds, {stage}", f"{s:.3g}") for stage, s in trial.outcome.seconds.items()]
    sections = [
        [f"trial {trial.id}", *_facts(facts)],
        ["configuration", *_facts([(name, shown_value(trial[name])) for name in trial])],
        ["why it was suggested", *_facts(_flatten(view.why(trial)))],
    ]
    if trial.message:
        sections.append(["log", *(f"  {line}" for line in trial.message.splitlines())])
    return "\n\n".join("\n".join(section) for section in sections)


def describe_progress(view: JournalView, width: int) -> str:
    """Return one line that draws the best value after each evaluation; empty before two successes.

    Args:
        view: The journal.
        width: Number of characters.
    """
    values = convergence(view.history)
    values = values[~np.isnan(values)] / 4.0  # the range of the largest doubles would be infinite
    if len(values) < 2 or width < 20:
        return ""
    at = np.linspace(0, len(values) - 1, min(width - 12, len(values))).astype(int)
    drawn, low, high = values[at], values.min(), values.max()
    level = (drawn - low) / (high - low) if high > low else np.zeros(len(drawn))
    blocks = "".join(_BLOCKS[round(float(part) * (len(_BLOCKS) - 1))] for part in level)
    name = f"best {view.objective.name} so far" if view.objectives else "best so far"
    return f"{name} {blocks}"


def _flatten(note: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the entries of a note in one level: an entry of a nested mapping has the names of both, with a comma."""
    facts: list[tuple[str, Any]] = []
    for name, value in note.items():
        if isinstance(value, Mapping):
            facts += [(f"{name}, {inner}", entry) for inner, entry in _flatten(value)]
        else:
            facts.append((name, value))
    return facts


def _facts(facts: Sequence[tuple[str, Any]]) -> list[str]:
    shown = [(escape_control_characters(name), shown_value(value)) for name, value in facts]
    width = max((len(name) for name, _ in shown), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in shown]
