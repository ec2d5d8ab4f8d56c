"""Suggest, observe, abandon, enqueue, propose, tell, wait, reload in any order: equal to a simple model.

``BACO_LIKE_EXAMPLES`` sets how many orders are tried.
"""

import math
import os
import shutil
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from baco_like import (
    ConfigError,
    JournalError,
    Optimizer,
    Ordinal,
    Outcome,
    Sharing,
    Space,
    SpaceExhausted,
    Trial,
    TrialError,
)
from baco_like.records.leases import Moment

SPACE = Space({"a": Ordinal([1, 2, 4, 8]), "b": [1, 2, 3]}, constraints=["a * b <= 16"])
CONFIGS = list(SPACE)
VALUES = st.floats(allow_nan=False, allow_infinity=False)
LEASE = 10


class Machine(RuleBasedStateMachine):
    """The model: pending (with the end of its lease) and observed by id, the queue, and the next id.

    `late` has the configuration of each trial that another worker may still have, once for each such worker.
    """

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "run.jsonl"
        self.now = 0
        self.clock = mock.patch(
            "baco_like.optimizer.optimizer.read_clocks", side_effect=lambda: Moment(self.now)
        )
        self.clock.start()
        options = {
            "strategy": "random_search",
            "storage": self.path,
            "sharing": Sharing(lease=LEASE),
        }
        self.opt = Optimizer(SPACE, seed=3, **options)
        self.pending, self.observed, self.queue, self.next_id = {}, {}, [], 0
        self.proposed = []
        self.until = {}
        self.late = {}
        self.order = []

    def teardown(self):
        self.clock.stop()
        shutil.rmtree(self.folder)

    def taken(self, config):
        known = [*self.pending.values(), *(c for c, _, _ in self.observed.values())]
        return config in known

    @rule(n=st.integers(1, 4))
    def suggest(self, n):
        left = sum(not self.taken(c) for c in CONFIGS)
        expired = [i for i in self.pending if self.until[i] <= self.now][:n]
        try:
            trials = self.opt.suggest(n)
        except SpaceExhausted:
            assert left == 0
            assert not expired
            return
        again, trials = trials[: len(expired)], trials[len(expired) :]
        assert {t.id: dict(t) for t in again} == {i: self.pending[i] for i in expired}
        self.until.update(dict.fromkeys(expired, self.now + LEASE))
        for i in expired:
            self.late.setdefault(i, []).append(self.pending[i])
        n -= len(expired)
        assert len(trials) == min(n, left)
        queued = []
        while self.queue and len(queued) < n:
            config = self.queue.pop(0)
            if not self.taken(config) and config not in queued:
                queued.append(config)
        assert [dict(t) for t in trials[: len(queued)]] == queued
        for trial in trials:
            assert trial.id == self.next_id
            assert SPACE.contains(trial.config)
            assert not self.taken(dict(trial))
            self.pending[trial.id] = dict(trial)
            self.until[trial.id] = self.now + LEASE
            self.next_id += 1
            if trial.origin == "proposed":
                assert (trial.tag["source"], dict(trial)) in self.proposed
        sources = [t for t in trials[len(queued) :] if t.origin == "proposed"]
        assert len(sources) <= math.ceil((n - len(queued)) / 2)

    @rule(seconds=st.integers(1, 2 * LEASE))
    def wait(self, seconds):
        self.now += seconds

    @precondition(lambda self: self.pending)
    @rule(data=st.data(), value=VALUES, failed=st.sampled_from([None, "compile", "timeout"]))
    def observe(self, data, value, failed):
        trial_id = data.draw(st.sampled_from(sorted(self.pending)))
        trial = next(t for t in self.opt.pending if t.id == trial_id)
        if failed:
            self.opt.observe(trial, failed=failed, message="m")
        else:
            self.opt.observe(trial, value)
        self.observed[trial_id] = (self.pending.pop(trial_id), None if failed else value, failed)
        self.order.append(trial_id)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def abandon(self, data):
        trial_id = data.draw(st.sampled_from(sorted(self.pending)))
        self.opt.abandon(next(t for t in self.opt.pending if t.id == trial_id), "lost")
        self.late.setdefault(trial_id, []).append(self.pending.pop(trial_id))

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def renew(self, data):
        ids = data.draw(st.sets(st.sampled_from(sorted(self.pending)), min_size=1))
        renewed = self.opt.renew([t for t in self.opt.pending if t.id in ids])
        assert {t.id for t in renewed} == ids
        self.until.update(dict.fromkeys(ids, self.now + LEASE))

    @precondition(lambda self: self.late.keys() - self.pending.keys())
    @rule(data=st.data(), value=VALUES)
    def observe_late(self, data, value):
        trial_id = data.draw(st.sampled_from(sorted(self.late.keys() - self.pending.keys())))
        config = self.late[trial_id].pop()
        if not self.late[trial_id]:
            del self.late[trial_id]
        self.opt.observe(Trial(trial_id, config), value)
        self.observed[self.next_id] = (config, value, None)
        self.order.append(self.next_id)
        self.next_id += 1

    @rule(config=st.sampled_from(CONFIGS))
    def enqueue(self, config):
        if self.taken(config):
            with pytest.raises(ConfigError):
                self.opt.enqueue(config)
        else:
            self.opt.enqueue(config)
            self.queue.append(config)

    @rule(
        configs=st.lists(st.sampled_from(CONFIGS), max_size=4, unique_by=str),
        source=st.sampled_from(["expert", "script"]),
    )
    def propose(self, configs, source):
        answers = self.opt.propose(configs, source=source)
        for config, answer in zip(configs, answers, strict=True):
            others = [c for _, c in self.proposed]
            if answer.accepted:
                assert not self.taken(config)
                assert config not in others + self.queue
                self.proposed.append((source, config))
            elif not answer.reason.startswith("stopped"):
                assert self.taken(config) or config in others + self.queue
                near = answer.nearest
                assert near is None or not (self.taken(near) or near in others + self.queue)

    @rule(config=st.sampled_from(CONFIGS), value=VALUES)
    def tell(self, config, value):
        self.opt.observe(config, value)
        trial_id = next((i for i, c in self.pending.items() if c == config), None)
        if trial_id is None:
            trial_id, self.next_id = self.next_id, self.next_id + 1
        else:
            del self.pending[trial_id]
        self.observed[trial_id] = (config, value, None)
        self.order.append(trial_id)

    @precondition(lambda self: self.observed.keys() - self.late.keys())
    @rule(data=st.data())
    def observe_again(self, data):
        trial_id = data.draw(st.sampled_from(sorted(self.observed.keys() - self.late.keys())))
        done = next(t for t in self.opt.trials if t.id == trial_id)
        for refused in (lambda: self.opt.observe(done, 0.0), lambda: self.opt.abandon(done)):
            with pytest.raises(TrialError):
                refused()

    @rule(trial_id=st.integers(0, 99))
    def unknown_or_twice(self, trial_id):
        twice = [Outcome.success(trial_id, (1.0,))] * 2
        with pytest.raises(TrialError):
            self.opt.complete(twice)
        if trial_id not in self.pending:
            with pytest.raises(TrialError):
                self.opt.complete(twice[:1])

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def what_cannot_be_written(self, data):
        trial = data.draw(st.sampled_from(self.opt.pending))
        with pytest.raises(JournalError):
            self.opt.observe(trial, 1.0, extra={"x": object()})

    @rule(config=st.fixed_dictionaries({"a": st.integers(0, 9), "b": st.integers(0, 5)}))
    def tell_foreign(self, config):
        if not SPACE.contains(config):
            with pytest.raises(ConfigError):
                self.opt.observe(config, 1.0)

    @rule(
        config=st.fixed_dictionaries({"a": st.integers(50, 60), "b": st.text(max_size=3)}),
        value=VALUES,
    )
    def import_foreign(self, config, value):
        self.opt.observe(config, value, imported=True)
        self.observed[self.next_id] = (config, value, None)
        self.order.append(self.next_id)
        self.next_id += 1

    @rule()
    def reload(self):
        self.opt = Optimizer.load(self.path, sharing=Sharing(lease=LEASE))

    @invariant()
    def same_as_the_model(self):
        assert {t.id: dict(t) for t in self.opt.pending} == self.pending
        assert {t.id: t.until for t in self.opt.pending} == {i: self.until[i] for i in self.pending}
        assert [t.id for t in self.opt.trials] == self.order
        known = [dict(t) for t in self.opt.trials] + list(self.pending.values())
        known += [config for configs in self.late.values() for config in configs]
        self.proposed = [(source, c) for source, c in self.proposed if c not in known]
        open_proposals = self.opt.history.open_proposals
        assert [(p.source, dict(p.config)) for p in open_proposals] == self.proposed
        assert {t.id: (dict(t), t.value, t.failure) for t in self.opt.trials} == self.observed
        inside = [v for c, v, _ in self.observed.values() if v is not None and SPACE.contains(c)]
        assert self.opt.best_value == (min(inside) if inside else None)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=int(os.environ.get("BACO_LIKE_EXAMPLES", "25")),
    stateful_step_count=30,
    suppress_health_check=list(HealthCheck),
)
