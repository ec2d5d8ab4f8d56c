"""Python programs work on a run of a server as on a journal in a file."""

import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from serving import http_client, in_process, over_http

import baco_like
from baco_like import (
    JournalError,
    MaxEvals,
    Optimizer,
    Sharing,
    Space,
    SpaceExhausted,
    TrialError,
    cli,
)
from baco_like.journal import RemoteJournal
from baco_like.journal.remote import Connection
from baco_like.reporting import report
from baco_like.reporting.facts import RunFacts
from baco_like.running.journal_view import JournalView
from baco_like.testing.journals import check_journal, check_resume

SPACE = Space({"x": list(range(30)), "y": [1, 2, 4]}, constraints=["x * y <= 60"])
TABLES = {
    "space": {"x": {"type": "ordinal", "values": [0, 1, 2, 3, 4, 5]}},
    "optimizer": {"strategy": "random_search"},
}


def value(trial):
    return float(trial["x"] + trial["y"])


@contextmanager
def serving(folder=None):
    with over_http(folder=folder) as (host, port):
        yield f"http://{host}:{port}/run"


@pytest.fixture(params=["memory", "file"])
def url(request, tmp_path):
    with serving(tmp_path / "runs" if request.param == "file" else None) as address:
        yield address


@pytest.fixture
def address():
    with serving() as address:
        yield address


def begin(url, **sharing):
    return Optimizer(
        SPACE, strategy="random_search", seed=2, storage=url, sharing=Sharing(**sharing)
    )


def test_the_journal_conforms(url):
    run = Optimizer(SPACE, strategy="random_search")
    first, second = run.suggest(2)
    run.observe(first, 1.5)
    run.abandon(second)
    run.enqueue({"x": 3, "y": 2})
    check_journal(lambda: RemoteJournal(url), run.journal.events)


def test_a_run_is_resumed(url):
    check_resume(lambda: RemoteJournal(url))


def test_two_workers_share_a_run(url):
    one = begin(url)
    two = Optimizer.connect(url, sharing=Sharing(worker="two"))
    trial = one.suggest()
    assert trial.worker == one.worker != "two"
    with pytest.raises(TrialError, match="trial 4 is unknown; pending are 0"):
        two.abandon(Optimizer(SPACE).suggest(5)[-1])
    two.refresh()
    assert two.pending == [trial]
    assert two.own_pending == []
    two.observe(trial, value(trial))
    one.enqueue({"x": 7, "y": 4})
    assert dict(two.suggest()) == {"x": 7, "y": 4}
    again = one.measure_again(trial.config)
    one.observe(again, failed="runtime", message="crash")
    claimed = two.claim({"x": 1, "y": 1})
    two.abandon(claimed)
    one.refresh()
    assert [t.id for t in one.trials] == [trial.id, again.id]
    assert one.history.trials == two.history.trials
    assert one.best == two.best
    assert one.why(trial) == two.why(trial)
    with pytest.raises(TypeError, match=r"open the journal again: Optimizer.load\('http"):
        one.__reduce__()


def test_the_server_chooses_as_an_optimizer_alone_would(address):
    alone = Optimizer(SPACE, strategy="random_search", seed=2)
    remote = begin(address)
    for _ in range(4):
        trials = alone.suggest(2), remote.suggest(2)
        assert [dict(t) for t in trials[0]] == [dict(t) for t in trials[1]]
        alone.observe(trials[0], list(map(value, trials[0])))
        remote.observe(trials[1], list(map(value, trials[1])))


def test_another_run_of_the_same_name_is_refused(address):
    begin(address)
    with pytest.raises(JournalError, match=rf"{address} belongs to another run: .*seed was 2"):
        Optimizer(SPACE, strategy="random_search", seed=3, storage=address)
    with pytest.raises(JournalError, match="holds no event"):
        Optimizer.connect(address + "2")


def test_a_strategy_object_stays_here(address):
    from baco_like.strategies import RandomSearch

    with pytest.raises(JournalError, match="a server knows strategies by name"):
        Optimizer(SPACE, strategy=RandomSearch(), storage=address)


def test_results_of_many_workers_do_not_wait_for_each_other(address, monkeypatch):
    """A result of a pending trial is written behind the events of others, without a second attempt."""
    one, two = begin(address), Optimizer.connect(address)
    first, second, third = one.suggest(3)
    two.refresh()
    requests = []
    call = Connection.call

    def note(self, method, **params):
        requests.append(method)
        if requests == ["events"]:  # another worker is faster
            answer = call(self, method, **params)
            two.observe(first, 1.0)
            requests[:] = ["events"]
            return answer
        return call(self, method, **params)

    monkeypatch.setattr(Connection, "call", note)
    one.observe(second, 2.0)
    assert requests == ["events", "append", "events"]
    assert [t.value for t in one.trials] == [1.0, 2.0]
    requests.clear()
    monkeypatch.undo()
    two.refresh()
    one.observe(third, 3.0)
    state = two._run.state
    monkeypatch.setattr(two._run, "replay_new_events", lambda: two._run._replay(later.pop()))
    later = [list(two.journal.read(state.mark)), []]
    with pytest.raises(TrialError, match="already observed"):
        two.abandon(third)
    assert later == []


def test_a_trial_comes_back_after_its_lease_and_late_results_are_kept(address):
    one = begin(address, lease=0.3)
    two = Optimizer.connect(address)
    assert two.lease == 0.3
    first = one.suggest()
    assert first.lease.seconds == 0.3
    with two.heartbeat(first):  # a sign of life from anyone
        time.sleep(0.5)
        assert two.suggest().id != first.id
    time.sleep(0.4)
    assert two.suggest().id == first.id
    two.complete_late([first.with_outcome(baco_like.Outcome.success(first.id, (1.0,)))])
    late = one.observe(first, 3.0)
    assert (late.origin, late.outcome.extra["late"]) == ("late", first.id)
    with pytest.raises(TrialError):
        two.observe(first, 3.0)
    assert two.renew([first]) == []


def test_leases_and_proposals_ahead_belong_to_the_run(tmp_path):
    with serving(tmp_path) as url:
        begin(url, ahead=3, patience=60.0, lease=60)
        assert Optimizer.connect(url, sharing=Sharing(ahead=2, patience=60.0)).lease == 60
    stored = json.loads((tmp_path / "run.open.json").read_text())
    assert stored == {
        "budget": {},
        "lease": 60,
        "optimizer": {"ahead": 2, "patience": 60.0},
    }
    with serving(tmp_path) as url:  # it has started again
        optimizer = Optimizer.connect(url)
        assert optimizer.lease == 60
        assert [t.lease.seconds for t in optimizer.suggest(3)] == [60] * 3
    events = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert all("known" in row for row in events[1]["trials"])  # they came from the store


def test_the_last_trial_of_a_lost_worker_is_waited_for(address, monkeypatch):
    monkeypatch.setattr("baco_like.optimizer.optimizer._LOOK", 0.01)
    host, port = address.split("/")[2].split(":")
    with http_client((host, int(port)), "/run") as client:
        client.call("open", budget={"evaluations": 2}, lease=0.5, **TABLES)
        lost = client.call("suggest", client="lost")["trials"][0]
        optimizer = Optimizer.connect(address)
        own = optimizer.suggest()
        with pytest.raises(SpaceExhausted, match="observe those that are pending first"):
            optimizer.suggest()
        optimizer.observe(own, 1.0)
        assert client.error("suggest", client="third")[0] == "wait"
        assert optimizer.suggest().id == lost["id"]
        optimizer.observe(optimizer.pending[0], 2.0)
    with pytest.raises(SpaceExhausted, match="the run has ended"):
        optimizer.suggest()


def test_the_rule_of_the_server_ends_a_run(address):
    host, port = address.split("/")[2].split(":")
    with http_client((host, int(port)), "/run") as client:
        client.call("open", budget={"evaluations": 3}, **TABLES)
    optimizer = Optimizer.connect(address)
    from baco_like.evaluators import FunctionEvaluator
    from baco_like.running import run

    reason = run(optimizer, FunctionEvaluator(lambda trial: float(trial["x"])), MaxEvals(10))
    assert reason.startswith("the run has ended: ")
    assert len(optimizer.trials) == 3
    with pytest.raises(SpaceExhausted, match="the run has ended"):
        optimizer.suggest()


WORKER = """
import sys, time
from baco_like import MaxEvals, Space, Workers, tune

name, url, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])

def value(trial):
    time.sleep(seconds)
    return float(trial["x"] + trial["y"])

space = Space({"x": list(range(30)), "y": [1, 2, 4]}, constraints=["x * y <= 60"])
result = tune(value, space, MaxEvals(16), storage=url, progress=False,
              workers=Workers(worker=name, lease=1.0, ahead=2))
print(result.reason, len(result.trials))
assert "torch" not in sys.modules
"""


def test_tune_with_two_workers_of_which_one_is_killed(address):
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen([*command, "slow", address, "600"]) as slow:
        watched = None
        until = time.monotonic() + 60
        while watched is None and time.monotonic() < until:
            time.sleep(0.1)
            watched = next(iter(view_of(address).pending), None) if view_of(address) else None
        fast = subprocess.Popen(
            [*command, "fast", address, "0.05"], stdout=subprocess.PIPE, text=True
        )
        slow.send_signal(signal.SIGKILL)
    out, _ = fast.communicate(timeout=100)
    assert fast.returncode == 0
    assert out == "16 evaluations 16\n"
    trials = {trial.id: trial for trial in view_of(address).trials}
    assert watched.worker == "slow"
    assert trials[watched.id].worker == "fast"


def test_commands_read_a_run_on_a_server(tmp_path, capsys, monkeypatch):
    token = "0123456789abcdef"
    secret = tmp_path / "token"
    secret.write_text(f"{token}\n")
    monkeypatch.chdir(tmp_path)
    with over_http(token=token) as (host, port):
        url = f"http://{host}:{port}/run"
        assert cli.main(["show", url]) == 2
        assert "refuses the token" in capsys.readouterr().err
        journal = RemoteJournal(url, token)
        optimizer = Optimizer(SPACE, strategy="random_search", storage=journal)
        for _ in range(6):
            trial = optimizer.suggest()
            optimizer.observe(trial, value(trial))
        pending = optimizer.suggest()
        best = optimizer.best.id
        for command in ("show", "watch"):
            assert cli.main([command, url, "--token-file", str(secret)]) == 0
            shown = capsys.readouterr()
            assert f"{url}: running" in shown.out
            assert token not in shown.out + shown.err
        monkeypatch.setenv("BACO_LIKE_TOKEN", token)
        assert cli.main(["show", url, "--trial", str(best)]) == 0
        assert f"trial {best}" in capsys.readouterr().out
        assert cli.main(["show", url, "--token-file", "no"]) == 2
        assert "cannot read no" in capsys.readouterr().err
        view = JournalView(journal)
        assert view.find_end() is None
        assert view.recommend().id == Optimizer.connect(url).recommend().id == best
        pages = []
        monkeypatch.setattr(report, "build_report", lambda run, **options: pages.append(run) or "")
        assert cli.main(["report", url]) == 0
        assert pages[0].url == url
        assert (tmp_path / "run.html").exists()
        optimizer.abandon(pending)


def test_a_report_has_the_address_of_the_run(address):
    optimizer = begin(address)
    optimizer.observe(optimizer.suggest(), 2.5)
    facts = RunFacts(RemoteJournal(address))
    assert (facts.path, facts.findings.best.value) == (address, 2.5)
    assert facts.modelled.history.trials == optimizer.history.trials


@pytest.mark.parametrize("wrong", [None, 5, True, "x", [], {}, [[]], {"a": 1}])
@pytest.mark.parametrize("kind", ["opened", "suggested", "observed", "enqueued"])
def test_an_event_with_a_wrong_field_is_refused(kind, wrong):
    """Each field of an event of another program is checked; no one causes an error of the server."""
    run = Optimizer(SPACE, strategy="random_search")
    run.observe(run.suggest(), 1.5)
    run.enqueue({"x": 3, "y": 2})
    events = [dict(event) for event in run.journal.events]
    number = [event["event"] for event in events].index(kind)
    _, client = in_process()
    for i, event in enumerate(events[:number]):
        client.call("append", run="a", event=event, after=i)
    for name in events[number].keys() - {"event"}:
        event = {**events[number], name: wrong}
        answer = client.ask("append", run="a" if number else f"b-{name}", event=event, after=number)
        if "result" in answer:  # the field is not read, or this value is allowed
            number += number > 0
        else:
            assert answer["error"]["data"]["error"] in (
                "trial",
                "journal",
                "space",
                "config",
                "params",
            )


def view_of(url):
    try:
        return JournalView(RemoteJournal(url))
    except JournalError:
        return None
