"""Leases when the clock is set, between machines, after a reboot, and in old journals."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from baco_like import Optimizer, Space
from baco_like.exceptions import BacoWarning, JournalError
from baco_like.journal import MemoryJournal
from baco_like.records import leases
from baco_like.records.leases import Lease, Moment, read_clocks

SPACE = Space({"x": [1, 2, 3, 4]})
DAY = 86400.0


class Clocks:
    """The clocks of a machine; the wall clock can be set."""

    def __init__(self) -> None:
        self.wall, self.boot, self.uptime = 1e9, "first", 500.0

    def __call__(self) -> Moment:
        return Moment(self.wall, self.boot, self.uptime)

    def advance(self, seconds: float) -> None:
        self.wall, self.uptime = self.wall + seconds, self.uptime + seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr("baco_like.optimizer.core.read_clocks", made)
    return made


def opened(path: Any, lease: float | None = 60.0) -> Optimizer:
    return Optimizer(SPACE, strategy="random_search", storage=path, lease=lease)


@pytest.mark.parametrize("set_by", [-DAY, DAY])
def test_a_clock_that_is_set_changes_no_lease_of_the_machine(
    tmp_path: Path, clocks: Clocks, set_by: float
) -> None:
    trial = opened(tmp_path / "j").suggest()
    other = opened(tmp_path / "j")
    clocks.advance(59)
    clocks.wall += set_by
    with pytest.warns(BacoWarning, match="set (forward|back) by 86400 s during a lease"):
        assert other.suggest().id == 1  # the worker of trial 0 is at work
    clocks.advance(1)
    assert other.suggest().id == trial.id


def test_a_claimed_trial_has_such_a_lease_too(tmp_path: Path, clocks: Clocks) -> None:
    trial = opened(tmp_path / "j").claim({"x": 2})
    assert trial.lease == Lease(60.0, clocks())
    assert Optimizer.load(tmp_path / "j").pending[0].lease == trial.lease
    clocks.advance(60)
    again = opened(tmp_path / "j").suggest()
    assert (again.id, again.lease) == (trial.id, Lease(60.0, clocks()))


@pytest.mark.parametrize("boot", ["second", None])
def test_another_machine_or_boot_compares_wall_clocks(
    tmp_path: Path, clocks: Clocks, boot: str | None
) -> None:
    opened(tmp_path / "j").suggest()
    clocks.boot, clocks.uptime = boot, 1.0 if boot else None  # type: ignore[assignment]
    clocks.wall += 59
    assert opened(tmp_path / "j").suggest().id == 1
    clocks.wall += 1
    assert opened(tmp_path / "j").suggest().id == 0


def test_a_machine_that_returned_to_a_snapshot_compares_wall_clocks(
    tmp_path: Path, clocks: Clocks
) -> None:
    opened(tmp_path / "j").suggest()
    clocks.uptime -= 300  # of the snapshot, with the same boot id
    clocks.wall += 59
    assert opened(tmp_path / "j").suggest().id == 1
    clocks.wall += 1
    assert opened(tmp_path / "j").suggest().id == 0


def test_a_lease_that_begins_in_the_future_is_reported(tmp_path: Path, clocks: Clocks) -> None:
    opened(tmp_path / "j").suggest()
    clocks.boot, clocks.wall = "another machine", clocks.wall - 30
    other = opened(tmp_path / "j")
    with pytest.warns(BacoWarning, match="began 30 s in the future.*NTP"):
        other.suggest()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.suggest()  # once is enough
        opened(tmp_path / "j", None).suggest()  # not concerned


def test_small_corrections_are_not_reported(tmp_path: Path, clocks: Clocks) -> None:
    optimizer = opened(tmp_path / "j")
    optimizer.suggest()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clocks.wall += 1.5
        optimizer.suggest()
        clocks.wall -= 1.5
        optimizer.suggest()


def test_leases_of_old_journals_follow_the_wall_clock(clocks: Clocks) -> None:
    journal = MemoryJournal()
    opened(journal).suggest()
    old = MemoryJournal(
        [{k: v for k, v in event.items() if k != "lease"} for event in journal.events]
    )
    clocks.wall += 59
    assert opened(MemoryJournal(list(old.events))).suggest().id == 1
    clocks.wall += 1
    assert opened(old).suggest().id == 0


@pytest.mark.parametrize(
    "lease",
    [
        7,
        {},
        {"seconds": -1.0},
        {"seconds": True},
        {"seconds": 1.0, "boot": "b"},
        {"seconds": 1.0, "uptime": 1.0},
        {"seconds": 1.0, "boot": 1, "uptime": 1.0},
        {"seconds": 1.0, "boot": "b", "uptime": "1"},
    ],
)
def test_a_forged_lease_is_refused(lease: Any) -> None:
    journal = MemoryJournal()
    opened(journal).suggest()
    forged = MemoryJournal([journal.events[0], {**journal.events[1], "lease": lease}])
    with pytest.raises(JournalError, match=r"event 1 .*lease"):
        opened(forged)


def test_the_event_has_both_clocks(tmp_path: Path, clocks: Clocks) -> None:
    opened(tmp_path / "j").suggest()
    event = json.loads((tmp_path / "j").read_text().splitlines()[1])
    assert event["until"] == clocks.wall + 60
    assert event["lease"] == {"seconds": 60.0, "boot": "first", "uptime": 500.0}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no boot id")
def test_the_clocks_of_linux() -> None:
    first, second = read_clocks(), read_clocks()
    assert first.boot == second.boot
    assert first.boot is not None
    assert first.uptime is not None
    assert second.uptime is not None
    assert 0 < first.uptime <= second.uptime


def test_without_a_boot_id_there_is_the_wall_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "_BOOT_ID", tmp_path / "missing")
    moment = read_clocks()
    assert (moment.boot, moment.uptime) == (None, None)
    assert moment.wall > 0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no boot id")
def test_the_boot_is_that_of_the_machine_now_also_in_a_restored_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_clocks()
    assert before.uptime is not None
    (tmp_path / "boot_id").write_text("other\n")
    (tmp_path / "offsets").write_text(
        "monotonic           -7         0\nboottime           -1000 500000000\n"
    )
    monkeypatch.setattr(leases, "_BOOT_ID", tmp_path / "boot_id")
    monkeypatch.setattr(leases, "_OFFSETS", tmp_path / "offsets")
    after = read_clocks()
    assert after.boot == "other"
    assert after.uptime is not None
    assert before.uptime + 999 < after.uptime < before.uptime + 1099
