"""`Optimizer.claim`: a configuration that was chosen elsewhere becomes a pending trial."""

import pytest

from baco_like import ConfigError, Optimizer, Space

SPACE = Space({"a": [1, 2, 4, 8], "b": [1, 2, 3, 4]}, constraints=["a * b <= 16"])
CONFIG = {"a": 2, "b": 3}


@pytest.fixture
def opt(tmp_path):
    return Optimizer(SPACE, strategy="random_search", storage=tmp_path / "run.jsonl")


def test_a_claimed_configuration_is_pending(opt):
    trial = opt.claim(CONFIG)
    assert (dict(trial), trial.origin, [t.id for t in opt.pending]) == (CONFIG, "enqueued", [0])
    opt.observe(trial, 1.0)
    assert opt.best_config == CONFIG


def test_a_pending_configuration_is_returned(opt):
    (trial, _) = opt.suggest(2)
    assert opt.claim(dict(trial)).id == trial.id
    assert len(opt.pending) == 2


def test_claiming_does_not_wait_for_the_queue(opt):
    opt.enqueue({"a": 8, "b": 1})
    opt.enqueue(CONFIG)
    claimed = opt.claim(CONFIG)
    assert dict(claimed) == CONFIG
    following = opt.suggest(2)
    assert dict(following[0]) == {"a": 8, "b": 1}
    assert CONFIG not in [dict(trial) for trial in following]


def test_claiming_the_next_of_the_queue_takes_it_from_there(opt):
    opt.enqueue(CONFIG)
    opt.claim(CONFIG)
    assert not opt.history.queue


@pytest.mark.parametrize(
    ("config", "message"),
    [({"a": 8, "b": 4}, "violated"), ({"a": 3, "b": 1}, "3 is not"), (CONFIG, "already observed")],
)
def test_what_cannot_be_evaluated_is_refused(opt, config, message):
    opt.observe(CONFIG, 1.0)
    with pytest.raises(ConfigError, match=message):
        opt.claim(config)
    assert not opt.pending


def test_a_claim_survives_in_the_journal(opt):
    opt.claim(CONFIG)
    again = Optimizer.load(opt.journal.path)
    assert [dict(trial) for trial in again.pending] == [CONFIG]
