"""Our journals pass the conformance suite, and wrong ones do not."""

import json
import zlib
from dataclasses import dataclass, field

import pytest

from baco_like import (
    JournalError,
    Optimizer,
    Outcome,
    Search,
    Space,
    SpaceError,
    Status,
    TrialError,
    WarmStart,
)
from baco_like.cli import main
from baco_like.exceptions import JournalConflict
from baco_like.journal import JsonlJournal, Mark, MemoryJournal
from baco_like.journal.json_lines import encode_lines
from baco_like.results import read
from baco_like.strategies.baselines import RandomSearch
from baco_like.testing.journals import check_journal, check_resume


@pytest.fixture(params=["memory", "file"])
def opener(request, tmp_path):
    """Return a function that opens the same journal each time."""
    if request.param == "file":
        return lambda: JsonlJournal(tmp_path / "run.jsonl")
    journal = MemoryJournal()
    return lambda: journal


def test_our_journals_conform(opener):
    check_journal(opener)


def test_our_journals_resume_a_run(opener):
    check_resume(opener)


@dataclass
class Plain:
    """A journal of the simplest kind, in which tests break one rule."""

    events: list = field(default_factory=list)
    forgets: bool = False
    overwrites: bool = False
    repeats_all: bool = False

    def read(self, after):
        first = 0 if self.repeats_all else after.number
        return [(self.events[n], Mark(n + 1)) for n in range(first, len(self.events))]

    def append(self, event, after):
        if len(self.events) > after.number and not self.overwrites:
            raise JournalConflict("grown")
        if not (self.forgets and self.events):
            self.events.append(dict(event))
        return Mark(after.number + 1)


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        ({"forgets": True}, "read back"),
        ({"overwrites": True}, "JournalConflict"),
        ({"repeats_all": True}, "after a mark"),
    ],
)
def test_a_journal_that_breaks_a_rule_is_found_out(broken, rule):
    journal = Plain(**broken)
    with pytest.raises(AssertionError, match=rule):
        check_journal(lambda: journal)


# ---- Events with a correct checksum and a wrong field are refused with the line number and the field's name ----


SPACE = Space({"a": list(range(9)), "b": [1, 2, 3]})
CONFIG = {"a": 1, "b": 2}


def outcome(**changes):
    """Return an event that observes trial 0, with changes; None removes a field."""
    row = {"id": 0, "status": "ok", "value": 1.0, "config": CONFIG, **changes}
    return {"event": "observed", "outcomes": [{k: v for k, v in row.items() if v is not None}]}


def suggested(top=None, **changes):
    row = {"id": 1, "config": {"a": 2, "b": 2}, "origin": "strategy", "tag": None, **changes}
    return {"event": "suggested", "trials": [row], "dequeued": 0, **(top or {})}


@pytest.fixture
def path(tmp_path):
    opt = Optimizer(
        SPACE, strategy=Search("random_search", initial=[CONFIG]), storage=tmp_path / "j"
    )
    opt.suggest()
    return tmp_path / "j"


def add(path, *events):
    """Append events to a journal with correct checksums."""
    lines = path.read_bytes().splitlines()
    for event in events:
        before = json.loads(lines[-1])["crc"]
        line = {"n": len(lines), "prev": before, **event}
        rest = json.dumps(line, separators=(",", ":"))[1:].encode()
        lines.append(b'{"crc":"%08x",' % zlib.crc32(rest) + rest)
    path.write_bytes(b"\n".join(lines) + b"\n")


OTHER_CONFIG = outcome(config={"a": 1, "b": 3})

EVENTS = [
    ({"event": "observed", "outcomes": {}}, "outcomes"),
    ({"event": "observed", "outcomes": [5]}, r"outcomes\[0\]"),
    ({"event": "observed"}, "outcomes"),
    (outcome(id=0.0), r"outcomes\[0\].id"),
    (outcome(id=False), r"outcomes\[0\].id"),
    (outcome(id=-1), r"outcomes\[0\].id"),
    (outcome(status="pending"), r"outcomes\[0\].status"),
    (outcome(status="abandoned", value=None), r"outcomes\[0\].status"),
    (outcome(status=["ok"]), r"outcomes\[0\].status"),
    (outcome(value=None), r"outcomes\[0\].value"),
    (outcome(value=True), r"outcomes\[0\].value"),
    (outcome(value="1"), r"outcomes\[0\].value"),
    (outcome(value=10**400), r"outcomes\[0\].value"),
    (outcome(sem=-1), r"outcomes\[0\].sem"),
    (outcome(repeats={}), r"outcomes\[0\].repeats"),
    (outcome(repeats=[True]), r"outcomes\[0\].repeats\[0\]"),
    (outcome(failed="runtime"), r"outcomes\[0\].failed"),
    (outcome(bound=1.0), r"outcomes\[0\].bound"),
    (outcome(status="failed", failed="x", value=1.0), r"outcomes\[0\].value"),
    (outcome(status="failed", failed=1, value=None), r"outcomes\[0\].failed"),
    (outcome(message=5), r"outcomes\[0\].message"),
    (outcome(metrics={"m": "1"}), r"outcomes\[0\].metrics\[...\]"),
    (outcome(metric_repeats={"m": [1.0, "1"]}), r"outcomes\[0\].metric_repeats\[...\]\[1\]"),
    (outcome(extra=[]), r"outcomes\[0\].extra"),
    (outcome(config=[]), r"outcomes\[0\].config"),
    (OTHER_CONFIG, r"outcomes\[0\].config"),
    (outcome(id=1, origin="strategy"), r"outcomes\[0\].origin"),
    (outcome(id=1, origin="told", config=None), r"outcomes\[0\].config"),
    ({**suggested(), "trials": {}}, "trials"),
    (suggested(id=1.0), r"trials\[0\].id"),
    (suggested(origin="told"), r"trials\[0\].origin"),
    (suggested(config=[["a", 1]]), r"trials\[0\].config"),
    (suggested({"dequeued": -1}), "dequeued"),
    (suggested({"dequeued": True}), "dequeued"),
    (suggested({"again": [0.0]}), r"again\[0\]"),
    (suggested({"again": {}}), "again"),
    (suggested({"until": -1.0}), "until"),
    (suggested({"until": "1"}), "until"),
    ({"event": "abandoned", "id": 0.0, "reason": ""}, "id"),
    ({"event": "abandoned", "id": 0, "reason": 5}, "reason"),
    ({"event": "enqueued", "configs": {}}, "configs"),
]


@pytest.mark.parametrize(("event", "field"), EVENTS, ids=lambda value: json.dumps(value)[:60])
def test_a_wrong_field_is_refused_by_every_reader(path, event, field):
    add(path, event)
    with pytest.raises(JournalError, match=rf"event 2 \(line 3\).*: {field} is ") as caught:
        Optimizer.load(path)
    assert caught.value.record == 2
    if event != OTHER_CONFIG:  # a reader of results keeps no trials
        with pytest.raises(JournalError, match=rf"event 2 \(line 3\).*: {field} is "):
            read(path)


@pytest.mark.parametrize(
    "event",
    [
        suggested(id=0),  # used before
        suggested(config={"a": 77, "b": 1}),
        outcome(id=7),
        {"event": "enqueued", "configs": [{"a": 1}]},
        {"event": "enqueued", "configs": [5]},
        {"event": "nothing"},
        {},
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_an_event_that_does_not_fit_is_refused_with_its_number(path, event):
    add(path, event)
    with pytest.raises(JournalError, match="event 2") as caught:
        Optimizer.load(path)
    assert caught.value.record == 2


def test_a_repair_drops_events_with_a_wrong_field_and_names_it(path, capsys):
    add(path, outcome(sem=-1), {"event": "observed", "outcomes": {}}, outcome(value=3.0))
    assert main(["repair", str(path), str(path.with_name("new"))]) == 0
    shown = capsys.readouterr().out
    assert "event 2 has an unknown kind or a wrong field (outcomes[0].sem is -1; expected" in shown
    assert "event 3 has an unknown kind or a wrong field (outcomes is {}; expected" in shown
    assert [t.value for t in Optimizer.load(path.with_name("new")).trials] == [3.0]


def test_a_repair_keeps_lines_of_another_journal_and_names_them(path, capsys):
    add(path, outcome())
    lines = path.read_bytes().splitlines()
    lines[-1] = lines[-1].replace(b'"prev":"', b'"prev":"0', 1)
    rest = lines[-1][18:]
    path.write_bytes(b"\n".join([*lines[:-1], b'{"crc":"%08x",' % zlib.crc32(rest) + rest, b""]))
    with pytest.raises(JournalError, match=r"event 2 \(line 3\) was not written after"):
        Optimizer.load(path)
    assert main(["repair", str(path), str(path.with_name("new"))]) == 0
    assert "event 2 was not written after event 1 of this file; kept" in capsys.readouterr().out
    assert len(Optimizer.load(path.with_name("new")).trials) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"queue": {}}, "queue"),
        ({"queue": [{"a": 77, "b": 1}]}, "fit its space"),
        ({"warm_start": {}}, "warm_start"),
        ({"space": []}, "space"),
        ({"versions": []}, "versions"),
        ({"host": 5}, "host"),
        ({"created": 5}, "created"),
        ({"options.seed": 1.0}, "seed"),
        ({"options.seed": -1}, "seed"),
        ({"options.budget": -5}, "budget"),
        ({"options.strategy": []}, "options.strategy"),
        ({"options.context": None}, "options.context"),
        ({"space.parameters": []}, "space.parameters"),
        ({"space.constraints": {}}, "space.constraints"),
        ({"options": {}}, "options.strategy"),
        ({"space.parameters": {"a": {"type": "ordinal", "values": []}}}, "space"),
        ({"warm.mode": "x"}, r"warm_start\[0\].mode"),
        ({"warm.mode": []}, r"warm_start\[0\].mode"),
        ({"warm.source": 5}, r"warm_start\[0\].source"),
        ({"warm.found": -1}, r"warm_start\[0\].found"),
        ({"warm.found": True}, r"warm_start\[0\].found"),
        ({"warm.left_out": {"x": -3}}, r"warm_start\[0\].left_out"),
        ({"warm.notes": "abc"}, r"warm_start\[0\].notes"),
        ({"warm.rows": {}}, r"warm_start\[0\].rows"),
        ({"row.id": 0.0}, r"warm_start\[0\].rows\[0\].id"),
        ({"row.sem": -1.0}, r"warm_start\[0\].rows\[0\].sem"),
        ({"row.config": 5}, r"warm_start\[0\].rows\[0\].config"),
    ],
)
def test_a_wrong_field_of_the_header_is_refused(tmp_path, change, field):
    with pytest.raises((JournalError, SpaceError), match=rf"event 0 \(line 1\).*{field}"):
        Optimizer.load(forge_header(tmp_path / "j", change))


@pytest.mark.parametrize(
    "change",
    [
        {"options.strategy": {"name": []}},
        {"options.strategy": {"name": "random_search", "settings": 5}},
        {"schema": 3},
        {"schema": True},
    ],
)
def test_a_header_of_another_program_is_refused(tmp_path, change):
    with pytest.raises(JournalError, match=r"event 0|schema (3|True)"):
        Optimizer.load(forge_header(tmp_path / "j", change))


def forge_header(path, change):
    """Write a journal whose header has some other fields, and return its path."""
    warm = WarmStart([(CONFIG, 1.0)])
    Optimizer(SPACE, strategy="random_search", storage=path, warm_start=warm)
    header = json.loads(path.read_bytes())
    del header["crc"], header["n"]
    parts = {"": header, "options": header["options"], "space": header["space"]}
    parts |= {"warm": header["warm_start"][0], "row": header["warm_start"][0]["rows"][0]}
    for name, value in change.items():
        part, _, key = name.rpartition(".")
        parts[part][key] = value
    path.write_bytes(b"".join(encode_lines([header])))
    return path


class ReadsTags(RandomSearch):
    def tell(self, problem, state, observation, rng):
        observation.tag["mine"]
        return state


def test_a_tag_that_the_strategy_cannot_use_is_refused_with_the_line(path):
    path.unlink()
    opt = Optimizer(SPACE, strategy=ReadsTags(), storage=path)
    trial = opt.suggest()
    add(path, outcome(config=dict(trial)))
    with pytest.raises(JournalError, match=r"event 2 \(line 3\).*KeyError"):
        Optimizer.load(path, strategy=ReadsTags())


def test_an_outcome_that_could_not_be_read_back_is_not_written(path):
    opt = Optimizer.load(path)
    before = path.read_bytes()
    with pytest.raises(TrialError, match=r"outcomes\[0\].sem is -1.0"):
        opt.complete([Outcome(0, Status.OK, 1.0, sem=-1.0)])
    with pytest.raises(TrialError, match=r"outcomes\[0\].status is 'abandoned'"):
        opt.complete([Outcome(0, Status.ABANDONED)])
    assert path.read_bytes() == before
