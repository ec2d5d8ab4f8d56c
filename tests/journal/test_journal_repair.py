"""A repair keeps every valid event of a damaged journal and lists the others."""

import io
import os
import tracemalloc
from pathlib import Path

import pytest

from baco_like import JournalError, Optimizer, Sharing, Space
from baco_like.cli import main
from baco_like.journal import repairing
from baco_like.journal.events import START
from baco_like.journal.json_lines import JsonlJournal
from baco_like.journal.repairing import repair

SPACE = Space({"a": list(range(9)), "b": [1, 2, 3]})


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    path = tmp_path_factory.mktemp("repair") / "run.jsonl"
    opt = Optimizer(SPACE, strategy="random_search", storage=path, sharing=Sharing(lease=1e9))
    one, two, three = opt.suggest(3)
    opt.observe(two, [1.0, 2.0], extra={"text": 'a "crc" {"crc":"01234567","n":1,'})
    opt.observe(one, failed="compile", message="ü")
    four = opt.suggest()
    opt.abandon(three)
    opt.observe(next(c for c in SPACE if c not in [dict(one), dict(two), dict(four)]), 3.0)
    opt.observe(four, 2.0)
    opt.enqueue(next(c for c in SPACE if not opt.history.is_excluded(SPACE.encode([c]))[0]))
    opt.suggest()
    return path


def known(opt):
    return {t.id: (dict(t), t.outcome) for t in opt.trials}


def repaired(tmp_path, data, header):
    (tmp_path / "bad").write_bytes(data)
    (tmp_path / "new").unlink(missing_ok=True)
    found = repair(tmp_path / "bad", tmp_path / "new", header)
    return found, Optimizer.load(tmp_path / "new")


def test_one_damaged_byte_anywhere_costs_at_most_its_record(journal, tmp_path):
    data, whole = journal.read_bytes(), known(Optimizer.load(journal))
    events = len(list(JsonlJournal(journal).read(START)))
    ends = [place for place, byte in enumerate(data) if byte == ord("\n")]
    for place in sorted({*range(0, len(data), 17), *ends}):
        bad = bytearray(data)
        bad[place] ^= 0x15
        number, line_end = data[:place].count(b"\n"), data[place] == ord("\n")
        found, opt = repaired(tmp_path, bad, journal)
        kept = known(opt)
        assert kept.items() <= whole.items()
        assert len(whole) - len(kept) <= 1
        # Without the damaged event, and perhaps the abandonment of its trial.
        assert found.kept >= events - 2
        assert line_end or any(f"event {number} is damaged" in note for note in found.notes)


class CountingFile(io.FileIO):
    """A file that counts the bytes that are read."""

    count = 0

    def readinto(self, buffer):
        read = super().readinto(buffer)
        CountingFile.count += read
        return read


def test_the_holes_of_a_sparse_file_are_not_read(journal, tmp_path, monkeypatch):
    data = journal.read_bytes()
    begin = data.index(b"\n", len(data) // 2) + 1
    hole = 512 * 2**20
    with (tmp_path / "holes").open("wb") as file:
        file.write(data[:begin])
        file.seek(hole)
        file.write(data[begin:])
        file.truncate(2 * hole)
    monkeypatch.setattr(CountingFile, "count", 0)
    monkeypatch.setattr(
        repairing, "open_regular_file", lambda path: io.BufferedReader(CountingFile(path))
    )
    found = repair(tmp_path / "holes", tmp_path / "new")
    assert known(Optimizer.load(tmp_path / "new")) == known(Optimizer.load(journal))
    assert found.notes == ()
    assert CountingFile.count < 40 * 2**20


def test_an_observation_outlives_the_record_of_its_suggestion(journal, tmp_path):
    data = journal.read_bytes().replace(b'"event":"suggested"', b'"event":"suggestad"')
    found, opt = repaired(tmp_path, data, None)
    assert known(opt) == known(Optimizer.load(journal))
    assert sum("reconstructed from its observation" in note for note in found.notes) == 2
    assert "trial 2 is unknown" in " ".join(found.notes)


def test_a_whole_journal_is_copied(journal, tmp_path):
    found, _ = repaired(tmp_path, journal.read_bytes(), None)
    assert found.notes == ()
    assert (tmp_path / "new").read_bytes() == journal.read_bytes()


def test_a_torn_end_is_told(journal, tmp_path):
    found, _ = repaired(tmp_path, journal.read_bytes()[:-40], None)
    assert "cut off" in found.notes[0]


def test_a_damaged_header_needs_another(journal, tmp_path):
    data = journal.read_bytes().replace(b'"schema"', b'"schemb"', 1)
    with pytest.raises(JournalError, match="--header"):
        repaired(tmp_path, data, None)
    assert not (tmp_path / "new").exists()
    fresh = tmp_path / "fresh"
    Optimizer(SPACE, strategy="random_search", storage=fresh)
    found, opt = repaired(tmp_path, data, fresh)
    assert known(opt) == known(Optimizer.load(journal))
    assert f"event 0 comes from {fresh}" in found.notes


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\0" * 99, b'{"crc":"00000000","n":0,"x":1}\n']
)
def test_no_journal_is_told(tmp_path, content):
    with pytest.raises(JournalError, match="event 0"):
        repaired(tmp_path, content, None)


def test_the_command(journal, tmp_path, capsys):
    (tmp_path / "bad").write_bytes(journal.read_bytes()[:-40])
    words = ["repair", str(tmp_path / "bad"), str(tmp_path / "new")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "kept 9 events" in shown
    assert "cut off" in shown
    assert main(words) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["repair", str(tmp_path / "none"), str(tmp_path / "newer")]) == 2
    assert Path(tmp_path / "bad").read_bytes() == journal.read_bytes()[:-40]


@pytest.mark.parametrize("torn", [b"", b'{"crc":"01234567","n":1,'])
def test_zeros_between_events_take_little_memory(journal, tmp_path, torn):
    head, *rest = journal.read_bytes().splitlines(keepends=True)
    with (tmp_path / "bad").open("wb") as file:
        file.write(head + torn)
        file.seek(60_000_000, os.SEEK_CUR)
        file.write(b"".join(rest))
    tracemalloc.start()
    try:
        found = repair(tmp_path / "bad", tmp_path / "new")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert found.kept == 1 + len(rest)
    assert known(Optimizer.load(tmp_path / "new")) == known(Optimizer.load(journal))


def test_blocks_do_not_change_a_repair(journal, tmp_path, monkeypatch):
    data = bytearray(journal.read_bytes())
    data[data.index(b"\n")] ^= 1
    data[len(data) // 2] ^= 1
    expected, _ = repaired(tmp_path, data, None)
    written = (tmp_path / "new").read_bytes()
    for block in (64, 100, 1000):
        monkeypatch.setattr(repairing, "_BLOCK", block)
        found, _ = repaired(tmp_path, data, None)
        assert found == expected
        assert (tmp_path / "new").read_bytes() == written


def test_a_named_pipe_is_refused(journal, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it would wait for its other end
    for old, header in ((pipe, None), (journal, pipe)):
        damaged = tmp_path / "old"
        damaged.write_bytes(b"x" + old.read_bytes()[1:] if header else b"")
        with pytest.raises(JournalError, match="not a regular file"):
            repair(damaged if header else old, tmp_path / "new", header)
    assert not (tmp_path / "new").exists()


def test_the_temporary_name_of_a_new_journal_cannot_be_predicted(journal, tmp_path, monkeypatch):
    names = []
    link = os.link
    monkeypatch.setattr(os, "link", lambda old, new: (names.append(Path(old).name), link(old, new)))
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        repair(journal, tmp_path / folder / "new")
    assert len(set(names)) == 2
    assert sorted(path.name for path in tmp_path.glob("*/*")) == ["new", "new"]
