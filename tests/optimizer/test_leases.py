"""Leases when the clock is set, between machines, and after a reboot."""

import json
import sys
import threading
import warnings

import pytest

from baco_like import Optimizer, Outcome, Sharing, Space, Trial, TrialError
from baco_like.exceptions import BacoWarning, JournalError
from baco_like.journal import MemoryJournal
from baco_like.journal.repairing import repair
from baco_like.records import leases
from baco_like.records.leases import Lease, Moment, read_clocks

SPACE = Space({"x": [1, 2, 3, 4]})
DAY = 86400.0


class Clocks:
    """The clocks of a machine; the wall clock can be set."""

    def __init__(self):
        self.wall, self.boot, self.uptime = 1e9, "first", 500.0

    def __call__(self):
        return Moment(self.wall, self.boot, self.uptime)

    def advance(self, seconds):
        self.wall, self.uptime = self.wall + seconds, self.uptime + seconds


@pytest.fixture
def clocks(monkeypatch):
    made = Clocks()
    monkeypatch.setattr("baco_like.optimizer.optimizer.read_clocks", made)
    return made


def opened(path, lease=60.0):
    return Optimizer(SPACE, strategy="random_search", storage=path, sharing=Sharing(lease=lease))


@pytest.mark.parametrize("set_by", [-DAY, DAY])
def test_a_clock_that_is_set_changes_no_lease_of_the_machine(tmp_path, clocks, set_by):
    trial = opened(tmp_path / "j").suggest()
    other = opened(tmp_path / "j")
    clocks.advance(59)
    clocks.wall += set_by
    with pytest.warns(BacoWarning, match="set (forward|back) by 86400 s during a lease"):
        assert other.suggest().id == 1  # the worker of trial 0 is at work
    clocks.advance(1)
    assert other.suggest().id == trial.id


def test_a_claimed_trial_has_such_a_lease_too(tmp_path, clocks):
    trial = opened(tmp_path / "j").claim({"x": 2})
    assert trial.lease == Lease(60.0, clocks())
    assert Optimizer.load(tmp_path / "j").pending[0].lease == trial.lease
    clocks.advance(60)
    again = opened(tmp_path / "j").suggest()
    assert (again.id, again.lease) == (trial.id, Lease(60.0, clocks()))


@pytest.mark.parametrize(
    ("boot", "uptime"),
    [("second", 1.0), (None, None), ("first", 200.0)],
    ids=["another boot", "no boot id", "a snapshot with the same boot id"],
)
def test_another_machine_or_boot_compares_wall_clocks(tmp_path, clocks, boot, uptime):
    opened(tmp_path / "j").suggest()
    clocks.boot, clocks.uptime = boot, uptime
    clocks.wall += 59
    assert opened(tmp_path / "j").suggest().id == 1
    clocks.wall += 1
    assert opened(tmp_path / "j").suggest().id == 0


def test_a_lease_that_begins_in_the_future_is_reported(tmp_path, clocks):
    opened(tmp_path / "j").suggest()
    clocks.boot, clocks.wall = "another machine", clocks.wall - 30
    other = opened(tmp_path / "j")
    with pytest.warns(BacoWarning, match="began 30 s in the future.*NTP"):
        other.suggest()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.suggest()  # once is enough
        opened(tmp_path / "j", None).suggest()  # not concerned


def test_small_corrections_are_not_reported(tmp_path, clocks):
    optimizer = opened(tmp_path / "j")
    optimizer.suggest()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clocks.wall += 1.5
        optimizer.suggest()
        clocks.wall -= 1.5
        optimizer.suggest()


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
def test_a_forged_lease_is_refused(lease):
    journal = MemoryJournal()
    opened(journal).suggest()
    forged = MemoryJournal([journal.events[0], {**journal.events[1], "lease": lease}])
    with pytest.raises(JournalError, match=r"event 1 .*lease"):
        opened(forged)


def test_the_event_has_both_clocks(tmp_path, clocks):
    opened(tmp_path / "j").suggest()
    event = json.loads((tmp_path / "j").read_text().splitlines()[1])
    assert event["until"] == clocks.wall + 60
    assert event["lease"] == {"seconds": 60.0, "boot": "first", "uptime": 500.0}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no boot id")
def test_the_clocks_of_linux():
    first, second = read_clocks(), read_clocks()
    assert first.boot == second.boot
    assert 0 < first.uptime <= second.uptime


def test_without_a_boot_id_there_is_the_wall_clock(tmp_path, monkeypatch):
    monkeypatch.setattr(leases, "_BOOT_ID", tmp_path / "missing")
    moment = read_clocks()
    assert (moment.boot, moment.uptime) == (None, None)
    assert moment.wall > 0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no boot id")
def test_the_boot_is_that_of_the_machine_now_also_in_a_restored_container(tmp_path, monkeypatch):
    before = read_clocks()
    (tmp_path / "boot_id").write_text("other\n")
    (tmp_path / "offsets").write_text(
        "monotonic           -7         0\nboottime           -1000 500000000\n"
    )
    monkeypatch.setattr(leases, "_BOOT_ID", tmp_path / "boot_id")
    monkeypatch.setattr(leases, "_OFFSETS", tmp_path / "offsets")
    after = read_clocks()
    assert after.boot == "other"
    assert before.uptime + 999 < after.uptime < before.uptime + 1099


# Signs of life and late results ----------------------------------------------------------------------------------


def test_a_sign_of_life_extends_a_lease(tmp_path, clocks):
    worker = opened(tmp_path / "j")
    trial = worker.suggest()
    clocks.advance(50)
    (renewed,) = worker.renew(trial)
    assert (renewed.id, renewed.lease) == (trial.id, Lease(60.0, clocks()))
    clocks.advance(50)
    other = opened(tmp_path / "j")
    assert other.pending[0].lease == renewed.lease
    assert other.suggest().id == 1
    clocks.advance(10)
    assert other.suggest().id == trial.id  # there was no further sign of life


def test_a_sign_of_life_says_which_trials_are_still_pending(tmp_path, clocks):
    worker, other = opened(tmp_path / "j"), opened(tmp_path / "j")
    first, second = worker.suggest(2)
    clocks.advance(61)
    other.observe(other.suggest(), 1.0)
    assert [trial.id for trial in worker.renew([first, second])] == [1]
    worker.observe(first, 2.0)  # both workers had it
    other.abandon(second)
    assert worker.renew([first, second]) == []
    worker.observe(second, 3.0)
    found = [(t.value, t.origin, t.extra.get("late")) for t in worker.trials]
    assert found == [(1.0, "strategy", None), (2.0, "late", 0), (3.0, "late", 1)]
    with pytest.raises(TrialError, match="trial 1 was abandoned"):
        worker.observe(second, 4.0)


def test_a_late_result_of_another_run_is_refused(tmp_path, clocks):
    run = opened(tmp_path / "j")
    trial = run.suggest()
    run.abandon(trial)
    other = next(config for config in SPACE.sample(4, seed=0) if config != dict(trial.config))
    with pytest.raises(TrialError, match="trial 0 was abandoned"):
        run.observe(Trial(trial.id, other), 1.0)


def test_late_results_are_recorded_whatever_became_of_their_trials(clocks):
    run = opened(MemoryJournal())
    done, given_up, pending = run.suggest(3)
    run.observe(done, 1.0)
    run.abandon(given_up)
    late = [
        trial.with_outcome(Outcome.success(trial.id, (float(trial.id + 5),)))
        for trial in (done, given_up, pending, pending)
    ]
    run.complete_late(late)
    found = [(t.value, t.origin, dict(t.config)) for t in run.trials[1:]]
    assert found == [
        (5.0, "late", dict(done.config)),
        (6.0, "late", dict(given_up.config)),
        (7.0, "strategy", dict(pending.config)),
        (7.0, "late", dict(pending.config)),
    ]
    with pytest.raises(TrialError, match="no outcome"):
        run.complete_late([done])
    assert len(opened(run.journal).trials) == 5


def test_the_heartbeat_extends_leases_while_its_block_runs(monkeypatch):
    monkeypatch.setattr("baco_like.records.leases.BEATS", 1000)
    run = opened(MemoryJournal())
    trial = run.suggest()

    def count_renewals():
        return sum(event["event"] == "renewed" for event in run.journal.events)

    with run.heartbeat(trial):
        while count_renewals() < 2:
            threading.Event().wait(0.01)
    ended = count_renewals()
    lease = run.pending[0].lease
    assert lease.start.uptime > trial.lease.start.uptime
    threading.Event().wait(0.1)
    assert count_renewals() == ended


def test_without_leases_there_are_no_signs_of_life():
    run = opened(MemoryJournal(), None)
    trial = run.suggest()
    with pytest.raises(ValueError, match="no leases"):
        run.renew(trial)
    with pytest.raises(ValueError, match="no leases"), run.heartbeat(trial):
        pass


def test_a_repair_keeps_signs_of_life(tmp_path, clocks):
    run = opened(tmp_path / "j")
    trial = run.suggest()
    clocks.advance(30)
    run.renew(trial)
    repair(tmp_path / "j", tmp_path / "k")
    assert opened(tmp_path / "k").pending[0].lease == run.pending[0].lease
