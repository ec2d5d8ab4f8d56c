"""The journal file: what is acknowledged stays, what is damaged is refused with its number."""

import errno
import json
import multiprocessing
import os
import resource
import shutil
import threading
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from baco_like import JournalError, MaxEvals, Optimizer, Space, Status, Workers, tune
from baco_like.exceptions import JournalConflict, RunFileError
from baco_like.journal import json_lines, lock
from baco_like.journal.events import START
from baco_like.journal.json_lines import (
    JsonlJournal,
    checksum,
    decode_line,
    encode_line,
    encode_lines,
)
from baco_like.journal.repairing import repair

EVENTS = [
    {"event": "opened", "schema": 2, "k": 1.5},
    {"event": "observed", "k": "ü\n\"'"},
    {"event": "abandoned", "k": [2**60]},
]


class Reader:
    """A journal with the place up to which it was read, as an optimizer keeps it."""

    def __init__(self, path):
        self.journal, self.mark = JsonlJournal(path), START

    def read(self):
        found = list(self.journal.read(self.mark))
        self.mark = found[-1][1] if found else self.mark
        return [event for event, _ in found]

    def append(self, event):
        self.mark = self.journal.append(event, self.mark)


def write(path, events=EVENTS):
    journal = Reader(path)
    for event in events:
        journal.append(event)
    return journal


def test_what_is_written_is_read_exactly(tmp_path):
    values = [1e-300, 1e300, 0.1, 2**53 + 1, 10**400, -0.0, 1e-12]
    write(tmp_path / "j", [{"event": "x", "values": values}])
    (event,) = Reader(tmp_path / "j").read()
    assert [repr(v) for v in event["values"]] == [repr(v) for v in values]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), object()])
def test_what_json_cannot_say_is_refused_and_nothing_written(tmp_path, bad):
    journal = write(tmp_path / "j")
    before = (tmp_path / "j").read_bytes()
    with pytest.raises(JournalError, match="cannot write a x event"):
        journal.append({"event": "x", "k": bad})
    assert (tmp_path / "j").read_bytes() == before


def test_cut_at_every_byte_loses_at_most_the_cut_record(tmp_path):
    write(tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    ends = [i for i, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data)):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        journal = Reader(path)
        whole = sum(end <= cut for end in ends)  # a line without its newline is whole
        assert journal.read() == EVENTS[:whole]
        journal.append({"event": "next"})
        assert Reader(path).read() == [*EVENTS[:whole], {"event": "next"}]


def test_every_flipped_bit_is_refused_with_the_events_number(tmp_path):
    write(tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    for place in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            (tmp_path / "bad").write_bytes(flipped)
            with pytest.raises(JournalError, match=r"damaged|not a baco_like journal") as caught:
                Reader(tmp_path / "bad").read()
            assert caught.value.record == data[:place].count(b"\n")


def test_a_record_in_the_wrong_place_is_refused():
    line = encode_line(3, {"event": "x"})[:-1]
    assert decode_line(line, 3) == ({"event": "x"}, None)
    assert decode_line(line, 2) is None


def test_a_conflict_is_seen_after_a_record_cut_at_its_newline(tmp_path):
    write(tmp_path / "j")
    data = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(data[:-1])
    one, two = Reader(tmp_path / "j"), Reader(tmp_path / "j")
    assert one.read() == two.read() == EVENTS
    one.append({"event": "a"})
    with pytest.raises(JournalConflict):
        two.append({"event": "b"})
    assert two.read() == [{"event": "a"}]
    two.append({"event": "b"})
    assert Reader(tmp_path / "j").read() == [*EVENTS, {"event": "a"}, {"event": "b"}]


def overwrite(path, data):
    path.write_bytes(data)


def put_another_file(path, data):
    new = path.with_name("new")
    new.write_bytes(data)
    new.replace(path)


@pytest.mark.parametrize("replace", [overwrite, put_another_file])
def test_a_journal_replaced_by_a_twin_of_equal_length_is_refused(tmp_path, replace, monkeypatch):
    monkeypatch.setattr("baco_like.optimizer.state.time.time", lambda: 1e9)
    space = Space({"x": [1, 2, 3, 4]})
    paths = [tmp_path / name for name in ("j", "twin")]
    for path, value in zip(paths, (1.5, 2.5), strict=True):
        opt = Optimizer(space, strategy="random_search", storage=path)
        set_date(path)
        opt = Optimizer.load(path)
        opt.observe(opt.suggest(), value)
        opt.abandon(opt.suggest())  # the last lines are equal but for the chain
    path, twin = paths
    opt, data = Optimizer.load(path), twin.read_bytes()
    assert len(data) == len(path.read_bytes())
    replace(path, data)
    for use in (opt.refresh, opt.suggest):
        with pytest.raises(JournalError, match="was replaced by another file while it was open"):
            use()
    assert path.read_bytes() == data
    assert Optimizer.load(path).trials[0].value == 2.5


def set_date(path):
    """Rewrite a journal that has only a header, with a fixed date."""
    header, _ = decode_line(path.read_bytes()[:-1], 0)
    path.write_bytes(encode_line(0, {**header, "created": "then"}))


def test_a_file_that_is_replaced_between_opening_and_locking_is_not_written(tmp_path, monkeypatch):
    journal = write(tmp_path / "j")
    acquire, data = lock._acquire, (tmp_path / "j").read_bytes()

    def acquire_late(fd, path, kind):
        put_another_file(path, data)
        acquire(fd, path, kind)

    monkeypatch.setattr(lock, "_acquire", acquire_late)
    with pytest.raises(JournalError, match="replaced"):
        journal.append({"event": "x"})
    assert (tmp_path / "j").read_bytes() == data


def test_a_line_of_another_journal_is_refused_with_its_number(tmp_path):
    write(tmp_path / "j", [EVENTS[0], {"event": "a"}, *EVENTS[2:]])
    ours = (tmp_path / "j").read_bytes().splitlines(keepends=True)
    theirs = list(encode_lines(EVENTS))
    assert theirs[2] != ours[2]
    for lines, number in (([*ours[:2], theirs[2]], 2), ([ours[0], theirs[1], ours[2]], 2)):
        (tmp_path / "j").write_bytes(b"".join(lines))
        with pytest.raises(
            JournalError, match=rf"event {number} \(line {number + 1}\) was not written after"
        ):
            Reader(tmp_path / "j").read()
        (tmp_path / "j").write_bytes(b"".join(lines)[:-1])  # also without its line end
        with pytest.raises(JournalError, match=f"event {number}"):
            Reader(tmp_path / "j").read()


def test_a_shortened_file_is_refused(tmp_path):
    journal = write(tmp_path / "j")
    (tmp_path / "j").write_bytes(b"")
    with pytest.raises(JournalError, match="shorter"):
        journal.append({"event": "x"})


def _fill_the_disk(path):
    journal = Reader(path)
    events = journal.read()
    before = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, resource.RLIM_INFINITY))
    with pytest.raises(JournalError, match="the event is not recorded"):
        journal.append({"event": "x", "k": "y" * 100})
    assert path.read_bytes() == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    journal.append({"event": "x"})
    assert Reader(path).read() == [*events, {"event": "x"}]


def test_a_full_disk_changes_nothing_and_the_journal_is_usable_afterwards(tmp_path):
    write(tmp_path / "j")
    child = multiprocessing.get_context("spawn").Process(
        target=_fill_the_disk, args=(tmp_path / "j",)
    )
    child.start()
    child.join(120)
    assert child.exitcode == 0


@pytest.mark.parametrize(
    "content", [b'{"precious": [1, 2, 3]}', b"hello", b"\0" * 10, b'{"crc":"zz', b"a\nb\n"]
)
def test_a_file_that_is_no_journal_is_left_alone(tmp_path, content):
    path = tmp_path / "cache.json"
    path.write_bytes(content)
    for use in (lambda: Reader(path).read(), lambda: Reader(path).append({"event": "x"})):
        with pytest.raises(JournalError):
            use()
    assert path.read_bytes() == content


def test_a_whole_record_before_zeros_is_read(tmp_path):
    write(tmp_path / "j")
    data = (tmp_path / "j").read_bytes()
    for zeros in (1, 2, 40):
        (tmp_path / "j").write_bytes(data[:-1] + b"\0" * zeros)
        journal = Reader(tmp_path / "j")
        assert journal.read() == EVENTS
        assert journal.read() == []
        journal.append({"event": "x"})
        assert Reader(tmp_path / "j").read() == [*EVENTS, {"event": "x"}]
        assert (tmp_path / "j").read_bytes().startswith(data)


@pytest.mark.parametrize("begun", range(0, 40, 3))
def test_zeros_behind_the_last_event_are_what_a_power_cut_leaves(tmp_path, begun):
    write(tmp_path / "j")
    data = (tmp_path / "j").read_bytes()
    line = encode_line(len(EVENTS), EVENTS[0], checksum(data.splitlines()[-1]))
    (tmp_path / "j").write_bytes(data + line[:begun] + b"\0" * 40)
    journal = Reader(tmp_path / "j")
    assert journal.read() == EVENTS
    journal.append({"event": "x"})
    assert Reader(tmp_path / "j").read() == [*EVENTS, {"event": "x"}]


def test_a_folder_is_an_error_of_ours(tmp_path):
    with pytest.raises(JournalError, match="directory"):
        Reader(tmp_path).append({"event": "x"})


@pytest.mark.parametrize("text", ["{}", '{"n":"0"}', "[", "{" + '"a":[' * 5000])
def test_a_forged_event_is_refused(tmp_path, text):
    rest = text[1:].encode()
    (tmp_path / "j").write_bytes(b'{"crc":"%08x",' % zlib.crc32(rest) + rest + b"\n")
    with pytest.raises(JournalError, match="event 0"):
        Reader(tmp_path / "j").read()


@pytest.mark.parametrize("name", ["a" * 300, "run\0.jsonl", "missing/run.jsonl"])
def test_a_name_that_no_file_can_have_is_an_error_that_shows_it(tmp_path, name):
    with pytest.raises(JournalError, match=name[:7].replace("\0", ".*")):
        Optimizer(Space({"x": [1, 2]}), storage=tmp_path / name).suggest()
    with pytest.raises(JournalError, match=name[:7].replace("\0", ".*")):
        tune(
            lambda t: 1.0, {"x": [1, 2]}, stop=MaxEvals(1), storage=tmp_path / name, progress=False
        )


@pytest.mark.parametrize("name", ["a" * 300, "run\0.jsonl"])
def test_no_function_of_journals_and_results_raises_a_raw_error_for_such_a_name(tmp_path, name):
    space, good, bad = Space({"x": [1, 2]}), tmp_path / "good", tmp_path / name
    optimizer = Optimizer(space, strategy="random_search", storage=good)
    optimizer.observe({"x": 1}, 1.0)
    for call in (
        lambda: Optimizer.load(bad),
        lambda: repair(bad, tmp_path / "new"),
        lambda: repair(good, bad),
    ):
        with pytest.raises(JournalError):
            call()
    with pytest.raises(RunFileError):
        Optimizer(space, warm_start=bad)
    with pytest.raises(OSError, match=r"too long|null character"):
        optimizer.export("csv", bad)
    assert os.listdir(tmp_path) == ["good"]


def test_a_named_pipe_is_refused_without_waiting_for_its_other_end(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(JournalError, match="pipe is not a file that can hold a journal"):
        Optimizer(Space({"x": [1, 2]}), storage=tmp_path / "pipe").suggest()


@pytest.mark.parametrize(("number", "room"), [(errno.ENOSPC, True), (errno.EIO, False)])
def test_only_a_full_disk_asks_for_room(tmp_path, monkeypatch, number, room):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    optimizer = Optimizer(Space({"x": [1, 2]}), storage=tmp_path / "run.jsonl")
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(JournalError, match="not recorded") as caught:
        optimizer.suggest()
    assert ("make room" in str(caught.value)) is room


def _peak_memory(work):
    """Return the error of some work and the MiB that Python had in use at most."""
    tracemalloc.start()
    try:
        with pytest.raises(JournalError) as caught:
            work()
        return caught.value, tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("events", [0, len(EVENTS)])
def test_a_sparse_file_is_refused_in_little_memory(tmp_path, events):
    path = tmp_path / "j"
    path.touch()
    journal = write(path, EVENTS[:events])
    os.truncate(path, 1_200_000_000)
    for use in (Reader(path).read, lambda: journal.append({"event": "x"})):
        error, peak = _peak_memory(use)
        assert error.record == events
        assert peak < 16
    assert path.stat().st_size == 1_200_000_000


def test_a_line_without_end_is_refused_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 2**22)
    write(tmp_path / "j")
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"crc":"01234567","n":%d,' % len(EVENTS) + b" " * 2**26 + b"\n")
    error, peak = _peak_memory(lambda: Reader(tmp_path / "j").read())
    assert error.record == len(EVENTS)
    assert peak < 20


def test_an_event_that_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(json_lines, "LONGEST_LINE", 1000)
    journal = write(tmp_path / "j")
    room = 1000 - len(encode_line(len(EVENTS), {"event": "x", "text": ""}, "01234567"))
    before = (tmp_path / "j").read_bytes()
    with pytest.raises(JournalError, match="give fewer results"):
        journal.append({"event": "x", "text": "y" * (room + 1)})
    assert (tmp_path / "j").read_bytes() == before
    journal.append({"event": "x", "text": "y" * room})
    assert Reader(tmp_path / "j").read()[-1] == {"event": "x", "text": "y" * room}


def test_blocks_do_not_change_what_is_read(tmp_path, monkeypatch):
    write(tmp_path / "j")
    data = (tmp_path / "j").read_bytes()
    for block in range(8, 60, 7):
        monkeypatch.setattr(json_lines, "_BLOCK", block)
        for cut in range(len(data) - 40, len(data) + 1):
            (tmp_path / "cut").write_bytes(data[:cut])
            whole = data[: cut + 1].count(b"\n")
            assert Reader(tmp_path / "cut").read() == EVENTS[:whole]


def test_a_reader_sees_the_events_of_the_moment_it_began(tmp_path):
    journal = write(tmp_path / "j")
    with (tmp_path / "j").open("ab") as file:
        file.write(b'{"crc":"0')  # an incomplete event, which the next writer replaces
    reading = JsonlJournal(tmp_path / "j").read(START)
    first = [next(reading)[0]]
    journal.append({"event": "later"})
    assert first + [event for event, _ in reading] == EVENTS


JOURNAL = Path(__file__).parent / "data" / "genetic_algorithm.jsonl"

# Suggestions of the program that wrote the file, after it had resumed it.
NEXT_OF_GENETIC_ALGORITHM = [
    (64, 2, 0.025002354096743156, "-O3", ("i", "k", "j")),
    (8, 1, 0.02590902074058492, "-O2", ("j", "i", "k")),
    (8, 7, 0.008266012160376287, "-O2", ("i", "j", "k")),
    (8, 2, 0.1, "-O3", ("i", "k", "j")),
    (8, 2, 0.1, "-O2", ("i", "k", "j")),
    (64, 2, 0.009478434592361328, "-O3", ("i", "j", "k")),
]


@pytest.fixture
def resumed(tmp_path):
    path = tmp_path / "run.jsonl"
    shutil.copy(JOURNAL, path)
    return Optimizer.load(path)


def test_everything_in_a_stored_journal_is_read(resumed):
    counts = {status: sum(t.status is status for t in resumed.trials) for status in Status}
    assert (counts[Status.OK], counts[Status.FAILED], counts[Status.CENSORED]) == (26, 5, 3)
    assert (resumed.history.warm, len(resumed.pending)) == (2, 3)
    assert resumed.best_value == 2.0263857037988746
    assert {t.origin for t in resumed.trials} == {
        "warm",
        "strategy",
        "told",
        "imported",
        "enqueued",
    }


def test_a_stored_run_continues_with_the_same_suggestions(resumed):
    assert [trial.id for trial in resumed.suggest(3)] == [t.id for t in resumed.pending]
    trials = resumed.suggest(6)
    assert [tuple(trial.config.values()) for trial in trials] == NEXT_OF_GENETIC_ALGORITHM


def test_a_new_journal_chains_its_lines(tmp_path):
    opt = Optimizer({"x": [1, 2, 3]}, strategy="random_search", storage=tmp_path / "j")
    opt.observe(opt.suggest(), 1.0)
    Optimizer.load(tmp_path / "j").suggest()
    lines = [json.loads(line) for line in (tmp_path / "j").read_bytes().splitlines()]
    assert lines[0]["schema"] == 2
    assert [line.get("prev") for line in lines] == [None, *(line["crc"] for line in lines[:-1])]


# ---- Events of several threads share one ``fsync``, and an acknowledged event is on the disk ----


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

SPACE = {"x": list(range(100)), "y": [1, 2, 3]}


class Disk:
    """Stands for the disk: counts the calls of ``fsync``, and knows how many bytes of the file would survive."""

    def __init__(self, path, monkeypatch):
        self.path, self.calls, self.durable = path, 0, 0
        self.entered, self.permission = threading.Event(), threading.Event()
        self.permission.set()
        self.error: OSError | None = None
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, fd):
        if os.fstat(fd).st_ino != os.stat(self.path).st_ino:
            return
        size = os.fstat(fd).st_size  # what is written during the call is not promised
        self.calls += 1
        self.entered.set()
        assert self.permission.wait(60)
        if self.error is not None:
            raise self.error
        self.durable = max(self.durable, size)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def optimizer(path):
    return Optimizer(SPACE, strategy="random_search", storage=path)


@pytest.fixture
def disk(optimizer, path, monkeypatch):
    return Disk(path, monkeypatch)


def survivors(disk, tmp_path):
    """Return the run that is left after a power cut."""
    copy = tmp_path / "survived.jsonl"
    copy.write_bytes(disk.path.read_bytes()[: disk.durable])
    return Optimizer.load(copy)


def wait_until_written(optimizer, number):
    while len(optimizer.trials) < number:
        threading.Event().wait(0.001)


def test_what_is_acknowledged_survives_a_power_cut(optimizer, disk, tmp_path):
    def work(_):
        for _ in range(5):
            trial = optimizer.suggest()
            optimizer.observe(trial, float(trial["x"]))
            assert trial.id in {t.id for t in survivors(disk, tmp_path / str(trial.id)).trials}

    for number in range(40):
        (tmp_path / str(number)).mkdir()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len(optimizer.trials) == 40


def test_events_that_are_written_during_a_call_share_the_next(optimizer, disk):
    trials = optimizer.suggest(9)
    disk.calls = 0
    disk.entered.clear()
    disk.permission.clear()
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(optimizer.observe, trials[0], 0.0)
        assert disk.entered.wait(60)
        others = [pool.submit(optimizer.observe, trial, 1.0) for trial in trials[1:]]
        wait_until_written(optimizer, 9)
        assert not any(future.done() for future in [first, *others])
        disk.permission.set()
    assert disk.calls == 2


def test_a_group_of_calls_waits_once(optimizer, disk, tmp_path):
    with optimizer.grouped():
        with optimizer.grouped():
            for trial in optimizer.suggest(3):
                optimizer.observe(trial, 1.0)
            new = optimizer.suggest()
        assert disk.calls == 0
    assert disk.calls == 1
    assert [t.id for t in survivors(disk, tmp_path).pending] == [new.id]


def test_callbacks_see_results_that_are_on_the_disk(path, disk, tmp_path):
    called = []

    def callback(_, trial):
        assert [t.id for t in survivors(disk, tmp_path).trials][-1] == trial.id
        called.append(trial.id)

    optimizer = Optimizer(SPACE, strategy="random_search", storage=path, callbacks=[callback])
    with optimizer.grouped():
        for _ in range(3):
            optimizer.observe(optimizer.suggest(), 1.0)
    assert called == [0, 1, 2]


@pytest.mark.parametrize("number", [1, 4])
def test_an_error_of_the_disk_undoes_every_event_that_shared_the_call(
    optimizer, disk, path, number
):
    trials = optimizer.suggest(number)
    before, history = path.read_bytes(), optimizer.history
    disk.entered.clear()
    disk.permission.clear()
    disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
    with ThreadPoolExecutor(number) as pool:
        futures = [pool.submit(optimizer.observe, trials[0], 0.0)]
        assert disk.entered.wait(60)
        futures += [pool.submit(optimizer.observe, trial, 1.0) for trial in trials[1:]]
        wait_until_written(optimizer, number)
        disk.permission.set()
        errors = [future.exception() for future in futures]
    assert all(isinstance(error, JournalError) for error in errors)
    assert "is not recorded, try again" in str(errors[0])
    assert path.read_bytes() == before
    assert optimizer.history is history
    disk.error = None
    optimizer.observe(trials, [1.0] * number)
    assert [t.id for t in Optimizer.load(path).trials] == [t.id for t in trials]


def test_events_behind_which_others_have_written_are_kept_after_an_error(optimizer, disk, path):
    first, second = optimizer.suggest(2)
    other = Optimizer.load(path)
    disk.entered.clear()
    disk.permission.clear()
    with ThreadPoolExecutor(2) as pool:
        own = pool.submit(optimizer.observe, first, 0.0)
        assert disk.entered.wait(60)
        disk.error = OSError(errno.EIO, os.strerror(errno.EIO))
        others = pool.submit(other.observe, second, 1.0)
        wait_until_written(other, 2)
        disk.permission.set()
        assert isinstance(own.exception(), JournalError)
        assert isinstance(others.exception(), JournalError)
    disk.error = None
    optimizer.suggest()
    assert [t.id for t in optimizer.trials][:1] == [t.id for t in Optimizer.load(path).trials][:1]


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent(optimizer, disk):
    disk.entered.clear()
    disk.permission.clear()
    thread = threading.Thread(target=optimizer.suggest)
    thread.start()
    assert disk.entered.wait(60)
    child = os.fork()
    if not child:
        disk.permission = threading.Event()
        disk.permission.set()
        os._exit(len(optimizer.suggest(2)))
    disk.permission.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_the_result_and_the_next_trial_of_a_run_share_a_call(path, monkeypatch):
    disk = Disk(path, monkeypatch)
    running = []

    def function(trial):
        assert trial.id in {t.id for t in survivors(disk, path.parent).pending}
        assert len(survivors(disk, path.parent).trials) == len(running)
        running.append(disk.calls)
        return float(trial["x"])

    path.touch()
    settings = {"strategy": "random_search", "storage": path, "workers": Workers(ahead=2)}
    tune(function, SPACE, stop=MaxEvals(5), progress=False, **settings)
    assert [later - call for call, later in pairwise(running)] == [1] * 4
    assert len(survivors(disk, path.parent).trials) == 5
